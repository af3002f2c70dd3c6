//! What programs use: a builder for handlers, and calls.

use super::answers::{CallOptions, Responses, RpcError};
use super::service::{Caller, Handler, Place, Service, bytes_of, reply_of, value_of};
use super::tasks::Task;
use super::values::{MethodName, ValueCall};
use crate::channel::refusal;
use crate::error::SendError;
use crate::inbox::Request;
use crate::{Address, Channel, ObjectValue};
use bytes::Bytes;
use rgroups_core::rpc::{Ask, Call, Reply, Row};
use rgroups_core::wire::{Method, MethodCall};
use rgroups_core::{SendRefusal, SendResult};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, PoisonError};
use tokio::sync::oneshot;

/// How many threads run handlers where nothing else is said.
const THREADS: usize = 4;

/// Calls methods of other members, and has the handlers of this one. Cloning gives another handle;
/// with the last one the handlers are gone.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    inner: Arc<Inner>,
}

impl From<Arc<Inner>> for Dispatcher {
    fn from(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    channel: Channel,
    service: Arc<Service>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut service =
            self.channel.shared().service.lock().unwrap_or_else(PoisonError::into_inner);
        let own = service.as_ref().is_some_and(|s| Arc::ptr_eq(s, &self.service));
        let old = if own { service.take() } else { None };
        drop(service);
        drop(old);
    }
}

/// Who is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Targets {
    /// Every member of the view, this one too.
    #[default]
    All,
    /// These.
    These(Vec<Address>),
}

impl From<Address> for Targets {
    fn from(member: Address) -> Self {
        Targets::These(vec![member])
    }
}

impl From<Vec<Address>> for Targets {
    fn from(members: Vec<Address>) -> Self {
        Targets::These(members)
    }
}

impl From<&[Address]> for Targets {
    fn from(members: &[Address]) -> Self {
        Targets::These(members.to_vec())
    }
}

/// Configures a [`Dispatcher`]. Of several handlers of one name the last one counts.
pub struct DispatcherBuilder {
    channel: Channel,
    handlers: HashMap<MethodName, Handler>,
    place: Place,
    threads: usize,
}

impl fmt::Debug for DispatcherBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers: Vec<&MethodName> = self.handlers.keys().collect();
        f.debug_struct("DispatcherBuilder").field("handlers", &handlers).finish_non_exhaustive()
    }
}

impl DispatcherBuilder {
    /// Handles calls of `method` with typed arguments, a tuple for more than one.
    ///
    /// An `Err` is the text that the caller finds in [`RpcError::Remote`]; so does a handler that
    /// panics, and the others go on.
    #[cfg(feature = "rpc")]
    #[must_use]
    pub fn handle<A, T, F, Fut>(self, method: &str, f: F) -> Self
    where
        A: serde::de::DeserializeOwned + Send + 'static,
        T: serde::Serialize,
        F: Fn(Caller, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, String>> + Send + 'static,
    {
        let handler = move |caller, args: Bytes| {
            // What the arguments are is found out by whoever runs the handler, not by the driver.
            let begun = super::typed::read::<A>(&args).map(|args| f(caller, args));
            async move {
                let result =
                    begun.map_err(|why| format!("cannot read the arguments: {why}"))?.await?;
                super::typed::write(&result)
                    .map_err(|why| format!("cannot write the result: {why}"))
            }
        };
        self.handle_bytes(method, handler)
    }

    /// Handles calls of `method` with bytes ([`Dispatcher::call_bytes`]). The empty name is for what a
    /// JGroups `MessageDispatcher` sends.
    #[must_use]
    pub fn handle_bytes<F, Fut>(mut self, method: &str, f: F) -> Self
    where
        F: Fn(Caller, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Bytes, String>> + Send + 'static,
    {
        let handler = Handler::Bytes(Box::new(move |caller, args| {
            let outcome = f(caller, args);
            Box::pin(async move { outcome.await.map(Reply::Bytes) })
        }));
        self.handlers.insert(method.into(), handler);
        self
    }

    /// Handles calls of `method` with values of JGroups, as its `RpcDispatcher` makes them
    /// ([`Dispatcher::call_values`]). To Java an `Err` is a `RuntimeException` with this text. What is
    /// no value of JGroups comes as an opaque blob ([`ObjectValue::JavaSerialized`]).
    #[must_use]
    pub fn handle_values<F, Fut>(mut self, method: impl Into<MethodName>, f: F) -> Self
    where
        F: Fn(Caller, Vec<ObjectValue>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ObjectValue, String>> + Send + 'static,
    {
        let handler = Handler::Values(Box::new(move |caller, args| {
            let outcome = f(caller, args);
            Box::pin(async move { outcome.await.map(reply_of) })
        }));
        self.handlers.insert(method.into(), handler);
        self
    }

    /// How many threads run handlers, at most; default 4. They are started when needed. One is enough
    /// for handlers that do not block.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Begins to run handlers on the thread of the channel. A call of a handler that never waits then
    /// takes about half the time, as no other thread is woken for it, and such handlers run one after
    /// the other, in the order of the requests; one that waits for something goes on on the threads.
    ///
    /// A handler that computes for long or blocks its thread keeps the member from everything else,
    /// heartbeats included: for handlers of microseconds only.
    #[must_use]
    pub fn on_channel_thread(mut self) -> Self {
        self.place = Place::Channel;
        self
    }

    /// Runs handlers on an executor instead: `.spawn_with(|task| { tokio::spawn(task); })`. Called on
    /// the thread of the channel, so it must return at once.
    #[must_use]
    pub fn spawn_with(mut self, spawn: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.place = Place::Elsewhere(Box::new(spawn));
        self
    }

    /// Begins to answer calls, in place of a dispatcher that the channel had before.
    pub fn build(self) -> Dispatcher {
        let Self { channel, handlers, place, threads } = self;
        let inner = Arc::new_cyclic(|inner| {
            let service = Arc::new(Service::new(handlers, place, threads, inner.clone()));
            Inner { channel, service }
        });
        let service = Some(Arc::clone(&inner.service));
        let shared = inner.channel.shared();
        let old = std::mem::replace(
            &mut *shared.service.lock().unwrap_or_else(PoisonError::into_inner),
            service,
        );
        drop(old);
        Dispatcher { inner }
    }
}

impl Dispatcher {
    /// Starts to configure a dispatcher.
    pub fn builder(channel: &Channel) -> DispatcherBuilder {
        DispatcherBuilder {
            channel: channel.clone(),
            handlers: HashMap::new(),
            place: Place::Threads,
            threads: THREADS,
        }
    }

    /// Its channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.inner.channel
    }

    /// Calls a method of one member.
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up: a request that flow control has not admitted is not
    /// sent, one that has left is carried out all the same.
    #[cfg(feature = "rpc")]
    pub async fn call<A: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        to: Address,
        method: &str,
        args: A,
        options: CallOptions,
    ) -> Result<T, RpcError> {
        self.call_typed(to.into(), method, args, options).await?.into_only(to)
    }

    /// Calls a method of every member of the view, this one too, except
    /// [`CallOptions::exclude`].
    ///
    /// # Cancel safety
    /// As of [`Dispatcher::call`].
    #[cfg(feature = "rpc")]
    pub async fn call_all<A: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        args: A,
        options: CallOptions,
    ) -> Result<Responses<T>, RpcError> {
        self.call_typed(Targets::All, method, args, options).await
    }

