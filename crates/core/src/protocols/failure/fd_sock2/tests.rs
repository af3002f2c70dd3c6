//! FD_SOCK2 over real edges and a network with delays; and alone, for what it says.

use super::*;
use crate::node::Port;
use crate::node::pipe::{Net, monitor};
use crate::protocols::failure::{VerifySuspect2, VerifySuspect2Config};
use crate::testkit::{Solo, id, view};
use crate::{Group, Protocol};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn layer() -> Box<dyn Protocol> {
    Box::new(FdSock2::new(FdSock2Config::default()))
}

fn alone() -> Vec<Box<dyn Protocol>> {
    [layer()].into()
}

fn verified() -> Vec<Box<dyn Protocol>> {
    let config = VerifySuspect2Config { timeout: ms(1500), ..VerifySuspect2Config::default() };
    [layer(), Box::new(VerifySuspect2::new(config)) as _].into()
}

/// Members in one view, watching each other.
fn ring(n: usize, seed: u64, layers: fn() -> Vec<Box<dyn Protocol>>) -> Net {
    let mut net = Net::new(n, seed, layers);
    net.install(1, &(0..n).collect::<Vec<_>>());
    net.run(ms(3_000));
    net
}

fn accused(net: &Net) -> Vec<(usize, Uuid)> {
    let of = |(who, _, t): &(usize, Time, Trace)| match t {
        Trace::Accused { member, .. } => Some((*who, *member)),
        _ => None,
    };
    net.traces.iter().filter_map(of).collect()
}

fn diagnoses(net: &Net) -> usize {
    let is = |t: &Trace| matches!(t, Trace::MonitorUnreachable { .. });
    net.traces.iter().filter(|(_, _, t)| is(t)).count()
}

#[test]
fn each_member_watches_its_right_neighbour_and_nobody_is_suspected() {
    let net = ring(4, 1, alone);
    assert!((0..4).all(|i| net.gauge(i, "connected") == 1));
    let pairs = [(0, 1), (1, 2), (2, 3), (3, 0)];
    assert!(pairs.iter().all(|(a, b)| net.streams_between(Port::Monitor, *a, *b) == 1));
    assert!(accused(&net).is_empty());
}

#[test]
fn two_members_that_connect_at_the_same_time_share_one_connection() {
    for seed in 0..300 {
        let mut net = Net::new(2, seed, alone);
        net.install_at(0, 1, &[0, 1]);
        net.run(Duration::from_micros(seed * 41 % 5_000));
        net.install_at(1, 1, &[0, 1]);
        net.run(ms(900));
        assert_eq!((net.gauge(0, "connected"), net.gauge(1, "connected")), (1, 1), "seed {seed}");
        net.run(ms(3_000));
        assert_eq!(net.streams_between(Port::Monitor, 0, 1), 1, "seed {seed}");
        assert!(accused(&net).is_empty(), "seed {seed}");
    }
}

#[test]
fn a_killed_member_is_suspected_by_its_left_neighbour_and_reported_by_the_coordinator() {
    let mut net = ring(4, 2, alone);
    let dead = net.member(2);
    net.kill(2, false);
    net.run(ms(20));
    assert_eq!(accused(&net), [(1, dead)]);
    assert_eq!(net.suspected(0), [dead]);
    assert!(net.suspected(1).is_empty() && net.suspected(3).is_empty());
    net.run(ms(100));
    assert_eq!(net.streams_between(Port::Monitor, 1, 3), 1, "the next one is watched");
}

#[test]
fn a_killed_coordinator_is_reported_by_the_next() {
    let mut net = ring(3, 2, alone);
    let dead = net.member(0);
    net.kill(0, false);
    net.run(ms(20));
    assert_eq!((net.suspected(1), net.suspected(2)), ([dead].into(), Vec::new()));
}

#[test]
fn a_death_is_verified_by_refused_ports_although_other_members_listen_on_some_of_them() {
    for seed in 0..50 {
        let mut net = ring(4, seed, verified);
        let dead = net.member(1);
        net.kill(1, false);
        net.run(ms(150));
        assert_eq!(net.suspected(0), [dead], "seed {seed}");
    }
}

#[test]
fn the_death_of_the_coordinator_is_verified_although_the_next_listens_on_one_of_its_ports() {
    for seed in 0..50 {
        let mut net = ring(3, seed, verified);
        let dead = net.member(0);
        net.kill(0, false);
        net.run(ms(150));
        assert_eq!(net.suspected(1), [dead], "seed {seed}");
    }
}

