//! Headers: what each protocol adds to a message. One enum over everything JGroups 5.5 defines
//! (headers have no length on the wire, so an unknown one makes the rest of a frame unreadable).

use crate::{Address, Digest, IpAddress, MergeId, ViewId};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// A header. Which magic id it has on the wire follows from the variant, and for headers that two
/// classes share a body for, from the protocol id beside it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Header {
    /// Magic 60: the cluster a message belongs to.
    Tp(TpHeader),
    /// Magic 53: discovery.
    Ping(PingHeader),
    /// Magic 75.
    Merge3(Box<Merge3Header>),
    /// Magic 51.
    FdSock(Box<FdSockHeader>),
    /// Magic 93.
    FdSock2(Box<FdSock2Header>),
    /// Magic 62.
    Heartbeat,
    /// Magic 54 (VERIFY_SUSPECT) or 94 (VERIFY_SUSPECT2), by protocol id.
    Verify(VerifyHeader),
    /// Magic 78 (NAKACK2) or 99 (NAKACK3, NAKACK4), by protocol id.
    NakAck(NakAckHeader),
    /// Magic 82 (UNICAST3) or 100 (UNICAST4), by protocol id.
    Unicast(UnicastHeader),
    /// Magic 56.
    Stable(StableHeader),
    /// Magic 55.
    Gms(Box<GmsHeader>),
    /// Magic 59: MFC and UFC.
    Fc(FcHeader),
    /// Magic 52: FRAG2 and FRAG4.
    Frag(FragHeader),
    /// Magic 91.
    Frag3(Box<Frag3Header>),
    /// Magic 76.
    Rsvp(RsvpHeader),
    /// Magic 57.
    StateTransfer(Box<StateTransferHeader>),
    /// Magic 65: STATE and STATE_SOCK.
    Streaming(Box<StreamingHeader>),
    /// Magic 61.
    Sequencer(SequencerHeader),
    /// Magic 86.
    Sequencer2(Sequencer2Header),
    /// Magic 58.
    Compress(CompressHeader),
    /// Magic 96, no body.
    Batch2,
}

/// Which cluster a message belongs to; also carries round-trip probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpHeader {
    /// Cluster name as its bytes (ASCII), shared by all messages of a channel; `None` is null.
    pub cluster: Option<Bytes>,
    /// Ordinary message or probe.
    pub rtt: Rtt,
}

/// The round-trip probe in a [`TpHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rtt {
    /// Not a probe.
    None,
    /// Please answer with this index.
    Request(i32),
    /// The answer.
    Response(i32),
}

/// Discovery header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingHeader {
    /// Request or response.
    pub kind: PingKind,
    /// The cluster asked about; null in responses.
    pub cluster: Option<String>,
    /// Whether a join is the reason.
    pub initial: bool,
}

/// Kinds of [`PingHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingKind {
    /// 1: who is there?
    Request,
    /// 2: this member is.
    Response,
}

/// MERGE3 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge3Header {
    /// 0: my view, my name, where I am.
    Info {
        /// The sender's current view.
        view: Option<ViewId>,
        /// Logical name.
        name: Option<String>,
        /// Physical address.
        physical: Option<IpAddress>,
    },
    /// 1: send me your view.
    ViewRequest,
    /// 2: the payload is my view.
    ViewResponse,
}

/// FD_SOCK header (the older protocol; decoded, never sent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdSockHeader {
    /// 10 SUSPECT … 15 GET_CACHE_RSP.
    pub kind: u8,
    /// The member in question.
    pub member: Option<Address>,
    /// Its socket.
    pub socket: Option<IpAddress>,
    /// Suspected members.
    pub members: Vec<Address>,
}

/// FD_SOCK2 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdSock2Header {
    /// What it says.
    pub kind: FdSock2Kind,
    /// Suspected members (SUSPECT, UNSUSPECT).
    pub members: Vec<Address>,
    /// The responder's cluster (CONNECT_RSP).
    pub cluster: Option<String>,
    /// CONNECT: who is meant; CONNECT_RSP: who answers.
    pub server: Option<Address>,
}

/// Kinds of [`FdSock2Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdSock2Kind {
    /// 1
    Suspect,
    /// 2
    Unsuspect,
    /// 3
    Connect,
    /// 4
    ConnectResponse,
}

/// Verification of a suspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyHeader {
    /// Question or answer.
    pub kind: VerifyKind,
    /// Question: who asks. Answer: who is alive.
    pub from: Option<Address>,
}

/// Kinds of [`VerifyHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyKind {
    /// 1
    AreYouDead,
    /// 2
    IAmNotDead,
}

/// Reliable multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NakAckHeader {
    /// 1: a message with its number.
    Msg(i64),
    /// 2: please resend what the payload lists, of this original sender.
    XmitReq(Option<Address>),
    /// 3: a resent message.
    XmitRsp(i64),
    /// 4: the highest number sent.
    HighestSeqno(i64),
    /// 5: everything up to here was delivered (NAKACK4).
    Ack(i64),
}

