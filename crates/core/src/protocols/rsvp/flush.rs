//! Flush: when it ends, everybody has delivered all multicasts that anybody had sent when it began.
//!
//! The caller asks each member what it has multicast, then tells each what to reach, and each answers
//! when its application has consumed that much: four small unicasts for each other member, whatever
//! was sent. Nothing is blocked meanwhile. What a member misses of it is asked for at once, as the
//! numbers show it. The steps are not numbered; the caller repeats them until they are answered.
//!
//! A JGroups member cannot be asked. Of its messages those are covered that some member of this
//! toolkit had received when it was asked, and it counts as done when STABLE says so.

use super::Rsvp;
use super::answering::in_order;
use super::flush_payload::{FlushPayload, Step};
use crate::app::{SyncEnd, SyncOutcome};
use crate::{
    Answer, Cx, Digest, Dir, Duration, Event, OpId, Query, SendToken, Time, TimerKey, Uuid, View,
    tag,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Steps without an answer are repeated after this.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
pub(super) const FLUSH: TimerKey = TimerKey(u64::MAX - 1);
/// Flushes of one caller that a member takes part in at a time; the oldest is given up, and taken up
/// again when its caller repeats it.
const MOST_VISITS: usize = 16;

/// The state of both roles.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    own: BTreeMap<u64, Flush>,
    visits: BTreeMap<(Uuid, u64), Visit>,
    last: u64,
}

impl Flushes {
    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("flushes", self.last);
        out("pending_flushes", self.own.len() as u64);
    }
}

/// A flush of our own.
#[derive(Debug)]
struct Flush {
    op: OpId,
    token: SendToken,
    until: Option<Time>,
    /// Who has not said what it sent.
    unasked: Vec<Uuid>,
    /// What is to be reached, of each sender.
    target: BTreeMap<Uuid, i64>,
    /// Who has not reached it.
    awaited: Vec<Uuid>,
    acknowledged: Vec<Uuid>,
    by_stability: Vec<Uuid>,
    left: Vec<Uuid>,
    repeat_at: Time,
}

impl Flush {
    fn list(&self) -> Vec<(Uuid, i64)> {
        self.target.iter().map(|(m, n)| (*m, *n)).collect()
    }

    /// More is known to have been sent.
    fn raise(&mut self, list: &[(Uuid, i64)], view: Option<&View>) {
        for (m, n) in list.iter().filter(|(m, _)| view.is_some_and(|v| v.contains(*m))) {
            let known = self.target.entry(*m).or_insert(*n);
            *known = (*known).max(*n);
        }
    }
}

/// What a caller wants to be reached here.
#[derive(Debug)]
struct Visit {
    left: Vec<(Uuid, Progress)>,
}

/// How far one sender's messages are.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// This number was not given to the application.
    Missing(i64),
    /// It was, and the application is done when it has consumed up to this place.
    Given(u32),
}

impl Rsvp {
    /// The application wants a flush.
    pub(super) fn flush(&mut self, op: OpId, until: Option<Time>, cx: &mut Cx<'_>) {
        self.flushes.last += 1;
        let number = self.flushes.last;
        let local = cx.local();
        let others = || cx.group().members().iter().copied().filter(|m| *m != local);
        let unasked: Vec<Uuid> = others().filter(|m| tag::flushes(*m)).collect();
        let awaited: Vec<Uuid> = cx.group().members().to_vec();
        let sent = self.what_was_sent(cx);
        let mut flush = Flush {
            op,
            token: cx.app_token(op),
            until,
            unasked,
            target: BTreeMap::new(),
            awaited,
            acknowledged: Vec::new(),
            by_stability: Vec::new(),
            left: Vec::new(),
            repeat_at: cx.now,
        };
        flush.raise(&sent, cx.group().view.as_deref());
        self.flushes.own.insert(number, flush);
        self.flush_on(cx);
    }

    /// What this member has multicast, and what it has received of those that cannot be asked.
    fn what_was_sent(&self, cx: &Cx<'_>) -> Vec<(Uuid, i64)> {
        let Some(Answer::Digest(digest)) = cx.ask_below(&Query::Digest) else { return Vec::new() };
        let local = cx.local();
        let told = |(m, _): &(Uuid, _)| *m == local || !tag::flushes(*m);
        digest.iter().filter(told).map(|(m, pair)| (m, pair.received)).collect()
    }

