//! A cursor over a shared buffer. Payloads come out as slices of that buffer, never as copies;
//! every length is checked against the bytes that remain before anything is allocated.

use crate::error::{DecodeError, DecodeErrorKind};
use bytes::Bytes;

/// How deep messages and objects may nest (composite and batch messages, wrapped objects).
pub const MAX_DEPTH: u8 = 8;

/// How many messages one packet may hold, those within messages included. Each of them is work for
/// every protocol, and an empty one takes seven bytes: without a limit a single large frame would
/// keep its receiver busy for seconds. JGroups' own lists have a few thousand at most.
pub const MAX_MESSAGES: usize = 1 << 16;

/// How many bytes of copies one byte of input justifies. Real lists of messages between members
/// with long addresses need about 20.
const COPIES_PER_BYTE: usize = 64;

/// Reads big-endian fields from a [`Bytes`].
#[derive(Clone, Debug)]
pub struct Reader {
    buf: Bytes,
    pos: usize,
    depth: u8,
    /// What decoders may still allocate for copies of values that the input names only once.
    copies_left: usize,
    messages_left: usize,
}

/// The result of every decode step.
pub type Decoded<T> = Result<T, DecodeError>;

impl Reader {
    /// A reader at the start of `buf`.
    #[must_use]
    pub fn new(buf: Bytes) -> Self {
        let copies_left = buf.len().saturating_mul(COPIES_PER_BYTE);
        Self { buf, pos: 0, depth: 0, copies_left, messages_left: MAX_MESSAGES }
    }

    /// An error of `kind` at the current position.
    #[must_use]
    pub fn error(&self, what: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { what, kind, at: self.pos }
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// The next `n` bytes, consumed.
    pub fn take(&mut self, n: usize, what: &'static str) -> Decoded<&[u8]> {
        if n > self.remaining() {
            return Err(self.error(what, DecodeErrorKind::Short));
        }
        let start = self.pos;
        self.pos += n;
        Ok(&self.buf[start..self.pos])
    }

    /// The next `n` bytes as a shared slice, consumed.
    pub fn slice(&mut self, n: usize, what: &'static str) -> Decoded<Bytes> {
        if n > self.remaining() {
            return Err(self.error(what, DecodeErrorKind::TooLong(n as u64)));
        }
        let start = self.pos;
        self.pos += n;
        Ok(self.buf.slice(start..self.pos))
    }

    /// Everything that is left, consumed.
    pub fn rest(&mut self) -> Bytes {
        let start = self.pos;
        self.pos = self.buf.len();
        self.buf.slice(start..)
    }

    /// A reader confined to the next `n` bytes; they are consumed here.
    pub fn child(&mut self, n: usize, what: &'static str) -> Decoded<Reader> {
        let depth = self.depth;
        let mut child = Reader::new(self.slice(n, what)?);
        child.depth = depth;
        Ok(child)
    }

    /// What was read since `start`, an earlier [`position`](Self::position), as a shared slice.
    #[must_use]
    pub fn read_since(&self, start: usize) -> Bytes {
        self.buf.slice(start.min(self.pos)..self.pos)
    }

    /// Accounts for `cost` bytes of heap that copy a value which the input holds only once (the
    /// source of a list, copied into each of its messages). Bounded by the length of the input, so
    /// that two bytes cannot stand for a copy of a kilobyte any number of times.
    pub fn charge(&mut self, cost: usize, what: &'static str) -> Decoded<()> {
        match self.copies_left.checked_sub(cost) {
            Some(left) => {
                self.copies_left = left;
                Ok(())
            }
            None => Err(self.error(what, DecodeErrorKind::TooLong(cost as u64))),
        }
    }

    /// Accounts for `n` messages of a list; see [`MAX_MESSAGES`].
    pub fn claim_messages(&mut self, n: usize, what: &'static str) -> Decoded<()> {
        match self.messages_left.checked_sub(n) {
            Some(left) => {
                self.messages_left = left;
                Ok(())
            }
            None => Err(self.error(what, DecodeErrorKind::TooLong(n as u64))),
        }
    }

    /// Fails unless every byte was read.
    pub fn finish(&self, what: &'static str) -> Decoded<()> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(self.error(what, DecodeErrorKind::Trailing(n))),
        }
    }

    /// Runs `f` one nesting level deeper; [`MAX_DEPTH`] bounds recursion on hostile input.
    pub fn nested<T>(
        &mut self,
        what: &'static str,
        f: impl FnOnce(&mut Self) -> Decoded<T>,
    ) -> Decoded<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(what, DecodeErrorKind::TooDeep));
        }
        self.depth += 1;
        let r = f(self);
        self.depth -= 1;
        r
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Decoded<u8> {
        Ok(self.take(1, what)?[0])
    }

    /// A Java boolean: any non-zero byte is true.
    pub fn bool(&mut self, what: &'static str) -> Decoded<bool> {
        Ok(self.u8(what)? != 0)
    }

    /// Unsigned 16 bits.
    pub fn u16(&mut self, what: &'static str) -> Decoded<u16> {
        let b = self.take(2, what)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    /// Signed 16 bits.
    pub fn i16(&mut self, what: &'static str) -> Decoded<i16> {
        Ok(self.u16(what)? as i16)
    }

    /// Unsigned 32 bits.
    pub fn u32(&mut self, what: &'static str) -> Decoded<u32> {
        let b = self.take(4, what)?;
        Ok(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Signed 32 bits.
    pub fn i32(&mut self, what: &'static str) -> Decoded<i32> {
        Ok(self.u32(what)? as i32)
    }

    /// Unsigned 64 bits.
    pub fn u64(&mut self, what: &'static str) -> Decoded<u64> {
        let b = self.take(8, what)?;
        Ok(u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
    }

    /// Signed 64 bits.
    pub fn i64(&mut self, what: &'static str) -> Decoded<i64> {
        Ok(self.u64(what)? as i64)
    }

    /// A count of elements that take at least `min_size` bytes each: refused when the bytes that
    /// remain could not hold them, so a `Vec` of that capacity is justified by the input.
    pub fn count(&mut self, n: i64, min_size: usize, what: &'static str) -> Decoded<usize> {
        let fits = (self.remaining() / min_size.max(1)) as i64;
        if n < 0 || n > fits {
            return Err(self.error(what, DecodeErrorKind::TooLong(n as u64)));
        }
        Ok(n as usize)
    }
}
