//! Rows of multicasts, where nothing is to be seen but their numbers: the next ones of a sender of which
//! nothing is missing. Everything else takes the path of single messages.

use super::{Phase, ReliableMulticast};
use crate::{Cx, Row, RowFlow, Trace};

impl ReliableMulticast {
    /// Gives a row its numbers and keeps it.
    pub(super) fn number_row(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        if self.acks.is_some() || self.repair.is_shut() {
            return RowFlow::Apart;
        }
        let id = self.settings.id;
        let first = self.own.window.append_row(id, &row.payloads);
        row.numbers = Some((id, first));
        self.counters.sent += row.len() as u64;
        for i in 0..row.len() as i64 {
            cx.trace(|| Trace::Multicast { seqno: first.wrapping_add(i) });
        }
        self.own.sent(&self.settings, cx);
        self.watch_own_window(cx);
        RowFlow::Pass
    }

    /// A row of another member, or our own copies.
    pub(super) fn receive_row(&mut self, row: &Row, cx: &mut Cx<'_>) -> RowFlow {
        let Some((id, first, last)) = row.span() else { return RowFlow::Apart };
        let plain = id == self.settings.id && self.acks.is_none();
        if !plain || matches!(self.phase, Phase::Joining(_)) {
            return RowFlow::Apart;
        }
        if row.src == cx.local() {
            let done = self.own.window.mark_row_delivered(first, last);
            return if done { RowFlow::Pass } else { RowFlow::Apart };
        }
        #[cfg(feature = "mutants")]
        if cx.mutant(crate::mutants::Mutant::NotHeldBackForView) {
            return RowFlow::Apart;
        }
        match self.senders.get_mut(&row.src) {
            Some(sender) if !self.repair.is_shut() && sender.window.expects(first) => {
                sender.window.take_row(row.src, id, first, &row.payloads, &mut self.parking);
                self.counters.received += row.len() as u64;
                if sender.window.evicted() > 0 && !sender.evicting {
                    sender.evicting = true;
                    cx.trace(|| Trace::KeptNoLonger { of: row.src });
                    cx.tell(crate::AppEvent::KeptNoLonger { of: row.src });
                }
                RowFlow::Pass
            }
            Some(_) | None => RowFlow::Apart,
        }
    }
}
