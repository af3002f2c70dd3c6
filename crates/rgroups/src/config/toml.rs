//! Reads the TOML form: `[[stack]]` once per protocol, lowest first, with the names of JGroups.
//!
//! ```toml
//! [[stack]]
//! protocol = "UDP"
//! mcast_port = 45588
//! thread_pool.enabled = true   # the same as "thread_pool.enabled"
//!
//! [[stack]]
//! include = "rest.toml"
//! ```

use super::source::{Attribute, Element, Session, Span, Text};
use toml_edit::{ArrayOfTables, Document, Item, Table, TableLike, Value};

/// Reads a whole text into a tree like the one of an XML file.
pub(super) fn parse(session: &mut Session, source: usize) -> Option<Element> {
    let text = session.sources[source].text.clone();
    let document = match Document::parse(text.clone()) {
        Ok(d) => d,
        Err(e) => {
            let range = e.span().unwrap_or(0..0);
            let at = Span { source, start: range.start, end: range.end.max(range.start) };
            let message = e.message().trim().replace('\n', ", ");
            session.error("RG0106", at, message);
            return None;
        }
    };
    let mut reader = Reader { session, source, text: &text };
    reader.document(document.as_table())
}

struct Reader<'a> {
    session: &'a mut Session,
    source: usize,
    text: &'a str,
}

impl Reader<'_> {
    fn span(&self, range: Option<std::ops::Range<usize>>) -> Span {
        let r = range.unwrap_or(0..0);
        Span { source: self.source, start: r.start, end: r.end }
    }

    fn document(&mut self, root: &Table) -> Option<Element> {
        let mut config = Element {
            name: Text { text: "config".into(), at: self.span(None) },
            attributes: Vec::new(),
            children: Vec::new(),
        };
        for (key, item) in root.iter() {
            match item {
                Item::ArrayOfTables(tables) if key == "stack" => self.stack(tables, &mut config),
                _ => {
                    let at = self.span(root.key(key).and_then(toml_edit::Key::span));
                    let finding =
                        self.session.error("RG0106", at, format!("unknown entry {key:?}"));
                    finding
                        .help
                        .push("a file consists of [[stack]] tables, one per protocol".into());
                }
            }
        }
        Some(config)
    }

    fn stack(&mut self, tables: &ArrayOfTables, config: &mut Element) {
        for table in tables.iter() {
            let mut attributes = Vec::new();
            self.attributes(table, "", &mut attributes);
            let position = attributes
                .iter()
                .position(|a: &Attribute| matches!(a.name.text.as_str(), "protocol" | "include"));
            let Some(i) = position else {
                let at = self.span(table.span());
                let first_line = at.end.min(at.start + "[[stack]]".len());
                let at = Span { end: first_line, ..at };
                let finding = self.session.error("RG0106", at, "[[stack]] without a protocol");
                finding.label = "write protocol = \"…\" or include = \"…\" below it".into();
                continue;
            };
            let mut kind = attributes.remove(i);
            let name = if kind.name.text == "include" {
                let name = kind.name.clone();
                kind.name.text = "file".into();
                attributes.push(kind);
                name
            } else {
                kind.value
            };
            config.children.push(Element { name, attributes, children: Vec::new() });
        }
    }

    /// All values of a table; those of tables inside of it have dots in their names.
    fn attributes(&mut self, table: &dyn TableLike, prefix: &str, out: &mut Vec<Attribute>) {
        for (key, item) in table.iter() {
            let at = self.span(table.key(key).and_then(toml_edit::Key::span));
            let name = Text { text: format!("{prefix}{key}"), at };
            if let Some(inner) = item.as_table_like() {
                self.attributes(inner, &format!("{}.", name.text), out);
                continue;
            }
            let value = item.as_value().and_then(|v| self.value(v));
            let Some(value) = value else {
                let message =
                    format!("{} is neither text, number, truth nor a list of text", name.text);
                self.session.error("RG0106", at, message);
                continue;
            };
            out.push(Attribute { name, value });
        }
    }

    fn value(&self, v: &Value) -> Option<Text> {
        let at = self.span(v.span());
        let text = match v {
            Value::String(s) => s.value().clone(),
            Value::Integer(n) => n.value().to_string(),
            // As it is written: 0.10 stays 0.10.
            Value::Float(_) => self.text.get(at.start..at.end)?.to_owned(),
            Value::Boolean(b) => b.value().to_string(),
            Value::Array(list) => {
                let items: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                items?.join(",")
            }
            Value::Datetime(_) | Value::InlineTable(_) => return None,
        };
        Some(Text { text, at })
    }
}
