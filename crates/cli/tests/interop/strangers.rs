//! Java processes that hear our packets without being members: of another cluster on the same
//! ports, only joining, and bound to the port of a member of ours that has just died. None may
//! find bytes that it cannot read, also not what only members of ours say to each other
//! (docs/wire-extensions.md).

use crate::peer::{PATIENCE, Peer};
use crate::table::warnings;
use crate::world::World;
use std::time::Duration;

#[test]
fn udp_strangers_can_read_everything() {
    run("udp");
}

#[test]
fn tcp_strangers_can_read_everything() {
    run("tcp");
}

#[test]
fn udp_strangers_can_read_what_only_our_members_say() {
    run_among_ourselves("udp");
}

#[test]
fn tcp_strangers_can_read_what_only_our_members_say() {
    run_among_ourselves("tcp");
}

/// A member of another group, one that is only joining, and one that waits with its sockets until it
/// is told to take the place of the member that dies.
fn strangers(world: &World) -> [Peer; 3] {
    let other = world.stock_java_of("other", "JX", 3, &[], &[]);
    other.hears("^joined");
    let joining = world.stock_java_of(&world.cluster, "JY", 4, &[], &["-Dpeer.mute=true"]);
    joining.hears("^starting");
    let heir = world.stock_java_of("other", "JZ", 2, &[], &["-Dpeer.wait=true"]);
    heir.hears("^starting");
    [other, joining, heir]
}

/// The member dies, and the heir is bound to its port.
fn takes_the_place_of(dying: &Peer, heir: &Peer, world: &World) {
    dying.signal("-KILL");
    heir.told("go");
    heir.has_heard(&format!("physical address=127.0.0.1:{}", world.port + 2), PATIENCE);
}

/// A group of ours, whose STABLE speaks by reference to the view, which repairs the tail of the one
/// that dies, and whose states come in parts, among the same strangers.
fn run_among_ourselves(transport: &'static str) {
    let Some(world) = World::new(transport) else { return };
    let often = ["STABLE.desired_avg_gossip=200", "STABLE.max_bytes=20000", "states=STATE"];
    let [first, second, dying] = [("R1", 0), ("R2", 1), ("R3", 2)].map(|(name, place)| {
        let member = world.stock_rust(name, place, &often);
        member.hears("^joined");
        member
    });
    let [other, joining, heir] = strangers(&world);
    first.told("steady 5 3000 R2 R3");
    second.told("steady 5 3000 R1 R3");
    std::thread::sleep(Duration::from_secs(3));
    // Readers say how much room they have, to the one that dies and to one that stays.
    for m in [&first, &dying] {
        m.answers("state 40000000");
    }
    first.told("tries R3");
    second.told("tries R1");
    dying.told("tries R1");
    std::thread::sleep(Duration::from_millis(300));
    takes_the_place_of(&dying, &heir, &world);
    for m in [&first, &second] {
        m.has_heard("^view 3 R1,R2$", PATIENCE);
        m.has_heard("^tried ", PATIENCE);
    }
    std::thread::sleep(Duration::from_secs(5));
    let came = second.answers("counter num_bytes_received");
    assert!(came.iter().any(|l| l == "counter 40000000"), "{came:?}");
    let counted = second.answers("counter delta_reports_sent");
    assert!(counted.iter().any(|l| l.starts_with("counter ") && l != "counter 0"), "{counted:?}");
    for m in [&first, &second] {
        m.answers("steady off");
    }
    warnings(&[first, second, other, joining, heir]);
}

fn run(transport: &'static str) {
    let Some(world) = World::new(transport) else { return };
    let [java, rust, dying] = [("J", 0), ("R1", 1), ("R2", 2)].map(|(name, place)| {
        let member = match name {
            "J" => world.stock_java(name, place, &[]),
            _ => world.stock_rust(name, place, &[]),
        };
        member.hears("^joined");
        member
    });
    let [other, joining, heir] = strangers(&world);
    for m in [&java, &rust] {
        let to = if m.name == "J" { "R1" } else { "J" };
        m.told(&format!("steady 5 3000 {to} R2"));
    }
    std::thread::sleep(Duration::from_secs(3));
    takes_the_place_of(&dying, &heir, &world);
    for m in [&java, &rust] {
        m.has_heard("^view 3 J,R1$", PATIENCE);
    }
    std::thread::sleep(Duration::from_secs(5));
    for m in [&java, &rust] {
        m.answers("steady off");
    }
    warnings(&[java, rust, other, joining, heir]);
}
