//! Which changes of the membership came one after the other, and which at once.

use crate::history::{History, What};
use rgroups_core::{Duration, Time, Trace};
use std::collections::BTreeMap;

/// Something that changes who is a member, or who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// A process starts and joins.
    Join,
    /// A member begins to leave.
    Leave,
    /// A process dies.
    Crash,
    /// A member is suspected, after verification.
    Suspect,
    /// A suspicion is withdrawn.
    Unsuspect,
    /// A merge begins.
    MergeStart,
    /// Its view is installed.
    MergeView,
    /// A member's view has another coordinator than the one before.
    Coordinator,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 8] = [
        Change::Join,
        Change::Leave,
        Change::Crash,
        Change::Suspect,
        Change::Unsuspect,
        Change::MergeStart,
        Change::MergeView,
        Change::Coordinator,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Change::Join => "join",
            Change::Leave => "leave",
            Change::Crash => "crash",
            Change::Suspect => "suspect",
            Change::Unsuspect => "unsuspect",
            Change::MergeStart => "merge-start",
            Change::MergeView => "merge-view",
            Change::Coordinator => "new-coordinator",
        }
    }
}

/// How close two changes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// The second one came within ten seconds, but not at once.
    Then,
    /// It came before the first one can have been heard of everywhere: within 20 ms.
    AtOnce,
}

impl Order {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Order::Then => "then",
            Order::AtOnce => "at once with",
        }
    }
}

const AT_ONCE: Duration = Duration::from_millis(20);
const AFTER: Duration = Duration::from_secs(10);

/// Counts pairs of changes: each change with the next one of every kind.
pub(super) fn count(h: &History, counts: &mut BTreeMap<(Change, Change, Order), u64>) {
    let changes = changes(h);
    for (i, (at, first)) in changes.iter().enumerate() {
        let mut seen = [[false; Change::ALL.len()]; 2];
        for (then, second) in changes[i + 1..].iter().take_while(|(t, _)| t.since(*at) <= AFTER) {
            let order = if then.since(*at) <= AT_ONCE { Order::AtOnce } else { Order::Then };
            let cell = &mut seen[order as usize][*second as usize];
            if !std::mem::replace(cell, true) {
                *counts.entry((*first, *second, order)).or_default() += 1;
                if order == Order::AtOnce && first != second {
                    // What comes at once has no order.
                    *counts.entry((*second, *first, order)).or_default() += 1;
                }
            }
        }
    }
}

fn changes(h: &History) -> Vec<(Time, Change)> {
    let mut led_by = BTreeMap::new();
    let mut changes = Vec::new();
    for f in &h.facts {
        let change = match &f.what {
            What::Started => Change::Join,
            What::LeaveAsked => Change::Leave,
            What::Died { .. } => Change::Crash,
            What::Trace(Trace::Suspected { .. }) => Change::Suspect,
            What::Trace(Trace::Unsuspected { .. }) => Change::Unsuspect,
            What::Trace(Trace::Merge { step: "started" }) => Change::MergeStart,
            What::View(v) => {
                let before = led_by.insert(f.life, v.coordinator());
                if before.is_some_and(|b| b != v.coordinator()) {
                    changes.push((f.at, Change::Coordinator));
                }
                match v.is_merge() {
                    true => Change::MergeView,
                    false => continue,
                }
            }
            _ => continue,
        };
        changes.push((f.at, change));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::made::{A, B, C, push_at, trio};

    fn counted(events: &[(u64, What)]) -> BTreeMap<(Change, Change, Order), u64> {
        let mut h = trio();
        h.facts.clear();
        for ((at, what), life) in events.iter().cloned().zip([A, B, C]) {
            push_at(&mut h, Time(at * 1_000_000), Some(life), what);
        }
        let mut counts = BTreeMap::new();
        count(&h, &mut counts);
        counts
    }

    #[test]
    fn two_changes_within_seconds_have_an_order() {
        let crash = What::Died { power_off: false };
        let c = counted(&[(0, What::Started), (500, crash), (60_000, What::LeaveAsked)]);
        assert_eq!(c, [((Change::Join, Change::Crash, Order::Then), 1)].into());
    }

    #[test]
    fn two_changes_at_once_have_none() {
        let c = counted(&[(0, What::Started), (5, What::LeaveAsked)]);
        let both = [(Change::Join, Change::Leave), (Change::Leave, Change::Join)];
        assert_eq!(c, both.map(|(a, b)| ((a, b, Order::AtOnce), 1)).into());
    }
}
