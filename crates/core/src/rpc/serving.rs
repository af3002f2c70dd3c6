//! The half of whoever is called: requests that the application is working on.
//!
//! Every request that can be read is told to the application once, whatever came twice, and answered
//! once. Too many at a time are refused with an answer that says so, which is what bounds the memory
//! they take.

use super::calls::correlator;
use super::forms::{self, Form};
use super::seen::Seen;
use super::{Ask, CallAnswer, Failure, MAX_RUNNING, MAX_RUNNING_BYTES, Requested};
use crate::protocols::entry::LARGEST;
use crate::wire::header::{CorrelatorHeader, CorrelatorKind};
use crate::wire::{self, Body, Flags, Hints, ProtId};
use crate::{AppEvent, Cx, Message, Time, Uuid, View, tag};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;

/// Requests of all callers.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    last: u64,
    running: BTreeMap<u64, Running>,
    running_bytes: u64,
    seen: Seen,
    counters: Counters,
}

/// What became of requests.
#[derive(Debug, Default)]
struct Counters {
    requests: u64,
    duplicates: u64,
    unreadable: u64,
    overloaded: u64,
    answered_late: u64,
}

/// A request that the application has not answered.
#[derive(Debug)]
struct Running {
    to: Caller,
    until: Option<Time>,
    bytes: u64,
}

/// Who waits for an answer, and in what form.
#[derive(Clone, Copy, Debug)]
struct Caller {
    member: Uuid,
    /// The caller's number for the call; 0: nobody waits.
    id: i64,
    form: Form,
    flags: Flags,
}

/// An answer to a call of this member itself, which needs no message.
#[derive(Debug)]
pub(crate) struct OwnAnswer {
    pub(crate) id: i64,
    pub(crate) answer: CallAnswer,
}

impl Serving {
    /// A request of `from` arrived. An answer that is due at once is sent, or returned if the caller
    /// is this member.
    pub(crate) fn request(
        &mut self,
        from: Uuid,
        header: &CorrelatorHeader,
        m: &Message,
        cx: &mut Cx<'_>,
    ) -> Option<OwnAnswer> {
        let local = cx.local();
        let excluded = header.excluded.iter().flatten().any(|a| a.uuid() == Some(local));
        if excluded {
            return None;
        }
        if header.request != 0 && !self.seen.first_time(from, header.request) {
            self.counters.duplicates += 1;
            return None;
        }
        let (form, read) = forms::read_request(tag::is_rgroups(from), &m.body);
        let caller = Caller { member: from, id: header.request, form, flags: m.flags };
        let Some((ask, left)) = read else {
            self.counters.unreadable += 1;
            return caller.answer(CallAnswer::Failed(Failure::Unreadable), cx);
        };
        if m.hints.contains(Hints::IN_STATE) {
            return caller.answer(CallAnswer::Failed(Failure::InState), cx);
        }
        let bytes = m.length() as u64;
        let fits = self.running.is_empty() || self.running_bytes + bytes <= MAX_RUNNING_BYTES;
        if self.running.len() >= MAX_RUNNING || !fits {
            self.counters.overloaded += 1;
            return caller.answer(CallAnswer::Failed(Failure::Overloaded), cx);
        }
        self.counters.requests += 1;
        self.last += 1;
        let until = left.map(|left| cx.now + left);
        self.running_bytes += bytes;
        self.running.insert(self.last, Running { to: caller, until, bytes });
        self.tell(ask, caller, until, cx);
        None
    }

    fn tell(&self, ask: Ask, caller: Caller, until: Option<Time>, cx: &mut Cx<'_>) {
        let (request, from, awaited) = (self.last, caller.member, caller.id != 0);
        cx.tell(AppEvent::Requested(Box::new(Requested { request, from, ask, until, awaited })));
    }

    /// The application has answered. Nobody waits any more for what is answered after the deadline.
    pub(crate) fn answer(
        &mut self,
        request: u64,
        answer: CallAnswer,
        cx: &mut Cx<'_>,
    ) -> Option<OwnAnswer> {
        let running = self.running.remove(&request)?;
        self.running_bytes -= running.bytes;
        if running.until.is_some_and(|at| at < cx.now) {
            self.counters.answered_late += 1;
            return None;
        }
        running.to.answer(answer, cx)
    }

    pub(crate) fn install(&mut self, view: &View) {
        self.seen.install(view);
    }

    pub(crate) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("requests", c.requests);
        out("requests_running", self.running.len() as u64);
        out("requests_duplicate", c.duplicates);
        out("requests_unreadable", c.unreadable);
        out("requests_overloaded", c.overloaded);
        out("requests_answered_late", c.answered_late);
    }
}

impl Caller {
    fn answer(self, mut answer: CallAnswer, cx: &mut Cx<'_>) -> Option<OwnAnswer> {
        let Caller { member, id, form, flags } = self;
        if id == 0 {
            return None;
        }
        if member == cx.local() {
            return Some(OwnAnswer { id, answer });
        }
        if !cx.is_member(member) {
            return None;
        }
        let (mut kind, mut body) = forms::write_answer(&answer, form);
        if body.length() as u64 > LARGEST {
            answer = too_large();
            (kind, body) = forms::write_answer(&answer, form);
        }
        let mut flags = flags - Flags::RSVP - Flags::RSVP_NB - Flags::SERIALIZED;
        // An answer never waits for credit (DECISIONS 16): those of a caller are bounded by its own
        // calls, and whoever waits for an answer may be what holds the credit back.
        flags |= Flags::NO_FC;
        if forms::is_serialized(&answer, form, &body) {
            flags |= Flags::SERIALIZED;
        }
        cx.send_down(message(member, kind, id, body).with_flags(flags));
        None
    }
}

fn too_large() -> CallAnswer {
    let message = format!("the result is over the limit of {LARGEST} bytes");
    CallAnswer::Failed(Failure::Error { class: None, message })
}

fn message(to: Uuid, kind: CorrelatorKind, id: i64, body: Body) -> wire::Message {
    wire::Message::unicast(to, body)
        .with_header(ProtId::REQUEST_CORRELATOR, correlator(kind, id, None))
}
