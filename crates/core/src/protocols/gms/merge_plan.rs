//! Who merges with whom. Computed from views alone, so the same reports give the same plan.

use crate::wire::SeqnoPair;
use crate::{Digest, Uuid, View, ViewId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One part of a split group: who speaks for it, and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its coordinator if that is alive and in it, else the lowest member that reported the view.
    pub(super) speaker: Uuid,
    /// The speaker first.
    pub(super) members: Vec<Uuid>,
    /// The view they have.
    pub(super) view: View,
}

/// The parts that reported views make, each member in one of them: the one whose view it reported
/// itself, else the one that it announced, else the newest that names it. So a view that others have
/// left behind keeps only those who still live in it (JGRP-1061). Only who reported speaks: an
/// announcement may be older than the end of its sender.
pub(super) fn parts(reports: &[(Uuid, View)], announced: &[(Uuid, ViewId)]) -> Vec<Part> {
    let mut reported: BTreeMap<Uuid, &View> = BTreeMap::new();
    for (m, v) in reports.iter().filter(|(m, v)| v.contains(*m)) {
        let newest = reported.entry(*m).or_insert(v);
        if v.id > newest.id {
            *newest = v;
        }
    }
    let views: BTreeMap<_, &View> = reported.values().map(|v| (v.id, *v)).collect();
    let said = |m: Uuid| {
        let id = announced.iter().find(|(other, _)| *other == m).map(|(_, id)| *id)?;
        views.get(&id).filter(|v| v.contains(m)).map(|v| v.id)
    };
    let home = |m: Uuid| match reported.get(&m) {
        Some(v) => Some(v.id),
        None => said(m).or_else(|| views.values().rev().find(|v| v.contains(m)).map(|v| v.id)),
    };
    let mut parts = Vec::new();
    for view in views.values() {
        let here = |m: &Uuid| home(*m) == Some(view.id);
        let reporters = reported.iter().filter(|(_, v)| v.id == view.id).map(|(m, _)| *m);
        let reporters: BTreeSet<Uuid> = reporters.collect();
        let coordinator = view.coordinator();
        let speaker = match reporters.contains(&coordinator) {
            true => Some(coordinator),
            false => reporters.first().copied(),
        };
        let Some(speaker) = speaker else { continue };
        let others = view.members.iter().copied().filter(|m| *m != speaker && here(m));
        let members = [speaker].into_iter().chain(others).collect();
        parts.push(Part { speaker, members, view: (*view).clone() });
    }
    parts.sort_by_key(|p| p.speaker);
    parts
}

/// Who leads the merge: the lowest speaker that is coordinator of its own view (JGRP-1451), else
/// the lowest speaker (JGRP-2092).
pub(super) fn leader(parts: &[Part]) -> Option<Uuid> {
    let coordinators = parts.iter().filter(|p| p.view.coordinator() == p.speaker);
    let leader = coordinators.map(|p| p.speaker).min();
    leader.or_else(|| parts.iter().map(|p| p.speaker).min())
}

