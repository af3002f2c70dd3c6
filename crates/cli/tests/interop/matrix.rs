//! Four members, two of each kind: everything that a group does, with the configuration files of
//! JGroups as they are, while one percent of all packets is lost on both sides.

use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions, warnings};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Messages that every member sends to all, and that it sends to each other.
const MULTICASTS: u64 = 10_000;
const UNICASTS: u64 = 3_334;

/// Their size in bytes.
const SIZE: u64 = 1_000;

/// A message of many fragments.
const LARGE: u64 = 5_000_000;

/// Where STABLE is: a round starts at each member after 5 s on average. JGroups' files say 50 s,
/// which is long for a test.
const ROUNDS: &str = "STABLE.desired_avg_gossip=5000";

/// How long a load may take on a busy machine.
const LOAD: Duration = Duration::from_secs(240);

#[test]
fn udp_with_a_java_coordinator() {
    run("udp", ["J1", "J2", "R1", "R2"]);
}

#[test]
fn udp_with_a_rust_coordinator() {
    run("udp", ["R1", "R2", "J1", "J2"]);
}

#[test]
fn tcp_with_a_java_coordinator() {
    run("tcp", ["J1", "J2", "R1", "R2"]);
}

#[test]
fn tcp_with_a_rust_coordinator() {
    run("tcp", ["R1", "R2", "J1", "J2"]);
}

#[test]
fn udp_new_with_a_java_coordinator() {
    run("udp-new", ["J1", "J2", "R1", "R2"]);
}

#[test]
fn udp_new_with_a_rust_coordinator() {
    run("udp-new", ["R1", "R2", "J1", "J2"]);
}

#[test]
fn tcp_new_with_a_java_coordinator() {
    run("tcp-new", ["J1", "J2", "R1", "R2"]);
}

#[test]
fn tcp_new_with_a_rust_coordinator() {
    run("tcp-new", ["R1", "R2", "J1", "J2"]);
}

fn run(stack: &'static str, names: [&str; 4]) {
    let Some(world) = World::new(stack) else { return };
    let first = if names[0] == "J1" { "java" } else { "rust" };
    let mut table = Table::new(&format!("{stack}-{first}-coordinator"));
    table.line(&format!("{stack}.xml; members in the order of joining: {}\n", names.join(", ")));
    table.line("| step | took |\n|---|---|");
    let members = joined(&world, names);
    table.timed("four members, one view everywhere");
    for java in of_kind(&members, 'J') {
        java.answers("lossy 0.01");
    }
    loads(&members);
    table.timed(&format!(
        "{MULTICASTS} multicasts and {} unicasts of each member, 1 % of packets lost: all there \
         once, in order, equal in content",
        3 * UNICASTS
    ));
    large(&members);
    table.timed("5 MB from Java to all and from Rust to all");
    for (provider, requester) in [("J1", "R2"), ("R1", "J2")] {
        state(named(&members, provider), named(&members, requester));
    }
    table.timed("a state of 3 MB from Java to Rust and from Rust to Java");
    purged(&members);
    table.timed("every member, Java and Rust, has purged all that it kept for retransmission");
    for (slow, sender) in [("R1", "J1"), ("J1", "R2")] {
        stopped_consumer(&members, slow, sender);
        table.timed(&format!(
            "{sender} waits for {slow}, which does not consume, and goes on when it does"
        ));
    }
    let mut hashes = String::new();
    compared(&members, &mut hashes);
    // Nobody was suspected: there were four views, and no other.
    for (place, m) in members.iter().enumerate() {
        let views =
            m.lines().into_iter().filter(|l| l.starts_with("view ") || l.starts_with("merge "));
        let views: Vec<String> = views.collect();
        let expected: Vec<String> =
            (place..4).map(|id| format!("view {id} {}", names[..=id].join(","))).collect();
        assert_eq!(views, expected, "{}", m.name);
    }
    let members = departures(members, names, &mut table);
    table.line("\n| warnings | |\n|---|---|");
    for (kind, count) in warnings(&members) {
        table.line(&format!("| {kind} | {count} |"));
    }
    table.line("\n| stream | messages | bytes | SHA-256 of the contents, the same at sender and receivers |");
    table.line("|---|---|---|---|");
    table.line(hashes.trim_end());
    table.write(&versions(&members));
}

/// The four, started one after the other, in one view.
fn joined(world: &World, names: [&str; 4]) -> Vec<Peer> {
    let mut members: Vec<Peer> = Vec::new();
    let rounds: &[&str] = if world.stack.ends_with("-new") { &[] } else { &[ROUNDS] };
    let lossy = [&["DISCARD.up=0.01", "DISCARD.down=0.01"], rounds].concat();
    // JGroups asks for members once, and founds a group of its own if that one packet, or its
    // answer, is lost: with one percent of them, every tenth run or so.
    let discovery = if world.transport == "udp" { "PING" } else { "TCPPING" };
    let asks = format!("{discovery}.num_discovery_runs=4");
    let java = [&[asks.as_str()], rounds].concat();
    for (place, name) in names.iter().enumerate() {
        members.push(match name.starts_with('J') {
            true => world.stock_java(name, place as u16, &java),
            false => world.stock_rust(name, place as u16, &lossy),
        });
        for m in &members {
            m.hears(&format!("^view {place} {}$", names[..=place].join(",")));
        }
    }
    members
}

fn of_kind(members: &[Peer], kind: char) -> impl Iterator<Item = &Peer> {
    members.iter().filter(move |m| m.name.starts_with(kind))
}

pub(crate) fn named<'a>(members: &'a [Peer], name: &str) -> &'a Peer {
    members.iter().find(|m| m.name == name).expect("one of the four")
}

