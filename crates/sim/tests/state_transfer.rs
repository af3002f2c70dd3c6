//! A member that joins with the state of another one knows exactly what that one knows.

mod state_common;

use rgroups_core::app::{StateEnd, StateOutcome};
use rgroups_core::protocols::sequencer::SequencerConfig;
use rgroups_sim::cluster::{Appetite, Cluster, Provision, StateEnded};
use rgroups_sim::network::Link;
use state_common::{SECOND, all_know_the_same, ends, id, ms, plan, traffic};

fn cluster(seed: u64, names: &[&str], link: Link) -> Cluster {
    state_common::cluster(seed, names, link, plan())
}

fn joins_while_all_send(seed: u64, link: Link) {
    joins(seed, cluster(seed, &["A", "B"], link));
}

fn joins(seed: u64, mut c: Cluster) {
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
fn in_total_order_a_joiner_knows_every_message_once() {
    let ordered = || plan().insert_below("FRAG2", SequencerConfig::default());
    for seed in 1..=4 {
        let link = Link { delay: ms(10 * seed), loss: 0.02, ..Link::lan() };
        joins(seed, state_common::cluster(seed, &["A", "B"], link, ordered()));
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

/// That these tests are worth something: a wrong protocol is noticed within 500 seeds.
#[cfg(feature = "mutants")]
mod mutant {
    use super::*;
    use rgroups_core::mutants::Mutant;
    use rgroups_sim::cluster::Settings;
    use state_common::by_sender;

    /// Whether C, which joins with the state of A, knows what A knows in the end.
    fn is_given_an_exact_state(seed: u64, mutant: Option<Mutant>) -> bool {
        let mut c = Cluster::new(Settings { mutant, ..Settings::new(seed, plan()) });
        c.form(&["A", "B"]);
        c.run_for(5 * SECOND);
        // The answer comes some time after the question.
        c.appetite("A", Appetite::Rate(200_000));
        traffic(&mut c, &["A", "B"], SECOND);
        c.start_with_state("C", 60 * SECOND);
        traffic(&mut c, &["A", "B"], 2 * SECOND);
        c.appetite("A", Appetite::Everything);
        assert!(c.run_until(60 * SECOND, |c| !ends(c, "C").is_empty()));
        c.run_for(20 * SECOND);
        by_sender(&c, "C") == by_sender(&c, "A")
    }

    #[test]
    fn a_state_that_is_not_cut_where_it_says_is_noticed() {
        let wrong = Some(Mutant::StateCutTooLate);
        let caught = (1..=500).find(|seed| !is_given_an_exact_state(*seed, wrong));
        let seed = caught.expect("it is noticed");
        assert!(is_given_an_exact_state(seed, None), "seed {seed} is right without it");
    }
}
