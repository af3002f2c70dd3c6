//! A state as it comes: from the driver, or from a connection, to whoever reads it.

use super::{State, StateError};
use crate::Address;
use crate::inbox::Request;
use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use rgroups_core::app::{FetchState, FetchedState, StateEnd, StateFailure, TakeState, Taken};
use rgroups_core::{Command, OpId, Uuid};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How a call for a state ended in the stack.
pub(crate) type Fetched = Result<Option<FetchedState>, StateFailure>;

/// What the reader has taken is reported when it is so much, or when there is nothing to take.
const REPORT: u64 = 64_000;

/// What [`StateReader::next`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatePart {
    /// This member begins to give its state. What came before is void, because another member's
    /// state has another cut: whoever has stored it throws it away.
    Begins(Address),
    /// The next bytes.
    Bytes(Bytes),
}

#[derive(Debug)]
enum Piece {
    Begins { attempt: u64, provider: Uuid },
    Bytes(Bytes),
    Ends,
}

#[derive(Debug, Default)]
struct Pieces {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The attempt that began last.
    attempt: u64,
    outcome: Option<Fetched>,
    reader: Option<Waker>,
    /// Nobody reads.
    abandoned: bool,
}

impl Pieces {
    fn is_over(&self, attempt: u64) -> bool {
        self.attempt != attempt || self.outcome.is_some() || self.abandoned
    }
}

/// What came and was not read. Its length is bounded: by what the stack lets a provider send, or by
/// whoever reads the connection.
#[derive(Debug, Default)]
pub(crate) struct Inflow {
    state: Mutex<Pieces>,
    /// Room for whoever reads a connection.
    room: Condvar,
}

impl Inflow {
    fn lock(&self) -> MutexGuard<'_, Pieces> {
        // No code that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Pieces)) {
        let mut state = self.lock();
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        self.room.notify_all();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// What came before is void.
    pub(crate) fn begins(&self, attempt: u64, provider: Uuid) {
        self.change(|s| {
            s.pieces.clear();
            (s.bytes, s.attempt) = (0, attempt);
            s.pieces.push_back(Piece::Begins { attempt, provider });
        });
    }

    pub(crate) fn bytes(&self, bytes: Bytes) {
        self.change(|s| {
            s.bytes += bytes.len();
            s.pieces.push_back(Piece::Bytes(bytes));
        });
    }

    pub(crate) fn ends(&self) {
        self.change(|s| s.pieces.push_back(Piece::Ends));
    }

    /// The call ended. A state in one message is all of it at once.
    pub(crate) fn close(&self, outcome: Fetched) {
        self.change(|s| {
            if let Ok(Some(FetchedState { provider, state: Some(bytes), .. })) = &outcome {
                s.pieces.push_back(Piece::Begins { attempt: 0, provider: *provider });
                s.pieces.push_back(Piece::Bytes(bytes.clone()));
            }
            s.outcome.get_or_insert(outcome);
        });
    }

    /// The driver ends.
    pub(crate) fn shut(&self) {
        self.close(Err(StateFailure { end: StateEnd::Closed, tried: Vec::new() }));
    }

    /// Whether what comes of this attempt is of no more use.
    pub(super) fn is_over(&self, attempt: u64) -> bool {
        self.lock().is_over(attempt)
    }

    /// Something of a connection, from whoever reads it: waits for room below `limit` bytes. False
    /// when this attempt is over.
    pub(super) fn feed(&self, attempt: u64, bytes: Option<Bytes>, limit: usize) -> bool {
        let waits = |s: &mut Pieces| !s.is_over(attempt) && s.bytes >= limit;
        let state = self.room.wait_while(self.lock(), waits);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_over(attempt) {
            return false;
        }
        drop(state);
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.ends(),
        }
        true
    }
}

/// The state of another member, piece by piece. The state is complete, and fits to what
/// [`Events`](crate::Events) says next, when [`StateReader::next`] gives `None`; before that it may
/// begin anew with another member. Until then `Events` has nothing new.
///
/// Reading is what keeps the provider going: what is not read is not sent, so a state needs little
/// memory, however large it is. Dropping the reader gives the transfer up; nothing is lost.
#[derive(Debug)]
pub struct StateReader {
    shared: Arc<Shared>,
    inflow: Arc<Inflow>,
    op: OpId,
    attempt: u64,
    provider: Option<Address>,
    /// Bytes that were returned, of which the last piece may still be in use.
    returned: u64,
    reported: u64,
    total: u64,
    /// For those who want everything at once.
    collects: Option<Collected>,
    over: bool,
}

/// A state that is put together.
#[derive(Debug)]
enum Collected {
    Some(BytesMut),
    All(Bytes),
}

