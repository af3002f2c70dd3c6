//! Stability that is lost stops the senders instead of filling memory (BEHAVIOURS B01).

use super::*;
use crate::SendRefusal;
use crate::event::{WindowGauge, WindowKind};
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::protocols::reliable::{
    Nakack2Config, ReliableMulticast, ReliableUnicast, Unicast3Config,
};
use crate::testkit_cluster::{Cluster, tagged};
use crate::wire::{self, Body};
use alloc::boxed::Box;

const ROUND: u64 = 20_000;
const CREDITS: u64 = 20_000;
const OWN_LIMIT: u64 = 3 * ROUND + 2 * CREDITS;
/// INVARIANTS F1 for three members.
const CEILING: u64 = 4 * ROUND * 4 + CREDITS * 3;

/// Members 0, 1 and 2, of which 0 is coordinator.
fn trio() -> Cluster {
    let stable =
        StableConfig { desired_avg_gossip: Duration::from_secs(5), max_bytes: ByteSize(ROUND) };
    let reliable = Nakack2Config {
        own_limit: ByteSize(OWN_LIMIT),
        retain_limit: ByteSize(2 * ROUND + CREDITS),
        ..Nakack2Config::default()
    };
    let below = || -> Vec<Box<dyn Protocol>> {
        Vec::from([
            Box::new(ReliableMulticast::new(reliable.clone())) as Box<dyn Protocol>,
            Box::new(ReliableUnicast::new(Unicast3Config::default())),
            Box::new(Stable::new(stable.clone())),
        ])
    };
    let mfc = MfcConfig {
        max_credits: ByteSize(CREDITS),
        max_blocked: ByteSize(10_000),
        ..MfcConfig::default()
    };
    let ids = (1..=3).map(tagged).collect();
    let mut c = Cluster::over(&below, ids, &mfc, &UfcConfig::default(), 60_000);
    for m in &mut c.members {
        m.event_down(Event::BecomeServer);
    }
    c
}

fn kind(m: &wire::Message) -> Option<StableKind> {
    match m.headers.get(ProtId::STABLE) {
        Some(Header::Stable(h)) => Some(h.kind),
        _ => None,
    }
}

/// The network loses every result, and every second report.
fn lose_stability(c: &mut Cluster) {
    let mut reports = 0u32;
    c.lose = Box::new(move |_, _, m| match kind(m) {
        Some(StableKind::Stability) => true,
        Some(StableKind::Gossip) => {
            reports += 1;
            reports.is_multiple_of(2)
        }
        None => false,
    });
}

/// Bytes of multicasts that `i` holds.
fn held(c: &Cluster, i: usize) -> u64 {
    let answers = c.members[i].ask(&Query::Windows);
    let Some(Answer::Windows(list)) = answers else { panic!("the windows answer") };
    let multicast = |g: &&WindowGauge| g.kind == WindowKind::Multicast;
    list.iter().filter(multicast).map(|g| g.bytes).sum()
}

/// Everybody sends 300 multicasts of 1000 bytes, and stability is lost for a minute.
fn a_bad_minute(c: &mut Cluster) -> u64 {
    lose_stability(c);
    let mut most = 0;
    for _ in 0..300 {
        for i in 0..3 {
            c.cast(i, 1000, i as u8);
        }
        c.run(Duration::from_millis(200));
        most = (0..3).map(|i| held(c, i)).max().unwrap_or(0).max(most);
    }
    c.lose = Box::new(|_, _, _| false);
    most
}

#[test]
fn while_stability_is_lost_memory_stays_below_its_ceiling() {
    let mut c = trio();
    let most = a_bad_minute(&mut c);
    assert!(most <= CEILING, "{most} bytes are above {CEILING}");
}

#[test]
fn when_stability_is_back_everything_is_delivered_and_nothing_is_held() {
    let mut c = trio();
    a_bad_minute(&mut c);
    c.run(Duration::from_secs(20));
    assert_eq!([0, 1, 2].map(|i| c.delivered[i].len()), [900; 3]);
    assert_eq!([0, 1, 2].map(|i| held(&c, i)), [0; 3]);
}

#[test]
fn a_member_that_never_votes_stops_the_sender_and_is_named() {
    let mut c = trio();
    let hung = c.id(2);
    c.lose = Box::new(move |from, _, m| from == hung && kind(m).is_some());
    let calls: Vec<_> = (0..200).map(|_| c.cast(0, 1000, 1)).collect();
    c.run(Duration::from_secs(3));
    let waiting = calls.iter().filter(|op| !c.sent(0, **op)).count();
    assert_eq!(waiting, 200 - (OWN_LIMIT / 1000) as usize);
    assert!(!c.blocked[0].is_empty());
    assert!(c.blocked[0].iter().all(|(_, by)| *by == [hung]), "{:?}", c.blocked[0]);
}

#[test]
fn messages_exempt_from_flow_control_wait_too() {
    let mut c = trio();
    let hung = c.id(2);
    c.lose = Box::new(move |from, _, m| from == hung && kind(m).is_some());
    let exempt = |c: &mut Cluster| {
        let m = wire::Message::multicast(Body::bytes(alloc::vec![0; 1000]));
        c.send(0, m.with_flags(Flags::NO_FC))
    };
    let calls: Vec<_> = (0..200).map(|_| exempt(&mut c)).collect();
    c.run(Duration::from_secs(3));
    assert_eq!(calls.iter().filter(|op| c.sent(0, **op)).count() as u64, OWN_LIMIT / 1000);
    c.lose = Box::new(|_, _, _| false);
    c.run(Duration::from_secs(60));
    assert!(calls.iter().all(|op| c.sent(0, *op)));
}

#[test]
fn trying_while_the_own_window_is_full_would_block() {
    let mut c = trio();
    let hung = c.id(2);
    c.lose = Box::new(move |from, _, m| from == hung && kind(m).is_some());
    for _ in 0..200 {
        c.cast(0, 1000, 1);
    }
    c.run(Duration::from_secs(1));
    let m = wire::Message::multicast(Body::bytes("x"));
    let op = c.send_how(0, m, |s| s.try_only = true);
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::WouldBlock { by: [hung].into() }));
}

#[test]
fn small_messages_fill_the_own_window_and_are_reported_alike() {
    let mut c = trio();
    for _ in 0..4000 {
        c.cast(1, 1, 1);
    }
    c.run(Duration::from_secs(3));
    assert_eq!(c.delivered[2].len(), 4000);
}
