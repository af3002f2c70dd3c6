//! UNICAST4: the window to each member is bounded, and what was consumed is acknowledged (S0-1).

use super::*;
use crate::event::Room;
use crate::{AppEvent, Command, OpId, SendRefusal, SendResult};

fn config() -> Unicast4Config {
    Unicast4Config { capacity: 4, ack_threshold: 2, ..Default::default() }
}

fn new_stranger(me: u64) -> Solo {
    let layer = ReliableUnicast::new(config());
    Solo::new(me, [Box::new(layer) as Box<dyn Protocol>].into())
}

fn new_group(all: &[u64]) -> Vec<Solo> {
    let v = view(1, all);
    let member = |m: &u64| {
        let mut s = new_stranger(*m);
        s.install(Arc::clone(&v));
        s
    };
    all.iter().map(member).collect()
}

fn header4(m: &wire::Message) -> Option<UnicastHeader> {
    header(&m.clone().into(), ProtId::UNICAST4)
}

fn data4(to: u64, s: &str, seqno: i64, conn_id: i16) -> wire::Message {
    let h = UnicastHeader::Data { seqno, conn_id, first: seqno == 1 };
    text(to, s).with_header(ProtId::UNICAST4, Header::Unicast(h))
}

fn ack4(seqno: i64, timestamp: i32) -> wire::Message {
    let h = UnicastHeader::Ack { seqno, conn_id: 0, timestamp };
    control(ProtId::UNICAST4, id(1), Flags::NO_FC, h)
}

fn seqnos(sent: &[wire::Message]) -> Vec<i64> {
    let seqno = |m: &wire::Message| match header4(m) {
        Some(UnicastHeader::Data { seqno, .. }) => Some(seqno),
        _ => None,
    };
    sent.iter().filter_map(seqno).collect()
}

fn acks(sent: &[wire::Message]) -> Vec<i64> {
    let ack = |m: &wire::Message| match header4(m) {
        Some(UnicastHeader::Ack { seqno, .. }) => Some(seqno),
        _ => None,
    };
    sent.iter().filter_map(ack).collect()
}

fn taken(s: &mut Solo) -> Vec<Consumed> {
    let given = |ev| match ev {
        AppEvent::Deliver(d) => d.consumed(),
        _ => Vec::new(),
    };
    s.told().into_iter().flat_map(given).collect()
}

fn consume(s: &mut Solo, what: Vec<Consumed>) {
    s.stack.submit(s.now, Command::Consumed(what));
}

/// Member 1 with so many messages sent to member 2, which has said nothing.
fn sender(n: u64) -> Solo {
    let mut a = new_group(&[1, 2, 3]).remove(0);
    for i in 1..=n {
        a.send(text(2, &i.to_string()), Some(OpId(i)));
    }
    a
}

/// Member 2 with so many messages of member 1.
fn receiver(n: i64) -> Solo {
    let mut b = new_group(&[1, 2]).remove(1);
    for i in 1..=n {
        b.arrive(1, data4(2, &i.to_string(), i, 0));
    }
    b
}

fn hex(m: &wire::Message) -> String {
    let mut out = Vec::new();
    let header = m.headers.get(ProtId::UNICAST4).expect("it is ours");
    header.encode(ProtId::UNICAST4, &mut out);
    out.iter().map(|b| alloc::format!("{b:02x}")).collect()
}

#[test]
fn headers_have_the_bytes_of_jgroups() {
    let mut a = sender(1);
    assert_eq!(hex(&a.sent()[0]), "0064000101000001");
    a.arrive(2, data4(1, "late", 2, 3));
    assert_eq!(hex(&a.sent()[0]), "0064020101", "SEND_FIRST_SEQNO");
    let mut b = receiver(2);
    let all = taken(&mut b);
    consume(&mut b, all);
    assert_eq!(hex(&b.sent()[0]), "006401010200000101");
}

#[test]
fn a_full_window_makes_the_sender_wait_for_that_member_alone() {
    let mut a = sender(6);
    a.send(text(3, "other"), None);
    assert_eq!(seqnos(&a.sent()), [1, 2, 3, 4, 1]);
    let room = match a.ask(&Query::Room { dest: Some(id(2)), oob: false, bytes: 1 }) {
        Some(Answer::Room(r)) => r,
        other => panic!("{other:?}"),
    };
    assert_eq!((room.immediate, room.limited_by), (false, [id(2)].into()));
    assert_eq!(a.stack.tokens_outstanding(), 2);
    a.arrive(2, ack4(1, 1));
    assert_eq!(seqnos(&a.sent()), [5]);
    a.arrive(2, ack4(5, 2));
    assert_eq!(seqnos(&a.sent()), [6]);
    assert_eq!(a.stack.tokens_outstanding(), 0);
}

#[test]
fn a_window_with_room_says_so() {
    let a = sender(0);
    let Some(Answer::Room(Room { immediate, line_open, .. })) =
        a.ask(&Query::Room { dest: Some(id(2)), oob: false, bytes: 1 })
    else {
        panic!("it answers");
    };
    assert!(immediate && line_open);
}

#[test]
fn after_a_second_a_waiting_sender_hears_who_it_waits_for() {
    let mut a = sender(5);
    a.run(Duration::from_secs(1));
    let blocked = |ev: &AppEvent| matches!(ev, AppEvent::Blocked { op: Some(OpId(5)), by, .. } if by[..] == [id(2)]);
    assert!(a.told().iter().any(blocked));
}

