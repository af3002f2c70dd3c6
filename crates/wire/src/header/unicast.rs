//! Reliable unicast (WIRE §15): the header of UNICAST3 and UNICAST4.

use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};

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

/// Matches `UnicastHeader3.writeTo` and `UnicastHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 0 DATA, 1 ACK, 2 SEND_FIRST_SEQNO, 3 XMIT_REQ, 4 CLOSE |
/// | DATA | clong seqno, 2 bytes conn_id, 1 byte first |
/// | ACK | clong seqno, 2 bytes conn_id, cint timestamp |
/// | SEND_FIRST_SEQNO | cint timestamp |
/// | CLOSE | 2 bytes conn_id |
impl Encode for UnicastHeader {
    fn encode(&self, w: &mut impl Writer) {
        match *self {
            UnicastHeader::Data { seqno, conn_id, first } => {
                w.u8(0);
                w.clong(seqno);
                w.i16(conn_id);
                w.bool(first);
            }
            UnicastHeader::Ack { seqno, conn_id, timestamp } => {
                w.u8(1);
                w.clong(seqno);
                w.i16(conn_id);
                w.cint(timestamp);
            }
            UnicastHeader::SendFirstSeqno { timestamp } => {
                w.u8(2);
                w.cint(timestamp);
            }
            UnicastHeader::XmitReq => w.u8(3),
            UnicastHeader::Close { conn_id } => {
                w.u8(4);
                w.i16(conn_id);
            }
        }
    }
}

impl Decode for UnicastHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const SEQNO: &str = "unicast seqno";
        const CONN: &str = "connection id";
        const TIME: &str = "acknowledgement timestamp";
        Ok(match r.u8("UNICAST type")? {
            0 => UnicastHeader::Data {
                seqno: r.clong(SEQNO)?,
                conn_id: r.i16(CONN)?,
                first: r.bool("first")?,
            },
            1 => UnicastHeader::Ack {
                seqno: r.clong(SEQNO)?,
                conn_id: r.i16(CONN)?,
                timestamp: r.cint(TIME)?,
            },
            2 => UnicastHeader::SendFirstSeqno { timestamp: r.cint(TIME)? },
            3 => UnicastHeader::XmitReq,
            4 => UnicastHeader::Close { conn_id: r.i16(CONN)? },
            n => return Err(r.error("UNICAST type", DecodeErrorKind::BadTag(u32::from(n)))),
        })
    }
}
