//! The window against a model, from starts at the limits of numbers, and its memory.

use super::*;
use crate::Rng;
use crate::wire::{Body, Message as Wire};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

const FROM: Uuid = Uuid::new(3 << 32, 3);
const NOTHING_KEPT: Limits = Limits { held: u64::MAX, kept: None };
const KEPT: Limits = Limits { held: u64::MAX, kept: Some(u64::MAX) };

fn message(seqno: i64, oob: bool) -> Message {
    let body = Body::bytes(seqno.to_be_bytes().to_vec());
    let flags = if oob { Flags::OOB } else { Flags::default() };
    Wire::multicast(body).with_flags(flags).into()
}

fn number(m: &Wire) -> i64 {
    let bytes = m.body.as_bytes().expect("every message here has bytes");
    i64::from_be_bytes(bytes[..].try_into().expect("and eight of them"))
}

/// Gives a message to the window and returns what is delivered because of it.
fn give(w: &mut Window, seqno: i64, oob: bool) -> Vec<i64> {
    let mut m = message(seqno, oob);
    let mut out = Vec::new();
    if w.take_in(seqno, &mut m, Time::ZERO, &mut Parking::default()) == Taken::Deliver {
        out.push(number(&m.wire));
    }
    while let Some(m) = w.release() {
        out.push(number(&m));
    }
    out
}

/// The same of `n` messages from `first` on: as a row where the window takes one.
fn give_row(w: &mut Window, first: i64, n: i64, oob: bool) -> Vec<i64> {
    let numbers = (0..n).map(|i| first.wrapping_add(i));
    if oob || n < 2 || !w.expects(first) {
        return numbers.flat_map(|n| give(w, n, oob)).collect();
    }
    let payloads: Vec<Bytes> = numbers.clone().map(|n| n.to_be_bytes().to_vec().into()).collect();
    w.take_row(FROM, ProtId::NAKACK2, first, &payloads, &mut Parking::default());
    for n in numbers.clone() {
        let kept = w.get(n).expect("what was delivered is kept");
        assert_eq!((number(&kept), kept.src), (n, Some(FROM.into())));
    }
    numbers.collect()
}

/// What a window must do, by offsets from its start so that nothing wraps.
#[derive(Default)]
struct Model {
    delivered: i64,
    low: i64,
    received: i64,
    here: BTreeMap<i64, bool>,
}

impl Model {
    fn give(&mut self, at: i64, oob: bool) -> Vec<i64> {
        if at <= self.delivered || self.here.contains_key(&at) {
            return Vec::new();
        }
        self.here.insert(at, oob);
        self.received = self.received.max(at);
        let mut out: Vec<i64> = oob.then_some(at).into_iter().collect();
        while let Some(was_oob) = self.here.get(&(self.delivered + 1)) {
            self.delivered += 1;
            if !was_oob {
                out.push(self.delivered);
            }
        }
        out
    }

    fn missing(&self) -> BTreeSet<i64> {
        (self.delivered + 1..self.received).filter(|n| !self.here.contains_key(n)).collect()
    }
}

fn missing(w: &Window) -> Vec<i64> {
    let mut out = Vec::new();
    let mut n = w.delivered();
    while n != w.received() {
        n = n.wrapping_add(1);
        if matches!(w.slots.get(n), None | Some(Slot::Empty)) {
            out.push(n);
        }
    }
    out
}

