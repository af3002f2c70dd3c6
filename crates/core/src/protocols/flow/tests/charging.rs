//! What a message costs, and whom.

use super::*;

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
