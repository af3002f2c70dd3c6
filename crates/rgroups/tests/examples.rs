//! Examples that end by themselves do what they say.

#[cfg(feature = "rpc")]
#[path = "../examples/rpc.rs"]
mod rpc;
#[path = "../examples/state_transfer.rs"]
mod state_transfer;

#[test]
fn a_joiner_of_the_counter_misses_no_increment() {
    state_transfer::main().expect("both members count to the end");
}

#[cfg(feature = "rpc")]
#[test]
fn members_that_call_each_other_know_the_sum_of_their_shares() {
    rpc::main().expect("the sum is right");
}
