//! The memory that the others may take by protocol, against what the program can spare.

use super::report::accounts;
use crate::Address;
use crate::shared::Shared;
use rgroups_core::node::Node;

/// What the program can spare for what this member holds.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    exceeded: bool,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, exceeded: false }
    }

    /// Warns if the credit that others have here became more than the budget.
    pub(super) fn check(&mut self, shared: &Shared, node: &Node) {
        let others = accounts(node).filter(|a| Address(a.peer) != shared.local);
        let owed: u64 = others.map(|a| a.max).sum();
        let exceeds = owed > self.bytes;
        if exceeds && !self.exceeded {
            let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
            tracing::warn!(
                cluster,
                member,
                code = "RG0414",
                "the other members may have {owed} bytes waiting here, the memory budget is {}: \
                 lower max_credits of MFC and UFC everywhere, or raise the budget",
                self.bytes
            );
        }
        self.exceeded = exceeds;
    }
}
