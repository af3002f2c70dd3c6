//! Fragmentation must not be noticed, except by memory and packet sizes.

use super::*;
use crate::attributes::ByteSize;
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::testkit::{Solo, id, view};
use crate::testkit_cluster::{Cluster, tagged};
use crate::wire::header::FragHeader;
use crate::wire::{Body, Flags};
use crate::{OpId, Pool, Rng, Time, Uuid};
use alloc::boxed::Box;
use bytes::Bytes;
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn frag2(size: u64) -> Box<dyn Protocol> {
    Box::new(Frag2::new(Frag2Config { frag_size: ByteSize(size) }))
}

fn cluster(credit: u64, frag_size: u64) -> Cluster {
    let max_credits = ByteSize(credit);
    let (mfc, ufc) = (
        MfcConfig { max_credits, ..MfcConfig::default() },
        UfcConfig { max_credits, ..UfcConfig::default() },
    );
    Cluster::new(2, &mfc, &ufc, frag_size)
}

/// Bytes that differ everywhere.
fn pattern(n: usize) -> Bytes {
    (0..n).map(|i| (i * 31 + i / 256) as u8).collect::<Vec<u8>>().into()
}

fn fragments(m: wire::Message, size: usize) -> Vec<wire::Message> {
    split::fragments(m, 7, size)
}

#[test]
fn a_message_at_the_limit_stays_whole_and_one_beyond_is_cut() {
    let mut s = Solo::new(1, [frag2(100)].into());
    s.install(view(1, &[1, 2]));
    s.send(wire::Message::unicast(id(2), Body::bytes(pattern(100))), None);
    s.send(wire::Message::unicast(id(2), Body::bytes(pattern(101))), None);
    let lengths: Vec<usize> = s.sent().iter().map(wire::Message::length).collect();
    assert_eq!(lengths, [100, 100, 1]);
}

#[test]
fn slices_share_the_buffer_and_only_the_first_carries_the_headers() {
    let payload = pattern(250);
    let rsvp =
        crate::wire::header::RsvpHeader { kind: crate::wire::header::RsvpKind::Request, id: 3 };
    let m = wire::Message::multicast(Body::bytes(payload.clone()))
        .with_flags(Flags::OOB)
        .with_header(ProtId::RSVP, Header::Rsvp(rsvp));
    let list = fragments(m, 100);
    assert_eq!(list.len(), 3);
    for (i, f) in list.iter().enumerate() {
        let part = f.body.as_bytes().expect("a byte payload");
        assert_eq!(part.as_ptr(), payload[i * 100..].as_ptr());
        assert_eq!(f.headers.get(ProtId::RSVP).is_some(), i == 0);
        assert_eq!(f.flags, Flags::OOB);
    }
}

#[test]
fn the_send_ends_when_the_first_fragment_is_admitted() {
    let mut c = cluster(100_000, 10_000);
    c.consuming[1] = false;
    let op = c.unicast(0, 1, 1_000_000, 1);
    c.run(SECOND);
    assert!(c.sent(0, op));
    assert!(c.members[0].stack.tokens_outstanding() == 0);
}

#[test]
fn a_message_larger_than_the_credit_arrives() {
    let mut c = cluster(100_000, 10_000);
    c.cast(0, 1_000_000, 1);
    c.unicast(0, 1, 1_000_000, 2);
    c.run(SECOND);
    let sizes: Vec<(usize, u8)> = c.delivered[1].iter().map(|(_, b)| (b.len(), b[0])).collect();
    assert_eq!(sizes, [(1_000_000, 1), (1_000_000, 2)]);
    assert_eq!(c.delivered[0].len(), 1, "the own copy");
}

#[test]
fn a_stalled_application_holds_one_large_message_and_one_credit() {
    let mut c = cluster(100_000, 10_000);
    c.consuming[1] = false;
    for fill in 0..5 {
        c.unicast(0, 1, 1_000_000, fill);
    }
    c.run(20 * SECOND);
    let whole: u64 = c.delivered[1].iter().map(|(_, b)| b.len() as u64).sum();
    let held = whole + c.gauge(1, "FRAG2", "reassembly_bytes");
    assert_eq!(whole, 1_000_000);
    assert!(held <= 1_100_000, "{held}");
    // Taking it lets exactly one more in.
    c.take_one(1);
    c.run(SECOND);
    assert_eq!(c.delivered[1].len(), 2);
    c.resume(1);
    c.run(10 * SECOND);
    assert_eq!(c.delivered[1].len(), 5);
}

#[test]
fn credit_is_whole_again_after_large_messages() {
    let mut c = cluster(100_000, 10_000);
    for fill in 0..3 {
        c.unicast(0, 1, 333_333, fill);
    }
    c.run(SECOND);
    let (a, b) = (c.account(0, Pool::Unicast, 1), c.account(1, Pool::Unicast, 0));
    assert_eq!((b.unconsumed, a.balance + b.ungranted), (0, 100_000));
}

