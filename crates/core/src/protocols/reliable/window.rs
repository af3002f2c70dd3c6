//! The numbered messages between one sender and one receiver, at either end: what is missing, what
//! waits for its turn, what is kept for others.
//!
//! `low <= delivered <= received`: everything up to `low` is gone, everything up to `delivered` was
//! handed on, `received` is the highest number that is here. Numbers are compared by difference, so
//! a window may start anywhere (JGroups' `Table` and its JGRP-1950). A message further ahead than
//! [`MAX_AHEAD`], or ahead of its turn when [`Limits::held`] bytes already wait, is refused; it comes
//! again when it is asked for.

use super::gaps::Gaps;
use super::kept::{Kept, Pattern};
use super::multicast::repair::{Cut, Holding, Ranges};
use super::parking::Parking;
use super::slots::{Slot, Slots};
use crate::event::{WindowGauge, WindowKind};
use crate::wire::{self, Flags, ProtId, SeqnoPair};
use crate::{DropReason, Message, Time, Uuid};
use bytes::Bytes;

/// How far ahead of what is delivered a number may be.
pub(crate) const MAX_AHEAD: i64 = 1 << 20;
/// What a message counts at least when memory is bounded: empty ones are not free.
pub(crate) const LEAST_COST: u64 = 128;

/// What a window may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that wait for their turn.
    pub(crate) held: u64,
    /// Bytes kept after delivery; `None`: delivered messages go at once.
    pub(crate) kept: Option<u64>,
}

/// What became of an arriving message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is to be delivered now.
    Deliver,
    /// The window took it.
    Held,
    /// It is to be dropped.
    Refused(DropReason),
}

/// One window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    low: i64,
    delivered: i64,
    received: i64,
    limits: Limits,
    slots: Slots,
    pattern: Pattern,
    pub(crate) gaps: Gaps,
    messages: u64,
    bytes: u64,
    held: u64,
    evicted: u64,
    answered: bool,
}

impl Window {
    /// A window whose next number is `delivered + 1`.
    pub(crate) fn new(delivered: i64, limits: Limits) -> Self {
        Self {
            low: delivered,
            delivered,
            received: delivered,
            limits,
            slots: Slots::new(delivered.wrapping_add(1)),
            pattern: Pattern::default(),
            gaps: Gaps::default(),
            messages: 0,
            bytes: 0,
            held: 0,
            evicted: 0,
            answered: false,
        }
    }

    /// A window of messages to send, kept until acknowledged or stable.
    pub(crate) fn for_sending() -> Self {
        Self::new(0, Limits { held: u64::MAX, kept: Some(u64::MAX) })
    }

    /// A number arrived with `m`. Out-of-band messages are delivered on arrival, once; regular ones
    /// in their turn. While a message in turn waits to be released, whatever arrives waits behind it.
    pub(crate) fn take_in(
        &mut self,
        seqno: i64,
        m: &mut Message,
        now: Time,
        parking: &mut Parking,
    ) -> Taken {
        let next = match self.admit(seqno) {
            Ok(ahead) => ahead == 1,
            Err(why) => return Taken::Refused(why),
        };
        if !next && !m.has(Flags::OOB) {
            return self.hold_arrival(seqno, m, now, parking);
        }
        self.arrived(seqno, now);
        self.deliver_arrival(seqno, &m.wire, next, parking);
        Taken::Deliver
    }

    /// As [`Window::take_in`], but a regular message waits to be released even if it is its turn.
    pub(crate) fn hold_arrival(
        &mut self,
        seqno: i64,
        m: &mut Message,
        now: Time,
        parking: &mut Parking,
    ) -> Taken {
        if let Err(why) = self.admit(seqno) {
            return Taken::Refused(why);
        }
        self.arrived(seqno, now);
        let mut m = core::mem::take(m).wire;
        parking.park(&mut m);
        let kept = self.pattern.keep(seqno, m);
        self.hold(seqno, kept);
        Taken::Held
    }

    /// How far `seqno` is ahead of what is delivered, if it is new and there is room for it.
    fn admit(&self, seqno: i64) -> Result<i64, DropReason> {
        let ahead = seqno.wrapping_sub(self.delivered);
        if ahead <= 0 {
            let below = seqno.wrapping_sub(self.low) <= 0;
            return Err(if below { DropReason::BelowWindow } else { DropReason::Duplicate });
        }
        if !matches!(self.slots.get(seqno), None | Some(Slot::Empty)) {
            return Err(DropReason::Duplicate);
        }
        let full = ahead > 1 && self.held >= self.limits.held;
        if full || ahead > MAX_AHEAD { Err(DropReason::OverLimit) } else { Ok(ahead) }
    }

