//! Many seeds on several threads. Each seed's simulation is single-threaded and knows nothing of
//! the others.

use super::{Outcome, Stats, Task, run_seed};
use crate::coverage::Coverage;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a range of seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// The failing ones, in order.
    pub failures: Vec<Outcome>,
    /// All their doings together.
    pub total: Stats,
    /// What they went through.
    pub coverage: Coverage,
}

/// Which of several tasks a seed runs.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn task_of(seed: u64, tasks: &[Task]) -> &Task {
    &tasks[usize::try_from(seed % tasks.len() as u64).unwrap_or_default()]
}

/// Runs `seeds` on `threads` threads, the tasks by turns. `progress` is told of every outcome, in no particular order,
/// from whatever thread it came; if it answers `false`, no further seed is begun.
#[must_use]
pub fn run(
    seeds: Range<u64>,
    tasks: &[Task],
    threads: usize,
    progress: &(dyn Fn(&Outcome) -> bool + Sync),
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let outcomes = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run_seed(seed, task_of(seed, tasks));
                    if !progress(&outcome) {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
                }
            });
        }
    });
    let mut summary = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|o| o.seed);
    summary
}

impl Summary {
    fn add(&mut self, mut o: Outcome) {
        self.coverage.add(std::mem::take(&mut o.coverage));
        self.seeds += 1;
        self.total.messages += o.stats.messages;
        self.total.deliveries += o.stats.deliveries;
        self.total.views += o.stats.views;
        self.total.turns += o.stats.turns;
        self.total.time += o.stats.time;
        if !o.violations.is_empty() {
            self.failures.push(o);
        }
    }
}
