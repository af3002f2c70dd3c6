//! What a driver is asked to do, done.

use super::{Member, Phase, report};
use crate::channel::LEAVE_TIMEOUT;
use crate::inbox::{Line, Request};
use crate::net::faults::Faults;
use crate::shared::Ended;
use rgroups_core::protocols::lock::{LockCall, LockWait};
use rgroups_core::{Command, Time};

impl Member {
    pub(super) fn submit_sends(&mut self, now: Time) {
        if !self.sends.is_empty() {
            self.node.submit_sends(now, self.sends.drain(..));
        }
    }

    pub(super) fn perform(&mut self, now: Time, request: Request) {
        if !matches!(request, Request::Send { .. }) {
            self.submit_sends(now);
        }
        match request {
            Request::Send { send, line, cost: _, reply } => {
                // The line of multicasts is looked at in every turn.
                if line != Line::Multicast {
                    self.touched.insert(line);
                }
                let payload = send.message.body.as_bytes().map_or(0, |b| b.len() as u64);
                self.stats.payload_sent += payload;
                match send.op {
                    Some(op) => self.calls.open(op, line, reply),
                    None => self.stats.msgs_sent += 1,
                }
                self.sends.push(send);
            }
            Request::Row { payloads, cost: _ } => {
                self.stats.payload_sent += payloads.iter().map(|p| p.len() as u64).sum::<u64>();
                self.stats.msgs_sent += payloads.len() as u64;
                self.node.submit_row(now, payloads);
            }
            Request::Command(Command::Disconnect) => {
                if matches!(self.phase, Phase::Running) {
                    self.phase = Phase::Leaving { by: now + LEAVE_TIMEOUT };
                    self.node.submit(now, Command::Disconnect);
                }
            }
            Request::Command(command) => self.node.submit(now, command),
            Request::FetchState { mut call, by, told } => {
                call.timeout = by.since(now);
                self.states.fetch(call.op, told);
                self.node.submit(now, Command::FetchState(call));
            }
            Request::TakeState { take, whole } => {
                self.states.taken(take.op, whole);
                self.node.submit(now, Command::TakeState(take));
            }
            Request::GiveState { answer, outlet } => {
                self.states.give(answer.request, &outlet);
                self.node.submit(now, Command::AnswerState(answer));
            }
            Request::Call { mut call, by, reply } => {
                call.timeout = by.since(now);
                self.remote_calls.insert(call.op, reply);
                self.node.submit(now, Command::Call(call));
            }
            Request::Count { mut call, by, reply } => {
                call.timeout = by.map(|by| by.since(now));
                self.calls.open(call.op, Line::Free, Some(reply));
                self.node.submit(now, Command::Counter(call));
            }
            Request::Acquire { op, name, wait, by, lose, reply } => {
                let wait = match (wait, by) {
                    (LockWait::For(_), Some(by)) => LockWait::For(by.since(now)),
                    (other, _) => other,
                };
                self.holds.open(op, lose);
                self.calls.open(op, Line::Free, Some(reply));
                self.node.submit(now, Command::Lock(LockCall::Acquire { op, name, wait }));
            }
            Request::Release { op, hold, reply } => {
                self.calls.open(op, Line::Free, Some(reply));
                self.node.submit(now, Command::Lock(LockCall::Release { op: Some(op), hold }));
            }
            Request::Flush { op, by, reply } => {
                let timeout = by.map(|by| by.since(now));
                self.calls.open(op, Line::Free, Some(reply));
                self.node.submit(now, Command::Flush { op, timeout });
            }
            Request::AnswerState { answer, reply } => {
                if let Some(op) = answer.op {
                    self.calls.open(op, Line::Free, Some(reply));
                }
                self.node.submit(now, Command::AnswerState(answer));
            }
            Request::Inspect(reply) => {
                // Nobody waits any more: then nobody needs it.
                let _ = reply.send(report::inspect(&self.node, &self.shared, now));
            }
            Request::Faults(peers) => self.net.set_faults(Faults::new(peers)),
            Request::Abort => self.end(Ended::Unconfirmed),
        }
    }
}
