//! Tests of the transport alone: bottom layer of a stack with a probe on top.

use super::*;
use crate::net::{OutFrame, Route};
use crate::testkit::{Probe, id, view};
use crate::wire::{self, Address, Body, Flags, Frame, FrameBody, Version};
use crate::{AppEvent, Command, DropReason, Env, GroupChange, OpId, SendResult, Stack, app};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use std::sync::Mutex;

const CLUSTER: &[u8] = b"test";

struct Bottom {
    stack: Stack,
    now: Time,
    events: Arc<Mutex<Vec<(Dir, Event)>>>,
}

fn at(member: u64) -> SocketAddr {
    ([127, 0, 0, 1], 7000 + member as u16).into()
}

impl Bottom {
    /// Member 1, connected, on this transport.
    fn on(config: impl Into<TransportConfig>) -> Self {
        let events = Arc::default();
        let layers: Vec<Box<dyn Protocol>> =
            [Box::new(Transport::new(config)) as _, Box::new(Probe(Arc::clone(&events))) as _]
                .into();
        let env = Env { local: id(1), name: "M1".into(), physical: at(1), seed: 1, tracing: true };
        let mut stack = Stack::new(layers, env);
        stack.submit(Time::ZERO, Command::Connect { cluster: Bytes::from_static(CLUSTER) });
        Self { stack, now: Time::ZERO, events }
    }

    fn udp() -> Self {
        Self::on(UdpConfig::default())
    }

    fn tcp() -> Self {
        Self::on(TcpConfig::default())
    }

    fn knows(&mut self, members: &[u64]) {
        for m in members {
            let physical = Some(at(*m));
            let change = GroupChange::Learn { member: id(*m), name: None, physical };
            self.stack.inject_change(change);
        }
    }

    fn learns(&mut self, member: u64) {
        self.knows(&[member]);
        self.stack.inject_event(self.now, 1, Dir::Down, Event::AddressLearned(id(member)));
    }

    fn install(&mut self, n: u64, members: &[u64]) {
        let v = view(n, members);
        self.stack.inject_change(GroupChange::View(Some(Arc::clone(&v))));
        self.stack.inject_event(self.now, 1, Dir::Down, Event::View(v));
    }

    fn send(&mut self, m: wire::Message) {
        self.send_as(m, None);
    }

    fn send_as(&mut self, message: wire::Message, op: Option<u64>) {
        let op = op.map(OpId);
        let send = app::Send { op, message, try_only: false, deadline: None, sync: None };
        self.stack.submit(self.now, Command::Send(send));
    }

    fn receive(&mut self, from: Option<SocketAddr>, body: FrameBody) {
        let frame = Frame { version: Version::OURS, multicast: false, body };
        self.stack.receive(self.now, NetEvent::Frame { frame, from });
    }

    /// A message of `from`, alone in a packet.
    fn arrive(&mut self, from: u64, m: wire::Message) {
        self.receive(Some(at(from)), FrameBody::Single(signed(from, m)));
    }

    /// Messages of `from` in a list of `cluster`.
    fn arrive_list(&mut self, from: u64, cluster: Option<&[u8]>, ms: Vec<wire::Message>) {
        let messages = ms.into_iter().map(|m| signed(from, m)).collect();
        let cluster = cluster.map(Bytes::copy_from_slice);
        let src = Some(id(from).into());
        self.receive(Some(at(from)), FrameBody::List { dest: None, src, cluster, messages });
    }

    fn advance(&mut self, d: Duration) {
        self.now += d;
        self.stack.advance(self.now, false);
        self.stack.end_turn(self.now);
    }

    fn ops(&mut self) -> Vec<NetOp> {
        self.stack.end_turn(self.now);
        core::iter::from_fn(|| self.stack.poll_net()).collect()
    }

    fn frames(&mut self) -> Vec<OutFrame> {
        let frame = |op| if let NetOp::Frame(f) = op { Some(f) } else { None };
        self.ops().into_iter().filter_map(frame).collect()
    }

    fn told(&mut self) -> Vec<AppEvent> {
        core::iter::from_fn(|| self.stack.poll_app()).collect()
    }

