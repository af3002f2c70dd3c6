//! Counters at several members.

mod group;

use super::payload::{Copy, OwnPayload, Step};
use super::table::{Change, State, Table};
use super::*;
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::primary::Minority;
use crate::testkit::{Solo, exchange, id, pass_time};
use crate::wire::{
    self, Body, CounterAsk, CounterOwner, Encode, Flags, Header, Message, NamedCounter,
};
use crate::{AppEvent, Command, GroupChange, PrimaryClaim, SendResult, Time, View, ViewId, tag};
use alloc::boxed::Box;
use alloc::vec::Vec;
use group::Group;

const SECOND: Duration = Duration::from_secs(1);

/// A member with COUNTER.
fn ours(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::COUNTS)
}

#[test]
fn members_count_together() {
    let mut g = Group::new(3);
    for round in 0..5 {
        for i in 0..3 {
            let op = g.add(i);
            assert_eq!(g.value(i, op), Some(round * 3 + i as i64 + 1));
        }
    }
    assert_eq!(g.get(2), 15);
}

#[test]
fn a_counter_begins_with_what_whoever_is_first_says() {
    let mut g = Group::new(2);
    let call = |op, initial| CounterCall {
        op: OpId(op),
        name: "c".into(),
        initial,
        action: CounterAction::Get,
        timeout: None,
    };
    for (op, i, initial) in [(100, 1, 40), (101, 0, 7)] {
        g.members[i].stack.submit(Time::ZERO, Command::Counter(call(op, initial)));
        g.step();
        assert_eq!(g.value(i, OpId(op)), Some(40));
    }
}

#[test]
fn a_swap_happens_only_from_the_expected_value() {
    let mut g = Group::new(2);
    let swap = |expected, update| CounterAction::CompareAndSwap { expected, update };
    let set = g.ask(1, CounterAction::Set(5));
    let (fails, succeeds) = (g.ask(1, swap(4, 9)), g.ask(0, swap(5, 8)));
    assert_eq!(
        (g.value(1, set), g.value(1, fails), g.value(0, succeeds)),
        (Some(5), Some(5), Some(5))
    );
    assert_eq!(g.get(1), 8);
}

#[test]
fn nothing_is_answered_before_the_backup_has_it() {
    let mut g = Group::new(3);
    g.get(0);
    g.cut(0, 1);
    let (remote, local) = (g.add(2), g.add(0));
    let read = g.ask(0, CounterAction::Get);
    g.run(3 * SECOND);
    assert_eq!((g.result(2, remote), g.result(0, local), g.result(0, read)), (None, None, None));
    g.heal();
    g.run(2 * SECOND);
    assert_eq!(
        (g.value(2, remote), g.value(0, local), g.value(0, read)),
        (Some(1), Some(2), Some(2))
    );
}

#[test]
fn what_was_carried_out_and_not_answered_is_not_carried_out_again() {
    let mut g = Group::new(3);
    g.add(2);
    // B, the backup, learns of the second increment; C does not hear that it was done.
    g.cut(0, 2);
    let op = g.add(2);
    assert_eq!(g.result(2, op), None);
    g.heal();
    g.install(2, &[1, 2]);
    assert_eq!(g.value(2, op), Some(2));
    assert_eq!(g.get(1), 2);
}

#[test]
fn a_request_that_died_with_the_coordinator_is_carried_out_by_the_next() {
    let mut g = Group::new(3);
    g.add(2);
    g.cut(2, 0);
    let op = g.add(2);
    g.heal();
    g.install(2, &[1, 2]);
    assert_eq!(g.value(2, op), Some(2));
}

#[test]
fn what_came_twice_is_answered_twice_and_done_once() {
    let mut g = Group::new(2);
    let owner = CounterOwner { member: Some(g.id(1).into()), request: 77 };
    let ask = |ask| CounterPayload::Ask { owner: owner.clone(), name: "c".into(), ask };
    g.ask(0, CounterAction::Set(3));
    for _ in 0..3 {
        let m = payload::message(g.id(0), ask(CounterAsk::AddAndGet(1)).to_bytes());
        let mut m = m;
        m.src = Some(g.id(1).into());
        g.members[0].arrive(0, m);
        g.step();
    }
    assert_eq!(g.get(0), 4);
    assert_eq!(g.gauge(0, "requests_known"), 2);
}

