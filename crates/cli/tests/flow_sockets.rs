//! Flow control between processes over real sockets: with a member that takes a megabyte a second,
//! with one that reads nothing, and over connections that break. What every process held at most is
//! printed (`--nocapture`) and within what the configuration allows.
//!
//! Usually a few megabytes with little credit. `RGROUPS_FLOW_MB=60` sends sixty with the credit of the
//! presets, which shows that memory does not depend on how much is sent.

mod common;

use common::{Ended, Net, PATIENCE, Proc, names};
use rgroups::{Channel, Config, Event, Message, block_on};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

const MB: u64 = 1_000_000;
/// What the slow member takes in a second.
const RATE: u64 = MB;
const MESSAGE: u64 = 10_000;
/// The program itself, its threads and buffers.
const BASE: u64 = 24 * MB;
/// STABLE.max_bytes in both presets.
const STABLE_BYTES: u64 = 4 * MB;

/// How much to send, and with how much credit.
struct Load {
    bytes: u64,
    credits: u64,
    /// The settings for it.
    settings: Vec<String>,
}

impl Load {
    fn new(net: &Net) -> Self {
        let wish = std::env::var("RGROUPS_FLOW_MB").ok();
        match wish.map(|mb| mb.parse::<u64>().expect("RGROUPS_FLOW_MB is a number")) {
            Some(mb) => {
                let credits = if net.transport == "udp" { 4 * MB } else { 2 * MB };
                Load { bytes: mb * MB, credits, settings: Vec::new() }
            }
            None => {
                let credits = MB / 5;
                let of = |p: &str| format!("-D{p}.max_credits={credits}");
                Load { bytes: 2 * MB, credits, settings: ["MFC", "UFC"].map(of).into() }
            }
        }
    }

    fn messages(&self) -> u64 {
        self.bytes / MESSAGE
    }

    fn start(&self, net: &Net, command: &str, name: &str, how: &[&str]) -> Proc {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        net.start(command, name, &[how, &settings[..]].concat())
    }

    /// A member that receives all of it.
    fn receiver(&self, net: &Net, name: &str, how: &[&str]) -> Proc {
        let count = self.messages().to_string();
        self.start(net, "recv", name, &[how, &["--count", &count]].concat())
    }

    /// The member that sends it, when there are so many.
    fn sender(&self, net: &Net, members: usize, how: &[&str]) -> Proc {
        let (members, count) = (members.to_string(), self.messages().to_string());
        let size = MESSAGE.to_string();
        let load = ["--members", &members, "--count", &count, "--size", &size];
        self.start(net, "send", "A", &[&load[..], &["--confirm", "600s"], how].concat())
    }

    fn patience(&self) -> Duration {
        PATIENCE * 2 + Duration::from_secs(3 * self.bytes / RATE)
    }

    /// How long it takes the slow member at least, once all credit is used.
    fn least(&self) -> f64 {
        (self.bytes - self.credits) as f64 / RATE as f64
    }

    /// What a member may hold: credit that it granted and was granted in both pools, and what is kept
    /// until it is stable, for each member (DECISIONS of the budget: credits come on top of it).
    fn allowed(&self, members: u64) -> u64 {
        BASE + MESSAGE + members * (2 * self.credits + STABLE_BYTES)
    }

    /// Everybody has all of it, and nobody held more than it may.
    fn check(&self, net: &Net, members: u64, ended: Vec<(&str, Ended)>) -> Vec<Value> {
        let allowed = self.allowed(members);
        let mut all = Vec::new();
        for (name, e) in ended {
            assert_eq!(e.code, Some(0), "{name}: {}", e.stderr);
            let s = e.object("summary");
            assert_eq!(s["bytes"], self.bytes, "{name}");
            let peak = s["peak_memory"].as_u64().unwrap_or(0);
            println!(
                "{} {name}: {} MB in {:.1} s, peak {:.1} MB of {:.1} MB allowed",
                net.transport,
                self.bytes / MB,
                s["seconds"].as_f64().unwrap_or(0.0),
                peak as f64 / MB as f64,
                allowed as f64 / MB as f64
            );
            assert!(peak <= allowed, "{name}: {peak} bytes, allowed {allowed}");
            all.push(s);
        }
        all
    }
}

fn seconds(summary: &Value) -> f64 {
    summary["seconds"].as_f64().expect("a number")
}

/// S0-1 and S0-15: one receiver, unicasts.
fn one_receiver(net: &Net) {
    let load = Load::new(net);
    let mut b = load.receiver(net, "B", &["--summary", "--rate", &RATE.to_string()]);
    b.view(PATIENCE, &["B"]);
    let a = load.sender(net, 2, &["--to", "B"]);
    let a = a.end(load.patience());
    let all = load.check(net, 2, vec![("A", a), ("B", b.end(PATIENCE))]);
    assert!(seconds(&all[0]) >= load.least(), "A went at B's pace");
}

#[test]
fn udp_a_sender_keeps_the_pace_of_its_receiver() {
    one_receiver(&Net::udp());
}

#[test]
fn tcp_a_sender_keeps_the_pace_of_its_receiver() {
    one_receiver(&Net::tcp());
}

