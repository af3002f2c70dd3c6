//! What applications sent, as far as it concerns the account of a pair. What happens in one turn of a
//! node has no order here: it counts as before and as after.

use super::super::Conditions;
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::{Pool, SendResult, Time, Uuid, View};
use std::collections::BTreeMap;

/// What a message costs at least between members of this toolkit.
const COST_FLOOR: u64 = 128;

/// A message of an application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) message: MessageId,
    /// When the application sent it.
    pub(super) at: Time,
    /// When the call ended.
    over: Option<Time>,
}

impl Sent {
    /// Whether some of it may have been charged after `begin`: it was sent later, or may have
    /// waited for credit then.
    pub(super) fn charged_after(&self, begin: Time) -> bool {
        self.at >= begin || self.over.is_none_or(|o| o >= begin)
    }
}

/// All messages of a run that were not refused.
pub(super) struct Ledger<'a> {
    h: &'a History,
    frag_size: u64,
    sent: BTreeMap<Life, Vec<Sent>>,
    delivered: BTreeMap<(MessageId, Life), Time>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(h: &'a History, c: &Conditions) -> Self {
        let mut over: BTreeMap<MessageId, (Time, bool)> = BTreeMap::new();
        let mut delivered = BTreeMap::new();
        for f in &h.facts {
            match (&f.what, f.life) {
                (What::Resolved(m, how), _) => {
                    over.insert(*m, (f.at, matches!(how, SendResult::Refused(_))));
                }
                (What::Delivered { message, .. }, Some(life)) => {
                    delivered.entry((*message, life)).or_insert(f.at);
                }
                _ => {}
            }
        }
        let mut sent: BTreeMap<Life, Vec<Sent>> = BTreeMap::new();
        for f in &h.facts {
            let (What::Sent(m), Some(life)) = (&f.what, f.life) else { continue };
            let end = over.get(m);
            if end.is_some_and(|(_, refused)| *refused) {
                continue;
            }
            let over = end.map(|(at, _)| *at);
            sent.entry(life).or_default().push(Sent { message: *m, at: f.at, over });
        }
        Self { h, frag_size: c.frag_size, sent, delivered }
    }

    /// What `sender` sent in this pool with `receiver` among the destinations.
    pub(super) fn messages(
        &self,
        pool: Pool,
        sender: Life,
        receiver: Uuid,
    ) -> impl Iterator<Item = &Sent> {
        let to_self = self.h.id(sender) == receiver;
        self.sent.get(&sender).into_iter().flatten().filter(move |s| {
            let m = self.h.message(s.message);
            match pool {
                Pool::Unicast => m.names(receiver),
                Pool::Multicast => m.to.is_none() && (m.loopback || !to_self),
                Pool::Exempt | Pool::Ordered => false,
            }
        })
    }

    /// When it was delivered at `life`.
    pub(super) fn delivered(&self, m: MessageId, life: Life) -> Option<Time> {
        self.delivered.get(&(m, life)).copied()
    }

    /// What a message costs: its fragments cost the floor at least.
    pub(super) fn cost(&self, m: MessageId) -> u64 {
        let size = self.h.message(m).size.max(crate::payload::SMALLEST) as u64;
        if size <= self.frag_size {
            return size.max(COST_FLOOR);
        }
        match size % self.frag_size {
            0 => size,
            last => size - last + last.max(COST_FLOOR),
        }
    }

    /// The cost of the largest fragmented message of each class among these: at most one of each
    /// class can have been between its first and its last fragment at any one moment.
    pub(super) fn one_in_pieces<'s>(&self, among: impl Iterator<Item = &'s Sent>) -> u64 {
        let mut most = [0, 0];
        for s in among {
            let m = self.h.message(s.message);
            if m.size as u64 > self.frag_size {
                let most = &mut most[usize::from(m.ordered)];
                *most = (*most).max(self.cost(s.message));
            }
        }
        most.iter().sum()
    }
}

/// Whether the account with `peer` begins with the view `now`, when `before` was the one before:
/// the peer is new, or the two come from different partitions.
pub(super) fn begins(before: Option<&View>, now: &View, local: Uuid, peer: Uuid) -> bool {
    let known = before.is_some_and(|v| v.contains(peer)) && now.together(local, peer);
    now.contains(peer) && !known
}

/// When the account of `life` with `peer` last began before the position `until`.
pub(super) fn beginning(h: &History, life: Life, peer: Uuid, until: usize) -> Option<Time> {
    let views = h.views_of(life);
    let mut before: Option<&View> = None;
    let mut begun = None;
    for (i, v) in views.iter().take_while(|(i, _)| *i < until) {
        if begins(before, v, h.id(life), peer) {
            begun = Some(h.facts[*i].at);
        }
        before = Some(v);
    }
    begun
}
