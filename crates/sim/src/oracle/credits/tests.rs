//! Injected histories: each breaks one promise.

use super::super::made::*;
use super::*;
use crate::history::MessageId;
use rgroups_core::Trace;

const MULTICAST: Pool = Pool::Multicast;

fn account(peer: Life) -> CreditAccount {
    CreditAccount {
        peer: id(peer),
        balance: 1_000,
        shown: 1_000,
        waiting: 0,
        unconsumed: 0,
        ungranted: 0,
        max: 1_000,
        charged: 0,
    }
}

/// A sample of accounts that are whole, but for the one with `peer`.
fn sample(h: &mut History, at: Life, peer: Life, change: impl Fn(&mut CreditAccount)) {
    let mut list: Vec<CreditAccount> = [A, B, C].map(account).into();
    change(&mut list[peer.0]);
    list[peer.0].shown = list[peer.0].balance as i64;
    push(h, at, What::Credits(MULTICAST, list));
}

fn whole(h: &mut History, at: Life) {
    sample(h, at, A, |_| {});
}

fn trace(h: &mut History, at: Life, fact: Trace) {
    push(h, at, What::Trace(fact));
}

fn grant(h: &mut History, at: Life, to: Life, bytes: u64) {
    trace(h, at, Trace::Granted { to: id(to), pool: MULTICAST, bytes });
}

fn credit(h: &mut History, at: Life, from: Life, bytes: u64) {
    trace(h, at, Trace::Credited { from: id(from), pool: MULTICAST, bytes });
}

/// A multicast of this size, admitted.
fn cast(h: &mut History, from: Life, size: usize) -> MessageId {
    let m = send(h, from, None);
    h.messages[m.0 as usize].size = size;
    m
}

/// All accounts are whole, and have been seen to begin so; now everything comes to rest.
fn come_to_rest(h: &mut History) {
    for life in [A, B, C] {
        whole(h, life);
    }
    phase(h, Phase::AtRest);
}

/// A view of all three that ends a partition between A and the others.
fn merge(h: &mut History, at: Life, n: u64) {
    let mut v = view(n, A, &[A, B, C]);
    v.subgroups = vec![view(n - 1, A, &[A]), view(n - 1, B, &[B, C])].into();
    push(h, at, What::View(Arc::new(v)));
}

fn found(h: &History) -> Vec<&'static str> {
    names(&check(h, &conditions()))
}

#[test]
fn full_accounts_break_nothing() {
    let mut h = together();
    phase(&mut h, Phase::AtRest);
    for life in [A, B, C] {
        whole(&mut h, life);
    }
    assert!(found(&h).is_empty());
}

#[test]
fn more_credit_than_there_is_breaks_e1() {
    let mut h = together();
    sample(&mut h, A, B, |a| a.balance = 1_001);
    assert_eq!(found(&h), ["E1"]);
}

#[test]
fn credit_that_exists_twice_at_rest_breaks_e2() {
    let mut h = together();
    come_to_rest(&mut h);
    whole(&mut h, A);
    sample(&mut h, B, A, |a| a.ungranted = 1);
    assert_eq!(found(&h), ["E2"]);
}

#[test]
fn what_was_sent_before_an_account_began_and_came_after_may_exist_twice_and_no_more() {
    let mut h = together();
    let crossing = cast(&mut h, A, 300);
    merge(&mut h, A, 5);
    merge(&mut h, B, 5);
    deliver(&mut h, B, crossing);
    come_to_rest(&mut h);
    whole(&mut h, A);
    let end = h.facts.len();
    sample(&mut h, B, A, |a| a.ungranted = 300);
    assert!(found(&h).is_empty());
    h.facts.truncate(end);
    sample(&mut h, B, A, |a| a.ungranted = 301);
    assert_eq!(found(&h), ["E2"]);
}

