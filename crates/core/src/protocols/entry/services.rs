//! Calls that a layer below carries out for the application: it also keeps their time.

use super::{Entry, State};
use crate::protocols::counter::{CounterCall, CounterFailure};
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

    fn refuse_service(&mut self, op: OpId, result: SendResult, cx: &mut Cx<'_>) {
        self.calls.insert(op, None);
        let token = cx.app_token(op);
        cx.resolve_service(token, result);
    }
}
