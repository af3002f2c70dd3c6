//! Addresses, narrow links and small packets.

use crate::common::Proc;
use crate::world::{LONG, NAMES, World, all_talk, view_of};
use std::time::{Duration, Instant};

crate::tests![
    five_members_on_addresses_of_their_own_talk,
    an_address_is_used_again_at_once_after_a_kill,
    a_narrow_link_slows_the_sender_and_loses_nothing,
    a_member_behind_small_packets_gets_large_messages,
    datagrams_can_be_kept_below_small_packets,
];

const BOTH: [&str; 2] = ["udp", "tcp"];

fn five_members_on_addresses_of_their_own_talk() {
    for transport in BOTH {
        let world = World::new(transport);
        let mut all = world.five(&[]);
        all_talk(&mut all, "hello");
    }
}

/// The host of C is the same, its ports are the same, and its old member is still in the view.
fn an_address_is_used_again_at_once_after_a_kill() {
    for transport in BOTH {
        let world = World::new(transport);
        let mut all = world.five(&[]);
        all[2].kill();
        all[2] = world.member(3, "chat", "F", &[]);
        for p in &mut all {
            view_of(p, &["A", "B", "D", "E", "F"]);
        }
        all_talk(&mut all, "again");
        let merges = world.sum(5, "CHANNEL.merges");
        assert_eq!(merges, 0, "{transport}: F joined, it did not merge");
    }
}

/// `receivers` members that add up what they get, at hosts 2 and up, in one view with each other.
fn receivers(world: &World, count: u64, more: &[&str]) -> Vec<Proc> {
    let count = count.to_string();
    let more = [&["--count", &count, "--summary"], more].concat();
    let mut all: Vec<Proc> =
        (2..=5).map(|host| world.member(host, "recv", NAMES[host - 1], &more)).collect();
    for p in &mut all {
        view_of(p, &NAMES[1..]);
    }
    all
}

/// A sends so many generated messages to B, C, D and E, which all get them. How long that took.
fn send(world: &World, (count, size): (u64, u64), more: &[&str]) -> Duration {
    let receivers = receivers(world, count, more);
    let began = Instant::now();
    let (n, bytes) = (count.to_string(), size.to_string());
    let args = [&["--count", &n, "--size", &bytes, "--members", "5"], more].concat();
    let sender = world.member(1, "send", "A", &args);
    let mut took = Duration::ZERO;
    for r in receivers {
        let ended = r.end(2 * LONG);
        let summary = ended.object("summary");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(summary["messages"], count, "{summary}");
        assert_eq!(summary["bytes"], count * size, "{summary}");
        took = began.elapsed();
    }
    assert_eq!(sender.end(LONG).code, Some(0));
    took
}

/// 8 Mbit a second are 1 MB: 4 MB to one host behind such a link take four seconds.
fn a_narrow_link_slows_the_sender_and_loses_nothing() {
    for transport in BOTH {
        let world = World::new(transport);
        world.narrow(4, "8mbit");
        let took = send(&world, (400, 10_000), &["-DMFC.max_credits=200k"]);
        println!("{transport}: 4 MB in {took:?}");
        assert!(took >= Duration::from_secs(3), "{transport}: {took:?}, faster than the link");
    }
}

fn a_member_behind_small_packets_gets_large_messages() {
    let world = World::new("tcp");
    world.mtu(5, 1400);
    send(&world, (20, 200_000), &[]);
}

/// Datagrams are cut into packets by the sender's host, as large as its own link takes; a switch
/// drops what is too large for another link. Bundles and fragments below the smallest help.
fn datagrams_can_be_kept_below_small_packets() {
    let world = World::new("udp");
    world.mtu(5, 1400);
    send(&world, (20, 200_000), &["-DUDP.bundler.max_size=1300", "-DFRAG2.frag_size=1000"]);
}
