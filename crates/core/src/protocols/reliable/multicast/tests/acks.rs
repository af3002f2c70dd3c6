//! NAKACK4: acknowledgements empty the sender's window and make it wait (S0-1, S0-16, S0-20).

use super::*;
use crate::event::Room;
use crate::testkit_cluster::tagged;
use crate::{Command, Consumed, OpId, SendRefusal, SendResult};

fn config() -> Nakack4Config {
    Nakack4Config { capacity: 8, ack_threshold: 2, use_mcast_xmit: false, ..Default::default() }
}

fn new_member(me: u64, all: &[u64], config: Nakack4Config) -> Solo {
    let layer = Box::new(ReliableMulticast::new(config)) as Box<dyn Protocol>;
    let mut s = Solo::new(me, [layer].into());
    s.install(view(1, all));
    s.event_down(Event::BecomeServer);
    s
}

fn new_group(all: &[u64]) -> Vec<Solo> {
    all.iter().map(|m| new_member(*m, all, config())).collect()
}

fn nak4(m: &wire::Message) -> Option<&NakAckHeader> {
    match m.headers.get(ProtId::NAKACK4) {
        Some(Header::NakAck(h)) => Some(h),
        _ => None,
    }
}

fn numbers(sent: &[wire::Message]) -> Vec<i64> {
    let number = |m: &wire::Message| match nak4(m) {
        Some(NakAckHeader::Msg(n)) => Some(*n),
        _ => None,
    };
    sent.iter().filter_map(number).collect()
}

fn acks(sent: &[wire::Message]) -> Vec<i64> {
    let ack = |m: &wire::Message| match nak4(m) {
        Some(NakAckHeader::Ack(n)) => Some(*n),
        _ => None,
    };
    sent.iter().filter_map(ack).collect()
}

fn msg(n: i64) -> wire::Message {
    text(&n.to_string()).with_header(ProtId::NAKACK4, Header::NakAck(NakAckHeader::Msg(n)))
}

fn ack(n: i64) -> wire::Message {
    let m = wire::Message::unicast(id(1), Body::Empty).with_flags(Flags::OOB);
    m.with_header(ProtId::NAKACK4, Header::NakAck(NakAckHeader::Ack(n)))
}

/// What the application of `s` was given since the last call, and not consumed yet.
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

fn consume_all(s: &mut Solo) {
    let all = taken(s);
    consume(s, all);
}

/// Member 1 of a group of two, with so many multicasts sent and its own copies consumed.
fn sender(n: i64) -> Solo {
    let mut a = new_member(1, &[1, 2], config());
    for i in 1..=n {
        a.send(text(&i.to_string()), Some(OpId(i as u64)));
        consume_all(&mut a);
    }
    a
}

fn room(s: &Solo) -> Room {
    match s.ask(&Query::Room { dest: None, oob: false, bytes: 1 }) {
        Some(Answer::Room(r)) => r,
        other => panic!("{other:?}"),
    }
}

/// The header of a message as it travels, without the protocol's number.
fn hex(m: &wire::Message) -> String {
    let mut out = Vec::new();
    let header = m.headers.get(ProtId::NAKACK4).expect("it is ours");
    header.encode(ProtId::NAKACK4, &mut out);
    out.iter().map(|b| alloc::format!("{b:02x}")).collect()
}

#[test]
fn headers_have_the_bytes_of_jgroups() {
    let mut a = sender(0);
    for n in 1..=5 {
        a.send(text("x"), None);
        a.arrive(2, ack(n));
        consume_all(&mut a);
    }
    let sent = a.sent();
    assert_eq!(hex(&sent[4]), "0063010105");
    a.send(text("lost"), None);
    a.arrive(2, msg(1));
    a.arrive(2, msg(2));
    consume_all(&mut a);
    let sent = a.sent();
    assert_eq!(hex(&sent[0]), "0063010106");
    assert_eq!((hex(&sent[1]), sent[1].flags), ("0063050102".into(), Flags::OOB));
    assert_eq!(sent[1].dest, Some(id(2).into()));
    a.run(MS * 20);
    assert_eq!(hex(&a.sent()[0]), "0063040106");
}

