//! A: views. What every member may rely on about the views that it and others install.

use super::{Violation, is_after};
use crate::connections::Life;
use crate::history::{History, Phase, What};
use crate::transcript;
use rgroups_core::{Trace, Uuid, View, ViewId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks A1 to A6, A8, A9 and A11.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut by_id: BTreeMap<ViewId, (Life, Arc<View>)> = BTreeMap::new();
    for life in h.all_lives() {
        let views = h.views_of(life);
        for (_, v) in &views {
            found.extend(members_are_sane(h, life, v));
            let (first, known) = by_id.entry(v.id).or_insert_with(|| (life, v.clone()));
            if known.members != v.members || known.subgroups.len() != v.subgroups.len() {
                let (a, b) = (transcript::view(known, h), transcript::view(v, h));
                let (p, q) = (h.name(*first), h.name(life));
                found.push(Violation::new("A3", format!("{p} installed {a}, {q} installed {b}")));
            }
        }
        for pair in views.windows(2) {
            found.extend(follows(h, life, &pair[0].1, &pair[1].1));
        }
        found.extend(layers_agree(h, life, &views));
        found.extend(merges_are_sound(h, life, &views, &by_id));
        found.extend(no_resurrection(h, life, &views));
        found.extend(stays_stable(h, life, &views));
    }
    found
}

/// A1 and A5.
fn members_are_sane(h: &History, life: Life, v: &View) -> Option<Violation> {
    let at = |invariant, what: &str| {
        let text = format!("{} installed {}: {what}", h.name(life), transcript::view(v, h));
        Some(Violation::new(invariant, text))
    };
    if !v.contains(h.id(life)) {
        return at("A1", "it is not in it");
    }
    let distinct: BTreeSet<Uuid> = v.members.iter().copied().collect();
    if distinct.len() != v.members.len() {
        return at("A5", "a member is in it twice");
    }
    if v.members.iter().any(|m| h.life_of(*m).is_none()) {
        return at("A5", "a member never asked to join");
    }
    None
}

/// A2 and A4, for two consecutive views.
fn follows(h: &History, life: Life, old: &View, new: &View) -> Option<Violation> {
    let text = |why: &str| {
        let (a, b) = (transcript::view(old, h), transcript::view(new, h));
        format!("{} installed {b} after {a}: {why}", h.name(life))
    };
    if new.id.id <= old.id.id {
        return Some(Violation::new("A2", text("the number does not grow")));
    }
    let creator = new.id.creator;
    let creator_known = creator == new.coordinator() || old.contains(creator) || new.is_merge();
    (!creator_known).then(|| Violation::new("A4", text("its creator is in neither")))
}

/// A6: every layer that saw views saw the ones that the application saw, in that order.
fn layers_agree(h: &History, life: Life, views: &[(usize, Arc<View>)]) -> Option<Violation> {
    let app: Vec<ViewId> = views.iter().map(|(_, v)| v.id).collect();
    let mut layers: BTreeMap<u8, Vec<ViewId>> = BTreeMap::new();
    for (_, f) in h.facts_of(life) {
        if let What::Trace(Trace::ViewPassed { layer, view }) = &f.what {
            layers.entry(*layer).or_default().push(*view);
        }
    }
    let odd = layers.iter().find(|(_, seen)| {
        // A process that died in mid-turn may not have told its application.
        let n = seen.len().min(app.len());
        seen[..n] != app[..n]
    });
    odd.map(|(layer, _)| {
        let text =
            format!("layer {layer} of {} saw other views than its application", h.name(life));
        Violation::new("A6", text)
    })
}

/// A8: a merge view comes out of views that existed, is newer than all, and adds nobody.
fn merges_are_sound(
    h: &History,
    life: Life,
    views: &[(usize, Arc<View>)],
    by_id: &BTreeMap<ViewId, (Life, Arc<View>)>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (_, v) in views.iter().filter(|(_, v)| v.is_merge()) {
        let mut wrong = |why: &str| {
            let text = format!("{} installed {}: {why}", h.name(life), transcript::view(v, h));
            found.push(Violation::new("A8", text));
        };
        if v.subgroups.iter().any(|s| s.id.id >= v.id.id) {
            wrong("a subgroup is newer");
        }
        if v.members.iter().any(|m| !v.subgroups.iter().any(|s| s.contains(*m))) {
            wrong("a member is in no subgroup");
        }
        if v.subgroups.iter().any(|s| !s.members.iter().any(|m| v.contains(*m))) {
            wrong("nobody of a subgroup is in it");
        }
        let known = |s: &View| {
            by_id.contains_key(&s.id)
                || h.all_lives().any(|l| h.views_of(l).iter().any(|(_, o)| o.id == s.id))
        };
        if v.subgroups.iter().any(|s| !known(s)) {
            wrong("a subgroup was never installed");
        }
    }
    found
}

