//! How calls end, and what is carried out, in virtual time.

use super::calls::correlator;
use super::*;
use crate::attributes::ByteSize;
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::testkit::id;
use crate::testkit_cluster::{Cluster, tagged};
use crate::wire::header::CorrelatorKind;
use crate::wire::{self, Body, Header, Method, Object, ProtId};
use crate::{Command, Rng, SendRefusal, SendResult, View, time::Time};
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn cluster(n: u64) -> Cluster {
    Cluster::new(n, &MfcConfig::default(), &UfcConfig::default(), 60_000)
}

/// Members of these identities, of which those of JGroups never run here.
fn cluster_of(ids: Vec<Uuid>) -> Cluster {
    Cluster::of(ids, &MfcConfig::default(), &UfcConfig::default(), 60_000)
}

fn bytes(args: &'static [u8]) -> Ask {
    Ask::Bytes { method: "m".into(), args: Bytes::from_static(args) }
}

fn done(reply: &'static [u8]) -> CallAnswer {
    CallAnswer::Done(Reply::Bytes(Bytes::from_static(reply)))
}

fn answered(reply: &'static [u8]) -> Status {
    Status::Answered(Reply::Bytes(Bytes::from_static(reply)))
}

struct Asked {
    to: Option<Vec<Uuid>>,
    ask: Ask,
    wait: Wait,
    timeout: Duration,
}

impl Default for Asked {
    fn default() -> Self {
        Self { to: None, ask: bytes(b"x"), wait: Wait::All, timeout: 10 * SECOND }
    }
}

/// Member `i` calls.
fn call(c: &mut Cluster, i: usize, asked: Asked) -> OpId {
    let op = c.next_op();
    let Asked { to, ask, wait, timeout } = asked;
    let call = Call { op, to, ask, wait, timeout, flags: Flags::empty() };
    c.command(i, Command::Call(Box::new(call)));
    c.step();
    op
}

fn call_one(c: &mut Cluster, from: usize, to: usize) -> OpId {
    let to = Some(vec![c.id(to)]);
    call(c, from, Asked { to, ..Asked::default() })
}

/// Member `i` answers the oldest request that it has not answered.
fn answer(c: &mut Cluster, i: usize, answer: CallAnswer) {
    let request = c.requested[i].remove(0).request;
    c.command(i, Command::AnswerRequest { request, answer });
    c.step();
}

fn ended(c: &Cluster, i: usize, op: OpId) -> Option<Vec<Status>> {
    match c.result(i, op)? {
        SendResult::Called(outcome) => {
            Some(outcome.rows.iter().map(|r| r.status.clone()).collect())
        }
        other => panic!("{other:?}"),
    }
}

/// A message of member `from` for member `to`, as the network brings it.
fn arrive(c: &mut Cluster, from: Uuid, to: usize, header: Header, body: Body) {
    let mut m = wire::Message::unicast(c.id(to), body);
    m.src = Some(from.into());
    m.headers.put(ProtId::REQUEST_CORRELATOR, header);
    c.members[to].arrive(0, m);
    c.step();
}

/// A view in which `a` and the others come together again after they were apart.
fn merge(id: u64, a: &[Uuid], b: &[Uuid]) -> View {
    let all: Vec<Uuid> = a.iter().chain(b).copied().collect();
    let mut view = View::new(id, a[0], all);
    let part = |id, members: &[Uuid]| View::new(id, members[0], members.to_vec());
    view.subgroups = vec![part(id - 1, a), part(id - 1, b)].into();
    view
}

#[test]
fn a_call_to_all_has_a_row_for_every_member_in_the_order_of_the_view() {
    let mut c = cluster(3);
    let op = call(&mut c, 1, Asked::default());
    answer(&mut c, 2, done(b"two"));
    answer(&mut c, 0, CallAnswer::NoSuchMethod);
    assert_eq!(ended(&c, 1, op), None, "one is missing");
    let failure = Failure::Error { class: Some("E".into()), message: "why".into() };
    answer(&mut c, 1, CallAnswer::Failed(failure.clone()));
    let rows = [Status::NoSuchMethod, Status::Failed(failure), answered(b"two")];
    assert_eq!(ended(&c, 1, op), Some(rows.into()));
}

#[test]
fn the_application_is_told_who_calls_what_and_until_when() {
    let mut c = cluster(2);
    c.run(SECOND);
    call(&mut c, 0, Asked { timeout: 3 * SECOND, ..Asked::default() });
    let r = &c.requested[1][0];
    assert_eq!((r.from, &r.ask, r.awaited), (c.id(0), &bytes(b"x"), true));
    assert_eq!(r.until, Some(Time::ZERO + 4 * SECOND));
}

