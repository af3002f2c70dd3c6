//! Where encoded bytes go: into a buffer, or into a counter. Every type has one `encode`; its size
//! is what the counter says, so sizes and bytes cannot disagree.

use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};

/// A sink for encoded bytes.
pub trait Writer {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a shared buffer; a sink may keep a reference instead of copying.
    fn put_shared(&mut self, bytes: &Bytes) {
        self.put(bytes);
    }

    /// One byte.
    fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }
    /// A boolean as 00 or 01.
    fn bool(&mut self, v: bool) {
        self.put(&[u8::from(v)]);
    }
    /// 16 bits.
    fn u16(&mut self, v: u16) {
        self.put(&v.to_be_bytes());
    }
    /// 16 bits, signed.
    fn i16(&mut self, v: i16) {
        self.put(&v.to_be_bytes());
    }
    /// 32 bits.
    fn u32(&mut self, v: u32) {
        self.put(&v.to_be_bytes());
    }
    /// 32 bits, signed.
    fn i32(&mut self, v: i32) {
        self.put(&v.to_be_bytes());
    }
    /// 64 bits.
    fn u64(&mut self, v: u64) {
        self.put(&v.to_be_bytes());
    }
    /// 64 bits, signed.
    fn i64(&mut self, v: i64) {
        self.put(&v.to_be_bytes());
    }
}

impl Writer for BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }
}

impl Writer for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts what would have been written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter(pub usize);

impl Writer for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// A value with a place in the wire format.
pub trait Encode {
    /// Appends the encoding of `self`.
    fn encode(&self, w: &mut impl Writer);

    /// The number of bytes `encode` appends.
    fn encoded_len(&self) -> usize {
        let mut n = Counter::default();
        self.encode(&mut n);
        n.0
    }

    /// The encoding as a buffer of its own.
    fn to_bytes(&self) -> Bytes {
        let mut b = BytesMut::with_capacity(self.encoded_len());
        self.encode(&mut b);
        b.freeze()
    }
}

/// A value that can be read from the wire format.
pub trait Decode: Sized {
    /// Reads one value; what follows it stays in the reader.
    fn decode(r: &mut crate::Reader) -> crate::Decoded<Self>;

    /// Reads one value that must fill `bytes` to the last byte.
    fn from_bytes(bytes: Bytes) -> crate::Decoded<Self> {
        let mut r = crate::Reader::new(bytes);
        let v = Self::decode(&mut r)?;
        r.finish("object")?;
        Ok(v)
    }
}
