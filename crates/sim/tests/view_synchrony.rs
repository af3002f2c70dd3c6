//! View synchrony (decision 029) in the situations that it is made for, each without the option too
//! where that shows the difference that it makes.
//!
//! A coordinates, the others follow in the order of their names, and J joins. The way from one member
//! to another is slow, so that a view comes before what was sent before it, unless it waits.

use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Trace, View, ViewId};
use rgroups_sim::cluster::Appetite;
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::network::Link;
use rgroups_sim::swarm::{self, Profile, Task};
use rgroups_sim::{Cluster, Outgoing, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// `GMS.view_synchrony_timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the members have the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Views {
    Plain,
    Synchronous,
}

fn plan(views: Views) -> StackPlan {
    let plan = StackPlan::udp().with("MERGE3", "min_interval", "1000").with(
        "MERGE3",
        "max_interval",
        "3000",
    );
    match views {
        Views::Plain => plan,
        Views::Synchronous => plan.with("GMS", "view_synchrony", "true"),
    }
}

struct Group {
    c: Cluster,
}

impl Group {
    /// These, in one view and in this order.
    fn of(plan: StackPlan, names: &[&str]) -> Self {
        let mut c = Cluster::new(Settings::new(29, plan));
        c.form(names);
        c.run_for(SECOND);
        Self { c }
    }

    /// What `from` sends takes so much longer to `to`.
    fn slow_way(&mut self, from: &str, to: &str, by: Duration) {
        self.c.set_link(from, to, Link { delay: by, ..Link::lan() });
    }

    /// Each of these sends a message every millisecond until `done`.
    fn under_load(&mut self, senders: &[&str], done: impl Fn(&Cluster) -> bool) {
        let began = self.c.now();
        while !done(&self.c) {
            assert!(self.c.now().since(began) < 30 * SECOND, "what is waited for comes");
            self.under_load_for(senders, 1);
        }
    }

    /// Each of these sends so many messages, one every millisecond.
    fn under_load_for(&mut self, senders: &[&str], times: usize) {
        for _ in 0..times {
            for s in senders {
                self.c.send(s, &Outgoing::new(None, 100));
            }
            self.c.run_for(MILLISECOND);
        }
    }

    /// These have one view of exactly themselves, soon.
    fn together(&mut self, names: &[&str]) {
        assert!(
            self.c.run_until(60 * SECOND, |c| are_together(c, names)),
            "{names:?} are together"
        );
    }

    fn drop(&mut self, from: &str, to: &str, protocol: &str, kind: &str) {
        let (from, to) = (self.c.host(from), self.c.host(to));
        let pattern = Pattern { from, to, ..Pattern::of_kind(protocol, kind) };
        self.c.add_rule(Rule::new(pattern, Action::Drop, None));
    }

    /// What `from` has to report of itself does not reach `to`.
    fn no_reports(&mut self, from: &str, to: &str) {
        self.drop(from, to, "STABLE", "STABLE_GOSSIP");
    }

    /// What `from` decides does not reach `to`.
    fn no_decisions(&mut self, from: &str, to: &str) {
        self.drop(from, to, "STABLE", "STABILITY");
    }

    fn gauge(&self, name: &str, which: &str) -> u64 {
        gauge(&self.c, name, which)
    }

    fn views(&self, name: &str) -> Vec<Arc<View>> {
        let life = self.c.life(name).expect("it runs");
        self.c.history().views_of(life).into_iter().map(|(_, v)| v).collect()
    }

    fn sizes(&self, name: &str) -> Vec<usize> {
        self.views(name).iter().map(|v| v.members.len()).collect()
    }

    /// Members that said of a view that it was not synchronous.
    fn alone(&self) -> Vec<(&str, ViewId)> {
        let h = self.c.history();
        let said = h.facts.iter().filter_map(|f| match f.what {
            What::Trace(Trace::NotSynchronous { view }) => Some((h.name(f.life?), view)),
            _ => None,
        });
        said.collect()
    }