#[test]
fn what_does_not_leave_is_withdrawn_whole() {
    let mut c = cluster(100_000, 10_000);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    c.step();
    // The first message is complete and untaken, so the second gets one credit and waits.
    c.unicast(0, 1, 150_000, 2);
    let op = c.unicast(0, 1, 500_000, 3);
    c.step();
    assert_eq!(c.result(0, op), None);
    c.cancel(0, op);
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::Withdrawn));
    assert!(c.gauge(0, "UFC", "waiting_bytes") <= 150_000);
    c.resume(1);
    c.run(10 * SECOND);
    assert_eq!(c.delivered[1].len(), 2);
}

#[test]
fn a_refused_try_sends_no_fragment() {
    let mut c = cluster(100_000, 10_000);
    c.consuming[1] = false;
    c.unicast(0, 1, 10_000, 1);
    c.unicast(0, 1, 85_000, 1);
    let to = tagged(2);
    let m = wire::Message::unicast(to, Body::bytes(pattern(50_000)));
    let op = c.send_how(0, m, |s| s.try_only = true);
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::WouldBlock { by: [to].into() }));
    assert_eq!(c.account(0, Pool::Unicast, 1).waiting, 0);
}

#[test]
fn other_message_types_travel_encoded_and_arrive_as_they_were() {
    let mut c = cluster(100_000, 100);
    let part = |n: usize| wire::Message { body: Body::bytes(pattern(n)), ..<_>::default() };
    let m = wire::Message::multicast(Body::Composite([part(150), part(90)].into()));
    c.consuming[1] = false;
    c.send(0, m);
    c.step();
    let got = &c.unread[1][0].messages[0].wire;
    let Body::Composite(parts) = &got.body else { panic!("a composite message was sent") };
    let lengths: Vec<usize> = parts.iter().map(wire::Message::length).collect();
    assert_eq!(lengths, [150, 90]);
    assert_eq!(got.src.as_ref().and_then(wire::Address::uuid), Some(tagged(1)));
}

#[test]
fn the_whole_takes_the_place_of_its_last_fragment() {
    let mut s = Solo::new(1, [frag2(100)].into());
    s.install(view(1, &[1, 2]));
    let small = |b: u8| wire::Message::multicast(Body::bytes([b].to_vec()));
    let mut frame: Vec<wire::Message> = [small(1), small(2)].into();
    frame.extend(fragments(wire::Message::multicast(Body::bytes([3].repeat(250))), 100));
    frame.push(small(4));
    s.arrive_all(2, frame);
    let order: Vec<u8> = s.delivered().iter().map(|(_, b)| b[0]).collect();
    assert_eq!(order, [1, 2, 3, 4]);
}

#[test]
fn fragments_in_any_order_make_the_message() {
    let mut rng = Rng::new(5);
    for _ in 0..50 {
        let mut s = Solo::new(1, [frag2(100)].into());
        s.install(view(1, &[1, 2]));
        let m = wire::Message::multicast(Body::bytes(pattern(1234))).with_flags(Flags::OOB);
        let mut list = fragments(m, 100);
        rng.shuffle(&mut list);
        for f in list {
            s.arrive(2, f);
        }
        assert_eq!(s.delivered(), [(id(2), pattern(1234))]);
    }
}

#[test]
fn nonsense_is_dropped_and_counted() {
    let mut s = Solo::new(1, [frag2(100)].into());
    s.install(view(1, &[1, 2]));
    let with = |frag: i32, total: i32| {
        let h = FragHeader { id: 9, frag, total, needs_deserialization: true, original_type: 0 };
        wire::Message::multicast(Body::bytes(&b"xx"[..]))
            .with_header(ProtId::FRAG2, Header::Frag(h))
    };
    for m in [with(-1, 2), with(2, 2), with(0, 0), with(0, i32::MAX), with(1, 3)] {
        s.arrive(2, m);
    }
    assert_eq!(s.stack.dropped(DropReason::Malformed), 4);
    s.arrive(2, with(0, i32::MAX));
    assert_eq!(s.stack.dropped(DropReason::Duplicate), 1);
    assert!(s.delivered().is_empty());
}

#[test]
fn an_announced_size_costs_no_memory() {
    let mut a = Assembler::default();
    let h = FragHeader {
        id: 1,
        frag: 0,
        total: i32::MAX,
        needs_deserialization: false,
        original_type: 0,
    };
    let m = Message::from(wire::Message::multicast(Body::bytes(pattern(60_000))));
    let _ = a.add(id(2), (true, false), h, m, None, &mut Vec::new());
    assert_eq!(a.bytes(), 60_000);
}

#[test]
fn unfinished_messages_go_with_their_sender() {
    let mut s = Solo::new(1, [frag2(100)].into());
    s.install(view(1, &[1, 2]));
    let list = fragments(wire::Message::multicast(Body::bytes(pattern(250))), 100);
    s.arrive(2, list[0].clone());
    s.install(view(2, &[1]));
    let mut left = 1;
    s.stack.inspect(&mut |_, n, v| {
        if n == "reassembly_messages" {
            left = v;
        }
    });
    assert_eq!(left, 0);
}

