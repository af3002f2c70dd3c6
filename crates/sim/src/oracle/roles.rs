//! A7 and A16: who leads. One coordinator hands over to one other, and at rest there is one.

use super::bounds::Bounds;
use super::convergence::alive_at;
use super::faults::{Faults, by};
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, Phase, What};
use crate::transcript;
use rgroups_core::{Time, Trace, View, ViewId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks A7 where the conditions have times, and A16 where the run has the phases for it.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(bounds) = &c.bounds {
        found.extend(single_hand_over(h, &Faults::of(h), bounds));
    }
    for phase in [Phase::Converged, Phase::AtRest, Phase::End] {
        found.extend(h.phase(phase).into_iter().flat_map(|at| one_coordinator(h, at)));
    }
    found
}

/// A view, who installed it, and when each did.
struct Installed {
    view: Arc<View>,
    by: Vec<(Life, Time)>,
}

/// A7: two different views of the same number are not installed by members of both, unless a fault
/// or a suspicion could have set them apart. What a fault did shows itself within the time of
/// failure detection, so times without any for so long are those that count as connected.
fn single_hand_over(h: &History, faults: &Faults, bounds: &Bounds) -> Vec<Violation> {
    let suspicions: Vec<Time> = h
        .facts
        .iter()
        .filter(|f| matches!(f.what, What::Trace(Trace::Suspected { .. })))
        .map(|f| f.at)
        .collect();
    let calm = |from: Time, to: Time| {
        let from = Time(from.0.saturating_sub(bounds.view_change().as_nanos() as u64));
        faults.none_in(from, to) && !suspicions.iter().any(|s| (from..=to).contains(s))
    };
    let mut found = Vec::new();
    for same_number in by_number(h).values() {
        let views: Vec<&Installed> = same_number.values().collect();
        for (i, v) in views.iter().enumerate() {
            for w in &views[i + 1..] {
                found.extend(set_apart(h, v, w, &calm));
            }
        }
    }
    found
}

fn by_number(h: &History) -> BTreeMap<u64, BTreeMap<ViewId, Installed>> {
    let mut all: BTreeMap<u64, BTreeMap<ViewId, Installed>> = BTreeMap::new();
    for life in h.all_lives() {
        for (i, view) in h.views_of(life) {
            let same_number = all.entry(view.id.id).or_default();
            let entry = same_number
                .entry(view.id)
                .or_insert_with(|| Installed { view: view.clone(), by: Vec::new() });
            entry.by.push((life, h.facts[i].at));
        }
    }
    all
}

/// The first pair of members of both views of which one installed `v` and the other `w`.
fn set_apart(
    h: &History,
    v: &Installed,
    w: &Installed,
    calm: &impl Fn(Time, Time) -> bool,
) -> Option<Violation> {
    let of_both = |life: &Life| v.view.contains(h.id(*life)) && w.view.contains(h.id(*life));
    let ours = v.by.iter().filter(|(l, _)| of_both(l));
    let mut pairs = ours.flat_map(|(p, at)| {
        let theirs = w.by.iter().filter(|(l, _)| of_both(l));
        theirs.map(move |(q, then)| (*p, *q, *at, *then))
    });
    let (p, q, ..) = pairs.find(|(_, _, at, then)| calm(*at.min(then), *at.max(then)))?;
    let (a, b) = (transcript::view(&v.view, h), transcript::view(&w.view, h));
    let text = format!("{} installed {a}, {} {b}, without a fault", h.name(p), h.name(q));
    Some(Violation::new("A7", text))
}

/// A16: whoever is first in its view acts as coordinator, and nobody else.
fn one_coordinator(h: &History, position: usize) -> Vec<Violation> {
    let mut found = Vec::new();
    for life in alive_at(h, position) {
        let views = h.views_of(life);
        let Some((_, view)) = views.iter().rev().find(|(i, _)| *i < position) else { continue };
        let first = view.coordinator() == h.id(life);
        let acts = role_at(h, life, position) == Some("coordinator");
        if first != acts {
            let shown = transcript::view(view, h);
            let what = if acts { "acts as coordinator" } else { "does not act as coordinator" };
            found.push(by(h, "A16", life, &format!("{what} of {shown}")));
        }
    }
    found
}

/// What GMS of this member said last that it is.
pub(crate) fn role_at(h: &History, life: Life, position: usize) -> Option<&'static str> {
    let roles = h.facts_of(life).filter_map(|(i, f)| match f.what {
        What::Trace(Trace::Membership { state }) if i < position => Some(state),
        _ => None,
    });
    roles.last()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::network::Host;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    fn role(h: &mut History, life: Life, state: &'static str) {
        push(h, life, What::Trace(Trace::Membership { state }));
    }

    #[test]
    fn two_successors_of_one_coordinator_break_a7() {
        let mut h = together();
        install(&mut h, B, 4, B, &[B, C]);
        install(&mut h, C, 4, C, &[C, B]);
        assert_eq!(found(&h), ["A7"]);
    }

    #[test]
    fn two_successors_after_a_split_break_nothing() {
        let mut h = together();
        let at = now(&h);
        push_at(&mut h, at, None, What::Split([(Host(0), Host(1))].into()));
        install(&mut h, B, 4, B, &[B, C]);
        install(&mut h, C, 4, C, &[C, B]);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_second_coordinator_breaks_a16() {
        let mut h = together();
        role(&mut h, A, "coordinator");
        role(&mut h, B, "coordinator");
        phase(&mut h, Phase::Converged);
        assert_eq!(found(&h), ["A16"]);
    }

    #[test]
    fn a_group_without_coordinator_breaks_a16() {
        let mut h = together();
        role(&mut h, A, "member");
        phase(&mut h, Phase::Converged);
        assert_eq!(found(&h), ["A16"]);
    }
}
