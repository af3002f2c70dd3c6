//! What was found while a configuration was read: all of it at once, each with place and fix.

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can be used, but probably does not do what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// `error`, `warning` or `note`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named; `-D` for definitions of the command line.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The line of the file that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The line, safe to print.
    pub(super) line: String,
    /// How many characters of it are marked.
    pub(super) width: usize,
}

/// Something wrong, doubtful or worth knowing about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    pub(super) jgrp: Option<&'static str>,
    pub(super) message: String,
    pub(super) place: Option<Place>,
    pub(super) excerpt: Option<Excerpt>,
    pub(super) label: String,
    pub(super) beside: String,
    pub(super) help: Vec<String>,
    /// Where it belongs in the order of the report.
    pub(super) rank: (usize, usize),
}

impl Finding {
    /// How much it matters.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// A stable code, such as `RG0101`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// JGroups' number of the same event, if there is one.
    #[must_use]
    pub fn jgrp(&self) -> Option<&'static str> {
        self.jgrp
    }

    /// What it is, in one sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What to try, or where the rest is to be read.
    #[must_use]
    pub fn help(&self) -> Vec<String> {
        let label = Some(self.label.clone()).filter(|l| !l.is_empty());
        label.into_iter().chain(self.help.iter().cloned()).collect()
    }

    /// What it is and where, in one line, as for a log.
    #[must_use]
    pub fn one_line(&self) -> String {
        match &self.place {
            Some(place) => format!("{} ({place})", self.message),
            None => self.message.clone(),
        }
    }

    /// Errors and warnings with the line they are about; notes in one line.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = format!("{}[{}]: {}", self.severity.name(), self.code, self.message);
        let Some(place) = &self.place else {
            writeln!(f, "{head}")?;
            return self.write_help(f, 2);
        };
        if self.severity == Severity::Note {
            return writeln!(f, "{head} ({place})");
        }
        writeln!(f, "{head}")?;
        let number = place.line.to_string();
        let w = number.len().max(2);
        writeln!(f, "{:w$}--> {place}{}", "", self.beside)?;
        if let Some(e) = &self.excerpt {
            let (indent, marks) = (" ".repeat(place.column - 1), "^".repeat(e.width.max(1)));
            writeln!(f, "{:w$} |", "")?;
            writeln!(f, "{number:>w$} | {}", e.line)?;
            writeln!(f, "{:w$} | {}", "", format!("{indent}{marks} {}", self.label).trim_end())?;
        }
        self.write_help(f, w)
    }

    fn write_help(&self, f: &mut fmt::Formatter<'_>, w: usize) -> fmt::Result {
        let without_excerpt =
            (self.excerpt.is_none() && !self.label.is_empty()).then(|| self.label.clone());
        let mut lines: Vec<String> =
            without_excerpt.into_iter().chain(self.help.iter().cloned()).collect();
        if let Some(jgrp) = self.jgrp {
            match lines.last_mut() {
                Some(last) => *last = format!("{last}  [{jgrp}]"),
                None => lines.push(format!("[{jgrp}]")),
            }
        }
        lines.iter().try_for_each(|l| writeln!(f, "{:w$} = {l}", ""))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

/// All that was found about a configuration, errors first, each kind in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigReport {
    findings: Vec<Finding>,
}

impl ConfigReport {
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|f| (f.severity, f.rank));
        findings.dedup();
        Self { findings }
    }

    /// Everything.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many findings matter this much.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }

    /// Whether the configuration cannot be used.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.count(Severity::Error) > 0
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|x| write!(f, "{x}"))
    }
}
