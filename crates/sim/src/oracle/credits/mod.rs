//! E: flow control. Credits stay within their bounds, and so does what waits at a receiver.

mod epochs;
mod grants;
mod ledger;
mod rest;
#[cfg(test)]
mod tests;

use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{Fact, History, Phase, What};
use grants::Grants;
use ledger::Ledger;
use rest::Pair;
use rgroups_core::event::CreditAccount;
use rgroups_core::{Pool, Time, Uuid, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks E1, E5, E7 and E9, and at rest E2 (no more credit than there is), E3, E4 (and no less) and
/// E6 (only messages of applications cost any).
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
    let ledger = Ledger::new(h, c);
    let (grants, unpaired) = grants::pair_up(h);
    found.extend(unpaired);
    found.extend(grants::of_strangers(h));
    found.extend(epochs::check(h, &ledger));
    if let Some(rest) = h.phase(Phase::AtRest) {
        found.extend(at_rest(h, &ledger, &grants, rest));
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

/// E2, E3, E4 and E6, with the first sample of everybody after the start of rest.
fn at_rest(h: &History, ledger: &Ledger<'_>, grants: &Grants, rest: usize) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut accounts: BTreeMap<(Pool, Life, Life), CreditAccount> = BTreeMap::new();
    let mut sampled: BTreeSet<(Pool, Life)> = BTreeSet::new();
    for Fact { life, what, .. } in &h.facts[rest..] {
        let (Some(life), What::Credits(pool, list)) = (life, what) else { continue };
        if !sampled.insert((*pool, *life)) {
            continue;
        }
        let view = h.views_of(*life).into_iter().rev().find(|(i, _)| *i < rest).map(|(_, v)| v);
        found.extend(right_peers(h, *life, *pool, list, view));
        for a in list {
            if let Some(peer) = h.life_of(a.peer) {
                accounts.insert((*pool, *life, peer), *a);
            }
        }
    }
    for ((pool, sender, receiver), mine) in &accounts {
        let (pool, sender, receiver) = (*pool, *sender, *receiver);
        let Some(theirs) = accounts.get(&(pool, receiver, sender)) else { continue };
        let pair = Pair { pool, sender, receiver, mine, theirs };
        found.extend(rest::check(h, ledger, grants, &pair, rest));
    }
    found
}

/// E3.
fn right_peers(
    h: &History,
    life: Life,
    pool: Pool,
    list: &[CreditAccount],
    view: Option<Arc<View>>,
) -> Option<Violation> {
    let view = view?;
    let has: BTreeSet<Uuid> = list.iter().map(|a| a.peer).collect();
    let should: BTreeSet<Uuid> = view.members.iter().copied().collect();
    (has != should).then(|| {
        let text = format!(
            "{} keeps {pool:?} accounts of {}, members are {}",
            h.name(life),
            crate::transcript::names(&Vec::from_iter(has), h),
            crate::transcript::names(&view.members, h)
        );
        Violation::new("E3", text)
    })
}
