//! Executing a configuration, phase by phase.

use super::draw::{Action, COUNTERS, Configuration, LOCKS};
use super::plan::{FAILURE_TIMEOUT, HEARTBEAT, MERGE_INTERVAL, STABLE_INTERVAL, VERIFICATION};
use super::shrink::Selection;
use super::{Profile, Task};
use crate::cluster::{Cluster, Errand, Outcall, Outgoing, Settings};
use crate::coverage::Coverage;
use crate::history::{MessageId, Phase, What};
use crate::network::Link;
use crate::oracle::bounds::Bounds;
use crate::oracle::{self, Conditions, Violation, twins};
use rgroups_core::plan::ProtocolConfig;
use rgroups_core::protocols::counter::{CounterAction, CounterConfig};
use rgroups_core::protocols::lock::LockConfig;
use rgroups_core::protocols::primary::PrimaryConfig;
use rgroups_core::protocols::sequencer::SequencerConfig;
use rgroups_core::rpc::Wait;
use rgroups_core::{Duration, Uuid};
use std::collections::BTreeSet;

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What was broken; empty if all is well.
    pub violations: Vec<Violation>,
    /// The hash of the transcript.
    pub transcript_hash: u64,
    /// How much happened.
    pub stats: Stats,
    /// What it went through.
    pub coverage: Coverage,
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages sent by applications.
    pub messages: u64,
    /// Messages delivered to applications.
    pub deliveries: u64,
    /// Views installed.
    pub views: u64,
    /// Turns of all nodes.
    pub turns: u64,
    /// Simulated time.
    pub time: Duration,
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64, task: &Task) -> Outcome {
    run_and_compare(seed, task, false).0
}

/// Runs one seed and returns its transcript too.
#[must_use]
pub fn replay(seed: u64, task: &Task) -> (Outcome, Vec<String>) {
    run_and_compare(seed, task, true)
}

/// Runs the selected part of a seed and returns its transcript too.
#[must_use]
pub fn replay_selected(seed: u64, task: &Task, part: &Selection) -> (Outcome, Vec<String>) {
    crate::panics::silence();
    run_configuration(&Configuration::draw(seed, task).selected(part), true)
}

/// Some seeds are run again, to be compared with themselves (O1), and those of a quiet network also
/// with messages packed differently (C17).
fn run_and_compare(seed: u64, task: &Task, keep_lines: bool) -> (Outcome, Vec<String>) {
    const AGAIN: u64 = 20;
    crate::panics::silence();
    let c = Configuration::draw(seed, task);
    let (mut outcome, lines) = run_configuration(&c, keep_lines);
    if seed.is_multiple_of(AGAIN) {
        let again = run_configuration(&c, false).0.transcript_hash;
        outcome.violations.extend(twins::same_run(seed, outcome.transcript_hash, again));
        // A state is cut where it is asked for, which is another moment in another packing.
        if task.profile == Profile::Lan && !task.states {
            outcome.violations.extend(packing_changes_nothing(&c));
        }
    }
    (outcome, lines)
}

/// C17: the configuration with large packets and whole messages, and with small ones and many parts.
#[must_use]
pub fn packing_changes_nothing(c: &Configuration) -> Vec<Violation> {
    let packed = |finely| {
        let tuning = c.tuning.packed(finely);
        execute(&Configuration { tuning, ..c.clone() }, false)
    };
    twins::same_deliveries(packed(true).history(), packed(false).history())
}

/// Runs a configuration. The transcript's lines are kept only if asked for.
#[must_use]
pub fn run_configuration(c: &Configuration, keep_lines: bool) -> (Outcome, Vec<String>) {
    let cluster = execute(c, keep_lines);
    let violations = oracle::check_all(cluster.history(), &conditions(c));
    let stats = stats(&cluster);
    let hash = cluster.transcript().hash();
    let lines = cluster.transcript().lines().to_vec();
    let coverage = cluster.coverage();
    (Outcome { seed: c.seed, violations, transcript_hash: hash, stats, coverage }, lines)
}

