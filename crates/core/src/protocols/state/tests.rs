//! What travels, and what a provider waits for. That the cut is exact is shown on the simulator.

use super::*;
use crate::app::{AnswerState, FetchState, FetchedState, StateAnswer, StateFailure, StateOutcome};
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::frag::{Frag2, Frag2Config};
use crate::protocols::reliable::{Nakack2Config, ReliableMulticast};
use crate::testkit::{Solo, id, view};
use crate::testkit_cluster::tagged;
use crate::wire::header::{FragHeader, NakAckHeader, StateTransferHeader, StateTransferKind};
use crate::wire::{Body, Flags, Header, ProtId, SeqnoPair};
use crate::{AppEvent, Command, OpId, Protocol, View};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;
use core::time::Duration;

const OP: OpId = OpId(7);
const SECOND: Duration = Duration::from_secs(1);

fn layers() -> Vec<Box<dyn Protocol>> {
    [
        Box::new(ReliableMulticast::new(Nakack2Config::default())) as Box<dyn Protocol>,
        Box::new(Frag2::new(Frag2Config::default())),
        Box::new(StateTransfer::new(StateTransferConfig::default())),
        Box::new(Entry::new(EntryConfig::default())),
    ]
    .into()
}

fn message(
    to: Uuid,
    kind: StreamingKind,
    digest: Option<&Digest>,
    body: wire::Body,
) -> crate::Message {
    Dialect::Whole.message(to, kind, digest, None, body)
}

/// A member among Java members 1, 2 and 3.
fn member() -> Solo {
    let mut m = Solo::topped(1, id(1), layers());
    m.install(view(1, &[1, 2, 3]));
    m.event_down(Event::BecomeServer);
    m
}

fn fetch(m: &mut Solo, from: Option<Uuid>) {
    let call = FetchState { op: OP, from, timeout: 10 * SECOND };
    m.stack.submit(m.now, Command::FetchState(call));
}

fn state_header(m: &wire::Message) -> Option<&StateTransferHeader> {
    match m.headers.get(ProtId::STATE_TRANSFER)? {
        Header::StateTransfer(h) => Some(h),
        _ => None,
    }
}

fn fetched(m: &mut Solo) -> Option<Result<Option<FetchedState>, StateFailure>> {
    m.told().into_iter().find_map(|ev| match ev {
        AppEvent::StateFetched { op: OP, result } => Some(result),
        _ => None,
    })
}

fn asked(m: &mut Solo) -> Vec<(u64, Uuid)> {
    m.stack.end_turn(m.now);
    let request = |ev| match ev {
        AppEvent::StateRequested { request, by } => Some((request, by)),
        _ => None,
    };
    m.told().into_iter().filter_map(request).collect()
}

fn request(digest: Option<&Digest>) -> wire::Message {
    let mut m = message(id(1), StreamingKind::Request, digest, Body::Empty).wire;
    m.flags |= Flags::DONT_BUNDLE | Flags::OOB | Flags::SKIP_BARRIER;
    m
}

fn response(digest: &Digest, state: Option<&'static str>) -> wire::Message {
    let body = Body::Bytes(state.map(|s| Bytes::from_static(s.as_bytes())));
    message(id(1), StreamingKind::Response, Some(digest), body).wire
}

fn numbered(n: i64, text: &'static str) -> wire::Message {
    let body = Body::bytes(text.as_bytes());
    let header = Header::NakAck(NakAckHeader::Msg(n));
    wire::Message::multicast(body).with_header(ProtId::NAKACK2, header)
}

fn fragment(n: i64, frag: i32, total: i32) -> wire::Message {
    let header = FragHeader { id: 1, frag, total, needs_deserialization: false, original_type: 0 };
    numbered(n, "part").with_header(ProtId::FRAG2, Header::Frag(header))
}

fn digest_of(entries: &[(u64, i64)]) -> Digest {
    let pair = |n| SeqnoPair { delivered: n, received: n };
    entries.iter().map(|(m, n)| (id(*m), pair(*n))).collect()
}

#[test]
fn a_java_member_is_asked_as_java_asks() {
    let mut m = member();
    fetch(&mut m, None);
    let sent = m.sent();
    let req = sent.iter().find(|m| state_header(m).is_some()).expect("a question");
    assert_eq!(req.dest.as_ref().and_then(wire::Address::uuid), Some(id(2)));
    assert_eq!(req.flags, Flags::DONT_BUNDLE | Flags::OOB | Flags::SKIP_BARRIER);
    assert_eq!(req.body, Body::Empty);
    let expected = StateTransferHeader { kind: StateTransferKind::Request, digest: None };
    assert_eq!(state_header(req), Some(&expected));
}

