//! The application's state: fetched from another member, given to others.

use crate::channel::Channel;
use crate::error::{Diagnose, SendError};
use crate::inbox::Request;
use crate::shared::Shared;
use crate::{Address, View};
use bytes::Bytes;
use rgroups_core::app::{
    AnswerState, FetchState, FetchedState, StateEnd, StateFailure, StateOutcome,
};
use rgroups_core::{Command, OpId, SendResult, Uuid};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// How a call for a state ended in the stack.
pub(crate) type Fetched = Result<Option<FetchedState>, StateFailure>;

/// The state of another member, as it was when that member read its [`StateResponder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    provider: Address,
    bytes: Bytes,
}

impl State {
    /// Who gave it.
    #[must_use]
    pub fn provider(&self) -> Address {
        self.provider
    }

    /// What it is.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it is, taken.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// A member asks for our state. What the events before this one said belongs into the state, what
/// those after it say does not: make the state before reading on. It may be sent later, from
/// anywhere.
///
/// When the last clone is dropped without an answer, the other member is told that there is none,
/// and asks somebody else.
#[derive(Clone)]
pub struct StateResponder {
    inner: Arc<Question>,
}

struct Question {
    shared: Arc<Shared>,
    request: u64,
    by: Address,
    answered: AtomicBool,
}

impl StateResponder {
    pub(crate) fn new(shared: Arc<Shared>, request: u64, by: Uuid) -> Self {
        let (by, answered) = (Address(by), AtomicBool::new(false));
        Self { inner: Arc::new(Question { shared, request, by, answered }) }
    }

    /// Who asks.
    #[must_use]
    pub fn requester(&self) -> Address {
        self.inner.by
    }

    /// Gives the state. It travels in one message; `Ok` means, as with [`Channel::send`], that flow
    /// control has accepted it. At most about 2 GB (16 kB in a stack without fragmentation): a
    /// larger one is refused here, and the other member is told why.
    ///
    /// [`SendError::NotMember`]: the other member has left, or was answered already.
    ///
    /// # Cancel safety
    /// If the future is dropped before flow control has accepted the state, the other member is told
    /// that there is none.
    pub async fn send(self, state: impl Into<Bytes>) -> Result<(), SendError> {
        self.inner.answered.store(true, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let q = &*self.inner;
        let state = Ok(Some(state.into()));
        let make = |op| {
            let answer = AnswerState { op: Some(op), request: q.request, to: q.by.0, state };
            Request::AnswerState { answer, reply }
        };
        let op = q.shared.inbox.ask(make).ok_or(SendError::Closed)?;
        let waiting = Waiting { shared: &q.shared, op, answered: false };
        match waiting.answer(answer).await {
            Some(SendResult::Refused(r)) => Err(crate::channel::refusal(r)),
            Some(_) => Ok(()),
            None => Err(SendError::Closed),
        }
    }

    /// Says why there is no state; the other member asks somebody else.
    pub fn refuse(self, reason: impl AsRef<str>) {
        self.inner.refuse(reason.as_ref());
    }
}

impl Question {
    fn refuse(&self, why: &str) {
        if self.answered.swap(true, Ordering::Relaxed) {
            return;
        }
        let state = Err(why.into());
        let answer = AnswerState { op: None, request: self.request, to: self.by.0, state };
        self.shared.inbox.push(Request::Command(Command::AnswerState(answer)));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.refuse("its application does not answer Event::StateRequested");
    }
}

impl fmt::Debug for StateResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateResponder").field("requester", &self.inner.by).finish_non_exhaustive()
    }
}

impl PartialEq for StateResponder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// Gives a call up when its future is dropped before the answer came.
struct Waiting<'a> {
    shared: &'a Shared,
    op: OpId,
    answered: bool,
}

impl Waiting<'_> {
    /// `None`: the driver ended.
    async fn answer<T>(mut self, answer: oneshot::Receiver<T>) -> Option<T> {
        let answer = answer.await;
        self.answered = true;
        answer.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.inbox.push(Request::Command(Command::Cancel(self.op)));
        }
    }
}

/// What a fetched state contains: the reader of events leaves it out.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) number: u64,
    upto: HashMap<Uuid, i64>,
}

impl Cut {
    pub(crate) fn new(number: u64, contains: &[(Uuid, i64)]) -> Self {
        Self { number, upto: contains.iter().copied().collect() }
    }

    pub(crate) fn contains(&self, from: Uuid, m: &rgroups_core::Message) -> bool {
        let Some(upto) = self.upto.get(&from) else { return false };
        rgroups_core::protocols::reliable::multicast_number(m).is_some_and(|n| n <= *upto)
    }
}

