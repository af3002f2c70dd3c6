//! Members that messages wait for: they are reminded of what they may miss, and those that give no
//! credit at all may be excluded (`slow_member="exclude"`).
//!
//! A slow member gives credit now and then, however little, and each time its time begins anew. One
//! that gave none for the whole time is as good as gone for those who send to it, although it may
//! answer every question of failure detection: the coordinator is asked to go on without it.

use super::control::FlowControl;
use super::{FlowSettings, SlowMember};
use crate::{Cx, Dir, Event, Evidence, Time, TimerKey, Trace, Uuid};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

/// Who is to be excluded when.
#[derive(Debug)]
pub(super) struct Debtors {
    patience: Duration,
    /// The request is repeated after this: who was coordinator may be gone.
    again: Duration,
    due: BTreeMap<Uuid, Time>,
}

impl Debtors {
    /// Nobody owes credit. `None` if the policy is another one.
    pub(super) fn new(settings: &FlowSettings) -> Option<Self> {
        let (patience, again) = (settings.slow_timeout, settings.max_block_time);
        match settings.slow {
            SlowMember::Exclude => Some(Self { patience, again, due: BTreeMap::new() }),
            SlowMember::Wait | SlowMember::Fail => None,
        }
    }

    /// These are who something waits for now.
    fn update(&mut self, owing: &BTreeSet<Uuid>, now: Time) {
        self.due.retain(|m, _| owing.contains(m));
        for m in owing {
            self.due.entry(*m).or_insert(now + self.patience);
        }
    }

    /// This member gave credit, if it was too little: its time begins anew.
    pub(super) fn gave(&mut self, m: Uuid, now: Time) {
        if let Some(at) = self.due.get_mut(&m) {
            *at = now + self.patience;
        }
    }

    /// These accounts begin anew.
    pub(super) fn keep(&mut self, stays: impl Fn(&Uuid) -> bool) {
        self.due.retain(|m, _| stays(m));
    }

    /// When somebody is to be excluded.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.values().copied().min()
    }

    fn take_due(&mut self, now: Time) -> Vec<Uuid> {
        let mut out = Vec::new();
        for (m, at) in &mut self.due {
            if *at <= now {
                *at = now + self.again;
                out.push(*m);
            }
        }
        out
    }
}

/// Members that were asked for multicast credit are reminded of what they may miss.
pub(super) const REMIND: TimerKey = TimerKey(3);

/// As long as a request must be open to be the proof of a lost grant. The request itself may have
/// been held up by a cut and sent again when it ended; a reminder that went with it was not.
const REMIND_AGAIN: Duration = Duration::from_secs(1);

impl FlowControl {
    pub(super) fn remind(&mut self, owing: Vec<Uuid>, cx: &mut Cx<'_>) {
        cx.raise(Dir::Down, Event::Unacknowledged(owing));
        cx.arm(REMIND, cx.now + REMIND_AGAIN);
    }

    pub(super) fn remind_again(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let asked = |m: &Uuid| self.accounts.get(m).is_some_and(|a| a.out.is_asked());
        let owing: Vec<Uuid> =
            self.blockers(None, local).into_iter().filter(|m| *m != local && asked(m)).collect();
        if !owing.is_empty() {
            self.remind(owing, cx);
        }
    }

    /// Looks at who holds lines up.
    pub(super) fn watch_debtors(&mut self, cx: &Cx<'_>) {
        if self.debtors.is_none() {
            return;
        }
        let local = cx.local();
        let owing: BTreeSet<Uuid> = self.all_blockers(local).filter(|m| *m != local).collect();
        if let Some(d) = &mut self.debtors {
            d.update(&owing, cx.now);
        }
    }

    /// Asks for the exclusion of those whose time is over.
    pub(super) fn exclude_debtors(&mut self, cx: &mut Cx<'_>) {
        self.watch_debtors(cx);
        let due = self.debtors.as_mut().map(|d| d.take_due(cx.now)).unwrap_or_default();
        if due.is_empty() {
            return;
        }
        self.counters.exclusions_asked += due.len() as u64;
        let by = cx.local();
        for member in due.iter().copied() {
            cx.trace(|| Trace::Accused { member, by, why: Evidence::NoCredit });
        }
        cx.raise(Dir::Down, Event::Exclude(due));
    }
}
