//! Requirements that a scenario of the simulator shows.

use rgroups_sim::script;
use std::path::PathBuf;

crate::tests![
    the_tail_of_a_dead_sender => "S0-21";
];

fn the_tail_of_a_dead_sender() {
    holds("s0_21_the_tail_of_a_dead_sender");
}

/// The scenario of this name happens as it is written.
fn holds(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/scenarios");
    let ran = script::run_file(&folder.join(format!("{name}.txt")), false).expect("it can be read");
    assert!(ran.failures.is_empty(), "{:?}", ran.failures);
}