    /// The next step of each flush that is due for one, and the next time.
    pub(super) fn flush_on(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let over = |f: &Flush| f.until.is_some_and(|at| at <= now);
        let expired: Vec<u64> =
            self.flushes.own.iter().filter(|(_, f)| over(f)).map(|(n, _)| *n).collect();
        for number in expired {
            self.end_flush(number, SyncEnd::TimedOut, cx);
        }
        let local = cx.local();
        let mut visits = Vec::new();
        for (number, flush) in self.flushes.own.iter_mut().filter(|(_, f)| f.repeat_at <= now) {
            flush.repeat_at = now + REPEAT_AFTER;
            let (to, step) = match flush.unasked.is_empty() {
                false => (flush.unasked.clone(), Step::Ask),
                true => (flush.awaited.clone(), Step::Reach(flush.list())),
            };
            let payload = FlushPayload { number: *number, step };
            for m in to.into_iter().filter(|m| *m != local && tag::flushes(*m)) {
                cx.send_down(payload.message(m));
            }
            if flush.unasked.is_empty() && flush.awaited.contains(&local) {
                visits.push((*number, flush.list()));
            }
        }
        for (number, list) in visits {
            self.visit(local, number, list, cx);
        }
        let next = self.flushes.own.values().map(|f| match f.until {
            Some(until) => f.repeat_at.min(until),
            None => f.repeat_at,
        });
        if let Some(next) = next.min() {
            cx.arm(FLUSH, next);
        }
    }

    /// A step of `from` arrived.
    pub(super) fn flush_step(&mut self, from: Uuid, payload: FlushPayload, cx: &mut Cx<'_>) {
        if !tag::flushes(from) || !cx.is_member(from) || from == cx.local() {
            return;
        }
        let number = payload.number;
        match payload.step {
            Step::Ask => {
                let step = Step::Sent(self.what_was_sent(cx));
                cx.send_down(FlushPayload { number, step }.message(from));
            }
            Step::Sent(list) => {
                let Some(flush) = self.flushes.own.get_mut(&number) else { return };
                let Some(at) = flush.unasked.iter().position(|m| *m == from) else { return };
                flush.unasked.remove(at);
                flush.raise(&list, cx.group().view.as_deref());
                self.asked_all(number, cx);
            }
            Step::Reach(list) => self.visit(from, number, list, cx),
            Step::Reached => self.reached(number, from, false, cx),
        }
    }

    /// If everybody was asked, the next step follows at once.
    fn asked_all(&mut self, number: u64, cx: &mut Cx<'_>) {
        let now = cx.now;
        if let Some(flush) = self.flushes.own.get_mut(&number).filter(|f| f.unasked.is_empty()) {
            flush.repeat_at = now;
            self.flush_on(cx);
        }
    }

    /// `caller` wants to know when all of `list` is delivered here. What is missing of it is asked
    /// for.
    fn visit(&mut self, caller: Uuid, number: u64, list: Vec<(Uuid, i64)>, cx: &mut Cx<'_>) {
        let key = (caller, number);
        if !self.flushes.visits.contains_key(&key) {
            let pairs = list.iter().filter(|(m, _)| cx.is_member(*m));
            let sent: Digest = pairs
                .map(|(m, n)| (*m, crate::wire::SeqnoPair { delivered: *n, received: *n }))
                .collect();
            let left = sent.iter().map(|(m, p)| (m, Progress::Missing(p.received))).collect();
            let of_caller = self.flushes.visits.range((caller, 0)..=(caller, u64::MAX));
            if of_caller.clone().count() >= MOST_VISITS {
                let oldest = of_caller.map(|(key, _)| *key).next();
                oldest.map(|key| self.flushes.visits.remove(&key));
            }
            self.flushes.visits.insert(key, Visit { left });
            cx.raise(Dir::Down, Event::SentSoFar(sent));
        }
        self.look_at_visits(cx);
    }

