//! Facts, each stated once, where it happens. The simulator's oracles, transcripts, logs and
//! counters are all made from these.

use crate::event::WindowKind;
use crate::{Evidence, Pool, Primacy, Uuid, ViewId};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Something observable that a stack did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Trace {
    /// A view passed the layer at this position, travelling up.
    ViewPassed {
        /// Position, 0 = transport.
        layer: u8,
        /// The view.
        view: ViewId,
    },
    /// A numbered multicast left NAKACK.
    Multicast {
        /// Its number.
        seqno: i64,
    },
    /// A numbered unicast left UNICAST.
    Unicast {
        /// Destination.
        to: Uuid,
        /// Its number.
        seqno: i64,
    },
    /// Missing numbers were asked for.
    XmitRequested {
        /// Whom was asked.
        from: Uuid,
        /// Whose messages.
        of: Uuid,
        /// How many.
        count: u32,
        /// First and last number asked for.
        range: (i64, i64),
        /// In which kind of window they are missing.
        window: WindowKind,
        /// Up to which number that window has delivered.
        delivered: i64,
    },
    /// A message was sent again.
    Retransmitted {
        /// To whom; `None`: to all.
        to: Option<Uuid>,
        /// Whose message.
        of: Uuid,
        /// Its number.
        seqno: i64,
    },
    /// Multicasts up to this number were purged as stable.
    Purged {
        /// Whose.
        of: Uuid,
        /// Up to here.
        upto: i64,
    },
    /// STABLE: a stability vector was agreed.
    Stability {
        /// For this view.
        view: ViewId,
    },
    /// A detector suspects (before verification).
    Accused {
        /// Who.
        member: Uuid,
        /// Who says so.
        by: Uuid,
        /// On what evidence.
        why: Evidence,
    },
    /// Verification let the suspicion through to GMS.
    Suspected {
        /// Who.
        member: Uuid,
        /// Who accused it.
        by: Uuid,
        /// On what evidence.
        why: Evidence,
    },
    /// This process was not run for a while although a timer was due: a starved host, or somebody
    /// stopped it. Deadlines that judge others are put off by as much.
    Stalled {
        /// For so long.
        time: Duration,
    },
    /// A suspect that is being verified here has answered another member.
    Vouched {
        /// The suspect.
        member: Uuid,
        /// Who was answered.
        by: Uuid,
    },
    /// The suspicion was withdrawn.
    Unsuspected {
        /// Who.
        member: Uuid,
    },
    /// GMS changed its state.
    Membership {
        /// A short description: "joining", "coordinator", "leaving", "merging" …
        state: &'static str,
    },
    /// A join was asked for.
    JoinAttempt {
        /// Of whom.
        coordinator: Uuid,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Credit was granted.
    Granted {
        /// To whom.
        to: Uuid,
        /// In which pool.
        pool: Pool,
        /// How much.
        bytes: u64,
    },
    /// Credit was received.
    Credited {
        /// From whom.
        from: Uuid,
        /// In which pool.
        pool: Pool,
        /// How much.
        bytes: u64,
    },
    /// Credit was asked for.
    CreditAsked {
        /// Whom.
        of: Uuid,
        /// In which pool.
        pool: Pool,
        /// How much.
        bytes: u64,
    },
    /// A line began to wait.
    Blocked {
        /// In which pool.
        pool: Pool,
        /// For whom.
        by: Vec<Uuid>,
    },
    /// A line goes on.
    Unblocked {
        /// In which pool.
        pool: Pool,
    },
    /// A synchronous send was acknowledged.
    RsvpAcked {
        /// By whom.
        by: Uuid,
        /// Which.
        id: i16,
    },
    /// A merge step.
    Merge {
        /// "started", "installed", "cancelled" …
        step: &'static str,
    },
    /// A step of tail repair: "frozen", "repaired".
    TailRepair {
        /// The view that waits.
        view: ViewId,
        /// What happened.
        step: &'static str,
    },
    /// Not all survivors could be asked what they hold of these former members, or something that
    /// one of them held could not be had: whether all survivors deliver the same of them is not
    /// known. Every member that acts on such a decision says it.
    TailUnknown {
        /// Whom.
        of: Vec<Uuid>,
    },
    /// The change to this view is not synchronous, although this member wants that. Stated before
    /// the view.
    NotSynchronous {
        /// The view.
        view: ViewId,
    },
    /// Delivered multicasts of this member had to go before they were stable: no room. Stated once
    /// per window; from now on they cannot be served to others when their sender is gone.
    KeptNoLonger {
        /// Whose.
        of: Uuid,
    },
    /// What this member says of its view, whether it is the primary one, changed or was renewed.
    Primary {
        /// The view.
        view: ViewId,
        /// What is said.
        primacy: Primacy,
        /// For how long, if that is [`Primacy::Yes`] and nothing renews it.
        lasts: Duration,
    },
    /// All members of this view have agreed that it is primary, as far as this one has heard.
    PrimaryFormed {
        /// The view.
        view: ViewId,
    },
    /// So much of this member's multicasts is not stable that it may send no more, or there is
    /// room again.
    OwnWindow {
        /// No more.
        full: bool,
    },
    /// Something from the network was dropped.
    Dropped {
        /// Why.
        why: DropReason,
        /// Whose, if known.
        from: Option<Uuid>,
    },
    /// The edge: what became of the stream connection with a peer.
    Link {
        /// Where the peer listens.
        peer: SocketAddr,
        /// "connected", "accepted", "rejected", "replaced", "refused", "unreachable", "lost",
        /// "closed", "closed by the peer".
        what: &'static str,
    },
    /// The edge did not send a packet.
    Unsent {
        /// Where to; `None`: to the group.
        to: Option<SocketAddr>,
        /// Why.
        why: DropReason,
    },
    /// State transfer.
    State {
        /// "asked", "cut" (the application is asked), "begins", "sent", "abandoned", "refused",
        /// "received".
        what: &'static str,
        /// The other member.
        with: Uuid,
    },
    /// FD_SOCK2: no monitor port of this member answers; only heartbeats watch it now. No
    /// suspicion.
    MonitorUnreachable {
        /// The member.
        member: Uuid,
    },
}

/// Why something from the network was dropped; each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The bytes could not be decoded.
    Undecodable,
    /// A packet of another version.
    WrongVersion,
    /// A message of another cluster.
    WrongCluster,
    /// A unicast that is not for this member.
    NotForUs,
    /// Our own multicast, come back from the network.
    OwnMulticast,
    /// The sender is no member identity.
    BadSender,
    /// From a member that is not in the view.
    NotAMember,
    /// Already received.
    Duplicate,
    /// Below the window.
    BelowWindow,
    /// Too far above the window, or a queue is full.
    OverLimit,
    /// It belongs to another view, merge, connection or incarnation.
    Stale,
    /// A header or payload that makes no sense here.
    Malformed,
    /// The member is leaving or has left.
    NotConnected,
    /// A fault layer did it on purpose.
    Injected,
    /// No physical address is known.
    NoAddress,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = DropReason::NoAddress as usize + 1;

    /// All of them.
    pub const ALL: [DropReason; DropReason::COUNT] = [
        DropReason::Undecodable,
        DropReason::WrongVersion,
        DropReason::WrongCluster,
        DropReason::NotForUs,
        DropReason::OwnMulticast,
        DropReason::BadSender,
        DropReason::NotAMember,
        DropReason::Duplicate,
        DropReason::BelowWindow,
        DropReason::OverLimit,
        DropReason::Stale,
        DropReason::Malformed,
        DropReason::NotConnected,
        DropReason::Injected,
        DropReason::NoAddress,
    ];

    /// As counters are named.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::Undecodable => "undecodable",
            DropReason::WrongVersion => "wrong_version",
            DropReason::WrongCluster => "wrong_cluster",
            DropReason::NotForUs => "not_for_us",
            DropReason::OwnMulticast => "own_multicast",
            DropReason::BadSender => "bad_sender",
            DropReason::NotAMember => "not_a_member",
            DropReason::Duplicate => "duplicate",
            DropReason::BelowWindow => "below_window",
            DropReason::OverLimit => "over_limit",
            DropReason::Stale => "stale",
            DropReason::Malformed => "malformed",
            DropReason::NotConnected => "not_connected",
            DropReason::Injected => "injected",
            DropReason::NoAddress => "no_address",
        }
    }
}
