//! A part of the exploration that takes seconds; `rgroups sim explore tail-repair` runs the whole.

use super::*;

fn limits(losses: u8, crashes: u8) -> Limits {
    Limits { losses, crashes, late: 0, runs: None }
}

fn explored(victim: Victim, limits: &Limits) -> Found {
    let found = explore(&Situation::new(victim), limits, 2);
    assert!(found.findings.is_empty(), "{:?}", found.findings[0]);
    assert!(found.complete);
    found
}

#[test]
fn with_one_loss_all_survivors_agree() {
    for victim in [Victim::Member, Victim::Coordinator] {
        let found = explored(victim, &limits(1, 0));
        assert_eq!(found.unknown, 0, "everybody could be asked");
        assert!(found.states > 100, "{found:?}");
    }
}

#[test]
fn with_one_death_all_survivors_agree() {
    for victim in [Victim::Member, Victim::Coordinator] {
        let found = explored(victim, &limits(0, 1));
        assert!(found.states > 100, "{found:?}");
    }
}

#[test]
fn without_the_repair_the_survivors_differ_and_that_is_noticed() {
    let situation = Situation { repairs: false, ..Situation::new(Victim::Member) };
    let found = explore(&situation, &limits(0, 0), 2);
    let broken = found.findings.iter().flat_map(|f| &f.violations);
    assert!(broken.clone().any(|v| v.invariant == "C11a"), "{found:?}");
}
