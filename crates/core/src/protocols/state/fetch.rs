//! The member that asks for a state.
//!
//! It asks one member after the other until one gives its state, the caller's time is over or
//! nobody is left. Between its question and the end it holds back what arrives, so the application
//! sees nothing that might be in the state too. An answer that is older than what the application
//! has already been given would lose messages: then the same member is asked again.

use super::held::{Held, Item};
use super::{FETCH, StateTransfer, message, own_digest};
use crate::app::{FetchState, FetchedState, StateAttempt, StateEnd, StateFailure, StateOutcome};
use crate::wire::header::{StateTransferHeader, StateTransferKind};
use crate::wire::{Body, Exception, Flags, Reader};
use crate::{
    Answer, Batch, Consumed, Cx, Digest, Dir, DropReason, Event, Flow, Message, OpId, Query, Time,
    Trace, Uuid, View, tag,
};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

pub(super) use super::held::Contained;

/// How often a member may answer with a state that is too old, and the pause before it is asked
/// again: it is behind by what is on its way to it.
const PATIENCE: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// JGroups' default of BARRIER.max_close_time, for stacks without BARRIER.
const LONGEST: Duration = Duration::from_secs(60);
/// So much of what a peer says about its failure is kept.
const MOST_WORDS: usize = 400;

/// What the application wants.
#[derive(Debug)]
pub(super) enum Fetch {
    /// Nothing.
    Idle,
    /// A state as soon as there is a view.
    Waiting(FetchState),
    /// A state.
    Asking(Asking),
}

/// A running call.
#[derive(Debug)]
pub(super) struct Asking {
    call: FetchState,
    /// When it is over, and how long that was from the start.
    until: Time,
    lasts: Duration,
    /// What the application had been given at the start.
    had: Digest,
    step: Step,
    tried: Vec<StateAttempt>,
    held: Held,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Somebody is asked soon: this member again, or the first one.
    Pausing { again: Option<Uuid>, until: Time },
    /// This member is to answer.
    Asked(Uuid),
}

impl Fetch {
    pub(super) fn held_messages(&self) -> u64 {
        match self {
            Fetch::Idle | Fetch::Waiting(_) => 0,
            Fetch::Asking(a) => a.held.len(),
        }
    }
}

impl Asking {
    fn asked(&self, m: Uuid) -> bool {
        let now = matches!(self.step, Step::Asked(p) if p == m);
        now || self.tried.iter().any(|t| t.provider == m)
    }

    fn note(&mut self, provider: Uuid, outcome: StateOutcome) {
        self.tried.push(StateAttempt { provider, outcome });
    }

    /// Whether `theirs` lacks something that the application has been given.
    fn is_ahead_of(&self, theirs: &Digest, cx: &Cx<'_>) -> bool {
        self.had
            .iter()
            .filter(|(m, _)| cx.is_member(*m))
            .any(|(m, had)| theirs.get(m).map_or(0, |p| p.delivered) < had.delivered)
    }
}

impl StateTransfer {
    /// The application asks.
    pub(super) fn begin_fetch(&mut self, call: &FetchState, cx: &mut Cx<'_>) {
        if !matches!(self.fetch, Fetch::Idle) {
            let failure = StateFailure { end: StateEnd::Busy, tried: Vec::new() };
            return cx.answer_fetch(call.op, Err(failure));
        }
        if cx.group().view.is_none() {
            self.fetch = Fetch::Waiting(call.clone());
            return;
        }
        match call.from.filter(|m| !cx.is_member(*m)) {
            Some(stranger) => {
                let end = StateEnd::NotMember(stranger);
                cx.answer_fetch(call.op, Err(StateFailure { end, tried: Vec::new() }));
            }
            None => {
                self.start(call.clone(), cx);
                self.ask_next(cx);
            }
        }
    }

    /// From here on the application is given nothing but the state.
    fn start(&mut self, call: FetchState, cx: &mut Cx<'_>) {
        let longest = match cx.ask_below(&Query::Barrier) {
            Some(Answer::Barrier { longest, .. }) => longest,
            _ => LONGEST,
        };
        let lasts = if longest.is_zero() { call.timeout } else { call.timeout.min(longest) };
        let until = cx.now + lasts;
        self.fetch = Fetch::Asking(Asking {
            call,
            until,
            lasts,
            had: own_digest(cx),
            step: Step::Pausing { again: None, until: cx.now },
            tried: Vec::new(),
            held: Held::default(),
        });
        cx.arm(FETCH, cx.now);
    }

