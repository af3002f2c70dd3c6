//! A12, and of A14 what a history shows: nobody who is alive is suspected. In a calm run that holds for
//! everybody and always; in all others for whoever had the time to answer: a suspicion is passed on
//! after verification only, and an answer withdraws it.

use super::bounds::Bounds;
use super::faults::{Faults, Kind, Span};
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, What};
use rgroups_core::{Time, Trace, Uuid};

/// A suspicion that was passed to the membership.
struct Suspicion {
    by: Life,
    of: Uuid,
    at: Time,
    /// Its place in the history.
    position: usize,
}

/// Checks A12.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let faults = Faults::of(h);
    let unlucky = c.loss > 0.0;
    let wrong = suspicions(h).filter(|s| match (c.calm, &c.bounds) {
        (true, _) => !ever_died(h, s.of),
        (false, Some(bounds)) if !unlucky => could_answer(h, s, &faults, bounds),
        (false, _) => false,
    });
    wrong
        .map(|s| {
            let (by, of) = (h.name(s.by), h.name_of(s.of));
            let text = format!("{by} suspects {of} at {}, who is alive", s.at);
            Violation::new("A12", text)
        })
        .collect()
}

fn suspicions(h: &History) -> impl Iterator<Item = Suspicion> {
    h.facts.iter().enumerate().filter_map(|(position, f)| match (&f.what, f.life) {
        (What::Trace(Trace::Suspected { member, .. }), Some(by)) => {
            Some(Suspicion { by, of: *member, at: f.at, position })
        }
        _ => None,
    })
}

fn ever_died(h: &History, member: Uuid) -> bool {
    h.life_of(member)
        .is_some_and(|l| h.facts_of(l).any(|(_, f)| matches!(f.what, What::Died { .. })))
}

/// Whether the suspect was there, and nothing was in its way, while it was asked. It is asked several
/// times, and each of them would do: the first tenth of the time may be missing.
fn could_answer(h: &History, s: &Suspicion, faults: &Faults, bounds: &Bounds) -> bool {
    let Some(suspect) = h.life_of(s.of) else { return false };
    if h.departure_of(suspect).is_some_and(|i| i < s.position) {
        return false;
    }
    let asked = bounds.verification - bounds.verification / 10;
    let from = Time(s.at.0.saturating_sub(asked.as_nanos() as u64));
    let of_them = |f: &Span| f.of == Some(suspect) || f.of == Some(s.by);
    let hinders = |f: &Span| match f.kind {
        Kind::Split => f.to + bounds.reconnection >= from,
        Kind::Reset => of_them(f) && f.to + bounds.reconnection >= from,
        Kind::Frozen | Kind::Slow => of_them(f) && f.to >= from,
        Kind::Death => false,
    };
    !faults.spans().iter().any(|f| f.from <= s.at && hinders(f))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::History;
    use crate::network::Host;

    const SECOND: u64 = 1_000_000_000;

    fn found(h: &History, calm: bool) -> Vec<&'static str> {
        names(&check(h, &Conditions { calm, ..conditions() }))
    }

    fn suspected() -> Trace {
        let why = rgroups_core::Evidence::NobodyListens;
        Trace::Suspected { member: id(B), by: id(A), why }
    }

    fn suspect(h: &mut History, at: u64) {
        let what = What::Trace(suspected());
        push_at(h, Time(at), Some(A), what);
    }

    #[test]
    fn a_suspected_live_member_breaks_a12() {
        let mut h = together();
        push(&mut h, A, What::Trace(suspected()));
        assert_eq!(found(&h, true), ["A12"]);
    }

    #[test]
    fn a_member_that_could_answer_and_is_suspected_breaks_a12() {
        let mut h = together();
        push_at(&mut h, Time(10 * SECOND), Some(B), What::Frozen(true));
        push_at(&mut h, Time(20 * SECOND), Some(B), What::Frozen(false));
        suspect(&mut h, 22 * SECOND);
        assert_eq!(found(&h, false), ["A12"]);
    }

    #[test]
    fn whoever_is_dead_or_frozen_or_out_of_reach_may_be_suspected() {
        for fault in [
            (Some(B), What::Died { power_off: true }),
            (Some(B), What::Frozen(true)),
            (None, What::Split([(Host(0), Host(1))].into())),
        ] {
            let mut h = together();
            push_at(&mut h, Time(10 * SECOND), fault.0, fault.1);
            suspect(&mut h, 20 * SECOND);
            assert!(found(&h, false).is_empty());
        }
    }
}
