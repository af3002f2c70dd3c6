//! Fragments (WIRE §19): FRAG2, FRAG4 and FRAG3.

use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};

/// A fragment of a message (FRAG2, FRAG4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragHeader {
    /// The message, per sender.
    pub id: i64,
    /// Which fragment, from 0.
    pub frag: i32,
    /// How many there are.
    pub total: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
    /// Message type of the original (FRAG4).
    pub original_type: i16,
}

/// A fragment of a message (FRAG3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag3Header {
    /// The message, per sender.
    pub id: i32,
    /// Which fragment, from 0.
    pub frag: i32,
    /// How many there are.
    pub total: i32,
    /// Length of the whole payload.
    pub original_length: i32,
    /// Where this slice starts.
    pub offset: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
}

/// Matches `FragHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | clong | id |
/// | cint | fragment, from 0 |
/// | cint | number of fragments |
/// | 1 | needs deserialization |
/// | 2 | type of the original message |
impl Encode for FragHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.clong(self.id);
        w.cint(self.frag);
        w.cint(self.total);
        w.bool(self.needs_deserialization);
        w.i16(self.original_type);
    }
}

impl Decode for FragHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(FragHeader {
            id: r.clong("fragment id")?,
            frag: r.cint("fragment number")?,
            total: r.cint("number of fragments")?,
            needs_deserialization: r.bool("needs deserialization")?,
            original_type: r.i16("original message type")?,
        })
    }
}

/// Matches `Frag3Header.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | cint | id |
/// | cint | fragment, from 0 |
/// | cint | number of fragments |
/// | cint | length of the original payload |
/// | cint | offset of this slice |
/// | 1 | needs deserialization |
impl Encode for Frag3Header {
    fn encode(&self, w: &mut impl Writer) {
        w.cint(self.id);
        w.cint(self.frag);
        w.cint(self.total);
        w.cint(self.original_length);
        w.cint(self.offset);
        w.bool(self.needs_deserialization);
    }
}

impl Decode for Frag3Header {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(Frag3Header {
            id: r.cint("fragment id")?,
            frag: r.cint("fragment number")?,
            total: r.cint("number of fragments")?,
            original_length: r.cint("original length")?,
            offset: r.cint("fragment offset")?,
            needs_deserialization: r.bool("needs deserialization")?,
        })
    }
}
