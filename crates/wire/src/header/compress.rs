//! Compression (WIRE §28).

use crate::{Decode, Decoded, Encode, Reader, Writer};

/// A compressed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressHeader {
    /// Length before compression.
    pub original_size: i32,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
}

/// Matches `COMPRESS.CompressHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 4 | length before compression |
/// | 1 | needs deserialization |
impl Encode for CompressHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.i32(self.original_size);
        w.bool(self.needs_deserialization);
    }
}

impl Decode for CompressHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(CompressHeader {
            original_size: r.i32("original size")?,
            needs_deserialization: r.bool("needs deserialization")?,
        })
    }
}