    /// Deliveries as (sender, payload lengths).
    fn delivered(&mut self) -> Vec<(Uuid, Vec<usize>)> {
        let told = self.told().into_iter();
        told.filter_map(|e| match e {
            AppEvent::Deliver(d) => Some((d.from, d.messages.iter().map(|m| m.length()).collect())),
            _ => None,
        })
        .collect()
    }

    /// How often each member was asked for.
    fn asked(&self, m: u64) -> usize {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(_, e)| matches!(e, Event::WhoHas(x) if *x == id(m))).count()
    }

    fn dropped(&self, why: DropReason) -> u64 {
        self.stack.dropped(why)
    }
}

fn signed(from: u64, mut m: wire::Message) -> wire::Message {
    m.src.get_or_insert(id(from).into());
    m
}

fn to_all(n: usize) -> wire::Message {
    wire::Message::multicast(Body::bytes(alloc::vec![1; n]))
}

fn to(m: u64, n: usize) -> wire::Message {
    wire::Message::unicast(id(m), Body::bytes(alloc::vec![1; n]))
}

fn tp(cluster: &'static [u8], rtt: Rtt) -> Header {
    Header::Tp(TpHeader { cluster: Some(Bytes::from_static(cluster)), rtt })
}

// Down.

#[test]
fn a_message_leaves_with_source_and_cluster_and_its_token_is_resolved() {
    let mut t = Bottom::udp();
    t.send_as(to_all(10), Some(7));
    let frames = t.frames();
    let m = &frames[0].messages[0];
    assert_eq!(frames[0].route, Route::Multicast);
    assert_eq!(m.src, Some(id(1).into()));
    assert_eq!(m.headers.get(ProtId::TP), Some(&tp(CLUSTER, Rtt::None)));
    let sent =
        |e: &AppEvent| matches!(e, AppEvent::Resolved { op: OpId(7), result: SendResult::Sent });
    assert!(t.told().iter().any(sent));
    assert_eq!(t.stack.tokens_outstanding(), 0);
}

#[test]
fn messages_of_one_turn_share_a_frame_per_destination_in_order() {
    let mut t = Bottom::udp();
    t.knows(&[2]);
    for n in 1..=3 {
        t.send(to_all(n));
        t.send(to(2, 10 + n));
    }
    let frames = t.frames();
    let lengths: Vec<Vec<usize>> =
        frames.iter().map(|f| f.messages.iter().map(|m| m.length()).collect()).collect();
    assert_eq!(lengths, [[1, 2, 3], [11, 12, 13]]);
    assert_eq!(frames[1].route, Route::Peer(at(2)));
    assert_eq!(frames[1].dest, Some(id(2).into()));
}

#[test]
fn a_full_frame_leaves_before_the_end_of_the_turn() {
    let mut t = Bottom::udp();
    t.send(to_all(40_000));
    assert!(t.stack.poll_net().is_none());
    t.send(to_all(40_000));
    assert!(t.stack.poll_net().is_some());
}

#[test]
fn own_multicasts_come_back_with_all_headers_unless_the_sender_declines() {
    let mut t = Bottom::udp();
    t.send(to_all(5).with_header(ProtId::MERGE3, Header::Heartbeat));
    let mut quiet = to_all(6);
    quiet.hints = wire::Hints::DONT_LOOPBACK;
    t.send(quiet);
    let told = t.told();
    let [AppEvent::Deliver(d)] = &told[..] else { panic!("one delivery, not {told:?}") };
    assert_eq!((d.from, d.messages[0].length()), (id(1), 5));
    assert!(d.messages[0].headers.get(ProtId::MERGE3).is_some());
}

#[test]
fn unicasts_to_oneself_never_touch_the_network() {
    let mut t = Bottom::udp();
    t.send(to(1, 5));
    t.send(wire::Message::unicast(Address::from(at(1)), Body::bytes(alloc::vec![1; 6])));
    assert_eq!(t.delivered().len(), 2);
    assert!(t.frames().is_empty());
}

#[test]
fn a_physical_destination_needs_no_address_book() {
    let mut t = Bottom::tcp();
    t.send(wire::Message::unicast(Address::from(at(9)), Body::Empty));
    assert_eq!(t.frames()[0].route, Route::Peer(at(9)));
}

