//! Tests of discovery alone.

use super::*;
use crate::testkit::{Solo, exchange, id, view};
use crate::wire::{self, Body, Flags, IpAddress};
use alloc::boxed::Box;
use alloc::string::{String, ToString};

fn ping() -> Discovery {
    Discovery::new(PingConfig::default())
}

fn tcpping(config: TcpPingConfig) -> Discovery {
    Discovery::new(config)
}

fn member(me: u64, d: Discovery) -> Solo {
    Solo::new(me, [Box::new(d) as Box<dyn Protocol>].into())
}

fn at(m: u64) -> SocketAddr {
    ([127, 0, 0, 1], 7000 + m as u16).into()
}

fn hosts(ports: &[u16]) -> Vec<SocketAddr> {
    ports.iter().map(|p| ([127, 0, 0, 1], *p).into()).collect()
}

/// What member `m` says of itself.
fn data(m: u64, server: bool, coordinator: bool) -> PingData {
    PingData {
        sender: Some(id(m).into()),
        server,
        coordinator,
        name: Some(std::format!("M{m}")),
        physical: Some(at(m).into()),
        wanted: None,
    }
}

fn message(prot: wire::ProtId, header: PingHeader, list: &[PingData]) -> wire::Message {
    let mut bytes = Vec::new();
    PingData::encode_list(list, &mut bytes);
    wire::Message { body: Body::bytes(bytes), ..wire::Message::default() }
        .with_flags(Flags::OOB | Flags::DONT_BUNDLE)
        .with_header(prot, Header::Ping(header))
}

fn answer(of: PingData) -> wire::Message {
    let header = PingHeader { kind: PingKind::Response, cluster: None, initial: false };
    wire::Message { dest: Some(id(1).into()), ..message(wire::ProtId::PING, header, &[of]) }
}

fn request(of: PingData, initial: bool) -> wire::Message {
    let cluster = Some("test".to_string());
    let header = PingHeader { kind: PingKind::Request, cluster, initial };
    message(wire::ProtId::PING, header, &[of])
}

fn join(s: &mut Solo) {
    s.event_down(Event::FindMembers { purpose: Purpose::Join, wanted: None });
}

/// The reports that reached the layers above, oldest first.
fn found(s: &Solo) -> Vec<(Purpose, Vec<Uuid>)> {
    let events = s.above.lock().unwrap();
    let reports = events.iter().filter_map(|(_, e)| match e {
        Event::Found { purpose, members } => {
            Some((*purpose, members.iter().map(|f| f.member).collect()))
        }
        _ => None,
    });
    reports.collect()
}

/// Discovery messages that were sent: header, description, destination.
fn sent(s: &mut Solo) -> Vec<(PingHeader, Vec<PingData>, Option<Address>)> {
    let parts = s.sent().into_iter().filter_map(|m| {
        let (_, header) = m.headers.iter().next()?;
        let Header::Ping(h) = header.clone() else { return None };
        Some((h, messages::payload(&m.clone().into()).unwrap(), m.dest))
    });
    parts.collect()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn a_joiner_multicasts_a_request_that_describes_it_as_a_client() {
    let mut s = member(1, ping());
    join(&mut s);
    let m = s.sent().remove(0);
    assert_eq!((m.dest.clone(), m.flags), (None, Flags::OOB | Flags::DONT_BUNDLE));
    let Some(Header::Ping(h)) = m.headers.get(wire::ProtId::PING) else { panic!("{m:?}") };
    let cluster = Some("test".to_string());
    assert_eq!(*h, PingHeader { kind: PingKind::Request, cluster, initial: true });
    assert_eq!(messages::payload(&m.into()).unwrap(), [data(1, false, false)]);
}

#[test]
fn nobody_answers_and_the_wait_ends_once_with_nothing() {
    let mut s = member(1, ping());
    join(&mut s);
    s.run(ms(999));
    assert_eq!(found(&s), []);
    s.run(ms(5_000));
    assert_eq!(found(&s), [(Purpose::Join, [].into())]);
}

#[test]
fn a_request_without_answer_is_repeated_until_the_wait_is_over() {
    let mut s = member(1, ping());
    join(&mut s);
    assert_eq!(sent(&mut s).len(), 1);
    s.run(ms(124));
    assert_eq!(sent(&mut s).len(), 0);
    s.run(ms(875));
    assert_eq!(sent(&mut s).len(), 7);
    s.run(ms(5_000));
    assert_eq!(sent(&mut s).len(), 0);
}

#[test]
fn a_request_with_an_answer_is_not_repeated() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(2, answer(data(2, true, false)));
    let _ = s.sent();
    s.run(ms(2_000));
    assert_eq!(sent(&mut s).len(), 0);
    assert_eq!(found(&s), [(Purpose::Join, [id(2)].into())]);
}

