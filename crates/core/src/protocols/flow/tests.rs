//! Scenarios of REQUIREMENTS S0 at the level of these layers.

use super::{MfcConfig, UfcConfig};
use crate::attributes::{Attributes, ByteSize};
use crate::testkit_cluster::Cluster;
use crate::wire::{Body, Flags, Header, Hints, Message, ProtId, header::FcHeader};
use crate::{Pool, Rng, SendRefusal, Time, Trace, Uuid, View};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn mfc(max: u64, threshold: f64) -> MfcConfig {
    MfcConfig { max_credits: ByteSize(max), min_threshold: Some(threshold), ..MfcConfig::default() }
}

fn ufc(max: u64, threshold: f64) -> UfcConfig {
    UfcConfig { max_credits: ByteSize(max), min_threshold: Some(threshold), ..UfcConfig::default() }
}

fn cluster(n: u64, max: u64, threshold: f64) -> Cluster {
    Cluster::new(n, &mfc(max, threshold), &ufc(max, threshold), 10_000_000)
}

fn granted(c: &Cluster, i: usize, to: Uuid) -> Vec<u64> {
    c.traces[i]
        .iter()
        .filter_map(|(_, t)| match t {
            Trace::Granted { to: m, bytes, .. } if *m == to => Some(*bytes),
            _ => None,
        })
        .collect()
}

fn asks(c: &Cluster, of: Uuid) -> Vec<Time> {
    c.times(0, |t| matches!(t, Trace::CreditAsked { of: m, .. } if *m == of))
}

fn is_fc(m: &Message, kind: FcHeader) -> bool {
    [ProtId::MFC, ProtId::UFC].iter().any(|p| m.headers.get(*p) == Some(&Header::Fc(kind)))
}

#[test]
fn both_ends_begin_with_the_maximum_and_count_the_same() {
    let mut c = cluster(2, 1_000_000, 0.1);
    assert_eq!(c.account(0, Pool::Multicast, 1).balance, 1_000_000);
    c.consuming[1] = false;
    c.cast(0, 1000, 1);
    c.step();
    assert_eq!(c.account(0, Pool::Multicast, 1).balance, 999_000);
    assert_eq!(c.account(1, Pool::Multicast, 0).unconsumed, 1000);
}

#[test]
fn a_multicast_costs_its_length_at_every_member_the_sender_included() {
    let mut c = cluster(3, 1_000_000, 0.1);
    for _ in 0..10 {
        c.cast(0, 10_000, 1);
    }
    c.step();
    for peer in 0..3 {
        assert_eq!(c.account(0, Pool::Multicast, peer).balance, 900_000);
    }
}

#[test]
fn receivers_grant_once_when_the_threshold_is_reached() {
    let mut c = cluster(3, 1_000_000, 0.1);
    for _ in 0..8 {
        c.cast(0, 100_000, 1);
    }
    c.step();
    let sender = c.id(0);
    assert_eq!(granted(&c, 1, sender), []);
    c.cast(0, 100_000, 1);
    c.step();
    assert_eq!(granted(&c, 1, sender), [900_000]);
    assert_eq!(granted(&c, 2, sender), [900_000]);
}

#[test]
fn without_credit_a_send_waits_and_goes_on_with_it() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.lose = Box::new(|_, _, m| is_fc(m, FcHeader::Replenish));
    for _ in 0..10 {
        c.cast(0, 100_000, 1);
    }
    let waiting = c.cast(0, 100_000, 2);
    c.run(60 * SECOND);
    assert_eq!(c.result(0, waiting), None);
    // Nothing is queued or in flight any more, so a request that gets through heals the loss.
    c.lose = Box::new(|_, _, _| false);
    c.run(7 * SECOND);
    assert!(c.sent(0, waiting));
}

