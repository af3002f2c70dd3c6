//! Where simulated hosts are: host number `n` is 10.x.y.z, its transport on port 7800, its failure
//! detector on 7900, as the default stacks have it.

use crate::network::Host;
use rgroups_core::net::ConnId;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const TRANSPORT_PORT: u16 = 7800;
const MONITOR_PORT: u16 = 7900;
const FIRST_EPHEMERAL: u16 = 32_768;

/// The address of a host.
#[must_use]
pub fn ip(host: Host) -> IpAddr {
    let n = host.0 as u32 + 1;
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | (n & 0x00ff_ffff)))
}

/// Where the transport of a node on `host` receives.
#[must_use]
pub fn transport(host: Host) -> SocketAddr {
    SocketAddr::new(ip(host), TRANSPORT_PORT)
}

/// Where the failure detector of a node on `host` listens.
#[must_use]
pub fn monitor(host: Host) -> SocketAddr {
    SocketAddr::new(ip(host), MONITOR_PORT)
}

/// The address that a connection from `host` comes from.
#[must_use]
pub fn ephemeral(host: Host, conn: ConnId) -> SocketAddr {
    SocketAddr::new(ip(host), FIRST_EPHEMERAL + (conn.0 % 28_000) as u16)
}