fn execute(c: &Configuration, keep_lines: bool) -> Cluster {
    let mut run = Run::new(c, keep_lines);
    run.load_and_faults(c);
    if run.converge() {
        run.final_round(c);
        run.rest();
        run.everybody_leaves();
    }
    run.cluster
}

fn conditions(c: &Configuration) -> Conditions {
    Conditions {
        max_credits: c.tuning.max_credits,
        stable_max_bytes: c.tuning.stable_max_bytes,
        largest_message: c.largest as u64 + 200,
        frag_size: c.tuning.frag_size,
        members: c.task.members as u64,
        calm: matches!(c.task.profile, Profile::Lan),
        loss: c.link.loss,
        duplication: c.link.duplication > 0.0,
        // What is forwarded, what is called and what is given is charged too, and no ledger knows how much that is.
        flow_control: c.tuning.windows.is_none()
            && !c.task.order
            && !c.task.calls
            && !c.task.states,
        ordered: c.task.order,
        states: c.task.states,
        windows: c.tuning.windows.clone(),
        bounds: Some(bounds(c)),
    }
}

/// The default of `GMS.view_synchrony_timeout`.
const VIEW_SYNCHRONY_TIMEOUT: Duration = Duration::from_secs(5);

/// The times of the stacks that swarms run, a little longer for clocks that run slowly.
fn bounds(c: &Configuration) -> Bounds {
    let held_back = if c.link.reordering > 0.0 { 11 } else { 1 };
    let turns = Duration::from_millis(1);
    Bounds {
        one_way: (c.link.delay + c.link.jitter) * held_back + turns,
        detection: FAILURE_TIMEOUT + HEARTBEAT * 2 + VERIFICATION * 2,
        verification: VERIFICATION,
        reconnection: Duration::from_secs(1),
        view_acks: Duration::from_secs(2),
        join: Duration::from_millis(2_100),
        merge_interval: MERGE_INTERVAL,
        merge_timeout: Duration::from_secs(5),
        retransmission: Duration::from_secs(1),
        view_hold: if c.task.vsync { VIEW_SYNCHRONY_TIMEOUT * 3 } else { Duration::ZERO },
    }
}

fn stats(cluster: &Cluster) -> Stats {
    let facts = &cluster.history().facts;
    let count = |wanted: fn(&What) -> bool| facts.iter().filter(|f| wanted(&f.what)).count() as u64;
    Stats {
        messages: cluster.history().messages.len() as u64,
        deliveries: count(|w| matches!(w, What::Delivered { .. })),
        views: count(|w| matches!(w, What::View(_))),
        turns: cluster.turns(),
        time: cluster.now().since(rgroups_core::Time::ZERO),
    }
}

/// UNICAST3.max_retransmit_time: what was sent to somebody who never was a member is given up then.
const GIVE_UP: Duration = Duration::from_secs(60);

struct Run {
    cluster: Cluster,
    healthy: Link,
}

impl Run {
    fn new(c: &Configuration, keep_lines: bool) -> Self {
        let mut plan = c.tuning.plan(c.task.members);
        if c.task.primary || c.task.counters || c.task.locks {
            let quorum = (c.task.members / 2 + 1).to_string();
            plan = plan
                .insert_above("GMS", PrimaryConfig::default())
                .with("PRIMARY", "quorum", &quorum);
        }
        if c.task.order {
            plan = plan.insert_below("FRAG2", SequencerConfig::default());
        }
        if c.task.counters
            && let Some(top) = plan.protocols.last().map(ProtocolConfig::name)
        {
            plan = plan.insert_above(top, CounterConfig::default());
        }
        if c.task.locks
            && let Some(top) = plan.protocols.last().map(ProtocolConfig::name)
        {
            plan = plan.insert_above(top, LockConfig::default());
        }
        if c.task.vsync {
            plan = plan.with("GMS", "view_synchrony", "true");
        }
        let settings =
            Settings { link: c.link, keep_lines, coverage: true, ..Settings::new(c.seed, plan) };
        #[cfg(feature = "mutants")]
        let settings = Settings {
            mutant: c.task.mutant.as_deref().and_then(rgroups_core::mutants::Mutant::named),
            ..settings
        };
        let mut cluster = Cluster::new(settings);
        cluster.pad_states(c.padding);
        for (i, ppm) in c.drift.iter().enumerate() {
            cluster.drift(&super::node_name(i), *ppm);
        }
        let healthy = Link { loss: 0.0, duplication: 0.0, reordering: 0.0, ..c.link };
        Run { cluster, healthy }
    }

