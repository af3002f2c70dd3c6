//! J: calls of methods end in time, with a row for each target that agrees with what happened there;
//! nobody carries one out twice, and what is answered arrives.

mod rows;

use super::faults::{Faults, by, is_within};
use super::validity::waits;
use super::{Conditions, Violation};
use crate::cluster::{Errand, number};
use crate::connections::Life;
use crate::history::{Given, History, MadeCall, Phase, What};
use rgroups_core::rpc::{Row, Status, Wait};
use rgroups_core::{Duration, OpId, SendRefusal, SendResult, Time, Trace, Uuid, View};
use rows::Ended;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A call, whether it ended or not.
struct Course<'a> {
    op: OpId,
    made: &'a MadeCall,
    /// Where it was given to the stack.
    began: usize,
    ended: Option<(usize, &'a SendResult)>,
}

/// What was done with the calls, by call and who did it.
#[derive(Default)]
struct Work {
    carried_out: BTreeMap<(OpId, Uuid), Vec<(usize, Uuid)>>,
    given: BTreeMap<(OpId, Uuid), (usize, Given)>,
}

/// Checks J1 to J6.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    if h.calls.is_empty() {
        return Vec::new();
    }
    let (courses, work) = read(h);
    let faults = Faults::of(h);
    let mut found = Vec::new();
    for course in &courses {
        found.extend(in_time(h, course, &faults));
        found.extend(not_after_leaving(h, course));
        match course.ended {
            Some((to, SendResult::Called(outcome))) => {
                let ended = Ended { course, rows: &outcome.rows, to };
                found.extend(ended.violations(h, &work));
            }
            Some((_, result)) => found.extend(refused(h, course, result)),
            None => {}
        }
        found.extend(answered_at_rest(h, course));
    }
    found.extend(at_most_once(h, &courses, &work));
    found.extend(answers_arrive(h, c, &courses, &work, &faults));
    found
}

fn read(h: &History) -> (Vec<Course<'_>>, Work) {
    let mut courses: BTreeMap<OpId, Course<'_>> = BTreeMap::new();
    let mut work = Work::default();
    for (i, f) in h.facts.iter().enumerate() {
        match (&f.what, f.life) {
            (What::Calls(op), _) => {
                let made = &h.calls[number(*op) as usize];
                courses.insert(*op, Course { op: *op, made, began: i, ended: None });
            }
            (What::CallEnded(op, result), _) => {
                if let Some(course) = courses.get_mut(op) {
                    // Only the first counts; a second one shows as a changed row.
                    course.ended.get_or_insert((i, result));
                }
            }
            (What::CarriedOut(op, by), Some(life)) => {
                work.carried_out.entry((*op, h.id(life))).or_default().push((i, *by));
            }
            (What::AnswersCall(op, _, given), Some(life)) => {
                work.given.entry((*op, h.id(life))).or_insert((i, *given));
            }
            _ => {}
        }
    }
    (courses.into_values().collect(), work)
}

fn violation(h: &History, c: &Course<'_>, invariant: &'static str, text: &str) -> Violation {
    by(h, invariant, c.made.caller, &format!("call {}: {text}", number(c.op)))
}

/// J1: no call lasts longer than its time; but who does not run cannot notice.
fn in_time(h: &History, c: &Course<'_>, faults: &Faults) -> Option<Violation> {
    let began = h.facts[c.began].at;
    let ended = match (c.ended, h.end_of(c.made.caller)) {
        (Some((i, _)), _) | (None, Some(i)) => h.facts[i].at,
        (None, None) => h.facts.last()?.at,
    };
    let limit = faults.limit(h, c.made.caller, began, c.made.within);
    let text = || format!("begun at {began}, not over at {ended}, for {:?}", c.made.within);
    (ended > limit).then(|| violation(h, c, "J1", &text()))
}

/// J1: whoever left has no calls.
fn not_after_leaving(h: &History, c: &Course<'_>) -> Option<Violation> {
    let left = h.facts_of(c.made.caller).find(|(_, f)| matches!(f.what, What::Left { .. }))?.0;
    let outlives = left > c.began && c.ended.is_none_or(|(i, _)| i > left);
    outlives.then(|| violation(h, c, "J1", "did not end before its caller had left"))
}

/// J2: calls are refused to those who are no members any more, or not yet.
fn refused(h: &History, c: &Course<'_>, result: &SendResult) -> Option<Violation> {
    let end = c.ended.map_or(usize::MAX, |(i, _)| i);
    let outside = || {
        let mut known = h.facts_of(c.made.caller).take_while(|(i, _)| *i <= end);
        let mut member = false;
        known.any(|(i, f)| {
            member |= matches!(f.what, What::View(_)) && i < c.began;
            matches!(f.what, What::LeaveAsked | What::Rejoining(_))
        }) || !member
    };
    let sound = match result {
        SendResult::Refused(SendRefusal::Closed) => outside(),
        SendResult::Refused(SendRefusal::NotPrimary) => {
            h.facts.iter().any(|f| matches!(f.what, What::Trace(Trace::Primary { .. })))
        }
        _ => false,
    };
    (!sound).then(|| violation(h, c, "J2", &format!("ended with {result:?}")))
}

