//! Compressed numbers, strings and containers (WIRE §2), as methods of [`Reader`] and of
//! [`WriteExt`], which every [`Writer`] has.
//!
//! Writing never fails: what the format cannot hold (a text of more than 65,534 bytes, a cluster
//! name of more than 32,767) is cut at a character, so the bytes that follow stay readable.
//! Reading never allocates before the length was checked against the bytes that are there.

use crate::digest::SeqnoPair;
use crate::error::DecodeErrorKind;
use crate::{Decoded, Reader, Writer};
use alloc::string::String;
use bytes::Bytes;

/// The longest `utf`: 65,535 would be read as null by JGroups' own streams.
const MAX_UTF: usize = 65_534;

/// How many low-order bytes carry `v`: the smallest n for which the arithmetic shift by 8·n bits is
/// 0. Negative values never shift to 0 and take all eight.
fn significant_bytes(v: i64) -> usize {
    match v {
        v if v < 0 => 8,
        v => (64 - v.leading_zeros() as usize).div_ceil(8),
    }
}

/// The encodings of WIRE §2 that go beyond fixed-width numbers.
pub trait WriteExt: Writer {
    /// A compressed 32-bit number. Matches `Bits.writeIntCompressed`.
    ///
    /// | bytes | field |
    /// |-------|-------|
    /// | 1     | n, 0 for the value 0, else 1..4 |
    /// | n     | the low-order bytes, least significant first |
    fn cint(&mut self, v: i32) {
        let n = if v < 0 { 4 } else { significant_bytes(i64::from(v)) };
        let mut out = [0u8; 5];
        out[0] = n as u8;
        out[1..].copy_from_slice(&v.to_le_bytes());
        self.put(&out[..=n]);
    }

    /// A compressed 64-bit number: as `cint`, with up to 8 bytes. Matches
    /// `Bits.writeLongCompressed`.
    fn clong(&mut self, v: i64) {
        let n = significant_bytes(v);
        let mut out = [0u8; 9];
        out[0] = n as u8;
        out[1..].copy_from_slice(&v.to_le_bytes());
        self.put(&out[..=n]);
    }

    /// A pair of numbers. Matches `Bits.writeLongSequence`.
    ///
    /// | bytes | field |
    /// |-------|-------|
    /// | 1     | 0 if both are 0, else n1 << 4 \| n2 |
    /// | n1    | the first, least significant byte first (the value 0 takes one byte) |
    /// | n2    | second − first, the same way |
    ///
    /// A second number below the first (Java refuses to write it) wraps, and reads back as it was.
    fn lseq(&mut self, pair: SeqnoPair) {
        let (first, delta) = (pair.delivered, pair.received.wrapping_sub(pair.delivered));
        if first == 0 && delta == 0 {
            return self.u8(0);
        }
        let (n1, n2) = (significant_bytes(first).max(1), significant_bytes(delta).max(1));
        let mut out = [0u8; 17];
        out[0] = (n1 << 4 | n2) as u8;
        out[1..9].copy_from_slice(&first.to_le_bytes());
        out[1 + n1..9 + n1].copy_from_slice(&delta.to_le_bytes());
        self.put(&out[..1 + n1 + n2]);
    }

    /// A text: u16 number of bytes, then modified UTF-8 (NUL as `c080`, characters above U+FFFF as
    /// two surrogates of three bytes each). Matches `DataOutput.writeUTF`.
    fn utf(&mut self, s: &str) {
        let s = longest_prefix(s, MAX_UTF);
        self.u16(utf_len(s) as u16);
        if s.bytes().all(|b| b != 0 && b < 0xf0) {
            return self.put(s.as_bytes());
        }
        for c in s.chars() {
            let mut utf8 = [0u8; 4];
            match c {
                '\0' => self.put(&[0xc0, 0x80]),
                '\u{10000}'.. => {
                    let mut units = [0u16; 2];
                    for u in c.encode_utf16(&mut units) {
                        self.put(&[
                            0xe0 | (*u >> 12) as u8,
                            0x80 | (*u >> 6) as u8 & 0x3f,
                            0x80 | *u as u8 & 0x3f,
                        ]);
                    }
                }
                c => self.put(c.encode_utf8(&mut utf8).as_bytes()),
            }
        }
    }

    /// A text or null as JGroups' in-memory stream writes it: null is the count `ffff`.
    fn nullable_utf(&mut self, s: Option<&str>) {
        match s {
            None => self.u16(0xffff),
            Some(s) => self.utf(s),
        }
    }

    /// An optional text: `00`, or `01` and a utf. Matches `Bits.writeString`.
    fn str(&mut self, s: Option<&str>) {
        self.bool(s.is_some());
        if let Some(s) = s {
            self.utf(s);
        }
    }

