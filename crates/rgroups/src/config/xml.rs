//! Reads XML as JGroups does, with places: comments may be nested and may stand between attributes,
//! `/ >` ends an element, a backslash takes the next character as it is. Goes on after a mistake
//! where it can, so that all of them are reported.

use super::source::{Attribute, Element, Session, Span, Text};
use rgroups_core::attributes::nearest;

/// Elements inside elements, so deep.
const MAX_DEPTH: usize = 32;

/// Reads a whole text into the tree of its root element.
pub(super) fn parse(session: &mut Session, source: usize) -> Option<Element> {
    let text = session.sources[source].text.clone();
    let mut reader = Reader {
        text: &text,
        pos: 0,
        source,
        session,
        open: Vec::new(),
        root: None,
        swallowed: false,
    };
    reader.document();
    reader.root
}

struct Reader<'a> {
    text: &'a str,
    pos: usize,
    source: usize,
    session: &'a mut Session,
    /// Elements whose end was not seen yet, outermost first.
    open: Vec<Element>,
    root: Option<Element>,
    /// End tags cannot be right any more: a comment took the rest of the text, or it is too deep.
    swallowed: bool,
}

/// How a start tag ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// `>`: children follow.
    Open,
    /// `/>`.
    Complete,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start, end }
    }

    fn document(&mut self) {
        if self.rest().starts_with('\u{feff}') {
            self.pos += '\u{feff}'.len_utf8();
        }
        while let Some(at) = self.rest().find('<') {
            self.stray_text(at);
            self.pos += at;
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.comment();
            } else if rest.starts_with("<?") {
                self.skip_past("?>");
            } else if rest.starts_with("<![CDATA[") {
                self.skip_past("]]>");
            } else if rest.starts_with("<!") {
                self.skip_past(">");
            } else if rest.starts_with("</") {
                self.close();
            } else {
                self.start();
            }
        }
        self.stray_text(self.rest().len());
        while let Some(element) = self.open.pop() {
            if !self.swallowed {
                let at = element.name.at;
                let message = format!("<{}> is never closed", element.name.text);
                self.session.error("RG0106", at, message).label =
                    format!("needs </{}>, or /> at its end", element.name.text);
            }
            self.add(element);
        }
    }

    fn stray_text(&mut self, len: usize) {
        let piece = &self.text[self.pos..self.pos + len];
        let trimmed = piece.trim();
        if trimmed.is_empty() {
            return;
        }
        let start = self.pos + piece.find(trimmed).unwrap_or(0);
        let at = self.span(start, start + trimmed.len());
        self.session.warn("RG0106", at, "text between elements is ignored");
    }

    fn skip_past(&mut self, end: &str) {
        self.pos = self.rest().find(end).map_or(self.text.len(), |i| self.pos + i + end.len());
    }

    /// Comments nest, as in JGroups.
    fn comment(&mut self) {
        let start = self.pos;
        let mut depth = 0usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("<!--") {
                depth += 1;
                self.pos += 4;
            } else if rest.starts_with("-->") {
                depth -= 1;
                self.pos += 3;
                if depth == 0 {
                    return;
                }
            } else if let Some(c) = rest.chars().next() {
                self.pos += c.len_utf8();
            } else {
                let at = self.span(start, start + 4);
                self.session.error("RG0106", at, "the comment is never closed").label =
                    "needs -->".into();
                self.swallowed = true;
                return;
            }
        }
    }

    fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            self.pos += rest.len() - rest.trim_start().len();
            if !self.rest().starts_with("<!--") {
                return;
            }
            self.comment();
        }
    }

    fn close(&mut self) {
        let start = self.pos;
        let end = self.rest().find('>').map_or(self.text.len(), |i| self.pos + i);
        let name = self.text[start + 2..end].trim();
        self.pos = (end + 1).min(self.text.len());
        let at = self.span(start, self.pos);
        if self.open.last().is_some_and(|e| e.name.text == name) {
            if let Some(element) = self.open.pop() {
                self.add(element);
            }
            return;
        }
        if self.swallowed {
            return;
        }
        let message = match self.open.last() {
            Some(inner) => format!("</{name}> where </{}> is expected", inner.name.text),
            None => format!("</{name}> closes nothing"),
        };
        let other = self.open.last().map(|e| (e.name.text.clone(), e.name.at));
        let beside =
            other.map_or_else(String::new, |(n, o)| self.session.beside(&format!("<{n}>"), o, at));
        let finding = self.session.error("RG0106", at, message);
        finding.beside = beside;
        finding.jgrp = Some("JGRP000004");
        let inner = self.open.last().map(|e| e.name.text.as_str());
        if let Some(meant) = nearest(name, inner.into_iter()) {
            finding.label = format!("did you mean </{meant}>?");
            if let Some(element) = self.open.pop() {
                self.add(element);
            }
            return;
        }
        // If an outer element has the name, it is that one which ends here.
        if self.open.iter().any(|e| e.name.text == name) {
            while let Some(element) = self.open.pop() {
                let found = element.name.text == name;
                self.add(element);
                if found {
                    break;
                }
            }
        }
    }

    fn start(&mut self) {
        let tag = self.pos;
        self.pos += 1;
        let name = self.word();
        if name.text.is_empty() {
            let at = self.span(tag, tag + 1);
            self.session.error("RG0106", at, "'<' without the name of an element");
            return;
        }
        let mut element = Element { name, attributes: Vec::new(), children: Vec::new() };
        let end = self.attributes(&mut element);
        let too_deep = self.open.len() >= MAX_DEPTH;
        if too_deep && !self.swallowed {
            // What is deeper is taken to be on this level; its end tags tell nothing new.
            self.swallowed = true;
            let at = element.name.at;
            self.session.error("RG0106", at, format!("elements more than {MAX_DEPTH} deep"));
        }
        if end == End::Complete || too_deep {
            self.add(element);
        } else {
            self.open.push(element);
        }
    }

    /// Everything up to white space or a character that ends a name.
    fn word(&mut self) -> Text {
        let start = self.pos;
        let stop = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '/' | '=' | '"' | '\'');
        let len = self.rest().find(stop).unwrap_or(self.rest().len());
        self.pos += len;
        Text { text: self.text[start..self.pos].to_owned(), at: self.span(start, self.pos) }
    }

    fn attributes(&mut self, element: &mut Element) -> End {
        loop {
            self.blanks();
            let rest = self.rest();
            if rest.starts_with('>') {
                self.pos += 1;
                return End::Open;
            }
            if let Some(after) = rest.strip_prefix('/') {
                let blanks = after.len() - after.trim_start().len();
                if after.trim_start().starts_with('>') {
                    self.pos += 1 + blanks + 1;
                    return End::Complete;
                }
                let at = self.span(self.pos, self.pos + 1);
                self.session.error("RG0106", at, "'/' without '>' inside an element");
                self.pos += 1;
                continue;
            }
            if rest.is_empty() || rest.starts_with('<') {
                let at = element.name.at;
                let message = format!("the tag of <{}> does not end", element.name.text);
                let finding = self.session.error("RG0106", at, message);
                finding.label = "needs /> or >".into();
                finding.jgrp = Some("JGRP000004");
                return End::Complete;
            }
            if rest.starts_with(['=', '"', '\'']) {
                let at = self.span(self.pos, self.pos + 1);
                self.session.error("RG0106", at, "expected the name of an attribute");
                let next = self.rest().find([' ', '\n', '\t', '>', '<']);
                self.pos = next.map_or(self.text.len(), |i| self.pos + i);
                continue;
            }
            self.attribute(element);
        }
    }

    fn attribute(&mut self, element: &mut Element) {
        let name = self.word();
        self.blanks();
        if !self.rest().starts_with('=') {
            let message = format!("the attribute {} has no value", name.text);
            self.session.error("RG0106", name.at, message).label =
                format!("write {}=\"…\"", name.text);
            return;
        }
        self.pos += 1;
        self.blanks();
        let Some(value) = self.value(&name) else { return };
        if name.text.starts_with("xmlns") || name.text.starts_with("xsi:") {
            return;
        }
        if let Some(first) = element.attribute(&name.text) {
            let first = first.name.at;
            let beside = self.session.beside("the first", first, name.at);
            let message = format!("{} is given twice in <{}>", name.text, element.name.text);
            let finding = self.session.error("RG0106", name.at, message);
            finding.beside = beside;
            finding.label = "remove one".into();
            return;
        }
        element.attributes.push(Attribute { name, value });
    }

    fn value(&mut self, name: &Text) -> Option<Text> {
        let start = self.pos;
        let Some(quote) = self.rest().chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let stop = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '/');
            let len = self.rest().find(stop).unwrap_or(self.rest().len());
            self.pos += len;
            let at = if len == 0 { name.at } else { self.span(start, self.pos) };
            let message = format!("the value of {} is not in quotes", name.text);
            self.session.error("RG0106", at, message).label =
                format!("write {}=\"{}\"", name.text, &self.text[start..self.pos]);
            return None;
        };
        let inside = start + 1;
        let (mut text, mut dropped, mut chars) =
            (String::new(), false, self.text[inside..].char_indices());
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => {
                    dropped = true;
                    text.extend(chars.next().map(|(_, c)| c));
                }
                '<' => break,
                c if c == quote => {
                    let end = inside + i;
                    let raw = &self.text[inside..end];
                    // The quote that ends this one opens the next value: `a="1` and then `b="2"`.
                    if raw.contains('\n') && raw.trim_end().ends_with('=') {
                        break;
                    }
                    self.pos = end + 1;
                    let at = self.span(inside, end);
                    if dropped {
                        let finding = self.session.warn(
                            "RG0110",
                            at,
                            "backslashes are dropped in XML files, as in JGroups",
                        );
                        finding.help.push("the TOML form keeps them".into());
                    }
                    return Some(Text { text: unescaped(&text), at });
                }
                c => text.push(c),
            }
        }
        let at = self.span(start, start + 1);
        let message = format!("the value of {} has no closing quote", name.text);
        self.session.error("RG0106", at, message).label = "opened here".into();
        // The rest of the line was most likely meant to end the tag, if it looks like that.
        let len = self.text[inside..].find(['\n', '<']).unwrap_or(self.text.len() - inside);
        let line = self.text[inside..inside + len].trim_end();
        let tag_end = ["/>", ">"].iter().find(|e| line.ends_with(**e)).map_or(0, |e| e.len());
        self.pos = if tag_end > 0 { inside + line.len() - tag_end } else { inside + len };
        None
    }

    fn add(&mut self, element: Element) {
        if let Some(parent) = self.open.last_mut() {
            parent.children.push(element);
        } else if self.root.is_none() {
            self.root = Some(element);
        } else {
            let at = element.name.at;
            self.session.error("RG0106", at, "a second element outside of the first one");
        }
    }
}

