//! The member that asks for a state.
//!
//! It asks one member after the other until one gives its state, the caller's time is over or
//! nobody is left. Between its question and the end it holds back what arrives, so the application
//! sees nothing that might be in the state too. An answer that is older than what the application
//! has already been given would lose messages: then the same member is asked again.
//!
//! A state that comes in parts ends when the application has all of it ([`super::receive`]). If its
//! provider leaves, refuses or says nothing more, the next member is asked and everything begins
//! anew, because the state of another member has another cut.

use super::dialect::{Dialect, Said};
use super::held::{Held, Item};
use super::incoming::Incoming;
use super::{FETCH, StateTransfer, own_digest};
use crate::app::{FetchState, FetchedState, StateAttempt, StateEnd, StateFailure, StateOutcome};
use crate::wire::header::StreamingKind;
use crate::wire::{Body, Exception, Flags, Reader};
use crate::{
    Batch, Consumed, Cx, Digest, Dir, DropReason, Event, Flow, Message, OpId, Time, Trace, Uuid,
    View, tag,
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
    pub(super) call: FetchState,
    /// When it is over, and how long that was from the start.
    pub(super) until: Time,
    pub(super) lasts: Duration,
    /// What the application had been given at the start.
    had: Digest,
    pub(super) step: Step,
    tried: Vec<StateAttempt>,
    pub(super) held: Held,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Somebody is asked soon: this member again, or the first one.
    Pausing { again: Option<Uuid>, until: Time },
    /// This member is to answer.
    Asked { provider: Uuid, since: Time },
    /// It gives its state in parts.
    Receiving(Incoming),
}

