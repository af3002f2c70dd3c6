//! The state for another member: all at once, or piece by piece.

use super::socket::{self, Gift};
use super::{Form, StateError, Waiting};
use crate::Address;
use crate::error::SendError;
use crate::inbox::Request;
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use rgroups_core::app::{AnswerState, StateAnswer};
use rgroups_core::{Command, SendResult, Uuid};
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use tokio::sync::oneshot;

/// How many bytes a writer may be ahead of what has left.
pub(super) const AHEAD: u64 = 512_000;

/// A member asks for our state. What the events before this one said belongs into the state, what
/// those after it say does not: make the state, or a snapshot of it, before reading on. It may be
/// sent later, from anywhere.
///
/// When the last clone is dropped without an answer, the other member is told that there is none,
/// and asks somebody else.
#[derive(Clone)]
pub struct StateResponder {
    inner: Arc<Question>,
}

#[derive(Clone)]
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) request: u64,
    pub(super) by: Address,
}

struct Question {
    asked: Asked,
    answered: AtomicBool,
}

impl StateResponder {
    pub(crate) fn new(shared: Arc<Shared>, request: u64, by: Uuid) -> Self {
        let asked = Asked { shared, request, by: Address(by) };
        Self { inner: Arc::new(Question { asked, answered: AtomicBool::new(false) }) }
    }

    /// Who asks.
    #[must_use]
    pub fn requester(&self) -> Address {
        self.inner.asked.by
    }

    /// Gives the state at once; `Ok` means, as with [`Channel::send`](crate::Channel::send), that
    /// flow control has accepted it; in a stack with STATE or STATE_SOCK, that all of it has left.
    /// With STATE_TRANSFER at most about 2 GB (16 kB in a stack without fragmentation): a larger one
    /// is refused here, and the other member is told why.
    ///
    /// [`SendError::NotMember`]: the other member has left, or was answered already.
    ///
    /// # Cancel safety
    /// If the future is dropped before flow control has accepted the state, the other member is told
    /// that there is none.
    pub async fn send(self, state: impl Into<Bytes>) -> Result<(), SendError> {
        let state = state.into();
        if let Form::Socket(_) = self.inner.asked.shared.form {
            let by = self.requester();
            let not_sent = |e| match e {
                StateError::Closed => SendError::Closed,
                _ => SendError::NotMember(by),
            };
            let mut writer = self.stream();
            writer.write(state).await.map_err(not_sent)?;
            return writer.finish().await.map_err(not_sent);
        }
        self.inner.answered.store(true, Ordering::Relaxed);
        match self.inner.asked.call(StateAnswer::Whole(Some(state))).await {
            Some(SendResult::Refused(r)) => Err(crate::channel::refusal(r)),
            Some(_) => Ok(()),
            None => Err(SendError::Closed),
        }
    }

    /// Gives the state piece by piece. In a stack with STATE or STATE_SOCK every piece travels as
    /// soon as the other member has room for it, so a state may be larger than any memory; with
    /// STATE_TRANSFER the pieces are put together first.
    pub fn stream(self) -> StateWriter {
        self.inner.answered.store(true, Ordering::Relaxed);
        let asked = self.inner.asked.clone();
        let way = match &asked.shared.form {
            Form::Whole => Way::Whole,
            Form::Parts { size } => {
                let outlet = Arc::new(Outlet::default());
                let begins = StateAnswer::Begins { socket: None };
                let (answer, told) = (asked.answer(begins), Arc::clone(&outlet));
                asked.shared.inbox.push(Request::GiveState { answer, outlet: told });
                Way::Parts { outlet, size: *size }
            }
            Form::Socket(form) => {
                let outlet = Arc::new(Outlet::default());
                let gift = socket::offer(&asked, form, Arc::clone(&outlet));
                Way::Socket { outlet, gift }
            }
        };
        let buffer = BytesMut::new();
        StateWriter { asked, way, buffer, accepted: 0, finished: false }
    }

    /// Says why there is no state; the other member asks somebody else.
    pub fn refuse(self, reason: impl AsRef<str>) {
        self.inner.refuse(reason.as_ref());
    }
}

impl Asked {
    pub(super) fn answer(&self, answer: StateAnswer) -> AnswerState {
        AnswerState { op: None, request: self.request, to: self.by.0, answer }
    }

    pub(super) fn tell(&self, answer: StateAnswer) {
        let answer = self.answer(answer);
        self.shared.inbox.push(Request::Command(Command::AnswerState(answer)));
    }

    /// An answer whose effect is waited for; `None`: the channel closed.
    async fn call(&self, answer: StateAnswer) -> Option<SendResult> {
        let (reply, result) = oneshot::channel();
        let make = |op| {
            let answer = AnswerState { op: Some(op), ..self.answer(answer) };
            Request::AnswerState { answer, reply }
        };
        let op = self.shared.inbox.ask(make)?;
        Waiting { shared: &self.shared, op, answered: false }.answer(result).await
    }
}

impl Question {
    fn refuse(&self, why: &str) {
        if !self.answered.swap(true, Ordering::Relaxed) {
            self.asked.tell(StateAnswer::Refused(why.into()));
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.refuse("its application does not answer Event::StateRequested");
    }
}

impl fmt::Debug for StateResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.requester();
        f.debug_struct("StateResponder").field("requester", &by).finish_non_exhaustive()
    }
}

