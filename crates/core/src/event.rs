//! What layers tell each other (events, in order, changing state) and ask each other (queries,
//! answered at once by `&self`).

use crate::app::{AnswerState, FetchState, TakeState};
use crate::protocol::Service;
use crate::protocols::counter::CounterCall;
use crate::protocols::lock::LockCall;
use crate::wire::PingData;
use crate::{Digest, OpId, Pool, Suspicion, Uuid, View, ViewId};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Direction of travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Towards the network.
    Down,
    /// Towards the application.
    Up,
}

/// Something that happened. Travels layer by layer; a layer may stop it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Down, from the application: join the group.
    Connect,
    /// Down, from the application: leave the group.
    Disconnect,
    /// Down, then up, from GMS: this view is installed. `Group::view` already shows it.
    View(Arc<View>),
    /// Down, from GMS at a coordinator: this view is about to be multicast; create what joiners
    /// need.
    PendingView(Arc<View>),
    /// Down, from GMS: the join is complete, data may be delivered.
    BecomeServer,
    /// Up: these members are suspected. Below VERIFY_SUSPECT unverified, above it verified.
    Suspect(Vec<Suspicion>),
    /// Down, from VERIFY_SUSPECT: these members are suspected and being asked.
    Verify(Vec<Uuid>),
    /// Up or down: these members are alive after all.
    Unsuspect(Vec<Uuid>),
    /// Down, from GMS: create windows for the members of this digest that have none.
    SetDigest(Digest),
    /// Down, from GMS at a merge: as `SetDigest`, and jump forward where the digest is ahead.
    MergeDigest(Digest),
    /// Down, from state transfer: replace all windows but the own one.
    OverwriteDigest(Digest),
    /// Down, from STABLE: everybody has these (delivered) numbers; `received` is the highest
    /// number anybody had.
    Stable(Digest),
    /// Down, from GMS or state transfer: send no stability reports until `ResumeStable`, or for at
    /// most this long.
    SuspendStable(core::time::Duration),
    /// Down: reports go on.
    ResumeStable,
    /// Down to discovery: find members.
    FindMembers {
        /// Who asks; comes back with the answers.
        purpose: Purpose,
        /// Who is looked for; `None`: everybody.
        wanted: Option<Vec<Uuid>>,
    },
    /// Up from discovery: what was found. For [`Purpose::Join`] once, when the wait is over; for
    /// the others once per answer.
    Found {
        /// Who asked.
        purpose: Purpose,
        /// What answered.
        members: Vec<Found>,
    },
    /// Up from the transport to discovery: messages for this member wait for its address.
    WhoHas(Uuid),
    /// Down from discovery to the transport: the address book has news of this member.
    AddressLearned(Uuid),
    /// Up from MERGE3 to GMS: differing views exist.
    MergeViews {
        /// These, by the member that was asked and has told each.
        views: Vec<(Uuid, View)>,
        /// Which view others, who were not asked, announced before.
        announced: Vec<(Uuid, ViewId)>,
    },
    /// Down from GMS to MERGE3: announce the view at once.
    AnnounceView,
    /// Up from the edge: the suspect's own address refuses connections on every port; nobody
    /// listens there any more (DECISIONS 25).
    Refuses(Uuid),
    /// Up from the transport to discovery: nobody listens at this address; `None`: nobody else is
    /// on the hub.
    NobodyAt(Option<SocketAddr>),
    /// Down, from the stack: a call of the own application began to wait (`true`) or none waits
    /// any more (DECISIONS 16).
    CallsPending(bool),
    /// Down, from the entry layer: whoever holds a message of this call that was not admitted yet
    /// takes it back and resolves its token, as expired or as withdrawn.
    Withdraw {
        /// The call.
        op: OpId,
        /// Its deadline is over (else the caller gave it up).
        expired: bool,
    },
    /// Up, from flow control and RSVP: a line that was full takes messages again.
    RoomAgain,
    /// Down, from RSVP: these members have not acknowledged a synchronous send for a while; from
    /// flow control: they owe credit. The reliable layers remind them of what they may miss.
    Unacknowledged(Vec<Uuid>),
    /// Down, from GMS: this view is accepted, and waits until those that stay agree on the last
    /// messages of those that do not. Answered by `Repaired`.
    Freeze {
        /// The view.
        view: Arc<View>,
        /// They also agree on their own messages, and wait so long for who says nothing: the change
        /// of the view is synchronous.
        synchronous: Option<Duration>,
    },
    /// Up, from reliable multicast: the frozen view may be installed.
    Repaired {
        /// Which.
        view: ViewId,
        /// All agree, where they were to agree on everything. If not, nobody answered in time.
        agreed: bool,
    },
    /// Down, from GMS: a view was installed, and the application knows. What was held back for a
    /// synchronous change of the view goes on.
    Thaw,
    /// Up, from reliable multicast: these hold up a synchronous change of the view.
    HoldsUpView(Vec<Uuid>),
    /// Up, from reliable multicast: these survivors do not seem to know the frozen view.
    MissesView(Vec<Uuid>),
    /// Up, from reliable multicast: so much of what this member multicast is not stable that no
    /// more may follow (`full`), or again there is room.
    OwnWindow {
        /// No multicast may be admitted.
        full: bool,
    },
    /// Up, from MERGE3, STABLE and reliable multicast: this member has a newer view than ours, or
    /// sends although it is not in ours.
    NewerView(Uuid),
    /// Down, from the entry layer to state transfer: fetch a state.
    FetchState(FetchState),
    /// Down, from the entry layer to state transfer: the application's answer to a request.
    AnswerState(AnswerState),
    /// Down, from the entry layer to state transfer: how far the application has taken a state.
    TakeState(TakeState),
    /// Down, from GMS at a merge: so much was sent by these members, whose windows go on where they
    /// are. What is missing of it is asked for.
    SentSoFar(Digest),
    /// Up, from the reliable layers: a message of `from` that asks for an acknowledgement under this
    /// id is in the window, all fragments of it, perhaps behind others that are missing.
    SyncArrived {
        /// Its sender.
        from: Uuid,
        /// The id, as it travelled.
        id: i16,
    },
    /// Down, from RSVP: these members have not acknowledged our message of this id for a while. It
    /// goes out to them again.
    RepeatSync {
        /// The id, as it travels.
        id: i16,
        /// Who is missing.
        to: Vec<Uuid>,
    },
    /// Down, from the entry layer to RSVP: the call `op` waits until everybody has delivered what
    /// anybody has multicast so far.
    Flush {
        /// The call.
        op: OpId,
        /// When the wait ends; `None`: never.
        until: Option<crate::Time>,
    },
    /// Up, from STABLE in views with members of other toolkits: as `Stable`.
    StableEverywhere(Digest),
    /// Up, from the reliable layers: our message of this id, and all before it, have arrived, though
    /// nobody acknowledged it to RSVP.
    SyncCovered {
        /// The id, as it travelled.
        id: i16,
        /// At whom; `None`: at every member of the view.
        by: Option<Uuid>,
    },
    /// Down, from flow control: messages wait for these members, which gave no credit for as long as
    /// the configuration bears; the coordinator is to exclude them.
    Exclude(Vec<Uuid>),
    /// Up, from reliable multicast: this member asks for multicasts that are gone here.
    AskedForStable(Uuid),
    /// Up and down, from GMS: this member has asked to leave.
    Leaves(Uuid),
    /// Down, from the entry layer to COUNTER: something is asked of a counter.
    Counter(CounterCall),
    /// Down, from the entry layer to LOCK: the application wants something of a lock.
    Lock(LockCall),
    /// Up, from PRIMARY: what is said of the installed view has changed.
    Primary(crate::Primacy),
}