    /// Something was delivered or consumed: callers may be told.
    pub(super) fn look_at_visits(&mut self, cx: &mut Cx<'_>) {
        if self.flushes.visits.is_empty() {
            return;
        }
        let local = cx.local();
        let mut done = Vec::new();
        for ((caller, number), visit) in &mut self.flushes.visits {
            let inboxes = &mut self.answering.inboxes;
            visit.left.retain_mut(|(sender, progress)| {
                let source = (*sender, true);
                if let Progress::Missing(n) = *progress {
                    if !in_order(source, Some(n), cx) {
                        return true;
                    }
                    // The caller may be the reader of its own events: its queue is enough.
                    *progress = match *caller == local {
                        true => return false,
                        false => Progress::Given(inboxes.end_stretch(source)),
                    };
                }
                match *progress {
                    Progress::Missing(_) => true,
                    Progress::Given(place) => !inboxes.is_consumed(source, place),
                }
            });
            if visit.left.is_empty() {
                done.push((*caller, *number));
            }
        }
        for (caller, number) in done {
            self.flushes.visits.remove(&(caller, number));
            match caller == local {
                true => self.reached(number, local, false, cx),
                false => {
                    let payload = FlushPayload { number, step: Step::Reached };
                    cx.send_down(payload.message(caller));
                }
            }
        }
    }

    fn reached(&mut self, number: u64, by: Uuid, by_stability: bool, cx: &mut Cx<'_>) {
        let Some(flush) = self.flushes.own.get_mut(&number) else { return };
        let Some(at) = flush.awaited.iter().position(|m| *m == by) else { return };
        flush.awaited.remove(at);
        flush.acknowledged.push(by);
        if by_stability {
            flush.by_stability.push(by);
        }
        if flush.awaited.is_empty() {
            self.end_flush(number, SyncEnd::Complete, cx);
        }
    }

    /// Everybody in the view has delivered what `stable` says: that is how members of other toolkits
    /// are known to have reached something.
    pub(super) fn flush_stable(&mut self, stable: &Digest, cx: &mut Cx<'_>) {
        let mut reached = Vec::new();
        for (number, flush) in self.flushes.own.iter().filter(|(_, f)| f.unasked.is_empty()) {
            let covers = |(m, n): (&Uuid, &i64)| stable.get(*m).is_none_or(|p| p.delivered >= *n);
            if flush.target.iter().all(covers) {
                let others = flush.awaited.iter().filter(|m| !tag::flushes(**m));
                reached.extend(others.map(|m| (*number, *m)));
            }
        }
        for (number, member) in reached {
            self.reached(number, member, true, cx);
        }
    }

    /// Members that left are not awaited, and nothing of them is.
    pub(super) fn flush_in(&mut self, view: &View, cx: &mut Cx<'_>) {
        self.flushes.visits.retain(|(caller, _), _| view.contains(*caller));
        for visit in self.flushes.visits.values_mut() {
            visit.left.retain(|(m, _)| view.contains(*m));
        }
        for number in self.flushes.own.keys().copied().collect::<Vec<_>>() {
            let Some(flush) = self.flushes.own.get_mut(&number) else { continue };
            let gone = flush.awaited.iter().copied().filter(|m| !view.contains(*m));
            flush.left.extend(gone.collect::<Vec<_>>());
            flush.awaited.retain(|m| view.contains(*m));
            flush.target.retain(|m, _| view.contains(*m));
            let asked_before = flush.unasked.is_empty();
            flush.unasked.retain(|m| view.contains(*m));
            if flush.awaited.is_empty() {
                self.end_flush(number, SyncEnd::Complete, cx);
            } else if !asked_before {
                self.asked_all(number, cx);
            }
        }
        self.look_at_visits(cx);
    }

    /// The caller gave up, if `op` is a flush.
    pub(super) fn withdraw_flush(&mut self, op: OpId, cx: &mut Cx<'_>) -> bool {
        let found = self.flushes.own.iter().find(|(_, f)| f.op == op).map(|(n, _)| *n);
        found.map(|number| self.end_flush(number, SyncEnd::Abandoned, cx)).is_some()
    }

    /// The channel closes.
    pub(super) fn close_flushes(&mut self, cx: &mut Cx<'_>) {
        for number in self.flushes.own.keys().copied().collect::<Vec<_>>() {
            self.end_flush(number, SyncEnd::Closed, cx);
        }
        self.flushes.visits.clear();
    }

    fn end_flush(&mut self, number: u64, end: SyncEnd, cx: &mut Cx<'_>) {
        let Some(flush) = self.flushes.own.remove(&number) else { return };
        self.flushes.visits.remove(&(cx.local(), number));
        if self.flushes.own.is_empty() {
            cx.disarm(FLUSH);
        }
        let outcome = SyncOutcome {
            acknowledged: flush.acknowledged,
            left: flush.left,
            failed: Vec::new(),
            by_stability: flush.by_stability,
            missing: flush.awaited,
            end,
        };
        cx.resolve_sync(flush.token, outcome);
    }
}