#[test]
fn members_that_die_together_are_reported_together() {
    let mut net = ring(5, 7, verified);
    let dead = [net.member(2), net.member(3)];
    net.kill(2, false);
    net.kill(3, false);
    net.run(ms(250));
    assert_eq!(net.suspected(0), dead);
}

#[test]
fn a_successor_on_the_same_address_does_not_answer_for_the_dead() {
    let mut net = ring(3, 4, verified);
    let dead = net.member(1);
    net.kill(1, false);
    net.start(1);
    net.run(ms(150));
    assert_eq!(net.suspected(0), [dead]);
}

#[test]
fn a_port_that_does_not_answer_is_no_suspicion() {
    let mut net = Net::new(3, 5, alone);
    net.filtered = (0..8).map(monitor).collect();
    net.install(1, &[0, 1, 2]);
    net.run(ms(4_100));
    assert_eq!(diagnoses(&net), 3);
    net.run(ms(60_000));
    assert!(accused(&net).is_empty());
    net.filtered.clear();
    net.run(ms(10_000));
    assert!((0..3).all(|i| net.gauge(i, "connected") == 1));
}

#[test]
fn a_frozen_member_that_accepts_and_does_not_answer_is_no_suspicion_until_it_dies() {
    let mut net = Net::new(2, 5, verified);
    net.frozen[1] = true;
    net.install(1, &[0, 1]);
    net.run(ms(20_000));
    assert!(accused(&net).is_empty());
    net.kill(1, false);
    net.run(ms(6_000));
    assert_eq!(net.suspected(0), [net.member(1)]);
}

#[test]
fn a_leave_is_no_suspicion() {
    for seed in 0..50 {
        let mut net = ring(3, seed, alone);
        net.leave(1);
        net.run(ms(500));
        net.install_at(0, 2, &[0, 2]);
        net.install_at(2, 2, &[0, 2]);
        net.run(ms(10_000));
        assert!(accused(&net).is_empty(), "seed {seed}");
        assert_eq!(net.streams_between(Port::Monitor, 0, 2), 1, "seed {seed}");
    }
}

#[test]
fn a_leaver_that_stays_in_the_view_is_suspected_after_a_while() {
    let mut net = ring(3, 6, alone);
    net.leave(1);
    net.run(ms(1_900));
    assert!(accused(&net).is_empty());
    net.run(ms(300));
    assert_eq!(accused(&net), [(0, net.member(1))]);
}

#[test]
fn suspicions_are_repeated_until_the_view_changes() {
    let mut net = ring(4, 2, alone);
    net.kill(2, false);
    net.run(ms(5_100));
    assert_eq!(net.suspected(0).len(), 2);
    for i in [0, 1, 3] {
        net.install_at(i, 2, &[0, 1, 3]);
    }
    net.run(ms(20_000));
    assert_eq!(net.suspected(0).len(), 2);
}

#[test]
fn an_idle_ring_has_no_timers() {
    let net = ring(4, 2, verified);
    assert_eq!(net.nodes.iter().flatten().filter_map(crate::node::Node::poll_deadline).min(), None);
}

#[test]
fn churn_of_views_ends_in_a_watched_ring() {
    for seed in 0..50 {
        let mut net = Net::new(5, seed, alone);
        for (n, members) in
            [[0, 1, 2, 3, 4].as_slice(), &[0, 2, 4], &[4, 3, 0, 1], &[2, 1, 0, 3, 4]]
                .into_iter()
                .enumerate()
        {
            for i in members {
                net.install_at(*i, n as u64 + 1, members);
                net.run(Duration::from_micros(300 * seed));
            }
        }
        net.run(ms(8_000));
        assert!((0..5).all(|i| net.gauge(i, "connected") == 1), "seed {seed}");
        assert!(accused(&net).is_empty(), "seed {seed}");
    }
}

fn member(of: &[u64]) -> Solo {
    let mut s = Solo::new(1, alone());
    for m in of {
        let physical = Some(([127, 0, 0, 1], 7000 + *m as u16).into());
        s.stack.inject_change(crate::GroupChange::Learn { member: id(*m), name: None, physical });
    }
    s.install(view(1, of));
    s
}

fn suspect(kind: FdSock2Kind, members: &[u64]) -> WireMessage {
    let members = members.iter().map(|m| id(*m).into()).collect();
    let header = FdSock2Header { kind, members, cluster: None, server: None };
    WireMessage::multicast(Body::Empty)
        .with_header(ProtId::FD_SOCK2, Header::FdSock2(Box::new(header)))
}

