//! Members with addresses of their own: each in a network namespace, on two bridges with a cable
//! between them, that the tests pull, block and narrow.
//!
//! Runs if RGROUPS_NETNS is set: nobody's machine gets bridges unasked. Needs root, `ip` and `tc` of iproute2, and a kernel with namespaces, bridges and tbf. Without, no
//! test runs, and the program says why. One test at a time, as they share the processors.

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod lean;
mod links;
mod load;
mod world;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

/// Lists the tests of a module.
macro_rules! tests {
    ($($run:path),+ $(,)?) => {
        pub(crate) fn tests() -> Vec<(&'static str, fn())> {
            vec![$((stringify!($run), $run as fn())),*]
        }
    };
}
pub(crate) use tests;

fn main() -> ExitCode {
    lean::obey_orders();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let missing = world::missing();
    if let Some(why) = &missing {
        println!("skipped: {why}");
    }
    let all = [links::tests(), cuts::tests(), load::tests()].concat();
    let trials = all.into_iter().filter(|_| missing.is_none()).map(|(name, run)| {
        Trial::test(name, move || {
            std::panic::catch_unwind(run).map_err(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Failed::from(text.unwrap_or("panicked"))
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
