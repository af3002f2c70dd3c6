//! E2, E4 and E6: the two halves of every account at rest.
//!
//! Nothing is on its way then, so what the sender has and what the receiver has not granted add up
//! to the maximum, with four exceptions. All come from the moment at which an account begins: the
//! two ends see it at different times, and what is on its way then is seen by one of them as part of
//! the old account and by the other as part of the new one. JGroups' messages do not say to which
//! view they belong, so no receiver can tell.
//!
//! More than the maximum (E2):
//! - *Messages that were sent before the account began at the sender and delivered after it began at
//!   the receiver*: of a burst around a join, or between a merge's digests and its view. They were
//!   not charged to this account and are counted in it. Each at most its cost.
//! - *One message in pieces*: the digest that a receiver begins with may cut through a message, whose
//!   other fragments are counted and never make a message. At most one regular and one out-of-band
//!   message of each sender are in pieces at any moment.
//! - *Grants of the old account that arrive in the new one*, while some of the new one is used.
//!
//! Less than the maximum (E4):
//! - *Messages that were charged after the account began at the sender and delivered before it began
//!   at the receiver, or not at all*, because they were sent to a member that had left the sender's
//!   view or came from another epoch.
//! - *Grants that were lost, or arrived before the account began at the sender.*
//!
//! Too much is gone as soon as the sender has the maximum; too little is healed by the first credit
//! request (DECISIONS of flow control: `docs/decisions/008`), so neither grows.

use super::super::Violation;
use super::grants::{Grant, Grants};
use super::ledger::{Ledger, Sent, beginning};
use crate::connections::Life;
use crate::history::History;
use rgroups_core::event::CreditAccount;
use rgroups_core::{Pool, Time};

/// Both ends of an account.
pub(super) struct Pair<'a> {
    pub(super) pool: Pool,
    pub(super) sender: Life,
    pub(super) receiver: Life,
    pub(super) mine: &'a CreditAccount,
    pub(super) theirs: &'a CreditAccount,
}

/// When the account began at its two ends.
struct Begun {
    sender: Time,
    receiver: Time,
}

/// What is wrong with a pair at rest.
pub(super) fn check(
    h: &History,
    ledger: &Ledger<'_>,
    grants: &Grants,
    p: &Pair<'_>,
    rest: usize,
) -> Vec<Violation> {
    let (sender, receiver) = (h.id(p.sender), h.id(p.receiver));
    let begun = (beginning(h, p.sender, receiver, rest), beginning(h, p.receiver, sender, rest));
    let (Some(s), Some(r)) = begun else { return Vec::new() };
    let begun = Begun { sender: s, receiver: r };
    let key = (p.pool, receiver, sender);
    let none = Vec::new();
    let grants = grants.get(&key).unwrap_or(&none);
    let (mine, theirs) = (p.mine, p.theirs);
    let sum = mine.balance + theirs.unconsumed + theirs.ungranted;
    let (s, r, pool) = (h.name(p.sender), h.name(p.receiver), p.pool);
    let parts = format!(
        "{s} to {r} ({pool:?}): balance {} + unconsumed {} + ungranted {}",
        mine.balance, theirs.unconsumed, theirs.ungranted
    );
    let mut found = Vec::new();
    let more = uncharged(h, ledger, p, &begun) + late_grants(grants, &begun);
    if sum > mine.max + more {
        let text = format!("{parts} is above {}, and only {more} can be explained", mine.max);
        found.push(Violation::new("E2", text));
    }
    let less = uncounted(h, ledger, p, &begun) + lost_grants(grants, &begun);
    if sum + less < mine.max {
        let text = format!("{parts} is below {}, and only {less} can be explained", mine.max);
        found.push(Violation::new("E4", text));
    }
    let charged = charged(h, ledger, p, &begun);
    if mine.charged > charged {
        let text = format!(
            "{s} to {r} ({pool:?}): {} were charged, but applications sent only {charged}",
            mine.charged
        );
        found.push(Violation::new("E6", text));
    }
    found
}

/// What the receiver may have counted although the sender's account was not charged for it.
fn uncharged(h: &History, ledger: &Ledger<'_>, p: &Pair<'_>, begun: &Begun) -> u64 {
    let before = || {
        let all = ledger.messages(p.pool, p.sender, h.id(p.receiver));
        all.filter(|s| s.at <= begun.sender)
    };
    let delivered = |s: &Sent| ledger.delivered(s.message, p.receiver);
    let late = before().filter(|s| delivered(s).is_some_and(|at| at >= begun.receiver));
    late.map(|s| ledger.cost(s.message)).sum::<u64>()
        + ledger.one_in_pieces(before().filter(|s| delivered(s).is_none()))
}

/// What the sender's account may have been charged for although the receiver did not count it.
fn uncounted(h: &History, ledger: &Ledger<'_>, p: &Pair<'_>, begun: &Begun) -> u64 {
    let missing = || {
        let all = ledger.messages(p.pool, p.sender, h.id(p.receiver));
        all.filter(|s| {
            ledger.delivered(s.message, p.receiver).is_none_or(|at| at <= begun.receiver)
        })
    };
    let charged = missing().filter(|s| s.charged_after(begun.sender));
    charged.map(|s| ledger.cost(s.message)).sum::<u64>()
        + ledger.one_in_pieces(missing().filter(|s| !s.charged_after(begun.sender)))
}

/// The most that the sender's account can have been charged.
fn charged(h: &History, ledger: &Ledger<'_>, p: &Pair<'_>, begun: &Begun) -> u64 {
    let all = || ledger.messages(p.pool, p.sender, h.id(p.receiver));
    let charged = all().filter(|s| s.charged_after(begun.sender));
    charged.map(|s| ledger.cost(s.message)).sum::<u64>()
        + ledger.one_in_pieces(all().filter(|s| !s.charged_after(begun.sender)))
}

/// Granted in the old account, taken in the new one.
fn late_grants(grants: &[Grant], begun: &Begun) -> u64 {
    let late = grants
        .iter()
        .filter(|g| g.at <= begun.receiver && g.taken.is_some_and(|at| at >= begun.sender));
    late.map(|g| g.bytes).sum()
}

/// Granted in the new account, not taken or taken in the old one.
fn lost_grants(grants: &[Grant], begun: &Begun) -> u64 {
    let lost = grants
        .iter()
        .filter(|g| g.at >= begun.receiver && g.taken.is_none_or(|at| at <= begun.sender));
    lost.map(|g| g.bytes).sum()
}
