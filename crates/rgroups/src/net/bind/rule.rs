//! One rule for an address.

use super::interfaces::{NetInterface, Scope};
use super::{IpVersion, Place};
use regex_lite::Regex;
use std::net::{IpAddr, ToSocketAddrs};

/// What an address must be.
#[derive(Debug)]
pub(super) enum Rule {
    /// Exactly this one; an IPv6 address may name its interface, as in `fe80::1%eth0`.
    Literal(IpAddr, Option<String>),
    /// The first of this scope.
    Scope(Scope),
    /// One of an interface whose name matches.
    Interface(Regex),
    /// One whose host name matches.
    Host(Regex),
    /// One that matches as text.
    Address(Regex),
    /// One of the interface, or of the host, of this name.
    Name(String),
}

/// Why a rule finds nothing, if there is more to say than that nothing matches.
type Nothing = Option<String>;

impl Rule {
    /// Reads a rule.
    pub(super) fn parse(text: &str) -> Result<Rule, Nothing> {
        if let Some(scope) = Scope::named(text) {
            return Ok(Rule::Scope(scope));
        }
        let (ip, zone) = match text.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone.to_owned())),
            None => (text, None),
        };
        if let Ok(ip) = ip.trim_matches(['[', ']']).parse() {
            return Ok(Rule::Literal(ip, zone));
        }
        if let Some(class) = text.strip_prefix("custom:") {
            return Err(Some(format!(
                "the Java class {class} cannot be run here; use one of the other rules"
            )));
        }
        let pattern = |p: &str| {
            // As in JGroups, a pattern matches the whole name.
            Regex::new(&format!("^(?:{p})$")).map_err(|e| Some(format!("not a pattern: {e}")))
        };
        match text.split_once(':') {
            Some(("match-interface", p)) => Ok(Rule::Interface(pattern(p)?)),
            Some(("match-host", p)) => Ok(Rule::Host(pattern(p)?)),
            Some(("match-address", p)) => Ok(Rule::Address(pattern(p)?)),
            Some((other, _)) => Err(Some(format!(
                "unknown rule {other:?}; expected match-interface:, match-host: or match-address:"
            ))),
            None => Ok(Rule::Name(text.to_owned())),
        }
    }

    /// The first address that matches. `alone`: there is no other rule, so that a literal address
    /// is taken as it is; in a list it must be one that this host has.
    pub(super) fn find(
        &self,
        all: &[NetInterface],
        version: Option<IpVersion>,
        alone: bool,
    ) -> Result<Place, Nothing> {
        let wanted = |ip: IpAddr| version.is_none_or(|v| v == IpVersion::of(ip));
        let first = |matches: &dyn Fn(&NetInterface) -> bool| {
            let found = all.iter().filter(|i| wanted(i.ip)).find(|i| matches(i));
            found.map(place).ok_or(None)
        };
        match self {
            Rule::Literal(ip, zone) => {
                let listed = all.iter().find(|i| {
                    i.ip == *ip
                        && zone.as_ref().is_none_or(|z| i.name == *z || i.index.to_string() == *z)
                });
                match listed {
                    Some(i) => Ok(place(i)),
                    None if alone || ip.is_loopback() => Ok((*ip).into()),
                    None => Err(Some("no interface has it".into())),
                }
            }
            Rule::Scope(scope) => first(&|i| scope.covers(i.ip)),
            Rule::Interface(pattern) => first(&|i| pattern.is_match(&i.name)),
            Rule::Address(pattern) => first(&|i| pattern.is_match(&i.ip.to_string())),
            Rule::Host(pattern) => first(&|i| {
                // An address without a name is known by itself, as in Java.
                let name = dns_lookup::lookup_addr(&i.ip).unwrap_or_else(|_| i.ip.to_string());
                pattern.is_match(&name)
            }),
            Rule::Name(name) => first(&|i| i.name == *name).or_else(|_: Nothing| {
                let known = match (name.as_str(), 0).to_socket_addrs() {
                    Ok(list) => list.map(|a| a.ip()).filter(|ip| wanted(*ip)).collect(),
                    Err(_) => Vec::new(),
                };
                let ours = known.iter().find_map(|ip| all.iter().find(|i| i.ip == *ip));
                match (ours, known.first()) {
                    (Some(i), _) => Ok(place(i)),
                    (None, Some(ip)) if alone || ip.is_loopback() => Ok((*ip).into()),
                    (None, Some(ip)) => Err(Some(format!("it is {ip}, which no interface has"))),
                    (None, None) => Err(Some("no interface and no host has this name".into())),
                }
            }),
        }
    }
}

fn place(i: &NetInterface) -> Place {
    Place {
        ip: i.ip,
        scope: if Scope::LinkLocal.covers(i.ip) && i.ip.is_ipv6() { i.index } else { 0 },
    }
}
