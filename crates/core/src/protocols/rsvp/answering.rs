//! The receiver's half: when a synchronous message is acknowledged.
//!
//! "Received" is what the reliable layers say ([`Event::SyncArrived`]), as the message may wait in
//! a window for others. "Contiguous" is true of an ordered message that comes by here; an
//! out-of-band one waits until the window has moved over it. "Delivered" is what the application has
//! consumed ([`inbox`](super::inbox)), and everything before it. If that takes long, the sender is told
//! that the message is here, so that it does not repeat it.

use super::flush_payload::FlushPayload;
use super::inbox::{Inboxes, Source};
use super::{HOLDING, ID_MASK, Rsvp, level_of, with_level};
use crate::batch::Marks;
use crate::protocols::reliable::sequence_number;
use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{self, Body, Flags, Header, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Message, Pool, Query, RsvpTag, SyncLevel, Time, Uuid, View, tag,
};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Answers that are remembered until their message comes by; beyond it a message is answered twice.
const MOST_EARLY: usize = 65_536;

/// What is owed to others.
#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) inboxes: Inboxes,
    /// Acknowledged while it was still in a window.
    early: BTreeSet<(Uuid, i16)>,
    /// Out-of-band messages that wait for what was sent before them.
    ahead: Vec<Ahead>,
    /// Consumed, but something before it is missing.
    stalled: BTreeSet<Source>,
    pub(super) sent: u64,
    /// Of these, that the application could not handle the message.
    failures: u64,
}

#[derive(Debug)]
struct Ahead {
    source: Source,
    number: Option<i64>,
    id: i16,
}

impl Answering {
    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("acks_sent", self.sent);
        out("callbacks_failed", self.failures);
        out("acks_delayed", (self.ahead.len() + self.stalled.len()) as u64);
    }

    /// Whether nothing waits for what is missing.
    fn is_in_order(&self) -> bool {
        self.ahead.is_empty() && self.stalled.is_empty()
    }
}

/// Whether everything of `source` up to `number` has been given to the application.
pub(super) fn in_order(source: Source, number: Option<i64>, cx: &Cx<'_>) -> bool {
    let (of, multicast) = source;
    let Some(number) = number else { return true };
    let delivered = match cx.ask_below(&Query::DeliveredUpTo { of, multicast }) {
        Some(Answer::Number(n)) => n.wrapping_sub(number) >= 0,
        _ => true,
    };
    delivered && !matches!(cx.ask_below(&Query::HeldForView(of)), Some(Answer::Held(true)))
}

fn response(to: Uuid, id: i16) -> wire::Message {
    let header = RsvpHeader { kind: RsvpKind::Response, id };
    wire::Message::unicast(to, Body::Empty)
        .with_flags(Flags::RSVP | Flags::OOB | Flags::NO_FC)
        .with_header(ProtId::RSVP, Header::Rsvp(header))
}

