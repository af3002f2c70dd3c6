//! Rows of multicasts: charged, and counted, as a whole.

use super::control::FlowControl;
use super::credits::{Account, COST_FLOOR};
use super::whole::RefusedWhole;
use crate::{Cx, Row, RowFlow, row};

impl FlowControl {
    /// A row is charged if there is credit for all of it, and nothing waits.
    pub(super) fn charge_row(&mut self, row: &Row) -> RowFlow {
        if self.accounts.is_empty() {
            return RowFlow::Pass;
        }
        let enters = !self.lines.contains_key(&None) && !self.window_full;
        // The two kinds of accounts there are, summed once.
        let (bare, floored) = (row.cost(0), row.cost(COST_FLOOR));
        let cost = |a: &Account| if a.cost(0) == 0 { bare } else { floored };
        let covers = |a: &Account| a.out.balance() >= cost(a);
        if !enters || !self.accounts.values().all(covers) {
            return RowFlow::Apart;
        }
        // No fragment is in a row.
        self.refused = RefusedWhole::default();
        for a in self.accounts.values_mut() {
            let cost = cost(a);
            a.out.spend(cost);
        }
        RowFlow::Pass
    }

    /// The messages of a row share a receipt.
    pub(super) fn count_row(&mut self, row: &mut Row, cx: &mut Cx<'_>) {
        let Some(account) = self.accounts.get_mut(&row.src) else { return };
        let floor = account.cost(0);
        account.inc.arrived(row.cost(floor));
        row.account = row::Account { pool: self.pool, epoch: account.epoch, floor, ..row.account };
        if cx.group().calls_pending {
            self.overdraw(row.src, cx);
        }
    }
}
