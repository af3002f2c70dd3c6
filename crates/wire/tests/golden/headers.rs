//! Headers built from the fields of a vector.

use rgroups_wire::header::{
    AuthToken, CompressHeader, CorrelatorHeader, CorrelatorKind, DaisyHeader, DhHeader,
    EncryptHeader, EncryptKind, FcHeader, FdSock2Header, FdSock2Kind, FdSockHeader, ForkHeader,
    Frag3Header, FragHeader, GmsHeader, GmsKind, InfoHeader, Merge3Header, NakAckHeader,
    PingHeader, PingKind, RsvpHeader, RsvpKind, Rtt, Sequencer2Header, SequencerHeader,
    SequencerKind, StableHeader, StableKind, StateTransferHeader, StateTransferKind,
    StreamingHeader, StreamingKind, TpHeader, UnicastHeader, VerifyHeader, VerifyKind,
};
use rgroups_wire::{Digest, Header, MergeId, ProtId};
use serde_json::Value as Json;

use crate::parse::{addr, bytes, digest, flag, int, ip_addr, member, members, text, view_id};

/// The header that the fields describe; `None` if they leave something open.
pub(crate) fn header(f: &Json) -> Option<(ProtId, Header)> {
    let magic = int(&f["magic"]);
    let header = match magic {
        66..=69 | 74 | 80..=81 | 83 | 88 | 92 | 101 => service_header(magic, f)?,
        _ => core_header(magic, f)?,
    };
    Some((ProtId(int(&f["prot"]) as i16), header))
}

fn core_header(magic: i64, f: &Json) -> Option<Header> {
    let kind = f["type"].as_i64().unwrap_or(0);
    let n = |name: &str| int(&f[name]);
    Some(match magic {
        51 => Header::FdSock(Box::new(FdSockHeader {
            kind: kind as u8,
            member: addr(&f["mbr"]),
            socket: ip_addr(&f["sock"]),
            members: members(&f["mbrs"])?,
        })),
        52 => Header::Frag(FragHeader {
            id: n("id"),
            frag: n("frag_id") as i32,
            total: n("num_frags") as i32,
            needs_deserialization: flag(&f["needs_deser"]),
            original_type: n("orig_type") as i16,
        }),
        53 => Header::Ping(PingHeader {
            kind: if kind == 1 { PingKind::Request } else { PingKind::Response },
            cluster: text(&f["cluster"]),
            initial: flag(&f["initial"]),
        }),
        54 | 94 => Header::Verify(VerifyHeader {
            kind: if kind == 1 { VerifyKind::AreYouDead } else { VerifyKind::IAmNotDead },
            from: addr(&f["from"]),
        }),
        55 => Header::Gms(Box::new(GmsHeader {
            kind: gms_kind(kind),
            member: addr(&f["mbr"]),
            merge_id: f["merge_id"].as_object().map(|_| MergeId {
                initiator: member(&f["merge_id"]["initiator"]),
                id: int(&f["merge_id"]["id"]) as i32,
            }),
            merge_rejected: flag(&f["merge_rejected"]),
        })),
        56 => Header::Stable(StableHeader {
            kind: if kind == 1 { StableKind::Gossip } else { StableKind::Stability },
            view: view_id(f, "view_creator", "view_id"),
        }),
        57 => Header::StateTransfer(Box::new(StateTransferHeader {
            kind: [
                StateTransferKind::Request,
                StateTransferKind::Response,
                StateTransferKind::Failure,
            ][kind as usize - 1],
            digest: state_digest(f),
        })),
        58 => Header::Compress(CompressHeader {
            original_size: n("orig_size") as i32,
            needs_deserialization: flag(&f["needs_deser"]),
        }),
        59 => Header::Fc(if kind == 1 { FcHeader::Replenish } else { FcHeader::CreditRequest }),
        60 => Header::Tp(TpHeader {
            cluster: text(&f["cluster"]).map(Into::into),
            rtt: match int(&f["flag"]) {
                0 => Rtt::None,
                1 => Rtt::Request(n("index") as i32),
                _ => Rtt::Response(n("index") as i32),
            },
        }),
        61 => Header::Sequencer(SequencerHeader {
            kind: [
                SequencerKind::Forward,
                SequencerKind::Flush,
                SequencerKind::Bcast,
                SequencerKind::WrappedBcast,
            ][kind as usize - 1],
            seqno: n("seqno"),
            flush_ack: flag(&f["flush_ack"]),
        }),
        62 => Header::Heartbeat,
        65 => Header::Streaming(Box::new(StreamingHeader {
            kind: [
                StreamingKind::Request,
                StreamingKind::Response,
                StreamingKind::Part,
                StreamingKind::Eof,
                StreamingKind::Failure,
            ][kind as usize - 1],
            digest: state_digest(f),
            address: ip_addr(&f["bind_addr"]),
        })),
        75 => Header::Merge3(Box::new(match kind {
            0 => Merge3Header::Info {
                view: view_id(f, "view_creator", "view_id"),
                name: text(&f["name"]),
                physical: ip_addr(&f["phys"]),
            },
            1 => Merge3Header::ViewRequest,
            _ => Merge3Header::ViewResponse,
        })),
        76 => Header::Rsvp(RsvpHeader {
            kind: [RsvpKind::Request, RsvpKind::RequestOnly, RsvpKind::Response][kind as usize - 1],
            id: n("id") as i16,
        }),
        78 | 99 => Header::NakAck(match kind {
            1 => NakAckHeader::Msg(n("seqno")),
            2 => NakAckHeader::XmitReq(addr(&f["sender"])),
            3 => NakAckHeader::XmitRsp(n("seqno")),
            4 => NakAckHeader::HighestSeqno(n("seqno")),
            _ => NakAckHeader::Ack(n("seqno")),
        }),
        82 | 100 => Header::Unicast(unicast(kind, f)),
        86 => Header::Sequencer2(Sequencer2Header {
            kind: kind as u8,
            seqno: n("seqno"),
            count: n("num_seqnos") as u16,
        }),
        91 => Header::Frag3(Box::new(Frag3Header {
            id: n("id") as i32,
            frag: n("frag_id") as i32,
            total: n("num_frags") as i32,
            original_length: n("orig_length") as i32,
            offset: n("offset") as i32,
            needs_deserialization: flag(&f["needs_deser"]),
        })),
        93 => Header::FdSock2(Box::new(FdSock2Header {
            kind: [
                FdSock2Kind::Suspect,
                FdSock2Kind::Unsuspect,
                FdSock2Kind::Connect,
                FdSock2Kind::ConnectResponse,
            ][kind as usize - 1],
            members: members(&f["mbrs"])?,
            cluster: text(&f["cluster"]),
            server: addr(&f["srv"]),
        })),
        96 => Header::Batch2,
        _ => return None,
    })
}