#[test]
fn a_message_that_fits_in_no_datagram_is_refused() {
    let mut t = Bottom::udp();
    t.send_as(to_all(UdpConfig::MAX_DATAGRAM), Some(1));
    let refused = |e: &AppEvent| {
        matches!(
            e,
            AppEvent::Resolved { result: SendResult::Refused(SendRefusal::TooLarge { .. }), .. }
        )
    };
    assert!(t.told().iter().any(refused));
    assert!(t.frames().is_empty());
}

// Unknown addresses.

#[test]
fn a_unicast_waits_for_its_address_and_leaves_when_it_is_learned() {
    let mut t = Bottom::tcp();
    t.send(to(2, 1));
    t.send(to(2, 2));
    assert!(t.frames().is_empty());
    assert_eq!(t.asked(2), 1);
    t.learns(2);
    let frames = t.frames();
    assert_eq!(frames[0].route, Route::Peer(at(2)));
    let lengths: Vec<usize> = frames[0].messages.iter().map(|m| m.length()).collect();
    assert_eq!(lengths, [1, 2]);
}

#[test]
fn what_waited_leaves_before_what_is_sent_after_the_address_appeared() {
    let mut t = Bottom::tcp();
    t.send(to(2, 1));
    t.knows(&[2]);
    t.send(to(2, 2));
    let lengths: Vec<usize> = t.frames()[0].messages.iter().map(|m| m.length()).collect();
    assert_eq!(lengths, [1, 2]);
}

#[test]
fn a_waiting_member_is_asked_for_every_two_seconds_until_a_minute_is_over() {
    let mut t = Bottom::tcp();
    t.send(to(2, 1));
    for _ in 0..100 {
        t.advance(Duration::from_secs(1));
    }
    assert_eq!(t.asked(2), 30);
    assert_eq!(t.dropped(DropReason::NoAddress), 1);
}

#[test]
fn a_packet_tells_where_an_unknown_sender_is() {
    let mut t = Bottom::udp();
    t.send(to(2, 1));
    t.arrive(2, to_all(3));
    assert_eq!(t.frames()[0].route, Route::Peer(at(2)));
    assert_eq!(t.stack.group().addresses.physical(id(2)), Some(at(2)));
}

#[test]
fn a_retransmitted_multicast_tells_nothing_of_its_authors_place() {
    let mut t = Bottom::udp();
    let header = wire::header::NakAckHeader::Msg(1);
    let m = to_all(3).with_header(ProtId::NAKACK2, Header::NakAck(header));
    t.receive(Some(at(3)), FrameBody::Single(signed(2, m)));
    assert_eq!(t.stack.group().addresses.physical(id(2)), None);
}

#[test]
fn what_is_known_is_not_overwritten_by_a_packet() {
    let mut t = Bottom::udp();
    t.knows(&[2]);
    t.receive(Some(at(9)), FrameBody::Single(signed(2, to_all(3))));
    assert_eq!(t.stack.group().addresses.physical(id(2)), Some(at(2)));
}

// Multicast without a multicast address.

#[test]
fn without_a_view_a_multicast_goes_to_everybody_known() {
    let mut t = Bottom::tcp();
    t.knows(&[2, 3]);
    t.send(to_all(1));
    assert_eq!(t.frames()[0].route, Route::Peers([at(2), at(3)].into()));
}

#[test]
fn with_a_view_a_multicast_goes_to_its_members_and_the_unknown_are_asked_for() {
    let mut t = Bottom::tcp();
    t.knows(&[2, 4]);
    t.install(1, &[1, 2, 3]);
    t.send(to_all(1));
    assert_eq!(t.frames()[0].route, Route::Peers([at(2)].into()));
    t.send(to_all(1));
    let _ = t.frames();
    assert_eq!(t.asked(3), 1);
}

#[test]
fn who_was_excluded_multicasts_to_everybody_known_again() {
    let mut t = Bottom::tcp();
    t.knows(&[2, 3]);
    t.install(1, &[1, 2]);
    t.stack.inject_change(GroupChange::View(None));
    t.send(to_all(1));
    assert_eq!(t.frames()[0].route, Route::Peers([at(2), at(3)].into()));
}