#[test]
fn a_full_window_makes_the_sender_wait_in_order() {
    let mut a = sender(11);
    assert_eq!(numbers(&a.sent()), (1..=8).collect::<Vec<_>>());
    assert_eq!(a.stack.tokens_outstanding(), 3);
    assert_eq!((room(&a).immediate, room(&a).limited_by), (false, [id(2)].into()));
    a.arrive(2, ack(2));
    let sent = a.sent();
    assert_eq!(numbers(&sent), [9, 10]);
    assert_eq!(sent[0].body.as_bytes().map(|b| b.to_vec()), Some(b"9".to_vec()));
    a.arrive(2, ack(8));
    assert_eq!(numbers(&a.sent()), [11]);
    assert_eq!((windows(&a, 1).low, a.stack.tokens_outstanding()), (8, 0));
}

#[test]
fn after_a_second_a_waiting_sender_hears_who_it_waits_for() {
    let mut a = new_member(1, &[1, 2, 3], config());
    for i in 1..=9 {
        a.send(text("x"), Some(OpId(i)));
        consume_all(&mut a);
    }
    a.arrive(3, ack(5));
    a.run(Duration::from_secs(1));
    let blocked = a.told().into_iter().find_map(|ev| match ev {
        AppEvent::Blocked { op, by, .. } => Some((op, by)),
        _ => None,
    });
    assert_eq!(blocked, Some((Some(OpId(9)), [id(2)].into())));
}

#[test]
fn a_sender_that_does_not_consume_waits_for_itself() {
    let mut a = new_member(1, &[1], config());
    for i in 1..=9 {
        a.send(text("x"), Some(OpId(i)));
    }
    assert_eq!(room(&a).limited_by, [id(1)]);
    let taken = taken(&mut a);
    consume(&mut a, taken);
    assert_eq!(numbers(&a.sent()).len(), 9);
    consume_all(&mut a);
    assert_eq!(windows(&a, 1).messages, 0);
}

#[test]
fn a_member_that_leaves_holds_up_nobody() {
    let mut a = sender(9);
    a.sent();
    a.install(view(2, &[1]));
    assert_eq!(numbers(&a.sent()), [9]);
    consume_all(&mut a);
    assert_eq!(windows(&a, 1).messages, 0);
}

#[test]
fn a_joiner_holds_up_what_it_may_lack_until_it_speaks_up() {
    let mut a = sender(4);
    a.install(view(2, &[1, 2, 3]));
    a.arrive(2, ack(4));
    assert_eq!(windows(&a, 1).messages, 4);
    // It missed everything: the announcement tells it.
    a.sent();
    a.run(ROUND);
    let announced = |m: &wire::Message| nak4(m) == Some(&NakAckHeader::HighestSeqno(4));
    assert!(a.sent().iter().any(announced));
    a.arrive(3, ack(4));
    assert_eq!(windows(&a, 1).messages, 0);
    a.sent();
    a.run(ROUND * 10);
    assert!(a.sent().is_empty(), "and then the wire is quiet");
}

#[test]
fn acknowledgements_of_strangers_and_of_the_future_count_for_nothing() {
    let mut a = sender(3);
    a.arrive(9, ack(3));
    assert_eq!(a.stack.dropped(DropReason::NotAMember), 1);
    a.arrive(2, ack(4));
    assert_eq!(a.stack.dropped(DropReason::Malformed), 1);
    a.arrive(2, ack(2));
    a.arrive(2, ack(1));
    assert_eq!(windows(&a, 1).low, 2);
    assert_eq!(gauge(&a, "num_unacked_messages"), 1);
}

#[test]
fn what_is_consumed_is_acknowledged_and_nothing_else() {
    let mut b = new_member(2, &[1, 2], config());
    for n in 1..=6 {
        b.arrive(1, msg(n));
    }
    b.run(ROUND * 2);
    assert!(acks(&b.sent()).is_empty());
    let all = taken(&mut b);
    assert_eq!(all.len(), 6);
    consume(&mut b, all[..2].to_vec());
    assert_eq!(acks(&b.sent()), [2]);
    consume(&mut b, all[2..3].to_vec());
    assert!(acks(&b.sent()).is_empty(), "below the threshold");
    b.run(ROUND);
    assert_eq!(acks(&b.sent()), [3], "in the next round");
    assert_eq!(windows(&b, 1).messages, 0, "receivers keep nothing");
}

