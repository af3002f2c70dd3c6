//! Which addresses members use: IPv6, one version of IP in a group, discovery on a group of its own.

mod common;

use common::{Kind, Member, await_view, cluster, config, message};
use rgroups::core::plan::{ProtocolConfig, StackPlan};
use rgroups::core::protocols::discovery::TcpPingConfig;
use rgroups::{Channel, Config, ConnectError, Diagnose, Message, block_on, interfaces};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

/// Whether this machine has an IPv6 loopback address; says so if it has none.
fn has_ipv6() -> bool {
    let has = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        println!("skipped: this machine has no IPv6 loopback address (::1)");
    }
    has
}

/// Everybody hears one, and one hears another.
fn talk(members: &mut [Member]) {
    block_on(members[0].ch.send(Message::multicast("hello"))).expect("sent");
    for m in &mut *members {
        assert_eq!(message(m).text(), Some("hello"));
    }
    let to = members[0].ch.address();
    block_on(members[1].ch.send(Message::unicast(to, "you"))).expect("sent");
    assert_eq!(message(&mut members[0]).text(), Some("you"));
}

/// An address of this machine from which multicasts of IPv6 reach others; says so if there is none.
/// Loopback alone is not enough on most systems.
fn ipv6_multicaster() -> Option<IpAddr> {
    let addresses = interfaces().into_iter().map(|i| i.ip).filter(IpAddr::is_ipv6);
    let found = addresses.rev().find(|ip| {
        let config = config(Kind::Udp).set("UDP", "bind_addr", &ip.to_string()).expect("valid");
        let (ch, _events) = match block_on(Channel::builder(config).connect("test")) {
            Ok(joined) => joined,
            Err(_) => return false,
        };
        block_on(ch.close()).is_ok()
    });
    if found.is_none() {
        println!("skipped: no interface of this machine has a way for IPv6 multicasts");
    }
    found
}

#[test]
fn members_of_udp_meet_over_ipv6() {
    let Some(ip) = ipv6_multicaster() else { return };
    let config = config(Kind::Udp).set("UDP", "bind_addr", &ip.to_string()).expect("an address");
    let mut members = cluster(&config, 3);
    let inspection = block_on(members[0].ch.inspect()).expect("open");
    assert!(inspection.physical.iter().all(|(_, at)| at.ip() == ip), "{inspection:?}");
    talk(&mut members);
}

#[test]
fn members_of_udp_without_multicast_meet_over_the_loopback_of_ipv6() {
    if !has_ipv6() {
        return;
    }
    let free = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
    let first = free.expect("a free port");
    let mut protocols = StackPlan::udp().protocols;
    for p in &mut protocols {
        if let ProtocolConfig::Ping(_) = p {
            let initial_hosts = [first].into();
            *p = TcpPingConfig { initial_hosts, ..TcpPingConfig::default() }.into();
        }
    }
    let config = Config::from_plan(StackPlan::new(protocols))
        .set("UDP", "ip_mcast", "false")
        .and_then(|c| c.set("UDP", "bind_addr", "::1"))
        .and_then(|c| c.set("UDP", "bind_port", &first.port().to_string()))
        .and_then(|c| c.set("MERGE3", "multicast", "false"))
        .and_then(|c| c.set("NAKACK2", "use_mcast_xmit", "false"))
        .and_then(|c| c.set("TCPPING", "join_wait", "500ms"))
        .expect("valid");
    talk(&mut cluster(&config, 3));
}

#[test]
fn a_member_that_can_multicast_to_nobody_is_told() {
    let own = IpAddr::from(Ipv6Addr::LOCALHOST);
    if !has_ipv6() || ipv6_multicaster() == Some(own) {
        return;
    }
    let config = config(Kind::Udp).set("UDP", "bind_addr", "::1").expect("an address");
    let e = block_on(Channel::builder(config).connect("test")).expect_err("no way out");
    assert!(e.to_string().contains("multicast [ff0e::8:8:8]"), "{e}");
    assert!(e.hint().is_some_and(|h| h.contains("IP multicast is not available")), "{e:?}");
}