/// What member 1 gets from each sender and class, in order: class and number, then filling.
fn deliveries(seed: u64, frag_size: u64) -> Vec<(Uuid, Bytes)> {
    let mut rng = Rng::new(seed);
    let mut c = cluster(20_000, frag_size);
    for n in 0..80u8 {
        let from = rng.below(2) as usize;
        let (to_all, oob) = (rng.chance(0.5), rng.chance(0.2));
        let mut payload = Vec::from([u8::from(to_all) * 2 + u8::from(oob), n]);
        payload.resize(rng.between(2, 5000) as usize, n);
        let dest = (!to_all).then(|| c.id(1 - from).into());
        let mut m = wire::Message { dest, body: Body::bytes(payload), ..<_>::default() };
        if oob {
            m.flags |= Flags::OOB;
        }
        if to_all && rng.chance(0.2) {
            m.hints |= Hints::DONT_LOOPBACK;
        }
        if rng.chance(0.2) {
            m.flags |= Flags::NO_FC;
        }
        c.send(from, m);
        if rng.chance(0.1) {
            c.step();
        }
    }
    c.run(20 * SECOND);
    // The order between senders and classes is free; so is that of exempt messages, which are few.
    let mut all = c.delivered[1].clone();
    all.sort_by_key(|(m, b)| (*m, b[0]));
    all
}

#[test]
fn deliveries_are_the_same_with_and_without_fragmentation() {
    for seed in 0..20 {
        let sorted = |mut l: Vec<(Uuid, Bytes)>| {
            l.sort_by_key(|(m, b)| (*m, b[0], b[1]));
            l
        };
        let (cut, whole) = (deliveries(seed, 700), deliveries(seed, 10_000));
        assert!(sorted(cut) == sorted(whole), "seed {seed}");
    }
}

#[test]
fn regular_messages_keep_their_order_whatever_their_size() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut c = cluster(20_000, 700);
        for n in 0..60u8 {
            let size = rng.between(1, 5000) as usize;
            c.unicast(0, 1, size, n);
        }
        c.run(20 * SECOND);
        let order: Vec<u8> = c.delivered[1].iter().map(|(_, b)| b[0]).collect();
        assert_eq!(order, (0..60).collect::<Vec<u8>>(), "seed {seed}");
    }
}

#[test]
fn interleaved_large_messages_do_not_hold_each_other_up() {
    // Two threads of a Java sender: the fragments of two messages alternate. Neither is complete,
    // so both are paid for.
    let mut a = Assembler::default();
    let receipt = crate::Receipt { pool: Pool::Unicast, epoch: 1, bytes: 100, ..<_>::default() };
    let mut settled = Vec::new();
    for frag in 0..2 {
        for id in [1, 2] {
            let (needs_deserialization, original_type) = (false, 0);
            let f = FragHeader { id, frag, total: 3, needs_deserialization, original_type };
            let mut m = Message::from(wire::Message::multicast(Body::bytes(pattern(100))));
            m.receipt = receipt;
            let _ = a.add(tagged(1), (false, false), f, m, None, &mut settled);
        }
    }
    assert_eq!(settled.iter().map(|c| c.bytes).sum::<u64>(), 400);
}

#[test]
fn behind_an_untaken_message_fragments_are_paid_for_when_it_is_taken() {
    let mut a = Assembler::default();
    let receipt = crate::Receipt { pool: Pool::Unicast, epoch: 1, bytes: 100, ..<_>::default() };
    let mut settled = Vec::new();
    let mut taken = None;
    for (id, frag) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let (needs_deserialization, original_type) = (false, 0);
        let f = FragHeader { id, frag, total: 1 + id as i32, needs_deserialization, original_type };
        let mut m = Message::from(wire::Message::multicast(Body::bytes(pattern(100))));
        m.receipt = receipt;
        if let Outcome::Complete(whole) = a.add(tagged(1), (false, false), f, m, None, &mut settled)
        {
            taken = whole.receipt.reassembled;
        }
    }
    let sum = |l: &[Consumed]| l.iter().map(|c| c.bytes).sum::<u64>();
    assert_eq!(sum(&settled), 100, "the first fragment; the last one's receipt is the whole's");
    let after = a.taken(tagged(1), taken.expect("one is complete"));
    assert_eq!(sum(&after), 200);
}

#[test]
fn a_deadline_before_admission_withdraws_and_after_it_changes_nothing() {
    let mut c = cluster(100_000, 10_000);
    c.consuming[1] = false;
    let to = tagged(2);
    let m = || wire::Message::unicast(to, Body::bytes(pattern(300_000)));
    let deadline = Some(Time::ZERO + SECOND);
    let first: OpId = c.send_how(0, m(), |s| s.deadline = deadline);
    let second = c.send_how(0, m(), |s| s.deadline = deadline);
    let third = c.send_how(0, m(), |s| s.deadline = deadline);
    c.run(2 * SECOND);
    assert!(c.sent(0, first));
    assert!(c.sent(0, second));
    assert_eq!(c.refusal(0, third), Some(&SendRefusal::NotSent { by: [to].into() }));
    c.resume(1);
    c.run(5 * SECOND);
    assert_eq!(c.delivered[1].len(), 2);
}
