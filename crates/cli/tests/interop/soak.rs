//! A long run: two members of each kind send steadily, and every five seconds somebody joins or
//! leaves. `RGROUPS_SOAK=20m cargo test -p rgroups-cli --test interop soak`
//!
//! With RGROUPS_SOAK_CONTROL=1 all of them are Java members: what such a group logs is no fault of
//! ours.

use crate::matrix::{compared, named};
use crate::peer::{PATIENCE, Peer};
use crate::table::{Table, versions, warnings};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Those who stay.
const STAYERS: [&str; 4] = ["J1", "R1", "J2", "R2"];

/// Those who stay in a group without us.
const ALL_JAVA: [&str; 4] = ["J1", "J2", "J3", "J4"];

/// A multicast and three unicasts of each, so often and so large.
const PAUSE_MS: u64 = 20;
const SIZE: u64 = 500;

/// Somebody joins or leaves this often; in a group of Java members alone more often, to see in a
/// shorter time what they log.
const CHANGE: Duration = Duration::from_secs(5);
const CONTROL_CHANGE: Duration = Duration::from_secs(2);

/// Members need a while until their memory says something: Java compiles, pools fill.
const WARM_UP: Duration = Duration::from_secs(60);

/// Half of the time over TCP, half over UDP, or only as RGROUPS_SOAK_STACK says.
#[test]
fn soak() {
    let Ok(asked) = std::env::var("RGROUPS_SOAK") else {
        return println!("skipped: RGROUPS_SOAK is not set");
    };
    let (digits, unit) = asked.split_at(asked.len() - 1);
    let seconds = match (digits.parse::<u64>(), unit) {
        (Ok(n), "m") => n * 60,
        (Ok(n), "s") => n,
        _ => panic!("RGROUPS_SOAK={asked}: write 20m or 90s"),
    };
    let one = std::env::var("RGROUPS_SOAK_STACK").ok();
    let stacks: Vec<&str> =
        ["tcp", "udp"].into_iter().filter(|s| one.as_deref().is_none_or(|o| o == *s)).collect();
    for stack in &stacks {
        let Some(world) = World::new(stack) else { return };
        run(&world, Duration::from_secs(seconds) / stacks.len() as u32);
    }
}

fn run(world: &World, time: Duration) {
    let control = std::env::var_os("RGROUPS_SOAK_CONTROL").is_some_and(|v| v == "1");
    let (stayers, page, change) = match control {
        true => (ALL_JAVA, "control", CONTROL_CHANGE),
        false => (STAYERS, "soak", CHANGE),
    };
    let mut table = Table::new(&format!("{page}-{}", world.transport));
    let members: Vec<Peer> = (0u16..)
        .zip(stayers)
        .map(|(place, name)| {
            let member = start(world, name, place);
            member.hears("^joined");
            member
        })
        .collect();
    for m in &members {
        m.has_heard("^view 3 ", PATIENCE);
        let others: Vec<&str> = stayers.into_iter().filter(|s| *s != m.name).collect();
        m.told(&format!("steady {PAUSE_MS} {SIZE} {}", others.join(" ")));
    }
    let (mut visitors, mut memory) = (Vec::<Peer>::new(), BTreeMap::<String, Vec<u64>>::new());
    let (began, mut present) = (Instant::now(), false);
    while began.elapsed() < time {
        let next = Instant::now() + change;
        match visitors.last().filter(|_| present) {
            Some(visitor) => leaves(visitor),
            None => visitors.push(visits(world, visitors.len(), control)),
        }
        present = !present;
        for m in &members {
            let at = memory.entry(m.name.clone()).or_default();
            if began.elapsed() > WARM_UP.min(time / 4) {
                at.push(number(&m.answers("memory"), "memory "));
            }
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    if let Some(visitor) = visitors.last().filter(|_| present) {
        leaves(visitor);
    }
    settled(&members);
    let mut hashes = String::new();
    compared(&members, &mut hashes);
    table.line(&format!(
        "{}.xml, {} s: {} stay and send a multicast and three unicasts of {SIZE} bytes every \
         {PAUSE_MS} ms each; {} others{} join and leave, one change every {} s. No message is lost, \
         none comes twice or out of order among those who stay.\n",
        world.transport,
        time.as_secs(),
        stayers.join(", "),
        visitors.len(),
        if control { "" } else { ", Java and Rust by turns," },
        change.as_secs(),
    ));
    table.line("| memory | at first | at last | most |\n|---|---|---|---|");
    for (name, samples) in &memory {
        flat(name, samples, &mut table);
    }
    for m in &members {
        m.told("leave");
        m.hears("^left");
    }
    table.line("\n| warnings | |\n|---|---|");
    let versions = versions(&members);
    let all: Vec<Peer> = members.into_iter().chain(visitors).collect();
    for (kind, count) in warnings(&all) {
        table.line(&format!("| {kind} | {count} |"));
    }
    table.line("\n| stream | messages | bytes | SHA-256 of the contents, the same everywhere |");
    table.line("|---|---|---|---|");
    table.line(hashes.trim_end());
    table.write(&versions);
}

fn start(world: &World, name: &str, place: u16) -> Peer {
    match name.starts_with('J') {
        true => world.stock_java(name, place, &[]),
        false => world.stock_rust(name, place, &[]),
    }
}

/// Visitors are of both kinds by turns, each at a port of its own for a while.
fn visits(world: &World, n: usize, control: bool) -> Peer {
    let name = format!("{}V{n}", if control || n.is_multiple_of(2) { 'J' } else { 'R' });
    let visitor = start(world, &name, 4 + n as u16 % 6);
    visitor.hears("^joined");
    visitor
}

fn leaves(visitor: &Peer) {
    for line in visitor.answers("tally") {
        if let Some(stream) = line.strip_prefix("tally ") {
            assert!(stream.ends_with(" 0"), "{}: out of order: {stream}", visitor.name);
        }
    }
    visitor.told("leave");
    visitor.hears("^left");
}

/// Everybody stops sending, and has everything.
fn settled(members: &[Peer]) {
    members.iter().for_each(|m| drop(m.answers("steady off")));
    for sender in members {
        let sent = sender.answers("tally");
        for to in members {
            if to.name != sender.name {
                let count = number(&sent, &format!("sent {} ", to.name));
                to.told(&format!("expect unicast {} {count}", sender.name));
            }
            let count = number(&sent, "sent all ");
            to.told(&format!("expect multicast {} {count}", sender.name));
            to.has_heard(&format!("^got multicast {} {count} ", sender.name), PATIENCE);
        }
    }
    for m in members {
        for from in members.iter().filter(|f| f.name != m.name) {
            m.has_heard(&format!("^got unicast {} ", named(members, &from.name).name), PATIENCE);
        }
    }
}

fn number(answer: &[String], start: &str) -> u64 {
    let found = answer.iter().find_map(|l| l.strip_prefix(start)?.split(' ').next()?.parse().ok());
    found.unwrap_or_else(|| panic!("no {start:?} in {answer:?}"))
}

/// The memory of the last third is that of the first, but for what an allocator does not give back.
fn flat(name: &str, samples: &[u64], table: &mut Table) {
    let third = (samples.len() / 3).max(1);
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let (first, last) = (median(&samples[..third]), median(&samples[samples.len() - third..]));
    let most = samples.iter().max().copied().unwrap_or(0);
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    table.line(&format!("| {name} | {} | {} | {} |", mb(first), mb(last), mb(most)));
    assert!(last < first + first / 4 + 4_000_000, "{name} grows from {first} to {last} bytes");
}