    fn load_and_faults(&mut self, c: &Configuration) {
        for (when, action) in &c.schedule {
            let now = self.cluster.now().since(rgroups_core::Time::ZERO);
            self.cluster.run_for(when.saturating_sub(now));
            self.act(action);
        }
    }

    fn act(&mut self, action: &Action) {
        let c = &mut self.cluster;
        match action {
            Action::Start(name) => c.start(name),
            Action::Leave(name) => c.leave(name),
            Action::Crash(name) => c.crash(name),
            Action::PowerOff(name) => c.power_off(name),
            Action::Restart(name) => c.restart(name),
            Action::Freeze(name) => c.freeze(name),
            Action::Resume(name) => c.resume(name),
            Action::Slow(name, by) => c.slow(name, *by),
            Action::Appetite(name, appetite) => c.appetite(name, *appetite),
            Action::Cut(from, to) => c.cut(from, to),
            Action::Heal => c.heal(),
            Action::Reset(name) => c.reset_connections(name),
            Action::Partition(groups) => {
                let names: Vec<Vec<&str>> =
                    groups.iter().map(|g| g.iter().map(String::as_str).collect()).collect();
                let groups: Vec<&[&str]> = names.iter().map(Vec::as_slice).collect();
                c.partition(&groups);
            }
            Action::Count(name, counter, action, within) => {
                let _ = c.count(name, counter, *action, *within);
            }
            Action::Lock(name, lock, within, hold) => {
                let _ = c.lock(name, lock, *within, *hold);
            }
            Action::Send(from, message) => {
                // Whoever does not run at the moment sends nothing.
                let _ = c.send(from, message);
            }
            Action::Fetch(name, from, within) => c.fetch_state(name, from.as_deref(), *within),
            Action::Provide(name, how) => c.provide_state(name, *how),
            Action::Call(from, call) => {
                let _ = c.place(from, call);
            }
        }
    }

    /// Ends all faults; the group must come together within the bound of B1.
    fn converge(&mut self) -> bool {
        self.cluster.note(What::Phase(Phase::Healed));
        self.cluster.end_all_faults(self.healthy);
        // Three merge intervals, the merge itself, and one round of failure detection before it.
        let bound = MERGE_INTERVAL * 3 + FAILURE_TIMEOUT + Duration::from_secs(2 + 5 + 4);
        self.cluster.run_until(bound, is_one_group);
        // What is still in the air (late suspicions of the time before) gets another round.
        self.cluster.run_for(FAILURE_TIMEOUT + Duration::from_secs(4));
        self.cluster.run_until(bound, is_one_group);
        self.cluster.note(What::Phase(Phase::Converged));
        is_one_group(&self.cluster)
    }

