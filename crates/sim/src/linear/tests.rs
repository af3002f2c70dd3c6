use super::models::{Counter, CounterOp, Lock, LockOp, Map, MapAnswer, MapOp};
use super::*;
use rgroups_core::Rng;

type CounterCall = Call<CounterOp, i64>;

fn call<Op, A>(op: Op, begun: u64, ended: u64, answer: A) -> Call<Op, A> {
    Call { op, begun, ended: Some((ended, answer)) }
}

fn add(begun: u64, ended: u64, answer: i64) -> CounterCall {
    call(CounterOp::AddAndGet(1), begun, ended, answer)
}

fn get(begun: u64, ended: u64, answer: i64) -> CounterCall {
    call(CounterOp::Get, begun, ended, answer)
}

fn lost(op: CounterOp, begun: u64) -> CounterCall {
    Call { op, begun, ended: None }
}

fn good(calls: &[CounterCall]) -> bool {
    match check(&Counter(0), calls) {
        Verdict::Linearizable => true,
        Verdict::Not { stuck } => {
            assert!(stuck.contains("calls in order"), "{stuck}");
            false
        }
        Verdict::Undecided { steps } => panic!("given up after {steps}"),
    }
}

#[test]
fn calls_one_after_the_other_must_answer_as_one_object() {
    assert!(good(&[add(0, 1, 1), add(2, 3, 2), get(4, 5, 2)]));
    assert!(!good(&[add(0, 1, 1), add(2, 3, 1)]), "an increment was lost");
    assert!(!good(&[add(0, 1, 1), add(2, 3, 3)]), "an increment was carried out twice");
}

#[test]
fn calls_at_the_same_time_may_come_in_any_order() {
    assert!(good(&[add(0, 10, 2), add(0, 10, 1)]));
    assert!(!good(&[add(0, 10, 2), add(0, 10, 2)]), "both were second");
    assert!(good(&[get(0, 10, 0), add(1, 9, 1)]) && good(&[get(0, 10, 1), add(1, 9, 1)]));
}

#[test]
fn a_read_that_begins_after_an_answer_must_see_it() {
    assert!(!good(&[add(0, 1, 1), get(2, 3, 0)]), "stale");
    assert!(good(&[add(0, 2, 1), get(2, 3, 0)]), "at the limit they were at the same time");
}

#[test]
fn two_readers_must_not_see_changes_in_opposite_orders() {
    let write = |v, b, e| call(CounterOp::Set(v), b, e, 0);
    assert!(good(&[write(1, 0, 9), get(1, 2, 0), get(3, 4, 1)]));
    assert!(!good(&[write(1, 0, 9), get(1, 2, 1), get(3, 4, 0)]), "it was there before");
}

#[test]
fn a_call_without_an_answer_may_have_taken_effect_late_or_never() {
    let unknown = lost(CounterOp::AddAndGet(1), 0);
    assert!(good(&[unknown.clone(), get(5, 6, 0)]));
    assert!(good(&[unknown.clone(), get(5, 6, 0), get(7, 8, 1)]));
    assert!(!good(&[unknown.clone(), get(5, 6, 1), get(7, 8, 0)]), "it cannot be taken back");
    assert!(!good(&[unknown.clone(), get(5, 6, 2)]), "it happens once at most");
    assert!(!good(&[get(0, 1, 1), lost(CounterOp::AddAndGet(1), 2)]), "nor before it begins");
}

#[test]
fn a_swap_answers_with_what_was_there() {
    let swap = |e, u, b, t, a| call(CounterOp::CompareAndSwap { expected: e, update: u }, b, t, a);
    assert!(good(&[swap(0, 5, 0, 1, 0), swap(0, 6, 2, 3, 5), get(4, 5, 5)]));
    assert!(!good(&[swap(0, 5, 0, 9, 0), swap(0, 6, 0, 9, 0)]), "both succeeded");
}

#[test]
fn a_lock_has_one_holder() {
    let acquire = |n, b, e| call(LockOp::Acquire(n), b, e, ());
    let release = |n, b, e| call(LockOp::Release(n), b, e, ());
    let fine = [acquire(1, 0, 1), acquire(2, 0, 5), release(1, 2, 3), release(2, 6, 7)];
    assert_eq!(check(&Lock, &fine), Verdict::Linearizable);
    let both = [acquire(1, 0, 1), acquire(2, 0, 3), release(1, 4, 5)];
    assert!(matches!(check(&Lock, &both), Verdict::Not { .. }));
}

#[test]
fn a_map_keeps_what_was_put() {
    let put = |v: u8, b, e, had: Option<u8>| {
        let had = MapAnswer::Had(had.map(|h| vec![h]));
        call(MapOp::Put("k".into(), vec![v]), b, e, had)
    };
    let remove =
        |b, e, had: u8| call(MapOp::Remove("k".into()), b, e, MapAnswer::Had(Some(vec![had])));
    assert_eq!(check(&Map, &[put(1, 0, 1, None), put(2, 2, 3, Some(1))]), Verdict::Linearizable);
    let twice = [put(1, 0, 1, None), remove(2, 9, 1), remove(2, 9, 1)];
    assert!(matches!(check(&Map, &twice), Verdict::Not { .. }), "one value is removed once");
    let replace = |old: u8, new: u8, b, e| {
        let op = MapOp::Replace { key: "k".into(), old: vec![old], new: vec![new] };
        call(op, b, e, MapAnswer::Had(Some(vec![old])))
    };
    assert_eq!(check(&Map, &[put(1, 0, 1, None), replace(1, 2, 2, 3)]), Verdict::Linearizable);
    let both = [put(1, 0, 1, None), replace(1, 2, 2, 9), replace(1, 3, 2, 9)];
    assert!(matches!(check(&Map, &both), Verdict::Not { .. }));
}

/// Histories of a true counter: each call takes effect somewhere between its beginning and its end.
fn history_of_a_true_counter(rng: &mut Rng, calls: usize) -> Vec<CounterCall> {
    let mut at = 0;
    let mut value = 0;
    let mut made = Vec::new();
    for _ in 0..calls {
        at += 1 + rng.below(3);
        let op = match rng.below(4) {
            0 => CounterOp::Get,
            1 => CounterOp::CompareAndSwap { expected: value, update: value + 7 },
            _ => CounterOp::AddAndGet(1 + rng.below(3) as i64),
        };
        let before = value;
        value = Counter(0).step(&value, &op, None).expect("without an answer every call fits");
        let answer = match op {
            CounterOp::CompareAndSwap { .. } => before,
            _ => value,
        };
        let begun = at.saturating_sub(rng.below(12));
        let known = rng.below(20) != 0;
        made.push(Call { op, begun, ended: known.then(|| (at + rng.below(12), answer)) });
    }
    made
}

#[test]
fn histories_of_a_true_counter_pass_and_a_wrong_answer_in_them_does_not() {
    let mut rng = Rng::new(36);
    let mut noticed = 0;
    for _ in 0..200 {
        let mut calls = history_of_a_true_counter(&mut rng, 200);
        assert_eq!(check(&Counter(0), &calls), Verdict::Linearizable);
        let at = rng.below(200) as usize;
        if let Some((_, answer)) = &mut calls[at].ended {
            *answer += 1_000_000;
            assert!(matches!(check(&Counter(0), &calls), Verdict::Not { .. }));
            noticed += 1;
        }
    }
    assert!(noticed > 100);
}
