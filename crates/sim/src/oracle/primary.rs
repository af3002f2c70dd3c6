//! P: primary views, where the stack has PRIMARY. Never two at a time, one chain, and in the end
//! everybody knows.

use super::Violation;
use crate::connections::Life;
use crate::history::{History, Phase, What};
use rgroups_core::{Primacy, Time, Trace, Uuid, View, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// For so long a member trusted a view.
pub(super) struct Trust {
    life: Life,
    view: ViewId,
    from: Time,
    to: Time,
}

/// Checks P1, P2 and P3.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let trust = trust(h);
    let mut found = two_at_a_time(h, &trust);
    found.extend(broken_chain(h));
    found.extend(undecided(h, &trust));
    found
}

/// Who trusted which view when.
pub(super) fn trust(h: &History) -> Vec<Trust> {
    let mut all: Vec<Trust> = Vec::new();
    let mut open: BTreeMap<Life, usize> = BTreeMap::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        let said = match &f.what {
            What::Trace(Trace::Primary { view, primacy: Primacy::Yes, lasts }) => {
                Some((*view, f.at + *lasts))
            }
            What::Trace(Trace::Primary { .. })
            | What::View(_)
            | What::Died { .. }
            | What::Left { .. } => None,
            _ => continue,
        };
        if let Some(last) = open.remove(&life) {
            all[last].to = all[last].to.min(f.at);
        }
        if let Some((view, to)) = said {
            open.insert(life, all.len());
            all.push(Trust { life, view, from: f.at, to });
        }
    }
    all
}

/// Whether `life` took its view for the primary one all the time.
pub(super) fn trusts(trust: &[Trust], life: Life, from: Time, to: Time) -> bool {
    trust.iter().any(|t| t.life == life && t.from <= from && to < t.to)
}

/// When a quorum of processes began anew, none of which was in a primary view before.
pub(super) fn began_anew(h: &History) -> Option<Time> {
    let formed = formed(h);
    let knows = |i: usize, m: &Uuid| formed[..i].iter().any(|(_, v)| v.contains(*m));
    let new = (1..formed.len()).find(|i| !formed[*i].1.members.iter().any(|m| knows(*i, m)))?;
    Some(h.facts[formed[new].0].at)
}

/// The primary views, and where the first member of each said so.
fn formed(h: &History) -> Vec<(usize, &View)> {
    let views: BTreeMap<ViewId, &View> = h
        .facts
        .iter()
        .filter_map(|f| match &f.what {
            What::View(v) => Some((v.id, &**v)),
            _ => None,
        })
        .collect();
    let mut formed: Vec<(usize, &View)> = Vec::new();
    for (i, f) in h.facts.iter().enumerate() {
        if let What::Trace(Trace::PrimaryFormed { view }) = &f.what
            && let Some(view) = views.get(view)
            && formed.iter().all(|(_, v)| v.id != view.id)
        {
            formed.push((i, view));
        }
    }
    formed
}

fn two_at_a_time(h: &History, trust: &[Trust]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut newest: Option<&Trust> = None;
    let mut sorted: Vec<&Trust> = trust.iter().collect();
    sorted.sort_by_key(|t| t.from);
    // Of those before, the one that lasts longest of another view is the one to meet.
    let mut ends: BTreeMap<ViewId, &Trust> = BTreeMap::new();
    for t in sorted {
        if newest.is_some_and(|n| n.view != t.view) || newest.is_none() {
            let other = ends.values().find(|e| e.view != t.view && e.to > t.from);
            if let Some(o) = other {
                found.push(Violation::new(
                    "P1",
                    format!(
                        "{} takes view {} for the primary one until {}, and {} view {} from {} on",
                        h.name(o.life),
                        o.view.id,
                        o.to,
                        h.name(t.life),
                        t.view.id,
                        t.from
                    ),
                ));
            }
        }
        newest = Some(t);
        let end = ends.entry(t.view).or_insert(t);
        if t.to > end.to {
            *end = t;
        }
    }
    found
}

