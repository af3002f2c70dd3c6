//! Answers of diagnostics handlers, taken apart as far as they have a form.

use serde_json::{Value, json};
use std::net::SocketAddr;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Where it came from.
    pub(crate) from: SocketAddr,
    /// What it says, as it came.
    pub(crate) text: String,
}

impl Answer {
    /// Name and physical address, which tell members apart: one that has joined the group on
    /// several interfaces answers several times.
    pub(crate) fn identity(&self) -> (&str, &str) {
        let first = self.text.lines().next().unwrap_or_default();
        let name = first.split_once(" [ip=").or_else(|| first.split_once(" (ip="));
        let (name, rest) = name.unwrap_or((first, ""));
        (name, rest.split([',', ')', ']']).next().unwrap_or_default())
    }

    /// The values of `key=` behind the first line, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let rest = self.text.split_once('\n').map_or("", |(_, rest)| rest);
        let end = if rest.contains("\r\n") { "\r\n" } else { "\n" };
        rest.split(end).filter_map(|entry| entry.split_once('='))
    }

    /// The physical addresses of all members that the answer names.
    pub(crate) fn member_addresses(&self) -> Vec<SocketAddr> {
        let list = self.entries().find(|(key, _)| *key == "member-addrs").map_or("", |(_, v)| v);
        let list = list.trim_matches(['[', ']']);
        let one = |a: &str| {
            // Java prints a host name in front of a slash where it knows one.
            let a = a.trim();
            a.rsplit_once('/').map_or(a, |(_, a)| a).parse().ok()
        };
        list.split(',').filter_map(one).collect()
    }

    fn header(&self, key: &str) -> Option<&str> {
        let first = self.text.lines().next()?;
        let (_, value) = first.split_once(&format!(" {key}="))?;
        Some(value.split([',', ']']).next().unwrap_or(value))
    }

    /// As fields, with the whole text beside them.
    pub(crate) fn json(&self) -> Value {
        let (name, physical) = self.identity();
        let entries: serde_json::Map<String, Value> =
            self.entries().map(|(k, v)| (k.to_owned(), v.trim().into())).collect();
        let of_entries = |key: &str| entries.get(key).and_then(Value::as_str).map(str::to_owned);
        let field = |key: &str| self.header(key).map(str::to_owned).or_else(|| of_entries(key));
        json!({
            "from": self.from.to_string(), "name": name, "physical": physical,
            "cluster": field("cluster"), "version": field("version"),
            "entries": entries, "text": self.text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer { from: ([127, 0, 0, 1], 7500).into(), text: text.into() }
    }

    #[test]
    fn an_answer_without_keys_is_lines() {
        let a = answer("A (ip=127.0.0.1:7800)\nview=[A|0] (1) [A]\ncluster=demo\nversion=5.5.6\n");
        assert_eq!(a.identity(), ("A", "127.0.0.1:7800"));
        assert_eq!(a.json()["cluster"], "demo");
        assert_eq!(a.json()["entries"]["view"], "[A|0] (1) [A]");
    }

    #[test]
    fn an_answer_with_keys_has_a_line_about_the_member_first() {
        let a = answer(
            "A [ip=10.0.0.1:7800, 2 mbr(s), cluster=demo, version=5.5.6 (java 17)]\n\
             member-addrs=10.0.0.1:7800,host/10.0.0.2:7800\r\nops=\na\nb\r\n",
        );
        assert_eq!(a.identity(), ("A", "10.0.0.1:7800"));
        assert_eq!(a.json()["cluster"], "demo");
        assert_eq!(a.json()["version"], "5.5.6 (java 17)");
        assert_eq!(a.entries().nth(1), Some(("ops", "\na\nb")));
        let addresses = a.member_addresses();
        assert_eq!(addresses, [([10, 0, 0, 1], 7800).into(), ([10, 0, 0, 2], 7800).into()]);
    }
}