#[test]
fn the_first_value_ends_a_call_that_wants_one_and_a_failure_does_not() {
    let mut c = cluster(3);
    let op = call(&mut c, 0, Asked { wait: Wait::First, ..Asked::default() });
    answer(&mut c, 1, CallAnswer::NoSuchMethod);
    assert_eq!(ended(&c, 0, op), None);
    answer(&mut c, 2, done(b"v"));
    let rows = [Status::NotAwaited, Status::NoSuchMethod, answered(b"v")];
    assert_eq!(ended(&c, 0, op), Some(rows.into()));
}

#[test]
fn a_majority_is_more_than_half_of_the_targets() {
    let mut c = cluster(4);
    let op = call(&mut c, 0, Asked { wait: Wait::Majority, ..Asked::default() });
    answer(&mut c, 1, done(b"1"));
    answer(&mut c, 2, done(b"2"));
    assert_eq!(ended(&c, 0, op), None, "half is no majority");
    answer(&mut c, 3, done(b"3"));
    let rows = [Status::NotAwaited, answered(b"1"), answered(b"2"), answered(b"3")];
    assert_eq!(ended(&c, 0, op), Some(rows.into()));
}

#[test]
fn a_call_that_waits_for_nobody_ends_when_it_is_on_its_way() {
    let mut c = cluster(2);
    let op = call(&mut c, 0, Asked { wait: Wait::None, ..Asked::default() });
    assert_eq!(ended(&c, 0, op), Some([Status::NotAwaited, Status::NotAwaited].into()));
    assert!(!c.requested[1][0].awaited);
    answer(&mut c, 1, done(b"nobody wants it"));
    assert_eq!(c.gauge(0, "ENTRY", "answers_foreign"), 0, "and it is not sent");
}

#[test]
fn answers_do_not_put_the_deadline_off() {
    let mut c = cluster(4);
    let op = call(&mut c, 0, Asked { timeout: 2 * SECOND, ..Asked::default() });
    for i in [0, 1] {
        c.run(SECOND - Duration::from_millis(100));
        answer(&mut c, i, done(b"v"));
    }
    assert_eq!(ended(&c, 0, op), None);
    c.run(Duration::from_millis(250));
    let late = Status::TimedOut { sent: true };
    assert_eq!(ended(&c, 0, op), Some([answered(b"v"), answered(b"v"), late.clone(), late].into()));
}

#[test]
fn an_answer_after_the_deadline_is_not_sent() {
    let mut c = cluster(2);
    let to = Some(vec![c.id(1)]);
    call(&mut c, 0, Asked { to, timeout: SECOND, ..Asked::default() });
    c.run(2 * SECOND);
    answer(&mut c, 1, done(b"late"));
    assert_eq!(c.gauge(1, "ENTRY", "requests_answered_late"), 1);
    assert_eq!(c.gauge(0, "ENTRY", "answers_late"), 0);
    assert_eq!(c.gauge(1, "ENTRY", "requests_running"), 0);
}

#[test]
fn a_request_that_flow_control_holds_until_the_deadline_is_never_sent() {
    let max_credits = ByteSize(1000);
    let ufc = UfcConfig { max_credits, max_blocked_messages: 2, ..UfcConfig::default() };
    let mut c = Cluster::new(2, &MfcConfig::default(), &ufc, 60_000);
    c.consuming[1] = false;
    for fill in 0..2 {
        c.unicast(0, 1, 1000, fill);
    }
    // One in the line of flow control, the other above it.
    let to = || Some(vec![tagged(2)]);
    let held = call(&mut c, 0, Asked { to: to(), timeout: SECOND, ..Asked::default() });
    let waiting = call(&mut c, 0, Asked { to: to(), timeout: SECOND, ..Asked::default() });
    c.run(SECOND * 3 / 2);
    for op in [held, waiting] {
        assert_eq!(ended(&c, 0, op), Some([Status::TimedOut { sent: false }].into()));
    }
    c.resume(1);
    c.run(SECOND);
    assert!(c.requested[1].is_empty());
    let rest = c.members[0].stack.tokens_outstanding();
    assert_eq!((c.gauge(0, "ENTRY", "waiting_messages"), rest), (0, 0));
}

