//! Every counter and gauge is in the table of docs/counters.md, and can be read by its name there,
//! from a program and from the command line.

#[allow(dead_code, reason = "the texts of the requirements are for their own test")]
#[path = "requirements/catalogue.rs"]
mod catalogue;
mod common;

use common::{PATIENCE, Proc, run};
use rgroups::{Channel, Config, Events, Inspection, Message, block_on};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

/// Two stacks that together have every layer.
const STACKS: [&str; 2] = [
    "<UDP bind_addr='127.0.0.1' ip_ttl='0' mcast_port='@PORT'/><PING/><MERGE3/><FD_SOCK2/><FD_ALL3/>\
     <VERIFY_SUSPECT2/><DISCARD/><DELAY/><DROP/><SHUFFLE up='false'/>\
     <DUPL incoming_copies='0' outgoing_copies='0'/><BARRIER/><pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/>\
     <pbcast.GMS/><UFC/><MFC/><SEQUENCER/><FRAG2/><RSVP/><PRIMARY quorum='2'/><COUNTER/><LOCK/><pbcast.STATE_TRANSFER/>",
    "<TCP bind_addr='127.0.0.1' bind_port='@PORT'/>\
     <TCPPING initial_hosts='127.0.0.1[@PORT]' port_range='1'/><MERGE3/><FD_SOCK2/><FD_ALL3/>\
     <VERIFY_SUSPECT2/><NAKACK4/><UNICAST4/><pbcast.GMS/><FRAG2/><RSVP/>\
     <pbcast.STATE/>",
];

/// Layers that count what their siblings count.
const ALIKE: &[&str] =
    &["SHARED_LOOPBACK", "SHARED_LOOPBACK_PING", "MPING", "VERIFY_SUSPECT", "STATE_SOCK"];

/// What requirements without a counter, gauge or statistic speak of instead: the form of a message,
/// a setting, or a result of a call.
const WITHOUT: &[&str] = &[
    "S0-7", "S0-9", "S0-10", "S0-14", "S0-15", "S0-18", "S0-19", "S0-26", "S1-4", "S1-5", "S1-7",
    "S1-13", "S1-14", "S1-15", "S2-2", "S2-4", "S2-5", "S2-6", "S2-7", "S2-14", "S2-15", "S2-16",
    "S4-2", "S4-3", "S4-4", "S4-6", "S4-7", "S4-8", "S4-9", "S4-10",
];

const PAGE: &str = include_str!("../../../docs/counters.md");

/// A row: layers (or an operation), name, requirements.
struct Row {
    layers: Vec<&'static str>,
    name: &'static str,
    requirements: Vec<&'static str>,
}

/// The rows of the tables whose first column has this heading.
fn rows(heading: &str) -> Vec<Row> {
    let list = |cell: &'static str| -> Vec<&'static str> {
        cell.split(',').map(|w| w.trim().trim_matches('`')).filter(|w| !w.is_empty()).collect()
    };
    let mut rows = Vec::new();
    let mut inside = false;
    for line in PAGE.lines() {
        let cells: Vec<&'static str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            [first, ..] if first == heading => inside = true,
            [layers, name, _meaning, _unit, requirements]
                if inside && !layers.starts_with("--") =>
            {
                rows.push(Row {
                    layers: list(layers),
                    name: name.trim_matches('`'),
                    requirements: list(requirements),
                });
            }
            [_, _, _, _, _] => {}
            _ => inside = false,
        }
    }
    assert!(!rows.is_empty(), "docs/counters.md has a table of {heading}");
    rows
}

/// A command that runs, and a channel of this process, in one group; and where the command answers.
struct Pair {
    asked: Proc,
    port: u16,
    channel: Channel,
    events: Events,
}

fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    33_000 + (std::process::id() % 100) as u16 * 20 + NEXT.fetch_add(4, Ordering::Relaxed)
}

fn pair(stack: &str) -> Pair {
    let (first, port) = (port(), port());
    let text = format!("<config xmlns='urn:org:jgroups'>{stack}</config>");
    let text = text.replace("@PORT", &first.to_string());
    let file = std::env::temp_dir().join(format!("rgroups-counters-{first}.xml"));
    std::fs::write(&file, &text).expect("written");
    let transport = if stack.starts_with("<UDP") { "UDP" } else { "TCP" };
    let set = |what: &str| format!("-D{transport}.diag.{what}");
    let mut asked = Proc::start(&[
        "--json",
        "chat",
        "demo",
        "-n",
        "A",
        "--config",
        file.to_str().expect("a plain path"),
        &set("enabled=true"),
        &set(&format!("port={port}")),
    ]);
    asked.find(PATIENCE, |v| v["type"] == "view");
    let config = Config::from_xml(&text).expect("the stack of the command");
    let joined = block_on(Channel::builder(config).name("B").connect("demo"));
    let (channel, events) = joined.expect("joins");
    asked.view(PATIENCE, &["A", "B"]);
    let _ = std::fs::remove_file(file);
    Pair { asked, port, channel, events }
}

