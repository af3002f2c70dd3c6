//! B: convergence. Once all faults are over and the group had its time, everybody alive is in one
//! view of exactly those, and no protocol is in the middle of anything.

use super::Violation;
use crate::connections::Life;
use crate::history::{History, Phase, What};
use crate::transcript;
use rgroups_core::{Trace, Uuid};
use std::collections::BTreeSet;

/// Checks A10, B1, B2 and F6 where the run has the phases for it.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(converged) = h.phase(Phase::Converged) {
        found.extend(one_view(h, converged));
        found.extend(no_stuck_mode(h, converged));
    }
    for phase in [Phase::Converged, Phase::AtRest, Phase::End] {
        found.extend(h.phase(phase).into_iter().flat_map(|at| no_ghosts(h, at)));
    }
    found.extend(no_requests(h));
    found.extend(calls_ended(h));
    if h.phase(Phase::Closed).is_some() {
        found.extend(leaves_ended(h));
    }
    found
}

/// A14: who was asked to leave has left.
fn leaves_ended(h: &History) -> Vec<Violation> {
    let asked = h.all_lives().filter(|l| h.departure_of(*l).is_some());
    asked
        .filter(|l| h.end_of(*l).is_none())
        .map(|l| Violation::new("A14", format!("{} never left", h.name(l))))
        .collect()
}

/// Who runs, and was not asked to leave, at this position.
#[must_use]
pub fn alive_at(h: &History, position: usize) -> Vec<Life> {
    h.all_lives()
        .filter(|l| {
            let started = h.facts_of(*l).find(|(_, f)| matches!(f.what, What::Started));
            started.is_some_and(|(i, _)| i < position)
                && h.departure_of(*l).is_none_or(|i| i > position)
        })
        .collect()
}

fn one_view(h: &History, position: usize) -> Vec<Violation> {
    let alive = alive_at(h, position);
    let expected: BTreeSet<Uuid> = alive.iter().map(|l| h.id(*l)).collect();
    let mut found = Vec::new();
    let mut first = None;
    for life in alive {
        let views = h.views_of(life);
        let last = views.iter().rev().find(|(i, _)| *i < position).map(|(_, v)| v);
        let Some(v) = last else {
            found.push(Violation::new("B1", format!("{} is in no view", h.name(life))));
            continue;
        };
        let members: BTreeSet<Uuid> = v.members.iter().copied().collect();
        if members != expected {
            let everybody: Vec<Uuid> = expected.iter().copied().collect();
            let text = format!(
                "{} is in {}, but alive are {}",
                h.name(life),
                transcript::view(v, h),
                transcript::names(&everybody, h)
            );
            found.push(Violation::new("B1", text));
        } else if first.get_or_insert(v.id) != &v.id {
            let text = format!("{} is in another view, {}", h.name(life), transcript::view(v, h));
            found.push(Violation::new("B1", text));
        }
    }
    found
}

/// A10: at rest no view contains a process that is not alive.
fn no_ghosts(h: &History, position: usize) -> Vec<Violation> {
    let gone = |m: &Uuid| match h.life_of(*m) {
        Some(life) => h.end_of(life).is_some_and(|end| end < position),
        None => true,
    };
    let mut found = Vec::new();
    for life in alive_at(h, position) {
        let views = h.views_of(life);
        let Some((_, v)) = views.iter().rev().find(|(i, _)| *i < position) else { continue };
        if let Some(ghost) = v.members.iter().find(|m| gone(m)) {
            let (who, shown) = (h.name(life), transcript::view(v, h));
            let text = format!("{who} is in {shown}, and {} is gone", h.name_of(*ghost));
            found.push(Violation::new("A10", text));
        }
    }
    found
}

