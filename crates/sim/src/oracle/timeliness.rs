//! A13 and A15: what must happen to the membership within some time. Who has failed is out of all
//! views, who wants in is in.

use super::bounds::Bounds;
use super::faults::{Faults, Kind, Span, by, is_within, position_after};
use super::roles::role_at;
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, What};
use crate::transcript;
use rgroups_core::{Duration, Time, Uuid, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks A13 and A15 where the conditions have times.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let Some(bounds) = &c.bounds else { return Vec::new() };
    let faults = Faults::of(h);
    let mut found = completeness(h, &faults, bounds);
    found.extend(joins(h, &faults, c, bounds));
    found.extend(cold_start(h, &faults, bounds));
    found
}

/// The time that the repair of a tail may add to a view change.
pub(super) const TAIL_REPAIR: Duration = Duration::from_secs(3);

/// A13: who was killed, or was frozen for so long, is in no view of those who live. Every other
/// fault in between makes the time begin anew: that is what "times the number of simultaneous
/// crashes" comes to, and a merge that was begun before may have to be given up first.
fn completeness(h: &History, faults: &Faults, bounds: &Bounds) -> Vec<Violation> {
    let mut found = Vec::new();
    let allowed = bounds.view_change() + bounds.merge_timeout + TAIL_REPAIR;
    for span in faults.spans() {
        let Some(failed) = span.of.filter(|_| fails(span)) else { continue };
        let deadline = faults.deadline(span.from, Some(failed), allowed);
        let outlasts = span.kind == Kind::Frozen && span.to < deadline;
        if outlasts || !is_within(h, deadline) {
            continue;
        }
        for life in survivors(h, span.from, deadline, failed) {
            let view = view_at(h, life, deadline);
            if let Some(v) = view.filter(|v| v.contains(h.id(failed))) {
                let text = format!(
                    "is in {} at {deadline}, though {} failed at {}",
                    transcript::view(&v, h),
                    h.name(failed),
                    span.from
                );
                found.push(by(h, "A13", life, &text));
            }
        }
    }
    found
}

fn fails(span: &Span) -> bool {
    match span.kind {
        Kind::Death | Kind::Frozen => true,
        Kind::Slow | Kind::Reset | Kind::Split => false,
    }
}

/// A15: with a coordinator that lives and is reachable a process is in its first view in time:
/// within one join timeout where nothing happens at all, else within three, for it may have heard
/// first of a coordinator that is gone.
fn joins(h: &History, faults: &Faults, c: &Conditions, bounds: &Bounds) -> Vec<Violation> {
    let allowed = match c.calm {
        true => bounds.joining(),
        false => bounds.joining() * 3,
    };
    let mut found = Vec::new();
    for (life, started) in starts(h) {
        let deadline = started + allowed;
        // Faults of before show themselves within the time of a view change.
        let since = earlier(started, bounds.view_change());
        let reachable = faults.none_in(since, deadline) && is_within(h, deadline);
        if !reachable || leaves_before(h, life, deadline) || !is_led(h, life, started, deadline) {
            continue;
        }
        if view_at(h, life, deadline).is_none() {
            let text = format!("started at {started} and is in no view at {deadline}");
            found.push(by(h, "A15", life, &text));
        }
    }
    found
}

/// Whether somebody leads a group from before `from` until after `to`.
fn is_led(h: &History, joiner: Life, from: Time, to: Time) -> bool {
    let position = position_after(h, from);
    h.all_lives().filter(|l| *l != joiner).any(|l| {
        role_at(h, l, position) == Some("coordinator")
            && !leaves_before(h, l, to)
            && role_at(h, l, position_after(h, to)) == Some("coordinator")
    })
}

