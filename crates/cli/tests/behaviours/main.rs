//! The behaviours that the group keeps in bad circumstances, each with the tests and scenarios that
//! show it, as a table in `docs/behaviours.md`.
//!
//! A test of the table is a function of that name among the tests of any crate, a scenario is a file
//! of that name in `crates/sim/tests/scenarios`. They run where they are; here is checked that they
//! exist, that no behaviour is left out, and that the page is the table. After a change of the
//! table `RGROUPS_REWRITE=1 cargo test -p rgroups-cli --test behaviours` writes the page.

mod catalogue;
mod merging;
mod network;
mod reliability;
mod rpc;
mod sources;

use catalogue::{Behaviour, Class, Shown};
use sources::Sources;
use std::fmt::Write as _;
use std::path::PathBuf;

const HEAD: &str = "\
# Behaviours and what shows them

Written by `RGROUPS_REWRITE=1 cargo test -p rgroups-cli --test behaviours`; do not edit.

What a group does in bad circumstances, by class. The requirements (flow control, digests, synchronous
sends) have [a table of their own](requirements.md). A test is a function of that name in the crate that
is named beside it (`grep -rn NAME crates`), a scenario is `crates/sim/tests/scenarios/NAME.txt`. All of
them run in virtual time, except those of `rgroups` and most of `cli`, which use sockets.

\"Shown in part\" says what no test does; \"missing\" says why.
";

fn render(classes: &[Class], sources: &Sources) -> String {
    let mut text = HEAD.to_owned();
    let (mut whole, mut part, mut missing) = (0, 0, 0);
    for class in classes {
        let name = class.name;
        let _ = write!(text, "\n## {name}\n\n| id | what happens | test or scenario | shown |\n");
        text += "|---|---|---|---|\n";
        for Behaviour { id, asks, shown } in class.behaviours {
            let (count, how) = match shown {
                Shown::By(_) => (&mut whole, "shown".to_owned()),
                Shown::InPart(_, lacks) => (&mut part, format!("in part: {lacks}")),
                Shown::Missing(why) => (&mut missing, format!("missing: {why}")),
            };
            *count += 1;
            let tests = shown.tests().iter().map(|t| {
                let places = sources.places(t).unwrap_or_default();
                format!("`{t}` ({})", places.join(", "))
            });
            let tests = tests.collect::<Vec<_>>().join("<br>");
            let _ = writeln!(text, "| {id} | {asks} | {tests} | {how} |");
        }
    }
    let all = whole + part + missing;
    let _ = writeln!(
        text,
        "\n{all} behaviours: {whole} shown, {part} shown in part, {missing} missing."
    );
    text
}

#[test]
fn every_behaviour_of_every_class_is_in_the_table() {
    for class in &catalogue::CLASSES {
        let listed: Vec<&str> = class.behaviours.iter().map(|b| b.id).collect();
        assert_eq!(listed, class.ids, "{}", class.name);
    }
}

#[test]
fn every_test_and_scenario_of_the_table_exists() {
    let sources = Sources::read();
    let rows = catalogue::CLASSES.iter().flat_map(|c| c.behaviours);
    let named = rows.flat_map(|b| b.shown.tests().iter().map(|t| (b.id, *t)));
    let absent: Vec<_> = named.filter(|(_, t)| sources.places(t).is_none()).collect();
    assert!(absent.is_empty(), "there is no test or scenario of this name: {absent:?}");
}

#[test]
fn whatever_is_not_shown_by_anything_says_why() {
    for b in catalogue::CLASSES.iter().flat_map(|c| c.behaviours) {
        match b.shown {
            Shown::By(tests) => assert!(!tests.is_empty(), "{}", b.id),
            Shown::InPart(tests, lacks) => {
                assert!(!tests.is_empty() && !lacks.is_empty(), "{}", b.id);
            }
            Shown::Missing(why) => assert!(!why.is_empty(), "{}", b.id),
        }
    }
}

#[test]
fn the_page_is_the_table() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/behaviours.md");
    let text = render(&catalogue::CLASSES, &Sources::read());
    if std::env::var_os("RGROUPS_REWRITE").is_some() {
        std::fs::write(&page, &text).expect("docs/ can be written to");
    }
    let written = std::fs::read_to_string(&page).expect("the page is there");
    assert!(written == text, "docs/behaviours.md is not the table; RGROUPS_REWRITE=1 writes it");
}
