//! What tail repair must stand, one test for each check of decision 018: among members of ours alone,
//! and with a coordinator of JGroups, which takes no part in it.
//!
//! K coordinates, A, B and C follow, and S is the member that is gone.

use rgroups_core::plan::StackPlan;
use rgroups_core::wire::{Header, ProtId, StablePayloadKind};
use rgroups_core::{Duration, Trace, View};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::oracle::{tails, views};
use rgroups_sim::swarm::{self, Profile, Task};
use rgroups_sim::{Cluster, Outgoing, Settings};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);
const TAIL: usize = 3;

/// Who coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kin {
    Ours,
    Java,
}

/// Runs each check twice.
macro_rules! checks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        mod among_ourselves {
            $($(#[$doc])* #[test] fn $name() { super::$name(super::Kin::Ours); })*
        }
        mod with_a_java_coordinator {
            $($(#[$doc])* #[test] fn $name() { super::$name(super::Kin::Java); })*
        }
    };
}

checks! {
    a_holder_that_dies_before_it_serves_takes_the_tail_with_it,
    what_some_have_installed_stands_when_holder_and_decider_die,
    two_members_that_die_together_are_repaired_together,
    a_merged_view_without_a_member_waits_for_its_tail_in_the_members_own_part,
    a_frozen_decider_is_waited_for_no_longer_than_a_second,
    a_repair_costs_two_small_messages_for_each_survivor_but_one,
    behind_a_gap_that_nobody_can_fill_nobody_delivers,
    numbers_that_only_the_coordinator_ever_had,
    a_member_that_comes_back_goes_on_with_new_windows,
    a_waiting_view_that_another_one_replaces_is_never_installed,
    a_view_in_the_tail_of_its_dead_sender_is_never_installed,
}

struct Group {
    c: Cluster,
    kin: Kin,
}

impl Group {
    /// K and these, in one view and in this order.
    fn of(kin: Kin, others: &[&str]) -> Self {
        let plan = StackPlan::udp().with("MERGE3", "min_interval", "1000").with(
            "MERGE3",
            "max_interval",
            "3000",
        );
        let mut g = Self { c: Cluster::new(Settings::new(21, plan)), kin };
        match kin {
            Kin::Ours => g.c.start("K"),
            Kin::Java => g.c.start_java("K"),
        }
        assert!(g.c.run_until(20 * SECOND, |c| c.view("K").is_some()));
        let mut names = vec!["K"];
        for name in others {
            g.c.start(name);
            names.push(name);
            g.together(&names);
        }
        g.c.run_for(SECOND);
        g
    }

    /// Who decides: the first that takes part.
    fn decider(&self) -> &'static str {
        if self.kin == Kin::Ours { "K" } else { "A" }
    }

    /// These have one view of exactly themselves, soon.
    fn together(&mut self, names: &[&str]) {
        let all = |c: &Cluster| {
            let first = c.view(names[0]).map(|v| v.id);
            let has = |v: Arc<View>| Some(v.id) == first && v.members.len() == names.len();
            names.iter().all(|m| c.view(m).is_some_and(has))
        };
        assert!(self.c.run_until(60 * SECOND, all), "{names:?} find together");
    }

    fn drop(&mut self, from: &str, to: &str, protocol: &str, kind: &str) {
        let (from, to) = (self.c.host(from), self.c.host(to));
        let pattern = Pattern { from, to, ..Pattern::of_kind(protocol, kind) };
        self.c.add_rule(Rule::new(pattern, Action::Drop, None));
    }

    /// `s` sends `n` messages of which nobody hears but `holders`.
    fn tail(&mut self, s: &str, n: usize, holders: &[&str]) -> Vec<MessageId> {
        let names: Vec<String> = self.c.names().map(str::to_owned).collect();
        for other in names.iter().filter(|o| *o != s && !holders.contains(&o.as_str())) {
            self.drop(s, other, "NAKACK2", "MSG");
            self.drop(s, other, "NAKACK2", "HIGHEST_SEQNO");
        }
        let sent = (0..n).filter_map(|_| self.c.send(s, &Outgoing::new(None, 100))).collect();
        self.c.run_for(Duration::from_millis(3));
        sent
    }

    /// The moment at which a view waits at `name`.
    fn until_it_waits(&mut self, name: &str) {
        let began = self.c.now();
        while self.gauge(name, "tail_repair_running") == 0 {
            assert!(self.c.now().since(began) < 20 * SECOND, "{name} repairs");
            self.c.run_for(Duration::from_micros(20));
        }
    }

    fn gauge(&self, name: &str, which: &str) -> u64 {
        let mut sum = 0;
        if let Some(node) = self.c.node(name) {
            node.stack().inspect(&mut |_, n, value| sum += if n == which { value } else { 0 });
        }
        sum
    }

    /// How many of these messages `name` has delivered.
    fn delivered(&self, name: &str, of: &[MessageId]) -> usize {
        let h = self.c.history();
        let life = self.c.life(name).expect("it runs");
        let one = |w: &What| matches!(w, What::Delivered { message, .. } if of.contains(message));
        h.facts_of(life).filter(|(_, f)| one(&f.what)).count()
    }

    fn all_delivered(&self, names: &[&str], of: &[MessageId], n: usize) {
        for name in names {
            assert_eq!(self.delivered(name, of), n, "{name}");
        }
    }

    fn views(&self, name: &str) -> Vec<Arc<View>> {
        let life = self.c.life(name).expect("it runs");
        self.c.history().views_of(life).into_iter().map(|(_, v)| v).collect()
    }

    /// Who said that it does not know whether all have the same.
    fn unknown(&self) -> Vec<&str> {
        let h = self.c.history();
        let said =
            h.facts.iter().filter(|f| matches!(f.what, What::Trace(Trace::TailUnknown { .. })));
        said.filter_map(|f| f.life).map(|l| h.name(l)).collect()
    }

    /// Nothing that the oracles of tails and views promise is broken.
    fn sound(&self) {
        let broken = tails::check(self.c.history());
        assert!(broken.is_empty(), "{broken:?}");
        let broken = views::check(self.c.history());
        assert!(broken.is_empty(), "{broken:?}");
    }
}

fn a_holder_that_dies_before_it_serves_takes_the_tail_with_it(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let tail = g.tail("S", TAIL, &["C"]);
    g.all_delivered(&["C"], &tail, TAIL);
    for other in ["K", "A", "B"] {
        g.drop("C", other, "NAKACK2", "XMIT_RSP");
    }
    g.c.crash("S");
    g.until_it_waits(g.decider());
    g.c.run_for(Duration::from_millis(2));
    g.c.crash("C");
    g.together(&["K", "A", "B"]);
    g.all_delivered(&["A", "B"], &tail, 0);
    g.sound();
}

fn what_some_have_installed_stands_when_holder_and_decider_die(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let decider = g.decider();
    let tail = g.tail("S", TAIL, &[decider]);
    g.drop(decider, "C", "NAKACK2", "XMIT_RSP");
    g.drop(decider, "C", "STABLE", "STABILITY");
    g.c.crash("S");
    g.until_it_waits(decider);
    let without = |c: &Cluster| c.view("B").is_some_and(|v| v.members.len() == 4);
    assert!(g.c.run_until(SECOND, without), "B installs");
    assert_eq!(g.views("C").last().map(|v| v.members.len()), Some(5), "C waits");
    g.c.crash(decider);
    let left: Vec<&str> = ["K", "A", "B", "C"].into_iter().filter(|n| *n != decider).collect();
    g.together(&left);
    g.all_delivered(&["B", "C"], &tail, TAIL);
    assert!(g.unknown().is_empty(), "{:?}", g.unknown());
    g.sound();
}

/// A coordinator of JGroups excludes one after the other, and so leaves the decider without the report
/// of the second.
fn two_members_that_die_together_are_repaired_together(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "R", "S"]);
    let first = g.tail("R", TAIL, &["A"]);
    let second = g.tail("S", TAIL, &["C"]);
    g.c.crash("R");
    g.c.crash("S");
    g.together(&["K", "A", "B", "C"]);
    for tail in [&first, &second] {
        g.all_delivered(&["A", "B", "C"], tail, TAIL);
    }
    if kin == Kin::Ours {
        assert!(g.unknown().is_empty(), "{:?}", g.unknown());
    }
    g.sound();
}