#[test]
fn the_first_answer_of_a_coordinator_ends_the_wait() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(3, answer(data(3, true, false)));
    assert_eq!(found(&s), []);
    s.arrive(2, answer(data(2, true, true)));
    assert_eq!(found(&s), [(Purpose::Join, [id(2), id(3)].into())]);
    s.run(ms(5_000));
    assert_eq!(found(&s).len(), 1);
}

#[test]
fn other_joiners_are_found_by_their_requests() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(2, request(data(2, false, false), true));
    s.run(ms(1_000));
    assert_eq!(found(&s), [(Purpose::Join, [id(2)].into())]);
}

/// What member 1, a joiner, sent to member 2.
fn answers(s: &mut Solo) -> usize {
    sent(s).iter().filter(|(_, _, dest)| *dest == Some(id(2).into())).count()
}

#[test]
fn a_joiner_answers_another_one_when_no_coordinator_has_done_so() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(2, request(data(2, false, false), true));
    s.run(ms(49));
    assert_eq!(answers(&mut s), 0);
    s.run(ms(1));
    assert_eq!(answers(&mut s), 1);
    s.run(ms(500));
    assert_eq!(answers(&mut s), 0, "once");
}

#[test]
fn of_many_that_join_together_none_answers_another() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(2, request(data(2, false, false), true));
    s.arrive(3, answer(data(3, true, true)));
    s.arrive(2, request(data(2, false, false), true));
    s.run(ms(500));
    assert_eq!(answers(&mut s), 0, "the coordinator answers");
    join(&mut s);
    s.arrive(2, request(data(2, false, false), true));
    s.run(ms(100));
    assert_eq!(answers(&mut s), 1, "it could not be joined: who is the coordinator is open again");
}

#[test]
fn over_tcp_a_joiner_answers_at_once_as_the_coordinator_may_not_have_been_asked() {
    let config = TcpPingConfig { initial_hosts: hosts(&[7001, 7002]), ..TcpPingConfig::default() };
    let mut s = member(1, tcpping(config));
    join(&mut s);
    let _ = s.sent();
    let header =
        PingHeader { kind: PingKind::Request, cluster: Some("test".into()), initial: true };
    s.arrive(2, message(wire::ProtId::TCPPING, header, &[data(2, false, false)]));
    assert_eq!(answers(&mut s), 1);
}

#[test]
fn a_member_that_asks_for_addresses_is_not_taken_for_a_joiner() {
    let mut s = member(1, ping());
    join(&mut s);
    s.arrive(2, request(data(2, false, false), false));
    s.run(ms(1_000));
    assert_eq!(found(&s), [(Purpose::Join, [].into())]);
}

#[test]
fn for_other_purposes_each_answer_is_reported_at_once() {
    let mut s = member(1, ping());
    s.event_down(Event::FindMembers { purpose: Purpose::Merge, wanted: None });
    assert!(!sent(&mut s)[0].0.initial);
    s.arrive(2, answer(data(2, true, true)));
    s.arrive(3, answer(data(3, true, false)));
    let each = [(Purpose::Merge, [id(2)].into()), (Purpose::Merge, [id(3)].into())];
    assert_eq!(found(&s), each);
}

#[test]
fn answers_state_the_role_in_the_installed_view() {
    let mut s = member(1, ping());
    let ask = |s: &mut Solo| {
        s.arrive(5, request(data(5, false, false), true));
        let (h, list, dest) = sent(s).remove(0);
        assert_eq!((h.kind, dest), (PingKind::Response, Some(id(5).into())));
        (list[0].server, list[0].coordinator)
    };
    assert_eq!(ask(&mut s), (false, false));
    s.install(view(1, &[1, 2]));
    assert_eq!(ask(&mut s), (false, false));
    s.event_down(Event::BecomeServer);
    assert_eq!(ask(&mut s), (true, true));
    s.install(view(2, &[2, 1]));
    assert_eq!(ask(&mut s), (true, false));
}

