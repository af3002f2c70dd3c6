//! K1 to K4: locks, where the stack has PRIMARY, whose views form one chain. Where a quorum of processes
//! begins a new chain, what comes after is not judged.
//!
//! A member has a lock from when it is told so until it gives it back, is told that it has lost it, or
//! ends. A process that stood still or was slow meanwhile has it until it can no longer trust the last
//! primary view that it knew: from then on only it does not know.

use super::faults::{Faults, Kind, Span, slowest};
use super::objects::{Patience, must_succeed};
use super::{Violation, primary};
use crate::connections::Life;
use crate::history::{Asked, History, ObjectCall, What};
use crate::linear::models::{Lock, LockOp};
use crate::linear::{self, Call, Verdict};
use rgroups_core::protocols::lock::LockFailure;
use rgroups_core::{Primacy, SendResult, Time, Trace};
use std::collections::BTreeMap;

const FOREVER: Time = Time(u64::MAX);

/// A call for a lock.
struct Wait<'a> {
    by: Life,
    call: &'a ObjectCall,
    begun: Time,
    ended: Option<(Time, &'a Result<u64, LockFailure>)>,
    /// Until when it was had, if it was.
    had_until: Time,
    /// When its view could no longer be trusted, if that came first.
    trusted_until: Time,
}

/// Checks K1 to K4.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let waits = waits(h);
    let mut found = late(h, &waits);
    let end = primary::began_anew(h).unwrap_or(FOREVER);
    let mut holds: BTreeMap<&str, Vec<(Time, u64, &Wait<'_>)>> = BTreeMap::new();
    for w in &waits {
        if let Some((at, Ok(token))) = w.ended
            && at < end
        {
            holds.entry(&w.call.object).or_default().push((at, *token, w));
        }
    }
    for (lock, holds) in &mut holds {
        holds.sort_by_key(|(at, token, _)| (*at, *token));
        found.extend(overlaps(h, lock, holds));
        found.extend(tokens(h, lock, holds));
    }
    if end == FOREVER {
        found.extend(never_had(h, &waits));
    }
    found
}

fn waits(h: &History) -> Vec<Wait<'_>> {
    let mut waits: Vec<Wait<'_>> = Vec::new();
    let mut places = BTreeMap::new();
    let mut trusted: BTreeMap<Life, Time> = BTreeMap::new();
    for f in &h.facts {
        let Some(by) = f.life else { continue };
        let open = |w: &&mut Wait<'_>| w.by == by && w.had_until == FOREVER;
        // Looked at before anything that happens now: what it could trust until then.
        if let Some(until) = trusted.get(&by).filter(|t| **t <= f.at) {
            let open = waits.iter_mut().filter(open);
            open.for_each(|w| w.trusted_until = w.trusted_until.min(*until));
        }
        match &f.what {
            What::Uses(call) if matches!(call.asked, Asked::Lock { .. }) => {
                places.insert(call.op, waits.len());
                let (had_until, trusted_until) = (Time::ZERO, FOREVER);
                waits.push(Wait { by, call, begun: f.at, ended: None, had_until, trusted_until });
            }
            What::Used(op, SendResult::Locked(how)) => {
                if let Some(i) = places.get(op) {
                    waits[*i].ended = Some((f.at, how));
                    waits[*i].had_until = if how.is_ok() { FOREVER } else { Time::ZERO };
                }
            }
            What::GivesBack(op) | What::LockLost(op, _) => {
                if let Some(i) = places.get(op) {
                    waits[*i].had_until = waits[*i].had_until.min(f.at);
                }
            }
            What::Died { .. } | What::Left { .. } => {
                waits.iter_mut().filter(open).for_each(|w| w.had_until = f.at);
            }
            What::Trace(Trace::Primary { primacy: Primacy::Yes, lasts, .. }) => {
                let until = trusted.entry(by).or_default();
                *until = (*until).max(f.at + *lasts);
            }
            What::Trace(Trace::Primary { primacy: Primacy::No, .. }) => {
                trusted.insert(by, f.at);
            }
            _ => {}
        }
    }
    let faults = Faults::of(h);
    for w in &mut waits {
        // Of who says nothing any more.
        let last = trusted.get(&w.by).copied().unwrap_or(FOREVER);
        if w.had_until > last && w.ended.is_some() {
            w.trusted_until = w.trusted_until.min(last);
        }
        let late = |s: &Span| s.from <= w.had_until && s.to >= w.trusted_until;
        let stopped = faults
            .spans()
            .iter()
            .any(|s| s.of == Some(w.by) && matches!(s.kind, Kind::Frozen | Kind::Slow) && late(s));
        if stopped || !slowest(h, w.by).is_zero() {
            w.had_until = w.had_until.min(w.trusted_until);
        }
    }
    waits
}