#[test]
fn a_window_does_what_the_model_does_from_any_start() {
    let starts = [0, (1 << 31) - 10, (1 << 32) - 3, i64::MAX - 100, -50, i64::MIN];
    for (round, start) in starts.iter().cycle().take(120).enumerate() {
        let mut rng = Rng::new(round as u64);
        let kept = rng.chance(0.5);
        let mut w = Window::new(*start, if kept { KEPT } else { NOTHING_KEPT });
        let mut model = Model::default();
        for _ in 0..400 {
            let at = model.delivered + rng.below(40) as i64 - 5;
            let oob = rng.chance(0.2);
            let n = if oob { 1 } else { 1 + rng.below(4) as i64 };
            let real: Vec<i64> = give_row(&mut w, start.wrapping_add(at), n, oob)
                .iter()
                .map(|n| n.wrapping_sub(*start))
                .collect();
            let expected: Vec<i64> = (at..at + n).flat_map(|at| model.give(at, oob)).collect();
            assert_eq!(real, expected, "round {round}, {n} numbers from {at}");
            if rng.chance(0.1) {
                let upto = model.low + rng.below(30) as i64;
                model.low = model.low.max(upto.min(model.delivered));
                w.purge(start.wrapping_add(upto));
            }
            let rel = |n: i64| n.wrapping_sub(*start);
            assert_eq!(rel(w.delivered()), model.delivered);
            assert_eq!(rel(w.received()), model.received);
            assert_eq!(rel(w.low()), if kept { model.low } else { model.delivered });
            let gone: BTreeSet<i64> = missing(&w).into_iter().map(rel).collect();
            assert_eq!(gone, model.missing());
            assert_eq!(w.gaps.count(), gone.len() as u64);
            let lows = if kept { model.low } else { model.delivered };
            let kept_now = model.here.iter().filter(|(n, oob)| **n > lows && (kept || !**oob));
            assert_eq!(w.messages(), kept_now.count() as u64);
        }
    }
}

#[test]
fn a_row_of_our_own_waits_for_its_copies_and_for_each_of_them() {
    let mut w = Window::for_sending();
    w.append(&mut message(1, false).wire, |_, _| {});
    let payloads: Vec<Bytes> = [2i64, 3, 4].map(|n| n.to_be_bytes().to_vec().into()).to_vec();
    assert_eq!(w.append_row(ProtId::NAKACK2, &payloads), 2);
    assert_eq!((w.received(), w.delivered(), w.messages()), (4, 0, 4));
    assert!((2..=4).all(|n| number(&w.get(n).expect("it is here")) == n));
    assert!(!w.mark_row_delivered(2, 4), "not before what came first");
    assert!(w.mark_delivered(1));
    assert!(!w.mark_row_delivered(2, 5), "not what was never sent");
    assert!(w.mark_row_delivered(2, 4));
    assert!(!w.mark_row_delivered(2, 4), "once");
    assert_eq!((w.delivered(), w.purge(9)), (4, Some(4)));
    assert_eq!((w.messages(), w.bytes()), (0, 0));
}

#[test]
fn a_drained_window_holds_no_bytes() {
    let mut w = Window::new(0, KEPT);
    for n in [2, 3, 1, 5] {
        give(&mut w, n, false);
    }
    assert_eq!((w.messages(), w.bytes()), (4, 32));
    give(&mut w, 4, true);
    assert_eq!(w.purge(99), Some(5), "never above what was delivered");
    assert_eq!((w.messages(), w.bytes()), (0, 0));
    assert!(w.slots.is_empty());
}

#[test]
fn a_number_at_the_limit_is_held_and_one_beyond_is_refused() {
    let mut w = Window::new(10, NOTHING_KEPT);
    let mut parking = Parking::default();
    let beyond = 10 + MAX_AHEAD + 1;
    let refused = w.take_in(beyond, &mut message(beyond, false), Time::ZERO, &mut parking);
    assert_eq!(refused, Taken::Refused(DropReason::OverLimit));
    let at = 10 + MAX_AHEAD;
    assert_eq!(w.take_in(at, &mut message(at, false), Time::ZERO, &mut parking), Taken::Held);
    assert_eq!(w.gaps.count(), MAX_AHEAD as u64 - 1);
}