/// S dies with its machine, so nobody suspects it before the two parts merge without it.
fn a_merged_view_without_a_member_waits_for_its_tail_in_the_members_own_part(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    g.c.partition(&[&["K", "A", "B", "S"], &["C"]]);
    let parted = |c: &Cluster| {
        [("A", 4), ("S", 4), ("B", 4), ("C", 1)]
            .iter()
            .all(|(m, n)| c.view(m).is_some_and(|v| v.members.len() == *n))
    };
    assert!(g.c.run_until(90 * SECOND, parted), "two parts");
    g.c.run_for(5 * SECOND);
    let tail = g.tail("S", TAIL, &["A"]);
    g.c.power_off("S");
    g.c.heal();
    g.together(&["K", "A", "B", "C"]);
    let merged = g.views("A").last().cloned().expect("it has views");
    assert!(merged.is_merge(), "the merge excludes S: {merged:?}");
    g.all_delivered(&["A", "B"], &tail, TAIL);
    g.all_delivered(&["C"], &tail, 0);
    if kin == Kin::Ours {
        g.all_delivered(&["K"], &tail, TAIL);
    }
    g.sound();
}

fn a_frozen_decider_is_waited_for_no_longer_than_a_second(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let decider = g.decider();
    let tail = g.tail("S", TAIL, &["C"]);
    g.c.crash("S");
    g.until_it_waits("B");
    g.c.freeze(decider);
    let began = g.c.now();
    let left: Vec<&str> = ["A", "B", "C"].into_iter().filter(|n| *n != decider).collect();
    let without =
        |c: &Cluster| left.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == 4));
    assert!(g.c.run_until(10 * SECOND, without), "the others install");
    let took = g.c.now().since(began);
    assert!(took > SECOND / 2 && took < SECOND * 5 / 2, "the second of them decides: {took:?}");
    g.all_delivered(&left, &tail, TAIL);
    g.c.resume(decider);
    g.c.run_for(20 * SECOND);
    g.all_delivered(&[decider], &tail, TAIL);
    g.sound();
}

