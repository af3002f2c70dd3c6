//! What went wrong, for the terminal and for `--json`.

use rgroups::{ConfigError, ConfigReport, Diagnose, Finding, Severity};
use serde_json::{Value, json};

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    rg: Option<&'static str>,
    message: String,
    hint: Option<String>,
    /// Everything that is wrong with a configuration, in place of the message.
    report: Option<ConfigReport>,
}

/// A finding as JSON.
pub(crate) fn finding(f: &Finding) -> Value {
    let place = f.place();
    json!({
        "severity": f.severity().name(), "code": f.code(), "jgrp": f.jgrp(), "message": f.message(),
        "file": place.map(|p| p.file.as_str()), "line": place.map(|p| p.line),
        "column": place.map(|p| p.column), "help": f.help(),
    })
}

impl Failure {
    /// It failed at run time.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self { code: 1, rg: None, message: message.into(), hint: None, report: None }
    }

    /// It was asked for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, ..Self::run(message) }
    }

    /// A protocol or an attribute is wrong.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { code: 3, ..Self::run(message) }
    }

    /// A configuration cannot be used.
    pub(crate) fn config_error(e: &ConfigError) -> Self {
        let f = Self { code: 3, rg: Some(e.code()), hint: e.hint(), ..Self::run(e.to_string()) };
        match e {
            ConfigError::File(report) => {
                let first = report.findings().first();
                let message = first.map(|f| f.message().to_owned()).unwrap_or_default();
                let hint = first.and_then(|f| f.help().into_iter().next());
                Self { message, hint, report: Some((**report).clone()), ..f }
            }
            _ => f,
        }
    }

    /// The cluster could not be joined.
    pub(crate) fn join(message: impl Into<String>) -> Self {
        Self { code: 4, ..Self::run(message) }
    }

    /// With the stable code of an error of the library.
    pub(crate) fn coded(mut self, rg: &'static str) -> Self {
        self.rg = Some(rg);
        self
    }

    /// With something to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.code
    }

    /// The text form on standard error; with `--json` also an object on standard output.
    pub(crate) fn report(&self, json: bool) {
        if json {
            let all = self.report.iter().flat_map(ConfigReport::findings);
            let jgrp = self.rg.and_then(rgroups::codes::find).and_then(|c| c.jgrp);
            let mut e = json!({"schema": 1, "error": {
                "code": self.rg, "jgrp": jgrp, "message": self.message, "hint": self.hint }});
            if self.report.is_some() {
                e["error"]["findings"] = all.map(finding).collect();
            }
            println!("{e}");
        }
        if let Some(report) = &self.report {
            // Notes are for `config check`.
            let told = report.findings().iter().filter(|f| f.severity() != Severity::Note);
            told.for_each(|f| anstream::eprint!("{f}"));
            return;
        }
        match self.rg {
            Some(c) => anstream::eprintln!("error[{c}]: {}", self.message),
            None => anstream::eprintln!("error: {}", self.message),
        }
        if let Some(h) = &self.hint {
            anstream::eprintln!("  = {h}");
        }
    }
}