fn above(s: &Solo) -> Vec<Uuid> {
    let seen = s.above.lock().expect("nobody panics");
    let lists = seen.iter().filter_map(|(_, e)| match e {
        Event::Suspect(l) => Some(l.iter().map(|s| s.member).collect::<Vec<_>>()),
        _ => None,
    });
    lists.flatten().collect()
}

/// The member connects to `m`, which answers.
fn connect(s: &mut Solo, m: u64) -> ConnId {
    let Some(NetOp::MonitorConnect { conn, to }) = s.stack.poll_net() else {
        panic!("it connects")
    };
    assert_eq!(u64::from(to.port()), 7100 + m);
    s.stack.receive(s.now, NetEvent::MonitorConnected { conn });
    assert!(matches!(s.stack.poll_net(), Some(NetOp::MonitorSend { .. })));
    let header = FdSock2Header {
        kind: FdSock2Kind::ConnectResponse,
        members: Vec::new(),
        cluster: Some(String::from_utf8_lossy(&s.stack.group().cluster).into_owned()),
        server: Some(id(m).into()),
    };
    s.stack.receive(s.now, NetEvent::MonitorFrame { conn, src: id(m), header });
    conn
}

/// Answers every attempt to connect with a refusal.
fn refuse_all(s: &mut Solo) -> Vec<WireMessage> {
    let mut sent = Vec::new();
    loop {
        let ops: Vec<NetOp> = core::iter::from_fn(|| s.stack.poll_net()).collect();
        if ops.is_empty() {
            return sent;
        }
        for op in ops {
            match op {
                NetOp::MonitorConnect { conn, .. } => {
                    s.stack.receive(s.now, NetEvent::MonitorFailed { conn, refused: true });
                }
                NetOp::Frame(f) => sent.extend(f.messages.into_iter().map(|m| m.wire)),
                NetOp::Row(_)
                | NetOp::MonitorSend { .. }
                | NetOp::MonitorClose { .. }
                | NetOp::RetainPeers(_)
                | NetOp::Discovery(_)
                | NetOp::Shutdown => {}
            }
        }
    }
}

#[test]
fn ports_are_tried_in_turn_and_refusal_on_all_is_a_suspicion() {
    let mut s = member(&[1, 2, 3]);
    let mut ports = Vec::new();
    for _ in 0..4 {
        let Some(NetOp::MonitorConnect { conn, to }) = s.stack.poll_net() else {
            panic!("it connects")
        };
        assert!(above(&s).is_empty());
        ports.push(to.port());
        s.stack.receive(s.now, NetEvent::MonitorFailed { conn, refused: true });
    }
    assert_eq!(ports, [7102, 7103, 7104, 7105]);
    assert_eq!(above(&s), [id(2)]);
}

#[test]
fn a_wrong_suspicion_does_not_repeat_in_a_storm() {
    let mut s = member(&[1, 2]);
    let mut suspicions = 0;
    for _ in 0..1_000 {
        let sent = refuse_all(&mut s);
        let is_suspect = |m: &&WireMessage| {
            matches!(m.headers.get(ProtId::FD_SOCK2),
                Some(Header::FdSock2(h)) if h.kind == FdSock2Kind::Suspect)
        };
        if sent.iter().filter(is_suspect).count() > 0 {
            suspicions += 1;
            s.event_down(Event::Unsuspect([id(2)].into()));
        }
        s.run(ms(30));
    }
    assert!((2..=6).contains(&suspicions), "{suspicions} in 30 s");
}

#[test]
fn who_was_cleared_is_announced_and_watched_again() {
    let mut s = member(&[1, 2, 3]);
    refuse_all(&mut s);
    s.event_down(Event::Unsuspect([id(2)].into()));
    let mut unsuspected = false;
    let mut dialled = false;
    while let Some(op) = s.stack.poll_net() {
        match op {
            NetOp::Frame(f) => {
                unsuspected |= f.messages.iter().any(|m| {
                    matches!(m.headers.get(ProtId::FD_SOCK2),
                        Some(Header::FdSock2(h)) if h.kind == FdSock2Kind::Unsuspect)
                });
            }
            NetOp::MonitorConnect { to, .. } => dialled |= to.port() == 7102,
            NetOp::Row(_)
            | NetOp::MonitorSend { .. }
            | NetOp::MonitorClose { .. }
            | NetOp::RetainPeers(_)
            | NetOp::Discovery(_)
            | NetOp::Shutdown => {}
        }
    }
    assert!(unsuspected && dialled);
}

