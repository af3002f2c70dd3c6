//! One pair of numbers for each member of a view, written as what changed since a vector that both
//! sides have, or since nothing. Equal changes are written once and repeated by an id that means
//! something in this list only, so no message is needed to read another one.

use crate::digest::SeqnoPair;
use crate::error::DecodeErrorKind;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Most members of a list: as many as a view can have on the wire.
const MOST_MEMBERS: u64 = i16::MAX as u64;

/// The ids of changes: none, one that is written here for the first time, and the first of those
/// that were.
const NO_CHANGE: u64 = 0;
const FRESH: u64 = 1;
const FIRST_KNOWN: u64 = 2;

/// The pairs of a view's members, in its order, without the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    base: u64,
    /// Neighbours differ; no run is empty.
    runs: Vec<Run>,
}

/// Members that stand one behind the other with the same change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    length: u64,
    change: Option<Change>,
}

/// How a pair differs from that of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    /// The delivered number, minus that of the base.
    delivered: u64,
    /// The received number, minus the delivered one.
    ahead: u64,
}

impl Changes {
    /// The pairs themselves, on no other vector.
    #[must_use]
    pub fn full(pairs: &[SeqnoPair]) -> Self {
        let change = |pair: &SeqnoPair| {
            (*pair != SeqnoPair::default()).then_some(Change {
                delivered: pair.delivered as u64,
                ahead: pair.received.wrapping_sub(pair.delivered) as u64,
            })
        };
        Self::of(0, pairs.iter().map(change))
    }

    /// What of `pairs` differs from the vector of this number, which counts from 1. `None` if it
    /// belongs to another number of members, or a delivered number went back.
    #[must_use]
    pub fn since(number: u64, base: &[SeqnoPair], pairs: &[SeqnoPair]) -> Option<Self> {
        let goes_back = |(old, new): (&SeqnoPair, &SeqnoPair)| new.delivered < old.delivered;
        if number == 0 || base.len() != pairs.len() || base.iter().zip(pairs).any(goes_back) {
            return None;
        }
        let change = |(old, new): (&SeqnoPair, &SeqnoPair)| {
            (old != new).then_some(Change {
                delivered: new.delivered.wrapping_sub(old.delivered) as u64,
                ahead: new.received.wrapping_sub(new.delivered) as u64,
            })
        };
        Some(Self::of(number, base.iter().zip(pairs).map(change)))
    }

    fn of(base: u64, changes: impl Iterator<Item = Option<Change>>) -> Self {
        let mut all = Self { base, runs: Vec::new() };
        for change in changes.take(MOST_MEMBERS as usize) {
            all.push(1, change);
        }
        all
    }

    fn push(&mut self, length: u64, change: Option<Change>) {
        match self.runs.last_mut() {
            Some(last) if last.change == change => last.length += length,
            _ => self.runs.push(Run { length, change }),
        }
    }

    /// The number of the vector that this builds on; 0 if on none.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// How many members the view has.
    #[must_use]
    pub fn members(&self) -> u64 {
        self.runs.iter().map(|r| r.length).sum()
    }

    /// How many members have another pair than in the base.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.runs.iter().filter(|r| r.change.is_some()).map(|r| r.length).sum()
    }

    /// The pairs, for a view of `members`. `base` is the vector of the number [`base`](Self::base),
    /// `None` if that is 0. `None` if a count differs, or a pair is none: a number is negative, or
    /// less was received than delivered.
    #[must_use]
    pub fn apply(&self, base: Option<&[SeqnoPair]>, members: usize) -> Option<Vec<SeqnoPair>> {
        let fits = base.is_some() == (self.base != 0)
            && base.is_none_or(|b| b.len() == members)
            && self.members() == members as u64;
        if !fits {
            return None;
        }
        let mut pairs = Vec::with_capacity(members);
        for run in &self.runs {
            for _ in 0..run.length {
                let old = base.map_or_else(SeqnoPair::default, |b| b[pairs.len()]);
                pairs.push(match run.change {
                    None => old,
                    Some(change) => change.from(old)?,
                });
            }
        }
        Some(pairs)
    }
}

impl Change {
    fn from(self, old: SeqnoPair) -> Option<SeqnoPair> {
        let delivered = old.delivered.checked_add(i64::try_from(self.delivered).ok()?)?;
        let received = delivered.checked_add(i64::try_from(self.ahead).ok()?)?;
        Some(SeqnoPair { delivered, received })
    }
}

