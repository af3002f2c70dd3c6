//! Properties in values: `${first,second:default}` stands for the first of the names that has a
//! value, or the default. Definitions come before the environment.

use std::collections::BTreeMap;

/// Defaults may contain further properties, so deep.
const MAX_DEPTH: usize = 16;

/// Where properties get their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties {
    defined: BTreeMap<String, String>,
    environment: bool,
}

/// A value with its properties replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Where pieces of it came from, such as `-D jgroups.bind_addr`.
    pub(super) from: Vec<String>,
    /// Names without a value and without a default.
    pub(super) missing: Vec<String>,
}

/// A `${` without its `}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclosed;

impl Properties {
    pub(super) fn new(environment: bool) -> Self {
        Self { defined: BTreeMap::new(), environment }
    }

    pub(super) fn ignore_environment(&mut self) {
        self.environment = false;
    }

    pub(super) fn define(&mut self, name: &str, value: &str) {
        self.defined.insert(name.to_owned(), value.to_owned());
    }

    /// The names that were defined.
    pub(super) fn defined(&self) -> impl Iterator<Item = &str> {
        self.defined.keys().map(String::as_str)
    }

    /// The value of a property, and where it came from.
    pub(super) fn get(&self, name: &str) -> Option<(String, String)> {
        if let Some(v) = self.defined.get(name) {
            return Some((v.clone(), format!("-D {name}")));
        }
        // A name with `=` or NUL is none of the environment, and asking would panic.
        let askable = self.environment && !name.is_empty() && !name.contains(['=', '\0']);
        let value = askable.then(|| std::env::var(name).ok()).flatten()?;
        Some((value, format!("the environment variable {name}")))
    }

    /// Replaces the properties in `text`.
    pub(super) fn expand(&self, text: &str) -> Result<Expanded, Unclosed> {
        let mut out = Expanded::default();
        self.expand_into(text, &mut out, 0)?;
        Ok(out)
    }

    fn expand_into(&self, text: &str, out: &mut Expanded, depth: usize) -> Result<(), Unclosed> {
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            out.text.push_str(&rest[..at]);
            let inner = &rest[at + 2..];
            let end = closing(inner).ok_or(Unclosed)?;
            self.property(&inner[..end], out, depth)?;
            rest = &inner[end + 1..];
        }
        out.text.push_str(rest);
        Ok(())
    }

    fn property(&self, inner: &str, out: &mut Expanded, depth: usize) -> Result<(), Unclosed> {
        let (names, default) = match inner.split_once(':') {
            Some((names, default)) => (names, Some(default.trim())),
            None => (inner, None),
        };
        let found = names.split(',').find_map(|n| self.get(n.trim()));
        match (found, default) {
            (Some((value, from)), _) => {
                out.text.push_str(&value);
                out.from.push(from);
            }
            (None, Some(default)) if depth < MAX_DEPTH => {
                self.expand_into(default, out, depth + 1)?;
            }
            (None, Some(default)) => out.text.push_str(default),
            (None, None) => out.missing.push(names.trim().to_owned()),
        }
        Ok(())
    }
}

/// The names of all properties in a text, those in defaults included.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for piece in text.split("${").skip(1) {
        let end = piece.find([':', '}']).unwrap_or(piece.len());
        all.extend(piece[..end].split(',').map(|n| n.trim().to_owned()));
    }
    all
}

/// Where the `}` is that closes a property whose inside starts here.
fn closing(inner: &str) -> Option<usize> {
    let (mut depth, mut dollar) = (0usize, false);
    for (i, c) in inner.char_indices() {
        match c {
            '{' if dollar => depth += 1,
            '}' if depth == 0 => return Some(i),
            '}' => depth -= 1,
            _ => {}
        }
        dollar = c == '$';
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Expanded {
        let mut p = Properties::new(false);
        p.define("a", "1");
        p.define("b", "2");
        p.expand(text).expect("closed")
    }

    #[test]
    fn the_first_name_with_a_value_wins_and_a_default_fills_in() {
        assert_eq!(expand("${x,b,a:9}").text, "2");
        assert_eq!(expand("${x,y: 9 }").text, "9");
        assert_eq!(expand("<${a}-${b}>").text, "<1-2>");
        assert_eq!(expand("$a {b} 5$").text, "$a {b} 5$");
    }

    #[test]
    fn defaults_may_have_properties_and_colons() {
        assert_eq!(expand("${x:${y:${b:3}}}").text, "2");
        assert_eq!(
            expand("${x:match-interface:eth0,fd00::1}").text,
            "match-interface:eth0,fd00::1"
        );
    }

    #[test]
    fn what_has_no_value_is_named() {
        let e = expand("${x,y}");
        assert_eq!((e.text.as_str(), e.missing), ("", vec!["x,y".to_owned()]));
        assert_eq!(expand("${x:}"), Expanded::default());
    }

    #[test]
    fn the_origin_of_a_value_is_told() {
        assert_eq!(expand("${b}").from, ["-D b"]);
    }

    #[test]
    fn a_brace_that_is_never_closed_is_an_error() {
        assert_eq!(Properties::default().expand("${a"), Err(Unclosed));
        assert_eq!(Properties::default().expand("${a:${b}"), Err(Unclosed));
    }

    #[test]
    fn all_names_are_listed() {
        assert_eq!(names("${a,b:${c}}${d:1}"), ["a", "b", "c", "d"]);
    }
}
