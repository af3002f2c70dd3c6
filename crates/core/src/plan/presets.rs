//! Ready plans: JGroups 5.5.6's udp.xml and tcp.xml (DECISIONS 4) and all members in one process.
//! Values that the two files do not state are the protocols' defaults.

use super::{ProtocolConfig, StackPlan};
use crate::attributes::ByteSize;
use crate::protocols::barrier::BarrierConfig;
use crate::protocols::discovery::{LocalPingConfig, PingConfig, TcpPingConfig};
use crate::protocols::failure::{FdAll3Config, FdSock2Config, VerifySuspect2Config};
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::protocols::frag::Frag2Config;
use crate::protocols::gms::GmsConfig;
use crate::protocols::merge3::Merge3Config;
use crate::protocols::reliable::{Nakack2Config, Unicast3Config};
use crate::protocols::rsvp::RsvpConfig;
use crate::protocols::stable::StableConfig;
use crate::protocols::state::StateTransferConfig;
use crate::protocols::transport::{InProcessConfig, TcpConfig, UdpConfig};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl StackPlan {
    /// Datagrams and IP multicast: JGroups' udp.xml.
    #[must_use]
    pub fn udp() -> Self {
        let discovery = PingConfig { join_wait: Values::UDP.join_timeout, ..PingConfig::default() };
        Values::UDP.over(UdpConfig::default(), discovery)
    }

    /// Streams, members found by asking `initial_hosts`: JGroups' tcp.xml.
    #[must_use]
    pub fn tcp(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        let discovery = TcpPingConfig {
            initial_hosts: initial_hosts.into_iter().collect(),
            join_wait: Values::TCP.join_timeout,
            ..TcpPingConfig::default()
        };
        Values::TCP.over(TcpConfig::default(), discovery)
    }

    /// All members in one process: as [`StackPlan::udp`], on a hub instead of a network, and
    /// without FD_SOCK2, since a hub has no connections that could break.
    #[must_use]
    pub fn in_process() -> Self {
        let join_wait = Values::UDP.join_timeout;
        Values::UDP
            .over(InProcessConfig::default(), LocalPingConfig { join_wait })
            .without("FD_SOCK2")
    }
}

/// In what the two files differ above discovery (WIRE §36).
struct Values {
    /// Whether one packet reaches members of other views too (MERGE3), and everybody that misses
    /// the same message (NAKACK2).
    multicast: bool,
    /// GMS.join_timeout, which is also how long discovery waits.
    join_timeout: Duration,
    /// FD_ALL3.interval.
    heartbeat: Duration,
    /// NAKACK2.xmit_interval.
    multicast_xmit_interval: Duration,
    /// MFC.max_credits and UFC.max_credits, in bytes.
    max_credits: u64,
}

impl Values {
    const UDP: Values = Values {
        multicast: true,
        join_timeout: ms(1_000),
        heartbeat: ms(8_000),
        multicast_xmit_interval: ms(500),
        max_credits: 4_000_000,
    };

    const TCP: Values = Values {
        multicast: false,
        join_timeout: ms(2_000),
        heartbeat: ms(5_000),
        multicast_xmit_interval: ms(1_000),
        max_credits: 2_000_000,
    };

    /// STABLE.max_bytes, in bytes.
    const STABLE_BYTES: u64 = 4_000_000;

    fn over(
        &self,
        transport: impl Into<ProtocolConfig>,
        discovery: impl Into<ProtocolConfig>,
    ) -> StackPlan {
        let mut protocols: Vec<ProtocolConfig> = [transport.into(), discovery.into()].into();
        protocols.extend(self.detection());
        protocols.extend(self.reliability());
        protocols.extend(self.delivery());
        StackPlan::new(protocols)
    }

    fn detection(&self) -> [ProtocolConfig; 5] {
        [
            Merge3Config {
                min_interval: ms(10_000),
                max_interval: ms(30_000),
                multicast: self.multicast,
                ..Merge3Config::default()
            }
            .into(),
            FdSock2Config::default().into(),
            FdAll3Config { interval: self.heartbeat, ..FdAll3Config::default() }.into(),
            VerifySuspect2Config { timeout: ms(1_500), ..VerifySuspect2Config::default() }.into(),
            BarrierConfig::default().into(),
        ]
    }

    fn reliability(&self) -> [ProtocolConfig; 4] {
        [
            Nakack2Config {
                xmit_interval: self.multicast_xmit_interval,
                use_mcast_xmit: self.multicast,
                retain_limit: ByteSize(2 * Self::STABLE_BYTES + self.max_credits),
                ..Nakack2Config::default()
            }
            .into(),
            Unicast3Config { xmit_interval: ms(500), ..Unicast3Config::default() }.into(),
            StableConfig {
                desired_avg_gossip: ms(50_000),
                max_bytes: ByteSize(Self::STABLE_BYTES),
            }
            .into(),
            GmsConfig {
                join_timeout: self.join_timeout,
                max_held_bytes: ByteSize(self.max_credits),
                ..GmsConfig::default()
            }
            .into(),
        ]
    }

    fn delivery(&self) -> [ProtocolConfig; 5] {
        let max_credits = ByteSize(self.max_credits);
        let min_threshold = Some(0.4);
        [
            MfcConfig { max_credits, min_threshold, ..MfcConfig::default() }.into(),
            UfcConfig { max_credits, min_threshold, ..UfcConfig::default() }.into(),
            Frag2Config { frag_size: ByteSize(60_000) }.into(),
            RsvpConfig::default().into(),
            StateTransferConfig::default().into(),
        ]
    }
}