#[test]
fn a_multicast_goes_to_the_view_that_it_was_sent_in() {
    let mut t = Bottom::tcp();
    t.knows(&[2, 3]);
    t.install(1, &[1, 2]);
    t.send(to_all(1));
    t.install(2, &[1, 3]);
    t.send(to_all(2));
    let routes: Vec<Route> = t.frames().into_iter().map(|f| f.route).collect();
    assert_eq!(routes, [Route::Peers([at(2)].into()), Route::Peers([at(3)].into())]);
}

#[test]
fn a_leaver_keeps_its_connection_for_five_seconds() {
    let mut t = Bottom::tcp();
    t.knows(&[2, 3]);
    t.install(1, &[1, 2, 3]);
    t.advance(Duration::from_secs(3));
    t.install(2, &[1, 2]);
    let retained = |t: &mut Bottom| -> Vec<Vec<SocketAddr>> {
        let peers = |op| if let NetOp::RetainPeers(p) = op { Some(p) } else { None };
        t.ops().into_iter().filter_map(peers).collect()
    };
    t.advance(Duration::from_secs(2));
    assert_eq!(retained(&mut t), [[at(2), at(3)]]);
    t.advance(Duration::from_millis(2_999));
    assert!(retained(&mut t).is_empty());
    t.advance(Duration::from_millis(1));
    assert_eq!(retained(&mut t), [[at(2)]]);
}

// Up.

#[test]
fn what_is_not_for_us_is_dropped() {
    let mut t = Bottom::udp();
    t.arrive(2, to(3, 1));
    t.arrive(2, wire::Message::unicast(Address::from(at(3)), Body::Empty));
    assert_eq!(t.dropped(DropReason::NotForUs), 2);
    t.arrive(2, to(1, 1));
    t.arrive(2, wire::Message::unicast(Address::from(at(1)), Body::Empty));
    assert_eq!(t.delivered().len(), 2);
}

#[test]
fn a_single_message_is_dropped_only_if_it_names_another_cluster() {
    let mut t = Bottom::udp();
    t.arrive(2, to_all(1).with_header(ProtId::TP, tp(b"other", Rtt::None)));
    assert_eq!(t.dropped(DropReason::WrongCluster), 1);
    let null = Header::Tp(TpHeader { cluster: None, rtt: Rtt::None });
    t.arrive(2, to_all(2).with_header(ProtId::TP, null));
    t.arrive(2, to_all(3));
    assert_eq!(t.delivered().len(), 2);
}

#[test]
fn a_list_must_name_our_cluster_except_for_messages_dispatched_alone() {
    for cluster in [None, Some(&b"other"[..])] {
        let mut t = Bottom::udp();
        let alone = to_all(2).with_flags(Flags::OOB | Flags::DONT_BUNDLE);
        t.arrive_list(2, cluster, [to_all(1), alone, to_all(3)].into());
        assert_eq!(t.delivered(), [(id(2), [2].into())]);
        assert_eq!(t.dropped(DropReason::WrongCluster), 2);
    }
}

#[test]
fn nothing_of_another_cluster_leaves_a_trace() {
    let mut t = Bottom::udp();
    t.arrive(2, to_all(1).with_header(ProtId::TP, tp(b"other", Rtt::None)));
    assert_eq!(t.stack.group().addresses.physical(id(2)), None);
}

#[test]
fn own_multicasts_from_the_network_are_dropped() {
    let mut t = Bottom::udp();
    t.arrive(1, to_all(1));
    t.receive(Some(at(5)), FrameBody::Single(signed(1, to_all(1))));
    assert_eq!(t.dropped(DropReason::OwnMulticast), 2);
    assert!(t.delivered().is_empty());
}

#[test]
fn a_sender_without_identity_is_dropped() {
    let mut t = Bottom::udp();
    t.receive(Some(at(2)), FrameBody::Single(to_all(1)));
    let mut m = to_all(1);
    m.src = Some(at(2).into());
    t.receive(Some(at(2)), FrameBody::Single(m));
    assert_eq!(t.dropped(DropReason::BadSender), 2);
}