#[test]
fn a_leaving_member_ignores_discovery() {
    let mut s = member(1, ping());
    s.event_down(Event::Disconnect);
    s.arrive(5, request(data(5, false, false), true));
    assert_eq!(sent(&mut s).len(), 0);
    assert_eq!(s.stack.group().addresses.physical(id(5)), None);
    assert_eq!(s.stack.dropped(DropReason::NotConnected), 1);
}

#[test]
fn only_who_is_wanted_answers() {
    let mut s = member(1, ping());
    let mut ask = |wanted: u64| {
        let wanted = Some([Address::from(id(wanted))].into());
        s.arrive(5, request(PingData { wanted, ..data(5, false, false) }, false));
        sent(&mut s).len()
    };
    assert_eq!((ask(9), ask(1)), (0, 1));
}

#[test]
fn low_ranks_alone_answer_joiners_if_so_configured() {
    let config = PingConfig { max_rank_to_reply: 1, ..PingConfig::default() };
    let mut s = member(1, Discovery::new(config));
    s.install(view(1, &[2, 1]));
    let _ = s.sent();
    s.arrive(5, request(data(5, false, false), true));
    assert_eq!(sent(&mut s).len(), 0);
    s.arrive(5, request(data(5, false, false), false));
    assert_eq!(sent(&mut s).len(), 1);
}

#[test]
fn the_whole_cache_is_returned_if_so_configured() {
    let config = PingConfig { return_entire_cache: true, ..PingConfig::default() };
    let mut s = member(1, Discovery::new(config));
    s.arrive(2, answer(data(2, true, false)));
    s.arrive(5, request(data(5, false, false), true));
    let (_, list, _) = sent(&mut s).remove(0);
    let named: Vec<_> = list.iter().filter_map(|d| d.sender.as_ref()?.uuid()).collect();
    assert_eq!(named, [id(1), id(2)]);
}

#[test]
fn names_and_addresses_are_learned_and_the_transport_is_told() {
    let mut s = member(1, ping());
    s.arrive(2, answer(data(2, true, false)));
    let book = &s.stack.group().addresses;
    assert_eq!(book.physical(id(2)), Some(at(2)));
    assert_eq!(book.name(id(2)).map(|n| String::from(&**n)), Some("M2".into()));
    let told = |(dir, e): &(Dir, Event)| {
        *dir == Dir::Down && matches!(e, Event::AddressLearned(m) if *m == id(2))
    };
    assert!(s.below.lock().unwrap().iter().any(told));
}

#[test]
fn requests_of_another_cluster_leave_no_trace() {
    let mut s = member(1, ping());
    let header =
        PingHeader { kind: PingKind::Request, cluster: Some("other".into()), initial: true };
    s.arrive(2, message(wire::ProtId::PING, header, &[data(2, true, true)]));
    assert_eq!(s.stack.group().addresses.physical(id(2)), None);
    assert_eq!(sent(&mut s).len(), 0);
    assert_eq!(s.stack.dropped(DropReason::WrongCluster), 1);
}

#[test]
fn nonsense_is_counted() {
    let mut s = member(1, ping());
    let mut m = answer(data(2, true, true));
    m.body = Body::bytes(&b"\x7f\xff\xff\xff"[..]);
    s.arrive(2, m);
    let nobody =
        PingData { sender: Some(Address::Ip(IpAddress::from(at(2)))), ..data(2, true, true) };
    s.arrive(2, answer(nobody));
    assert_eq!(s.stack.dropped(DropReason::Malformed), 2);
}

