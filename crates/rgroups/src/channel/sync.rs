//! Sending and waiting until others have received (RSVP).

use super::Channel;
use super::send::{line_of, refusal};
use crate::error::SendError;
use crate::inbox::Request;
use crate::{Address, Message};
use rgroups_core::app::{self, SyncEnd as CoreEnd};
use rgroups_core::{SendRefusal, SendResult};
use std::time::Duration;
use tokio::sync::oneshot;

pub use rgroups_core::SyncLevel;

/// What a synchronous send waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// What counts as received. Default: the application has consumed it.
    pub level: SyncLevel,
    /// How long to wait, counted from the call; `None`: for ever (but never for members that leave,
    /// nor beyond the closing of the channel). Default 10 s.
    pub timeout: Option<Duration>,
    /// Whom to wait for; `None`: everybody the message goes to. A multicast that names some goes
    /// to these only.
    pub to: Option<Vec<Address>>,
}

impl Default for Sync {
    fn default() -> Self {
        Self { level: SyncLevel::OnDeliver, timeout: Some(Duration::from_secs(10)), to: None }
    }
}

/// How a synchronous send ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncOutcome {
    /// Who acknowledged.
    pub acknowledged: Vec<Address>,
    /// Of those, for whom stability (or the acknowledgement of the reliable layer) stands in:
    /// members of JGroups that did not answer, as their stack may have no RSVP.
    pub by_stability: Vec<Address>,
    /// Who left the view meanwhile.
    pub left: Vec<Address>,
    /// Who did neither.
    pub missing: Vec<Address>,
    /// Who received it and said that it could not handle it
    /// ([`Receiver::try_message`](crate::Receiver::try_message),
    /// [`Events::fail`](crate::Events::fail)), at level "delivered". They are neither acknowledged
    /// nor missing.
    pub failed: Vec<Address>,
    /// Why the wait ended.
    pub end: SyncEnd,
}

impl SyncOutcome {
    /// Whether nobody is missing: everybody acknowledged, left, or said that it failed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.end == SyncEnd::Complete
    }

    /// Whether everybody acknowledged who did not leave.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.is_complete() && self.failed.is_empty()
    }
}

/// Why a synchronous send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncEnd {
    /// Nobody is missing.
    Complete,
    /// The time was over. The message stays sent: sending it again may deliver it twice.
    TimedOut,
    /// The channel was closed.
    Closed,
    /// The time was over before flow control admitted the message: nothing was sent.
    NotSent,
}

impl Channel {
    /// Sends, and waits until every receiver has the message as `sync.level` says, or has left.
    /// That somebody is missing is no error: the outcome lists who acknowledged and who did not.
    ///
    /// With the default level a receiver acknowledges when its application has consumed the
    /// message, so waiting for a member that does not read its events waits for the timeout. Our own
    /// copy counts as acknowledged once it is in our own [`Events`](crate::Events).
    ///
    /// # Cancel safety
    /// Dropping the future before the message was admitted withdraws it; afterwards it gives up
    /// the wait only, and the message stays sent.
    pub async fn send_and_wait(
        &self,
        message: Message,
        sync: Sync,
    ) -> Result<SyncOutcome, SendError> {
        let inbox = &self.shared().inbox;
        let (line, cost) = line_of(&message);
        let deadline = sync.timeout.map(|t| self.shared().clock.now() + t);
        let message = message.into_wire();
        let make = |op| app::Send {
            op: Some(op),
            message,
            try_only: false,
            deadline,
            sync: Some(app::Sync {
                level: sync.level,
                timeout: sync.timeout,
                to: sync.to.map(|to| to.into_iter().map(|a| a.0).collect()),
            }),
        };
        let (op, answer) = inbox.call(line, cost, make).ok_or(SendError::Closed)?;
        match self.waiting(op).answer(answer).await? {
            SendResult::Synced(o) => Ok(o.into()),
            SendResult::Refused(SendRefusal::NotSent { by }) => Ok(SyncOutcome {
                acknowledged: Vec::new(),
                left: Vec::new(),
                missing: by.into_iter().map(Address).collect(),
                by_stability: Vec::new(),
                failed: Vec::new(),
                end: SyncEnd::NotSent,
            }),
            SendResult::Refused(r) => Err(refusal(r)),
            // Sent, and the stack has nothing that counts acknowledgements.
            _ => Err(SendError::NoRsvp),
        }
    }

    /// Waits until every member has delivered all multicasts that any member had sent when this was
    /// called: its application has consumed them (this member's own need only be in its
    /// [`Events`](crate::Events)). `None` waits for ever. Nobody is stopped from sending meanwhile,
    /// and what is sent later is not waited for; nor are unicasts.
    ///
    /// It costs four small messages for each other member. JGroups members cannot be asked: of theirs
    /// it covers what some other member had received, and they are reported in `by_stability` when
    /// STABLE says that they have everything, or as missing.
    ///
    /// Call it from a task that is not the reader of the events: two members that flush and do not
    /// read wait for each other.
    ///
    /// # Cancel safety
    /// Dropping the future gives the wait up.
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<SyncOutcome, SendError> {
        let (reply, answer) = oneshot::channel();
        let by = timeout.map(|t| self.shared().clock.now() + t);
        let ask = |op| Request::Flush { op, by, reply };
        let op = self.shared().inbox.ask(ask).ok_or(SendError::Closed)?;
        match self.waiting(op).answer(answer).await? {
            SendResult::Synced(o) => Ok(o.into()),
            SendResult::Refused(r) => Err(refusal(r)),
            _ => Err(SendError::NoRsvp),
        }
    }
}

impl From<app::SyncOutcome> for SyncOutcome {
    fn from(o: app::SyncOutcome) -> Self {
        let addresses = |list: Vec<_>| list.into_iter().map(Address).collect();
        Self {
            acknowledged: addresses(o.acknowledged),
            by_stability: addresses(o.by_stability),
            left: addresses(o.left),
            missing: addresses(o.missing),
            failed: addresses(o.failed),
            end: match o.end {
                CoreEnd::Complete => SyncEnd::Complete,
                CoreEnd::TimedOut => SyncEnd::TimedOut,
                // Nobody is left to hear that a call was abandoned.
                CoreEnd::Closed | CoreEnd::Abandoned => SyncEnd::Closed,
            },
        }
    }
}
