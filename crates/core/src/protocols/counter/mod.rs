//! COUNTER: counters that all members of a group share (JGroups `COUNTER`, WIRE §23).
//!
//! The coordinator of the view has the counters. Members ask it ([`asking`]); it carries requests out
//! one by one, tells its backups, and answers when they have said that they have it ([`serving`]): what
//! was answered survives the coordinator. A new coordinator first puts together what the members have,
//! then has them ask again what was not answered; backups know which requests were carried out, so
//! none is carried out twice. In a group with PRIMARY every member is a backup, and requests are carried
//! out in the primary view only.
//!
//! Between members of this toolkit the backups acknowledge, and remember requests, in a form of our
//! own ([`payload`]). JGroups members do neither. As a backup such a member is asked to reconcile, whose
//! answer says that it has everything before; as a coordinator it may carry out twice what it is asked
//! twice, so it is asked once: a change that a former coordinator may have carried out is not known to
//! have happened ([`CounterFailure::Unknown`]).

mod asking;
mod payload;
mod serving;
mod table;
#[cfg(test)]
mod tests;

use self::asking::Asking;
use self::payload::{OwnPayload, Step};
use self::serving::Serving;
use crate::protocols::lock::LockPayload;
use crate::wire::{CounterPayload, Decode, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, DropReason, Event, Flow, Group, Interests, OpId, Primacy,
    Protocol, Query, Service, Spec, TimerKey, Uuid, View,
};
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

crate::attributes! {
    /// Counters that all members share (JGroups `COUNTER`).
    pub struct CounterConfig for "COUNTER" {
        /// How many members, in the order of the view, have a copy of the coordinator's counters.
        /// Default 1. A change is answered when they all have it. In a group with PRIMARY all members
        /// have one, whatever is set here.
        num_backups: u32 = 1,
        /// How long a new coordinator waits for what JGroups members have, which may be without
        /// COUNTER. Default 10 s. Members of this toolkit are waited for as long as they are in the
        /// view.
        reconciliation_timeout: Duration = Duration::from_secs(10),
        /// How long a request may take that says nothing about it. Default 60 s.
        timeout: Duration = Duration::from_secs(60),
        /// Accepted, without effect: requests leave at the end of a turn.
        bypass_bundling: bool = false,
    }
}

/// Something asked of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterCall {
    /// Its name; the outcome comes with it in [`SendResult::Counted`](crate::SendResult).
    pub op: OpId,
    /// Which counter.
    pub name: String,
    /// What it is when there is none yet.
    pub initial: i64,
    /// What is to be done.
    pub action: CounterAction,
    /// How long it may take; `None`: as configured.
    pub timeout: Option<Duration>,
}

/// What can be done with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterAction {
    /// Its value.
    Get,
    /// It has this value.
    Set(i64),
    /// It grows by this, around at the ends of 64 bits; what it is then.
    AddAndGet(i64),
    /// It has the value `update` if it has the value `expected`; what it was before.
    CompareAndSwap {
        /// What it must be.
        expected: i64,
        /// What it becomes.
        update: i64,
    },
    /// There is no such counter any more.
    Delete,
}

/// Why something was not done with a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterFailure {
    /// The stack has no COUNTER. Nothing was done.
    NotInStack,
    /// The channel is closed. What was on its way may be done.
    Closed,
    /// The view is not the primary one. Nothing was done.
    NotPrimary,
    /// No answer in time.
    TimedOut {
        /// Who was asked, and may do it; `None`: nobody.
        asked: Option<Uuid>,
    },
    /// Who was asked has gone, and nobody knows whether it did it.
    Unknown {
        /// Who was asked.
        asked: Uuid,
    },
    /// The coordinator said no.
    Refused {
        /// Why, in its words.
        why: String,
    },
    /// So many requests of this member are unanswered. Nothing was done.
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// The name is too long. Nothing was done.
    NameTooLong {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The caller gave it up.
    Withdrawn,
}

/// Deadlines of requests.
const DEADLINE: TimerKey = TimerKey(0);
/// What is not answered is asked again.
const AGAIN: TimerKey = TimerKey(1);
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The longest name.
pub const MAX_NAME: usize = 32_768;

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Counter {
    asking: Asking,
    serving: Serving,
    unreadable: u64,
}

impl Counter {
    /// With these settings.
    #[must_use]
    pub fn new(config: CounterConfig) -> Self {
        Self { asking: Asking::new(config.timeout), serving: Serving::new(config), unreadable: 0 }
    }

    fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        self.asking.install(view, cx);
        self.serving.install(view, cx);
        self.settle_own(cx);
    }

    /// What this member asks itself, and answers.
    fn settle_own(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        loop {
            if self.serving.take_resend() {
                self.asking.resend(local, cx);
            }
            let (asked, answered) = (self.asking.take_own(), self.serving.take_own());
            if asked.is_empty() && answered.is_empty() {
                break;
            }
            for (owner, name, ask) in asked {
                self.serving.request(local, owner, name, ask, cx);
            }
            for answer in answered {
                self.asking.answered(answer, cx);
            }
        }
        self.asking.rearm(cx);
        if cx.armed(AGAIN).is_none() && (self.serving.waits() || self.asking.waits()) {
            cx.arm(AGAIN, cx.now + AGAIN_AFTER);
        }
    }

    fn take(&mut self, from: Uuid, bytes: &bytes::Bytes, cx: &mut Cx<'_>) {
        if OwnPayload::is_ours(bytes) {
            match OwnPayload::from_bytes(bytes.clone()) {
                Ok(payload) => self.serving.step(from, payload, cx),
                Err(_) => self.drop_garbage(from, cx),
            }
            return;
        }
        match CounterPayload::from_bytes(bytes.clone()) {
            Ok(CounterPayload::Ask { owner, name, ask }) => {
                self.serving.request(from, owner, name, ask, cx);
            }
            Ok(CounterPayload::Update(c)) => self.serving.update(from, &c, cx),
            Ok(CounterPayload::Reconcile(list)) => self.serving.reconcile(from, &list, cx),
            Ok(CounterPayload::Newer(list)) => self.serving.newer(from, list, cx),
            Ok(CounterPayload::ResendPending) => self.asking.resend(from, cx),
            Ok(
                answer @ (CounterPayload::Value { .. }
                | CounterPayload::Failed { .. }
                | CounterPayload::FunctionResult { .. }),
            ) => {
                if Some(from) == cx.group().coordinator() {
                    self.asking.answered(answer, cx);
                }
            }
            Err(_) => self.drop_garbage(from, cx),
        }
    }

    fn drop_garbage(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        self.unreadable += 1;
        cx.drop_from_peer(DropReason::Malformed, Some(from));
    }
}

impl Protocol for Counter {
    fn spec(&self) -> Spec {
        Spec {
            name: "COUNTER",
            id: Some(ProtId::COUNTER),
            interests: Interests { events: true, ..Interests::default() },
            provides: &[Service::Counters],
            needs_below: &[Service::Membership, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.asking.close(cx);
        self.serving.close();
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let from = batch.src;
        let mut taken = alloc::vec::Vec::new();
        batch.retain(|m| {
            let is_lock = || m.body.as_bytes().is_some_and(LockPayload::is_ours);
            if m.headers.get(ProtId::COUNTER).is_none() || is_lock() {
                return true;
            }
            taken.push(m.body.as_bytes().cloned().unwrap_or_default());
            cx.settle(Consumed::one(from, m.receipt));
            false
        });
        if !cx.is_member(from) {
            return;
        }
        for bytes in &taken {
            self.take(from, bytes, cx);
        }
        self.serving.acknowledge(cx);
        self.settle_own(cx);
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::Counter(call)) => {
                self.asking.call(call, cx);
                self.settle_own(cx);
                return Flow::Stop;
            }
            (Dir::Down, Event::Withdraw { op, .. }) if self.asking.withdraw(*op, cx) => {
                return Flow::Stop;
            }
            (Dir::Down, Event::Disconnect) => self.asking.close(cx),
            (Dir::Up, Event::View(view)) => self.install(view, cx),
            (Dir::Up, Event::Primary(primacy)) => {
                if *primacy == Primacy::No {
                    self.asking.outside(cx);
                }
                self.serving.primacy_changed(cx);
                self.settle_own(cx);
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            AGAIN => {
                self.serving.again(cx);
                self.asking.again(cx);
            }
            _ => self.asking.expire(cx),
        }
        self.settle_own(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Offers(Service::Counters) => Some(Answer::Held(true)),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        self.asking.inspect(out);
        self.serving.inspect(out);
        out("unreadable", self.unreadable);
    }
}

/// What is said of the view, where requests are carried out in the primary one only.
fn may_act(cx: &Cx<'_>) -> bool {
    cx.group().primary.is_none_or(|claim| claim.at(cx.now) == Primacy::Yes)
}

impl Step {
    /// Whether it says something to a coordinator.
    fn is_for_coordinator(&self) -> bool {
        match self {
            Step::Have(_) | Step::Acked(_) => true,
            Step::Ask | Step::All { .. } | Step::Next { .. } => false,
        }
    }
}
