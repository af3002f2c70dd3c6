//! Timers of all layers of one stack: keyed, re-armed by replacing, fired in order of deadline and,
//! among equal deadlines, in order of arming.

use crate::Time;
use alloc::collections::BTreeMap;

/// Names a timer within its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(pub u64);

/// All timers of a stack.
#[derive(Debug, Default)]
pub struct Timers {
    due: BTreeMap<(Time, u64), (usize, TimerKey)>,
    armed: BTreeMap<(usize, TimerKey), (Time, u64)>,
    next: u64,
}

impl Timers {
    /// Arms `(layer, key)` for `at`, replacing what it was armed for.
    pub fn arm(&mut self, layer: usize, key: TimerKey, at: Time) {
        self.disarm(layer, key);
        let slot = (at, self.next);
        self.next += 1;
        self.due.insert(slot, (layer, key));
        self.armed.insert((layer, key), slot);
    }

    /// Disarms `(layer, key)`, if armed.
    pub fn disarm(&mut self, layer: usize, key: TimerKey) {
        if let Some(slot) = self.armed.remove(&(layer, key)) {
            self.due.remove(&slot);
        }
    }

    /// Whether `(layer, key)` is armed, and for when.
    #[must_use]
    pub fn armed(&self, layer: usize, key: TimerKey) -> Option<Time> {
        self.armed.get(&(layer, key)).map(|(t, _)| *t)
    }

    /// Takes the first timer due at `now` that `may_fire` allows, armed before `horizon` (see
    /// [`Timers::horizon`]).
    pub fn take_due(
        &mut self,
        now: Time,
        horizon: u64,
        may_fire: impl Fn(usize) -> bool,
    ) -> Option<(usize, TimerKey)> {
        let slot = self
            .due
            .iter()
            .take_while(|((at, _), _)| *at <= now)
            .find(|((_, seq), (layer, _))| *seq < horizon && may_fire(*layer))
            .map(|(slot, _)| *slot)?;
        let id = self.due.remove(&slot)?;
        self.armed.remove(&id);
        Some(id)
    }

    /// A mark: timers armed from now on are not taken by `take_due` with this horizon, so that a
    /// timer which re-arms itself for the past cannot occupy a turn for ever.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        self.next
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.keys().next().map(|(t, _)| *t)
    }

    /// Which timers are armed and for when, in the order in which they fire.
    pub fn in_order(&self) -> impl Iterator<Item = (Time, usize, TimerKey)> + '_ {
        self.due.iter().map(|((at, _), (layer, key))| (*at, *layer, *key))
    }

    /// How many timers are armed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no timer is armed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Disarms everything.
    pub fn clear(&mut self) {
        self.due.clear();
        self.armed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_by_deadline_then_by_order_of_arming() {
        let mut t = Timers::default();
        t.arm(0, TimerKey(1), Time(20));
        t.arm(1, TimerKey(1), Time(10));
        t.arm(0, TimerKey(2), Time(10));
        let h = t.horizon();
        let mut fired = alloc::vec::Vec::new();
        while let Some(f) = t.take_due(Time(20), h, |_| true) {
            fired.push(f);
        }
        assert_eq!(fired, [(1, TimerKey(1)), (0, TimerKey(2)), (0, TimerKey(1))]);
    }

    #[test]
    fn rearming_replaces_and_disarming_removes() {
        let mut t = Timers::default();
        t.arm(0, TimerKey(1), Time(10));
        t.arm(0, TimerKey(1), Time(30));
        assert_eq!(t.next_deadline(), Some(Time(30)));
        t.disarm(0, TimerKey(1));
        assert!(t.is_empty());
    }

    #[test]
    fn a_timer_armed_in_this_turn_waits_for_the_next() {
        let mut t = Timers::default();
        let h = t.horizon();
        t.arm(0, TimerKey(1), Time(0));
        assert_eq!(t.take_due(Time(5), h, |_| true), None);
        assert_eq!(t.take_due(Time(5), t.horizon(), |_| true), Some((0, TimerKey(1))));
    }
}