impl Channel {
    /// Asks `from` for its state, or, with `None`, the members in the order of the view until one
    /// gives it: when one leaves or refuses, the next is asked. `Ok(None)`: there is nobody else, or
    /// the provider has nothing to give.
    ///
    /// The state and the [`Events`](crate::Events) fit together exactly: put the state in the place
    /// of what you have when this returns, before you read the next event. From then on `Events`
    /// has every ordered multicast that the state does not contain, and no other; until then it
    /// gives no new ones. (An out-of-band multicast may be in the state and in the events too.) Where
    /// another task reads the events, let it also put the state in place, or use a
    /// [`Receiver`](crate::Receiver), whose `set_state` is called at the right place.
    ///
    /// Ends with an error after `timeout`, and never lasts longer than BARRIER.max_close_time (60 s),
    /// because senders may have to wait meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future gives the transfer up; nothing is lost.
    pub async fn fetch_state(
        &self,
        from: Option<Address>,
        timeout: Duration,
    ) -> Result<Option<State>, StateError> {
        let shared = self.shared();
        let (reply, answer) = oneshot::channel();
        let from = from.map(|a| a.0);
        let make = |op| Request::FetchState { call: FetchState { op, from, timeout }, reply };
        let op = shared.inbox.ask(make).ok_or(StateError::Closed)?;
        let fetched = Waiting { shared, op, answered: false }.answer(answer).await;
        outcome(fetched.ok_or(StateError::Closed)?, shared)
    }
}

/// In the words of this crate.
pub(crate) fn outcome(fetched: Fetched, shared: &Shared) -> Result<Option<State>, StateError> {
    match fetched {
        Ok(None) => Ok(None),
        Ok(Some(f)) => {
            let provider = Address(f.provider);
            Ok(f.state.map(|bytes| State { provider, bytes }))
        }
        Err(failure) => Err(StateError::from_core(failure, shared)),
    }
}

/// A member that was asked for its state, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateAttempt {
    /// The member.
    pub member: Address,
    /// Its logical name, if it is known.
    pub name: String,
    /// What became of it, in words.
    pub outcome: String,
}

impl fmt::Display for StateAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.outcome)
    }
}

/// Why there is no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Everybody who was asked left or refused.
    #[error("nobody gave the state (view {view}): {}", listed(.tried))]
    NoProvider {
        /// The view, with names.
        view: String,
        /// Who was asked.
        tried: Vec<StateAttempt>,
    },
    /// The time was over.
    #[error("no state after {after:?}: {}", listed(.tried))]
    TimedOut {
        /// How long it took.
        after: Duration,
        /// Who was asked.
        tried: Vec<StateAttempt>,
    },
    /// The member that was to be asked is not in the view.
    #[error("cannot ask {0} for its state: it is not in the view")]
    NotMember(Address),
    /// Another call is running.
    #[error("this member is already fetching a state")]
    Busy,
    /// The stack has no protocol for it.
    #[error("fetching a state needs STATE_TRANSFER in the stack")]
    NotInStack,
    /// The channel is closed.
    #[error("the channel is closed")]
    Closed,
}

fn listed(tried: &[StateAttempt]) -> String {
    match tried {
        [] => "nobody was asked".to_owned(),
        _ => tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

impl StateError {
    fn from_core(failure: StateFailure, shared: &Shared) -> Self {
        let mut tried: Vec<StateAttempt> = Vec::new();
        for t in failure.tried {
            let member = Address(t.provider);
            let outcome = match t.outcome {
                StateOutcome::Unanswered => "no answer".to_owned(),
                StateOutcome::Left => "left".to_owned(),
                StateOutcome::Refused(why) => why.escape_debug().to_string(),
                // A member that is behind is asked again and again: once is enough to tell.
                StateOutcome::Behind => "its state was too old".to_owned(),
                other => format!("{other:?}"),
            };
            let attempt = StateAttempt { member, name: shared.label(member), outcome };
            if tried.last() != Some(&attempt) {
                tried.push(attempt);
            }
        }
        let view = || {
            let view: Option<View> = shared.view.borrow().view.clone();
            view.map(|v| shared.describe(&v)).unwrap_or_default()
        };
        match failure.end {
            StateEnd::NoProvider => StateError::NoProvider { view: view(), tried },
            StateEnd::TimedOut { after } => StateError::TimedOut { after, tried },
            StateEnd::NotMember(m) => StateError::NotMember(Address(m)),
            StateEnd::Busy => StateError::Busy,
            StateEnd::NotInStack => StateError::NotInStack,
            _ => StateError::Closed,
        }
    }
}

impl Diagnose for StateError {
    fn code(&self) -> &'static str {
        match self {
            StateError::NoProvider { .. } => "RG0602",
            StateError::TimedOut { .. } => "RG0603",
            StateError::NotMember(_) => "RG0604",
            StateError::Busy => "RG0605",
            StateError::NotInStack => "RG0606",
            StateError::Closed => "RG0607",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            StateError::NoProvider { .. } => Some(
                "a member gives its state by answering Event::StateRequested, or in \
                 Receiver::get_state"
                    .into(),
            ),
            StateError::TimedOut { .. } => Some(
                "is its application reading its events? Otherwise allow more time (at most \
                 BARRIER.max_close_time), or ask another member"
                    .into(),
            ),
            StateError::NotInStack => {
                Some("add STATE_TRANSFER to the stack; the presets have it".into())
            }
            StateError::NotMember(_) | StateError::Busy | StateError::Closed => None,
        }
    }
}