#[test]
fn a_member_of_this_toolkit_is_told_what_the_application_has() {
    let mut m = Solo::topped(1, tagged(1), layers());
    let members: Vec<Uuid> = [tagged(1), tagged(2)].into();
    m.install(Arc::new(View::new(1, tagged(1), members)));
    fetch(&mut m, None);
    let sent = m.sent();
    let told = sent.iter().find_map(state_header).and_then(|h| h.digest.as_ref());
    assert_eq!(told.map(|d| d.entries.len()), Some(2));
}

#[test]
fn what_the_state_contains_is_left_out_and_what_follows_is_not() {
    let mut m = member();
    fetch(&mut m, None);
    m.arrive_all(2, [numbered(1, "in"), numbered(2, "in"), numbered(3, "after")]);
    assert_eq!(m.delivered(), []);
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 2), (3, 1)]), Some("state")));
    m.arrive_all(3, [numbered(1, "in"), numbered(2, "after")]);
    let mut seen = Vec::new();
    for ev in m.told() {
        match ev {
            AppEvent::StateFetched { result: Ok(Some(f)), .. } => {
                assert_eq!(f.provider, id(2));
                seen.push(f.state.expect("a state"));
            }
            AppEvent::Deliver(d) => {
                seen.extend(d.messages.iter().filter_map(|m| m.body.as_bytes().cloned()));
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["state", "after", "after"]);
}

#[test]
fn an_answer_that_lacks_what_was_delivered_is_asked_for_again() {
    let mut m = member();
    m.arrive(3, numbered(1, "read already"));
    assert_eq!(m.delivered().len(), 1);
    fetch(&mut m, Some(id(2)));
    m.sent();
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0), (3, 0)]), Some("old")));
    assert!(fetched(&mut m).is_none());
    m.run(SECOND);
    assert!(m.sent().iter().any(|m| state_header(m).is_some()), "it is asked again");
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0), (3, 1)]), Some("new")));
    let got = fetched(&mut m).expect("it ends").expect("a state").expect("a state");
    assert_eq!(got.state, Some(Bytes::from_static(b"new")));
}

#[test]
fn the_exception_of_a_java_member_is_told_in_its_words() {
    let mut m = member();
    fetch(&mut m, Some(id(3)));
    let exception = "000001001f6a6176612e6c616e672e496c6c6567616c5374617465457863657074696f6e\
                     010004626f6f6d0002010007706b672e436c730100046d657468010008436c732e6a6176\
                     61012a010007706b672e4e61740100036e61740004feffffff00";
    let digits: Vec<u8> =
        exception.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect();
    m.arrive(3, message(id(1), StreamingKind::Failure, None, Body::bytes(bytes)).wire);
    let failure = fetched(&mut m).expect("it ends").expect_err("no state");
    assert_eq!(failure.tried[0].outcome, StateOutcome::Refused("boom".into()));
}

#[test]
fn the_answer_carries_the_digest_of_the_cut() {
    let mut m = member();
    m.arrive_all(3, [numbered(1, "a"), numbered(2, "b")]);
    m.arrive(2, request(None));
    let [(request, by)] = asked(&mut m)[..] else { panic!("one request") };
    m.arrive(3, numbered(3, "after the cut"));
    let answer = StateAnswer::Whole(Some(Bytes::from_static(b"ab")));
    let answer = AnswerState { op: Some(OP), request, to: by, answer };
    m.stack.submit(m.now, Command::AnswerState(answer));
    let sent = m.sent();
    let rsp = sent.iter().find(|m| state_header(m).is_some()).expect("an answer");
    assert_eq!(
        (rsp.flags, rsp.body.as_bytes().map(|b| &b[..])),
        (Flags::empty(), Some(&b"ab"[..]))
    );
    let digest = state_header(rsp).and_then(|h| h.digest.as_ref()).and_then(Digest::from_wire);
    assert_eq!(digest.and_then(|d| d.get(id(3))).map(|p| p.delivered), Some(2));
    let resolved = |ev: &AppEvent| matches!(ev, AppEvent::Resolved { op: OP, .. });
    assert!(m.told().iter().any(resolved), "whoever waits is told that it left");
}

#[test]
fn a_message_that_has_arrived_in_part_is_waited_for() {
    let mut m = member();
    m.arrive(3, fragment(1, 0, 2));
    m.arrive(2, request(None));
    assert_eq!(asked(&mut m), []);
    m.arrive(3, fragment(2, 1, 2));
    assert_eq!(asked(&mut m), [(1, id(2))]);
}

#[test]
fn the_wait_for_messages_ends_by_time() {
    let mut m = member();
    m.arrive(3, fragment(1, 0, 2));
    m.arrive(2, request(None));
    m.run(4 * SECOND);
    assert_eq!(asked(&mut m), []);
    m.run(2 * SECOND);
    assert_eq!(asked(&mut m), [(1, id(2))]);
}

