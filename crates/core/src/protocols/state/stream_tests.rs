//! States in parts: what travels, and who waits for whom.

use super::room::{RoomPayload, Wish};
use super::*;
use crate::app::{
    AnswerState, FetchState, StateAnswer, StateFailure, StateOutcome, TakeState, Taken,
};
use crate::attributes::ByteSize;
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::reliable::{Nakack2Config, ReliableMulticast};
use crate::testkit::{Solo, id};
use crate::testkit_cluster::tagged;
use crate::wire::header::StreamingHeader;
use crate::wire::{Body, Flags, Header, ProtId, SeqnoPair};
use crate::{AppEvent, Command, OpId, Protocol, SendResult, View};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use bytes::Bytes;
use core::time::Duration;

const OP: OpId = OpId(7);
const SECOND: Duration = Duration::from_secs(1);

fn layers() -> Vec<Box<dyn Protocol>> {
    let config = StateConfig {
        buffer_size: ByteSize(100),
        window: ByteSize(1000),
        max_pool: 2,
        ..StateConfig::default()
    };
    [
        Box::new(ReliableMulticast::new(Nakack2Config::default())) as Box<dyn Protocol>,
        Box::new(StateTransfer::new(config)),
        Box::new(Entry::new(EntryConfig::default())),
    ]
    .into()
}

/// Member 1 of this toolkit in a group with these others.
fn member(others: &[Uuid]) -> Solo {
    let mut m = Solo::topped(1, tagged(1), layers());
    install(&mut m, 1, others);
    m.event_down(Event::BecomeServer);
    m
}

fn install(m: &mut Solo, number: u64, others: &[Uuid]) {
    let members: Vec<Uuid> = [tagged(1)].into_iter().chain(others.iter().copied()).collect();
    m.install(Arc::new(View::new(number, tagged(1), members)));
}

fn header(m: &wire::Message) -> Option<&StreamingHeader> {
    match m.headers.get(ProtId::STATE)? {
        Header::Streaming(h) => Some(h),
        _ => None,
    }
}

/// What went to `to` with STATE's header: what it is, and with how many bytes.
fn sent(m: &mut Solo, to: Uuid) -> Vec<(StreamingKind, usize, Flags)> {
    let all = m.sent();
    let mine = all.iter().filter(|m| m.dest.as_ref().and_then(wire::Address::uuid) == Some(to));
    mine.filter_map(|m| Some((header(m)?.kind, m.body.as_bytes().map_or(0, |b| b.len()), m.flags)))
        .collect()
}

fn bytes_in(parts: &[(StreamingKind, usize, Flags)]) -> usize {
    parts.iter().filter(|p| p.0 == StreamingKind::Part).map(|p| p.1).sum()
}

/// The wishes that went to `to`.
fn wishes(m: &mut Solo, to: Uuid) -> Vec<(u64, Wish)> {
    let all = m.sent();
    let mine =
        all.into_iter().filter(|m| m.dest.as_ref().and_then(wire::Address::uuid) == Some(to));
    let read = |m: wire::Message| {
        let h = header(&m).filter(|h| h.kind == StreamingKind::Part)?.kind;
        let room = RoomPayload::read(&m.into()).filter(|_| h == StreamingKind::Part)?;
        Some((room.attempt, room.wish))
    };
    mine.filter_map(read).collect()
}

fn from(m: Message, who: Uuid) -> wire::Message {
    let mut m = m.wire;
    m.src = Some(who.into());
    m
}

fn arrive(m: &mut Solo, who: Uuid, kind: StreamingKind, digest: Option<&Digest>, body: Body) {
    let msg = Dialect::Streamed.message(tagged(1), kind, digest, None, body);
    m.arrive(0, from(msg, who));
}

fn part(m: &mut Solo, who: Uuid, n: usize) {
    arrive(m, who, StreamingKind::Part, None, Body::bytes(vec![7u8; n]));
}

fn wish(m: &mut Solo, who: Uuid, attempt: u64, wish: Wish) {
    let msg = RoomPayload { attempt, wish }.message(tagged(1));
    m.arrive(0, from(msg, who));
}

/// The contents of a state: of each of these members one multicast.
fn cut(members: &[Uuid]) -> Digest {
    members.iter().map(|m| (*m, SeqnoPair { delivered: 1, received: 1 })).collect()
}

