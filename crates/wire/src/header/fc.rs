//! Flow control (WIRE §18).

use super::kinds::wire_kinds;
use crate::{Encode, Writer};

/// Flow control; the amount is the message's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FcHeader {
    /// 1: credit is granted.
    Replenish,
    /// 2: credit is asked for.
    CreditRequest,
}

wire_kinds!(FcHeader: u8, "flow control type", {
    Replenish = 1 "REPLENISH",
    CreditRequest = 2 "CREDIT_REQUEST",
});

/// Matches `FcHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 REPLENISH, 2 CREDIT_REQUEST |
impl Encode for FcHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.to_wire());
    }
}
