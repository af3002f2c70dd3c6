//! Histories that are right, and wrong in one thing.

use super::super::made::*;
use super::*;
use crate::cluster::{call_of, value};
use rgroups_core::rpc::{CallOutcome, Failure, Unreachable};
use std::sync::Arc;

const WITHIN: Duration = Duration::from_secs(2);

fn found(h: &History) -> Vec<&'static str> {
    names(&check(h, &conditions()))
}

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

fn call_with(h: &mut History, from: Life, to: Option<&[Life]>, wait: Wait, e: Errand) -> OpId {
    let op = call_of(h.calls.len());
    let to = to.map(|to| to.iter().map(|l| id(*l)).collect());
    let made = MadeCall { caller: from, to, wait, within: WITHIN, errand: e, nested_in: None };
    h.calls.push(made);
    push(h, from, What::Calls(op));
    op
}

fn call(h: &mut History, from: Life, to: Option<&[Life]>, wait: Wait) -> OpId {
    call_with(h, from, to, wait, Errand::Answer)
}

fn carry_out(h: &mut History, at: Life, op: OpId, given: Given) {
    let caller = id(h.calls[number(op) as usize].caller);
    push(h, at, What::CarriedOut(op, caller));
    push(h, at, What::AnswersCall(op, caller, given));
}

fn end_at(h: &mut History, moment: Time, op: OpId, rows: &[(Life, Status)]) {
    let row = |(l, status): &(Life, Status)| Row { member: id(*l), status: status.clone() };
    let outcome = CallOutcome { rows: rows.iter().map(row).collect() };
    let caller = h.calls[number(op) as usize].caller;
    let what = What::CallEnded(op, SendResult::Called(outcome));
    push_at(h, moment, Some(caller), what);
}

fn end(h: &mut History, op: OpId, rows: &[(Life, Status)]) {
    let moment = now(h);
    end_at(h, moment, op, rows);
}

fn answered(op: OpId, by: Life) -> (Life, Status) {
    (by, Status::Answered(value(op, id(by))))
}

const LATE: Status = Status::TimedOut { sent: true };

#[test]
fn a_call_that_all_answer_breaks_nothing() {
    let mut h = together();
    let op = call(&mut h, A, None, Wait::All);
    for l in [A, B, C] {
        carry_out(&mut h, l, op, Given::Value);
    }
    end(&mut h, op, &[A, B, C].map(|l| answered(op, l)));
    assert!(check(&h, &conditions()).is_empty());
}

#[test]
fn a_call_that_outlives_its_deadline_breaks_j1() {
    for (ended, breaks) in [(2, false), (3, true)] {
        let mut h = together();
        let op = call(&mut h, A, Some(&[B]), Wait::All);
        end_at(&mut h, at(ended), op, &[(B, LATE)]);
        assert_eq!(found(&h) == ["J1"], breaks, "{ended} s");
    }
}

#[test]
fn a_call_of_a_process_that_is_slow_since_its_predecessor_may_be_late_by_two_turns() {
    for (late, breaks) in [(380, false), (700, true)] {
        let mut h = together();
        let again = Life(3);
        push(&mut h, A, What::Slowed(Duration::from_millis(200)));
        h.add_life(crate::network::Host(A.0), "A.2".into(), id(again));
        install(&mut h, again, 4, again, &[again, B]);
        let op = call(&mut h, again, Some(&[B]), Wait::All);
        end_at(&mut h, at(2) + Duration::from_millis(late), op, &[(B, LATE)]);
        assert_eq!(found(&h).contains(&"J1"), breaks, "{late} ms");
    }
}

#[test]
fn a_call_that_never_ends_breaks_j1_unless_its_caller_dies_or_is_frozen() {
    let frozen = What::Frozen(true);
    for (what, breaks) in [
        (What::Network("on".into()), true),
        (What::Died { power_off: false }, false),
        (frozen, false),
    ] {
        let mut h = together();
        call(&mut h, A, Some(&[B]), Wait::All);
        push_at(&mut h, at(1), Some(A), what);
        push_at(&mut h, at(9), None, What::Network("on".into()));
        assert_eq!(found(&h) == ["J1"], breaks);
    }
}

#[test]
fn a_call_that_outlives_the_leave_of_its_caller_breaks_j1() {
    let mut h = together();
    call(&mut h, A, Some(&[B]), Wait::All);
    push(&mut h, A, What::LeaveAsked);
    push(&mut h, A, What::Left { confirmed: true });
    assert_eq!(found(&h), ["J1"]);
}

