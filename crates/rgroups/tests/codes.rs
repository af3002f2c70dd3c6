//! The codes of errors and warnings: the table is complete, and the page is the table.
//! `RGROUPS_REWRITE=1` writes the page anew.

use rgroups::codes::ALL;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
}

/// Everything in quotes that has the form of a code.
fn codes_in(text: &str) -> impl Iterator<Item = &str> {
    let code = |s: &&str| s.len() == 6 && s[2..].bytes().all(|b| b.is_ascii_digit());
    text.match_indices("\"RG").filter_map(|(at, _)| text.get(at + 1..at + 7)).filter(code)
}

fn page() -> String {
    let mut page = String::from(
        "# Codes of errors and warnings\n\nA code keeps its meaning for ever. The third column has \
         the number by which JGroups says the same.\nThis page is written from \
         `crates/rgroups/src/codes.rs` by a test.\n\n| code | what happened | JGroups | what to try \
         |\n|---|---|---|---|\n",
    );
    for c in ALL {
        let jgrp = c.jgrp.unwrap_or("");
        let _ = writeln!(page, "| {} | {} | {jgrp} | {} |", c.code, c.meaning, c.remedy);
    }
    page
}

#[test]
fn codes_are_in_order_and_each_has_one_meaning() {
    assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
}

#[test]
fn every_code_in_the_sources_is_in_the_table() {
    let mut files = Vec::new();
    for name in ["core", "rgroups", "cli"] {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    let known: BTreeSet<&str> = ALL.iter().map(|c| c.code).collect();
    let mut unknown = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        unknown.extend(codes_in(&text).filter(|c| !known.contains(c)).map(str::to_owned));
    }
    assert_eq!(unknown, BTreeSet::new(), "add them to codes.rs");
}

#[test]
fn the_page_is_the_table() {
    let file = root().join("docs/ERRORS.md");
    if std::env::var_os("RGROUPS_REWRITE").is_some() {
        std::fs::write(&file, page()).expect("written");
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(there, page(), "run with RGROUPS_REWRITE=1");
}
