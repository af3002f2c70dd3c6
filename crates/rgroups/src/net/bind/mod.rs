//! Which of the host's addresses a member uses (JGroups `bind_addr`).
//!
//! The attribute is a rule, or a list of rules with commas, of which the first that something
//! matches counts: an address, the name of an interface or of a host, one of `GLOBAL`,
//! `SITE_LOCAL`, `LINK_LOCAL`, `NON_LOOPBACK` and `LOOPBACK`, or a pattern (`match-interface:`,
//! `match-host:`, `match-address:`), which must match the whole name. Without the attribute, the
//! environment variable `RGROUPS_BIND_ADDR` is asked, then the default rule.

mod interfaces;
mod rule;

pub use interfaces::{NetInterface, interfaces};

use rule::Rule;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// The variable that is asked where a configuration has no `bind_addr`.
pub const BIND_VARIABLE: &str = "RGROUPS_BIND_ADDR";

/// What is taken without any wish: the first site-local address, else loopback.
pub const DEFAULT_BIND_RULE: &str = "SITE_LOCAL,LOOPBACK";

/// A version of IP. All members of a group use the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// The version of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => IpVersion::V4,
            IpAddr::V6(_) => IpVersion::V6,
        }
    }
}

/// The address that a member binds to, and why it is this one. Shown as
/// `eth0 192.168.5.2 (rule 2 of 4: match-interface:eth.*)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindChoice {
    /// The address.
    pub ip: IpAddr,
    /// The number of the interface that a link-local IPv6 address belongs to, otherwise 0.
    pub scope: u32,
    /// The interface that has the address, if it is listed.
    pub interface: Option<String>,
    /// The rule that found it.
    pub rule: String,
    /// Which of how many rules that was, from 1.
    pub position: (usize, usize),
    /// Where the rules came from.
    pub origin: BindOrigin,
}

/// Where the rules for an address came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindOrigin {
    /// The attribute `bind_addr`.
    Attribute,
    /// The variable [`BIND_VARIABLE`].
    Variable,
    /// Nobody asked for anything: [`DEFAULT_BIND_RULE`].
    Default,
}

impl fmt::Display for BindChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.interface {
            write!(f, "{name} ")?;
        }
        write!(f, "{} (", self.ip)?;
        match self.origin {
            BindOrigin::Attribute => {}
            BindOrigin::Variable => write!(f, "{BIND_VARIABLE}, ")?,
            BindOrigin::Default => write!(f, "default, ")?,
        }
        let (nth, of) = self.position;
        write!(f, "rule {nth} of {of}: {})", self.rule)
    }
}

/// No address matches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoBindAddress {
    /// What was asked for.
    pub asked: String,
    /// Why each rule found nothing, where there is more to say than that nothing matched.
    pub reasons: Vec<String>,
    /// What this host has, as "eth0 192.168.5.7".
    pub found: Vec<String>,
}

/// Finds the address. `asked` is the attribute, if it is set. With `version`, only addresses of
/// that version match; otherwise IPv4 comes first, as members that mix versions do not hear each
/// other.
pub fn choose_bind_addr(
    asked: Option<&str>,
    version: Option<IpVersion>,
) -> Result<BindChoice, NoBindAddress> {
    let from_env = || std::env::var(BIND_VARIABLE).ok().filter(|v| !v.trim().is_empty());
    let (rules, origin) = match (asked, from_env()) {
        (Some(rules), _) => (rules.to_owned(), BindOrigin::Attribute),
        (None, Some(rules)) => (rules, BindOrigin::Variable),
        (None, None) => (DEFAULT_BIND_RULE.to_owned(), BindOrigin::Default),
    };
    // A literal needs no list of interfaces: it may not even be listed.
    let all = interfaces();
    let has_v4 = all.iter().any(|i| i.ip.is_ipv4());
    let version = match origin {
        // The default multicast group is one of IPv4.
        BindOrigin::Default if has_v4 => Some(version.unwrap_or(IpVersion::V4)),
        BindOrigin::Default | BindOrigin::Attribute | BindOrigin::Variable => version,
    };
    choose_among(&rules, origin, version, &all)
}

fn choose_among(
    rules: &str,
    origin: BindOrigin,
    version: Option<IpVersion>,
    all: &[NetInterface],
) -> Result<BindChoice, NoBindAddress> {
    let list: Vec<&str> = rules.split(',').map(str::trim).filter(|r| !r.is_empty()).collect();
    let alone = list.len() == 1;
    let mut reasons = Vec::new();
    for (i, text) in list.iter().enumerate() {
        match Rule::parse(text).and_then(|rule| rule.find(all, version, alone)) {
            Ok(place) => {
                let has = |n: &&NetInterface| n.ip == place.ip;
                return Ok(BindChoice {
                    ip: place.ip,
                    scope: place.scope,
                    interface: all.iter().find(has).map(|n| n.name.clone()),
                    rule: (*text).to_owned(),
                    position: (i + 1, list.len()),
                    origin,
                });
            }
            Err(Some(why)) => reasons.push(format!("{text}: {why}")),
            Err(None) => {}
        }
    }
    Err(NoBindAddress {
        asked: rules.to_owned(),
        reasons,
        found: all.iter().map(|i| format!("{} {}", i.name, i.ip)).collect(),
    })
}

/// An address of this host, without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ip: IpAddr,
    /// The interface's number, where the address alone does not name one.
    pub(crate) scope: u32,
}

impl From<IpAddr> for Place {
    fn from(ip: IpAddr) -> Self {
        Place { ip, scope: 0 }
    }
}

impl From<&BindChoice> for Place {
    fn from(c: &BindChoice) -> Self {
        Place { ip: c.ip, scope: c.scope }
    }
}

impl Place {
    /// With a port.
    pub(crate) fn at(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(_) => SocketAddr::new(self.ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.scope).into(),
        }
    }

    /// Where a datagram or a call to `peer` goes. A peer's link-local address comes with the
    /// number that the interface has on the peer's host; here it means the link that we are on.
    pub(crate) fn reach(self, peer: SocketAddr) -> SocketAddr {
        match peer {
            SocketAddr::V6(p) if needs_scope(p.ip()) && self.scope != 0 => {
                SocketAddrV6::new(*p.ip(), p.port(), p.flowinfo(), self.scope).into()
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => peer,
        }
    }

    /// The number of the interface that has this address, 0 if it is not listed.
    pub(crate) fn interface(self) -> u32 {
        if self.scope != 0 {
            return self.scope;
        }
        interfaces().iter().find(|i| i.ip == self.ip).map_or(0, |i| i.index)
    }
}

/// fe80::/10 and multicast of link scope.
fn needs_scope(ip: &std::net::Ipv6Addr) -> bool {
    let first = ip.segments()[0];
    first & 0xffc0 == 0xfe80 || first & 0xff0f == 0xff02
}

#[cfg(test)]
mod tests;
