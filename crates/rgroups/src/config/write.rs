//! Writes stacks in either form: what is in effect, or a file as it was written.

use super::assemble::with_defaults_of_jgroups;
use super::load::ConfigLoader;
use super::source::{Attribute, Element, Form, Session};
use super::{Config, idle, names, units};
use crate::error::ConfigError;
use rgroups_core::attributes::{AttrInfo, AttrValue, Attributes, ByteSize};
use rgroups_core::plan::{DIAG_PREFIX, DiagConfig, ProtocolConfig};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// A stack file as it was written: with what it includes, but with its properties in place. For
/// [conversion](StackFile::to_toml) from one form to the other.
#[derive(Clone, Debug)]
pub struct StackFile {
    protocols: Vec<Entry>,
}

/// One protocol, or a part of a nested block.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    attributes: Vec<Written>,
    children: Vec<Entry>,
}

/// One attribute with its text in both forms.
#[derive(Clone, Debug)]
struct Written {
    name: String,
    xml: String,
    toml: String,
}

impl ConfigLoader {
    /// Reads a file or preset without loading it.
    pub fn read(&self, name: &str) -> Result<StackFile, ConfigError> {
        let (session, elements) = self.elements(name)?;
        let protocols = elements.iter().map(|e| entry(self, &session, e, true)).collect();
        Ok(StackFile { protocols })
    }
}

fn entry(loader: &ConfigLoader, session: &Session, e: &Element, is_protocol: bool) -> Entry {
    let protocol = names::plain(&e.name.text);
    let written = |a: &Attribute| {
        let name = if is_protocol { idle::of_jgroups(&a.name.text) } else { &a.name.text };
        let form = session.sources[a.value.at.source].form;
        let (xml, toml) = both_forms(loader, kind(protocol, name), form, &a.value.text);
        Written { name: name.to_owned(), xml, toml }
    };
    Entry {
        name: if is_protocol { names::of_jgroups(protocol) } else { e.name.text.clone() },
        attributes: e.attributes.iter().map(written).collect(),
        children: e.children.iter().map(|c| entry(loader, session, c, false)).collect(),
    }
}

/// The kind of an attribute that is read here.
fn kind(protocol: &str, attribute: &str) -> Option<&'static str> {
    let config = ProtocolConfig::named(protocol)?;
    let attributes = config.attributes()?.list();
    attributes.iter().find(|a| a.name == idle::renamed(attribute)).map(|a| a.kind)
}

/// A value that means in both forms what it means in the one it was written in.
fn both_forms(
    loader: &ConfigLoader,
    kind: Option<&str>,
    form: Form,
    text: &str,
) -> (String, String) {
    let same = (text.to_owned(), text.to_owned());
    let (Some(kind), Some(value)) = (kind, loader.expand(text)) else { return same };
    match form {
        Form::Xml => match units::as_jgroups(kind, &value) {
            Some(m) if m.oddity.is_some() => (text.to_owned(), m.text),
            Some(_) | None => same,
        },
        Form::Toml | Form::Define => {
            let exact = ByteSize::parse(&value).filter(|_| kind == <ByteSize as AttrValue>::KIND);
            match (exact, units::as_jgroups(kind, &value)) {
                (Some(exact), Some(m)) if m.text != exact.show() => (exact.show(), text.to_owned()),
                _ => same,
            }
        }
    }
}

impl StackFile {
    /// As an XML file that JGroups reads too.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut out = String::from("<config xmlns=\"urn:org:jgroups\">\n");
        for e in &self.protocols {
            write_xml(&mut out, e, 1);
        }
        out + "</config>\n"
    }

    /// As a TOML file. Nested blocks have no such form; a comment says where one was.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::from("# The lowest protocol comes first.\n");
        for e in &self.protocols {
            let name = names::plain(&e.name);
            // Writing to a text cannot fail.
            let _ = writeln!(out, "\n[[stack]]\nprotocol = {}", quoted(name));
            for a in &e.attributes {
                let _ = writeln!(out, "{} = {}", toml_key(&a.name), toml_value(&a.toml));
            }
            if let Some(c) = e.children.first() {
                let _ = writeln!(out, "# The block <{}> has no TOML form.", c.name);
            }
        }
        out
    }
}

