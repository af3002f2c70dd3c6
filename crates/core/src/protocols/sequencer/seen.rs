//! Which messages of a sender were delivered, by its own numbers.
//!
//! A member of this toolkit forwards in the order of its numbers, so the highest one says it all.
//! In JGroups several threads of a sender may overtake each other between number and forwarding:
//! of such a sender the last numbers are remembered one by one.

use crate::{Uuid, View, tag};
use alloc::collections::{BTreeMap, VecDeque};

/// Members that left are remembered too: they may come back with what was delivered before.
const MOST_FORMER: usize = 256;

/// All senders.
#[derive(Debug)]
pub(super) struct Seen {
    window: usize,
    senders: BTreeMap<Uuid, Numbers>,
    /// Those that are not in the view, the one that left first in front.
    former: VecDeque<Uuid>,
}

/// The numbers of one sender.
#[derive(Debug)]
struct Numbers {
    highest: i64,
    /// Whether `highest`, the one before it and so on were delivered; empty where they come in
    /// order.
    last: VecDeque<bool>,
}

impl Seen {
    pub(super) fn new(window: u32) -> Self {
        let window = usize::try_from(window).unwrap_or(usize::MAX).max(1);
        Self { window, senders: BTreeMap::new(), former: VecDeque::new() }
    }

    /// Whether this number was delivered, or is so far back that it must have been.
    pub(super) fn has(&self, sender: Uuid, seqno: i64) -> bool {
        let Some(numbers) = self.senders.get(&sender) else { return false };
        if seqno > numbers.highest {
            return false;
        }
        match numbers.last.is_empty() {
            true => true,
            false => usize::try_from(numbers.highest.wrapping_sub(seqno))
                .ok()
                .and_then(|back| numbers.last.get(back).copied())
                .unwrap_or(numbers.last.len() >= self.window),
        }
    }

    /// This number is delivered now; `false` if it was before.
    pub(super) fn note(&mut self, sender: Uuid, seqno: i64) -> bool {
        if self.has(sender, seqno) {
            return false;
        }
        let in_order = tag::is_rgroups(sender);
        let fresh = Numbers { highest: seqno, last: VecDeque::new() };
        let numbers = self.senders.entry(sender).or_insert(fresh);
        if in_order {
            numbers.highest = seqno;
            return true;
        }
        let ahead = if numbers.last.is_empty() { 1 } else { seqno.saturating_sub(numbers.highest) };
        if ahead > 0 {
            let steps = usize::try_from(ahead).unwrap_or(usize::MAX).min(self.window);
            (1..steps).for_each(|_| numbers.last.push_front(false));
            numbers.last.push_front(true);
            numbers.last.truncate(self.window);
            numbers.highest = seqno;
        } else if let Ok(back) = usize::try_from(ahead.unsigned_abs()) {
            // Further back than anything that was seen of this sender so far.
            if back >= numbers.last.len() {
                numbers.last.resize(back + 1, false);
            }
            numbers.last[back] = true;
        }
        true
    }

    /// The members are these.
    pub(super) fn enter(&mut self, view: &View) {
        self.former.retain(|m| !view.contains(*m));
        for m in self.senders.keys() {
            if !view.contains(*m) && !self.former.contains(m) {
                self.former.push_back(*m);
            }
        }
        while self.former.len() > MOST_FORMER {
            if let Some(m) = self.former.pop_front() {
                self.senders.remove(&m);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;
    use crate::testkit_cluster::tagged;

    #[test]
    fn of_members_of_this_toolkit_everything_up_to_the_highest_was_delivered() {
        let mut seen = Seen::new(10);
        assert!(seen.note(tagged(1), 5) && seen.note(tagged(1), 7));
        assert!([5, 6, 7, i64::MIN].iter().all(|n| seen.has(tagged(1), *n)));
        assert!(!seen.note(tagged(1), 6) && seen.note(tagged(1), 8));
    }

    #[test]
    fn numbers_of_others_may_overtake_each_other() {
        let mut seen = Seen::new(10);
        for n in [5, 7, 3, 6, 4] {
            assert!(seen.note(id(1), n), "{n}");
            assert!(!seen.note(id(1), n), "{n}");
        }
        assert!(!seen.has(id(1), 2) && !seen.has(id(1), 8));
    }

    #[test]
    fn what_is_further_back_than_the_table_counts_as_delivered() {
        let mut seen = Seen::new(4);
        assert!((1..=10).all(|n| seen.note(id(1), n)));
        assert!(seen.note(id(1), i64::MAX), "a leap forgets what was before");
        assert!(!seen.note(id(1), 11));
        assert!(seen.note(id(1), i64::MAX - 3) && !seen.note(id(1), i64::MAX - 4));
    }

    #[test]
    fn a_member_that_comes_back_is_remembered_and_many_that_left_are_not() {
        let mut seen = Seen::new(4);
        seen.note(tagged(1), 5);
        seen.enter(&View::new(1, tagged(9), [tagged(9)]));
        assert!(!seen.note(tagged(1), 5));
        for n in 100..100 + MOST_FORMER as u64 {
            seen.note(tagged(n), 1);
        }
        seen.enter(&View::new(2, tagged(9), [tagged(9)]));
        assert_eq!(seen.senders.len(), MOST_FORMER);
        assert!(!seen.has(tagged(1), 5));
    }
}
