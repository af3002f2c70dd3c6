//! Discovery (WIRE §10.1): the header of PING, TCPPING, MPING and their kin.

use super::kinds::wire_kinds;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;

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

wire_kinds!(PingKind: u8, "discovery type", {
    Request = 1 "GET_MBRS_REQ",
    Response = 2 "GET_MBRS_RSP",
});

/// Matches `PingHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 request, 2 response |
/// | str | cluster |
/// | 1 | a join is the reason |
impl Encode for PingHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.str(self.cluster.as_deref());
        w.bool(self.initial);
    }
}

impl Decode for PingHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(PingHeader {
            kind: PingKind::decode(r)?,
            cluster: r.str("cluster name")?,
            initial: r.bool("initial")?,
        })
    }
}
