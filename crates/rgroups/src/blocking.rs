//! The same verbs for programs without an executor: each call parks the thread until it is done.

use crate::error::{CloseError, ConnectError, SendError};
use crate::state::{State, StateError, StateReader};
use crate::{Address, ChannelBuilder, Event, Message, Sync, SyncOutcome, block_on};
use std::time::Duration;

/// Joins, as [`ChannelBuilder::connect`].
pub fn connect(builder: ChannelBuilder, cluster: &str) -> Result<(Channel, Events), ConnectError> {
    let (ch, events) = block_on(builder.connect(cluster))?;
    Ok((Channel(ch), Events(events)))
}

/// Joins and fetches the state of another member, as [`ChannelBuilder::connect_with_state`].
pub fn connect_with_state(
    builder: ChannelBuilder,
    cluster: &str,
    timeout: Duration,
) -> Result<(Channel, Events, Option<State>), ConnectError> {
    let (ch, events, state) = block_on(builder.connect_with_state(cluster, timeout))?;
    Ok((Channel(ch), Events(events), state))
}

/// Joins and reads the state of another member piece by piece, as
/// [`ChannelBuilder::connect_with_state_stream`]; the pieces with `block_on(reader.next())`.
pub fn connect_with_state_stream(
    builder: ChannelBuilder,
    cluster: &str,
    timeout: Duration,
) -> Result<(Channel, Events, StateReader), ConnectError> {
    let (ch, events, state) = block_on(builder.connect_with_state_stream(cluster, timeout))?;
    Ok((Channel(ch), Events(events), state))
}

/// A channel whose calls park the thread. [`std::ops::Deref`] gives everything else.
///
/// ```no_run
/// use rgroups::{Channel, Config, Message, blocking};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (ch, events) = blocking::connect(Channel::builder(Config::udp()).name("A"), "demo")?;
/// ch.send(Message::multicast("hello"))?;
/// for ev in events {
///     println!("{ev:?}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Channel(crate::Channel);

impl Channel {
    /// As [`crate::Channel::send`].
    pub fn send(&self, message: Message) -> Result<(), SendError> {
        block_on(self.0.send(message))
    }

    /// As [`crate::Channel::send_and_wait`].
    pub fn send_and_wait(&self, message: Message, sync: Sync) -> Result<SyncOutcome, SendError> {
        block_on(self.0.send_and_wait(message, sync))
    }

    /// As [`crate::Channel::flush`].
    pub fn flush(&self, timeout: Option<Duration>) -> Result<SyncOutcome, SendError> {
        block_on(self.0.flush(timeout))
    }

    /// As [`crate::Channel::fetch_state`]. Give a state to others with
    /// `block_on(responder.send(..))`, see [`crate::StateResponder::send`].
    pub fn fetch_state(
        &self,
        from: Option<Address>,
        timeout: Duration,
    ) -> Result<Option<State>, StateError> {
        block_on(self.0.fetch_state(from, timeout))
    }

    /// As [`crate::Channel::close`].
    pub fn close(self) -> Result<(), CloseError> {
        block_on(self.0.close())
    }
}

impl std::ops::Deref for Channel {
    type Target = crate::Channel;

    fn deref(&self) -> &crate::Channel {
        &self.0
    }
}

/// The events as an iterator that parks the thread. A message counts as consumed when the next one
/// is asked for.
#[derive(Debug)]
pub struct Events(crate::Events);

impl Events {
    /// As [`crate::Events::fail`].
    pub fn fail(&mut self) {
        self.0.fail();
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        block_on(self.0.next())
    }
}
