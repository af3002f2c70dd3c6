//! What a configuration says about the network, as far as the doctor looks at it.

use rgroups::{Config, Setting};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The effective values.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    all: Vec<Setting>,
}

/// How members reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        }
    }
}

impl Settings {
    pub(crate) fn of(config: &Config) -> Self {
        Self { all: config.explain() }
    }

    /// The transport; `None`: members of one process only.
    pub(crate) fn transport(&self) -> Option<Transport> {
        let has = |name: &str| self.all.iter().any(|s| s.protocol == name);
        match (has("UDP"), has("TCP")) {
            (true, _) => Some(Transport::Udp),
            (_, true) => Some(Transport::Tcp),
            (false, false) => None,
        }
    }

    /// Names of the protocols that have settings, bottom first.
    pub(crate) fn protocols(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.all.iter().map(|s| s.protocol.as_str()).collect();
        names.dedup();
        names
    }

    /// The text of a value; `None` if there is no such attribute or it is empty.
    pub(crate) fn text(&self, protocol: &str, attribute: &str) -> Option<&str> {
        let found = self.all.iter().find(|s| s.protocol == protocol && s.attribute == attribute)?;
        Some(found.value.as_str()).filter(|v| !v.is_empty())
    }

    /// A value that can be read as this type.
    pub(crate) fn value<T: FromStr>(&self, protocol: &str, attribute: &str) -> Option<T> {
        self.text(protocol, attribute)?.parse().ok()
    }

    /// The group that members multicast to, for a member with this address; `None` if they do not.
    pub(crate) fn group(&self, own: IpAddr) -> Option<SocketAddr> {
        let default = match own {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(239, 8, 8, 8)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 8, 8, 8)),
        };
        if self.value("UDP", "ip_mcast") == Some(false) {
            return None;
        }
        let port = self.value("UDP", "mcast_port")?;
        Some(SocketAddr::new(self.value("UDP", "mcast_addr").unwrap_or(default), port))
    }

    /// The group on which MPING asks, beside a transport over TCP.
    pub(crate) fn beacon(&self, own: IpAddr) -> Option<SocketAddr> {
        let default = match own {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(232, 5, 6, 7)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 5, 6, 7)),
        };
        let port = self.value("MPING", "mcast_port")?;
        Some(SocketAddr::new(self.value("MPING", "mcast_addr").unwrap_or(default), port))
    }

    /// Where TCPPING looks for members.
    pub(crate) fn initial_hosts(&self) -> Vec<SocketAddr> {
        let hosts = self.text("TCPPING", "initial_hosts").unwrap_or_default();
        let range: u16 = self.value("TCPPING", "port_range").unwrap_or(0);
        let hosts = hosts.split(',').filter_map(|h| h.trim().parse::<SocketAddr>().ok());
        let with_range = |h: SocketAddr| {
            (h.port()..=h.port().saturating_add(range)).map(move |p| SocketAddr::new(h.ip(), p))
        };
        let mut all: Vec<SocketAddr> = hosts.flat_map(with_range).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Everything as lines, for a report.
    pub(crate) fn lines(&self) -> String {
        let line = |s: &Setting| format!("{}.{}={}\n", s.protocol, s.attribute, s.value);
        self.all.iter().map(line).collect()
    }
}
