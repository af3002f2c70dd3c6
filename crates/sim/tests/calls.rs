//! Calls of methods while members crash, hang, part and come together again: every call ends by its
//! deadline, with a status for every target that agrees with what happened there.

use rgroups_core::plan::StackPlan;
use rgroups_core::rpc::{Row, Status, Wait};
use rgroups_core::{Duration, OpId, SendResult, Time, Uuid};
use rgroups_sim::cluster::{Cluster, Handling, Settings};
use rgroups_sim::connections::Life;
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use std::collections::{BTreeMap, BTreeSet};

const SECOND: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_secs(2);
/// Between a deadline and the turn that keeps it, and by how much clocks may differ in that time.
const TOLERANCE: Duration = Duration::from_millis(50);
const NAMES: [&str; 4] = ["A", "B", "C", "D"];
const WAITS: [Wait; 4] = [Wait::All, Wait::First, Wait::Majority, Wait::None];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn group(seed: u64) -> Cluster {
    let link = Link { loss: 0.02, ..Link::lan() };
    let mut c = Cluster::new(Settings { link, ..Settings::new(seed, StackPlan::udp()) });
    for name in NAMES {
        c.start(name);
        assert!(c.run_until(20 * SECOND, |c| c.view(name).is_some()));
    }
    together(&mut c, &NAMES);
    c
}

fn together(c: &mut Cluster, names: &[&str]) {
    let whole = |n: &&str, c: &Cluster| c.view(n).is_some_and(|v| v.members.len() == names.len());
    assert!(c.run_until(180 * SECOND, |c| names.iter().all(|n| whole(n, c))), "no common view");
}

/// Every member calls all, and one of the others, for so long.
fn everybody_calls(c: &mut Cluster, how_long: Duration) {
    let end = c.now() + how_long;
    let mut n = 0;
    while c.now() < end {
        for (i, name) in NAMES.iter().enumerate() {
            c.call(name, None, WAITS[n % 4], WITHIN);
            c.call(name, Some(&[NAMES[(i + 1 + n % 3) % 4]]), Wait::All, WITHIN);
            n += 1;
        }
        c.run_for(ms(97));
    }
}

/// What became of a call.
struct Made {
    by: Life,
    at: Time,
    ended: Option<(Time, SendResult)>,
}

/// Reads the history: all calls, and who carried out which how often.
fn read(c: &Cluster) -> (BTreeMap<OpId, Made>, BTreeMap<(OpId, Uuid), usize>) {
    let mut made = BTreeMap::new();
    let mut carried_out = BTreeMap::new();
    for f in &c.history().facts {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Calls(op) => {
                made.insert(*op, Made { by: life, at: f.at, ended: None });
            }
            What::CallEnded(op, result) => {
                let call = made.get_mut(op).expect("it was made");
                assert!(call.ended.is_none(), "a call ends once");
                call.ended = Some((f.at, result.clone()));
            }
            What::CarriedOut(op, by) => {
                assert_eq!(c.history().id(made[op].by), *by, "the caller is who made it");
                *carried_out.entry((*op, c.history().id(life))).or_default() += 1;
            }
            _ => {}
        }
    }
    (made, carried_out)
}

fn rows(made: &Made) -> &[Row] {
    match &made.ended {
        Some((_, SendResult::Called(outcome))) => &outcome.rows,
        Some((_, other)) => panic!("{other:?}"),
        None => &[],
    }
}

