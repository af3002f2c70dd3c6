//! R07, R17, R18, B04: how connections begin, are replaced, and end.

use super::*;

#[test]
fn a_connection_works_before_there_is_a_view() {
    let mut g: Vec<Solo> = [stranger(1), stranger(2)].into();
    g[0].send(text(2, "join"), None);
    pass_time(&mut g, ROUND * 3, lose_first(1, |m| number(m).is_some()));
    assert_eq!(heard(&mut g[1]), ["join"]);
    g[1].send(text(1, "welcome"), None);
    exchange(&mut g, |_, _, _| false);
    assert_eq!(heard(&mut g[0]), ["welcome"]);
}

#[test]
fn each_peer_has_a_connection_number_of_its_own() {
    let mut a = group(&[1, 2, 3]).remove(0);
    assert_eq!(
        (conn_of_next(&mut a, 2), conn_of_next(&mut a, 3), conn_of_next(&mut a, 2)),
        (0, 1, 0)
    );
}

#[test]
fn a_message_of_an_unknown_connection_waits_and_its_beginning_is_asked_for_once() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive(1, data(text(2, "5"), 5, 3, false));
    b.arrive(1, data(text(2, "6"), 6, 3, false));
    let sent = b.sent();
    assert_eq!(sent.len(), 1, "at most once in two seconds");
    assert!(matches!(unicast(&sent[0]), Some(UnicastHeader::SendFirstSeqno { .. })));
    assert!(heard(&mut b).is_empty());
    b.arrive(1, data(text(2, "4"), 4, 3, true));
    assert_eq!(heard(&mut b), ["4", "5", "6"], "from the number that was said to be the first");
}

#[test]
fn the_beginning_is_the_lowest_message_that_is_not_acknowledged() {
    let mut a = group(&[1, 2]).remove(0);
    for n in 1..=5 {
        a.send(text(2, &n.to_string()), None);
    }
    let ack = UnicastHeader::Ack { seqno: 2, conn_id: 0, timestamp: 1 };
    a.arrive(2, control(ProtId::UNICAST3, id(1), Flags::NO_FC, ack));
    a.sent();
    let ask = UnicastHeader::SendFirstSeqno { timestamp: 2 };
    a.arrive(2, control(ProtId::UNICAST3, id(1), Flags::OOB, ask));
    let sent = a.sent();
    let first = UnicastHeader::Data { seqno: 3, conn_id: 0, first: true };
    assert_eq!(sent.iter().map(unicast).collect::<Vec<_>>(), [Some(first)]);
}

#[test]
fn a_newer_connection_replaces_the_known_one_and_an_older_one_is_ignored() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive(1, data(text(2, "old"), 1, i16::MAX, true));
    b.arrive(1, data(text(2, "new"), 1, 0, true));
    b.arrive(1, data(text(2, "late"), 1, i16::MAX, true));
    b.arrive(1, data(text(2, "later"), 2, i16::MAX, false));
    assert_eq!(heard(&mut b), ["old", "new"]);
    assert_eq!(b.stack.dropped(DropReason::Stale), 2);
    assert!(b.sent().is_empty(), "nobody is asked for the beginning of the past");
}

#[test]
fn an_older_connection_number_counts_once_the_known_one_has_rested() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive(1, data(text(2, "a"), 1, 9, true));
    b.run(Duration::from_secs(11));
    b.arrive(1, data(text(2, "b"), 1, 0, true));
    assert_eq!(heard(&mut b), ["a", "b"]);
}

#[test]
fn two_connections_in_one_batch_are_told_apart() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive_all(
        1,
        [
            data(text(2, "1"), 1, 0, true),
            data(text(2, "2"), 2, 0, false),
            data(text(2, "3"), 1, 1, true),
            data(text(2, "4"), 2, 1, false),
        ],
    );
    assert_eq!(heard(&mut b), ["1", "2", "3", "4"]);
}

#[test]
fn an_idle_connection_is_closed_at_both_ends_and_a_new_one_starts_from_one() {
    let mut g = group(&[1, 2]);
    g[0].send(text(2, "x"), None);
    pass_time(&mut g, Duration::from_secs(300), |_, _, _| false);
    assert_eq!(gauge(&g[0], "num_send_connections"), 0);
    assert_eq!(gauge(&g[1], "num_receive_connections"), 0);
    assert!(g.iter().all(|m| m.stack.poll_deadline().is_none()), "and no timer runs");
    assert_eq!(conn_of_next(&mut g[0], 2), 1);
    g[0].send(text(2, "y"), None);
    let all = g[0].sent();
    assert_eq!(all.iter().map(number).collect::<Vec<_>>(), [Some(2)]);
}

