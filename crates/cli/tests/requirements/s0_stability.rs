//! S0-22 to S0-25: what everybody has is purged, by time and by volume, and a member that is behind
//! is named.

use crate::s2::lone::{Lone, tagged, view_of};
use crate::s2::{SECOND, cast, gauge, group, id, is_whole, reporting_after};
use rgroups::core::attributes::ByteSize;
use rgroups::core::event::{Answer, StabilityGauge, WindowKind};
use rgroups::core::protocols::stable::StableConfig;
use rgroups::core::wire::header::{Header, StableKind};
use rgroups::core::wire::{Message, ProtId};
use rgroups::core::{Duration, Query};
use rgroups_sim::{Cluster, Outgoing};

crate::tests![
    what_all_have_is_gone_and_who_asks_for_it_is_told => "S0-22";
    reports_by_time_keep_their_average_and_do_not_bunch => "S0-23";
    reports_by_volume_come_once_and_begin_anew => "S0-24";
    who_sends_without_loopback_counts_its_own_bytes => "S0-24";
    a_frozen_member_is_named_and_memory_stays_bounded => "S0-25";
];

const NAMES: [&str; 3] = ["A", "B", "C"];

fn kept(c: &Cluster, at: &str) -> u64 {
    gauge(c, at, "num_kept_messages")
}

fn what_all_have_is_gone_and_who_asks_for_it_is_told() {
    let mut c = group(reporting_after(50_000).with("STABLE", "desired_avg_gossip", "5000"), &NAMES);
    cast(&mut c, "A", 100, 1_000);
    c.run_for(SECOND / 10);
    assert!(c.run_until(60 * SECOND, |c| NAMES.iter().all(|n| kept(c, n) == 0)));

    // Between tagged members a request for what is gone is answered by the vector, now and then.
    let view = view_of(2);
    let config = StableConfig { desired_avg_gossip: Duration::ZERO, max_bytes: ByteSize(12_800) };
    let (mut a, mut b) = (Lone::new(1, &view, config.clone()), Lone::new(2, &view, config));
    for _ in 0..100 {
        a.cast(100);
    }
    exchange(&mut a, &mut b);
    assert_eq!([a.gauge("num_kept_messages"), b.gauge("num_kept_messages")], [0, 0]);
    let mut answers = Vec::new();
    for _ in 0..100 {
        a.asked_for(tagged(2), tagged(1), 50);
        a.run(Duration::from_millis(10));
        answers.extend(a.sent());
    }
    assert!((1..=3).contains(&answers.len()), "{} answers in a second", answers.len());
    assert!(answers.iter().all(|m| kind(m) == Some(StableKind::Stability)));
}

fn kind(m: &Message) -> Option<StableKind> {
    match m.headers.get(ProtId::STABLE) {
        Some(Header::Stable(h)) => Some(h.kind),
        _ => None,
    }
}

fn exchange(a: &mut Lone, b: &mut Lone) {
    for _ in 0..10 {
        for m in a.sent() {
            b.arrive(tagged(1), m);
        }
        for m in b.sent() {
            a.arrive(tagged(2), m);
        }
    }
}

/// 2,000 average intervals of ten members.
fn reports_by_time_keep_their_average_and_do_not_bunch() {
    let every = 50 * SECOND;
    let config = StableConfig { desired_avg_gossip: every, max_bytes: ByteSize(0) };
    let view = view_of(11);
    let mut in_second = vec![0u32; 50 * 2_000 + 100];
    for me in 2..=11 {
        let mut member = Lone::new(me, &view, config.clone());
        let mut reports = 0u32;
        while reports < 2_000 {
            // Never past the next report by more than a moment.
            let at = member.stack.poll_deadline().expect("a report is planned");
            member.run(at.since(member.now));
            let sent = member.sent();
            let now = sent.iter().filter(|m| kind(m) == Some(StableKind::Gossip)).count();
            reports += now as u32;
            let second = member.now.since(rgroups::core::Time::ZERO).as_secs() as usize;
            if let Some(n) = in_second.get_mut(second) {
                *n += now as u32;
            }
        }
        let mean = member.now.since(rgroups::core::Time::ZERO) / 2_000;
        let (least, most) = (every * 95 / 100, every * 105 / 100);
        assert!((least..=most).contains(&mean), "member {me}: {mean:?}");
    }
    let most = in_second.iter().max().expect("seconds");
    assert!(*most <= 6, "{most} of ten members report in the same second");
}

