//! A failing seed made small: which of the events that it drew are needed for the failure. Events are
//! left out, first all of a node, then in ever smaller parts, as long as the same invariant breaks;
//! what is left is a short script that fails as the seed does, and is replayed by the numbers of its
//! lines.

use super::draw::{Action, Configuration};
use super::run::run_configuration;
use super::{Task, node_name};
use crate::network::Link;
use crate::oracle::Violation;
use rgroups_core::Duration;
use std::collections::BTreeSet;
use std::time::Instant;

/// Which part of a drawn configuration is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these of its events, by their places in the schedule; `None`: all.
    pub only: Option<Vec<usize>>,
    /// Links lose, duplicate and reorder nothing, and clocks are right.
    pub quiet: bool,
}

impl Selection {
    /// It as options of `sim replay`.
    #[must_use]
    pub fn options(&self) -> String {
        let only = self.only.iter().map(|only| {
            let places: Vec<String> = only.iter().map(usize::to_string).collect();
            format!(" --only {}", places.join(","))
        });
        let quiet = if self.quiet { " --quiet" } else { "" };
        only.collect::<String>() + quiet
    }
}

/// A failing seed, made small.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is needed.
    pub selection: Selection,
    /// How many events the seed drew.
    pub drawn: usize,
    /// What is needed as lines of a script.
    pub script: Vec<String>,
    /// What breaks.
    pub violations: Vec<Violation>,
    /// Runs that it took.
    pub runs: u64,
    /// Leaving out any single event makes the failure go away; otherwise the time was over before
    /// that was tried.
    pub minimal: bool,
}

impl Configuration {
    /// The selected part of it.
    #[must_use]
    pub fn selected(&self, s: &Selection) -> Configuration {
        let mut c = self.clone();
        if let Some(only) = &s.only {
            c.schedule = only.iter().filter_map(|i| self.schedule.get(*i).cloned()).collect();
        }
        if s.quiet {
            c.link = Link { loss: 0.0, duplication: 0.0, reordering: 0.0, ..c.link };
            c.drift.fill(0);
        }
        c
    }

    /// Its events as lines of a script, with the moment of each.
    #[must_use]
    pub fn script(&self) -> Vec<String> {
        let line =
            |(at, action): &(Duration, Action)| format!("{:>10.6}s  {action}", at.as_secs_f64());
        self.schedule.iter().map(line).collect()
    }
}

/// Makes a seed small that breaks an invariant, in about `within`. `None` if it breaks none. `told` is
/// told how many events are left, each time there are fewer.
pub fn shrink(
    seed: u64,
    task: &Task,
    within: std::time::Duration,
    told: &mut dyn FnMut(usize),
) -> Option<Shrunk> {
    crate::panics::silence();
    let drawn = Configuration::draw(seed, task);
    let violations = run_configuration(&drawn, false).0.violations;
    let invariant = violations.first()?.invariant;
    let all: Vec<usize> = (0..drawn.schedule.len()).collect();
    let mut shrinking = Shrinking {
        best: Selection { only: Some(all), quiet: false },
        violations,
        drawn: &drawn,
        invariant,
        until: Instant::now() + within,
        runs: 1,
        told,
    };
    let quiet = Selection { quiet: true, ..shrinking.best.clone() };
    shrinking.attempt(quiet);
    for node in (0..task.members).map(node_name) {
        shrinking.without(|a| a.node() == Some(&node));
    }
    shrinking.without(|a| matches!(a, Action::Send(..)));
    shrinking.without(|a| matches!(a, Action::Call(..)));
    shrinking.without(|a| matches!(a, Action::Fetch(..) | Action::Provide(..)));
    let minimal = shrinking.leave_parts_out();
    let Shrinking { best, violations, runs, .. } = shrinking;
    let script = drawn.selected(&best).script();
    let drawn = drawn.schedule.len();
    Some(Shrunk { selection: best, drawn, script, violations, runs, minimal })
}

struct Shrinking<'a> {
    drawn: &'a Configuration,
    invariant: &'static str,
    best: Selection,
    violations: Vec<Violation>,
    until: Instant,
    runs: u64,
    told: &'a mut dyn FnMut(usize),
}

impl Shrinking<'_> {
    fn kept(&self) -> &[usize] {
        self.best.only.as_deref().unwrap_or_default()
    }

    fn time_is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether the invariant breaks with this selection too; then it is the best one.
    fn attempt(&mut self, selection: Selection) -> bool {
        if self.time_is_over() {
            return false;
        }
        self.runs += 1;
        let found = run_configuration(&self.drawn.selected(&selection), false).0.violations;
        let fails = found.iter().any(|v| v.invariant == self.invariant);
        if fails {
            self.best = selection;
            self.violations = found;
            let left = self.kept().len();
            (self.told)(left);
        }
        fails
    }

    fn only(&mut self, only: Vec<usize>) -> bool {
        let quiet = self.best.quiet;
        self.attempt(Selection { only: Some(only), quiet })
    }

    /// Tries to leave out all events of a kind.
    fn without(&mut self, kind: impl Fn(&Action) -> bool) {
        let schedule = &self.drawn.schedule;
        let rest: Vec<usize> =
            self.kept().iter().copied().filter(|i| !kind(&schedule[*i].1)).collect();
        if rest.len() < self.kept().len() {
            self.only(rest);
        }
    }

    /// Leaves out halves, quarters and so on. Whether it came to an end.
    fn leave_parts_out(&mut self) -> bool {
        let mut size = self.kept().len().div_ceil(2);
        loop {
            let mut shrunk = false;
            let mut from = 0;
            while from < self.kept().len() {
                let part: BTreeSet<usize> =
                    self.kept().iter().copied().skip(from).take(size).collect();
                let rest = self.kept().iter().copied().filter(|i| !part.contains(i)).collect();
                // What followed the part has moved to its place.
                match self.only(rest) {
                    true => shrunk = true,
                    false => from += size,
                }
                if self.time_is_over() {
                    return false;
                }
            }
            match size {
                0 | 1 if !shrunk => return true,
                0 | 1 => {}
                _ => size = size.div_ceil(2),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::Profile;

    #[test]
    fn a_sound_seed_cannot_be_made_small() {
        let task = Task::new(Profile::Lan, 3);
        let within = std::time::Duration::from_secs(1);
        assert!(shrink(1, &task, within, &mut |_| {}).is_none());
    }

    #[test]
    fn a_selection_has_the_chosen_events_and_no_others() {
        let c = Configuration::draw(5, &Task::new(Profile::Lossy, 3));
        let s = Selection { only: Some(vec![0, 3]), quiet: true };
        let part = c.selected(&s);
        assert_eq!(part.schedule.len(), 2);
        assert_eq!(part.script(), [c.script()[0].clone(), c.script()[3].clone()]);
        assert_eq!((part.link.loss, part.drift), (0.0, vec![0, 0, 0]));
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn a_failing_seed_becomes_a_short_script_that_fails_alike() {
        let mutant = Some("merge-digest-too-high".into());
        let task = Task { mutant, ..Task::new(Profile::Partition, 5) };
        let within = std::time::Duration::from_secs(60);
        let small = shrink(1, &task, within, &mut |_| {}).expect("it fails");
        assert!(small.script.len() < small.drawn / 4, "{:?}", small.script);
        let part = Configuration::draw(1, &task).selected(&small.selection);
        let again = run_configuration(&part, false).0.violations;
        assert_eq!(again, small.violations);
    }
}