impl Step {
    /// Who is asked, or gives.
    fn provider(&self) -> Option<Uuid> {
        match self {
            Step::Pausing { again, .. } => *again,
            Step::Asked { provider, .. } => Some(*provider),
            Step::Receiving(incoming) => Some(incoming.provider),
        }
    }
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
        let now = matches!(self.step, Step::Asked { provider, .. } if provider == m);
        now || self.tried.iter().any(|t| t.provider == m)
    }

    pub(super) fn note(&mut self, provider: Uuid, outcome: StateOutcome) {
        let bytes = match &self.step {
            Step::Receiving(i) if i.provider == provider => i.arrived(),
            Step::Receiving(_) | Step::Asked { .. } | Step::Pausing { .. } => 0,
        };
        self.tried.push(StateAttempt { provider, bytes, outcome });
    }

    /// Whether somebody is left who could be asked instead of `provider`.
    pub(super) fn has_other(&self, provider: Uuid, cx: &Cx<'_>) -> bool {
        let other = |m: &Uuid| *m != provider && *m != cx.local() && !self.asked(*m);
        self.call.from.is_none() && cx.group().members().iter().any(other)
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
        // A state in parts may take longer, as long as it moves.
        let longest = match self.settings.dialect {
            Dialect::Whole => self.longest(cx),
            Dialect::Streamed | Dialect::Socket => Duration::ZERO,
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
    pub(super) fn ask_next(&mut self, cx: &mut Cx<'_>) {
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
        a.step = Step::Asked { provider, since: cx.now };
        self.attempts += 1;
        self.counters.requests_sent += 1;
        cx.trace(|| Trace::State { what: "asked", with: provider });
        // A member of this toolkit waits until it has what we have.
        let had = tag::is_rgroups(provider).then_some(&a.had);
        let dialect = self.settings.dialect;
        let mut m = dialect.message(provider, StreamingKind::Request, had, None, Body::Empty);
        m.flags |= Flags::DONT_BUNDLE | Flags::OOB | Flags::SKIP_BARRIER;
        cx.send_down(m);
        self.look_again(cx);
    }

    pub(super) fn fetch_timer(&mut self, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        if cx.now >= a.until {
            let after = a.lasts;
            return self.time_is_over(StateEnd::TimedOut { after }, cx);
        }
        match &a.step {
            Step::Asked { .. } | Step::Receiving(_) => self.look_at_provider(cx),
            Step::Pausing { until, .. } if cx.now < *until => self.look_again(cx),
            Step::Pausing { again, .. } => match again.filter(|p| cx.is_member(*p)) {
                Some(p) => self.ask(p, cx),
                None => self.ask_next(cx),
            },
        }
    }

    pub(super) fn time_is_over(&mut self, end: StateEnd, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        if let Step::Asked { provider, .. } | Step::Receiving(Incoming { provider, .. }) = a.step {
            a.note(provider, StateOutcome::Unanswered);
        }
        self.end_fetch(end, cx);
    }

    /// STATE_RSP.
    pub(super) fn answered(&mut self, src: Uuid, h: &Said, m: &Message, cx: &mut Cx<'_>) {
        let expected = match (&self.fetch, self.settings.dialect) {
            (Fetch::Idle | Fetch::Waiting(_), _) => false,
            (Fetch::Asking(a), Dialect::Whole) => a.asked(src),
            // Of a member that was asked before the parts would be mixed with those of another.
            (Fetch::Asking(a), Dialect::Streamed | Dialect::Socket) => {
                matches!(a.step, Step::Asked { provider, .. } if provider == src)
            }
        };
        let Fetch::Asking(a) = &mut self.fetch else {
            return self.not_wanted(src, cx);
        };
        if !expected {
            return self.not_wanted(src, cx);
        }
        let Some(digest) = h.digest.as_ref().and_then(Digest::from_wire) else {
            return self.no_state_from(src, "its answer does not say what it contains".into(), cx);
        };
        if a.is_ahead_of(&digest, cx) {
            return self.behind(src, cx);
        }
        if self.settings.dialect != Dialect::Whole {
            return self.state_begins(src, digest, h.socket, cx);
        }
        let state = m.body.as_bytes().cloned();
        self.fetched(src, &digest, state, cx);
    }

    /// The state is here, all of it.
    pub(super) fn fetched(
        &mut self,
        src: Uuid,
        digest: &Digest,
        state: Option<bytes::Bytes>,
        cx: &mut Cx<'_>,
    ) {
        let Fetch::Asking(a) = core::mem::replace(&mut self.fetch, Fetch::Idle) else { return };
        cx.disarm(FETCH);
        self.counters.states_received += 1;
        cx.trace(|| Trace::State { what: "received", with: src });
        let contains: Vec<(Uuid, i64)> = digest.iter().map(|(m, p)| (m, p.delivered)).collect();
        // Who has left since is in no digest any more, but the state contains all that came of it.
        let left = a.had.iter().map(|(m, _)| m);
        let left = left.filter(|m| digest.get(*m).is_none() && !cx.is_member(*m));
        self.contained.set(contains.iter().copied().chain(left.map(|m| (m, i64::MAX))));
        let fetched = FetchedState { provider: src, state, contains };
        cx.answer_fetch(a.call.op, Ok(Some(fetched)));
        self.release(a.held, cx);
    }

    fn behind(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        let same = |t: &&StateAttempt| t.provider == src && t.outcome == StateOutcome::Behind;
        let often = a.tried.iter().filter(same).count() >= PATIENCE;
        a.note(src, StateOutcome::Behind);
        if !matches!(a.step, Step::Asked { provider, .. } if provider == src) {
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
        // It has said how its state ended.
        self.unfinished.remove(&src);
    }

    pub(super) fn no_state_from(&mut self, src: Uuid, why: Arc<str>, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        match &a.step {
            Step::Asked { provider: p, .. } if *p == src => {}
            Step::Receiving(i) if i.provider == src => {}
            Step::Asked { .. } | Step::Receiving(_) | Step::Pausing { .. } => {
                return cx.drop_from_peer(DropReason::Stale, Some(src));
            }
        }
        self.ask_another(StateOutcome::Refused(why), cx);
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
                let gone = a.step.provider().is_some_and(|p| !view.contains(p));
                // Once the state is here in full, whoever gave it may go.
                let needed = !matches!(&a.step, Step::Receiving(i) if i.sent_all);
                if gone && needed {
                    self.ask_another(StateOutcome::Left, cx);
                }
                Flow::Stop
            }
        }
    }

    /// Who was asked gives no state: the next one is asked.
    pub(super) fn ask_another(&mut self, outcome: StateOutcome, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        if let Some(p) = a.step.provider() {
            a.note(p, outcome);
        }
        let pausing = Step::Pausing { again: None, until: cx.now };
        let step = core::mem::replace(&mut a.step, pausing);
        self.give_up(step, cx);
        self.ask_next(cx);
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
                self.give_up(a.step, cx);
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
        for m in a.held.messages(taken, self.settings.max_held_bytes) {
            cx.drop_from_peer(DropReason::OverLimit, Some(src));
            cx.settle(Consumed::one(src, m.receipt));
        }
    }

    /// Whether multicasts of `src` may have to wait, or to be left out.
    pub(super) fn concerns(&self, src: Uuid) -> bool {
        matches!(self.fetch, Fetch::Asking(_)) || self.contained.concerns(src)
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