impl StateReader {
    /// Asks for a state.
    pub(crate) fn ask(
        shared: &Arc<Shared>,
        from: Option<Address>,
        timeout: Duration,
    ) -> Result<Self, StateError> {
        let inflow = Arc::new(Inflow::default());
        let from = from.map(|a| a.0);
        let told = Arc::clone(&inflow);
        let by = shared.clock.now() + timeout;
        let make = |op| Request::FetchState { call: FetchState { op, from, timeout }, by, told };
        let op = shared.inbox.ask(make).ok_or(StateError::Closed)?;
        Ok(Self {
            shared: Arc::clone(shared),
            inflow,
            op,
            attempt: 0,
            provider: None,
            returned: 0,
            reported: 0,
            total: 0,
            collects: None,
            over: false,
        })
    }

    /// The next piece; `None` when the state is complete, or when there is none because this is the
    /// first member or the provider has nothing to give ([`StateReader::provider`] is `None` then).
    ///
    /// A piece counts as read when this is called again.
    ///
    /// # Cancel safety
    /// Safe: a piece is taken only when it is returned.
    pub async fn next(&mut self) -> Result<Option<StatePart>, StateError> {
        std::future::poll_fn(|cx| self.poll_part(cx)).await
    }

    /// Who gives the state, at the moment.
    #[must_use]
    pub fn provider(&self) -> Option<Address> {
        self.provider
    }

    /// How many bytes were read of the state of [`StateReader::provider`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.returned
    }

    /// How many bytes were read in all, with those of members that did not come to the end.
    #[must_use]
    pub fn bytes_in_all(&self) -> u64 {
        self.total
    }

    /// Everything at once, as [`Channel::fetch_state`](crate::Channel::fetch_state) gives it.
    pub(crate) async fn whole(mut self) -> Result<Option<State>, StateError> {
        self.collects = Some(Collected::Some(BytesMut::new()));
        let mut only: Option<Bytes> = None;
        while let Some(part) = self.next().await? {
            only = match part {
                StatePart::Begins(_) => None,
                StatePart::Bytes(bytes) => Some(bytes),
            };
        }
        let Some(provider) = self.provider else { return Ok(None) };
        let bytes = match self.collects.take() {
            Some(Collected::All(all)) => all,
            // A state in one message.
            Some(Collected::Some(_)) | None => only.unwrap_or_default(),
        };
        Ok(Some(State { provider, bytes }))
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<StatePart>, StateError>> {
        if self.over {
            return Poll::Ready(Ok(None));
        }
        loop {
            let mut state = self.inflow.lock();
            let Some(piece) = state.pieces.pop_front() else {
                if let Some(outcome) = state.outcome.clone() {
                    drop(state);
                    self.over = true;
                    let shared = &self.shared;
                    return Poll::Ready(match outcome {
                        Ok(_) => Ok(None),
                        Err(failure) => Err(StateError::from_core(failure, shared)),
                    });
                }
                state.reader = Some(cx.waker().clone());
                drop(state);
                self.report();
                return Poll::Pending;
            };
            if let Piece::Bytes(b) = &piece {
                state.bytes = state.bytes.saturating_sub(b.len());
            }
            drop(state);
            self.inflow.room.notify_all();
            if self.returned - self.reported >= REPORT {
                self.report();
            }
            match piece {
                Piece::Begins { attempt, provider } => {
                    (self.attempt, self.returned, self.reported) = (attempt, 0, 0);
                    self.provider = Some(Address(provider));
                    if let Some(collected) = &mut self.collects {
                        *collected = Collected::Some(BytesMut::new());
                    }
                    return Poll::Ready(Ok(Some(StatePart::Begins(Address(provider)))));
                }
                Piece::Bytes(b) => {
                    self.returned += b.len() as u64;
                    self.total += b.len() as u64;
                    // A state in one message is not copied.
                    if let (Some(Collected::Some(some)), 1..) = (&mut self.collects, self.attempt) {
                        some.extend_from_slice(&b);
                    }
                    return Poll::Ready(Ok(Some(StatePart::Bytes(b))));
                }
                Piece::Ends => {
                    let whole = match self.collects.take() {
                        Some(Collected::Some(some)) => Some(some.freeze()),
                        Some(Collected::All(all)) => Some(all),
                        None => None,
                    };
                    self.collects = whole.clone().map(Collected::All);
                    let take = self.taken(Taken::All);
                    self.shared.inbox.push(Request::TakeState { take, whole });
                }
            }
        }
    }

    fn taken(&self, taken: Taken) -> TakeState {
        TakeState { op: self.op, attempt: self.attempt, taken }
    }

    /// What was returned before is read now.
    fn report(&mut self) {
        if self.returned > self.reported {
            self.reported = self.returned;
            let take = self.taken(Taken::Bytes(self.returned));
            self.shared.inbox.push(Request::Command(Command::TakeState(take)));
        }
    }
}

impl Drop for StateReader {
    fn drop(&mut self) {
        if !self.over {
            self.inflow.change(|s| s.abandoned = true);
            self.shared.inbox.push(Request::Command(Command::Cancel(self.op)));
        }
    }
}
