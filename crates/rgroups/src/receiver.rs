//! Callback style, for programs that are shaped like Java receivers.

use crate::events::Happening;
use crate::{Address, Event, Events, Message, Primacy, StateResponder, View, ViewId, block_on};
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::thread;

/// What a [`Receiver`] says of a message that it could not handle; any error becomes it, so `?` works.
/// A sender that waits with [`SyncLevel::OnDeliver`](crate::SyncLevel) is told that this member failed
/// ([`SyncOutcome::failed`](crate::SyncOutcome::failed)); nobody else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl<E: std::error::Error> From<E> for Failed {
    fn from(_: E) -> Self {
        Self
    }
}

/// Is called for what happens, one call at a time, in order. A message is consumed when its call
/// has returned, so a slow receiver slows senders; it may send, and wait for it.
pub trait Receiver: Send + 'static {
    /// A message arrived.
    fn message(&mut self, m: Message) -> impl Future<Output = ()> + Send;

    /// A message arrived, and may turn out to be more than the receiver can handle. Implement this
    /// for receivers that can fail; then [`Receiver::message`] is not called.
    fn try_message(&mut self, m: Message) -> impl Future<Output = Result<(), Failed>> + Send {
        async {
            self.message(m).await;
            Ok(())
        }
    }

    /// A view was installed.
    fn view(&mut self, v: View) -> impl Future<Output = ()> + Send {
        let _ = v;
        async {}
    }

    /// We were excluded and are joining anew.
    fn rejoining(&mut self, reason: String) -> impl Future<Output = ()> + Send {
        let _ = reason;
        async {}
    }

    /// A member was excluded, and whether all that survived it deliver the same of its last messages
    /// is not known ([`Event::TailUnknown`]).
    fn tail_unknown(&mut self, of: Vec<Address>) -> impl Future<Output = ()> + Send {
        let _ = of;
        async {}
    }

    /// Who comes into this view may not have delivered the same before it
    /// ([`Event::NotSynchronous`]).
    fn not_synchronous(&mut self, view: ViewId) -> impl Future<Output = ()> + Send {
        let _ = view;
        async {}
    }

    /// This member is about to exclude another one ([`Event::Suspected`]).
    fn suspected(
        &mut self,
        member: Address,
        by: Address,
        reason: String,
    ) -> impl Future<Output = ()> + Send {
        let _ = (member, by, reason);
        async {}
    }

    /// Whether the installed view is the primary one is known now, or not known any more
    /// ([`Event::Primary`]).
    fn primary(&mut self, view: ViewId, primacy: Primacy) -> impl Future<Output = ()> + Send {
        let _ = (view, primacy);
        async {}
    }

    /// A member asks for the state: what the calls before this one made of it. Without an
    /// implementation the other member hears that there is none.
    fn get_state(&mut self, request: StateResponder) -> impl Future<Output = ()> + Send {
        drop(request);
        async {}
    }

    /// A state that was fetched with [`Channel::fetch_state`](crate::Channel::fetch_state): it takes
    /// the place of what the calls before this one made. The caller gets it as well.
    fn set_state(&mut self, state: Bytes) -> impl Future<Output = ()> + Send {
        let _ = state;
        async {}
    }
}

/// Calls the receiver until the events end.
async fn run<R: Receiver>(mut events: Events, mut receiver: R) {
    while let Some(happening) = events.next_with_states().await {
        match happening {
            Happening::State(bytes) => receiver.set_state(bytes).await,
            Happening::Event(Event::View(v)) => receiver.view(v).await,
            Happening::Event(Event::Message(m)) => {
                if receiver.try_message(m).await.is_err() {
                    events.fail();
                }
            }
            Happening::Event(Event::Rejoining { reason }) => receiver.rejoining(reason).await,
            Happening::Event(Event::TailUnknown { of }) => receiver.tail_unknown(of).await,
            Happening::Event(Event::NotSynchronous { view }) => {
                receiver.not_synchronous(view).await
            }
            Happening::Event(Event::Suspected { member, by, reason }) => {
                receiver.suspected(member, by, reason).await;
            }
            Happening::Event(Event::Primary { view, primacy }) => {
                receiver.primary(view, primacy).await;
            }
            Happening::Event(Event::StateRequested(r)) => receiver.get_state(r).await,
        }
    }
}

/// A thread of its own for the receiver, so that it needs no executor.
pub(crate) fn spawn<R: Receiver>(events: Events, receiver: R) -> io::Result<()> {
    let name = "rgroups receiver".to_owned();
    thread::Builder::new().name(name).spawn(move || block_on(run(events, receiver)))?;
    Ok(())
}
