//! The missing numbers of a window, as ascending ranges with the time each was noticed. A message
//! that arrives ahead opens at most one range, so the list costs no more than what was received.
//!
//! A range is asked for early once, after a short delay, and from then on once per round when it was
//! already missing a round ago. Ranges that close unasked are reordering, not loss: the early delay
//! grows to three times the longest of those seen lately (JGroups, which has no early request, waits for
//! one or two whole rounds: JGRP-1539).

use crate::wire::SeqnoList;
use crate::{Duration, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A range of missing numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: i64,
    pub(crate) to: i64,
    since: Time,
    asked: bool,
}

/// How one request message may look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// Numbers that one list may span.
    pub(crate) bits: u32,
    /// Lists per call.
    pub(crate) lists: usize,
}

/// All missing numbers of one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    list: VecDeque<Gap>,
    reordering: Duration,
    /// Somebody waits for what is missing.
    hurried: bool,
}

/// How long a gap must last before it is asked for where somebody waits: messages that overtake each
/// other in a local network are closer together than that.
const HURRY: Duration = Duration::from_millis(1);

impl Gaps {
    /// Notices that `from..=to` is missing. Above all that was noticed before.
    pub(super) fn open(&mut self, from: i64, to: i64, now: Time) {
        debug_assert!(self.list.back().is_none_or(|g| from.wrapping_sub(g.to) > 0));
        self.list.push_back(Gap { from, to, since: now, asked: false });
    }

    /// `seqno` arrived. True if it was missing and had been asked for.
    pub(super) fn fill(&mut self, seqno: i64, now: Time) -> bool {
        let at = self.list.partition_point(|g| g.to.wrapping_sub(seqno) < 0);
        let Some(gap) = self.list.get_mut(at) else { return false };
        if seqno.wrapping_sub(gap.from) < 0 {
            return false;
        }
        let Gap { from, to, since, asked } = *gap;
        match (from == seqno, to == seqno) {
            (true, true) => {
                self.list.remove(at);
            }
            (true, false) => gap.from = seqno.wrapping_add(1),
            (false, true) => gap.to = seqno.wrapping_sub(1),
            (false, false) => {
                gap.to = seqno.wrapping_sub(1);
                let rest = Gap { from: seqno.wrapping_add(1), to, since, asked };
                self.list.insert(at + 1, rest);
            }
        }
        if !asked {
            self.reordering = self.reordering.max(now.since(since) * 3);
        }
        self.hurried &= !self.list.is_empty();
        asked
    }

    /// A message came that its sender waits for: what is missing in front of it is asked for sooner.
    pub(super) fn hurry(&mut self) {
        self.hurried = !self.list.is_empty();
    }

    /// The highest missing number.
    pub(super) fn highest(&self) -> Option<i64> {
        self.list.back().map(|g| g.to)
    }

    /// Whether nothing is missing.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many numbers are missing.
    pub(crate) fn count(&self) -> u64 {
        self.list.iter().map(|g| g.to.wrapping_sub(g.from) as u64 + 1).sum()
    }

    /// How long a gap must last before it is asked for early.
    fn patience(&self, delay: Duration) -> Duration {
        let delay = if self.hurried { delay.min(HURRY) } else { delay };
        delay.max(self.reordering)
    }

    /// When the next early request is due.
    pub(crate) fn next_early(&self, delay: Duration) -> Option<Time> {
        let first = self.list.iter().find(|g| !g.asked)?;
        Some(first.since + self.patience(delay))
    }

    /// What is to be asked for early now: each gap once.
    pub(crate) fn early(
        &mut self,
        now: Time,
        delay: Duration,
        limits: RequestLimits,
    ) -> Vec<SeqnoList> {
        let patience = self.patience(delay);
        let lists = self.collect(limits, |g| !g.asked && g.since + patience <= now);
        self.hurried &= self.list.iter().any(|g| !g.asked);
        lists
    }

    /// What was already missing a round ago.
    pub(crate) fn round(
        &mut self,
        now: Time,
        interval: Duration,
        limits: RequestLimits,
    ) -> Vec<SeqnoList> {
        self.reordering = self.reordering * 7 / 8;
        self.collect(limits, |g| g.since + interval <= now)
    }

    fn collect(&mut self, limits: RequestLimits, due: impl Fn(&Gap) -> bool) -> Vec<SeqnoList> {
        let gaps = self.list.iter_mut().filter(|g| due(g)).map(|g| {
            g.asked = true;
            (g.from, g.to)
        });
        lists_of(gaps, limits)
    }
}

