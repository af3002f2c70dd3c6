//! The application's state: fetched from another member, given to others.
//!
//! How it travels depends on the protocol in the stack ([`Form`]); what the application sees does
//! not. A state can be had whole, or in pieces as it comes, and be given in the same two ways.

mod cut;
mod error;
mod form;
mod give;
mod socket;
mod take;

pub(crate) use cut::Cut;
pub use error::{StateAttempt, StateError};
pub(crate) use form::Form;
pub(crate) use give::Outlet;
pub use give::{StateResponder, StateWriter};
pub(crate) use socket::{Acceptor, fetch as fetch_from_socket};
pub(crate) use take::{Fetched, Inflow};
pub use take::{StatePart, StateReader};

use crate::Address;
use crate::channel::Channel;
use crate::inbox::Request;
use crate::shared::Shared;
use bytes::Bytes;
use rgroups_core::{Command, OpId};
use std::time::Duration;
use tokio::sync::oneshot;

/// The state of another member, as it was when that member read its [`StateResponder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    provider: Address,
    bytes: Bytes,
}

impl State {
    /// Who gave it.
    #[must_use]
    pub fn provider(&self) -> Address {
        self.provider
    }

    /// What it is.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it is, taken.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Gives a call up when its future is dropped before the answer came.
struct Waiting<'a> {
    shared: &'a Shared,
    op: OpId,
    answered: bool,
}

impl Waiting<'_> {
    /// `None`: the driver ended.
    async fn answer<T>(mut self, answer: oneshot::Receiver<T>) -> Option<T> {
        let answer = answer.await;
        self.answered = true;
        answer.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.inbox.push(Request::Command(Command::Cancel(self.op)));
        }
    }
}

impl Channel {
    /// Asks `from` for its state, or, with `None`, the members in the order of the view until one
    /// gives it: when one leaves or refuses, the next is asked. `Ok(None)`: there is nobody else, or
    /// the provider has nothing to give.
    ///
    /// The state and the [`Events`](crate::Events) fit together exactly: put the state in the place
    /// of what you have when this returns, before you read the next event. From then on `Events`
    /// has every ordered multicast that the state does not contain, and no other; until then it
    /// gives no new ones. (An out-of-band multicast may be in the state and in the events too.) Where
    /// another task reads the events, let it also put the state in place, or use a
    /// [`Receiver`](crate::Receiver), whose `set_state` is called at the right place.
    ///
    /// Ends with an error after `timeout`. With STATE_TRANSFER it never lasts longer than
    /// BARRIER.max_close_time (60 s), because senders may have to wait meanwhile; with STATE and
    /// STATE_SOCK it is that long at most without anything moving.
    ///
    /// A state that is larger than memory: [`Channel::fetch_state_stream`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the transfer up; nothing is lost.
    pub async fn fetch_state(
        &self,
        from: Option<Address>,
        timeout: Duration,
    ) -> Result<Option<State>, StateError> {
        StateReader::ask(self.shared(), from, timeout)?.whole().await
    }

    /// As [`Channel::fetch_state`], piece by piece: with STATE or STATE_SOCK in the stack, a state
    /// of any size needs little memory on both sides (with STATE_TRANSFER it comes in one piece).
    /// When a provider leaves, refuses or says nothing more, the next one is asked, and the reader
    /// says [`StatePart::Begins`] again.
    ///
    /// What was said of the state and the events is true from when the reader says that there is
    /// nothing more.
    pub fn fetch_state_stream(
        &self,
        from: Option<Address>,
        timeout: Duration,
    ) -> Result<StateReader, StateError> {
        StateReader::ask(self.shared(), from, timeout)
    }
}
