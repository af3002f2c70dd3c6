//! What discovery puts on the wire, byte for byte what JGroups 5.5.6 sends: the vectors
//! `dgram_ping_req`, `dgram_ping_rsp` and `dgram_tcpping_req`, and the request of the capture
//! `tcp3-join-leave` as a stream.

use super::*;
use crate::node::{Bound, LinkConfig, Node, NodeEnv, RawEvent, RawOp};
use crate::protocols::transport::{TcpConfig, Transport, TransportConfig, UdpConfig};
use crate::testkit::Probe;
use crate::{Command, GroupChange, wire};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use std::format;
use std::sync::Mutex;

type Events = Arc<Mutex<Vec<(Dir, Event)>>>;

const A: Uuid = Uuid::new(0xa000_0000_0000_0001, 0xb000_0000_0000_0011);
const B: Uuid = Uuid::new(0xa000_0000_0000_0002, 0xb000_0000_0000_0022);

fn node(
    me: (Uuid, &str, u16),
    cluster: &'static [u8],
    transport: impl Into<TransportConfig>,
    discovery: impl Into<DiscoveryKind>,
) -> Node {
    node_with(me, cluster, transport, discovery, Events::default())
}

fn node_with(
    me: (Uuid, &str, u16),
    cluster: &'static [u8],
    transport: impl Into<TransportConfig>,
    discovery: impl Into<DiscoveryKind>,
    events: Events,
) -> Node {
    let transport = transport.into();
    let kind = transport.kind();
    let layers: Vec<Box<dyn Protocol>> = [
        Box::new(Transport::new(transport)) as Box<dyn Protocol>,
        Box::new(Discovery::new(discovery)),
        Box::new(Joiner),
        Box::new(Probe(events)),
    ]
    .into();
    let (local, name, port) = me;
    let bound = Bound { transport: ([127, 0, 0, 1], port).into(), monitor: None };
    let env = NodeEnv { local, name: name.into(), bound, seed: 1, tracing: false };
    let mut node = Node::from_layers(layers, kind, LinkConfig::default(), env);
    node.submit(Time::ZERO, Command::Connect { cluster: Bytes::from_static(cluster) });
    node.end_turn(Time::ZERO);
    node
}

/// Looks for members as soon as it is connected; stands for GMS.
#[derive(Debug)]
struct Joiner;