/// The five entities that XML knows without a declaration, and characters by number.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').filter(|e| *e <= 10);
        let known = end.and_then(|e| Some((e, entity(&rest[1..e])?)));
        if let Some((e, c)) = known {
            out.push(c);
            rest = &rest[e + 1..];
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out + rest
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::{Form, Source};
    use super::*;

    fn read(text: &str) -> (Option<Element>, Vec<String>) {
        let mut session = Session::default();
        let source = session.add(Source {
            name: "x.xml".into(),
            text: text.into(),
            form: Form::Xml,
            folder: None,
        });
        let root = parse(&mut session, source);
        let findings = session.into_findings();
        let line = |f: &super::super::report::Finding| {
            let p = f.place().expect("placed");
            format!("{}:{} {}", p.line, p.column, f.message())
        };
        (root, findings.iter().map(line).collect())
    }

    fn shape(e: &Element) -> String {
        let attributes: Vec<String> =
            e.attributes.iter().map(|a| format!(" {}={}", a.name.text, a.value.text)).collect();
        let children: Vec<String> = e.children.iter().map(shape).collect();
        format!("({}{}{})", e.name.text, attributes.concat(), children.concat())
    }

    #[test]
    fn elements_attributes_and_children_are_read() {
        let (root, mistakes) = read(
            "<?xml version='1.0'?><!DOCTYPE x>\n<a xmlns=\"u\" b='1' c = \"x&lt;y\"><d/>< /a></a>",
        );
        assert_eq!(
            mistakes,
            ["2:37 '<' without the name of an element", "2:39 text between elements is ignored"]
        );
        assert_eq!(shape(&root.expect("read")), "(a b=1 c=x<y(d))");
    }

    #[test]
    fn comments_nest_and_stand_between_attributes() {
        let (root, mistakes) =
            read("<!-- one <!-- inner --> still -->\n<a <!--x=\"1\"--> y=\"2\" <!-- z --> / >");
        assert_eq!(mistakes, [""; 0]);
        assert_eq!(shape(&root.expect("read")), "(a y=2)");
    }

    #[test]
    fn reading_goes_on_after_a_mistake() {
        let (root, mistakes) =
            read("<config>\n <b x=1 y=\"2\" z/>\n <c\n <d e=\"5\n  f=\"6\"/>\n</b>\n</config>");
        assert_eq!(
            mistakes,
            [
                "2:7 the value of x is not in quotes",
                "2:15 the attribute z has no value",
                "3:3 the tag of <c> does not end",
                "4:7 the value of e has no closing quote",
                "6:1 </b> where </config> is expected",
            ]
        );
        assert_eq!(shape(&root.expect("read")), "(config(b y=2)(c)(d f=6))");
    }

    #[test]
    fn no_text_makes_the_reader_fail() {
        let whole = "<a b=\"${x:1}\"><!-- c --><d e='f&#65;'/></a>é";
        for end in whole.char_indices().map(|(i, _)| i) {
            for start in whole[..end].char_indices().map(|(i, _)| i) {
                let _ = read(&whole[start..end]);
            }
        }
        let _ = read(&"<a>".repeat(10_000));
    }
}
