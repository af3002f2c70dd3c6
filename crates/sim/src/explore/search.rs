//! Depth first, on several threads that share what they have seen and what is left to do.

use super::Limits;
use super::situation::Situation;
use super::world::{Choice, World};
use crate::oracle::{self, Conditions, Violation};
use rgroups_core::Duration;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, PoisonError};

/// A run that broke a promise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which.
    pub violations: Vec<Violation>,
    /// The run.
    pub choices: Vec<Choice>,
}

/// What exploration came to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Different states.
    pub states: u64,
    /// Runs from the beginning to an end that no other run had come to.
    pub runs: u64,
    /// Of these, in how many somebody did not know whether all have the same.
    pub unknown: u64,
    /// Choices that were carried out, those of repeated beginnings included.
    pub steps: u64,
    /// The longest run.
    pub longest: usize,
    /// Nothing was left.
    pub complete: bool,
    /// The first few runs that broke a promise.
    pub findings: Vec<Finding>,
}

/// Findings after which exploration stops.
const ENOUGH: usize = 5;

/// What has gone wrong so far in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Spent {
    losses: u8,
    crashes: u8,
    late: u8,
}

#[derive(Debug, Default)]
struct Shared {
    seen: HashSet<(u64, Spent)>,
    /// Beginnings of runs that are still to be made; the newest first.
    open: Vec<Vec<Choice>>,
    working: usize,
    found: Found,
}

/// Explores everything that can happen in `situation` within `limits`.
#[must_use]
pub fn explore(situation: &Situation, limits: &Limits, threads: usize) -> Found {
    let shared = Mutex::new(Shared { open: vec![Vec::new()], ..Shared::default() });
    let more = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(beginning) = next(&shared, &more, limits) {
                    run(situation, limits, beginning, &shared, &more);
                }
            });
        }
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let complete = shared.open.is_empty();
    Found { states: shared.seen.len() as u64, complete, ..shared.found }
}

/// The next beginning; waits while others may still find some. `None`: that was it.
fn next(shared: &Mutex<Shared>, more: &Condvar, limits: &Limits) -> Option<Vec<Choice>> {
    let mut s = shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let enough = limits.runs.is_some_and(|most| s.found.runs >= most);
        if enough || s.found.findings.len() >= ENOUGH {
            more.notify_all();
            return None;
        }
        if let Some(beginning) = s.open.pop() {
            s.working += 1;
            return Some(beginning);
        }
        if s.working == 0 {
            more.notify_all();
            return None;
        }
        s = more.wait(s).unwrap_or_else(PoisonError::into_inner);
    }
}

/// One run: repeats its beginning, then takes the first new choice each time and leaves the others
/// for later.
fn run(
    situation: &Situation,
    limits: &Limits,
    beginning: Vec<Choice>,
    shared: &Mutex<Shared>,
    more: &Condvar,
) {
    let mut w = situation.set_up();
    let mut spent = Spent::default();
    for choice in &beginning {
        spent = spent.after(*choice, &w);
        w.apply(*choice);
    }
    let mut choices = beginning;
    let over = loop {
        if w.is_one_group() || w.is_late() {
            break true;
        }
        let possible = w.choices(
            spent.losses < limits.losses,
            spent.crashes < limits.crashes,
            spent.late < limits.late,
        );
        let states = possible.iter().map(|c| (*c, (w.state_after(*c), spent.after(*c, &w))));
        let states: Vec<(Choice, (u64, Spent))> = states.collect();
        let mut s = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = states.into_iter().filter(|(_, state)| s.seen.insert(*state)).map(|(c, _)| c);
        let next = new.next();
        let later: Vec<Choice> = new.collect();
        for c in later.into_iter().rev() {
            let mut run = choices.clone();
            run.push(c);
            s.open.push(run);
        }
        drop(s);
        more.notify_all();
        let Some(next) = next else { break false };
        spent = spent.after(next, &w);
        w.apply(next);
        choices.push(next);
    };
    let steps = choices.len();
    let finding = if over { judge(w, choices) } else { (None, false) };
    let mut s = shared.lock().unwrap_or_else(PoisonError::into_inner);
    s.working -= 1;
    s.found.steps += steps as u64;
    s.found.runs += u64::from(over);
    s.found.unknown += u64::from(finding.1);
    s.found.longest = s.found.longest.max(steps);
    s.found.findings.extend(finding.0);
    drop(s);
    more.notify_all();
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

/// What is still on its way arrives, and then the oracles look at all of it. Also whether somebody
/// said that it does not know.
fn judge(mut w: World, choices: Vec<Choice>) -> (Option<Finding>, bool) {
    let together = w.is_one_group();
    w.run_until(Duration::from_millis(500), |_| false);
    let c = conditions();
    let mut violations = oracle::tails::check(&w.history);
    violations.extend(oracle::delivery::check(&w.history, &c));
    violations.extend(oracle::views::check(&w.history, &c));
    if !together {
        let text = "the survivors have no view of exactly themselves".to_owned();
        violations.push(Violation::new("B2", text));
    }
    let unknown = oracle::tails::is_unknown(&w.history);
    ((!violations.is_empty()).then_some(Finding { violations, choices }), unknown)
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
        windows: None,
        bounds: None,
    }
}
