//! When missing messages are asked for: the two timers that reliable layers share, and the request.
//!
//! The early timer follows the youngest gap nobody asked for; the tick runs once per interval while
//! there is anything to do, and not at all in a quiet group.

use super::gaps::{self, Gaps, RequestLimits};
use crate::event::WindowKind;
use crate::wire::{self, Address, Body, Flags, Header, Object, ProtId, SeqnoList};
use crate::{Cx, Duration, Message, Time, TimerKey, Trace, Uuid};
use alloc::vec::Vec;

/// Early requests are due.
pub(super) const EARLY: TimerKey = TimerKey(1);
/// A round is over.
pub(super) const TICK: TimerKey = TimerKey(2);

/// Lists per window and round: what is still missing then waits for the next round.
const LISTS: usize = 32;
/// Messages that one request is answered with; the requester asks again for the rest.
pub(super) const MOST_RESENT: usize = 8192;
/// Payload bytes that one request is answered with.
pub(super) const MOST_RESENT_BYTES: usize = 2_000_000;

/// What the requests of one turn are answered with together. Each request has a limit, but a packet
/// may hold any number of them, and whoever asks for too much in one moment asks again.
#[derive(Debug, Default)]
pub(super) struct Served {
    at: Time,
    messages: usize,
    bytes: usize,
}

impl Served {
    /// Messages in one turn.
    pub(super) const MESSAGES: usize = 8 * MOST_RESENT;
    /// Payload bytes in one turn.
    pub(super) const BYTES: usize = 8 * MOST_RESENT_BYTES;

    /// Whether a message of `length` bytes may be sent again now. Counts it.
    pub(super) fn admits(&mut self, length: usize, now: Time) -> bool {
        if self.at != now {
            *self = Self { at: now, ..Self::default() };
        }
        let admitted = self.messages < Self::MESSAGES && self.bytes < Self::BYTES;
        if admitted {
            self.messages += 1;
            self.bytes += length;
        }
        admitted
    }
}

/// The schedule of one layer.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    delay: Duration,
    limits: RequestLimits,
    early_at: Option<Time>,
    ticking: bool,
}

impl Schedule {
    /// Rounds of `interval`, early requests after `delay`, lists that span up to `bits` numbers.
    pub(super) fn new(interval: Duration, delay: Duration, bits: u32) -> Self {
        let limits = RequestLimits { bits: bits.max(1), lists: LISTS };
        Self { interval, delay, limits, early_at: None, ticking: false }
    }

    /// Something is missing in a window with these gaps, or may be: arms what is needed.
    pub(super) fn watch(&mut self, gaps: &Gaps, cx: &mut Cx<'_>) {
        if gaps.is_empty() {
            return;
        }
        self.tick_later(cx);
        let Some(at) = gaps.next_early(self.delay).filter(|_| self.delay < self.interval) else {
            return;
        };
        if self.early_at.is_none_or(|armed| at < armed) {
            // Lists that did not fit are due at once, but not in the same turn again.
            let at = at.max(cx.now + LEAST_PAUSE);
            self.early_at = Some(at);
            cx.arm(EARLY, at);
        }
    }

    /// What is to be asked for now of a window with these gaps: ahead of the round, or in it.
    pub(super) fn due(&self, gaps: &mut Gaps, early: bool, now: Time) -> Vec<SeqnoList> {
        match early {
            true => gaps.early(now, self.delay, self.limits),
            false => gaps.round(now, self.interval, self.limits),
        }
    }

    /// The lists with which the numbers of these ascending ranges are asked for.
    pub(super) fn lists(&self, ranges: impl Iterator<Item = (i64, i64)>) -> Vec<SeqnoList> {
        gaps::lists_of(ranges, self.limits)
    }

    /// The tick is wanted.
    pub(super) fn tick_later(&mut self, cx: &mut Cx<'_>) {
        if !self.ticking {
            self.ticking = true;
            cx.arm(TICK, cx.now + self.interval);
        }
    }

    /// The early timer fired.
    pub(super) fn early_fired(&mut self) {
        self.early_at = None;
    }

    /// The tick fired.
    pub(super) fn tick_fired(&mut self) {
        self.ticking = false;
    }

    /// Back to no timers.
    pub(super) fn reset(&mut self, cx: &mut Cx<'_>) {
        (self.early_at, self.ticking) = (None, false);
        cx.disarm(EARLY);
        cx.disarm(TICK);
    }
}

const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// Requests and repetitions so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    requests_sent: u64,
    numbers_requested: u64,
    pub(super) requests_received: u64,
    pub(super) resent: u64,
}

impl Counters {
    /// Asks `from` for the numbers of `of` in `list`, which are missing in a window of this kind that
    /// has delivered so far.
    pub(super) fn request(
        &mut self,
        from: Uuid,
        of: Uuid,
        (id, header): (ProtId, Header),
        list: SeqnoList,
        (window, delivered): (WindowKind, i64),
        cx: &mut Cx<'_>,
    ) {
        let count = list.len() as u32;
        self.requests_sent += 1;
        self.numbers_requested += u64::from(count);
        let last = list.offset.wrapping_add(i64::from(list.size) - 1);
        let range = (list.offset, last);
        cx.trace(|| Trace::XmitRequested { from, of, count, range, window, delivered });
        cx.send_down(request(from.into(), id, header, list));
    }

    /// Counts and traces that message `seqno` of `of` goes out again, to one or to all, and sends it.
    pub(super) fn resend(
        &mut self,
        to: Option<Uuid>,
        of: Uuid,
        seqno: i64,
        m: Message,
        cx: &mut Cx<'_>,
    ) {
        self.resent += 1;
        cx.trace(|| Trace::Retransmitted { to, of, seqno });
        cx.send_down(m);
    }

    /// `resent`: what JGroups calls the repetitions of this layer.
    pub(super) fn inspect(&self, resent: &str, out: &mut dyn FnMut(&str, u64)) {
        out("xmit_reqs_sent", self.requests_sent);
        out("xmit_reqs_received", self.requests_received);
        out("numbers_requested", self.numbers_requested);
        out(resent, self.resent);
    }
}

/// A request for the numbers in `list`.
pub(super) fn request(to: Address, id: ProtId, header: Header, list: SeqnoList) -> wire::Message {
    wire::Message::unicast(to, Body::object(Object::SeqnoList(list)))
        .with_flags(Flags::OOB | Flags::NO_FC)
        .with_header(id, header)
}

/// The numbers a request names.
pub(super) fn requested(m: &wire::Message) -> Option<&SeqnoList> {
    match &m.body {
        Body::Object(Some(o)) => match &**o {
            Object::SeqnoList(list) => Some(list),
            _ => None,
        },
        _ => None,
    }
}
