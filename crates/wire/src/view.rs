//! Views: who is in the group, in which order (WIRE §8.1–8.4, 8.6).

use crate::Address;
use alloc::vec::Vec;

/// The name of a view: a number that grows, and who created it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewId {
    /// The coordinator that created the view.
    pub creator: Address,
    /// Counter; a later view of the same member has a higher one.
    pub id: i64,
}

/// A view. `subgroups` is `Some` for a MergeView.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The id.
    pub id: ViewId,
    /// Members; the first one is the coordinator. `None` is Java's null list.
    pub members: Option<Vec<Address>>,
    /// The views that were merged, when this is a MergeView.
    pub subgroups: Option<Vec<View>>,
}

impl View {
    /// The members as a slice.
    #[must_use]
    pub fn members(&self) -> &[Address] {
        self.members.as_deref().unwrap_or_default()
    }
}

/// The difference between two views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaView {
    /// The id of the view that results.
    pub id: ViewId,
    /// The id of the view it applies to.
    pub reference: ViewId,
    /// Who is gone.
    pub left: Vec<Address>,
    /// Who is new, in order.
    pub joined: Vec<Address>,
}

/// The name of one merge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MergeId {
    /// The merge leader.
    pub initiator: Address,
    /// Its counter.
    pub id: i32,
}
