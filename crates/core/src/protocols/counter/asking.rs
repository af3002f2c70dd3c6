//! The half of whoever asks: requests that are not answered, by number, each with a deadline.

use super::payload::message;
use super::table::REMEMBERED;
use super::{CounterAction, CounterCall, CounterFailure, DEADLINE, MAX_NAME};
use crate::wire::{CounterAsk, CounterOwner, CounterPayload, Encode};
use crate::{Cx, OpId, Primacy, SendResult, SendToken, Time, Uuid, View, tag};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// A request of this member to itself.
pub(super) type OwnRequest = (CounterOwner, String, CounterAsk);

/// Requests that are not answered.
#[derive(Debug)]
pub(super) struct Asking {
    timeout: Duration,
    last: i64,
    pending: BTreeMap<i64, Pending>,
    to_self: Vec<OwnRequest>,
    view: Option<Arc<View>>,
    /// A JGroups member that has just become coordinator drops requests until it says that it is
    /// ready: nothing is sent before, or until then.
    not_before: Option<Time>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    asked: u64,
    asked_again: u64,
    timed_out: u64,
    unknown: u64,
    late: u64,
}

#[derive(Debug)]
struct Pending {
    token: SendToken,
    op: OpId,
    name: String,
    initial: i64,
    action: CounterAction,
    step: Step,
    until: Time,
    /// Who was asked last, and when.
    asked: Option<(Uuid, Time)>,
    /// A copy of the action may be on its way.
    under_way: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The action itself.
    Act,
    /// There was no such counter: it is made first, by a request of this number. The action keeps its own:
    /// a copy of it that comes late, when somebody has made the counter, may have carried it out.
    Create(i64),
}

impl Pending {
    fn ask(&self) -> CounterAsk {
        match (self.step, self.action) {
            (Step::Create(_), _) => CounterAsk::GetOrCreate(self.initial),
            (Step::Act, CounterAction::Get) => CounterAsk::AddAndGet(0),
            (Step::Act, CounterAction::Set(v)) => CounterAsk::Set(v),
            (Step::Act, CounterAction::AddAndGet(d)) => CounterAsk::AddAndGet(d),
            (Step::Act, CounterAction::CompareAndSwap { expected, update }) => {
                CounterAsk::CompareAndSet { expected, update }
            }
            (Step::Act, CounterAction::Delete) => CounterAsk::Delete,
        }
    }

    /// Carrying it out twice is the same as once.
    fn is_harmless(&self) -> bool {
        match (self.step, self.action) {
            (_, CounterAction::Get | CounterAction::AddAndGet(0)) => true,
            (Step::Create(_), _) => !self.under_way,
            (
                Step::Act,
                CounterAction::Set(_)
                | CounterAction::AddAndGet(_)
                | CounterAction::CompareAndSwap { .. }
                | CounterAction::Delete,
            ) => false,
        }
    }

    /// Whether `coordinator` may be asked without the risk that it is done twice.
    fn may_ask(&self, coordinator: Uuid) -> bool {
        let remembers = |m| tag::counts(m);
        match self.asked {
            None => true,
            Some((before, _)) => {
                self.is_harmless() || (remembers(before) && remembers(coordinator))
            }
        }
    }
}

/// How long a request may be unanswered before a coordinator that remembers is asked again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longer than a JGroups member takes to reconcile at most.
const RECONCILIATION: Duration = Duration::from_secs(11);