#[test]
fn an_unknown_address_is_asked_for_and_is_no_suspicion() {
    let mut s = Solo::new(1, alone());
    s.install(view(1, &[1, 2]));
    s.run(ms(2_600));
    assert!(above(&s).is_empty());
    let asked = |s: &Solo| {
        let seen = s.below.lock().expect("nobody panics");
        seen.iter().filter(|(_, e)| matches!(e, Event::FindMembers { .. })).count()
    };
    assert_eq!(asked(&s), 6);
    let physical = Some(([127, 0, 0, 1], 7002).into());
    s.stack.inject_change(crate::GroupChange::Learn { member: id(2), name: None, physical });
    s.run(ms(500));
    assert!(matches!(s.stack.poll_net(), Some(NetOp::MonitorConnect { .. })));
}

#[test]
fn suspicions_of_oneself_of_strangers_and_by_strangers_are_ignored() {
    let mut s = member(&[1, 2, 3]);
    s.arrive(2, suspect(FdSock2Kind::Suspect, &[1, 77]));
    s.arrive(9, suspect(FdSock2Kind::Suspect, &[3]));
    assert!(above(&s).is_empty());
    assert_eq!(s.stack.dropped(DropReason::NotAMember), 1);
}

#[test]
fn only_who_would_be_coordinator_passes_a_suspicion_up() {
    let mut s = member(&[2, 1, 3]);
    s.arrive(3, suspect(FdSock2Kind::Suspect, &[3]));
    assert!(above(&s).is_empty());
    s.arrive(3, suspect(FdSock2Kind::Suspect, &[2]));
    assert_eq!(above(&s), [id(2)]);
}

/// 1 hears from 4 that 2 is dead. 3 should act, and is dead as well; its left neighbour was 2.
#[test]
fn who_does_not_act_on_a_repeated_suspicion_is_looked_for() {
    let mut s = member(&[2, 3, 1, 4]);
    connect(&mut s, 4);
    s.arrive(4, suspect(FdSock2Kind::Suspect, &[2]));
    assert!(s.stack.poll_net().is_none(), "3 has time to act");
    s.arrive(4, suspect(FdSock2Kind::Suspect, &[2]));
    let announced = refuse_all(&mut s);
    let expected = suspect(FdSock2Kind::Suspect, &[3]);
    assert!(announced.len() == 1 && announced[0].headers == expected.headers, "{announced:?}");
    assert_eq!(above(&s), [id(3)]);
    let mut connected = 0;
    s.stack.inspect(&mut |_, name, value| connected += u64::from(name == "connected") * value);
    assert_eq!(connected, 1, "4 is still watched");
}

#[test]
fn who_is_there_although_it_does_not_act_is_not_suspected() {
    let mut s = member(&[2, 3, 1, 4]);
    connect(&mut s, 4);
    for _ in 0..3 {
        s.arrive(4, suspect(FdSock2Kind::Suspect, &[2]));
    }
    let conn = connect(&mut s, 3);
    assert!(matches!(s.stack.poll_net(), Some(NetOp::MonitorClose { conn: c }) if c == conn));
    assert!(above(&s).is_empty() && s.stack.poll_net().is_none());
}

#[test]
fn who_is_to_be_excluded_is_announced_as_a_suspect_and_not_passed_up() {
    let mut s = member(&[1, 2, 3]);
    s.sent();
    s.event_down(Event::Exclude([id(3)].into()));
    let headers: Vec<_> =
        s.sent().iter().filter_map(|m| m.headers.get(ProtId::FD_SOCK2).cloned()).collect();
    let expected = suspect(FdSock2Kind::Suspect, &[3]);
    assert_eq!(headers.first(), expected.headers.get(ProtId::FD_SOCK2));
    assert!(above(&s).is_empty(), "whether it is alive is for others to find out");
}

#[test]
fn nothing_is_remembered_of_members_that_left() {
    let mut s = member(&[2, 1, 3]);
    s.arrive(3, suspect(FdSock2Kind::Suspect, &[2]));
    s.install(view(2, &[1, 3]));
    s.install(view(3, &[2, 1, 3]));
    let group: &Group = s.stack.group();
    assert!(group.is_member(id(2)));
    let Some(Answer::Suspicions(list)) = s.ask(&Query::Suspects) else { panic!("it answers") };
    assert!(list.is_empty());
}
