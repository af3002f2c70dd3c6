//! R04, R12, R19: exactly once, order only among ordered messages, by every path.

use super::*;
use crate::protocols::faults::{Discard, DiscardConfig};

/// All orders of `items`.
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

/// Messages 1, 2 (out of band), 3, 4 (out of band), 5.
fn mixed(n: i64) -> wire::Message {
    let m = if n % 2 == 0 { oob(&n.to_string()) } else { text(&n.to_string()) };
    numbered(n, m)
}

fn check(got: &[String], order: &[i64]) {
    let mut sorted = got.to_vec();
    sorted.sort();
    assert_eq!(sorted, ["1", "2", "3", "4", "5"], "{order:?}: each exactly once");
    let ordered: Vec<&str> =
        got.iter().map(String::as_str).filter(|s| *s != "2" && *s != "4").collect();
    assert_eq!(ordered, ["1", "3", "5"], "{order:?}");
}

#[test]
fn every_order_of_arrival_delivers_each_message_once_and_ordered_ones_in_order() {
    for order in orders(&[1, 2, 3, 4, 5]) {
        for dropped in 0..=5 {
            for batched in [false, true] {
                let mut b = member(2, &[1, 2], tcp());
                let first: Vec<_> =
                    order.iter().filter(|n| **n != dropped).map(|n| mixed(*n)).collect();
                if batched {
                    b.arrive_all(1, first);
                } else {
                    first.into_iter().for_each(|m| b.arrive(1, m));
                }
                let mut got = heard(&mut b);
                for n in [2, 4] {
                    let at_once = got.contains(&n.to_string());
                    assert_eq!(at_once, n != dropped, "{order:?}: no waiting for gaps");
                }
                order.iter().for_each(|n| b.arrive(1, mixed(*n)));
                got.extend(heard(&mut b));
                check(&got, &order);
                assert_eq!(windows(&b, 1).delivered, 5);
            }
        }
    }
}

#[test]
fn own_messages_come_back_once_and_in_order_of_their_numbers() {
    let mut a = member(1, &[1, 2], tcp());
    a.send(text("1"), None);
    a.send(oob("2"), None);
    a.send(text("3"), None);
    assert_eq!(heard(&mut a), ["1", "2", "3"]);
    assert_eq!((windows(&a, 1).delivered, windows(&a, 1).messages), (3, 3));
}

#[test]
fn messages_without_loopback_count_as_delivered_at_once() {
    let mut a = member(1, &[1, 2], tcp());
    let mut rng = crate::Rng::new(1);
    let mut expected = Vec::new();
    for n in 1..=200 {
        let mut m = if rng.chance(0.5) { text(&n.to_string()) } else { oob(&n.to_string()) };
        if rng.chance(0.5) {
            m.hints |= Hints::DONT_LOOPBACK;
        } else {
            expected.push(n.to_string());
        }
        a.send(m, None);
    }
    assert_eq!(heard(&mut a), expected);
    assert_eq!(windows(&a, 1).delivered, 200);
    a.event_down(Event::Stable(pairs(&[(1, 200, 200), (2, 0, 0)])));
    assert_eq!((windows(&a, 1).messages, windows(&a, 1).bytes), (0, 0));
}

#[test]
fn an_own_copy_that_never_came_back_is_delivered_from_the_window() {
    let config = DiscardConfig { up: 1.0, excludes_self: false, ..DiscardConfig::default() };
    let layers: [Box<dyn Protocol>; 2] =
        [Box::new(Discard::new(config)), Box::new(ReliableMulticast::new(tcp()))];
    let mut a = Solo::new(1, layers.into());
    a.install(view(1, &[1, 2]));
    a.event_down(Event::BecomeServer);
    a.send(text("x"), None);
    a.run(MS * 30);
    assert_eq!(heard(&mut a), ["x"]);
}

#[test]
fn unreliable_multicasts_have_no_number() {
    let mut a = member(1, &[1, 2], tcp());
    a.send(text("u").with_flags(Flags::NO_RELIABILITY), None);
    a.send(text("r"), None);
    let numbers: Vec<_> = a.sent().iter().map(number).collect();
    assert_eq!(numbers, [None, Some(1)]);
    assert_eq!(heard(&mut a), ["u", "r"]);
}

#[test]
fn a_resent_copy_is_delivered_as_a_multicast() {
    let mut b = member(2, &[1, 2], tcp());
    let resent = |n, m: wire::Message| {
        let mut m = m.with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::XmitRsp(n)));
        m.dest = Some(id(2).into());
        m
    };
    b.arrive_all(1, [resent(1, text("1")), resent(2, oob("2"))]);
    let told = b.told();
    let all_multicast = told.iter().all(|e| match e {
        AppEvent::Deliver(d) => d.multicast && d.messages.iter().all(|m| m.is_multicast()),
        _ => true,
    });
    let count: usize =
        told.iter().map(|e| if let AppEvent::Deliver(d) = e { d.messages.len() } else { 0 }).sum();
    assert!(all_multicast);
    assert_eq!(count, 2);
}

#[test]
fn a_request_with_nonsense_is_counted_and_ignored() {
    let mut b = member(2, &[1, 2], tcp());
    let mut m = text("not a list");
    m.dest = Some(id(2).into());
    let of: Address = id(2).into();
    m.headers.put(ProtId::NAKACK2, Header::NakAck(NakAckHeader::XmitReq(Some(of))));
    b.arrive(1, m.clone());
    assert_eq!(b.stack.dropped(DropReason::Malformed), 1);
    b.arrive(9, m);
    assert_eq!(b.stack.dropped(DropReason::NotAMember), 1);
    assert!(b.sent().is_empty());
}

#[test]
fn attributes_are_found_by_jgroups_names() {
    let mut c = Nakack2Config::default();
    c.set("xmit_interval", "500").expect("it exists");
    c.set("use_mcast_xmit", "false").expect("it exists");
    assert_eq!((c.xmit_interval, c.use_mcast_xmit), (MS * 500, false));
}