#[test]
fn a_late_copy_of_a_request_that_found_no_counter_is_carried_out_once_at_most() {
    let mut g = Group::new(3);
    g.cut(1, 0);
    let op = g.add(1);
    let owner = CounterOwner { member: Some(g.id(1).into()), request: 1 };
    let (a, b) = (g.id(0), g.id(1));
    let say = |g: &mut Group, from: Uuid, to: usize, payload: &CounterPayload| {
        let mut m = payload::message(g.id(to), payload.to_bytes());
        m.src = Some(from.into());
        g.members[to].arrive(0, m);
        g.step();
    };
    // The first copy came when there was no counter; B, told so, would make it.
    let error = Some(asking::not_found("c"));
    say(&mut g, a, 1, &CounterPayload::Failed { owner: owner.clone(), error });
    let other = g.add(2);
    // The second one comes when C has made it, and before C has added to it.
    let ask = CounterAsk::AddAndGet(1);
    say(&mut g, b, 0, &CounterPayload::Ask { owner, name: "c".into(), ask });
    g.heal();
    g.run(3 * SECOND);
    assert_eq!((g.value(1, op), g.value(2, other)), (Some(1), Some(2)));
    assert_eq!(g.get(2), 2);
}

#[test]
fn a_deleted_counter_does_not_come_back_with_another_coordinator() {
    let mut g = Group::new(3);
    g.ask(2, CounterAction::Set(9));
    let op = g.ask(2, CounterAction::Delete);
    assert_eq!(g.value(2, op), Some(9));
    g.install(2, &[1, 2]);
    assert_eq!(g.get(2), 0, "it begins anew");
}

#[test]
fn of_two_parts_the_counter_that_was_changed_more_often_is_kept() {
    let mut g = Group::new(4);
    g.install(2, &[0, 1]);
    g.install(2, &[2, 3]);
    for _ in 0..2 {
        g.add(1);
    }
    for _ in 0..3 {
        g.ask(3, CounterAction::AddAndGet(10));
    }
    let subgroups = [g.view(2, &[0, 1]), g.view(2, &[2, 3])];
    let merged = View { subgroups: subgroups.into(), ..g.view(5, &[0, 1, 2, 3]) };
    g.install_view(merged, &[0, 1, 2, 3]);
    for i in 0..4 {
        assert_eq!(g.get(i), 30);
    }
}

#[test]
fn a_new_coordinator_waits_for_what_the_others_have() {
    let mut g = Group::new(4);
    g.add(3);
    g.cut(2, 1);
    g.install(2, &[1, 2, 3]);
    let op = g.add(3);
    g.run(3 * SECOND);
    assert_eq!(g.result(3, op), None);
    g.heal();
    g.run(2 * SECOND);
    assert_eq!(g.value(3, op), Some(2));
}

#[test]
fn a_request_ends_at_its_deadline() {
    let mut g = Group::new(2);
    g.cut(1, 0);
    let op = g.add(1);
    g.run(Duration::from_millis(4_999));
    assert_eq!(g.result(1, op), None);
    g.run(Duration::from_millis(1));
    assert_eq!(g.result(1, op), Some(&Err(CounterFailure::TimedOut { asked: Some(g.id(0)) })));
}

#[test]
fn a_request_that_is_given_up_ends_at_once() {
    let mut g = Group::new(2);
    g.cut(0, 1);
    let op = g.add(1);
    let now = g.members[1].now;
    g.members[1].stack.submit(now, Command::Cancel(op));
    g.step();
    assert_eq!(g.result(1, op), Some(&Err(CounterFailure::Withdrawn)));
    assert_eq!(g.gauge(1, "requests_pending"), 0);
}

