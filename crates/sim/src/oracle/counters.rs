//! J1 and K5: whoever uses a counter hears of it in time, and all uses of a counter are those of one
//! counter: each took effect at one moment between its beginning and its end, and none that was
//! answered is lost. Judged where the stack has PRIMARY, whose views form one chain; where a quorum of
//! processes begins a new chain, counters begin anew, and what comes after is not judged.

use super::objects::{Patience, must_succeed};
use super::{Violation, primary};
use crate::connections::Life;
use crate::history::{Asked, History, ObjectCall, What};
use crate::linear::models::{Counter, CounterOp};
use crate::linear::{self, Call, Verdict};
use rgroups_core::protocols::counter::{CounterAction, CounterFailure};
use rgroups_core::{SendResult, Time};
use std::collections::BTreeMap;

/// A use of a counter.
struct Use<'a> {
    by: Life,
    call: &'a ObjectCall,
    begun: Time,
    ended: Option<(Time, &'a Result<i64, CounterFailure>)>,
}

/// Checks J1 and K5.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let uses = uses(h);
    let mut found = late(h, &uses);
    let end = primary::began_anew(h).unwrap_or(Time(u64::MAX));
    let mut by_counter: BTreeMap<&str, Vec<&Use<'_>>> = BTreeMap::new();
    for u in uses.iter().filter(|u| u.begun < end) {
        by_counter.entry(&u.call.object).or_default().push(u);
    }
    for (counter, uses) in by_counter {
        let calls: Vec<_> = uses.iter().filter_map(|u| as_call(u, end)).collect();
        let text = match linear::check(&Counter(0), &calls) {
            Verdict::Linearizable => continue,
            Verdict::Not { stuck } => format!("no order explains the uses of {counter}: {stuck}"),
            Verdict::Undecided { steps } => {
                format!("no order of the uses of {counter} was found in {steps} steps")
            }
        };
        found.push(Violation::new("K5", text));
    }
    if end == Time(u64::MAX) {
        found.extend(unanswered(h, &uses));
    }
    found
}

fn uses(h: &History) -> Vec<Use<'_>> {
    let mut uses = Vec::new();
    let mut places = BTreeMap::new();
    for f in &h.facts {
        match (&f.what, f.life) {
            (What::Uses(call), Some(by)) if matches!(call.asked, Asked::Counter(_)) => {
                places.insert(call.op, uses.len());
                uses.push(Use { by, call, begun: f.at, ended: None });
            }
            (What::Used(op, SendResult::Counted(how)), _) => {
                if let Some(i) = places.get(op) {
                    uses[*i].ended = Some((f.at, how));
                }
            }
            _ => {}
        }
    }
    uses
}

/// `None`: it certainly did nothing.
fn as_call(u: &Use<'_>, end: Time) -> Option<Call<CounterOp, i64>> {
    let Asked::Counter(action) = u.call.asked else { return None };
    let op = match action {
        CounterAction::Get => CounterOp::Get,
        CounterAction::Set(value) => CounterOp::Set(value),
        CounterAction::AddAndGet(delta) => CounterOp::AddAndGet(delta),
        CounterAction::CompareAndSwap { expected, update } => {
            CounterOp::CompareAndSwap { expected, update }
        }
        CounterAction::Delete => return None,
    };
    let begun = u.begun.0;
    match u.ended {
        Some((at, Ok(answer))) if at < end => {
            Some(Call { op, begun, ended: Some((at.0, *answer)) })
        }
        Some((_, Err(why))) if did_nothing(why) => None,
        // Nobody has seen what was read.
        Some(_) | None if op == CounterOp::Get => None,
        Some(_) | None => Some(Call { op, begun, ended: None }),
    }
}

fn did_nothing(why: &CounterFailure) -> bool {
    !matches!(
        why,
        CounterFailure::Closed
            | CounterFailure::Unknown { .. }
            | CounterFailure::TimedOut { asked: Some(_) }
            | CounterFailure::Withdrawn
    )
}