/// Names of the statuses that occurred, so that a run shows what it was made for.
fn check(c: &Cluster, seed: u64) -> BTreeSet<&'static str> {
    let (made, carried_out) = read(c);
    let mut seen = BTreeSet::new();
    for ((op, member), times) in &carried_out {
        assert_eq!(*times, 1, "seed {seed}: {op:?} at {member}");
    }
    for (op, call) in &made {
        if let Some((at, _)) = &call.ended {
            assert!(at.since(call.at) <= WITHIN + TOLERANCE, "seed {seed}: {op:?} took too long");
        } else {
            let died = c.life(&c.history().lives[call.by.0].name) != Some(call.by);
            assert!(died, "seed {seed}: {op:?} has not ended");
        }
        for row in rows(call) {
            let done = carried_out.contains_key(&(*op, row.member));
            seen.insert(match row.status {
                Status::Answered(_) => {
                    assert!(done, "seed {seed}: {op:?} answered and not carried out");
                    "answered"
                }
                Status::TimedOut { sent: true } => "timed out",
                Status::TimedOut { sent: false } | Status::Unreachable(_) => {
                    assert!(!done, "seed {seed}: {op:?} not sent and carried out");
                    "not sent"
                }
                Status::Left => "left",
                Status::NotAwaited => "not awaited",
                Status::Failed(_) | Status::NoSuchMethod => panic!("nobody answers that"),
            });
        }
    }
    seen
}

/// All calls of `by` that were made from `from` on were answered by everybody in `rows`.
fn all_answered(c: &Cluster, from: Time, targets: usize) {
    let (made, _) = read(c);
    let late: Vec<&Made> = made.values().filter(|m| m.at >= from).collect();
    assert!(!late.is_empty());
    for call in late {
        let rows = rows(call);
        let good = |r: &Row| matches!(r.status, Status::Answered(_) | Status::NotAwaited);
        assert!(rows.iter().all(good), "{rows:?}");
        assert!(rows.len() == targets || rows.len() <= 1);
    }
}

#[test]
fn calls_end_by_their_deadline_with_true_statuses_when_a_member_crashes() {
    for seed in 0..6 {
        let mut c = group(seed);
        everybody_calls(&mut c, 3 * SECOND);
        c.crash("D");
        everybody_calls(&mut c, SECOND);
        together(&mut c, &NAMES[..3]);
        let whole = c.now();
        everybody_calls(&mut c, 3 * SECOND);
        c.run_for(WITHIN + SECOND);
        let seen = check(&c, seed);
        for status in ["answered", "left", "not awaited"] {
            assert!(seen.contains(status), "seed {seed}: {seen:?}");
        }
        all_answered(&c, whole, 3);
    }
}

#[test]
fn calls_end_by_their_deadline_with_true_statuses_across_a_partition_and_a_merge() {
    for seed in 0..3 {
        let mut c = group(seed);
        everybody_calls(&mut c, 2 * SECOND);
        c.partition(&[&["A", "B"], &["C", "D"]]);
        everybody_calls(&mut c, 60 * SECOND);
        assert!(NAMES.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == 2)));
        c.heal();
        everybody_calls(&mut c, 2 * SECOND);
        together(&mut c, &NAMES);
        // What was made just before the merge ends with it.
        c.run_for(SECOND);
        let whole = c.now();
        everybody_calls(&mut c, 3 * SECOND);
        c.run_for(WITHIN + SECOND);
        let seen = check(&c, seed);
        for status in ["answered", "timed out", "not awaited"] {
            assert!(seen.contains(status), "seed {seed}: {seen:?}");
        }
        all_answered(&c, whole, 4);
    }
}

#[test]
fn a_handler_that_hangs_costs_its_caller_the_deadline_and_nobody_else_anything() {
    let mut c = group(1);
    c.handle("D", Handling::Hangs);
    let from = c.now();
    everybody_calls(&mut c, 3 * SECOND);
    c.run_for(WITHIN + SECOND);
    check(&c, 1);
    let (made, _) = read(&c);
    let d = c.history().id(c.life("D").expect("it runs"));
    for call in made.values().filter(|m| m.at >= from) {
        for row in rows(call) {
            let late = row.status == Status::TimedOut { sent: true };
            assert!(!late || row.member == d, "{row:?}");
        }
        let at = call.ended.as_ref().expect("it has ended").0;
        let waits = rows(call).iter().any(|r| r.status == Status::TimedOut { sent: true });
        assert!(waits || at.since(call.at) < WITHIN);
    }
}