    /// The next message in turn, if it is here: delivered with this call.
    pub(crate) fn release(&mut self) -> Option<wire::Message> {
        self.deliver_held(self.delivered.wrapping_add(1))
    }

    /// Delivers the waiting message `seqno`, in or out of turn. `None` if it does not wait.
    pub(crate) fn deliver_held(&mut self, seqno: i64) -> Option<wire::Message> {
        if self.limits.kept.is_some() {
            let copy = self.get(seqno)?;
            return self.mark_delivered(seqno).then_some(copy);
        }
        if !self.holds(seqno) {
            return None;
        }
        let Slot::Held(m) = self.slots.take(seqno) else { return None };
        self.held -= least_cost(m.length());
        self.uncount(&m);
        self.slots.put(seqno, Slot::Spent, self.low);
        self.advance();
        Some(self.pattern.restore(seqno, m))
    }

    /// The waiting message `seqno` is delivered by other means (windows that keep messages). False
    /// if it does not wait.
    pub(crate) fn mark_delivered(&mut self, seqno: i64) -> bool {
        let Some(slot @ Slot::Held(_)) = self.slots.get_mut(seqno) else { return false };
        let Slot::Held(m) = core::mem::take(slot) else { return false };
        self.held -= least_cost(m.length());
        *slot = Slot::Delivered(m);
        self.advance();
        true
    }

    /// Adds a message of our own and returns its number, with which `seal` completes it; it waits for
    /// its copy to come back.
    pub(crate) fn append(
        &mut self,
        m: &mut wire::Message,
        seal: impl FnOnce(i64, &mut wire::Message),
    ) -> i64 {
        let seqno = self.received.wrapping_add(1);
        self.received = seqno;
        seal(seqno, m);
        let kept = self.pattern.keep_copy(seqno, m);
        self.hold(seqno, kept);
        seqno
    }

    /// Adds messages of our own that carry their number in the header of `id` and nothing else but these
    /// payloads. The number of the first one.
    pub(crate) fn append_row(&mut self, id: ProtId, payloads: &[Bytes]) -> i64 {
        let first = self.received.wrapping_add(1);
        let plain = self.pattern.takes(None, id);
        for payload in payloads {
            self.received = self.received.wrapping_add(1);
            let kept = match plain {
                true => Kept::bare(payload.clone()),
                false => Kept::whole(None, id, self.received, payload.clone()),
            };
            self.hold(self.received, kept);
        }
        first
    }

    /// Whether `seqno` is the next number, and nothing is here or known beyond it.
    pub(crate) fn expects(&self, seqno: i64) -> bool {
        let next = seqno == self.delivered.wrapping_add(1);
        next && self.received == self.delivered
            && self.gaps.is_empty()
            && self.limits.kept.is_some()
    }

    /// Takes and delivers what [`Window::expects`] says is next: messages of `src` with their number in the
    /// header of `id`, and nothing else but these payloads.
    pub(crate) fn take_row(
        &mut self,
        src: Uuid,
        id: ProtId,
        first: i64,
        payloads: &[Bytes],
        parking: &mut Parking,
    ) {
        let src = Some(wire::Address::Uuid(src));
        let plain = self.pattern.takes(src.as_ref(), id);
        let mut seqno = first;
        for payload in parking.row(payloads) {
            let kept = match plain {
                true => Kept::bare(payload),
                false => Kept::whole(src.clone(), id, seqno, payload),
            };
            self.count(&kept);
            self.slots.put(seqno, Slot::Delivered(kept), self.low);
            self.received = seqno;
            seqno = seqno.wrapping_add(1);
        }
        self.advance();
    }

    /// The waiting messages `first..=last` are delivered by other means. False, and nothing is done, if
    /// they are not what is delivered next.
    pub(crate) fn mark_row_delivered(&mut self, first: i64, last: i64) -> bool {
        let next = first == self.delivered.wrapping_add(1);
        let span = last.wrapping_sub(first);
        let numbers = || (0..=span).map(|i| first.wrapping_add(i));
        let sent = self.received.wrapping_sub(last) >= 0;
        if !next || !sent || !numbers().all(|n| self.holds(n)) {
            return false;
        }
        numbers().all(|n| self.mark_delivered(n))
    }

