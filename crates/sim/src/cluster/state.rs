//! Applications with a state: everything that was multicast, in the order of delivery, and their copy of a
//! map. It is what
//! they give to others and what they begin with when they are given one. A state may be made larger
//! than that by bytes that mean nothing.

use super::member::Unread;
use super::{Cluster, Member};
use crate::connections::Life;
use crate::history::{MessageId, What};
use bytes::Bytes;
use rgroups_core::app::{
    AnswerState, FetchState, FetchedState, StateAnswer, StateFailure, TakeState, Taken,
};
use rgroups_core::map::Replica;
use rgroups_core::{AppEvent, Command, Duration, OpId, Uuid};

/// What an application does when it is asked for its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provision {
    /// It gives it, once it has consumed what came before the question.
    #[default]
    Gives,
    /// It says that it does not.
    Refuses,
    /// It says nothing.
    Silent,
}

/// How a call for a state ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateEnded {
    /// With the state of this member, which contains so many messages.
    Given(Uuid, usize),
    /// There was nobody to have one.
    Nobody,
    /// Without one.
    Failed(StateFailure),
}

/// A question for the state, between what the application was given before and after it.
#[derive(Debug)]
pub(super) struct Question {
    request: u64,
    by: Uuid,
    /// The contents at this place.
    state: Bytes,
}

/// What the application is given of a state that comes in parts.
#[derive(Debug)]
pub(super) enum Piece {
    Begins(Reading),
    Bytes(Bytes),
    Ends,
}

/// A state that comes in parts, as far as the application has read it.
#[derive(Debug)]
pub(super) struct Reading {
    op: OpId,
    attempt: u64,
    bytes: Vec<u8>,
}

/// Calls for states are told from calls that send by their numbers.
const FETCHES: u64 = 1 << 40;

impl Cluster {
    /// Starts a node that has the state of another one before it is given anything else.
    pub fn start_with_state(&mut self, name: &str, within: Duration) {
        self.start(name);
        self.fetch_state(name, None, within);
    }

    /// The application of `name` asks for a state: of `from`, or of whoever gives it.
    pub fn fetch_state(&mut self, name: &str, from: Option<&str>, within: Duration) {
        let from = from.and_then(|f| Some(self.history.id(self.life(f)?)));
        let Some(life) = self.life(name) else { return };
        let op = OpId(FETCHES + self.history.facts.len() as u64);
        let call = FetchState { op, from, timeout: within };
        if let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) {
            p.commands.push_back(Command::FetchState(call));
            self.wake(life, Duration::ZERO);
        }
    }

    /// What the application of `name` does from now on when it is asked for its state.
    pub fn provide_state(&mut self, name: &str, how: Provision) {
        if let Some(m) = self.member_mut(name) {
            m.provision = how;
        }
    }

    /// So many bytes that mean nothing are in every state from now on.
    pub fn pad_states(&mut self, bytes: usize) {
        self.padding = bytes;
    }

    /// How many bytes of a state that comes in parts the application of `name` has read.
    #[must_use]
    pub fn state_bytes_read(&self, name: &str) -> usize {
        let reading = self.process(name).and_then(|p| p.reading.as_ref());
        reading.map_or(0, |r| r.bytes.len())
    }

    /// The multicasts that the application of `name` knows, from others' states or by delivery.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<&[MessageId]> {
        Some(&self.process(name)?.contents)
    }

    pub(super) fn state_requested(&mut self, life: Life, request: u64, by: Uuid) {
        self.record(Some(life), What::StateRequested(by));
        let padding = self.padding;
        let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        let mut state = (p.contents.len() as u32).to_be_bytes().to_vec();
        state.extend(p.contents.iter().flat_map(|m| m.0.to_be_bytes()));
        match p.copy.snapshot() {
            Ok(copy) if !p.copy.is_empty() => state.extend_from_slice(&copy),
            _ => state.resize(state.len() + padding, 0),
        }
        let question = Some(Question { request, by, state: state.into() });
        p.unread.push_back(Unread { question, ..Unread::nothing(by) });
        self.consume(life);
    }

    /// Something of a state that comes in parts.
    pub(super) fn state_piece(&mut self, life: Life, event: AppEvent) {
        let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        let (bytes, piece) = match event {
            AppEvent::StateBegins { op, attempt, .. } => {
                // What it has not read of an earlier one is void.
                p.unread.retain(|u| u.piece.is_none());
                (0, Piece::Begins(Reading { op, attempt, bytes: Vec::new() }))
            }
            AppEvent::StatePart { bytes, .. } => (bytes.len() as u64, Piece::Bytes(bytes)),
            _ => (0, Piece::Ends),
        };
        let from = p.node.stack().local();
        p.unread.push_back(Unread { bytes, piece: Some(piece), ..Unread::nothing(from) });
        self.consume(life);
    }

    pub(super) fn state_fetched(
        &mut self,
        life: Life,
        op: OpId,
        result: Result<Option<FetchedState>, StateFailure>,
    ) {
        let ended = match result {
            Err(failure) => StateEnded::Failed(failure),
            Ok(None) => StateEnded::Nobody,
            Ok(Some(f)) => {
                let mut n = 0;
                if let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) {
                    let read = p.reading.take().map(|r| r.bytes.into());
                    let state = f.state.or(read).unwrap_or_default();
                    p.contents = contents(&state);
                    n = p.contents.len();
                    // Without entries in it there are only bytes that mean nothing, or none.
                    let copy = state.slice(state.len().min(4 + 4 * n)..);
                    if p.copy.install(&copy).is_err() {
                        p.copy = Replica::default();
                    }
                    let taken = What::StateTaken(p.contents.as_slice().into());
                    self.record(Some(life), taken);
                }
                StateEnded::Given(f.provider, n)
            }
        };
        self.record(Some(life), What::StateFetched(op, ended));
    }
}