    /// A text inside object serialisation: `01`, i32 count and ASCII bytes; or `00` and a utf.
    fn jstr(&mut self, s: &str) {
        self.bool(s.is_ascii());
        if s.is_ascii() {
            self.i32(s.len() as i32);
            self.put(s.as_bytes());
        } else {
            self.utf(s);
        }
    }

    /// A cluster name: i16 count (−1 is null) and bytes. Matches `Bits.writeAsciiString`.
    fn astr(&mut self, s: Option<&[u8]>) {
        let Some(s) = s else { return self.i16(-1) };
        let s = &s[..s.len().min(i16::MAX as usize)];
        self.i16(s.len() as i16);
        self.put(s);
    }

    /// Optional bytes: `00`, or `01`, i32 count and bytes. Matches `Util.writeByteBuffer`.
    fn buf(&mut self, b: Option<&Bytes>) {
        self.bool(b.is_some());
        if let Some(b) = b {
            self.i32(b.len() as i32);
            self.put_shared(b);
        }
    }

    /// Bytes behind an i32 count; −1 is null.
    fn counted(&mut self, b: Option<&Bytes>) {
        match b {
            None => self.i32(-1),
            Some(b) => {
                self.i32(b.len() as i32);
                self.put_shared(b);
            }
        }
    }

    /// An optional value: a presence byte, then the value if there is one.
    fn opt<T: crate::Encode>(&mut self, v: Option<&T>)
    where
        Self: Sized,
    {
        self.bool(v.is_some());
        if let Some(v) = v {
            v.encode(self);
        }
    }
}

impl<W: Writer + ?Sized> WriteExt for W {}

/// The number of bytes of `s` in modified UTF-8.
fn utf_len(s: &str) -> usize {
    s.chars().map(char_len).sum()
}

/// The number of bytes of one character in modified UTF-8.
fn char_len(c: char) -> usize {
    match c {
        '\0' => 2,
        '\u{10000}'.. => 6,
        c => c.len_utf8(),
    }
}

/// The longest prefix of `s` whose modified UTF-8 has at most `max` bytes.
fn longest_prefix(s: &str, max: usize) -> &str {
    // Modified UTF-8 takes at most twice the bytes of UTF-8, so short texts need no count.
    if s.len() <= max / 2 {
        return s;
    }
    let mut len = 0;
    for (at, c) in s.char_indices() {
        len += char_len(c);
        if len > max {
            return &s[..at];
        }
    }
    s
}

/// The UTF-16 unit at the start of `b` and how many bytes it takes; `None` if it is malformed. A
/// plain zero byte is: writers encode NUL in two bytes.
fn utf16_unit(b: &[u8]) -> Option<(u16, usize)> {
    let continuation = |i: usize| match b.get(i) {
        Some(c) if c & 0xc0 == 0x80 => Some(u16::from(c & 0x3f)),
        _ => None,
    };
    match *b.first()? {
        0 => None,
        c @ 1..=0x7f => Some((u16::from(c), 1)),
        c @ 0xc0..=0xdf => Some((u16::from(c & 0x1f) << 6 | continuation(1)?, 2)),
        c @ 0xe0..=0xef => {
            Some((u16::from(c & 0x0f) << 12 | continuation(1)? << 6 | continuation(2)?, 3))
        }
        _ => None,
    }
}

