//! Closing is a barrier: afterwards no socket of the member exists. Alone in its file, because it
//! counts the descriptors of the process.
#![cfg(target_os = "linux")]

mod common;

use common::{Kind, config, join};
use rgroups::{Channel, Config, block_on};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

fn descriptors() -> usize {
    // A thread that just ended may take a moment to let go of its poll.
    thread::sleep(Duration::from_millis(100));
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

#[test]
fn a_closed_or_failed_member_leaves_no_descriptor() {
    let before = descriptors();
    for kind in [Kind::Udp, Kind::Tcp, Kind::InProcess] {
        let config = config(kind);
        let (a, b) = (join(&config, "A"), join(&config, "B"));
        assert!(descriptors() > before);
        let at = block_on(a.ch.inspect()).expect("open").physical;
        block_on(a.ch.close()).expect("leaves");
        if matches!(kind, Kind::Tcp) {
            let port = at.iter().map(|(_, at)| at.port()).min().expect("two");
            TcpListener::bind(("127.0.0.1", port)).expect("free at once");
        }
        block_on(b.ch.close()).expect("leaves");
    }
    assert_eq!(descriptors(), before);

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let config = Config::tcp([])
        .set("TCP", "bind_addr", "127.0.0.1")
        .and_then(|c| c.set("TCP", "bind_port", &port))
        .and_then(|c| c.set("TCP", "port_range", "0"))
        .expect("valid");
    for _ in 0..10 {
        block_on(Channel::builder(config.clone()).connect("test")).expect_err("the port is taken");
    }
    drop(taken);
    assert_eq!(descriptors(), before);
}