#[test]
fn out_of_band_messages_of_a_list_go_up_first_and_unbundled_ones_alone() {
    let mut t = Bottom::udp();
    let oob = |n| to_all(n).with_flags(Flags::OOB);
    let alone = |n| to_all(n).with_flags(Flags::OOB | Flags::DONT_BUNDLE);
    let list = [to_all(1), oob(2), alone(3), oob(4), oob(5), alone(6), to_all(7)];
    t.arrive_list(2, Some(CLUSTER), list.into());
    let lengths: Vec<Vec<usize>> = t.delivered().into_iter().map(|(_, l)| l).collect();
    assert_eq!(lengths, [&[2][..], &[3], &[4, 5], &[6], &[1, 7]]);
}

#[test]
fn messages_of_several_senders_in_a_list_are_batched_by_sender() {
    let mut t = Bottom::udp();
    let list = [to_all(1), signed(3, to_all(2)), to_all(3)];
    t.arrive_list(2, Some(CLUSTER), list.into());
    let senders: Vec<Uuid> = t.delivered().into_iter().map(|(from, _)| from).collect();
    assert_eq!(senders, [id(2), id(3), id(2)]);
}

#[test]
fn a_round_trip_probe_is_answered_and_goes_no_further() {
    let mut t = Bottom::udp();
    t.knows(&[2]);
    let probe = to(1, 0).with_flags(Flags::OOB);
    t.arrive(2, probe.with_header(ProtId::TP, tp(CLUSTER, Rtt::Request(7))));
    let frames = t.frames();
    let answer = &frames[0].messages[0];
    assert_eq!(answer.headers.get(ProtId::TP), Some(&tp(CLUSTER, Rtt::Response(7))));
    assert_eq!((answer.dest.clone(), answer.flags), (Some(id(2).into()), Flags::OOB));
    t.arrive(2, to(1, 0).with_header(ProtId::TP, tp(CLUSTER, Rtt::Response(7))));
    assert!(t.delivered().is_empty());
}

#[test]
fn unreadable_packets_are_counted_by_reason() {
    let mut t = Bottom::udp();
    let mut packet = Vec::new();
    wire::Encode::encode(&Version::new(5, 4, 0), &mut packet);
    for bytes in [packet, alloc::vec![1, 2]] {
        let error = Frame::decode(bytes.into()).unwrap_err();
        t.stack.receive(t.now, NetEvent::Undecodable { error, from: None });
    }
    let version = wire::DecodeError { what: "packet", kind: wire::DecodeErrorKind::Short, at: 0 };
    t.stack.receive(t.now, NetEvent::Undecodable { error: version, from: None });
    assert_eq!(t.dropped(DropReason::WrongVersion), 2);
    assert_eq!(t.dropped(DropReason::Undecodable), 1);
    let strangers = t.stack.strangers();
    assert!(strangers.versions.contains_key(&Version::new(5, 4, 0)), "{strangers:?}");
    assert!(strangers.garbage.is_some());
}

#[test]
fn the_names_of_other_clusters_are_remembered() {
    let mut t = Bottom::udp();
    t.arrive_list(2, Some(b"staging"), [to_all(1), to_all(2)].into());
    t.arrive(3, to_all(1).with_header(ProtId::TP, tp(b"a\x1b[2J", Rtt::None)));
    let heard: Vec<(&[u8], u64)> =
        t.stack.strangers().clusters.iter().map(|(name, h)| (&name[..], h.times)).collect();
    assert_eq!(heard, [(&b"a\x1b[2J"[..], 1), (b"staging", 2)]);
    assert!(t.delivered().is_empty());
}

#[test]
fn stopping_sends_what_is_bundled_then_closes() {
    let mut t = Bottom::tcp();
    t.knows(&[2]);
    t.send(to(2, 1));
    t.stack.stop(t.now);
    let ops = t.ops();
    assert!(matches!(&ops[..], [NetOp::Frame(_), NetOp::Shutdown]), "{ops:?}");
    t.arrive(2, to(1, 1));
    assert!(t.delivered().is_empty());
}
