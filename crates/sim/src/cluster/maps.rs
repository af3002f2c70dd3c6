//! Applications that share a map: changes are calls with values, copies are part of the state.

use super::Cluster;
use super::calls::call_of;
use crate::cluster::Errand;
use crate::connections::Life;
use crate::history::MadeCall;
use rgroups_core::map::{Change, Replica};
use rgroups_core::rpc::{Ask, Call, CallAnswer, Failure, Reply, Requested, Wait};
use rgroups_core::wire::{Flags, Method, MethodCall};
use rgroups_core::{Command, Duration, OpId};

impl Cluster {
    /// The application of `name` has everybody carry out a change of the map; `None` if no such node runs, or
    /// the change is not possible. Ends as calls do.
    pub fn change(&mut self, name: &str, change: &Change, within: Duration) -> Option<OpId> {
        let life = self.life(name)?;
        let call = change.to_call().ok()?;
        let op = call_of(self.history.calls.len());
        let (wait, errand) = (Wait::All, Errand::Answer);
        let made = MadeCall { caller: life, to: None, wait, within, errand, nested_in: None };
        self.history.calls.push(made);
        let (ask, flags) = (Ask::Values(call), Flags::empty());
        let call = Call { op, to: None, ask, wait, timeout: within, flags };
        self.command(name, Command::Call(call.into()));
        Some(op)
    }

    /// The copy of the application of `name`.
    #[must_use]
    pub fn copy(&self, name: &str) -> Option<&Replica> {
        Some(&self.process(name)?.copy)
    }

    pub(super) fn change_requested(&mut self, life: Life, request: &Requested, call: &MethodCall) {
        let Method::Numbered(method) = call.method else { return };
        let change = Change::of_call(method, call.args.clone());
        let delay = self.settings.turn_delay;
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        let answer = match change {
            Ok(change) => CallAnswer::Done(Reply::Value(process.copy.carry_out(change).reply)),
            Err(why) => {
                CallAnswer::Failed(Failure::Error { class: None, message: why.to_string() })
            }
        };
        process.commands.push_back(Command::AnswerRequest { request: request.request, answer });
        self.wake(life, delay);
    }
}
