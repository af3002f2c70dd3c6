//! Sending, as far as flow control lets it.

use super::Channel;
use crate::error::{SendError, TrySendError};
use crate::inbox::{Attempt, Inbox, Line, Request, cost_of};
use crate::{Address, Message, Primacy};
use rgroups_core::wire::{self, Flags};
use rgroups_core::{Command, OpId, SendRefusal, SendResult, app};
use tokio::sync::oneshot;

/// What [`Channel::try_send`] returns.
pub type TrySend = Result<(), TrySendError>;

/// Withdraws a call when its future is dropped before the answer came.
pub(crate) struct Waiting<'a> {
    inbox: &'a Inbox,
    op: OpId,
    answered: bool,
}

impl Waiting<'_> {
    pub(crate) async fn answer(
        mut self,
        answer: oneshot::Receiver<SendResult>,
    ) -> Result<SendResult, SendError> {
        let result = answer.await;
        self.answered = true;
        // The driver ended without an answer: it was stopped.
        result.map_err(|_| SendError::Closed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.inbox.push(Request::Command(Command::Cancel(self.op)));
        }
    }
}

/// Which line a message stands in, and what it costs there.
pub(super) fn line_of(message: &Message) -> (Line, u64) {
    let line = match message.dest() {
        _ if message.flags().contains(Flags::NO_FC) => Line::Free,
        None => Line::Multicast,
        Some(to) => Line::Unicast(to.0),
    };
    (line, cost_of(message.len()))
}

pub(crate) fn refusal(r: SendRefusal) -> SendError {
    match r {
        SendRefusal::NotMember(m) => SendError::NotMember(Address(m)),
        SendRefusal::TooLarge { size, limit } => SendError::TooLarge { size, limit },
        SendRefusal::NoRsvp => SendError::NoRsvp,
        SendRefusal::NotPrimary => SendError::NotPrimary,
        SendRefusal::NotSent { by } => {
            SendError::SlowMember { by: by.into_iter().map(Address).collect() }
        }
        // The other refusals answer what this crate does not ask for: attempts, and withdrawals of
        // calls that somebody still waits for. They happen when a channel closes.
        _ => SendError::Closed,
    }
}

impl Channel {
    /// Sends: waits until flow control admits the message, which is at once unless a receiver is
    /// slow. `Ok` means accepted, not delivered: the message will be delivered to every member of
    /// the view it is sent in that stays. For "delivered" see [`Channel::send_and_wait`].
    ///
    /// Regular messages leave in the order of these calls (per destination for unicasts, in one
    /// line for multicasts).
    ///
    /// # Cancel safety
    /// All or nothing: if the future is dropped before it resolves, either nothing is sent, or, if
    /// the message was admitted in that very moment, it is sent whole. Never half, never twice.
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        let inbox = &self.shared().inbox;
        let (line, cost) = line_of(&message);
        if let Some(stranger) = self.stranger(line, &message) {
            return Err(SendError::NotMember(stranger));
        }
        let size = message.len();
        let mut message = message.into_wire();
        // What the stack may refuse for its size, or for its view, is asked about.
        if size <= self.shared().admits_up_to && !self.shared().is_outside() {
            match inbox.attempt(line, message, cost, false) {
                Attempt::Admitted => return Ok(()),
                Attempt::Closed => return Err(SendError::Closed),
                // It waits in the queue, so that nobody who comes later overtakes it.
                Attempt::Crowded(m) | Attempt::NoCredit(m, _) => message = m,
            }
        }
        match self.submit(line, cost, message).await? {
            SendResult::Refused(r) => Err(refusal(r)),
            _ => Ok(()),
        }
    }

    async fn submit(
        &self,
        line: Line,
        cost: u64,
        message: wire::Message,
    ) -> Result<SendResult, SendError> {
        let inbox = &self.shared().inbox;
        let make =
            |op| app::Send { op: Some(op), message, try_only: false, deadline: None, sync: None };
        let (op, answer) = inbox.call(line, cost, make).ok_or(SendError::Closed)?;
        Waiting { inbox, op, answered: false }.answer(answer).await
    }

    /// The destination of a message that enters without an answer, if it is no member: nobody
    /// would hear that the stack refused it.
    fn stranger(&self, line: Line, message: &Message) -> Option<Address> {
        let to = message.dest().filter(|_| line == Line::Free)?;
        (self.is_open() && !self.view().contains(to)).then_some(to)
    }

    pub(crate) fn waiting(&self, op: OpId) -> Waiting<'_> {
        Waiting { inbox: &self.shared().inbox, op, answered: false }
    }

    /// Sends if that is possible without waiting; otherwise gives the message back and says who
    /// limits. A message larger than all credit there can be is taken when nothing else waits.
    /// The first unicast to a member may be refused although there is credit: [`Channel::send`]
    /// opens the way.
    pub fn try_send(&self, message: Message) -> TrySend {
        let (line, cost) = line_of(&message);
        if let Some(stranger) = self.stranger(line, &message) {
            return Err(SendError::NotMember(stranger).into());
        }
        if self.shared().is_outside() {
            return Err(match self.primacy() {
                Some(Primacy::No) => SendError::NotPrimary.into(),
                Some(Primacy::Unknown | Primacy::Yes) | None => {
                    TrySendError::NoCredits { blocked_on: None, message: Box::new(message) }
                }
            });
        }
        let back = message.clone();
        match self.shared().inbox.attempt(line, message.into_wire(), cost, true) {
            Attempt::Admitted => Ok(()),
            Attempt::Closed => Err(SendError::Closed.into()),
            Attempt::NoCredit(_, blocked_on) => {
                if let Some(to) = back.dest().filter(|to| !self.view().contains(*to)) {
                    return Err(SendError::NotMember(to).into());
                }
                Err(TrySendError::NoCredits { blocked_on, message: Box::new(back) })
            }
            Attempt::Crowded(_) => Err(TrySendError::NoCredits {
                blocked_on: Some(self.address()),
                message: Box::new(back),
            }),
        }
    }
}
