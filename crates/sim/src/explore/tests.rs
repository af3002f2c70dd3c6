//! A part of the exploration that takes seconds; `rgroups sim explore tail-repair` runs the whole, and
//! `RGROUPS_EXPLORE_RUNS` more of it here.

use super::*;

/// So many runs of each case.
fn runs() -> u64 {
    std::env::var("RGROUPS_EXPLORE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

fn limits(losses: u8, crashes: u8) -> Limits {
    Limits { losses, crashes, late: 0, runs: Some(runs()) }
}

fn explored(victim: Victim, limits: &Limits) -> Found {
    let found = explore(&Situation::new(victim), limits, 2);
    println!("{victim:?}, {limits:?}: {found:?}");
    assert!(found.findings.is_empty(), "{:?}", found.findings[0]);
    found
}

#[test]
fn whatever_arrives_first_all_survivors_agree() {
    for victim in [Victim::Member, Victim::Coordinator] {
        let all = Limits { runs: None, ..limits(0, 0) };
        let found = explored(victim, &all);
        assert!(found.complete && found.runs > 1 && found.unknown == 0, "{found:?}");
    }
}

#[test]
fn with_a_loss_all_survivors_agree() {
    for victim in [Victim::Member, Victim::Coordinator] {
        let found = explored(victim, &limits(1, 0));
        assert_eq!(found.unknown, 0, "everybody could be asked");
    }
}

#[test]
fn with_a_death_and_losses_all_survivors_agree() {
    for victim in [Victim::Member, Victim::Coordinator] {
        explored(victim, &limits(2, 1));
    }
}

#[test]
fn without_the_repair_the_survivors_differ_and_that_is_noticed() {
    let situation = Situation { repairs: false, ..Situation::new(Victim::Member) };
    let found = explore(&situation, &limits(0, 0), 2);
    let mut broken = found.findings.iter().flat_map(|f| &f.violations);
    assert!(broken.any(|v| v.invariant == "C11a"), "{found:?}");
}
