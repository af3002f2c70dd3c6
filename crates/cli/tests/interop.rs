//! Members of JGroups and of this project in one group, over UDP and TCP.
//!
//! Needs a compiled JGroups 5.5 on the class path in RGROUPS_JGROUPS_CP, and a JDK. Without the
//! variable every test passes at once and says that it was skipped. With RGROUPS_WRITE_TABLE=1
//! each test of the matrix writes what it saw to docs/interop. The soak runs for as long as
//! RGROUPS_SOAK says, and without it not at all.
#![cfg(unix)]

#[path = "interop/calls.rs"]
mod calls;
#[path = "interop/caps.rs"]
mod caps;
#[path = "interop/chat.rs"]
mod chat;
#[path = "interop/counters.rs"]
mod counters;
#[path = "interop/cut.rs"]
mod cut;
#[path = "interop/maps.rs"]
mod maps;
#[path = "interop/matrix.rs"]
mod matrix;
#[path = "interop/member.rs"]
mod member;
#[path = "interop/merges.rs"]
mod merges;
#[path = "interop/order.rs"]
mod order;
#[path = "interop/pairs.rs"]
mod pairs;
#[path = "interop/peer.rs"]
mod peer;
#[path = "interop/shipped.rs"]
mod shipped;
#[path = "interop/slow.rs"]
mod slow;
#[path = "interop/soak.rs"]
mod soak;
#[path = "interop/states.rs"]
mod states;
#[path = "interop/strangers.rs"]
mod strangers;
#[path = "interop/sync.rs"]
mod sync;
#[path = "interop/table.rs"]
mod table;
#[path = "interop/world.rs"]
mod world;

/// Not a test of anything: this is where the processes of our members start.
#[test]
fn member_process() {
    member::obey_orders();
}
