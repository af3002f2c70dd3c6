//! Who is in the group, and what changed.

use crate::Address;
use rgroups_core as core;
use std::fmt;
use std::sync::Arc;

/// The name of a view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ViewId {
    /// The coordinator that created it.
    pub creator: Address,
    /// A number that grows.
    pub id: u64,
}

/// A view: the members of the group, in the same order at all of them. The first one is the
/// coordinator. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    id: ViewId,
    members: Arc<[Address]>,
    merged_from: Arc<[View]>,
}

impl View {
    pub(crate) fn from_core(v: &core::View) -> Self {
        Self {
            id: v.id.into(),
            members: v.members.iter().map(|m| Address(*m)).collect(),
            merged_from: v.subgroups.iter().map(View::from_core).collect(),
        }
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> ViewId {
        self.id
    }

    /// The members, coordinator first. Never empty.
    #[must_use]
    pub fn members(&self) -> &[Address] {
        &self.members
    }

    /// The first member.
    #[must_use]
    pub fn coordinator(&self) -> Address {
        self.members[0]
    }

    /// Whether `member` is in the view.
    #[must_use]
    pub fn contains(&self, member: Address) -> bool {
        self.members.contains(&member)
    }

    /// Whether this view joined groups that had lived apart.
    #[must_use]
    pub fn is_merge(&self) -> bool {
        !self.merged_from.is_empty()
    }

    /// The views that were joined, when [`View::is_merge`].
    #[must_use]
    pub fn subgroups(&self) -> &[View] {
        &self.merged_from
    }

    /// Who came and who went, going from `self` to `next`.
    #[must_use]
    pub fn diff(&self, next: &View) -> ViewDiff {
        let missing_in = |a: &View, b: &View| {
            a.members.iter().copied().filter(|m| !b.contains(*m)).collect::<Vec<_>>()
        };
        ViewDiff { joined: missing_in(next, self), left: missing_in(self, next) }
    }
}

impl From<core::ViewId> for ViewId {
    fn from(id: core::ViewId) -> Self {
        Self { creator: Address(id.creator), id: id.id }
    }
}

/// `[creator|number]`.
impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}|{}]", self.creator, self.id)
    }
}

/// As JGroups prints it: `[A|2] (3) [A, B, C]`, with short addresses; with logical names through
/// [`Channel::describe`](crate::Channel::describe).
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self, |a| a.to_string()))
    }
}

pub(crate) fn describe(v: &View, name: impl Fn(Address) -> String) -> String {
    let names =
        |members: &[Address]| members.iter().map(|m| name(*m)).collect::<Vec<_>>().join(", ");
    let one = |v: &View| {
        let (creator, members) = (name(v.id.creator), names(&v.members));
        format!("[{creator}|{}] ({}) [{members}]", v.id.id, v.members.len())
    };
    if v.is_merge() {
        let parts: Vec<String> = v.merged_from.iter().map(one).collect();
        format!("MergeView {} from {}", one(v), parts.join(", "))
    } else {
        one(v)
    }
}

/// The difference between two views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewDiff {
    /// Who is new.
    pub joined: Vec<Address>,
    /// Who is gone.
    pub left: Vec<Address>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: u64, members: &[u128]) -> View {
        let members: Vec<_> = members.iter().map(|m| Address::from_bits(*m).0).collect();
        View::from_core(&core::View::new(id, members[0], members))
    }

    #[test]
    fn a_diff_names_who_came_and_who_went() {
        let d = view(1, &[1, 2]).diff(&view(2, &[2, 3]));
        assert_eq!(d.joined, [Address::from_bits(3)]);
        assert_eq!(d.left, [Address::from_bits(1)]);
    }

    #[test]
    fn a_view_is_described_as_jgroups_prints_it() {
        let text = describe(&view(2, &[1, 2]), |a| format!("m{}", a.to_bits()));
        assert_eq!(text, "[m1|2] (2) [m1, m2]");
    }
}
