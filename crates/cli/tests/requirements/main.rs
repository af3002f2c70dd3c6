//! The requirements that this toolkit exists for, each with the tests that show it.
//!
//! Every requirement has an id ([`catalogue`]); the modules below list their tests with the ids
//! that each covers. `cargo test -p rgroups-cli --test requirements` runs them like any other tests
//! (with filters, in parallel) and prints the table of ids, tests and results at the end of a whole
//! run; with `RGROUPS_WRITE_TABLE=1` it also writes it to `docs/requirements.md`. Tests that run
//! many seeds or large amounts read `RGROUPS_REQUIREMENTS_SCALE` ([`scale`]).

mod catalogue;
mod s0;
mod s0_stability;
mod s0_tail;
mod s1;
mod s1_flush;
mod s1_gaps;
mod s2;
mod s4;
mod scenarios;
mod table;
mod world;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use table::Outcome;

/// A test and the requirements it shows.
pub(crate) struct Test {
    ids: &'static [&'static str],
    name: &'static str,
    run: fn(),
}

/// Lists the tests of a module: `tests![a_test => "S0-1", "S0-15"; another => "S0-2"]`.
macro_rules! tests {
    ($($run:path => $($id:literal),+);* $(;)?) => {
        pub(crate) fn tests() -> Vec<$crate::Test> {
            vec![$($crate::Test { ids: &[$($id),+], name: stringify!($run), run: $run }),*]
        }
    };
}
pub(crate) use tests;

/// How many times the usual amount a test is to do: 1, or `RGROUPS_REQUIREMENTS_SCALE`.
pub(crate) fn scale() -> u64 {
    let wish = std::env::var("RGROUPS_REQUIREMENTS_SCALE").ok();
    wish.map_or(1, |s| s.parse().expect("RGROUPS_REQUIREMENTS_SCALE is a number"))
}

/// All tests, module by module.
fn all() -> Vec<Test> {
    let mut all = Vec::new();
    all.extend(s0::tests());
    all.extend(s0_stability::tests());
    all.extend(s2::tests());
    all.extend(s0_tail::tests());
    all.extend(scenarios::tests());
    all.extend(s1::tests());
    all.extend(s1_flush::tests());
    all.extend(s1_gaps::tests());
    all.extend(s4::tests());
    all
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = all();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let rows: Vec<(&'static str, &'static [&'static str])> =
        tests.iter().map(|t| (t.name, t.ids)).collect();
    let trials = tests.into_iter().map(|test| trial(test, &outcomes)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let outcomes = outcomes.lock().expect("no test holds it any more");
    let wrong = catalogue::mistakes(&rows);
    if !wrong.is_empty() {
        eprintln!("{}", wrong.join("\n"));
        return ExitCode::FAILURE;
    }
    if !arguments.list && conclusion.num_filtered_out == 0 {
        table::tell(&table::render(&rows, &outcomes));
    }
    conclusion.exit_code()
}

fn trial(test: Test, outcomes: &Arc<Mutex<Vec<Outcome>>>) -> Trial {
    let outcomes = Arc::clone(outcomes);
    let name = format!("{} {}", test.ids.join(","), test.name);
    Trial::test(name, move || {
        let began = Instant::now();
        let ran = std::panic::catch_unwind(test.run);
        outcomes.lock().expect("pushing does not panic").push(Outcome {
            name: test.name,
            held: ran.is_ok(),
            took: began.elapsed(),
        });
        ran.map_err(|panic| Failed::from(said(&*panic)))
    })
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