fn requests(m: &mut Solo) -> Vec<(u64, Uuid)> {
    m.stack.end_turn(m.now);
    let request = |ev| match ev {
        AppEvent::StateRequested { request, by } => Some((request, by)),
        _ => None,
    };
    m.told().into_iter().filter_map(request).collect()
}

fn answer(m: &mut Solo, request: u64, to: Uuid, op: Option<OpId>, answer: StateAnswer) {
    m.stack.submit(m.now, Command::AnswerState(AnswerState { op, request, to, answer }));
}

/// `who` asks, and the application begins with so many bytes.
fn giving(m: &mut Solo, who: Uuid, bytes: usize) -> u64 {
    arrive(m, who, StreamingKind::Request, None, Body::Empty);
    let [(request, by)] = requests(m)[..] else { panic!("one request") };
    assert_eq!(by, who);
    answer(m, request, who, None, StateAnswer::Begins { socket: None });
    let part = Bytes::from(vec![9u8; bytes]);
    answer(m, request, who, None, StateAnswer::Part(part));
    request
}

fn fetch(m: &mut Solo, from: Option<Uuid>) {
    let call = FetchState { op: OP, from, timeout: 600 * SECOND };
    m.stack.submit(m.now, Command::FetchState(call));
}

/// The application asked, and `who` has begun to answer.
fn receiving(m: &mut Solo, who: Uuid) {
    arrive(m, who, StreamingKind::Response, Some(&cut(&[who])), Body::Empty);
}

fn take(m: &mut Solo, attempt: u64, taken: Taken) {
    m.stack.submit(m.now, Command::TakeState(TakeState { op: OP, attempt, taken }));
}

/// What the application was told of its call.
#[derive(Debug, PartialEq)]
enum Told {
    Begins(u64, Uuid),
    Bytes(usize),
    Ends,
    Given(Uuid),
    Failed(StateFailure),
}

fn told(m: &mut Solo) -> Vec<Told> {
    let said = |ev| match ev {
        AppEvent::StateBegins { attempt, provider, .. } => Some(Told::Begins(attempt, provider)),
        AppEvent::StatePart { bytes, .. } => Some(Told::Bytes(bytes.len())),
        AppEvent::StateEnds { .. } => Some(Told::Ends),
        AppEvent::StateFetched { result: Ok(Some(f)), .. } => Some(Told::Given(f.provider)),
        AppEvent::StateFetched { result: Err(f), .. } => Some(Told::Failed(f)),
        _ => None,
    };
    m.told().into_iter().filter_map(said).collect()
}

#[test]
fn no_more_leaves_than_the_reader_has_room_for() {
    let reader = tagged(2);
    let mut m = member(&[reader]);
    let request = giving(&mut m, reader, 5000);
    let first = sent(&mut m, reader);
    assert_eq!(first.iter().map(|p| p.0).collect::<Vec<_>>(), [StreamingKind::Response]);
    wish(&mut m, reader, 1, Wish::Upto(1000));
    let parts = sent(&mut m, reader);
    assert_eq!(bytes_in(&parts), 1000);
    assert!(parts.iter().all(|p| p.1 == 100 && p.2 == Flags::NO_FC), "{parts:?}");
    wish(&mut m, reader, 1, Wish::Upto(1050));
    assert_eq!(bytes_in(&sent(&mut m, reader)), 50, "at the limit it passes");
    // What is late says less, and changes nothing.
    wish(&mut m, reader, 1, Wish::Upto(1000));
    assert_eq!(bytes_in(&sent(&mut m, reader)), 0);
    let last = m.told().into_iter().rev().find_map(|ev| match ev {
        AppEvent::StateSent { request: r, bytes } if r == request => Some(bytes),
        _ => None,
    });
    assert_eq!(last, Some(1050));
}

#[test]
fn the_end_follows_the_last_part_and_answers_who_waits_for_it() {
    let reader = tagged(2);
    let mut m = member(&[reader]);
    let request = giving(&mut m, reader, 150);
    answer(&mut m, request, reader, Some(OP), StateAnswer::Ends);
    wish(&mut m, reader, 1, Wish::Upto(100));
    assert!(sent(&mut m, reader).iter().all(|p| p.0 != StreamingKind::Eof));
    let done = |m: &mut Solo| {
        let end =
            |ev: &AppEvent| matches!(ev, AppEvent::Resolved { op: OP, result: SendResult::Sent });
        m.told().iter().any(end)
    };
    assert!(!done(&mut m));
    wish(&mut m, reader, 1, Wish::Upto(200));
    assert_eq!(sent(&mut m, reader).last().map(|p| p.0), Some(StreamingKind::Eof));
    assert!(done(&mut m));
}

