//! The swarm is worth something if it notices protocols that are wrong: each deliberate fault must
//! be caught within 200 seeds. (A delta view on the wrong base needs a lost view and is shown by the
//! tests of GMS: reliable multicast below it loses none.)
#![cfg(feature = "mutants")]

use rgroups_core::mutants::Mutant;
use rgroups_sim::swarm::{self, Profile, Task};

/// Seeds that a mutant may survive.
const SEEDS: u64 = 200;

fn caught(mutant: Mutant, profile: Profile) -> bool {
    let mut task = Task::new(profile, 5);
    task.mutant = Some(mutant.name().into());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let summary = swarm::run(1..1 + SEEDS, &task, threads, &|o| o.violations.is_empty());
    for o in &summary.failures {
        println!("{}: seed {}: {}", mutant.name(), o.seed, o.violations[0]);
    }
    !summary.failures.is_empty()
}

#[test]
fn credits_that_are_granted_twice_are_noticed() {
    assert!(caught(Mutant::CreditsGrantedTwice, Profile::Lossy));
}

#[test]
fn a_window_that_is_purged_too_early_is_noticed() {
    assert!(caught(Mutant::WindowPurgedTooEarly, Profile::Lossy));
}

#[test]
fn a_view_that_is_skipped_is_noticed() {
    assert!(caught(Mutant::ViewSkipped, Profile::Churn));
}