fn loads(members: &[Peer]) {
    for m in members {
        for from in members {
            m.told(&format!("expect multicast {} {MULTICASTS}", from.name));
            if from.name != m.name {
                m.told(&format!("expect unicast {} {UNICASTS}", from.name));
            }
        }
    }
    for m in members {
        m.told(&format!("mcastn {MULTICASTS} {SIZE}"));
        for to in members.iter().filter(|to| to.name != m.name) {
            m.told(&format!("ucastn {} {UNICASTS} {SIZE}", to.name));
        }
    }
    for m in members {
        for from in members {
            m.has_heard(&format!("^got multicast {} {MULTICASTS} ", from.name), LOAD);
            if from.name != m.name {
                m.has_heard(&format!("^got unicast {} {UNICASTS} ", from.name), LOAD);
            }
        }
    }
}

fn large(members: &[Peer]) {
    for sender in ["J1", "R1"] {
        for m in members {
            m.told(&format!("expect multicast {sender} {}", MULTICASTS + 1));
        }
        named(members, sender).told(&format!("mcastn 1 {LARGE}"));
        for m in members {
            m.has_heard(&format!("^got multicast {sender} {} ", MULTICASTS + 1), LOAD);
        }
    }
}

fn state(provider: &Peer, requester: &Peer) {
    let line = |answer: Vec<String>| answer.into_iter().find(|l| l.starts_with("state "));
    let given = line(provider.answers("state 3000000")).expect("its own state");
    requester.answers(&format!("fetch {}", provider.name));
    assert_eq!(requester.has_heard("^state ", PATIENCE), given);
}

/// Everybody has everything, so nobody keeps anything for retransmission once that is known: by
/// a round of stability, or, without STABLE, by acknowledgements.
fn purged(members: &[Peer]) {
    let end = Instant::now() + 2 * PATIENCE;
    loop {
        let kept: Vec<(&str, u64)> = members.iter().map(|m| (m.name.as_str(), kept(m))).collect();
        if kept.iter().all(|k| k.1 == 0) {
            return;
        }
        assert!(Instant::now() < end, "bytes kept for retransmission: {kept:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn kept(m: &Peer) -> u64 {
    let answer = m.answers("kept");
    let bytes = answer.iter().find_map(|l| l.strip_prefix("kept "));
    bytes.and_then(|b| b.parse().ok()).expect("a number of bytes")
}

/// Twice the credits of both sides and all the buffers: more than can be sent to one who does not
/// consume.
fn stopped_consumer(members: &[Peer], slow: &str, sender: &str) {
    const SENT: u64 = 30_000;
    let (slow, sender) = (named(members, slow), named(members, sender));
    slow.answers("pause");
    let load = format!("ucastn {} {SENT} {SIZE}", slow.name);
    slow.told(&format!("expect unicast {} {}", sender.name, UNICASTS + SENT));
    sender.told(&load);
    let all = sender.prints(&format!("^done {load}$"), Duration::from_secs(4));
    assert!(!all, "{} sent {SENT} messages to {}, which does not consume", sender.name, slow.name);
    slow.told("resume");
    sender.has_heard(&format!("^done {load}$"), LOAD);
    slow.has_heard(&format!("^got unicast {} {} ", sender.name, UNICASTS + SENT), LOAD);
}

/// Compares what was sent with what was received everywhere: number, bytes, hash of the contents;
/// none twice, none out of order.
pub(crate) fn compared(members: &[Peer], rows: &mut String) {
    let reports: BTreeMap<&str, Vec<String>> =
        members.iter().map(|m| (m.name.as_str(), m.answers("tally"))).collect();
    let line = |of: &str, start: &str| -> String {
        let found = reports[of].iter().find_map(|l| l.strip_prefix(start));
        found.unwrap_or_else(|| panic!("{of} does not say {start:?}")).to_owned()
    };
    let mut row = |stream: String, numbers: &str| {
        let n: Vec<&str> = numbers.split(' ').collect();
        assert_eq!(n[3], "0", "{stream}: out of order");
        rows.push_str(&format!("| {stream} | {} | {} | `{}` |\n", n[0], n[1], n[2]));
    };
    for s in members.iter().map(|m| m.name.as_str()) {
        let sent = line(s, "sent all ");
        for r in members.iter().map(|m| m.name.as_str()) {
            assert_eq!(line(r, &format!("tally multicast {s} ")), sent, "{s} to all, at {r}");
            if r != s {
                let sent = line(s, &format!("sent {r} "));
                assert_eq!(line(r, &format!("tally unicast {s} ")), sent, "{s} to {r}");
                row(format!("{s} to {r}"), &sent);
            }
        }
        row(format!("{s} to all"), &sent);
    }
}

/// The coordinator leaves, the next one is killed, the third leaves.
fn departures(members: Vec<Peer>, names: [&str; 4], table: &mut Table) -> Vec<Peer> {
    let agree = |from: usize, id: usize| {
        for m in &members[from..] {
            m.hears(&format!("^view {id} {}$", names[from..].join(",")));
        }
    };
    members[0].told("leave");
    members[0].hears("^left");
    agree(1, 4);
    table.timed(&format!("{} (coordinator) leaves: one view of the others", names[0]));
    members[1].signal("-KILL");
    agree(2, 5);
    table.timed(&format!("{} (coordinator) is killed: one view of the others", names[1]));
    for (from, to) in [(2, 3), (3, 2)] {
        members[from].told("mcast after");
        members[to].has_heard(&format!("^multicast {} after", names[from]), PATIENCE);
    }
    members[2].told("leave");
    agree(3, 6);
    table.timed(&format!("{} leaves: {} goes on alone", names[2], names[3]));
    members
}
