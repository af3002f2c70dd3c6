//! The rules by which a part of a group may call itself the primary one.
//!
//! Whatever the rule, two sets that it allows as successors of the same view have a member in common;
//! all that is promised follows from that.

use crate::Uuid;
use crate::attributes::AttrValue;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};

/// Which part of a split group goes on as the primary one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryPolicy {
    /// The part with more than half of the members of the last primary view.
    #[default]
    KeepMajority,
    /// Any part with at least `quorum` members.
    StaticQuorum,
    /// The part with the oldest member of the last primary view. If that one is alone, the part with
    /// all others of a view of three or more.
    KeepOldest,
}

impl AttrValue for PrimaryPolicy {
    const KIND: &'static str = "keep_majority, static_quorum or keep_oldest";
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "keep_majority" => Some(PrimaryPolicy::KeepMajority),
            "static_quorum" => Some(PrimaryPolicy::StaticQuorum),
            "keep_oldest" => Some(PrimaryPolicy::KeepOldest),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            PrimaryPolicy::KeepMajority => "keep_majority",
            PrimaryPolicy::StaticQuorum => "static_quorum",
            PrimaryPolicy::KeepOldest => "keep_oldest",
        }
        .to_string()
    }
}

/// What a member does that is not in the primary part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minority {
    /// It says so; the application decides.
    #[default]
    Report,
    /// It says so, and refuses to send. While it does not know, sends wait.
    Refuse,
    /// It leaves the group.
    Leave,
}

impl AttrValue for Minority {
    const KIND: &'static str = "report, refuse or leave";
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "report" => Some(Minority::Report),
            "refuse" => Some(Minority::Refuse),
            "leave" => Some(Minority::Leave),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            Minority::Report => "report",
            Minority::Refuse => "refuse",
            Minority::Leave => "leave",
        }
        .to_string()
    }
}

/// A policy and its number. All members must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) policy: PrimaryPolicy,
    pub(super) quorum: u32,
}

impl Rules {
    /// Whether so many members may be the first primary view.
    pub(super) fn may_found(self, members: usize) -> bool {
        members >= self.quorum as usize
    }

    /// Whether `part` may follow a primary view of which `base` is what has not left since, oldest
    /// first. The same question decides who must be in contact for a member to trust its view.
    pub(super) fn may_follow(self, base: &[Uuid], part: &BTreeSet<Uuid>) -> bool {
        let stay = base.iter().filter(|m| part.contains(m)).count();
        match self.policy {
            PrimaryPolicy::KeepMajority => stay * 2 > base.len(),
            PrimaryPolicy::StaticQuorum => part.len() >= self.quorum as usize,
            PrimaryPolicy::KeepOldest => match base.first() {
                Some(oldest) if part.contains(oldest) => stay >= 2 || base.len() <= 2,
                Some(_) => base.len() >= 3 && stay == base.len() - 1,
                None => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;
    use alloc::vec::Vec;

    fn subsets(of: &[Uuid]) -> Vec<BTreeSet<Uuid>> {
        (0..1u32 << of.len())
            .map(|bits| (0..of.len()).filter(|i| bits >> i & 1 == 1).map(|i| of[i]).collect())
            .collect()
    }

    /// What everything rests on, also when each side knows of other members that they have left.
    #[test]
    fn two_parts_that_may_follow_the_same_view_have_a_member_in_common() {
        let policies =
            [PrimaryPolicy::KeepMajority, PrimaryPolicy::StaticQuorum, PrimaryPolicy::KeepOldest];
        let mut pairs = 0;
        for (policy, n) in policies.into_iter().flat_map(|p| (1..=5u64).map(move |n| (p, n))) {
            let view: Vec<Uuid> = (1..=n).map(id).collect();
            let rules = Rules { policy, quorum: n as u32 / 2 + 1 };
            for gone in subsets(&view) {
                let live: Vec<Uuid> = view.iter().copied().filter(|m| !gone.contains(m)).collect();
                let known: Vec<Uuid> = gone.iter().copied().collect();
                let bases: Vec<Vec<Uuid>> = subsets(&known)
                    .iter()
                    .map(|k| view.iter().copied().filter(|m| !k.contains(m)).collect())
                    .collect();
                for (a, b) in bases.iter().flat_map(|a| bases.iter().map(move |b| (a, b))) {
                    for (p, q) in subsets(&live)
                        .iter()
                        .flat_map(|p| subsets(&live).into_iter().map(move |q| (p.clone(), q)))
                    {
                        if rules.may_follow(a, &p) && rules.may_follow(b, &q) {
                            pairs += 1;
                            assert!(!p.is_disjoint(&q), "{rules:?} {a:?} {p:?} {b:?} {q:?}");
                        }
                    }
                }
            }
        }
        assert!(pairs > 1_000, "{pairs}");
    }

    #[test]
    fn half_of_a_view_is_no_majority() {
        let rules = Rules { policy: PrimaryPolicy::KeepMajority, quorum: 1 };
        let base = [id(1), id(2)];
        assert!(!rules.may_follow(&base, &[id(1)].into()));
        assert!(rules.may_follow(&base[..1], &[id(1)].into()));
    }

    #[test]
    fn the_oldest_alone_gives_way_unless_there_is_only_one_other() {
        let rules = Rules { policy: PrimaryPolicy::KeepOldest, quorum: 1 };
        let base = [id(1), id(2), id(3)];
        assert!(!rules.may_follow(&base, &[id(1)].into()));
        assert!(rules.may_follow(&base, &[id(2), id(3)].into()));
        assert!(rules.may_follow(&base, &[id(1), id(3)].into()));
        assert!(!rules.may_follow(&base, &[id(3)].into()));
        assert!(rules.may_follow(&base[..2], &[id(1)].into()));
        assert!(!rules.may_follow(&base[..2], &[id(2)].into()));
    }
}
