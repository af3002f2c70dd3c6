//! BARRIER: how long state transfer may wait and hold back.
//!
//! In JGroups this layer keeps messages from the application while a state is being made. Here no
//! layer has to: a member cuts its history at the end of a turn, when no message is on its way
//! through the stack, and the request for the state stands in the application's queue exactly where
//! the cut is. What is left are the two times, which [`StateTransfer`](super::state::StateTransfer)
//! asks for; without BARRIER in the stack it uses the defaults (docs/decisions/013).

use crate::protocol::{Interests, Protocol, Service, Spec};
use crate::{Answer, Group, Query};
use core::time::Duration;

crate::attributes! {
    /// The times of a state transfer (`org.jgroups.protocols.BARRIER`).
    pub struct BarrierConfig for "BARRIER" {
        /// For how long a member that waits for a state holds back what arrives meanwhile. A
        /// transfer that takes longer ends as timed out, whatever its own time. Default 60 s.
        max_close_time: Duration = Duration::from_secs(60),
        /// How long a member that is asked for its state waits until large messages that have
        /// arrived in part are complete. Default 5 s.
        flush_timeout: Duration = Duration::from_secs(5),
    }
}

/// The layer: it only answers.
#[derive(Debug)]
pub struct Barrier {
    config: BarrierConfig,
}

impl Barrier {
    /// With these times.
    #[must_use]
    pub fn new(config: BarrierConfig) -> Self {
        Self { config }
    }
}

impl Protocol for Barrier {
    fn spec(&self) -> Spec {
        Spec {
            name: "BARRIER",
            id: None,
            interests: Interests::default(),
            provides: &[Service::Barrier],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Barrier => Some(Answer::Barrier {
                flush: self.config.flush_timeout,
                longest: self.config.max_close_time,
            }),
            _ => None,
        }
    }
}
