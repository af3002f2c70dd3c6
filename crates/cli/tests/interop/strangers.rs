//! Java processes that hear our packets without being members: of another cluster on the same
//! ports, only joining, and bound to the port of a member of ours that has just died. None may
//! find bytes that it cannot read.

use crate::peer::PATIENCE;
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
    let other = world.stock_java_of("other", "JX", 3, &[], &[]);
    other.hears("^joined");
    let joining = world.stock_java_of(&world.cluster, "JY", 4, &[], &["-Dpeer.mute=true"]);
    joining.hears("^starting");
    // It waits with its sockets until we say so.
    let heir = world.stock_java_of("other", "JZ", 2, &[], &["-Dpeer.wait=true"]);
    heir.hears("^starting");
    for m in [&java, &rust] {
        let to = if m.name == "J" { "R1" } else { "J" };
        m.told(&format!("steady 5 3000 {to} R2"));
    }
    std::thread::sleep(Duration::from_secs(3));
    dying.signal("-KILL");
    heir.told("go");
    heir.has_heard(&format!("physical address=127.0.0.1:{}", world.port + 2), PATIENCE);
    for m in [&java, &rust] {
        m.has_heard("^view 3 J,R1$", PATIENCE);
    }
    std::thread::sleep(Duration::from_secs(5));
    for m in [&java, &rust] {
        m.answers("steady off");
    }
    warnings(&[java, rust, other, joining, heir]);
}
