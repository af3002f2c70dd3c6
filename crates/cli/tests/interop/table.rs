//! What a run saw, as a page of docs/interop; and what nobody may have printed.

use crate::peer::Peer;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// A page that grows while a test runs.
pub(crate) struct Table {
    name: String,
    rows: String,
    began: Instant,
    phase: Instant,
}

impl Table {
    pub(crate) fn new(name: &str) -> Self {
        let now = Instant::now();
        Self { name: name.into(), rows: String::new(), began: now, phase: now }
    }

    /// A line of text: a heading, the head of a table, a sentence.
    pub(crate) fn line(&mut self, text: &str) {
        self.rows.push_str(text);
        self.rows.push('\n');
    }

    /// A row with the time since the last one.
    pub(crate) fn timed(&mut self, what: &str) {
        let seconds = self.phase.elapsed().as_secs_f64();
        let _ = writeln!(self.rows, "| {what} | {seconds:.1} s |");
        self.phase = Instant::now();
    }

    /// Writes the page if it is asked for.
    pub(crate) fn write(&self, versions: &[String]) {
        let seconds = self.began.elapsed().as_secs();
        let versions = versions.join("; ");
        let page = format!("# {}\n\n{versions}; {seconds} s\n\n{}", self.name, self.rows);
        println!("{page}");
        if std::env::var_os("RGROUPS_WRITE_TABLE").is_some_and(|v| v == "1") {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interop");
            std::fs::create_dir_all(&folder).expect("a folder of ours");
            let file = folder.join(format!("{}.md", self.name));
            std::fs::write(file, page).expect("a file of ours");
        }
    }
}

/// What these members say that they are, each version once.
pub(crate) fn versions(peers: &[Peer]) -> Vec<String> {
    let line = |p: &Peer| {
        p.lines()
            .into_iter()
            .find_map(|l| l.strip_prefix("versions ").map(|v| v.replace(" (${codename})", "")))
    };
    let mut all: Vec<String> = peers.iter().filter_map(line).collect();
    all.sort();
    all.dedup();
    all
}

/// Warnings that members print in a group that does what the tests do, by a part of their text, and
/// what they mean.
const KNOWN_WARNINGS: [(&str, &str); 12] = [
    ("timed out (after", "a machine that is busy lets a joiner wait, and it asks again"),
    ("is in preview state", "JGroups calls NAKACK4 a preview"),
    ("JGRP000015", "a socket buffer is smaller than JGroups asks for"),
    ("buffer of", "a socket buffer is smaller than we ask for"),
    ("JGRP000011", "a message of somebody who is not, or no longer, in the view"),
    ("JGRP000032", "the physical address of a member that has just gone is not known"),
    ("JGRP000012", "a packet of another cluster on the same port"),
    ("different cluster", "the same, of ours"),
    ("RG0308", "a member that is cut off, or dead, is excluded"),
    ("RG0410", "a send waits for a slow receiver"),
    ("JGRP000041", "the same without the number of messages"),
    ("no physical address", "the physical address of a member that has just gone is not known"),
];

/// What JGroups members log when two of their threads, or both ends, close a connection at the same
/// time: a part of the text, of the line after it, and what it means. A group of Java members alone
/// logs each of them when members leave under load: pages control-tcp and control-udp.
const CLOSING_TWICE: [(&str, &str, &str); 3] = [
    ("failed sending graceful close", "", "a connection was closed by two threads at once"),
    ("failed handling message", STREAM_CLOSED, "a connection was read while it was closed"),
    ("JGRP000030", STREAM_CLOSED, "a message was read while its connection was closed"),
];

/// What Java says when a stream is read that was closed at the same time.
const STREAM_CLOSED: &str = "java.io.IOException: Stream closed";

/// Counts the warnings by kind. Panics on an error, and on a warning of no known kind.
pub(crate) fn warnings(peers: &[Peer]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for p in peers {
        let (java, lines) = (p.name.starts_with('J'), p.lines());
        for (i, line) in lines.iter().enumerate() {
            let starts = |levels: &[&str]| levels.iter().any(|l| line.trim_start().starts_with(l));
            let error = starts(&["SEVERE", "ERROR"]);
            if !error && !starts(&["WARN"]) {
                let exception = line.contains("Exception") && !line.contains(STREAM_CLOSED);
                assert!(!exception, "{} says:\n{line}", p.name);
                continue;
            }
            let closing = CLOSING_TWICE.iter().find(|(text, cause, _)| {
                let next = lines.get(i + 1).map_or("", String::as_str);
                java && line.contains(text) && next.contains(cause)
            });
            let known = KNOWN_WARNINGS.iter().find(|k| !error && line.contains(k.0));
            let kind = closing.map(|k| k.2).or(known.map(|k| k.1)).unwrap_or_else(|| {
                let around = &lines[i.saturating_sub(5)..lines.len().min(i + 20)];
                panic!("{} says:\n{line}\namong\n{}", p.name, around.join("\n"))
            });
            let side = if java { "Java" } else { "Rust" };
            let level = if error { " (SEVERE)" } else { "" };
            *kinds.entry(format!("{side}: {kind}{level}")).or_default() += 1;
        }
    }
    kinds
}