/// S0-16 and S0-18: the fast members are given nothing earlier than the slow one's credit allows.
fn a_group(net: &Net) {
    let load = Load::new(net);
    let mut b = load.receiver(net, "B", &["--summary"]);
    b.view(PATIENCE, &["B"]);
    let c = load.receiver(net, "C", &["--summary"]);
    let d = load.receiver(net, "D", &["--summary", "--rate", &RATE.to_string()]);
    let a = load.sender(net, 4, &[]).end(load.patience());
    let [b, c, d] = [b, c, d].map(|p| p.end(load.patience()));
    let all = load.check(net, 4, vec![("A", a), ("B", b), ("C", c), ("D", d)]);
    for (name, summary) in ["B", "C"].iter().zip(&all[1..]) {
        // The clocks of the two begin with their first messages, a moment apart.
        let took = seconds(summary) + 0.5;
        assert!(took >= load.least(), "{name} had all of it after {took} s");
    }
}

#[test]
fn udp_a_group_keeps_the_pace_of_its_slowest_member() {
    a_group(&Net::udp());
}

#[test]
fn tcp_a_group_keeps_the_pace_of_its_slowest_member() {
    a_group(&Net::tcp());
}

/// S0-26: D stops reading its sockets, which hold less than the credit. B and C still get all that
/// there is credit for, and the rest once D goes on.
fn a_member_that_reads_nothing(net: &Net) {
    let mut load = Load::new(net);
    let is_tcp = net.transport == "tcp";
    if is_tcp {
        load.settings.extend(["send", "recv"].map(|s| format!("-DTCP.{s}_buf_size=32k")));
    }
    let mut b = load.receiver(net, "B", &[]);
    b.view(PATIENCE, &["B"]);
    let mut c = load.receiver(net, "C", &[]);
    let mut d = load.receiver(net, "D", &["--summary"]);
    d.find(PATIENCE, |v| v["type"] == "view" && names(v).len() == 3);
    d.signal("STOP");
    let mut a = load.sender(net, 3, &[]);
    let mut got = [0u64; 2];
    for (n, member) in [&mut b, &mut c].into_iter().enumerate() {
        while got[n] < load.credits / MESSAGE {
            member.find(PATIENCE, |v| v["type"] == "message");
            got[n] += 1;
        }
    }
    assert!(a.is_running(), "the rest waits for D");
    d.signal("CONT");
    let a = a.end(load.patience());
    let d = d.end(load.patience());
    load.check(net, 4, vec![("A", a), ("D", d)]);
    for (name, p) in [("B", b), ("C", c)] {
        // It printed every message, and no summary.
        let got = p.end(load.patience()).objects();
        let read = got.iter().filter(|v| v["type"] == "message").count() as u64;
        assert_eq!(read, load.messages() - load.credits / MESSAGE, "{name} has the rest");
    }
}

#[test]
fn udp_a_member_that_reads_nothing_holds_back_only_what_has_no_credit() {
    a_member_that_reads_nothing(&Net::udp());
}

#[test]
fn tcp_a_member_that_reads_nothing_holds_back_only_what_has_no_credit() {
    a_member_that_reads_nothing(&Net::tcp());
}

/// S0-20: the connection between A and B is broken fifty times in a stream of multicasts.
#[test]
fn tcp_connections_that_break_lose_nothing() {
    let full = std::env::var_os("RGROUPS_FLOW_MB").is_some();
    let messages: u32 = if full { 10_000 } else { 1_000 };
    let place = |l: &TcpListener| l.local_addr().expect("bound");
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let places: [SocketAddr; 2] = [place(&listeners[0]), place(&listeners[1])];
    drop(listeners);
    let join = |name: &str, at: SocketAddr| {
        let config = Config::tcp(places)
            .set("TCP", "bind_addr", "127.0.0.1")
            .and_then(|c| c.set("TCP", "bind_port", &at.port().to_string()))
            .and_then(|c| c.set("TCPPING", "port_range", "0"))
            .expect("valid");
        block_on(Channel::builder(config).name(name).connect("breaks")).expect("joined")
    };
    let (b, mut of_b) = join("B", places[1]);
    let (a, mut of_a) = join("A", places[0]);
    let reads_own = std::thread::spawn(move || while block_on(of_a.next()).is_some() {});
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        while got.len() < messages as usize {
            match block_on(of_b.next()) {
                Some(Event::Message(m)) => got.push(m.bytes().expect("bytes").to_vec()),
                Some(_) => {}
                None => break,
            }
        }
        got
    });
    for i in 0..messages {
        block_on(a.send(Message::multicast(i.to_be_bytes().to_vec()))).expect("sent");
        if i % (messages / 50) == 7 {
            // What is cut off falls silent; healed, its streams have gaps, and break.
            a.admin().block([places[1]]);
            std::thread::sleep(Duration::from_millis(1));
            a.admin().heal();
        }
    }
    let got = reader.join().expect("no panic");
    let expected: Vec<Vec<u8>> = (0..messages).map(|i| i.to_be_bytes().to_vec()).collect();
    assert!(got == expected, "all {messages}, in order, once: {}", got.len());
    block_on(b.close()).ok();
    block_on(a.close()).ok();
    reads_own.join().expect("no panic");
}
