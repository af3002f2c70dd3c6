//! R04 and C9: exactly once, ordered messages in order, out-of-band ones without waiting.

use super::*;

fn orders(items: &[i64]) -> Vec<Vec<i64>> {
    if items.is_empty() {
        return [Vec::new()].into();
    }
    let mut out = Vec::new();
    for (i, first) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(i);
        for mut tail in orders(&rest) {
            tail.insert(0, *first);
            out.push(tail);
        }
    }
    out
}

/// Messages 1, 2 (out of band), 3, 4 (out of band), 5 of one connection.
fn mixed(n: i64) -> wire::Message {
    let flags = if n % 2 == 0 { Flags::OOB } else { Flags::default() };
    data(text(2, &n.to_string()).with_flags(flags), n, 7, n == 1)
}

#[test]
fn every_order_of_arrival_delivers_each_message_once_and_ordered_ones_in_order() {
    for order in orders(&[1, 2, 3, 4, 5]) {
        for dropped in 0..=5 {
            for batched in [false, true] {
                let mut b = group(&[1, 2]).remove(1);
                let first: Vec<_> =
                    order.iter().filter(|n| **n != dropped).map(|n| mixed(*n)).collect();
                if batched {
                    b.arrive_all(1, first);
                } else {
                    first.into_iter().for_each(|m| b.arrive(1, m));
                }
                let mut got = heard(&mut b);
                if dropped != 1 {
                    for n in [2i64, 4].iter().filter(|n| **n != dropped) {
                        assert!(got.contains(&n.to_string()), "{order:?}: no waiting for gaps");
                    }
                }
                order.iter().for_each(|n| b.arrive(1, mixed(*n)));
                got.extend(heard(&mut b));
                let mut sorted = got.clone();
                sorted.sort();
                assert_eq!(sorted, ["1", "2", "3", "4", "5"], "{order:?} without {dropped}");
                got.retain(|s| s != "2" && s != "4");
                assert_eq!(got, ["1", "3", "5"], "{order:?} without {dropped}");
            }
        }
    }
}

#[test]
fn unreliable_unicasts_and_those_to_ourselves_have_no_number() {
    let mut a = group(&[1, 2]).remove(0);
    a.send(text(1, "self"), None);
    assert_eq!(heard(&mut a), ["self"]);
    a.send(text(2, "u").with_flags(Flags::NO_RELIABILITY), None);
    a.send(text(2, "r"), None);
    assert_eq!(a.sent().iter().map(number).collect::<Vec<_>>(), [None, Some(1)]);
}

#[test]
fn each_number_is_stated_once() {
    let mut a = group(&[1, 2]).remove(0);
    a.send(text(2, "x"), None);
    let facts: Vec<Trace> = core::iter::from_fn(|| a.stack.poll_trace()).map(|(_, f)| f).collect();
    assert!(facts.contains(&Trace::Unicast { to: id(2), seqno: 1 }));
}
