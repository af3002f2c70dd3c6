//! Depth first over all choices, from each state once.

use super::Limits;
use super::situation::{Scene, Situation};
use super::world::{Choice, Happened, World, record};
use crate::history::History;
use crate::oracle::{self, Conditions, Violation};
use rgroups_core::{Duration, Time};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A run that broke a promise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub violations: Vec<Violation>,
    /// What happened in it.
    pub story: Vec<String>,
}

/// What exploration has come to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Different states.
    pub states: u64,
    /// Of these, how many are the end of a run.
    pub runs: u64,
    /// Of these, in how many somebody did not know whether all have the same.
    pub unknown: u64,
    /// Of the runs, how many broke a promise.
    pub broken: u64,
    /// Choices that were carried out: ways from state to state.
    pub steps: u64,
    /// Different ends, as the oracles see them.
    pub outcomes: u64,
    /// Different states of single nodes.
    pub node_states: u64,
    /// Steps of single nodes that were run.
    pub node_steps: u64,
    /// The longest run.
    pub longest: usize,
    /// Choices that are still to be tried in the states on the way to where the search is.
    pub open: usize,
    /// Nothing was left.
    pub complete: bool,
    /// The first few runs that broke a promise.
    pub findings: Vec<Finding>,
}

/// Findings after which exploration stops.
const ENOUGH: usize = 5;
/// After so many steps each time the caller is told.
const TELL_EVERY: u64 = 1 << 14;

/// What has gone wrong so far in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Spent {
    losses: u8,
    crashes: u8,
    late: u8,
}

/// A state on the way to where the search is.
struct Level {
    world: World,
    spent: Spent,
    choices: Vec<Choice>,
    /// Of these, how many were made.
    made: usize,
}

/// What the oracles said of an outcome.
#[derive(Clone, Copy)]
struct Verdict {
    sound: bool,
    unknown: bool,
}

/// Explores everything that can happen in `situation` within `limits`. Tells from time to time how
/// far it has come.
#[must_use]
pub fn explore(situation: &Situation, limits: &Limits, tell: &mut dyn FnMut(&Found)) -> Found {
    let mut search = Search::new(situation.set_up(), *limits);
    search.run(tell);
    search.found
}

pub(super) struct Search {
    pub(super) scene: Scene,
    limits: Limits,
    seen: HashSet<u64>,
    path: Vec<Level>,
    verdicts: HashMap<u64, Verdict>,
    pub(super) found: Found,
}

impl Search {
    pub(super) fn new(scene: Scene, limits: Limits) -> Self {
        let mut search = Self {
            scene,
            limits,
            seen: HashSet::new(),
            path: Vec::new(),
            verdicts: HashMap::new(),
            found: Found::default(),
        };
        let world = search.scene.world.clone();
        search.come_to(world, Spent::default());
        search
    }

    pub(super) fn run(&mut self, tell: &mut dyn FnMut(&Found)) {
        while self.found.findings.len() < ENOUGH
            && self.limits.at_most.is_none_or(|most| self.found.states < most)
        {
            let Some(level) = self.path.last_mut() else {
                self.found.complete = true;
                break;
            };
            let Some(choice) = level.choices.get(level.made).copied() else {
                self.path.pop();
                continue;
            };
            level.made += 1;
            let spent = level.spent.after(choice, &level.world);
            let mut world = level.world.clone();
            world.apply(choice, &mut self.scene.memo, &mut |_, _, _| {});
            self.found.steps += 1;
            self.come_to(world, spent);
            if self.found.steps.is_multiple_of(TELL_EVERY) {
                self.count();
                tell(&self.found);
            }
        }
        self.count();
    }

    fn count(&mut self) {
        self.found.open = self.path.iter().map(|l| l.choices.len() - l.made).sum();
        self.found.outcomes = self.verdicts.len() as u64;
        (self.found.node_states, self.found.node_steps) = self.scene.memo.met();
    }

    /// Goes on from this state later, if it is new and no end.
    fn come_to(&mut self, world: World, spent: Spent) {
        let memo = &self.scene.memo;
        if !self.seen.insert(hash(&(world.identity(memo), spent))) {
            return;
        }
        self.found.states += 1;
        self.found.longest = self.found.longest.max(self.path.len());
        if world.is_one_group(memo) || world.is_late() {
            return self.end(world);
        }
        let limits = &self.limits;
        let choices = world.choices(
            memo,
            spent.losses < limits.losses,
            spent.crashes < limits.crashes,
            spent.late < limits.late,
        );
        self.path.push(Level { world, spent, choices, made: 0 });
    }

    /// What is still on its way arrives, and then the oracles look at all of it.
    fn end(&mut self, mut world: World) {
        let together = world.is_one_group(&self.scene.memo);
        settle(&mut world, &mut self.scene, &mut |_, _, _| {});
        let outcome = hash(&(world.outcome(&self.scene.memo), together));
        let verdict = match self.verdicts.get(&outcome) {
            Some(verdict) => *verdict,
            None => self.judge(together),
        };
        self.verdicts.insert(outcome, verdict);
        self.found.runs += 1;
        self.found.unknown += u64::from(verdict.unknown);
        self.found.broken += u64::from(!verdict.sound);
    }

    fn judge(&mut self, together: bool) -> Verdict {
        let mut history = self.scene.history.clone();
        let story = self.again(&mut history);
        let c = conditions();
        let mut violations = oracle::tails::check(&history);
        violations.extend(oracle::delivery::check(&history, &c));
        violations.extend(oracle::views::check(&history));
        if !together {
            let text = "the survivors have no view of exactly themselves".to_owned();
            violations.push(Violation::new("B2", text));
        }
        let unknown = oracle::tails::is_unknown(&history);
        let sound = violations.is_empty();
        if !sound && self.found.findings.len() < ENOUGH {
            self.found.findings.push(Finding { violations, story });
        }
        Verdict { sound, unknown }
    }

    /// Goes the way to where the search is again and writes it down.
    fn again(&mut self, history: &mut History) -> Vec<String> {
        let mut world = self.scene.world.clone();
        let mut watch = |at: Time, site: usize, what: Happened| record(history, at, site, &what);
        let mut story = Vec::new();
        for level in &self.path {
            let choice = level.choices[level.made - 1];
            story.push(world.told(choice, &self.scene.memo));
            world.apply(choice, &mut self.scene.memo, &mut watch);
        }
        settle(&mut world, &mut self.scene, &mut watch);
        story
    }
}

/// What is on its way arrives.
fn settle(world: &mut World, scene: &mut Scene, watch: &mut dyn FnMut(Time, usize, Happened)) {
    world.run_until(Duration::from_millis(500), &mut scene.memo, watch, |_, _| false);
}

impl Spent {
    fn after(self, choice: Choice, w: &World) -> Self {
        match choice {
            Choice::Lose(_) => Self { losses: self.losses + 1, ..self },
            Choice::Crash(_) => Self { crashes: self.crashes + 1, ..self },
            Choice::Pass if !w.is_calm() => Self { late: self.late + 1, ..self },
            Choice::Pass | Choice::Deliver(_) | Choice::Hear(_) => self,
        }
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    what.hash(&mut h);
    h.finish()
}

fn conditions() -> Conditions {
    Conditions {
        max_credits: u64::MAX,
        stable_max_bytes: u64::MAX,
        largest_message: 1_000,
        frag_size: 60_000,
        members: 4,
        calm: false,
        loss: 0.0,
        duplication: false,
        flow_control: false,
        ordered: false,
        states: false,
        windows: None,
        bounds: None,
    }
}
