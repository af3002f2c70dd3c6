//! Calls of methods, as far as they concern the order of messages and the state of the channel.

use super::{Entry, LARGEST, State, outside};
use crate::rpc::{Call, CallAnswer, MAX_CALLS};
use crate::wire::header::CorrelatorKind;
use crate::wire::{Header, ProtId};
use crate::{Batch, Consumed, Cx, Dir, Event, OpId, Primacy, SendRefusal, TimerKey};

impl Entry {
    /// The requests enter the lines of all other messages, so that they keep their order.
    pub(super) fn call(&mut self, call: Call, cx: &mut Cx<'_>) {
        let (op, until) = (call.op, cx.now + call.timeout);
        self.calls.insert(op, Some(until));
        let token = cx.app_token(op);
        if let Some(why) = self.refusal_of_call(cx) {
            return cx.resolve(token, Err(why));
        }
        cx.arm(TimerKey(op.0), until);
        for mut request in self.remote_calls.begin(token, call, cx) {
            let size = request.length() as u64;
            if size > LARGEST {
                cx.discard(&mut request, SendRefusal::TooLarge { size, limit: LARGEST });
            } else {
                self.enter(request, false, cx);
            }
        }
    }

    fn refusal_of_call(&self, cx: &Cx<'_>) -> Option<SendRefusal> {
        if self.state != State::Open || cx.group().view.is_none() {
            return Some(SendRefusal::Closed);
        }
        if outside(cx) == Some(Primacy::No) {
            return Some(SendRefusal::NotPrimary);
        }
        if !self.remote_calls.has_room() {
            return Some(SendRefusal::TooManyCalls { limit: MAX_CALLS as u64 });
        }
        let limit = self.config.max_waiting;
        (self.count >= limit).then_some(SendRefusal::TooManyCalls { limit })
    }

    /// The deadline of the call has come, or its caller gave it up. What was not sent never is.
    pub(super) fn end_call(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) {
        let waits = match expired {
            true => self.remote_calls.expire(op, cx),
            false => self.remote_calls.withdraw(op, cx),
        };
        if waits {
            let of_call =
                |_, w: &super::Waiting| (w.op() == Some(op)).then_some(SendRefusal::Withdrawn);
            self.refuse_waiting(of_call, cx);
            cx.raise(Dir::Down, Event::Withdraw { op, expired });
        }
    }

    pub(super) fn answer_request(&mut self, request: u64, answer: CallAnswer, cx: &mut Cx<'_>) {
        if self.state == State::Closed {
            return;
        }
        if let Some(own) = self.serving.answer(request, answer, cx) {
            self.remote_calls.answered(cx.local(), own.id, own.answer, cx);
        }
    }

    /// Requests and answers go no further: they are consumed here, as nobody has to read them.
    pub(super) fn take_calls(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let from = batch.src;
        batch.retain(|m| {
            let header = match m.headers.get(ProtId::REQUEST_CORRELATOR) {
                // Other correlators belong to the application.
                Some(Header::Correlator(h)) if h.correlator == ProtId::REQUEST_CORRELATOR.0 => {
                    h.clone()
                }
                _ => return true,
            };
            match header.kind {
                CorrelatorKind::Request => {
                    if let Some(own) = self.serving.request(from, &header, m, cx) {
                        self.remote_calls.answered(from, own.id, own.answer, cx);
                    }
                }
                CorrelatorKind::Response | CorrelatorKind::Failure => {
                    self.remote_calls.arrived(from, &header, &m.body, cx);
                }
            }
            cx.settle(Consumed::one(from, m.receipt));
            false
        });
    }
}