/// P2, for `keep_majority`: each primary view has more than half of those members of the one before that
/// did not leave, and a greater number. Where a quorum of processes begins anew, and none of them was
/// ever in a primary view, a new chain begins.
fn broken_chain(h: &History) -> Vec<Violation> {
    let formed = formed(h);
    let left_before = |m: &Uuid, i: usize| {
        let asked = |l| h.facts_of(l).find(|(_, f)| matches!(f.what, What::LeaveAsked));
        h.life_of(*m).and_then(asked).is_some_and(|(at, _)| at < i)
    };
    let mut found = Vec::new();
    for (i, pair) in formed.windows(2).enumerate() {
        let [(_, before), (at, next)] = pair else { continue };
        let knows = |m: &Uuid| formed[..=i].iter().any(|(_, v)| v.contains(*m));
        if !next.members.iter().any(knows) {
            continue;
        }
        let base: BTreeSet<Uuid> =
            before.members.iter().copied().filter(|m| !left_before(m, *at)).collect();
        let stay = base.iter().filter(|m| next.contains(**m)).count();
        if next.id.id <= before.id.id || (stay * 2 <= base.len() && !base.is_empty()) {
            let text = format!(
                "view {} follows view {} with {stay} of its {} members",
                next.id.id,
                before.id.id,
                base.len()
            );
            found.push(Violation::new("P2", text));
        }
    }
    found
}

/// P3: where nobody died, everybody takes the last view for the primary one when the run is at rest.
fn undecided(h: &History, trust: &[Trust]) -> Vec<Violation> {
    let has_primary = h.facts.iter().any(|f| matches!(f.what, What::Trace(Trace::Primary { .. })));
    let died = h.facts.iter().any(|f| matches!(f.what, What::Died { .. }));
    let Some(rest) = h.phase(Phase::AtRest).filter(|_| has_primary && !died) else {
        return Vec::new();
    };
    let at = h.facts[rest].at;
    let here = |l: &Life| h.departure_of(*l).is_none_or(|i| i > rest) && !h.views_of(*l).is_empty();
    let trusts = |l: &Life| trust.iter().any(|t| t.life == *l && t.from <= at && at < t.to);
    h.all_lives()
        .filter(|l| here(l) && !trusts(l))
        .map(|l| {
            let text = format!("{} does not know its view for the primary one", h.name(l));
            Violation::new("P3", text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use rgroups_core::Duration;

    fn says(h: &mut History, life: Life, n: u64, creator: Life, ms: u64) {
        let view = ViewId { id: n, creator: id(creator) };
        let lasts = Duration::from_millis(ms);
        push(h, life, What::Trace(Trace::PrimaryFormed { view }));
        push(h, life, What::Trace(Trace::Primary { view, primacy: Primacy::Yes, lasts }));
    }

    #[test]
    fn trust_that_ends_in_time_breaks_nothing() {
        let mut h = together();
        says(&mut h, A, 3, A, 2);
        says(&mut h, B, 3, A, 2);
        install(&mut h, B, 4, B, &[B, C]);
        says(&mut h, B, 4, B, 2);
        assert_eq!(names(&check(&h)), Vec::<&str>::new());
    }

    #[test]
    fn two_primary_views_at_a_time_break_p1() {
        let mut h = together();
        says(&mut h, A, 3, A, 100);
        install(&mut h, B, 4, B, &[B, C]);
        says(&mut h, B, 4, B, 100);
        assert_eq!(names(&check(&h)), ["P1"]);
    }

    #[test]
    fn a_primary_view_without_most_of_the_one_before_breaks_p2() {
        let mut h = together();
        says(&mut h, A, 3, A, 1);
        install(&mut h, C, 4, C, &[C]);
        says(&mut h, C, 4, C, 1);
        assert_eq!(names(&check(&h)), ["P2"]);
    }

    #[test]
    fn processes_that_know_nothing_may_begin_anew() {
        let mut h = trio();
        install(&mut h, A, 3, A, &[A]);
        says(&mut h, A, 3, A, 1);
        install(&mut h, B, 0, B, &[B, C]);
        says(&mut h, B, 0, B, 1);
        assert_eq!(names(&check(&h)), Vec::<&str>::new());
    }

    #[test]
    fn members_that_left_do_not_count_in_p2() {
        let mut h = together();
        says(&mut h, A, 3, A, 1);
        push(&mut h, A, What::LeaveAsked);
        push(&mut h, B, What::LeaveAsked);
        install(&mut h, C, 4, C, &[C]);
        says(&mut h, C, 4, C, 1);
        assert_eq!(names(&check(&h)), Vec::<&str>::new());
    }

    #[test]
    fn a_member_that_never_knows_breaks_p3() {
        let mut h = together();
        says(&mut h, A, 3, A, 100);
        says(&mut h, B, 3, A, 100);
        phase(&mut h, Phase::AtRest);
        assert_eq!(names(&check(&h)), ["P3"]);
    }
}