#[test]
fn members_of_tcp_meet_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    let free = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
    let first: SocketAddr = free.expect("a free port");
    // The initial host says that loopback means that of IPv6.
    let config = Config::tcp([first])
        .set("TCP", "bind_addr", "LOOPBACK")
        .and_then(|c| c.set("TCP", "bind_port", &first.port().to_string()))
        .expect("valid");
    let mut members = cluster(&config, 3);
    talk(&mut members);
    members.remove(0).ch.kill();
    for m in &mut members {
        await_view(m, |v| v.members().len() == 2);
    }
}

#[test]
fn a_group_does_not_mix_versions_of_ip() {
    let refused = |c: Config| match block_on(Channel::builder(c).connect("test")) {
        Err(e @ ConnectError::Config(_)) => e.to_string(),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("joined"),
    };
    let literal = config(Kind::Udp).set("UDP", "mcast_addr", "ff0e::8:8:8").expect("an address");
    let text = refused(literal);
    assert!(text.contains("UDP.bind_addr=127.0.0.1 and UDP.mcast_addr=ff0e::8:8:8"), "{text}");
    let hosts: Vec<SocketAddr> =
        ["[::1]:7800", "127.0.0.1:7800"].iter().filter_map(|h| h.parse().ok()).collect();
    for (rule, stranger) in [("127.0.0.1", "::1"), ("::1", "127.0.0.1")] {
        let c = Config::tcp(hosts.clone()).set("TCP", "bind_addr", rule).expect("an address");
        let text = refused(c);
        assert!(text.contains(&format!("TCPPING.initial_hosts={stranger}")), "{text}");
    }
}

#[test]
fn an_address_that_the_host_does_not_have_is_answered_with_those_that_it_has() {
    let asked = |rule: &str| {
        let c = config(Kind::Udp).set("UDP", "bind_addr", rule).expect("a rule");
        block_on(Channel::builder(c).connect("test")).expect_err("cannot be bound")
    };
    let literal = asked("203.0.113.7");
    assert_eq!(literal.code(), "RG0201");
    let hint = literal.hint().expect("there is something to try");
    assert!(hint.contains("127.0.0.1") && hint.contains("match-interface:"), "{hint}");
    let rule = asked("custom:com.acme.Finder, match-interface:no-such.*");
    let text = rule.to_string();
    assert_eq!(rule.code(), "RG0201");
    assert!(text.contains("custom:com.acme.Finder: the Java class"), "{text}");
    assert!(text.contains("127.0.0.1"), "{text}");
}

#[test]
fn a_configuration_tells_its_address_and_the_reason() {
    let c = config(Kind::Tcp).set("TCP", "bind_addr", "match-interface:no-such,LOOPBACK");
    let choice = c.expect("a rule").bind_choice().expect("found").expect("TCP has an address");
    assert!(choice.to_string().ends_with("127.0.0.1 (rule 2 of 2: LOOPBACK)"), "{choice}");
    assert_eq!(config(Kind::InProcess).bind_choice().expect("none is needed"), None);
}

/// The stack of TCP whose members find each other by multicast.
fn mping(address: &str) -> Config {
    let port = 30_000 + std::process::id() % 10_000;
    Config::from_plan(StackPlan::tcp_mping())
        .set("TCP", "bind_addr", address)
        .and_then(|c| c.set("TCP", "bind_port", "0"))
        .and_then(|c| c.set("MPING", "mcast_port", &port.to_string()))
        .and_then(|c| c.set("MPING", "ip_ttl", "0"))
        .and_then(|c| c.set("MPING", "join_wait", "500ms"))
        .expect("valid")
}

#[test]
fn members_of_tcp_find_each_other_by_multicast() {
    talk(&mut cluster(&mping("127.0.0.1"), 3));
}

#[test]
fn members_of_tcp_find_each_other_by_multicast_of_ipv6() {
    if let Some(ip) = ipv6_multicaster() {
        talk(&mut cluster(&mping(&ip.to_string()), 2));
    }
}
