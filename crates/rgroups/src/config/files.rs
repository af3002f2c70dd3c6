//! Finds and reads files, and the files they include.

use super::nested;
use super::presets;
use super::property::{Properties, Unclosed};
use super::source::{Attribute, Element, Form, Session, Source, Span, Text};
use super::{toml, xml};
use rgroups_core::plan::ProtocolConfig;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Larger files are no stacks.
const MAX_BYTES: u64 = 1 << 20;

/// Files include files, so deep.
const MAX_INCLUDES: usize = 8;

/// Reads stacks: their elements in order, with what they include in its place.
pub(super) struct Files<'a> {
    pub(super) session: &'a mut Session,
    pub(super) properties: &'a Properties,
    /// Properties that were asked for.
    pub(super) asked: BTreeSet<String>,
    /// The files that include what is being read.
    open: Vec<String>,
}

impl<'a> Files<'a> {
    pub(super) fn new(session: &'a mut Session, properties: &'a Properties) -> Self {
        Self { session, properties, asked: BTreeSet::new(), open: Vec::new() }
    }

    /// The protocols of a file or preset.
    pub(super) fn named(&mut self, name: &str) -> Option<Vec<Element>> {
        match find(name, None) {
            Ok(source) => {
                let source = self.session.add(source);
                self.source(source)
            }
            Err(why) => {
                let finding = self.session.report(
                    super::report::Severity::Error,
                    "RG0108",
                    None,
                    format!("cannot read {name:?}: {why}"),
                );
                finding.jgrp = Some("JGRP000003");
                finding.help.push(format!("presets: {}", presets::names().join(", ")));
                None
            }
        }
    }

    /// The protocols of a text.
    pub(super) fn source(&mut self, source: usize) -> Option<Vec<Element>> {
        self.open.push(self.session.sources[source].name.clone());
        let root = match self.session.sources[source].form {
            Form::Toml => toml::parse(self.session, source),
            Form::Xml | Form::Define => xml::parse(self.session, source),
        };
        let all = match root {
            Some(root) if root.name.text.trim().eq_ignore_ascii_case("config") => {
                Some(self.included(root.children))
            }
            Some(root) => self.without_config(root),
            None => {
                if !self.session.findings().iter().any(|f| f.rank.0 == source) {
                    let at = Span { source, start: 0, end: 0 };
                    let finding = self.session.error("RG0106", at, "there is no <config> in it");
                    finding.jgrp = Some("JGRP000004");
                }
                None
            }
        };
        self.open.pop();
        all
    }

    fn without_config(&mut self, root: Element) -> Option<Vec<Element>> {
        if let Some(what) = nested::root(self.session, &root) {
            let message = format!("<{}> is no stack, but {what}", root.name.text);
            self.session.error("RG0115", root.name.at, message);
            return None;
        }
        // A file to be included may consist of one protocol.
        if self.open.len() > 1 {
            return Some(vec![root]);
        }
        let message = format!("the root element is <{}>, not <config>", root.name.text);
        self.session.error("RG0106", root.name.at, message).jgrp = Some("JGRP000004");
        None
    }

    fn included(&mut self, elements: Vec<Element>) -> Vec<Element> {
        let mut all = Vec::new();
        for e in elements {
            if e.name.text == "include" {
                all.extend(self.include(&e).unwrap_or_default());
            } else {
                all.push(e);
            }
        }
        all
    }