#[test]
fn whoever_leaves_is_decided_by_the_view_and_joiners_are_not_waited_for() {
    let mut c = cluster(4);
    c.install(&[0, 1, 2]);
    c.step();
    let op = call(&mut c, 0, Asked::default());
    answer(&mut c, 0, done(b"0"));
    answer(&mut c, 1, done(b"1"));
    c.install(&[0, 1, 3]);
    c.step();
    assert_eq!(ended(&c, 0, op), Some([answered(b"0"), answered(b"1"), Status::Left].into()));
}

#[test]
fn a_target_that_leaves_while_its_request_waits_has_left() {
    let max_credits = ByteSize(1000);
    let ufc = UfcConfig { max_credits, max_blocked_messages: 2, ..UfcConfig::default() };
    let mut c = Cluster::new(3, &MfcConfig::default(), &ufc, 60_000);
    c.consuming[1] = false;
    for fill in 0..2 {
        c.unicast(0, 1, 1000, fill);
    }
    // One in the line of flow control, the other above it.
    let ops = [call_one(&mut c, 0, 1), call_one(&mut c, 0, 1)];
    c.install(&[0, 2]);
    c.step();
    for op in ops {
        assert_eq!(ended(&c, 0, op), Some([Status::Left].into()));
    }
    assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
}

#[test]
fn an_answer_stays_when_its_sender_leaves() {
    let mut c = cluster(3);
    let op = call(&mut c, 0, Asked::default());
    answer(&mut c, 1, done(b"1"));
    c.install(&[0, 2]);
    c.step();
    answer(&mut c, 0, done(b"0"));
    answer(&mut c, 2, done(b"2"));
    assert_eq!(ended(&c, 0, op), Some([answered(b"0"), answered(b"1"), answered(b"2")].into()));
}

#[test]
fn a_target_that_a_merge_brings_back_has_left() {
    let mut c = cluster(2);
    let op = call_one(&mut c, 0, 1);
    let view = merge(9, &[c.id(0)], &[c.id(1)]);
    c.install_view(&[0, 1], view);
    c.step();
    assert_eq!(ended(&c, 0, op), Some([Status::Left].into()));
}

#[test]
fn a_call_with_nobody_to_wait_for_is_over_at_once() {
    let mut c = cluster(2);
    let stranger = Status::Unreachable(Unreachable::NotMember);
    let op = call(&mut c, 0, Asked { to: Some(vec![tagged(77)]), ..Asked::default() });
    assert_eq!(ended(&c, 0, op), Some([stranger.clone()].into()));
    let op = call(&mut c, 0, Asked { to: Some(vec![]), ..Asked::default() });
    assert_eq!(ended(&c, 0, op), Some(vec![]));
    let both = Some(vec![tagged(77), tagged(2), tagged(77)]);
    let op = call(&mut c, 0, Asked { to: both, ..Asked::default() });
    assert_eq!(ended(&c, 0, op), None);
    answer(&mut c, 1, done(b"v"));
    assert_eq!(ended(&c, 0, op), Some([stranger, answered(b"v")].into()));
}

#[test]
fn a_member_can_call_itself() {
    let mut c = cluster(2);
    let op = call_one(&mut c, 0, 0);
    assert!(c.requested[1].is_empty());
    answer(&mut c, 0, done(b"me"));
    assert_eq!(ended(&c, 0, op), Some([answered(b"me")].into()));
}

#[test]
fn a_subset_is_called_and_nobody_else() {
    for (n, to) in [(5, vec![1, 2]), (4, vec![1, 2, 3])] {
        let mut c = cluster(n);
        let targets = to.iter().map(|i| c.id(*i)).collect();
        let op = call(&mut c, 0, Asked { to: Some(targets), ..Asked::default() });
        for i in 0..n as usize {
            assert_eq!(c.requested[i].len(), usize::from(to.contains(&i)), "{i} of {n}");
        }
        to.iter().for_each(|i| answer(&mut c, *i, done(b"v")));
        assert_eq!(ended(&c, 0, op), Some(vec![answered(b"v"); to.len()]));
    }
}

#[test]
fn a_member_that_answers_twice_counts_once() {
    let mut c = cluster(3);
    let op = call(&mut c, 0, Asked { wait: Wait::Majority, ..Asked::default() });
    let from = c.id(1);
    for _ in 0..2 {
        let header = correlator(CorrelatorKind::Response, 1, None);
        arrive(&mut c, from, 0, header, Body::bytes(&b"\x01v"[..]));
    }
    assert_eq!(ended(&c, 0, op), None);
    assert_eq!(c.gauge(0, "ENTRY", "answers_late"), 1);
}