impl Pair {
    fn inspect(&self) -> Inspection {
        block_on(self.channel.inspect()).expect("it runs")
    }

    /// The entries of the answer to these questions.
    fn probe(&self, keys: &[&str]) -> Value {
        let port = self.port.to_string();
        let args = ["--json", "probe", "--bind", "127.0.0.1", "--port", &port];
        let all = [&args[..], keys].concat();
        let end = Instant::now() + PATIENCE;
        loop {
            let ended = run(&all);
            if ended.code == Some(0) {
                return ended.object("member")["entries"].clone();
            }
            assert!(Instant::now() < end, "{ended:?}");
        }
    }
}

/// The names in `{name=value, name=value}`.
fn names(entry: &Value) -> BTreeSet<String> {
    let text = entry.as_str().unwrap_or_default().trim_matches(['{', '}']);
    text.split(", ").filter_map(|pair| pair.split_once('=')).map(|(n, _)| n.to_owned()).collect()
}

#[test]
fn every_counter_is_in_the_table_and_every_row_is_a_counter() {
    let rows = rows("layer");
    let mut there = BTreeSet::new();
    for stack in STACKS {
        let pair = pair(stack);
        let inspected = pair.inspect().counters;
        let answer = pair.probe(&["jmx"]);
        for (layer, name, _) in inspected {
            let told = names(&answer[&layer]);
            assert!(told.contains(&name), "{layer}.{name} cannot be read with probe: {told:?}");
            there.insert((layer, name));
        }
    }
    let listed: BTreeSet<(String, String)> = rows
        .iter()
        .flat_map(|r| r.layers.iter().map(|l| ((*l).to_owned(), r.name.to_owned())))
        .collect();
    let missing: Vec<_> = there.difference(&listed).map(|(l, n)| format!("{l} {n}")).collect();
    assert!(missing.is_empty(), "not in docs/counters.md:\n{}", missing.join("\n"));
    let gone: Vec<_> = listed.difference(&there).map(|(l, n)| format!("{l} {n}")).collect();
    assert!(gone.is_empty(), "in docs/counters.md only:\n{}", gone.join("\n"));
}

#[test]
fn the_stacks_of_these_tests_have_every_layer() {
    let stacks = STACKS.concat().replace("pbcast.", "");
    let listed = run(&["--json", "config", "protocols"]);
    let names: Vec<String> = listed
        .objects()
        .iter()
        .flat_map(|o| o["protocols"].as_array().cloned().unwrap_or_default())
        .filter_map(|p| p["name"].as_str().map(str::to_owned))
        .collect();
    assert!(names.len() > 20, "{listed:?}");
    for name in names.iter().filter(|n| !ALIKE.contains(&n.as_str())) {
        let there = [" ", "/"].iter().any(|end| stacks.contains(&format!("<{name}{end}")));
        assert!(there, "no stack has {name}");
    }
}

#[test]
fn values_of_each_member_can_be_read_by_name() {
    let mut pair = pair(STACKS[0]);
    // So that each has an account and windows with the other.
    let to = pair.channel.view().members()[0];
    block_on(pair.channel.send(Message::unicast(to, "x"))).expect("sent");
    block_on(pair.channel.send(Message::multicast("x"))).expect("sent");
    pair.asked.find(PATIENCE, |v| v["type"] == "message");
    let _ = &mut pair.events;
    let inspection = format!("{:?}", pair.inspect());
    let rows = rows("operation");
    let asked: BTreeSet<String> = rows.iter().map(|r| format!("op={}", r.layers[0])).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let answer = pair.probe(&asked);
    for row in rows {
        let (operation, field) = (row.layers[0], row.name);
        let text = answer[operation].as_str().unwrap_or_default();
        let told = text.split([' ', '\n']).any(|word| word.starts_with(&format!("{field}=")));
        assert!(told, "{operation} says nothing of {field}: {text}");
        assert!(
            inspection.contains(&format!(" {field}: ")),
            "inspect has no {field}: {inspection}"
        );
    }
    // The same at once.
    let dump = pair.probe(&["dump"]);
    for entry in ["MFC", "EDGE", "CHANNEL", "DROPPED", "MFC.printCredits", "CHANNEL.printHeard"] {
        assert!(dump[entry].is_string(), "{entry} is missing in {dump}");
    }
}

#[test]
fn every_requirement_that_speaks_of_a_number_has_one() {
    let rows: Vec<Row> = rows("layer").into_iter().chain(rows("operation")).collect();
    let named = |id: &str| rows.iter().any(|r| r.requirements.contains(&id));
    for row in &rows {
        for id in &row.requirements {
            let known = catalogue::REQUIREMENTS.iter().any(|(known, _)| known == id);
            assert!(known, "there is no requirement {id}, named with {}", row.name);
        }
    }
    for (id, asks) in catalogue::REQUIREMENTS {
        assert_eq!(named(id), !WITHOUT.contains(id), "{id}: {asks}");
    }
}
