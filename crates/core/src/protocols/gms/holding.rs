//! Unicasts of senders that are not in the view. A member may send as soon as it has installed a
//! view, which can be earlier than the receiver installs it (BEHAVIOURS R08). What comes too early
//! waits here, in order, and goes up right after the view that contains its sender.
//!
//! Bounded per sender and in total: at the limit the newest is refused, before UNICAST3 acknowledges
//! it ([`Held::room`]), so that its sender sends it again; what comes without having been asked for
//! is dropped and counted. Never revives
//! what a member sent before a view excluded it (DECISIONS 7).

use crate::wire::Encode;
use crate::{Batch, Message, Time, Uuid, View};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// A message counts at least this much, so that empty ones are bounded too.
const MIN_COST: u64 = 128;

/// Whoever is in no view for this long after its first message will not be.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a message counts while it waits.
pub(crate) fn cost(m: &Message) -> u64 {
    (m.wire.encoded_len() as u64).max(MIN_COST)
}

/// How many bytes may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) per_sender: u64,
    pub(super) total: u64,
}

/// Unicasts that wait for their senders' view.
#[derive(Debug)]
pub(super) struct Held {
    limits: Limits,
    senders: BTreeMap<Uuid, Waiting>,
    bytes: u64,
}

#[derive(Debug)]
struct Waiting {
    batches: Vec<Batch>,
    bytes: u64,
    since: Time,
}

impl Held {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, senders: BTreeMap::new(), bytes: 0 }
    }

    /// Keeps `batch`, except for what is over the limit; how many messages were dropped.
    pub(super) fn hold(&mut self, mut batch: Batch, now: Time) -> usize {
        let offered = batch.len();
        let limits = self.limits;
        let known = self.senders.get(&batch.src).map_or(0, |w| w.bytes);
        let (mut own, mut total) = (known, self.bytes);
        batch.retain(|m| {
            let cost = cost(m);
            let fits = own + cost <= limits.per_sender && total + cost <= limits.total;
            if fits {
                own += cost;
                total += cost;
            }
            fits
        });
        let kept = batch.len();
        if kept > 0 {
            self.bytes = total;
            let fresh = Waiting { batches: Vec::new(), bytes: 0, since: now };
            let w = self.senders.entry(batch.src).or_insert(fresh);
            w.bytes = own;
            w.batches.push(batch);
        }
        offered - kept
    }

    /// How many more bytes of `from` may wait, when so many of it and of all are coming anyway.
    pub(super) fn room(&self, from: Uuid, coming: u64, coming_in_all: u64) -> u64 {
        let own = self.senders.get(&from).map_or(0, |w| w.bytes);
        let left =
            |limit: u64, used: u64, more: u64| limit.saturating_sub(used.saturating_add(more));
        let of_all = left(self.limits.total, self.bytes, coming_in_all);
        left(self.limits.per_sender, own, coming).min(of_all)
    }

    /// Whether something of `from` waits.
    pub(super) fn holds(&self, from: Uuid) -> bool {
        self.senders.contains_key(&from)
    }

    /// Takes what the members of `view` sent.
    pub(super) fn release(&mut self, view: &View) -> Vec<Batch> {
        let mut out = Vec::new();
        for m in view.members.iter() {
            if let Some(w) = self.senders.remove(m) {
                self.bytes -= w.bytes;
                out.extend(w.batches);
            }
        }
        out
    }

    /// Drops what waits of `from`; how many messages.
    pub(super) fn forget(&mut self, from: Uuid) -> usize {
        let Some(w) = self.senders.remove(&from) else { return 0 };
        self.bytes -= w.bytes;
        w.batches.iter().map(Batch::len).sum()
    }

    /// Drops what waited too long; how many messages.
    pub(super) fn expire(&mut self, now: Time) -> usize {
        let mut dropped = 0;
        let mut freed = 0;
        self.senders.retain(|_, w| {
            let keep = now.since(w.since) < PATIENCE;
            if !keep {
                dropped += w.batches.iter().map(Batch::len).sum::<usize>();
                freed += w.bytes;
            }
            keep
        });
        self.bytes -= freed;
        dropped
    }

    /// When [`Held::expire`] has something to do.
    pub(super) fn expires_at(&self) -> Option<Time> {
        self.senders.values().map(|w| w.since + PATIENCE).min()
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