impl Asking {
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            last: 0,
            pending: BTreeMap::new(),
            to_self: Vec::new(),
            view: None,
            not_before: None,
            counters: Counters::default(),
        }
    }

    pub(super) fn take_own(&mut self) -> Vec<OwnRequest> {
        core::mem::take(&mut self.to_self)
    }

    pub(super) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn call(&mut self, call: &CounterCall, cx: &mut Cx<'_>) {
        let token = cx.app_token(call.op);
        let oldest = self.pending.first_key_value().map_or(self.last + 1, |(id, _)| *id);
        let primary = cx.group().primary.map(|c| c.at(cx.now));
        let refused = if self.view.is_none() {
            Some(CounterFailure::Closed)
        } else if call.name.len() > MAX_NAME {
            Some(CounterFailure::NameTooLong { limit: MAX_NAME as u64 })
        } else if primary == Some(Primacy::No) {
            Some(CounterFailure::NotPrimary)
        } else if self.last + 1 - oldest >= REMEMBERED as i64 {
            Some(CounterFailure::TooMany { limit: REMEMBERED as u64 })
        } else {
            None
        };
        if let Some(why) = refused {
            return cx.resolve_service(token, SendResult::Counted(Err(why)));
        }
        self.counters.asked += 1;
        let pending = Pending {
            token,
            op: call.op,
            name: call.name.clone(),
            initial: call.initial,
            action: call.action,
            step: Step::Act,
            until: cx.now + call.timeout.unwrap_or(self.timeout),
            asked: None,
            under_way: false,
        };
        self.last += 1;
        self.pending.insert(self.last, pending);
        self.ask(self.last, cx);
    }

    /// Asks the coordinator, if that is possible now.
    fn ask(&mut self, id: i64, cx: &mut Cx<'_>) {
        let Some(coordinator) = self.view.as_ref().map(|v| v.coordinator()) else { return };
        if self.not_before.is_some() {
            return;
        }
        let local = cx.local();
        let Some(p) = self.pending.get_mut(&id) else { return };
        if !p.may_ask(coordinator) {
            return;
        }
        if p.asked.is_some() {
            self.counters.asked_again += 1;
        }
        p.asked = Some((coordinator, cx.now));
        p.under_way |= p.step == Step::Act;
        let (name, ask) = (p.name.clone(), p.ask());
        let request = match p.step {
            Step::Act => id,
            Step::Create(number) => number,
        };
        let owner = CounterOwner { member: Some(local.into()), request };
        if coordinator == local {
            self.to_self.push((owner, name, ask));
            return;
        }
        let payload = CounterPayload::Ask { owner: owner.clone(), name: name.clone(), ask };
        cx.send_down(message(coordinator, payload.to_bytes()));
        if ask == CounterAsk::Delete && !tag::counts(coordinator) {
            // JGroups does not say that it has deleted something; but it answers what comes next.
            let ask = CounterAsk::AddAndGet(0);
            let payload = CounterPayload::Ask { owner, name, ask };
            cx.send_down(message(coordinator, payload.to_bytes()));
        }
    }

    fn ask_all(&mut self, cx: &mut Cx<'_>) {
        let ids: Vec<i64> = self.pending.keys().copied().collect();
        for id in ids {
            self.ask(id, cx);
        }
    }

    pub(super) fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let before = self.view.replace(Arc::clone(view)).map(|v| v.coordinator());
        let coordinator = view.coordinator();
        if before == Some(coordinator) {
            return;
        }
        self.not_before = None;
        let lost = |p: &Pending| match p.asked {
            Some((asked, _)) if !p.may_ask(coordinator) => Some(CounterFailure::Unknown { asked }),
            Some(_) | None => None,
        };
        self.end_where(lost, cx);
        if tag::counts(coordinator) {
            // Unless there was none before, it says when it is ready.
            if before.is_none() {
                self.ask_all(cx);
            }
            return;
        }
        // Where it was the coordinator of its part already, it does not reconcile.
        let led = view.subgroups.iter().any(|s| s.coordinator() == coordinator);
        if before.is_some() && !led {
            self.not_before = Some(cx.now + RECONCILIATION);
        }
        self.ask_all(cx);
    }

    /// The coordinator is ready, and has dropped what came before.
    pub(super) fn resend(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        if self.view.as_ref().map(|v| v.coordinator()) == Some(from) {
            self.not_before = None;
            self.ask_all(cx);
        }
    }

    /// Asks again what has been unanswered for long.
    pub(super) fn again(&mut self, cx: &mut Cx<'_>) {
        if self.not_before.is_some_and(|at| at <= cx.now) {
            self.not_before = None;
            return self.ask_all(cx);
        }
        let Some(coordinator) = self.view.as_ref().map(|v| v.coordinator()) else { return };
        if !tag::counts(coordinator) {
            return;
        }
        let due = |p: &Pending| p.asked.is_none_or(|(_, at)| at + PATIENCE <= cx.now);
        let ids: Vec<i64> = self.pending.iter().filter(|(_, p)| due(p)).map(|(i, _)| *i).collect();
        for id in ids {
            self.ask(id, cx);
        }
    }

    /// The coordinator has answered.
    pub(super) fn answered(&mut self, answer: CounterPayload, cx: &mut Cx<'_>) {
        let (owner, result) = match answer {
            CounterPayload::Value { owner, value, .. } => (owner, Ok(value)),
            CounterPayload::Failed { owner, error } => (owner, Err(error.unwrap_or_default())),
            CounterPayload::FunctionResult { owner } => {
                (owner, Err("a function was answered that was not asked for".into()))
            }
            CounterPayload::Ask { .. }
            | CounterPayload::Update(_)
            | CounterPayload::Reconcile(_)
            | CounterPayload::ResendPending
            | CounterPayload::Newer(_) => return,
        };
        let ours = owner.member.and_then(|m| m.uuid()) == Some(cx.local());
        let found = self.call_of(owner.request).filter(|_| ours);
        let Some((id, p)) = found.and_then(|id| Some((id, self.pending.get(&id)?))) else {
            self.counters.late += 1;
            return;
        };
        let is_made = p.step == Step::Create(owner.request);
        let missing = matches!(&result, Err(why) if *why == not_found(&p.name));
        match (result, p.action) {
            (Ok(_), _) if is_made => self.go_on(id, Step::Act, cx),
            (Err(_), CounterAction::Delete) if missing => self.end_with(id, Ok(0), cx),
            (Err(_), _) if missing => match p.step {
                Step::Act => {
                    self.last += 1;
                    self.go_on(id, Step::Create(self.last), cx);
                }
                // Another copy of the action, or of this, has found none either.
                Step::Create(_) => {}
            },
            (result, _) => {
                let result = result.map_err(|why| CounterFailure::Refused { why });
                self.end_with(id, result, cx);
            }
        }
    }

    /// The call that made a request of this number.
    fn call_of(&self, request: i64) -> Option<i64> {
        if self.pending.contains_key(&request) {
            return Some(request);
        }
        let made_for = |(_, p): &(&i64, &Pending)| p.step == Step::Create(request);
        self.pending.iter().find(made_for).map(|(id, _)| *id)
    }

    fn go_on(&mut self, id: i64, step: Step, cx: &mut Cx<'_>) {
        if let Some(p) = self.pending.get_mut(&id) {
            p.step = step;
            // One that remembers may have been sent further copies.
            if p.asked.is_some_and(|(m, _)| !tag::counts(m)) {
                p.asked = None;
                p.under_way = false;
            }
        }
        self.ask(id, cx);
    }

    fn end_with(&mut self, id: i64, result: Result<i64, CounterFailure>, cx: &mut Cx<'_>) {
        if let Some(p) = self.pending.remove(&id) {
            self.end(p, result, cx);
        }
    }

    /// The view is not the primary one.
    pub(super) fn outside(&mut self, cx: &mut Cx<'_>) {
        let why = |p: &Pending| match p.asked {
            Some((asked, _)) if !p.is_harmless() => Some(CounterFailure::Unknown { asked }),
            Some(_) | None => Some(CounterFailure::NotPrimary),
        };
        self.end_where(why, cx);
    }

    pub(super) fn withdraw(&mut self, op: OpId, cx: &mut Cx<'_>) -> bool {
        let found = self.pending.iter().find(|(_, p)| p.op == op).map(|(id, _)| *id);
        let Some(p) = found.and_then(|id| self.pending.remove(&id)) else { return false };
        self.end(p, Err(CounterFailure::Withdrawn), cx);
        true
    }

    pub(super) fn expire(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let why = |p: &Pending| {
            let asked = p.asked.map(|(m, _)| m);
            (p.until <= now).then_some(CounterFailure::TimedOut { asked })
        };
        self.end_where(why, cx);
    }

    pub(super) fn rearm(&self, cx: &mut Cx<'_>) {
        match self.pending.values().map(|p| p.until).min() {
            Some(at) => cx.arm(DEADLINE, at),
            None => cx.disarm(DEADLINE),
        }
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        self.view = None;
        self.not_before = None;
        self.end_where(|_| Some(CounterFailure::Closed), cx);
        self.rearm(cx);
    }

    fn end_where(&mut self, why: impl Fn(&Pending) -> Option<CounterFailure>, cx: &mut Cx<'_>) {
        let ids: Vec<i64> = self.pending.keys().copied().collect();
        for id in ids {
            let Some(failure) = self.pending.get(&id).and_then(&why) else { continue };
            if let Some(p) = self.pending.remove(&id) {
                self.end(p, Err(failure), cx);
            }
        }
    }

    fn end(&mut self, p: Pending, result: Result<i64, CounterFailure>, cx: &mut Cx<'_>) {
        match &result {
            Err(CounterFailure::TimedOut { .. }) => self.counters.timed_out += 1,
            Err(CounterFailure::Unknown { .. }) => self.counters.unknown += 1,
            Ok(_) | Err(_) => {}
        }
        cx.resolve_service(p.token, SendResult::Counted(result));
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("requests", c.asked);
        out("requests_pending", self.pending.len() as u64);
        out("requests_repeated", c.asked_again);
        out("requests_timed_out", c.timed_out);
        out("requests_unknown", c.unknown);
        out("answers_late", c.late);
    }
}

/// What JGroups says when there is no such counter.
pub(super) fn not_found(name: &str) -> String {
    alloc::format!("counter \"{name}\" not found")
}
