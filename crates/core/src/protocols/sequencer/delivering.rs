//! The receiver's half: the stream of the sequencer becomes messages of those who sent them.
//!
//! Credit is owed to the sequencer, whose multicast it was, while the application consumes a message
//! of somebody else: receipts going up name an account here ([`Accounts`]), and what is consumed of
//! it is passed on as consumed of the sequencer.

use super::Sequencer;
use super::seen::Seen;
use crate::protocols::reliable::multicast_number;
use crate::wire::header::{SequencerHeader, SequencerKind};
use crate::wire::{self, Address, Decode, Header, ProtId, Reader};
use crate::{Batch, Consumed, Cx, DropReason, Message, Pool, Receipt, Uuid, View, tag};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// What was delivered, and what waits to be.
#[derive(Debug)]
pub(super) struct Delivering {
    seen: Seen,
    accounts: Accounts,
    /// Ordered by members that are not the sequencer of the installed view: of a later one.
    early: BTreeMap<Uuid, Vec<Message>>,
    /// Who ordered before this view and does not any more.
    former: BTreeSet<Uuid>,
}

/// Whose credit the messages are paid with that were given to the application.
#[derive(Debug, Default)]
struct Accounts {
    /// The last ones, by sequencer and epoch. The number of the first is `first`.
    known: VecDeque<(Uuid, u32)>,
    first: u32,
}

/// Messages that wait for a view; only without flow control more can come.
const MOST_EARLY: usize = 65_536;

/// Changes of the sequencer that consumption may lag behind.
const MOST_ACCOUNTS: usize = 64;

impl Accounts {
    /// Under which number a receipt goes up.
    fn number(&mut self, of: Uuid, epoch: u32) -> u32 {
        if self.known.back() != Some(&(of, epoch)) {
            self.known.push_back((of, epoch));
            if self.known.len() > MOST_ACCOUNTS {
                self.known.pop_front();
                self.first = self.first.wrapping_add(1);
            }
        }
        self.first.wrapping_add(self.known.len() as u32 - 1)
    }

    fn account(&self, number: u32) -> Option<(Uuid, u32)> {
        self.known.get(number.wrapping_sub(self.first) as usize).copied()
    }
}

/// Room for so many messages is made at once.
const MOST_ROOM: usize = 16;

/// The messages that go up next, of one sender.
#[derive(Debug, Default)]
struct Run(Option<Batch>);

impl Run {
    fn push(&mut self, src: Uuid, m: Message, room: usize, cx: &mut Cx<'_>) {
        match &mut self.0 {
            Some(batch) if batch.src == src => batch.push(m),
            other => {
                let batch = other.replace(Batch::begun(src, m, room.min(MOST_ROOM)));
                batch.into_iter().for_each(|b| cx.deliver_up(b));
            }
        }
    }

    fn end(self, cx: &mut Cx<'_>) {
        self.0.into_iter().for_each(|b| cx.deliver_up(b));
    }
}

impl Delivering {
    pub(super) fn new(window: u32) -> Self {
        Self {
            seen: Seen::new(window),
            accounts: Accounts::default(),
            early: BTreeMap::new(),
            former: BTreeSet::new(),
        }
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn early(&self) -> usize {
        self.early.values().map(Vec::len).sum()
    }

    /// What is owed below for what was consumed above.
    pub(super) fn owed(&self, what: &Consumed) -> Option<Consumed> {
        if what.pool != Pool::Ordered {
            return None;
        }
        let (from, epoch) = self.accounts.account(what.epoch)?;
        let Consumed { bytes, messages, .. } = *what;
        let none = Receipt { pool: Pool::Multicast, epoch, ..Receipt::default() };
        Some(Consumed { bytes, messages, ..Consumed::one(from, none) })
    }

    /// This view is installed.
    pub(super) fn enter(&mut self, former: Option<Uuid>, view: &View) {
        self.seen.enter(view);
        let next = view.coordinator();
        let ordered = view.subgroups.iter().map(View::coordinator).chain(former);
        self.former = ordered.filter(|m| *m != next).collect();
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        for (src, messages) in core::mem::take(&mut self.early) {
            messages.iter().for_each(|m| settle(src, m.receipt, cx));
        }
        self.former.clear();
    }
}

fn settle(from: Uuid, receipt: Receipt, cx: &mut Cx<'_>) {
    if receipt.pool != Pool::Exempt {
        cx.settle(Consumed::one(from, receipt));
    }
}

impl Sequencer {
    /// Multicasts, some of them with our header.
    pub(super) fn receive_ordered(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let ours = |m: &Message| {
            !super::is_outside(m)
                && matches!(m.headers.get(ProtId::SEQUENCER), Some(Header::Sequencer(_)))
        };
        let ordered: Vec<Message> = match batch.messages().iter().all(ours) {
            true => batch.take_all(),
            false => {
                let (ordered, rest) = batch.take_all().into_iter().partition(ours);
                batch.replace(rest);
                ordered
            }
        };
        if ordered.is_empty() {
            return;
        }
        let in_office = self.sequencer() == Some(src);
        // A member of JGroups may have ordered it before it knew of this view; others deliver it.
        let late = !tag::is_rgroups(src) && self.delivering.former.contains(&src);
        #[cfg(feature = "mutants")]
        let late = late || cx.mutant(crate::mutants::Mutant::EverybodyOrders);
        if in_office || late {
            self.deliver_all(src, ordered, cx);
        } else if self.delivering.early() + ordered.len() <= MOST_EARLY {
            self.delivering.early.entry(src).or_default().extend(ordered);
        } else {
            for m in ordered {
                cx.drop_from_peer(DropReason::OverLimit, Some(src));
                settle(src, m.receipt, cx);
            }
        }
        self.pump(cx);
    }

