use super::tcp::ListenPlan;
use super::udp::UdpPlan;
use super::*;
use bytes::Bytes;
use rgroups_core::net::ConnId;
use rgroups_core::node::{Closing, Port};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const LOOPBACK: Place = Place { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), scope: 0 };
const MONITOR: MonitorPlan = MonitorPlan { offset: 100, port_range: 3 };

fn udp(group: Option<SocketAddr>) -> Net {
    let plan = UdpPlan {
        place: LOOPBACK,
        port: 0,
        port_range: 0,
        group,
        ttl: 0,
        ucast_recv_buf: 1 << 20,
        ucast_send_buf: 1 << 20,
        mcast_recv_buf: 1 << 20,
        external: External::default(),
    };
    bind(Endpoint::Udp(plan))
}

fn tcp() -> Net {
    let plan = ListenPlan {
        place: LOOPBACK,
        port: 0,
        port_range: 0,
        recv_buf: 0,
        send_buf: 0,
        nodelay: true,
        external: External::default(),
    };
    bind(Endpoint::Tcp(plan))
}

fn hub(name: &str) -> Net {
    Net::bind(&plan(Endpoint::Hub(name.into()), None)).expect("a place")
}

fn plan(endpoint: Endpoint, monitor: Option<MonitorPlan>) -> NetPlan {
    NetPlan { endpoint, monitor, beacon: None, connect_timeout: Duration::from_millis(300) }
}

fn bind(endpoint: Endpoint) -> Net {
    Net::bind(&plan(endpoint, Some(MONITOR))).expect("loopback can be bound")
}

/// Runs both until `done` or two seconds are over.
fn run(a: &mut Net, b: &mut Net, mut done: impl FnMut(&[RawEvent], &[RawEvent]) -> bool) -> bool {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        for (net, out) in [(&mut *a, &mut of_a), (&mut *b, &mut of_b)] {
            net.wait(Some(Duration::from_millis(1)));
            net.receive(out);
            net.flush();
        }
        if done(&of_a, &of_b) {
            return true;
        }
    }
    false
}

fn datagram(to: Cast, bytes: impl Into<Bytes>) -> RawOp {
    RawOp::Datagram { to, bytes: bytes.into() }
}

fn data(events: &[RawEvent]) -> Vec<Bytes> {
    let bytes = |e: &RawEvent| match e {
        RawEvent::Datagram { bytes, .. } => Some(bytes.clone()),
        _ => None,
    };
    events.iter().filter_map(bytes).collect()
}

#[test]
fn datagrams_of_all_sizes_arrive_whole_and_in_batches() {
    let (mut a, mut b) = (udp(None), udp(None));
    let sizes: Vec<usize> = (0..100).map(|i| 1 + i * 599).collect();
    let mut got = Vec::new();
    // Few at a time, so that the receive buffer of any system holds them.
    for some in sizes.chunks(10) {
        for s in some {
            a.apply(datagram(Cast::To(b.bound().transport), vec![*s as u8; *s]));
        }
        a.flush();
        let mut batch = Vec::new();
        assert!(run(&mut a, &mut b, |_, of_b| {
            batch = data(of_b);
            batch.len() == some.len()
        }));
        got.extend(batch);
    }
    assert!(got.iter().zip(&sizes).all(|(b, s)| b.len() == *s && b.iter().all(|x| *x == *s as u8)));
}

#[test]
fn a_multicast_reaches_others_of_the_group_and_does_not_come_back() {
    let group = SocketAddr::from(([239, 8, 8, 8], 45_901));
    let (mut a, mut b) = (udp(Some(group)), udp(Some(group)));
    a.apply(datagram(Cast::Group, "to all"));
    a.flush();
    let mut own = 0;
    assert!(run(&mut a, &mut b, |of_a, of_b| {
        own = of_a.len();
        data(of_b) == ["to all"]
    }));
    assert_eq!(own, 0);
}

#[test]
fn a_datagram_that_has_left_does_not_wake_its_sender() {
    let (mut a, b) = (udp(None), udp(None));
    // What the socket says when it is new.
    a.wait(Some(Duration::ZERO));
    assert!(a.receive(&mut Vec::new()) || !a.has_input());
    while a.has_input() {
        a.receive(&mut Vec::new());
    }
    a.apply(datagram(Cast::To(b.bound().transport), "one"));
    a.flush();
    let (began, pause) = (Instant::now(), Duration::from_millis(50));
    a.wait(Some(pause));
    assert!(began.elapsed() >= pause, "{:?}", began.elapsed());
}