#[test]
fn what_waits_for_a_member_that_leaves_is_refused() {
    let mut a = sender(5);
    a.install(view(2, &[1, 3]));
    let refused = SendResult::Refused(SendRefusal::NotMember(id(2)));
    let is_it = |ev: &AppEvent| matches!(ev, AppEvent::Resolved { op: OpId(5), result } if *result == refused);
    assert!(a.told().iter().any(is_it));
}

#[test]
fn what_is_consumed_is_acknowledged_and_nothing_else() {
    let mut b = receiver(4);
    b.run(ROUND * 2);
    assert!(acks(&b.sent()).is_empty());
    let all = taken(&mut b);
    consume(&mut b, all[..2].to_vec());
    assert_eq!(acks(&b.sent()), [2]);
    consume(&mut b, all[2..3].to_vec());
    assert!(acks(&b.sent()).is_empty(), "below the threshold");
    b.run(ROUND);
    assert_eq!(acks(&b.sent()), [3], "in the next round");
    b.arrive(1, data4(2, "again", 4, 0));
    assert_eq!(acks(&b.sent()), [3], "a sender that repeats itself is told at once");
}

#[test]
fn a_slow_consumer_loses_and_doubles_nothing() {
    let mut g = new_group(&[1, 2]);
    for i in 0..12 {
        g[0].send(text(2, &i.to_string()), None);
    }
    let mut got = Vec::new();
    for _ in 0..30 {
        // Longer than an idle connection lives.
        pass_time(&mut g, Duration::from_secs(25), |_, _, _| false);
        for ev in g[1].told() {
            let AppEvent::Deliver(d) = ev else { continue };
            let bytes = |m: &Message| m.body.as_bytes().cloned().unwrap_or_default();
            got.extend(d.messages.iter().map(|m| String::from_utf8_lossy(&bytes(m)).into_owned()));
            consume(&mut g[1], d.consumed());
        }
    }
    assert_eq!(got, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(gauge(&g[0], "num_unacked_messages"), 0);
}

#[test]
fn a_connection_whose_messages_are_not_consumed_is_kept() {
    let mut b = receiver(2);
    b.run(Duration::from_secs(60));
    assert_eq!(gauge(&b, "num_receive_connections"), 1);
    let all = taken(&mut b);
    consume(&mut b, all);
    b.run(Duration::from_secs(60));
    assert_eq!(gauge(&b, "num_receive_connections"), 0);
}

#[test]
fn a_closed_connection_forgets_what_was_not_consumed() {
    let mut b = receiver(2);
    b.arrive(
        1,
        control(ProtId::UNICAST4, id(2), Flags::NO_FC, UnicastHeader::Close { conn_id: 0 }),
    );
    b.arrive(1, data4(2, "new", 1, 1));
    b.arrive(1, data4(2, "new", 2, 1));
    b.sent();
    let all = taken(&mut b);
    consume(&mut b, all[..2].to_vec());
    assert!(acks(&b.sent()).is_empty(), "those were of the old connection");
    consume(&mut b, all[2..].to_vec());
    assert_eq!(acks(&b.sent()), [2]);
}

#[test]
fn what_a_member_sent_before_it_left_is_acknowledged() {
    let mut b = receiver(2);
    b.sent();
    b.install(view(2, &[2]));
    b.run(ROUND);
    assert_eq!(acks(&b.sent()), [2]);
}

#[test]
fn messages_to_oneself_are_bounded_by_what_is_consumed() {
    let mut a = sender(0);
    for i in 0..6 {
        a.send(text(1, &i.to_string()), Some(OpId(i)));
    }
    assert_eq!(a.stack.tokens_outstanding(), 2);
    let all = taken(&mut a);
    assert_eq!(all.len(), 4);
    consume(&mut a, all);
    assert_eq!(a.stack.tokens_outstanding(), 0);
    assert_eq!(heard(&mut a), ["4", "5"]);
}

#[test]
fn the_end_of_the_stack_ends_every_wait_and_acknowledges_what_came() {
    let mut a = sender(6);
    a.arrive(2, data4(1, "x", 1, 0));
    a.sent();
    let now = a.now;
    a.stack.stop(now);
    assert_eq!((a.stack.tokens_outstanding(), acks(&a.sent())), (0, [1].into()));
}

#[test]
fn the_membership_speaks_to_strangers_without_a_bound() {
    let mut a = new_stranger(1);
    for _ in 0..6 {
        a.send(text(2, "join"), None);
    }
    assert_eq!(seqnos(&a.sent()).len(), 6);
}

#[test]
fn a_jgroups_sender_that_waits_may_send_a_message_now_and_then() {
    let mut b = receiver(4);
    b.run(Duration::from_secs(4));
    assert!(acks(&b.sent()).is_empty());
    b.run(Duration::from_secs(2));
    assert_eq!(acks(&b.sent()), [1], "or it would give the connection up");
    b.run(Duration::from_secs(60));
    assert_eq!(acks(&b.sent()), [2, 3, 4], "one window and no more");
    let all = taken(&mut b);
    consume(&mut b, all);
    b.run(Duration::from_secs(60));
    assert!(acks(&b.sent()).is_empty());
}
