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
const KNOWN_WARNINGS: [(&str, &str); 11] = [
    ("timed out (after", "a machine that is busy lets a joiner wait, and it asks again"),
    ("is in preview state", "JGroups calls NAKACK4 a preview"),
    ("JGRP000015", "a socket buffer is smaller than JGroups asks for"),
    ("buffer of", "a socket buffer is smaller than we ask for"),
    ("JGRP000011", "a message of somebody who is not, or no longer, in the view"),
    ("JGRP000032", "the physical address of a member that has just gone is not known"),
    ("JGRP000012", "a packet of another cluster on the same port"),
    ("different cluster", "the same, of ours"),
    ("RG0410", "a send waits for a slow receiver"),
    ("JGRP000041", "the same without the number of messages"),
    ("no physical address", "the physical address of a member that has just gone is not known"),
];

/// What JGroups calls an error when a connection ends at both ends at once: when the other member was
/// killed, and, between two Java members as well, when one leaves.
const CLOSED_AT_BOTH_ENDS: &str = "failed sending graceful close";

/// What Java says when a stream is read that was closed at the same time.
const STREAM_CLOSED: &str = "java.io.IOException: Stream closed";

fn is_exception(line: &str) -> bool {
    line.contains("Exception") && !line.contains(STREAM_CLOSED)
}

/// Counts the warnings by kind. Panics on an error, and on a warning of no known kind.
pub(crate) fn warnings(peers: &[Peer]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for p in peers {
        let lines = p.lines();
        for (i, line) in lines.iter().enumerate() {
            let is = |levels: &[&str]| levels.iter().any(|l| line.trim_start().starts_with(l));
            let all =
                || format!("{} says:\n{}", p.name, lines[i..lines.len().min(i + 20)].join("\n"));
            let kind = if is(&["SEVERE", "ERROR"]) || is_exception(line) {
                assert!(line.contains(CLOSED_AT_BOTH_ENDS), "{}", all());
                "a connection was closed at both ends at once"
            } else if line.contains("failed handling message") {
                // The receiver of a connection that the member itself has just closed.
                let cause = lines.get(i + 1).is_some_and(|l| l.contains(STREAM_CLOSED));
                assert!(cause, "{}", all());
                "a receiver was still reading when its connection was closed"
            } else if is(&["WARN"]) {
                let known = KNOWN_WARNINGS.iter().find(|k| line.contains(k.0));
                known.unwrap_or_else(|| panic!("{}", all())).1
            } else {
                continue;
            };
            let side = if p.name.starts_with('J') { "Java" } else { "Rust" };
            *kinds.entry(format!("{side}: {kind}")).or_default() += 1;
        }
    }
    kinds
}
