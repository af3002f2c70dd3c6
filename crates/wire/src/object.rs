//! Typed objects: what an ObjectMessage carries, and values in JGroups' own encodings (WIRE §9).

use crate::{Address, Digest, SeqnoList, View, ViewId};
use alloc::string::String;
use bytes::Bytes;

/// An object with a magic id of its own, or a wrapped value.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// Magic 15.
    SeqnoList(SeqnoList),
    /// Magic 9 (`mutable == false`) or 10.
    Digest {
        /// Which of the two classes Java used; they have one encoding.
        mutable: bool,
        /// The digest.
        digest: Digest,
    },
    /// Magic 4 or 6, told apart by the subgroups.
    View(View),
    /// Magic 5.
    ViewId(ViewId),
    /// Magics 1, 11, 12, 13, 14, 19, 22: an address of any kind.
    Address(Address),
    /// Magic 21: a primitive, string or byte array in stream encoding.
    Primitive(Value),
    /// Magic 20: an object buffer (WIRE §9.1), or null.
    Wrapped(Option<Bytes>),
}

/// A value in JGroups' own encodings. Anything else stays an opaque blob and is never instantiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Tag 0.
    Null,
    /// Tags 1, 2. The bool beside it: whether the tag was that of the boxed type.
    Bool(bool),
    /// Tag 4 (3).
    Byte(i8),
    /// Tag 6 (5).
    Char(u16),
    /// Tag 8 (7), as bits so that equality is exact.
    Double(u64),
    /// Tag 10 (9), as bits.
    Float(u32),
    /// Tag 12 (11).
    Int(i32),
    /// Tag 14 (13).
    Long(i64),
    /// Tag 16 (15).
    Short(i16),
    /// Tag 17.
    Str(String),
    /// Tag 18.
    Bytes(Bytes),
    /// Tag 19: the class that a tag stands for.
    Class(u8),
    /// Tag 50: a streamable object (gen), kept as its encoding: `01`, magic, body.
    Streamable(Bytes),
    /// Tag 51: Java serialisation, opaque.
    Java(Bytes),
}
