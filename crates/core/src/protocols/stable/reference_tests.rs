//! Reports and results that refer to the view: what they build on, and what loss does to them.

use super::*;
use crate::protocols::reliable::{Nakack2Config, ReliableMulticast};
use crate::testkit::{Solo, exchange, pass_time};
use crate::testkit_cluster::tagged;
use crate::wire::header::NakAckHeader;
use crate::wire::{
    self, Body, Changes, Decode, Encode, Object, SeqnoList, SeqnoPair, StablePayload,
};
use crate::{Rng, tag};
use alloc::boxed::Box;
use bytes::Bytes;
use core::cell::Cell;

fn member(n: u64, local: Uuid, v: &Arc<View>) -> Solo {
    member_that_reports(Duration::ZERO, n, local, v)
}

/// By volume, and every so often by time.
fn member_that_reports(every: Duration, n: u64, local: Uuid, v: &Arc<View>) -> Solo {
    let reliable = Nakack2Config { use_mcast_xmit: false, ..Nakack2Config::default() };
    let config = StableConfig { desired_avg_gossip: every, max_bytes: ByteSize(1000) };
    let layers: [Box<dyn Protocol>; 3] = [
        Box::new(ReliableMulticast::new(reliable)),
        Box::new(Stable::new(config)),
        Box::new(crate::testkit::Probe(Arc::default())),
    ];
    let mut s = Solo::topped(n, local, layers.into());
    s.install(Arc::clone(v));
    s.event_down(Event::BecomeServer);
    s
}

fn view(n: u64, members: &[Uuid]) -> Arc<View> {
    Arc::new(View::new(n, members[0], members))
}

fn group(n: u64) -> Vec<Solo> {
    let all: Vec<Uuid> = (1..=n).map(tagged).collect();
    let v = view(1, &all);
    (1..=n).map(|i| member(i, tagged(i), &v)).collect()
}

fn gauge(s: &Solo, name: &str) -> u64 {
    let mut found = None;
    s.stack.inspect(&mut |_, n, v| {
        if n == name {
            found = Some(v);
        }
    });
    found.expect("the gauge exists")
}

fn kind(m: &wire::Message) -> Option<StableKind> {
    match m.headers.get(ProtId::STABLE) {
        Some(Header::Stable(h)) => Some(h.kind),
        _ => None,
    }
}

fn payload(m: &wire::Message) -> Option<StablePayload> {
    StablePayload::from_bytes(m.body.as_bytes()?.clone()).ok()
}

/// Member 0 multicasts enough for everybody to report.
fn cast(g: &mut [Solo]) {
    g[0].send(wire::Message::multicast(Body::bytes(alloc::vec![7u8; 1000])), None);
}

/// What travelled under STABLE's header while `cast` was agreed on.
fn a_round(g: &mut [Solo]) -> Vec<wire::Message> {
    let mut seen = Vec::new();
    cast(g);
    exchange(g, |_, _, m| {
        if kind(m).is_some() {
            seen.push(m.clone());
        }
        false
    });
    seen
}

fn said(v: &View, by: Uuid, kind: StableKind, bytes: Bytes) -> wire::Message {
    let mut m = form::by_reference(v.coordinator(), kind, v, bytes);
    m.src = Some(by.into());
    m
}

fn pairs(list: &[(i64, i64)]) -> Vec<SeqnoPair> {
    list.iter()
        .map(|(delivered, received)| SeqnoPair { delivered: *delivered, received: *received })
        .collect()
}

#[test]
fn the_first_report_of_a_view_is_whole_and_later_ones_say_what_changed() {
    let mut g = group(3);
    a_round(&mut g);
    assert!(g[1..].iter().all(|m| gauge(m, "whole_reports_sent") == 1));
    let second = a_round(&mut g);
    assert!(g[1..].iter().all(|m| gauge(m, "delta_reports_sent") == 1));
    let of_report = |m: &wire::Message| match payload(m) {
        Some(StablePayload::Report(c)) => Some((c.base(), c.changed())),
        _ => None,
    };
    let reports: Vec<_> = second.iter().filter_map(of_report).collect();
    assert_eq!(reports, [(1, 1), (1, 1)], "both build on vector 1, and one sender was active");
    assert!(g.iter().all(|m| gauge(m, "num_kept_messages") == 0));
}

#[test]
fn everything_goes_to_one_member_without_a_number() {
    let mut g = group(3);
    for m in a_round(&mut g) {
        assert!(m.dest.is_some() && m.has(Flags::NO_RELIABILITY), "{m:?}");
        assert!(payload(&m).is_some());
    }
}

#[test]
fn a_view_with_one_member_of_jgroups_uses_its_form() {
    let java = Uuid::new(0x4000, 9);
    assert!(!tag::refers_to_views(java));
    let all = [tagged(1), tagged(2), java];
    let v = view(1, &all);
    let mut a = member(1, tagged(1), &v);
    let mut b = member(2, tagged(2), &v);
    a.send(wire::Message::multicast(Body::bytes(alloc::vec![7u8; 1000])), None);
    for mut m in a.sent() {
        m.src = Some(tagged(1).into());
        b.arrive(1, m);
    }
    let sent = b.sent();
    let report = sent.iter().find(|m| kind(m).is_some()).expect("it reports");
    assert!(matches!(&report.body, Body::Object(Some(o)) if matches!(**o, Object::Digest { .. })));
}

