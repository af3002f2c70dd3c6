//! What a member says on standard error about what it receives.

mod common;
#[path = "decode/forge.rs"]
#[allow(dead_code, reason = "shared with the tests of decode")]
mod forge;

use common::{Net, PATIENCE};
use std::net::{Ipv4Addr, UdpSocket};

/// Multicasts a packet to the members of a network, as often as given.
fn multicast(net: &Net, packet: &[u8], times: usize) {
    let port = net.settings().find_map(|s| s.strip_prefix("-DUDP.mcast_port=")).expect("set");
    let port: u16 = port.parse().expect("a number");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let s = socket2::SockRef::from(&socket);
    s.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("loopback");
    for _ in 0..times {
        socket.send_to(packet, (Ipv4Addr::new(239, 8, 8, 8), port)).expect("sent");
    }
}

#[test]
fn packets_of_another_version_are_one_line_per_peer() {
    let net = Net::udp();
    let mut a = net.start("chat", "A", &[]);
    a.view(PATIENCE, &["A"]);
    let mut packet = forge::multicast("demo", b"text");
    packet[..2].copy_from_slice(&[0x29, 0x00]);
    multicast(&net, &packet, 100);
    // A message to ourselves comes back after them.
    a.write("after");
    a.find(PATIENCE, |v| v["type"] == "message");
    a.close_input();
    let ended = a.end(PATIENCE);
    let lines: Vec<&str> = ended.stderr.lines().filter(|l| l.contains("RG0440")).collect();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    assert!(lines[0].contains("dropped a packet from 127.0.0.1:"), "{lines:?}");
    assert!(lines[0].contains("version 5.4.0, ours is 5.5.6"), "{lines:?}");
    assert!(lines[0].contains("JGRP000010"), "{lines:?}");
}

#[test]
fn a_foreign_cluster_on_the_same_group_is_one_line() {
    let net = Net::udp();
    let mut a = net.start("chat", "A", &[]);
    a.view(PATIENCE, &["A"]);
    multicast(&net, &forge::multicast("other", b"text"), 100);
    a.write("after");
    a.find(PATIENCE, |v| v["type"] == "message");
    a.close_input();
    let ended = a.end(PATIENCE);
    let lines: Vec<&str> = ended.stderr.lines().filter(|l| l.contains("RG0441")).collect();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
}
