//! What can be configured of discovery, by JGroups' names.

use crate::attributes;
use crate::bind_addr::BindAddr;
use crate::wire::{PingData, ProtId};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

/// How members are looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum DiscoveryKind {
    /// By a multicast.
    Ping(PingConfig),
    /// By a multicast on a group of its own, beside a transport over streams.
    Mping(MpingConfig),
    /// By asking addresses from a list.
    TcpPing(TcpPingConfig),
    /// By a multicast on the hub.
    InProcess(LocalPingConfig),
}

impl DiscoveryKind {
    /// The protocol's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            DiscoveryKind::Ping(_) => "PING",
            DiscoveryKind::Mping(_) => "MPING",
            DiscoveryKind::TcpPing(_) => "TCPPING",
            DiscoveryKind::InProcess(_) => "SHARED_LOOPBACK_PING",
        }
    }

    /// The id of its header.
    #[must_use]
    pub fn id(&self) -> ProtId {
        match self {
            DiscoveryKind::Ping(_) => ProtId::PING,
            DiscoveryKind::Mping(_) => ProtId::MPING,
            DiscoveryKind::TcpPing(_) => ProtId::TCPPING,
            DiscoveryKind::InProcess(_) => ProtId::SHARED_LOOPBACK_PING,
        }
    }

    /// Where members are looked for, in words.
    pub(super) fn place(&self) -> String {
        const MOST: usize = 6;
        match self {
            DiscoveryKind::Ping(_) | DiscoveryKind::Mping(_) => String::from("by multicast"),
            DiscoveryKind::InProcess(_) => String::from("in this process"),
            DiscoveryKind::TcpPing(c) if c.initial_hosts.is_empty() => {
                String::from("nowhere (TCPPING.initial_hosts is empty)")
            }
            DiscoveryKind::TcpPing(c) => {
                let hosts = c.initial_hosts.iter().take(MOST).map(|host| match c.port_range {
                    0 => format!("{host}"),
                    more => format!("{host}-{}", host.port().saturating_add(more)),
                });
                let mut list: Vec<String> = hosts.collect();
                if c.initial_hosts.len() > MOST {
                    list.push(format!("{} more", c.initial_hosts.len() - MOST));
                }
                format!("at {}", list.join(", "))
            }
        }
    }

    /// What all kinds have.
    pub(super) fn common(&self) -> Common {
        match self {
            DiscoveryKind::Ping(c) => Common {
                join_wait: c.join_wait,
                break_on_coord_rsp: c.break_on_coord_rsp,
                return_entire_cache: c.return_entire_cache,
                max_rank_to_reply: c.max_rank_to_reply,
                max_members: c.max_members_in_discovery_request,
            },
            DiscoveryKind::Mping(c) => Common {
                join_wait: c.join_wait,
                break_on_coord_rsp: c.break_on_coord_rsp,
                return_entire_cache: c.return_entire_cache,
                max_rank_to_reply: c.max_rank_to_reply,
                max_members: c.max_members_in_discovery_request,
            },
            DiscoveryKind::TcpPing(c) => Common {
                join_wait: c.join_wait,
                break_on_coord_rsp: c.break_on_coord_rsp,
                return_entire_cache: c.return_entire_cache,
                max_rank_to_reply: c.max_rank_to_reply,
                max_members: c.max_members_in_discovery_request,
            },
            DiscoveryKind::InProcess(c) => Common {
                join_wait: c.join_wait,
                break_on_coord_rsp: true,
                return_entire_cache: false,
                max_rank_to_reply: 0,
                max_members: 500,
            },
        }
    }
}

/// What all kinds of discovery have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) join_wait: Duration,
    pub(super) break_on_coord_rsp: bool,
    pub(super) return_entire_cache: bool,
    pub(super) max_rank_to_reply: u32,
    pub(super) max_members: u32,
}

impl Common {
    /// How many members one message names: at least one, or those that are looked for would be due
    /// for ever, and no more than receivers read.
    pub(super) fn max_listed(&self) -> usize {
        (self.max_members as usize).clamp(1, PingData::MAX_LISTED)
    }
}

impl From<PingConfig> for DiscoveryKind {
    fn from(c: PingConfig) -> Self {
        DiscoveryKind::Ping(c)
    }
}

impl From<MpingConfig> for DiscoveryKind {
    fn from(c: MpingConfig) -> Self {
        DiscoveryKind::Mping(c)
    }
}

impl From<TcpPingConfig> for DiscoveryKind {
    fn from(c: TcpPingConfig) -> Self {
        DiscoveryKind::TcpPing(c)
    }
}