    /// Calls a method of these members.
    ///
    /// # Cancel safety
    /// As of [`Dispatcher::call`].
    #[cfg(feature = "rpc")]
    pub async fn call_some<A: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        to: &[Address],
        method: &str,
        args: A,
        options: CallOptions,
    ) -> Result<Responses<T>, RpcError> {
        self.call_typed(to.into(), method, args, options).await
    }

    #[cfg(feature = "rpc")]
    async fn call_typed<A: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        to: Targets,
        method: &str,
        args: A,
        options: CallOptions,
    ) -> Result<Responses<T>, RpcError> {
        let args = super::typed::write(&args).map_err(|why| RpcError::Encode { why })?;
        let ask = Ask::Bytes { method: method.to_owned(), args };
        let rows = self.rows(to, ask, options).await?;
        let read = |reply| super::typed::read::<T>(&bytes_of(reply)?);
        Ok(Responses::new(rows, method, read))
    }

    /// Calls a method with bytes, which caller and callee understand.
    ///
    /// # Cancel safety
    /// As of [`Dispatcher::call`].
    pub async fn call_bytes(
        &self,
        to: impl Into<Targets>,
        method: &str,
        args: impl Into<Bytes>,
        options: CallOptions,
    ) -> Result<Responses<Bytes>, RpcError> {
        let ask = Ask::Bytes { method: method.to_owned(), args: args.into() };
        let rows = self.rows(to.into(), ask, options).await?;
        Ok(Responses::new(rows, method, bytes_of))
    }

    /// Calls a method with values of JGroups: of Java members with an `RpcDispatcher`, and of members
    /// of this toolkit that have a handler for it ([`DispatcherBuilder::handle_values`]).
    ///
    /// # Cancel safety
    /// As of [`Dispatcher::call`].
    pub async fn call_values(
        &self,
        to: impl Into<Targets>,
        call: ValueCall,
        options: CallOptions,
    ) -> Result<Responses<ObjectValue>, RpcError> {
        self.call_wire(to.into(), call.into_wire(), options).await
    }

    pub(crate) async fn call_wire(
        &self,
        to: Targets,
        call: MethodCall,
        options: CallOptions,
    ) -> Result<Responses<ObjectValue>, RpcError> {
        if !call.fits() {
            return Err(RpcError::Encode { why: "more than 255 arguments".to_owned() });
        }
        let method = match &call.method {
            Method::Named { name, .. } => name.clone(),
            Method::Numbered(number) => format!("number {number}"),
        };
        let rows = self.rows(to, Ask::Values(call), options).await?;
        Ok(Responses::new(rows, &method, |reply| Ok(value_of(reply))))
    }

    async fn rows(
        &self,
        to: Targets,
        ask: Ask,
        options: CallOptions,
    ) -> Result<Vec<Row>, RpcError> {
        let channel = &self.inner.channel;
        let CallOptions { wait, timeout, flags, exclude } = options;
        let to = match to {
            Targets::These(members) => Some(members.into_iter().map(|m| m.0).collect()),
            Targets::All if exclude.is_empty() => None,
            Targets::All => {
                let view = channel.view();
                let called = view.members().iter().filter(|m| !exclude.contains(m));
                Some(called.map(|m| m.0).collect())
            }
        };
        let by = channel.shared().clock.now() + timeout;
        let (reply, answer) = oneshot::channel();
        let make = |op| Request::Call {
            call: Box::new(Call { op, to, ask, wait, timeout, flags }),
            by,
            reply,
        };
        let op = channel.shared().inbox.ask(make).ok_or(SendError::Closed)?;
        match channel.waiting(op).answer(answer).await? {
            SendResult::Called(outcome) => Ok(outcome.rows),
            SendResult::Refused(SendRefusal::TooManyCalls { limit }) => {
                Err(RpcError::TooManyCalls { limit })
            }
            SendResult::Refused(why) => Err(refusal(why).into()),
            // Nothing else ends a call of a method.
            _ => Err(SendError::Closed.into()),
        }
    }
}
