//! Who waits for a message to leave (tokens, on the way down) and who counts that it was taken
//! (receipts, on the way up).

use crate::Uuid;

/// A call of the application, numbered by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// The promise that somebody will be told when a message was admitted or refused. It rides in the
/// message; whoever keeps the message keeps it, whoever lets go of the message resolves it through
/// [`crate::Cx::resolve`]. Copies of a message carry none. The stack counts tokens made and
/// resolved: at rest the two are equal.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a token that is dropped leaves its owner waiting for ever"]
pub struct SendToken {
    pub(crate) owner: Owner,
    pub(crate) key: u64,
    pub(crate) op: Option<OpId>,
}

impl SendToken {
    /// The application's call behind this token: its own, or one that a layer rides in place of it.
    #[must_use]
    pub fn op(&self) -> Option<OpId> {
        self.op
    }
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    App,
    Layer(u8),
}

/// Which flow-control account a received message was counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Not counted.
    #[default]
    Exempt,
    /// Multicast flow control (MFC).
    Multicast,
    /// Unicast flow control (UFC).
    Unicast,
    /// That of the member that has ordered it; SEQUENCER knows whose.
    Ordered,
}

/// When a synchronous send counts as received by a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncLevel {
    /// The message is in the member's window, perhaps behind others that are missing.
    OnReceive,
    /// It and everything that its sender sent before it (to all, or to this member) is there, also
    /// if it is out of band.
    OnContiguous,
    /// The application has consumed it, and everything that its sender sent before it.
    #[default]
    OnDeliver,
}

/// A synchronous send that the consumption of a message must acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RsvpTag {
    /// The id as it travelled.
    pub id: i16,
}

/// What is owed when a received message is consumed. Attached by flow control and RSVP on the way
/// up, summed into a [`Consumed`] by whoever takes the message out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The account.
    pub pool: Pool,
    /// Which incarnation of the account: a receipt of an earlier one returns no credit.
    pub epoch: u32,
    /// Bytes to return.
    pub bytes: u32,
    /// A synchronous send to acknowledge.
    pub rsvp: Option<RsvpTag>,
    /// Where RSVP counts the message until it is consumed; 0: nowhere.
    pub place: u32,
    /// The message was put together by fragmentation, which numbers such messages and waits for
    /// their consumption (DECISIONS 15).
    pub reassembled: Option<u32>,
}

/// The application, or a layer that absorbs messages, is done with messages of `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumed {
    /// The sender.
    pub from: Uuid,
    /// The account.
    pub pool: Pool,
    /// Its incarnation.
    pub epoch: u32,
    /// Bytes consumed.
    pub bytes: u64,
    /// Messages consumed.
    pub messages: u32,
    /// A synchronous send to acknowledge.
    pub rsvp: Option<RsvpTag>,
    /// Where RSVP counted them; 0: nowhere.
    pub place: u32,
    /// The application could not handle the message that `rsvp` names: its sender is told so.
    pub failed: bool,
    /// The number of the message, if it was put together by fragmentation.
    pub reassembled: Option<u32>,
}

impl Consumed {
    /// One consumed message.
    #[must_use]
    pub fn one(from: Uuid, r: Receipt) -> Self {
        Self {
            from,
            pool: r.pool,
            epoch: r.epoch,
            bytes: u64::from(r.bytes),
            messages: 1,
            rsvp: r.rsvp,
            place: r.place,
            failed: false,
            reassembled: r.reassembled,
        }
    }

    /// Adds `other` if it is of the same account and nobody waits for it in particular.
    pub fn absorb(&mut self, other: &Consumed) -> bool {
        let account = |c: &Consumed| (c.from, c.pool, c.epoch, c.place);
        let same = account(self) == account(other);
        if !same || other.rsvp.is_some() || other.reassembled.is_some() {
            return false;
        }
        self.bytes += other.bytes;
        self.messages += other.messages;
        true
    }
}
