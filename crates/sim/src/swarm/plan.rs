//! The stacks that swarms run: the default ones with small buffers and short waits, so that a run of
//! a minute sees everything a day of the real thing would.

use crate::cluster::transport_addresses;
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng};

/// How nodes reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams with IP multicast.
    Udp,
    /// Connections.
    Tcp,
    /// A hub in one process.
    InProcess,
}

/// Sizes and times that a configuration draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Transport.
    pub transport: Transport,
    /// `max_credits` of MFC and UFC.
    pub max_credits: u64,
    /// `STABLE.max_bytes`.
    pub stable_max_bytes: u64,
    /// `FRAG2.frag_size`.
    pub frag_size: u64,
}

/// MERGE3's longest interval in swarms.
pub(super) const MERGE_INTERVAL: Duration = Duration::from_secs(6);
/// FD_ALL3's timeout in swarms.
pub(super) const FAILURE_TIMEOUT: Duration = Duration::from_secs(8);
/// STABLE's average interval in swarms.
pub(super) const STABLE_INTERVAL: Duration = Duration::from_secs(5);

impl Tuning {
    /// Draws one.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let transport = match rng.below(10) {
            0..=4 => Transport::Udp,
            5..=8 => Transport::Tcp,
            _ => Transport::InProcess,
        };
        let max_credits = *rng.pick(&[20_000, 50_000, 50_000, 200_000]).unwrap_or(&50_000);
        let frag_size = *rng.pick(&[1_000, 4_000, 8_000, 60_000]).unwrap_or(&8_000);
        Self { transport, max_credits, stable_max_bytes: max_credits, frag_size }
    }

    /// The stack with these values.
    #[must_use]
    pub fn plan(&self, nodes: usize) -> StackPlan {
        let base = match self.transport {
            Transport::Udp => StackPlan::udp(),
            Transport::Tcp => StackPlan::tcp(transport_addresses(nodes)),
            Transport::InProcess => StackPlan::in_process(),
        };
        let credits = self.max_credits.to_string();
        base.with("MFC", "max_credits", &credits)
            .with("UFC", "max_credits", &credits)
            .with("FRAG2", "frag_size", &self.frag_size.to_string())
            .with("STABLE", "max_bytes", &self.stable_max_bytes.to_string())
            .with("STABLE", "desired_avg_gossip", &millis(STABLE_INTERVAL))
            .with("MERGE3", "min_interval", "2000")
            .with("MERGE3", "max_interval", &millis(MERGE_INTERVAL))
            .with("FD_ALL3", "interval", "2000")
            .with("FD_ALL3", "timeout", &millis(FAILURE_TIMEOUT))
    }
}

fn millis(d: Duration) -> String {
    d.as_millis().to_string()
}
