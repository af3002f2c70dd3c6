//! From the application to the driver: requests in order, and the credit that senders may use
//! without asking.
//!
//! After each turn the driver publishes, per *line* (all multicasts, and the unicasts to one
//! member), how many bytes flow control would let through at once. A sender whose message fits
//! takes its cost from that window and is done: the message is admitted. One whose message does
//! not fit submits it as a call and waits for the answer; while anybody waits in a line, everybody
//! else of that line waits behind, which keeps the order of submission.

mod request;

pub(crate) use self::request::Request;

use crate::Address;
use bytes::Bytes;
use mio::Waker;
use rgroups_core::event::Room;
use rgroups_core::{Command, OpId, SendResult, Uuid, app, wire};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Bytes that may wait for the driver; beyond it every send is a call, which waits for its answer.
/// Only traffic without flow control and many lines together get there: the rest is bounded by its
/// credit.
const LIMIT: u64 = 8_000_000;
/// What an empty message costs, so that their number is bounded too (DECISIONS 13).
const MIN_COST: u64 = 128;

/// What flow control charges for so many payload bytes, at most.
pub(crate) fn cost_of(len: usize) -> u64 {
    (len as u64).max(MIN_COST)
}

/// What a row of multicasts costs at most before another one begins.
const ROW: u64 = 256_000;

/// Takes what a message carries, if it is a multicast and carries nothing but bytes.
fn take_bare(op: Option<OpId>, message: &mut wire::Message) -> Option<Bytes> {
    let plain = op.is_none() && message.dest.is_none() && message.flags.is_empty();
    match &mut message.body {
        wire::Body::Bytes(Some(payload)) if plain && !payload.is_empty() => {
            Some(std::mem::take(payload))
        }
        _ => None,
    }
}

/// Messages that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    Multicast,
    Unicast(Uuid),
    /// Not subject to flow control.
    Free,
}

/// The credit of one line.
#[derive(Clone, Debug, Default)]
struct Window {
    /// Bytes that may enter at once.
    room: u64,
    /// Bytes that entered and were not yet taken by the driver.
    queued: u64,
    /// Calls that wait. While there are any, nobody enters at once.
    waiting: u32,
    /// The most that `room` can ever be.
    max: u64,
    limited_by: Option<Address>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more messages; the driver still takes requests.
    Closing,
    /// The driver is gone.
    Closed,
}

#[derive(Debug)]
struct State {
    requests: VecDeque<Request>,
    bytes: u64,
    phase: Phase,
    multicast: Window,
    unicast: BTreeMap<Uuid, Window>,
    next_op: u64,
}

/// The queue and its windows.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    asleep: AtomicBool,
    waker: Arc<Waker>,
}

/// What became of an attempt to send at once.
#[derive(Debug)]
pub(crate) enum Attempt {
    Admitted,
    /// It has to wait for credit.
    NoCredit(wire::Message, Option<Address>),
    /// It has to wait for the driver.
    Crowded(wire::Message),
    Closed,
}

/// What a driver takes at once.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) requests: Vec<Request>,
    pub(crate) more: bool,
}

/// A line's credit as a driver found it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) line: Line,
    /// `None`: the stack has no flow control.
    pub(crate) room: Option<Room>,
    /// Whether the messages of this line have a receiver in the view. Without one every message is
    /// a call, so that its sender hears of the refusal.
    pub(crate) reachable: bool,
    pub(crate) max: u64,
    /// Calls of this line that were answered since the last time.
    pub(crate) answered: u32,
}