#[test]
fn answers_that_are_late_foreign_or_unreadable_are_dropped_and_counted() {
    let mut c = cluster(3);
    let op = call_one(&mut c, 0, 1);
    let response = |id| correlator(CorrelatorKind::Response, id, None);
    let (target, other) = (c.id(1), c.id(2));
    arrive(&mut c, other, 0, response(1), Body::bytes(&b"\x01v"[..]));
    arrive(&mut c, target, 0, response(99), Body::bytes(&b"\x01v"[..]));
    for garbage in [Body::Empty, Body::bytes(&b"\x07"[..]), Body::bytes(&b"\x02\xff"[..])] {
        arrive(&mut c, target, 0, response(1), garbage);
    }
    assert_eq!(ended(&c, 0, op), None);
    answer(&mut c, 1, done(b"v"));
    arrive(&mut c, target, 0, response(1), Body::bytes(&b"\x01w"[..]));
    assert_eq!(ended(&c, 0, op), Some([answered(b"v")].into()));
    let count = |name| c.gauge(0, "ENTRY", name);
    assert_eq!((count("answers_foreign"), count("answers_unreadable")), (2, 3));
    assert_eq!((count("answers_late"), count("answers")), (1, 1));
}

#[test]
fn a_request_that_comes_twice_is_carried_out_once() {
    let mut c = cluster(2);
    let from = c.id(0);
    for _ in 0..3 {
        let header = correlator(CorrelatorKind::Request, 5, None);
        arrive(&mut c, from, 1, header, Body::bytes(&b"\x01\x00\x01\x00\x01mx"[..]));
    }
    assert_eq!(c.requested[1].len(), 1);
    assert_eq!(c.gauge(1, "ENTRY", "requests_duplicate"), 2);
}

#[test]
fn a_request_that_cannot_be_read_is_answered() {
    let mut c = cluster(2);
    let op = call_one(&mut c, 0, 1);
    let from = c.id(0);
    let header = correlator(CorrelatorKind::Request, 5, None);
    arrive(&mut c, from, 1, header, Body::bytes(&b"\x09"[..]));
    assert_eq!(c.gauge(1, "ENTRY", "requests_unreadable"), 1);
    assert_eq!(c.gauge(0, "ENTRY", "answers_foreign"), 1, "for a call that was not made here");
    assert_eq!(ended(&c, 0, op), None);
}

#[test]
fn whoever_is_excluded_ignores_the_request() {
    let mut c = cluster(2);
    let from = c.id(0);
    let header = correlator(CorrelatorKind::Request, 5, Some(vec![c.id(1).into()]));
    arrive(&mut c, from, 1, header, Body::bytes(&b"\x01\x00\x01\x00\x01mx"[..]));
    assert!(c.requested[1].is_empty());
}

#[test]
fn a_call_that_is_given_up_ends_and_its_answer_is_late() {
    let mut c = cluster(2);
    let op = call_one(&mut c, 0, 1);
    c.cancel(0, op);
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::Withdrawn));
    answer(&mut c, 1, done(b"v"));
    assert_eq!(c.gauge(0, "ENTRY", "answers_late"), 1);
    assert_eq!(c.gauge(0, "ENTRY", "calls_pending"), 0);
}

#[test]
fn closing_ends_all_calls() {
    let mut c = cluster(2);
    let op = call_one(&mut c, 0, 1);
    c.command(0, Command::Disconnect);
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::Closed));
    let op = call_one(&mut c, 0, 1);
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::Closed));
    assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
}

#[test]
fn one_request_too_many_is_answered_with_overloaded() {
    let mut c = cluster(2);
    let to = || Some(vec![tagged(2)]);
    for _ in 0..MAX_RUNNING {
        call(&mut c, 0, Asked { to: to(), wait: Wait::None, ..Asked::default() });
    }
    assert_eq!(c.requested[1].len(), MAX_RUNNING, "at the limit it passes");
    let op = call_one(&mut c, 0, 1);
    assert_eq!(ended(&c, 0, op), Some([Status::Failed(Failure::Overloaded)].into()));
    answer(&mut c, 1, done(b"v"));
    let op = call_one(&mut c, 0, 1);
    assert_eq!(ended(&c, 0, op), None, "there is room again");
}