fn reports_by_volume_come_once_and_begin_anew() {
    let mut c = group(reporting_after(400_000), &NAMES);
    let before: Vec<u64> = NAMES.iter().map(|n| gauge(&c, n, "stable_sent")).collect();
    let reports = |c: &Cluster| -> Vec<u64> {
        NAMES.iter().zip(&before).map(|(n, b)| gauge(c, n, "stable_sent") - b).collect()
    };
    cast(&mut c, "A", 3, 100_000);
    c.run_for(SECOND);
    assert_eq!(reports(&c), [0; 3], "below the volume nobody reports");
    cast(&mut c, "A", 1, 110_000);
    c.run_for(SECOND);
    assert_eq!(reports(&c), [1; 3]);
    assert!(NAMES.iter().all(|n| stability(&c, n).bytes == 0), "all count from 0 again");
    assert!(NAMES.iter().all(|n| kept(&c, n) == 0));
}

fn who_sends_without_loopback_counts_its_own_bytes() {
    let mut c = group(reporting_after(400_000), &NAMES);
    let before = gauge(&c, "B", "stable_sent");
    let own = Outgoing { loopback: false, ..Outgoing::new(None, 100_000) };
    for _ in 0..5 {
        c.send("B", &own).expect("it runs");
    }
    c.run_for(SECOND);
    assert_eq!(gauge(&c, "B", "stable_sent") - before, 1);
    assert!(NAMES.iter().all(|n| kept(&c, n) == 0));
}

fn stability(c: &Cluster, at: &str) -> StabilityGauge {
    match c.node(at).expect("it runs").stack().ask(&Query::Stability) {
        Some(Answer::Stability(gauge)) => gauge,
        _ => panic!("no STABLE"),
    }
}

/// Payload bytes of multicasts that are kept at `at`.
fn retained(c: &Cluster, at: &str) -> u64 {
    let answers = c.node(at).expect("it runs").stack().ask_all(&Query::Windows);
    let lists = answers.into_iter().filter_map(|a| match a {
        Answer::Windows(list) => Some(list),
        _ => None,
    });
    lists.flatten().filter(|w| w.kind == WindowKind::Multicast).map(|w| w.bytes).sum()
}

/// D stops; A sends for ever, also messages that flow control does not hold back.
fn a_frozen_member_is_named_and_memory_stays_bounded() {
    const ROUND: u64 = 50_000;
    const CREDITS: u64 = 50_000;
    let names = ["A", "B", "C", "D"];
    let plan = reporting_after(ROUND)
        .with("MFC", "max_credits", &CREDITS.to_string())
        .with("FD_ALL3", "timeout", "600000");
    let mut c = group(plan, &names);
    cast(&mut c, "A", 10, 1_000);
    c.run_for(SECOND);
    c.freeze("D");
    let first = stability(&c, "A").oldest.expect("ten messages are not stable");
    // INVARIANTS F1, for four members.
    let ceiling = 4 * ROUND * 5 + CREDITS * 4;
    let mut most = 0;
    for _ in 0..200 {
        cast(&mut c, "A", 2, 1_000);
        c.run_for(Duration::from_millis(100));
        most = names[..3].iter().map(|n| retained(&c, n)).max().unwrap_or(0).max(most);
    }
    assert!(is_whole(&c, &names), "D is still a member");
    assert!(most <= ceiling, "{most} above {ceiling}");
    let gauge = stability(&c, "A");
    assert_eq!(gauge.waiting_for, [id(&c, "D")], "who holds it back");
    let oldest = gauge.oldest.expect("something is not stable");
    assert_eq!(oldest.sender, id(&c, "A"));
    assert_eq!(oldest, first, "the oldest is the same as twenty seconds ago");
    c.resume("D");
    let settled = |c: &Cluster| names.iter().all(|n| kept(c, n) == 0);
    let done = c.run_until(120 * SECOND, settled);
    assert!(done, "{:?}", names.map(|n| kept(&c, n)));
}