fn a_repair_costs_two_small_messages_for_each_survivor_but_one(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    g.c.start_census_keeping(&["STABLE"]);
    g.tail("S", TAIL, &["K", "A", "B", "C"]);
    g.c.run_for(5 * SECOND);
    assert_eq!(repair_messages(&g.c), Vec::<usize>::new(), "nobody leaves");
    g.c.crash("S");
    g.together(&["K", "A", "B", "C"]);
    g.c.run_for(5 * SECOND);
    let sizes = repair_messages(&g.c);
    let take_part = if kin == Kin::Ours { 4 } else { 3 };
    assert_eq!(sizes.len(), 2 * (take_part - 1), "{sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes < 200), "{sizes:?}");
}

/// The payloads of reports and decisions that were sent, in bytes.
fn repair_messages(c: &Cluster) -> Vec<usize> {
    let kept = c.network().census().expect("counted").kept();
    let payloads = kept.iter().filter_map(|k| match k.message.headers.get(ProtId::STABLE) {
        Some(Header::Stable(_)) => k.message.body.as_bytes(),
        _ => None,
    });
    let ours = payloads.filter(|b| StablePayloadKind::of(b) == Some(StablePayloadKind::TailRepair));
    ours.map(|b| b.len()).collect()
}

fn behind_a_gap_that_nobody_can_fill_nobody_delivers(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let before = g.tail("S", TAIL, &["A", "B"]);
    let lost = g.tail("S", 1, &[]);
    let names: Vec<String> = g.c.names().map(str::to_owned).collect();
    g.c.clear_rules();
    for other in &names {
        g.drop(other, "S", "NAKACK2", "XMIT_REQ");
    }
    let behind = g.tail("S", TAIL, &["A", "C"]);
    g.c.crash("S");
    g.together(&["K", "A", "B", "C"]);
    g.all_delivered(&["A", "B", "C"], &before, TAIL);
    g.all_delivered(&["A", "B", "C"], &lost, 0);
    g.all_delivered(&["A", "B", "C"], &behind, 0);
    assert!(g.unknown().is_empty(), "{:?}", g.unknown());
    g.sound();
}

/// D joins, and the coordinator tells it a number that A has not got. Of ours, the coordinator gives
/// A what it lacks; of JGroups, it is not asked, and A says that it does not know.
fn numbers_that_only_the_coordinator_ever_had(kin: Kin) {
    let mut g = Group::of(kin, &["A", "S"]);
    let known = g.tail("S", TAIL, &["K", "A"]);
    let tail = g.tail("S", 2, &["K"]);
    g.drop("A", "S", "NAKACK2", "XMIT_REQ");
    g.drop("A", "K", "NAKACK2", "XMIT_REQ");
    g.c.start("D");
    g.together(&["K", "A", "S", "D"]);
    g.c.crash("S");
    g.together(&["K", "A", "D"]);
    g.all_delivered(&["A"], &known, TAIL);
    match kin {
        Kin::Ours => {
            g.all_delivered(&["A"], &tail, 2);
            assert!(g.unknown().is_empty(), "{:?}", g.unknown());
        }
        Kin::Java => {
            g.all_delivered(&["A"], &tail, 0);
            assert!(g.unknown().contains(&"A"), "{:?}", g.unknown());
        }
    }
    g.sound();
}

fn a_member_that_comes_back_goes_on_with_new_windows(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let tail = g.tail("S", TAIL, &["C"]);
    g.c.partition(&[&["K", "A", "B", "C"], &["S"]]);
    g.together(&["K", "A", "B", "C"]);
    g.all_delivered(&["A", "B", "C"], &tail, TAIL);
    g.c.clear_rules();
    g.c.heal();
    g.together(&["K", "A", "B", "C", "S"]);
    g.all_delivered(&["A", "B", "C"], &tail, TAIL);
    let again: Vec<MessageId> =
        (0..TAIL).filter_map(|_| g.c.send("S", &Outgoing::new(None, 100))).collect();
    g.c.run_for(SECOND);
    g.all_delivered(&["K", "A", "B", "C"], &again, TAIL);
    g.sound();
}

/// C dies before it could report. Where the coordinator is one of JGroups, it makes the next view only
/// when all have acknowledged this one, or two seconds later; A decides before that, without C.
fn a_waiting_view_that_another_one_replaces_is_never_installed(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C", "S"]);
    let tail = g.tail("S", TAIL, &["A"]);
    let decider = g.decider();
    g.drop("C", decider, "STABLE", "STABLE_GOSSIP");
    g.c.crash("S");
    g.until_it_waits("B");
    g.c.crash("C");
    g.together(&["K", "A", "B"]);
    g.all_delivered(&["A", "B"], &tail, TAIL);
    if kin == Kin::Ours {
        for name in ["K", "A", "B"] {
            let sizes: Vec<usize> = g.views(name).iter().map(|v| v.members.len()).collect();
            assert!(sizes.ends_with(&[5, 3]), "{name} skips the view without S alone: {sizes:?}");
        }
        assert!(g.unknown().is_empty(), "{:?}", g.unknown());
    }
    g.sound();
}

/// K lets J in and dies; its view reaches only A, as the last of its messages.
fn a_view_in_the_tail_of_its_dead_sender_is_never_installed(kin: Kin) {
    let mut g = Group::of(kin, &["A", "B", "C"]);
    for other in ["A", "B", "C"] {
        g.drop("K", other, "GMS", "VIEW");
    }
    g.c.start("J");
    let made = |c: &Cluster| c.view("K").is_some_and(|v| v.members.len() == 5);
    assert!(g.c.run_until(10 * SECOND, made), "K makes a view with J");
    let lost = g.views("K").last().cloned().expect("it has views").id;
    g.c.clear_rules();
    g.drop("K", "B", "NAKACK2", "XMIT_RSP");
    g.drop("K", "C", "NAKACK2", "XMIT_RSP");
    let last = g.tail("K", 1, &["A"]);
    g.c.run_for(SECOND / 50);
    g.c.crash("K");
    g.together(&["A", "B", "C", "J"]);
    for name in ["B", "C"] {
        assert!(g.views(name).iter().all(|v| v.id != lost), "{name} never installs {lost:?}");
    }
    let first = g.delivered("A", &last);
    g.all_delivered(&["B", "C"], &last, first);
    g.sound();
}

/// Runs in which a member once waited for a view that another one replaced, and the two did not agree.
#[test]
fn seeds_in_which_a_waiting_view_is_replaced_are_sound() {
    let seeds =
        [(Profile::Mixed, 231), (Profile::Mixed, 265), (Profile::Churn, 88), (Profile::OneWay, 34)];
    for (profile, seed) in seeds {
        let summary = swarm::run(seed..seed + 1, &[Task::new(profile, 5)], 1, &|_| true);
        assert!(summary.failures.is_empty(), "{:?}", summary.failures[0].violations);
    }
}