/// Why members are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// GMS, to join.
    Join,
    /// MERGE3, to announce the own view.
    Merge,
    /// The transport, to learn addresses.
    Addresses,
}

/// A member that discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The member.
    pub member: Uuid,
    /// It is in a group.
    pub server: bool,
    /// It is the coordinator of its group.
    pub coordinator: bool,
    /// It said so itself; else another member did.
    pub first_hand: bool,
    /// Where it is, if it said so.
    pub physical: Option<SocketAddr>,
}

impl Found {
    /// From discovery data that `src` sent; `None` if it describes no member identity.
    #[must_use]
    pub fn from_ping(src: Uuid, p: &PingData) -> Option<Self> {
        let member = p.sender.as_ref()?.uuid()?;
        Some(Found {
            member,
            first_hand: member == src,
            server: p.server || p.coordinator,
            coordinator: p.coordinator,
            physical: p.physical.and_then(|a| a.socket_addr()),
        })
    }
}

/// A question to other layers. The nearest layer that knows answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Query {
    /// The digest of all windows (reliable multicast).
    Digest,
    /// The entry of one member.
    DigestOf(Uuid),
    /// May a message of `bytes` payload enter now, and if not, who limits it? (flow control)
    Room {
        /// Destination; `None`: everybody.
        dest: Option<Uuid>,
        /// Out of band.
        oob: bool,
        /// Payload length.
        bytes: usize,
    },
    /// The accounts of flow control.
    Credits(Pool),
    /// The receive and retransmission windows.
    Windows,
    /// Is a merge going on? (GMS)
    MergeRunning,
    /// Who is suspected, by whom and why? (failure detection)
    Suspects,
    /// Who holds back the purging of multicasts? (STABLE; only the coordinator knows)
    Stability,
    /// How large a message may be before it is cut, that is: what must fit for the first part of
    /// any message to leave. (fragmentation)
    FragmentSize,
    /// Bytes of this member's unfinished messages. (fragmentation)
    Reassembling(Uuid),
    /// How many synchronous sends are unanswered? (RSVP)
    Syncs,
    /// How many more bytes of unicasts of `from`, who is not in the view, can wait for a view with
    /// it? (GMS; asked from below, before they are acknowledged)
    HoldRoom {
        /// The sender.
        from: Uuid,
        /// Bytes of this sender that will come without being asked for again.
        coming: u64,
        /// The same, of all senders that are not in the view.
        coming_in_all: u64,
    },
    /// How many more bytes this member may multicast before its own window is full? (reliable
    /// multicast)
    OwnRoom,
    /// Which ordered multicasts have arrived in part? (fragmentation)
    HalfReceived,
    /// How large a state may be? (state transfer)
    StateLimit,
    /// Where are members looked for? (discovery)
    DiscoveryPlace,
    /// The times of BARRIER, for state transfer.
    Barrier,
    /// Up to which number is everything of this sender delivered upwards? (reliable layers)
    DeliveredUpTo {
        /// The sender.
        of: Uuid,
        /// Of its multicasts, else of its unicasts to this member.
        multicast: bool,
    },
    /// Is anything of this sender held until another view is installed? (GMS)
    HeldForView(Uuid),
    /// Do multicasts of all members wait for a view that is to be installed together? (reliable
    /// multicast)
    MulticastsWait,
    /// How long may a send of this pool wait for credit before it fails? (flow control, if calls are
    /// to fail at all)
    SendPatience(Pool),
    /// Does the stack have this? (layers that the application calls)
    Offers(Service),
    /// For whom does the agreement wait, whether the view is primary? (PRIMARY)
    PrimaryAwaits,
}

