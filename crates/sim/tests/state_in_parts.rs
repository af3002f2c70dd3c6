//! STATE: a state that comes in parts, while everything goes on and members come and go.

mod state_common;

use rgroups_core::app::{StateEnd, StateOutcome};
use rgroups_core::plan::StackPlan;
use rgroups_core::protocols::state::StateConfig;
use rgroups_sim::cluster::{Appetite, Cluster, Provision, StateEnded};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::network::Link;
use state_common::{SECOND, all_know_the_same, ends, id, ms, traffic};

/// A window of 20 parts; states are several hundred parts large.
fn plan() -> StackPlan {
    let state =
        StateConfig { buffer_size: size(1000), window: size(20_000), ..StateConfig::default() };
    state_common::plan().insert_above("STATE_TRANSFER", state).without("STATE_TRANSFER")
}

fn size(n: u64) -> rgroups_core::attributes::ByteSize {
    rgroups_core::attributes::ByteSize(n)
}

const PADDING: usize = 400_000;

fn cluster(seed: u64, names: &[&str], link: Link) -> Cluster {
    let mut c = state_common::cluster(seed, names, link, plan());
    c.pad_states(PADDING);
    c
}

/// Runs until `name` has read so many hundredths of its state; false if the transfer ended before.
fn reads(c: &mut Cluster, name: &str, percent: usize) -> bool {
    let there = |c: &Cluster| c.state_bytes_read(name) >= PADDING / 100 * percent;
    assert!(c.run_until(60 * SECOND, |c| there(c) || !ends(c, name).is_empty()));
    there(c)
}

fn given_by(c: &Cluster, name: &str, provider: &str) -> bool {
    let provider = id(c, provider);
    matches!(ends(c, name)[..], [StateEnded::Given(p, _)] if p == provider)
}

fn ended(c: &mut Cluster, name: &str) {
    assert!(c.run_until(120 * SECOND, |c| !ends(c, name).is_empty()), "the transfer ends");
}