fn write_xml(out: &mut String, e: &Entry, depth: usize) {
    let indent = "    ".repeat(depth);
    let _ = write!(out, "{indent}<{}", e.name);
    // Several attributes stand below each other.
    let between = match e.attributes.len() {
        0 | 1 => " ".to_owned(),
        _ => format!("\n{indent} {}", " ".repeat(e.name.len() + 1)),
    };
    for (i, a) in e.attributes.iter().enumerate() {
        let space = if i == 0 { " " } else { &between };
        let _ = write!(out, "{space}{}=\"{}\"", a.name, xml_escaped(&a.xml));
    }
    if e.children.is_empty() {
        out.push_str("/>\n");
        return;
    }
    out.push_str(">\n");
    e.children.iter().for_each(|c| write_xml(out, c, depth + 1));
    let _ = writeln!(out, "{indent}</{}>", e.name);
}

fn xml_escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.chars().all(bare) { name.to_owned() } else { quoted(name) }
}

/// Numbers and truths need no quotes.
fn toml_value(text: &str) -> String {
    let number = |t: &str| {
        let digits = |d: &str| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit());
        let whole = |d: &str| digits(d) && (d == "0" || !d.starts_with('0')) && d.len() < 18;
        match t.split_once('.') {
            Some((a, b)) => whole(a) && digits(b),
            None => whole(t),
        }
    };
    if matches!(text, "true" | "false") || number(text) { text.to_owned() } else { quoted(text) }
}

impl Config {
    /// The stack that is in effect: its protocols, and the values that are not the protocols'
    /// defaults and do not follow from others.
    #[must_use]
    pub fn stack(&self) -> StackFile {
        let protocols = self.plan.protocols.iter().map(|p| self.entry(p)).collect();
        StackFile { protocols }
    }

    fn entry(&self, config: &ProtocolConfig) -> Entry {
        let name = config.name();
        let default = ProtocolConfig::named(name).map(with_defaults_of_jgroups);
        let mut attributes = Vec::new();
        for info in config.attributes().map_or(&[][..], |a| a.list()) {
            let value = |c: &ProtocolConfig| c.attributes().and_then(|a| a.show(info.name));
            let key = (name.to_owned(), info.name.to_owned());
            let derived = self.origins.get(&key).is_some_and(|o| o == "derived");
            if derived || value(config) == default.as_ref().and_then(value) {
                continue;
            }
            let shown = value(config).unwrap_or_default();
            let xml = if info.kind == <Vec<SocketAddr> as AttrValue>::KIND {
                bracketed(&shown)
            } else {
                shown.clone()
            };
            let written = idle::of_jgroups(info.name).to_owned();
            attributes.push(Written { name: written, xml, toml: shown });
        }
        if config.transport().is_some() {
            attributes.extend(self.diagnostics());
        }
        Entry { name: names::of_jgroups(name), attributes, children: Vec::new() }
    }
}

impl Config {
    /// The settings of diagnostics, which are attributes of the transport. A passcode is not shown.
    fn diagnostics(&self) -> Vec<Written> {
        let (diag, default) = (&self.plan.diag, DiagConfig::default());
        let shown = |info: &AttrInfo| {
            let value =
                diag.show(info.name).filter(|v| Some(v) != default.show(info.name).as_ref());
            let value = value.filter(|_| info.name != "passcode")?;
            let name = format!("{DIAG_PREFIX}{}", info.name);
            Some(Written { name, xml: value.clone(), toml: value })
        };
        diag.list().iter().filter_map(shown).collect()
    }
}

/// `10.0.0.1:7800` as `10.0.0.1[7800]`.
fn bracketed(hosts: &str) -> String {
    let one = |h: &str| match h.parse::<SocketAddr>() {
        Ok(a) => format!("{}[{}]", a.ip(), a.port()),
        Err(_) => h.to_owned(),
    };
    hosts.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_the_same_in_both_forms() {
        let loader = ConfigLoader::new().without_environment();
        let size = Some(<ByteSize as AttrValue>::KIND);
        let both = |form, text| both_forms(&loader, size, form, text);
        assert_eq!(both(Form::Xml, "64KiB"), ("64KiB".into(), "64000".into()));
        assert_eq!(both(Form::Xml, "64K"), ("64K".into(), "64K".into()));
        assert_eq!(both(Form::Xml, "${a:64K}"), ("${a:64K}".into(), "${a:64K}".into()));
        assert_eq!(both(Form::Toml, "64KiB"), ("65536".into(), "64KiB".into()));
    }

    #[test]
    fn values_of_toml_are_bare_where_they_can_be() {
        for (text, value) in [
            ("true", "true"),
            ("0.40", "0.40"),
            ("7800", "7800"),
            ("010", "\"010\""),
            ("4M", "\"4M\""),
            ("a\"b\\", "\"a\\\"b\\\\\""),
        ] {
            assert_eq!(toml_value(text), value);
        }
    }
}
