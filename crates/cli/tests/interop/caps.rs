//! Members whose credits are not equal.

use crate::peer::Peer;
use crate::world::World;
use std::time::{Duration, Instant};

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

/// JGroups never learns when its sender runs out; ours asks in time.
#[test]
fn our_sender_with_less_credit_than_the_java_receiver_gives_does_not_stall() {
    for transport in ["udp", "tcp"] {
        let Some((java, rust)) = pair(transport, 4_000_000, 2_000_000) else { return };
        load(&rust, &java, 1);
        let began = Instant::now();
        for round in 2..5 {
            load(&rust, &java, round);
        }
        println!("{transport} {:?}", began.elapsed());
        println!("{:?} {:?}", java.answers("credits"), rust.answers("credits"));
    }
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