#[test]
fn a_message_above_the_maximum_is_refused_at_once() {
    let mut c = cluster(2, 1_000_000, 0.1);
    let op = c.cast(0, 1_000_001, 1);
    c.step();
    let expected = SendRefusal::TooLarge { size: 1_000_001, limit: 1_000_000 };
    assert_eq!(c.refusal(0, op), Some(&expected));
    let largest = c.cast(0, 1_000_000, 1);
    c.step();
    assert!(c.sent(0, largest));
}

#[test]
fn positive_but_insufficient_credit_is_asked_for_at_once() {
    let mut c = cluster(2, 1_000_000, 0.2);
    c.cast(0, 700_000, 1);
    let second = c.cast(0, 500_000, 2);
    c.step();
    assert!(c.sent(0, second));
}

#[test]
fn min_threshold_overrides_min_credits() {
    let mut config = MfcConfig::default();
    for (name, value) in [("max_credits", "1000000"), ("min_credits", "500000")] {
        config.set(name, value).expect("a known attribute");
    }
    assert_eq!(config.effective_min_credits(), 500_000);
    config.set("min_threshold", "0.10").expect("a known attribute");
    assert_eq!(config.effective_min_credits(), 100_000);
    assert_eq!(config.overridden(), ["min_credits 500000 overridden by min_threshold 0.1"]);
}

#[test]
fn min_credits_alone_is_the_threshold() {
    let config = MfcConfig {
        max_credits: ByteSize(1_000_000),
        min_credits: Some(ByteSize(300_000)),
        ..MfcConfig::default()
    };
    let mut c = Cluster::new(2, &config, &ufc(1_000_000, 0.1), 10_000_000);
    for _ in 0..7 {
        c.cast(0, 100_000, 1);
    }
    c.step();
    assert_eq!(granted(&c, 1, c.id(0)), [700_000]);
}

#[test]
fn min_block_time_is_another_name_of_max_block_time() {
    let mut config = MfcConfig::default();
    config.set("min_block_time", "3000").expect("a known attribute");
    assert_eq!(config.effective_block_time(), 3 * SECOND);
    assert!(config.overridden().is_empty());
    config.set("max_block_time", "4000").expect("a known attribute");
    assert_eq!(config.effective_block_time(), 4 * SECOND);
    assert_eq!(config.overridden().len(), 1);
}

#[test]
fn the_first_request_leaves_after_max_block_time() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.lose = Box::new(|_, _, m| is_fc(m, FcHeader::Replenish));
    for _ in 0..11 {
        c.cast(0, 100_000, 1);
    }
    c.run(6 * SECOND);
    let b = c.id(1);
    assert_eq!(asks(&c, b), [Time::ZERO + 5 * SECOND]);
}

#[test]
fn requests_go_to_members_below_zero_until_each_has_answered() {
    let mut c = cluster(4, 1_000_000, 0.1);
    let ids: Vec<Uuid> = (0..4).map(|i| c.id(i)).collect();
    (c.consuming[2], c.consuming[3]) = (false, false);
    for _ in 0..11 {
        c.cast(0, 100_000, 1);
    }
    c.run(6 * SECOND);
    c.resume(2);
    c.run(5 * SECOND);
    assert_eq!(asks(&c, ids[1]), [], "its credit is not exhausted");
    assert_eq!(asks(&c, ids[2]).len(), 1, "it has answered");
    assert_eq!(asks(&c, ids[3]), [Time::ZERO + 5 * SECOND, Time::ZERO + 10 * SECOND]);
}

#[test]
fn requests_let_nothing_past_a_consumer_that_stopped() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.consuming[1] = false;
    for _ in 0..40 {
        c.unicast(0, 1, 100_000, 1);
    }
    c.run(60 * SECOND);
    let bytes: usize = c.delivered[1].iter().map(|(_, b)| b.len()).sum();
    assert_eq!(bytes, 1_000_000);
    c.take_one(1);
    c.run(10 * SECOND);
    let bytes: usize = c.delivered[1].iter().map(|(_, b)| b.len()).sum();
    assert_eq!(bytes, 1_100_000);
}

