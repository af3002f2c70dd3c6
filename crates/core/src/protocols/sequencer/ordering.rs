//! The sequencer's half: what members forward becomes the one stream that all deliver.
//!
//! Own messages take their turn among the forwarded ones. What is forwarded to a member that is not
//! the sequencer, as its sender has a view already that this member will have soon, waits here until
//! that view is installed, or until it is delivered through another sequencer.

use super::{Budget, Sequencer, Waits};
use crate::wire::header::{SequencerHeader, SequencerKind};
use crate::wire::{self, Body, Flags, Header, ProtId};
use crate::{Batch, Consumed, Cx, DropReason, Message, Pool, Receipt, Uuid, View, tag};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Messages that wait for a view; only without flow control more can come.
const MOST_HELD: usize = 65_536;

/// What is to be multicast.
#[derive(Debug, Default)]
pub(super) struct Ordering {
    /// At the sequencer: whose turn it is.
    turns: VecDeque<Turn>,
    in_office: bool,
    /// Elsewhere: what came too early.
    held: VecDeque<Forwarded>,
}

#[derive(Debug)]
enum Turn {
    /// The next own message.
    Own,
    /// One of another member.
    Of(Forwarded),
}

/// A message that a member has forwarded.
#[derive(Debug)]
pub(super) struct Forwarded {
    from: Uuid,
    seqno: i64,
    /// Its sender waits for it to come back.
    acknowledge: bool,
    payload: Body,
    receipt: Receipt,
}

impl Forwarded {
    fn consumed(&self) -> Consumed {
        Consumed::one(self.from, self.receipt)
    }

    /// As everybody gets it.
    fn broadcast(&mut self) -> Message {
        let header = Sequencer::header(SequencerKind::WrappedBcast, self.seqno, self.acknowledge);
        let mut m = wire::Message::multicast(core::mem::take(&mut self.payload))
            .with_header(ProtId::SEQUENCER, header);
        if self.acknowledge {
            m.flags |= Flags::DONT_BUNDLE;
        }
        m.into()
    }
}

impl Ordering {
    pub(super) fn in_office(&self) -> bool {
        self.in_office
    }

    pub(super) fn waiting(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) fn queue_own(&mut self) {
        self.turns.push_back(Turn::Own);
    }

    /// This member orders from now on, first its own messages: so many.
    pub(super) fn take_over(&mut self, own: usize) {
        self.in_office = true;
        self.turns.extend((0..own).map(|_| Turn::Own));
    }

    /// What came before the view is ordered now.
    pub(super) fn order_held(&mut self) {
        let held = core::mem::take(&mut self.held);
        self.turns.extend(held.into_iter().map(Turn::Of));
    }

    /// Another member does: who has forwarded something will forward it there.
    pub(super) fn resign(&mut self, cx: &mut Cx<'_>) {
        self.in_office = false;
        for turn in core::mem::take(&mut self.turns) {
            if let Turn::Of(f) = turn {
                settle(f.consumed(), cx);
            }
        }
    }

    /// Nobody delivers what is ordered of who is not in the view.
    pub(super) fn forget_leavers(&mut self, view: &View, cx: &mut Cx<'_>) {
        self.turns.retain(|t| match t {
            Turn::Own => true,
            Turn::Of(f) => stays(f, view, cx),
        });
        self.held.retain(|f| stays(f, view, cx));
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.resign(cx);
        for f in core::mem::take(&mut self.held) {
            settle(f.consumed(), cx);
        }
    }
}

fn stays(f: &Forwarded, view: &View, cx: &mut Cx<'_>) -> bool {
    let stays = view.contains(f.from);
    if !stays {
        settle(f.consumed(), cx);
    }
    stays
}

pub(super) fn settle(c: Consumed, cx: &mut Cx<'_>) {
    if c.pool != Pool::Exempt {
        cx.settle(c);
    }
}

impl Sequencer {
    /// Unicasts with our header.
    pub(super) fn receive_forwards(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let orders = self.orders(cx.local());
        let mut any = false;
        batch.retain(|m| {
            if super::is_outside(m) {
                return true;
            }
            let Some(Header::Sequencer(h)) = m.headers.get(ProtId::SEQUENCER) else { return true };
            let SequencerHeader { kind, seqno, .. } = *h;
            let acknowledge = match kind {
                SequencerKind::Forward => false,
                SequencerKind::Flush => true,
                SequencerKind::Bcast | SequencerKind::WrappedBcast => {
                    refuse(src, m, DropReason::Malformed, cx);
                    return false;
                }
            };
            if m.body.as_bytes().is_none() {
                refuse(src, m, DropReason::Malformed, cx);
                return false;
            }
            self.counters.received_forwards += 1;
            let Message { wire, receipt, .. } = core::mem::take(m);
            let f = Forwarded { from: src, seqno, acknowledge, payload: wire.body, receipt };
            if orders {
                self.ordering.turns.push_back(Turn::Of(f));
                any = true;
            } else if self.ordering.held.len() < MOST_HELD {
                self.ordering.held.push_back(f);
            } else {
                settle(f.consumed(), cx);
                cx.drop_from_peer(DropReason::OverLimit, Some(src));
            }
            false
        });
        if any {
            self.pump(cx);
        }
    }

    /// What came too early and was delivered meanwhile, through another sequencer, is done with.
    /// Its sender has it too, if it is one that agrees on last messages.
    pub(super) fn drop_held_and_delivered(&mut self, cx: &mut Cx<'_>) {
        let seen = self.delivering.seen();
        self.ordering.held.retain(|f| {
            let done = tag::repairs_tails(f.from) && seen.has(f.from, f.seqno);
            if done {
                settle(f.consumed(), cx);
            }
            !done
        });
    }

    /// Multicasts what waits, in turn.
    pub(super) fn order_waiting(&mut self, cx: &mut Cx<'_>) {
        let mut budget = Budget::of(None);
        let mut settled: Vec<Consumed> = Vec::new();
        while let Some(turn) = self.ordering.turns.pop_front() {
            match turn {
                Turn::Own => {
                    // What was taken back has left its turn behind.
                    let Some(m) = self.own.broadcast_next() else { continue };
                    self.counters.broadcast += 1;
                    if !budget.admits(m.length(), cx) {
                        self.send_into_line(m, Waits::Own, cx);
                        break;
                    }
                    cx.send_down(m);
                    self.own.admitted(cx);
                    self.own.forget_unwanted();
                }
                Turn::Of(mut f) => {
                    let m = f.broadcast();
                    self.counters.broadcast += 1;
                    if !budget.admits(m.length(), cx) {
                        self.send_into_line(m, Waits::Forwarded(f.consumed()), cx);
                        break;
                    }
                    cx.send_down(m);
                    let c = f.consumed();
                    if c.pool != Pool::Exempt && !settled.last_mut().is_some_and(|l| l.absorb(&c)) {
                        settled.push(c);
                    }
                }
            }
        }
        settled.into_iter().for_each(|c| cx.settle(c));
    }
}

fn refuse(src: Uuid, m: &Message, why: DropReason, cx: &mut Cx<'_>) {
    cx.drop_from_peer(why, Some(src));
    settle(Consumed::one(src, m.receipt), cx);
}
