//! The sequencer's half: what members forward becomes the one stream that all deliver.
//!
//! Own messages take their turn among the forwarded ones. What is forwarded to a member that is not
//! the sequencer, as its sender has a view already that this member will have soon, waits here until
//! that view is installed, or until it is delivered through another sequencer.

use super::{Budget, Sequencer, Waits, forwarding};
use crate::wire::header::{SequencerHeader, SequencerKind};
use crate::wire::{self, Body, Flags, Header, ProtId};
use crate::{Batch, Consumed, Cx, DropReason, Message, Pool, Receipt, Uuid, View, tag};
use alloc::collections::{BTreeSet, VecDeque};
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
    /// Whom a merge brought back: what they forwarded before they knew of it they will forward
    /// again, behind what was lost of it. And the view.
    begin_anew: BTreeSet<Uuid>,
    since: i64,
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
    /// Everything of this sender begins anew with it, since this view.
    begins: Option<i64>,
    payload: Body,
    receipt: Receipt,
}

impl Forwarded {
    fn consumed(&self) -> Consumed {
        Consumed::one(self.from, self.receipt)
    }

    /// It has left, or will not.
    pub(super) fn settle(&self, cx: &mut Cx<'_>) {
        settle(self.consumed(), cx);
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

    /// The own message whose turn it was had no credit in the view before.
    pub(super) fn own_again(&mut self) {
        if self.in_office {
            self.turns.push_front(Turn::Own);
        }
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
                f.settle(cx);
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

    /// In this view. Members of JGroups say nothing.
    pub(super) fn reunite(&mut self, view: &View, cx: &mut Cx<'_>) {
        let local = cx.local();
        let apart = |m: &&Uuid| tag::is_rgroups(**m) && view.reunites(local, **m);
        self.begin_anew = match view.coordinator() == local {
            true => view.members.iter().filter(apart).copied().collect(),
            false => BTreeSet::new(),
        };
        self.since = view_number(view);
        for turn in core::mem::take(&mut self.turns) {
            match turn {
                Turn::Of(f) if !self.counts(&f) => f.settle(cx),
                turn => self.turns.push_back(turn),
            }
        }
        for f in core::mem::take(&mut self.held) {
            match self.counts(&f) {
                true => self.held.push_back(f),
                false => f.settle(cx),
            }
        }
    }

    /// Whether it was forwarded since its sender has come back.
    fn counts(&mut self, f: &Forwarded) -> bool {
        if f.begins == Some(self.since) {
            self.begin_anew.remove(&f.from);
        }
        !self.begin_anew.contains(&f.from)
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.resign(cx);
        for f in core::mem::take(&mut self.held) {
            f.settle(cx);
        }
    }
}

/// As [`forwarding::begins`] has it.
pub(super) fn view_number(view: &View) -> i64 {
    i64::try_from(view.id.id).unwrap_or(i64::MAX)
}

fn stays(f: &Forwarded, view: &View, cx: &mut Cx<'_>) -> bool {
    let stays = view.contains(f.from);
    if !stays {
        f.settle(cx);
    }
    stays
}

fn settle(c: Consumed, cx: &mut Cx<'_>) {
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
            let begins = forwarding::begins(m);
            let Message { wire, receipt, .. } = core::mem::take(m);
            let f =
                Forwarded { from: src, seqno, acknowledge, begins, payload: wire.body, receipt };
            if !self.ordering.counts(&f) {
                self.counters.outdated += 1;
                f.settle(cx);
            } else if orders {
                self.ordering.turns.push_back(Turn::Of(f));
                any = true;
            } else if self.ordering.held.len() < MOST_HELD {
                self.ordering.held.push_back(f);
            } else {
                f.settle(cx);
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
                f.settle(cx);
            }
            !done
        });
    }

    /// `f` had no credit to leave in the view before: it is the first in this one, if it is wanted.
    pub(super) fn order_again(&mut self, f: Forwarded, cx: &mut Cx<'_>) {
        let of_member = self.view.as_ref().is_some_and(|v| v.contains(f.from));
        match of_member && self.ordering.in_office {
            true => self.ordering.turns.push_front(Turn::Of(f)),
            false => f.settle(cx),
        }
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
                        f.payload = m.body.clone();
                        self.send_into_line(m, Waits::Forwarded(f), cx);
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
