//! Sets of sequence numbers as ranges, in ascending order.

use crate::wire::{DecodeErrorKind, Decoded, Reader, Writer};
use alloc::vec::Vec;

/// A set of numbers. The ranges neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    /// Most ranges of one set that travel; what does not fit is told in the next report.
    pub(crate) const MOST: usize = 1000;

    /// Adds a number above all that are in the set.
    pub(crate) fn push(&mut self, n: i64) {
        match self.0.last_mut() {
            Some((_, last)) if *last == n.wrapping_sub(1) => *last = n,
            _ => self.0.push((n, n)),
        }
    }

    /// Whether `n` is in the set.
    pub(super) fn contains(&self, n: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| after(n, *last));
        self.0.get(at).is_some_and(|(first, _)| !after(*first, n))
    }

    /// The numbers, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().flat_map(|(first, last)| {
            let count = last.wrapping_sub(*first).wrapping_add(1);
            (0..count).map(move |i| first.wrapping_add(i))
        })
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn encode(&self, w: &mut impl Writer) {
        w.u16(self.0.len() as u16);
        for (first, last) in &self.0 {
            w.i64(*first);
            w.i64(*last);
        }
    }

    /// Reads a set within `low < n <= high`.
    pub(super) fn decode(r: &mut Reader, low: i64, high: i64) -> Decoded<Self> {
        let count = usize::from(r.u16("ranges")?);
        if count > Self::MOST || count * 16 > r.remaining() {
            return Err(r.error("ranges", DecodeErrorKind::TooLong(count as u64)));
        }
        let mut ranges = Vec::with_capacity(count);
        let mut below = low;
        for _ in 0..count {
            let (first, last) = (r.i64("range")?, r.i64("range")?);
            if !after(first, below) || after(first, last) || after(last, high) {
                return Err(r.error("range", DecodeErrorKind::BadValue));
            }
            ranges.push((first, last));
            below = last;
        }
        Ok(Self(ranges))
    }
}

impl FromIterator<i64> for Ranges {
    /// From ascending numbers.
    fn from_iter<T: IntoIterator<Item = i64>>(numbers: T) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|n| set.push(n));
        set
    }
}

/// Whether `a` comes after `b`. Numbers are compared by difference, as in the windows.
pub(super) fn after(a: i64, b: i64) -> bool {
    a.wrapping_sub(b) > 0
}