fn unicast(kind: i64, f: &Json) -> UnicastHeader {
    let conn_id = || int(&f["conn_id"]) as i16;
    let timestamp = || int(&f["timestamp"]) as i32;
    match kind {
        0 => UnicastHeader::Data {
            seqno: int(&f["seqno"]),
            conn_id: conn_id(),
            first: flag(&f["first"]),
        },
        1 => UnicastHeader::Ack {
            seqno: int(&f["seqno"]),
            conn_id: conn_id(),
            timestamp: timestamp(),
        },
        2 => UnicastHeader::SendFirstSeqno { timestamp: timestamp() },
        3 => UnicastHeader::XmitReq,
        _ => UnicastHeader::Close { conn_id: conn_id() },
    }
}

fn gms_kind(kind: i64) -> GmsKind {
    use GmsKind::*;
    [
        JoinReq,
        JoinRsp,
        LeaveReq,
        LeaveRsp,
        View,
        MergeReq,
        MergeRsp,
        InstallMergeView,
        CancelMerge,
        ViewAck,
        JoinReqWithState,
        GetDigestReq,
        GetDigestRsp,
        InstallDigest,
        GetCurrentView,
    ]
    .into_iter()
    .find(|k| i64::from(k.to_wire()) == kind)
    .unwrap()
}

fn state_digest(f: &Json) -> Option<Digest> {
    digest(&f["digest"]["members"], &f["digest"]["seqnos"])
}

/// Headers of services above the core stack. Those of RELAY say only a part in their fields.
fn service_header(magic: i64, f: &Json) -> Option<Header> {
    let kind = f["type"].as_i64().unwrap_or(0);
    Some(match magic {
        66 => Header::Auth(match f["token_magic"].as_i64() {
            None => None,
            Some(16) => Some(Box::new(AuthToken::FixedMembership(text(&f["token"])))),
            Some(17) => Some(Box::new(AuthToken::X509(bytes(&f["token"])))),
            Some(_) => Some(Box::new(AuthToken::Regex)),
        }),
        67 | 68 => Header::Correlator(CorrelatorHeader {
            kind: [CorrelatorKind::Request, CorrelatorKind::Response, CorrelatorKind::Failure]
                [kind as usize],
            request: int(&f["req_id"]),
            correlator: int(&f["corr_id"]) as i16,
            excluded: members(&f["exclusion"]),
        }),
        69 => Header::Daisy(Box::new(DaisyHeader { original_sender: addr(&f["original_sender"]) })),
        74 => Header::Counter,
        83 => Header::Fork(Box::new(ForkHeader {
            stack: text(&f["stack"]),
            channel: text(&f["channel"]),
        })),
        88 => Header::Encrypt(Box::new(EncryptHeader {
            kind: [EncryptKind::Encrypted, EncryptKind::InstallKeys, EncryptKind::FetchSharedKey]
                [kind as usize],
            needs_deserialization: f["needs_deser"].as_bool().unwrap_or(false),
            key_version: bytes(&f["version"]),
            server: addr(&f["server"]),
            iv: match (f.get("iv"), f["version"].is_null()) {
                (Some(iv), _) => bytes(iv),
                (None, _) => return None,
            },
        })),
        92 => Header::Dh(Box::new(match kind {
            0 => DhHeader::Request { public_key: bytes(&f["dh_key"])? },
            _ => DhHeader::Response {
                public_key: bytes(&f["dh_key"])?,
                secret_key: bytes(&f["secret"])?,
                version: bytes(&f["version"])?,
            },
        })),
        101 => Header::Info(InfoHeader {
            entries: f["info"]
                .as_object()?
                .iter()
                .map(|(key, value)| (Some(key.clone()), text(value)))
                .collect(),
        }),
        _ => return None,
    })
}
