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
    /// How much it did, if it does more in a whole run.
    pub(crate) amounts: Vec<String>,
}

const HEAD: &str = "\
# Requirements and what shows them

Written by a run of `RGROUPS_WRITE_TABLE=1 cargo test -p rgroups-cli --test requirements`; do not edit.
A test is a function of that name in `crates/cli/tests/requirements/`.
Tests that need many seeds or large amounts do less here than the requirement says; what a run in full
size found is in [requirements-whole.md](requirements-whole.md).

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

const WHOLE_HEAD: &str = "\
# Requirements in full size

Written by a run of

```text
RGROUPS_REQUIREMENTS=whole RGROUPS_WRITE_TABLE=1 cargo test --profile swarm -p rgroups-cli --test requirements
```

These tests did as much as their requirement says; all other tests of [requirements.md](requirements.md)
ran with them.

| test | amount | seconds | result |
|---|---|---|---|
";

/// What a run in full size did, and how long it took.
pub(crate) fn render_whole(ran: &[Outcome]) -> String {
    let mut text = WHOLE_HEAD.to_owned();
    let mut sized: Vec<&Outcome> = ran.iter().filter(|o| !o.amounts.is_empty()).collect();
    sized.sort_by_key(|o| o.name);
    for o in sized {
        // A test that goes through several forms of the same names its amount each time.
        let mut amounts = o.amounts.clone();
        amounts.dedup();
        let (name, amounts, seconds) = (o.name, amounts.join(", "), o.took.as_secs_f64());
        let result = if o.held { "holds" } else { "BROKEN" };
        let _ = writeln!(text, "| `{name}` | {amounts} | {seconds:.0} | {result} |");
    }
    let (all, held) = (ran.len(), ran.iter().filter(|o| o.held).count());
    let took: Duration = ran.iter().map(|o| o.took).sum();
    let seconds = took.as_secs_f64();
    let _ = writeln!(text, "\n{all} tests, {held} hold; all together {seconds:.0} s of one core.");
    println!("{text}");
    text
}

/// A number with commas.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|c| std::str::from_utf8(c).expect("digits"))
        .collect();
    groups.join(",")
}

/// Writes the table where the documentation is, if asked to.
pub(crate) fn tell(page: &str, text: &str) {
    if std::env::var_os("RGROUPS_WRITE_TABLE").is_none() {
        return;
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    std::fs::write(&path, text).expect("docs/ can be written to");
}
