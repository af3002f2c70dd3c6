//! A map that all members share, in total order: copies stay equal and races have one winner while the
//! sequencer dies, members join and the group splits and merges.

use rgroups_core::map::{Change, surviving_part};
use rgroups_core::plan::StackPlan;
use rgroups_core::protocols::sequencer::SequencerConfig;
use rgroups_core::rpc::{Reply, Status};
use rgroups_core::wire::Value;
use rgroups_core::{Duration, SendResult, Uuid};
use rgroups_sim::cluster::{Cluster, Settings};
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_secs(5);
const NAMES: [&str; 4] = ["A", "B", "C", "D"];

fn key(n: usize) -> Value {
    Value::Str(format!("key {n}"))
}

fn group(seed: u64, names: &[&str]) -> Cluster {
    let link = Link { loss: 0.02, ..Link::lan() };
    let plan = StackPlan::udp().insert_below("FRAG2", SequencerConfig::default());
    let mut c = Cluster::new(Settings { link, ..Settings::new(seed, plan) });
    for name in names {
        c.start_with_state(name, 10 * SECOND);
        assert!(c.run_until(20 * SECOND, |c| c.view(name).is_some()));
    }
    together(&mut c, names);
    c
}

fn together(c: &mut Cluster, names: &[&str]) {
    let whole = |n: &&str, c: &Cluster| c.view(n).is_some_and(|v| v.members.len() == names.len());
    assert!(c.run_until(180 * SECOND, |c| names.iter().all(|n| whole(n, c))), "no common view");
}

/// What the next value of a key depends on, so that order matters.
fn change(copy: Option<&Value>, n: usize, by: usize) -> Change {
    let value = Value::Int((n * 10 + by) as i32);
    match (n % 4, copy) {
        (1, _) => Change::Put { key: key(n % 3), value },
        (2, _) => Change::Remove { key: key(n % 3) },
        (0, _) | (_, None) => Change::PutIfAbsent { key: key(n % 3), value },
        (_, Some(was)) => Change::ReplaceIfEquals { key: key(n % 3), expected: was.clone(), value },
    }
}

/// Everybody who runs changes the same three keys, for so long.
fn all_change(c: &mut Cluster, names: &[&str], how_long: Duration) {
    let end = c.now() + how_long;
    let mut n = 0;
    while c.now() < end {
        for (by, name) in names.iter().enumerate() {
            let was = c.copy(name).and_then(|r| r.get(&key(n % 3)).cloned());
            c.change(name, &change(was.as_ref(), n, by), WITHIN);
        }
        n += 1;
        c.run_for(Duration::from_millis(7));
    }
}

fn all_equal(c: &Cluster, names: &[&str], why: &str) {
    let first = c.copy(names[0]).expect("it runs");
    assert!(!first.is_empty(), "{why}: nothing was put");
    for name in names {
        assert_eq!(c.copy(name), Some(first), "{why}: {name} beside {}", names[0]);
    }
}

/// All who answered one change answered the same.
fn answers_agree(c: &Cluster) -> usize {
    let mut agreed = 0;
    for f in &c.history().facts {
        let What::CallEnded(op, SendResult::Called(outcome)) = &f.what else { continue };
        let answers: BTreeMap<Uuid, &Reply> = outcome
            .rows
            .iter()
            .filter_map(|r| match &r.status {
                Status::Answered(reply) => Some((r.member, reply)),
                _ => None,
            })
            .collect();
        let Some(first) = answers.values().next() else { continue };
        assert!(answers.values().all(|a| a == first), "{op:?}: {answers:?}");
        agreed += 1;
    }
    agreed
}

#[test]
fn copies_are_equal_and_answers_agree_when_the_sequencer_dies() {
    for seed in 0..4 {
        let mut c = group(seed, &NAMES);
        all_change(&mut c, &NAMES, 2 * SECOND);
        c.crash("A");
        all_change(&mut c, &NAMES[1..], SECOND);
        together(&mut c, &NAMES[1..]);
        all_change(&mut c, &NAMES[1..], 2 * SECOND);
        c.run_for(WITHIN + SECOND);
        all_equal(&c, &NAMES[1..], &format!("seed {seed}"));
        assert!(answers_agree(&c) > 500);
    }
}

#[test]
fn of_those_who_put_an_absent_key_at_once_one_does() {
    let mut c = group(1, &NAMES);
    for n in 0..30 {
        let ops: Vec<_> = NAMES
            .iter()
            .enumerate()
            .map(|(by, name)| {
                let put = Change::PutIfAbsent { key: key(n), value: Value::Int(by as i32) };
                c.change(name, &put, WITHIN).expect("it runs")
            })
            .collect();
        c.run_for(3 * SECOND);
        let won = |op| {
            c.history().facts.iter().any(|f| match &f.what {
                What::CallEnded(ended, SendResult::Called(o)) if *ended == op => {
                    o.rows[0].status == Status::Answered(Reply::Value(Value::Null))
                }
                _ => false,
            })
        };
        assert_eq!(ops.into_iter().filter(|op| won(*op)).count(), 1, "key {n}");
    }
    all_equal(&c, &NAMES, "at the end");
}

/// A change that a joiner has with its state is not carried out there, and not awaited in vain.
fn none_is_awaited_in_vain(c: &Cluster) {
    for f in &c.history().facts {
        let What::CallEnded(op, SendResult::Called(outcome)) = &f.what else { continue };
        for row in &outcome.rows {
            assert!(!matches!(row.status, Status::TimedOut { .. }), "{op:?}: {row:?}");
        }
    }
}

#[test]
fn who_joins_while_others_change_has_what_they_have() {
    for seed in 0..4 {
        let mut c = group(seed, &NAMES[..3]);
        all_change(&mut c, &NAMES[..3], SECOND);
        c.start_with_state("D", 10 * SECOND);
        all_change(&mut c, &NAMES[..3], 4 * SECOND);
        together(&mut c, &NAMES);
        all_change(&mut c, &NAMES, SECOND);
        c.run_for(WITHIN + SECOND);
        all_equal(&c, &NAMES, &format!("seed {seed}"));
        answers_agree(&c);
        none_is_awaited_in_vain(&c);
    }
}

#[test]
fn after_a_merge_all_have_the_copy_of_the_part_that_all_compute() {
    for seed in 0..3 {
        let mut c = group(seed, &NAMES);
        all_change(&mut c, &NAMES, SECOND);
        c.partition(&[&["A", "B", "C"], &["D"]]);
        let apart =
            |c: &Cluster| NAMES.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() < 4));
        assert!(c.run_until(90 * SECOND, apart));
        all_change(&mut c, &NAMES, SECOND);
        c.run_for(WITHIN + SECOND);
        let kept = c.copy("A").cloned();
        assert_ne!(c.copy("D").cloned(), kept, "seed {seed}: the parts differ");
        c.heal();
        together(&mut c, &NAMES);
        let view = c.view("D").expect("it runs");
        let part = surviving_part(&view).expect("it is a merge");
        let ids: Vec<Uuid> =
            ["A", "B", "C"].map(|n| c.history().id(c.life(n).expect("it runs"))).into();
        assert!(part.members.len() == 3 && ids.iter().all(|id| part.members.contains(id)));
        c.fetch_state("D", Some("A"), 10 * SECOND);
        all_change(&mut c, &NAMES[..3], SECOND);
        c.run_for(WITHIN + SECOND);
        all_change(&mut c, &NAMES, SECOND);
        c.run_for(WITHIN + SECOND);
        all_equal(&c, &NAMES, &format!("seed {seed}"));
    }
}