#[test]
fn an_account_of_a_stranger_and_none_of_a_member_break_e3() {
    let mut h = trio();
    install(&mut h, A, 1, A, &[A]);
    phase(&mut h, Phase::AtRest);
    push(&mut h, A, What::Credits(MULTICAST, vec![account(A), account(B)]));
    assert_eq!(found(&h), ["E3"]);
    h.facts.pop();
    push(&mut h, A, What::Credits(MULTICAST, Vec::new()));
    assert_eq!(found(&h), ["E3"]);
}

#[test]
fn credit_that_is_lost_at_rest_breaks_e4() {
    let mut h = together();
    let m = cast(&mut h, A, 300);
    for life in [A, B, C] {
        deliver(&mut h, life, m);
    }
    phase(&mut h, Phase::AtRest);
    let end = h.facts.len();
    for given_back in [300, 299] {
        h.facts.truncate(end);
        sample(&mut h, A, B, |a| (a.balance, a.charged) = (700, 300));
        sample(&mut h, B, A, |a| a.ungranted = given_back);
        assert_eq!(found(&h), if given_back == 300 { vec![] } else { vec!["E4"] });
    }
}

#[test]
fn a_grant_that_was_lost_is_no_lost_credit() {
    let mut h = together();
    let m = cast(&mut h, A, 300);
    deliver(&mut h, B, m);
    grant(&mut h, B, A, 300);
    phase(&mut h, Phase::AtRest);
    sample(&mut h, A, B, |a| (a.balance, a.charged) = (700, 300));
    whole(&mut h, B);
    assert!(found(&h).is_empty());
}

#[test]
fn a_new_account_that_is_not_full_breaks_e5() {
    let mut h = together();
    let m = cast(&mut h, A, 300);
    deliver(&mut h, B, m);
    merge(&mut h, A, 5);
    sample(&mut h, A, B, |a| a.balance = 700);
    assert_eq!(found(&h), ["E5"], "the sender's end");
    h.facts.pop();
    merge(&mut h, B, 5);
    sample(&mut h, B, A, |a| a.ungranted = 300);
    assert_eq!(found(&h), ["E5"], "the receiver's end");
}

#[test]
fn a_send_that_waits_for_a_member_that_is_gone_breaks_e5() {
    let mut h = together();
    let m = send(&mut h, A, Some(C));
    let resolved = h.facts.pop();
    install(&mut h, A, 4, A, &[A, B]);
    assert_eq!(found(&h), ["E5"]);
    h.facts.extend(resolved);
    assert!(found(&h).is_empty(), "#{} ended at once", m.0);
}

#[test]
fn a_message_of_a_protocol_that_costs_credit_breaks_e6() {
    let mut h = together();
    let m = cast(&mut h, A, 300);
    deliver(&mut h, B, m);
    come_to_rest(&mut h);
    sample(&mut h, A, B, |a| (a.balance, a.charged) = (500, 500));
    sample(&mut h, B, A, |a| a.ungranted = 500);
    assert_eq!(found(&h), ["E6"]);
}

#[test]
fn too_many_unread_bytes_break_e7() {
    let mut h = together();
    push(&mut h, A, What::Unread(vec![(id(B), 6_000)]));
    assert!(found(&h).is_empty());
    push(&mut h, A, What::Unread(vec![(id(B), 6_001)]));
    assert_eq!(found(&h), ["E7"]);
}

#[test]
fn a_grant_that_is_taken_twice_breaks_e9() {
    let mut h = together();
    grant(&mut h, B, A, 300);
    credit(&mut h, A, B, 300);
    assert!(found(&h).is_empty());
    credit(&mut h, A, B, 300);
    assert_eq!(found(&h), ["E9"]);
}

#[test]
fn credit_of_somebody_who_is_no_member_breaks_e9() {
    let mut h = together();
    install(&mut h, A, 4, A, &[A, B]);
    trace(&mut h, A, Trace::ViewPassed { layer: 10, view: view(4, A, &[A, B]).id });
    grant(&mut h, C, A, 300);
    credit(&mut h, A, C, 300);
    assert_eq!(found(&h), ["E9"]);
}