impl Rsvp {
    /// Messages for the application.
    pub(super) fn receive(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, oob) = (batch.src, batch.oob);
        let source = (src, batch.multicast);
        if !batch.marks().meets(Marks::of(ProtId::RSVP)) {
            return self.answering.inboxes.enter_all(source, batch.messages_mut());
        }
        batch.retain(|m| {
            let Some(Header::Rsvp(h)) = m.headers.get(ProtId::RSVP) else {
                self.answering.inboxes.enter(source, m);
                return true;
            };
            let h = *h;
            match h.kind {
                RsvpKind::Request => {
                    self.answering.inboxes.enter(source, m);
                    self.answer_request(source, oob, h.id, m, cx);
                }
                RsvpKind::Response => self.acknowledged(src, h.id, cx),
                RsvpKind::RequestOnly => {
                    if let Some(payload) = FlushPayload::read(m) {
                        self.flush_step(src, payload, cx);
                    }
                }
            }
            let keep = h.kind == RsvpKind::Request;
            if !keep && m.receipt.pool != Pool::Exempt {
                cx.settle(Consumed::one(src, m.receipt));
            }
            keep
        });
    }

    /// What the sender `src` of this id waits for.
    fn level_asked(&self, src: Uuid, wire_id: i16, cx: &Cx<'_>) -> SyncLevel {
        if src == cx.local() {
            return self.level_of_own(wire_id);
        }
        match tag::is_rgroups(src) {
            true => level_of(wire_id).unwrap_or(self.default_level()),
            false => self.default_level(),
        }
    }

    /// Answers the request in `m`, now or later.
    fn answer_request(
        &mut self,
        source: Source,
        oob: bool,
        wire_id: i16,
        m: &mut Message,
        cx: &mut Cx<'_>,
    ) {
        let src = source.0;
        match self.level_asked(src, wire_id, cx) {
            SyncLevel::OnReceive => {
                if !self.answering.early.remove(&(src, wire_id)) {
                    self.acknowledge(src, wire_id, false, cx);
                }
            }
            SyncLevel::OnContiguous => {
                let number = sequence_number(m);
                if !oob || in_order(source, number, cx) {
                    self.acknowledge(src, wire_id, false, cx);
                } else {
                    self.answering.ahead.push(Ahead { source, number, id: wire_id });
                }
            }
            SyncLevel::OnDeliver => {
                m.receipt.rsvp = Some(RsvpTag { id: wire_id });
                self.answering.inboxes.owe(source, wire_id, m, cx.now);
                if cx.armed(HOLDING).is_none() {
                    cx.arm(HOLDING, cx.now + self.config.resend_interval / 2);
                }
            }
        }
    }

    /// A message of `from` is in a window, as a whole.
    pub(super) fn arrived(&mut self, from: Uuid, wire_id: i16, cx: &mut Cx<'_>) {
        let received = self.level_asked(from, wire_id, cx) == SyncLevel::OnReceive;
        if !received || !cx.is_member(from) {
            return;
        }
        self.acknowledge(from, wire_id, false, cx);
        if self.answering.early.len() < MOST_EARLY {
            self.answering.early.insert((from, wire_id));
        }
    }

    /// The application consumed something.
    pub(super) fn consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if let Some(source) = self.answering.inboxes.consumed(what) {
            self.answer_consumed(source, cx);
            self.look_at_visits(cx);
        }
    }

    fn answer_consumed(&mut self, source: Source, cx: &mut Cx<'_>) {
        if !self.answering.inboxes.may_be_due(source) {
            return;
        }
        let due = self.answering.inboxes.due(source, |n| in_order(source, Some(n), cx));
        for owed in due {
            self.acknowledge(source.0, owed.id, owed.failed, cx);
        }
        match self.answering.inboxes.may_be_due(source) {
            true => self.answering.stalled.insert(source),
            false => self.answering.stalled.remove(&source),
        };
    }

    /// A turn is over: what was missing may have come.
    pub(super) fn answer_what_is_in_order(&mut self, cx: &mut Cx<'_>) {
        if self.answering.is_in_order() {
            return;
        }
        let ahead = core::mem::take(&mut self.answering.ahead);
        for a in ahead {
            if in_order(a.source, a.number, cx) {
                self.acknowledge(a.source.0, a.id, false, cx);
            } else {
                self.answering.ahead.push(a);
            }
        }
        for source in core::mem::take(&mut self.answering.stalled) {
            self.answer_consumed(source, cx);
        }
    }

    fn acknowledge(&mut self, to: Uuid, wire_id: i16, failed: bool, cx: &mut Cx<'_>) {
        self.answering.failures += u64::from(failed);
        // The level is for us to say "failed" in: no request has none, and JGroups never hears it.
        let said = match failed && (to == cx.local() || tag::is_rgroups(to)) {
            true => super::without_level(wire_id),
            false => wire_id,
        };
        if to == cx.local() {
            return self.acknowledged(to, said, cx);
        }
        if !cx.is_member(to) {
            return;
        }
        self.answering.sent += 1;
        cx.send_down(response(to, said).with_flags(Flags::DONT_BUNDLE));
    }

    /// Whoever has waited for long for an application to consume its message is told that it is
    /// here: early enough that it is not repeated, and once. A member of another toolkit would take
    /// that for the answer.
    pub(super) fn say_what_is_here(&mut self, cx: &mut Cx<'_>) {
        let interval = self.config.resend_interval;
        let now = cx.now;
        let until = Time(now.0.saturating_sub((interval / 4).as_nanos() as u64));
        for (to, id) in self.answering.inboxes.untold(until) {
            if to != cx.local() && cx.is_member(to) && tag::is_rgroups(to) {
                let id = with_level(id as u16 & ID_MASK, SyncLevel::OnReceive);
                cx.send_down(response(to, id));
            }
        }
        if self.answering.inboxes.has_untold() {
            cx.arm(HOLDING, now + interval / 2);
        }
    }

    /// Nothing is owed to whoever is not in the view.
    pub(super) fn forget_leavers(&mut self, view: &View) {
        let answering = &mut self.answering;
        answering.inboxes.retain(|m| view.contains(m));
        answering.early.retain(|(m, _)| view.contains(*m));
        answering.ahead.retain(|a| view.contains(a.source.0));
        answering.stalled.retain(|(m, _)| view.contains(*m));
    }
}
