//! Members whose address is wanted: each is asked for at most once per two seconds and a limited
//! number of times, all that are due in one request.

use crate::{Time, Uuid};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// Who is looked for.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    wanted: BTreeMap<Uuid, Wanted>,
}

#[derive(Debug)]
struct Wanted {
    due: Time,
    asked: u32,
}

impl Hunt {
    /// A member is asked for at most once in this time.
    pub(super) const EVERY: Duration = Duration::from_secs(2);
    /// Then it is given up, until somebody wants it again.
    pub(super) const TRIES: u32 = 5;
    /// At most so many members are looked for.
    pub(super) const MAX: usize = 1024;

    /// `m` is wanted, to be asked for at `due` unless it is looked for already.
    pub(super) fn want(&mut self, m: Uuid, due: Time) {
        if let Some(w) = self.wanted.get_mut(&m) {
            // Wanted anew: the tries start again, the pace stays.
            w.asked = w.asked.min(1);
        } else if self.wanted.len() < Self::MAX {
            self.wanted.insert(m, Wanted { due, asked: 0 });
        }
    }

    /// `m` was found.
    pub(super) fn found(&mut self, m: Uuid) {
        self.wanted.remove(&m);
    }

    /// Whom to ask for now, at most `limit`; they are due again later.
    pub(super) fn take_due(&mut self, now: Time, limit: usize) -> Vec<Uuid> {
        self.wanted.retain(|_, w| w.due > now || w.asked < Self::TRIES);
        let due = self.wanted.iter_mut().filter(|(_, w)| w.due <= now).take(limit);
        due.map(|(m, w)| {
            w.due = now + Self::EVERY;
            w.asked += 1;
            *m
        })
        .collect()
    }

    /// When [`Hunt::take_due`] has something to do.
    pub(super) fn next(&self) -> Option<Time> {
        self.wanted.values().map(|w| w.due).min()
    }

    /// Nobody is looked for any more.
    pub(super) fn clear(&mut self) {
        self.wanted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;

    #[test]
    fn a_member_is_asked_for_five_times_at_most_two_seconds_apart() {
        let mut h = Hunt::default();
        h.want(id(1), Time::ZERO);
        let mut asked = 0;
        for ms in (0..60_000).step_by(500) {
            h.want(id(2), Time::ZERO + Duration::from_secs(3600));
            asked += h.take_due(Time::ZERO + Duration::from_millis(ms), 10).len();
        }
        assert_eq!(asked, 5);
    }

    #[test]
    fn wanting_again_does_not_quicken_the_pace() {
        let mut h = Hunt::default();
        h.want(id(1), Time::ZERO);
        assert_eq!(h.take_due(Time::ZERO, 10), [id(1)]);
        h.want(id(1), Time::ZERO);
        assert_eq!(h.take_due(Time::ZERO + Duration::from_millis(1_999), 10), []);
        assert_eq!(h.take_due(Time::ZERO + Duration::from_secs(2), 10), [id(1)]);
    }

    #[test]
    fn more_than_fit_in_one_request_wait_for_the_next() {
        let mut h = Hunt::default();
        (0..3).for_each(|n| h.want(id(n), Time::ZERO));
        assert_eq!(h.take_due(Time::ZERO, 2).len(), 2);
        assert_eq!(h.next(), Some(Time::ZERO));
        assert_eq!(h.take_due(Time::ZERO, 2).len(), 1);
    }
}
