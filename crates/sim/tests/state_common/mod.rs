//! What the tests of state transfer have in common: groups whose applications keep every multicast.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Uuid};
use rgroups_sim::cluster::{Cluster, Outgoing, Settings, StateEnded};
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use std::collections::BTreeMap;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Small credits, so that senders wait for slow receivers often; messages of half a megabyte take
/// many rounds of credit.
pub(crate) fn plan() -> StackPlan {
    StackPlan::udp()
        .with("MFC", "max_credits", "50000")
        .with("UFC", "max_credits", "50000")
        .with("STABLE", "max_bytes", "50000")
        .with("FRAG2", "frag_size", "8000")
}

/// These members, which have one view.
pub(crate) fn cluster(seed: u64, names: &[&str], link: Link, plan: StackPlan) -> Cluster {
    let mut c = Cluster::new(Settings { link, ..Settings::new(seed, plan) });
    for name in names {
        c.start(name);
        assert!(c.run_until(20 * SECOND, |c| c.view(name).is_some()));
    }
    let all = names.len();
    assert!(c.run_until(60 * SECOND, |c| {
        names.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == all))
    }));
    c
}

/// Everybody sends for so long, small messages and some large ones.
pub(crate) fn traffic(c: &mut Cluster, senders: &[&str], how_long: Duration) {
    let end = c.now() + how_long;
    let mut n = 0usize;
    while c.now() < end {
        for s in senders {
            n += 1;
            let size = if n.is_multiple_of(7) { 30_000 + 1_000 * n % 60_000 } else { 200 };
            c.send(s, &Outgoing::new(None, size));
        }
        c.run_for(ms(21));
    }
}

pub(crate) fn ends(c: &Cluster, name: &str) -> Vec<StateEnded> {
    let life = c.life(name);
    let mine = c.history().facts.iter().filter(|f| f.life == life);
    mine.filter_map(|f| match &f.what {
        What::StateFetched(_, e) => Some(e.clone()),
        _ => None,
    })
    .collect()
}

pub(crate) fn id(c: &Cluster, name: &str) -> Uuid {
    c.history().id(c.life(name).expect("it runs"))
}

/// What a member knows of each sender, in order.
pub(crate) fn by_sender(c: &Cluster, name: &str) -> BTreeMap<usize, Vec<u32>> {
    let mut known: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for m in c.contents(name).expect("it runs") {
        known.entry(c.history().message(*m).sender.0).or_default().push(m.0);
    }
    known
}

pub(crate) fn all_know_the_same(c: &mut Cluster, names: &[&str]) {
    let same = |c: &Cluster| {
        let first = by_sender(c, names[0]);
        !first.is_empty() && names[1..].iter().all(|n| by_sender(c, n) == first)
    };
    let settled = c.run_until(120 * SECOND, same);
    if !settled {
        for n in names {
            let known = by_sender(c, n);
            let counts: Vec<_> = known.iter().map(|(s, m)| (s, m.len())).collect();
            eprintln!("{n}: {counts:?}");
        }
    }
    assert!(settled, "they do not know the same");
    for known in by_sender(c, names[0]).values() {
        assert!(known.windows(2).all(|w| w[0] < w[1]), "once each and in order");
    }
}
