//! How long things may take: the bounds that the invariants speak of, from the times of a stack.

use rgroups_core::Duration;

/// Times of the stack and the network of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What a packet takes at most, with all that holds it back.
    pub one_way: Duration,
    /// From the failure of a member to its suspicion, verified: heartbeat interval, timeout of the
    /// detector, verification.
    pub detection: Duration,
    /// At least so long a suspect is asked (VERIFY_SUSPECT2.timeout).
    pub verification: Duration,
    /// The longest pause after which a peer is connected to anew.
    pub reconnection: Duration,
    /// GMS.view_ack_collection_timeout.
    pub view_acks: Duration,
    /// GMS.join_timeout; discovery waits as long.
    pub join: Duration,
    /// MERGE3.max_interval.
    pub merge_interval: Duration,
    /// GMS.merge_timeout.
    pub merge_timeout: Duration,
    /// The interval of retransmission, the longer one of multicasts and unicasts.
    pub retransmission: Duration,
    /// How long multicasts wait for a view that all install together: three times
    /// GMS.view_synchrony_timeout; zero without view synchrony.
    pub view_hold: Duration,
}

impl Bounds {
    /// From a failure to the view without the failed member.
    #[must_use]
    pub fn view_change(&self) -> Duration {
        self.detection + self.view_acks + self.one_way * 4
    }

    /// From the end of all faults to one view.
    #[must_use]
    pub fn merge(&self) -> Duration {
        self.merge_interval * 3 + self.merge_timeout + self.view_change()
    }

    /// From the admission of a message to its delivery.
    #[must_use]
    pub fn delivery(&self, multicast: bool) -> Duration {
        let hold = if multicast { self.view_hold } else { Duration::ZERO };
        self.retransmission * 10 + self.one_way * 4 + hold
    }

    /// From the start of a process to its first view, where a coordinator answers.
    #[must_use]
    pub fn joining(&self) -> Duration {
        self.join + self.one_way * 4
    }
}
