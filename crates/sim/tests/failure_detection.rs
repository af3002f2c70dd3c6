//! Failure detection that does not lie: a member that is late, or that one path does not reach, is
//! not taken for dead, and whoever is excluded was accused by somebody of something.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Evidence, Trace};
use rgroups_sim::cluster::{Cluster, Settings, transport_addresses};
use rgroups_sim::history::{Fact, What};

const NAMES: [&str; 4] = ["A", "B", "C", "D"];
const SECOND: Duration = Duration::from_secs(1);

fn plans() -> [StackPlan; 2] {
    [StackPlan::udp(), StackPlan::tcp(transport_addresses(5))]
}

/// Suspected after five seconds of silence, and asked for one and a half.
fn quick(plan: StackPlan) -> StackPlan {
    plan.with("FD_ALL3", "interval", "1000").with("FD_ALL3", "timeout", "5000")
}

fn formed(seed: u64, plan: StackPlan) -> Cluster {
    let mut c = Cluster::new(Settings { keep_lines: false, ..Settings::new(seed, plan) });
    c.form(&NAMES);
    c.run_for(SECOND * 5);
    c
}

/// Who was to be excluded after verification: by whom it was accused, and why.
fn suspected(c: &Cluster) -> Vec<(String, String, Evidence)> {
    let h = c.history();
    let of = |w: &What| match w {
        What::Trace(Trace::Suspected { member, by, why }) => {
            Some((h.name_of(*member).to_string(), h.name_of(*by).to_string(), *why))
        }
        _ => None,
    };
    h.facts.iter().filter_map(|f| of(&f.what)).collect()
}

fn members(c: &Cluster, at: &str) -> usize {
    c.view(at).map_or(0, |v| v.members.len())
}

#[test]
fn a_member_that_stands_still_for_less_than_the_timeout_stays() {
    for plan in plans() {
        for name in NAMES {
            let mut c = formed(1, plan.clone());
            c.freeze(name);
            c.run_for(SECOND * 30);
            c.resume(name);
            c.run_for(SECOND * 60);
            assert_eq!(suspected(&c), [], "{name} stood still");
            assert!(NAMES.iter().all(|n| members(&c, n) == 4), "{name} stood still");
        }
    }
}

/// Whoever watched it is gone or new: the member that stands still gets another left neighbour.
#[test]
fn a_member_that_stands_still_stays_although_the_ring_turns_meanwhile() {
    type Turn = fn(&mut Cluster);
    let turns: [(&str, Turn); 3] = [
        ("leaves", |c| c.leave("B")),
        ("dies", |c| c.crash("B")),
        ("joins", |c| {
            c.start("E");
        }),
    ];
    for plan in plans() {
        for (how, turn) in turns {
            let mut c = formed(2, plan.clone());
            c.freeze("C");
            c.run_for(SECOND * 2);
            turn(&mut c);
            c.run_for(SECOND * 25);
            c.resume("C");
            let size = if how == "joins" { 5 } else { 3 };
            let agreed =
                c.run_until(SECOND * 30, |c| ["A", "C", "D"].iter().all(|n| members(c, n) == size));
            assert!(agreed, "a neighbour {how}: {:?}", c.view("A"));
            c.run_for(SECOND * 60);
            assert!(
                suspected(&c).iter().all(|s| s.0 == "B"),
                "a neighbour {how}: {:?}",
                suspected(&c)
            );
        }
    }
}

/// As when a laptop is closed: nothing of the others waits in a socket when it goes on.
#[test]
fn a_host_that_was_asleep_accuses_nobody_when_it_goes_on() {
    for plan in plans() {
        for seconds in [6, 60, 600] {
            for name in ["A", "D"] {
                let mut c = formed(3, quick(plan.clone()));
                for other in NAMES.iter().filter(|n| **n != name) {
                    c.cut(other, name);
                }
                c.freeze(name);
                c.run_for(SECOND * seconds);
                let woke = c.now();
                c.heal();
                c.resume(name);
                // Whom it goes on not to hear it may well accuse: if it slept
                // for long, the others have excluded it, and do not talk to it.
                c.run_for(SECOND * 3);
                let me = c.life(name);
                let accuses = |f: &&Fact| {
                    f.life == me && matches!(f.what, What::Trace(Trace::Accused { .. }))
                };
                let late = c.history().facts.iter().filter(|f| f.at >= woke).find(accuses);
                assert!(late.is_none(), "{name} slept for {seconds} s: {late:?}");
            }
        }
    }
}

#[test]
fn a_path_that_is_cut_for_a_few_seconds_in_one_direction_excludes_nobody() {
    for plan in plans() {
        for (from, to) in [("C", "A"), ("A", "C")] {
            let mut c = formed(5, quick(plan.clone()));
            c.cut(from, to);
            // Suspected after five to six, and without the answers of others out a second and a half
            // later.
            c.run_for(SECOND * 10);
            c.heal();
            c.run_for(SECOND * 60);
            assert_eq!(suspected(&c), [], "{from} did not reach {to}");
        }
    }
}

#[test]
fn a_member_that_the_coordinator_never_hears_goes_although_others_hear_it() {
    for plan in plans() {
        let mut c = formed(6, quick(plan));
        c.cut("C", "A");
        let out = c.run_until(SECOND * 30, |c| members(c, "A") == 3);
        assert!(out, "{:?}", c.view("A"));
        let s = suspected(&c);
        assert!(matches!(s[..], [(ref m, ref by, _), ..] if m == "C" && by == "A"), "{s:?}");
    }
}

#[test]
fn whoever_is_excluded_was_accused_by_somebody_of_something() {
    let mut c = formed(7, quick(StackPlan::udp()));
    c.crash("C");
    c.run_for(SECOND * 3);
    let s = suspected(&c);
    assert_eq!(
        s,
        [("C".to_owned(), "B".to_owned(), Evidence::Hearsay)],
        "its left neighbour saw it"
    );
    c.freeze("D");
    c.run_for(SECOND * 10);
    let s = suspected(&c);
    assert!(
        matches!(s[1..], [(ref m, ref by, Evidence::Silence(t))]
        if m == "D" && by == "A" && t > SECOND * 5),
        "{s:?}"
    );
}
