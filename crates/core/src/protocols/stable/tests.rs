//! Agreement on stable messages: votes, views, volume, time, suspension.

use super::*;
use crate::Digest;
use crate::testkit::{Solo, exchange, id, pass_time, view};
use crate::wire::{self, Body, SeqnoPair};
use alloc::boxed::Box;

use crate::protocols::reliable::{Nakack2Config, ReliableMulticast};

fn member_of(me: u64, v: &Arc<View>, config: &StableConfig) -> Solo {
    let reliable = Nakack2Config { use_mcast_xmit: false, ..Nakack2Config::default() };
    let layers: [Box<dyn Protocol>; 2] =
        [Box::new(ReliableMulticast::new(reliable)), Box::new(Stable::new(config.clone()))];
    let mut s = Solo::new(me, layers.into());
    s.install(Arc::clone(v));
    s.event_down(Event::BecomeServer);
    s
}

fn group(all: &[u64], config: &StableConfig) -> Vec<Solo> {
    let v = view(1, all);
    all.iter().map(|m| member_of(*m, &v, config)).collect()
}

fn volume(bytes: u64) -> StableConfig {
    StableConfig { desired_avg_gossip: Duration::ZERO, max_bytes: ByteSize(bytes) }
}

fn payload(bytes: usize) -> wire::Message {
    wire::Message::multicast(Body::bytes(alloc::vec![7u8; bytes]))
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

fn header(m: &wire::Message) -> Option<&StableHeader> {
    match m.headers.get(ProtId::STABLE) {
        Some(Header::Stable(h)) => Some(h),
        _ => None,
    }
}

fn digest(list: &[(u64, i64, i64)]) -> Digest {
    let pair = |(m, delivered, received): &(u64, i64, i64)| {
        (id(*m), SeqnoPair { delivered: *delivered, received: *received })
    };
    list.iter().map(pair).collect()
}

fn vote(v: &View, d: &[(u64, i64, i64)]) -> wire::Message {
    let flags = Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC;
    let mut m = form::named(StableKind::Gossip, v, &digest(d)).with_flags(flags);
    m.dest = Some(v.coordinator().into());
    m
}

/// The last stability that went down, below the layers.
fn agreed(s: &Solo) -> Option<Digest> {
    let seen = s.below.lock().expect("no test panics while it holds this");
    seen.iter().rev().find_map(|(_, e)| match e {
        Event::Stable(d) => Some(d.clone()),
        _ => None,
    })
}

#[test]
fn after_max_bytes_everybody_reports_once_and_every_window_is_emptied() {
    let mut g = group(&[1, 2, 3], &volume(400_000));
    for _ in 0..4 {
        g[0].send(payload(100_000), None);
    }
    exchange(&mut g, |_, _, _| false);
    for m in &g {
        assert_eq!(gauge(m, "stable_sent"), 1);
        assert_eq!(gauge(m, "size_of_all_messages"), 0);
        assert_eq!(gauge(m, "bytes"), 0);
    }
}

#[test]
fn below_max_bytes_nobody_reports() {
    let mut g = group(&[1, 2], &volume(400_001));
    for _ in 0..4 {
        g[0].send(payload(100_000), None);
    }
    exchange(&mut g, |_, _, _| false);
    assert!(g.iter().all(|m| gauge(m, "stable_sent") == 0));
}

#[test]
fn a_sender_without_loopback_counts_its_own_bytes() {
    let mut g = group(&[1, 2], &volume(400_000));
    for _ in 0..4 {
        let mut m = payload(100_000);
        m.hints |= Hints::DONT_LOOPBACK;
        g[0].send(m, None);
    }
    pass_time(&mut g, Duration::ZERO, |_, _, _| false);
    assert!(g.iter().all(|m| gauge(m, "size_of_all_messages") == 0));
}

#[test]
fn the_least_delivered_is_stable_and_the_highest_received_is_told() {
    let v = view(1, &[1, 2, 3]);
    let mut a = member_of(1, &v, &volume(1));
    a.send(payload(1), None);
    a.arrive(2, vote(&v, &[(1, 8, 12), (2, 0, 0), (3, 5, 5)]));
    a.arrive(3, vote(&v, &[(1, 9, 9), (2, 0, 3), (3, 5, 5)]));
    let d = agreed(&a).expect("all have voted");
    assert_eq!(d, digest(&[(1, 1, 12), (2, 0, 3), (3, 0, 5)]));
    let sent = a.sent();
    let result = sent.iter().find(|m| header(m).is_some()).expect("it is multicast");
    assert_eq!((result.flags.bits(), result.dest.is_none()), (0x55, true));
}

#[test]
fn votes_of_another_view_of_strangers_and_of_those_who_voted_are_ignored() {
    let v = view(1, &[1, 2]);
    let mut a = member_of(1, &v, &volume(0));
    let d = [(1, 0, 0), (2, 0, 0)];
    a.arrive(2, vote(&view(2, &[1, 2]), &d));
    let other_creator = View::new(1, id(2), [id(1), id(2)]);
    a.arrive(2, vote(&other_creator, &d));
    assert_eq!(gauge(&a, "stable_discarded_view_mismatch"), 2);
    a.arrive(9, vote(&v, &d));
    a.arrive(2, vote(&v, &[(1, 0, 0)]));
    assert_eq!(gauge(&a, "num_votes"), 0);
    a.arrive(2, vote(&v, &d));
    assert_eq!(gauge(&a, "num_votes"), 1);
    assert!(agreed(&a).is_none());
}

#[test]
fn a_repeated_vote_does_not_count_twice_but_makes_the_coordinator_vote() {
    let v = view(1, &[1, 2, 3]);
    let mut a = member_of(1, &v, &volume(0));
    let d = [(1, 0, 0), (2, 0, 0), (3, 0, 0)];
    a.arrive(2, vote(&v, &d));
    a.arrive(2, vote(&v, &d));
    assert_eq!(gauge(&a, "num_votes"), 2);
    assert!(agreed(&a).is_none());
}

#[test]
fn whoever_repeats_a_vote_is_sent_the_last_result_again() {
    let v = view(1, &[1, 2]);
    let mut a = member_of(1, &v, &volume(1));
    a.arrive(2, vote(&v, &[(1, 0, 0), (2, 0, 0)]));
    a.send(payload(1), None);
    a.sent();
    a.arrive(2, vote(&v, &[(1, 1, 1), (2, 0, 0)]));
    a.run(RESEND_PAUSE);
    a.sent();
    a.arrive(2, vote(&v, &[(1, 1, 1), (2, 0, 0)]));
    let sent = a.sent();
    let again = sent.iter().find(|m| header(m).is_some()).expect("the result goes out again");
    assert_eq!(again.dest, Some(id(2).into()));
}

#[test]
fn a_result_counts_only_from_the_coordinator_of_this_view() {
    let v = view(1, &[1, 2, 3]);
    let mut b = member_of(2, &v, &volume(0));
    let d = digest(&[(1, 0, 0), (2, 0, 0), (3, 0, 0)]);
    b.arrive(3, form::named(StableKind::Stability, &v, &d));
    b.arrive(1, form::named(StableKind::Stability, &view(2, &[1, 2, 3]), &d));
    assert!(agreed(&b).is_none());
    b.arrive(1, form::named(StableKind::Stability, &v, &d));
    assert!(agreed(&b).is_some());
}

#[test]
fn a_new_view_begins_a_new_round() {
    let v = view(1, &[1, 2, 3]);
    let mut a = member_of(1, &v, &volume(0));
    a.arrive(2, vote(&v, &[(1, 0, 0), (2, 0, 0), (3, 0, 0)]));
    a.install(view(2, &[1, 2]));
    assert_eq!(gauge(&a, "num_votes"), 0);
}

#[test]
fn while_suspended_nobody_reports_or_votes_and_it_ends_by_itself() {
    let v = view(1, &[1, 2]);
    let mut a = member_of(1, &v, &volume(10));
    a.event_down(Event::SuspendStable(Duration::from_secs(10)));
    a.send(payload(10), None);
    a.arrive(2, vote(&v, &[(1, 0, 1), (2, 0, 0)]));
    assert_eq!(gauge(&a, "num_votes"), 0);
    a.run(Duration::from_millis(11_001));
    a.send(payload(10), None);
    assert_eq!(gauge(&a, "num_votes"), 1);
}

#[test]
fn resuming_starts_from_scratch() {
    let v = view(1, &[1, 2]);
    let mut a = member_of(1, &v, &volume(10));
    a.send(payload(10), None);
    a.event_down(Event::SuspendStable(Duration::from_secs(10)));
    a.event_down(Event::ResumeStable);
    assert_eq!(gauge(&a, "num_votes"), 0);
    a.send(payload(10), None);
    assert_eq!(gauge(&a, "num_votes"), 1);
}

#[test]
fn alone_in_the_group_a_member_purges_without_a_message() {
    let mut g = group(&[1], &volume(100));
    g[0].send(payload(100), None);
    assert_eq!(gauge(&g[0], "size_of_all_messages"), 0);
    assert!(g[0].sent().iter().all(|m| header(m).is_none()));
}

#[test]
fn reports_by_time_are_spread_around_the_average() {
    let config = StableConfig { max_bytes: ByteSize(0), ..StableConfig::default() };
    let v = view(1, &[1, 2]);
    let mut b = member_of(2, &v, &config);
    b.run(Duration::from_secs(50 * 2000));
    let reports = b.sent().iter().filter(|m| header(m).is_some()).count();
    assert!((1900..=2100).contains(&reports), "{reports} in 2000 average times");
}

#[test]
fn at_rest_two_rounds_empty_every_window() {
    let config = StableConfig::default();
    let mut g = group(&[1, 2, 3], &config);
    for m in &mut g {
        m.send(payload(1000), None);
    }
    pass_time(&mut g, config.desired_avg_gossip * 4, |_, _, _| false);
    assert!(g.iter().all(|m| gauge(m, "num_kept_messages") == 0));
}

#[test]
fn a_lost_report_by_volume_is_repeated() {
    let mut g = group(&[1, 2], &volume(1000));
    g[0].send(payload(1000), None);
    let mut lost = 0;
    let mut lose = |_: Uuid, _: Uuid, m: &wire::Message| {
        let is_report = header(m).is_some_and(|h| h.kind == StableKind::Gossip);
        lost += u32::from(is_report);
        is_report && lost <= 2
    };
    pass_time(&mut g, Duration::from_secs(8), &mut lose);
    assert!(g.iter().all(|m| gauge(m, "num_kept_messages") == 0));
}

#[test]
fn with_every_result_lost_memory_stays_bounded_and_then_falls() {
    let reliable = Nakack2Config { retain_limit: ByteSize(50_000), ..Nakack2Config::default() };
    let config =
        StableConfig { desired_avg_gossip: Duration::from_secs(2), max_bytes: ByteSize(10_000) };
    let v = view(1, &[1, 2]);
    let build = |me| {
        let layers: [Box<dyn Protocol>; 2] = [
            Box::new(ReliableMulticast::new(reliable.clone())),
            Box::new(Stable::new(config.clone())),
        ];
        let mut s = Solo::new(me, layers.into());
        s.install(Arc::clone(&v));
        s.event_down(Event::BecomeServer);
        s
    };
    let mut g: Vec<Solo> = [build(1), build(2)].into();
    let is_result = |m: &wire::Message| header(m).is_some_and(|h| h.kind == StableKind::Stability);
    for _ in 0..200 {
        g[0].send(payload(1000), None);
        exchange(&mut g, |_, _, m| is_result(m));
    }
    assert!(gauge(&g[1], "size_of_all_messages") <= 50_000);
    for _ in 0..20 {
        g[0].send(payload(1000), None);
        exchange(&mut g, |_, _, _| false);
    }
    pass_time(&mut g, Duration::from_secs(10), |_, _, _| false);
    assert_eq!(gauge(&g[1], "size_of_all_messages"), 0);
}

#[test]
fn the_gauge_names_who_holds_back_and_who_is_waited_for() {
    let v = view(1, &[1, 2, 3]);
    let mut a = member_of(1, &v, &volume(1));
    a.send(payload(1), None);
    a.arrive(2, vote(&v, &[(1, 1, 1), (2, 7, 7), (3, 0, 0)]));
    let ask = |a: &Solo| match a.ask(&Query::Stability) {
        Some(Answer::Stability(s)) => s,
        _ => panic!("STABLE answers"),
    };
    assert_eq!(ask(&a).waiting_for, [id(3)]);
    a.arrive(3, vote(&v, &[(1, 0, 0), (2, 7, 7), (3, 0, 0)]));
    let held = ask(&a).held_back;
    assert!(held.contains(&HeldBack { sender: id(1), oldest: 1, by: id(3) }));
}