#[test]
fn messages_of_the_membership_pass_a_full_window_and_are_never_counted() {
    let mut a = sender(9);
    a.sent();
    let header = Header::Gms(Box::new(wire::header::GmsHeader {
        kind: wire::header::GmsKind::View,
        member: None,
        merge_id: None,
        merge_rejected: false,
    }));
    a.send(text("view").with_header(ProtId::GMS, header.clone()), None);
    assert_eq!(numbers(&a.sent()), [9]);
    let mut b = new_member(2, &[1, 2], config());
    b.arrive_all(1, [1, 2].map(|n| msg(n).with_header(ProtId::GMS, header.clone())));
    assert_eq!(acks(&b.sent()), [2]);
}

#[test]
fn a_message_that_must_not_wait_is_refused_with_the_reason() {
    let mut a = sender(8);
    let mut m = text("now");
    m.hints |= Hints::DONT_BLOCK;
    a.told();
    a.send(m, Some(OpId(99)));
    let told = a.told();
    let refusal = SendRefusal::WouldBlock { by: [id(2)].into() };
    let expected = SendResult::Refused(refusal);
    let is_it = |ev: &AppEvent| matches!(ev, AppEvent::Resolved { op: OpId(99), result } if *result == expected);
    assert!(told.iter().any(is_it), "{told:?}");
}

#[test]
fn a_waiting_message_can_be_taken_back() {
    let mut a = sender(10);
    a.sent();
    a.event_down(Event::Withdraw { op: OpId(9), expired: true });
    let told = a.told();
    let not_sent = |ev: &AppEvent| {
        matches!(ev, AppEvent::Resolved { op: OpId(9), result: SendResult::Refused(SendRefusal::NotSent { by }) }
            if by[..] == [id(2)])
    };
    assert!(told.iter().any(not_sent), "{told:?}");
    a.arrive(2, ack(8));
    let sent = a.sent();
    assert_eq!(sent[0].body.as_bytes().map(|b| b.to_vec()), Some(b"10".to_vec()));
}

#[test]
fn the_end_of_the_stack_ends_every_wait() {
    let mut a = sender(10);
    let now = a.now;
    a.stack.stop(now);
    assert_eq!(a.stack.tokens_outstanding(), 0);
}

#[test]
fn a_call_that_waits_is_given_one_window_ahead() {
    let mut b = new_member(2, &[1, 2], config());
    for n in 1..=8 {
        b.arrive(1, msg(n));
    }
    b.sent();
    b.stack.inject_change(crate::GroupChange::CallsPending(true));
    b.event_down(Event::CallsPending(true));
    assert_eq!(acks(&b.sent()), [8]);
    for n in 9..=16 {
        b.arrive(1, msg(n));
    }
    b.run(ROUND * 2);
    assert!(acks(&b.sent()).iter().all(|n| *n == 8), "one window and no more");
    // What was given ahead is made up for first.
    b.stack.inject_change(crate::GroupChange::CallsPending(false));
    let all = taken(&mut b);
    consume(&mut b, all[..8].to_vec());
    assert!(acks(&b.sent()).is_empty());
    consume(&mut b, all[8..10].to_vec());
    assert_eq!(acks(&b.sent()), [10]);
}

#[test]
fn a_lost_acknowledgement_is_repeated_when_the_sender_announces() {
    let mut g = new_group(&[1, 2]);
    let mut lost = 0;
    g[0].send(text("x"), None);
    let mut lose = |_, _, m: &wire::Message| {
        let is_ack = matches!(nak4(m), Some(NakAckHeader::Ack(_)));
        lost += u32::from(is_ack);
        is_ack && lost < 3
    };
    exchange(&mut g, &mut lose);
    g.iter_mut().for_each(consume_all);
    pass_time(&mut g, ROUND * 5, &mut lose);
    assert_eq!(windows(&g[0], 1).messages, 0);
}

