//! Who is to be told that a lock is lost.

use rgroups_core::OpId;
use rgroups_core::protocols::lock::LockLoss;
use std::collections::HashMap;
use tokio::sync::watch;

/// By the call that asked for the lock.
#[derive(Debug, Default)]
pub(super) struct Holds {
    waiting: HashMap<OpId, watch::Sender<Option<LockLoss>>>,
    /// Those that nobody listens to are looked for when there are so many.
    look_at: usize,
}

impl Holds {
    pub(super) fn open(&mut self, op: OpId, lose: watch::Sender<Option<LockLoss>>) {
        const FEW: usize = 64;
        self.waiting.insert(op, lose);
        if self.waiting.len() > self.look_at {
            self.waiting.retain(|_, lose| !lose.is_closed());
            self.look_at = FEW + self.waiting.len() * 2;
        }
    }

    pub(super) fn lost(&mut self, hold: OpId, why: LockLoss) {
        if let Some(lose) = self.waiting.remove(&hold) {
            lose.send_replace(Some(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_to_its_holder_and_who_does_not_listen_is_forgotten() {
        let mut holds = Holds::default();
        let (lose, lost) = watch::channel(None);
        holds.open(OpId(0), lose);
        for op in 1..1_000 {
            holds.open(OpId(op), watch::channel(None).0);
        }
        assert!(holds.waiting.len() < 200, "{}", holds.waiting.len());
        holds.lost(OpId(0), LockLoss::Taken);
        assert_eq!(*lost.borrow(), Some(LockLoss::Taken));
    }
}