#[test]
fn an_unknown_member_is_asked_for_by_name() {
    let mut s = member(1, ping());
    s.event_up(Event::WhoHas(id(7)));
    s.event_up(Event::WhoHas(id(8)));
    s.run(ms(0));
    let requests = sent(&mut s);
    assert_eq!(requests.len(), 1);
    let (h, list, dest) = &requests[0];
    assert_eq!((h.kind, h.initial, dest), (PingKind::Request, false, &None));
    assert_eq!(list[0].wanted, Some([id(7).into(), id(8).into()].into()));
    s.event_up(Event::WhoHas(id(7)));
    s.run(ms(1_999));
    assert_eq!(sent(&mut s).len(), 0);
}

#[test]
fn a_limit_of_no_member_per_request_does_not_keep_the_timer_busy() {
    let config = PingConfig { max_members_in_discovery_request: 0, ..PingConfig::default() };
    let mut s = member(1, Discovery::new(config));
    s.event_up(Event::WhoHas(id(7)));
    for _ in 0..3 {
        s.stack.advance(s.now, false);
    }
    assert!(s.stack.poll_deadline().is_none_or(|at| at > s.now));
}

#[test]
fn a_message_that_describes_too_many_members_is_nonsense() {
    let mut s = member(1, ping());
    let many = |n| alloc::vec![data(2, true, false); n];
    let header = PingHeader { kind: PingKind::Response, cluster: None, initial: false };
    s.arrive(2, message(wire::ProtId::PING, header.clone(), &many(PingData::MAX_LISTED)));
    assert_eq!(s.stack.dropped(DropReason::Malformed), 0);
    s.arrive(2, message(wire::ProtId::PING, header, &many(PingData::MAX_LISTED + 1)));
    assert_eq!(s.stack.dropped(DropReason::Malformed), 1);
}

#[test]
fn unknown_members_of_a_view_are_asked_for_at_once() {
    let mut s = member(1, ping());
    s.arrive(2, answer(data(2, true, true)));
    s.install(view(1, &[2, 1, 3]));
    s.run(ms(0));
    assert_eq!(sent(&mut s)[0].1[0].wanted, Some([id(3).into()].into()));
}

#[test]
fn over_tcp_every_port_of_the_range_is_asked_but_the_own_one() {
    let config = TcpPingConfig { initial_hosts: hosts(&[7000]), ..TcpPingConfig::default() };
    let mut s = member(1, tcpping(config));
    join(&mut s);
    let asked: Vec<_> = sent(&mut s).into_iter().map(|(_, _, dest)| dest).collect();
    let expected: Vec<_> = hosts(&[7000, 7002]).into_iter().map(|a| Some(a.into())).collect();
    assert_eq!(asked, expected);
}

#[test]
fn hosts_that_were_heard_of_are_asked_too_up_to_a_limit() {
    let config = TcpPingConfig { max_dynamic_hosts: 1, ..TcpPingConfig::default() };
    let mut d = tcpping(config);
    d.remember_host(at(20));
    d.remember_host(at(21));
    let mut s = member(1, d);
    join(&mut s);
    let asked: Vec<_> = sent(&mut s).into_iter().map(|(_, _, dest)| dest).collect();
    assert_eq!(asked, [Some(at(21).into())]);
}

#[test]
fn over_tcp_the_coordinator_tells_old_and_new_members_of_each_other() {
    let mut s = member(1, tcpping(TcpPingConfig::default()));
    for m in [2, 3] {
        let header = PingHeader { kind: PingKind::Response, cluster: None, initial: false };
        s.arrive(m, message(wire::ProtId::TCPPING, header, &[data(m, false, false)]));
    }
    s.event_down(Event::BecomeServer);
    s.install(view(1, &[1, 2]));
    let _ = s.sent();
    s.install(view(2, &[1, 2, 3]));
    let told = sent(&mut s);
    let about = |to: u64| -> Vec<PingData> {
        let mine = told.iter().filter(|(_, _, dest)| *dest == Some(id(to).into()));
        mine.flat_map(|(_, list, _)| list.clone()).collect()
    };
    assert_eq!(about(2), [data(3, true, false)]);
    assert_eq!(about(3), [data(1, true, true), data(2, true, false)]);
}

