//! What the doctor found: one line each, with a remedy where there is something to do.

use crate::output;
use serde_json::{Value, json};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it should be.
    Ok,
    /// It works, and may not always.
    Warn,
    /// It does not work.
    Fail,
    /// Worth knowing.
    Note,
    /// Somebody who is there.
    Seen,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Kind::Ok => "ok",
            Kind::Warn => "warn",
            Kind::Fail => "FAIL",
            Kind::Note => "note",
            Kind::Seen => "seen",
        }
    }
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    topic: &'static str,
    pub(crate) text: String,
    remedy: Option<String>,
    jgrp: Option<&'static str>,
}

impl Finding {
    /// `text` must be safe to show: what peers chose is escaped by whoever writes it.
    pub(crate) fn new(kind: Kind, topic: &'static str, text: impl Into<String>) -> Self {
        Self { kind, topic, text: text.into(), remedy: None, jgrp: None }
    }

    /// With something to do.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// With the number of the message by which JGroups says the same.
    pub(crate) fn jgrp(mut self, number: &'static str) -> Self {
        self.jgrp = Some(number);
        self
    }

    /// As one or two lines.
    pub(crate) fn lines(&self) -> String {
        let jgrp = self.jgrp.map(|n| format!("   [{n}]")).unwrap_or_default();
        let mut lines = format!(" {:<5} {:<12} {}{jgrp}", self.kind.label(), self.topic, self.text);
        if let Some(remedy) = &self.remedy {
            lines += &format!("\n       -> {remedy}");
        }
        lines
    }

    fn json(&self) -> Value {
        json!({
            "kind": self.kind.label().to_lowercase(), "topic": self.topic, "text": self.text,
            "remedy": self.remedy, "jgrp": self.jgrp,
        })
    }
}

/// Everything that was found, printed as it comes.
#[derive(Debug)]
pub(crate) struct Findings {
    json: bool,
    all: Vec<Finding>,
}

impl Findings {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, all: Vec::new() }
    }

    pub(crate) fn add(&mut self, f: Finding) {
        if !self.json {
            output::line(&f.lines());
        }
        self.all.push(f);
    }

    pub(crate) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|f| self.add(f));
    }

    fn count(&self, kind: Kind) -> usize {
        self.all.iter().filter(|f| f.kind == kind).count()
    }

    /// `2 failures, 1 warning`.
    pub(crate) fn verdict(&self) -> String {
        let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (failures, warnings) = (self.count(Kind::Fail), self.count(Kind::Warn));
        format!("{}, {}", many(failures, "failure"), many(warnings, "warning"))
    }

    /// Prints the end. True if something does not work.
    pub(crate) fn finish(&self) -> bool {
        let failures = self.count(Kind::Fail);
        if self.json {
            let lines: Vec<Value> = self.all.iter().map(Finding::json).collect();
            let o = json!({
                "schema": 1, "type": "doctor", "lines": lines,
                "failures": failures, "warnings": self.count(Kind::Warn),
            });
            output::line(&o.to_string());
        } else {
            output::line(&self.verdict());
        }
        failures > 0
    }

    /// All lines as text, for a report.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> = self.all.iter().map(Finding::lines).collect();
        lines.join("\n")
    }
}