#[test]
fn bytes_that_wait_are_bounded_and_the_next_in_turn_is_always_taken() {
    let mut w = Window::new(0, Limits { held: 256, kept: None });
    let mut parking = Parking::default();
    let mut offer =
        |w: &mut Window, n| w.take_in(n, &mut message(n, false), Time::ZERO, &mut parking);
    assert_eq!(offer(&mut w, 3), Taken::Held);
    assert_eq!(offer(&mut w, 4), Taken::Held);
    assert_eq!(offer(&mut w, 5), Taken::Refused(DropReason::OverLimit));
    assert_eq!(offer(&mut w, 1), Taken::Deliver);
}

#[test]
fn a_kept_message_does_not_hold_on_to_the_buffer_it_came_in() {
    let buffer = bytes::Bytes::from(alloc::vec![1u8; 60_000]);
    let mut w = Window::new(0, KEPT);
    for n in [1, 3] {
        let mut m = Message::from(Wire::multicast(Body::bytes(buffer.slice(0..100))));
        w.take_in(n, &mut m, Time::ZERO, &mut Parking::default());
    }
    assert!(buffer.is_unique(), "the messages given away are gone, the kept ones are copies");
}

#[test]
fn a_kept_row_does_not_hold_on_to_its_buffer_and_large_payloads_are_not_copied() {
    let buffer = Bytes::from(alloc::vec![1u8; 60_000]);
    let row = |n: usize| [buffer.slice(0..n), buffer.slice(n..2 * n)];
    let mut w = Window::new(0, KEPT);
    let mut parking = Parking::default();
    w.take_row(FROM, ProtId::NAKACK2, 1, &row(100), &mut parking);
    assert!(buffer.is_unique(), "copies are kept");
    w.take_row(FROM, ProtId::NAKACK2, 3, &row(5_000), &mut parking);
    let kept = w.get(4).and_then(|m| m.body.as_bytes().cloned()).expect("it is kept");
    assert_eq!(kept.as_ptr(), buffer[5_000..].as_ptr());
}

#[test]
fn the_oldest_delivered_messages_go_when_there_is_no_room_to_keep_them() {
    let mut w = Window::new(0, Limits { held: u64::MAX, kept: Some(10 * LEAST_COST) });
    for n in 1..=25 {
        give(&mut w, n, false);
    }
    assert_eq!((w.messages(), w.evicted(), w.low()), (10, 15, 15));
    assert!(w.get(15).is_none() && w.get(16).is_some());
}

#[test]
fn an_announcement_opens_a_gap_up_to_the_announced_number() {
    let mut w = Window::new(4, NOTHING_KEPT);
    w.note_highest(6, Time::ZERO);
    w.note_highest(5, Time::ZERO);
    assert_eq!((w.gaps.count(), w.received(), w.known()), (2, 4, 6));
    give(&mut w, 6, false);
    give(&mut w, 5, false);
    assert!(w.gaps.is_empty());
    w.note_highest(i64::MAX, Time::ZERO);
    assert_eq!(w.known(), 6 + MAX_AHEAD, "a lie is bounded");
}

#[test]
fn an_acknowledgement_frees_what_was_sent_and_never_more() {
    let mut w = Window::for_sending();
    for _ in 0..40 {
        w.append(&mut message(0, false).wire, |_, _| {});
    }
    assert!(w.acknowledge(17));
    assert!(!w.acknowledge(17) && !w.acknowledge(3) && !w.acknowledge(41));
    assert_eq!((w.messages(), w.low(), w.received()), (23, 17, 40));
    assert!(w.get(17).is_none() && w.get(18).is_some());
}

#[test]
fn a_window_that_replaces_another_knows_what_was_delivered_out_of_turn() {
    let limits = Limits { held: u64::MAX, kept: Some(u64::MAX) };
    let mut old = Window::new(0, limits);
    give(&mut old, 5, true);
    give(&mut old, 6, false);
    let mut new = Window::new(4, limits);
    new.take_over(old, Time::ZERO);
    assert_eq!((new.delivered(), new.known()), (5, 6));
    assert!(give(&mut new, 5, true).is_empty());
    assert_eq!(give(&mut new, 6, false), [6]);
}
