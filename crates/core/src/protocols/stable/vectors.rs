//! The stability vectors of a view. Each has a number; a member names in its report the one that it
//! builds on. The coordinator keeps the last two, because the report of a member that has missed the
//! last one still builds on that before; the others keep the last one that they have heard.

use crate::wire::Changes;
use crate::{ReferenceDigest, View};

/// The vectors that are kept.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    last: Option<Vector>,
    before: Option<Vector>,
}

#[derive(Debug)]
struct Vector {
    number: u64,
    digest: ReferenceDigest,
}

/// Why what arrived cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It builds on a vector that is not kept here.
    UnknownBase,
    /// It is not for a view of so many members, or has impossible numbers.
    Nonsense,
}

impl Vectors {
    /// The number of the last vector; 0 if there is none in this view yet.
    pub(super) fn number(&self) -> u64 {
        self.last.as_ref().map_or(0, |v| v.number)
    }

    /// The last vector.
    pub(super) fn last(&self) -> Option<&ReferenceDigest> {
        self.last.as_ref().map(|v| &v.digest)
    }

    /// How many are kept.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.last.is_some()) + u64::from(self.before.is_some())
    }

    fn get(&self, number: u64) -> Option<&ReferenceDigest> {
        let all = [&self.last, &self.before].into_iter().flatten();
        all.filter(|v| v.number == number).map(|v| &v.digest).next()
    }

    /// `digest` as what changed since the vector `base`; on nothing if that is not kept, or does not
    /// fit.
    pub(super) fn changes(&self, base: u64, digest: &ReferenceDigest) -> Changes {
        let since =
            |base_of: &ReferenceDigest| Changes::since(base, base_of.pairs(), digest.pairs());
        self.get(base).and_then(since).unwrap_or_else(|| Changes::full(digest.pairs()))
    }

    /// What arrived, in the view that its header named.
    pub(super) fn read(
        &self,
        changes: &Changes,
        view: &View,
    ) -> Result<ReferenceDigest, Unreadable> {
        let base = match changes.base() {
            0 => None,
            number => Some(self.get(number).ok_or(Unreadable::UnknownBase)?.pairs()),
        };
        let pairs = changes.apply(base, view.members.len());
        let digest = pairs.and_then(|pairs| ReferenceDigest::from_pairs(view, pairs));
        digest.ok_or(Unreadable::Nonsense)
    }

    /// A new one. The one that was last stays, at the coordinator.
    pub(super) fn add(&mut self, number: u64, digest: ReferenceDigest, keeps_two: bool) {
        let last = self.last.replace(Vector { number, digest });
        self.before = last.filter(|_| keeps_two);
    }
}
