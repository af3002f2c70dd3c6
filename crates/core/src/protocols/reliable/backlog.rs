//! Messages that wait for room in a send window, in order of submission, one line per destination.
//!
//! They have no numbers yet, so they can be taken back: by the caller, by its deadline, because the
//! destination left, or because the channel closes. A wait ends by an acknowledgement or by one of
//! these; the application hears after one second who it is waiting for. Unlike flow control this
//! makes no difference between regular and out-of-band messages, because both need a number.

use crate::event::Room;
use crate::protocols::flow::{RefusedWhole, fragment_of};
use crate::wire::Hints;
use crate::{
    AppEvent, Cx, Dir, Event, Flow, Message, OpId, Pool, SendRefusal, Time, TimerKey, Trace, Uuid,
};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// The application is to be told who it waits for.
pub(super) const REPORT: TimerKey = TimerKey(4);

/// How long a message waits before the application hears who limits it (DECISIONS 16).
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// Payload bytes that may wait here; what follows waits in the entry layer.
const MOST_BYTES: u64 = 2_000_000;
/// The same, as a number of messages.
const MOST_MESSAGES: u64 = 2_000;

/// All lines of one layer.
#[derive(Debug)]
pub(super) struct Backlog {
    pool: Pool,
    /// Lines in which something waits; `None` is that of multicasts.
    lines: BTreeMap<Option<Uuid>, Line>,
    bytes: u64,
    messages: u64,
    refused: RefusedWhole,
    blockings: u64,
    blocked_time: Duration,
}

#[derive(Debug)]
struct Line {
    list: VecDeque<Waiting>,
    since: Time,
    /// The application was told once in this blocking of a message that nobody waits for.
    reported_unowned: bool,
}

#[derive(Debug)]
struct Waiting {
    msg: Message,
    since: Time,
    reported: bool,
}

impl Waiting {
    fn op(&self) -> Option<OpId> {
        self.msg.token.as_ref().and_then(|t| t.op())
    }
}