    fn include(&mut self, e: &Element) -> Option<Vec<Element>> {
        let Some(file) = e.attribute("file") else {
            let finding = self.session.error("RG0108", e.name.at, "<include> without a file");
            finding.label = "write <include file=\"…\"/>".into();
            return None;
        };
        let at = file.value.at;
        self.asked.extend(super::property::names(&file.value.text));
        let name = match self.properties.expand(&file.value.text) {
            Ok(expanded) => expanded.text,
            Err(Unclosed) => {
                self.session.error("RG0107", at, "\"${\" without \"}\" in the name of a file");
                return None;
            }
        };
        let folder = self.session.sources[at.source].folder.clone();
        let source = match find(&name, folder.as_deref()) {
            Ok(source) => source,
            Err(why) => {
                let finding =
                    self.session.error("RG0108", at, format!("cannot include {name:?}: {why}"));
                finding.jgrp = Some("JGRP000003");
                finding.help.push(format!(
                    "looked for beside this file, in the working directory and among the presets ({})",
                    presets::names().join(", ")
                ));
                return None;
            }
        };
        if self.open.contains(&source.name) || self.open.len() > MAX_INCLUDES {
            let message = format!("{} includes itself: {}", source.name, self.open.join(" > "));
            self.session.error("RG0108", at, message);
            return None;
        }
        let source = self.session.add(source);
        let mut elements = self.source(source)?;
        for attribute in e.attributes.iter().filter(|a| a.name.text != "file") {
            override_in(&mut elements, attribute);
        }
        Some(elements)
    }
}

/// Puts an attribute of `<include>` into the included protocols that have such an attribute; if
/// none has, into the first one, where it is reported.
fn override_in(elements: &mut [Element], attribute: &Attribute) {
    let name = &attribute.name.text;
    let knows = |e: &Element| {
        e.attribute(name).is_some() || {
            let protocol = super::names::plain(&e.name.text);
            let here = super::idle::renamed(name);
            let read = ProtocolConfig::named(protocol)
                .is_some_and(|c| c.attributes().is_some_and(|a| a.show(here).is_some()));
            read || super::idle::find(protocol, name).is_some()
        }
    };
    let mut known: Vec<usize> = (0..elements.len()).filter(|i| knows(&elements[*i])).collect();
    if known.is_empty() && !elements.is_empty() {
        known.push(0);
    }
    for i in known {
        let attributes = &mut elements[i].attributes;
        match attributes.iter_mut().find(|a| a.name.text == *name) {
            Some(old) => *old = attribute.clone(),
            None => attributes.push(attribute.clone()),
        }
    }
}

/// A file by its name: beside the file that includes it, as it is named, or built in.
fn find(name: &str, folder: Option<&Path>) -> Result<Source, String> {
    let path = Path::new(name);
    let beside = folder.map(|f| f.join(path));
    let candidates = beside.into_iter().chain([path.to_path_buf()]);
    let mut why = None;
    // A folder of the same name hides no preset.
    for path in candidates.filter(|p| !p.is_dir()) {
        match read(&path) {
            Ok(text) => {
                let folder = path.parent().map(Path::to_path_buf);
                return Ok(source(path.display().to_string(), text, folder));
            }
            Err(e) => why = why.or(Some((e, path.exists()))),
        }
    }
    match presets::text(name) {
        // What exists and cannot be read is not replaced silently.
        Some((file, text)) if !matches!(why, Some((_, true))) => {
            Ok(source(file.to_owned(), text.to_owned(), None))
        }
        Some(_) | None => Err(why.map_or_else(|| "no such file".to_owned(), |(e, _)| e)),
    }
}

fn source(name: String, text: String, folder: Option<PathBuf>) -> Source {
    let form = if name.to_ascii_lowercase().ends_with(".toml") { Form::Toml } else { Form::Xml };
    Source { name, text, form, folder }
}

fn read(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 ({})", e.utf8_error()))
}

/// A text that is no file.
pub(super) fn inline(text: &str, form: Form) -> Source {
    let name = match form {
        Form::Toml => "<toml>",
        Form::Xml | Form::Define => "<xml>",
    };
    Source { name: name.to_owned(), text: text.to_owned(), form, folder: None }
}

/// A piece of the command line as a text of its own.
pub(super) fn definition(session: &mut Session, name: &str, value: &str) -> (Text, Text) {
    let text = format!("{name}={value}");
    let end = text.len();
    let split = name.len();
    let source =
        session.add(Source { name: "-D".to_owned(), text, form: Form::Define, folder: None });
    let piece = |t: &str, start, end| Text { text: t.to_owned(), at: Span { source, start, end } };
    (piece(name, 0, split), piece(value, split + 1, end))
}
