//! Calls that a layer below carries out for the application: it also keeps their time.

use super::{Entry, State};
use crate::protocols::counter::{CounterCall, CounterFailure};
use crate::protocols::lock::{LockCall, LockFailure};
use crate::{Cx, Dir, Event, OpId, Query, SendResult, Service};

impl Entry {
    pub(super) fn counter(&mut self, call: CounterCall, cx: &mut Cx<'_>) {
        let why = match self.state {
            State::Joining | State::Closed => CounterFailure::Closed,
            State::Open if cx.ask_below(&Query::Offers(Service::Counters)).is_none() => {
                CounterFailure::NotInStack
            }
            State::Open => {
                self.calls.insert(call.op, None);
                return cx.raise(Dir::Down, Event::Counter(call));
            }
        };
        self.refuse_service(call.op, SendResult::Counted(Err(why)), cx);
    }

    pub(super) fn lock(&mut self, call: LockCall, cx: &mut Cx<'_>) {
        let why = match self.state {
            State::Joining | State::Closed => LockFailure::Closed,
            State::Open if cx.ask_below(&Query::Offers(Service::Locks)).is_none() => {
                LockFailure::NotInStack
            }
            State::Open => {
                let (LockCall::Acquire { op, .. } | LockCall::Release { op: Some(op), .. }) = call
                else {
                    return cx.raise(Dir::Down, Event::Lock(call));
                };
                self.calls.insert(op, None);
                return cx.raise(Dir::Down, Event::Lock(call));
            }
        };
        match call {
            LockCall::Acquire { op, .. } => {
                self.refuse_service(op, SendResult::Locked(Err(why)), cx);
            }
            LockCall::Release { op: Some(op), .. } => {
                self.refuse_service(op, SendResult::Unlocked(Err(why)), cx);
            }
            LockCall::Release { op: None, .. } => {}
        }
    }

    fn refuse_service(&mut self, op: OpId, result: SendResult, cx: &mut Cx<'_>) {
        self.calls.insert(op, None);
        let token = cx.app_token(op);
        cx.resolve_service(token, result);
    }
}