/// | bytes | field |
/// |-------|-------|
/// | varint | the number of the vector that this builds on; 0: none |
/// | varint | n, the number of members |
/// | runs | until n members are described |
///
/// A run: varint id × 2 + m. If m is 1 a varint follows, its length minus 2; else its length is 1.
/// The id 0 means unchanged. The id 1 means as many changes as the run is long, each a varint that is
/// added to the delivered number of the base and a varint, received minus delivered; they get the
/// ids 2, 3 and so on in the order in which they are written. These mean the same change for every
/// member of the run. A varint has 7 bits in each byte, the lowest first; the highest bit says that
/// another byte follows.
impl Encode for Changes {
    fn encode(&self, w: &mut impl Writer) {
        varint(w, self.base);
        varint(w, self.members());
        let mut ids: BTreeMap<Change, u64> = BTreeMap::new();
        let mut runs = self.runs.iter().peekable();
        while let Some(run) = runs.next() {
            let id = match &run.change {
                None => Some(NO_CHANGE),
                Some(change) => ids.get(change).copied(),
            };
            match (id, run.change) {
                (Some(id), _) => begin_run(w, id, run.length),
                (None, None) => {}
                (None, Some(change)) => {
                    let mut fresh = Vec::from([change]);
                    ids.insert(change, FIRST_KNOWN + ids.len() as u64);
                    let mut last = run;
                    // New ones that follow each other share the beginning of a run.
                    while last.length == 1
                        && let Some(next) = runs.peek()
                        && let Some(change) = next.change
                        && !ids.contains_key(&change)
                    {
                        last = next;
                        runs.next();
                        ids.insert(change, FIRST_KNOWN + ids.len() as u64);
                        fresh.push(change);
                    }
                    begin_run(w, FRESH, fresh.len() as u64);
                    for change in &fresh {
                        varint(w, change.delivered);
                        varint(w, change.ahead);
                    }
                    if last.length > 1 {
                        begin_run(w, FIRST_KNOWN + ids.len() as u64 - 1, last.length - 1);
                    }
                }
            }
        }
    }
}

fn begin_run(w: &mut impl Writer, id: u64, length: u64) {
    varint(w, id << 1 | u64::from(length > 1));
    if length > 1 {
        varint(w, length - 2);
    }
}

impl Decode for Changes {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let base = read_varint(r, "base")?;
        let mut left = read_varint(r, "members")?;
        if left > MOST_MEMBERS {
            return Err(r.error("members", DecodeErrorKind::TooLong(left)));
        }
        let mut all = Self { base, runs: Vec::new() };
        let mut known: Vec<Change> = Vec::new();
        while left > 0 {
            let begin = read_varint(r, "run")?;
            let length = match begin & 1 {
                0 => 1,
                _ => read_varint(r, "length of a run")?.saturating_add(2),
            };
            left = left
                .checked_sub(length)
                .ok_or_else(|| r.error("length of a run", DecodeErrorKind::TooLong(length)))?;
            match begin >> 1 {
                NO_CHANGE => all.push(length, None),
                FRESH => {
                    for _ in 0..length {
                        let delivered = read_varint(r, "delivered")?;
                        let ahead = read_varint(r, "received")?;
                        known.push(Change { delivered, ahead });
                        all.push(1, known.last().copied());
                    }
                }
                id => {
                    let at = usize::try_from(id - FIRST_KNOWN).unwrap_or(usize::MAX);
                    let Some(change) = known.get(at) else {
                        return Err(r.error("id of a change", DecodeErrorKind::BadValue));
                    };
                    all.push(length, Some(*change));
                }
            }
        }
        Ok(all)
    }
}

/// Seven bits in each byte, the lowest first; the highest bit says that another byte follows.
pub(crate) fn varint(w: &mut impl Writer, mut v: u64) {
    while v > 0x7f {
        w.u8(v as u8 | 0x80);
        v >>= 7;
    }
    w.u8(v as u8);
}

/// Reads what [`varint`] writes; more than 64 bits are an error.
pub(crate) fn read_varint(r: &mut Reader, what: &'static str) -> Decoded<u64> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = r.u8(what)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        v |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(v);
        }
    }
    Err(r.error(what, DecodeErrorKind::BadValue))
}