impl Backlog {
    /// Nothing waits. `pool` names what the lines hold in traces.
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            lines: BTreeMap::new(),
            bytes: 0,
            messages: 0,
            refused: RefusedWhole::default(),
            blockings: 0,
            blocked_time: Duration::ZERO,
        }
    }

    /// Whether nothing waits for this destination.
    pub(super) fn is_empty(&self, dest: Option<Uuid>) -> bool {
        !self.lines.contains_key(&dest)
    }

    /// Whether no more is to be let down.
    fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES || self.messages >= MOST_MESSAGES
    }

    /// A message wants to leave. Passes if there is `room` and nothing waits in front of it, else it
    /// waits here, or is refused if it must not wait. A message is refused or sent whole: only its
    /// first fragment can be refused.
    pub(super) fn offer(
        &mut self,
        dest: Option<Uuid>,
        msg: &mut Message,
        room: bool,
        by: impl Fn() -> Vec<Uuid>,
        cx: &mut Cx<'_>,
    ) -> Flow {
        if self.refused.takes_too(msg, cx) {
            return Flow::Stop;
        }
        if room && self.is_empty(dest) {
            return Flow::Pass;
        }
        let begins_message = fragment_of(msg).is_none_or(|(_, n)| n == 0);
        if begins_message && msg.hints.contains(Hints::DONT_BLOCK) {
            self.refused.refuse(msg, SendRefusal::WouldBlock { by: by() }, cx);
            return Flow::Stop;
        }
        if self.is_empty(dest) {
            self.blockings += 1;
            let pool = self.pool;
            cx.trace(|| Trace::Blocked { pool, by: by() });
        }
        let msg = core::mem::take(msg);
        self.bytes += msg.length() as u64;
        self.messages += 1;
        let new = || Line { list: VecDeque::new(), since: cx.now, reported_unowned: false };
        let line = self.lines.entry(dest).or_insert_with(new);
        line.list.push_back(Waiting { msg, since: cx.now, reported: false });
        self.rearm(cx);
        Flow::Stop
    }

    /// The first message for `dest`, if there is room for it.
    pub(super) fn release(
        &mut self,
        dest: Option<Uuid>,
        has_room: impl FnOnce(&Message) -> bool,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        let line = self.lines.get_mut(&dest)?;
        if !has_room(&line.list.front()?.msg) {
            return None;
        }
        let was_full = self.is_full();
        let w = self.lines.get_mut(&dest)?.list.pop_front()?;
        self.forget(&w);
        self.end_if_empty(dest, cx);
        self.say_if_room(was_full, cx);
        Some(w.msg)
    }

    /// Takes back what the call `op` sent and what belongs to it: a message whose first fragment
    /// still waits is withdrawn whole.
    pub(super) fn withdraw(
        &mut self,
        op: OpId,
        expired: bool,
        by: impl Fn(Option<Uuid>) -> Vec<Uuid>,
        cx: &mut Cx<'_>,
    ) {
        let was_full = self.is_full();
        let found = self.lines.iter().find_map(|(dest, line)| {
            let at = line.list.iter().position(|w| w.op() == Some(op))?;
            Some((*dest, at))
        });
        let Some((dest, first)) = found else { return };
        let Some(line) = self.lines.get_mut(&dest) else { return };
        let group = |w: &Waiting| fragment_of(&w.msg).map(|(id, _)| id);
        let whole = group(&line.list[first]);
        let rest = line.list.iter().skip(first + 1);
        let siblings = rest.take_while(|w| whole.is_some() && group(w) == whole).count();
        let taken: Vec<Waiting> = line.list.drain(first..=first + siblings).collect();
        for mut w in taken {
            self.forget(&w);
            let why = match expired {
                true => SendRefusal::NotSent { by: by(dest) },
                false => SendRefusal::Withdrawn,
            };
            cx.discard(&mut w.msg, why);
        }
        self.end_if_empty(dest, cx);
        self.say_if_room(was_full, cx);
    }

    /// Refuses what waits for destinations that `which` gives a reason for.
    pub(super) fn refuse(
        &mut self,
        which: impl Fn(Option<Uuid>) -> Option<SendRefusal>,
        cx: &mut Cx<'_>,
    ) {
        let was_full = self.is_full();
        let gone: Vec<Option<Uuid>> =
            self.lines.keys().copied().filter(|d| which(*d).is_some()).collect();
        for dest in gone {
            let (Some(why), Some(line)) = (which(dest), self.lines.get_mut(&dest)) else {
                continue;
            };
            for mut w in core::mem::take(&mut line.list) {
                self.forget(&w);
                cx.discard(&mut w.msg, why.clone());
            }
            self.end_if_empty(dest, cx);
        }
        self.say_if_room(was_full, cx);
    }

    /// Tells the application who holds up the messages that have waited long enough, once each.
    pub(super) fn report(&mut self, by: impl Fn(Option<Uuid>) -> Vec<Uuid>, cx: &mut Cx<'_>) {
        for (dest, line) in &mut self.lines {
            let unowned_told = line.reported_unowned;
            let Some(w) = line.list.front_mut() else { continue };
            if w.reported || w.since + REPORT_AFTER > cx.now {
                continue;
            }
            w.reported = true;
            let (op, since) = (w.op(), w.since);
            line.reported_unowned |= op.is_none();
            if op.is_some() || !unowned_told {
                cx.tell(AppEvent::Blocked { op, by: by(*dest), since });
            }
        }
        self.rearm(cx);
    }

    /// Whether more may enter, when the window has room for so many `messages` and `bytes`.
    pub(super) fn room(
        &self,
        dest: Option<Uuid>,
        (messages, bytes): (u64, u64),
        length: u64,
        by: impl FnOnce() -> Vec<Uuid>,
    ) -> Room {
        let waits = !self.is_empty(dest);
        let immediate = !waits && messages > 0 && length <= bytes;
        Room {
            line_open: !waits || !self.is_full(),
            immediate,
            credit: if waits || messages == 0 { 0 } else { bytes },
            free_bytes: MOST_BYTES.saturating_sub(self.bytes).saturating_add(bytes),
            free_messages: MOST_MESSAGES.saturating_sub(self.messages).saturating_add(messages),
            limited_by: if immediate { Vec::new() } else { by() },
        }
    }

    fn forget(&mut self, w: &Waiting) {
        self.bytes -= w.msg.length() as u64;
        self.messages -= 1;
    }

    fn end_if_empty(&mut self, dest: Option<Uuid>, cx: &mut Cx<'_>) {
        if let Some(line) = self.lines.get(&dest).filter(|l| l.list.is_empty()) {
            self.blocked_time += cx.now.since(line.since);
            self.lines.remove(&dest);
            let pool = self.pool;
            cx.trace(|| Trace::Unblocked { pool });
        }
        self.rearm(cx);
    }

    fn say_if_room(&self, was_full: bool, cx: &mut Cx<'_>) {
        if was_full && !self.is_full() {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }

    fn rearm(&self, cx: &mut Cx<'_>) {
        let heads = self.lines.values().filter_map(|l| l.list.front());
        match heads.filter(|w| !w.reported).map(|w| w.since + REPORT_AFTER).min() {
            Some(at) if cx.armed(REPORT) != Some(at) => cx.arm(REPORT, at),
            Some(_) => {}
            None => cx.disarm(REPORT),
        }
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let average = self.blocked_time.as_micros() as u64 / self.blockings.max(1);
        out("num_blockings", self.blockings);
        out("average_time_blocked_us", average);
        out("waiting_bytes", self.bytes);
        out("waiting_messages", self.messages);
    }
}