#[test]
fn requests_are_limited_to_what_coordinators_remember() {
    let mut g = Group::new(2);
    g.cut(1, 0);
    for _ in 0..table::REMEMBERED {
        let op = g.add(1);
        assert_eq!(g.result(1, op), None);
    }
    let op = g.add(1);
    assert_eq!(g.result(1, op), Some(&Err(CounterFailure::TooMany { limit: 1_024 })));
}

#[test]
fn a_name_may_be_so_long_and_no_longer() {
    let mut g = Group::new(1);
    for (op, length, fits) in [(1, MAX_NAME, true), (2, MAX_NAME + 1, false)] {
        let name = "n".repeat(length);
        let action = CounterAction::Get;
        let call = CounterCall { op: OpId(op), name, initial: 0, action, timeout: None };
        g.members[0].stack.submit(Time::ZERO, Command::Counter(call));
        g.step();
        assert_eq!(g.result(0, OpId(op)).expect("it has ended").is_ok(), fits);
    }
}

#[test]
fn without_counter_in_the_stack_there_are_none() {
    let layers: Vec<Box<dyn Protocol>> = [Box::new(Entry::new(EntryConfig::default())) as _].into();
    let mut g = Group::new(1);
    g.members = [Solo::topped(1, ours(1), layers)].into();
    g.install(1, &[0]);
    let op = g.add(0);
    assert_eq!(g.result(0, op), Some(&Err(CounterFailure::NotInStack)));
}

#[test]
fn outside_the_primary_view_nobody_counts() {
    let mut g = Group::new(3);
    for i in 0..3 {
        g.claim(i, Primacy::Unknown);
    }
    let op = g.add(2);
    assert_eq!(g.result(2, op), None, "nobody knows");
    for i in 0..3 {
        g.claim(i, Primacy::Yes);
    }
    g.step();
    assert_eq!(g.value(2, op), Some(1));
    g.cut(0, 2);
    let carried_out = g.add(2);
    g.claim(2, Primacy::No);
    g.step();
    let unknown = CounterFailure::Unknown { asked: g.id(0) };
    assert_eq!(g.result(2, carried_out), Some(&Err(unknown)));
    let op = g.add(2);
    assert_eq!(g.result(2, op), Some(&Err(CounterFailure::NotPrimary)));
}

#[test]
fn what_a_minority_did_not_answer_counts_for_nothing_in_the_primary_view() {
    let mut g = Group::new(3);
    let all = |g: &mut Group, who: &[usize], primacy| who.iter().for_each(|i| g.claim(*i, primacy));
    all(&mut g, &[0, 1, 2], Primacy::Yes);
    g.add(1);
    // A carries out three increments that nobody else hears of.
    let a = g.id(0);
    g.lose = Box::new(move |f, t, _| f == a || t == a);
    let lost: Vec<OpId> = (0..3).map(|_| g.add(0)).collect();
    all(&mut g, &[1, 2], Primacy::Unknown);
    g.install(2, &[1, 2]);
    all(&mut g, &[1, 2], Primacy::Yes);
    let op = g.ask(2, CounterAction::AddAndGet(100));
    assert_eq!(g.value(2, op), Some(101));
    assert!(lost.iter().all(|op| g.result(0, *op).is_none()));
    g.heal();
    let subgroups = [g.view(1, &[0, 1, 2]), g.view(2, &[1, 2])];
    let merged = View { subgroups: subgroups.into(), ..g.view(3, &[0, 1, 2]) };
    all(&mut g, &[0, 1, 2], Primacy::Unknown);
    g.install_view(merged, &[0, 1, 2]);
    all(&mut g, &[0, 1, 2], Primacy::Yes);
    g.step();
    // Now A's requests, which were never answered, are carried out; once.
    assert_eq!(g.get(1), 104);
}

/// A member of ours, alone with a JGroups member, which is played by the test.
fn mixed(java_leads: bool) -> (Group, usize) {
    let mut g = Group::of(&[ours(1)], 1);
    let order = if java_leads { [id(9), ours(1)] } else { [ours(1), id(9)] };
    g.members[0].install(Arc::new(View::new(1, order[0], order)));
    (g, 0)
}