impl Member {
    /// The application takes one thing.
    pub(super) fn take(&mut self, u: Unread) {
        let failing = self.failing;
        if let Some(p) = self.process.as_mut() {
            p.consumed.extend(u.receipt.into_iter().map(|mut c| {
                c.failed = failing && c.rsvp.is_some();
                c
            }));
        }
        if let Some(q) = u.question {
            self.answer(q);
        }
        if let Some(piece) = u.piece {
            self.read(piece);
        }
    }

    /// The application has come to a piece of a state.
    fn read(&mut self, piece: Piece) {
        let Some(p) = self.process.as_mut() else { return };
        let taken = match (piece, &mut p.reading) {
            (Piece::Begins(reading), old) => {
                *old = Some(reading);
                return;
            }
            (_, None) => return,
            (Piece::Bytes(b), Some(r)) => {
                r.bytes.extend_from_slice(&b);
                Taken::Bytes(r.bytes.len() as u64)
            }
            (Piece::Ends, Some(_)) => Taken::All,
        };
        if let Some(r) = &p.reading {
            let (op, attempt) = (r.op, r.attempt);
            p.commands.push_back(Command::TakeState(TakeState { op, attempt, taken }));
        }
    }

    /// The application has come to a question.
    fn answer(&mut self, q: Question) {
        let answer = match self.provision {
            Provision::Silent => return,
            Provision::Gives => StateAnswer::Whole(Some(q.state)),
            Provision::Refuses => StateAnswer::Refused("it does not want to".into()),
        };
        if let Some(p) = self.process.as_mut() {
            let answer = AnswerState { op: None, request: q.request, to: q.by, answer };
            p.commands.push_back(Command::AnswerState(answer));
        }
    }
}

/// What a state says: a number of messages, and which.
fn contents(state: &[u8]) -> Vec<MessageId> {
    let number = |c: &[u8]| c.try_into().map(u32::from_be_bytes).unwrap_or(u32::MAX);
    let Some((n, rest)) = state.split_at_checked(4) else { return Vec::new() };
    rest.chunks_exact(4).take(number(n) as usize).map(|c| MessageId(number(c))).collect()
}