#[test]
fn one_call_too_many_is_refused() {
    let mut c = cluster(2);
    c.lose = Box::new(|_, _, _| true);
    let ops: Vec<OpId> = (0..=MAX_CALLS).map(|_| call_one(&mut c, 0, 1)).collect();
    assert_eq!(c.result(0, ops[MAX_CALLS - 1]), None, "at the limit it passes");
    let limit = MAX_CALLS as u64;
    assert_eq!(c.refusal(0, ops[MAX_CALLS]), Some(&SendRefusal::TooManyCalls { limit }));
    c.cancel(0, ops[0]);
    let again = call_one(&mut c, 0, 1);
    assert_eq!(c.result(0, again), None, "there is room again");
}

#[test]
fn calls_within_handlers_end_however_deep_they_are() {
    const DEPTH: usize = 50;
    let mut c = cluster(2);
    let ops: Vec<OpId> = (0..DEPTH).map(|d| call_one(&mut c, d % 2, (d + 1) % 2)).collect();
    for (d, op) in ops.iter().enumerate().rev() {
        let callee = (d + 1) % 2;
        let request = c.requested[callee].pop().expect("it was told").request;
        c.command(callee, Command::AnswerRequest { request, answer: done(b"v") });
        c.step();
        assert_eq!(ended(&c, d % 2, *op), Some([answered(b"v")].into()));
    }
}

#[test]
fn a_pending_call_counts_as_a_call_of_the_application() {
    let mut c = cluster(2);
    let _op = call_one(&mut c, 0, 1);
    assert!(c.members[0].stack.group().calls_pending);
    answer(&mut c, 1, done(b"v"));
    assert!(!c.members[0].stack.group().calls_pending);
}

fn values() -> MethodCall {
    let method = Method::Named { name: "add".into(), types: vec![11] };
    MethodCall { method, args: vec![Value::Int(1)] }
}

#[test]
fn members_of_jgroups_are_called_with_values_only() {
    let mut c = cluster_of(vec![tagged(1), tagged(2), id(3)]);
    let op = call(&mut c, 0, Asked::default());
    assert!(c.requested[2].is_empty());
    answer(&mut c, 0, done(b"0"));
    answer(&mut c, 1, done(b"1"));
    let only_values = Status::Unreachable(Unreachable::OnlyValues);
    assert_eq!(ended(&c, 0, op), Some([answered(b"0"), answered(b"1"), only_values].into()));
    call(&mut c, 0, Asked { ask: Ask::Values(values()), ..Asked::default() });
    for i in 0..3 {
        assert_eq!(c.requested[i][0].ask, Ask::Values(values()), "{i}");
    }
}

#[test]
fn what_members_of_jgroups_do_not_understand_is_not_multicast_among_them() {
    for (third, multicast) in [(id(3), false), (tagged(3), true)] {
        let mut c = cluster_of(vec![tagged(1), tagged(2), third]);
        let op = c.next_op();
        let (ask, wait, timeout) = (bytes(b"x"), Wait::All, SECOND);
        let call = Call { op, to: None, ask, wait, timeout, flags: Flags::empty() };
        c.command(0, Command::Call(Box::new(call)));
        let sent = c.members[0].sent();
        assert!(!sent.is_empty());
        assert!(sent.iter().all(|m| m.is_multicast() == multicast));
    }
}

#[test]
fn only_a_call_to_everybody_or_everybody_else_is_a_multicast() {
    let stranger = tagged(9);
    for (to, multicasts) in [
        (None, true),
        (Some(vec![tagged(1), tagged(2), tagged(3)]), true),
        (Some(vec![tagged(2), tagged(3)]), true),
        (Some(vec![tagged(1), tagged(3)]), false),
        (Some(vec![tagged(2), tagged(3), stranger]), false),
    ] {
        let mut c = cluster(3);
        let op = c.next_op();
        let (ask, wait, timeout) = (bytes(b"x"), Wait::All, SECOND);
        let call = Call { op, to: to.clone(), ask, wait, timeout, flags: Flags::empty() };
        c.command(0, Command::Call(Box::new(call)));
        let sent = c.members[0].sent();
        assert!(!sent.is_empty());
        assert!(sent.iter().all(|m| m.is_multicast() == multicasts), "{to:?}");
    }
}

