//! The stacks that swarms run: those of the presets with small buffers and short waits, so that a run of
//! a minute sees everything a day of the real thing would.

use crate::cluster::transport_addresses;
use crate::oracle::Windows;
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, Rng};
use std::str::FromStr;

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

/// Which of the ready stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// NAKACK2, UNICAST3, STABLE, MFC and UFC.
    #[default]
    Credits,
    /// NAKACK4 and UNICAST4.
    Windows,
}

impl Stack {
    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stack::Credits => "default",
            Stack::Windows => "new",
        }
    }
}

impl FromStr for Stack {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let all = [Stack::Credits, Stack::Windows];
        let found = all.into_iter().find(|k| k.name() == s);
        found.ok_or_else(|| format!("no stack {s:?}; there are default and new"))
    }
}

/// Sizes and times that a configuration draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Transport.
    pub transport: Transport,
    /// `max_credits` of MFC and UFC.
    pub max_credits: u64,
    /// `min_threshold` of MFC and UFC, in percent; `None`: the stack's own.
    pub min_threshold: Option<u64>,
    /// `STABLE.max_bytes`.
    pub stable_max_bytes: u64,
    /// `FRAG2.frag_size`.
    pub frag_size: u64,
    /// The windows, in the stack that has them.
    pub windows: Option<Windows>,
    /// The transport's `max_size`.
    pub max_size: u64,
}

/// The transports' default `max_size`.
const MAX_SIZE: u64 = 64_000;

/// MERGE3's longest interval in swarms.
pub(super) const MERGE_INTERVAL: Duration = Duration::from_secs(6);
/// FD_ALL3's timeout in swarms.
pub(super) const FAILURE_TIMEOUT: Duration = Duration::from_secs(8);
/// FD_ALL3's interval in swarms.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long VERIFY_SUSPECT2 waits for an answer.
pub(super) const VERIFICATION: Duration = Duration::from_secs(1);
/// STABLE's average interval in swarms.
pub(super) const STABLE_INTERVAL: Duration = Duration::from_secs(5);

impl Tuning {
    /// Draws one.
    #[must_use]
    pub fn draw(rng: &mut Rng, stack: Stack) -> Self {
        let transport = match rng.below(10) {
            0..=4 => Transport::Udp,
            5..=8 => Transport::Tcp,
            _ => Transport::InProcess,
        };
        let max_credits = *rng.pick(&[20_000, 50_000, 50_000, 200_000]).unwrap_or(&50_000);
        let frag_size = *rng.pick(&[1_000, 4_000, 8_000, 60_000]).unwrap_or(&8_000);
        let windows = match stack {
            Stack::Credits => None,
            Stack::Windows => Some(Windows {
                messages: *rng.pick(&[8, 30, 100, 1_000]).unwrap_or(&30),
                bytes: max_credits,
            }),
        };
        let (stable_max_bytes, max_size) = (max_credits, MAX_SIZE);
        let min_threshold = None;
        Self {
            transport,
            max_credits,
            min_threshold,
            stable_max_bytes,
            frag_size,
            windows,
            max_size,
        }
    }

    /// The same with any credit, any part of it left when more is granted, and rounds of stability
    /// that have nothing to do with either.
    #[must_use]
    pub fn unusual(self, rng: &mut Rng) -> Self {
        let max_credits = rng.between(4_000, 300_000);
        let stable_max_bytes = rng.between(max_credits / 2, max_credits * 4);
        let frag_size = self.frag_size.min(max_credits / 2);
        let min_threshold = Some(rng.between(1, 95));
        Self { max_credits, stable_max_bytes, frag_size, min_threshold, ..self }
    }

    /// The same with messages cut as finely as it goes, and packets that hold little more than one
    /// part (`true`), or with few cuts and large packets.
    #[must_use]
    pub fn packed(&self, finely: bool) -> Self {
        let (frag_size, max_size) = if finely { (1_000, 1_500) } else { (60_000, MAX_SIZE) };
        Self { frag_size, max_size, ..self.clone() }
    }

    /// The stack with these values.
    #[must_use]
    pub fn plan(&self, nodes: usize) -> StackPlan {
        let base = match &self.windows {
            None => self.with_credits(nodes),
            Some(w) => self.with_windows(nodes, w),
        };
        let transport =
            ["UDP", "TCP", "SHARED_LOOPBACK"].into_iter().find(|t| base.find(t).is_some());
        base.with(transport.unwrap_or("UDP"), "max_size", &self.max_size.to_string())
            .with("FRAG2", "frag_size", &self.frag_size.to_string())
            .with("MERGE3", "min_interval", "2000")
            .with("MERGE3", "max_interval", &millis(MERGE_INTERVAL))
            .with("FD_ALL3", "interval", &millis(HEARTBEAT))
            .with("FD_ALL3", "timeout", &millis(FAILURE_TIMEOUT))
    }

    fn with_credits(&self, nodes: usize) -> StackPlan {
        let base = match self.transport {
            Transport::Udp => StackPlan::udp(),
            Transport::Tcp => StackPlan::tcp(transport_addresses(nodes)),
            Transport::InProcess => StackPlan::in_process(),
        };
        let credits = self.max_credits.to_string();
        let mut base = base;
        for pool in ["MFC", "UFC"] {
            base = base.with(pool, "max_credits", &credits);
            if let Some(percent) = self.min_threshold {
                let share = percent as f64 / 100.0;
                base = base.with(pool, "min_threshold", &share.to_string());
            }
        }
        base.with("STABLE", "max_bytes", &self.stable_max_bytes.to_string()).with(
            "STABLE",
            "desired_avg_gossip",
            &millis(STABLE_INTERVAL),
        )
    }

    fn with_windows(&self, nodes: usize, w: &Windows) -> StackPlan {
        let mut base = match self.transport {
            Transport::Udp | Transport::InProcess => StackPlan::udp_new(),
            Transport::Tcp => StackPlan::tcp_new(transport_addresses(nodes)),
        };
        for protocol in ["NAKACK4", "UNICAST4"] {
            base = base.with(protocol, "capacity", &w.messages.to_string()).with(
                protocol,
                "capacity_bytes",
                &w.bytes.to_string(),
            );
        }
        base
    }
}

fn millis(d: Duration) -> String {
    d.as_millis().to_string()
}
