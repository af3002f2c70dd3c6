//! Reliable multicast (WIRE §14): the header of NAKACK2, NAKACK3 and NAKACK4.

use crate::address_codec::{decode_addr, encode_addr};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};

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

/// Matches `NakAckHeader2.writeTo` and `NakAckHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 MSG, 2 XMIT_REQ, 3 XMIT_RSP, 4 HIGHEST_SEQNO, 5 ACK |
/// | clong | seqno, unless XMIT_REQ |
/// | addr | XMIT_REQ: the original sender |
impl Encode for NakAckHeader {
    fn encode(&self, w: &mut impl Writer) {
        let (kind, seqno) = match self {
            NakAckHeader::XmitReq(sender) => {
                w.u8(2);
                return encode_addr(sender.as_ref(), w);
            }
            NakAckHeader::Msg(seqno) => (1, seqno),
            NakAckHeader::XmitRsp(seqno) => (3, seqno),
            NakAckHeader::HighestSeqno(seqno) => (4, seqno),
            NakAckHeader::Ack(seqno) => (5, seqno),
        };
        w.u8(kind);
        w.clong(*seqno);
    }
}

impl Decode for NakAckHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const SEQNO: &str = "multicast seqno";
        Ok(match r.u8("NAKACK type")? {
            1 => NakAckHeader::Msg(r.clong(SEQNO)?),
            2 => NakAckHeader::XmitReq(decode_addr(r)?),
            3 => NakAckHeader::XmitRsp(r.clong(SEQNO)?),
            4 => NakAckHeader::HighestSeqno(r.clong(SEQNO)?),
            5 => NakAckHeader::Ack(r.clong(SEQNO)?),
            n => return Err(r.error("NAKACK type", DecodeErrorKind::BadTag(u32::from(n)))),
        })
    }
}