    /// Takes over from the window that this one replaces what it delivered out of turn beyond our
    /// start, so that it is not delivered again. What waited there is asked for again.
    pub(crate) fn take_over(&mut self, mut old: Window, now: Time) {
        let mut seqno = self.delivered.wrapping_add(1);
        while old.received.wrapping_sub(seqno) >= 0 && !old.slots.is_empty() {
            match old.slots.take(seqno) {
                Slot::Delivered(kept) => {
                    self.arrived(seqno, now);
                    let kept = self.pattern.keep(seqno, old.pattern.restore(seqno, kept));
                    self.count(&kept);
                    self.slots.put(seqno, Slot::Delivered(kept), self.low);
                }
                Slot::Spent => {
                    self.arrived(seqno, now);
                    self.slots.put(seqno, Slot::Spent, self.low);
                }
                Slot::Held(_) => self.note_highest(seqno, now),
                Slot::Empty => {}
            }
            seqno = seqno.wrapping_add(1);
        }
        self.advance();
    }

    /// Whether `seqno` is here and not delivered.
    pub(crate) fn holds(&self, seqno: i64) -> bool {
        matches!(self.slots.get(seqno), Some(Slot::Held(_)))
    }

    /// Whether `seqno` is here, delivered or not.
    pub(crate) fn has(&self, seqno: i64) -> bool {
        matches!(self.slots.get(seqno), Some(Slot::Held(_) | Slot::Delivered(_)))
    }

    /// Whether the out-of-band message `seqno` waits.
    pub(crate) fn holds_oob(&self, seqno: i64) -> bool {
        let oob = |kept: &Kept| kept.flags().contains(Flags::OOB);
        matches!(self.slots.get(seqno), Some(Slot::Held(kept)) if oob(kept))
    }

    /// A copy of the message `seqno`, delivered or not, if it is still here.
    pub(crate) fn get(&self, seqno: i64) -> Option<wire::Message> {
        match self.slots.get(seqno)? {
            Slot::Held(kept) | Slot::Delivered(kept) => Some(self.pattern.copy(seqno, kept)),
            Slot::Empty | Slot::Spent => None,
        }
    }

    /// The sender has sent up to `seqno`: what of it is not here is missing.
    pub(crate) fn note_highest(&mut self, seqno: i64, now: Time) {
        let limit = self.delivered.wrapping_add(MAX_AHEAD);
        let upto = if seqno.wrapping_sub(limit) > 0 { limit } else { seqno };
        let known = self.known();
        if upto.wrapping_sub(known) > 0 {
            self.gaps.open(known.wrapping_add(1), upto, now);
        }
    }

    /// Drops everything up to `upto`, but never what is not delivered. Returns the new low mark if
    /// it moved.
    pub(crate) fn purge(&mut self, upto: i64) -> Option<i64> {
        let capped = upto.wrapping_sub(self.delivered) > 0;
        let upto = if capped { self.delivered } else { upto };
        self.drop_upto(upto)
    }

    /// The receiver has everything up to `upto` (send windows): drops it. False if that is no news
    /// or was never sent.
    pub(crate) fn acknowledge(&mut self, upto: i64) -> bool {
        if upto.wrapping_sub(self.received) > 0 || upto.wrapping_sub(self.low) <= 0 {
            return false;
        }
        if upto.wrapping_sub(self.delivered) > 0 {
            self.delivered = upto;
        }
        self.drop_upto(upto).is_some()
    }

    fn drop_upto(&mut self, upto: i64) -> Option<i64> {
        if upto.wrapping_sub(self.low) <= 0 {
            return None;
        }
        while self.low != upto {
            if self.slots.is_empty() {
                self.low = upto;
                break;
            }
            self.low = self.low.wrapping_add(1);
            self.drop_slot(self.low);
        }
        self.slots.trim(self.low);
        self.slots.clear_if_drained(self.low, self.received);
        Some(self.low)
    }

    fn drop_slot(&mut self, seqno: i64) {
        match self.slots.take(seqno) {
            Slot::Held(m) => {
                self.held -= least_cost(m.length());
                self.uncount(&m);
            }
            Slot::Delivered(m) => self.uncount(&m),
            Slot::Empty | Slot::Spent => {}
        }
    }

    /// Books the arrival of a new number: what it jumped over is missing.
    fn arrived(&mut self, seqno: i64, now: Time) {
        let known = self.known();
        let beyond = seqno.wrapping_sub(known);
        if beyond > 1 {
            self.gaps.open(known.wrapping_add(1), seqno.wrapping_sub(1), now);
        } else if beyond <= 0 && self.gaps.fill(seqno, now) {
            self.answered = true;
        }
        if seqno.wrapping_sub(self.received) > 0 {
            self.received = seqno;
        }
    }

