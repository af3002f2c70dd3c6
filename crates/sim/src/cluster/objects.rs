//! Applications that use objects which all members share.

use super::{Cluster, Happening};
use crate::connections::Life;
use crate::history::{Asked, ObjectCall, What};
use rgroups_core::protocols::counter::{CounterAction, CounterCall};
use rgroups_core::protocols::lock::{LockCall, LockName, LockWait};
use rgroups_core::{Command, Duration, OpId, SendResult};

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
        let op = self.begin_use(name, counter, Asked::Counter(action), within)?;
        let timeout = Some(within);
        let call = CounterCall { op, name: counter.into(), initial: 0, action, timeout };
        self.command(name, Command::Counter(call));
        Some(op)
    }

    /// The application of `name` acquires `lock`, and gives it back when it has had it for `hold`; `None`
    /// if no such node runs. That it has it, or not, is [`What::Used`].
    pub fn lock(
        &mut self,
        name: &str,
        lock: &str,
        within: Duration,
        hold: Duration,
    ) -> Option<OpId> {
        let op = self.begin_use(name, lock, Asked::Lock { hold }, within)?;
        self.holds.insert(op, hold);
        let name_of_lock = LockName { name: lock.into(), permits: None };
        let wait = if within.is_zero() { LockWait::NotAtAll } else { LockWait::For(within) };
        self.command(name, Command::Lock(LockCall::Acquire { op, name: name_of_lock, wait }));
        Some(op)
    }

    fn begin_use(
        &mut self,
        name: &str,
        object: &str,
        asked: Asked,
        within: Duration,
    ) -> Option<OpId> {
        let life = self.life(name)?;
        let op = OpId(USES + self.uses);
        self.uses += 1;
        let call = ObjectCall { op, object: object.into(), asked, within };
        self.record(Some(life), What::Uses(call));
        Some(op)
    }

    /// A use has ended; what is had is given back later.
    pub(super) fn used(&mut self, life: Life, op: OpId, result: SendResult) {
        let hold = self.holds.remove(&op);
        if let (SendResult::Locked(Ok(_)), Some(hold)) = (&result, hold) {
            let at = self.now + hold;
            self.agenda.plan(at, Happening::GiveBack(life, op));
        }
        self.record(Some(life), What::Used(op, result));
    }

    /// The application has had it for long enough, unless it does not run.
    pub(super) fn give_back(&mut self, life: Life, hold: OpId) {
        let delay = self.settings.turn_delay;
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
        let release = LockCall::Release { op: None, hold };
        process.commands.push_back(Command::Lock(release));
        self.record(Some(life), What::GivesBack(hold));
        self.wake(life, delay);
    }
}
