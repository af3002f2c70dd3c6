//! Which requests of a caller have come: each is carried out at most once.
//!
//! A caller numbers its calls upwards, but they come in any order (unicasts, multicasts and
//! out-of-band messages overtake each other), and the numbers of calls to others are missing. So the
//! last few thousand numbers are kept, and what is older than all of them counts as seen: a request
//! that late is not carried out, and its caller learns of it by its deadline.

use crate::{Uuid, View};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Numbers that are kept of one caller.
const WINDOW: usize = 8_192;
/// Former callers of which the last number is kept, in case a merge brings them back: those that left
/// last.
const FORMER: usize = 256;

/// The numbers of all callers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    callers: BTreeMap<Uuid, Numbers>,
    former: BTreeMap<Uuid, i64>,
    /// The same members, in the order in which they left.
    left: VecDeque<Uuid>,
}

/// The numbers of one caller.
#[derive(Debug, Default)]
struct Numbers {
    /// All up to here count as seen.
    floor: i64,
    above: BTreeSet<i64>,
}

impl Numbers {
    fn first_time(&mut self, number: i64) -> bool {
        if number <= self.floor || !self.above.insert(number) {
            return false;
        }
        if self.above.len() > WINDOW
            && let Some(oldest) = self.above.pop_first()
        {
            self.floor = oldest;
        }
        true
    }
}

impl Seen {
    /// Notes request `number` of `caller`; whether it was not there before.
    pub(crate) fn first_time(&mut self, caller: Uuid, number: i64) -> bool {
        let Self { callers, former, left } = self;
        let numbers = callers.entry(caller).or_insert_with(|| {
            let floor = former.remove(&caller);
            if floor.is_some() {
                left.retain(|m| *m != caller);
            }
            Numbers { floor: floor.unwrap_or(0), above: BTreeSet::new() }
        });
        numbers.first_time(number)
    }

    /// Of callers that left only the highest number stays.
    pub(crate) fn install(&mut self, view: &View) {
        let left = |m: &&Uuid| !view.contains(**m);
        let left: Vec<Uuid> = self.callers.keys().filter(left).copied().collect();
        for caller in left {
            let Some(numbers) = self.callers.remove(&caller) else { continue };
            let highest = numbers.above.last().copied().unwrap_or(0).max(numbers.floor);
            self.former.insert(caller, highest);
            self.left.push_back(caller);
        }
        while self.left.len() > FORMER {
            if let Some(first) = self.left.pop_front() {
                self.former.remove(&first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;

    #[test]
    fn a_number_is_new_once_in_any_order() {
        let mut seen = Seen::default();
        for n in [5, 2, 9, 3] {
            assert!(seen.first_time(id(1), n));
        }
        for n in [2, 3, 5, 9] {
            assert!(!seen.first_time(id(1), n));
        }
        assert!(seen.first_time(id(2), 5), "every caller counts for itself");
    }

    #[test]
    fn what_is_older_than_all_that_is_kept_counts_as_seen() {
        let mut seen = Seen::default();
        for n in 0..WINDOW as i64 {
            assert!(seen.first_time(id(1), 2 * n + 10));
        }
        assert!(seen.first_time(id(1), 9), "at the limit it passes");
        assert!(!seen.first_time(id(1), 8), "the window is full now");
    }

    #[test]
    fn a_caller_that_comes_back_is_not_served_twice() {
        let mut seen = Seen::default();
        assert!(seen.first_time(id(1), 7));
        seen.install(&View::new(1, id(2), [id(2)]));
        assert!(!seen.first_time(id(1), 7));
        assert!(seen.first_time(id(1), 8));
    }

    #[test]
    fn former_callers_are_forgotten_beyond_a_limit() {
        let mut seen = Seen::default();
        for caller in 0..2 * FORMER as u64 {
            assert!(seen.first_time(id(caller + 10), 1));
        }
        seen.install(&View::new(1, id(2), [id(2)]));
        assert_eq!((seen.callers.len(), seen.former.len()), (0, FORMER));
    }

    #[test]
    fn who_left_first_is_forgotten_first() {
        let mut seen = Seen::default();
        let alone = View::new(1, id(1), [id(1)]);
        // The member that leaves last has the lowest identity; the one that left first is back and
        // gone once more in between.
        let rest: Vec<u64> = (100..100 + FORMER as u64 - 1).collect();
        for caller in [900, 901].into_iter().chain(rest).chain([900, 2]) {
            assert!(seen.first_time(id(caller), i64::try_from(seen.left.len()).unwrap() + 1));
            seen.install(&alone);
        }
        assert!(!seen.first_time(id(2), 1), "the last one is remembered");
        assert!(!seen.first_time(id(900), 1), "it counts from when it left last");
        assert!(seen.first_time(id(901), 1), "one beyond the limit is forgotten");
    }
}
