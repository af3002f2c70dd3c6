//! Examples that end by themselves do what they say.

#[path = "../examples/state_transfer.rs"]
mod state_transfer;

#[test]
fn a_joiner_of_the_counter_misses_no_increment() {
    state_transfer::main().expect("both members count to the end");
}
