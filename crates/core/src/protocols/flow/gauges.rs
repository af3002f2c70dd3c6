//! What the layer tells of itself: how much a line takes, how an account stands.

use super::control::{FlowControl, loops_back};
use super::credits::Account;
use super::line::{Class, Line};
use crate::Uuid;
use crate::event::{CreditAccount, Room};
use alloc::vec::Vec;

impl FlowControl {
    pub(super) fn room(&self, dest: Option<Uuid>, class: Class, length: u64, local: Uuid) -> Room {
        let max = self.settings.max_blocked;
        let line = self.lines.get(&dest);
        let credit = self.targets(dest, true, local).map(|(_, a)| a.out.balance()).min();
        let next = line.is_none_or(|l| l.is_open_to(class, length));
        let lacking = self.limiters(dest, true, length, local);
        let stands_still = self.window_full && dest.is_none();
        let immediate = next && lacking.is_empty() && !stands_still;
        Room {
            line_open: line.is_none() || !self.is_full(),
            immediate,
            credit: if next { credit.unwrap_or(u64::MAX) } else { 0 },
            free_bytes: max.saturating_sub(self.waiting_bytes),
            free_messages: self.settings.max_blocked_messages.saturating_sub(self.waiting_messages),
            limited_by: match (immediate, next) {
                (true, _) => Vec::new(),
                (false, true) => lacking,
                (false, false) => self.blockers(dest, local),
            },
        }
    }

    pub(super) fn gauge(&self, peer: Uuid, a: &Account, local: Uuid) -> CreditAccount {
        let dest = self.line_of(peer);
        let waiting = self.lines.get(&dest).into_iter().flat_map(Line::all);
        let waiting = waiting.filter(|w| loops_back(w) || peer != local);
        let heads = self.heads_cost(dest, peer, a, local);
        CreditAccount {
            peer,
            balance: a.out.balance(),
            shown: a.out.balance() as i64 - heads as i64,
            waiting: waiting.map(|w| a.cost(w.length)).sum(),
            unconsumed: a.inc.unconsumed(),
            ungranted: a.inc.ungranted(),
            max: self.settings.terms.max,
            charged: a.out.charged(),
        }
    }
}
