//! Merges of which a part dies.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Trace};
use rgroups_sim::cluster::{Cluster, Settings};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::What;

const SECOND: Duration = Duration::from_secs(1);

/// Members that are started one after the other and end in one view. A, the coordinator, has the
/// lowest identity, so it leads merges.
fn cluster(names: &[&str]) -> Cluster {
    let mut clusters = (1..100).map(|seed| formed(seed, names));
    let lowest = |c: &Cluster| {
        let id = |n: &&str| c.life(n).map(|l| c.history().id(l));
        names.iter().map(id).min() == Some(id(&"A"))
    };
    clusters.find(lowest).expect("one of a hundred seeds makes A the lowest")
}

fn formed(seed: u64, names: &[&str]) -> Cluster {
    let plan = StackPlan::udp()
        .with("FD_ALL3", "interval", "1000")
        .with("FD_ALL3", "timeout", "4000")
        .with("VERIFY_SUSPECT2", "timeout", "200")
        .with("MERGE3", "min_interval", "1000")
        .with("MERGE3", "max_interval", "3000");
    let mut c = Cluster::new(Settings::new(seed, plan));
    for name in names {
        c.start(name);
        assert!(c.run_until(10 * SECOND, |c| c.view(name).is_some()));
    }
    let everywhere = |c: &Cluster| names.iter().all(|n| members(c, n) == names.len());
    assert!(c.run_until(10 * SECOND, everywhere));
    c
}

fn members(c: &Cluster, name: &str) -> usize {
    c.view(name).map_or(0, |v| v.members.len())
}

/// Whether `name` was asked to take part in a merge.
fn was_asked(c: &Cluster, name: &str) -> bool {
    let life = c.life(name);
    let asked = |w: &What| matches!(w, What::Trace(Trace::Merge { step: "asked" }));
    c.history().facts.iter().any(|f| f.life == life && asked(&f.what))
}

#[test]
fn a_part_that_is_suspected_before_the_merge_ends_is_no_part_of_the_view() {
    let mut c = cluster(&["A", "B", "C", "D"]);
    // C hears nobody and goes on alone; the others hear it, and keep it in their view. D is alone on
    // both sides.
    for other in ["A", "B"] {
        c.cut(other, "C");
    }
    for other in ["A", "B", "C"] {
        c.cut(other, "D");
        c.cut("D", other);
    }
    assert!(c.run_until(30 * SECOND, |c| members(c, "C") == 1 && members(c, "D") == 1));
    assert!(c.run_until(30 * SECOND, |c| members(c, "A") == 3), "A, B and C");
    // The leader waits for B until half of merge_timeout is over.
    let pattern = Pattern {
        from: c.host("B"),
        to: c.host("A"),
        protocol: Some("GMS".into()),
        kind: Some("GET_DIGEST_RSP".into()),
        seqno: None,
    };
    c.add_rule(Rule::new(pattern, Action::Drop, None));
    c.heal();
    assert!(c.run_until(30 * SECOND, |c| was_asked(c, "C")), "a merge begins");
    c.crash("C");
    let merged = |c: &Cluster| c.view("A").is_some_and(|v| v.is_merge());
    let ended = c.run_until(30 * SECOND, merged);
    assert!(ended, "A and D are merged");
    c.clear_rules();
    assert!(c.run_until(60 * SECOND, |c| members(c, "A") == 3 && members(c, "D") == 3));
    for fact in &c.history().facts {
        let What::View(v) = &fact.what else { continue };
        for part in v.subgroups.iter() {
            let left = part.members.iter().any(|m| v.contains(*m));
            assert!(left, "nobody of {part} is in {v}");
        }
    }
}