    /// Everybody sends twice its credit to all, and something to everybody.
    fn final_round(&mut self, c: &Configuration) {
        self.cluster.note(What::Phase(Phase::FinalRound));
        let names = self.running();
        if c.task.calls {
            self.final_calls(&names);
        }
        if let Some(last) = names.last().filter(|_| c.task.states) {
            // Nothing disturbs it, so it is given one, while everybody sends.
            self.cluster.fetch_state(last, None, Duration::from_secs(30));
        }
        let first = self.cluster.history().messages.len();
        let size = usize::try_from(c.tuning.max_credits / 5).unwrap_or(10_000);
        for round in 0..10 {
            for from in &names {
                let _ = self.cluster.send(from, &Outgoing::new(None, size));
                for to in names.iter().filter(|_| round < 2) {
                    let _ = self.cluster.send(from, &Outgoing::new(Some(to), size / 4 + 8));
                }
            }
        }
        if c.task.counters {
            self.final_reads(&names);
        }
        if c.task.locks {
            self.final_turns(&names);
        }
        let sent = first..self.cluster.history().messages.len();
        let ids: Vec<MessageId> = sent.map(|i| MessageId(i as u32)).collect();
        let mut seen = 0;
        let mut open: BTreeSet<MessageId> = ids.into_iter().collect();
        self.cluster.run_until(Duration::from_secs(60), |c| {
            for f in &c.history().facts[seen..] {
                if let What::Resolved(m, _) = &f.what {
                    open.remove(m);
                }
            }
            seen = c.history().facts.len();
            open.is_empty() && !c.calls_are_pending()
        });
        self.cluster.run_for(Duration::from_secs(5));
        self.cluster.note(What::Phase(Phase::AtRest));
        self.cluster.sample();
        self.cluster.sample_rest();
    }

    /// Everybody calls all, and those all again: nothing disturbs it, so all of it is answered.
    fn final_calls(&mut self, names: &[String]) {
        for errand in [Errand::Answer, Errand::Nest(2)] {
            let (wait, within) = (Wait::All, Duration::from_secs(60));
            let call = Outcall { to: None, wait, within, size: 0, errand };
            for from in names {
                let _ = self.cluster.place(from, &call);
            }
        }
    }

    /// Everybody has every lock once more.
    fn final_turns(&mut self, names: &[String]) {
        for name in names {
            for lock in LOCKS {
                self.cluster.lock(name, lock, Duration::from_secs(30), Duration::from_millis(50));
            }
        }
    }

    /// Everybody reads every counter.
    fn final_reads(&mut self, names: &[String]) {
        for name in names {
            for counter in COUNTERS {
                self.cluster.count(name, counter, CounterAction::Get, Duration::from_secs(30));
            }
        }
    }

    /// Stability has time to do its work; then nothing may be left, and nothing may be said.
    fn rest(&mut self) {
        self.cluster.run_for((STABLE_INTERVAL * 4).max(GIVE_UP));
        self.cluster.note(What::Phase(Phase::Quiet));
        self.cluster.run_for(Duration::from_secs(10));
        self.cluster.sample();
        self.cluster.note(What::Phase(Phase::End));
    }

    fn everybody_leaves(&mut self) {
        for name in self.running() {
            self.cluster.leave(&name);
        }
        self.cluster
            .run_until(Duration::from_secs(30), |c| !c.names().any(|n| c.life(n).is_some()));
        self.cluster.note(What::Phase(Phase::Closed));
    }

    fn running(&self) -> Vec<String> {
        let running = self.cluster.names().filter(|n| self.cluster.life(n).is_some());
        running.map(str::to_owned).collect()
    }
}

/// Whether all running nodes are in one view of exactly themselves.
pub(crate) fn is_one_group(c: &Cluster) -> bool {
    let running: Vec<&str> = c.names().filter(|n| c.life(n).is_some()).collect();
    let expected: BTreeSet<Uuid> =
        running.iter().filter_map(|n| c.life(n)).map(|l| c.history().id(l)).collect();
    let mut views = running.iter().map(|n| c.view(n));
    let Some(first) = views.next() else { return true };
    let Some(first) = first else { return false };
    let members: BTreeSet<Uuid> = first.members.iter().copied().collect();
    members == expected && views.all(|v| v.is_some_and(|v| v.id == first.id))
}
