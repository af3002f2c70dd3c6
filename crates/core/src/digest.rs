//! Digests as protocols use them: per member the highest number delivered and received. There are
//! two kinds, and they are two types: a [`Digest`] names its members and can be used anywhere; a
//! [`ReferenceDigest`] has only the numbers, in the order of one view, and nothing can be done with
//! it but with that view.

use crate::wire::{self, SeqnoPair};
use crate::{Uuid, View, ViewId};
use alloc::vec::Vec;

/// A full digest: it names its members, once each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    entries: Vec<(Uuid, SeqnoPair)>,
}

impl Digest {
    /// The entry of `m`.
    #[must_use]
    pub fn get(&self, m: Uuid) -> Option<SeqnoPair> {
        self.entries.iter().find(|(x, _)| *x == m).map(|(_, p)| *p)
    }

    /// Sets the entry of `m`.
    pub fn set(&mut self, m: Uuid, pair: SeqnoPair) {
        match self.entries.iter_mut().find(|(x, _)| *x == m) {
            Some((_, p)) => *p = pair,
            None => self.entries.push((m, pair)),
        }
    }

    /// Raises the entry of `m` to at least `pair`, each number on its own.
    pub fn raise(&mut self, m: Uuid, pair: SeqnoPair) {
        let old = self.get(m).unwrap_or(pair);
        let raised = SeqnoPair {
            delivered: old.delivered.max(pair.delivered),
            received: old.received.max(pair.received),
        };
        self.set(m, raised);
    }

    /// All entries, in order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, SeqnoPair)> + '_ {
        self.entries.iter().copied()
    }

    /// How many members are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether exactly the members of `view` are named, in any order.
    #[must_use]
    pub fn covers(&self, view: &View) -> bool {
        self.len() == view.members.len() && view.members.iter().all(|m| self.get(*m).is_some())
    }

    /// From the wire; `None` if an entry is no member identity, is named twice or has
    /// `received < delivered` or a negative number.
    #[must_use]
    pub fn from_wire(d: &wire::Digest) -> Option<Digest> {
        let mut out = Digest { entries: Vec::with_capacity(d.entries.len()) };
        for (a, p) in &d.entries {
            if p.delivered < 0 || p.received < p.delivered {
                return None;
            }
            out.entries.push((a.uuid()?, *p));
        }
        let mut ids: Vec<Uuid> = out.entries.iter().map(|(m, _)| *m).collect();
        ids.sort_unstable();
        (!ids.windows(2).any(|w| w[0] == w[1])).then_some(out)
    }

    /// To the wire, with addresses.
    #[must_use]
    pub fn to_wire(&self) -> wire::Digest {
        wire::Digest { entries: self.iter().map(|(m, p)| (m.into(), p)).collect() }
    }
}

/// A reference digest: one pair for each member of a view, in its order, without the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceDigest {
    view: ViewId,
    pairs: Vec<SeqnoPair>,
}

impl ReferenceDigest {
    /// What `digest` says of the members of `view`; `None` if it lacks one of them.
    #[must_use]
    pub fn of(view: &View, digest: &Digest) -> Option<Self> {
        let in_order = digest.entries.iter().map(|(m, _)| m).eq(view.members.iter());
        let pairs: Option<Vec<SeqnoPair>> = match in_order {
            true => Some(digest.entries.iter().map(|(_, pair)| *pair).collect()),
            false => view.members.iter().map(|m| digest.get(*m)).collect(),
        };
        Some(Self { view: view.id, pairs: pairs? })
    }

    /// These pairs, for the members of `view`; `None` unless there is one for each, none has a
    /// negative number, and none has `received < delivered`.
    #[must_use]
    pub fn from_pairs(view: &View, pairs: Vec<SeqnoPair>) -> Option<Self> {
        let sound = |p: &SeqnoPair| p.delivered >= 0 && p.received >= p.delivered;
        let fits = pairs.len() == view.members.len() && pairs.iter().all(sound);
        fits.then_some(Self { view: view.id, pairs })
    }

    /// From the wire, where it came together with `view`; `None` as for
    /// [`from_pairs`](Self::from_pairs).
    #[must_use]
    pub fn from_wire(view: &View, digest: &wire::RefDigest) -> Option<Self> {
        Self::from_pairs(view, digest.seqnos.clone())
    }

    /// To the wire. The receiver needs the view.
    #[must_use]
    pub fn to_wire(&self) -> wire::RefDigest {
        wire::RefDigest { seqnos: self.pairs.clone() }
    }

    /// The id of the view that this refers to.
    #[must_use]
    pub fn view(&self) -> ViewId {
        self.view
    }

    /// The full digest; `None` unless `view` is the one that this refers to.
    #[must_use]
    pub fn resolve(&self, view: &View) -> Option<Digest> {
        let fits = view.id == self.view && view.members.len() == self.pairs.len();
        let members = view.members.iter().copied();
        fits.then(|| Digest { entries: members.zip(self.pairs.iter().copied()).collect() })
    }

    /// The pairs, in the order of the view's members.
    #[must_use]
    pub fn pairs(&self) -> &[SeqnoPair] {
        &self.pairs
    }
}

impl FromIterator<(Uuid, SeqnoPair)> for Digest {
    fn from_iter<I: IntoIterator<Item = (Uuid, SeqnoPair)>>(entries: I) -> Self {
        let mut d = Digest::default();
        for (m, p) in entries {
            d.set(m, p);
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{id, view};

    fn pair(delivered: i64, received: i64) -> SeqnoPair {
        SeqnoPair { delivered, received }
    }

    fn of_three() -> Digest {
        [(id(3), pair(30, 33)), (id(1), pair(10, 11)), (id(2), pair(20, 20))].into_iter().collect()
    }

    #[test]
    fn the_pairs_stand_in_the_order_of_the_view() {
        let reference = ReferenceDigest::of(&view(7, &[1, 2, 3]), &of_three()).expect("all there");
        assert_eq!(reference.pairs(), [pair(10, 11), pair(20, 20), pair(30, 33)]);
    }

    #[test]
    fn a_digest_that_lacks_a_member_has_no_reference() {
        assert_eq!(ReferenceDigest::of(&view(7, &[1, 2, 3, 4]), &of_three()), None);
    }

    #[test]
    fn it_is_resolved_by_its_own_view_only() {
        let v = view(7, &[1, 2, 3]);
        let reference = ReferenceDigest::of(&v, &of_three()).expect("all there");
        let again = reference.resolve(&v).expect("it is the view");
        assert_eq!(again.get(id(3)), Some(pair(30, 33)));
        // The same members in a later view, and the same number from another creator.
        assert_eq!(reference.resolve(&view(8, &[1, 2, 3])), None);
        assert_eq!(reference.resolve(&View::new(7, id(2), [id(1), id(2), id(3)])), None);
    }

    #[test]
    fn pairs_of_another_count_or_that_are_none_make_no_digest() {
        let v = view(7, &[1, 2]);
        for pairs in [&[pair(1, 1)][..], &[pair(1, 1); 3], &[pair(2, 1); 2], &[pair(-1, 1); 2]] {
            assert_eq!(ReferenceDigest::from_pairs(&v, pairs.to_vec()), None, "{pairs:?}");
        }
    }
}
