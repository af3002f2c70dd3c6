//! Members whose credits are not equal.

use crate::peer::Peer;
use crate::world::World;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a sender waits before it asks (MFC and UFC: `max_block_time`).
const MAX_BLOCK_TIME: Duration = Duration::from_millis(500);

const LOAD: Duration = Duration::from_secs(120);

/// A load of many rounds of credits: 20 MB as multicasts and 20 MB as unicasts.
const MESSAGES: u64 = 5_000;
const SIZE: u64 = 4_000;

/// JGroups waits for `max_block_time` (500 ms) before it asks for credit. A receiver that grants
/// later than its sender runs out makes it wait once, and then knows better.
#[test]
fn a_java_sender_with_less_credit_than_our_receiver_gives_waits_at_first_only() {
    for transport in ["udp", "tcp"] {
        let Some((java, rust)) = pair(transport, 2_000_000, 4_000_000) else { return };
        load(&java, &rust, 1);
        let before = requests(&java);
        for round in 2..5 {
            load(&java, &rust, round);
        }
        assert_eq!(requests(&java), before, "the sender had to ask again");
    }
}

/// JGroups never learns when its sender runs out, and grants what it is asked for; ours asks as soon
/// as it blocks.
#[test]
fn our_sender_with_less_credit_than_the_java_receiver_gives_waits_at_first_only() {
    for transport in ["udp", "tcp"] {
        let Some((java, rust)) = pair(transport, 4_000_000, 2_000_000) else { return };
        load(&rust, &java, 1);
        let before = waits(&rust);
        for round in 2..5 {
            load(&rust, &java, round);
        }
        for (protocol, (number, took)) in waits(&rust) {
            let (first_number, first_took) = before[&protocol];
            let average = (took - first_took) / (number - first_number).max(1);
            let average = Duration::from_micros(average);
            println!("{transport}: {protocol} waited {average:?} on average, {number} times");
            assert!(
                average < MAX_BLOCK_TIME * 4 / 5,
                "{protocol} waits for {average:?} on average"
            );
        }
    }
}

/// Protocol; how often it waited for credit, and how long in microseconds.
fn waits(rust: &Peer) -> BTreeMap<String, (u64, u64)> {
    let answer = rust.answers("credits");
    let lines = answer.iter().filter_map(|l| l.strip_prefix("credits "));
    lines
        .map(|l| {
            let w: Vec<&str> = l.split(' ').collect();
            let number = |w: &str| w.parse::<u64>().expect("a number");
            (w[0].to_owned(), (number(w[1]), number(w[1]) * number(w[2])))
        })
        .collect()
}

/// A Java and a Rust member with these credits.
fn pair(transport: &'static str, java: u64, rust: u64) -> Option<(Peer, Peer)> {
    let world = World::new(transport)?;
    let caps = |n: u64| ["MFC", "UFC"].map(|p| format!("{p}.max_credits={n}"));
    let [mfc, ufc] = caps(java);
    let java = world.stock_java("J", 0, &[&mfc, &ufc]);
    java.hears("^joined");
    let [mfc, ufc] = caps(rust);
    let rust = world.stock_rust("R", 1, &[&mfc, &ufc]);
    rust.hears("^view 1 J,R$");
    java.hears("^view 1 J,R$");
    Some((java, rust))
}

fn load(from: &Peer, to: &Peer, round: u64) {
    for kind in ["multicast", "unicast"] {
        to.told(&format!("expect {kind} {} {}", from.name, round * MESSAGES));
    }
    from.told(&format!("mcastn {MESSAGES} {SIZE}"));
    from.told(&format!("ucastn {} {MESSAGES} {SIZE}", to.name));
    for kind in ["multicast", "unicast"] {
        to.has_heard(&format!("^got {kind} {} {} ", from.name, round * MESSAGES), LOAD);
    }
}

/// How often it asked for credit, in both protocols.
fn requests(java: &Peer) -> Vec<String> {
    java.answers("credits").into_iter().filter(|l| l.starts_with("credits ")).collect()
}