    /// Asks whoever comes next, if anybody does.
    fn ask_next(&mut self, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &self.fetch else { return };
        let local = cx.local();
        let next = match a.call.from {
            Some(p) if p == local => return self.end_without_state(cx),
            Some(p) => Some(p).filter(|p| !a.asked(*p)),
            None => {
                let members = cx.group().members();
                members.iter().copied().find(|m| *m != local && !a.asked(*m))
            }
        };
        let alone = a.tried.is_empty() && cx.group().members().len() < 2;
        match next {
            Some(p) if cx.is_member(p) => self.ask(p, cx),
            None if alone => self.end_without_state(cx),
            Some(_) | None => self.end_fetch(StateEnd::NoProvider, cx),
        }
    }

    fn ask(&mut self, provider: Uuid, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        a.step = Step::Asked(provider);
        cx.arm(FETCH, a.until);
        self.counters.requests_sent += 1;
        cx.trace(|| Trace::State { what: "asked", with: provider });
        // A member of this toolkit waits until it has what we have.
        let had = tag::is_rgroups(provider).then_some(&a.had);
        let mut m = message(provider, StateTransferKind::Request, had, Body::Empty);
        m.flags |= Flags::DONT_BUNDLE | Flags::OOB | Flags::SKIP_BARRIER;
        cx.send_down(m);
    }

    pub(super) fn fetch_timer(&mut self, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        if cx.now >= a.until {
            if let Step::Asked(provider) = a.step {
                a.note(provider, StateOutcome::Unanswered);
            }
            let after = a.lasts;
            return self.end_fetch(StateEnd::TimedOut { after }, cx);
        }
        match a.step {
            Step::Asked(_) => cx.arm(FETCH, a.until),
            Step::Pausing { until, .. } if cx.now < until => cx.arm(FETCH, until.min(a.until)),
            Step::Pausing { again: Some(p), .. } if cx.is_member(p) => self.ask(p, cx),
            Step::Pausing { .. } => self.ask_next(cx),
        }
    }

