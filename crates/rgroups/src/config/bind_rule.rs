//! Rules for the address to bind to, as text: only their form is checked here; which address they
//! mean is found out when a member binds.

use rgroups_core::attributes::nearest;
use std::net::IpAddr;

/// Words that stand for the first address of a kind.
const KINDS: [&str; 6] =
    ["global", "site_local", "link_local", "non_loopback", "loopback", "localhost"];

/// What a pattern may be matched against.
const PATTERNS: [&str; 3] = ["match-interface:", "match-address:", "match-host:"];

/// Whether every rule of a list has the form of one; else what is expected.
pub(super) fn check(list: &str) -> Result<(), String> {
    let mut rules = list.split(',').map(str::trim).filter(|r| !r.is_empty()).peekable();
    if rules.peek().is_none() {
        return Err("an address or a rule, such as match-interface:eth0".to_owned());
    }
    rules.try_for_each(one)
}

fn one(rule: &str) -> Result<(), String> {
    let lower = rule.to_ascii_lowercase();
    // A literal may have a scope, as in fe80::1%eth0.
    let literal = rule.split('%').next().unwrap_or(rule);
    if literal.parse::<IpAddr>().is_ok() || KINDS.contains(&lower.as_str()) {
        return Ok(());
    }
    if let Some((pattern, rest)) = lower.split_once(':') {
        let pattern = format!("{pattern}:");
        if PATTERNS.contains(&pattern.as_str()) && !rest.is_empty() {
            return Ok(());
        }
        return Err(match nearest(&pattern, PATTERNS.into_iter()) {
            Some(n) if rest.is_empty() => format!("something behind {n}"),
            Some(n) => format!("a rule; did you mean {n}…?"),
            None => format!("an address or a rule ({}…)", PATTERNS.join("…, ")),
        });
    }
    // Names of interfaces and hosts.
    match nearest(&lower, KINDS.into_iter()) {
        Some(n) if !rule.contains('.') => Err(format!("an address or a rule; did you mean {n}?")),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_rules_are_those_of_jgroups() {
        for good in [
            "match-interface:eth2,match-interface:eth0,site_local,loopback",
            "SITE_LOCAL",
            "10.0.0.1",
            "::1",
            "match-address:192.168.*",
            "host.example.org",
            "eth0",
            "fe80::1%eth0",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for wrong in ["", "site-local", "match-interfac:eth0", "match-interface:"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
