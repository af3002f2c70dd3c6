//! Requests and responses of remote calls (WIRE §30.1).

use super::kinds::wire_kinds;
use crate::address_codec::{decode_addrs, encode_addrs};
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use alloc::vec::Vec;

/// Request correlator header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelatorHeader {
    /// What it says.
    pub kind: CorrelatorKind,
    /// The caller's number for the request; 0: no answer is expected.
    pub request: i64,
    /// The correlator, usually the protocol id 200.
    pub correlator: i16,
    /// Members that ignore the request (magic 68); `None` is the plain header (magic 67).
    pub excluded: Option<Vec<Address>>,
}

/// Kinds of [`CorrelatorHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrelatorKind {
    /// 0: a request.
    Request,
    /// 1: the payload is the result.
    Response,
    /// 2: the payload is the exception.
    Failure,
}

wire_kinds!(CorrelatorKind: u8, "request type", {
    Request = 0 "REQ",
    Response = 1 "RSP",
    Failure = 2 "EXC_RSP",
});

/// Matches `RequestCorrelator.Header.writeTo` and `MultiDestinationHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 0 request, 1 response, 2 exception |
/// | clong | request id |
/// | 2 | correlator id |
/// | addrs | magic 68: who is excluded |
impl Encode for CorrelatorHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.clong(self.request);
        w.i16(self.correlator);
        if let Some(excluded) = &self.excluded {
            encode_addrs(Some(excluded), w);
        }
    }
}

impl CorrelatorHeader {
    /// Reads the plain header, or with `exclusions` the one that lists excluded members.
    pub(super) fn decode(exclusions: bool, r: &mut Reader) -> Decoded<Self> {
        let kind = CorrelatorKind::decode(r)?;
        let request = r.clong("request id")?;
        let correlator = r.i16("correlator id")?;
        let excluded = match exclusions {
            true => Some(decode_addrs(r, "excluded members")?.unwrap_or_default()),
            false => None,
        };
        Ok(CorrelatorHeader { kind, request, correlator, excluded })
    }
}
