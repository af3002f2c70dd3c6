//! Synchronous sends (WIRE §20).

use super::kinds::wire_kinds;
use crate::{Decode, Decoded, Encode, Reader, Writer};

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

wire_kinds!(RsvpKind: u8, "RSVP type", {
    Request = 1 "REQ",
    RequestOnly = 2 "REQ_ONLY",
    Response = 3 "RSP",
});

/// Matches `RSVP.RsvpHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 REQ, 2 REQ_ONLY, 3 RSP |
/// | 2 | id |
impl Encode for RsvpHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.i16(self.id);
    }
}

impl Decode for RsvpHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(RsvpHeader { kind: RsvpKind::decode(r)?, id: r.i16("RSVP id")? })
    }
}
