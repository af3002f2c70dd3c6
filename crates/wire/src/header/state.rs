//! State transfer (WIRE §21): STATE_TRANSFER, STATE and STATE_SOCK.

use super::kinds::wire_kinds;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Digest, Encode, IpAddress, Reader, Writer};

/// State transfer in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTransferHeader {
    /// What it says.
    pub kind: StateTransferKind,
    /// The provider's digest.
    pub digest: Option<Digest>,
}

/// Kinds of [`StateTransferHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTransferKind {
    /// 1
    Request,
    /// 2
    Response,
    /// 3: the provider failed.
    Failure,
}

/// Streamed state transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamingHeader {
    /// What it says.
    pub kind: StreamingKind,
    /// The provider's digest.
    pub digest: Option<Digest>,
    /// Where to connect (STATE_SOCK).
    pub address: Option<IpAddress>,
}

/// Kinds of [`StreamingHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamingKind {
    /// 1
    Request,
    /// 2
    Response,
    /// 3: a chunk.
    Part,
    /// 4: the end.
    Eof,
    /// 5: the provider failed.
    Failure,
}

wire_kinds!(StateTransferKind: u8, "state transfer type", {
    Request = 1 "STATE_REQ",
    Response = 2 "STATE_RSP",
    Failure = 3 "STATE_EX",
});
wire_kinds!(StreamingKind: u8, "streaming state type", {
    Request = 1 "STATE_REQ",
    Response = 2 "STATE_RSP",
    Part = 3 "STATE_PART",
    Eof = 4 "STATE_EOF",
    Failure = 5 "STATE_EX",
});

/// Matches `STATE_TRANSFER.StateHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 STATE_REQ, 2 STATE_RSP, 3 STATE_EX |
/// | opt digest | with members (STATE_RSP) |
impl Encode for StateTransferHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.opt(self.digest.as_ref());
    }
}

impl Decode for StateTransferHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(StateTransferHeader { kind: StateTransferKind::decode(r)?, digest: r.opt("digest")? })
    }
}

/// Matches `StreamingStateTransfer.StateHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 STATE_REQ, 2 STATE_RSP, 3 STATE_PART, 4 STATE_EOF, 5 STATE_EX |
/// | opt digest | with members |
/// | opt IpAddress body | where to connect (STATE_SOCK) |
impl Encode for StreamingHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.opt(self.digest.as_ref());
        w.opt(self.address.as_ref());
    }
}

impl Decode for StreamingHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(StreamingHeader {
            kind: StreamingKind::decode(r)?,
            digest: r.opt("digest")?,
            address: r.opt("state address")?,
        })
    }
}
