//! While the sequencer stays.

use super::*;
use crate::OpId;
use crate::wire::{Encode, Hints};

#[test]
fn everybody_delivers_in_the_order_of_the_sequencer() {
    let mut g = group(3);
    // What 3 and 2 send crosses on the way; what 1 sends while it orders comes after both.
    cast(&mut g[2], "c1");
    cast(&mut g[1], "b1");
    cast(&mut g[2], "c2");
    exchange(&mut g, none);
    cast(&mut g[0], "a1");
    exchange(&mut g, none);
    let first = delivered(&mut g[0]);
    assert_eq!(first.len(), 4);
    assert_eq!(first.last(), Some(&(1, "a1".into())));
    assert_eq!(delivered(&mut g[1]), first);
    assert_eq!(delivered(&mut g[2]), first);
    assert!(g.iter().all(|m| gauge(m, "forward_table_size") == 0));
}

#[test]
fn a_member_delivers_its_own_message_when_it_comes_back() {
    let mut g = group(2);
    cast(&mut g[1], "b1");
    assert_eq!(texts(&mut g[1]), [""; 0]);
    assert_eq!(gauge(&g[1], "forward_table_size"), 1);
    exchange(&mut g, none);
    assert_eq!(delivered(&mut g[1]), [(2, "b1".into())]);
}

#[test]
fn the_forwarded_message_is_the_payload_as_jgroups_writes_it() {
    // "sequencer_forward" of the vectors, with number 1.
    let me = Uuid::new(0xa000_0000_0000_0002, 0xb000_0000_0000_0022);
    let coordinator = Uuid::new(0xa000_0000_0000_0001, 0xb000_0000_0000_0011);
    let mut m = member(2, me);
    m.install(Arc::new(View::new(1, coordinator, [coordinator, me])));
    cast(&mut m, "seq");
    let sent = m.sent();
    let payload = "000002000002b000000000000022a00000000000000200010013003d040101000000000\
                   3736571";
    let hex: String =
        sent[0].body.as_bytes().expect("a payload").iter().fold(String::new(), |mut hex, b| {
            use core::fmt::Write;
            write!(hex, "{b:02x}").expect("text");
            hex
        });
    assert_eq!(hex, payload);
    assert_eq!(sent[0].dest, Some(coordinator.into()));
}

#[test]
fn what_asks_for_no_order_and_what_goes_to_one_member_passes_by() {
    let mut g = group(2);
    for flags in [Flags::OOB, Flags::NO_TOTAL_ORDER, Flags::NO_RELIABILITY] {
        g[1].send(Wire::multicast(Body::bytes("past")).with_flags(flags), None);
    }
    g[1].send(Wire::unicast(tagged(1), Body::bytes("one")), None);
    let sent = g[1].sent();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|m| m.headers.get(ProtId::SEQUENCER).is_none()));
    g[0].arrive(2, Wire { src: Some(tagged(2).into()), ..sent[0].clone() });
    assert_eq!(texts(&mut g[0]), ["past"]);
}

#[test]
fn the_sequencer_multicasts_its_own_messages_as_they_are() {
    let mut g = group(2);
    cast(&mut g[0], "a1");
    let sent = g[0].sent();
    assert_eq!(header(&sent[0]), (SequencerKind::Bcast, 1, false));
    assert_eq!(sent[0].body, Body::bytes("a1"));
}

#[test]
fn messages_in_between_that_are_not_ordered_stay_where_they_belong() {
    let mut g = group(2);
    cast(&mut g[0], "a1");
    let ordered = g[0].sent().remove(0);
    let plain = Wire::multicast(Body::bytes("plain")).with_flags(Flags::NO_TOTAL_ORDER);
    let src = Some(tagged(1).into());
    let all = [ordered, plain].map(|m| Wire { src: src.clone(), ..m });
    g[1].arrive_all(1, all);
    assert_eq!(texts(&mut g[1]), ["a1", "plain"]);
}

#[test]
fn who_wants_no_copy_of_its_own_gets_none() {
    let mut g = group(2);
    for i in 0..2 {
        let mut m = Wire::multicast(Body::bytes("x"));
        m.hints |= Hints::DONT_LOOPBACK;
        g[i].send(m, None);
        exchange(&mut g, none);
        assert_eq!(delivered(&mut g[i]), []);
        assert_eq!(texts(&mut g[1 - i]), ["x"]);
        assert_eq!(gauge(&g[i], "forward_table_size"), 0);
    }
}

#[test]
fn alone_everything_comes_back_at_once() {
    let mut g = group(1);
    cast(&mut g[0], "a1");
    cast(&mut g[0], "a2");
    assert_eq!(texts(&mut g[0]), ["a1", "a2"]);
}

#[test]
fn a_call_ends_when_its_message_leaves() {
    let mut g = group(2);
    for m in &mut g {
        m.send(Wire::multicast(Body::bytes("x")), Some(OpId(1)));
        assert_eq!(m.stack.tokens_outstanding(), 0);
    }
}

#[test]
fn nothing_that_a_sequencer_can_send_does_harm() {
    let mut g = group(2);
    cast(&mut g[1], "b1");
    let forward = g[1].sent().remove(0);
    let payload = forward.body.as_bytes().expect("a payload").clone();
    let mut whole = Vec::new();
    forward.encode(&mut whole);
    for kind in [SequencerKind::Forward, SequencerKind::Flush, SequencerKind::WrappedBcast] {
        for cut in 0..payload.len() {
            let m = Wire { src: Some(tagged(1).into()), ..Wire::default() }
                .with_header(ProtId::SEQUENCER, Sequencer::header(kind, 1, false));
            let m = Wire { body: Body::bytes(payload.slice(..cut)), ..m };
            g[1].arrive(1, m.clone());
            g[1].arrive(1, Wire { dest: Some(tagged(2).into()), ..m });
        }
        let m = Wire { src: Some(tagged(1).into()), ..Wire::default() };
        g[1].arrive(1, m.with_header(ProtId::SEQUENCER, Sequencer::header(kind, 1, true)));
    }
    assert_eq!(delivered(&mut g[1]), []);
    // A sequencer that names a stranger as the sender, or one that is ordered twice.
    let stranger = Wire { src: Some(tagged(9).into()), ..Wire::default() }
        .with_header(ProtId::SEQUENCER, Sequencer::header(SequencerKind::WrappedBcast, 1, false));
    for (inner, times) in
        [(stranger.clone(), 1), (Wire { src: Some(tagged(2).into()), ..stranger }, 3)]
    {
        let mut bytes = Vec::new();
        inner.encode(&mut bytes);
        let m = Wire { src: Some(tagged(1).into()), body: Body::bytes(bytes), ..Wire::default() };
        let h = Sequencer::header(SequencerKind::WrappedBcast, 1, false);
        for _ in 0..times {
            g[1].arrive(1, m.clone().with_header(ProtId::SEQUENCER, h.clone()));
        }
    }
    assert_eq!(delivered(&mut g[1]).len(), 1);
    assert_eq!(gauge(&g[1], "duplicates"), 2);
}

#[test]
fn a_stopped_stack_owes_nobody() {
    let mut g = group(3);
    g[2].send(Wire::multicast(Body::bytes("x")), Some(OpId(1)));
    let now = g[2].now;
    g[2].stack.stop(now);
    assert_eq!(g[2].stack.tokens_outstanding(), 0);
    assert_eq!(gauge(&g[2], "forward_table_size"), 0);
}
