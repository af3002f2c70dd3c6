//! Calls of methods at other members, and their answers (`RequestCorrelator`, WIRE §30).
//!
//! A call goes to all members, to some, or to one, and ends with one row per target that says what
//! became of it there. [`calls`] is the caller's half, [`serving`] the half of whoever is called,
//! [`forms`] what both write into messages. Neither half ever runs a handler or waits for one: a
//! request is told to the application ([`AppEvent::Requested`](crate::AppEvent)), which answers when
//! it can ([`Command::AnswerRequest`](crate::Command)), in any order. So no handler holds up what
//! arrives, and calls within handlers nest as deep as they like.
//!
//! The entry layer owns both halves: requests stand in its lines with all other messages.

pub(crate) mod calls;
pub(crate) mod forms;
pub(crate) mod seen;
pub(crate) mod serving;
#[cfg(test)]
mod tests;

use crate::wire::{Flags, MethodCall, Value};
use crate::{OpId, Time, Uuid};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// How many calls of one member may be unanswered; more are refused
/// ([`SendRefusal::TooManyCalls`](crate::SendRefusal)).
pub const MAX_CALLS: usize = 16_384;
/// How many requests one member works on at a time; more are answered with
/// [`Failure::Overloaded`].
pub const MAX_RUNNING: usize = 4_096;
/// How many bytes the requests may have that one member works on at a time, as above. One request of
/// any size is always taken.
pub const MAX_RUNNING_BYTES: u64 = 64_000_000;

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name; the outcome comes with it in [`SendResult::Called`](crate::SendResult).
    pub op: OpId,
    /// Who is called; `None`: every member of the view.
    pub to: Option<Vec<Uuid>>,
    /// What is called.
    pub ask: Ask,
    /// Whose answers are awaited.
    pub wait: Wait,
    /// How long the call may take, all waiting included. Members of this toolkit are told.
    pub timeout: Duration,
    /// Flags of the request, and of the answers.
    pub flags: Flags,
}

/// What is called, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A method with bytes that caller and callee understand. JGroups members cannot be called like
    /// that: with an empty name it is what a `MessageDispatcher` of theirs sends.
    Bytes {
        /// The method.
        method: String,
        /// Its arguments.
        args: Bytes,
    },
    /// A method with values in JGroups' encoding, which members of both toolkits understand.
    Values(MethodCall),
}

/// Whose answers a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Nobody's: the call ends when the request is on its way (`GET_NONE`).
    None,
    /// The first value (`GET_FIRST`).
    First,
    /// The values of more than half of the targets (`GET_MAJORITY`).
    Majority,
    /// Everybody's (`GET_ALL`).
    #[default]
    All,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    /// One row per target: in the order of the view, or as the caller named them.
    pub rows: Vec<Row>,
}

/// What became of a call at one target. It does not change any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The target.
    pub member: Uuid,
    /// What became of it.
    pub status: Status,
}

/// What became of a call at one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It answered.
    Answered(Reply),
    /// It said that the call failed there.
    Failed(Failure),
    /// It has no such method.
    NoSuchMethod,
    /// It left the view, or came back by a merge: it will not answer any more. Whether it carried
    /// the call out is not known.
    Left,
    /// It was not called.
    Unreachable(Unreachable),
    /// The time was over. With `sent` the request was on its way, and may have been carried out;
    /// without, flow control had not let it go, and it never leaves.
    TimedOut {
        /// The request had left.
        sent: bool,
    },
    /// The call ended before it answered, as its answer was not needed.
    NotAwaited,
}

/// Why a target was not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// It is not in the view.
    NotMember,
    /// It is a member of JGroups, which understands values only.
    OnlyValues,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Bytes that caller and callee understand.
    Bytes(Bytes),
    /// A value in JGroups' encoding.
    Value(Value),
}

/// Why a call failed where it was to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The handler says so.
    Error {
        /// The kind of error; of a Java member the class of its exception.
        class: Option<String>,
        /// In words.
        message: String,
    },
    /// Too many requests are running there. It was not carried out.
    Overloaded,
    /// The request could not be read there. It was not carried out.
    Unreadable,
    /// It was not carried out there, but the state that the member has just been given by another one
    /// contains what the call did.
    InState,
}

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// It was carried out.
    Done(Reply),
    /// It failed.
    Failed(Failure),
    /// There is no such method.
    NoSuchMethod,
}

/// A request to be carried out by the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Its number here. Every one is to be answered, also if nobody waits for it: until then it
    /// counts as running.
    pub request: u64,
    /// Who calls.
    pub from: Uuid,
    /// What.
    pub ask: Ask,
    /// When the caller stops to wait, if it says so.
    pub until: Option<Time>,
    /// Somebody waits for the answer.
    pub awaited: bool,
}