#[test]
fn the_slowest_member_limits_the_group_and_is_named() {
    let mut c = cluster(3, 1_000_000, 0.1);
    c.consuming[2] = false;
    let ops: Vec<_> = (0..20).map(|_| c.cast(0, 100_000, 1)).collect();
    c.run(2 * SECOND);
    assert_eq!(c.delivered[1].len(), 10);
    assert_eq!(c.blocked[0], [(Some(ops[10]), [c.id(2)].into())]);
    assert!(c.blocked[1].is_empty());
    let other = c.unicast(0, 1, 100_000, 2);
    c.step();
    assert!(c.sent(0, other), "unicasts to others are not affected");
    c.resume(2);
    c.run(SECOND);
    assert_eq!(c.delivered[1].len(), 21);
}

#[test]
fn a_sender_that_does_not_consume_its_own_copies_is_limited_by_itself() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.consuming[0] = false;
    for _ in 0..11 {
        c.cast(0, 100_000, 1);
    }
    c.run(2 * SECOND);
    assert_eq!(c.blocked[0][0].1, [c.id(0)]);
}

#[test]
fn messages_without_own_copy_cost_nothing_at_the_sender() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[0] = false;
    let mut last = None;
    for _ in 0..100 {
        let mut m = Message::multicast(Body::bytes([1].repeat(10_000)));
        m.hints = Hints::DONT_LOOPBACK;
        last = Some(c.send(0, m));
    }
    c.step();
    assert!(c.sent(0, last.expect("messages were sent")));
    assert_eq!(c.account(0, Pool::Multicast, 0).balance, 100_000);
}

#[test]
fn a_unicast_to_oneself_costs_credit_whatever_it_says_of_copies_and_gets_it_back() {
    let mut c = cluster(2, 100_000, 0.1);
    let mut last = None;
    for _ in 0..3 {
        // Too much for what is left, too little to be given back unasked.
        let mut m = Message::unicast(c.id(0), Body::bytes([1].repeat(60_000)));
        m.hints = Hints::DONT_LOOPBACK;
        last = Some(c.send(0, m));
    }
    c.run(SECOND);
    assert!(c.sent(0, last.expect("messages were sent")));
}

#[test]
fn empty_messages_cost_the_floor_between_tagged_members_and_nothing_towards_java() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.cast(0, 0, 0);
    c.step();
    assert_eq!(c.account(0, Pool::Multicast, 1).balance, 100_000 - 128);
    assert_eq!(c.account(1, Pool::Multicast, 0).unconsumed, 128);
    let java = [crate::testkit::id(1), crate::testkit::id(2)].into();
    let mut c = Cluster::of(java, &mfc(100_000, 0.1), &ufc(100_000, 0.1), 60_000);
    c.cast(0, 0, 0);
    c.cast(0, 5, 0);
    c.step();
    assert_eq!(c.account(0, Pool::Multicast, 1).balance, 100_000 - 5);
}

#[test]
fn exempt_messages_pass_without_credit() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let to = c.id(1);
    let m = Message::unicast(to, Body::bytes([2].repeat(50))).with_flags(Flags::NO_FC);
    let op = c.send(0, m);
    c.step();
    assert!(c.sent(0, op));
    assert_eq!(c.delivered[1].len(), 2);
}

#[test]
fn a_try_that_would_wait_names_who_limits_it_and_sends_nothing() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 90_000, 1);
    let to = c.id(1);
    let m = |n: usize| Message::unicast(to, Body::bytes([2].repeat(n)));
    let beyond = c.send_how(0, m(10_001), |s| s.try_only = true);
    let at_limit = c.send_how(0, m(10_000), |s| s.try_only = true);
    c.step();
    assert_eq!(c.refusal(0, beyond), Some(&SendRefusal::WouldBlock { by: [to].into() }));
    assert!(c.sent(0, at_limit));
    assert_eq!(c.delivered[1].len(), 2);
}

