//! Headers of a field or two (WIRE §25, §32).

use crate::address_codec::{decode_addr, encode_addr};
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// FORK header: the fork stack and the channel on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkHeader {
    /// The fork stack.
    pub stack: Option<String>,
    /// The channel.
    pub channel: Option<String>,
}

/// str fork stack, str channel. Matches `FORK.ForkHeader.writeTo`.
impl Encode for ForkHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.str(self.stack.as_deref());
        w.str(self.channel.as_deref());
    }
}

impl Decode for ForkHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(ForkHeader { stack: r.str("fork stack")?, channel: r.str("fork channel")? })
    }
}

/// DAISYCHAIN header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaisyHeader {
    /// Who sent the message first.
    pub original_sender: Option<Address>,
}

/// addr original sender. Matches `DAISYCHAIN.DaisyHeader.writeTo`.
impl Encode for DaisyHeader {
    fn encode(&self, w: &mut impl Writer) {
        encode_addr(self.original_sender.as_ref(), w);
    }
}

impl Decode for DaisyHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(DaisyHeader { original_sender: decode_addr(r)? })
    }
}

/// Keys and values that explain a message (magic 101).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoHeader {
    /// The pairs, in the order they came.
    pub entries: Vec<(Option<String>, Option<String>)>,
}

/// i32 count; each str key, str value. Matches `InfoHeader.writeTo`.
impl Encode for InfoHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.i32(self.entries.len() as i32);
        for (key, value) in &self.entries {
            w.str(key.as_deref());
            w.str(value.as_deref());
        }
    }
}

impl Decode for InfoHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let n = r.i32("info entries")?;
        let n = r.count(i64::from(n), 2, "info entries")?;
        let mut entries = Vec::new();
        for _ in 0..n {
            entries.push((r.str("info key")?, r.str("info value")?));
        }
        Ok(InfoHeader { entries })
    }
}
