//! The caller drives.

use super::Member;
use crate::Channel;
use crate::channel::Owner;
use std::sync::Arc;
use std::time::Duration;

/// Runs a member on the caller's thread. Dropping it is a crash as far as the others are concerned;
/// to leave, close the channel and pump until [`Pump::pump`] returns false.
#[derive(Debug)]
pub struct Pump {
    member: Member,
    owner: Arc<Owner>,
}

impl Pump {
    pub(crate) fn new(member: Member, owner: Arc<Owner>) -> Self {
        Self { member, owner }
    }

    /// The channel, once it has joined.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        let joined = self.owner.shared.view.borrow().view.is_some();
        joined.then(|| Channel::new(Arc::clone(&self.owner)))
    }

    /// Does one turn: waits at most `timeout` for something to do, then does a bounded amount of
    /// it. Must be called often: heartbeats are sent from here. False when the member has ended.
    pub fn pump(&mut self, timeout: Duration) -> bool {
        self.member.turn(Some(timeout))
    }
}
