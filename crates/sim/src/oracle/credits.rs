//! E: flow control. Credits stay within their bounds, and so does what waits at a receiver.

use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{Fact, History, MessageId, Phase, What};
use rgroups_core::event::CreditAccount;
use rgroups_core::{Pool, Time, Uuid, View, ViewId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks E1, E7, and at rest E2 (no more credit than there is) and E3.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut ever_excluded: BTreeSet<(Uuid, Life)> = BTreeSet::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Credits(pool, accounts) => {
                found.extend(within_bounds(h, c, life, *pool, accounts, f.at));
            }
            What::Unread(bytes) => {
                let owed = bytes.iter().filter(|(from, _)| !ever_excluded.contains(&(*from, life)));
                let owed: Vec<(Uuid, u64)> = owed.copied().collect();
                found.extend(receiver_memory(h, c, life, &owed, f.at));
            }
            // A sender that excluded the receiver charges it nothing; as long as the receiver does
            // not know, it takes what reaches it.
            What::View(v) => {
                let lives = h.all_lives().filter(|l| !v.contains(h.id(*l)));
                ever_excluded.extend(lives.map(|l| (h.id(life), l)));
            }
            _ => {}
        }
    }
    if let Some(rest) = h.phase(Phase::AtRest) {
        found.extend(at_rest(h, rest));
    }
    found
}

/// E1.
fn within_bounds(
    h: &History,
    c: &Conditions,
    life: Life,
    pool: Pool,
    accounts: &[CreditAccount],
    at: Time,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for a in accounts {
        // A regular and an out-of-band message may wait at the head of their lines.
        let lowest = -2 * i64::try_from(c.largest_message.max(a.max)).unwrap_or(i64::MAX / 2);
        let too_much = a.balance > a.max || a.shown > a.balance as i64;
        if too_much || a.shown < lowest {
            let (who, peer) = (h.name(life), h.name_of(a.peer));
            let text = format!(
                "{who} for {peer} at {at} ({pool:?}): balance {}, shown {}, max {}",
                a.balance, a.shown, a.max
            );
            found.push(Violation::new("E1", text));
        }
    }
    found
}

/// E7: undelivered bytes of one sender: both pools and one message in each, and as much again in
/// the first view of a pair or while the receiver's own calls wait.
fn receiver_memory(
    h: &History,
    c: &Conditions,
    life: Life,
    unread: &[(Uuid, u64)],
    at: Time,
) -> Vec<Violation> {
    const POOLS: u64 = 2;
    let limit = POOLS * 2 * (c.max_credits + c.largest_message);
    let over = unread.iter().filter(|(_, bytes)| *bytes > limit);
    over.map(|(from, bytes)| {
        let (who, from) = (h.name(life), h.name_of(*from));
        let text = format!("{who} at {at}: {bytes} unread bytes of {from}, limit {limit}");
        Violation::new("E7", text)
    })
    .collect()
}

/// E2 and E3, with the first sample of everybody after the start of rest.
fn at_rest(h: &History, rest: usize) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut accounts: BTreeMap<(Pool, Uuid, Uuid), CreditAccount> = BTreeMap::new();
    let mut sampled: BTreeSet<(Pool, Life)> = BTreeSet::new();
    for Fact { life, what, .. } in &h.facts[rest..] {
        let (Some(life), What::Credits(pool, list)) = (life, what) else { continue };
        if !sampled.insert((*pool, *life)) {
            continue;
        }
        let view = h.views_of(*life).into_iter().rev().find(|(i, _)| *i < rest).map(|(_, v)| v);
        found.extend(right_peers(h, *life, *pool, list, view));
        for a in list {
            accounts.insert((*pool, h.id(*life), a.peer), *a);
        }
    }
    for ((pool, sender, receiver), mine) in &accounts {
        let Some(theirs) = accounts.get(&(*pool, *receiver, *sender)) else { continue };
        let sum = mine.balance + theirs.unconsumed + theirs.ungranted;
        let limit = mine.max.max(theirs.max);
        if sum > limit && sum - limit > uncharged(h, *pool, *sender, *receiver, rest) {
            let (s, r) = (h.name_of(*sender), h.name_of(*receiver));
            let text = format!(
                "{s} to {r} ({pool:?}): balance {} + unconsumed {} + ungranted {} is above {}",
                mine.balance, theirs.unconsumed, theirs.ungranted, mine.max
            );
            found.push(Violation::new("E2", text));
        }
    }
    found
}