    /// What the sequencer of the view that is installed now has ordered in it before.
    pub(super) fn deliver_early(&mut self, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        let next = view.coordinator();
        let early = core::mem::take(&mut self.delivering.early);
        for (src, messages) in early {
            if src == next {
                self.deliver_all(src, messages, cx);
            } else if view.contains(src) {
                self.delivering.early.insert(src, messages);
            } else {
                messages.iter().for_each(|m| settle(src, m.receipt, cx));
            }
        }
    }

    fn deliver_all(&mut self, src: Uuid, ordered: Vec<Message>, cx: &mut Cx<'_>) {
        let mut run = Run::default();
        let mut left = ordered.len();
        for m in ordered {
            self.deliver(src, m, left, &mut run, cx);
            left -= 1;
        }
        run.end(cx);
        if self.ordering.held() > 0 {
            self.drop_held_and_delivered(cx);
        }
    }

    /// Delivers what `src` has ordered; `room`: how many messages may follow.
    fn deliver(&mut self, src: Uuid, mut m: Message, room: usize, run: &mut Run, cx: &mut Cx<'_>) {
        self.counters.received_broadcasts += 1;
        let Some(Header::Sequencer(h)) = m.headers.get(ProtId::SEQUENCER) else { return };
        let SequencerHeader { kind, seqno, flush_ack } = *h;
        let receipt = m.receipt;
        let (sender, m) = match kind {
            SequencerKind::Bcast => {
                m.headers.remove(ProtId::SEQUENCER);
                (src, m)
            }
            SequencerKind::WrappedBcast => match unwrap(&m) {
                Some((sender, inner)) => {
                    let mut inner = Message::from(inner);
                    inner.receipt = self.receipt(src, sender, receipt);
                    inner.ordered = multicast_number(&m).map(|n| Box::new((src, n)));
                    (sender, inner)
                }
                None => {
                    cx.drop_from_peer(DropReason::Malformed, Some(src));
                    return settle(src, receipt, cx);
                }
            },
            SequencerKind::Forward | SequencerKind::Flush => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                return settle(src, receipt, cx);
            }
        };
        let own = sender == cx.local();
        let returned = own.then(|| self.take_returned(seqno, flush_ack, cx));
        let member = self.view.as_ref().is_some_and(|v| v.contains(sender));
        if !member {
            cx.drop_from_peer(DropReason::NotAMember, Some(sender));
            return settle(src, receipt, cx);
        }
        let awaited = returned.as_ref().is_none_or(|r| r.awaited);
        if !awaited || !self.delivering.seen.note(sender, seqno) {
            self.counters.duplicates += 1;
            cx.drop_from_peer(DropReason::Duplicate, Some(sender));
            return settle(src, receipt, cx);
        }
        if returned.is_some_and(|r| r.unwanted) {
            return settle(src, receipt, cx);
        }
        self.counters.delivered += 1;
        run.push(sender, m, room, cx);
    }

    /// The receipt with which a message of `sender` goes up that `src` has ordered.
    fn receipt(&mut self, src: Uuid, sender: Uuid, receipt: Receipt) -> Receipt {
        if receipt.pool != Pool::Multicast || src == sender {
            return receipt;
        }
        let epoch = self.delivering.accounts.number(src, receipt.epoch);
        Receipt { pool: Pool::Ordered, epoch, ..receipt }
    }
}

/// The message that was forwarded, and who sent it.
fn unwrap(m: &wire::Message) -> Option<(Uuid, wire::Message)> {
    let mut r = Reader::new(m.body.as_bytes()?.clone());
    let mut inner = wire::Message::decode(&mut r).ok()?;
    r.finish("ordered message").ok()?;
    let sender = inner.src.as_ref().and_then(Address::uuid)?;
    inner.headers.remove(ProtId::SEQUENCER)?;
    inner.is_multicast().then_some((sender, inner))
}