impl Protocol for Joiner {
    fn spec(&self) -> Spec {
        Spec {
            name: "JOINER",
            id: None,
            interests: Interests { events: true, ..Interests::default() },
            provides: &[],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn on_event(&mut self, _dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        if let Event::Connect = ev {
            cx.raise(Dir::Down, Event::FindMembers { purpose: Purpose::Join, wanted: None });
        }
        Flow::Pass
    }
}

fn at(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn sent(node: &mut Node) -> Vec<String> {
    core::iter::from_fn(|| node.poll_raw())
        .filter_map(|op| match op {
            RawOp::Datagram { bytes, .. } | RawOp::Write { bytes, .. } => Some(hex(&bytes)),
            _ => None,
        })
        .collect()
}

const PING_REQ: &str = "\
    294602000002000302b000000000000022a00000000000000200020005003501010007636c75\
    73746572010039003c0007636c757374657200000000240000000102b000000000000022a000\
    000000000002000100014210047f0000011e79ffff";

const PING_RSP: &str = "\
    294600000003000302b000000000000022a00000000000000202b000000000000011a0000000\
    000000010002000500350200000039003c0007636c757374657200000000240000000102b000\
    000000000011a000000000000001030100014110047f0000011e78ffff";

const TCPPING_REQ: &str = "\
    294600000003000310047f0000011e7802b000000000000022a0000000000000020002000900\
    3501010007636c7573746572010039003c0007636c757374657200000000240000000102b000\
    000000000022a000000000000002000100014210047f0000011e79ffff";

const STREAM_REQ: &str = "\
    62656c6129460007047f000001458900000069294600000003000310047f000001458802b000\
    000000000022a000000000000002000200090035010100076361702d746370010039003c0007\
    6361702d74637000000000240000000102b000000000000022a0000000000000020001000142\
    10047f0000014589ffff";

fn udp(me: (Uuid, &str, u16)) -> Node {
    probed(me, Events::default())
}

fn probed(me: (Uuid, &str, u16), events: Events) -> Node {
    node_with(me, b"cluster", UdpConfig::default(), PingConfig::default(), events)
}

#[test]
fn a_multicast_request_is_that_of_jgroups() {
    assert_eq!(sent(&mut udp((B, "B", 7801))), [PING_REQ]);
}

#[test]
fn a_request_by_address_is_that_of_jgroups() {
    let hosts = TcpPingConfig {
        initial_hosts: [([127, 0, 0, 1], 7800).into()].into(),
        port_range: 0,
        ..TcpPingConfig::default()
    };
    let config = UdpConfig::default();
    let mut b = node((B, "B", 7801), b"cluster", config, hosts);
    assert_eq!(sent(&mut b), [TCPPING_REQ]);
}

#[test]
fn over_a_stream_the_request_follows_the_handshake() {
    let hosts = TcpPingConfig {
        initial_hosts: [([127, 0, 0, 1], 17800).into()].into(),
        port_range: 0,
        ..TcpPingConfig::default()
    };
    let config = TcpConfig::default();
    let mut b = node((B, "B", 17801), b"cap-tcp", config, hosts);
    let connect = core::iter::from_fn(|| b.poll_raw()).find_map(|op| match op {
        RawOp::Connect { conn, .. } => Some(conn),
        _ => None,
    });
    let conn = connect.unwrap();
    b.receive(Time::ZERO, RawEvent::Connected { conn });
    b.end_turn(Time::ZERO);
    assert_eq!(sent(&mut b).concat(), STREAM_REQ);
}

#[test]
fn the_answer_of_a_coordinator_is_that_of_jgroups() {
    let mut a = udp((A, "A", 7800));
    let _ = sent(&mut a);
    let view = Arc::new(View::new(0, A, [A]));
    let stack = a.stack_mut();
    stack.inject_change(GroupChange::View(Some(view)));
    stack.inject_event(Time::ZERO, 2, Dir::Down, Event::BecomeServer);
    let from = ([127, 0, 0, 1], 7801).into();
    a.receive(Time::ZERO, RawEvent::Datagram { from, bytes: bytes(PING_REQ) });
    a.end_turn(Time::ZERO);
    assert_eq!(sent(&mut a), [PING_RSP]);
}

#[test]
fn a_request_of_jgroups_tells_name_and_place() {
    let mut a = udp((A, "A", 7800));
    let from = ([127, 0, 0, 1], 7801).into();
    a.receive(Time::ZERO, RawEvent::Datagram { from, bytes: bytes(PING_REQ) });
    let book = &a.stack().group().addresses;
    assert_eq!(book.physical(B), Some(from));
    assert_eq!(book.name(B).map(|n| String::from(&**n)), Some("B".into()));
}

#[test]
fn the_answer_of_jgroups_ends_the_search() {
    let events = Arc::default();
    let mut b = probed((B, "B", 7801), Arc::clone(&events));
    let from = ([127, 0, 0, 1], 7800).into();
    b.receive(Time::ZERO, RawEvent::Datagram { from, bytes: bytes(PING_RSP) });
    let found = Found {
        member: A,
        server: true,
        coordinator: true,
        first_hand: true,
        physical: Some(from),
    };
    let told = |(_, ev): &(Dir, Event)| match ev {
        Event::Found { purpose: Purpose::Join, members } => *members == [found.clone()],
        _ => false,
    };
    assert!(events.lock().unwrap().iter().any(told));
}

fn on_a_group_of_its_own(me: (Uuid, &str, u16)) -> Node {
    node(me, b"cluster", TcpConfig::default(), MpingConfig::default())
}

/// The request that a joiner multicasts on the group of MPING.
fn mping_request() -> Bytes {
    let mut b = on_a_group_of_its_own((B, "B", 7801));
    let datagrams = core::iter::from_fn(|| b.poll_raw()).filter_map(|op| match op {
        RawOp::Datagram { to: crate::node::Cast::Discovery, bytes } => Some(bytes),
        _ => None,
    });
    let [request] = <[Bytes; 1]>::try_from(datagrams.collect::<Vec<_>>()).unwrap();
    request
}

#[test]
fn a_request_on_a_group_of_its_own_is_a_bare_message() {
    let m = wire::mping::decode(mping_request()).unwrap();
    assert_eq!((m.src.clone(), m.dest.clone(), m.headers.len()), (Some(B.into()), None, 1));
    let Some(Header::Ping(h)) = m.headers.get(wire::ProtId::MPING) else { panic!("{m:?}") };
    let cluster = Some(String::from("cluster"));
    assert_eq!(*h, PingHeader { kind: PingKind::Request, cluster, initial: true });
    let list = messages::payload(&m.clone().into()).unwrap();
    assert_eq!(list[0].physical.as_ref().and_then(wire::IpAddress::socket_addr), Some(at(7801)));
}

/// When joiners answer joiners.
fn after_the_coordinator(a: &mut Node) {
    let then = Time::ZERO + super::AFTER_COORDINATOR;
    a.end_turn(Time::ZERO);
    a.advance(then, false);
    a.end_turn(then);
}

#[test]
fn a_request_on_a_group_of_its_own_is_answered_by_the_transport() {
    let mut a = on_a_group_of_its_own((A, "A", 7800));
    let _ = sent(&mut a);
    a.receive(Time::ZERO, RawEvent::Discovery { bytes: mping_request() });
    after_the_coordinator(&mut a);
    let ops: Vec<RawOp> = core::iter::from_fn(|| a.poll_raw()).collect();
    let to_b = |op: &RawOp| matches!(op, RawOp::Connect { to, .. } if *to == at(7801));
    assert!(ops.iter().any(to_b), "{ops:?}");
    assert!(ops.iter().any(|op| matches!(op, RawOp::Write { bytes, .. } if bytes.len() > 30)));
}

#[test]
fn a_request_of_another_cluster_on_the_same_group_leaves_no_trace() {
    let config = TcpConfig::default();
    let mut a = node((A, "A", 7800), b"other", config, MpingConfig::default());
    let _ = sent(&mut a);
    a.receive(Time::ZERO, RawEvent::Discovery { bytes: mping_request() });
    a.receive(Time::ZERO, RawEvent::Discovery { bytes: Bytes::from_static(b"garbage") });
    after_the_coordinator(&mut a);
    assert_eq!(a.poll_raw(), None);
    assert_eq!(a.stack().group().addresses.physical(B), None);
}

#[test]
fn when_all_hosts_refuse_a_member_over_streams_does_not_wait() {
    let initial_hosts = [at(7810), at(7811)].into();
    let hosts = TcpPingConfig { initial_hosts, port_range: 0, ..TcpPingConfig::default() };
    let events = Arc::default();
    let config = TcpConfig::default();
    let mut b = node_with((B, "B", 7801), b"cluster", config, hosts, Arc::clone(&events));
    let ended = || {
        let is = |(_, ev): &(Dir, Event)| matches!(ev, Event::Found { .. });
        events.lock().unwrap().iter().any(is)
    };
    // The hosts, and the same ports on the own host.
    let calls: Vec<_> = core::iter::from_fn(|| b.poll_raw())
        .filter_map(|op| match op {
            RawOp::Connect { conn, .. } => Some(conn),
            _ => None,
        })
        .collect();
    for conn in calls {
        assert!(!ended());
        b.receive(Time::ZERO, RawEvent::ConnectFailed { conn, refused: true });
        b.end_turn(Time::ZERO);
    }
    assert!(ended());
}
