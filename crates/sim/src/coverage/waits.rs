//! How waits end: every one has several ends, and each should be seen.

use crate::cluster::StateEnded;
use crate::history::{History, MessageId, What};
use rgroups_core::app::{StateEnd, SyncEnd};
use rgroups_core::{SendRefusal, SendResult};
use std::collections::{BTreeMap, BTreeSet};

/// A wait and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// A send waited for credit and got it.
    CreditCame,
    /// It did not get it in time.
    CreditDeadline,
    /// The receiver left meanwhile.
    CreditReceiverLeft,
    /// The member left meanwhile.
    CreditClosed,
    /// A send was acknowledged by all.
    SyncComplete,
    /// Its time was over.
    SyncTimedOut,
    /// One of its receivers left, and it was complete then.
    SyncReceiverLeft,
    /// The member left meanwhile.
    SyncClosed,
    /// A process joined.
    JoinView,
    /// It did not.
    JoinFailed,
    /// A leaving member was let go.
    LeaveConfirmed,
    /// It went without.
    LeaveTimedOut,
    /// A state was given.
    StateGiven,
    /// Nobody has one.
    StateNobody,
    /// All who were asked did not give it.
    StateNoProvider,
    /// Its time was over.
    StateTimedOut,
    /// Tails were repaired before a view.
    TailRepaired,
    /// They could not be.
    TailUnknown,
    /// A merge ended with its view.
    MergeInstalled,
    /// It was given up.
    MergeCancelled,
    /// A suspicion was confirmed.
    SuspicionVerified,
    /// It was withdrawn.
    SuspicionWithdrawn,
}

impl Wait {
    /// All of them.
    pub const ALL: [Wait; 22] = [
        Wait::CreditCame,
        Wait::CreditDeadline,
        Wait::CreditReceiverLeft,
        Wait::CreditClosed,
        Wait::SyncComplete,
        Wait::SyncTimedOut,
        Wait::SyncReceiverLeft,
        Wait::SyncClosed,
        Wait::JoinView,
        Wait::JoinFailed,
        Wait::LeaveConfirmed,
        Wait::LeaveTimedOut,
        Wait::StateGiven,
        Wait::StateNobody,
        Wait::StateNoProvider,
        Wait::StateTimedOut,
        Wait::TailRepaired,
        Wait::TailUnknown,
        Wait::MergeInstalled,
        Wait::MergeCancelled,
        Wait::SuspicionVerified,
        Wait::SuspicionWithdrawn,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Wait::CreditCame => "credit: came",
            Wait::CreditDeadline => "credit: deadline",
            Wait::CreditReceiverLeft => "credit: receiver left",
            Wait::CreditClosed => "credit: closed",
            Wait::SyncComplete => "synchronous send: complete",
            Wait::SyncTimedOut => "synchronous send: timed out",
            Wait::SyncReceiverLeft => "synchronous send: receiver left",
            Wait::SyncClosed => "synchronous send: closed",
            Wait::JoinView => "join: view",
            Wait::JoinFailed => "join: failed",
            Wait::LeaveConfirmed => "leave: confirmed",
            Wait::LeaveTimedOut => "leave: timed out",
            Wait::StateGiven => "state: given",
            Wait::StateNobody => "state: nobody has one",
            Wait::StateNoProvider => "state: no provider",
            Wait::StateTimedOut => "state: timed out",
            Wait::TailRepaired => "tail repair: done",
            Wait::TailUnknown => "tail repair: unknown",
            Wait::MergeInstalled => "merge: installed",
            Wait::MergeCancelled => "merge: cancelled",
            Wait::SuspicionVerified => "suspicion: verified",
            Wait::SuspicionWithdrawn => "suspicion: withdrawn",
        }
    }
}

/// Counts the ends of waits in a run.
pub(super) fn count(h: &History, counts: &mut BTreeMap<Wait, u64>) {
    let mut blocked: BTreeSet<MessageId> = BTreeSet::new();
    let mut joined = BTreeSet::new();
    for f in &h.facts {
        let wait = match &f.what {
            What::Blocked(Some(m), _) => {
                blocked.insert(*m);
                None
            }
            What::Resolved(m, how) => end_of_send(how, blocked.contains(m)),
            What::View(_) => joined.insert(f.life).then_some(Wait::JoinView),
            What::ConnectFailed(_) => Some(Wait::JoinFailed),
            What::Left { confirmed: true } => Some(Wait::LeaveConfirmed),
            What::Left { confirmed: false } => Some(Wait::LeaveTimedOut),
            What::StateFetched(_, end) => end_of_state(end),
            What::Trace(t) => end_in_trace(t),
            _ => None,
        };
        if let Some(wait) = wait {
            *counts.entry(wait).or_default() += 1;
        }
    }
}

fn end_of_send(how: &SendResult, waited: bool) -> Option<Wait> {
    match how {
        SendResult::Synced(o) => Some(match o.end {
            SyncEnd::Complete if o.left.is_empty() => Wait::SyncComplete,
            SyncEnd::Complete => Wait::SyncReceiverLeft,
            SyncEnd::TimedOut | SyncEnd::Abandoned => Wait::SyncTimedOut,
            SyncEnd::Closed => Wait::SyncClosed,
        }),
        _ if !waited => None,
        SendResult::Sent => Some(Wait::CreditCame),
        SendResult::Refused(SendRefusal::NotSent { .. }) => Some(Wait::CreditDeadline),
        SendResult::Refused(SendRefusal::NotMember(_)) => Some(Wait::CreditReceiverLeft),
        SendResult::Refused(SendRefusal::Closed) => Some(Wait::CreditClosed),
        _ => None,
    }
}

fn end_of_state(end: &StateEnded) -> Option<Wait> {
    match end {
        StateEnded::Given(..) => Some(Wait::StateGiven),
        StateEnded::Nobody => Some(Wait::StateNobody),
        StateEnded::Failed(f) => match f.end {
            StateEnd::NoProvider => Some(Wait::StateNoProvider),
            StateEnd::TimedOut { .. } => Some(Wait::StateTimedOut),
            _ => None,
        },
    }
}

fn end_in_trace(t: &rgroups_core::Trace) -> Option<Wait> {
    use rgroups_core::Trace;
    match t {
        Trace::TailRepair { step: "repaired", .. } => Some(Wait::TailRepaired),
        Trace::TailUnknown { .. } => Some(Wait::TailUnknown),
        Trace::Merge { step: "installed" } => Some(Wait::MergeInstalled),
        Trace::Merge { step: "cancelled" } => Some(Wait::MergeCancelled),
        Trace::Suspected { .. } => Some(Wait::SuspicionVerified),
        Trace::Unsuspected { .. } => Some(Wait::SuspicionWithdrawn),
        _ => None,
    }
}
