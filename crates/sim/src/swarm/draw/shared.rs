//! What applications do with what they share: counters, states and locks.

use super::{Action, COUNTERS, Draw, FAULTS_FROM, FAULTS_UNTIL, LOCKS};
use crate::cluster::Provision;
use rgroups_core::Duration;
use rgroups_core::protocols::counter::CounterAction;

impl Draw {
    /// Counters are added to, compared and read by everybody, more often while faults begin.
    pub(super) fn counting(&mut self) {
        const USES: u64 = 150;
        for _ in 0..USES {
            let when = self.within(Duration::from_secs(2), FAULTS_UNTIL + Duration::from_secs(4));
            let name = self.someone();
            let counter = *self.rng.pick(&COUNTERS).unwrap_or(&COUNTERS[0]);
            let action = match self.rng.below(10) {
                0..=2 => CounterAction::Get,
                3 => CounterAction::Set(self.rng.between(1_000, 1_000_000) as i64),
                4 => {
                    let update = self.rng.between(1_000, 1_000_000) as i64;
                    let expected = self.rng.below(3) as i64;
                    CounterAction::CompareAndSwap { expected, update }
                }
                // What was added is told from what was not by the sum.
                _ => CounterAction::AddAndGet(self.rng.between(1, 1_000) as i64),
            };
            let within = self.within(Duration::from_millis(50), Duration::from_secs(20));
            self.at(when, Action::Count(name, counter, action, within));
        }
    }

    /// Most nodes begin with a state, members ask for one now and then, and some applications do not
    /// give theirs for a while. How much is in every state that means nothing.
    pub(super) fn states(&mut self) -> usize {
        const FETCHES: usize = 6;
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(20));
        let schedule = core::mem::take(&mut self.schedule);
        for (when, action) in schedule {
            let begins = match &action {
                Action::Start(name) | Action::Restart(name) => Some(name.clone()),
                _ => None,
            };
            self.at(when, action);
            if let Some(name) = begins.filter(|_| self.rng.chance(0.7)) {
                let within = self.within(shortest, longest).min(FAULTS_UNTIL - when);
                self.at(when, Action::Fetch(name, None, within));
            }
        }
        for _ in 0..FETCHES {
            let when = self.within(Duration::from_secs(2), FAULTS_UNTIL);
            // While a state comes no view does, and when all faults are over there must be one.
            let within = self.within(shortest, longest).min(FAULTS_UNTIL - when);
            let name = self.someone();
            let from = self.rng.chance(0.3).then(|| self.someone());
            self.at(when, Action::Fetch(name, from, within));
        }
        if self.rng.chance(0.3) {
            let (name, from) = (self.someone(), self.within(FAULTS_FROM, FAULTS_UNTIL));
            let refuses = self.rng.chance(0.5);
            let how = if refuses { Provision::Refuses } else { Provision::Silent };
            self.at(from, Action::Provide(name.clone(), how));
            self.at(FAULTS_UNTIL, Action::Provide(name, Provision::Gives));
        }
        match self.rng.below(3) {
            0 => 0,
            1 => self.rng.between(1, 20_000) as usize,
            _ => self.rng.between(20_000, 500_000) as usize,
        }
    }

    /// Everybody wants the same few locks, for short and long.
    pub(super) fn locking(&mut self) {
        const USES: u64 = 120;
        for _ in 0..USES {
            let when = self.within(Duration::from_secs(2), FAULTS_UNTIL + Duration::from_secs(4));
            let name = self.someone();
            let lock = *self.rng.pick(&LOCKS).unwrap_or(&LOCKS[0]);
            let within = match self.rng.below(5) {
                0 => Duration::ZERO,
                1 => self.within(Duration::from_millis(1), Duration::from_millis(500)),
                _ => self.within(Duration::from_millis(500), Duration::from_secs(15)),
            };
            let hold = match self.rng.below(5) {
                0 => self.within(Duration::from_secs(1), Duration::from_secs(8)),
                _ => self.within(Duration::ZERO, Duration::from_millis(800)),
            };
            self.at(when, Action::Lock(name, lock, within, hold));
        }
    }
}
