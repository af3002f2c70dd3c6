//! What changes do, what joiners are given, and whose copy goes on.

use super::*;
use crate::View;
use crate::testkit::id;
use crate::wire::{Method, MethodCall, Value, java_map};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

fn text(s: &str) -> Value {
    Value::Str(s.to_string())
}

fn put(key: &str, value: i32) -> Change {
    Change::Put { key: text(key), value: Value::Int(value) }
}

fn with(entries: &[(&str, i32)]) -> Replica {
    let mut r = Replica::default();
    for (key, value) in entries {
        r.carry_out(put(key, *value));
    }
    r
}

#[test]
fn every_change_answers_and_differs_as_in_java() {
    let (k, one, two) = (text("k"), Value::Int(1), Value::Int(2));
    let key = || k.clone();
    let cases = [
        (None, put("k", 1), Value::Null, Some(1)),
        (Some(1), put("k", 2), one.clone(), Some(2)),
        (Some(1), put("k", 1), one.clone(), Some(1)),
        (None, Change::PutIfAbsent { key: key(), value: one.clone() }, Value::Null, Some(1)),
        (Some(2), Change::PutIfAbsent { key: key(), value: one.clone() }, two.clone(), Some(2)),
        (None, Change::PutAll(vec![(key(), one.clone())]), Value::Null, Some(1)),
        (Some(1), Change::Remove { key: key() }, one.clone(), None),
        (None, Change::Remove { key: key() }, Value::Null, None),
        (
            Some(1),
            Change::RemoveIfEquals { key: key(), value: one.clone() },
            Value::Bool(true),
            None,
        ),
        (
            Some(2),
            Change::RemoveIfEquals { key: key(), value: one.clone() },
            Value::Bool(false),
            Some(2),
        ),
        (None, Change::RemoveIfEquals { key: key(), value: one.clone() }, Value::Bool(false), None),
        (Some(1), Change::Replace { key: key(), value: two.clone() }, one.clone(), Some(2)),
        (None, Change::Replace { key: key(), value: two.clone() }, Value::Null, None),
        (
            Some(1),
            Change::ReplaceIfEquals { key: key(), expected: one.clone(), value: two.clone() },
            Value::Bool(true),
            Some(2),
        ),
        (
            Some(2),
            Change::ReplaceIfEquals { key: key(), expected: one.clone(), value: one.clone() },
            Value::Bool(false),
            Some(2),
        ),
        (Some(1), Change::Clear, Value::Null, None),
    ];
    for (before, change, reply, after) in cases {
        let mut r = before.map_or_else(Replica::default, |v| with(&[("k", v)]));
        let carried = r.carry_out(change.clone());
        assert_eq!(carried.reply, reply, "{change:?} of {before:?}");
        assert_eq!(r.get(&k), after.map(Value::Int).as_ref(), "{change:?} of {before:?}");
        let (before, now) = (before.map(Value::Int), after.map(Value::Int));
        let expected = Difference { key: key(), before: before.clone(), now: now.clone() };
        let expected = if before == now { vec![] } else { vec![expected] };
        assert_eq!(carried.differences, expected, "{change:?}");
    }
}

#[test]
fn keys_of_different_types_are_different_keys() {
    let mut r = with(&[]);
    for key in [Value::Int(1), Value::Long(1), text("1")] {
        r.carry_out(Change::Put { key, value: Value::Bool(true) });
    }
    assert_eq!(r.len(), 3);
}

#[test]
fn a_change_survives_its_call() {
    let (key, value) = (text("k"), Value::Int(1));
    for change in [
        put("k", 1),
        Change::PutIfAbsent { key: key.clone(), value: value.clone() },
        Change::PutAll(vec![(key.clone(), value.clone())]),
        Change::Remove { key: key.clone() },
        Change::RemoveIfEquals { key: key.clone(), value: value.clone() },
        Change::Replace { key: key.clone(), value: value.clone() },
        Change::ReplaceIfEquals { key, expected: value.clone(), value },
        Change::Clear,
    ] {
        let MethodCall { method, args } = change.to_call().expect("it is possible");
        let Method::Numbered(n) = method else { panic!("{method:?}") };
        assert!(Change::methods().contains(&n));
        assert_eq!(Change::of_call(n, args), Ok(change));
    }
}

