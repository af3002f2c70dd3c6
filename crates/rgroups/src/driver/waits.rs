//! Waits for credit, told at most once a minute for each set of members that are waited for.

use crate::Address;
use rgroups_core::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long those like the last one told are only counted.
const PERIOD: Duration = Duration::from_secs(60);
/// So many sets are told apart; beyond, each wait is told.
const MAX: usize = 64;

/// What was told, by who was waited for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    told: BTreeMap<Vec<Address>, Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Time,
    /// Waits like it since then.
    untold: u64,
}

impl Waits {
    /// A send waits for `by`. `Some` if that is to be told now: how many like it were not, and since
    /// how long.
    pub(super) fn note(&mut self, now: Time, by: &[Address]) -> Option<(u64, Duration)> {
        let mut by = by.to_vec();
        by.sort_unstable();
        if let Some(told) = self.told.get_mut(&by) {
            let since = now.since(told.at);
            if since < PERIOD {
                told.untold += 1;
                return None;
            }
            let untold = told.untold;
            *told = Told { at: now, untold: 0 };
            return Some((untold, since));
        }
        self.told.retain(|_, t| now.since(t.at) < PERIOD || t.untold > 0);
        if self.told.len() < MAX {
            self.told.insert(by, Told { at: now, untold: 0 });
        }
        Some((0, Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgroups_core::Uuid;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn waits_for_the_same_members_are_told_once_a_minute() {
        let mut w = Waits::default();
        let (b, c) = (Address(Uuid::new(1, 2)), Address(Uuid::new(1, 3)));
        assert_eq!(w.note(at(0), &[b, c]), Some((0, Duration::ZERO)));
        assert_eq!(w.note(at(5), &[c, b]), None);
        assert_eq!(w.note(at(10), &[b]), Some((0, Duration::ZERO)), "others are waited for");
        assert_eq!(w.note(at(59), &[b, c]), None);
        assert_eq!(w.note(at(65), &[b, c]), Some((2, Duration::from_secs(65))));
        assert_eq!(w.note(at(70), &[b, c]), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut w = Waits::default();
        for n in 0..1_000 {
            assert!(w.note(at(0), &[Address(Uuid::new(n, 1))]).is_some());
        }
        assert_eq!(w.told.len(), MAX);
    }
}
