//! When credit is granted and asked for.

use super::*;

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
        credit_requests: CreditRequests::Java,
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

#[test]
fn credit_that_was_granted_ahead_is_not_lost_when_it_was_not_needed() {
    let mut c = cluster(2, 100_000, 0.4);
    // A call of member 1 waits for its own copies; it consumes what member 0 sends.
    let own = c.cast(1, 100_000, 1);
    c.consuming[1] = false;
    c.cast(1, 10, 1);
    c.cast(0, 50_000, 2);
    c.cast(0, 60_000, 2);
    c.step();
    assert!(c.sent(1, own));
    c.resume(1);
    c.run(20 * SECOND);
    for (s, r) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
        let (out, inc) = (c.account(s, Pool::Multicast, r), c.account(r, Pool::Multicast, s));
        assert_eq!(out.balance + inc.ungranted, 100_000, "{s} to {r}");
    }
}