#[test]
fn what_cannot_be_in_a_map_is_refused_from_both_sides() {
    let java = || Value::Java(Bytes::from_static(b"\xac\xed\0\x05"));
    let long = || text(&"ü".repeat(20_000));
    for (key, value, why) in [
        (Value::Null, text("v"), Some(Unusable::Null)),
        (text("k"), Value::Null, Some(Unusable::Null)),
        (java(), text("v"), Some(Unusable::Object)),
        (text("k"), java(), None),
        (long(), text("v"), Some(Unusable::TooLong)),
        (text("k"), long(), Some(Unusable::TooLong)),
    ] {
        let change = Change::Put { key: key.clone(), value: value.clone() };
        assert_eq!(change.to_call().err(), why);
        assert_eq!(Change::of_call(1, vec![key, value]).err(), why);
    }
    let one = || Value::Int(1);
    for (method, args) in [
        (0, vec![]),
        (9, vec![]),
        (1, vec![one()]),
        (8, vec![one()]),
        (7, vec![one(), one()]),
        (3, vec![one()]),
        (4, vec![one(), one(), one(), one()]),
    ] {
        assert_eq!(Change::of_call(method, args), Err(Unusable::Call), "{method}");
    }
    assert_eq!(Change::of_call(3, vec![java()]), Err(Unusable::NoMap));
}

#[test]
fn a_joiner_has_what_its_provider_had() {
    let provider = with(&[("a", 1), ("b", 2)]);
    let mut joiner = Replica::default();
    joiner.install(&provider.snapshot().expect("values only")).expect("a map");
    assert_eq!(joiner, provider);
}

#[test]
fn what_is_given_up_is_named() {
    let mut ours = with(&[("same", 1), ("other", 1), ("mine", 1)]);
    let theirs = with(&[("same", 1), ("other", 2), ("yours", 2)]);
    let mut lost = ours.install(&theirs.snapshot().expect("values only")).expect("a map");
    lost.sort_by_key(|l| alloc::format!("{:?}", l.key));
    let int = |n: Option<i32>| n.map(Value::Int);
    let one = |key, a, b| Lost { key: text(key), ours: int(a), theirs: int(b) };
    let expected =
        [one("mine", Some(1), None), one("other", Some(1), Some(2)), one("yours", None, Some(2))];
    assert_eq!(lost, expected);
    assert_eq!(ours, theirs);
}

#[test]
fn a_state_that_cannot_be_taken_changes_nothing() {
    let mut r = with(&[("k", 1)]);
    let before = r.clone();
    let null: Vec<(Value, Value)> = vec![(text("k"), Value::Null)];
    let null = java_map::write(null.iter().map(|(k, v)| (k, v))).expect("written");
    assert_eq!(r.install(&null), Err(Unsuitable::Entry(Unusable::Null)));
    assert_eq!(r.install(&Bytes::from_static(b"x")), Err(Unsuitable::Unreadable));
    assert_eq!(r, before);
}

#[test]
fn values_of_javas_own_classes_are_kept_and_cannot_be_given() {
    let mut r = Replica::default();
    let blob = Value::Java(Bytes::from_static(b"\xac\xed\0\x05x"));
    r.carry_out(Change::Put { key: text("k"), value: blob.clone() });
    assert_eq!(r.get(&text("k")), Some(&blob));
    assert_eq!(r.snapshot(), Err(Unsuitable::Objects));
}

fn merged(members: &[u64], parts: &[&[u64]]) -> View {
    let ids = |of: &[u64]| of.iter().map(|m| id(*m)).collect::<Vec<_>>();
    let mut v = View::new(9, id(members[0]), ids(members));
    v.subgroups = parts.iter().map(|p| View::new(8, id(p[0]), ids(p))).collect();
    v
}

#[test]
fn the_larger_part_goes_on_and_of_two_equal_ones_that_of_the_first_member() {
    for (members, parts, survives) in [
        (&[1, 2, 3][..], &[&[1][..], &[2, 3]][..], Some(&[2, 3][..])),
        (&[2, 1, 3, 4], &[&[1, 3], &[2, 4]], Some(&[2, 4])),
        // Who is not in the merged view does not count.
        (&[1, 2], &[&[1], &[2, 3, 4]], Some(&[1])),
        (&[1, 2], &[], None),
    ] {
        let found = surviving_part(&merged(members, parts)).map(|p| p.members);
        let expected = survives.map(|s| s.iter().map(|m| id(*m)).collect::<Vec<_>>());
        assert_eq!(found, expected);
    }
}
