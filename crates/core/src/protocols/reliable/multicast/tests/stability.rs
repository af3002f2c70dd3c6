//! S0-21, S0-22, G1: everybody keeps what is not stable, and nothing else.

use super::*;

#[test]
fn receivers_keep_delivered_messages_and_serve_them() {
    let mut g = group(&[1, 2, 3], &tcp());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    exchange(&mut g, |_, to, m| to == id(3) && number(m) == Some(2));
    assert_eq!(windows(&g[1], 1).messages, 3);
    // Member 3 asks member 2 for a message of member 1.
    let list: wire::SeqnoList = [2].into_iter().collect();
    let header = Header::NakAck(NakAckHeader::XmitReq(Some(id(1).into())));
    g[1].arrive(3, retransmit::request(id(2).into(), ProtId::NAKACK2, header, list));
    let answer = g[1].sent().remove(0);
    assert_eq!(answer.src, Some(id(1).into()));
    g[2].arrive(1, answer);
    assert_eq!(heard(&mut g[2]), ["1", "2", "3"]);
}

#[test]
fn stability_empties_every_window() {
    let mut g = group(&[1, 2], &tcp());
    for n in 1..=100 {
        g[0].send(text(&n.to_string()), None);
    }
    exchange(&mut g, |_, _, _| false);
    for m in &mut g {
        m.event_down(Event::Stable(pairs(&[(1, 100, 100), (2, 0, 0)])));
        assert_eq!((gauge(m, "num_kept_messages"), gauge(m, "size_of_all_messages")), (0, 0));
    }
}

#[test]
fn nothing_is_purged_above_what_this_member_delivered() {
    let mut b = member(2, &[1, 2], tcp());
    for n in [1, 2, 4] {
        b.arrive(1, numbered(n, text("")));
    }
    b.event_down(Event::Stable(pairs(&[(1, 4, 4), (2, 0, 0)])));
    assert_eq!((windows(&b, 1).low, windows(&b, 1).messages), (2, 1));
    b.arrive(1, numbered(3, text("3")));
    assert_eq!(windows(&b, 1).delivered, 4);
}

#[test]
fn a_request_for_what_is_stable_is_counted_and_not_answered() {
    let mut a = member(1, &[1, 2], tcp());
    a.send(text("x"), None);
    a.event_down(Event::Stable(pairs(&[(1, 1, 1), (2, 0, 0)])));
    a.sent();
    let list: wire::SeqnoList = [1].into_iter().collect();
    let header = Header::NakAck(NakAckHeader::XmitReq(Some(id(1).into())));
    a.arrive(2, retransmit::request(id(1).into(), ProtId::NAKACK2, header, list));
    assert!(a.sent().is_empty());
    assert_eq!(gauge(&a, "not_found"), 1);
}

#[test]
fn what_is_kept_for_others_is_bounded() {
    let config = Nakack2Config { retain_limit: ByteSize(10_000), ..tcp() };
    let mut b = member(2, &[1, 2], config);
    for n in 1..=30 {
        let m = wire::Message::multicast(Body::bytes(alloc::vec![0u8; 1000]));
        b.arrive(1, numbered(n, m));
    }
    assert_eq!(windows(&b, 1).bytes, 10_000);
    assert_eq!(gauge(&b, "evicted_unstable_messages"), 20);
}

#[test]
fn a_window_may_be_told_to_keep_nothing() {
    let config = Nakack2Config { discard_delivered_msgs: true, ..tcp() };
    let mut b = member(2, &[1, 2], config);
    b.arrive_all(1, [numbered(1, text("1")), numbered(2, text("2"))]);
    assert_eq!(heard(&mut b), ["1", "2"]);
    assert_eq!(windows(&b, 1).messages, 0);
}

#[cfg(feature = "mutants")]
#[test]
fn the_mutant_purges_what_is_not_stable() {
    let mut a = member(1, &[1, 2], tcp());
    a.stack.enable_mutant(crate::mutants::Mutant::WindowPurgedTooEarly);
    a.send(text("x"), None);
    a.event_down(Event::Stable(pairs(&[(1, 0, 1), (2, 0, 0)])));
    assert_eq!(windows(&a, 1).messages, 0);
}
