//! Leaving: what this member has sent is on its way through the sequencer. The request to leave
//! could overtake it, and nobody delivers messages of who has left; so it waits until everything has
//! come back, for a while.

use super::Sequencer;
use crate::{Cx, Dir, Event, TimerKey};
use core::time::Duration;

/// The wait is over.
pub(super) const LEAVE: TimerKey = TimerKey(1);

/// How long at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// The application wants to leave, and messages are on their way.
#[derive(Debug)]
pub(super) struct Leave;

impl Sequencer {
    /// Whether the request waits.
    pub(super) fn leaves_later(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.own.len() == 0 || self.view.is_none() || self.leave.is_some() {
            return false;
        }
        self.leave = Some(Leave);
        cx.arm(LEAVE, cx.now + PATIENCE);
        true
    }

    /// Everything has come back.
    pub(super) fn leave_if_done(&mut self, cx: &mut Cx<'_>) {
        if self.leave.is_some() && self.own.len() == 0 {
            self.leave_now(cx);
        }
    }

    pub(super) fn leave_now(&mut self, cx: &mut Cx<'_>) {
        if self.leave.take().is_some() {
            cx.disarm(LEAVE);
            cx.raise(Dir::Down, Event::Disconnect);
        }
    }
}