fn no_stuck_mode(h: &History, position: usize) -> Vec<Violation> {
    const TRANSIENT: [&str; 4] = ["joining", "leaving", "merging", "suspended"];
    let mut found = Vec::new();
    for life in alive_at(h, position) {
        let state =
            h.facts_of(life).filter(|(i, _)| *i < position).filter_map(|(_, f)| match f.what {
                What::Trace(Trace::Membership { state }) => Some(state),
                _ => None,
            });
        if let Some(state) = state.last().filter(|s| TRANSIENT.contains(s)) {
            let text = format!("{} is still {state}", h.name(life));
            found.push(Violation::new("B2", text));
        }
    }
    found
}

/// B2: at rest nobody has anything left to do about the membership.
fn no_requests(h: &History) -> Vec<Violation> {
    let pending = h.facts.iter().filter_map(|f| match f.what {
        What::RequestsPending(n) if n > 0 => Some((f.life?, n)),
        _ => None,
    });
    let told = |(life, n)| format!("{} is not done with {n} requests", h.name(life));
    pending.map(|p| Violation::new("B2", told(p))).collect()
}

/// F6: at rest no call is pending.
fn calls_ended(h: &History) -> Vec<Violation> {
    let Some(rest) = h.phase(Phase::AtRest) else { return Vec::new() };
    let mut open = BTreeSet::new();
    let mut found = Vec::new();
    for (i, f) in h.facts.iter().enumerate() {
        match &f.what {
            What::Sent(m) if i < rest => {
                open.insert(*m);
            }
            What::Resolved(m, _) if i < rest => {
                open.remove(m);
            }
            What::TokensOutstanding(n) if *n > 0 => {
                let who = f.life.map_or("-", |l| h.name(l));
                let text = format!("{n} sends of {who} were neither admitted nor refused");
                found.push(Violation::new("F6", text));
            }
            _ => {}
        }
    }
    let alive = alive_at(h, rest);
    for m in open {
        let sender = h.message(m).sender;
        if alive.contains(&sender) {
            let text = format!("#{} of {} is still pending", m.0, h.name(sender));
            found.push(Violation::new("E8", text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    #[test]
    fn one_view_of_all_who_live_breaks_nothing() {
        let mut h = together();
        phase(&mut h, Phase::Converged);
        assert!(check(&h).is_empty());
    }

    #[test]
    fn a_split_group_breaks_b1() {
        let mut h = together();
        install(&mut h, C, 4, C, &[C]);
        phase(&mut h, Phase::Converged);
        assert_eq!(names(&check(&h)), ["B1"]);
    }

    #[test]
    fn a_ghost_in_the_view_breaks_a10() {
        let mut h = together();
        push(&mut h, C, What::Died { power_off: true });
        phase(&mut h, Phase::Converged);
        assert_eq!(names(&check(&h)), ["B1", "A10"]);
    }

    #[test]
    fn a_member_that_is_still_merging_breaks_b2() {
        let mut h = together();
        push(&mut h, A, What::Trace(Trace::Membership { state: "merging" }));
        phase(&mut h, Phase::Converged);
        assert_eq!(names(&check(&h)), ["B2"]);
    }

    #[test]
    fn a_request_that_is_never_done_breaks_b2() {
        let mut h = together();
        push(&mut h, A, What::RequestsPending(1));
        assert_eq!(names(&check(&h)), ["B2"]);
    }

    #[test]
    fn a_call_that_never_ends_breaks_e8() {
        let mut h = together();
        send(&mut h, A, None);
        h.facts.pop();
        phase(&mut h, Phase::AtRest);
        assert_eq!(names(&check(&h)), ["E8"]);
    }

    #[test]
    fn a_leave_that_never_ends_breaks_a14() {
        let mut h = together();
        push(&mut h, A, What::LeaveAsked);
        phase(&mut h, Phase::Closed);
        assert_eq!(names(&check(&h)), ["A14"]);
    }

    #[test]
    fn an_unresolved_token_breaks_f6() {
        let mut h = together();
        phase(&mut h, Phase::AtRest);
        push(&mut h, A, What::TokensOutstanding(1));
        assert_eq!(names(&check(&h)), ["F6"]);
    }
}