#[test]
fn over_tcp_the_coordinator_answers_for_a_member_that_the_request_cannot_reach() {
    let mut s = member(1, tcpping(TcpPingConfig::default()));
    let header = PingHeader { kind: PingKind::Response, cluster: None, initial: false };
    s.arrive(2, message(wire::ProtId::TCPPING, header, &[data(2, false, false)]));
    s.event_down(Event::BecomeServer);
    s.install(view(1, &[1, 2]));
    let _ = s.sent();
    let cluster = Some("test".to_string());
    let header = PingHeader { kind: PingKind::Request, cluster, initial: false };
    let wanted = Some([Address::from(id(2))].into());
    let of = PingData { wanted, ..data(5, false, false) };
    s.arrive(5, message(wire::ProtId::TCPPING, header, &[of]));
    assert_eq!(sent(&mut s)[0].1, [data(2, true, false)]);
}

#[test]
fn over_tcp_only_the_coordinator_tells() {
    let mut s = member(1, tcpping(TcpPingConfig::default()));
    s.install(view(1, &[2, 1]));
    s.install(view(2, &[2, 1, 3]));
    assert!(sent(&mut s).iter().all(|(h, _, _)| h.kind == PingKind::Request));
}

#[test]
fn two_joiners_find_each_other() {
    let mut both = [member(1, ping()), member(2, ping())];
    both.iter_mut().for_each(join);
    exchange(&mut both, |_, _, _| false);
    for s in &mut both {
        s.run(ms(1_000));
    }
    assert_eq!(found(&both[0]), [(Purpose::Join, [id(2)].into())]);
    assert_eq!(found(&both[1]), [(Purpose::Join, [id(1)].into())]);
}

#[test]
fn a_joiner_finds_the_coordinator_although_its_first_request_is_lost() {
    let mut both = [member(1, ping()), member(2, ping())];
    both[0].install(view(1, &[1]));
    both[0].event_down(Event::BecomeServer);
    join(&mut both[1]);
    exchange(&mut both, |from, _, _| from == id(2));
    both[1].run(ms(500));
    exchange(&mut both, |_, _, _| false);
    assert_eq!(found(&both[1]), [(Purpose::Join, [id(1)].into())]);
}

fn asks(ports: &[u16]) -> Solo {
    let config =
        TcpPingConfig { initial_hosts: hosts(ports), port_range: 0, ..TcpPingConfig::default() };
    let mut s = member(1, tcpping(config));
    join(&mut s);
    s
}

fn nobody_at(s: &mut Solo, ports: &[u16]) {
    for at in hosts(ports) {
        s.event_up(Event::NobodyAt(Some(at)));
    }
}

#[test]
fn the_wait_ends_when_every_address_that_was_asked_refuses() {
    let mut s = asks(&[7002, 7003]);
    nobody_at(&mut s, &[7002]);
    s.run(ms(10));
    assert_eq!(found(&s), []);
    nobody_at(&mut s, &[7003]);
    assert_eq!(found(&s), [(Purpose::Join, [].into())]);
    s.run(ms(5_000));
    assert_eq!(found(&s).len(), 1, "reported once");
}

#[test]
fn an_address_that_is_silent_is_waited_for() {
    let mut s = asks(&[7002, 7003]);
    nobody_at(&mut s, &[7003, 7003, 7099]);
    s.run(ms(1_999));
    assert_eq!(found(&s), []);
    s.run(ms(1));
    assert_eq!(found(&s).len(), 1);
}

#[test]
fn who_heard_of_another_joiner_waits_although_all_that_were_asked_refuse() {
    let mut s = asks(&[7003]);
    let cluster = Some("test".to_string());
    let header = PingHeader { kind: PingKind::Request, cluster, initial: true };
    s.arrive(2, message(wire::ProtId::TCPPING, header, &[data(2, false, false)]));
    nobody_at(&mut s, &[7003]);
    assert_eq!(found(&s), []);
}

#[test]
fn who_asks_nobody_does_not_wait() {
    let mut s = asks(&[]);
    s.run(ms(1));
    assert_eq!(found(&s), [(Purpose::Join, [].into())]);
}

#[test]
fn the_first_on_a_hub_does_not_wait() {
    let mut s = member(1, Discovery::new(LocalPingConfig::default()));
    join(&mut s);
    s.event_up(Event::NobodyAt(None));
    assert_eq!(found(&s), [(Purpose::Join, [].into())]);
}