/// What was sent to the JGroups member since the last time, by `i`.
fn told(g: &mut Group, i: usize) -> Vec<CounterPayload> {
    let sent = g.members[i].sent();
    let to_java = |m: &Message| m.dest.as_ref().and_then(wire::Address::uuid) == Some(id(9));
    let read = |m: Message| CounterPayload::from_bytes(m.body.as_bytes().expect("bytes").clone());
    sent.into_iter().filter(to_java).map(|m| read(m).expect("JGroups can read it")).collect()
}

fn from_java(g: &mut Group, i: usize, payload: &CounterPayload) {
    let body = Body::bytes(payload.to_bytes());
    let to = g.id(i);
    let m = Message::unicast(to, body).with_header(ProtId::COUNTER, Header::Counter);
    g.members[i].arrive(9, m);
}

#[test]
fn a_backup_of_jgroups_says_that_it_has_a_change_by_reconciling() {
    let (mut g, a) = mixed(false);
    assert!(matches!(told(&mut g, a)[..], [CounterPayload::Reconcile(_)]), "what do you have?");
    from_java(&mut g, a, &CounterPayload::Newer(Vec::new()));
    let ready = told(&mut g, a);
    assert!(ready.contains(&CounterPayload::ResendPending), "{ready:?}");
    from_java(&mut g, a, &CounterPayload::Newer(Vec::new()));
    let op = OpId(50);
    let action = CounterAction::AddAndGet(1);
    let call = CounterCall { op, name: "c".into(), initial: 4, action, timeout: None };
    g.members[a].stack.submit(Time::ZERO, Command::Counter(call));
    // The counter is made and then changed, each when the backup has what came before.
    for value in [4, 5] {
        let said = told(&mut g, a);
        let version = value - 3;
        let c = NamedCounter { name: "c".into(), value, version };
        let all = CounterPayload::Reconcile([c.clone()].into());
        assert_eq!(said, [CounterPayload::Update(c), all]);
        g.drain();
        assert_eq!(g.result(a, op), None);
        from_java(&mut g, a, &CounterPayload::Newer(Vec::new()));
    }
    g.drain();
    assert_eq!(g.value(a, op), Some(5));
}

#[test]
fn a_backup_of_jgroups_that_says_nothing_is_gone_on_without() {
    let (mut g, a) = mixed(false);
    let op = OpId(50);
    let action = CounterAction::AddAndGet(1);
    let call = CounterCall { op, name: "c".into(), initial: 0, action, timeout: None };
    g.members[a].stack.submit(Time::ZERO, Command::Counter(call));
    g.run(9 * SECOND);
    assert_eq!(g.result(a, op), None);
    g.run(14 * SECOND);
    assert_eq!(g.value(a, op), Some(1));
    assert_eq!(g.gauge(a, "backups_silent"), 1);
}

#[test]
fn a_coordinator_of_jgroups_is_not_asked_twice_to_change_something() {
    let (mut g, a) = mixed(true);
    let call = |op, action| {
        let timeout = Some(60 * SECOND);
        CounterCall { op: OpId(op), name: "c".into(), initial: 0, action, timeout }
    };
    g.members[a].stack.submit(Time::ZERO, Command::Counter(call(50, CounterAction::Get)));
    g.members[a].stack.submit(Time::ZERO, Command::Counter(call(51, CounterAction::Set(3))));
    let asked = told(&mut g, a);
    assert_eq!(asked.len(), 2);
    from_java(&mut g, a, &CounterPayload::ResendPending);
    assert_eq!(told(&mut g, a), asked[..1], "reading twice does no harm");
    // The next coordinator cannot know whether it was done.
    g.install_view(View::new(2, ours(1), [ours(1)]), &[0]);
    assert_eq!(g.value(a, OpId(50)), Some(0));
    let answer = g.result(a, OpId(51)).cloned();
    assert_eq!(answer, Some(Err(CounterFailure::Unknown { asked: id(9) })));
}

