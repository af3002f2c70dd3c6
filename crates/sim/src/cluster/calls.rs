//! Applications that call each other: every call names itself, and its answer is that name.

use super::Cluster;
use crate::connections::Life;
use crate::history::What;
use bytes::Bytes;
use rgroups_core::rpc::{Ask, Call, CallAnswer, Reply, Requested, Wait};
use rgroups_core::wire::Flags;
use rgroups_core::{Command, Duration, OpId};

/// What an application does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handling {
    /// It answers at once.
    #[default]
    Answers,
    /// It carries it out and never answers.
    Hangs,
}

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

impl Cluster {
    /// The application of `name` calls those of `to`, or all; `None` if no such node runs. The end of
    /// the call is [`What::CallEnded`].
    pub fn call(
        &mut self,
        name: &str,
        to: Option<&[&str]>,
        wait: Wait,
        within: Duration,
    ) -> Option<OpId> {
        let life = self.life(name)?;
        let op = OpId(CALLS + self.calls);
        self.calls += 1;
        let lives = |names: &[&str]| names.iter().filter_map(|n| self.life(n)).collect::<Vec<_>>();
        let to = to.map(|names| lives(names).into_iter().map(|l| self.history.id(l)).collect());
        let args = Bytes::copy_from_slice(&op.0.to_be_bytes());
        let ask = Ask::Bytes { method: "call".into(), args };
        self.record(Some(life), What::Calls(op));
        let call = Call { op, to, ask, wait, timeout: within, flags: Flags::empty() };
        self.command(name, Command::Call(Box::new(call)));
        Some(op)
    }

    /// What the application of `name` does with requests from now on.
    pub fn handle(&mut self, name: &str, how: Handling) {
        if let Some(m) = self.member_mut(name) {
            m.handling = how;
        }
    }

    pub(super) fn requested(&mut self, life: Life, request: &Requested) {
        let Ask::Bytes { args, .. } = &request.ask else { return };
        let Ok(named) = <[u8; 8]>::try_from(&args[..]) else { return };
        let op = OpId(u64::from_be_bytes(named));
        self.record(Some(life), What::CarriedOut(op, request.from));
        let Some(member) = self.member_of(life) else { return };
        let answers = member.handling == Handling::Answers;
        if let (true, Some(process)) = (answers, member.process.as_mut()) {
            let answer = CallAnswer::Done(Reply::Bytes(args.clone()));
            process.commands.push_back(Command::AnswerRequest { request: request.request, answer });
            let delay = self.settings.turn_delay;
            self.wake(life, delay);
        }
    }
}
