//! Views as protocols use them: members by identity, cheap to clone.

use crate::Uuid;
use crate::wire;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The name of a view. Ordered by number first, then creator (`ViewId.compareTo`); whether a view
/// is newer is decided by the number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId {
    /// The counter.
    pub id: u64,
    /// The coordinator that created the view.
    pub creator: Uuid,
}

/// A view: who is in the group, in which order. The first member is the coordinator, always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The id.
    pub id: ViewId,
    /// The members, coordinator first. Never empty.
    pub members: Arc<[Uuid]>,
    /// The merged views; empty unless this is a MergeView.
    pub subgroups: Arc<[View]>,
}

impl View {
    /// An ordinary view.
    #[must_use]
    pub fn new(id: u64, creator: Uuid, members: impl Into<Arc<[Uuid]>>) -> Self {
        let members = members.into();
        assert!(!members.is_empty(), "a view has at least one member");
        Self { id: ViewId { id, creator }, members, subgroups: Arc::new([]) }
    }

    /// The first member.
    #[must_use]
    pub fn coordinator(&self) -> Uuid {
        self.members[0]
    }

    /// Whether `m` is a member.
    #[must_use]
    pub fn contains(&self, m: Uuid) -> bool {
        self.rank(m).is_some()
    }

    /// The position of `m`, counted from 0.
    #[must_use]
    pub fn rank(&self, m: Uuid) -> Option<usize> {
        self.members.iter().position(|x| *x == m)
    }

    /// Whether this view merges `a` and `b`, which did not come from the same view: whatever one of
    /// them sent before the other will not get.
    #[must_use]
    pub fn reunites(&self, a: Uuid, b: Uuid) -> bool {
        !self.together(a, b)
    }

    /// Whether this view came out of a merge.
    #[must_use]
    pub fn is_merge(&self) -> bool {
        !self.subgroups.is_empty()
    }

    /// Whether `a` and `b` stayed together through this view: it is no merge, or they come from the
    /// same views. Two parts of a merge may be of one view, where a member had only just installed it.
    #[must_use]
    pub fn together(&self, a: Uuid, b: Uuid) -> bool {
        let comes_from = |m, id| self.subgroups.iter().any(|v| v.id == id && v.contains(m));
        self.subgroups.iter().all(|v| comes_from(a, v.id) == comes_from(b, v.id))
    }

    /// Members of `self` that are not in `other`, in order.
    #[must_use]
    pub fn without(&self, other: &View) -> Vec<Uuid> {
        self.members.iter().copied().filter(|m| !other.contains(*m)).collect()
    }

    /// The right-hand neighbour of `m` in view order, the last one's being the first.
    #[must_use]
    pub fn right_of(&self, m: Uuid) -> Option<Uuid> {
        let r = self.rank(m)?;
        Some(self.members[(r + 1) % self.members.len()])
    }

    /// From the wire; `None` if it names no member, or one that is not a member identity, or one
    /// twice, or an id below 0.
    #[must_use]
    pub fn from_wire(v: &wire::View) -> Option<View> {
        Self::from_wire_at(v, true)
    }

    fn from_wire_at(v: &wire::View, top: bool) -> Option<View> {
        let members: Option<Vec<Uuid>> = v.members().iter().map(wire::Address::uuid).collect();
        let members = members.filter(|m| !m.is_empty())?;
        let mut sorted = members.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|w| w[0] == w[1]) {
            return None;
        }
        let subgroups = match &v.subgroups {
            Some(list) if top => {
                list.iter().map(|s| Self::from_wire_at(s, false)).collect::<Option<Vec<_>>>()?
            }
            Some(_) | None => Vec::new(),
        };
        Some(View {
            id: ViewId::from_wire(&v.id)?,
            members: members.into(),
            subgroups: subgroups.into(),
        })
    }

    /// To the wire. A merge view carries its subgroups.
    #[must_use]
    pub fn to_wire(&self) -> wire::View {
        wire::View {
            id: self.id.to_wire(),
            members: Some(self.members.iter().map(|m| (*m).into()).collect()),
            subgroups: self.is_merge().then(|| self.subgroups.iter().map(View::to_wire).collect()),
        }
    }
}

impl ViewId {
    /// From the wire; `None` if the creator is no member identity or the number is negative.
    #[must_use]
    pub fn from_wire(v: &wire::ViewId) -> Option<ViewId> {
        Some(ViewId { id: u64::try_from(v.id).ok()?, creator: v.creator.uuid()? })
    }

    /// To the wire.
    #[must_use]
    pub fn to_wire(self) -> wire::ViewId {
        wire::ViewId { creator: self.creator.into(), id: self.id as i64 }
    }
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}|{}]", self.creator, self.id)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_merge() {
            write!(f, "MergeView::")?;
        }
        write!(f, "{} ({}) [", self.id, self.members.len())?;
        for (i, m) in self.members.iter().enumerate() {
            write!(f, "{}{m}", if i > 0 { ", " } else { "" })?;
        }
        write!(f, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{id, view};

    #[test]
    fn parts_of_one_view_were_together_and_parts_of_two_were_not() {
        let part = |n, members: &[u64]| View::clone(&view(n, members));
        let merged = |parts: &[View]| View { subgroups: parts.into(), ..part(9, &[1, 2, 3]) };
        let one = ViewId { id: 5, creator: id(1) };
        let late = View { id: one, ..part(5, &[3]) };
        let same = merged(&[View { id: one, ..part(5, &[1, 2]) }, late]);
        assert!(same.together(id(1), id(2)) && same.together(id(1), id(3)));
        let other = merged(&[part(5, &[1, 2]), part(6, &[3])]);
        assert!(other.together(id(1), id(2)) && !other.together(id(1), id(3)));
        assert!(other.reunites(id(1), id(3)) && !same.reunites(id(1), id(3)));
    }
}