/// J1: no use lasts longer than its time, unless its process does not run.
fn late(h: &History, uses: &[Use<'_>]) -> Vec<Violation> {
    let patience = Patience::of(h);
    let late = uses
        .iter()
        .filter(|u| patience.is_over(u.by, u.begun, u.ended.map(|(at, _)| at), u.call.within));
    late.map(|u| {
        let (who, within) = (h.name(u.by), u.call.within);
        let text = format!("{who} has used {} for longer than {within:?}", u.call.object);
        Violation::new("J1", text)
    })
    .collect()
}

/// K5, its other half: when all is well again, a member of the primary view is answered.
fn unanswered(h: &History, uses: &[Use<'_>]) -> Vec<Violation> {
    let must_succeed = must_succeed(h);
    let refused = uses.iter().filter_map(|u| match u.ended {
        Some((at, Err(why))) if must_succeed(u.by, u.begun, at) => Some((u, why)),
        Some(_) | None => None,
    });
    refused
        .map(|(u, why)| {
            let text = format!("{} could not use {}: {why:?}", h.name(u.by), u.call.object);
            Violation::new("K5", text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::Phase;
    use rgroups_core::{Duration, OpId, Primacy, Trace, ViewId};

    fn begin(h: &mut History, by: Life, n: u64, action: CounterAction) {
        let within = Duration::from_secs(1);
        let call =
            ObjectCall { op: OpId(n), object: "c".into(), asked: Asked::Counter(action), within };
        push(h, by, What::Uses(call));
    }

    fn end(h: &mut History, by: Life, n: u64, how: Result<i64, CounterFailure>) {
        push(h, by, What::Used(OpId(n), SendResult::Counted(how)));
    }

    fn add(h: &mut History, by: Life, n: u64, answer: i64) {
        begin(h, by, n, CounterAction::AddAndGet(1));
        end(h, by, n, Ok(answer));
    }

    #[test]
    fn an_increment_that_was_answered_and_is_lost_breaks_k5() {
        let mut h = together();
        add(&mut h, A, 1, 1);
        add(&mut h, B, 2, 2);
        assert_eq!(check(&h), []);
        add(&mut h, C, 3, 2);
        assert_eq!(names(&check(&h)), ["K5"]);
    }

    #[test]
    fn what_is_not_known_may_have_happened_and_what_was_refused_may_not() {
        for (why, fits) in [
            (CounterFailure::Unknown { asked: id(A) }, true),
            (CounterFailure::TimedOut { asked: Some(id(A)) }, true),
            (CounterFailure::TimedOut { asked: None }, false),
            (CounterFailure::NotPrimary, false),
        ] {
            let mut h = together();
            begin(&mut h, B, 1, CounterAction::AddAndGet(1));
            end(&mut h, B, 1, Err(why));
            add(&mut h, A, 2, 2);
            assert_eq!(check(&h).is_empty(), fits);
        }
    }

    #[test]
    fn a_use_that_ends_after_its_time_breaks_j1_unless_its_process_stood_still() {
        for frozen in [false, true] {
            let mut h = together();
            begin(&mut h, A, 1, CounterAction::Get);
            if frozen {
                push(&mut h, A, What::Frozen(true));
            }
            let late = now(&h) + Duration::from_secs(2);
            let end = What::Used(OpId(1), SendResult::Counted(Ok(0)));
            push_at(&mut h, late, Some(A), end);
            assert_eq!(names(&check(&h)), if frozen { vec![] } else { vec!["J1"] });
        }
    }

    #[test]
    fn a_member_of_the_primary_view_that_is_not_answered_at_rest_breaks_k5() {
        for trusts in [true, false] {
            let mut h = together();
            phase(&mut h, Phase::Converged);
            if trusts {
                let (view, lasts) = (ViewId { id: 3, creator: id(A) }, Duration::from_secs(9));
                push(&mut h, B, What::Trace(Trace::Primary { view, primacy: Primacy::Yes, lasts }));
            }
            begin(&mut h, B, 1, CounterAction::Get);
            end(&mut h, B, 1, Err(CounterFailure::TimedOut { asked: None }));
            assert_eq!(names(&check(&h)), if trusts { vec!["K5"] } else { vec![] });
        }
    }

    #[test]
    fn where_a_quorum_begins_anew_counters_do_too() {
        let mut h = trio();
        install(&mut h, A, 3, A, &[A]);
        let formed =
            |n, l| What::Trace(Trace::PrimaryFormed { view: ViewId { id: n, creator: id(l) } });
        push(&mut h, A, formed(3, A));
        add(&mut h, A, 1, 1);
        install(&mut h, B, 0, B, &[B, C]);
        push(&mut h, B, formed(0, B));
        add(&mut h, B, 2, 1);
        assert_eq!(check(&h), []);
    }
}