    /// Multicasts that two members have delivered in different views.
    fn in_different_views(&self) -> BTreeSet<MessageId> {
        let h = self.c.history();
        let mut first: BTreeMap<MessageId, ViewId> = BTreeMap::new();
        let mut different = BTreeSet::new();
        for life in h.all_lives() {
            for (m, view) in delivered_in(&self.c, life) {
                if *first.entry(m).or_insert(view) != view {
                    different.insert(m);
                }
            }
        }
        different
    }

    /// Members that went from one view to the same other one and have not delivered the same between
    /// the two.
    fn unlike(&self) -> Vec<String> {
        let h = self.c.history();
        let mut first: BTreeMap<(ViewId, ViewId), BTreeSet<MessageId>> = BTreeMap::new();
        let mut unlike = Vec::new();
        for life in h.all_lives() {
            let delivered = delivered_in(&self.c, life);
            // A joiner's first view is compared where all in it came into it at the beginning.
            for pair in h.views_of(life).windows(2) {
                let (from, to) = (pair[0].1.id, pair[1].1.id);
                let here = delivered.iter().filter(|(_, v)| **v == from).map(|(m, _)| *m);
                let here: BTreeSet<MessageId> = here.collect();
                if *first.entry((from, to)).or_insert_with(|| here.clone()) != here {
                    unlike.push(format!("{} from {from} to {to}", h.name(life)));
                }
            }
        }
        unlike
    }
}

/// What a member delivered, and in which of its views.
fn delivered_in(c: &Cluster, life: rgroups_sim::connections::Life) -> BTreeMap<MessageId, ViewId> {
    let mut view = None;
    let mut delivered = BTreeMap::new();
    for (_, f) in c.history().facts_of(life) {
        match &f.what {
            What::View(v) => view = Some(v.id),
            What::Delivered { message, multicast: true, .. } => {
                delivered.extend(view.map(|v| (*message, v)));
            }
            _ => {}
        }
    }
    delivered
}

fn are_together(c: &Cluster, names: &[&str]) -> bool {
    let first = c.view(names[0]).map(|v| v.id);
    let has = |v: Arc<View>| Some(v.id) == first && v.members.len() == names.len();
    names.iter().all(|m| c.view(m).is_some_and(has))
}

fn gauge(c: &Cluster, name: &str, which: &str) -> u64 {
    let mut sum = 0;
    if let Some(node) = c.node(name) {
        node.stack().inspect(&mut |_, n, value| sum += if n == which { value } else { 0 });
    }
    sum
}

fn waits(c: &Cluster, name: &str) -> bool {
    gauge(c, name, "tail_repair_running") == 1
}

/// J joins while all send, and what B sends comes late to C.
fn a_joiner_under_load(views: Views) -> Group {
    let mut g = Group::of(plan(views), &["A", "B", "C"]);
    g.slow_way("B", "C", 20 * MILLISECOND);
    g.c.start("J");
    g.under_load(&["A", "B", "C", "J"], |c| are_together(c, &["A", "B", "C", "J"]));
    g.c.run_for(SECOND);
    g
}

#[test]
fn all_deliver_a_message_in_the_same_view_when_a_member_joins_under_load() {
    let g = a_joiner_under_load(Views::Synchronous);
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
    assert_eq!(g.sizes("C"), [3, 4], "C joined last of three");
}

#[test]
fn without_view_synchrony_a_joiner_under_load_sets_members_apart() {
    assert!(!a_joiner_under_load(Views::Plain).in_different_views().is_empty());
}

/// A leaves while all send, and what C sends comes late to D.
fn a_coordinator_that_leaves(views: Views) -> Group {
    let mut g = Group::of(plan(views), &["A", "B", "C", "D"]);
    g.slow_way("C", "D", 20 * MILLISECOND);
    g.under_load_for(&["A", "B", "C", "D"], 10);
    g.c.leave("A");
    g.under_load(&["B", "C", "D"], |c| are_together(c, &["B", "C", "D"]));
    g.c.run_for(SECOND);
    g
}

