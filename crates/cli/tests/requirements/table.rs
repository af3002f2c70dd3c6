//! The table of a run.

use crate::catalogue::{EXPERIMENTS, Experiment, REQUIREMENTS};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How a test ended.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) held: bool,
    pub(crate) took: Duration,
}

const HEAD: &str = "\
# Requirements and what shows them

Written by a run of `RGROUPS_WRITE_TABLE=1 cargo test -p rgroups-cli --test requirements`; do not edit.
A test is a function of that name in `crates/cli/tests/requirements/`.

| id | what it asks | test | result |
|---|---|---|---|
";

const EXPERIMENTS_HEAD: &str = "
## Experiments

What JGroups 5.5.6 did was recorded once, with all members in one process.

| id | scenario | JGroups 5.5.6 | here | test | result |
|---|---|---|---|---|---|
";

/// The table: a row for each requirement.
pub(crate) fn render(tests: &[(&'static str, &'static [&'static str])], ran: &[Outcome]) -> String {
    let mut text = HEAD.to_owned();
    let result = |name: &str| match ran.iter().find(|o| o.name == name) {
        Some(o) if o.held => "holds",
        Some(_) => "BROKEN",
        None => "not run",
    };
    for (id, asks) in REQUIREMENTS {
        let of_id = tests.iter().filter(|(_, ids)| ids.contains(id));
        let names: Vec<&str> = of_id.map(|(name, _)| *name).collect();
        let shown = names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join("<br>");
        let results = names.iter().map(|n| result(n)).collect::<Vec<_>>().join("<br>");
        let (shown, results) =
            if names.is_empty() { ("none".into(), "NO TEST".into()) } else { (shown, results) };
        let _ = writeln!(text, "| {id} | {asks} | {shown} | {results} |");
    }
    text += EXPERIMENTS_HEAD;
    for e in EXPERIMENTS {
        let shown = e.tests.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join("<br>");
        let results = e.tests.iter().map(|n| result(n)).collect::<Vec<_>>().join("<br>");
        let Experiment { id, scenario, jgroups, here, .. } = e;
        let _ = writeln!(text, "| {id} | {scenario} | {jgroups} | {here} | {shown} | {results} |");
    }
    let took: Duration = ran.iter().map(|o| o.took).sum();
    let held = ran.iter().filter(|o| o.held).count();
    let ids = REQUIREMENTS.len();
    let uncovered =
        REQUIREMENTS.iter().filter(|(id, _)| !tests.iter().any(|(_, i)| i.contains(id)));
    let uncovered = uncovered.count();
    let _ = writeln!(
        text,
        "\n{ids} requirements, {uncovered} without a test; {} tests, {held} hold.",
        ran.len()
    );
    println!("{text}\ntime of all tests together: {:.1} s", took.as_secs_f64());
    text
}

/// Writes the table where the documentation is, if asked to.
pub(crate) fn tell(text: &str) {
    if std::env::var_os("RGROUPS_WRITE_TABLE").is_none() {
        return;
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/requirements.md");
    std::fs::write(&path, text).expect("docs/ can be written to");
}
