//! The requirements that this toolkit exists for, each with the tests that show it.
//!
//! Every requirement has an id ([`catalogue`]); the modules below list their tests with the ids
//! that each covers. `cargo test -p rgroups-cli --test requirements` runs them like any other tests
//! (with filters, in parallel) and prints the table of ids, tests and results at the end of a whole
//! run; with `RGROUPS_WRITE_TABLE=1` it also writes it to `docs/requirements.md`. Tests that run
//! many seeds or large amounts do less of it than the requirement says, unless
//! `RGROUPS_REQUIREMENTS=whole` ([`amount`]); such a run writes its figures to
//! `docs/requirements-whole.md`.

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
use std::cell::RefCell;
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

thread_local! {
    /// The amounts of the test that runs in this thread.
    static AMOUNTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// How much a test is to do: as much as the requirement says (`whole`), if that is asked for.
pub(crate) fn amount(usual: u64, whole: u64, of: &str) -> u64 {
    let n = if is_whole() { whole } else { usual };
    AMOUNTS.with_borrow_mut(|all| all.push(format!("{} {of}", table::grouped(n))));
    n
}

/// Whether the requirements are to be shown in the size that they name.
fn is_whole() -> bool {
    std::env::var("RGROUPS_REQUIREMENTS").is_ok_and(|wish| wish == "whole")
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
        let text = table::render(&rows, &outcomes);
        match is_whole() {
            true => table::tell("requirements-whole.md", &table::render_whole(&outcomes)),
            false => table::tell("requirements.md", &text),
        }
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
            amounts: AMOUNTS.take(),
        });
        ran.map_err(|panic| Failed::from(said(&*panic)))
    })
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
