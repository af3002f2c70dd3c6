//! Total order (WIRE §22): SEQUENCER and SEQUENCER2.

use super::kinds::wire_kinds;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};

/// Total order through the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencerHeader {
    /// What it says.
    pub kind: SequencerKind,
    /// The original sender's number.
    pub seqno: i64,
    /// The original sender waits for its own copy.
    pub flush_ack: bool,
}

/// Kinds of [`SequencerHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerKind {
    /// 1
    Forward,
    /// 2
    Flush,
    /// 3
    Bcast,
    /// 4
    WrappedBcast,
}

/// Total order by numbers from the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencer2Header {
    /// 1 REQUEST, 2 BCAST, 3 RESPONSE.
    pub kind: u8,
    /// First number.
    pub seqno: i64,
    /// How many.
    pub count: u16,
}

wire_kinds!(SequencerKind: u8, "SEQUENCER type", {
    Forward = 1 "FORWARD",
    Flush = 2 "FLUSH",
    Bcast = 3 "BCAST",
    WrappedBcast = 4 "WRAPPED_BCAST",
});

/// Matches `SEQUENCER.SequencerHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 FORWARD, 2 FLUSH, 3 BCAST, 4 WRAPPED_BCAST |
/// | clong | seqno |
/// | 1 | flush_ack |
impl Encode for SequencerHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.clong(self.seqno);
        w.bool(self.flush_ack);
    }
}

impl Decode for SequencerHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(SequencerHeader {
            kind: SequencerKind::decode(r)?,
            seqno: r.clong("SEQUENCER seqno")?,
            flush_ack: r.bool("flush_ack")?,
        })
    }
}

/// Matches `SEQUENCER2.SequencerHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 REQUEST, 2 BCAST, 3 RESPONSE |
/// | clong | first seqno |
/// | 2 | how many |
impl Encode for Sequencer2Header {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind);
        w.clong(self.seqno);
        w.u16(self.count);
    }
}

impl Decode for Sequencer2Header {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(Sequencer2Header {
            kind: r.u8("SEQUENCER2 type")?,
            seqno: r.clong("SEQUENCER2 seqno")?,
            count: r.u16("SEQUENCER2 count")?,
        })
    }
}