/// J5: carried out once at most, for who made it, and only by those whom it was for. A call to
/// everybody is also for those who join while it is on its way, and a merge brings it to members of
/// another part; none of them is in the view of its beginning.
fn at_most_once(h: &History, courses: &[Course<'_>], work: &Work) -> Vec<Violation> {
    let mut found = Vec::new();
    for course in courses {
        let views = first_views(h, course);
        let caller = h.id(course.made.caller);
        let is_for = |m: Uuid| match &course.made.to {
            Some(to) => to.contains(&m) || views.iter().any(|v| is_everybody(v, to, caller, m)),
            None => true,
        };
        for ((_, m), times) in work.carried_out.iter().filter(|((op, _), _)| *op == course.op) {
            let who = h.name_of(*m);
            if times.len() > 1 {
                let text = format!("{who} carried it out {} times", times.len());
                found.push(violation(h, course, "J5", &text));
            }
            if !is_for(*m) {
                found.push(violation(h, course, "J5", &format!("{who} was not called")));
            }
            if times.iter().any(|(_, by)| *by != h.id(course.made.caller)) {
                found.push(violation(h, course, "J5", &format!("{who} takes it for another's")));
            }
        }
    }
    found
}

/// Whether `to` are all members of `view`, or all others, and `m` is none of them.
fn is_everybody(view: &View, to: &[Uuid], caller: Uuid, m: Uuid) -> bool {
    let all = view.members.iter().all(|x| *x == caller || to.contains(x));
    all && to.iter().all(|x| view.contains(*x)) && !view.contains(m)
}

/// The view in which a call began. What is installed in the same turn may come before or after it.
fn first_views(h: &History, c: &Course<'_>) -> Vec<Arc<View>> {
    let (all, began) = (h.views_of(c.made.caller), h.facts[c.began].at);
    let before = all.iter().filter(|(i, _)| *i < c.began).count();
    let mut possible: Vec<Arc<View>> = Vec::new();
    for (k, (i, v)) in all.into_iter().enumerate().skip(before.saturating_sub(1)) {
        if k < before || h.facts[i].at == began {
            possible.push(v);
        }
    }
    possible
}

/// J5: what was answered arrives within the time of a message where nothing disturbs it.
fn answers_arrive(
    h: &History,
    c: &Conditions,
    courses: &[Course<'_>],
    work: &Work,
    faults: &Faults,
) -> Vec<Violation> {
    // What was frozen or cut off a moment ago has a backlog.
    const AFTERMATH: Duration = Duration::from_secs(1);
    let Some(bounds) = &c.bounds else { return Vec::new() };
    let blocked = waits(h);
    let by_op: BTreeMap<OpId, &Course<'_>> = courses.iter().map(|c| (c.op, c)).collect();
    let mut found = Vec::new();
    for ((op, m), (i, _)) in &work.given {
        let Some(course) = by_op.get(op) else { continue };
        let (Some(callee), at) = (h.life_of(*m), h.facts[*i].at) else { continue };
        let deadline = at + bounds.delivery(false);
        let since = Time(at.0.saturating_sub(AFTERMATH.as_nanos() as u64));
        let Some((to, SendResult::Called(outcome))) = course.ended else { continue };
        let over = h.facts[to].at <= deadline || course.made.wait == Wait::None;
        let caller = course.made.caller;
        let held = blocked.iter().any(|w| w.overlaps(callee, at, deadline));
        let calm = faults.none_in(since, deadline) && is_within(h, deadline);
        if over || held || !calm || !settled(h, caller, callee, since, deadline) {
            continue;
        }
        let arrived = |r: &Row| {
            let status = &r.status;
            matches!(status, Status::Answered(_) | Status::Failed(_) | Status::NoSuchMethod)
        };
        if !outcome.rows.iter().any(|r| r.member == *m && arrived(r)) {
            let text = format!("{} answered at {at} and is not heard", h.name_of(*m));
            found.push(violation(h, course, "J5", &text));
        }
    }
    found
}

/// Whether both are members of each other's view, which does not change in this time.
fn settled(h: &History, a: Life, b: Life, from: Time, to: Time) -> bool {
    [(a, b), (b, a)].into_iter().all(|(own, other)| {
        let views = h.views_of(own);
        let changes = views.iter().any(|(i, _)| (from..=to).contains(&h.facts[*i].at));
        let leaves = h.departure_of(own).is_some_and(|i| h.facts[i].at <= to);
        let before = views.iter().rev().find(|(i, _)| h.facts[*i].at < from);
        !changes && !leaves && before.is_some_and(|(_, v)| v.contains(h.id(other)))
    })
}

/// J5 and, with calls within calls, J6: what is called when all faults are over is answered by all.
fn answered_at_rest(h: &History, c: &Course<'_>) -> Option<Violation> {
    let rest = h.phase(Phase::FinalRound)?;
    let invariant = match c.made.errand {
        Errand::Answer => "J5",
        Errand::Nest(_) => "J6",
        Errand::After(_) | Errand::Fail | Errand::Unknown | Errand::Hang => return None,
    };
    if c.began < rest || c.made.wait != Wait::All || h.phase(Phase::AtRest).is_none() {
        return None;
    }
    let all = match c.ended {
        Some((_, SendResult::Called(o))) => {
            o.rows.iter().all(|r| matches!(r.status, Status::Answered(_)))
        }
        _ => false,
    };
    (!all).then(|| violation(h, c, invariant, "was not answered by all, and nothing disturbs it"))
}

#[cfg(test)]
mod tests;
