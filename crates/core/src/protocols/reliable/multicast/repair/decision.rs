//! From what the survivors hold to what all of them deliver.

use super::payload::{Cut, Holding, Report};
use super::ranges::{Ranges, after};
use crate::Uuid;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Most numbers that are looked at in one step; what is beyond comes in the next one.
const MOST: usize = 8192;

/// What all deliver of one sender: what an earlier decision says, if anybody carries one; else
/// everything up to the first number that nobody holds, and whatever out-of-band message beyond it
/// somebody has delivered.
pub(super) fn cut(holdings: &[&Holding]) -> Option<Cut> {
    if let Some(cut) = holdings.iter().find_map(|h| h.cut.clone()) {
        return Some(cut);
    }
    // Whoever has delivered up to a number holds everything below it, or it was stable.
    let mut upto = holdings.iter().map(|h| h.delivered).reduce(max)?;
    while holdings.iter().any(|h| h.holds(upto.wrapping_add(1))) {
        upto = upto.wrapping_add(1);
    }
    let ahead: BTreeSet<i64> = holdings
        .iter()
        .flat_map(|h| h.ahead.iter().take(MOST))
        .filter(|n| after(*n, upto))
        .map(|n| n.wrapping_sub(upto))
        .collect();
    Some(Cut { upto, ahead: ahead.into_iter().map(|n| upto.wrapping_add(n)).collect() })
}

/// The numbers of a cut that `own` lacks, or the first of them.
pub(super) fn lacking(own: &Holding, cut: &Cut) -> Vec<i64> {
    let span = cut.upto.wrapping_sub(own.delivered).max(0);
    let first = own.delivered.wrapping_add(1);
    let regular = (0..span).map(|i| first.wrapping_add(i)).filter(|n| !own.holds(*n));
    let ahead = cut.ahead.iter().filter(|n| after(*n, own.delivered) && !own.holds(*n));
    regular.take(MOST).chain(ahead.take(MOST)).collect()
}

/// A member that holds number `n` of `of`; another one with each attempt, where there is one.
pub(super) fn holder<'a>(
    reports: impl Iterator<Item = (Uuid, &'a Report)>,
    of: Uuid,
    n: i64,
    asked: usize,
) -> Option<Uuid> {
    let holders: Vec<Uuid> =
        reports.filter(|(_, r)| r.of(of).is_some_and(|h| h.holds(n))).map(|(m, _)| m).collect();
    holders.get(asked % holders.len().max(1)).copied()
}

/// A cut without what could not be had: it stops before the first lacking number.
pub(super) fn shortened(cut: &Cut, lacking: &[i64]) -> Cut {
    let upto = match lacking.iter().find(|n| !after(**n, cut.upto)) {
        Some(first) => first.wrapping_sub(1),
        None => cut.upto,
    };
    let ahead: Ranges = cut.ahead.iter().filter(|n| !lacking.contains(n)).collect();
    Cut { upto, ahead }
}

fn max(a: i64, b: i64) -> i64 {
    if after(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Uuid = Uuid::new(9, 9);

    fn holding(delivered: i64, here: &[i64]) -> Holding {
        let received = here.iter().copied().fold(delivered, i64::max);
        let missing = (delivered + 1..=received).filter(|n| !here.contains(n)).collect();
        let ahead = Ranges::default();
        Holding { of: S, low: 0, delivered, received, missing, ahead, cut: None }
    }

    fn decided(holdings: &[Holding]) -> (i64, Vec<i64>) {
        let cut = cut(&holdings.iter().collect::<Vec<_>>()).expect("somebody reports");
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

    #[test]
    fn an_earlier_decision_stands() {
        let mut a = holding(5, &[]);
        a.cut = Some(Cut { upto: 5, ahead: Ranges::default() });
        assert_eq!(decided(&[holding(7, &[]), a]), (5, Vec::new()));
    }

    #[test]
    fn the_lacking_numbers_are_those_of_the_cut_that_are_not_here() {
        let cut = Cut { upto: 8, ahead: [10].into_iter().collect() };
        assert_eq!(lacking(&holding(5, &[7, 10]), &cut), [6, 8]);
        assert_eq!(shortened(&cut, &[8, 10]), Cut { upto: 7, ahead: Ranges::default() });
    }

    #[test]
    fn each_attempt_asks_the_next_holder() {
        let r = |h| Report { windows: [h].into() };
        let reports =
            [(Uuid::new(1, 1), r(holding(5, &[]))), (Uuid::new(2, 2), r(holding(4, &[])))];
        let ask = |n, asked| holder(reports.iter().map(|(m, r)| (*m, r)), S, n, asked);
        assert_eq!(ask(5, 0), Some(Uuid::new(1, 1)));
        assert_eq!(ask(4, 1), Some(Uuid::new(2, 2)));
        assert_eq!(ask(6, 0), None);
    }
}