/// K1: holds of one lock do not overlap; and they are a history of one lock.
fn overlaps(h: &History, lock: &str, holds: &[(Time, u64, &Wait<'_>)]) -> Option<Violation> {
    let overlap = holds.windows(2).find(|p| p[1].0 < p[0].2.had_until);
    if let Some([(_, _, a), (at, _, b)]) = overlap {
        let text = format!(
            "{} has {lock} from {at} on, and {} until {}",
            h.name(b.by),
            h.name(a.by),
            a.had_until
        );
        return Some(Violation::new("K1", text));
    }
    let calls: Vec<Call<LockOp, ()>> = holds
        .iter()
        .flat_map(|(at, _, w)| {
            let who = w.call.op.0;
            let got = Call { op: LockOp::Acquire(who), begun: w.begun.0, ended: Some((at.0, ())) };
            let back = Call { op: LockOp::Release(who), begun: w.had_until.0, ended: None };
            [got, back]
        })
        .collect();
    match linear::check(&Lock, &calls) {
        Verdict::Linearizable | Verdict::Undecided { .. } => None,
        Verdict::Not { stuck } => Some(Violation::new("K1", format!("{lock}: {stuck}"))),
    }
}

/// K2: each grant has a higher token than those before it.
fn tokens(h: &History, lock: &str, holds: &[(Time, u64, &Wait<'_>)]) -> Option<Violation> {
    let pair = holds.windows(2).find(|p| p[1].1 <= p[0].1)?;
    let [(_, before, a), (_, next, b)] = pair else { return None };
    let (a, b) = (h.name(a.by), h.name(b.by));
    let text = format!("{b} has {lock} with token {next:#x}, after {a} with {before:#x}");
    Some(Violation::new("K2", text))
}

/// K4: no wait lasts longer than its time, unless its process does not run. An attempt that is not to
/// wait may take ten seconds to ask.
fn late(h: &History, waits: &[Wait<'_>]) -> Vec<Violation> {
    const ASKING: rgroups_core::Duration = rgroups_core::Duration::from_secs(10);
    let patience = Patience::of(h);
    let within = |w: &Wait<'_>| if w.call.within.is_zero() { ASKING } else { w.call.within };
    let late = waits
        .iter()
        .filter(|w| patience.is_over(w.by, w.begun, w.ended.map(|(at, _)| at), within(w)));
    late.map(|w| {
        let (who, within) = (h.name(w.by), within(w));
        let text = format!("{who} waits for {} for longer than {within:?}", w.call.object);
        Violation::new("K4", text)
    })
    .collect()
}

/// K3: when all is well again, a member of the primary view gets what it waits for.
fn never_had(h: &History, waits: &[Wait<'_>]) -> Vec<Violation> {
    let must_succeed = must_succeed(h);
    let refused = waits.iter().filter_map(|w| match w.ended {
        Some((at, Err(why))) if must_succeed(w.by, w.begun, at) => Some((w, why)),
        Some(_) | None => None,
    });
    refused
        .map(|(w, why)| {
            let text = format!("{} could not have {}: {why:?}", h.name(w.by), w.call.object);
            Violation::new("K3", text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::Phase;
    use rgroups_core::protocols::lock::LockLoss;
    use rgroups_core::{Duration, OpId, ViewId};

    fn begin(h: &mut History, by: Life, n: u64) {
        let asked = Asked::Lock { hold: Duration::from_secs(1) };
        let within = Duration::from_secs(1);
        push(h, by, What::Uses(ObjectCall { op: OpId(n), object: "l".into(), asked, within }));
    }

    fn end(h: &mut History, by: Life, n: u64, how: Result<u64, LockFailure>) {
        push(h, by, What::Used(OpId(n), SendResult::Locked(how)));
    }

    fn trusts(h: &mut History, by: Life, lasts: u64) {
        let (view, lasts) = (ViewId { id: 3, creator: id(A) }, Duration::from_millis(lasts));
        push(h, by, What::Trace(Trace::Primary { view, primacy: Primacy::Yes, lasts }));
    }

    fn had(h: &mut History, by: Life, n: u64, token: u64) {
        begin(h, by, n);
        end(h, by, n, Ok(token));
    }

    #[test]
    fn a_lock_that_two_have_at_a_time_breaks_k1() {
        let mut h = together();
        had(&mut h, A, 1, 1);
        had(&mut h, B, 2, 2);
        assert_eq!(names(&check(&h)), ["K1"]);
    }

    #[test]
    fn who_gave_it_back_or_lost_it_or_died_or_can_trust_nothing_does_not_have_it() {
        let ends: [fn(&mut History); 4] = [
            |h| push(h, A, What::GivesBack(OpId(1))),
            |h| push(h, A, What::LockLost(OpId(1), LockLoss::NotPrimary)),
            |h| push(h, A, What::Died { power_off: false }),
            |h| {
                push(h, A, What::Frozen(true));
                (0..9).for_each(|_| push(h, B, What::Livelock));
            },
        ];
        for end in ends {
            let mut h = together();
            trusts(&mut h, A, 8);
            had(&mut h, A, 1, 1);
            end(&mut h);
            had(&mut h, B, 2, 2);
            assert_eq!(check(&h), []);
        }
    }

    #[test]
    fn who_runs_and_is_not_told_that_its_lease_is_over_breaks_k1() {
        let mut h = together();
        trusts(&mut h, A, 8);
        had(&mut h, A, 1, 1);
        (0..9).for_each(|_| push(&mut h, B, What::Livelock));
        had(&mut h, B, 2, 2);
        assert_eq!(names(&check(&h)), ["K1"]);
    }

    #[test]
    fn a_token_that_does_not_grow_breaks_k2() {
        let mut h = together();
        had(&mut h, A, 1, 7);
        push(&mut h, A, What::GivesBack(OpId(1)));
        had(&mut h, B, 2, 7);
        assert_eq!(names(&check(&h)), ["K2"]);
    }

    #[test]
    fn a_lock_that_nobody_gets_at_rest_breaks_k3() {
        for knows in [true, false] {
            let mut h = together();
            phase(&mut h, Phase::Converged);
            if knows {
                trusts(&mut h, B, 9_000);
            }
            begin(&mut h, B, 1);
            end(&mut h, B, 1, Err(LockFailure::TimedOut));
            assert_eq!(names(&check(&h)), if knows { vec!["K3"] } else { vec![] });
        }
    }

    #[test]
    fn a_wait_that_outlives_its_time_breaks_k4() {
        let mut h = together();
        begin(&mut h, A, 1);
        let late = now(&h) + Duration::from_secs(2);
        let end = What::Used(OpId(1), SendResult::Locked(Err(LockFailure::TimedOut)));
        push_at(&mut h, late, Some(A), end);
        assert_eq!(names(&check(&h)), ["K4"]);
    }
}
