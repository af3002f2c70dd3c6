//! A member that joins with the state of another one knows exactly what that one knows.

use rgroups_core::app::{StateEnd, StateOutcome};
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Uuid};
use rgroups_sim::cluster::{Appetite, Cluster, Outgoing, Provision, Settings, StateEnded};
use rgroups_sim::history::What;
use rgroups_sim::network::Link;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Small credits, so that senders wait for slow receivers often; messages of half a megabyte take
/// many rounds of credit.
fn plan() -> StackPlan {
    StackPlan::udp()
        .with("MFC", "max_credits", "50000")
        .with("UFC", "max_credits", "50000")
        .with("STABLE", "max_bytes", "50000")
        .with("FRAG2", "frag_size", "8000")
}

fn cluster(seed: u64, names: &[&str], link: Link) -> Cluster {
    let mut c = Cluster::new(Settings { link, ..Settings::new(seed, plan()) });
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
fn traffic(c: &mut Cluster, senders: &[&str], how_long: Duration) {
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

fn ends(c: &Cluster, name: &str) -> Vec<StateEnded> {
    let life = c.life(name);
    let mine = c.history().facts.iter().filter(|f| f.life == life);
    mine.filter_map(|f| match &f.what {
        What::StateFetched(e) => Some(e.clone()),
        _ => None,
    })
    .collect()
}

fn id(c: &Cluster, name: &str) -> Uuid {
    c.history().id(c.life(name).expect("it runs"))
}

/// What a member knows of each sender, in order.
fn by_sender(c: &Cluster, name: &str) -> BTreeMap<usize, Vec<u32>> {
    let mut known: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for m in c.contents(name).expect("it runs") {
        known.entry(c.history().message(*m).sender.0).or_default().push(m.0);
    }
    known
}

fn all_know_the_same(c: &mut Cluster, names: &[&str]) {
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

fn joins_while_all_send(seed: u64, link: Link) {
    let mut c = cluster(seed, &["A", "B"], link);
    traffic(&mut c, &["A", "B"], ms(300 + 13 * (seed % 10)));
    c.start_with_state("C", 60 * SECOND);
    traffic(&mut c, &["A", "B"], 3 * SECOND);
    assert!(c.run_until(90 * SECOND, |c| !ends(c, "C").is_empty()), "the transfer ends");
    let given = ends(&c, "C");
    assert!(matches!(given[..], [StateEnded::Given(_, n)] if n > 0), "{given:?}");
    traffic(&mut c, &["A", "B", "C"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "C"]);
}

#[test]
fn a_joiner_knows_every_message_once_while_everybody_sends() {
    for seed in 1..=4 {
        joins_while_all_send(seed, Link::lan());
    }
}

#[test]
fn the_cut_is_exact_when_packets_are_lost() {
    for seed in 1..=4 {
        joins_while_all_send(seed, Link { loss: 0.1, ..Link::lan() });
    }
}

#[test]
fn a_provider_whose_application_is_slow_gives_what_it_had_at_the_cut() {
    let mut c = cluster(3, &["A", "B"], Link::lan());
    c.appetite("A", Appetite::Rate(200_000));
    traffic(&mut c, &["A", "B"], SECOND);
    c.start_with_state("C", 60 * SECOND);
    traffic(&mut c, &["B"], 2 * SECOND);
    c.appetite("A", Appetite::Everything);
    assert!(c.run_until(60 * SECOND, |c| !ends(c, "C").is_empty()));
    assert!(matches!(ends(&c, "C")[..], [StateEnded::Given(..)]), "{:?}", ends(&c, "C"));
    all_know_the_same(&mut c, &["A", "B", "C"]);
}

#[test]
fn a_member_that_asks_later_is_given_what_it_lacks_and_nothing_twice() {
    let mut c = cluster(4, &["A", "B"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    c.start("C");
    traffic(&mut c, &["A", "B"], 2 * SECOND);
    c.fetch_state("C", Some("B"), 30 * SECOND);
    traffic(&mut c, &["A", "B", "C"], SECOND);
    assert!(c.run_until(30 * SECOND, |c| !ends(c, "C").is_empty()));
    let b = id(&c, "B");
    assert!(matches!(ends(&c, "C")[..], [StateEnded::Given(p, _)] if p == b));
    all_know_the_same(&mut c, &["A", "B", "C"]);
}

#[test]
fn several_ask_the_same_member_at_once() {
    let mut c = cluster(5, &["A"], Link::lan());
    traffic(&mut c, &["A"], SECOND);
    for name in ["B", "C", "D"] {
        c.start_with_state(name, 60 * SECOND);
    }
    traffic(&mut c, &["A"], 3 * SECOND);
    for name in ["B", "C", "D"] {
        assert!(c.run_until(60 * SECOND, |c| !ends(c, name).is_empty()));
        assert!(matches!(ends(&c, name)[..], [StateEnded::Given(..)]), "{:?}", ends(&c, name));
    }
    all_know_the_same(&mut c, &["A", "B", "C", "D"]);
}

#[test]
fn the_first_member_has_nobody_to_ask() {
    let mut c = cluster(6, &[], Link::lan());
    c.start_with_state("A", 5 * SECOND);
    assert!(c.run_until(10 * SECOND, |c| !ends(c, "A").is_empty()));
    assert_eq!(ends(&c, "A"), [StateEnded::Nobody]);
}

#[test]
fn when_the_provider_dies_the_next_one_is_asked() {
    let mut c = cluster(7, &["A", "B"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    c.provide_state("A", Provision::Silent);
    c.start_with_state("C", 60 * SECOND);
    traffic(&mut c, &["B"], 2 * SECOND);
    assert_eq!(ends(&c, "C"), []);
    c.crash("A");
    assert!(c.run_until(20 * SECOND, |c| !ends(c, "C").is_empty()));
    let b = id(&c, "B");
    assert!(matches!(ends(&c, "C")[..], [StateEnded::Given(p, _)] if p == b));
    traffic(&mut c, &["B", "C"], SECOND);
    all_know_the_same(&mut c, &["B", "C"]);
}

#[test]
fn a_named_provider_that_dies_is_named_in_the_error() {
    let mut c = cluster(8, &["A", "B", "C"], Link::lan());
    c.provide_state("B", Provision::Silent);
    let b = id(&c, "B");
    c.fetch_state("C", Some("B"), 60 * SECOND);
    c.run_for(SECOND);
    c.crash("B");
    assert!(c.run_until(20 * SECOND, |c| !ends(c, "C").is_empty()));
    let [StateEnded::Failed(f)] = &ends(&c, "C")[..] else { panic!("{:?}", ends(&c, "C")) };
    assert_eq!(f.end, StateEnd::NoProvider);
    assert_eq!((f.tried[0].provider, &f.tried[0].outcome), (b, &StateOutcome::Left));
}

#[test]
fn everybody_who_refuses_is_in_the_error_and_what_was_held_is_delivered() {
    let mut c = cluster(9, &["A", "B", "C"], Link::lan());
    c.provide_state("A", Provision::Refuses);
    c.provide_state("B", Provision::Refuses);
    c.fetch_state("C", None, 60 * SECOND);
    traffic(&mut c, &["A", "B"], SECOND);
    let [StateEnded::Failed(f)] = &ends(&c, "C")[..] else { panic!("{:?}", ends(&c, "C")) };
    assert_eq!(f.end, StateEnd::NoProvider);
    let said: Vec<_> = f.tried.iter().map(|t| (t.provider, t.outcome.clone())).collect();
    let refused = || StateOutcome::Refused("it does not want to".into());
    assert_eq!(said, [(id(&c, "A"), refused()), (id(&c, "B"), refused())]);
    all_know_the_same(&mut c, &["A", "B", "C"]);
}

#[test]
fn a_call_ends_when_its_time_is_over_and_nothing_is_lost() {
    let mut c = cluster(10, &["A", "B"], Link::lan());
    c.provide_state("A", Provision::Silent);
    c.fetch_state("B", None, 3 * SECOND);
    traffic(&mut c, &["A", "B"], 2 * SECOND);
    c.run_for(2 * SECOND);
    let [StateEnded::Failed(f)] = &ends(&c, "B")[..] else { panic!("{:?}", ends(&c, "B")) };
    assert_eq!(f.end, StateEnd::TimedOut { after: 3 * SECOND });
    assert_eq!(f.tried[0].outcome, StateOutcome::Unanswered);
    all_know_the_same(&mut c, &["A", "B"]);
}

#[test]
fn views_go_on_and_the_asking_member_may_die() {
    let mut c = cluster(11, &["A", "B", "C"], Link::lan());
    c.provide_state("A", Provision::Silent);
    c.fetch_state("C", Some("A"), 60 * SECOND);
    traffic(&mut c, &["A", "B"], SECOND);
    c.start("D");
    let of = |n: usize| move |c: &Cluster| c.view("B").is_some_and(|v| v.members.len() == n);
    assert!(c.run_until(10 * SECOND, of(4)), "a member joins meanwhile");
    c.crash("C");
    assert!(c.run_until(10 * SECOND, of(3)));
    c.fetch_state("D", Some("B"), 10 * SECOND);
    assert!(c.run_until(10 * SECOND, |c| !ends(c, "D").is_empty()));
    traffic(&mut c, &["A", "B", "D"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "D"]);
}