#[test]
fn what_a_member_of_jgroups_answers_is_a_value_or_an_exception() {
    use wire::throwable::{self, JavaException};
    let mut c = cluster_of(vec![tagged(1), id(3)]);
    let wrapped = |exception, text| {
        let mut buffer = Vec::new();
        Value::Java(throwable::write(exception, text)).encode_buffer(&mut buffer);
        Body::object(Object::Wrapped(Some(buffer.into())))
    };
    let class = Some("java.lang.RuntimeException".into());
    let failure = Failure::Error { class, message: "oops".into() };
    let (value, thrown) = (CorrelatorKind::Response, CorrelatorKind::Failure);
    let cases = [
        (value, Body::object(Object::Primitive(Value::Int(7))), Value::Int(7).into()),
        (value, Body::Object(None), Value::Null.into()),
        (thrown, wrapped(JavaException::Runtime, "oops"), Status::Failed(failure)),
        (thrown, wrapped(JavaException::NoSuchMethod, "add"), Status::NoSuchMethod),
    ];
    for (n, (kind, body, status)) in cases.into_iter().enumerate() {
        let asked = Asked { to: Some(vec![id(3)]), ask: Ask::Values(values()), ..Asked::default() };
        let op = call(&mut c, 0, asked);
        arrive(&mut c, id(3), 0, correlator(kind, n as i64 + 1, None), body);
        assert_eq!(ended(&c, 0, op), Some([status].into()));
    }
}

impl From<Value> for Status {
    fn from(value: Value) -> Self {
        Status::Answered(Reply::Value(value))
    }
}

#[test]
fn a_member_of_jgroups_is_answered_in_the_form_of_its_request() {
    let mut c = cluster_of(vec![tagged(1), id(3)]);
    let answers = [
        (CallAnswer::Done(Reply::Value(Value::Int(7))), CorrelatorKind::Response),
        (CallAnswer::Done(Reply::Value(Value::Null)), CorrelatorKind::Response),
        (CallAnswer::NoSuchMethod, CorrelatorKind::Failure),
    ];
    for (n, (answer, kind)) in answers.into_iter().enumerate() {
        let header = correlator(CorrelatorKind::Request, n as i64 + 1, None);
        arrive(&mut c, id(3), 0, header, Body::object(values().to_object()));
        let request = c.requested[0].remove(0);
        assert_eq!((request.ask, request.until), (Ask::Values(values()), None));
        let null = answer == CallAnswer::Done(Reply::Value(Value::Null));
        c.command(0, Command::AnswerRequest { request: request.request, answer });
        let sent = c.members[0].sent();
        let m = sent.last().expect("an answer");
        let expected = correlator(kind, n as i64 + 1, None);
        assert_eq!(m.headers.get(ProtId::REQUEST_CORRELATOR), Some(&expected));
        assert_eq!(m.body.type_id(), 3, "an ObjectMessage");
        assert_eq!(m.has(Flags::SERIALIZED), !null);
        assert!(m.has(Flags::NO_FC));
    }
}

/// Whatever happens in whatever order, every target has one status: that of what happened to it
/// first.
#[test]
fn the_first_thing_that_happens_to_a_target_decides_it() {
    let mut rng = Rng::new(7);
    for round in 0..200 {
        let mut c = cluster(4);
        let op = call(&mut c, 0, Asked { timeout: 5 * SECOND, ..Asked::default() });
        let mut expected: [Option<Status>; 4] = [const { None }; 4];
        let mut members = vec![0, 1, 2, 3];
        for _ in 0..rng.below(12) {
            let i = rng.below(4) as usize;
            match rng.below(4) {
                0 if i != 0 && members.contains(&i) => {
                    members.retain(|m| *m != i);
                    c.install(&members);
                    c.step();
                    expected[i].get_or_insert(Status::Left);
                }
                1 => {
                    let header = correlator(CorrelatorKind::Failure, 1, None);
                    let from = c.id(i);
                    arrive(&mut c, from, 0, header, Body::bytes(&b"\x02"[..]));
                    expected[i].get_or_insert(Status::Failed(Failure::Overloaded));
                }
                2 if ended(&c, 0, op).is_none() => c.run(Duration::from_millis(100)),
                _ => {
                    let header = correlator(CorrelatorKind::Response, 1, None);
                    let from = c.id(i);
                    arrive(&mut c, from, 0, header, Body::bytes(&b"\x01v"[..]));
                    expected[i].get_or_insert(answered(b"v"));
                }
            }
            let open = expected.iter().any(Option::is_none);
            assert_eq!(ended(&c, 0, op).is_none(), open, "round {round}");
        }
        c.run(6 * SECOND);
        let rows: Vec<Status> =
            expected.into_iter().map(|s| s.unwrap_or(Status::TimedOut { sent: true })).collect();
        assert_eq!(ended(&c, 0, op), Some(rows), "round {round}");
    }
}