/// A9: who has left or died and was excluded does not come back under the same identity.
fn no_resurrection(h: &History, life: Life, views: &[(usize, Arc<View>)]) -> Option<Violation> {
    for other in h.all_lives().filter(|o| *o != life) {
        let Some(end) = h.end_of(other) else { continue };
        let gone = h.id(other);
        // Who died before the answer to its JOIN came is let in once, and excluded then.
        let Some(first) = views.iter().position(|(_, v)| v.contains(gone)) else { continue };
        let after = |(i, v): &(usize, Arc<View>)| *i > end && !v.contains(gone);
        let excluded = views[first..].iter().position(after).map(|i| first + i);
        let Some(excluded) = excluded else { continue };
        if let Some((_, v)) = views[excluded..].iter().find(|(_, v)| v.contains(gone)) {
            let (p, q) = (h.name(other), h.name(life));
            let text = format!("{p} was gone, yet {q} installed {}", transcript::view(v, h));
            return Some(Violation::new("A9", text));
        }
    }
    None
}

/// A11: once converged and without faults, nobody installs another view.
fn stays_stable(h: &History, life: Life, views: &[(usize, Arc<View>)]) -> Option<Violation> {
    let end = h.phase(Phase::End).unwrap_or(h.facts.len());
    let (_, v) = views.iter().find(|(i, _)| *i < end && is_after(h, Phase::Converged, *i))?;
    let text = format!("{} installed {} without a reason", h.name(life), transcript::view(v, h));
    Some(Violation::new("A11", text))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h))
    }

    #[test]
    fn agreeing_members_break_nothing() {
        assert!(found(&together()).is_empty());
    }

    #[test]
    fn a_view_without_its_owner_breaks_a1() {
        let mut h = trio();
        install(&mut h, C, 2, A, &[A, B]);
        assert_eq!(found(&h), ["A1"]);
    }

    #[test]
    fn a_number_that_does_not_grow_breaks_a2() {
        let mut h = together();
        install(&mut h, B, 3, A, &[A, B, C]);
        assert_eq!(found(&h), ["A2"]);
    }

    #[test]
    fn equal_ids_of_unequal_views_break_a3() {
        let mut h = trio();
        install(&mut h, A, 2, A, &[A, B]);
        install(&mut h, B, 2, A, &[B, A]);
        assert!(found(&h).contains(&"A3"));
    }

    #[test]
    fn a_view_of_a_stranger_breaks_a4() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A, B]);
        install(&mut h, A, 2, C, &[A, B]);
        assert_eq!(found(&h), ["A4"]);
    }

    #[test]
    fn an_unknown_member_breaks_a5() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A, Life(9)]);
        assert_eq!(found(&h), ["A5"]);
    }

    #[test]
    fn a_layer_that_saw_another_view_breaks_a6() {
        let mut h = together();
        let seen = view(4, A, &[A]).id;
        push(&mut h, A, What::Trace(Trace::ViewPassed { layer: 9, view: seen }));
        assert_eq!(found(&h), ["A6"]);
    }

    #[test]
    fn a_merge_of_a_view_that_never_was_breaks_a8() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A]);
        let mut merged = view(5, A, &[A, B]);
        merged.subgroups = vec![view(1, A, &[A]), view(3, B, &[B])].into();
        push(&mut h, A, What::View(Arc::new(merged)));
        assert_eq!(found(&h), ["A8"]);
    }

    #[test]
    fn a_dead_member_in_a_later_view_breaks_a9() {
        let mut h = together();
        push(&mut h, C, What::Died { power_off: false });
        install(&mut h, A, 4, A, &[A, B]);
        install(&mut h, A, 5, A, &[A, B, C]);
        assert_eq!(found(&h), ["A9"]);
    }

    #[test]
    fn a_view_after_convergence_breaks_a11() {
        let mut h = together();
        phase(&mut h, Phase::Converged);
        install(&mut h, A, 4, A, &[A, B, C]);
        assert_eq!(found(&h), ["A11"]);
    }
}