/// The view and digest of a merge, from what the speakers answered, in their order: the lowest
/// speaker first, then part by part, nobody twice; the number above all others; of each member the
/// highest numbers anybody had.
pub(super) fn combine(
    answers: &BTreeMap<Uuid, (View, Digest)>,
    above: u64,
    goes: impl Fn(Uuid) -> bool,
) -> Option<(Arc<View>, Digest)> {
    let mut members: Vec<Uuid> = Vec::new();
    let listed = answers.values().flat_map(|(v, _)| v.members.iter().copied());
    for m in answers.keys().copied().take(1).chain(listed) {
        if !members.contains(&m) && !goes(m) {
            members.push(m);
        }
    }
    // A part of which nobody is left (its speaker was suspected meanwhile) is no part.
    let stays = |v: &View| v.members.iter().any(|m| members.contains(m));
    let parts: Vec<&(View, Digest)> = answers.values().filter(|(v, _)| stays(v)).collect();
    if parts.len() < 2 {
        return None;
    }
    let creator = *members.first()?;
    let number = parts.iter().map(|(v, _)| v.id.id).max()?.max(above) + 1;
    let plain = |v: &View| View { subgroups: Arc::new([]), ..v.clone() };
    let subgroups: Vec<View> = parts.iter().map(|(v, _)| plain(v)).collect();
    let mut digest: Digest = members.iter().map(|m| (*m, SeqnoPair::default())).collect();
    for (_, d) in parts {
        for (m, pair) in d.iter().filter(|(m, _)| members.contains(m)) {
            digest.raise(m, pair);
        }
    }
    let view = View { subgroups: subgroups.into(), ..View::new(number, creator, members) };
    Some((Arc::new(view), digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{id, view};

    fn report(m: u64, n: u64, members: &[u64]) -> (Uuid, View) {
        (id(m), View::clone(&view(n, members)))
    }

    fn shape(parts: &[Part]) -> Vec<Vec<Uuid>> {
        parts.iter().map(|p| p.members.clone()).collect()
    }

    fn ids(members: &[u64]) -> Vec<Uuid> {
        members.iter().map(|m| id(*m)).collect()
    }

    #[test]
    fn disjoint_views_are_the_parts_themselves() {
        let p = parts(&[report(1, 5, &[1, 2]), report(3, 7, &[3, 4])], &[]);
        assert_eq!(shape(&p), [ids(&[1, 2]), ids(&[3, 4])]);
        assert_eq!(leader(&p), Some(id(1)));
    }

    #[test]
    fn a_view_left_behind_keeps_only_those_who_still_have_it() {
        let p = parts(&[report(1, 5, &[1, 2]), report(3, 4, &[1, 2, 3])], &[]);
        assert_eq!(shape(&p), [ids(&[1, 2]), ids(&[3])]);
    }

    #[test]
    fn a_member_of_two_views_is_where_it_announced_to_be() {
        let reports = [report(1, 5, &[1, 2, 3]), report(2, 6, &[2, 3])];
        assert_eq!(shape(&parts(&reports, &[])), [ids(&[1]), ids(&[2, 3])]);
        let announced = [(id(3), reports[0].1.id)];
        assert_eq!(shape(&parts(&reports, &announced)), [ids(&[1, 3]), ids(&[2])]);
    }

    #[test]
    fn a_dead_coordinator_neither_speaks_nor_leads() {
        let p = parts(&[report(3, 6, &[3, 4]), report(7, 5, &[2, 3, 7])], &[]);
        assert_eq!(shape(&p), [ids(&[3, 4]), ids(&[7, 2])]);
        assert_eq!(leader(&p), Some(id(3)));
    }

    #[test]
    fn the_newest_of_two_reports_counts() {
        let p = parts(&[report(1, 5, &[1, 2]), report(1, 6, &[1])], &[]);
        assert_eq!(shape(&p), [ids(&[1])]);
    }

    #[test]
    fn a_part_of_which_nobody_stays_is_no_part() {
        let of = |n, members: &[u64]| {
            let d = members.iter().map(|m| (id(*m), SeqnoPair::default())).collect();
            (View::clone(&view(n, members)), d)
        };
        let answers: BTreeMap<_, _> =
            [(id(1), of(5, &[1, 2])), (id(3), of(6, &[3])), (id(4), of(7, &[4]))].into();
        let (v, _) = combine(&answers, 0, |m| m == id(3)).unwrap();
        assert_eq!((&v.members[..], v.subgroups.len()), (&ids(&[1, 2, 4])[..], 2));
        assert!(combine(&answers, 0, |m| m == id(3) || m == id(4)).is_none());
    }

    #[test]
    fn a_merged_view_has_nobody_twice_and_the_highest_numbers() {
        let pair = |n| SeqnoPair { delivered: n, received: n };
        let one = [(id(1), pair(4)), (id(2), pair(9))].into_iter().collect();
        let two = [(id(3), pair(2)), (id(2), pair(5))].into_iter().collect();
        let answers = [
            (id(3), (View::clone(&view(8, &[3, 2])), two)),
            (id(1), (View::clone(&view(5, &[1, 2])), one)),
        ];
        let (v, d) = combine(&answers.into_iter().collect(), 0, |_| false).unwrap();
        assert_eq!(v.members[..], ids(&[1, 2, 3])[..]);
        assert_eq!((v.id.id, v.id.creator, v.subgroups.len()), (9, id(1), 2));
        assert_eq!(d.get(id(2)), Some(pair(9)));
    }
}
