//! Members that leave at the same time, in every order, know that they are out.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng};
use rgroups_sim::cluster::transport_addresses;
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use rgroups_sim::{Cluster, Settings};

/// How many seeds a case runs; `RGROUPS_LEAVE_SEEDS` runs more.
fn seeds() -> u64 {
    std::env::var("RGROUPS_LEAVE_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(100)
}

/// A group, over UDP and TCP by turns, of which all leave but `stay`. Tells how many left without an answer.
fn run(seed: u64, loss: f64, stay: usize) -> usize {
    let mut rng = Rng::new(seed);
    let members = 2 + stay + rng.below(5) as usize;
    let names: Vec<String> = (0..members).map(|i| format!("M{i}")).collect();
    let plan = if seed.is_multiple_of(2) {
        StackPlan::udp()
    } else {
        StackPlan::tcp(transport_addresses(8))
    };
    let mut cluster = Cluster::new(Settings::new(seed, plan));
    cluster.form(&names);
    cluster.set_links(Link { loss, ..Link::lan() });
    let spread = [0, 1, 5, 50][rng.below(4) as usize];
    let mut leavers: Vec<&String> = names.iter().skip(stay).collect();
    while !leavers.is_empty() {
        let next = leavers.remove(rng.below(leavers.len() as u64) as usize);
        cluster.leave(next);
        cluster.run_for(rng.duration(Duration::ZERO, Duration::from_millis(spread)));
    }
    cluster.run_for(Duration::from_secs(30));
    let facts = cluster.history().facts.iter();
    facts.filter(|f| matches!(f.what, What::Left { confirmed: false })).count()
}

#[test]
fn members_that_all_leave_at_once_know_that_they_are_out() {
    let mut told = Vec::new();
    for seed in 0..seeds() {
        let unconfirmed = run(seed, 0.0, 0);
        if unconfirmed > 0 {
            told.push((seed, unconfirmed));
        }
    }
    assert!(told.is_empty(), "seeds and leavers without an answer: {told:?}");
}

#[test]
fn one_lost_packet_does_not_keep_those_who_leave_together_from_knowing_it() {
    let runs = seeds() as usize;
    let unconfirmed: usize = (0..seeds()).map(|s| run(s, 0.1, 1 + (s % 3) as usize)).sum();
    // Two lost in a row can take longer than a leaver waits: 2 leavers in 1,000 runs.
    assert!(unconfirmed * 50 <= runs, "{unconfirmed} leavers in {runs} runs were not answered");
}
