//! S0-21: all members keep what they received, and serve it when its sender is gone.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::oracle::tails;
use rgroups_sim::{Cluster, Outgoing, Settings};

crate::tests![
    a_tail_that_one_survivor_has_all_deliver => "S0-21";
    a_tail_whose_only_holder_dies_nobody_delivers => "S0-21";
];

const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];
const TAIL: usize = 3;

/// A sender dies when exactly one survivor has its last messages. The first request for them is
/// lost. Dies the holder too before it answers?
struct Run {
    cluster: Cluster,
    tail: Vec<MessageId>,
    survivors: Vec<&'static str>,
}

fn run(seed: u64, holder_dies: bool) -> Run {
    let mut rng = Rng::new(seed);
    let members = 3 + rng.below(3) as usize;
    let names = &NAMES[..members];
    let mut c = Cluster::new(Settings::new(seed, StackPlan::udp()));
    for (i, name) in names.iter().enumerate() {
        c.start(name);
        let whole = |c: &Cluster| {
            names[..=i].iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == i + 1))
        };
        assert!(c.run_until(Duration::from_secs(20), whole), "seed {seed}: {name} joins");
    }
    let sender = rng.below(members as u64) as usize;
    let holder = (sender + 1 + rng.below(members as u64 - 1) as usize) % members;
    for other in (0..members).filter(|i| *i != sender && *i != holder) {
        drop_all(&mut c, names[sender], names[other], "MSG", None);
        drop_all(&mut c, names[sender], names[other], "HIGHEST_SEQNO", None);
    }
    let tail = (0..TAIL).filter_map(|_| c.send(names[sender], &Outgoing::new(None, 100))).collect();
    c.run_for(Duration::from_millis(3));
    for other in (0..members).filter(|i| *i != holder) {
        drop_all(&mut c, names[other], names[holder], "XMIT_REQ", Some(1));
    }
    c.crash(names[sender]);
    let mut survivors: Vec<&str> = names.iter().copied().filter(|n| *n != names[sender]).collect();
    if holder_dies {
        let died = c.now();
        while !survivors.iter().any(|n| gauge(&c, n, "tail_repair_running") > 0) {
            assert!(c.now().since(died) < Duration::from_secs(20), "seed {seed}: no repair");
            c.run_for(Duration::from_micros(50));
        }
        c.crash(names[holder]);
        survivors.retain(|n| *n != names[holder]);
    }
    let left = survivors.clone();
    let together =
        |c: &Cluster| left.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == left.len()));
    assert!(c.run_until(Duration::from_secs(30), together), "seed {seed}: one view of who is left");
    let broken = tails::check(c.history());
    assert!(broken.is_empty(), "seed {seed}: {broken:?}");
    Run { cluster: c, tail, survivors }
}

fn drop_all(c: &mut Cluster, from: &str, to: &str, kind: &str, times: Option<u32>) {
    let pattern = Pattern {
        from: c.host(from),
        to: c.host(to),
        protocol: Some("NAKACK2".into()),
        kind: Some(kind.into()),
        seqno: None,
    };
    c.add_rule(Rule::new(pattern, Action::Drop, times));
}

fn gauge(c: &Cluster, name: &str, which: &str) -> u64 {
    let mut sum = 0;
    if let Some(node) = c.node(name) {
        node.stack().inspect(&mut |_, n, value| sum += if n == which { value } else { 0 });
    }
    sum
}

impl Run {
    /// How many messages of the tail the application of `name` was given.
    fn delivered(&self, name: &str) -> usize {
        let life = self.cluster.life(name).expect("it survives");
        let of_the_tail =
            |w: &What| matches!(w, What::Delivered { message, .. } if self.tail.contains(message));
        self.cluster.history().facts_of(life).filter(|(_, f)| of_the_tail(&f.what)).count()
    }

    fn repaired(&self) -> u64 {
        let moved = ["tail_messages_fetched", "tail_messages_pushed"];
        let of = |n: &&str| moved.iter().map(|g| gauge(&self.cluster, n, g)).sum::<u64>();
        self.survivors.iter().map(of).sum()
    }
}

fn a_tail_that_one_survivor_has_all_deliver() {
    for seed in 0..crate::amount(10, 10_000, "seeds") {
        let run = run(seed, false);
        for name in &run.survivors {
            assert_eq!(run.delivered(name), TAIL, "seed {seed}: {name} has the whole tail");
        }
        assert!(run.repaired() > 0, "seed {seed}: nobody gave anybody anything");
    }
}

fn a_tail_whose_only_holder_dies_nobody_delivers() {
    for seed in 0..crate::amount(10, 10_000, "seeds") {
        let run = run(seed, true);
        for name in &run.survivors {
            assert_eq!(run.delivered(name), 0, "seed {seed}: {name} cannot have it from anybody");
        }
    }
}