#[test]
fn a_datagram_that_is_too_large_is_dropped_and_the_next_one_leaves() {
    let (mut a, mut b) = (udp(None), udp(None));
    let to = Cast::To(b.bound().transport);
    a.apply(datagram(to, vec![0; 70_000]));
    a.apply(datagram(to, "next"));
    a.flush();
    assert!(run(&mut a, &mut b, |_, of_b| data(of_b) == ["next"]));
    assert_eq!(a.counters().datagrams_dropped, 1);
}

#[test]
fn a_dead_destination_does_not_stop_the_socket() {
    let (mut a, mut b) = (udp(None), udp(None));
    let gone = udp(None).bound().transport;
    for _ in 0..10 {
        a.apply(datagram(Cast::To(gone), "nobody"));
        a.apply(datagram(Cast::To(b.bound().transport), "somebody"));
        a.flush();
    }
    assert!(run(&mut a, &mut b, |_, of_b| data(of_b).len() == 10));
}

#[test]
fn fault_blocked_datagrams_vanish_both_ways() {
    let (mut a, mut b) = (udp(None), udp(None));
    let (at_a, at_b) = (a.bound().transport, b.bound().transport);
    a.set_faults(Faults::new([at_b]));
    a.apply(datagram(Cast::To(at_b), "x"));
    b.apply(datagram(Cast::To(at_a), "y"));
    b.flush();
    assert!(!run(&mut a, &mut b, |of_a, of_b| !data(of_a).is_empty() || !data(of_b).is_empty()));
    a.set_faults(Faults::default());
    a.apply(datagram(Cast::To(at_b), "z"));
    assert!(run(&mut a, &mut b, |_, of_b| data(of_b) == ["z"]));
}

#[test]
fn the_hub_delivers_to_the_group_and_to_one() {
    let (mut a, mut b) = (hub("deliver"), hub("deliver"));
    let _stranger = hub("another");
    a.apply(datagram(Cast::Group, "all"));
    a.apply(datagram(Cast::To(b.bound().transport), "one"));
    a.apply(datagram(Cast::To(a.bound().transport), "self"));
    a.flush();
    assert!(run(&mut a, &mut b, |of_a, of_b| {
        data(of_a) == ["self"] && data(of_b) == ["all", "one"]
    }));
}

#[test]
fn a_stream_carries_more_than_the_kernel_buffers() {
    let (mut a, mut b) = (tcp(), tcp());
    let conn = ConnId(7);
    let to = b.bound().transport;
    a.apply(RawOp::Connect { conn, port: Port::Transport, to });
    let big = Bytes::from((0..20_000_000u32).map(|i| i as u8).collect::<Vec<u8>>());
    for chunk in big.chunks(1_000_000) {
        a.apply(RawOp::Write { conn, bytes: big.slice_ref(chunk) });
    }
    a.apply(RawOp::Write { conn, bytes: Bytes::from_static(b"end") });
    let mut got = Vec::new();
    let mut seen = 0;
    let mut written = 0;
    assert!(run(&mut a, &mut b, |of_a, of_b| {
        for e in &of_b[seen..] {
            if let RawEvent::Received { bytes, .. } = e {
                got.extend_from_slice(bytes);
            }
        }
        seen = of_b.len();
        written = of_a
            .iter()
            .map(|e| if let RawEvent::Written { bytes, .. } = e { *bytes } else { 0 })
            .sum();
        got.len() == big.len() + 3
    }));
    assert!(got.starts_with(&big) && got.ends_with(b"end"));
    assert_eq!(written, big.len() + 3);
}

#[test]
fn an_orderly_close_writes_the_queue_first() {
    let (mut a, mut b) = (tcp(), tcp());
    let conn = ConnId(7);
    let to = b.bound().monitor.expect("listens");
    a.apply(RawOp::Connect { conn, port: Port::Monitor, to });
    assert!(run(&mut a, &mut b, |of_a, _| of_a.contains(&RawEvent::Connected { conn })));
    a.apply(RawOp::Write { conn, bytes: Bytes::from(vec![1; 3_000_000]) });
    a.apply(RawOp::Close { conn, how: Closing::Orderly });
    let mut bytes = 0;
    assert!(run(&mut a, &mut b, |_, of_b| {
        let len =
            |e: &RawEvent| if let RawEvent::Received { bytes, .. } = e { bytes.len() } else { 0 };
        bytes = of_b.iter().map(len).sum();
        of_b.iter().any(|e| matches!(e, RawEvent::Closed { reset: false, .. }))
    }));
    assert_eq!(bytes, 3_000_000);
    assert!(run(&mut a, &mut b, |_, _| true) && a.is_flushed());
}

