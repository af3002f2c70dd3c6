//! Applications that use objects which all members share.

use super::Cluster;
use crate::history::{Asked, ObjectCall, What};
use rgroups_core::protocols::counter::{CounterAction, CounterCall};
use rgroups_core::{Command, Duration, OpId};

/// Uses of objects are told from everything else that an application asks by their numbers.
const USES: u64 = 1 << 42;

/// Whether `op` is a use of an object.
pub(super) fn is_use(op: OpId) -> bool {
    op.0 >= USES
}

/// Which use of the run `op` is, counted from 0.
#[must_use]
pub fn use_number(op: OpId) -> u64 {
    op.0 - USES
}

impl Cluster {
    /// The application of `name` does something with the counter `counter`; `None` if no such node
    /// runs. The end of it is [`What::Used`].
    pub fn count(
        &mut self,
        name: &str,
        counter: &str,
        action: CounterAction,
        within: Duration,
    ) -> Option<OpId> {
        let life = self.life(name)?;
        let op = OpId(USES + self.uses);
        self.uses += 1;
        let asked = Asked::Counter(action);
        self.record(
            Some(life),
            What::Uses(ObjectCall { op, object: counter.into(), asked, within }),
        );
        let timeout = Some(within);
        let call = CounterCall { op, name: counter.into(), initial: 0, action, timeout };
        self.command(name, Command::Counter(call));
        Some(op)
    }
}