/// The answer to a [`Query`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To `Digest` and `DigestOf`.
    Digest(Digest),
    /// To `Room`.
    Room(Room),
    /// To `Credits`.
    Credits(Vec<CreditAccount>),
    /// To `Windows`.
    Windows(Vec<WindowGauge>),
    /// To `MergeRunning`.
    MergeRunning(bool),
    /// To `Suspects`.
    Suspicions(Vec<Suspicion>),
    /// To `PrimaryAwaits`.
    Members(Vec<Uuid>),
    /// To `Stability`.
    Stability(StabilityGauge),
    /// To `FragmentSize`, `Reassembling`, `HoldRoom`, `OwnRoom` and `StateLimit`.
    Bytes(u64),
    /// To `Syncs`.
    Syncs(u64),
    /// To `HalfReceived`: each by its sender and a number of this member's own.
    HalfReceived(BTreeSet<(Uuid, u32)>),
    /// To `DiscoveryPlace`, such as "by multicast".
    Words(String),
    /// To `SendPatience`.
    Patience(core::time::Duration),
    /// To `Barrier`.
    Barrier {
        /// `flush_timeout`.
        flush: core::time::Duration,
        /// `max_close_time`.
        longest: core::time::Duration,
    },
    /// To `DeliveredUpTo`.
    Number(i64),
    /// To `HeldForView`, `MulticastsWait` and `Offers`.
    Held(bool),
}

