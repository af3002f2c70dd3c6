//! What the host gives: the address, the interface, packet size, buffers, ports.

use super::finding::{Finding, Kind};
use super::settings::{Settings, Transport};
use crate::output::escaped;
use rgroups::{BindChoice, Config, Diagnose, NetInterface, interfaces};
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

/// Finds the address as a member does.
pub(crate) fn bind(
    config: &Config,
    settings: &Settings,
    t: Transport,
) -> (Vec<Finding>, Option<BindChoice>) {
    let choice = match config.bind_choice() {
        Ok(Some(choice)) => choice,
        Ok(None) => return (Vec::new(), None),
        Err(e) => {
            let remedy = e.hint().unwrap_or_else(|| {
                format!("set {}.bind_addr to an address of this host", t.name())
            });
            let text = escaped(&e.to_string());
            return (vec![Finding::new(Kind::Fail, "bind", text).remedy(remedy)], None);
        }
    };
    let mut found = Vec::new();
    // An address can be chosen without being there: a literal is taken as it is.
    match UdpSocket::bind((choice.ip, 0)) {
        Ok(_) => found.push(Finding::new(Kind::Ok, "bind", choice.to_string())),
        Err(e) => {
            let all: Vec<String> =
                interfaces().iter().map(|i| format!("{} {}", i.name, i.ip)).collect();
            let text = format!("cannot bind {choice}: {e}; this host has: {}", all.join(", "));
            let remedy = "set bind_addr to an address of this host";
            found.push(Finding::new(Kind::Fail, "bind", text).remedy(remedy));
            return (found, None);
        }
    }
    found.extend(advertised(settings, t));
    found.extend(others(&choice));
    found.extend(interface(&choice, t));
    (found, Some(choice))
}

fn advertised(settings: &Settings, t: Transport) -> Option<Finding> {
    let external = settings.text(t.name(), "external_addr")?;
    let port = settings.value::<u16>(t.name(), "external_port").filter(|p| *p != 0);
    let port = port.map_or_else(String::new, |p| format!(":{p}"));
    let text = format!("others are told {}{port} instead (external_addr)", escaped(external));
    Some(Finding::new(Kind::Note, "advertise", text))
}

/// Interfaces that are up and not used.
fn others(choice: &BindChoice) -> Option<Finding> {
    let mut names: Vec<String> = interfaces()
        .into_iter()
        .filter(|i: &NetInterface| i.ip != choice.ip && i.ip.is_ipv4() == choice.ip.is_ipv4())
        .filter(|i| Some(&i.name) != choice.interface.as_ref() && !i.ip.is_loopback())
        .map(|i| i.name)
        .collect();
    names.dedup();
    let name = names.first()?;
    let text = if names.len() == 1 {
        format!("1 other interface is up ({name}); a peer there would not be found")
    } else {
        format!(
            "{} other interfaces are up ({}); peers there would not be found",
            names.len(),
            names.join(", ")
        )
    };
    let remedy = format!("if the others are there: -D jgroups.bind_addr=match-interface:{name}");
    Some(Finding::new(Kind::Warn, "bind", text).remedy(remedy))
}

fn interface(choice: &BindChoice, t: Transport) -> Vec<Finding> {
    const UP: u32 = 1;
    const MULTICAST: u32 = 1 << 12;
    let Some(name) = &choice.interface else { return Vec::new() };
    let mut found = Vec::new();
    let flags =
        read(name, "flags").and_then(|f| u32::from_str_radix(f.trim_start_matches("0x"), 16).ok());
    if flags.is_some_and(|f| f & UP == 0) {
        let text = format!("{name} is down");
        found.push(
            Finding::new(Kind::Fail, "interface", text).remedy(format!("ip link set {name} up")),
        );
    }
    // Loopback multicasts without the flag.
    if t == Transport::Udp && !choice.ip.is_loopback() && flags.is_some_and(|f| f & MULTICAST == 0)
    {
        let text = format!("{name} does not multicast");
        let remedy = format!("ip link set {name} multicast on, or use TCP");
        found.push(Finding::new(Kind::Fail, "interface", text).remedy(remedy));
    }
    found
}