#[test]
fn all_deliver_a_message_in_the_same_view_when_the_coordinator_leaves_under_load() {
    let g = a_coordinator_that_leaves(Views::Synchronous);
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
    let h = g.c.history();
    let confirmed = h.facts.iter().any(|f| matches!(f.what, What::Left { confirmed: true }));
    assert!(confirmed, "A knows that it is out");
}

#[test]
fn without_view_synchrony_a_coordinator_that_leaves_sets_members_apart() {
    assert!(!a_coordinator_that_leaves(Views::Plain).in_different_views().is_empty());
}

/// B's report does not come, so A waits with J's view, and dies.
#[test]
fn a_decider_that_dies_before_it_decides_takes_its_view_with_it() {
    let mut g = Group::of(plan(Views::Synchronous), &["A", "B", "C", "D"]);
    g.slow_way("C", "D", 20 * MILLISECOND);
    g.no_reports("B", "A");
    g.c.start("J");
    g.under_load(&["A", "B", "C", "D"], |c| ["A", "B", "C", "D"].iter().all(|n| waits(c, n)));
    g.c.run_for(100 * MILLISECOND);
    assert!(waits(&g.c, "A"), "it has not decided");
    g.c.crash("A");
    g.under_load(&["B", "C", "D"], |c| are_together(c, &["B", "C", "D", "J"]));
    g.c.run_for(SECOND);
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
    let with_both = |v: &Arc<View>| v.members.len() == 5;
    assert!(!g.views("C").iter().any(with_both), "nobody installs A's last view");
}

/// A's decision about J's view reaches only `told`, and A dies.
fn a_decider_that_dies_having_told(told: &str) -> Group {
    let mut g = Group::of(plan(Views::Synchronous), &["A", "B", "C", "D"]);
    g.slow_way("C", "D", 20 * MILLISECOND);
    for other in ["B", "C", "D"].into_iter().filter(|n| *n != told) {
        g.no_decisions("A", other);
    }
    g.c.start("J");
    let here = |c: &Cluster| {
        ["A", "J", told].iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == 5))
    };
    g.under_load(&["A", "B", "C", "D"], here);
    g.under_load_for(&["A", "J", told], 20);
    g.c.crash("A");
    g.under_load(&["B", "C", "D", "J"], |c| are_together(c, &["B", "C", "D", "J"]));
    g.c.run_for(SECOND);
    g
}

/// Of these, each one has skipped the view with A and J, or has not.
fn skipped(g: &Group, names: &[&str]) -> Vec<bool> {
    names.iter().map(|n| !g.sizes(n).contains(&5)).collect()
}

#[test]
fn a_decision_that_only_the_next_decider_has_heard_does_not_part_those_who_have_not() {
    let g = a_decider_that_dies_having_told("B");
    assert_eq!(skipped(&g, &["B", "C", "D", "J"]), [false, true, true, false]);
    assert_eq!(g.unlike(), [""; 0]);
    assert_eq!(g.alone(), []);
}

/// The next to decide has skipped a view that two of the others have installed with J.
#[test]
fn a_decider_that_has_skipped_a_view_decides_about_a_joiner_that_it_does_not_know() {
    let g = a_decider_that_dies_having_told("C");
    assert_eq!(skipped(&g, &["B", "C", "D", "J"]), [true, false, true, false]);
    assert_eq!(g.unlike(), [""; 0]);
    assert_eq!(g.alone(), []);
}

/// D stands still when J joins. How long until J is in, with how many.
fn a_frozen_member(views: Views) -> (Group, Duration, usize) {
    let mut g = Group::of(plan(views), &["A", "B", "C", "D"]);
    g.slow_way("B", "C", 20 * MILLISECOND);
    g.c.freeze("D");
    g.c.start("J");
    let began = g.c.now();
    g.under_load(&["A", "B", "C"], |c| c.view("J").is_some());
    let (took, with) = (g.c.now().since(began), g.views("J")[0].members.len());
    (g, took, with)
}