#[test]
fn a_row_that_says_what_did_not_happen_breaks_j2() {
    let error = |words: &str| Status::Failed(Failure::Error { class: None, message: words.into() });
    let stranger = Status::Unreachable(Unreachable::NotMember);
    let unsent = Status::TimedOut { sent: false };
    let of_c = Status::Answered(value(call_of(0), id(C)));
    let own = answered(call_of(0), B).1;
    for (given, status, when, right) in [
        (Some(Given::Value), own.clone(), 0, true),
        (None, own.clone(), 0, false),
        (Some(Given::Error), own, 0, false),
        (Some(Given::Value), of_c, 0, false),
        (Some(Given::Error), error("asked for"), 0, true),
        (Some(Given::Error), error("else"), 0, false),
        (None, error("asked for"), 0, false),
        (Some(Given::Value), Status::Failed(Failure::Overloaded), 0, false),
        (Some(Given::NoSuchMethod), Status::NoSuchMethod, 0, true),
        (None, Status::NoSuchMethod, 0, false),
        (None, Status::Left, 0, false),
        (None, stranger, 0, false),
        (None, Status::Unreachable(Unreachable::OnlyValues), 0, false),
        (None, LATE, 1, false),
        (None, LATE, 2, true),
        (None, unsent.clone(), 2, true),
        (Some(Given::Value), unsent, 2, false),
    ] {
        let mut h = together();
        let op = call(&mut h, A, Some(&[B]), Wait::All);
        given.into_iter().for_each(|g| carry_out(&mut h, B, op, g));
        let moment = if when == 0 { now(&h) } else { at(when) };
        end_at(&mut h, moment, op, &[(B, status.clone())]);
        assert_eq!(found(&h).is_empty(), right, "{given:?} {status:?}");
        assert!(right || found(&h).contains(&"J2"));
    }
}

#[test]
fn rows_of_others_twice_or_missing_break_j2() {
    let rows = |of: &[Life], op| of.iter().map(|l| answered(op, *l)).collect::<Vec<_>>();
    for (to, of, right) in [
        (None, [A, B, C].as_slice(), true),
        (None, &[A, B], false),
        (None, &[A, B, C, C], false),
        (None, &[B, A, C], false),
        (Some([C, B, C].as_slice()), &[C, B], true),
        (Some(&[C, B]), &[B, C], false),
        (Some(&[B]), &[C], false),
    ] {
        let mut h = together();
        let op = call(&mut h, A, to, Wait::All);
        of.iter().for_each(|l| carry_out(&mut h, *l, op, Given::Value));
        end(&mut h, op, &rows(of, op));
        assert_eq!(found(&h).contains(&"J2"), !right, "{to:?} {of:?}");
    }
}

#[test]
fn a_refusal_to_a_member_breaks_j2_and_one_to_who_leaves_does_not() {
    for leaves in [true, false] {
        let mut h = together();
        if leaves {
            push(&mut h, A, What::LeaveAsked);
        }
        let op = call(&mut h, A, None, Wait::All);
        let why = SendResult::Refused(SendRefusal::Closed);
        push(&mut h, A, What::CallEnded(op, why));
        assert_eq!(found(&h).is_empty(), leaves);
    }
}

/// A calls B and C; C answers and B is out in the next view.
fn without_b(merge: bool) -> (History, OpId) {
    let mut h = together();
    let op = call(&mut h, A, Some(&[B, C]), Wait::All);
    carry_out(&mut h, C, op, Given::Value);
    if merge {
        let mut merged = view(5, A, &[A, C, B]);
        merged.subgroups = vec![view(3, A, &[A, C]), view(3, B, &[B])].into();
        push(&mut h, A, What::View(Arc::new(merged)));
    } else {
        install(&mut h, A, 4, A, &[A, C]);
    }
    (h, op)
}

#[test]
fn a_target_that_is_awaited_though_it_left_breaks_j3() {
    for merge in [false, true] {
        for (status, when) in [(Status::Left, 1), (LATE, 2)] {
            let (mut h, op) = without_b(merge);
            end_at(&mut h, at(when), op, &[(B, status.clone()), answered(op, C)]);
            let right = status == Status::Left;
            assert_eq!(found(&h), if right { vec![] } else { vec!["J3"] }, "{status:?}");
        }
    }
}

#[test]
fn an_answer_after_the_view_without_its_member_breaks_j3() {
    let (mut h, op) = without_b(false);
    push_at(&mut h, at(1), None, What::Network("on".into()));
    carry_out(&mut h, B, op, Given::Value);
    end(&mut h, op, &[answered(op, B), answered(op, C)]);
    assert_eq!(found(&h), ["J3"]);
}

