//! Names of what travels: protocol and kind of a message, as rules and transcripts say them.

use rgroups_core::wire::header::{
    FcHeader, FdSock2Kind, GmsKind, Header, Merge3Header, NakAckHeader, PingKind, RsvpKind,
    StableKind, UnicastHeader, VerifyKind,
};

/// The kind that a header states, in JGroups' words, and the number it carries, if any.
#[must_use]
pub fn kind_of(header: &Header) -> (&'static str, Option<i64>) {
    match header {
        Header::NakAck(h) => match h {
            NakAckHeader::Msg(n) => ("MSG", Some(*n)),
            NakAckHeader::XmitReq(_) => ("XMIT_REQ", None),
            NakAckHeader::XmitRsp(n) => ("XMIT_RSP", Some(*n)),
            NakAckHeader::HighestSeqno(n) => ("HIGHEST_SEQNO", Some(*n)),
            NakAckHeader::Ack(n) => ("ACK", Some(*n)),
        },
        Header::Unicast(h) => match h {
            UnicastHeader::Data { seqno, .. } => ("DATA", Some(*seqno)),
            UnicastHeader::Ack { seqno, .. } => ("ACK", Some(*seqno)),
            UnicastHeader::SendFirstSeqno { .. } => ("SEND_FIRST_SEQNO", None),
            UnicastHeader::XmitReq => ("XMIT_REQ", None),
            UnicastHeader::Close { .. } => ("CLOSE", None),
        },
        Header::Gms(h) => (gms_kind(h.kind), None),
        Header::Stable(h) => match h.kind {
            StableKind::Gossip => ("STABLE_GOSSIP", None),
            StableKind::Stability => ("STABILITY", None),
        },
        Header::Fc(FcHeader::Replenish) => ("REPLENISH", None),
        Header::Fc(FcHeader::CreditRequest) => ("CREDIT_REQUEST", None),
        Header::Merge3(h) => match **h {
            Merge3Header::Info { .. } => ("INFO", None),
            Merge3Header::ViewRequest => ("VIEW_REQ", None),
            Merge3Header::ViewResponse => ("VIEW_RSP", None),
        },
        Header::Ping(h) => match h.kind {
            PingKind::Request => ("GET_MBRS_REQ", None),
            PingKind::Response => ("GET_MBRS_RSP", None),
        },
        Header::Verify(h) => match h.kind {
            VerifyKind::AreYouDead => ("ARE_YOU_DEAD", None),
            VerifyKind::IAmNotDead => ("I_AM_NOT_DEAD", None),
        },
        Header::FdSock2(h) => match h.kind {
            FdSock2Kind::Suspect => ("SUSPECT", None),
            FdSock2Kind::Unsuspect => ("UNSUSPECT", None),
            FdSock2Kind::Connect => ("CONNECT", None),
            FdSock2Kind::ConnectResponse => ("CONNECT_RSP", None),
        },
        Header::Rsvp(h) => match h.kind {
            RsvpKind::Request => ("REQ", Some(i64::from(h.id))),
            RsvpKind::RequestOnly => ("REQ_ONLY", Some(i64::from(h.id))),
            RsvpKind::Response => ("RSP", Some(i64::from(h.id))),
        },
        Header::Frag(h) => ("FRAG", Some(i64::from(h.frag))),
        Header::Heartbeat => ("HEARTBEAT", None),
        // The rest has one kind each, or none that a rule could want to tell apart.
        _ => ("*", None),
    }
}

fn gms_kind(kind: GmsKind) -> &'static str {
    match kind {
        GmsKind::JoinReq => "JOIN_REQ",
        GmsKind::JoinRsp => "JOIN_RSP",
        GmsKind::LeaveReq => "LEAVE_REQ",
        GmsKind::LeaveRsp => "LEAVE_RSP",
        GmsKind::View => "VIEW",
        GmsKind::MergeReq => "MERGE_REQ",
        GmsKind::MergeRsp => "MERGE_RSP",
        GmsKind::InstallMergeView => "INSTALL_MERGE_VIEW",
        GmsKind::CancelMerge => "CANCEL_MERGE",
        GmsKind::ViewAck => "VIEW_ACK",
        GmsKind::JoinReqWithState => "JOIN_REQ_WITH_STATE_TRANSFER",
        GmsKind::GetDigestReq => "GET_DIGEST_REQ",
        GmsKind::GetDigestRsp => "GET_DIGEST_RSP",
        GmsKind::InstallDigest => "INSTALL_DIGEST",
        GmsKind::GetCurrentView => "GET_CURRENT_VIEW",
    }
}