#[test]
fn a_frozen_member_that_holds_up_a_view_is_left_out_after_the_timeout() {
    let (mut g, took, with) = a_frozen_member(Views::Synchronous);
    assert!(took >= TIMEOUT && took < TIMEOUT * 3 / 2, "{took:?}");
    assert_eq!(with, 4, "without D");
    g.under_load(&["A", "B", "C"], |c| are_together(c, &["A", "B", "C", "J"]));
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
    g.c.resume("D");
    g.together(&["A", "B", "C", "D", "J"]);
    assert_eq!(g.unlike(), [""; 0]);
}

#[test]
fn without_view_synchrony_nobody_waits_for_a_frozen_member() {
    let (_, took, with) = a_frozen_member(Views::Plain);
    assert!(took < TIMEOUT, "{took:?}");
    assert_eq!(with, 5, "D is in it");
}

/// D takes 50 ms for everything: all wait for it, and nobody is left out.
#[test]
fn a_slow_member_is_waited_for() {
    let mut g = Group::of(plan(Views::Synchronous), &["A", "B", "C", "D"]);
    g.c.slow("D", 50 * MILLISECOND);
    g.c.start("J");
    g.under_load(&["A", "B", "C", "D"], |c| waits(c, "A"));
    let began = g.c.now();
    g.under_load(&["A", "B", "C", "D"], |c| !waits(c, "A"));
    assert!(g.c.now().since(began) >= 50 * MILLISECOND, "{:?}", g.c.now().since(began));
    g.under_load(&["A", "B", "C", "D"], |c| are_together(c, &["A", "B", "C", "D", "J"]));
    g.c.run_for(2 * SECOND);
    assert_eq!(g.sizes("B").last(), Some(&5));
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
}

/// Two parts that send all the time find together; in one of them a way is slow.
fn a_merge(views: Views) -> Group {
    let mut g = Group::of(plan(views), &["A", "B", "C", "D", "E"]);
    g.c.partition(&[&["A", "B", "C"], &["D", "E"]]);
    g.together(&["A", "B", "C"]);
    g.together(&["D", "E"]);
    g.c.heal();
    g.slow_way("B", "C", 20 * MILLISECOND);
    let all = ["A", "B", "C", "D", "E"];
    g.under_load(&all, |c| are_together(c, &all));
    g.c.run_for(SECOND);
    g
}

#[test]
fn each_part_of_a_merge_has_delivered_the_same_before_it() {
    let g = a_merge(Views::Synchronous);
    assert!(g.views("C").last().is_some_and(|v| v.is_merge()));
    assert_eq!(g.unlike(), [""; 0]);
    assert_eq!(g.alone(), []);
}

#[test]
fn without_view_synchrony_the_members_of_a_part_come_into_a_merge_apart() {
    assert_ne!(a_merge(Views::Plain).unlike(), [""; 0]);
}

/// A does not hear the others and goes on alone, but they hear A, in the view that they have with it. What
/// A sent before reached B only. The merge brings A back.
fn a_lost_coordinator_comes_back(views: Views) -> Group {
    let mut g = Group::of(plan(views), &["A", "B", "C"]);
    let (from, to) = (g.c.host("A"), g.c.host("C"));
    let once = Pattern { from, to, ..Pattern::of_kind("NAKACK2", "MSG") };
    g.c.add_rule(Rule::new(once, Action::Drop, Some(1)));
    g.drop("A", "C", "NAKACK2", "XMIT_RSP");
    g.drop("C", "B", "NAKACK2", "XMIT_REQ");
    g.c.send("A", &Outgoing::new(None, 100));
    g.c.run_for(10 * MILLISECOND);
    ["B", "C"].into_iter().for_each(|m| g.c.cut(m, "A"));
    g.together(&["A"]);
    assert_eq!((g.sizes("B").last(), g.sizes("C").last()), (Some(&3), Some(&3)));
    g.c.heal();
    g.together(&["A", "B", "C"]);
    g.c.run_for(SECOND);
    g
}

#[test]
fn what_a_member_sent_that_a_merge_brings_back_all_have_before_it_or_none() {
    let g = a_lost_coordinator_comes_back(Views::Synchronous);
    assert!(g.views("B").last().is_some_and(|v| v.is_merge()));
    assert_eq!(g.unlike(), [""; 0]);
    assert_eq!(g.alone(), []);
    assert_ne!(a_lost_coordinator_comes_back(Views::Plain).unlike(), [""; 0]);
}

