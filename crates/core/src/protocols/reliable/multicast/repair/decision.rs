//! From what the survivors hold to what all of them deliver.

use super::super::Window;
use super::payload::{Cut, Holding, Report};
use super::ranges::after;
use crate::Uuid;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Most numbers that are looked at in one step; what is beyond comes in the next one.
const MOST: usize = 8192;

/// Who was heard before a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Every survivor.
    All,
    /// Every survivor that takes part, and there are others, of JGroups.
    AllOfOurs,
    /// Not everybody.
    Some,
}

/// What all deliver of one sender: what an earlier decision says, if anybody carries one; else
/// everything up to the first number that nobody holds, and whatever out-of-band message beyond it
/// somebody has delivered.
pub(super) fn cut(holdings: &[&Holding], heard: Heard) -> Option<Cut> {
    let earlier = || holdings.iter().filter_map(|h| h.cut.as_ref());
    if let Some(cut) = earlier().find(|c| c.certain).or_else(|| earlier().next()) {
        return Some(cut.clone());
    }
    let mut upto = holdings.iter().map(|h| h.delivered).reduce(min)?;
    while let Some(next) = holdings.iter().find_map(|h| h.beyond(upto)) {
        upto = next;
    }
    let ahead: BTreeSet<i64> = holdings
        .iter()
        .flat_map(|h| h.ahead.iter().take(MOST))
        .filter(|n| after(*n, upto))
        .map(|n| n.wrapping_sub(upto))
        .collect();
    let ahead = ahead.into_iter().map(|n| upto.wrapping_add(n)).collect();
    let certain = match heard {
        Heard::All => true,
        // Where a joiner starts, somebody had got to when it joined: maybe one of the others.
        Heard::AllOfOurs => !holdings.iter().any(|h| after(h.low, upto)),
        Heard::Some => false,
    };
    Some(Cut { upto, ahead, certain })
}

impl Holding {
    /// How much further than to number `n` this member alone can bring others. Not at all if its window
    /// starts beyond `n`: it joined later, and has nothing of what was before. (A window also starts
    /// where everything before is stable, but then everybody has got that far.)
    fn beyond(&self, n: i64) -> Option<i64> {
        let next = n.wrapping_add(1);
        let delivered = after(self.delivered, n) && !after(self.low, n);
        match delivered {
            true => Some(self.delivered),
            false => self.holds(next).then_some(next),
        }
    }

    /// The numbers of a cut that are not there, or the first of them.
    pub(super) fn lacking<'a>(&'a self, cut: &'a Cut) -> impl Iterator<Item = i64> + 'a {
        lacking(self.delivered, |n| self.holds(n), cut)
    }

    /// Whether something was delivered that the cut does not contain.
    pub(super) fn exceeds(&self, cut: &Cut) -> bool {
        let delivered = after(self.delivered, self.low) && after(self.delivered, cut.upto);
        delivered || self.ahead.iter().any(|n| !cut.contains(n))
    }
}

/// The numbers of a cut that are not in this window, or the first of them.
pub(super) fn lacking_here<'a>(window: &'a Window, cut: &'a Cut) -> impl Iterator<Item = i64> + 'a {
    lacking(window.delivered(), |n| window.has(n), cut)
}

fn lacking<'a>(
    delivered: i64,
    holds: impl Fn(i64) -> bool + Copy + 'a,
    cut: &'a Cut,
) -> impl Iterator<Item = i64> + 'a {
    let span = cut.upto.wrapping_sub(delivered).max(0);
    let first = delivered.wrapping_add(1);
    let regular = (0..span).map(move |i| first.wrapping_add(i)).filter(move |n| !holds(*n));
    let ahead = cut.ahead.iter().filter(move |n| after(*n, delivered) && !holds(*n));
    regular.take(MOST).chain(ahead.take(MOST))
}

/// A member that holds number `n` of `of`; another one with each attempt, where there is one.
pub(super) fn holder(reports: &[(Uuid, &Report)], of: Uuid, n: i64, asked: usize) -> Option<Uuid> {
    let has = |r: &Report| r.of(of).is_some_and(|h| h.holds(n));
    let holders: Vec<Uuid> = reports.iter().filter(|(_, r)| has(r)).map(|(m, _)| *m).collect();
    holders.get(asked % holders.len().max(1)).copied()
}

/// A cut without what could not be had: it stops before the first number that is not in the window.
pub(super) fn shortened(window: &Window, cut: &Cut) -> Cut {
    let upto = match lacking_here(window, cut).find(|n| !after(*n, cut.upto)) {
        Some(first) => first.wrapping_sub(1),
        None => cut.upto,
    };
    let ahead = cut.ahead.iter().filter(|n| window.has(*n)).collect();
    Cut { upto, ahead, certain: false }
}

