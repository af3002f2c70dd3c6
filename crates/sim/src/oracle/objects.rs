//! What uses of shared objects have in common: how long they may last, and when they must succeed.

use super::faults::{Faults, Kind, slowest};
use super::primary;
use crate::connections::Life;
use crate::history::{History, Phase};
use rgroups_core::{Duration, Time};

/// How long uses may last.
pub(super) struct Patience<'a> {
    history: &'a History,
    faults: Faults,
    over: Time,
}

impl<'a> Patience<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let over = history.facts.last().map_or(Time::ZERO, |f| f.at);
        Self { history, faults: Faults::of(history), over }
    }

    /// Whether a use lasted longer than its time, although its process ran. Clocks of nodes run up to a
    /// fiftieth too slowly.
    pub(super) fn is_over(
        &self,
        by: Life,
        begun: Time,
        ended: Option<Time>,
        within: Duration,
    ) -> bool {
        let h = self.history;
        let gone = h.end_of(by).map_or(self.over, |i| h.facts[i].at);
        let ended = ended.unwrap_or(gone);
        let stopped = self.faults.spans().iter().any(|s| {
            s.kind == Kind::Frozen && s.of == Some(by) && s.from <= ended && s.to >= begun
        });
        let allowed = within + within / 40 + Duration::from_millis(10);
        ended.since(begun) > allowed + slowest(h, by) * 2 && !stopped
    }
}

/// Whether a use by a member from one moment to another one must succeed: all is well again, and the
/// member is in the primary view.
pub(super) fn must_succeed(h: &History) -> impl Fn(Life, Time, Time) -> bool {
    let since = h.phase(Phase::Converged).map(|i| h.facts[i].at);
    let trust = primary::trust(h);
    move |by, begun, ended| {
        since.is_some_and(|at| begun >= at) && primary::trusts(&trust, by, begun, ended)
    }
}
