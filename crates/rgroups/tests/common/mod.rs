//! Clusters for tests: on loopback or in memory, each test in a network of its own.

#![allow(dead_code, reason = "each test file uses a part of it")]

use rgroups::{Address, Channel, Config, Event, Events, Message, View, block_on};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Udp,
    Tcp,
    InProcess,
}

/// A member and what it hears.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) ch: Channel,
    pub(crate) events: Events,
}

/// A configuration that reaches no other test.
pub(crate) fn config(kind: Kind) -> Config {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = std::process::id().wrapping_mul(61).wrapping_add(n * 7);
    match kind {
        Kind::Udp => Config::udp()
            .set("UDP", "bind_addr", "127.0.0.1")
            .and_then(|c| c.set("UDP", "ip_ttl", "0"))
            .and_then(|c| c.set("UDP", "mcast_port", &(20_000 + unique % 10_000).to_string()))
            .and_then(|c| c.set("PING", "join_wait", "300ms"))
            .expect("valid"),
        Kind::Tcp => {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
            let first: SocketAddr = free.expect("a free port");
            Config::tcp([first])
                .set("TCP", "bind_addr", "127.0.0.1")
                .and_then(|c| c.set("TCP", "bind_port", &first.port().to_string()))
                .and_then(|c| c.set("TCPPING", "port_range", "3"))
                .and_then(|c| c.set("TCPPING", "join_wait", "300ms"))
                .expect("valid")
        }
        Kind::InProcess => {
            Config::in_process().set("SHARED_LOOPBACK", "hub", &format!("test {n}")).expect("valid")
        }
    }
}

/// Members named A, B, C… that all have the view of all.
pub(crate) fn cluster(config: &Config, n: usize) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for name in ["A", "B", "C", "D"].iter().take(n) {
        members.push(join(config, name));
    }
    for m in &mut members {
        assert_eq!(await_view(m, |v| v.members().len() == n).members().len(), n);
    }
    members
}

pub(crate) fn join(config: &Config, name: &str) -> Member {
    let builder = Channel::builder(config.clone()).name(name);
    let (ch, events) = block_on(builder.connect("test")).expect("joins");
    Member { ch, events }
}

/// The next event, if there is one within this time.
pub(crate) fn next(events: &mut Events, within: Duration) -> Option<Event> {
    let end = Instant::now() + within;
    loop {
        match events.try_next() {
            Some(ev) => return Some(ev),
            None if Instant::now() >= end => return None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

pub(crate) fn await_view(m: &mut Member, wanted: impl Fn(&View) -> bool) -> View {
    loop {
        match next(&mut m.events, PATIENCE) {
            Some(Event::View(v)) if wanted(&v) => return v,
            Some(_) => {}
            None => panic!("{} has no such view, but {}", m.ch.name(), m.ch.describe(&m.ch.view())),
        }
    }
}

/// The next message, whatever else happens.
pub(crate) fn message(m: &mut Member) -> Message {
    loop {
        match next(&mut m.events, PATIENCE) {
            Some(Event::Message(msg)) => return msg,
            Some(_) => {}
            None => panic!("{} hears nothing", m.ch.name()),
        }
    }
}

/// So many messages, as (sender, number).
pub(crate) fn numbers(m: &mut Member, count: usize) -> Vec<(Address, u32)> {
    (0..count).map(|_| number(&message(m))).collect()
}

pub(crate) fn number(m: &Message) -> (Address, u32) {
    let bytes = m.bytes().expect("bytes");
    let head: [u8; 4] = bytes[..4].try_into().expect("a number");
    (m.source().expect("a source"), u32::from_be_bytes(head))
}

/// A message that begins with a number.
pub(crate) fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(4)];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes
}
