//! What a scenario shows of a run: the facts that a reader cares about, node by node, without
//! times, so that a change of no importance changes nothing here.

use crate::connections::Life;
use crate::history::{Fact, History, What};
use crate::transcript;
use rgroups_core::{SendResult, Trace};
use std::collections::BTreeMap;

/// The significant facts among `facts[from..]`: per node in order of names what happened to it,
/// then how many messages of whom it got.
pub(super) fn report(h: &History, from: usize) -> Vec<String> {
    let mut lives: Vec<Life> = h.all_lives().collect();
    lives.sort_by_key(|l| h.name(*l).to_owned());
    let mut lines = Vec::new();
    for life in lives {
        let facts = || h.facts[from..].iter().filter(|f| f.life == Some(life));
        let name = h.name(life);
        lines.extend(
            facts()
                .filter(|f| is_significant(f))
                .map(|f| format!("{name}: {}", transcript::describe(&f.what, h))),
        );
        let mut delivered: BTreeMap<String, usize> = BTreeMap::new();
        for f in facts() {
            if let What::Delivered { from, .. } = &f.what {
                *delivered.entry(h.name_of(*from)).or_default() += 1;
            }
        }
        lines.extend(delivered.iter().map(|(who, n)| format!("{name}: delivers {n} of {who}")));
    }
    lines
}

fn is_significant(f: &Fact) -> bool {
    match &f.what {
        What::View(_)
        | What::Left { .. }
        | What::ConnectFailed(_)
        | What::Rejoining(_)
        | What::Garbled { .. }
        | What::PurgedTooEarly { .. }
        | What::Panicked(_)
        | What::Livelock
        | What::OversizedPacket(_)
        | What::SentAgain(_)
        | What::CallEnded(..)
        | What::Used(..)
        | What::LockLost(..)
        | What::StateRequested(_)
        | What::StateFetched(..) => true,
        What::Resolved(_, how) => !matches!(how, SendResult::Sent),
        What::Trace(t) => matches!(
            t,
            Trace::Suspected { .. } | Trace::Unsuspected { .. } | Trace::TailUnknown { .. }
        ),
        What::Started
        | What::Calls(_)
        | What::Uses(_)
        | What::FetchesState(..)
        | What::StateTaken(_)
        | What::GivesBack(_)
        | What::CarriedOut(..)
        | What::AnswersCall(..)
        | What::Died { .. }
        | What::LeaveAsked
        | What::Frozen(_)
        | What::Slowed(_)
        | What::Consumes(_)
        | What::Sent(_)
        | What::Blocked(..)
        | What::Delivered { .. }
        | What::Network(_)
        | What::Split(_)
        | What::Credits(..)
        | What::Windows(_)
        | What::Unread(_)
        | What::Taken(_)
        | What::Unserved(_)
        | What::Assembling(_)
        | What::Handles { .. }
        | What::RequestsPending(_)
        | What::TokensOutstanding(_)
        | What::Phase(_) => false,
    }
}