fn joins_while_all_send(seed: u64, link: Link) {
    let mut c = cluster(seed, &["A", "B"], link);
    traffic(&mut c, &["A", "B"], ms(300 + 13 * (seed % 10)));
    c.start_with_state("C", 120 * SECOND);
    traffic(&mut c, &["A", "B"], 3 * SECOND);
    ended(&mut c, "C");
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
fn the_cut_is_exact_when_packets_are_lost_and_reordered() {
    let lossy = Link { loss: 0.1, jitter: ms(5), reordering: 0.05, ..Link::lan() };
    for seed in 1..=4 {
        joins_while_all_send(seed, lossy);
    }
}

/// The provider dies when the reader has so much of its state: it begins anew with another one, and
/// nothing of the first is in it.
fn provider_dies(seed: u64, percent: usize, leaves: bool) {
    let mut c = cluster(seed, &["A", "B"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    c.start("C");
    assert!(c.run_until(20 * SECOND, |c| c.view("C").is_some_and(|v| v.members.len() == 3)));
    c.appetite("C", Appetite::Rate(200_000));
    c.fetch_state("C", None, 120 * SECOND);
    assert!(reads(&mut c, "C", percent), "it dies in the middle");
    match leaves {
        true => c.leave("A"),
        false => c.crash("A"),
    }
    traffic(&mut c, &["B"], 2 * SECOND);
    c.appetite("C", Appetite::Everything);
    // By the view without it, not by its silence: that would take 20 s.
    assert!(c.run_until(15 * SECOND, |c| !ends(c, "C").is_empty()), "the transfer ends");
    assert!(given_by(&c, "C", "B"), "{:?}", ends(&c, "C"));
    traffic(&mut c, &["B", "C"], SECOND);
    all_know_the_same(&mut c, &["B", "C"]);
}

#[test]
fn when_the_provider_dies_another_one_gives_its_state_from_the_beginning() {
    for (seed, percent) in [(11, 1), (12, 10), (13, 50), (14, 90)] {
        provider_dies(seed, percent, false);
    }
}

#[test]
fn when_the_provider_leaves_another_one_gives_its_state_from_the_beginning() {
    for (seed, percent) in [(15, 1), (16, 50), (17, 90)] {
        provider_dies(seed, percent, true);
    }
}

#[test]
fn without_another_provider_the_error_says_how_much_had_come() {
    let mut c = cluster(18, &["A", "B"], Link::lan());
    c.appetite("B", Appetite::Rate(500_000));
    c.fetch_state("B", None, 60 * SECOND);
    assert!(reads(&mut c, "B", 20));
    c.crash("A");
    ended(&mut c, "B");
    let [StateEnded::Failed(f)] = &ends(&c, "B")[..] else { panic!("{:?}", ends(&c, "B")) };
    assert_eq!((&f.end, &f.tried[0].outcome), (&StateEnd::NoProvider, &StateOutcome::Left));
    assert!(f.tried[0].bytes >= PADDING as u64 / 5, "{f:?}");
}

#[test]
fn a_slow_reader_slows_the_provider_and_nothing_else() {
    let mut c = cluster(19, &["A", "B", "C"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    c.appetite("C", Appetite::Rate(40_000));
    c.fetch_state("C", Some("A"), 600 * SECOND);
    // 400 kB at 40 kB a second; a new member is served meanwhile.
    c.start_with_state("D", 60 * SECOND);
    ended(&mut c, "D");
    assert_eq!(ends(&c, "C"), []);
    assert!(given_by(&c, "D", "A"));
    ended(&mut c, "C");
    assert!(given_by(&c, "C", "A"));
    c.appetite("C", Appetite::Everything);
    traffic(&mut c, &["A", "B", "D"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "C", "D"]);
}

#[test]
fn messages_that_are_not_read_delay_no_state() {
    let mut c = cluster(20, &["A", "B"], Link::lan());
    c.appetite("B", Appetite::Rate(100_000));
    c.fetch_state("B", None, 60 * SECOND);
    // More than B's credit for unicasts, all of it behind the state.
    for _ in 0..20 {
        c.send("A", &rgroups_sim::cluster::Outgoing::new(Some("B"), 20_000));
    }
    ended(&mut c, "B");
    assert!(given_by(&c, "B", "A"), "{:?}", ends(&c, "B"));
}

#[test]
fn a_reader_that_stops_ends_its_call_and_frees_the_provider() {
    let mut c = cluster(21, &["A", "B", "C"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    c.appetite("C", Appetite::Nothing);
    c.fetch_state("C", None, 600 * SECOND);
    c.run_for(59 * SECOND);
    assert_eq!(ends(&c, "C"), []);
    c.run_for(3 * SECOND);
    let [StateEnded::Failed(f)] = &ends(&c, "C")[..] else { panic!("{:?}", ends(&c, "C")) };
    assert_eq!(f.end, StateEnd::NotTaken { after: 60 * SECOND });
    c.appetite("C", Appetite::Everything);
    traffic(&mut c, &["A", "B", "C"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "C"]);
    c.fetch_state("C", Some("A"), 60 * SECOND);
    assert!(c.run_until(60 * SECOND, |c| ends(c, "C").len() == 2));
    assert!(matches!(ends(&c, "C")[1], StateEnded::Given(..)), "A serves it again");
}

#[test]
fn several_read_at_once_and_one_of_them_dies() {
    let mut c = cluster(22, &["A"], Link::lan());
    traffic(&mut c, &["A"], SECOND);
    for name in ["B", "C", "D"] {
        c.start_with_state(name, 120 * SECOND);
        c.appetite(name, Appetite::Rate(400_000));
    }
    assert!(reads(&mut c, "C", 30));
    c.crash("C");
    traffic(&mut c, &["A"], 2 * SECOND);
    for name in ["B", "D"] {
        c.appetite(name, Appetite::Everything);
        ended(&mut c, name);
        assert!(matches!(ends(&c, name)[..], [StateEnded::Given(..)]), "{:?}", ends(&c, name));
    }
    c.start_with_state("C", 60 * SECOND);
    ended(&mut c, "C");
    traffic(&mut c, &["A"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "C", "D"]);
}

#[test]
fn a_provider_that_refuses_or_says_nothing_gives_way_to_the_next() {
    for silent in [false, true] {
        let mut c = cluster(23, &["A", "B", "C"], Link::lan());
        traffic(&mut c, &["A", "B"], SECOND);
        c.provide_state("A", if silent { Provision::Silent } else { Provision::Refuses });
        c.fetch_state("C", None, 120 * SECOND);
        traffic(&mut c, &["A", "B"], SECOND);
        ended(&mut c, "C");
        assert!(given_by(&c, "C", "B"), "{:?}", ends(&c, "C"));
        all_know_the_same(&mut c, &["A", "B", "C"]);
    }
}

#[test]
fn an_empty_state_is_a_state_and_the_first_member_has_none() {
    let mut c = cluster(24, &[], Link::lan());
    c.pad_states(0);
    c.start_with_state("A", 5 * SECOND);
    ended(&mut c, "A");
    assert_eq!(ends(&c, "A"), [StateEnded::Nobody]);
    c.start_with_state("B", 5 * SECOND);
    ended(&mut c, "B");
    assert_eq!(ends(&c, "B"), [StateEnded::Given(id(&c, "A"), 0)]);
}

/// The view with the joiner reaches the provider two seconds after the joiner.
#[test]
fn a_joiner_that_the_provider_does_not_know_yet_is_given_the_state() {
    let mut c = cluster(31, &["A", "B"], Link::lan());
    traffic(&mut c, &["A", "B"], SECOND);
    let view = Pattern {
        to: c.host("B"),
        protocol: Some("GMS".into()),
        kind: Some("VIEW".into()),
        ..Pattern::default()
    };
    c.add_rule(Rule::new(view, Action::Delay(2 * SECOND), None));
    c.start("C");
    assert!(c.run_until(20 * SECOND, |c| c.view("C").is_some_and(|v| v.members.len() == 3)));
    assert_eq!(c.view("B").map(|v| v.members.len()), Some(2), "it does not know the joiner");
    c.fetch_state("C", Some("B"), 120 * SECOND);
    assert!(c.run_until(10 * SECOND, |c| !ends(c, "C").is_empty()), "it is not waited for");
    assert!(given_by(&c, "C", "B"), "{:?}", ends(&c, "C"));
    c.clear_rules();
    traffic(&mut c, &["A", "B", "C"], SECOND);
    all_know_the_same(&mut c, &["A", "B", "C"]);
}
