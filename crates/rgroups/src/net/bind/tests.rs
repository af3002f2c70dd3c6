use super::*;

/// A host with two cards.
fn host() -> Vec<NetInterface> {
    let at = |name: &str, index, ip: &str| NetInterface {
        name: name.into(),
        index,
        ip: ip.parse().expect("an address"),
    };
    [
        at("lo", 1, "127.0.0.1"),
        at("eth0", 2, "192.168.5.7"),
        at("eth1", 3, "203.0.113.7"),
        at("lo", 1, "::1"),
        at("eth0", 2, "fd00::7"),
        at("eth1", 3, "2001:db8::7"),
        at("eth0", 2, "fe80::7"),
    ]
    .into()
}

fn choose(rules: &str, version: Option<IpVersion>) -> Result<BindChoice, NoBindAddress> {
    choose_among(rules, BindOrigin::Attribute, version, &host())
}

fn ip(rules: &str) -> String {
    choose(rules, None).map_or_else(|e| format!("{:?}", e.reasons), |c| c.ip.to_string())
}

fn ip6(rules: &str) -> String {
    choose(rules, Some(IpVersion::V6)).map_or_else(|_| "none".into(), |c| c.ip.to_string())
}

#[test]
fn scopes_are_those_of_jgroups() {
    assert_eq!(ip("LOOPBACK"), "127.0.0.1");
    assert_eq!(ip("site_local"), "192.168.5.7");
    assert_eq!(ip("GLOBAL"), "203.0.113.7");
    assert_eq!(ip("NON_LOOPBACK"), "192.168.5.7");
    assert_eq!(ip("LINK_LOCAL"), "fe80::7");
    assert_eq!(ip6("LOOPBACK"), "::1");
    assert_eq!(ip6("SITE_LOCAL"), "fd00::7");
    assert_eq!(ip6("GLOBAL"), "2001:db8::7");
}

#[test]
fn patterns_match_whole_names() {
    assert_eq!(ip("match-interface:eth1"), "203.0.113.7");
    assert_eq!(ip("match-interface:eth.*"), "192.168.5.7");
    assert_eq!(ip("match-interface:eth"), "[]");
    assert_eq!(ip("match-address:203\\..*"), "203.0.113.7");
    assert_eq!(ip6("match-interface:eth0"), "fd00::7");
    assert_eq!(ip("match-address:fe80.*"), "fe80::7");
}

#[test]
fn names_of_interfaces_and_hosts_are_known() {
    assert_eq!(ip("eth1"), "203.0.113.7");
    assert_eq!(ip("localhost"), "127.0.0.1");
    assert!(ip("no-such-name.invalid").contains("no interface and no host has this name"));
}

#[test]
fn a_host_name_is_looked_up_for_every_address() {
    let name = dns_lookup::lookup_addr(&IpAddr::from([127, 0, 0, 1]));
    let name = name.unwrap_or_else(|_| "127.0.0.1".into());
    let pattern = format!("match-host:{}", regex_lite::escape(&name));
    assert_eq!(ip(&pattern), "127.0.0.1");
}

#[test]
fn a_literal_is_taken_as_it_is_but_in_a_list_only_if_the_host_has_it() {
    assert_eq!(ip("198.51.100.1"), "198.51.100.1");
    assert_eq!(ip("198.51.100.1,203.0.113.7"), "203.0.113.7");
    assert_eq!(ip("127.0.0.9"), "127.0.0.9");
}

#[test]
fn a_link_local_address_comes_with_its_interface() {
    let c = choose("fe80::7%eth0", None).expect("listed");
    assert_eq!((c.ip.to_string().as_str(), c.scope), ("fe80::7", 2));
    assert_eq!(choose("fe80::7", None).expect("listed").scope, 2);
    assert_eq!(choose("2001:db8::7", None).expect("listed").scope, 0);
    let peer = "[fe80::9%5]:7800".parse().expect("an address");
    assert_eq!(Place::from(&c).reach(peer).to_string(), "[fe80::9%2]:7800");
    let global = "[2001:db8::9]:7800".parse().expect("an address");
    assert_eq!(Place::from(&c).reach(global), global);
}

#[test]
fn the_reason_names_the_rule() {
    let c = choose("match-interface:wlan.*, 10.0.0.1, match-interface:eth0 ,LOOPBACK", None);
    let text = c.expect("the third matches").to_string();
    assert_eq!(text, "eth0 192.168.5.7 (rule 3 of 4: match-interface:eth0)");
}

#[test]
fn what_matches_nothing_says_why_and_what_there_is() {
    let e = choose("custom:com.acme.Finder,match-address:[,match-colour:red,10.0.0.1", None)
        .expect_err("nothing matches");
    let [custom, pattern, unknown, literal] = e.reasons.as_slice() else { panic!("{e:?}") };
    assert!(custom.starts_with("custom:com.acme.Finder: the Java class"), "{custom}");
    assert!(pattern.starts_with("match-address:[: not a pattern"), "{pattern}");
    assert!(unknown.contains("unknown rule \"match-colour\""), "{unknown}");
    assert_eq!(literal, "10.0.0.1: no interface has it");
    assert!(e.found.contains(&"eth0 192.168.5.7".to_owned()), "{e:?}");
}

#[test]
fn this_host_has_a_loopback_address() {
    let c = choose_bind_addr(Some("LOOPBACK"), None).expect("there is one");
    assert!(c.ip.is_loopback() && c.interface.is_some(), "{c:?}");
    assert!(!interfaces().is_empty());
}
