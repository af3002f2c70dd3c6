//! Ready plans: JGroups 5.5.6's udp.xml and tcp.xml (DECISIONS 4) and all members in one process.
//! Values that the two files do not state are the protocols' defaults.

use super::{ProtocolConfig, StackPlan};
use crate::protocols::discovery::{LocalPingConfig, PingConfig, TcpPingConfig};
use crate::protocols::transport::{InProcessConfig, TcpConfig, UdpConfig};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

impl StackPlan {
    /// Datagrams and IP multicast: JGroups' udp.xml.
    #[must_use]
    pub fn udp() -> Self {
        let discovery = PingConfig { join_wait: Values::UDP.join_timeout, ..PingConfig::default() };
        Values::over(UdpConfig::default(), discovery)
    }

    /// Streams, members found by asking `initial_hosts`: JGroups' tcp.xml.
    #[must_use]
    pub fn tcp(initial_hosts: impl IntoIterator<Item = SocketAddr>) -> Self {
        let discovery = TcpPingConfig {
            initial_hosts: initial_hosts.into_iter().collect(),
            join_wait: Values::TCP.join_timeout,
            ..TcpPingConfig::default()
        };
        Values::over(TcpConfig::default(), discovery)
    }

    /// All members in one process: as [`StackPlan::udp`], on a hub instead of a network.
    #[must_use]
    pub fn in_process() -> Self {
        let join_wait = Values::UDP.join_timeout;
        Values::over(InProcessConfig::default(), LocalPingConfig { join_wait })
    }
}

/// In what the two files differ above discovery (WIRE §36).
struct Values {
    /// GMS.join_timeout, which is also how long discovery waits.
    join_timeout: Duration,
}

impl Values {
    const UDP: Values = Values { join_timeout: Duration::from_secs(1) };

    const TCP: Values = Values { join_timeout: Duration::from_secs(2) };

    fn over(
        transport: impl Into<ProtocolConfig>,
        discovery: impl Into<ProtocolConfig>,
    ) -> StackPlan {
        let protocols: Vec<ProtocolConfig> = [transport.into(), discovery.into()].into();
        StackPlan::new(protocols)
    }
}
