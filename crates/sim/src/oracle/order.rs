//! D1: with total order, what two members both deliver they deliver in the same order, as long as they
//! install the same views one after the other. That nothing is lost or comes twice is C1 to C6,
//! and D2 (`sequencer`).

use super::Violation;
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::ViewId;
use std::collections::BTreeMap;

/// What one member delivered in one view.
struct Stay {
    view: ViewId,
    delivered: Vec<MessageId>,
}

/// Checks D1.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let lives: Vec<(Life, Vec<Stay>)> = h.all_lives().map(|l| (l, stays(h, l))).collect();
    let mut found = Vec::new();
    for (i, (a, of_a)) in lives.iter().enumerate() {
        for (b, of_b) in &lives[i + 1..] {
            found.extend(
                runs(of_a, of_b).into_iter().find_map(|(x, y)| difference(h, *a, &x, *b, &y)),
            );
        }
    }
    found
}

fn stays(h: &History, life: Life) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    for (_, f) in h.facts_of(life) {
        match &f.what {
            What::View(v) => stays.push(Stay { view: v.id, delivered: Vec::new() }),
            What::Delivered { message, multicast: true, .. } if h.message(*message).ordered => {
                stays.last_mut().into_iter().for_each(|s| s.delivered.push(*message));
            }
            _ => {}
        }
    }
    stays
}

/// What the two delivered while they went through the same views.
fn runs(a: &[Stay], b: &[Stay]) -> Vec<(Vec<MessageId>, Vec<MessageId>)> {
    let mut runs = Vec::new();
    let mut i = 0;
    while i < a.len() {
        let Some(j) = b.iter().position(|s| s.view == a[i].view) else {
            i += 1;
            continue;
        };
        let together = a[i..].iter().zip(&b[j..]).take_while(|(x, y)| x.view == y.view).count();
        let all = |s: &[Stay]| s.iter().flat_map(|s| s.delivered.iter().copied()).collect();
        runs.push((all(&a[i..i + together]), all(&b[j..j + together])));
        i += together;
    }
    runs
}

fn difference(
    h: &History,
    a: Life,
    of_a: &[MessageId],
    b: Life,
    of_b: &[MessageId],
) -> Option<Violation> {
    let places: BTreeMap<MessageId, usize> =
        of_b.iter().enumerate().map(|(i, m)| (*m, i)).collect();
    let common: Vec<MessageId> = of_a.iter().copied().filter(|m| places.contains_key(m)).collect();
    let pair = common.windows(2).find(|p| places[&p[0]] > places[&p[1]])?;
    let of = |m: MessageId| h.name(h.message(m).sender);
    let text = format!(
        "{} delivered #{} of {} before #{} of {}, {} the other way round",
        h.name(a),
        pair[0].0,
        of(pair[0]),
        pair[1].0,
        of(pair[1]),
        h.name(b)
    );
    Some(Violation::new("D1", text))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    #[test]
    fn another_order_at_another_member_breaks_d1() {
        let mut h = together();
        let (m1, m2) = (send(&mut h, A, None), send(&mut h, B, None));
        for (life, order) in [(A, [m1, m2]), (B, [m1, m2]), (C, [m2, m1])] {
            order.into_iter().for_each(|m| deliver(&mut h, life, m));
        }
        let found = check(&h);
        assert_eq!((names(&found), found.len()), (["D1"].into(), 2), "C beside A and B");
    }

    #[test]
    fn one_order_with_gaps_breaks_nothing() {
        let mut h = together();
        let all: Vec<MessageId> = [A, B, C].map(|l| send(&mut h, l, None)).into();
        all.iter().for_each(|m| deliver(&mut h, A, *m));
        [all[0], all[2]].into_iter().for_each(|m| deliver(&mut h, B, m));
        assert!(check(&h).is_empty());
    }

    #[test]
    fn the_order_holds_from_one_common_view_into_the_next_and_not_beyond() {
        for same in [true, false] {
            let mut h = together();
            let (m1, m2) = (send(&mut h, A, None), send(&mut h, B, None));
            deliver(&mut h, A, m1);
            deliver(&mut h, B, m2);
            install(&mut h, A, 4, A, &[A, B]);
            install(&mut h, B, if same { 4 } else { 5 }, A, &[A, B]);
            deliver(&mut h, A, m2);
            deliver(&mut h, B, m1);
            assert_eq!(check(&h).is_empty(), !same);
        }
    }
}
