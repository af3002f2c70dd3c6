//! Examples that end by themselves do what they say, and are short enough to be read.

#[path = "../examples/counter.rs"]
mod counter;
#[cfg(feature = "rpc")]
#[path = "../examples/map.rs"]
mod map;
#[cfg(feature = "rpc")]
#[path = "../examples/rpc.rs"]
mod rpc;
#[path = "../examples/state_transfer.rs"]
mod state_transfer;
#[path = "../examples/total_order.rs"]
mod total_order;

#[test]
fn a_joiner_of_the_counter_misses_no_increment() {
    state_transfer::main().expect("both members count to the end");
}

#[cfg(feature = "rpc")]
#[test]
fn members_that_call_each_other_know_the_sum_of_their_shares() {
    rpc::main().expect("the sum is right");
}

#[cfg(feature = "rpc")]
#[test]
fn every_seat_of_the_map_is_taken_once() {
    map::main().expect("both members have the same");
}

#[test]
fn both_members_have_the_same_log() {
    total_order::main().expect("one order");
}

#[test]
fn no_ticket_is_drawn_twice() {
    counter::main().expect("every number once");
}

#[test]
fn examples_have_less_than_80_lines() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("a file").path();
        let lines = std::fs::read_to_string(&path).expect("text").lines().count();
        assert!(lines < 80, "{} has {lines} lines", path.display());
    }
}