#[test]
fn to_a_java_member_parts_go_as_java_sends_them() {
    let reader = id(2);
    let mut m = member(&[reader]);
    let request = giving(&mut m, reader, 150);
    answer(&mut m, request, reader, None, StateAnswer::Ends);
    let expected = [
        (StreamingKind::Response, 0, Flags::empty()),
        (StreamingKind::Part, 100, Flags::empty()),
        (StreamingKind::Part, 50, Flags::empty()),
        (StreamingKind::Eof, 0, Flags::empty()),
    ];
    assert_eq!(sent(&mut m, reader), expected);
}

#[test]
fn a_wish_of_an_earlier_attempt_is_ignored() {
    let reader = tagged(2);
    let mut m = member(&[reader]);
    giving(&mut m, reader, 5000);
    wish(&mut m, reader, 3, Wish::Upto(1000));
    sent(&mut m, reader);
    giving(&mut m, reader, 5000);
    wish(&mut m, reader, 3, Wish::Upto(2000));
    assert_eq!(bytes_in(&sent(&mut m, reader)), 0);
    wish(&mut m, reader, 4, Wish::Upto(1000));
    assert_eq!(bytes_in(&sent(&mut m, reader)), 1000);
}

fn abandoned(m: &mut Solo) -> Vec<u64> {
    let request = |ev| match ev {
        AppEvent::StateAbandoned { request, .. } => Some(request),
        _ => None,
    };
    m.told().into_iter().filter_map(request).collect()
}

#[test]
fn what_is_no_longer_wanted_is_given_up() {
    let reader = tagged(2);
    let mut m = member(&[reader]);
    let request = giving(&mut m, reader, 5000);
    answer(&mut m, request, reader, Some(OP), StateAnswer::Ends);
    wish(&mut m, reader, 1, Wish::Stop);
    let told = m.told();
    let gave_up =
        |ev: &AppEvent| matches!(ev, AppEvent::StateAbandoned { request: r, .. } if *r == request);
    assert!(told.iter().any(gave_up));
    let why = SendResult::Refused(SendRefusal::NotMember(reader));
    assert!(
        told.iter().any(|ev| matches!(ev, AppEvent::Resolved { result, .. } if *result == why))
    );
}

#[test]
fn a_reader_that_leaves_or_is_silent_is_given_up() {
    let (reader, other) = (tagged(2), tagged(3));
    let mut m = member(&[reader, other]);
    let request = giving(&mut m, reader, 5000);
    install(&mut m, 2, &[other]);
    assert_eq!(abandoned(&mut m), [request]);
    let request = giving(&mut m, other, 5000);
    m.run(59 * SECOND);
    wish(&mut m, other, 1, Wish::Upto(1000));
    m.run(59 * SECOND);
    assert_eq!(abandoned(&mut m), []);
    m.run(2 * SECOND);
    assert_eq!(abandoned(&mut m), [request]);
    assert_eq!(sent(&mut m, other).last().map(|p| p.0), Some(StreamingKind::Failure));
}

#[test]
fn more_members_than_the_pool_has_places_for_wait_for_their_turn() {
    let readers = [tagged(2), tagged(3), tagged(4)];
    let mut m = member(&readers);
    let first = giving(&mut m, readers[0], 10);
    giving(&mut m, readers[1], 10);
    arrive(&mut m, readers[2], StreamingKind::Request, None, Body::Empty);
    m.run(10 * SECOND);
    assert_eq!(requests(&mut m), [], "two are served");
    wish(&mut m, readers[0], 1, Wish::Upto(1000));
    answer(&mut m, first, readers[0], None, StateAnswer::Ends);
    let now: Vec<Uuid> = requests(&mut m).into_iter().map(|r| r.1).collect();
    assert_eq!(now, [readers[2]]);
}

