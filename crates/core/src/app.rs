//! The upper boundary of a stack: what the application asks, and what it is told.

use crate::protocols::counter::{CounterCall, CounterFailure};
use crate::protocols::lock::{LockCall, LockFailure, LockLoss};
use crate::rpc::{Call, CallAnswer, CallOutcome, Requested};
use crate::{
    Consumed, Message, OpId, Primacy, Row, Suspicion, SyncLevel, Time, Uuid, View, ViewId, wire,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
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
    /// Call a method at other members. Answered with [`SendResult::Called`].
    Call(Box<Call>),
    /// The answer to [`AppEvent::Requested`].
    AnswerRequest {
        /// The number of the request.
        request: u64,
        /// What is answered.
        answer: CallAnswer,
    },
    /// Do something with a counter. Answered with [`SendResult::Counted`].
    Counter(CounterCall),
    /// Acquire a lock, or give it back. Answered with [`SendResult::Locked`] or
    /// [`SendResult::Unlocked`]; what is lost is told with [`AppEvent::LockLost`].
    Lock(LockCall),
    /// Wait until everybody has delivered all multicasts that anybody had sent before this call.
    /// Answered with [`SendResult::Synced`].
    Flush {
        /// The call.
        op: OpId,
        /// How long to wait; `None`: for ever.
        timeout: Option<Duration>,
    },
    /// The application consumed deliveries.
    Consumed(Vec<Consumed>),
    /// Ask another member for its state. Answered by [`AppEvent::StateFetched`].
    FetchState(FetchState),
    /// The answer to [`AppEvent::StateRequested`].
    AnswerState(AnswerState),
    /// What became of the parts of a state that were told ([`AppEvent::StatePart`]).
    TakeState(TakeState),
}

/// A call for the state of another member (state transfer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchState {
    /// The call.
    pub op: OpId,
    /// Whom to ask; `None`: the members in the order of the view, until one gives it.
    pub from: Option<Uuid>,
    /// How long it may take, counted from when there is a view.
    pub timeout: Duration,
}

/// The application's state, or a part of it, for a member that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerState {
    /// The call to answer with [`AppEvent::Resolved`]; `None`: nobody waits.
    pub op: Option<OpId>,
    /// The number of the request.
    pub request: u64,
    /// Who asked.
    pub to: Uuid,
    /// What there is.
    pub answer: StateAnswer,
}

/// One step of an answer. Those of one request come in order: the whole state, or a beginning, parts
/// and an end; a refusal at any time. STATE_TRANSFER takes whole states only, STATE_SOCK no parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateAnswer {
    /// The state, which may be none.
    Whole(Option<Bytes>),
    /// A state follows: in parts (STATE), or over a connection to this socket (STATE_SOCK).
    Begins {
        /// Where the other member is to connect.
        socket: Option<SocketAddr>,
    },
    /// The next bytes. How far they have left is told with [`AppEvent::StateSent`]; more than a
    /// little ahead of that only fills memory.
    Part(Bytes),
    /// That was all.
    Ends,
    /// There is no state, or no more of it, and why.
    Refused(Arc<str>),
}

/// What the application did with the parts of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeState {
    /// The call.
    pub op: OpId,
    /// As [`AppEvent::StateBegins`] said; what is said of an earlier attempt is ignored.
    pub attempt: u64,
    /// What.
    pub taken: Taken,
}

/// How far an application has taken a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has taken so many bytes from the beginning on; over a connection, so many have come.
    Bytes(u64),
    /// It has all of it. Only now the call ends.
    All,
    /// The connection failed (STATE_SOCK): somebody else is asked.
    Failed(Arc<str>),
}

/// The state of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedState {
    /// Who gave it.
    pub provider: Uuid,
    /// What it gave; `None` also for a state that came in parts.
    pub state: Option<Bytes>,
    /// What it contains: of each sender, all ordered multicasts up to this number.
    pub contains: Vec<(Uuid, i64)>,
}

/// Why there is no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFailure {
    /// What happened in the end.
    pub end: StateEnd,
    /// Who was asked, in order, and what became of it.
    pub tried: Vec<StateAttempt>,
}

/// How a call for a state ended without one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateEnd {
    /// Nobody who was asked gave it.
    NoProvider,
    /// The time was over.
    TimedOut {
        /// After so long.
        after: Duration,
    },
    /// The member that was to be asked is not in the view.
    NotMember(Uuid),
    /// Another call is running.
    Busy,
    /// The stack has no protocol for it.
    NotInStack,
    /// The caller gave it up.
    Withdrawn,
    /// The channel is closed.
    Closed,
    /// The application took nothing of what had come.
    NotTaken {
        /// For so long.
        after: Duration,
    },
}

/// A member that was asked for its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAttempt {
    /// Who.
    pub provider: Uuid,
    /// How many bytes of its state had come. They count for nothing.
    pub bytes: u64,
    /// What became of it.
    pub outcome: StateOutcome,
}