/// How the agreement on stable messages stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StabilityGauge {
    /// At the coordinator: who has not reported in the running round.
    pub waiting_for: Vec<Uuid>,
    /// At the coordinator: senders whose messages were not all stable in the last complete round.
    pub held_back: Vec<HeldBack>,
    /// Multicast payload bytes delivered here since the last stability, at least 128 a message.
    pub bytes: u64,
    /// Of what came in here and is not known to be stable, that which waits longest.
    pub oldest: Option<Unstable>,
}

/// A multicast that is not stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unstable {
    /// Who sent it.
    pub sender: Uuid,
    /// Its number.
    pub oldest: i64,
    /// It has been here since then, or came a little later (by at most the time between two reports).
    pub since: crate::Time,
}

/// The messages of one sender that are not stable, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Whose messages.
    pub sender: Uuid,
    /// The oldest that is not stable.
    pub oldest: i64,
    /// The member that has not delivered it.
    pub by: Uuid,
}

/// Whether a message may enter a line of flow control.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The line takes the message (it may still wait there for credit).
    pub line_open: bool,
    /// It would leave at once.
    pub immediate: bool,
    /// Payload bytes that could leave at once.
    pub credit: u64,
    /// Payload bytes that the line still takes while messages wait.
    pub free_bytes: u64,
    /// Messages that the line still takes while messages wait.
    pub free_messages: u64,
    /// Who limits it, when it is not immediate.
    pub limited_by: Vec<Uuid>,
}

/// Both halves of the account with one peer in one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditAccount {
    /// The peer (for multicasts also this member).
    pub peer: Uuid,
    /// Granted to us and unused.
    pub balance: u64,
    /// `balance` minus the cost of the waiting heads; what the seed document calls "below 0".
    pub shown: i64,
    /// Cost of all messages waiting for this peer.
    pub waiting: u64,
    /// Received from the peer, not yet consumed.
    pub unconsumed: u64,
    /// Consumed, not yet granted back.
    pub ungranted: u64,
    /// The maximum.
    pub max: u64,
    /// What messages to the peer have cost since the account began.
    pub charged: u64,
}

/// The state of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowGauge {
    /// The other end: the sender of a multicast or unicast receive window, the destination of a
    /// unicast send window. The own member's multicast window is the send window too.
    pub peer: Uuid,
    /// Which window.
    pub kind: WindowKind,
    /// Everything up to here is gone.
    pub low: i64,
    /// Everything up to here is delivered (send window: acknowledged).
    pub delivered: i64,
    /// The highest number received (send window: sent).
    pub received: i64,
    /// The highest number known to exist; above `received` if the last ones are missing.
    pub known: i64,
    /// Payload bytes held.
    pub bytes: u64,
    /// Messages held.
    pub messages: u64,
}

/// Kinds of [`WindowGauge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WindowKind {
    /// Reliable multicast, one per sender.
    Multicast,
    /// Reliable unicast, what we sent.
    UnicastSend,
    /// Reliable unicast, what we received.
    UnicastReceive,
}