impl Inbox {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        let state = State {
            requests: VecDeque::new(),
            bytes: 0,
            phase: Phase::Open,
            multicast: Window::default(),
            unicast: BTreeMap::new(),
            next_op: 1,
        };
        Self { state: Mutex::new(state), asleep: AtomicBool::new(false), waker }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Reading first: the driver of a busy member is never asleep.
        if self.asleep.load(Ordering::Acquire) && self.asleep.swap(false, Ordering::AcqRel) {
            // Fails only when the driver's poll is gone, and with it whoever could be woken.
            let _ = self.waker.wake();
        }
    }

    /// Sends at once, if that is possible. `oversize`: also a message that is larger than all
    /// credit there can be, provided its line is free.
    pub(crate) fn attempt(
        &self,
        line: Line,
        mut message: wire::Message,
        cost: u64,
        oversize: bool,
    ) -> Attempt {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Attempt::Closed;
        }
        if state.bytes > LIMIT {
            return Attempt::Crowded(message);
        }
        let op = match state.enter(line, cost, oversize) {
            Ok(op) => op,
            Err(by) => return Attempt::NoCredit(message, by),
        };
        state.bytes += cost;
        match take_bare(op, &mut message) {
            Some(payload) => state.push_bare(payload, cost),
            None => {
                let send = app::Send { op, message, try_only: false, deadline: None, sync: None };
                state.requests.push_back(Request::Send { send, line, cost, reply: None });
            }
        }
        drop(state);
        self.wake();
        Attempt::Admitted
    }

    /// Submits a message as a call that waits for its answer. `make` completes it with its name.
    pub(crate) fn call(
        &self,
        line: Line,
        cost: u64,
        make: impl FnOnce(OpId) -> app::Send,
    ) -> Option<(OpId, oneshot::Receiver<SendResult>)> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return None;
        }
        let op = state.new_op();
        if let Line::Unicast(to) = line {
            // Made on the first use: with room 0, so that the first message asks.
            state.unicast.entry(to).or_default();
        }
        if let Some(w) = state.window_mut(line) {
            w.waiting += 1;
            w.queued += cost;
        }
        state.bytes += cost;
        state.requests.push_back(Request::Send { send: make(op), line, cost, reply: Some(reply) });
        drop(state);
        self.wake();
        Some((op, answer))
    }

    /// Submits a call that is no message. `make` completes it with its name.
    pub(crate) fn ask(&self, make: impl FnOnce(OpId) -> Request) -> Option<OpId> {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return None;
        }
        let op = state.new_op();
        state.requests.push_back(make(op));
        drop(state);
        self.wake();
        Some(op)
    }

    /// Submits anything but a message; tells whether somebody is there to take it.
    pub(crate) fn push(&self, request: Request) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            return false;
        }
        state.requests.push_back(request);
        drop(state);
        self.wake();
        true
    }

    /// No more messages; the driver is asked to leave. Later calls change nothing.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
            state.requests.push_back(Request::Command(Command::Disconnect));
            drop(state);
            self.wake();
        }
    }

    /// Credit left in a line, and who limits it.
    pub(crate) fn window(&self, line: Line) -> (u64, Option<Address>) {
        let state = self.lock();
        match state.window(line) {
            Some(w) if w.waiting > 0 => (0, w.limited_by),
            Some(w) => (w.room, w.limited_by),
            None => (0, None),
        }
    }

    /// Whether messages are accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().phase == Phase::Open
    }

    /// Bytes that wait for the driver.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    // ---- the driver's side

    /// Announces that the driver is about to sleep. False if it should not.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        // Whoever pushes after this look sees the announcement, since the lock orders the two.
        let idle = self.lock().requests.is_empty();
        if !idle {
            self.asleep.store(false, Ordering::Release);
        }
        idle
    }

    /// The driver is awake: nobody needs to wake it.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Release);
    }

    /// Takes requests, of at most so many bytes.
    pub(crate) fn take(&self, limit_bytes: u64, limit: usize) -> Taken {
        let mut taken = Taken::default();
        let mut bytes = 0;
        let mut state = self.lock();
        taken.requests.reserve(limit.min(state.requests.len()));
        while taken.requests.len() < limit && bytes < limit_bytes {
            let Some(request) = state.requests.pop_front() else { break };
            let (line, cost) = match &request {
                Request::Send { line, cost, .. } => (*line, *cost),
                Request::Row { cost, .. } => (Line::Multicast, *cost),
                _ => (Line::Free, 0),
            };
            bytes += cost;
            if let Some(w) = state.window_mut(line) {
                w.queued = w.queued.saturating_sub(cost);
            }
            taken.requests.push(request);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        taken.more = !state.requests.is_empty();
        taken
    }

    /// Publishes what the lines can take now.
    pub(crate) fn publish(&self, lines: Vec<Published>) {
        let mut state = self.lock();
        for p in lines {
            let w = match p.line {
                Line::Multicast => &mut state.multicast,
                Line::Unicast(to) => state.unicast.entry(to).or_default(),
                Line::Free => continue,
            };
            w.waiting = w.waiting.saturating_sub(p.answered);
            if !p.reachable {
                w.room = 0;
                if let (Line::Unicast(to), 0, 0) = (p.line, w.waiting, w.queued) {
                    state.unicast.remove(&to);
                }
                continue;
            }
            let credit = p.room.as_ref().map_or(LIMIT, |r| r.credit);
            w.room = credit.saturating_sub(w.queued);
            w.max = if p.room.is_some() { p.max } else { u64::MAX };
            w.limited_by = p.room.and_then(|r| r.limited_by.first().map(|m| Address(*m)));
        }
    }

    /// Forgets lines to members that are gone and have nothing waiting.
    pub(crate) fn retain_lines(&self, members: &BTreeSet<Uuid>) {
        let keep =
            |to: &Uuid, w: &mut Window| members.contains(to) || w.waiting > 0 || w.queued > 0;
        self.lock().unicast.retain(keep);
    }

    /// The driver ends: what is queued is dropped, which answers whoever waits.
    pub(crate) fn shut(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.bytes = 0;
        let requests = std::mem::take(&mut state.requests);
        drop(state);
        drop(requests);
    }
}

impl State {
    /// Appends a multicast to those that it follows directly.
    fn push_bare(&mut self, payload: Bytes, cost: u64) {
        if let Some(Request::Row { payloads, cost: all }) = self.requests.back_mut()
            && *all < ROW
        {
            payloads.push(payload);
            *all += cost;
            return;
        }
        self.requests.push_back(Request::Row { payloads: Vec::from([payload]), cost });
    }

