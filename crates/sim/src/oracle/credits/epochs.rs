//! E5: what views do to accounts. Both ends of a new one begin with the maximum, and whoever waits
//! for a member that is gone waits no longer.

use super::super::Violation;
use super::ledger::{Ledger, begins};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::event::CreditAccount;
use rgroups_core::{Duration, Pool, Uuid, View};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Within this time a wait must have ended.
const AT_ONCE: Duration = Duration::from_millis(100);

pub(super) fn check(h: &History, ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for life in h.all_lives() {
        let views = h.views_of(life);
        let mut before: Option<&Arc<View>> = None;
        for (n, (at, v)) in views.iter().enumerate() {
            let until = views.get(n + 1).map_or(h.facts.len(), |(next, _)| *next);
            let new: Vec<Uuid> = v
                .members
                .iter()
                .copied()
                .filter(|m| begins(before.map(|b| &**b), v, h.id(life), *m))
                .collect();
            found.extend(new_accounts(h, ledger, life, *at..until, &new));
            for gone in before.into_iter().flat_map(|b| b.without(v)) {
                found.extend(waits(h, life, *at, gone));
            }
            before = Some(v);
        }
    }
    found
}

/// The first sample of each pool in the view shows the new accounts as they began, but for what was
/// sent and received since.
fn new_accounts(
    h: &History,
    ledger: &Ledger<'_>,
    life: Life,
    view: Range<usize>,
    new: &[Uuid],
) -> Vec<Violation> {
    let mut found = Vec::new();
    for pool in [Pool::Multicast, Pool::Unicast] {
        let samples =
            h.facts[view.clone()].iter().enumerate().filter(|(_, f)| f.life == Some(life));
        let first = samples.into_iter().find_map(|(i, f)| match &f.what {
            What::Credits(p, list) if *p == pool => Some((view.start + i, list)),
            _ => None,
        });
        let Some((sampled, list)) = first else { continue };
        for a in list.iter().filter(|a| new.contains(&a.peer)) {
            found.extend(new_account(h, ledger, life, pool, a, view.start..sampled));
        }
    }
    found
}

fn new_account(
    h: &History,
    ledger: &Ledger<'_>,
    life: Life,
    pool: Pool,
    a: &CreditAccount,
    since: Range<usize>,
) -> Option<Violation> {
    let (begun, sampled) = (h.facts[since.start].at, h.facts[since.end].at);
    let mine = || ledger.messages(pool, life, a.peer).filter(|s| s.at <= sampled);
    let used = mine().filter(|s| s.charged_after(begun));
    let used = used.map(|s| ledger.cost(s.message)).sum::<u64>()
        + ledger.one_in_pieces(mine().filter(|s| !s.charged_after(begun)));
    let peer = h.life_of(a.peer)?;
    let theirs = ledger.messages(pool, peer, h.id(life)).filter(|s| s.at <= sampled);
    let late = theirs.filter(|s| ledger.delivered(s.message, life).is_none_or(|at| at >= begun));
    let received: u64 = late.map(|s| ledger.cost(s.message)).sum();
    let counted = a.unconsumed + a.ungranted;
    let text = if a.balance + used < a.max {
        format!("balance {} of {}, but only {used} were sent since", a.balance, a.max)
    } else if counted > received {
        format!("{counted} counted, but only {received} can have arrived since")
    } else {
        return None;
    };
    let (who, with) = (h.name(life), h.name_of(a.peer));
    let text = format!("{who}, account with {with} ({pool:?}) that began at {begun}: {text}");
    Some(Violation::new("E5", text))
}

/// Unicasts to a member that is gone are refused with the view.
fn waits(h: &History, life: Life, at: usize, gone: Uuid) -> Vec<Violation> {
    let is_for = |m: MessageId| h.message(m).to.as_deref() == Some(&[gone]);
    let mut open = BTreeSet::new();
    let began = h.facts[at].at;
    for (i, f) in h.facts_of(life) {
        match &f.what {
            What::Sent(m) if i < at && is_for(*m) => {
                open.insert(*m);
            }
            What::Resolved(m, _) if f.at <= began + AT_ONCE => {
                open.remove(m);
            }
            What::Died { .. } | What::Left { .. } | What::Frozen(true)
                if f.at <= began + AT_ONCE =>
            {
                open.clear();
            }
            _ => {}
        }
    }
    let late = open.into_iter().map(|m| {
        let (who, gone) = (h.name(life), h.name_of(gone));
        let text = format!("#{} of {who} still waits for {gone}, gone since {began}", m.0);
        Violation::new("E5", text)
    });
    late.collect()
}