/// A15: those who start at the same moment, and nobody else, are in one view in time.
fn cold_start(h: &History, faults: &Faults, bounds: &Bounds) -> Vec<Violation> {
    const MOMENT: Duration = Duration::from_secs(1);
    let all = starts(h);
    let Some((_, first)) = all.iter().min_by_key(|(_, at)| *at) else { return Vec::new() };
    let together: Vec<(Life, Time)> =
        all.iter().copied().filter(|(_, at)| at.since(*first) <= MOMENT).collect();
    let last = together.iter().map(|(_, at)| *at).max().unwrap_or(*first);
    let deadline = last + bounds.merge();
    let others = all.iter().any(|(_, at)| at.since(*first) > MOMENT && *at <= deadline);
    let left = h.all_lives().any(|l| leaves_before(h, l, deadline));
    let calm = faults.none_in(Time::ZERO, deadline) && !others && !left;
    if together.len() < 2 || !calm || !is_within(h, deadline) {
        return Vec::new();
    }
    let expected: BTreeSet<Uuid> = together.iter().map(|(l, _)| h.id(*l)).collect();
    let lost = together.iter().filter(|(l, _)| {
        let view = view_at(h, *l, deadline);
        view.is_none_or(|v| v.members.iter().copied().collect::<BTreeSet<_>>() != expected)
    });
    let text =
        format!("started with all the others and is not in one view with them at {deadline}");
    lost.map(|(l, _)| by(h, "A15", *l, &text)).collect()
}

fn earlier(at: Time, by: Duration) -> Time {
    Time(at.0.saturating_sub(by.as_nanos() as u64))
}

fn starts(h: &History) -> Vec<(Life, Time)> {
    let started = h.facts.iter().filter(|f| matches!(f.what, What::Started));
    started.filter_map(|f| Some((f.life?, f.at))).collect()
}

fn leaves_before(h: &History, life: Life, at: Time) -> bool {
    h.departure_of(life).is_some_and(|i| h.facts[i].at <= at)
}

/// Who started before `from` and goes on until after `to`.
fn survivors(h: &History, from: Time, to: Time, except: Life) -> Vec<Life> {
    let all = starts(h).into_iter().filter(|(l, at)| *l != except && *at < from);
    all.map(|(l, _)| l).filter(|l| !leaves_before(h, *l, to)).collect()
}

fn view_at(h: &History, life: Life, at: Time) -> Option<Arc<View>> {
    let views = h.views_of(life);
    views.into_iter().rev().find(|(i, _)| h.facts[*i].at <= at).map(|(_, v)| v)
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use rgroups_core::Trace;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// Nothing more happens until then.
    fn until(h: &mut History, seconds: u64) {
        push_at(h, at(seconds), None, What::Network("on".into()));
    }

    #[test]
    fn a_dead_member_that_stays_in_a_view_breaks_a13() {
        let mut h = together();
        push_at(&mut h, at(1), Some(C), What::Died { power_off: true });
        install(&mut h, A, 4, A, &[A, B]);
        until(&mut h, 90);
        let violations = check(&h, &conditions());
        assert_eq!(names(&violations), ["A13"]);
        assert!(violations[0].text.starts_with("B "));
    }

    #[test]
    fn a_frozen_member_that_stays_in_a_view_breaks_a13_and_a_short_freeze_does_not() {
        let mut h = together();
        push_at(&mut h, at(1), Some(C), What::Frozen(true));
        until(&mut h, 90);
        assert_eq!(found(&h), ["A13"]);
        let mut h = together();
        push_at(&mut h, at(1), Some(C), What::Frozen(true));
        push_at(&mut h, at(5), Some(C), What::Frozen(false));
        until(&mut h, 90);
        assert!(found(&h).is_empty());
    }

    fn led_by_a() -> History {
        let mut h = History::default();
        add(&mut h, A, "A");
        install(&mut h, A, 1, A, &[A]);
        push(&mut h, A, What::Trace(Trace::Membership { state: "coordinator" }));
        push_at(&mut h, at(40), None, What::Network("on".into()));
        h
    }

    #[test]
    fn a_process_that_is_not_let_in_breaks_a15() {
        let mut h = led_by_a();
        add(&mut h, B, "B");
        until(&mut h, 90);
        assert_eq!(found(&h), ["A15"]);
    }

    #[test]
    fn a_process_that_is_let_in_breaks_nothing() {
        let mut h = led_by_a();
        add(&mut h, B, "B");
        install(&mut h, B, 2, A, &[A, B]);
        until(&mut h, 90);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_cold_start_that_ends_in_two_groups_breaks_a15() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A, B]);
        install(&mut h, B, 1, A, &[A, B]);
        install(&mut h, C, 0, C, &[C]);
        until(&mut h, 90);
        assert_eq!(found(&h), ["A15"]);
    }
}
