//! Ready plans: JGroups 5.5.6's udp.xml and tcp.xml (DECISIONS 4), the same with windows in place of
//! credits (udp-new.xml, tcp-new.xml), and all members in one process. Values that the files do not
//! state are the protocols' defaults. RSVP is on top of all of them, as it says nothing unless it is
//! used.

use super::{ProtocolConfig, StackPlan};
use crate::attributes::ByteSize;
use crate::protocols::barrier::BarrierConfig;
use crate::protocols::discovery::{LocalPingConfig, MpingConfig, PingConfig, TcpPingConfig};
use crate::protocols::failure::{FdAll3Config, FdSock2Config, VerifySuspect2Config};
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::protocols::frag::Frag2Config;
use crate::protocols::gms::GmsConfig;
use crate::protocols::merge3::Merge3Config;
use crate::protocols::reliable::{Nakack2Config, Nakack4Config, Unicast3Config, Unicast4Config};
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

    /// As [`StackPlan::udp`], with NAKACK4 and UNICAST4, whose windows stand in for STABLE and flow
    /// control: JGroups' udp-new.xml.
    #[must_use]
    pub fn udp_new() -> Self {
        let new = Values::UDP_NEW;
        let discovery = PingConfig { join_wait: new.join_timeout, ..PingConfig::default() };
        new.over(UdpConfig::default(), discovery)
    }

    /// Streams, members found by asking `initial_hosts`: JGroups' tcp.xml.
    #[must_use]
    pub fn tcp(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        Values::TCP.over_tcp(initial_hosts)
    }

    /// As [`StackPlan::tcp`], with NAKACK4 and UNICAST4, whose windows stand in for STABLE and flow
    /// control: JGroups' tcp-new.xml.
    #[must_use]
    pub fn tcp_new(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        Values::TCP_NEW.over_tcp(initial_hosts)
    }

    /// Streams, members found by multicast: as [`StackPlan::tcp`], with MPING for discovery.
    #[must_use]
    pub fn tcp_mping() -> Self {
        let join_wait = Values::TCP.join_timeout;
        let discovery = MpingConfig { join_wait, ..MpingConfig::default() };
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

/// In what the files differ above discovery (WIRE §36).
struct Values {
    /// Whether one packet reaches members of other views too (MERGE3), and everybody that misses
    /// the same message (NAKACK2).
    multicast: bool,
    /// GMS.join_timeout, which is also how long discovery waits.
    join_timeout: Duration,
    /// FD_ALL3.interval.
    heartbeat: Duration,
    /// NAKACK2.xmit_interval, or NAKACK4's.
    multicast_xmit_interval: Duration,
    bound: Bound,
}

/// What bounds the messages on their way.
enum Bound {
    /// MFC.max_credits and UFC.max_credits, in bytes; STABLE empties the windows.
    Credits(u64),
    /// NAKACK4.capacity, in messages; UNICAST4 has its default.
    Windows(u32),
}

impl Values {
    const UDP: Values = Values {
        multicast: true,
        join_timeout: ms(1_000),
        heartbeat: ms(8_000),
        multicast_xmit_interval: ms(500),
        bound: Bound::Credits(4_000_000),
    };

    const TCP: Values = Values {
        multicast: false,
        join_timeout: ms(2_000),
        heartbeat: ms(5_000),
        multicast_xmit_interval: ms(1_000),
        bound: Bound::Credits(2_000_000),
    };

    const UDP_NEW: Values = Values { bound: Bound::Windows(6_000), ..Self::UDP };

    const TCP_NEW: Values =
        Values { join_timeout: ms(1_000), bound: Bound::Windows(8_192), ..Self::TCP };

    /// STABLE.max_bytes, in bytes.
    const STABLE_BYTES: u64 = 4_000_000;
    /// GMS.max_held_bytes where there are no credits, in bytes.
    const HELD_BYTES: u64 = 4_000_000;

    fn over(
        &self,
        transport: impl Into<ProtocolConfig>,
        discovery: impl Into<ProtocolConfig>,
    ) -> StackPlan {
        let mut protocols: Vec<ProtocolConfig> = [transport.into(), discovery.into()].into();
        protocols.extend(self.detection());
        match self.bound {
            Bound::Credits(max) => {
                protocols.extend(self.kept_until_stable(max));
                protocols.push(self.membership(max));
                protocols.extend(Self::credits(max));
            }
            Bound::Windows(capacity) => {
                protocols.extend(self.kept_until_acknowledged(capacity));
                protocols.push(self.membership(Self::HELD_BYTES));
            }
        }
        protocols.push(Frag2Config { frag_size: ByteSize(60_000) }.into());
        protocols.push(RsvpConfig::default().into());
        protocols.push(StateTransferConfig::default().into());
        StackPlan::new(protocols)
    }

    fn over_tcp(&self, initial_hosts: impl IntoIterator<Item = SocketAddr>) -> StackPlan {
        let discovery = TcpPingConfig {
            initial_hosts: initial_hosts.into_iter().collect(),
            join_wait: self.join_timeout,
            ..TcpPingConfig::default()
        };
        self.over(TcpConfig::default(), discovery)
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

    fn kept_until_stable(&self, max_credits: u64) -> [ProtocolConfig; 3] {
        [
            Nakack2Config {
                xmit_interval: self.multicast_xmit_interval,
                use_mcast_xmit: self.multicast,
                retain_limit: ByteSize(2 * Self::STABLE_BYTES + max_credits),
                ..Nakack2Config::default()
            }
            .into(),
            Unicast3Config { xmit_interval: ms(500), ..Unicast3Config::default() }.into(),
            StableConfig {
                desired_avg_gossip: ms(50_000),
                max_bytes: ByteSize(Self::STABLE_BYTES),
            }
            .into(),
        ]
    }

    fn kept_until_acknowledged(&self, capacity: u32) -> [ProtocolConfig; 2] {
        [
            Nakack4Config {
                capacity,
                xmit_interval: self.multicast_xmit_interval,
                use_mcast_xmit: self.multicast,
                ..Nakack4Config::default()
            }
            .into(),
            Unicast4Config::default().into(),
        ]
    }

    fn membership(&self, max_held_bytes: u64) -> ProtocolConfig {
        GmsConfig {
            join_timeout: self.join_timeout,
            max_held_bytes: ByteSize(max_held_bytes),
            ..GmsConfig::default()
        }
        .into()
    }

    fn credits(max_credits: u64) -> [ProtocolConfig; 2] {
        let (max_credits, min_threshold) = (ByteSize(max_credits), Some(0.4));
        [
            MfcConfig { max_credits, min_threshold, ..MfcConfig::default() }.into(),
            UfcConfig { max_credits, min_threshold, ..UfcConfig::default() }.into(),
        ]
    }
}
