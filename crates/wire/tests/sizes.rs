//! Messages are moved often: their size is a decision, not an accident.
use core::mem::size_of;

#[test]
fn a_message_stays_small() {
    assert!(size_of::<rgroups_wire::Header>() <= 48, "{}", size_of::<rgroups_wire::Header>());
    assert!(size_of::<rgroups_wire::Message>() <= 232, "{}", size_of::<rgroups_wire::Message>());
}
