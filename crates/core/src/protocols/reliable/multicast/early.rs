//! Multicasts that come too early: before our join is complete they wait; of senders that are not
//! members yet only the highest number is remembered, so that it can be asked for once they are.

use super::super::parking::Parking;
use crate::wire::{ProtId, header::NakAckHeader};
use crate::{Batch, Cx, DropReason, Uuid};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Messages of all senders that wait.
const MOST: usize = 1000;
/// Payload bytes that wait.
const MOST_BYTES: usize = 8_000_000;

/// What waits for the end of the join.
#[derive(Debug, Default)]
pub(super) struct Early {
    batches: Vec<Batch>,
    per_sender: BTreeMap<Uuid, usize>,
    bytes: usize,
    messages: usize,
}

impl Early {
    /// Takes the numbered messages of `batch`. Beyond a limit they are dropped: they will be asked
    /// for, as their numbers are announced.
    pub(super) fn set_aside(
        &mut self,
        batch: &mut Batch,
        id: ProtId,
        most: usize,
        parking: &mut Parking,
        cx: &mut Cx<'_>,
    ) {
        let src = batch.src;
        let mut kept = batch.like();
        let mine = self.per_sender.get(&src).copied().unwrap_or_default();
        batch.retain(|m| {
            if m.headers.get(id).is_none() {
                return true;
            }
            let full = mine + kept.len() >= most || self.messages + kept.len() >= MOST;
            let bytes = m.length();
            if full || self.bytes + bytes > MOST_BYTES {
                cx.drop_from_peer(DropReason::OverLimit, Some(src));
            } else {
                self.bytes += bytes;
                parking.park(m);
                kept.push(core::mem::take(m));
            }
            false
        });
        if !kept.is_empty() {
            self.messages += kept.len();
            self.per_sender.insert(src, mine + kept.len());
            self.batches.push(kept);
        }
    }

    /// What waited, in order of arrival.
    pub(super) fn into_batches(self) -> Vec<Batch> {
        self.batches
    }
}

/// Highest numbers of senders that are not members: what was dropped of them. Bounded; the numbers
/// of former members count for nothing, since a new life starts at 1.
#[derive(Debug, Default)]
pub(super) struct Heard {
    highest: BTreeMap<Uuid, i64>,
    former: VecDeque<Uuid>,
}

const MOST_STRANGERS: usize = 64;

impl Heard {
    /// A message of a sender without window was dropped.
    pub(super) fn note(&mut self, from: Uuid, header: &NakAckHeader) {
        let (NakAckHeader::Msg(n) | NakAckHeader::HighestSeqno(n)) = header else { return };
        let known = self.highest.contains_key(&from);
        if self.former.contains(&from) || (!known && self.highest.len() >= MOST_STRANGERS) {
            return;
        }
        let highest = self.highest.entry(from).or_insert(*n);
        *highest = (*highest).max(*n);
    }

    /// The highest number heard of `member` before it became one.
    pub(super) fn take(&mut self, member: Uuid) -> Option<i64> {
        self.highest.remove(&member)
    }

    /// A view was installed without these.
    pub(super) fn left(&mut self, leavers: impl Iterator<Item = Uuid>) {
        self.highest.clear();
        for m in leavers {
            if self.former.len() >= MOST_STRANGERS {
                self.former.pop_front();
            }
            self.former.push_back(m);
        }
    }
}