/// What the receiver may have counted although the sender's account was not charged for it: what
/// was admitted when the receiver was not in the sender's view, and what crossed the moment at which
/// both ends began a new account. Small messages cost more than their length, and fragments more
/// than the whole, so this is generous.
fn uncharged(h: &History, pool: Pool, sender: Uuid, receiver: Uuid, rest: usize) -> u64 {
    let (Some(s), Some(r)) = (h.life_of(sender), h.life_of(receiver)) else { return 0 };
    let (at_sender, at_receiver) = (beginnings(h, s, receiver), beginnings(h, r, sender));
    let delivered: BTreeMap<MessageId, usize> = h
        .facts_of(r)
        .take_while(|(i, _)| *i < rest)
        .filter_map(|(i, f)| match f.what {
            What::Delivered { message, from, multicast }
                if from == sender && multicast == (pool == Pool::Multicast) =>
            {
                Some((message, i))
            }
            _ => None,
        })
        .collect();
    let crosses = |sent: usize, taken: usize| {
        at_sender.iter().any(|(v, at)| sent < *at && at_receiver.get(v).is_some_and(|r| *r < taken))
    };
    let cost = |m: MessageId| 2 * h.message(m).size as u64 + 256;
    let mut in_view = false;
    let mut bytes = 0;
    // The digest a receiver joins with may cut through one fragmented message: it takes the rest of
    // the fragments and never delivers it. Later ones are delivered, earlier ones not received.
    let mut cut_through = None;
    for (i, f) in h.facts_of(s).take_while(|(i, _)| *i < rest) {
        match &f.what {
            What::View(v) => {
                let now = v.contains(receiver);
                if now && !in_view {
                    bytes += cut_through.take().map_or(0, cost);
                }
                in_view = now;
            }
            What::Sent(m) | What::Resolved(m, _) => match delivered.get(m) {
                Some(at) if !in_view || crosses(i, *at) => bytes += cost(*m),
                None if !in_view => cut_through = Some(*m),
                Some(_) | None => {}
            },
            _ => {}
        }
    }
    bytes
}

/// The views with which an account with `peer` may have begun, and where: those that brought the
/// peer, and merges.
fn beginnings(h: &History, life: Life, peer: Uuid) -> BTreeMap<ViewId, usize> {
    let mut before = false;
    let mut began = BTreeMap::new();
    for (i, v) in h.views_of(life) {
        let now = v.contains(peer);
        if now && (!before || v.is_merge()) {
            began.insert(v.id, i);
        }
        before = now;
    }
    began
}

fn right_peers(
    h: &History,
    life: Life,
    pool: Pool,
    list: &[CreditAccount],
    view: Option<Arc<View>>,
) -> Option<Violation> {
    let view = view?;
    let strangers: Vec<Uuid> = list.iter().map(|a| a.peer).filter(|p| !view.contains(*p)).collect();
    (!strangers.is_empty()).then(|| {
        let text = format!(
            "{} keeps {pool:?} accounts of {}, who are no members",
            h.name(life),
            crate::transcript::names(&strangers, h)
        );
        Violation::new("E3", text)
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn account(peer: Life, balance: u64) -> CreditAccount {
        CreditAccount {
            peer: id(peer),
            balance,
            shown: balance as i64,
            waiting: 0,
            unconsumed: 0,
            ungranted: 0,
            max: 1_000,
        }
    }

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    #[test]
    fn full_accounts_break_nothing() {
        let mut h = together();
        phase(&mut h, Phase::AtRest);
        push(&mut h, A, What::Credits(Pool::Multicast, vec![account(B, 1_000)]));
        push(&mut h, B, What::Credits(Pool::Multicast, vec![account(A, 1_000)]));
        assert!(found(&h).is_empty());
    }

    #[test]
    fn more_credit_than_there_is_breaks_e1() {
        let mut h = together();
        push(&mut h, A, What::Credits(Pool::Unicast, vec![account(B, 1_001)]));
        assert_eq!(found(&h), ["E1"]);
    }

    #[test]
    fn credit_that_exists_twice_at_rest_breaks_e2() {
        let mut h = together();
        phase(&mut h, Phase::AtRest);
        push(&mut h, A, What::Credits(Pool::Unicast, vec![account(B, 1_000)]));
        let theirs = CreditAccount { ungranted: 1, ..account(A, 1_000) };
        push(&mut h, B, What::Credits(Pool::Unicast, vec![theirs]));
        assert_eq!(found(&h), ["E2"]);
    }

    #[test]
    fn an_account_of_a_stranger_breaks_e3() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A]);
        phase(&mut h, Phase::AtRest);
        push(&mut h, A, What::Credits(Pool::Unicast, vec![account(B, 1_000)]));
        assert_eq!(found(&h), ["E3"]);
    }

    #[test]
    fn too_many_unread_bytes_break_e7() {
        let mut h = together();
        push(&mut h, A, What::Unread(vec![(id(B), 6_000)]));
        assert!(found(&h).is_empty());
        push(&mut h, A, What::Unread(vec![(id(B), 6_001)]));
        assert_eq!(found(&h), ["E7"]);
    }
}