#[test]
fn room_is_given_as_parts_are_taken() {
    let provider = tagged(2);
    let mut m = member(&[provider]);
    fetch(&mut m, None);
    m.sent();
    receiving(&mut m, provider);
    assert_eq!(wishes(&mut m, provider), [(1, Wish::Upto(1000))]);
    for _ in 0..10 {
        part(&mut m, provider, 100);
    }
    assert_eq!(wishes(&mut m, provider), [], "nothing is taken");
    take(&mut m, 1, Taken::Bytes(100));
    assert_eq!(wishes(&mut m, provider), [], "too little to say so");
    take(&mut m, 1, Taken::Bytes(300));
    assert_eq!(wishes(&mut m, provider), [(1, Wish::Upto(1300))]);
    take(&mut m, 0, Taken::Bytes(1000));
    assert_eq!(wishes(&mut m, provider), [], "that is of another attempt");
}

#[test]
fn a_wish_may_be_lost_and_is_repeated() {
    let provider = tagged(2);
    let mut m = member(&[provider]);
    fetch(&mut m, None);
    receiving(&mut m, provider);
    wishes(&mut m, provider);
    m.run(SECOND);
    let again = wishes(&mut m, provider);
    assert!(again.len() >= 2 && again.iter().all(|w| *w == (1, Wish::Upto(1000))), "{again:?}");
}

#[test]
fn the_call_ends_when_everything_was_sent_and_taken() {
    let provider = tagged(2);
    let mut m = member(&[provider]);
    fetch(&mut m, None);
    receiving(&mut m, provider);
    part(&mut m, provider, 100);
    arrive(&mut m, provider, StreamingKind::Eof, None, Body::Empty);
    assert_eq!(told(&mut m), [Told::Begins(1, provider), Told::Bytes(100), Told::Ends]);
    // It has given everything: whether it stays does not matter.
    install(&mut m, 2, &[]);
    assert_eq!(told(&mut m), []);
    take(&mut m, 1, Taken::All);
    assert_eq!(told(&mut m), [Told::Given(provider)]);
}

#[test]
fn when_a_provider_leaves_the_next_one_begins_anew() {
    let (first, second) = (tagged(2), tagged(3));
    let mut m = member(&[first, second]);
    fetch(&mut m, None);
    receiving(&mut m, first);
    part(&mut m, first, 100);
    install(&mut m, 2, &[second]);
    receiving(&mut m, second);
    part(&mut m, second, 70);
    take(&mut m, 1, Taken::All);
    arrive(&mut m, second, StreamingKind::Eof, None, Body::Empty);
    take(&mut m, 2, Taken::All);
    let expected = [
        Told::Begins(1, first),
        Told::Bytes(100),
        Told::Begins(2, second),
        Told::Bytes(70),
        Told::Ends,
        Told::Given(second),
    ];
    assert_eq!(told(&mut m), expected);
}

#[test]
fn parts_of_a_member_that_is_not_asked_are_dropped_and_it_is_told_to_stop() {
    let (first, second) = (tagged(2), tagged(3));
    let mut m = member(&[first, second]);
    fetch(&mut m, None);
    receiving(&mut m, first);
    arrive(&mut m, first, StreamingKind::Failure, None, Body::Empty);
    m.sent();
    part(&mut m, first, 100);
    assert_eq!(wishes(&mut m, first), [(2, Wish::Stop)]);
    assert_eq!(told(&mut m), [Told::Begins(1, first)]);
}

#[test]
fn the_rest_of_an_answer_that_was_too_old_is_not_taken_for_the_next() {
    let provider = id(2);
    let mut m = member(&[provider, id(3)]);
    let body = Body::bytes(b"read".as_slice());
    let n = Header::NakAck(crate::wire::header::NakAckHeader::Msg(1));
    m.arrive(3, wire::Message::multicast(body).with_header(ProtId::NAKACK2, n));
    fetch(&mut m, Some(provider));
    let nothing: Digest = [(id(3), SeqnoPair::default())].into_iter().collect();
    arrive(&mut m, provider, StreamingKind::Response, Some(&nothing), Body::Empty);
    part(&mut m, provider, 10);
    m.run(SECOND);
    part(&mut m, provider, 10);
    arrive(&mut m, provider, StreamingKind::Eof, None, Body::Empty);
    assert_eq!(told(&mut m), []);
    arrive(&mut m, provider, StreamingKind::Response, Some(&cut(&[id(3)])), Body::Empty);
    part(&mut m, provider, 20);
    assert_eq!(told(&mut m), [Told::Begins(2, provider), Told::Bytes(20)]);
}

