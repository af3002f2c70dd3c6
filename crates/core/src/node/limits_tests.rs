//! The edge alone, without a network: its limits, where at the limit passes and one beyond does
//! not, and the form of what it sends.

use super::datagrams::{Datagrams, MAX_DATAGRAM};
use super::frames::Packet;
use super::link::{LinkConfig, LinkEvent};
use super::links::Links;
use super::mesh::Mesh;
use super::out::Out;
use super::{Cast, Closing, Port, RawEvent, RawOp};
use crate::net::{ConnId, NetEvent, OutFrame, Route};
use crate::testkit::id;
use crate::wire::{Body, Frame, FrameBody, Message};
use crate::{Time, Trace};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

fn at(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn config() -> LinkConfig {
    LinkConfig {
        max_send_queue: 10_000,
        max_unidentified: 2,
        max_peers: 2,
        ..LinkConfig::default()
    }
}

/// Links of which the one with port 1 stands.
fn connected() -> (Links, Out, ConnId) {
    let mut out = Out { tracing: true, ..Out::default() };
    let mut links = Links::new(Port::Transport, at(9), config());
    links.connect(Time::ZERO, at(1), &mut out);
    let Some(RawOp::Connect { conn, .. }) = out.raw.pop_front() else { panic!("it connects") };
    links.on_event(Time::ZERO, RawEvent::Connected { conn }, &mut out, &mut |_| {});
    let handshake = 15;
    let written = RawEvent::Written { conn, bytes: handshake };
    links.on_event(Time::ZERO, written, &mut out, &mut |_| {});
    out.raw.clear();
    (links, out, conn)
}

fn sent(out: &mut Out) -> usize {
    let n = out.raw.iter().filter(|op| matches!(op, RawOp::Write { .. })).count();
    out.raw.clear();
    n
}

#[test]
fn bytes_on_their_way_to_a_peer_are_bounded() {
    let (mut links, mut out, conn) = connected();
    let frame = |n: usize| Bytes::from(std::vec![0; n]);
    links.send(Time::ZERO, at(1), frame(5_000), &mut out);
    links.send(Time::ZERO, at(1), frame(5_000), &mut out);
    assert_eq!(sent(&mut out), 2);
    links.send(Time::ZERO, at(1), frame(5_000), &mut out);
    assert_eq!((sent(&mut out), out.counters.unsent), (0, 1));
    for _ in 0..6 {
        links.send(Time::ZERO, at(1), frame(2_000), &mut out);
    }
    assert_eq!(sent(&mut out), 5, "small frames pass up to twice the limit");
    let written = RawEvent::Written { conn, bytes: 15_000 };
    links.on_event(Time::ZERO, written, &mut out, &mut |_| {});
    links.send(Time::ZERO, at(1), frame(5_000), &mut out);
    assert_eq!(sent(&mut out), 1);
}

#[test]
fn peers_that_do_not_say_who_they_are_are_bounded() {
    let mut out = Out::default();
    let mut links = Links::new(Port::Transport, at(9), config());
    for n in 0..3 {
        let conn = ConnId(RawOp::ACCEPTED + n);
        let ev = RawEvent::Accepted { conn, port: Port::Transport, from: at(4000) };
        links.on_event(Time::ZERO, ev, &mut out, &mut |_| {});
    }
    let third = ConnId(RawOp::ACCEPTED + 2);
    assert_eq!(out.raw, [RawOp::Close { conn: third, how: Closing::Abort }]);
}

#[test]
fn peers_are_bounded() {
    let mut out = Out { tracing: true, ..Out::default() };
    let mut links = Links::new(Port::Transport, at(9), config());
    for port in [1, 2, 3] {
        links.send(Time::ZERO, at(port), Bytes::from_static(b"x"), &mut out);
    }
    let connects = out.raw.iter().filter(|op| matches!(op, RawOp::Connect { .. })).count();
    assert_eq!(connects, 2);
    let refused: Vec<_> = out.traces.iter().map(|(_, t)| t.clone()).collect();
    assert!(
        refused.iter().all(|t| matches!(t, Trace::Unsent { to: Some(to), .. } if *to == at(3)))
    );
}

#[test]
fn a_stranger_that_claims_our_own_address_is_closed() {
    let mut out = Out::default();
    let mut links = Links::new(Port::Transport, at(9), config());
    let conn = ConnId(RawOp::ACCEPTED);
    let accepted = RawEvent::Accepted { conn, port: Port::Transport, from: at(4000) };
    links.on_event(Time::ZERO, accepted, &mut out, &mut |_| {});
    let bytes = Bytes::from_static(b"bela\x29\x46\x00\x07\x04\x7f\x00\x00\x01\x00\x09");
    let mut events = Vec::new();
    let mut sink = |ev: LinkEvent| events.push(ev);
    links.on_event(Time::ZERO, RawEvent::Received { conn, bytes }, &mut out, &mut sink);
    assert_eq!(out.raw, [RawOp::Close { conn, how: Closing::Abort }]);
    assert_eq!(events, []);
}

fn frame(route: Route, payloads: &[usize]) -> OutFrame {
    let messages = payloads.iter().map(|n| {
        let mut m = Message::multicast(Body::bytes(std::vec![7; *n]));
        m.src = Some(id(1).into());
        m.into()
    });
    let cluster = Bytes::from_static(b"test");
    OutFrame { route, dest: None, src: id(1), cluster, messages: messages.collect() }
}

#[test]
fn a_datagram_is_at_most_as_large_as_udp_allows() {
    let mut out = Out::default();
    let mut edge = Datagrams::new(at(9), MAX_DATAGRAM);
    edge.send(Time::ZERO, Packet::Frame(&frame(Route::Multicast, &[0])), &mut out);
    let Some(RawOp::Datagram { bytes, .. }) = out.raw.pop_front() else { panic!("it is sent") };
    let largest = MAX_DATAGRAM - bytes.len();
    edge.send(Time::ZERO, Packet::Frame(&frame(Route::Multicast, &[largest])), &mut out);
    edge.send(Time::ZERO, Packet::Frame(&frame(Route::Multicast, &[largest + 1])), &mut out);
    assert_eq!((out.raw.len(), out.counters.oversized), (1, 1));
}

#[test]
fn one_message_is_a_single_packet_and_several_are_a_list_shared_by_all_receivers() {
    let mut out = Out::default();
    let mut edge = Datagrams::new(at(9), MAX_DATAGRAM);
    edge.send(
        Time::ZERO,
        Packet::Frame(&frame(Route::Peers([at(1), at(2)].into()), &[3, 4])),
        &mut out,
    );
    edge.send(Time::ZERO, Packet::Frame(&frame(Route::Peer(at(1)), &[3])), &mut out);
    let packets: Vec<(Cast, Bytes)> = out
        .raw
        .into_iter()
        .filter_map(|op| match op {
            RawOp::Datagram { to, bytes } => Some((to, bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(packets[0].1.as_ptr(), packets[1].1.as_ptr());
    assert_eq!((packets[0].0, packets[1].0), (Cast::To(at(1)), Cast::To(at(2))));
    let list = Frame::decode(packets[0].1.clone()).expect("it is a packet");
    assert!(matches!(list.body, FrameBody::List { ref messages, .. } if messages.len() == 2));
    let single = Frame::decode(packets[2].1.clone()).expect("it is a packet");
    assert!(matches!(single.body, FrameBody::Single(_)));
}

#[test]
fn our_own_datagrams_are_ignored() {
    let edge = Datagrams::new(at(9), MAX_DATAGRAM);
    assert!(edge.receive(at(9), Bytes::from_static(b"x")).is_none());
    let foreign = edge.receive(at(8), Bytes::from_static(b"x"));
    assert!(matches!(foreign, Some(NetEvent::Undecodable { .. })));
}

#[test]
fn frames_of_a_stream_carry_their_length_and_share_one_buffer() {
    let mut out = Out::default();
    let mut mesh = Mesh::new(at(9), LinkConfig::default());
    let mut starts = Vec::new();
    for n in [10, 100_000, 20] {
        mesh.send(Time::ZERO, Packet::Frame(&frame(Route::Peer(at(1)), &[n])), &mut out);
        let Some(RawOp::Write { bytes, .. }) = out.raw.pop_back() else { panic!("it is written") };
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        assert_eq!(length + 4, bytes.len());
        starts.push((bytes.as_ptr() as usize, bytes.len()));
    }
    let follows = |i: usize| starts[i].0 + starts[i].1 == starts[i + 1].0;
    assert!(follows(0) && follows(1), "they lie one behind the other in one chunk");
}

#[test]
fn what_a_peer_asks_on_the_wrong_one_of_two_monitor_connections_is_heard() {
    let mut out = Out::default();
    let mut links = Links::new(Port::Monitor, at(9), LinkConfig::default());
    links.connect(Time::ZERO, at(1), &mut out);
    let ours = ConnId(1);
    links.on_event(Time::ZERO, RawEvent::Connected { conn: ours }, &mut out, &mut |_| {});
    let conn = ConnId(RawOp::ACCEPTED);
    let accepted = RawEvent::Accepted { conn, port: Port::Monitor, from: at(4000) };
    links.on_event(Time::ZERO, accepted, &mut out, &mut |_| {});
    let bytes = Bytes::from_static(b"bela\x29\x46\x00\x07\x04\x7f\x00\x00\x01\x00\x01\0\0\0\x01?");
    let mut events = Vec::new();
    let mut sink = |ev: LinkEvent| events.push(ev);
    links.on_event(Time::ZERO, RawEvent::Received { conn, bytes }, &mut out, &mut sink);
    assert_eq!(events, [LinkEvent::Frame { peer: at(1), bytes: Bytes::from_static(b"?") }]);
    out.raw.clear();
    links.send(Time::ZERO, at(1), Bytes::from_static(b"!"), &mut out);
    assert_eq!(out.raw, [RawOp::Write { conn: ours, bytes: Bytes::from_static(b"!") }]);
}

#[test]
fn a_connection_that_is_not_used_is_closed_and_made_again_when_it_is_needed() {
    let mut out = Out { tracing: true, ..Out::default() };
    let idle_timeout = Duration::from_secs(10);
    let mut links = Links::new(Port::Transport, at(9), LinkConfig { idle_timeout, ..config() });
    let after = |seconds| Time::ZERO + Duration::from_secs(seconds);
    links.connect(Time::ZERO, at(1), &mut out);
    let conn = ConnId(0);
    links.on_event(Time::ZERO, RawEvent::Connected { conn }, &mut out, &mut |_| {});
    links.on_event(Time::ZERO, RawEvent::Written { conn, bytes: 15 }, &mut out, &mut |_| {});
    let run = |links: &mut Links, until: Time, out: &mut Out| {
        while let Some(due) = links.deadline().filter(|due| *due <= until) {
            links.advance(due, out, &mut |_| {});
        }
    };
    run(&mut links, after(8), &mut out);
    links.send(after(8), at(1), Bytes::from_static(b"1234"), &mut out);
    run(&mut links, after(17), &mut out);
    assert!(links.is_up(at(1)), "what was sent is still on its way, and fresh");
    links.on_event(after(17), RawEvent::Written { conn, bytes: 4 }, &mut out, &mut |_| {});
    run(&mut links, after(30), &mut out);
    assert!(!links.is_up(at(1)));
    assert!(
        out.raw.contains(&RawOp::Close { conn, how: Closing::Orderly }),
        "announced: {:?}",
        out.raw
    );
    assert_eq!(links.deadline(), None);
    links.send(after(40), at(1), Bytes::from_static(b"1234"), &mut out);
    assert!(links.is_busy(at(1)));
}