#[test]
fn who_missed_the_last_vector_builds_on_the_one_before_and_is_told_on_that() {
    let mut g = group(3);
    a_round(&mut g);
    let (third, second_at_third) = (tagged(3), Cell::new(0));
    cast(&mut g);
    exchange(&mut g, |_, to, m| {
        let lost = to == third && kind(m) == Some(StableKind::Stability);
        second_at_third.set(second_at_third.get() + u32::from(lost));
        lost
    });
    assert_eq!(second_at_third.get(), 1);
    let seen = a_round(&mut g);
    let to_third = seen.iter().filter(|m| m.dest == Some(third.into()));
    let told: Vec<_> = to_third
        .filter_map(|m| match payload(m)? {
            StablePayload::Vector { number, changes } => Some((number, changes.base())),
            StablePayload::Report(_) => None,
        })
        .collect();
    assert_eq!(told, [(3, 1)]);
    assert_eq!(gauge(&g[0], "stable_discarded_unknown_base"), 0);
    assert_eq!(gauge(&g[2], "num_kept_messages"), 0);
}

#[test]
fn who_missed_two_vectors_is_told_the_last_and_goes_on_from_there() {
    let mut g = group(3);
    a_round(&mut g);
    let third = tagged(3);
    for _ in 0..2 {
        cast(&mut g);
        exchange(&mut g, |_, to, m| to == third && kind(m) == Some(StableKind::Stability));
    }
    a_round(&mut g);
    assert_eq!(gauge(&g[0], "stable_discarded_unknown_base"), 1);
    pass_time(&mut g, Duration::from_secs(3), |_, _, _| false);
    assert!(g.iter().all(|m| gauge(m, "num_kept_messages") == 0));
}

#[test]
fn no_loss_makes_later_messages_wrong() {
    for seed in 0..20 {
        let v = view(1, &[1, 2, 3, 4].map(tagged));
        let every = Duration::from_secs(5);
        let mut g: Vec<Solo> =
            (1..=4).map(|i| member_that_reports(every, i, tagged(i), &v)).collect();
        let mut rng = Rng::new(seed);
        for _ in 0..40 {
            let by = rng.below(4) as usize;
            let m = wire::Message::multicast(Body::bytes(alloc::vec![7u8; 1000]));
            g[by].send(m, None);
            pass_time(&mut g, Duration::from_millis(700), |_, _, m| {
                kind(m).is_some() && rng.below(3) == 0
            });
        }
        for m in &g {
            assert_eq!(gauge(m, "stable_discarded_malformed"), 0, "seed {seed}");
        }
        pass_time(&mut g, Duration::from_secs(60), |_, _, _| false);
        let kept: Vec<u64> = g.iter().map(|m| gauge(m, "num_kept_messages")).collect();
        assert_eq!(kept, [0; 4], "seed {seed}");
    }
}

#[test]
fn what_fits_no_view_or_is_of_later_is_counted_and_nothing_else() {
    let mut g = group(3);
    let v = view(1, &[tagged(1), tagged(2), tagged(3)]);
    let a = &mut g[0];
    let report =
        |list: &[(i64, i64)]| StablePayload::Report(Changes::full(&pairs(list))).to_bytes();
    let gossip = |bytes| said(&v, tagged(2), StableKind::Gossip, bytes);
    a.arrive(2, gossip(report(&[(0, 0), (0, 0)])));
    a.arrive(2, gossip(Bytes::from_static(&[2, 0])));
    assert_eq!(gauge(a, "stable_discarded_malformed"), 2);
    a.arrive(2, gossip(Bytes::from_static(&[9, 1, 2, 3])));
    assert_eq!(gauge(a, "stable_discarded_unknown_payload"), 1);
    let unknown = view(2, &[tagged(1), tagged(2), tagged(3)]);
    let of_another = report(&[(0, 0), (0, 0), (0, 0)]);
    a.arrive(2, said(&unknown, tagged(2), StableKind::Gossip, of_another.clone()));
    assert_eq!(gauge(a, "stable_discarded_view_mismatch"), 1);
    assert_eq!(gauge(a, "num_votes"), 0);
    a.arrive(2, gossip(of_another));
    assert_eq!(gauge(a, "num_votes"), 1);
}

#[test]
fn who_asks_for_what_is_stable_is_told_the_vector_now_and_then() {
    let mut g = group(3);
    a_round(&mut g);
    let ask = || {
        let list: SeqnoList = [1].into_iter().collect();
        let header = Header::NakAck(NakAckHeader::XmitReq(Some(tagged(1).into())));
        let body = Body::object(Object::SeqnoList(list));
        let mut m = wire::Message::unicast(tagged(1), body).with_header(ProtId::NAKACK2, header);
        m.src = Some(tagged(2).into());
        m
    };
    let mut answers = Vec::new();
    for _ in 0..100 {
        g[0].arrive(2, ask());
        answers.extend(g[0].sent());
    }
    assert_eq!(answers.len(), 1, "within half a second one answer");
    assert!(matches!(payload(&answers[0]), Some(StablePayload::Vector { number: 1, .. })));
    assert_eq!(gauge(&g[0], "asked_for_stable"), 100);
}

#[test]
fn only_the_coordinator_keeps_a_digest() {
    let mut g = group(3);
    for _ in 0..3 {
        a_round(&mut g);
    }
    let kept = |name| g.iter().map(|m| gauge(m, name)).collect::<Vec<_>>();
    assert_eq!(kept("retained_digests"), [1, 0, 0]);
    assert_eq!(kept("retained_vectors"), [2, 1, 1]);
}