    /// STATE_RSP.
    pub(super) fn answered(
        &mut self,
        src: Uuid,
        h: &StateTransferHeader,
        m: &Message,
        cx: &mut Cx<'_>,
    ) {
        let Fetch::Asking(a) = &mut self.fetch else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        if !a.asked(src) {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        let Some(digest) = h.digest.as_ref().and_then(Digest::from_wire) else {
            return self.no_state_from(src, "its answer does not say what it contains".into(), cx);
        };
        if a.is_ahead_of(&digest, cx) {
            return self.behind(src, cx);
        }
        let Fetch::Asking(a) = core::mem::replace(&mut self.fetch, Fetch::Idle) else { return };
        cx.disarm(FETCH);
        self.counters.states_received += 1;
        cx.trace(|| Trace::State { what: "received", with: src });
        let contains: Vec<(Uuid, i64)> = digest.iter().map(|(m, p)| (m, p.delivered)).collect();
        self.contained.set(contains.iter().copied());
        let state = m.body.as_bytes().cloned();
        let fetched = FetchedState { provider: src, state, contains };
        cx.answer_fetch(a.call.op, Ok(Some(fetched)));
        self.release(a.held, cx);
    }

    fn behind(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        let same = |t: &&StateAttempt| t.provider == src && t.outcome == StateOutcome::Behind;
        let often = a.tried.iter().filter(same).count() >= PATIENCE;
        a.note(src, StateOutcome::Behind);
        if !matches!(a.step, Step::Asked(p) if p == src) {
            return;
        }
        if often {
            return self.ask_next(cx);
        }
        let until = cx.now + PAUSE;
        a.step = Step::Pausing { again: Some(src), until };
        cx.arm(FETCH, until.min(a.until));
    }

    /// STATE_EX.
    pub(super) fn refused(&mut self, src: Uuid, m: &Message, cx: &mut Cx<'_>) {
        self.no_state_from(src, words(m), cx);
    }

    fn no_state_from(&mut self, src: Uuid, why: Arc<str>, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        if !matches!(a.step, Step::Asked(p) if p == src) {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        a.note(src, StateOutcome::Refused(why));
        self.ask_next(cx);
    }

    /// A view: it waits with the messages, and may be without the member that is asked.
    pub(super) fn fetch_in_view(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) -> Flow {
        match &mut self.fetch {
            Fetch::Idle => {
                self.contained.view(view);
                Flow::Pass
            }
            // The view goes up, and with it the time before the state ends.
            Fetch::Waiting(call) => {
                let call = call.clone();
                self.contained.view(view);
                self.start(call, cx);
                Flow::Pass
            }
            Fetch::Asking(a) => {
                a.held.view(Arc::clone(view));
                let gone = match a.step {
                    Step::Asked(p) | Step::Pausing { again: Some(p), .. } => {
                        Some(p).filter(|p| !view.contains(*p))
                    }
                    Step::Pausing { again: None, .. } => None,
                };
                if let Some(p) = gone {
                    a.note(p, StateOutcome::Left);
                    a.step = Step::Pausing { again: None, until: cx.now };
                    self.ask_next(cx);
                }
                Flow::Stop
            }
        }
    }

    /// The caller no longer waits.
    pub(super) fn withdraw_fetch(&mut self, op: OpId, cx: &mut Cx<'_>) -> Flow {
        let ours = match &self.fetch {
            Fetch::Idle => false,
            Fetch::Waiting(call) => call.op == op,
            Fetch::Asking(a) => a.call.op == op,
        };
        if !ours {
            return Flow::Pass;
        }
        self.end_fetch(StateEnd::Withdrawn, cx);
        Flow::Stop
    }

    /// There is nobody to have a state.
    fn end_without_state(&mut self, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = core::mem::replace(&mut self.fetch, Fetch::Idle) else { return };
        cx.disarm(FETCH);
        cx.answer_fetch(a.call.op, Ok(None));
        self.release(a.held, cx);
    }

    /// The call failed: what was held goes up as if nobody had asked.
    pub(super) fn end_fetch(&mut self, end: StateEnd, cx: &mut Cx<'_>) {
        cx.disarm(FETCH);
        match core::mem::replace(&mut self.fetch, Fetch::Idle) {
            Fetch::Idle => {}
            Fetch::Waiting(call) => {
                cx.answer_fetch(call.op, Err(StateFailure { end, tried: Vec::new() }));
            }
            Fetch::Asking(a) => {
                cx.answer_fetch(a.call.op, Err(StateFailure { end, tried: a.tried }));
                self.release(a.held, cx);
            }
        }
    }

    /// Multicasts on their way up.
    pub(super) fn hold(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else {
            return self.leave_out(batch, cx);
        };
        let src = batch.src;
        let mut taken = batch.like();
        batch.take_all().into_iter().for_each(|m| taken.push(m));
        for m in a.held.messages(taken, self.config.max_held_bytes.0) {
            cx.drop_from_peer(DropReason::OverLimit, Some(src));
            cx.settle(Consumed::one(src, m.receipt));
        }
    }

    /// What the state contains is not told again.
    fn leave_out(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        for owed in self.contained.leave_out(batch) {
            self.counters.left_out += 1;
            cx.settle(owed);
        }
    }

    fn release(&mut self, held: Held, cx: &mut Cx<'_>) {
        for item in held.into_items() {
            match item {
                Item::Messages(mut batch) => {
                    self.leave_out(&mut batch, cx);
                    cx.deliver_up(batch);
                }
                Item::View(view) => {
                    self.contained.view(&view);
                    cx.raise(Dir::Up, Event::View(view));
                }
            }
        }
    }
}

/// What the exception of a peer says.
fn words(m: &Message) -> Arc<str> {
    let bytes = m.body.as_bytes().cloned().unwrap_or_default();
    let exception = Exception::decode_nullable(&mut Reader::new(bytes)).ok().flatten();
    let said = exception.and_then(|e| e.message.or(e.class));
    let said = said.unwrap_or_else(|| String::from("it gave no reason"));
    said.chars().take(MOST_WORDS).collect::<String>().into()
}