/// Modified UTF-8 as a string; surrogates without a partner become U+FFFD.
pub(crate) fn decode_utf(bytes: &[u8]) -> Option<String> {
    // Without NULs and surrogates modified UTF-8 is UTF-8 that never needs four bytes.
    if let Ok(s) = core::str::from_utf8(bytes)
        && s.bytes().all(|b| b != 0 && b < 0xf0)
    {
        return Some(s.into());
    }
    let mut at = 0;
    while at < bytes.len() {
        at += utf16_unit(&bytes[at..])?.1;
    }
    let mut at = 0;
    let units = core::iter::from_fn(|| {
        let (unit, n) = utf16_unit(&bytes[at..])?;
        at += n;
        Some(unit)
    });
    Some(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

impl Reader {
    /// A compressed 32-bit number.
    pub fn cint(&mut self, what: &'static str) -> Decoded<i32> {
        Ok(self.little_endian(4, what)? as i32)
    }

    /// A compressed 64-bit number.
    pub fn clong(&mut self, what: &'static str) -> Decoded<i64> {
        Ok(self.little_endian(8, what)? as i64)
    }

    /// A length byte of at most `max` and that many bytes, least significant first.
    fn little_endian(&mut self, max: u8, what: &'static str) -> Decoded<u64> {
        let n = self.u8(what)?;
        if n > max {
            return Err(self.error(what, DecodeErrorKind::BadTag(u32::from(n))));
        }
        self.low_bytes(usize::from(n), what)
    }

    fn low_bytes(&mut self, n: usize, what: &'static str) -> Decoded<u64> {
        let mut v = [0u8; 8];
        v[..n].copy_from_slice(self.take(n, what)?);
        Ok(u64::from_le_bytes(v))
    }

    /// A pair of numbers.
    pub fn lseq(&mut self, what: &'static str) -> Decoded<SeqnoPair> {
        let lengths = self.u8(what)?;
        let (n1, n2) = (usize::from(lengths >> 4), usize::from(lengths & 15));
        if n1 > 8 || n2 > 8 {
            return Err(self.error(what, DecodeErrorKind::BadTag(u32::from(lengths))));
        }
        let delivered = self.low_bytes(n1, what)? as i64;
        let received = delivered.wrapping_add(self.low_bytes(n2, what)? as i64);
        Ok(SeqnoPair { delivered, received })
    }

    /// A text; the null form is an error.
    pub fn utf(&mut self, what: &'static str) -> Decoded<String> {
        self.nullable_utf(what)?.ok_or_else(|| self.error(what, DecodeErrorKind::BadValue))
    }

    /// A text, or null.
    pub fn nullable_utf(&mut self, what: &'static str) -> Decoded<Option<String>> {
        let n = self.u16(what)?;
        if n == 0xffff {
            return Ok(None);
        }
        match decode_utf(self.take(usize::from(n), what)?) {
            Some(s) => Ok(Some(s)),
            None => Err(self.error(what, DecodeErrorKind::BadText)),
        }
    }

    /// An optional text. As in Java only `01` means present.
    pub fn str(&mut self, what: &'static str) -> Decoded<Option<String>> {
        match self.u8(what)? {
            1 => self.nullable_utf(what),
            _ => Ok(None),
        }
    }

    /// A text inside object serialisation.
    pub fn jstr(&mut self, what: &'static str) -> Decoded<String> {
        if !self.bool(what)? {
            return self.utf(what);
        }
        let n = self.i32(what)?;
        let n = self.count(i64::from(n), 1, what)?;
        match core::str::from_utf8(self.take(n, what)?) {
            Ok(s) if s.is_ascii() => Ok(s.into()),
            _ => Err(self.error(what, DecodeErrorKind::BadText)),
        }
    }

    /// A cluster name, or null.
    pub fn astr(&mut self, what: &'static str) -> Decoded<Option<Bytes>> {
        match self.i16(what)? {
            -1 => Ok(None),
            n if n < 0 => Err(self.error(what, DecodeErrorKind::TooLong(n as u64))),
            n => self.slice(n as usize, what).map(Some),
        }
    }

    /// Optional bytes. As in Java only `01` means present.
    pub fn buf(&mut self, what: &'static str) -> Decoded<Option<Bytes>> {
        match self.u8(what)? {
            1 => self.counted(what),
            _ => Ok(None),
        }
    }

    /// Bytes behind an i32 count; −1 is null.
    pub fn counted(&mut self, what: &'static str) -> Decoded<Option<Bytes>> {
        match self.i32(what)? {
            -1 => Ok(None),
            n => {
                let n = self.count(i64::from(n), 1, what)?;
                self.slice(n, what).map(Some)
            }
        }
    }

    /// An optional value behind a presence byte.
    pub fn opt<T: crate::Decode>(&mut self, what: &'static str) -> Decoded<Option<T>> {
        if self.bool(what)? { T::decode(self).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn read(bytes: &[u8]) -> Reader {
        Reader::new(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn a_lone_surrogate_reads_as_the_replacement_character() {
        let mut r = read(&[0, 5, b'a', 0xed, 0xa0, 0xbd, b'b']);
        assert_eq!(r.utf("text").unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn malformed_text_is_an_error() {
        for bad in [&[0u8, 1, 0][..], &[0, 1, 0xff], &[0, 2, 0xc3, b'x'], &[0, 1, 0xe2]] {
            assert_eq!(read(bad).utf("text").unwrap_err().kind, DecodeErrorKind::BadText);
        }
    }

    #[test]
    fn a_text_beyond_the_format_is_cut_at_a_character() {
        let long: String = core::iter::repeat_n('\u{1f600}', 20_000).collect();
        let mut out = Vec::new();
        out.str(Some(&long));
        let back = read(&out).str("text").unwrap().unwrap();
        assert_eq!(back.chars().count(), MAX_UTF / 6);
        assert!(long.starts_with(&back));
    }

    #[test]
    fn a_longer_than_minimal_number_is_accepted() {
        assert_eq!(read(&[3, 1, 0, 0]).cint("n").unwrap(), 1);
        assert_eq!(
            read(&[5, 1, 0, 0, 0, 0]).cint("n").unwrap_err().kind,
            DecodeErrorKind::BadTag(5)
        );
    }

    #[test]
    fn a_pair_out_of_order_survives() {
        let pair = SeqnoPair { delivered: 7, received: 3 };
        let mut out = vec![];
        out.lseq(pair);
        assert_eq!(read(&out).lseq("pair").unwrap(), pair);
    }
}
