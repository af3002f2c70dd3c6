//! S0-21: a sender is killed at a random point of a burst while the network loses messages. All survivors
//! deliver the same of what it sent, and know it. 3 to 50 members, many seeds.
//!
//! All of it, in half an hour on one processor (of which `know_it` takes 16 minutes):
//!
//! ```text
//! RGROUPS_TAIL_SEEDS=10000 cargo test --profile swarm -p rgroups-sim --test tail_repair -- --nocapture
//! ```
//!
//! `RGROUPS_TAIL_FIRST` is the first seed, to go on from. What happened in a seed that fails is printed if it
//! is the only one (`RGROUPS_TAIL_SEEDS=1`).

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng, Trace};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::network::Link;
use rgroups_sim::oracle::tails;
use rgroups_sim::{Cluster, Outgoing, Settings};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration as RealTime, Instant};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|s| s.parse().ok())
}

/// The seeds that a case runs; `unless_told` of them, but with `RGROUPS_TAIL_SEEDS`.
fn seeds(unless_told: u64) -> Range<u64> {
    let first = number("RGROUPS_TAIL_FIRST").unwrap_or(0);
    first..first + number("RGROUPS_TAIL_SEEDS").unwrap_or(unless_told)
}

/// How many members: 3 to 50, half of the groups smaller than 12.
fn members(rng: &mut Rng) -> usize {
    let drawn = rng.below(1000) as f64 / 1000.0;
    (3.0 * (50.4_f64 / 3.0).powf(drawn)) as usize
}

struct Outcome {
    members: usize,
    /// How often somebody said that it does not know whether all have the same.
    unknown: usize,
    /// Messages that a survivor got from another one.
    repaired: bool,
}

/// A group in one view; one member sends a burst over a network that loses messages and is killed
/// within it, with some of `more` at a random moment after it.
fn run(seed: u64, more: usize) -> Outcome {
    let mut rng = Rng::new(seed);
    let members = members(&mut rng).max(3 + more);
    let names: Vec<String> = (0..members).map(|i| format!("M{i}")).collect();
    let settings = Settings::new(seed, StackPlan::udp());
    let keep_lines = number("RGROUPS_TAIL_SEEDS") == Some(1);
    let mut cluster = Cluster::new(Settings { sampling: None, keep_lines, ..settings });
    cluster.form(&names);
    let victim = &names[rng.below(members as u64) as usize];
    let its_life = cluster.life(victim).expect("it runs");
    let identity = cluster.history().id(its_life);
    let loss = rng.below(400) as f64 / 1000.0;
    cluster.set_links(Link { loss, ..Link::lan() });
    let killed_after = 1 + rng.below(40);
    for _ in 0..killed_after {
        cluster.send(victim, &Outgoing::new(None, 100));
        cluster.run_for(rng.duration(Duration::ZERO, Duration::from_millis(1)));
    }
    cluster.crash(victim);
    for _ in 0..more {
        cluster.run_for(rng.duration(Duration::ZERO, Duration::from_millis(30)));
        let living: Vec<&String> = names.iter().filter(|n| cluster.life(n).is_some()).collect();
        let next = living[rng.below(living.len() as u64) as usize].clone();
        cluster.crash(&next);
    }
    cluster.set_links(Link { loss: 0.05, ..Link::lan() });
    let left: Vec<&String> = names.iter().filter(|n| cluster.life(n).is_some()).collect();
    let together =
        |c: &Cluster| left.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == left.len()));
    assert!(cluster.run_until(Duration::from_secs(90), together), "seed {seed}: one view");
    cluster.run_for(Duration::from_secs(2));
    let h = cluster.history();
    let broken = tails::check(h);
    if !broken.is_empty() {
        cluster.transcript().lines().iter().for_each(|l| println!("{l}"));
    }
    assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    let unknown =
        h.facts.iter().filter(|f| matches!(f.what, What::Trace(Trace::TailUnknown { .. })));
    let unknown = unknown.count();
    let delivered = |name: &str| -> BTreeSet<MessageId> {
        let life = cluster.life(name).expect("it survives");
        let of_the_victim = h.facts_of(life).filter_map(|(_, f)| match f.what {
            What::Delivered { message, from, .. } if from == identity => Some(message),
            _ => None,
        });
        of_the_victim.collect()
    };
    let first = delivered(left[0]);
    if unknown == 0 {
        for n in &left {
            assert_eq!(delivered(n), first, "seed {seed}: {n} has the same as {}", left[0]);
        }
    }
    let repaired = left.iter().filter_map(|n| cluster.node(n)).any(|node| {
        let mut moved = 0;
        node.stack().inspect(&mut |_, name, value| {
            if name == "tail_messages_pushed" || name == "tail_messages_fetched" {
                moved += value;
            }
        });
        moved > 0
    });
    Outcome { members, unknown, repaired }
}

/// Runs all seeds, tells how far it is, and how many of them had something to repair.
fn run_all(seeds: Range<u64>, more: usize, each: impl Fn(u64, &Outcome)) -> u64 {
    let (mut repaired, mut unknown, mut largest) = (0, 0, 0);
    let began = Instant::now();
    let mut told = began;
    for seed in seeds.clone() {
        let outcome = run(seed, more);
        each(seed, &outcome);
        repaired += u64::from(outcome.repaired);
        unknown += u64::from(outcome.unknown > 0);
        largest = largest.max(outcome.members);
        if told.elapsed() > RealTime::from_secs(10) || seed + 1 == seeds.end {
            told = Instant::now();
            println!(
                "{} more die: {} of {} seeds, up to {largest} members, {repaired} repaired, \
                 {unknown} without certainty, {:.0} s",
                more,
                seed + 1 - seeds.start,
                seeds.end - seeds.start,
                began.elapsed().as_secs_f64()
            );
        }
    }
    repaired
}

#[test]
fn survivors_of_a_killed_sender_agree_and_know_it() {
    let seeds = seeds(40);
    let repaired = run_all(seeds.clone(), 0, |seed, outcome| {
        assert_eq!(outcome.unknown, 0, "seed {seed}: nobody else was gone");
    });
    assert!(repaired * 4 > seeds.end - seeds.start, "only {repaired} had something to repair");
}

#[test]
fn survivors_agree_when_holders_and_deciders_die_as_well() {
    for more in [1, 2] {
        let seeds = seeds(40);
        let half = seeds.start..seeds.start + (seeds.end - seeds.start).div_ceil(2);
        run_all(half, more, |_, _| {});
    }
}

/// The coordinator excludes one, its view reaches M4 only, and it dies with the next in line: M3 comes
/// after them, and has never heard of that view.
#[test]
fn a_successor_that_missed_a_view_is_followed_by_those_who_have_it() {
    assert_eq!(run(2753, 2).members, 5);
}
