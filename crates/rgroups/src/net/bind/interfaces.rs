//! The interfaces of this host and what kind of addresses they have.

use if_addrs::IfOperStatus;
use std::net::IpAddr;

/// One address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetInterface {
    /// Its name.
    pub name: String,
    /// The address.
    pub ip: IpAddr,
    /// The interface's number.
    pub index: u32,
}

/// The addresses of all interfaces that are up, in the order in which rules look at them: IPv4
/// before IPv6, addresses that mean something beyond their link before the others.
#[must_use]
pub fn interfaces() -> Vec<NetInterface> {
    // A host that does not say what it has can still be told a literal address.
    let listed = if_addrs::get_if_addrs().unwrap_or_default();
    let down = |s: &IfOperStatus| match s {
        IfOperStatus::Down | IfOperStatus::NotPresent | IfOperStatus::LowerLayerDown => true,
        IfOperStatus::Up
        | IfOperStatus::Testing
        | IfOperStatus::Unknown
        | IfOperStatus::Dormant => false,
    };
    let mut all: Vec<NetInterface> = listed
        .into_iter()
        .filter(|i| !down(&i.oper_status))
        .map(|i| NetInterface { ip: i.ip(), index: i.index.unwrap_or(0), name: i.name })
        .collect();
    all.sort_by_key(|i| (i.ip.is_ipv6(), Scope::LinkLocal.covers(i.ip)));
    all
}

/// How far an address is meaningful, by JGroups' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Global,
    SiteLocal,
    LinkLocal,
    NonLoopback,
    Loopback,
}

impl Scope {
    /// The scope of this name; case does not matter.
    pub(super) fn named(name: &str) -> Option<Scope> {
        let all = [
            ("GLOBAL", Scope::Global),
            ("SITE_LOCAL", Scope::SiteLocal),
            ("LINK_LOCAL", Scope::LinkLocal),
            ("NON_LOOPBACK", Scope::NonLoopback),
            ("LOOPBACK", Scope::Loopback),
            ("USE_LOCALHOST", Scope::Loopback),
            ("USE-LOCALHOST", Scope::Loopback),
            ("LOCALHOST", Scope::Loopback),
        ];
        all.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, s)| s)
    }

    /// Whether the address is of this scope.
    pub(super) fn covers(self, ip: IpAddr) -> bool {
        match self {
            Scope::Global => {
                ![Scope::Loopback, Scope::LinkLocal, Scope::SiteLocal].iter().any(|s| s.covers(ip))
            }
            Scope::SiteLocal => match ip {
                IpAddr::V4(ip) => ip.is_private(),
                // fec0::/10 as Java means it, and its successor fc00::/7.
                IpAddr::V6(ip) => {
                    let first = ip.segments()[0];
                    first & 0xffc0 == 0xfec0 || first & 0xfe00 == 0xfc00
                }
            },
            Scope::LinkLocal => match ip {
                IpAddr::V4(ip) => ip.is_link_local(),
                IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
            },
            Scope::NonLoopback => !ip.is_loopback(),
            Scope::Loopback => ip.is_loopback(),
        }
    }
}
