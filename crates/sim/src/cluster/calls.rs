//! Applications that call each other. A request names its call and says what is to be done with it; a
//! value that is answered names the call and who answers.

use super::{Cluster, Happening};
use crate::connections::Life;
use crate::history::{Given, MadeCall, What};
use bytes::Bytes;
use rgroups_core::rpc::{Ask, Call, CallAnswer, Failure, Reply, Requested, Status, Wait};
use rgroups_core::wire::Flags;
use rgroups_core::{Command, Duration, OpId, SendResult, Time, Uuid};

/// What an application does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handling {
    /// It does what the request asks for.
    #[default]
    Answers,
    /// It carries it out and never answers.
    Hangs,
}

/// What a request asks of whoever carries it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errand {
    /// A value, at once.
    #[default]
    Answer,
    /// A value, after this time.
    After(Duration),
    /// An error.
    Fail,
    /// That there is no such method.
    Unknown,
    /// Nothing.
    Hang,
    /// A value, after a call to all of its own, which asks for the same one level less deep.
    Nest(u8),
}

/// A call for [`Cluster::place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcall {
    /// Whom, by name; `None`: all of the view.
    pub to: Option<Vec<String>>,
    /// Whose answers end it.
    pub wait: Wait,
    /// How long it may take.
    pub within: Duration,
    /// Bytes of its arguments; at least 13.
    pub size: usize,
    /// What it asks for.
    pub errand: Errand,
}

/// Bytes of the arguments that mean something.
const SMALLEST: usize = 13;

/// Calls are told from other calls of the application by their numbers.
const CALLS: u64 = 1 << 41;

/// Whether `op` is a call of a method.
pub(super) fn is_call(op: OpId) -> bool {
    op.0 >= CALLS
}

/// Which call of the run `op` is, counted from 0.
#[must_use]
pub fn number(op: OpId) -> u64 {
    op.0 - CALLS
}

/// The call of this number.
#[must_use]
pub fn call_of(number: usize) -> OpId {
    OpId(CALLS + number as u64)
}

/// The value with which `member` answers a call.
#[must_use]
pub fn value(op: OpId, member: Uuid) -> Reply {
    let mut bytes = op.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(&member.msb.to_be_bytes());
    bytes.extend_from_slice(&member.lsb.to_be_bytes());
    Reply::Bytes(bytes.into())
}

impl Errand {
    fn write(self, op: OpId, size: usize) -> Bytes {
        let (kind, how) = match self {
            Errand::Answer => (0u8, 0u32),
            Errand::After(d) => (1, u32::try_from(d.as_millis()).unwrap_or(u32::MAX)),
            Errand::Fail => (2, 0),
            Errand::Unknown => (3, 0),
            Errand::Hang => (4, 0),
            Errand::Nest(depth) => (5, u32::from(depth)),
        };
        let mut args = op.0.to_be_bytes().to_vec();
        args.push(kind);
        args.extend_from_slice(&how.to_be_bytes());
        args.resize(size.max(SMALLEST), 0);
        args.into()
    }

    fn read(args: &[u8]) -> Option<(OpId, Errand)> {
        let (op, rest) = args.split_first_chunk::<8>()?;
        let (kind, rest) = rest.split_first()?;
        let (how, _) = rest.split_first_chunk::<4>()?;
        let how = u32::from_be_bytes(*how);
        let errand = match kind {
            0 => Errand::Answer,
            1 => Errand::After(Duration::from_millis(u64::from(how))),
            2 => Errand::Fail,
            3 => Errand::Unknown,
            4 => Errand::Hang,
            5 => Errand::Nest(u8::try_from(how).ok()?),
            _ => return None,
        };
        Some((OpId(u64::from_be_bytes(*op)), errand))
    }
}

/// A request that waits for a call of the application that carries it out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nested {
    request: u64,
    /// The call that is answered, and its caller.
    of: OpId,
    by: Uuid,
}

/// How long a call within another takes, where the other does not say.
const NESTED_WITHIN: Duration = Duration::from_secs(5);

impl Cluster {
    /// The application of `name` calls those of `to` that run, or all; `None` if no such node runs.
    /// The end of the call is [`What::CallEnded`].
    pub fn call(
        &mut self,
        name: &str,
        to: Option<&[&str]>,
        wait: Wait,
        within: Duration,
    ) -> Option<OpId> {
        let running = |n: &&&str| self.life(n).is_some();
        let to = to.map(|to| to.iter().filter(running).map(|n| (*n).to_owned()).collect());
        self.place(name, &Outcall { to, wait, within, size: 0, errand: Errand::Answer })
    }

    /// The application of `name` makes this call, of nodes that do not run at the moment as they were
    /// when they did; `None` if itself does not run.
    pub fn place(&mut self, name: &str, call: &Outcall) -> Option<OpId> {
        let life = self.life(name)?;
        let id = |n: &String| {
            let lives = self.history.lives.iter();
            lives.rev().find(|l| self.host(n) == Some(l.host)).map(|l| l.id)
        };
        let to: Option<Vec<Uuid>> = call.to.as_ref().map(|to| to.iter().filter_map(id).collect());
        Some(self.make(life, to, call, None))
    }

