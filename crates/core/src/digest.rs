//! Digests as protocols use them: per member the highest number delivered and received.

use crate::wire::{self, SeqnoPair};
use crate::{Uuid, View};
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

    /// The pairs in the order of `view`'s members; `None` if one is missing.
    #[must_use]
    pub fn to_reference(&self, view: &View) -> Option<wire::RefDigest> {
        let seqnos: Option<Vec<SeqnoPair>> = view.members.iter().map(|m| self.get(*m)).collect();
        Some(wire::RefDigest { seqnos: seqnos? })
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
