//! A sender is killed in the middle of a burst while the network loses messages: all survivors
//! deliver the same of what it sent, and know it. Many seeds of each case.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng, Trace};
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use rgroups_sim::oracle::tails;
use rgroups_sim::{Cluster, Outgoing, Settings};

/// How many seeds a case runs; `RGROUPS_TAIL_SEEDS` runs more.
fn seeds() -> u64 {
    std::env::var("RGROUPS_TAIL_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(100)
}

struct Outcome {
    /// How often somebody said that it does not know whether all have the same.
    unknown: usize,
    /// Messages that a survivor got from another one.
    repaired: bool,
}

/// `members` in one view; the first sends a burst over a network that loses messages and is killed
/// within it, with some of `more` at a random moment after it.
fn run(seed: u64, members: usize, more: usize) -> Outcome {
    let names: Vec<String> = (0..members).map(|i| format!("M{i}")).collect();
    let mut rng = Rng::new(seed);
    let mut cluster = Cluster::new(Settings::new(seed, StackPlan::udp()));
    cluster.form(&names);
    let victim = &names[rng.below(members as u64) as usize];
    cluster.set_links(Link { loss: 0.3, ..Link::lan() });
    let burst = 1 + rng.below(40);
    for _ in 0..burst {
        cluster.send(victim, &Outgoing::new(None, 100));
        cluster.run_for(rng.duration(Duration::ZERO, Duration::from_millis(1)));
    }
    cluster.crash(victim);
    for _ in 0..more {
        cluster.run_for(rng.duration(Duration::ZERO, Duration::from_millis(30)));
        if let Some(next) = names.iter().find(|n| cluster.life(n).is_some()) {
            let next = next.clone();
            cluster.crash(&next);
        }
    }
    cluster.set_links(Link { loss: 0.05, ..Link::lan() });
    cluster.run_for(Duration::from_secs(90));
    let h = cluster.history();
    let broken = tails::check(h);
    assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    let left = members - 1 - more;
    let survivors = names.iter().filter(|n| cluster.life(n).is_some());
    for n in survivors {
        let size = cluster.view(n).map(|v| v.members.len());
        assert_eq!(size, Some(left), "seed {seed}: {n} has the view of the survivors");
    }
    let unknown =
        h.facts.iter().filter(|f| matches!(f.what, What::Trace(Trace::TailUnknown { .. })));
    let repaired = names.iter().filter_map(|n| cluster.node(n)).any(|node| {
        let mut pushed = 0;
        node.stack().inspect(&mut |_, name, value| {
            if name == "tail_messages_pushed" || name == "tail_messages_fetched" {
                pushed += value;
            }
        });
        pushed > 0
    });
    Outcome { unknown: unknown.count(), repaired }
}

#[test]
fn survivors_of_a_killed_sender_agree_and_know_it() {
    let mut repaired = 0;
    for seed in 0..seeds() {
        let outcome = run(seed, 3 + (seed % 6) as usize, 0);
        assert_eq!(outcome.unknown, 0, "seed {seed}: nobody else was gone");
        repaired += u64::from(outcome.repaired);
    }
    assert!(repaired * 4 > seeds(), "only {repaired} of {} runs had something to repair", seeds());
}

#[test]
fn survivors_agree_when_the_holders_and_the_decider_die_as_well() {
    for seed in 1000..1000 + seeds() {
        run(seed, 4 + (seed % 5) as usize, 1 + (seed % 2) as usize);
    }
}