    fn make(
        &mut self,
        life: Life,
        to: Option<Vec<Uuid>>,
        call: &Outcall,
        nested_in: Option<OpId>,
    ) -> OpId {
        let op = call_of(self.history.calls.len());
        let (wait, within, errand) = (call.wait, call.within, call.errand);
        let made = MadeCall { caller: life, to: to.clone(), wait, within, errand, nested_in };
        self.history.calls.push(made);
        let method = if errand == Errand::Unknown { "nothing" } else { "call" };
        let ask = Ask::Bytes { method: method.into(), args: errand.write(op, call.size) };
        let flags = Flags::empty();
        let command = Call { op, to, ask, wait, timeout: within, flags };
        if let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) {
            process.commands.push_back(Command::Call(command.into()));
            process.calls.insert(op);
        }
        self.wake(life, Duration::ZERO);
        op
    }

    /// Whether somebody that runs waits for the end of a call.
    #[must_use]
    pub fn calls_are_pending(&self) -> bool {
        self.members.iter().filter_map(|m| m.process.as_ref()).any(|p| !p.calls.is_empty())
    }

    /// What the application of `name` does with requests from now on.
    pub fn handle(&mut self, name: &str, how: Handling) {
        if let Some(m) = self.member_mut(name) {
            m.handling = how;
        }
    }

    /// A call of `life` is given to its stack.
    pub(super) fn call_begins(&mut self, life: Life, op: OpId) {
        self.record(Some(life), What::Calls(op));
    }

    pub(super) fn requested(&mut self, life: Life, local: Time, request: &Requested) {
        let args = match &request.ask {
            Ask::Bytes { args, .. } => args,
            Ask::Values(call) => return self.change_requested(life, request, call),
        };
        let Some((op, errand)) = Errand::read(args) else { return };
        self.record(Some(life), What::CarriedOut(op, request.from));
        let Some(member) = self.member_of(life) else { return };
        if member.handling == Handling::Hangs {
            return;
        }
        let nested = Nested { request: request.request, of: op, by: request.from };
        match errand {
            Errand::Answer => self.answer_call(life, nested, Given::Value),
            Errand::Fail => self.answer_call(life, nested, Given::Error),
            Errand::Unknown => self.answer_call(life, nested, Given::NoSuchMethod),
            Errand::Hang => {}
            Errand::After(how_long) => {
                self.agenda.plan(self.now + how_long, Happening::Answer(life, nested));
            }
            Errand::Nest(depth) => {
                let errand = match depth {
                    0 | 1 => Errand::Answer,
                    deeper => Errand::Nest(deeper - 1),
                };
                let left = request.until.map_or(NESTED_WITHIN, |until| until.since(local));
                let call = Outcall { to: None, wait: Wait::All, within: left, size: 0, errand };
                let inner = self.make(life, None, &call, Some(op));
                if let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) {
                    process.nested.insert(inner, nested);
                }
            }
        }
    }

    /// A call of `life` ended; if it was made for another, that is answered now.
    pub(super) fn call_ended(&mut self, life: Life, op: OpId, result: SendResult) {
        let complete = match &result {
            SendResult::Called(o) => o.rows.iter().all(|r| matches!(r.status, Status::Answered(_))),
            _ => false,
        };
        self.record(Some(life), What::CallEnded(op, result));
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        process.calls.remove(&op);
        if let Some(nested) = process.nested.remove(&op) {
            let given = if complete { Given::Value } else { Given::Error };
            self.answer_call(life, nested, given);
        }
    }

    pub(super) fn answer_call(&mut self, life: Life, nested: Nested, given: Given) {
        let own = self.history.id(life);
        let Nested { request, of, by } = nested;
        let answer = match given {
            Given::Value => CallAnswer::Done(value(of, own)),
            Given::Error => {
                CallAnswer::Failed(Failure::Error { class: None, message: "asked for".into() })
            }
            Given::NoSuchMethod => CallAnswer::NoSuchMethod,
        };
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        process.commands.push_back(Command::AnswerRequest { request, answer });
        self.record(Some(life), What::AnswersCall(of, by, given));
        let delay = self.settings.turn_delay;
        self.wake(life, delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_it_asks_for_and_whose_it_is() {
        let after = Errand::After(Duration::from_millis(7));
        let all = [Errand::Answer, after, Errand::Fail, Errand::Unknown, Errand::Hang];
        for errand in all.into_iter().chain([Errand::Nest(3)]) {
            for size in [0, 100] {
                let args = errand.write(call_of(5), size);
                assert_eq!(args.len(), size.max(SMALLEST));
                assert_eq!(Errand::read(&args), Some((call_of(5), errand)));
            }
        }
        assert_eq!(Errand::read(&[0; SMALLEST - 1]), None);
    }
}
