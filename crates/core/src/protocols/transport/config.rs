//! What can be configured of the transports, by JGroups' names. What concerns sockets is read by
//! the edge and by drivers; the protocol itself uses the bundler's size and how multicasts travel.

use crate::attributes;
use crate::attributes::ByteSize;
use crate::bind_addr::BindAddr;
use crate::node::TransportKind;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

/// The configuration of one of the transports.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportConfig {
    /// Datagrams.
    Udp(UdpConfig),
    /// Streams.
    Tcp(TcpConfig),
    /// A hub inside one process.
    InProcess(InProcessConfig),
}

impl TransportConfig {
    /// How members reach each other.
    #[must_use]
    pub fn kind(&self) -> TransportKind {
        match self {
            TransportConfig::Udp(_) => TransportKind::Udp,
            TransportConfig::Tcp(_) => TransportKind::Tcp,
            TransportConfig::InProcess(_) => TransportKind::InProcess,
        }
    }

    /// The transport's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            TransportConfig::Udp(_) => "UDP",
            TransportConfig::Tcp(_) => "TCP",
            TransportConfig::InProcess(_) => "SHARED_LOOPBACK",
        }
    }

    /// Frames of several messages stay below this many bytes.
    #[must_use]
    pub fn max_size(&self) -> usize {
        let size = match self {
            TransportConfig::Udp(c) => c.max_size,
            TransportConfig::Tcp(c) => c.max_size,
            TransportConfig::InProcess(c) => c.max_size,
        };
        usize::try_from(size.0).unwrap_or(usize::MAX)
    }

    /// Whether one packet reaches the whole group; otherwise every member gets a copy.
    #[must_use]
    pub fn multicasts(&self) -> bool {
        match self {
            TransportConfig::Udp(c) => c.ip_mcast,
            TransportConfig::Tcp(_) => false,
            TransportConfig::InProcess(_) => true,
        }
    }

    /// The largest packet that can leave at all, in bytes.
    #[must_use]
    pub fn packet_limit(&self) -> Option<usize> {
        match self {
            TransportConfig::Udp(_) => Some(UdpConfig::MAX_DATAGRAM),
            TransportConfig::Tcp(_) | TransportConfig::InProcess(_) => None,
        }
    }
}

impl From<UdpConfig> for TransportConfig {
    fn from(c: UdpConfig) -> Self {
        TransportConfig::Udp(c)
    }
}

impl From<TcpConfig> for TransportConfig {
    fn from(c: TcpConfig) -> Self {
        TransportConfig::Tcp(c)
    }
}

impl From<InProcessConfig> for TransportConfig {
    fn from(c: InProcessConfig) -> Self {
        TransportConfig::InProcess(c)
    }
}

attributes! {
    /// Datagrams with IP multicast (JGroups `UDP`).
    pub struct UdpConfig for "UDP" {
        /// The local address to send from and receive on, or a rule that finds it; it is told to
        /// the others, so it cannot be a wildcard. Default: none, the driver chooses one.
        bind_addr: Option<BindAddr> = None,
        /// The unicast port. Default 0: any free one.
        bind_port: u16 = 0,
        /// How many ports above `bind_port` are tried when it is taken (only with a port other than
        /// 0). Default 10.
        port_range: u16 = 10,
        /// An address to be told to the others instead of the bound one (behind address
        /// translation). Default none.
        external_addr: Option<IpAddr> = None,
        /// The port to be told to the others. Default 0: the bound one.
        external_port: u16 = 0,
        /// The group's multicast address. Default 239.8.8.8, as in JGroups' udp.xml, or
        /// ff0e::8:8:8 where the member binds to an IPv6 address.
        mcast_addr: Option<IpAddr> = None,
        /// The group's port. Default 45588, as in JGroups' udp.xml.
        mcast_port: u16 = 45588,
        /// How many routers a multicast may pass. Default 8.
        ip_ttl: u32 = 8,
        /// Multicasts go to the multicast address; if false, a copy goes to every member. Default
        /// true.
        ip_mcast: bool = true,
        /// Requested receive buffer of the unicast socket, in bytes. The operating system may give
        /// less. Default 5 MB.
        ucast_recv_buf_size: ByteSize = ByteSize(5_000_000),
        /// Requested send buffer of the unicast socket, in bytes. Default 1 MB.
        ucast_send_buf_size: ByteSize = ByteSize(1_000_000),
        /// Requested receive buffer of the multicast socket, in bytes. Default 5 MB.
        mcast_recv_buf_size: ByteSize = ByteSize(5_000_000),
        /// Several messages share a packet as long as it does not grow beyond this many bytes
        /// (JGroups `bundler.max_size`). Default 64000. FRAG2's `frag_size` must be below it.
        max_size: ByteSize = ByteSize(64_000),
    }
}

