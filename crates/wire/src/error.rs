//! Why bytes could not be read. One small `Copy` value: decoding never allocates to fail.

use core::fmt;

/// What went wrong, where: `what` names the field being read, `at` the offset from the start of
/// the buffer that was handed to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field or object that was being read.
    pub what: &'static str,
    /// What is wrong with it.
    pub kind: DecodeErrorKind,
    /// Byte offset at which reading stopped.
    pub at: usize,
}

/// The kinds of [`DecodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The buffer ended before the field did.
    Short,
    /// Bytes were left over after the object.
    Trailing(usize),
    /// A tag, type or presence byte has no meaning here.
    BadTag(u32),
    /// A header whose class (magic id) is not known; the rest of the frame is unreadable.
    UnknownHeader(i16),
    /// A length or count that the remaining bytes cannot hold.
    TooLong(u64),
    /// A packet of another, incompatible version.
    Version(u16),
    /// Text that is not what it should be.
    BadText,
    /// Objects nested deeper than any sender of this format nests them.
    TooDeep,
    /// The field is syntactically fine, but its value is not possible.
    BadValue,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at, .. } = self;
        match self.kind {
            DecodeErrorKind::Short => write!(f, "{what}: ends too early at byte {at}"),
            DecodeErrorKind::Trailing(n) => write!(f, "{what}: {n} bytes too many at byte {at}"),
            DecodeErrorKind::BadTag(t) => write!(f, "{what}: unknown tag {t} at byte {at}"),
            DecodeErrorKind::UnknownHeader(m) => {
                write!(f, "{what}: unknown header class (magic id {m}) at byte {at}")
            }
            DecodeErrorKind::TooLong(n) => {
                write!(f, "{what}: length {n} at byte {at} is more than the bytes that follow")
            }
            DecodeErrorKind::Version(v) => write!(
                f,
                "{what}: version {}.{}.{} is not compatible",
                v >> 11,
                (v >> 6) & 31,
                v & 63
            ),
            DecodeErrorKind::BadText => write!(f, "{what}: malformed text at byte {at}"),
            DecodeErrorKind::TooDeep => write!(f, "{what}: nested too deeply at byte {at}"),
            DecodeErrorKind::BadValue => write!(f, "{what}: impossible value at byte {at}"),
        }
    }
}

impl core::error::Error for DecodeError {}