#[test]
fn a_deadline_ends_the_wait_with_the_name_of_the_member_that_limits() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let to = c.id(1);
    let m = Message::unicast(to, Body::bytes([2].repeat(10)));
    let op = c.send_how(0, m, |s| s.deadline = Some(Time::ZERO + SECOND));
    c.run(SECOND);
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::NotSent { by: [to].into() }));
    c.resume(1);
    c.run(SECOND);
    assert_eq!(c.delivered[1].len(), 1, "it is not sent later");
}

#[test]
fn a_cancelled_send_is_withdrawn_and_those_behind_it_go_on() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 60_000, 1);
    let large = c.unicast(0, 1, 60_000, 2);
    let small = c.unicast(0, 1, 30_000, 3);
    c.step();
    assert_eq!(c.result(0, small), None, "it does not overtake");
    c.cancel(0, large);
    c.step();
    assert_eq!(c.refusal(0, large), Some(&SendRefusal::Withdrawn));
    assert!(c.sent(0, small));
}

#[test]
fn regular_messages_keep_their_order_and_out_of_band_ones_may_overtake() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    let to = c.id(1);
    let oob = |n: usize| Message::unicast(to, Body::bytes([9].repeat(n))).with_flags(Flags::OOB);
    c.unicast(0, 1, 60_000, 1);
    c.unicast(0, 1, 50_000, 2);
    let first = c.send(0, oob(30_000));
    c.step();
    assert!(c.sent(0, first), "it overtakes the waiting head");
    let second = c.send(0, oob(9_000));
    let third = c.send(0, oob(1_000));
    let fourth = c.send(0, oob(1_000));
    c.step();
    assert!(c.sent(0, second));
    assert!(c.sent(0, third));
    assert_eq!(c.result(0, fourth), None, "credit is used up");
    c.resume(1);
    c.run(6 * SECOND);
    assert!(c.sent(0, fourth));
}

#[test]
fn what_overtakes_a_head_costs_at_most_as_much_as_the_head() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    let to = c.id(1);
    let oob = |n: usize| Message::unicast(to, Body::bytes([9].repeat(n))).with_flags(Flags::OOB);
    c.unicast(0, 1, 90_000, 1);
    let head = c.unicast(0, 1, 11_000, 2);
    let at_limit = c.send(0, oob(8_000));
    let beyond = c.send(0, oob(3_001));
    c.step();
    assert_eq!(c.result(0, head), None);
    assert!(c.sent(0, at_limit));
    assert_eq!(c.result(0, beyond), None);
}

#[test]
fn a_view_without_the_debtor_lets_the_multicast_go() {
    let mut c = cluster(3, 100_000, 0.1);
    c.consuming[2] = false;
    c.cast(0, 100_000, 1);
    let waiting = c.cast(0, 50_000, 2);
    c.step();
    assert_eq!(c.result(0, waiting), None);
    c.install(&[0, 1]);
    c.step();
    assert!(c.sent(0, waiting));
}

#[test]
fn a_unicast_to_a_member_that_left_is_refused() {
    let mut c = cluster(3, 100_000, 0.1);
    c.consuming[2] = false;
    c.unicast(0, 2, 100_000, 1);
    let waiting = c.unicast(0, 2, 50_000, 2);
    c.step();
    c.install(&[0, 1]);
    c.step();
    assert_eq!(c.refusal(0, waiting), Some(&SendRefusal::NotMember(c.id(2))));
}

#[test]
fn a_member_that_returns_begins_with_full_credit_on_both_ends() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    c.step();
    for i in [0, 1] {
        c.install(&[i]);
    }
    c.install(&[0, 1]);
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 100_000);
    assert_eq!(c.account(1, Pool::Unicast, 0).unconsumed, 0);
    // Receipts of the earlier account return nothing to the new one.
    c.resume(1);
    c.step();
    assert_eq!(c.account(1, Pool::Unicast, 0).ungranted, 0);
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 100_000);
}