#[test]
fn a_new_coordinator_of_jgroups_is_asked_when_it_is_ready() {
    let mut g = Group::of(&[ours(1), ours(3)], 1);
    g.install_view(View::new(1, ours(1), [ours(1), id(9), ours(3)]), &[0, 1]);
    g.members.remove(0);
    g.results.remove(0);
    g.install_view(View::new(2, id(9), [id(9), ours(3)]), &[0]);
    let call = CounterCall {
        op: OpId(50),
        name: "c".into(),
        initial: 0,
        action: CounterAction::AddAndGet(1),
        timeout: None,
    };
    g.members[0].stack.submit(Time::ZERO, Command::Counter(call));
    assert_eq!(told(&mut g, 0), []);
    from_java(&mut g, 0, &CounterPayload::ResendPending);
    assert!(matches!(told(&mut g, 0)[..], [CounterPayload::Ask { .. }]));
}

#[test]
fn a_function_of_java_is_refused_in_words() {
    let (mut g, a) = mixed(false);
    g.run(25 * SECOND);
    let owner = CounterOwner { member: Some(id(9).into()), request: 1 };
    let ask = CounterPayload::Ask { owner, name: "c".into(), ask: CounterAsk::Function };
    let mut bytes = ask.to_bytes().to_vec();
    bytes.extend_from_slice(&[1, 2, 3]);
    let m = Message::unicast(g.id(a), Body::bytes(bytes))
        .with_flags(Flags::empty())
        .with_header(ProtId::COUNTER, Header::Counter);
    g.members[a].arrive(9, m);
    let said = told(&mut g, a);
    let [CounterPayload::Failed { error: Some(why), .. }] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(why.contains("function of Java"), "{why}");
}

fn steps() -> Vec<OwnPayload> {
    let state = State { value: Some(-5), version: 3 };
    let change = Change { name: "c".into(), state, owner: ours(1), request: 2, value: 7 };
    let mut table = Table::default();
    table.apply(&change);
    let gone = State { value: None, version: 9 };
    table.apply(&Change { name: "d".into(), state: gone, ..change.clone() });
    let copy = Copy { whole: true, stamp: 4, table };
    let view = ViewId { creator: ours(2), id: 12 };
    let step = |step| OwnPayload { view, step };
    [
        step(Step::Ask),
        step(Step::Have(copy.clone())),
        step(Step::All { seq: 5, copy }),
        step(Step::Next { seq: 6, change }),
        step(Step::Acked(6)),
    ]
    .into()
}

#[test]
fn steps_are_read_as_they_were_written_and_no_part_of_them_is() {
    for step in steps() {
        let bytes = step.to_bytes();
        assert_eq!(OwnPayload::from_bytes(bytes.clone()).as_ref(), Ok(&step));
        for n in 0..bytes.len() {
            assert!(OwnPayload::from_bytes(bytes.slice(..n)).is_err(), "{step:?} cut at {n}");
        }
    }
    let hex: std::string::String =
        steps()[4].to_bytes().iter().map(|b| std::format!("{b:02x}")).collect();
    // As docs/wire-extensions.md shows it, with the identity of member 2.
    assert_eq!(&hex[..4], "0305");
    assert_eq!(&hex[36..], "000000000000000c0000000000000006");
}

#[test]
fn garbage_is_dropped_and_counted() {
    let mut g = Group::new(2);
    for bytes in [&[][..], &[9], &[3, 9], &[1, 4], &[3, 4, 1], &[1, 6, 0x7f, 0xff, 0xff, 0xff]] {
        let m = Message::unicast(g.id(0), Body::bytes(bytes.to_vec()))
            .with_header(ProtId::COUNTER, Header::Counter);
        let mut m = m;
        m.src = Some(g.id(1).into());
        g.members[0].arrive(0, m);
        g.step();
    }
    assert_eq!(g.gauge(0, "unreadable"), 6);
    let op = g.add(1);
    assert_eq!(g.value(1, op), Some(1));
}