fn read(interface: &str, file: &str) -> Option<String> {
    // Names of interfaces have no slashes; an alias such as eth0:1 is of eth0.
    let name = interface.split(':').next()?;
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// Into how many parts a bundle is cut on the way.
pub(crate) fn mtu(settings: &Settings, t: Transport, choice: &BindChoice) -> Option<Finding> {
    let mtu: usize = read(choice.interface.as_ref()?, "mtu")?.parse().ok()?;
    let bundle: usize = settings
        .value(t.name(), "max_size")
        .or_else(|| settings.value(t.name(), "bundler.max_size"))?;
    let headers = if choice.ip.is_ipv4() { 20 } else { 48 };
    let per_fragment = mtu.saturating_sub(headers).max(8) / 8 * 8;
    let fragments = (bundle + 8).div_ceil(per_fragment);
    if t == Transport::Tcp || fragments <= 1 {
        return Some(Finding::new(Kind::Ok, "mtu", format!("{mtu}")));
    }
    let text = format!(
        "{mtu}; bundles of up to {bundle} bytes are cut by IP ({fragments} fragments): fine on a \
         LAN, bad where packets are lost"
    );
    Some(Finding::new(Kind::Ok, "mtu", text))
}

/// What the kernel gives of the buffers that are asked for.
pub(crate) fn buffers(settings: &Settings, t: Transport, ip: IpAddr) -> Vec<Finding> {
    let (kind, wanted): (Type, &[(&str, bool)]) = match t {
        Transport::Udp => (
            Type::DGRAM,
            &[
                ("ucast_recv_buf_size", true),
                ("mcast_recv_buf_size", true),
                ("ucast_send_buf_size", false),
            ],
        ),
        Transport::Tcp => (Type::STREAM, &[("recv_buf_size", true), ("send_buf_size", false)]),
    };
    let mut found = Vec::new();
    let mut fine = Vec::new();
    for (attribute, receive) in wanted {
        let Some(want) = settings.value::<usize>(t.name(), attribute).filter(|n| *n > 0) else {
            continue;
        };
        let Some(got) = granted(ip, kind, want, *receive) else { continue };
        if got >= want {
            fine.push(format!("{attribute} {want}"));
            continue;
        }
        let what = if *receive { "rmem_max" } else { "wmem_max" };
        let text = format!("{attribute}: wanted {want} bytes, the kernel gives {got}");
        found.push(
            Finding::new(Kind::Warn, "buffers", text)
                .remedy(format!("sysctl -w net.core.{what}={want}"))
                .jgrp("JGRP000015"),
        );
    }
    if !fine.is_empty() {
        found.insert(0, Finding::new(Kind::Ok, "buffers", fine.join(", ")));
    }
    found
}

fn granted(ip: IpAddr, kind: Type, want: usize, receive: bool) -> Option<usize> {
    let s = Socket::new(Domain::for_address(SocketAddr::new(ip, 0)), kind, None).ok()?;
    // Linux tells twice of what it gives: the other half is for its own use.
    let told = if receive {
        s.set_recv_buffer_size(want).ok()?;
        s.recv_buffer_size().ok()?
    } else {
        s.set_send_buffer_size(want).ok()?;
        s.send_buffer_size().ok()?
    };
    Some(if cfg!(target_os = "linux") { told / 2 } else { told })
}

/// Which ports are free, and which are taken.
pub(crate) fn ports(
    settings: &Settings,
    t: Transport,
    ip: IpAddr,
) -> (Vec<Finding>, Vec<SocketAddr>) {
    let mut found = Vec::new();
    let mut taken = Vec::new();
    let port: u16 = settings.value(t.name(), "bind_port").unwrap_or(0);
    let range: u16 = settings.value(t.name(), "port_range").unwrap_or(0);
    let offset: u16 = settings.value("FD_SOCK2", "offset").unwrap_or(100);
    let monitor = settings.protocols().contains(&"FD_SOCK2");
    if port == 0 {
        found.push(Finding::new(Kind::Ok, "ports", format!("any free {} port", t.name())));
        return (found, taken);
    }
    let free = |p: u16| match t {
        Transport::Udp => UdpSocket::bind((ip, p)).is_ok(),
        Transport::Tcp => TcpListener::bind((ip, p)).is_ok(),
    };
    let mut first_free = None;
    for p in port..=port.saturating_add(range) {
        match free(p) {
            true => {
                first_free = Some(p);
                break;
            }
            false => taken.push(SocketAddr::new(ip, p)),
        }
    }
    let name = t.name().to_lowercase();
    match first_free {
        Some(p) => found.push(Finding::new(Kind::Ok, "ports", format!("{name} {p} is free"))),
        None => {
            let text = format!("{name} {port} to {} are all taken", port.saturating_add(range));
            let remedy = "end what has them, or set bind_port or port_range";
            found.push(Finding::new(Kind::Fail, "ports", text).remedy(remedy));
        }
    }
    if let (true, Some(p)) = (monitor, first_free) {
        let m = p.wrapping_add(offset);
        let fd_range: u16 = settings.value("FD_SOCK2", "port_range").unwrap_or(3);
        let free = (m..=m.saturating_add(fd_range)).find(|p| TcpListener::bind((ip, *p)).is_ok());
        found.push(match free {
            Some(p) => Finding::new(Kind::Ok, "ports", format!("tcp {p} (FD_SOCK2) is free")),
            None => {
                let text =
                    format!("tcp {m} to {} (FD_SOCK2) are all taken", m.saturating_add(fd_range));
                let remedy = "end what has them, or set FD_SOCK2.offset";
                Finding::new(Kind::Fail, "ports", text).remedy(remedy)
            }
        });
    }
    (found, taken)
}
