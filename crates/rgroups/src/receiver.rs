//! Callback style, for programs that are shaped like Java receivers.

use crate::{Event, Events, Message, View, block_on};
use std::future::Future;
use std::io;
use std::thread;

/// Is called for what happens, one call at a time, in order. A message is consumed when its call
/// has returned, so a slow receiver slows senders; it may send, and wait for it.
pub trait Receiver: Send + 'static {
    /// A message arrived.
    fn message(&mut self, m: Message) -> impl Future<Output = ()> + Send;

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
}

/// Calls the receiver until the events end.
async fn run<R: Receiver>(mut events: Events, mut receiver: R) {
    while let Some(ev) = events.next().await {
        match ev {
            Event::View(v) => receiver.view(v).await,
            Event::Message(m) => receiver.message(m).await,
            Event::Rejoining { reason } => receiver.rejoining(reason).await,
        }
    }
}

/// A thread of its own for the receiver, so that it needs no executor.
pub(crate) fn spawn<R: Receiver>(events: Events, receiver: R) -> io::Result<()> {
    let name = "rgroups receiver".to_owned();
    thread::Builder::new().name(name).spawn(move || block_on(run(events, receiver)))?;
    Ok(())
}
