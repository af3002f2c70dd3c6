//! The handlers of a channel, and requests on their way through them.

use super::dispatcher::{Dispatcher, Inner};
use super::tasks::{Task, Tasks};
use super::values::MethodName;
use crate::inbox::Request;
use crate::shared::Shared;
use crate::{Address, ObjectValue};
use bytes::Bytes;
use rgroups_core::Command;
use rgroups_core::rpc::{Ask, CallAnswer, Failure, Reply, Requested};
use rgroups_core::wire::{Method, Value};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Who called a handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Caller {
    /// The member.
    pub from: Address,
    /// When it stops to wait; `None`: it has not said so, as JGroups members do not.
    pub deadline: Option<Instant>,
    /// Whether it waits for the answer at all.
    pub waits: bool,
    dispatcher: Weak<Inner>,
}

impl Caller {
    /// What is left until the caller stops to wait: for calls that the handler makes. Without a
    /// deadline the default of [`CallOptions`](super::CallOptions).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.deadline {
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => super::CallOptions::default().timeout,
        }
    }

    /// The dispatcher that has the handler, for calls of its own; `None` when it is gone. (A handler
    /// that holds a clone of it keeps the member in the group until the channel is closed.)
    #[must_use]
    pub fn dispatcher(&self) -> Option<Dispatcher> {
        self.dispatcher.upgrade().map(Dispatcher::from)
    }
}

/// What a handler becomes.
type Outcome = Pin<Box<dyn Future<Output = Result<Reply, String>> + Send>>;
type BytesHandler = Box<dyn Fn(Caller, Bytes) -> Outcome + Send + Sync>;
type ValuesHandler = Box<dyn Fn(Caller, Vec<ObjectValue>) -> Outcome + Send + Sync>;
/// Starts a handler.
type Spawn = Box<dyn Fn(Task) + Send + Sync>;

/// Where handlers run.
pub(super) enum Place {
    /// On threads of their own.
    Threads,
    /// On the thread of the channel, until they wait for something.
    Channel,
    /// On an executor.
    Elsewhere(Spawn),
}

pub(super) enum Handler {
    Bytes(BytesHandler),
    Values(ValuesHandler),
}

/// All handlers of a channel.
pub(crate) struct Service {
    handlers: HashMap<MethodName, Arc<Handler>>,
    spawn: Spawn,
    dispatcher: Weak<Inner>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("handlers", &self.handlers.len()).finish_non_exhaustive()
    }
}

/// The answer that a request gets in any case: also if its handler panics or is stopped.
struct Answering {
    shared: Arc<Shared>,
    request: u64,
    answered: bool,
}

impl Answering {
    fn answer(&mut self, answer: CallAnswer) {
        self.answered = true;
        answer_request(&self.shared, self.request, answer);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(failed("the handler ended without an answer: it panicked, or was stopped"));
        }
    }
}

/// The answer where nobody has built a dispatcher.
pub(crate) fn no_handlers(shared: &Shared, request: u64) {
    answer_request(shared, request, CallAnswer::NoSuchMethod);
}

/// Gives an answer to the driver. When there is none any more, nobody waits.
fn answer_request(shared: &Shared, request: u64, answer: CallAnswer) {
    shared.inbox.push(Request::Command(Command::AnswerRequest { request, answer }));
}

fn failed(message: &str) -> CallAnswer {
    CallAnswer::Failed(Failure::Error { class: None, message: message.to_owned() })
}

impl Service {
    pub(super) fn new(
        handlers: HashMap<MethodName, Handler>,
        place: Place,
        threads: usize,
        dispatcher: Weak<Inner>,
    ) -> Self {
        let handlers = handlers.into_iter().map(|(name, h)| (name, Arc::new(h))).collect();
        let tasks = Tasks::new(threads);
        let spawn: Spawn = match place {
            Place::Threads => Box::new(move |task| tasks.spawn(task)),
            Place::Channel => Box::new(move |task| tasks.begin_here(task)),
            Place::Elsewhere(spawn) => spawn,
        };
        Self { handlers, spawn, dispatcher }
    }

    /// Begins to carry a request out. Called by the driver, so it only hands the handler over.
    pub(crate) fn accept(&self, shared: &Arc<Shared>, requested: Requested) {
        let Requested { request, from, ask, until, awaited } = requested;
        let name = match &ask {
            Ask::Bytes { method, .. } => MethodName::Named(method.clone()),
            Ask::Values(call) => match &call.method {
                Method::Named { name, .. } => MethodName::Named(name.clone()),
                Method::Numbered(number) => MethodName::Numbered(*number),
            },
        };
        let Some(handler) = self.handlers.get(&name).cloned() else {
            return answer_request(shared, request, CallAnswer::NoSuchMethod);
        };
        let caller = Caller {
            from: Address(from),
            deadline: until.map(|at| shared.clock.instant(at)),
            waits: awaited,
            dispatcher: self.dispatcher.clone(),
        };
        let mut answering = Answering { shared: Arc::clone(shared), request, answered: false };
        (self.spawn)(Box::pin(async move {
            let outcome = match (&*handler, ask) {
                (Handler::Bytes(h), Ask::Bytes { args, .. }) => h(caller, args).await,
                (Handler::Values(h), Ask::Values(call)) => {
                    h(caller, call.args.into_iter().map(ObjectValue::from_value).collect()).await
                }
                (Handler::Bytes(_), Ask::Values(_)) => {
                    Err("this method takes typed arguments, not values of JGroups".to_owned())
                }
                (Handler::Values(_), Ask::Bytes { .. }) => {
                    Err("this method takes values of JGroups, not typed arguments".to_owned())
                }
            };
            answering.answer(match outcome {
                Ok(reply) => CallAnswer::Done(reply),
                Err(message) => failed(&message),
            });
        }));
    }
}

/// The reply that a value makes.
pub(super) fn reply_of(value: ObjectValue) -> Reply {
    Reply::Value(value.into_value())
}

/// The value that a reply is.
pub(super) fn value_of(reply: Reply) -> ObjectValue {
    match reply {
        Reply::Bytes(bytes) => ObjectValue::ByteArray(bytes),
        Reply::Value(value) => ObjectValue::from_value(value),
    }
}

/// The bytes that a reply is.
pub(super) fn bytes_of(reply: Reply) -> Result<Bytes, String> {
    match reply {
        Reply::Bytes(bytes) | Reply::Value(Value::Bytes(bytes)) => Ok(bytes),
        Reply::Value(_) => Err("it is a value of JGroups".to_owned()),
    }
}
