//! One member of each kind.

use crate::peer::Peer;
use crate::world::World;
use std::time::Duration;

/// Who starts the group.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Java,
    Rust,
}

const FIRSTS: [First; 2] = [First::Java, First::Rust];

/// A Java member "J" and a Rust member "R" in one view.
fn pair(world: &World, first: First) -> (Peer, Peer) {
    let (java, rust) = match first {
        First::Java => {
            let java = world.java("J");
            java.hears("^joined");
            (java, world.chat("R"))
        }
        First::Rust => {
            let rust = world.chat("R");
            rust.hears("|0] (1) [R]");
            (world.java("J"), rust)
        }
    };
    let (in_java, in_rust) = match first {
        First::Java => ("^view 1 J,R", "[J|1] (2) [J, R]"),
        First::Rust => ("^view 1 R,J", "[R|1] (2) [R, J]"),
    };
    java.hears(in_java);
    rust.hears(in_rust);
    (java, rust)
}

fn on_every_pair(case: fn(&World, Peer, Peer)) {
    for transport in ["udp", "tcp"] {
        for first in FIRSTS {
            let Some(world) = World::new(transport) else { return };
            let (java, rust) = pair(&world, first);
            case(&world, java, rust);
        }
    }
}

#[test]
fn messages_of_every_kind_arrive_both_ways() {
    on_every_pair(|world, java, rust| {
        java.told("mcast hello");
        rust.hears("[J] hello");
        java.told("ucast R greetings");
        rust.hears("[J] greetings");
        rust.told("salut");
        java.hears("^multicast R salut");
        java.told("mcastn 1 150000");
        rust.hears("[J] <150000 bytes");
        let sender = world.command(
            "send",
            &world.cluster,
            "S",
            &["--to", "J", "--members", "3", "--", "only you"],
        );
        java.hears("^unicast S only you");
        drop(sender);
    });
}

#[test]
fn twenty_thousand_messages_flow_each_way() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let java = world.java("J");
        java.hears("^joined");
        let receiver =
            world.command("recv", &world.cluster, "R", &["--count", "20000", "--summary"]);
        java.hears("^view 1 J,R");
        java.told("mcastn 20000 1000");
        receiver.hears("received 20000 messages, 20000000 bytes of J");
        java.hears("^view 2 J$");
        java.told("expect multicast S 20000");
        let bulk = ["--count", "20000", "--size", "1000", "--members", "2", "--confirm", "1s"];
        let sender = world.command("send", &world.cluster, "S", &bulk);
        java.hears("^got multicast S 20000 20000000 ");
        // JGroups' own stacks have no RSVP: nobody confirms, and the sender says so.
        sender.hears("not confirmed within 1s by J");
        java.hears("^view 4 J$");
    }
}

#[test]
fn a_stack_with_rsvp_confirms() {
    let Some(world) = World::new("udp") else { return };
    let java = world.java_with_rsvp("J");
    java.hears("^joined");
    let sender = world.command("send", &world.cluster, "S", &["--members", "2", "--", "sure"]);
    java.hears("^multicast S sure");
    sender.hears("confirmed by the other member");
    let rust = world.chat("R");
    rust.hears("[J, R]");
    java.told("rsvp surely");
    java.hears("^done rsvp surely");
}

#[test]
fn whoever_leaves_is_gone_at_once() {
    on_every_pair(|_, java, rust| {
        rust.signal("-TERM");
        java.hears_within("^view 2 J$", Duration::from_secs(10));
    });
    on_every_pair(|_, java, rust| {
        java.told("leave");
        rust.hears_within("|2] (1) [R]", Duration::from_secs(10));
    });
}

#[test]
fn a_killed_member_is_suspected_by_the_other_side() {
    on_every_pair(|_, java, rust| {
        rust.signal("-KILL");
        java.hears("^view 2 J$");
    });
    on_every_pair(|_, java, rust| {
        java.signal("-KILL");
        rust.hears("|2] (1) [R]");
    });
}

#[test]
fn a_partition_heals_with_one_merge_view() {
    for (transport, first) in [("udp", First::Java), ("tcp", First::Rust)] {
        let Some(world) = World::new(transport) else { return };
        let (java, rust) = pair(&world, first);
        java.told("discard on");
        java.hears("^view 2 J$");
        rust.hears("|2] (1) [R]");
        java.told("discard off");
        java.hears("^merge 3 ");
        rust.hears("MergeView::");
        java.told("mcast again");
        rust.hears("[J] again");
    }
}

/// A joiner that nobody answers forms a group of its own, as in JGroups, and is merged.
#[test]
fn a_member_comes_into_the_group_although_a_tenth_of_all_packets_is_lost() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let java = world.java("J");
        java.hears("^joined");
        java.answers("lossy 0.1");
        for n in 1..5 {
            let rust = world.chat(&format!("R{n}"));
            rust.hears("(2) [");
            java.hears(&format!("R{n}"));
            rust.signal("-TERM");
            java.hears(" J$");
        }
    }
}
