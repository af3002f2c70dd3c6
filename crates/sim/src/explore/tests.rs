//! What the explorer finds, and that it can find something. `rgroups sim explore tail-repair` tells
//! more of the same.

use super::search::Search;
use super::*;

fn limits(losses: u8, crashes: u8) -> Limits {
    Limits { losses, crashes, late: 0, at_most: None }
}

fn explored(situation: &Situation, limits: &Limits) -> Found {
    let found = explore(situation, limits, &mut |_| {});
    println!("{situation:?}, {limits:?}: {found:?}");
    found
}

/// Everything, without a violation.
fn sound(victim: Victim, limits: &Limits) -> Found {
    let found = explored(&Situation::new(victim), limits);
    assert!(found.broken == 0, "{:?}", found.findings[0]);
    assert!(found.complete);
    found
}

#[test]
fn whatever_arrives_first_and_whatever_two_packets_are_lost_all_survivors_agree_and_know_it() {
    for victim in [Victim::Member, Victim::Coordinator] {
        let found = sound(victim, &limits(2, 0));
        assert!(found.runs > 100, "{found:?}");
        assert_eq!(found.unknown, 0, "everybody could be asked");
    }
}

#[test]
fn with_a_death_and_a_loss_all_survivors_agree_and_know_it() {
    for (victim, losses) in [(Victim::Member, 1), (Victim::Coordinator, 0)] {
        let found = sound(victim, &limits(losses, 1));
        assert_eq!(found.unknown, 0, "who died is not waited for");
    }
}

#[test]
fn nodes_that_write_the_same_of_themselves_do_the_same_whatever_they_were_given_before() {
    let mut search = Search::new(Situation::new(Victim::Member).set_up(), limits(0, 1));
    search.run(&mut |_| {});
    let compared = search.scene.memo.compare();
    println!("{compared} steps compared");
    assert!(compared > 1000, "{compared}");
}

#[cfg(feature = "mutants")]
fn breaks(situation: &Situation, limits: &Limits) -> Vec<&'static str> {
    let found = explored(situation, limits);
    found.findings.iter().flat_map(|f| f.violations.iter().map(|v| v.invariant)).collect()
}

#[cfg(feature = "mutants")]
fn wrong(mutant: rgroups_core::mutants::Mutant) -> Situation {
    Situation { mutant: Some(mutant), ..Situation::new(Victim::Member) }
}

#[cfg(feature = "mutants")]
#[test]
fn without_the_repair_the_survivors_differ_and_that_is_noticed() {
    let mutant = rgroups_core::mutants::Mutant::TailsNotRepaired;
    assert!(breaks(&wrong(mutant), &limits(0, 0)).contains(&"C11a"));
}

#[cfg(feature = "mutants")]
#[test]
fn a_decider_that_does_not_wait_for_the_others_is_noticed() {
    let mutant = rgroups_core::mutants::Mutant::ReportsNotAwaited;
    assert!(breaks(&wrong(mutant), &limits(0, 0)).contains(&"C11a"));
}

#[cfg(feature = "mutants")]
#[test]
fn a_view_that_is_installed_although_another_one_took_its_place_is_noticed() {
    let mutant = rgroups_core::mutants::Mutant::ReplacedViewInstalled;
    assert!(breaks(&wrong(mutant), &limits(1, 1)).contains(&"C11a"));
}
