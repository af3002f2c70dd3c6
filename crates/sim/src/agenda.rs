//! What will happen when: a heap ordered by time, ties in the order in which things were planned.
//! And clocks that run too fast or too slow.

use rgroups_core::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Future happenings.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    order: u64,
    /// In a box, because entries move within the heap.
    what: Box<T>,
}

impl<T> Entry<T> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.order)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<T> Agenda<T> {
    /// Plans `what` for `at`.
    pub fn plan(&mut self, at: Time, what: T) {
        self.planned += 1;
        self.heap.push(Reverse(Entry { at, order: self.planned, what: Box::new(what) }));
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(e)| e.at)
    }

    /// Takes the next thing if it happens at `limit` or before.
    pub fn take_until(&mut self, limit: Time) -> Option<(Time, T)> {
        if self.next_at()? > limit {
            return None;
        }
        self.heap.pop().map(|Reverse(e)| (e.at, *e.what))
    }
}

/// A node's clock against the simulation's: it starts at another origin and gains (or loses) some
/// millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// What the clock shows at the beginning.
    pub origin: Duration,
    /// Millionths gained; negative: the clock is slow.
    pub ppm: i32,
}

impl Drift {
    /// What the node's clock shows at `now`.
    #[must_use]
    pub fn local(self, now: Time) -> Time {
        let gained = i128::from(now.0) * i128::from(self.ppm) / 1_000_000;
        let shown = i128::from(now.0) + gained + self.origin.as_nanos() as i128;
        Time(u64::try_from(shown).unwrap_or(0))
    }

    /// The first moment at which the node's clock shows at least `local`.
    #[must_use]
    pub fn global(self, local: Time) -> Time {
        let since_start = i128::from(local.0) - self.origin.as_nanos() as i128;
        let guess = since_start.max(0) * 1_000_000 / (1_000_000 + i128::from(self.ppm));
        let mut at = Time(u64::try_from(guess).unwrap_or(0).saturating_sub(2));
        // The division above rounds by less than two nanoseconds.
        while self.local(at) < local && at.0 < u64::MAX {
            at.0 += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_time_order_and_ties_in_planning_order() {
        let mut agenda = Agenda::default();
        agenda.plan(Time(5), "late");
        agenda.plan(Time(1), "first");
        agenda.plan(Time(1), "second");
        let order: Vec<_> = std::iter::from_fn(|| agenda.take_until(Time(9))).collect();
        assert_eq!(order, [(Time(1), "first"), (Time(1), "second"), (Time(5), "late")]);
    }

    #[test]
    fn nothing_beyond_the_limit_is_taken() {
        let mut agenda = Agenda::default();
        agenda.plan(Time(5), ());
        assert_eq!(agenda.take_until(Time(4)), None);
        assert_eq!(agenda.take_until(Time(5)), Some((Time(5), ())));
    }

    #[test]
    fn a_drifting_clock_reaches_a_local_time_at_the_global_time_it_says() {
        for ppm in [-200_000, -37, 0, 11, 300_000] {
            let drift = Drift { origin: Duration::from_secs(3), ppm };
            for local in [4_000_000_000, 4_000_000_001, 77_777_777_777] {
                let at = drift.global(Time(local));
                assert!(drift.local(at) >= Time(local));
                assert!(at == Time::ZERO || drift.local(Time(at.0 - 1)) < Time(local));
            }
        }
    }
}
