//! When which fault was on. What is promised within some time is promised for times without faults,
//! and again so long after each fault that comes in between.

use super::Violation;
use crate::connections::Life;
use crate::history::{History, What};
use rgroups_core::{Duration, Time};

/// A fault from its beginning to its end; what happens at one moment ends as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// Whose; `None`: of the network.
    pub(crate) of: Option<Life>,
    pub(crate) kind: Kind,
}

/// Kinds of [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The process was killed.
    Death,
    /// It was frozen.
    Frozen,
    /// Its turns came late.
    Slow,
    /// Its connections were reset.
    Reset,
    /// Some nodes did not reach others.
    Split,
}

/// All faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    spans: Vec<Span>,
}

impl Faults {
    /// Reads them from a history. What has not ended lasts until its end.
    pub(crate) fn of(h: &History) -> Self {
        let mut faults = Self::default();
        for f in &h.facts {
            let (kind, begins) = match &f.what {
                What::Died { .. } => (Kind::Death, true),
                What::Frozen(on) => (Kind::Frozen, *on),
                What::Slowed(by) => (Kind::Slow, !by.is_zero()),
                What::Split(cut) => (Kind::Split, !cut.is_empty()),
                What::Network(_) if f.life.is_some() => (Kind::Reset, true),
                _ => continue,
            };
            match kind {
                // Whoever dies is neither frozen nor slow any more.
                Kind::Death => {
                    faults.end(f.life, Kind::Frozen, f.at);
                    faults.end(f.life, Kind::Slow, f.at);
                    faults.moment(f.at, f.life, kind);
                }
                Kind::Reset => faults.moment(f.at, f.life, kind),
                Kind::Frozen | Kind::Slow | Kind::Split => {
                    // A split that changes is another fault.
                    faults.end(f.life, kind, f.at);
                    if begins {
                        let span = Span { from: f.at, to: Time(u64::MAX), of: f.life, kind };
                        faults.spans.push(span);
                    }
                }
            }
        }
        faults
    }

    fn moment(&mut self, at: Time, of: Option<Life>, kind: Kind) {
        self.spans.push(Span { from: at, to: at, of, kind });
    }

    fn end(&mut self, of: Option<Life>, kind: Kind, at: Time) {
        let open = |s: &&mut Span| s.of == of && s.kind == kind && s.to == Time(u64::MAX);
        if let Some(span) = self.spans.iter_mut().find(open) {
            span.to = at;
        }
    }

    /// All of them, in the order in which they began.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether no fault begins, ends or goes on in this time.
    pub(crate) fn none_in(&self, from: Time, to: Time) -> bool {
        self.spans.iter().all(|s| s.to < from || s.from > to)
    }

    /// When something that takes `allowed` without faults is over that began at `from`: each fault
    /// that comes in between (but for those of `except`) makes it begin anew.
    pub(crate) fn deadline(&self, from: Time, except: Option<Life>, allowed: Duration) -> Time {
        let mut deadline = from + allowed;
        // Spans are in order, but an earlier one may end after a later one: until nothing changes.
        loop {
            let disturbing = self
                .spans
                .iter()
                .filter(|s| except.is_none() || s.of != except)
                .filter(|s| s.from <= deadline && s.to >= from);
            let later = disturbing.map(|s| s.to + allowed).max().unwrap_or(deadline);
            if later <= deadline {
                return deadline;
            }
            deadline = later;
        }
    }

    /// Until when the process must be done with what it began at `began` for so long. Its clock may be
    /// wrong and its turns late, and while it is frozen it cannot notice that its time is over.
    pub(crate) fn limit(&self, h: &History, of: Life, began: Time, within: Duration) -> Time {
        let turn = imprecision(within) + slowest(h, of) * 2;
        let mut limit = began + within + turn;
        for s in self.spans.iter().filter(|s| s.kind == Kind::Frozen && s.of == Some(of)) {
            if s.from <= limit && s.to >= began {
                limit = limit.max(if s.to == Time(u64::MAX) { s.to } else { s.to + turn });
            }
        }
        limit
    }
}

/// By how much clocks of nodes are wrong at most, and the time of a turn.
pub(crate) fn imprecision(of: Duration) -> Duration {
    of / 40 + Duration::from_millis(10)
}

/// How long turns took at most on the host of `life`: a process that starts on a slow one is slow.
pub(crate) fn slowest(h: &History, life: Life) -> Duration {
    let host = |l: Life| h.lives[l.0].host;
    let slowed = h.facts.iter().filter_map(|f| match f.what {
        // Without a life: a host on which nothing ran at that moment.
        What::Slowed(by) if f.life.is_none_or(|l| host(l) == host(life)) => Some(by),
        _ => None,
    });
    slowed.max().unwrap_or_default()
}

/// The position of the first fact after this moment.
pub(crate) fn position_after(h: &History, at: Time) -> usize {
    h.facts.partition_point(|f| f.at <= at)
}

/// Whether the run went on beyond this moment.
pub(crate) fn is_within(h: &History, at: Time) -> bool {
    h.facts.last().is_some_and(|f| f.at >= at)
}

/// A violation by one member.
pub(crate) fn by(h: &History, invariant: &'static str, who: Life, text: &str) -> Violation {
    Violation::new(invariant, format!("{} {text}", h.name(who)))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::network::Host;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn a_time_is_without_faults_only_if_none_reaches_into_it() {
        let mut h = trio();
        push_at(&mut h, at(10), Some(A), What::Frozen(true));
        push_at(&mut h, at(12), Some(A), What::Frozen(false));
        let faults = Faults::of(&h);
        assert!(faults.none_in(at(0), at(9)) && faults.none_in(at(13), at(20)));
        assert!(!faults.none_in(at(11), at(11)) && !faults.none_in(at(5), at(15)));
    }

    #[test]
    fn a_deadline_moves_with_every_fault_before_it_and_not_with_later_ones() {
        let mut h = trio();
        push_at(&mut h, at(10), Some(A), What::Died { power_off: false });
        push_at(&mut h, at(11), None, What::Split([(Host(0), Host(1))].into()));
        push_at(&mut h, at(15), None, What::Split([].into()));
        push_at(&mut h, at(60), Some(B), What::Died { power_off: false });
        let faults = Faults::of(&h);
        assert_eq!(faults.deadline(at(10), Some(A), SECOND * 4), at(19));
        assert_eq!(faults.deadline(at(20), None, SECOND * 4), at(24));
    }
}
