//! Stability (WIRE §16).

use super::kinds::wire_kinds;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, ViewId, Writer};

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

wire_kinds!(StableKind: u8, "STABLE type", {
    Gossip = 1 "STABLE_GOSSIP",
    Stability = 2 "STABILITY",
});

/// Matches `STABLE.StableHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 STABLE_GOSSIP, 2 STABILITY |
/// | opt viewid | the view |
impl Encode for StableHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.opt(self.view.as_ref());
    }
}

impl Decode for StableHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(StableHeader { kind: StableKind::decode(r)?, view: r.opt("view id")? })
    }
}