    fn deliver_arrival(
        &mut self,
        seqno: i64,
        m: &wire::Message,
        next: bool,
        parking: &mut Parking,
    ) {
        if self.limits.kept.is_some() {
            let copy = parking.copy(seqno, m, &mut self.pattern);
            self.count(&copy);
            self.slots.put(seqno, Slot::Delivered(copy), self.low);
        } else if !next {
            self.slots.put(seqno, Slot::Spent, self.low);
        } else if self.slots.is_empty() {
            self.delivered = seqno;
            self.low = seqno;
            return;
        } else {
            self.slots.put(seqno, Slot::Spent, self.low);
        }
        self.advance();
    }

    fn hold(&mut self, seqno: i64, m: Kept) {
        self.held += least_cost(m.length());
        self.count(&m);
        self.slots.put(seqno, Slot::Held(m), self.low);
    }

    /// Moves the delivered mark over what was delivered ahead of its turn, and the low mark over
    /// what is not kept.
    fn advance(&mut self) {
        loop {
            let next = self.delivered.wrapping_add(1);
            if !matches!(self.slots.get(next), Some(Slot::Delivered(_) | Slot::Spent)) {
                break;
            }
            self.delivered = next;
        }
        match self.limits.kept {
            None => {
                self.drop_upto(self.delivered);
            }
            Some(limit) => self.evict(limit),
        }
    }

    fn evict(&mut self, limit: u64) {
        while self.kept_cost() > limit && self.low != self.delivered {
            self.low = self.low.wrapping_add(1);
            self.drop_slot(self.low);
            self.evicted += 1;
            self.slots.trim(self.low);
        }
    }

    /// The memory of what is kept after delivery.
    fn kept_cost(&self) -> u64 {
        (self.bytes.max(self.messages * LEAST_COST)).saturating_sub(self.held)
    }

    fn count(&mut self, m: &Kept) {
        self.messages += 1;
        self.bytes += m.length() as u64;
    }

    fn uncount(&mut self, m: &Kept) {
        self.messages -= 1;
        self.bytes -= m.length() as u64;
    }

    /// The highest number known to exist.
    pub(crate) fn known(&self) -> i64 {
        match self.gaps.highest() {
            Some(g) if g.wrapping_sub(self.received) > 0 => g,
            Some(_) | None => self.received,
        }
    }

    /// The delivered and received marks, as digests have them.
    pub(crate) fn pair(&self) -> SeqnoPair {
        SeqnoPair { delivered: self.delivered, received: self.received }
    }

    /// The state of this window of the given kind, whose other end is `peer`.
    pub(crate) fn gauge(&self, peer: Uuid, kind: WindowKind) -> WindowGauge {
        let Self { low, delivered, received, bytes, messages, .. } = *self;
        let known = self.known();
        WindowGauge { peer, kind, low, delivered, received, known, bytes, messages }
    }

    /// What is here of `of`, whose window this is, as tail repair reports it.
    pub(crate) fn holding(&self, of: Uuid, cut: Option<Cut>) -> Holding {
        let (mut missing, mut ahead) = (Ranges::default(), Ranges::default());
        let mut received = self.delivered;
        while received != self.received
            && missing.len() < Ranges::MOST
            && ahead.len() < Ranges::MOST
        {
            received = received.wrapping_add(1);
            match self.slots.get(received) {
                Some(Slot::Held(_)) => {}
                Some(Slot::Delivered(_) | Slot::Spent) => ahead.push(received),
                Some(Slot::Empty) | None => missing.push(received),
            }
        }
        Holding { of, low: self.low, delivered: self.delivered, received, missing, ahead, cut }
    }

    /// Everything up to here is gone.
    pub(crate) fn low(&self) -> i64 {
        self.low
    }

    /// Everything up to here was handed on (send windows: acknowledged).
    pub(crate) fn delivered(&self) -> i64 {
        self.delivered
    }

    /// The highest number that is here (send windows: sent).
    pub(crate) fn received(&self) -> i64 {
        self.received
    }

    /// Messages in the window.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Their payload bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Delivered messages that went before they were stable, because there was no room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Whether something that had been asked for arrived since the last call.
    pub(crate) fn take_answered(&mut self) -> bool {
        core::mem::take(&mut self.answered)
    }
}

/// What a message counts when memory is bounded.
pub(crate) fn cost(m: &wire::Message) -> u64 {
    least_cost(m.length())
}

fn least_cost(length: usize) -> u64 {
    (length as u64).max(LEAST_COST)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
