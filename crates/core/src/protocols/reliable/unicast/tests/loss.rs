//! R01, R05: first, last and middle messages, acknowledgements and requests are lost; all is
//! repaired and then the wire is quiet.

use super::*;

fn send(g: &mut [Solo], n: u32) {
    for i in 1..=n {
        g[0].send(text(2, &i.to_string()), None);
    }
}

fn numbers(n: u32) -> Vec<String> {
    (1..=n).map(|i| i.to_string()).collect()
}

#[test]
fn a_lost_last_message_is_repaired_within_two_rounds() {
    let mut g = group(&[1, 2]);
    send(&mut g, 5);
    pass_time(&mut g, ROUND * 2, lose_first(1, |m| number(m) == Some(5)));
    assert_eq!(heard(&mut g[1]), numbers(5));
}

#[test]
fn a_lost_first_message_is_asked_for() {
    let mut g = group(&[1, 2]);
    send(&mut g, 5);
    pass_time(&mut g, MS, lose_first(1, |m| number(m) == Some(1)));
    assert_eq!(heard(&mut g[1]), numbers(5));
}

#[test]
fn the_only_message_is_repeated_if_it_is_lost() {
    let mut g = group(&[1, 2]);
    send(&mut g, 1);
    pass_time(&mut g, ROUND * 2, lose_first(1, |m| number(m).is_some()));
    assert_eq!(heard(&mut g[1]), numbers(1));
}

#[test]
fn lost_acknowledgements_are_repeated_and_then_the_wire_is_quiet() {
    let mut g = group(&[1, 2]);
    send(&mut g, 5);
    pass_time(&mut g, ROUND * 12, lose_first(3, is_ack));
    assert_eq!(heard(&mut g[1]), numbers(5));
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 0);
    assert_eq!(traffic(&mut g, ROUND * 10), 0);
}

#[test]
fn without_loss_nothing_is_sent_twice() {
    let mut g = group(&[1, 2]);
    for _ in 0..10 {
        send(&mut g, 30);
        pass_time(&mut g, MS * 130, |_, _, _| false);
    }
    pass_time(&mut g, ROUND * 4, |_, _, _| false);
    assert_eq!((gauge(&g[0], "num_xmits"), gauge(&g[1], "xmit_reqs_sent")), (0, 0));
}

#[test]
fn a_gap_is_asked_for_early_and_again_in_the_rounds() {
    let mut g = group(&[1, 2]);
    send(&mut g, 3);
    let mut lost = lose_first(2, |m| number(m) == Some(2));
    pass_time(&mut g, MS * 10, &mut lost);
    assert_eq!(heard(&mut g[1]), ["1"]);
    assert_eq!(gauge(&g[1], "xmit_reqs_sent"), 1);
    pass_time(&mut g, ROUND * 2, &mut lost);
    assert_eq!(heard(&mut g[1]), ["2", "3"]);
}

#[test]
fn a_full_batch_is_acknowledged_at_once() {
    let mut g = group(&[1, 2]);
    send(&mut g, 100);
    exchange(&mut g, |_, _, _| false);
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 0);
    send(&mut g, 99);
    exchange(&mut g, |_, _, _| false);
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 99);
}

#[test]
fn a_big_burst_of_gaps_is_repaired_with_bounded_packets() {
    let mut g = group(&[1, 2]);
    send(&mut g, 20_000);
    let mut largest = 0;
    let mut to_lose: alloc::collections::BTreeSet<i64> = (1..20_000).map(|n| n * 2).collect();
    pass_time(&mut g, ROUND * 6, |_, _, m| {
        largest = largest.max(m.listed_len(None));
        number(m).is_some_and(|n| to_lose.remove(&n))
    });
    assert_eq!(heard(&mut g[1]), numbers(20_000));
    assert!(largest <= 1300, "{largest}");
    assert!(gauge(&g[1], "xmit_reqs_sent") <= 10);
}

#[test]
fn late_acknowledgements_are_ignored() {
    let mut g = group(&[1, 2]);
    send(&mut g, 10);
    let conn_id = 0;
    let ack = |seqno, timestamp| {
        let header = UnicastHeader::Ack { seqno, conn_id, timestamp };
        control(ProtId::UNICAST3, id(1), Flags::NO_FC, header)
    };
    g[0].arrive(2, ack(4, i32::MAX));
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 6);
    g[0].arrive(2, ack(9, i32::MAX - 1));
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 6, "older");
    g[0].arrive(2, ack(8, i32::MIN));
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 2, "stamps wrap");
    g[0].arrive(2, ack(99, i32::MIN + 1));
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 2, "never sent");
}

#[test]
fn a_request_sends_the_originals_unchanged() {
    let mut g = group(&[1, 2]);
    send(&mut g, 3);
    let first = g[0].sent();
    let list: wire::SeqnoList = [1, 3].into_iter().collect();
    let header = Header::Unicast(UnicastHeader::XmitReq);
    let ask =
        super::super::super::retransmit::request(id(1).into(), ProtId::UNICAST3, header, list);
    g[0].arrive(2, ask);
    let again = g[0].sent();
    assert_eq!(again.iter().map(number).collect::<Vec<_>>(), [Some(1), Some(3)]);
    assert_eq!(again[0].headers, first[0].headers);
}
