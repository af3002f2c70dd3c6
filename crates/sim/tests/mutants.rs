//! The swarm is worth something if it notices protocols that are wrong: each deliberate fault must
//! be caught within 500 seeds, most are within ten. A difference to a view that a member does not
//! have needs a member that missed a view, which reliable multicast does not let happen: it is the
//! one that was excluded and still hears those who excluded it.
#![cfg(feature = "mutants")]

use rgroups_core::mutants::Mutant;
use rgroups_sim::swarm::{self, Profile, Task};

/// Seeds that a mutant may survive.
const SEEDS: u64 = 500;

fn caught(mutant: Mutant, profile: Profile) -> bool {
    caught_in(mutant, Task::new(profile, 5))
}

fn caught_in(mutant: Mutant, mut task: Task) -> bool {
    task.mutant = Some(mutant.name().into());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let summary = swarm::run(1..1 + SEEDS, &[task], threads, &|o| o.violations.is_empty());
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
    assert!(caught(Mutant::ViewSkipped, Profile::Mixed));
}

#[test]
fn a_difference_that_is_applied_to_the_wrong_view_is_noticed() {
    assert!(caught(Mutant::DeltaOnWrongBase, Profile::OneWay));
}

#[test]
fn a_merge_of_members_that_did_not_answer_is_noticed() {
    assert!(caught(Mutant::SilentMergedIn, Profile::Mixed));
}

#[test]
fn a_merge_digest_that_skips_messages_is_noticed() {
    assert!(caught(Mutant::MergeDigestTooHigh, Profile::Partition));
}

#[test]
fn a_merge_digest_that_goes_back_is_noticed() {
    assert!(caught(Mutant::MergeDigestTooLow, Profile::Partition));
}

#[test]
fn a_suspicion_that_is_not_withdrawn_is_noticed() {
    assert!(caught(Mutant::SuspicionKept, Profile::Slow));
}

#[test]
fn an_exclusion_without_verification_is_noticed() {
    assert!(caught(Mutant::SuspicionUnverified, Profile::Slow));
}

#[test]
fn a_minority_that_calls_itself_primary_is_noticed() {
    let task = Task { primary: true, ..Task::new(Profile::Partition, 5) };
    assert!(caught_in(Mutant::MinorityIsPrimary, task));
}

#[test]
fn a_grant_before_all_have_said_what_they_hold_is_noticed() {
    let task = Task { locks: true, ..Task::new(Profile::Churn, 5) };
    assert!(caught_in(Mutant::ClaimsNotAwaited, task));
}

#[test]
fn a_lock_that_is_not_lost_with_the_lease_is_noticed() {
    let task = Task { locks: true, ..Task::new(Profile::Partition, 5) };
    assert!(caught_in(Mutant::LockOutlivesLease, task));
}

#[test]
fn an_answer_before_the_backups_know_is_noticed() {
    let task = Task { counters: true, ..Task::new(Profile::Partition, 5) };
    assert!(caught_in(Mutant::AnsweredBeforeBackup, task));
}

#[test]
fn a_request_that_is_carried_out_twice_is_noticed() {
    let task = Task { counters: true, ..Task::new(Profile::Slow, 5) };
    assert!(caught_in(Mutant::RequestsForgotten, task));
}

#[test]
fn what_is_delivered_while_a_synchronous_view_waits_is_noticed() {
    // One seed in 500 of each: it takes a view that waits long enough.
    let in_one_of =
        |p| caught_in(Mutant::NotHeldBackForView, Task { vsync: true, ..Task::new(p, 5) });
    assert!([Profile::Mixed, Profile::Lan].into_iter().any(in_one_of));
}

#[test]
fn a_decision_without_asking_the_survivors_is_noticed() {
    let task = Task { vsync: true, ..Task::new(Profile::Lossy, 5) };
    assert!(caught_in(Mutant::SurvivorsNotAsked, task));
}

#[test]
fn a_call_that_waits_for_members_that_a_merge_brought_back_is_noticed() {
    let task = Task { calls: true, ..Task::new(Profile::Partition, 5) };
    assert!(caught_in(Mutant::MergedTargetsAwaited, task));
}

#[test]
fn a_call_that_an_error_ends_early_is_noticed() {
    let task = Task { calls: true, ..Task::new(Profile::Lossy, 5) };
    assert!(caught_in(Mutant::ErrorCountsAsValue, task));
}

#[test]
fn a_call_that_is_carried_out_by_who_was_not_called_is_noticed() {
    let task = Task { calls: true, ..Task::new(Profile::Churn, 5) };
    assert!(caught_in(Mutant::SubsetIsMulticast, task));
}

#[test]
fn what_a_dead_sequencer_took_along_is_noticed() {
    let task = Task { order: true, ..Task::new(Profile::Churn, 5) };
    assert!(caught_in(Mutant::ForwardedOnce, task));
}

#[test]
fn as_many_orders_as_members_are_noticed() {
    let task = Task { order: true, ..Task::new(Profile::Partition, 5) };
    assert!(caught_in(Mutant::EverybodyOrders, task));
}