#[test]
fn stopping_answers_every_waiting_call() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let waiting = c.unicast(0, 1, 10, 2);
    c.step();
    c.members[0].stack.stop(Time::ZERO);
    c.step();
    assert_eq!(c.refusal(0, waiting), Some(&SendRefusal::Closed));
    assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
}

#[test]
fn members_that_send_from_where_they_receive_do_not_deadlock() {
    // Neither application takes anything before its own large sends are done.
    let mut c = cluster(2, 100_000, 0.1);
    (c.consuming[0], c.consuming[1]) = (false, false);
    let mut ops = Vec::new();
    for i in [0, 1] {
        for _ in 0..3 {
            ops.push((i, c.unicast(i, 1 - i, 60_000, 1)));
        }
    }
    c.run(30 * SECOND);
    assert!(ops.iter().all(|(i, op)| c.sent(*i, *op)));
}

#[test]
fn a_consumer_that_stopped_and_calls_nothing_grants_nothing_ahead() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let op = c.unicast(0, 1, 1_000, 1);
    c.run(30 * SECOND);
    assert_eq!(c.result(0, op), None);
    assert_eq!(c.gauge(1, "UFC", "overdraft_bytes"), 0);
}

#[test]
fn java_requests_are_answered_with_what_was_asked_if_so_configured() {
    let config = UfcConfig {
        max_credits: ByteSize(100_000),
        credit_requests: super::CreditRequests::Java,
        ..UfcConfig::default()
    };
    let mut c = Cluster::new(2, &mfc(100_000, 0.4), &config, 1_000_000);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let op = c.unicast(0, 1, 1_000, 1);
    c.run(6 * SECOND);
    assert!(c.sent(0, op));
}

#[test]
fn more_than_the_lines_take_waits_above_and_follows_in_order() {
    let config = MfcConfig { max_blocked_messages: 3, ..mfc(100_000, 0.1) };
    let mut c = Cluster::new(2, &config, &ufc(100_000, 0.1), 1_000_000);
    c.consuming[1] = false;
    for fill in 0..30 {
        c.cast(0, 50_000, fill);
    }
    c.step();
    assert_eq!(c.gauge(0, "MFC", "waiting_messages"), 3);
    assert_eq!(c.gauge(0, "ENTRY", "waiting_messages"), 25);
    c.resume(1);
    c.run(6 * SECOND);
    let fills: Vec<u8> = c.delivered[1].iter().map(|(_, b)| b[0]).collect();
    assert_eq!(fills, (0..30).collect::<Vec<u8>>());
}

#[test]
fn accounts_are_whole_at_quiescence_whatever_the_flags() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut c = cluster(3, 50_000, 0.4);
        for _ in 0..300 {
            let from = rng.below(3) as usize;
            let to = rng.below(3) as usize;
            let dest = rng.chance(0.5).then(|| c.id(to).into());
            let body = Body::bytes([1].repeat(rng.between(0, 9_000) as usize));
            let mut m = Message { dest, body, ..Message::default() };
            for (flag, p) in [(Flags::OOB, 0.3), (Flags::NO_FC, 0.2)] {
                if rng.chance(p) {
                    m.flags |= flag;
                }
            }
            if rng.chance(0.2) && m.is_multicast() {
                m.hints |= Hints::DONT_LOOPBACK;
            }
            c.send(from, m);
            if rng.chance(0.3) {
                c.step();
            }
        }
        c.run(20 * SECOND);
        for pool in [Pool::Multicast, Pool::Unicast] {
            for s in 0..3 {
                for r in 0..3 {
                    let (out, inc) = (c.account(s, pool, r), c.account(r, pool, s));
                    assert_eq!((out.waiting, inc.unconsumed), (0, 0));
                    assert_eq!(out.balance + inc.ungranted, 50_000, "seed {seed} {s} to {r}");
                    assert!(out.balance >= 20_000);
                }
            }
        }
        assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
    }
}