#[test]
fn a_close_of_another_connection_is_ignored() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive(1, data(text(2, "x"), 1, 5, true));
    b.arrive(
        1,
        control(ProtId::UNICAST3, id(2), Flags::NO_FC, UnicastHeader::Close { conn_id: 4 }),
    );
    assert_eq!(gauge(&b, "num_receive_connections"), 1);
    b.arrive(
        1,
        control(ProtId::UNICAST3, id(2), Flags::NO_FC, UnicastHeader::Close { conn_id: 5 }),
    );
    assert_eq!(gauge(&b, "num_receive_connections"), 0);
}

#[test]
fn messages_to_a_member_that_left_are_given_up() {
    let mut a = group(&[1, 2]).remove(0);
    a.send(text(2, "x"), None);
    a.install(view(2, &[1]));
    assert_eq!((gauge(&a, "num_unacked_messages"), gauge(&a, "given_up")), (0, 1));
    a.sent();
    a.run(Duration::from_secs(60));
    assert!(a.sent().is_empty());
}

#[test]
fn a_member_that_left_is_not_asked_for_ever_for_what_is_missing() {
    let mut b = group(&[1, 2]).remove(1);
    b.arrive(1, data(text(2, "1"), 1, 3, true));
    b.arrive(1, data(text(2, "3"), 3, 3, false));
    b.install(view(2, &[2]));
    b.run(Duration::from_secs(4));
    assert!(!b.sent().is_empty());
    b.run(Duration::from_secs(60));
    assert!(b.sent().is_empty());
}

#[test]
fn messages_to_a_silent_member_are_kept() {
    let mut a = group(&[1, 2]).remove(0);
    a.send(text(2, "x"), None);
    a.run(Duration::from_secs(600));
    assert_eq!(gauge(&a, "num_unacked_messages"), 1);
}

#[test]
fn a_connection_that_is_closing_is_reopened_by_traffic() {
    let mut g = group(&[1, 2]);
    g[0].send(text(2, "1"), None);
    pass_time(&mut g, ROUND * 2, |_, _, _| false);
    g[1].install(view(2, &[2]));
    g[0].send(text(2, "2"), None);
    pass_time(&mut g, ROUND * 2, |_, _, _| false);
    assert_eq!(heard(&mut g[1]), ["1", "2"]);
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 0);
}

#[test]
fn everything_kept_per_peer_is_gone_when_the_peers_are() {
    let mut a = group(&[1]).remove(0);
    for n in 2..400 {
        a.arrive(n, data(text(1, "hello"), 1, 0, true));
        a.arrive(n + 1000, data(text(1, "?"), 5, 0, false));
        a.send(text(n, "hello"), None);
    }
    a.run(Duration::from_secs(400));
    let tables = ["num_send_connections", "num_receive_connections", "num_unacked_messages"];
    assert!(tables.iter().all(|t| gauge(&a, t) == 0));
    assert!(a.stack.poll_deadline().is_none(), "nothing waits aside either");
}

#[test]
fn acknowledgements_of_strangers_and_other_connections_are_ignored() {
    let mut a = group(&[1, 2]).remove(0);
    a.send(text(2, "x"), None);
    let ack = |conn_id| {
        let header = UnicastHeader::Ack { seqno: 1, conn_id, timestamp: 1 };
        control(ProtId::UNICAST3, id(1), Flags::NO_FC, header)
    };
    a.arrive(2, ack(7));
    a.arrive(9, ack(0));
    assert_eq!(gauge(&a, "num_unacked_messages"), 1);
    assert_eq!(gauge(&a, "num_send_connections"), 1, "and create nothing");
}

#[test]
fn an_endpoint_that_restarts_uses_new_connection_numbers() {
    let mut g = group(&[1, 2]);
    for generation in 0..4 {
        if generation > 0 {
            let now = g[0].now;
            g[0].stack.stop(now);
            let cluster = bytes::Bytes::from_static(b"test");
            g[0].stack.submit(now, crate::Command::Connect { cluster });
            g[0].install(view(1, &[1, 2]));
        }
        for n in 1..=10 {
            g[0].send(text(2, &n.to_string()), None);
        }
        exchange(&mut g, |_, _, _| false);
        let expected: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        assert_eq!(heard(&mut g[1]), expected, "generation {generation}");
    }
}

#[test]
fn what_was_received_is_acknowledged_before_the_layer_stops() {
    let mut g = group(&[1, 2]);
    g[0].send(text(2, "x"), None);
    exchange(&mut g, |_, _, _| false);
    let now = g[1].now;
    g[1].stack.stop(now);
    exchange(&mut g, |_, _, _| false);
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 0);
}