impl From<LocalPingConfig> for DiscoveryKind {
    fn from(c: LocalPingConfig) -> Self {
        DiscoveryKind::InProcess(c)
    }
}

attributes! {
    /// Discovery by multicast (JGroups `PING`).
    pub struct PingConfig for "PING" {
        /// How long a joiner collects answers, unless a coordinator answers earlier. JGroups takes
        /// `GMS.join_timeout`; presets set both alike. Milliseconds, default 1 s.
        join_wait: Duration = Duration::from_secs(1),
        /// The first answer of a coordinator ends the wait. Default true.
        break_on_coord_rsp: bool = true,
        /// Answer with everybody whose address is known instead of with oneself. Default false.
        return_entire_cache: bool = false,
        /// Only the first so many members of a view answer joiners; 0: all. Default 0.
        max_rank_to_reply: u32 = 0,
        /// At most this many members are named in one request or answer. Default 500.
        max_members_in_discovery_request: u32 = 500,
    }
}

attributes! {
    /// Discovery by multicast beside a transport over streams (JGroups `MPING`): requests go to a
    /// group of their own, answers come by the transport.
    pub struct MpingConfig for "MPING" {
        /// The multicast address of discovery. Default 232.5.6.7, or ff0e::5:6:7 where the member
        /// binds to an IPv6 address.
        mcast_addr: Option<IpAddr> = None,
        /// The port of discovery. Default 7555.
        mcast_port: u16 = 7555,
        /// The local address whose interface sends and receives the requests. Default: the
        /// transport's.
        bind_addr: Option<BindAddr> = None,
        /// How many routers a request may pass. Default 8.
        ip_ttl: u32 = 8,
        /// How long a joiner collects answers, unless a coordinator answers earlier. JGroups takes
        /// `GMS.join_timeout`; set both alike. Milliseconds, default 2 s.
        join_wait: Duration = Duration::from_secs(2),
        /// The first answer of a coordinator ends the wait. Default true.
        break_on_coord_rsp: bool = true,
        /// Answer with everybody whose address is known instead of with oneself. Default false.
        return_entire_cache: bool = false,
        /// Only the first so many members of a view answer joiners; 0: all. Default 0.
        max_rank_to_reply: u32 = 0,
        /// At most this many members are named in one request or answer. Default 500.
        max_members_in_discovery_request: u32 = 500,
    }
}

impl MpingConfig {
    /// The group of requests, for a member that binds to an address of this version.
    #[must_use]
    pub fn group(&self, bind: IpAddr) -> SocketAddr {
        let default = match bind {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(232, 5, 6, 7)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 5, 6, 7)),
        };
        SocketAddr::new(self.mcast_addr.unwrap_or(default), self.mcast_port)
    }
}

attributes! {
    /// Discovery by a list of addresses (JGroups `TCPPING`).
    pub struct TcpPingConfig for "TCPPING" {
        /// Where members may be; each stands for its port and the `port_range` ports above. Default
        /// none: only members that ask us are found.
        initial_hosts: Vec<SocketAddr> = Vec::new(),
        /// How many ports above each of `initial_hosts` are asked too. Default 2, as in JGroups'
        /// tcp.xml.
        port_range: u16 = 2,
        /// How long a joiner collects answers, unless a coordinator answers earlier, or every
        /// address that was asked refuses the connection. JGroups takes `GMS.join_timeout`;
        /// presets set both alike. Milliseconds, default 2 s.
        join_wait: Duration = Duration::from_secs(2),
        /// The first answer of a coordinator ends the wait. Default true.
        break_on_coord_rsp: bool = true,
        /// Answer with everybody whose address is known instead of with oneself. Default false.
        return_entire_cache: bool = false,
        /// Only the first so many members of a view answer joiners; 0: all. Default 0.
        max_rank_to_reply: u32 = 0,
        /// At most this many members are named in one request or answer. Default 500.
        max_members_in_discovery_request: u32 = 500,
        /// How many addresses of members outside `initial_hosts` are remembered and asked too.
        /// Default 2000; the oldest is forgotten first.
        max_dynamic_hosts: u32 = 2000,
        /// The coordinator tells members of a new view where the others are. Default true.
        send_cache_on_join: bool = true,
    }
}

attributes! {
    /// Discovery inside one process (JGroups `SHARED_LOOPBACK_PING`), by asking on the hub.
    pub struct LocalPingConfig for "SHARED_LOOPBACK_PING" {
        /// How long a joiner collects answers, unless a coordinator answers earlier. Milliseconds,
        /// default 1 s.
        join_wait: Duration = Duration::from_secs(1),
    }
}