#[test]
fn credit_messages_that_java_charges_are_counted_as_consumed() {
    let java = [crate::testkit::id(1), crate::testkit::id(2)].into();
    let mut c = Cluster::of(java, &mfc(100_000, 0.4), &ufc(100, 0.4), 60_000);
    let me = c.id(0);
    for _ in 0..20 {
        let grant = Message::unicast(me, Body::Long(70_000))
            .with_flags(Flags::OOB | Flags::DONT_BUNDLE)
            .with_header(ProtId::MFC, Header::Fc(FcHeader::Replenish));
        c.members[0].arrive(2, grant);
    }
    c.step();
    assert!(!granted(&c, 0, crate::testkit::id(2)).is_empty());
    assert_eq!(c.account(0, Pool::Unicast, 1).unconsumed, 0);
}

#[test]
fn credit_of_strangers_and_nonsense_changes_nothing() {
    let mut c = cluster(2, 100_000, 0.4);
    let (me, peer) = (c.id(0), c.id(1));
    c.consuming[1] = false;
    c.unicast(0, 1, 90_000, 1);
    c.step();
    let control = |from: Uuid, kind: FcHeader, body: Body| {
        let mut m = Message::unicast(me, body)
            .with_flags(Flags::OOB)
            .with_header(ProtId::UFC, Header::Fc(kind));
        m.src = Some(from.into());
        m
    };
    let stranger = crate::testkit_cluster::tagged(9);
    for m in [
        control(stranger, FcHeader::Replenish, Body::Long(50_000)),
        control(stranger, FcHeader::CreditRequest, Body::Long(50_000)),
        control(peer, FcHeader::Replenish, Body::Long(-50_000)),
        control(peer, FcHeader::Replenish, Body::Empty),
        control(peer, FcHeader::CreditRequest, Body::Long(0)),
    ] {
        c.members[0].arrive(2, m);
    }
    c.step();
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 10_000);
    let huge = control(peer, FcHeader::Replenish, Body::Long(i64::MAX));
    c.members[0].arrive(2, huge);
    c.step();
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 100_000, "never above the maximum");
}

#[test]
fn merging_begins_accounts_anew_unless_the_pair_was_together() {
    let mut c = cluster(3, 100_000, 0.1);
    for to in [1, 2] {
        c.consuming[to] = false;
        c.unicast(0, to, 60_000, 1);
    }
    c.step();
    let ids: Vec<Uuid> = (0..3).map(|i| c.id(i)).collect();
    let part = |members: &[Uuid]| View::new(5, members[0], members.to_vec());
    let mut merged = View::new(6, ids[0], ids.clone());
    merged.subgroups = [part(&ids[..2]), part(&ids[2..])].into();
    c.members[0].install(alloc::sync::Arc::new(merged));
    assert_eq!(c.account(0, Pool::Unicast, 1).balance, 40_000);
    assert_eq!(c.account(0, Pool::Unicast, 2).balance, 100_000);
}

#[cfg(feature = "mutants")]
#[test]
fn granting_twice_is_visible_in_the_accounts() {
    let mut c = cluster(2, 100_000, 0.4);
    c.members[1].stack.enable_mutant(crate::mutants::Mutant::CreditsGrantedTwice);
    c.unicast(0, 1, 60_000, 1);
    c.consuming[1] = false;
    c.unicast(0, 1, 39_000, 1);
    c.resume(1);
    c.step();
    c.unicast(0, 1, 1_000, 1);
    c.step();
    let (out, inc) = (c.account(0, Pool::Unicast, 1), c.account(1, Pool::Unicast, 0));
    assert_ne!(out.balance + inc.ungranted, 100_000);
}
