//! Digests: per member the highest delivered and highest received sequence number (WIRE §8.5),
//! and lists of missing numbers (§8.7).

use crate::address_codec::MIN_ADDRESS;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use alloc::vec;
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
        Self { offset, size, words: vec![0; size.div_ceil(64) as usize] }
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

/// The members (addrs), then one lseq per member. Matches `Digest.writeTo` with members.
impl Encode for Digest {
    fn encode(&self, w: &mut impl Writer) {
        let entries = &self.entries[..self.entries.len().min(i16::MAX as usize)];
        w.i16(entries.len() as i16);
        for (member, _) in entries {
            member.encode(w);
        }
        for (_, pair) in entries {
            w.lseq(*pair);
        }
    }
}

impl Decode for Digest {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let n = r.i16("digest members")?.max(0);
        let n = r.count(i64::from(n), MIN_ADDRESS + 1, "digest members")?;
        let mut entries = Vec::with_capacity(n);
        for _ in 0..n {
            entries.push((Address::decode(r)?, SeqnoPair::default()));
        }
        for (_, pair) in &mut entries {
            *pair = r.lseq("digest seqnos")?;
        }
        Ok(Digest { entries })
    }
}

/// i16 count, then one lseq per member of the view. Matches `Digest.writeTo` without members.
impl Encode for RefDigest {
    fn encode(&self, w: &mut impl Writer) {
        let seqnos = &self.seqnos[..self.seqnos.len().min(i16::MAX as usize)];
        w.i16(seqnos.len() as i16);
        for pair in seqnos {
            w.lseq(*pair);
        }
    }
}

impl Decode for RefDigest {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let n = r.i16("digest seqnos")?;
        let n = r.count(i64::from(n), 1, "digest seqnos")?;
        let mut seqnos = Vec::with_capacity(n);
        for _ in 0..n {
            seqnos.push(r.lseq("digest seqnos")?);
        }
        Ok(RefDigest { seqnos })
    }
}

/// Matches `SeqnoList.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 4 | size in bits |
/// | 8 | offset: the number that bit 0 stands for |
/// | 8 × ⌈size / 64⌉ | the words; bit i is bit i mod 64 of word i / 64 |
impl Encode for SeqnoList {
    fn encode(&self, w: &mut impl Writer) {
        w.u32(self.size);
        w.i64(self.offset);
        for i in 0..self.size.div_ceil(64) as usize {
            w.u64(self.words.get(i).copied().unwrap_or_default());
        }
    }
}

impl Decode for SeqnoList {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let size = r.i32("seqno list size")?;
        let offset = r.i64("seqno list offset")?;
        let words = if size < 0 { -1 } else { i64::from(size.unsigned_abs().div_ceil(64)) };
        let n = r.count(words, 8, "seqno list")?;
        let mut words = Vec::with_capacity(n);
        for _ in 0..n {
            words.push(r.u64("seqno list")?);
        }
        Ok(SeqnoList { offset, size: size.unsigned_abs(), words })
    }
}