#[test]
fn a_member_without_the_option_makes_views_plain_while_it_is_in_them() {
    let mut g = Group::of(plan(Views::Synchronous), &["A", "B", "C"]);
    g.c.start_with("P", &plan(Views::Plain));
    g.together(&["A", "B", "C", "P"]);
    let mixed = g.views("A").last().map(|v| v.id).expect("it has a view");
    let all = BTreeSet::from([("A", mixed), ("B", mixed), ("C", mixed)]);
    assert_eq!(g.alone().into_iter().collect::<BTreeSet<_>>(), all, "who wants it says so");
    g.c.leave("P");
    g.together(&["A", "B", "C"]);
    assert_eq!(g.alone().len(), 3, "without P views are synchronous again: {:?}", g.alone());
    assert_eq!(g.gauge("B", "views_not_synchronous"), 1);
}

/// C's report about J's view does not come, and C dies: a view without C takes the place of J's.
#[test]
fn a_waiting_view_that_another_one_replaces_is_never_installed() {
    let mut g = Group::of(plan(Views::Synchronous), &["A", "B", "C", "D"]);
    g.slow_way("B", "D", 20 * MILLISECOND);
    g.no_reports("C", "A");
    g.c.start("J");
    g.under_load(&["A", "B", "C", "D"], |c| waits(c, "B") && waits(c, "D"));
    g.c.crash("C");
    g.under_load(&["A", "B", "D"], |c| are_together(c, &["A", "B", "D", "J"]));
    g.c.run_for(SECOND);
    for name in ["A", "B", "D"] {
        assert!(g.sizes(name).ends_with(&[4, 4]), "{name} skips the view with C and J");
    }
    assert_eq!(g.in_different_views(), BTreeSet::new());
    assert_eq!(g.alone(), []);
}

/// B uses up its credit while a view waits, and its multicasts wait with it. To the others it looks as
/// if they had been lost: if B asked for credit now, or if they took a request for proof, it had twice
/// its credit afterwards.
#[test]
fn multicasts_that_wait_for_a_view_are_not_taken_for_lost_credit() {
    const CREDIT: usize = 20_000;
    let plan = plan(Views::Synchronous).with("MFC", "max_credits", "20000").with(
        "MFC",
        "max_block_time",
        "500",
    );
    let mut g = Group::of(plan, &["A", "B", "C"]);
    g.no_reports("C", "A");
    g.c.start("J");
    assert!(g.c.run_until(20 * SECOND, |c| ["A", "B", "C"].iter().all(|n| waits(c, n))));
    g.c.appetite("A", Appetite::Nothing);
    for _ in 0..5 * CREDIT / 1000 {
        g.c.send("B", &Outgoing::new(None, 1000));
    }
    g.c.run_for(4 * SECOND);
    assert!(g.gauge("B", "multicasts_waiting_for_view") > 0, "they wait");
    g.c.clear_rules();
    g.together(&["A", "B", "C", "J"]);
    g.c.run_for(5 * SECOND);
    let life = g.c.life("A").expect("it runs");
    let delivered = delivered_in(&g.c, life).len();
    assert!(delivered > 0, "they went on");
    assert!(delivered * 1000 <= CREDIT, "{delivered} messages for a consumer that takes none");
}

/// A member that leaves while a view waits for one that is dead, and large messages that are half sent
/// when a member joins.
#[test]
fn seeds_in_which_views_wait_long_and_joiners_get_parts_are_sound() {
    for (profile, seed) in [(Profile::Churn, 177), (Profile::OneWay, 114), (Profile::OneWay, 119)] {
        let task = Task { vsync: true, ..Task::new(profile, 5) };
        let summary = swarm::run(seed..seed + 1, &[task], 1, &|_| true);
        assert!(summary.failures.is_empty(), "{:?}", summary.failures[0].violations);
    }
}
