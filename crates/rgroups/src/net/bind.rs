//! Which address a member binds to.
//!
//! As JGroups' `bind_addr`: a literal address, `LOOPBACK`, `SITE_LOCAL`, `LINK_LOCAL`, `GLOBAL`,
//! `NON_LOOPBACK`, `match-interface:NAME`, or several of these separated by commas, of which the
//! first that exists is taken. Without any: the first site-local IPv4 address, else loopback. The
//! environment variable `RGROUPS_BIND_ADDR` is asked before that default.

use if_addrs::{IfAddr, Interface};
use std::net::IpAddr;

/// The variable that overrides the default.
pub(crate) const VARIABLE: &str = "RGROUPS_BIND_ADDR";

/// Why no address was found, in words.
#[derive(Debug)]
pub(crate) struct NoAddress {
    pub(crate) asked: String,
    pub(crate) hosts: Vec<String>,
}

/// Finds the address. `asked` is the attribute, if it is set.
pub(crate) fn choose(asked: Option<&str>) -> Result<IpAddr, NoAddress> {
    let from_env = std::env::var(VARIABLE).ok().filter(|v| !v.trim().is_empty());
    let rule = asked.map(str::to_owned).or(from_env);
    // A literal needs no list of interfaces: it may not even be listed (an address of a container).
    let mut interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let rule = rule.unwrap_or_else(|| {
        // The default multicast group is one of IPv4.
        interfaces.retain(|i| i.ip().is_ipv4());
        "SITE_LOCAL,LOOPBACK".to_owned()
    });
    rule.split(',').map(str::trim).find_map(|one| resolve(one, &interfaces)).ok_or_else(|| {
        NoAddress {
            asked: rule.clone(),
            hosts: interfaces.iter().map(|i| format!("{} {}", i.name, i.ip())).collect(),
        }
    })
}

/// The index of the interface that has this address.
pub(crate) fn interface_index(ip: IpAddr) -> Option<u32> {
    let interfaces = if_addrs::get_if_addrs().ok()?;
    interfaces.iter().find(|i| i.ip() == ip)?.index
}

fn resolve(rule: &str, interfaces: &[Interface]) -> Option<IpAddr> {
    if let Ok(ip) = rule.parse() {
        return Some(ip);
    }
    // IPv4 first, as members that mix versions do not hear each other's multicasts.
    let mut up: Vec<&Interface> = interfaces.iter().collect();
    up.sort_by_key(|i| i.ip().is_ipv6());
    let wanted = |i: &&&Interface| match rule.to_ascii_lowercase().as_str() {
        "loopback" | "localhost" => i.is_loopback(),
        "non_loopback" => !i.is_loopback() && !i.is_link_local(),
        "link_local" => i.is_link_local(),
        "site_local" => is_site_local(&i.addr),
        "global" => !i.is_loopback() && !i.is_link_local() && !is_site_local(&i.addr),
        other => other.strip_prefix("match-interface:").is_some_and(|name| i.name == name),
    };
    up.iter().find(wanted).map(|i| i.ip())
}

fn is_site_local(addr: &IfAddr) -> bool {
    match addr {
        IfAddr::V4(a) => a.ip.is_private(),
        // fec0::/10 as Java means it, and its successor fc00::/7.
        IfAddr::V6(a) => {
            let first = a.ip.segments()[0];
            first & 0xffc0 == 0xfec0 || first & 0xfe00 == 0xfc00
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_taken_as_it_is() {
        assert_eq!(choose(Some("127.0.0.1")).ok(), Some(IpAddr::from([127, 0, 0, 1])));
    }

    #[test]
    fn the_first_rule_that_matches_wins() {
        let ip = choose(Some("match-interface:no-such-interface, LOOPBACK")).ok();
        assert!(ip.is_some_and(|ip| ip.is_loopback()));
    }

    #[test]
    fn a_rule_that_matches_nothing_names_what_there_is() {
        let e = choose(Some("match-interface:no-such-interface")).expect_err("matches nothing");
        assert!(e.hosts.iter().any(|h| h.contains("127.0.0.1")), "{e:?}");
    }
}
