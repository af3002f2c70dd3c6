//! How long the oldest multicast of each sender has not been stable. What is known exactly is when
//! the first one after a stability, or after our own last report, came; so an age is never too low,
//! and too high by at most the time between two reports.

use crate::event::Unstable;
use crate::{ReferenceDigest, Time, Uuid, View};
use alloc::collections::BTreeMap;

/// Per sender, what is not stable.
#[derive(Debug, Default)]
pub(super) struct Ages(BTreeMap<Uuid, Age>);

#[derive(Debug)]
struct Age {
    oldest: i64,
    since: Time,
    highest: i64,
    /// The first that came after our last report, and when; `None` until one came.
    newer: Option<(i64, Time)>,
    reported: bool,
}

impl Ages {
    /// Multicasts of `sender` with these numbers came in.
    pub(super) fn seen(&mut self, sender: Uuid, lowest: i64, highest: i64, now: Time) {
        let fresh = || Age { oldest: lowest, since: now, highest, newer: None, reported: false };
        let age = self.0.entry(sender).or_insert_with(fresh);
        age.highest = age.highest.max(highest);
        age.oldest = age.oldest.min(lowest);
        if age.reported && age.newer.is_none() {
            age.newer = Some((lowest, now));
        }
    }

    /// We have reported what came so far.
    pub(super) fn reported(&mut self) {
        for age in self.0.values_mut() {
            age.reported = true;
        }
    }

    /// So much is stable.
    pub(super) fn stable(&mut self, view: &View, digest: &ReferenceDigest) {
        for (m, pair) in view.members.iter().zip(digest.pairs()) {
            let upto = pair.delivered;
            if self.0.get(m).is_some_and(|age| age.highest <= upto) {
                self.0.remove(m);
            }
            let Some(age) = self.0.get_mut(m).filter(|age| age.oldest <= upto) else { continue };
            age.oldest = upto.saturating_add(1);
            if let Some((_, since)) = age.newer.take_if(|(first, _)| *first <= upto + 1) {
                age.since = since;
                age.reported = false;
            }
        }
    }

    /// Only these are members now.
    pub(super) fn keep(&mut self, view: &View) {
        self.0.retain(|m, _| view.contains(*m));
    }

    /// The one that waits longest.
    pub(super) fn oldest(&self) -> Option<Unstable> {
        let of =
            |(m, age): (&Uuid, &Age)| Unstable { sender: *m, oldest: age.oldest, since: age.since };
        self.0.iter().map(of).min_by_key(|u| u.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{id, view};
    use crate::wire::SeqnoPair;
    use core::time::Duration;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn stable_up_to(ages: &mut Ages, delivered: i64) {
        let v = view(1, &[1]);
        let pairs = [SeqnoPair { delivered, received: delivered }];
        let digest = ReferenceDigest::from_pairs(&v, pairs.to_vec()).expect("one member");
        ages.stable(&v, &digest);
    }

    #[test]
    fn what_is_all_stable_has_no_age() {
        let mut ages = Ages::default();
        ages.seen(id(1), 1, 3, at(1));
        stable_up_to(&mut ages, 3);
        assert_eq!(ages.oldest(), None);
    }

    #[test]
    fn what_stays_is_as_old_as_the_first_that_came() {
        let mut ages = Ages::default();
        ages.seen(id(1), 1, 3, at(1));
        ages.seen(id(1), 4, 5, at(9));
        stable_up_to(&mut ages, 2);
        assert_eq!(ages.oldest(), Some(Unstable { sender: id(1), oldest: 3, since: at(1) }));
    }

    #[test]
    fn what_came_after_the_report_is_younger() {
        let mut ages = Ages::default();
        ages.seen(id(1), 1, 3, at(1));
        ages.reported();
        ages.seen(id(1), 4, 5, at(9));
        stable_up_to(&mut ages, 3);
        assert_eq!(ages.oldest(), Some(Unstable { sender: id(1), oldest: 4, since: at(9) }));
    }
}