    fn new_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op - 1)
    }

    fn window(&self, line: Line) -> Option<&Window> {
        match line {
            Line::Multicast => Some(&self.multicast),
            Line::Unicast(to) => self.unicast.get(&to),
            Line::Free => None,
        }
    }

    fn window_mut(&mut self, line: Line) -> Option<&mut Window> {
        match line {
            Line::Multicast => Some(&mut self.multicast),
            Line::Unicast(to) => self.unicast.get_mut(&to),
            Line::Free => None,
        }
    }

    /// Takes `cost` from the line's window. The call, if any, keeps others out until a message
    /// larger than the window has gone.
    fn enter(
        &mut self,
        line: Line,
        cost: u64,
        oversize: bool,
    ) -> Result<Option<OpId>, Option<Address>> {
        if line == Line::Free {
            return Ok(None);
        }
        let Some(w) = self.window_mut(line) else { return Err(None) };
        if w.waiting > 0 {
            return Err(w.limited_by);
        }
        if cost <= w.room {
            w.room -= cost;
            w.queued += cost;
            return Ok(None);
        }
        if oversize && w.room > 0 && cost > w.max {
            w.room = 0;
            w.queued += cost;
            w.waiting += 1;
            return Ok(Some(self.new_op()));
        }
        Err(w.limited_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (mio::Poll, Inbox) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        (poll, Inbox::new(Arc::new(waker)))
    }

    fn publish(i: &Inbox, credit: u64, answered: u32) {
        let room = Some(Room { line_open: true, credit, ..Room::default() });
        i.publish(vec![one(Line::Multicast, room, answered)]);
    }

    fn one(line: Line, room: Option<Room>, answered: u32) -> Published {
        Published { line, room, reachable: true, max: 1000, answered }
    }

    fn attempt(i: &Inbox, cost: u64) -> bool {
        let m = wire::Message::default();
        matches!(i.attempt(Line::Multicast, m, cost, false), Attempt::Admitted)
    }

    #[test]
    fn messages_enter_at_once_up_to_the_published_credit() {
        let (_poll, i) = inbox();
        assert!(!attempt(&i, 1), "nothing is published yet");
        publish(&i, 1000, 0);
        assert!(attempt(&i, 600));
        assert!(attempt(&i, 400), "at the limit it passes");
        assert!(!attempt(&i, 1), "one beyond fails");
    }

    #[test]
    fn what_the_driver_has_not_taken_is_not_published_again() {
        let (_poll, i) = inbox();
        publish(&i, 1000, 0);
        assert!(attempt(&i, 600));
        publish(&i, 1000, 0);
        assert_eq!(i.window(Line::Multicast).0, 400);
        assert_eq!(i.take(u64::MAX, usize::MAX).requests.len(), 1);
        publish(&i, 400, 0);
        assert_eq!(i.window(Line::Multicast).0, 400);
    }

    #[test]
    fn nobody_overtakes_a_call_that_waits() {
        let (_poll, i) = inbox();
        publish(&i, 1000, 0);
        let send = |op| app::Send {
            op: Some(op),
            message: wire::Message::default(),
            try_only: false,
            deadline: None,
            sync: None,
        };
        let call = i.call(Line::Multicast, 2000, send);
        assert!(call.is_some());
        assert!(!attempt(&i, 1));
        i.take(u64::MAX, usize::MAX);
        publish(&i, 1000, 1);
        assert!(attempt(&i, 1));
    }

    #[test]
    fn nothing_enters_a_line_to_a_stranger_however_often_it_was_refused() {
        let (_poll, i) = inbox();
        let line = Line::Unicast(Uuid::new(1, 1));
        let send = |op| app::Send {
            op: Some(op),
            message: wire::Message::default(),
            try_only: false,
            deadline: None,
            sync: None,
        };
        let call = i.call(line, 128, send);
        assert!(call.is_some());
        i.take(u64::MAX, usize::MAX);
        i.publish(vec![Published { reachable: false, ..one(line, None, 1) }]);
        let again = i.attempt(line, wire::Message::default(), 128, false);
        assert!(matches!(again, Attempt::NoCredit(..)));
        assert!(i.lock().unicast.is_empty(), "and nothing is remembered of it");
    }

    #[test]
    fn an_oversize_message_enters_a_free_line_and_closes_it() {
        let (_poll, i) = inbox();
        publish(&i, 500, 0);
        let try_send = |cost| i.attempt(Line::Multicast, wire::Message::default(), cost, true);
        assert!(matches!(try_send(900), Attempt::NoCredit(..)), "it fits into full credit");
        assert!(matches!(try_send(5000), Attempt::Admitted));
        assert!(matches!(try_send(1), Attempt::NoCredit(..)));
    }

    #[test]
    fn a_shut_inbox_answers_who_waits() {
        let (_poll, i) = inbox();
        let send = |op| app::Send {
            op: Some(op),
            message: wire::Message::default(),
            try_only: false,
            deadline: None,
            sync: None,
        };
        let (_, mut answer) = i.call(Line::Multicast, 1, send).expect("open");
        i.shut();
        assert!(answer.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
        assert!(!attempt(&i, 1));
    }
}