/// Lists of the numbers in these ascending ranges. Takes no more ranges than fit.
pub(super) fn lists_of(
    ranges: impl Iterator<Item = (i64, i64)>,
    limits: RequestLimits,
) -> Vec<SeqnoList> {
    let mut lists: Vec<SeqnoList> = Vec::new();
    let mut open: Vec<(i64, i64)> = Vec::new();
    let bits = i64::from(limits.bits.max(1));
    for (mut from, upto) in ranges {
        loop {
            let start = open.first().map_or(from, |r| r.0);
            let room = bits - from.wrapping_sub(start);
            if room <= 0 {
                lists.push(list_of(&open));
                open.clear();
                if lists.len() >= limits.lists {
                    return lists;
                }
                continue;
            }
            let span = upto.wrapping_sub(from);
            let to = from.wrapping_add(span.min(room - 1));
            open.push((from, to));
            if to == upto {
                break;
            }
            from = to.wrapping_add(1);
        }
    }
    if !open.is_empty() {
        lists.push(list_of(&open));
    }
    lists
}

fn list_of(ranges: &[(i64, i64)]) -> SeqnoList {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return SeqnoList::default();
    };
    let mut list = SeqnoList::new(first.0, last.1.wrapping_sub(first.0) as u32 + 1);
    for (from, to) in ranges {
        let mut seqno = *from;
        loop {
            list.insert(seqno);
            if seqno == *to {
                break;
            }
            seqno = seqno.wrapping_add(1);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits { bits: 100, lists: 8 };
    const MS: Duration = Duration::from_millis(1);

    fn numbers(lists: &[SeqnoList]) -> Vec<i64> {
        lists.iter().flat_map(SeqnoList::iter).collect()
    }

    #[test]
    fn a_gap_is_asked_for_early_once_and_then_once_a_round() {
        let mut g = Gaps::default();
        g.open(2, 3, Time::ZERO);
        let at = |ms: u32| Time::ZERO + MS * ms;
        assert_eq!(g.next_early(MS * 5), Some(at(5)));
        assert!(g.early(at(4), MS * 5, LIMITS).is_empty());
        assert_eq!(numbers(&g.early(at(5), MS * 5, LIMITS)), [2, 3]);
        assert!(g.early(at(9), MS * 5, LIMITS).is_empty());
        assert!(g.round(at(99), MS * 100, LIMITS).is_empty(), "not missing for a whole round");
        assert_eq!(numbers(&g.round(at(100), MS * 100, LIMITS)), [2, 3]);
    }

    #[test]
    fn reordering_makes_early_requests_patient() {
        let mut g = Gaps::default();
        g.open(2, 2, Time::ZERO);
        assert!(!g.fill(2, Time::ZERO + MS * 4));
        g.open(5, 5, Time::ZERO + MS * 10);
        assert_eq!(g.next_early(MS * 5), Some(Time::ZERO + MS * 22));
    }

    #[test]
    fn what_somebody_waits_for_is_asked_for_soon_but_not_before_it_can_have_been_overtaken() {
        let mut g = Gaps::default();
        g.open(2, 2, Time::ZERO);
        g.hurry();
        assert_eq!(g.next_early(MS * 5), Some(Time::ZERO + MS));
        assert!(g.early(Time(999_999), MS * 5, LIMITS).is_empty());
        assert_eq!(numbers(&g.early(Time::ZERO + MS, MS * 5, LIMITS)), [2]);
        g.open(4, 4, Time::ZERO + MS);
        assert_eq!(g.next_early(MS * 5), Some(Time::ZERO + MS * 6), "nobody waits for this one");
    }

    #[test]
    fn filling_the_middle_of_a_gap_leaves_its_ends() {
        let mut g = Gaps::default();
        g.open(1, 5, Time::ZERO);
        g.fill(3, Time::ZERO);
        g.fill(1, Time::ZERO);
        g.fill(5, Time::ZERO);
        assert_eq!(numbers(&g.round(Time(1), Duration::ZERO, LIMITS)), [2, 4]);
        assert_eq!(g.count(), 2);
    }

    #[test]
    fn a_long_gap_is_split_into_lists_of_bounded_size() {
        let mut g = Gaps::default();
        g.open(1, 250, Time::ZERO);
        let lists = g.round(Time(1), Duration::ZERO, LIMITS);
        assert_eq!(lists.iter().map(|l| l.size).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(numbers(&lists), (1..=250).collect::<Vec<_>>());
        let two = RequestLimits { bits: 100, lists: 2 };
        assert_eq!(g.round(Time(1), Duration::ZERO, two).len(), 2);
    }
}