#[test]
fn a_lost_message_is_asked_of_its_sender_alone() {
    let mut g = new_group(&[1, 2, 3]);
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    let mut asked = Vec::new();
    pass_time(&mut g, ROUND * 4, |_, to, m| {
        if let Some(NakAckHeader::XmitReq(_)) = nak4(m) {
            asked.push(to);
            return asked.len() < 4;
        }
        to == id(3) && matches!(nak4(m), Some(NakAckHeader::Msg(2)))
    });
    assert_eq!(heard(&mut g[2]), ["1", "2", "3"]);
    assert!(asked.iter().all(|to| *to == id(1)));
}

#[test]
fn nothing_is_acknowledged_or_dropped_between_a_digest_and_its_view() {
    let mut a = sender(2);
    a.event_down(Event::SuspendStable(Duration::from_secs(10)));
    a.arrive(2, ack(2));
    a.arrive_all(2, (1..=4).map(msg));
    consume_all(&mut a);
    a.run(ROUND * 2);
    assert!(acks(&a.sent()).is_empty());
    assert_eq!(windows(&a, 1).messages, 2);
    a.event_down(Event::ResumeStable);
    assert_eq!(windows(&a, 1).messages, 0);
    assert_eq!(acks(&a.sent()), [4]);
}

#[test]
fn a_suspension_that_nobody_ends_ends_by_itself() {
    let mut a = sender(9);
    a.event_down(Event::SuspendStable(Duration::from_secs(10)));
    a.arrive(2, ack(8));
    a.sent();
    a.run(Duration::from_secs(12));
    assert!(numbers(&a.sent()).contains(&9));
}

#[test]
fn members_that_count_bytes_bound_them_too() {
    let config = Nakack4Config { capacity_bytes: ByteSize(1000), ..config() };
    let layer = Box::new(ReliableMulticast::new(config)) as Box<dyn Protocol>;
    let mut a = Solo::topped(
        1,
        tagged(1),
        [layer, Box::new(crate::protocols::entry::Entry::new(Default::default()))].into(),
    );
    let both = crate::View::new(1, tagged(1), [tagged(1), tagged(2)]);
    a.install(alloc::sync::Arc::new(both));
    for _ in 0..3 {
        a.send(wire::Message::multicast(Body::bytes(alloc::vec![0; 400])), None);
    }
    assert_eq!(numbers(&a.sent()), [1, 2]);
}

#[test]
fn with_dynamic_buffers_nobody_waits() {
    let config = Nakack4Config { dynamic_buffers: true, ..config() };
    let mut a = new_member(1, &[1, 2], config);
    for _ in 0..20 {
        a.send(text("x"), None);
    }
    assert_eq!(numbers(&a.sent()).len(), 20);
}

#[test]
fn own_messages_without_a_copy_count_as_consumed() {
    let mut a = sender(0);
    for _ in 0..8 {
        let mut m = text("x");
        m.hints |= Hints::DONT_LOOPBACK;
        a.send(m, None);
    }
    a.arrive(2, ack(8));
    assert_eq!(windows(&a, 1).messages, 0);
}

#[test]
fn a_joiner_acknowledges_from_its_digest_on() {
    let layer = Box::new(ReliableMulticast::new(config())) as Box<dyn Protocol>;
    let mut b = Solo::new(2, [layer].into());
    b.event_down(Event::SetDigest(pairs(&[(1, 5, 5), (2, 0, 0)])));
    b.install(view(2, &[1, 2]));
    b.event_down(Event::BecomeServer);
    b.arrive(1, msg(5));
    b.arrive(1, msg(6));
    consume_all(&mut b);
    assert!(acks(&b.sent()).is_empty());
    b.run(ROUND);
    assert_eq!(acks(&b.sent()), [6]);
    // One that knows nothing of us is told what the digest said.
    let header = Header::NakAck(NakAckHeader::HighestSeqno(6));
    let m = wire::Message::multicast(Body::Empty).with_flags(Flags::OOB);
    b.arrive(1, m.with_header(ProtId::NAKACK4, header));
    b.run(ROUND);
    assert_eq!(acks(&b.sent()), [6]);
}
