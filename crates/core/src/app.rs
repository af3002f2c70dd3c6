//! The upper boundary of a stack: what the application asks, and what it is told.

use crate::{Consumed, Message, OpId, SyncLevel, Time, Uuid, View, wire};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// A request of the application (or of the driver on its behalf).
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Join `cluster`. Answered by [`AppEvent::View`] with the first view, or
    /// [`AppEvent::ConnectFailed`].
    Connect {
        /// The cluster name.
        cluster: Bytes,
    },
    /// Leave. Answered by [`AppEvent::Disconnected`].
    Disconnect,
    /// Send a message.
    Send(Send),
    /// The call is no longer wanted: a message that was not admitted is withdrawn
    /// ([`SendRefusal::Withdrawn`]); one that was goes out, and only the wait ends.
    Cancel(OpId),
    /// The application consumed deliveries.
    Consumed(Vec<Consumed>),
}

/// A message to send, and how.
#[derive(Debug)]
pub struct Send {
    /// The call to answer with [`AppEvent::Resolved`]; `None`: nobody waits.
    pub op: Option<OpId>,
    /// The message. Headers and source are set by the stack.
    pub message: wire::Message,
    /// Refuse instead of waiting: answer [`SendRefusal::WouldBlock`].
    pub try_only: bool,
    /// Withdraw the message if it is not admitted by then.
    pub deadline: Option<Time>,
    /// Wait for acknowledgements.
    pub sync: Option<Sync>,
}

/// A synchronous send.
#[derive(Clone, Debug)]
pub struct Sync {
    /// What counts as received.
    pub level: SyncLevel,
    /// How long to wait from the call on; `None`: for ever.
    pub timeout: Option<Duration>,
    /// Whom to wait for; `None`: everybody the message goes to.
    pub to: Option<Vec<Uuid>>,
}

/// A synchronous send on its way to RSVP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// What counts as received.
    pub level: SyncLevel,
    /// When the wait ends; `None`: never.
    pub until: Option<Time>,
    /// Whom to wait for; `None`: everybody the message goes to.
    pub to: Option<Vec<Uuid>>,
}

/// What the application is told, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppEvent {
    /// A view was installed.
    View(Arc<View>),
    /// Messages.
    Deliver(Delivery),
    /// A call ended.
    Resolved {
        /// The call.
        op: OpId,
        /// How.
        result: SendResult,
    },
    /// The join failed for good.
    ConnectFailed {
        /// Why, in words.
        reason: Arc<str>,
    },
    /// The leave is complete; `confirmed` says whether the coordinator answered.
    Disconnected {
        /// The coordinator let us go (or there was nobody else).
        confirmed: bool,
    },
    /// A call waits for credit since `since`.
    Blocked {
        /// The call, if somebody waits for it.
        op: Option<OpId>,
        /// Who limits it; may be this member itself.
        by: Vec<Uuid>,
        /// Since when.
        since: Time,
    },
    /// We were excluded and are joining anew.
    Rejoining {
        /// Why, in words.
        reason: Arc<str>,
    },
}

/// Messages handed to the application.
#[derive(Debug)]
pub struct Delivery {
    /// The sender.
    pub from: Uuid,
    /// To the group or to this member.
    pub multicast: bool,
    /// The messages with their receipts.
    pub messages: Vec<Message>,
}

impl Delivery {
    /// What to submit when all of it is consumed.
    #[must_use]
    pub fn consumed(&self) -> Vec<Consumed> {
        let mut out: Vec<Consumed> = Vec::new();
        for m in &self.messages {
            let one = Consumed::one(self.from, m.receipt);
            let absorbed = out.last_mut().is_some_and(|last| last.absorb(&one));
            if !absorbed {
                out.push(one);
            }
        }
        out
    }
}

/// How a send ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendResult {
    /// Flow control admitted the message; it will be delivered to every member that stays.
    Sent,
    /// A synchronous send ended.
    Synced(SyncOutcome),
    /// It was not sent.
    Refused(SendRefusal),
}

/// The end of a synchronous send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOutcome {
    /// Who acknowledged.
    pub acknowledged: Vec<Uuid>,
    /// Who left the view meanwhile.
    pub left: Vec<Uuid>,
    /// Who did neither.
    pub missing: Vec<Uuid>,
    /// Why the wait ended.
    pub end: SyncEnd,
}

/// Why the wait for acknowledgements ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncEnd {
    /// Nobody is missing.
    Complete,
    /// The time was over; the message stays sent.
    TimedOut,
    /// The channel was closed.
    Closed,
    /// The caller gave the wait up; the message stays sent.
    Abandoned,
}

/// Why a message was not sent. None of these uses up a sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendRefusal {
    /// The channel is closed, or not yet connected.
    Closed,
    /// The destination is not in the view.
    NotMember(Uuid),
    /// The message is larger than this stack can carry.
    TooLarge {
        /// Its payload.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// It would have to wait, and was not to.
    WouldBlock {
        /// Who limits it.
        by: Vec<Uuid>,
    },
    /// The deadline came before it was admitted.
    NotSent {
        /// Who limited it.
        by: Vec<Uuid>,
    },
    /// The call was given up before it was admitted.
    Withdrawn,
    /// Acknowledgements were asked for, and no layer of this stack collects them.
    NoRsvp,
}