impl UdpConfig {
    /// The largest payload of a datagram over IPv4, in bytes.
    pub const MAX_DATAGRAM: usize = 65_507;

    /// The group, for a member that binds to an address of this version; `None`: multicasts are
    /// sent as copies.
    #[must_use]
    pub fn group(&self, bind: IpAddr) -> Option<SocketAddr> {
        let default = match bind {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(239, 8, 8, 8)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 8, 8, 8)),
        };
        let addr = self.mcast_addr.unwrap_or(default);
        self.ip_mcast.then(|| SocketAddr::new(addr, self.mcast_port))
    }
}

attributes! {
    /// Streams, one connection per pair of members (JGroups `TCP`).
    pub struct TcpConfig for "TCP" {
        /// The local address to listen on, or a rule that finds it; it is told to the others, so it
        /// cannot be a wildcard. Default: none, the driver chooses one.
        bind_addr: Option<BindAddr> = None,
        /// The port to listen on. Default 7800; 0 is any free one.
        bind_port: u16 = 7800,
        /// How many ports above `bind_port` are tried when it is taken. Default 10.
        port_range: u16 = 10,
        /// An address to be told to the others instead of the bound one (behind address
        /// translation). Default none.
        external_addr: Option<IpAddr> = None,
        /// The port to be told to the others. Default 0: the bound one.
        external_port: u16 = 0,
        /// How long connecting may take. Milliseconds, default 300 ms, as in JGroups' tcp.xml.
        sock_conn_timeout: Duration = Duration::from_millis(300),
        /// How long a peer that connected may take to say who it is. Milliseconds, default 1 s.
        peer_addr_read_timeout: Duration = Duration::from_secs(1),
        /// Send at once instead of waiting for acknowledgements of earlier segments. Default true,
        /// where JGroups has false: frames are filled by our bundler, so that Nagle's algorithm
        /// has nothing to gather and only delays the last frame of a turn, by up to 40 ms
        /// against a peer with delayed acknowledgements.
        tcp_nodelay: bool = true,
        /// Connections that were not used for this long are closed. Milliseconds, default 0: never.
        conn_expire_time: Duration = Duration::ZERO,
        /// Requested receive buffer of a connection, in bytes. Default 0: the system's choice.
        recv_buf_size: ByteSize = ByteSize(0),
        /// Requested send buffer of a connection, in bytes. Default 0: the system's choice.
        send_buf_size: ByteSize = ByteSize(0),
        /// Frames longer than this are refused and their connection closed, in bytes. Default 64
        /// MB; 0 accepts any length, as JGroups does.
        max_length: ByteSize = ByteSize(64_000_000),
        /// At most this many bytes wait for a connection to take them; beyond it the newest are
        /// dropped, and the reliable protocols send them again. Default 32 MB. Not in JGroups, whose
        /// `max_send_queue` counts messages.
        send_queue_bytes: ByteSize = ByteSize(32_000_000),
        /// Several messages share a packet as long as it does not grow beyond this many bytes
        /// (JGroups `bundler.max_size`). Default 64000.
        max_size: ByteSize = ByteSize(64_000),
    }
}

attributes! {
    /// All members in one process, joined by a hub (JGroups `SHARED_LOOPBACK`).
    pub struct InProcessConfig for "SHARED_LOOPBACK" {
        /// Members meet on the hub of this name. Default "default".
        hub: String = String::from("default"),
        /// Several messages share a packet as long as it does not grow beyond this many bytes
        /// (JGroups `bundler.max_size`). Default 64000.
        max_size: ByteSize = ByteSize(64_000),
    }
}
