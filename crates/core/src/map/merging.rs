//! Whose copy goes on after a merge.

use crate::{Uuid, View};
use alloc::vec::Vec;

/// A part of a group before a merge, with those of its members that are in the merged view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its members, in the order of the merged view.
    pub members: Vec<Uuid>,
}

/// The part whose copy all have after the merge, which every member finds alike: the one with the most
/// members in the merged view, and of two such the one whose first member comes first in that view. `None`: it
/// is no merge.
#[must_use]
pub fn surviving_part(view: &View) -> Option<Part> {
    let part = |subgroup: &View| Part {
        members: view.members.iter().copied().filter(|m| subgroup.contains(*m)).collect(),
    };
    let parts = view.subgroups.iter().map(part).filter(|p| !p.members.is_empty());
    let rank = |p: &Part| p.members.first().and_then(|m| view.rank(*m));
    parts.min_by_key(|p| (usize::MAX - p.members.len(), rank(p)))
}
