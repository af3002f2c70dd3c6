//! Verification of a suspect (WIRE §12.3).

use super::kinds::wire_kinds;
use crate::address_codec::{decode_addr, encode_addr};
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};

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

wire_kinds!(VerifyKind: i16, "verification type", {
    AreYouDead = 1 "ARE_YOU_DEAD",
    IAmNotDead = 2 "I_AM_NOT_DEAD",
});

/// Matches `VERIFY_SUSPECT2.VerifyHeader.writeTo` and that of VERIFY_SUSPECT.
///
/// | bytes | field |
/// |-------|-------|
/// | 2 | 1 ARE_YOU_DEAD, 2 I_AM_NOT_DEAD |
/// | addr | from |
impl Encode for VerifyHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.i16(self.kind.to_wire());
        encode_addr(self.from.as_ref(), w);
    }
}

impl Decode for VerifyHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(VerifyHeader { kind: VerifyKind::decode(r)?, from: decode_addr(r)? })
    }
}
