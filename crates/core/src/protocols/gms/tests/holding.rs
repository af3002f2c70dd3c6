use super::*;
use crate::attributes::ByteSize;
use crate::protocols::gms::payload;
use crate::testkit::view;

fn to(m: u64, n: u8) -> wire::Message {
    wire::Message::unicast(id(m), wire::Body::bytes(Vec::from([n])))
}

fn payloads(c: &mut Cluster, m: u64) -> Vec<u8> {
    c.at(m).delivered().iter().map(|(_, b)| b[0]).collect()
}

#[test]
fn unicasts_of_a_sender_outside_the_view_wait_for_the_view_and_keep_their_order() {
    let mut c = Cluster::formed(2);
    for n in 1..=3 {
        c.at(2).arrive(3, to(2, n));
    }
    assert!(payloads(&mut c, 2).is_empty());
    c.at(2).arrive(1, payload::view_multicast(&view(2, &[1, 2, 3]), None).wire);
    c.at(2).arrive(3, to(2, 4));
    assert_eq!(payloads(&mut c, 2), [1, 2, 3, 4]);
}

#[test]
fn the_view_comes_before_what_waited_for_it() {
    let mut c = Cluster::formed(2);
    c.at(2).arrive(3, to(2, 1));
    c.at(2).arrive(1, payload::view_multicast(&view(2, &[1, 2, 3]), None).wire);
    let told = c.at(2).told();
    assert!(matches!(&told[..], [AppEvent::View(_), AppEvent::Deliver(_)]));
}

#[test]
fn unicasts_to_a_joiner_wait_for_its_first_view() {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().push(found(1, true, true));
    c.add(9, GmsConfig::default());
    c.at(9).arrive(1, to(9, 1));
    assert!(payloads(&mut c, 9).is_empty());
    let v = view(4, &[1, 9]);
    let digest = v.members.iter().map(|m| (*m, SeqnoPair::default())).collect();
    let answer = payload::join_response(id(9), &v, &digest, wire::Flags::empty()).unwrap();
    c.at(9).arrive(1, answer.wire);
    assert_eq!(payloads(&mut c, 9), [1]);
}

#[test]
fn beyond_the_limit_the_newest_is_dropped() {
    let config = GmsConfig { max_held_bytes: ByteSize(3 * 128), ..GmsConfig::default() };
    let mut c = Cluster::formed_with(2, &config);
    for n in 1..=4 {
        c.at(2).arrive(3, to(2, n));
    }
    c.at(2).arrive(1, payload::view_multicast(&view(2, &[1, 2, 3]), None).wire);
    assert_eq!(payloads(&mut c, 2), [1, 2, 3]);
}

#[test]
fn what_nobody_ever_owns_up_to_is_dropped_after_a_minute() {
    let mut c = Cluster::formed(1);
    c.at(1).arrive(3, to(1, 1));
    c.at(1).run(ms(60_000));
    c.at(1).arrive(3, payload::join_request(id(1), id(3)).wire);
    c.settle();
    assert_eq!(c.seen_by(1), [1, 3]);
    assert!(payloads(&mut c, 1).is_empty());
}

#[test]
fn what_an_excluded_member_sends_is_dropped() {
    let mut c = Cluster::formed(3);
    c.kill(3);
    c.suspect(1, &[3]);
    c.settle();
    c.at(1).arrive(3, to(1, 1));
    assert_eq!(c.at(1).stack.dropped(crate::DropReason::NotAMember), 1);
}

/// A merge that is over says nothing about messages of whoever is excluded after it.
#[test]
fn what_a_member_sends_that_is_excluded_soon_after_a_merge_is_dropped() {
    let mut c = Cluster::formed(3);
    c.split(&[3]);
    c.suspect(1, &[3]);
    c.suspect(3, &[1, 2]);
    c.settle();
    c.cut.clear();
    while c.seen_by(1) != [1, 2, 3] {
        c.run(ms(100));
    }
    c.kill(3);
    c.suspect(1, &[3]);
    c.settle();
    c.at(1).arrive(3, to(1, 1));
    assert_eq!(c.at(1).stack.dropped(crate::DropReason::NotAMember), 1);
}

#[test]
fn members_of_other_sites_pass() {
    let mut c = Cluster::formed(1);
    let base = wire::address::FlagsUuid { uuid: id(7), flags: 0 };
    let base = wire::address::ExtendedUuid { base, entries: Vec::new() };
    let site = wire::address::SiteUuid { base, site: Some("lon".into()), name: None };
    let mut m = to(1, 1);
    m.src = Some(wire::Address::Site(Box::new(site)));
    c.at(1).arrive(7, m);
    assert_eq!(payloads(&mut c, 1), [1]);
}

#[test]
fn an_unnumbered_multicast_of_a_stranger_is_dropped() {
    let mut c = Cluster::formed(2);
    let m = wire::Message::multicast(wire::Body::bytes(Vec::from([1])));
    c.at(2).arrive(3, m.with_flags(wire::Flags::NO_RELIABILITY));
    assert!(payloads(&mut c, 2).is_empty());
    assert_eq!(c.at(2).stack.dropped(crate::DropReason::NotAMember), 1);
}

#[test]
fn an_unnumbered_multicast_of_a_member_is_delivered() {
    let mut c = Cluster::formed(2);
    let m = wire::Message::multicast(wire::Body::bytes(Vec::from([1])));
    c.at(2).arrive(1, m.with_flags(wire::Flags::NO_RELIABILITY));
    assert_eq!(payloads(&mut c, 2), [1]);
}

/// Unicast number `n` of member 3, of its first connection.
fn numbered(n: i64) -> wire::Message {
    let header = wire::header::UnicastHeader::Data { seqno: n, conn_id: 0, first: n == 1 };
    to(1, n as u8).with_header(ProtId::UNICAST3, Header::Unicast(header))
}

/// A coordinator over UNICAST3 that keeps three messages of a stranger, and was sent five.
fn overfull() -> Cluster {
    let config = GmsConfig { max_held_bytes: ByteSize(3 * 128), ..GmsConfig::default() };
    let mut c = Cluster::formed_over(Layers::Reliable, 2, &config);
    for n in 1..=5 {
        c.at(1).arrive(3, numbered(n));
    }
    c
}

#[test]
fn what_there_is_no_room_for_is_not_acknowledged() {
    let mut c = overfull();
    c.at(1).run(ms(600));
    let sent = c.at(1).sent();
    let to_3 = sent.iter().filter(|m| m.dest == Some(id(3).into()));
    let acked = |m: &wire::Message| match m.headers.get(ProtId::UNICAST3) {
        Some(Header::Unicast(wire::header::UnicastHeader::Ack { seqno, .. })) => Some(*seqno),
        _ => None,
    };
    let acks: Vec<i64> = to_3.filter_map(acked).collect();
    assert_eq!(acks, [3]);
}

#[test]
fn what_there_was_no_room_for_is_delivered_when_it_is_sent_again_after_the_view() {
    let mut c = overfull();
    c.at(1).arrive(3, payload::join_request(id(1), id(3)).wire);
    c.at(1).run(ms(10));
    for n in 4..=5 {
        c.at(1).arrive(3, numbered(n));
    }
    assert_eq!(payloads(&mut c, 1), [1, 2, 3, 4, 5]);
}