/// What became of one question for a state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateOutcome {
    /// There was no answer.
    Unanswered,
    /// The member left the view.
    Left,
    /// The member said why not.
    Refused(Arc<str>),
    /// Its state was older than what was delivered here already.
    Behind,
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
    /// The same of messages that differ in payload alone; [`Delivery::from`] makes one of the other.
    Row(Row),
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
    /// A call is the next to leave and waits for credit. While those before it leave, it is not.
    Blocked {
        /// The call, if somebody waits for it.
        op: Option<OpId>,
        /// Who limits it; may be this member itself.
        by: Vec<Uuid>,
        /// Since when it is the next.
        since: Time,
    },
    /// We were excluded and are joining anew.
    Rejoining {
        /// Why, in words.
        reason: Arc<str>,
    },
    /// Not all survivors could be asked what they hold of these former members, or something that
    /// one of them holds could not be had: whether all survivors deliver the same of them is not
    /// known. Told before the view without the former members.
    TailUnknown {
        /// The former members.
        of: Vec<Uuid>,
    },
    /// This member is about to exclude another one. Told before the view without it, unless it is
    /// heard of in the last moment.
    Suspected(Suspicion),
    /// This change of the view is not synchronous, although this member wants that: a member of the
    /// new view does not take part (`GMS.view_synchrony`), or nobody answered in time. Told before
    /// the view.
    NotSynchronous {
        /// The new view.
        view: ViewId,
    },
    /// Delivered multicasts of this member had to go before they were stable, because there was no
    /// room: they cannot be served to others when their sender is gone. Told once per window.
    KeptNoLonger {
        /// Whose.
        of: Uuid,
    },
    /// This member forms a group of its own. Told before its first view.
    Founded {
        /// Whom it looked for, who answered and what came of it, in words.
        how: Arc<str>,
    },
    /// `by` asks for the application's state. What is told before this event belongs into it, what
    /// is told after it does not. To be answered by [`Command::AnswerState`].
    StateRequested {
        /// The number of the request.
        request: u64,
        /// Who asks.
        by: Uuid,
    },
    /// A member calls a method of the application. To be answered by
    /// [`Command::AnswerRequest`]; what is told before this event need not have been sent before it.
    Requested(Box<Requested>),
    /// A call for a state ended. Messages that the state contains are not told any more.
    StateFetched {
        /// The call.
        op: OpId,
        /// The state; `None` for the first member of a group.
        result: Result<Option<FetchedState>, StateFailure>,
    },
    /// `provider` begins to give its state in parts. What was told before of this call, by another
    /// member, is void: the application begins anew too. Answered by [`Command::TakeState`].
    StateBegins {
        /// The call.
        op: OpId,
        /// Which attempt this is.
        attempt: u64,
        /// Who gives it.
        provider: Uuid,
        /// Where the state is to be read from (STATE_SOCK).
        socket: Option<SocketAddr>,
    },
    /// The next bytes of the state that began last.
    StatePart {
        /// The call.
        op: OpId,
        /// The bytes.
        bytes: Bytes,
    },
    /// The provider has said that this is all. The call ends when the application has it.
    StateEnds {
        /// The call.
        op: OpId,
    },
    /// So many bytes of the state for `request` have left.
    StateSent {
        /// The number of the request.
        request: u64,
        /// From the beginning of the state.
        bytes: u64,
    },
    /// Nothing more is wanted for `request`.
    StateAbandoned {
        /// The number of the request.
        request: u64,
        /// Why, in words.
        why: Arc<str>,
    },
    /// What was acquired by the call `hold` is not had any more, although it was not given back.
    LockLost {
        /// The call by which it was acquired.
        hold: OpId,
        /// Why.
        why: LockLoss,
    },
    /// A synchronous send is about to wait for a member of another toolkit that has acknowledged
    /// nothing so far and may have no RSVP. Told once.
    MayHaveNoRsvp {
        /// The member.
        member: Uuid,
    },
    /// What this member says of its view changed. A view begins as [`Primacy::Unknown`].
    Primary {
        /// The view.
        view: ViewId,
        /// What is said of it.
        primacy: Primacy,
    },
    /// This member has other rules for primary views than we: none can be agreed on with it.
    PrimaryRulesDiffer {
        /// The member.
        member: Uuid,
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
    /// A call of a method ended.
    Called(CallOutcome),
    /// Something was asked of a counter.
    Counted(Result<i64, CounterFailure>),
    /// A lock was acquired, with this token, or not.
    Locked(Result<u64, LockFailure>),
    /// A lock was given back.
    Unlocked(Result<(), LockFailure>),
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
    /// Who received it and said that the application could not handle it.
    pub failed: Vec<Uuid>,
    /// Of those in `acknowledged`, for whom stability or the acknowledgement of the reliable layer
    /// stands in: members of other toolkits that did not answer.
    pub by_stability: Vec<Uuid>,
    /// Who did none of it.
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
    /// So many calls of this member are unanswered.
    TooManyCalls {
        /// The limit.
        limit: u64,
    },
    /// Acknowledgements were asked for, and no layer of this stack collects them.
    NoRsvp,
    /// This member's view is not the primary one, and PRIMARY is configured to refuse.
    NotPrimary,
}