/// Reliable unicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnicastHeader {
    /// 0: a message.
    Data {
        /// Its number.
        seqno: i64,
        /// The sender's connection.
        conn_id: i16,
        /// First of the connection.
        first: bool,
    },
    /// 1: cumulative acknowledgement.
    Ack {
        /// Highest number delivered.
        seqno: i64,
        /// The connection of the member that is acknowledged.
        conn_id: i16,
        /// Grows with every acknowledgement of a member.
        timestamp: i32,
    },
    /// 2: I do not know this connection: start it again.
    SendFirstSeqno {
        /// As in `Ack`.
        timestamp: i32,
    },
    /// 3: please resend what the payload lists.
    XmitReq,
    /// 4: the connection is closed.
    Close {
        /// Which.
        conn_id: i16,
    },
}

/// Stability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StableHeader {
    /// Report or result.
    pub kind: StableKind,
    /// The view it belongs to.
    pub view: Option<ViewId>,
}

/// Kinds of [`StableHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StableKind {
    /// 1: a member's report.
    Gossip,
    /// 2: what is stable.
    Stability,
}

/// Group membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GmsHeader {
    /// What it says.
    pub kind: GmsKind,
    /// The joiner, leaver or merge leader.
    pub member: Option<Address>,
    /// The merge it belongs to.
    pub merge_id: Option<MergeId>,
    /// MERGE_RSP: the merge is refused.
    pub merge_rejected: bool,
}

/// Kinds of [`GmsHeader`]; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GmsKind {
    /// Asks to be let in.
    JoinReq = 1,
    /// The answer.
    JoinRsp = 2,
    /// Asks to be let out.
    LeaveReq = 3,
    /// The answer.
    LeaveRsp = 4,
    /// A new view.
    View = 5,
    /// Merge leader to subgroup coordinators.
    MergeReq = 6,
    /// The answer.
    MergeRsp = 7,
    /// The merged view.
    InstallMergeView = 8,
    /// The merge is off.
    CancelMerge = 9,
    /// The view is installed.
    ViewAck = 10,
    /// As `JoinReq`; the joiner will ask for state.
    JoinReqWithState = 11,
    /// Asks for the member's own digest.
    GetDigestReq = 13,
    /// The answer.
    GetDigestRsp = 14,
    /// A digest to install.
    InstallDigest = 15,
    /// Asks for the full current view.
    GetCurrentView = 16,
}

/// Flow control; the amount is the message's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FcHeader {
    /// 1: credit is granted.
    Replenish,
    /// 2: credit is asked for.
    CreditRequest,
}

/// A fragment of a message (FRAG2, FRAG4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragHeader {
    /// The message, per sender.
    pub id: i64,
    /// Which fragment, from 0.
    pub frag: i32,
    /// How many there are.
    pub total: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
    /// Message type of the original (FRAG4).
    pub original_type: i16,
}

/// A fragment of a message (FRAG3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag3Header {
    /// The message, per sender.
    pub id: i32,
    /// Which fragment, from 0.
    pub frag: i32,
    /// How many there are.
    pub total: i32,
    /// Length of the whole payload.
    pub original_length: i32,
    /// Where this slice starts.
    pub offset: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
}

/// Synchronous sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RsvpHeader {
    /// What it says.
    pub kind: RsvpKind,
    /// The sender's number for the message.
    pub id: i16,
}

/// Kinds of [`RsvpHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsvpKind {
    /// 1: acknowledge this message.
    Request,
    /// 2: a reminder (never sent by us).
    RequestOnly,
    /// 3: acknowledged.
    Response,
}

/// State transfer in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTransferHeader {
    /// What it says.
    pub kind: StateTransferKind,
    /// The provider's digest.
    pub digest: Option<Digest>,
}

/// Kinds of [`StateTransferHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTransferKind {
    /// 1
    Request,
    /// 2
    Response,
    /// 3: the provider failed.
    Failure,
}

/// Streamed state transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamingHeader {
    /// What it says.
    pub kind: StreamingKind,
    /// The provider's digest.
    pub digest: Option<Digest>,
    /// Where to connect (STATE_SOCK).
    pub address: Option<IpAddress>,
}

/// Kinds of [`StreamingHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamingKind {
    /// 1
    Request,
    /// 2
    Response,
    /// 3: a chunk.
    Part,
    /// 4: the end.
    Eof,
    /// 5: the provider failed.
    Failure,
}

/// Total order through the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencerHeader {
    /// What it says.
    pub kind: SequencerKind,
    /// The original sender's number.
    pub seqno: i64,
    /// The original sender waits for its own copy.
    pub flush_ack: bool,
}

/// Kinds of [`SequencerHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerKind {
    /// 1
    Forward,
    /// 2
    Flush,
    /// 3
    Bcast,
    /// 4
    WrappedBcast,
}

/// Total order by numbers from the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencer2Header {
    /// 1 REQUEST, 2 BCAST, 3 RESPONSE.
    pub kind: u8,
    /// First number.
    pub seqno: i64,
    /// How many.
    pub count: u16,
}

/// A compressed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressHeader {
    /// Length before compression.
    pub original_size: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
}
