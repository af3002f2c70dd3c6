//! Digests: per member the highest delivered and highest received sequence number (WIRE §8.5),
//! and lists of missing numbers (§8.7).

use crate::Address;
use alloc::vec::Vec;

/// Highest delivered and highest received sequence number of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqnoPair {
    /// Highest number up to which everything was delivered.
    pub delivered: i64,
    /// Highest number received.
    pub received: i64,
}

/// A full digest: it names its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// One entry per member.
    pub entries: Vec<(Address, SeqnoPair)>,
}

/// A reference digest: the numbers in the order of a view's members; useless without that view.
/// A type of its own, so that it cannot be read against the wrong view by accident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefDigest {
    /// One pair per member of the view.
    pub seqnos: Vec<SeqnoPair>,
}

impl RefDigest {
    /// The full digest for `members`; `None` if the counts differ.
    #[must_use]
    pub fn resolve(&self, members: &[Address]) -> Option<Digest> {
        (members.len() == self.seqnos.len()).then(|| Digest {
            entries: members.iter().cloned().zip(self.seqnos.iter().copied()).collect(),
        })
    }
}

/// A set of sequence numbers as a bitmap above an offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqnoList {
    /// The number that bit 0 stands for.
    pub offset: i64,
    /// How many bits count.
    pub size: u32,
    /// The bits, least significant first.
    pub words: Vec<u64>,
}

impl SeqnoList {
    /// An empty list that can hold `size` numbers from `offset` on.
    #[must_use]
    pub fn new(offset: i64, size: u32) -> Self {
        let mut words = Vec::new();
        words.resize(size.div_ceil(64) as usize, 0);
        Self { offset, size, words }
    }

    /// Adds `seqno`; false if it is out of range.
    pub fn insert(&mut self, seqno: i64) -> bool {
        let bit = seqno.wrapping_sub(self.offset);
        if bit < 0 || bit >= i64::from(self.size) {
            return false;
        }
        self.words[bit as usize / 64] |= 1 << (bit as usize % 64);
        true
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let size = self.size as usize;
        self.words.iter().enumerate().flat_map(move |(w, word)| {
            (0..64).filter_map(move |b| {
                let bit = w * 64 + b;
                (bit < size && word >> b & 1 == 1).then(|| self.offset.wrapping_add(bit as i64))
            })
        })
    }

    /// How many numbers are in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether no number is in the list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }
}

/// The smallest list that holds exactly `seqnos`, which must ascend and span less than 2³² numbers.
impl FromIterator<i64> for SeqnoList {
    fn from_iter<I: IntoIterator<Item = i64>>(seqnos: I) -> Self {
        let seqnos: Vec<i64> = seqnos.into_iter().collect();
        let (Some(first), Some(last)) = (seqnos.first(), seqnos.last()) else {
            return Self::default();
        };
        let mut list = Self::new(*first, (last.wrapping_sub(*first) + 1) as u32);
        for s in &seqnos {
            list.insert(*s);
        }
        list
    }
}