#[test]
fn a_call_that_goes_on_when_all_have_left_breaks_j3() {
    let mut h = together();
    let op = call(&mut h, A, Some(&[B]), Wait::All);
    install(&mut h, A, 4, A, &[A, C]);
    end_at(&mut h, at(1), op, &[(B, Status::Left)]);
    assert_eq!(found(&h), ["J3"]);
}

#[test]
fn a_call_that_an_error_ends_early_breaks_j4() {
    for (wait, given, right) in [
        (Wait::First, [Given::Value, Given::Error], true),
        (Wait::First, [Given::Error, Given::Error], false),
        (Wait::Majority, [Given::Value, Given::Value], true),
        (Wait::Majority, [Given::Value, Given::Error], false),
        (Wait::All, [Given::Value, Given::Value], false),
    ] {
        let mut h = together();
        let op = call(&mut h, A, None, wait);
        let mut rows = Vec::new();
        for (l, g) in [A, B].into_iter().zip(given) {
            carry_out(&mut h, l, op, g);
            rows.push(match g {
                Given::Value => answered(op, l),
                _ => {
                    let message = "asked for".into();
                    (l, Status::Failed(Failure::Error { class: None, message }))
                }
            });
        }
        rows.push((C, Status::NotAwaited));
        end(&mut h, op, &rows);
        assert_eq!(found(&h), if right { vec![] } else { vec!["J4"] }, "{wait:?} {given:?}");
    }
}

#[test]
fn a_call_that_is_carried_out_twice_breaks_j5() {
    let mut h = together();
    let op = call(&mut h, A, Some(&[B]), Wait::All);
    carry_out(&mut h, B, op, Given::Value);
    carry_out(&mut h, B, op, Given::Value);
    end(&mut h, op, &[answered(op, B)]);
    assert_eq!(found(&h), ["J5"]);
}

#[test]
fn a_call_that_is_carried_out_by_who_was_not_called_breaks_j5() {
    let mut h = together();
    let op = call(&mut h, A, Some(&[B]), Wait::All);
    carry_out(&mut h, B, op, Given::Value);
    carry_out(&mut h, C, op, Given::Value);
    end(&mut h, op, &[answered(op, B)]);
    assert_eq!(found(&h), ["J5"]);
}

#[test]
fn a_joiner_may_carry_out_what_everybody_is_called_for_and_nothing_else() {
    for (to, right) in [
        (None, true),
        (Some([A, B].as_slice()), true),
        (Some(&[B]), true),
        (Some(&[A]), false),
        (Some(&[B, C]), false),
    ] {
        let mut h = trio();
        for l in [A, B] {
            install(&mut h, l, 3, A, &[A, B]);
        }
        let op = call(&mut h, A, to, Wait::None);
        carry_out(&mut h, C, op, Given::Value);
        let stranger = (C, Status::Unreachable(Unreachable::NotMember));
        let rows: Vec<(Life, Status)> = to
            .unwrap_or(&[A, B])
            .iter()
            .map(|l| match *l {
                C => stranger.clone(),
                l => (l, Status::NotAwaited),
            })
            .collect();
        end(&mut h, op, &rows);
        assert_eq!(found(&h).is_empty(), right, "{to:?}");
    }
}

#[test]
fn an_answer_that_is_not_heard_breaks_j5() {
    for (given_after, breaks) in [(Duration::ZERO, true), (Duration::from_secs(11), false)] {
        let mut h = together();
        let began = at(20);
        push_at(&mut h, began, None, What::Network("on".into()));
        let op = call(&mut h, A, Some(&[B]), Wait::All);
        h.calls[0].within = Duration::from_secs(20);
        push_at(&mut h, began + given_after, None, What::Network("on".into()));
        carry_out(&mut h, B, op, Given::Value);
        end_at(&mut h, at(40), op, &[(B, LATE)]);
        assert_eq!(found(&h) == ["J5"], breaks, "{given_after:?}");
    }
}

#[test]
fn a_call_that_is_not_answered_at_rest_breaks_j5() {
    assert_eq!(unanswered_at_rest(Errand::Answer), ["J5"]);
    assert!(unanswered_at_rest(Errand::Hang).is_empty());
}

#[test]
fn a_call_within_a_call_that_is_not_answered_at_rest_breaks_j6() {
    assert_eq!(unanswered_at_rest(Errand::Nest(2)), ["J6"]);
}

fn unanswered_at_rest(errand: Errand) -> Vec<&'static str> {
    let mut h = together();
    phase(&mut h, Phase::FinalRound);
    let op = call_with(&mut h, A, Some(&[B]), Wait::All, errand);
    end_at(&mut h, at(2), op, &[(B, LATE)]);
    phase(&mut h, Phase::AtRest);
    found(&h)
}
