//! Applications with a state: everything that was multicast, in the order of delivery. It is what
//! they give to others and what they begin with when they are given one.

use super::member::Unread;
use super::{Cluster, Member};
use crate::connections::Life;
use crate::history::{MessageId, What};
use bytes::Bytes;
use rgroups_core::app::{AnswerState, FetchState, FetchedState, StateFailure};
use rgroups_core::{Command, Duration, OpId, Uuid};

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

    /// The multicasts that the application of `name` knows, from others' states or by delivery.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<&[MessageId]> {
        Some(&self.process(name)?.contents)
    }

    pub(super) fn state_requested(&mut self, life: Life, request: u64, by: Uuid) {
        self.record(Some(life), What::StateRequested(by));
        let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        let state: Vec<u8> = p.contents.iter().flat_map(|m| m.0.to_be_bytes()).collect();
        let question = Some(Question { request, by, state: state.into() });
        p.unread.push_back(Unread {
            from: by,
            bytes: 0,
            message: None,
            receipt: Vec::new(),
            question,
        });
        self.consume(life);
    }

    pub(super) fn state_fetched(
        &mut self,
        life: Life,
        result: Result<Option<FetchedState>, StateFailure>,
    ) {
        let ended = match result {
            Err(failure) => StateEnded::Failed(failure),
            Ok(None) => StateEnded::Nobody,
            Ok(Some(f)) => {
                let bytes = f.state.unwrap_or_default();
                let number = |c: &[u8]| c.try_into().map(u32::from_be_bytes).unwrap_or(u32::MAX);
                let contents: Vec<MessageId> =
                    bytes.chunks_exact(4).map(|c| MessageId(number(c))).collect();
                let n = contents.len();
                if let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) {
                    p.contents = contents;
                }
                StateEnded::Given(f.provider, n)
            }
        };
        self.record(Some(life), What::StateFetched(ended));
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
    }

    /// The application has come to a question.
    fn answer(&mut self, q: Question) {
        let state = match self.provision {
            Provision::Silent => return,
            Provision::Gives => Ok(Some(q.state)),
            Provision::Refuses => Err("it does not want to".into()),
        };
        if let Some(p) = self.process.as_mut() {
            let answer = AnswerState { op: None, request: q.request, to: q.by, state };
            p.commands.push_back(Command::AnswerState(answer));
        }
    }
}
