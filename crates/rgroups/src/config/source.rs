//! The texts that a configuration comes from, and places in them.

use super::report::{Excerpt, Finding, Place, Severity};
use std::path::PathBuf;

/// At most so many findings are kept.
const MAX_FINDINGS: usize = 500;

/// How a text is written, which decides what its units mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As JGroups reads it.
    Xml,
    /// Units are exact.
    Toml,
    /// A definition of the command line or of the program; units are exact.
    Define,
}

/// One text.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) form: Form,
    /// Where files that it includes are looked for.
    pub(super) folder: Option<PathBuf>,
}

/// A piece of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) source: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Text with the place it was written at.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) at: Span,
}

/// One attribute of a protocol.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: Text,
    /// The value as written.
    pub(super) value: Text,
}

/// One element: a protocol, or a part of its nested configuration.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: Text,
    pub(super) attributes: Vec<Attribute>,
    pub(super) children: Vec<Element>,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|a| a.name.text == name)
    }
}

/// What is being read: its texts, and what was found in them so far.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) sources: Vec<Source>,
    findings: Vec<Finding>,
}

impl Session {
    /// Adds a text; its number.
    pub(super) fn add(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }

    pub(super) fn error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.report(Severity::Error, code, Some(at), message.into())
    }

    pub(super) fn warn(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.report(Severity::Warning, code, Some(at), message.into())
    }

    pub(super) fn note(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.report(Severity::Note, code, Some(at), message.into())
    }

    pub(super) fn report(
        &mut self,
        severity: Severity,
        code: &'static str,
        at: Option<Span>,
        message: String,
    ) -> &mut Finding {
        let rank = at.map_or((usize::MAX, 0), |s| (s.source, s.start));
        let (place, excerpt) = at.map_or((None, None), |s| self.locate(s));
        // Whoever has so many mistakes reads the first ones.
        self.findings.truncate(MAX_FINDINGS - 1);
        self.findings.push(Finding {
            severity,
            code,
            jgrp: None,
            message,
            place,
            excerpt,
            label: String::new(),
            beside: String::new(),
            help: Vec::new(),
            rank,
        });
        let last = self.findings.len() - 1;
        &mut self.findings[last]
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// The line on which a piece starts, from 1.
    pub(super) fn line(&self, at: Span) -> usize {
        let text = &self.sources[at.source].text;
        text.as_bytes()[..at.start].iter().filter(|b| **b == b'\n').count() + 1
    }

    /// `udp.xml:9`.
    pub(super) fn origin(&self, at: Span) -> String {
        let source = &self.sources[at.source];
        match source.form {
            Form::Xml | Form::Toml => format!("{}:{}", source.name, self.line(at)),
            Form::Define => format!("{} {}", source.name, source.text),
        }
    }

    /// `(GMS is on line 18)`, with the file if it is another one.
    pub(super) fn beside(&self, what: &str, other: Span, at: Span) -> String {
        let line = self.line(other);
        if other.source == at.source && line == self.line(at) {
            String::new()
        } else if other.source == at.source {
            format!("   ({what} is on line {line})")
        } else {
            format!("   ({what} is in {}:{line})", self.sources[other.source].name)
        }
    }

    fn locate(&self, at: Span) -> (Option<Place>, Option<Excerpt>) {
        let source = &self.sources[at.source];
        let before = &source.text[..at.start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let rest = &source.text[line_start..];
        let line = rest.split('\n').next().unwrap_or(rest).trim_end_matches('\r');
        let column = source.text[line_start..at.start].chars().count() + 1;
        let end = at.end.clamp(at.start, line_start + line.len().max(at.start - line_start));
        let width = source.text[at.start..end].chars().count();
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let excerpt = Excerpt { line: line.chars().map(printable).collect(), width };
        let place = Place { file: source.name.clone(), line: self.line(at), column };
        (Some(place), Some(excerpt))
    }
}
