//! Who leaves says so on its connections: one that breaks off without a word looks like a crash.

use rgroups::{Channel, Config, block_on};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// JGroups' length that announces the end of a connection.
const GOODBYE: [u8; 4] = [0xff, 0xff, 0xff, 0xfb];

/// What a peer at this port says first: its version (5.5.6) and its address.
fn handshake(port: u16) -> Vec<u8> {
    let version = (5u16 << 11 | 5 << 6 | 6).to_be_bytes();
    let port = port.to_be_bytes();
    [&b"bela"[..], &version, &[0, 7], &[4, 127, 0, 0, 1], &port].concat()
}

#[test]
fn connections_of_a_leaver_end_with_a_goodbye() {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    let port = free().expect("a port").port();
    let config = Config::tcp([])
        .set("TCP", "bind_addr", "127.0.0.1")
        .and_then(|c| c.set("TCP", "bind_port", &port.to_string()))
        .and_then(|c| c.set("TCP", "port_range", "0"))
        .expect("valid");
    let (channel, _events) = block_on(Channel::builder(config).connect("goodbye")).expect("joins");
    let mut peer = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    peer.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    peer.write_all(&handshake(own.local_addr().expect("bound").port())).expect("it reads");
    let known = || {
        let counters = block_on(channel.inspect()).expect("open").counters;
        counters.iter().any(|(l, n, v)| l == "EDGE" && n == "connections_open" && *v == 1)
    };
    while !known() {
        std::thread::sleep(Duration::from_millis(10));
    }
    block_on(channel.close()).expect("leaves");
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).expect("the end");
    assert!(heard.ends_with(&GOODBYE), "{heard:?}");
}