#[test]
fn who_waits_for_a_state_gives_none_before_it_has_it() {
    let mut m = member();
    fetch(&mut m, Some(id(2)));
    m.arrive(3, numbered(1, "held back"));
    m.arrive(3, request(None));
    assert_eq!(asked(&mut m), [], "its application lacks what is held back");
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0), (3, 0)]), Some("state")));
    assert_eq!(asked(&mut m), [(1, id(3))]);
}

#[test]
fn who_waits_for_a_state_for_too_long_says_so_to_those_who_ask_it() {
    let mut m = member();
    fetch(&mut m, Some(id(2)));
    m.arrive(3, request(None));
    m.sent();
    let refusals = |m: &mut Solo| {
        m.stack.end_turn(m.now);
        m.sent().iter().filter(|m| m.dest == Some(id(3).into())).count()
    };
    m.run(4 * SECOND);
    assert_eq!(refusals(&mut m), 0);
    m.run(2 * SECOND);
    assert_eq!((refusals(&mut m), asked(&mut m)), (1, Vec::new()));
}

#[test]
fn who_asks_again_is_given_another_cut() {
    let mut m = member();
    m.arrive(2, request(None));
    assert_eq!(asked(&mut m), [(1, id(2))]);
    m.arrive(2, request(None));
    m.stack.end_turn(m.now);
    let told = m.told();
    let abandoned = |ev: &AppEvent| matches!(ev, AppEvent::StateAbandoned { request: 1, .. });
    let asked = |ev: &AppEvent| matches!(ev, AppEvent::StateRequested { request: 2, .. });
    assert!(told.iter().any(abandoned) && told.iter().any(asked), "{told:?}");
}

#[test]
fn what_a_former_member_sent_before_the_state_was_cut_is_in_it() {
    let mut m = member();
    m.arrive(3, numbered(1, "read"));
    fetch(&mut m, Some(id(2)));
    m.arrive(3, numbered(2, "in"));
    m.install(view(2, &[1, 2]));
    m.told();
    m.arrive(2, numbered(1, "after"));
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0)]), Some("state")));
    let seen = m.delivered();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn what_came_with_a_state_is_in_the_state_that_is_given() {
    let mut m = member();
    fetch(&mut m, Some(id(2)));
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0), (3, 5)]), Some("state")));
    m.arrive(2, request(None));
    let [(request, by)] = asked(&mut m)[..] else { panic!("one request") };
    let answer = AnswerState { op: Some(OP), request, to: by, answer: StateAnswer::Whole(None) };
    m.stack.submit(m.now, Command::AnswerState(answer));
    let sent = m.sent();
    let rsp = sent.iter().filter_map(state_header).filter_map(|h| h.digest.as_ref());
    let digest = rsp.last().and_then(Digest::from_wire);
    assert_eq!(digest.and_then(|d| d.get(id(3))).map(|p| p.delivered), Some(5));
}

#[test]
fn what_is_contained_is_left_out_although_it_releases_what_is_not() {
    let mut m = member();
    fetch(&mut m, None);
    m.arrive(2, response(&digest_of(&[(1, 0), (2, 0), (3, 2)]), Some("state")));
    m.told();
    m.arrive(3, numbered(3, "after"));
    let in_it = |n| numbered(n, "in").with_flags(Flags::OOB);
    m.arrive_all(3, [in_it(1), in_it(2)]);
    assert_eq!(m.delivered().len(), 1);
    m.stack.end_turn(m.now);
    m.arrive(3, numbered(4, "after"));
    assert_eq!(m.delivered().len(), 1);
}

#[test]
fn an_answer_for_a_member_that_has_left_is_refused() {
    let mut m = member();
    m.arrive(2, request(None));
    let [(request, by)] = asked(&mut m)[..] else { panic!("one request") };
    m.install(view(2, &[1, 3]));
    let answer = AnswerState { op: Some(OP), request, to: by, answer: StateAnswer::Whole(None) };
    m.stack.submit(m.now, Command::AnswerState(answer));
    let refused = |ev: &AppEvent| {
        let why = crate::SendResult::Refused(SendRefusal::NotMember(id(2)));
        matches!(ev, AppEvent::Resolved { result, .. } if *result == why)
    };
    assert!(m.told().iter().any(refused));
}

#[test]
fn without_the_protocol_a_call_says_so() {
    let mut m = Solo::topped(1, id(1), [Box::new(Entry::new(EntryConfig::default())) as _].into());
    m.install(view(1, &[1, 2]));
    fetch(&mut m, None);
    let failure = fetched(&mut m).expect("it ends").expect_err("no state");
    assert_eq!(failure.end, StateEnd::NotInStack);
}
