//! The top layer: where calls of the application enter and wait their turn.
//!
//! It checks what can be checked before anything is committed, keeps what the lines below have no
//! room for, in order, and watches the deadlines of calls. A message that went down is out of its
//! hands: taking it back is asked of the layers below, and works until flow control admits it
//! (DECISIONS 11, 12). Without flow control nothing ever waits here.

mod rpc;
mod services;

use crate::app::{self, StateEnd, StateFailure, SyncRequest};
use crate::event::Room;
use crate::protocols::primary::Minority;
use crate::protocols::reliable::LEAST_COST;
use crate::protocols::stable::who_holds_back;
use crate::rpc::calls::{Calls, REQUEST};
use crate::rpc::serving::Serving;
use crate::wire::{Address, Flags, Hints, ProtId};
use crate::{
    Answer, AppEvent, Batch, Command, Cx, Dir, Event, Flow, GroupChange, Interests, Message, OpId,
    Pool, Primacy, Protocol, Query, Row, RowFlow, SendRefusal, SendToken, Spec, Time, TimerKey,
    Uuid,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

crate::attributes! {
    /// The top layer.
    pub struct EntryConfig for "ENTRY" {
        /// Messages that may wait above the protocols, all destinations together; beyond it sends
        /// are refused with "would block". Default 100,000.
        max_waiting: u64 = 100_000,
    }
}

/// The top layer of every stack.
#[derive(Debug)]
pub struct Entry {
    config: EntryConfig,
    state: State,
    /// What waits for room, by line.
    waiting: BTreeMap<LineKey, VecDeque<Waiting>>,
    count: u64,
    /// Calls that were not answered yet, with the deadline of each.
    calls: BTreeMap<OpId, Option<Time>>,
    /// Of these, calls of methods.
    remote_calls: Calls,
    /// Calls of methods of this member.
    serving: Serving,
    /// Calls whose time was over.
    expired: u64,
    /// What the layers below were told last.
    told_pending: bool,
    /// Too many own multicasts are not stable: no more are let down, whatever else exempts them.
    window_full: bool,
    /// How long a multicast and a unicast may wait before the call fails, if it is to fail.
    patience: [Option<Duration>; 2],
}

/// Destination and "out of band": messages of one line keep their order.
type LineKey = (Option<Uuid>, bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No view was installed since the application connected.
    Joining,
    /// Messages can be sent.
    Open,
    /// The application has left or is leaving.
    Closed,
}

#[derive(Debug)]
struct Waiting {
    msg: Message,
    bytes: u64,
    /// Since when it is the first of its line; before that it waits for its turn.
    first_since: Time,
    reported: bool,
}

impl Waiting {
    fn op(&self) -> Option<OpId> {
        self.msg.token.as_ref().and_then(SendToken::op)
    }
}

/// Another message became the first of its line, if any is left: its wait begins.
fn new_first(queue: &mut VecDeque<Waiting>, now: Time) {
    if let Some(first) = queue.front_mut() {
        first.first_since = now;
    }
}

/// JGroups' lengths are 32-bit and signed.
pub(crate) const LARGEST: u64 = i32::MAX as u64;

/// How long a call waits before the application hears who limits it (DECISIONS 16).
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// What was let down was taken: perhaps there is room for more.
const RETRY: TimerKey = TimerKey(u64::MAX - 1);

/// Reports; every other timer but [`RETRY`] is the deadline of the call of that number.
const REPORT: TimerKey = TimerKey(u64::MAX);

impl Entry {
    /// With this configuration.
    #[must_use]
    pub fn new(config: EntryConfig) -> Self {
        Self {
            config,
            state: State::Joining,
            waiting: BTreeMap::new(),
            count: 0,
            calls: BTreeMap::new(),
            remote_calls: Calls::default(),
            serving: Serving::default(),
            expired: 0,
            told_pending: false,
            window_full: false,
            patience: [None; 2],
        }
    }

    fn send(&mut self, send: app::Send, cx: &mut Cx<'_>) {
        let until = send.sync.as_ref().and_then(|s| s.timeout).map(|t| cx.now + t);
        // What is admitted by then goes on: it is taken back only while it waits.
        let patience = self.patience[usize::from(send.message.dest.is_some())];
        let bears = patience.map(|p| cx.now + p);
        let deadline = send.deadline.into_iter().chain(until).chain(bears).min();
        let token = send.op.map(|op| {
            self.calls.insert(op, deadline);
            cx.app_token(op)
        });
        if let Some(why) = self.refusal(&send, cx) {
            return refuse(token, why, cx);
        }
        let mut msg = Message::from(send.message);
        msg.sync = send.sync.map(|s| Box::new(SyncRequest { level: s.level, until, to: s.to }));
        msg.token = token;
        if let (Some(op), Some(at)) = (send.op, deadline) {
            cx.arm(TimerKey(op.0), at);
        }
        self.enter(msg, send.try_only, cx);
    }

    /// Lets the message down if there is room for it and nothing of its line waits; else it waits.
    fn enter(&mut self, mut msg: Message, try_only: bool, cx: &mut Cx<'_>) {
        let key = (msg.dest.as_ref().and_then(Address::uuid), msg.has(Flags::OOB));
        let bytes = msg.length() as u64;
        let behind = self.waiting.contains_key(&key);
        let mut room = self.room(key, bytes, cx);
        if msg.token.is_some() && outside(cx).is_some() {
            room.line_open = false;
            room.limited_by = awaited(cx);
        }
        let enters = !behind && room.line_open;
        if !enters && (try_only || self.count >= self.config.max_waiting) {
            return cx.discard(&mut msg, SendRefusal::WouldBlock { by: room.limited_by });
        }
        if try_only {
            // Whether it can leave at once is seen by the layer that would keep it.
            msg.hints |= Hints::DONT_BLOCK;
        }
        if enters {
            cx.send_down(msg);
            return;
        }
        let waiting = Waiting { msg, bytes, first_since: cx.now, reported: false };
        self.waiting.entry(key).or_default().push_back(waiting);
        self.count += 1;
        self.rearm(cx);
    }

    /// Why the message cannot be sent at all, if so.
    fn refusal(&self, send: &app::Send, cx: &Cx<'_>) -> Option<SendRefusal> {
        if self.state != State::Open || cx.group().view.is_none() {
            return Some(SendRefusal::Closed);
        }
        let dest = match &send.message.dest {
            Some(a @ (Address::Uuid(_) | Address::Flags(_) | Address::Extended(_))) => a.uuid(),
            // Physical addresses and those of other sites are for the layers that know them.
            Some(Address::Ip(_) | Address::Site(_) | Address::SiteMaster(_))
            | Some(Address::Millis(_))
            | None => None,
        };
        let subset = send.sync.iter().flat_map(|s| s.to.iter().flatten().copied());
        if let Some(stranger) = dest.into_iter().chain(subset).find(|m| !cx.is_member(*m)) {
            return Some(SendRefusal::NotMember(stranger));
        }
        let size = send.message.length() as u64;
        if size > LARGEST {
            return Some(SendRefusal::TooLarge { size, limit: LARGEST });
        }
        if send.op.is_some() && outside(cx) == Some(Primacy::No) {
            return Some(SendRefusal::NotPrimary);
        }
        let no_rsvp = send.sync.is_some() && cx.ask_below(&Query::Syncs).is_none();
        no_rsvp.then_some(SendRefusal::NoRsvp)
    }

    /// A call for a state is a call like others: while it waits, this member goes on granting
    /// credit (DECISIONS 16).
    fn fetch_state(&mut self, call: app::FetchState, cx: &mut Cx<'_>) {
        self.calls.insert(call.op, None);
        let end = match (self.state, cx.ask_below(&Query::StateLimit)) {
            (State::Closed, _) => StateEnd::Closed,
            (State::Joining | State::Open, None) => StateEnd::NotInStack,
            (State::Joining | State::Open, Some(_)) => {
                return cx.raise(Dir::Down, Event::FetchState(call));
            }
        };
        cx.answer_fetch(call.op, Err(StateFailure { end, tried: Vec::new() }));
    }

    /// RSVP answers the call, and keeps its time: what it waits for was sent already.
    fn flush(&mut self, op: OpId, timeout: Option<Duration>, cx: &mut Cx<'_>) {
        self.calls.insert(op, None);
        let why = match cx.ask_below(&Query::Syncs) {
            _ if self.state != State::Open => SendRefusal::Closed,
            None => SendRefusal::NoRsvp,
            Some(_) => {
                let until = timeout.map(|t| cx.now + t);
                return cx.raise(Dir::Down, Event::Flush { op, until });
            }
        };
        let token = cx.app_token(op);
        cx.resolve(token, Err(why));
    }

    fn room(&self, key: LineKey, bytes: u64, cx: &Cx<'_>) -> Room {
        room(key, bytes, self.window_full, cx)
    }

    /// Lets down what there is room for, line by line, each in order.
    fn retry(&mut self, cx: &mut Cx<'_>) {
        // Nothing goes down before this layer returns, so what was let down is counted here.
        let (mut bytes, mut messages) = (0u64, 0u64);
        let outside = outside(cx).is_some();
        let mut lines = core::mem::take(&mut self.waiting);
        for (key, queue) in &mut lines {
            let mut room = self.room(*key, queue.front().map_or(0, |w| w.bytes), cx);
            if let (None, Some(Answer::Bytes(left))) = (key.0, cx.ask_below(&Query::OwnRoom)) {
                room.free_bytes = room.free_bytes.min(left);
            }
            let mut open = room.line_open;
            // Calls wait for the view to be the primary one; what was accepted while it was goes on.
            let goes = |w: &Waiting| w.op().is_none() || !outside;
            while open && queue.front().is_some_and(goes) {
                let Some(w) = queue.pop_front() else { break };
                self.count -= 1;
                bytes = bytes.saturating_add(w.bytes);
                messages += 1;
                open = bytes < room.free_bytes && messages < room.free_messages;
                cx.send_down(w.msg);
                new_first(queue, cx.now);
            }
        }
        lines.retain(|_, queue| !queue.is_empty());
        self.waiting = lines;
        if messages > 0 && !self.waiting.is_empty() {
            // A line that this did not fill will not say that it has room again.
            cx.arm(RETRY, cx.now);
        }
        self.rearm(cx);
    }

    /// Takes a call's message back, wherever it waits.
    fn withdraw(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) {
        if !self.calls.contains_key(&op) {
            return;
        }
        self.expired += u64::from(expired);
        if self.remote_calls.has(op) {
            return self.end_call(op, expired, cx);
        }
        let found = self.waiting.iter().find_map(|(key, queue)| {
            queue.iter().position(|w| w.op() == Some(op)).map(|at| (*key, at))
        });
        let Some((key, at)) = found else {
            return cx.raise(Dir::Down, Event::Withdraw { op, expired });
        };
        let Some(queue) = self.waiting.get_mut(&key) else { return };
        let taken = queue.remove(at);
        if at == 0 {
            new_first(queue, cx.now);
        }
        if queue.is_empty() {
            self.waiting.remove(&key);
        }
        if let Some(mut w) = taken {
            self.count -= 1;
            let why = match expired {
                true if outside(cx).is_some() => SendRefusal::NotSent { by: awaited(cx) },
                true => SendRefusal::NotSent { by: self.room(key, w.bytes, cx).limited_by },
                false => SendRefusal::Withdrawn,
            };
            cx.discard(&mut w.msg, why);
        }
        self.rearm(cx);
    }

    /// Refuses what waits and `which` names.
    fn refuse_waiting(
        &mut self,
        which: impl Fn(LineKey, &Waiting) -> Option<SendRefusal>,
        cx: &mut Cx<'_>,
    ) {
        self.waiting.retain(|key, queue| {
            let before = queue.len();
            let first_goes = queue.front().is_some_and(|w| which(*key, w).is_some());
            queue.retain_mut(|w| match which(*key, w) {
                Some(why) => {
                    cx.discard(&mut w.msg, why);
                    false
                }
                None => true,
            });
            self.count -= (before - queue.len()) as u64;
            if first_goes {
                new_first(queue, cx.now);
            }
            !queue.is_empty()
        });
        self.rearm(cx);
    }

    /// What is said of the view has changed: sends wait, go on, or are refused; or we leave.
    fn primacy_changed(&mut self, cx: &mut Cx<'_>) {
        match (outside(cx), cx.group().primary) {
            (Some(Primacy::No), _) => {
                let call = |_: LineKey, w: &Waiting| w.op().map(|_| SendRefusal::NotPrimary);
                self.refuse_waiting(call, cx);
            }
            (_, Some(claim)) if claim.must_leave() && self.state == State::Open => {
                self.close(cx);
                cx.raise(Dir::Down, Event::Disconnect);
            }
            _ => self.retry(cx),
        }
    }

    fn report(&mut self, cx: &mut Cx<'_>) {
        let full = self.window_full;
        for (key, queue) in &mut self.waiting {
            let Some(w) = queue.front_mut() else { continue };
            if !w.reported && w.first_since + REPORT_AFTER <= cx.now {
                w.reported = true;
                let by = match outside(cx) {
                    Some(_) => awaited(cx),
                    None => room(*key, w.bytes, full, cx).limited_by,
                };
                cx.tell(AppEvent::Blocked { op: w.op(), by, since: w.first_since });
            }
        }
    }

    fn rearm(&mut self, cx: &mut Cx<'_>) {
        let fronts = self.waiting.values().filter_map(VecDeque::front);
        let due = fronts.filter(|w| !w.reported).map(|w| w.first_since + REPORT_AFTER).min();
        match due {
            Some(at) => cx.arm(REPORT, at),
            None => cx.disarm(REPORT),
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Closed;
        self.remote_calls.close(cx);
        self.refuse_waiting(|_, _| Some(SendRefusal::Closed), cx);
    }
}

impl Protocol for Entry {
    fn spec(&self) -> Spec {
        Spec {
            name: "ENTRY",
            id: None,
            interests: Interests {
                up_with: Some(ProtId::REQUEST_CORRELATOR),
                events: true,
                end_turn: true,
                ..Interests::default()
            },
            provides: &[],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn start(&mut self, _cx: &mut Cx<'_>) {
        self.state = State::Joining;
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }

    /// A row goes down as a whole if each of its messages would go down at once.
    fn row_down(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        let key = (None, false);
        let open = self.state == State::Open && cx.group().view.is_some();
        if !open || self.waiting.contains_key(&key) || row.longest() as u64 > LARGEST {
            return RowFlow::Apart;
        }
        let room = self.room(key, row.longest() as u64, cx);
        let own = match cx.ask_below(&Query::OwnRoom) {
            Some(Answer::Bytes(left)) => left,
            _ => u64::MAX,
        };
        let cost = row.cost(LEAST_COST);
        let fits = room.immediate && cost <= room.credit && cost <= own;
        if room.line_open && fits { RowFlow::Pass } else { RowFlow::Apart }
    }

    fn on_command(&mut self, cmd: Command, cx: &mut Cx<'_>) {
        match cmd {
            Command::Send(send) => self.send(send, cx),
            Command::Cancel(op) => self.withdraw(op, false, cx),
            Command::FetchState(call) => self.fetch_state(call, cx),
            Command::Flush { op, timeout } => self.flush(op, timeout, cx),
            Command::Call(call) => self.call(*call, cx),
            Command::Counter(call) => self.counter(call, cx),
            Command::Lock(call) => self.lock(call, cx),
            Command::AnswerRequest { request, answer } => self.answer_request(request, answer, cx),
            Command::AnswerState(answer) => {
                if let Some(op) = answer.op {
                    self.calls.insert(op, None);
                }
                cx.raise(Dir::Down, Event::AnswerState(answer));
            }
            Command::TakeState(take) => cx.raise(Dir::Down, Event::TakeState(take)),
            // The stack turns these into events and receipts itself.
            Command::Connect { .. } | Command::Disconnect | Command::Consumed(_) => {}
        }
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.take_calls(batch, cx);
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::Connect) => {
                self.state = State::Joining;
                self.window_full = false;
            }
            (Dir::Down, Event::Disconnect) => self.close(cx),
            (Dir::Up, Event::View(view)) => {
                if self.state == State::Joining {
                    self.state = State::Open;
                    self.patience = [Pool::Multicast, Pool::Unicast].map(|p| patience(p, cx));
                }
                self.remote_calls.install(view, cx);
                self.serving.install(view);
                let gone = |(dest, _): LineKey, _: &Waiting| {
                    dest.filter(|d| !view.contains(*d)).map(SendRefusal::NotMember)
                };
                self.refuse_waiting(gone, cx);
                self.retry(cx);
            }
            (Dir::Up, Event::OwnWindow { full }) => {
                self.window_full = *full;
                self.retry(cx);
            }
            (Dir::Up, Event::Primary(_)) => self.primacy_changed(cx),
            (Dir::Up, Event::RoomAgain) if !self.waiting.is_empty() => self.retry(cx),
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            REPORT => {
                self.report(cx);
                self.rearm(cx);
            }
            RETRY => self.retry(cx),
            TimerKey(op) => self.withdraw(OpId(op), true, cx),
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        if key & REQUEST != 0 {
            return self.remote_calls.sent(key, how, cx);
        }
        if let Some(Some(_deadline)) = self.calls.remove(&OpId(key)) {
            cx.disarm(TimerKey(key));
        }
    }

    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        let pending = !self.calls.is_empty();
        if pending != self.told_pending {
            self.told_pending = pending;
            cx.change(GroupChange::CallsPending(pending));
            cx.raise(Dir::Down, Event::CallsPending(pending));
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("waiting_messages", self.count);
        out("pending_calls", self.calls.len() as u64);
        out("calls_expired", self.expired);
        self.remote_calls.inspect(out);
        self.serving.inspect(out);
    }
}

/// What flow control says about the line of `key`. Of a large message only the first fragment must
/// fit for it to leave. With the own window full (`window_full`) no multicast enters.
fn room((dest, oob): LineKey, bytes: u64, window_full: bool, cx: &Cx<'_>) -> Room {
    let first = match cx.ask_below(&Query::FragmentSize) {
        Some(Answer::Bytes(size)) => bytes.min(size),
        _ => bytes,
    };
    let mut room = match cx.ask_below(&Query::Room { dest, oob, bytes: first as usize }) {
        Some(Answer::Room(room)) => room,
        _ => Room {
            line_open: true,
            immediate: true,
            credit: u64::MAX,
            free_bytes: u64::MAX,
            free_messages: u64::MAX,
            limited_by: Vec::new(),
        },
    };
    if window_full && dest.is_none() {
        let more = who_holds_back(cx).into_iter().filter(|m| !room.limited_by.contains(m));
        let more: Vec<Uuid> = more.collect();
        room.limited_by.extend(more);
        (room.line_open, room.immediate) = (false, false);
    }
    room
}

/// What is said of the view, where sends are stopped because it is not known to be the primary one.
fn outside(cx: &Cx<'_>) -> Option<Primacy> {
    let claim = cx.group().primary.filter(|c| c.minority == Minority::Refuse)?;
    Some(claim.at(cx.now)).filter(|s| *s != Primacy::Yes)
}

/// For whom the agreement on the view waits.
fn awaited(cx: &Cx<'_>) -> Vec<Uuid> {
    match cx.ask_below(&Query::PrimaryAwaits) {
        Some(Answer::Members(members)) => members,
        _ => Vec::new(),
    }
}

/// How long a call may wait for credit of this pool, if it is to fail at all.
fn patience(pool: Pool, cx: &Cx<'_>) -> Option<Duration> {
    match cx.ask_below(&Query::SendPatience(pool)) {
        Some(Answer::Patience(time)) => Some(time),
        _ => None,
    }
}

fn refuse(token: Option<SendToken>, why: SendRefusal, cx: &mut Cx<'_>) {
    if let Some(t) = token {
        cx.resolve(t, Err(why));
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
