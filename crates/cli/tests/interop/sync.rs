//! Synchronous sends between members of both kinds.

use crate::peer::Peer;
use crate::world::World;
use rgroups::{Config, Message, Sync, SyncEnd, SyncLevel, blocking};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
/// RSVP of JGroups, quick to give up, and saying so.
const RSVP: &str = "<RSVP timeout='3000' throw_exception_on_timeout='true'/>";

/// A JGroups member, and two of ours that chat.
fn three(world: &World) -> (Peer, Peer, Peer) {
    let java = world.java_with("J", RSVP, "50s");
    java.hears("^joined");
    let first = world.chat("R");
    java.hears("^view 1 J,R");
    let second = world.chat("S");
    java.hears("^view 2 J,R,S");
    second.hears("[J, R, S]");
    (java, first, second)
}

#[test]
fn a_java_sender_is_acknowledged_by_all_of_ours() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let (java, first, second) = three(&world);
        java.told("rsvp surely");
        java.hears_within("^done rsvp surely", SECOND * 3);
        first.hears("[J] surely");
        second.hears("[J] surely");
    }
}

#[test]
fn a_java_sender_times_out_when_one_of_ours_is_stopped() {
    for transport in ["udp", "tcp"] {
        let Some(world) = World::new(transport) else { return };
        let (java, _first, second) = three(&world);
        second.signal("-STOP");
        let began = Instant::now();
        java.told("rsvp hardly");
        java.hears("TimeoutException");
        assert!(began.elapsed() >= SECOND * 3);
        second.signal("-CONT");
    }
}

/// A member of ours in this process, in the group of `java`.
fn ours(world: &World, java: &Peer) -> blocking::Channel {
    let config = Config::udp()
        .set("UDP", "bind_addr", "127.0.0.1")
        .and_then(|c| c.set("UDP", "mcast_port", &world.port.to_string()))
        .and_then(|c| c.set("STABLE", "desired_avg_gossip", "1s"))
        .expect("settings of this stack");
    let builder = rgroups::Channel::builder(config).name("R");
    let (channel, events) = blocking::connect(builder, &world.cluster).expect("joins");
    // Somebody must read, or nothing is consumed.
    std::thread::spawn(move || events.for_each(drop));
    java.hears("^view 1 J,R");
    channel
}

fn wait(channel: &blocking::Channel, level: SyncLevel, seconds: u32) -> rgroups::SyncOutcome {
    let sync = Sync { level, timeout: Some(SECOND * seconds), to: None };
    channel.send_and_wait(Message::multicast("sure"), sync).expect("the channel is open")
}

#[test]
fn our_sender_is_acknowledged_by_a_java_member_at_every_level() {
    let Some(world) = World::new("udp") else { return };
    let java = world.java_with("J", RSVP, "50s");
    java.hears("^joined");
    let channel = ours(&world, &java);
    for level in [SyncLevel::OnReceive, SyncLevel::OnContiguous, SyncLevel::OnDeliver] {
        let outcome = wait(&channel, level, 30);
        assert_eq!((outcome.end, outcome.acknowledged.len()), (SyncEnd::Complete, 2));
        assert!(outcome.by_stability.is_empty(), "it has RSVP");
        java.hears("^multicast R sure");
    }
}

#[test]
fn our_sender_times_out_when_the_java_member_is_stopped() {
    let Some(world) = World::new("udp") else { return };
    let java = world.java_with("J", RSVP, "50s");
    java.hears("^joined");
    let channel = ours(&world, &java);
    java.signal("-STOP");
    let outcome = wait(&channel, SyncLevel::OnReceive, 2);
    let java_member = channel.view().members()[0];
    assert_eq!((outcome.end, outcome.missing), (SyncEnd::TimedOut, vec![java_member]));
    java.signal("-CONT");
}

#[test]
fn stability_stands_in_for_a_java_member_without_rsvp() {
    let Some(world) = World::new("udp") else { return };
    let java = world.java_with("J", "", "1s");
    java.hears("^joined");
    let channel = ours(&world, &java);
    let java_member = channel.view().members()[0];
    let outcome = wait(&channel, SyncLevel::OnContiguous, 60);
    assert_eq!((outcome.end, outcome.by_stability), (SyncEnd::Complete, vec![java_member]));
    let outcome = wait(&channel, SyncLevel::OnDeliver, 3);
    assert_eq!((outcome.end, outcome.missing), (SyncEnd::TimedOut, vec![java_member]));
    let flushed = channel.flush(Some(SECOND * 60)).expect("the channel is open");
    assert_eq!((flushed.end, flushed.by_stability), (SyncEnd::Complete, vec![java_member]));
    let to_java = Message::unicast(java_member, "you");
    let sync = Sync { level: SyncLevel::OnContiguous, timeout: Some(SECOND * 30), to: None };
    let outcome = channel.send_and_wait(to_java, sync).expect("the channel is open");
    assert_eq!((outcome.end, outcome.by_stability), (SyncEnd::Complete, vec![java_member]));
}