#[test]
fn an_application_that_takes_nothing_ends_its_own_call() {
    let provider = tagged(2);
    let mut m = member(&[provider, tagged(3)]);
    fetch(&mut m, None);
    receiving(&mut m, provider);
    for _ in 0..10 {
        part(&mut m, provider, 100);
    }
    m.run(59 * SECOND);
    take(&mut m, 1, Taken::Bytes(500));
    for _ in 0..5 {
        part(&mut m, provider, 100);
    }
    told(&mut m);
    m.run(59 * SECOND);
    assert_eq!(told(&mut m), []);
    m.run(2 * SECOND);
    let said = told(&mut m);
    let [Told::Failed(f)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(f.end, StateEnd::NotTaken { after: 60 * SECOND });
    assert_eq!(wishes(&mut m, provider).last(), Some(&(1, Wish::Stop)));
}

#[test]
fn a_provider_that_is_silent_gives_way_to_another_if_there_is_one() {
    let (first, second) = (tagged(2), tagged(3));
    let mut m = member(&[first, second]);
    fetch(&mut m, None);
    receiving(&mut m, first);
    part(&mut m, first, 100);
    take(&mut m, 1, Taken::Bytes(100));
    m.run(19 * SECOND);
    part(&mut m, first, 100);
    take(&mut m, 1, Taken::Bytes(200));
    m.run(19 * SECOND);
    told(&mut m);
    m.sent();
    m.run(2 * SECOND);
    receiving(&mut m, second);
    assert_eq!(told(&mut m), [Told::Begins(2, second)]);
    m.run(61 * SECOND);
    let said = told(&mut m);
    let [Told::Failed(f)] = &said[..] else { panic!("nobody else is left: {said:?}") };
    let tried: Vec<_> = f.tried.iter().map(|t| (t.provider, t.bytes, &t.outcome)).collect();
    let unanswered = &StateOutcome::Unanswered;
    assert_eq!(tried, [(first, 200, unanswered), (second, 0, unanswered)]);
}

#[test]
fn a_caller_that_gives_up_stops_the_provider() {
    let provider = tagged(2);
    let mut m = member(&[provider]);
    fetch(&mut m, None);
    receiving(&mut m, provider);
    m.sent();
    m.stack.submit(m.now, Command::Cancel(OP));
    assert_eq!(wishes(&mut m, provider), [(1, Wish::Stop)]);
    // Also when its answer comes only afterwards.
    fetch(&mut m, None);
    m.stack.submit(m.now, Command::Cancel(OP));
    receiving(&mut m, provider);
    assert_eq!(wishes(&mut m, provider), [(2, Wish::Stop)]);
}

#[test]
fn how_a_state_ends_that_was_given_up_says_nothing_of_the_next() {
    let provider = id(2);
    let mut m = member(&[provider]);
    fetch(&mut m, None);
    receiving(&mut m, provider);
    m.stack.submit(m.now, Command::Cancel(OP));
    told(&mut m);
    fetch(&mut m, None);
    arrive(&mut m, provider, StreamingKind::Failure, None, Body::Empty);
    assert_eq!(told(&mut m), [], "that was the first");
    receiving(&mut m, provider);
    assert_eq!(told(&mut m), [Told::Begins(2, provider)]);
    arrive(&mut m, provider, StreamingKind::Failure, None, Body::Empty);
    assert!(matches!(told(&mut m)[..], [Told::Failed(_)]), "and that the second");
}

#[test]
fn parts_for_a_java_member_leave_in_order_however_fast_they_are_admitted() {
    let reader = id(2);
    let mut m = member(&[reader]);
    arrive(&mut m, reader, StreamingKind::Request, None, Body::Empty);
    let [(request, _)] = requests(&mut m)[..] else { panic!("one request") };
    // More than may be under way at once.
    let state: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_be_bytes).collect();
    answer(&mut m, request, reader, Some(OP), StateAnswer::Whole(Some(state.clone().into())));
    m.run(SECOND);
    let parts = m.sent();
    let mut came = Vec::new();
    for p in &parts {
        match header(p).map(|h| h.kind) {
            Some(StreamingKind::Part) => {
                came.extend_from_slice(p.body.as_bytes().expect("bytes"));
            }
            Some(StreamingKind::Eof) => assert_eq!(came.len(), state.len(), "the end is last"),
            _ => {}
        }
    }
    assert!(came == state, "{} bytes in the wrong order", came.len());
}