#[test]
fn a_connection_that_the_peer_has_announced_to_close_ends_after_the_peer() {
    let (mut a, mut b) = (tcp(), tcp());
    let conn = ConnId(7);
    let to = b.bound().monitor.expect("listens");
    a.apply(RawOp::Connect { conn, port: Port::Monitor, to });
    a.apply(RawOp::Write { conn, bytes: Bytes::from_static(b"the end comes") });
    let mut theirs = None;
    assert!(run(&mut a, &mut b, |of_a, of_b| {
        theirs = of_b.iter().find_map(|e| match e {
            RawEvent::Received { conn, .. } => Some(*conn),
            _ => None,
        });
        theirs.is_some() && of_a.contains(&RawEvent::Connected { conn })
    }));
    b.apply(RawOp::Close { conn: theirs.expect("accepted"), how: Closing::AfterPeer });
    a.apply(RawOp::Write { conn, bytes: Bytes::from_static(b"one more word") });
    let ended = |of_a: &[RawEvent]| of_a.iter().any(|e| matches!(e, RawEvent::Closed { .. }));
    let began = Instant::now();
    assert!(run(&mut a, &mut b, |of_a, _| {
        assert!(!ended(of_a), "its end does not come before ours");
        began.elapsed() > Duration::from_millis(200)
    }));
    a.apply(RawOp::Close { conn, how: Closing::Orderly });
    let began = Instant::now();
    while !(a.is_flushed() && b.is_flushed()) {
        assert!(began.elapsed() < Duration::from_millis(500), "the end is not waited for");
        run(&mut a, &mut b, |_, _| true);
    }
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let (mut a, mut b) = (tcp(), tcp());
    let to = tcp().bound().transport;
    a.apply(RawOp::Connect { conn: ConnId(1), port: Port::Transport, to });
    let refused = RawEvent::ConnectFailed { conn: ConnId(1), refused: true };
    assert!(run(&mut a, &mut b, |of_a, _| of_a.contains(&refused)));
}

#[test]
fn a_call_to_a_blocked_peer_fails_without_being_refused() {
    let (mut a, mut b) = (tcp(), tcp());
    a.set_faults(Faults::new([b.bound().transport]));
    let to = b.bound().monitor.expect("listens");
    a.apply(RawOp::Connect { conn: ConnId(1), port: Port::Monitor, to });
    let failed = RawEvent::ConnectFailed { conn: ConnId(1), refused: false };
    assert!(run(&mut a, &mut b, |of_a, of_b| of_b.is_empty() && of_a.contains(&failed)));
}

#[test]
fn a_connection_to_a_blocked_peer_falls_silent_and_breaks() {
    let (mut a, mut b) = (tcp(), tcp());
    let conn = ConnId(1);
    let to = b.bound().transport;
    a.apply(RawOp::Connect { conn, port: Port::Transport, to });
    assert!(run(&mut a, &mut b, |of_a, of_b| !of_a.is_empty() && !of_b.is_empty()));
    a.set_faults(Faults::new([to]));
    a.apply(RawOp::Write { conn, bytes: Bytes::from_static(b"lost") });
    assert!(run(&mut a, &mut b, |of_a, of_b| {
        assert!(!of_b.iter().any(|e| matches!(e, RawEvent::Received { .. })));
        of_a.contains(&RawEvent::Closed { conn, reset: true })
    }));
}

#[test]
fn a_taken_port_leads_to_the_next_of_the_range() {
    let first = tcp();
    let port = first.bound().transport.port();
    let at = |port_range| {
        let listen = ListenPlan {
            place: LOOPBACK,
            port,
            port_range,
            recv_buf: 0,
            send_buf: 0,
            nodelay: true,
            external: External::default(),
        };
        Net::bind(&plan(Endpoint::Tcp(listen), None))
    };
    let e = at(0).expect_err("the port is taken");
    assert!(e.what.contains(&port.to_string()));
    let second = at(10).expect("one of eleven");
    assert!(second.bound().transport.port() > port);
}

#[test]
fn a_closed_network_has_no_socket_left() {
    let mut a = tcp();
    let at = a.bound().transport;
    a.close();
    let listen = ListenPlan {
        place: LOOPBACK,
        port: at.port(),
        port_range: 0,
        recv_buf: 0,
        send_buf: 0,
        nodelay: true,
        external: External::default(),
    };
    assert!(Net::bind(&plan(Endpoint::Tcp(listen), None)).is_ok());
}