impl PartialEq for StateResponder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// What a writer is told: how far its bytes have left, or that nobody wants them.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    state: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    sent: u64,
    over: Option<Arc<str>>,
    writer: Option<Waker>,
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // No code that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut state = self.lock();
        change(&mut state);
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// So many bytes have left.
    pub(crate) fn sent(&self, bytes: u64) {
        self.change(|s| s.sent = s.sent.max(bytes));
    }

    /// Nobody wants more.
    pub(crate) fn over(&self, why: Arc<str>) {
        self.change(|s| {
            s.over.get_or_insert(why);
        });
    }

    pub(super) fn why_over(&self) -> Option<Arc<str>> {
        self.lock().over.clone()
    }
}

/// How the pieces travel.
enum Way {
    Whole,
    Parts { outlet: Arc<Outlet>, size: usize },
    Socket { outlet: Arc<Outlet>, gift: Gift },
}

/// The state for a member that asked for it, piece by piece. Without [`StateWriter::finish`] the
/// other member has no state and asks somebody else.
#[must_use = "the state is complete only after finish()"]
pub struct StateWriter {
    asked: Asked,
    way: Way,
    /// Small pieces are put together.
    buffer: BytesMut,
    accepted: u64,
    finished: bool,
}

impl StateWriter {
    /// Whom it is for.
    #[must_use]
    pub fn requester(&self) -> Address {
        self.asked.by
    }

    /// How many bytes were written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.accepted + self.buffer.len() as u64
    }

    /// The next bytes. Waits while the other member reads more slowly than this one writes.
    /// [`StateError::NotWanted`]: that member has left or given up, and nothing more is of use.
    ///
    /// # Cancel safety
    /// If the future is dropped, the bytes may or may not be in the state: drop the writer too.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) -> Result<(), StateError> {
        let bytes = bytes.into();
        let least = match &self.way {
            Way::Whole => usize::MAX,
            Way::Parts { size, .. } => *size,
            Way::Socket { gift, .. } => gift.buffer,
        };
        if self.buffer.len() + bytes.len() < least {
            self.buffer.extend_from_slice(&bytes);
            return Ok(());
        }
        self.flush().await?;
        self.pass(bytes).await
    }

    /// That was all: `Ok` when all of it has left. The other member still has to read it, and may
    /// ask somebody else if it is cut off before.
    pub async fn finish(mut self) -> Result<(), StateError> {
        if let Way::Whole = self.way {
            self.finished = true;
            let whole = std::mem::take(&mut self.buffer).freeze();
            return self.ended(self.asked.call(StateAnswer::Whole(Some(whole))).await);
        }
        self.flush().await?;
        if let Way::Socket { gift, .. } = &mut self.way {
            gift.finish().await;
        }
        if let Some(why) = self.outlet().and_then(Outlet::why_over) {
            return Err(self.not_wanted(&why));
        }
        let result = self.asked.call(StateAnswer::Ends).await;
        self.finished = true;
        self.ended(result)
    }

    /// Says why there is no state, or no more of it; the other member asks somebody else.
    pub fn refuse(mut self, reason: impl AsRef<str>) {
        self.finished = true;
        self.asked.tell(StateAnswer::Refused(reason.as_ref().into()));
    }

    async fn flush(&mut self) -> Result<(), StateError> {
        let rest = self.buffer.split().freeze();
        if rest.is_empty() { Ok(()) } else { self.pass(rest).await }
    }

    async fn pass(&mut self, bytes: Bytes) -> Result<(), StateError> {
        self.room().await?;
        self.accepted += bytes.len() as u64;
        match &self.way {
            Way::Whole => {}
            Way::Parts { .. } => self.asked.tell(StateAnswer::Part(bytes)),
            Way::Socket { gift, .. } => gift.write(bytes),
        }
        Ok(())
    }

    fn outlet(&self) -> Option<&Outlet> {
        match &self.way {
            Way::Whole => None,
            Way::Parts { outlet, .. } | Way::Socket { outlet, .. } => Some(outlet),
        }
    }

    /// Waits until not too much is ahead of what has left.
    async fn room(&self) -> Result<(), StateError> {
        let Some(outlet) = self.outlet() else { return Ok(()) };
        let over = poll_fn(|cx| {
            let mut state = outlet.lock();
            if let Some(why) = &state.over {
                return Poll::Ready(Some(Arc::clone(why)));
            }
            if self.accepted - state.sent.min(self.accepted) < AHEAD {
                return Poll::Ready(None);
            }
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        });
        match over.await {
            None => Ok(()),
            Some(why) => Err(self.not_wanted(&why)),
        }
    }

    fn not_wanted(&self, why: &str) -> StateError {
        if !self.asked.shared.inbox.is_open() {
            return StateError::Closed;
        }
        let by = self.asked.shared.label(self.asked.by);
        StateError::NotWanted { by, why: why.to_owned() }
    }

    fn ended(&self, result: Option<SendResult>) -> Result<(), StateError> {
        match result {
            None => Err(StateError::Closed),
            Some(SendResult::Refused(why)) => {
                let said = self.outlet().and_then(Outlet::why_over);
                let why = crate::channel::refusal(why).to_string();
                Err(self.not_wanted(said.as_deref().unwrap_or(&why)))
            }
            Some(_) => Ok(()),
        }
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.asked.tell(StateAnswer::Refused("its application gave the state up".into()));
        }
    }
}

impl fmt::Debug for StateWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.requester();
        f.debug_struct("StateWriter").field("requester", &by).finish_non_exhaustive()
    }
}
