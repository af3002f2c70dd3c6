//! What waits above the network for a state: multicasts and views, in order.

use crate::wire::Hints;
use crate::wire::SeqnoPair;
use crate::{Batch, Consumed, Digest, Message, Pool, Uuid, View};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A message without flow control counts at least this much, so that empty ones are bounded too.
const LEAST: u64 = 128;

/// One thing that waits.
#[derive(Debug)]
pub(super) enum Item {
    Messages(Batch),
    View(Arc<View>),
}

/// Everything that waits. Messages with flow control are not counted here: as long as they are not
/// consumed, their senders get no new credit.
#[derive(Debug, Default)]
pub(super) struct Held {
    items: VecDeque<Item>,
    /// Bytes of messages without flow control.
    exempt: u64,
    messages: u64,
}

impl Held {
    pub(super) fn view(&mut self, v: Arc<View>) {
        self.items.push_back(Item::View(v));
    }

    /// Keeps `batch`; gives back what is over the limit.
    pub(super) fn messages(&mut self, mut batch: Batch, limit: u64) -> Vec<Message> {
        let mut over = Vec::new();
        let exempt = &mut self.exempt;
        batch.retain(|m| {
            if m.receipt.pool != Pool::Exempt {
                return true;
            }
            let cost = (m.length() as u64).max(LEAST);
            let fits = *exempt + cost <= limit;
            match fits {
                true => *exempt += cost,
                false => over.push(core::mem::take(m)),
            }
            fits
        });
        self.messages += batch.len() as u64;
        if !batch.is_empty() {
            self.items.push_back(Item::Messages(batch));
        }
        over
    }

    /// Everything, in order.
    pub(super) fn into_items(self) -> impl Iterator<Item = Item> {
        self.items.into_iter()
    }

    /// How many messages wait.
    pub(super) fn len(&self) -> u64 {
        self.messages
    }
}

/// Up to where a state contains the ordered multicasts of each sender.
#[derive(Debug, Default)]
pub(super) struct Contained {
    upto: BTreeMap<Uuid, i64>,
    /// Of whom something came that is not contained.
    passed: Vec<Uuid>,
    /// The members of the last view, to see who has left.
    members: Vec<Uuid>,
}

impl Contained {
    /// A new state contains this.
    pub(super) fn set(&mut self, upto: impl Iterator<Item = (Uuid, i64)>) {
        self.passed.clear();
        self.upto = upto.collect();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whoever has left the view sends nothing more that the state contains. A member that is not
    /// in it yet may still come: the provider knew it earlier than we do.
    pub(super) fn view(&mut self, view: &View) {
        for m in self.members.iter().filter(|m| !view.contains(**m)) {
            self.upto.remove(m);
        }
        self.members = view.members.to_vec();
    }

    /// What was delivered by this member, and what came with its state and was not delivered yet.
    pub(super) fn added_to(&self, mut delivered: Digest) -> Digest {
        for (m, upto) in &self.upto {
            if let Some(pair) = delivered.get(*m)
                && pair.delivered < *upto
            {
                let received = pair.received.max(*upto);
                delivered.set(*m, SeqnoPair { delivered: *upto, received });
            }
        }
        delivered
    }

    /// Whether it contains anything of `src`.
    pub(super) fn concerns(&self, src: Uuid) -> bool {
        self.upto.contains_key(&src)
    }

    /// Removes from `batch` what the state contains; what its consumption owes. Requests are marked
    /// instead: their callers wait for an answer.
    pub(super) fn leave_out(&mut self, batch: &mut Batch) -> Vec<Consumed> {
        let (src, oob) = (batch.src, batch.oob);
        let mut owed = Vec::new();
        if self.upto.is_empty() {
            return owed;
        }
        let passed = &mut self.passed;
        batch.retain(|m| {
            let Some((of, n)) = m.numbered(src) else { return true };
            let Some(upto) = self.upto.get(&of) else { return true };
            let contained = n <= *upto;
            if contained && crate::rpc::calls::is_request(m) {
                m.hints |= Hints::IN_STATE;
                return true;
            }
            match contained {
                true => owed.push(Consumed::one(src, m.receipt)),
                false if !oob && passed.last() != Some(&of) => passed.push(of),
                false => {}
            }
            !contained
        });
        owed
    }

    /// The end of a turn. Ordered messages come in order: once one has come that is not contained, no
    /// contained one follows, but for those out of band that came in the same turn and made it be the next.
    pub(super) fn end_turn(&mut self) {
        for src in self.passed.drain(..) {
            self.upto.remove(&src);
        }
    }
}
