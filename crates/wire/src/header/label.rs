//! The one-line form of a header: `GMS:VIEW`, `NAKACK2:MSG#12`, `TP:demo`.

use super::{Header, Merge3Header, NakAckHeader, Rtt, TpHeader, UnicastHeader};
use crate::ProtId;
use core::fmt;

/// A header with the protocol it belongs to, to be shown in one line.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    prot: ProtId,
    header: &'a Header,
}

impl Header {
    /// The one-line form of this header of protocol `prot`.
    #[must_use]
    pub fn label(&self, prot: ProtId) -> Label<'_> {
        Label { prot, header: self }
    }

    /// The protocol that usually owns a header of this kind.
    fn usual_prot(&self) -> ProtId {
        match self {
            Header::Tp(_) => ProtId::TP,
            Header::Ping(_) => ProtId::PING,
            Header::Merge3(_) => ProtId::MERGE3,
            Header::FdSock(_) => ProtId::FD_SOCK,
            Header::FdSock2(_) => ProtId::FD_SOCK2,
            Header::Heartbeat => ProtId::FD_ALL3,
            Header::Verify(_) => ProtId::VERIFY_SUSPECT2,
            Header::NakAck(_) => ProtId::NAKACK2,
            Header::Unicast(_) => ProtId::UNICAST3,
            Header::Stable(_) => ProtId::STABLE,
            Header::Gms(_) => ProtId::GMS,
            Header::Fc(_) => ProtId::MFC,
            Header::Frag(_) => ProtId::FRAG2,
            Header::Frag3(_) => ProtId::FRAG3,
            Header::Rsvp(_) => ProtId::RSVP,
            Header::StateTransfer(_) => ProtId::STATE_TRANSFER,
            Header::Streaming(_) => ProtId::STATE,
            Header::Sequencer(_) => ProtId::SEQUENCER,
            Header::Sequencer2(_) => ProtId::SEQUENCER2,
            Header::Compress(_) => ProtId::COMPRESS,
            Header::Batch2 => ProtId::BATCH2,
            Header::Auth(_) => ProtId::AUTH,
            Header::Correlator(_) => ProtId::REQUEST_CORRELATOR,
            Header::Daisy(_) => ProtId::DAISYCHAIN,
            Header::Counter => ProtId::COUNTER,
            Header::Relay(_) => ProtId::RELAY2,
            Header::Fork(_) => ProtId::FORK,
            Header::Encrypt(_) => ProtId::SYM_ENCRYPT,
            Header::Dh(_) => ProtId::DH_KEY_EXCHANGE,
            Header::Perf(_) | Header::RoundTrip(_) | Header::Info(_) => ProtId(0),
        }
    }

    /// What the header says, as JGroups names it.
    fn say(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Header::Tp(h) => say_tp(h, f),
            Header::Ping(h) => f.write_str(h.kind.name()),
            Header::Merge3(h) => f.write_str(match **h {
                Merge3Header::Info { .. } => "INFO",
                Merge3Header::ViewRequest => "VIEW_REQ",
                Merge3Header::ViewResponse => "VIEW_RSP",
            }),
            Header::FdSock(h) => write!(f, "type {}", h.kind),
            Header::FdSock2(h) => f.write_str(h.kind.name()),
            Header::Heartbeat => f.write_str("HEARTBEAT"),
            Header::Verify(h) => f.write_str(h.kind.name()),
            Header::NakAck(h) => say_nakack(h, f),
            Header::Unicast(h) => say_unicast(h, f),
            Header::Stable(h) => f.write_str(h.kind.name()),
            Header::Gms(h) => f.write_str(h.kind.name()),
            Header::Fc(h) => f.write_str(h.name()),
            Header::Frag(h) => write!(f, "#{} {}/{}", h.id, i64::from(h.frag) + 1, h.total),
            Header::Frag3(h) => write!(f, "#{} {}/{}", h.id, i64::from(h.frag) + 1, h.total),
            Header::Rsvp(h) => write!(f, "{}#{}", h.kind.name(), h.id),
            Header::StateTransfer(h) => f.write_str(h.kind.name()),
            Header::Streaming(h) => f.write_str(h.kind.name()),
            Header::Sequencer(h) => write!(f, "{}#{}", h.kind.name(), h.seqno),
            Header::Sequencer2(h) => write!(f, "type {} #{}", h.kind, h.seqno),
            Header::Compress(h) => write!(f, "from {} bytes", h.original_size),
            Header::Batch2 => f.write_str("BATCH"),
            Header::Auth(Some(_)) => f.write_str("TOKEN"),
            Header::Auth(None) => f.write_str("NO_TOKEN"),
            Header::Correlator(h) => write!(f, "{}#{}", h.kind.name(), h.request),
            Header::Daisy(_) => f.write_str("FORWARD"),
            Header::Counter => f.write_str("COUNTER"),
            Header::Relay(h) => write!(f, "type {}", h.kind),
            Header::Fork(h) => {
                let stack = h.stack.as_deref().unwrap_or("<null>");
                let channel = h.channel.as_deref().unwrap_or("<null>");
                write!(f, "{}/{}", stack.escape_debug(), channel.escape_debug())
            }
            Header::Perf(_) => f.write_str("PERF"),
            Header::Encrypt(h) => f.write_str(h.kind.name()),
            Header::Dh(_) => f.write_str("DH"),
            Header::RoundTrip(_) => f.write_str("RTT"),
            Header::Info(h) => write!(f, "{} entries", h.entries.len()),
        }
    }
}

fn say_tp(h: &TpHeader, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &h.cluster {
        Some(name) => write!(f, "{}", name.escape_ascii())?,
        None => f.write_str("<null>")?,
    }
    match h.rtt {
        Rtt::None => Ok(()),
        Rtt::Request(i) => write!(f, " RTT_REQ#{i}"),
        Rtt::Response(i) => write!(f, " RTT_RSP#{i}"),
    }
}

fn say_nakack(h: &NakAckHeader, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match h {
        NakAckHeader::Msg(n) => write!(f, "MSG#{n}"),
        NakAckHeader::XmitReq(Some(sender)) => write!(f, "XMIT_REQ of {sender}"),
        NakAckHeader::XmitReq(None) => f.write_str("XMIT_REQ"),
        NakAckHeader::XmitRsp(n) => write!(f, "XMIT_RSP#{n}"),
        NakAckHeader::HighestSeqno(n) => write!(f, "HIGHEST_SEQNO#{n}"),
        NakAckHeader::Ack(n) => write!(f, "ACK#{n}"),
    }
}

fn say_unicast(h: &UnicastHeader, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match h {
        UnicastHeader::Data { seqno, conn_id, first: false } => {
            write!(f, "DATA#{seqno} conn {conn_id}")
        }
        UnicastHeader::Data { seqno, conn_id, first: true } => {
            write!(f, "DATA#{seqno} conn {conn_id} first")
        }
        UnicastHeader::Ack { seqno, conn_id, .. } => write!(f, "ACK#{seqno} conn {conn_id}"),
        UnicastHeader::SendFirstSeqno { .. } => f.write_str("SEND_FIRST_SEQNO"),
        UnicastHeader::XmitReq => f.write_str("XMIT_REQ"),
        UnicastHeader::Close { conn_id } => write!(f, "CLOSE conn {conn_id}"),
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prot.name() {
            Some(name) => write!(f, "{name}:")?,
            None => write!(f, "{}:", self.prot.0)?,
        }
        self.header.say(f)
    }
}

/// As its [`label`](Header::label) with the protocol that usually owns such a header.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.label(self.usual_prot()).fmt(f)
    }
}