fn min(a: i64, b: i64) -> i64 {
    if after(a, b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::Ranges;
    use super::*;
    use crate::protocols::reliable::window::Limits;
    use crate::{Message, Time};

    const S: Uuid = Uuid::new(9, 9);

    fn holding(delivered: i64, here: &[i64]) -> Holding {
        let received = here.iter().copied().fold(delivered, i64::max);
        let missing = (delivered + 1..=received).filter(|n| !here.contains(n)).collect();
        let ahead = Ranges::default();
        Holding { of: S, low: 0, delivered, received, missing, ahead, cut: None }
    }

    fn decided(holdings: &[Holding]) -> (i64, Vec<i64>) {
        let cut = cut(&holdings.iter().collect::<Vec<_>>(), Heard::All).expect("somebody reports");
        (cut.upto, cut.ahead.iter().collect())
    }

    #[test]
    fn what_one_survivor_has_all_get() {
        assert_eq!(decided(&[holding(9, &[]), holding(10, &[])]), (10, Vec::new()));
    }

    #[test]
    fn a_hole_that_others_fill_is_no_hole() {
        assert_eq!(decided(&[holding(5, &[7]), holding(4, &[6, 8])]), (8, Vec::new()));
    }

    #[test]
    fn nothing_is_delivered_beyond_a_number_that_nobody_has() {
        assert_eq!(decided(&[holding(5, &[7]), holding(4, &[8])]), (5, Vec::new()));
    }

    #[test]
    fn an_out_of_band_message_that_one_has_delivered_all_deliver() {
        let mut a = holding(5, &[8]);
        a.ahead.push(8);
        assert_eq!(decided(&[a, holding(5, &[])]), (5, [8].into()));
    }

    /// A member that joined when `low` had been sent, and has delivered up to `delivered` since.
    fn joined(low: i64, delivered: i64) -> Holding {
        Holding { low, ..holding(delivered, &[]) }
    }

    #[test]
    fn a_joiners_window_says_nothing_of_the_time_before() {
        assert_eq!(decided(&[holding(5, &[6]), joined(9, 9)]), (6, Vec::new()));
        assert_eq!(decided(&[holding(5, &[6, 7, 8, 9]), joined(9, 12)]), (12, Vec::new()));
        let cut = Cut { upto: 6, ahead: Ranges::default(), certain: true };
        assert!(!joined(9, 9).exceeds(&cut) && joined(9, 10).exceeds(&cut));
    }

    fn carrying(h: Holding, upto: i64, certain: bool) -> Holding {
        Holding { cut: Some(Cut { upto, ahead: Ranges::default(), certain }), ..h }
    }

    #[test]
    fn an_earlier_decision_stands_and_a_certain_one_before_others() {
        let (unsure, sure) =
            (carrying(holding(4, &[]), 4, false), carrying(holding(5, &[]), 5, true));
        assert_eq!(decided(&[holding(7, &[]), unsure.clone()]), (4, Vec::new()));
        assert_eq!(decided(&[holding(7, &[]), unsure, sure]), (5, Vec::new()));
    }

    #[test]
    fn a_decision_without_somebody_is_not_certain() {
        let own = holding(3, &[]);
        let certain = |of: &[&Holding], heard| cut(of, heard).expect("one reports").certain;
        assert!(certain(&[&own], Heard::All) && !certain(&[&own], Heard::Some));
        assert!(certain(&[&own], Heard::AllOfOurs));
    }

    #[test]
    fn what_was_before_a_joiner_somebody_of_jgroups_may_have_delivered() {
        let (own, joiner) = (holding(3, &[]), joined(5, 5));
        let certain = |heard| cut(&[&own, &joiner], heard).expect("two report").certain;
        assert!(certain(Heard::All) && !certain(Heard::AllOfOurs));
    }

    #[test]
    fn the_lacking_numbers_are_those_of_the_cut_that_are_not_here() {
        let cut = Cut { upto: 8, ahead: [10].into_iter().collect(), certain: true };
        assert_eq!(holding(5, &[7]).lacking(&cut).collect::<Vec<_>>(), [6, 8, 10]);
    }

    #[test]
    fn what_was_delivered_beyond_a_decision_exceeds_it() {
        let cut = Cut { upto: 8, ahead: [10].into_iter().collect(), certain: true };
        let with_ahead = |n| Holding { ahead: [n].into_iter().collect(), ..holding(5, &[]) };
        assert!(!holding(8, &[]).exceeds(&cut) && !with_ahead(10).exceeds(&cut));
        assert!(holding(9, &[]).exceeds(&cut) && with_ahead(11).exceeds(&cut));
    }

    #[test]
    fn what_could_not_be_had_is_left_out_and_the_rest_is_not_certain() {
        let mut window = Window::new(5, Limits { held: u64::MAX, kept: Some(u64::MAX) });
        for n in [6, 7, 9, 11] {
            let mut m = Message::from(crate::wire::Message::default());
            window.hold_arrival(n, &mut m, Time::ZERO, &mut Default::default());
        }
        let cut = Cut { upto: 9, ahead: [11, 13].into_iter().collect(), certain: true };
        let left = Cut { upto: 7, ahead: [11].into_iter().collect(), certain: false };
        assert_eq!(shortened(&window, &cut), left);
    }

    #[test]
    fn each_attempt_asks_the_next_holder() {
        let r = |h| Report { windows: [h].into(), own: None };
        let (one, other) = (r(holding(5, &[])), r(holding(4, &[])));
        let reports = [(Uuid::new(1, 1), &one), (Uuid::new(2, 2), &other)];
        let ask = |n, asked| holder(&reports, S, n, asked);
        assert_eq!(ask(5, 0), Some(Uuid::new(1, 1)));
        assert_eq!(ask(4, 1), Some(Uuid::new(2, 2)));
        assert_eq!(ask(6, 0), None);
    }
}
