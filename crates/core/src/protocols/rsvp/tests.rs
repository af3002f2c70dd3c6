//! How synchronous sends end.

use super::*;
use crate::app;
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::testkit::{Solo, id, view};
use crate::testkit_cluster::{Cluster, tagged};
use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{self, Address, Body, Flags, Header};
use crate::{OpId, View};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

const SECOND: Duration = Duration::from_secs(1);

fn cluster(n: u64) -> Cluster {
    Cluster::new(n, &MfcConfig::default(), &UfcConfig::default(), 60_000)
}

fn sync(level: SyncLevel) -> app::Sync {
    app::Sync { level, timeout: Some(10 * SECOND), to: None }
}

fn send(c: &mut Cluster, m: wire::Message, s: app::Sync) -> OpId {
    c.send_how(0, m, |send| send.sync = Some(s))
}

fn cast() -> wire::Message {
    wire::Message::multicast(Body::bytes(&b"hello"[..]))
}

#[test]
fn a_send_ends_when_everybody_has_it() {
    let mut c = cluster(3);
    let op = send(&mut c, cast(), sync(SyncLevel::OnContiguous));
    assert_eq!(c.result(0, op), None);
    c.step();
    let o = c.outcome(0, op).expect("it has ended");
    assert_eq!((o.end, o.acknowledged.len()), (SyncEnd::Complete, 3));
}

#[test]
fn at_delivery_the_application_of_every_receiver_must_have_consumed_it() {
    let mut c = cluster(3);
    c.consuming[2] = false;
    let early = send(&mut c, cast(), sync(SyncLevel::OnContiguous));
    let late = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.run(SECOND);
    assert!(c.outcome(0, early).is_some());
    assert_eq!(c.result(0, late), None);
    c.resume(2);
    c.step();
    assert_eq!(c.outcome(0, late).map(|o| o.end), Some(SyncEnd::Complete));
}

#[test]
fn the_sender_counts_when_its_copy_is_queued() {
    let mut c = cluster(2);
    c.consuming[0] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    assert_eq!(c.outcome(0, op).map(|o| o.end), Some(SyncEnd::Complete));
}

#[test]
fn a_sender_that_names_itself_waits_for_its_own_consumption() {
    let mut c = cluster(2);
    c.consuming[0] = false;
    let me = c.id(0);
    let s = app::Sync { to: Some([me].into()), ..sync(SyncLevel::OnDeliver) };
    let op = send(&mut c, cast(), s);
    c.step();
    assert_eq!(c.result(0, op), None);
    c.resume(0);
    c.step();
    assert_eq!(c.outcome(0, op).map(|o| o.end), Some(SyncEnd::Complete));
}

#[test]
fn the_timeout_names_who_is_missing() {
    let mut c = cluster(3);
    c.consuming[2] = false;
    let short = app::Sync { timeout: Some(SECOND / 5), ..sync(SyncLevel::OnDeliver) };
    let short = send(&mut c, cast(), short);
    let long = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.run(SECOND);
    let o = c.outcome(0, short).expect("it has ended");
    assert_eq!((o.end, &o.missing[..]), (SyncEnd::TimedOut, &[c.id(2)][..]));
    assert_eq!(c.result(0, long), None, "another call is not affected");
}

#[test]
fn without_timeout_the_wait_outlasts_a_frozen_member() {
    let mut c = cluster(2);
    c.consuming[1] = false;
    let s = app::Sync { timeout: None, ..sync(SyncLevel::OnDeliver) };
    let op = send(&mut c, cast(), s);
    c.run(100 * SECOND);
    assert_eq!(c.result(0, op), None);
    c.resume(1);
    c.step();
    assert_eq!(c.outcome(0, op).map(|o| o.end), Some(SyncEnd::Complete));
}

/// Who is sent the message again, in ten seconds in which C reads nothing.
fn repeated(lost: bool) -> Vec<Uuid> {
    let mut c = cluster(3);
    c.consuming[2] = false;
    c.lose = Box::new(move |_, to, m| lost && to == tagged(3) && m.has(Flags::RSVP));
    let s = app::Sync { timeout: None, ..sync(SyncLevel::OnDeliver) };
    let op = send(&mut c, cast(), s);
    c.run(10 * SECOND);
    assert_eq!(c.result(0, op), None);
    let events = c.members[0].below.lock().expect("no test panics while it holds this");
    let to = events.iter().filter_map(|(_, ev)| match ev {
        Event::RepeatSync { to, .. } => Some(to.clone()),
        _ => None,
    });
    to.flatten().collect()
}

#[test]
fn a_message_is_repeated_to_who_lacks_it_and_not_to_who_does_not_read_it() {
    assert_eq!(repeated(false), []);
    assert_eq!(repeated(true), [tagged(3); 5]);
}

#[test]
fn a_member_that_leaves_is_no_longer_awaited() {
    let mut c = cluster(3);
    c.consuming[2] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    c.install(&[0, 1]);
    c.step();
    let o = c.outcome(0, op).expect("it has ended");
    assert_eq!((o.end, &o.left[..]), (SyncEnd::Complete, &[c.id(2)][..]));
}

#[test]
fn a_member_that_a_merge_brings_back_is_no_longer_awaited() {
    let mut c = cluster(3);
    c.consuming[2] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    let ids = [c.id(0), c.id(1), c.id(2)];
    let ours = View::new(1, ids[0], [ids[0], ids[1]]);
    let theirs = View::new(2, ids[2], [ids[2]]);
    let merged = View { subgroups: [ours, theirs].into(), ..View::new(9, ids[0], ids) };
    c.members[0].install(Arc::new(merged));
    c.step();
    let o = c.outcome(0, op).expect("it has ended");
    assert_eq!((o.end, &o.left[..]), (SyncEnd::Complete, &[ids[2]][..]));
}

#[test]
fn leaving_ends_the_wait_and_names_who_is_missing() {
    let mut c = cluster(2);
    c.consuming[1] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    c.members[0].event_down(Event::Disconnect);
    c.step();
    let o = c.outcome(0, op).expect("it has ended");
    assert_eq!((o.end, &o.missing[..]), (SyncEnd::Closed, &[c.id(1)][..]));
}

#[test]
fn a_unicast_waits_for_its_receiver_and_a_subset_for_its_members() {
    let mut c = cluster(4);
    c.consuming[2] = false;
    let (b, d) = (c.id(1), c.id(3));
    let m = wire::Message::unicast(b, Body::bytes(&b"one"[..]));
    let one = send(&mut c, m, sync(SyncLevel::OnDeliver));
    let s = app::Sync { to: Some([b, d].into()), ..sync(SyncLevel::OnDeliver) };
    let two = send(&mut c, cast(), s);
    c.step();
    assert_eq!(c.outcome(0, one).map(|o| o.acknowledged.clone()), Some([b].into()));
    let mut acknowledged = c.outcome(0, two).expect("it has ended").acknowledged.clone();
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, [b, d]);
    assert!(c.delivered[2].is_empty(), "others do not get it");
}

#[test]
fn a_send_that_was_never_admitted_is_reported_as_not_sent() {
    let config = UfcConfig { max_credits: crate::attributes::ByteSize(1000), ..<_>::default() };
    let mut c = Cluster::new(2, &MfcConfig::default(), &config, 60_000);
    c.consuming[1] = false;
    c.unicast(0, 1, 1000, 1);
    let b = c.id(1);
    let s = app::Sync { timeout: Some(SECOND), ..sync(SyncLevel::OnDeliver) };
    let op = send(&mut c, wire::Message::unicast(b, Body::bytes(&b"x"[..])), s);
    c.run(2 * SECOND);
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::NotSent { by: [b].into() }));
    assert_eq!(c.gauge(0, "RSVP", "pending_rsvp_requests"), 0);
}

/// An attempt at B and C with 500 bytes, where B has no credit left and C has.
fn attempt_at_two() -> (Cluster, OpId) {
    let config = UfcConfig { max_credits: crate::attributes::ByteSize(1000), ..<_>::default() };
    let mut c = Cluster::new(3, &MfcConfig::default(), &config, 60_000);
    c.consuming[1] = false;
    c.unicast(0, 1, 1000, 1);
    let to = Some([c.id(1), c.id(2)].into());
    let op = c.send_how(0, wire::Message::multicast(Body::bytes([7].repeat(500))), |send| {
        send.try_only = true;
        send.sync = Some(app::Sync { timeout: None, to, ..sync(SyncLevel::OnDeliver) });
    });
    c.step();
    (c, op)
}

#[test]
fn an_attempt_at_a_subset_is_refused_whole_by_who_has_no_credit() {
    let (c, op) = attempt_at_two();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::WouldBlock { by: [c.id(1)].into() }));
    assert!(c.delivered[2].is_empty(), "nobody gets a part of it");
    assert_eq!(c.gauge(0, "RSVP", "pending_rsvp_requests"), 0);
}

#[test]
fn giving_up_after_admission_ends_only_the_wait() {
    let mut c = cluster(2);
    c.consuming[1] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    c.cancel(0, op);
    c.step();
    assert_eq!(c.outcome(0, op).map(|o| o.end), Some(SyncEnd::Abandoned));
    assert_eq!(c.delivered[1].len(), 1);
}

#[test]
fn a_large_synchronous_message_is_acknowledged_as_a_whole() {
    let mut c = cluster(2);
    let m = wire::Message::multicast(Body::bytes([1].repeat(500_000)));
    let op = send(&mut c, m, sync(SyncLevel::OnDeliver));
    c.step();
    assert_eq!(c.outcome(0, op).map(|o| o.end), Some(SyncEnd::Complete));
    assert_eq!(c.delivered[1].len(), 1);
}

#[test]
fn a_foreign_id_is_echoed_whole() {
    let mut s = Solo::new(1, [Box::new(Rsvp::new(RsvpConfig::default())) as Box<_>].into());
    s.install(view(1, &[1, 2]));
    let header = RsvpHeader { kind: RsvpKind::Request, id: -1 };
    let m = wire::Message::multicast(Body::bytes(&b"x"[..]))
        .with_flags(Flags::RSVP)
        .with_header(ProtId::RSVP, Header::Rsvp(header));
    s.arrive(2, m);
    assert!(s.sent().is_empty(), "Java's default is at delivery");
    for ev in s.told() {
        if let crate::AppEvent::Deliver(d) = ev {
            s.stack.submit(s.now, crate::Command::Consumed(d.consumed()));
        }
    }
    let answers = s.sent();
    assert_eq!(answers.len(), 1);
    let expected = RsvpHeader { kind: RsvpKind::Response, id: -1 };
    assert_eq!(answers[0].headers.get(ProtId::RSVP), Some(&Header::Rsvp(expected)));
    assert_eq!(answers[0].dest.as_ref().and_then(Address::uuid), Some(id(2)));
}

#[test]
fn an_acknowledgement_of_another_id_or_stranger_completes_nothing() {
    let mut c = cluster(2);
    c.consuming[1] = false;
    let op = send(&mut c, cast(), sync(SyncLevel::OnDeliver));
    c.step();
    let right = with_level(0, SyncLevel::OnDeliver);
    let wrong = with_level(0, SyncLevel::OnContiguous);
    let ack = |from: Uuid, id: i16| {
        let header = RsvpHeader { kind: RsvpKind::Response, id };
        let mut m = wire::Message::unicast(tagged(1), Body::Empty)
            .with_flags(Flags::OOB | Flags::NO_FC)
            .with_header(ProtId::RSVP, Header::Rsvp(header));
        m.src = Some(from.into());
        m
    };
    for m in [ack(tagged(2), wrong), ack(tagged(2), 77), ack(tagged(9), right)] {
        c.members[0].arrive(1, m);
    }
    c.step();
    assert_eq!(c.result(0, op), None);
    c.members[0].arrive(1, ack(tagged(2), right));
    c.step();
    assert!(c.outcome(0, op).is_some());
}

#[test]
fn at_most_half_of_the_ids_are_outstanding_and_further_sends_wait() {
    let mut c = cluster(2);
    c.lose = Box::new(|_, _, m| m.has(Flags::RSVP) && m.headers.get(ProtId::RSVP).is_some());
    let s = || app::Sync { timeout: None, ..sync(SyncLevel::OnDeliver) };
    for _ in 0..MAX_OUTSTANDING {
        send(&mut c, wire::Message::multicast(Body::Empty).with_flags(Flags::NO_FC), s());
    }
    let first = c.resolved[0].len();
    let beyond = send(&mut c, cast(), s());
    c.step();
    assert_eq!((first, c.result(0, beyond)), (0, None));
    assert_eq!(c.gauge(0, "RSVP", "pending_rsvp_requests"), MAX_OUTSTANDING as u64);
    assert_eq!(c.gauge(0, "ENTRY", "waiting_messages"), 1);
    c.lose = Box::new(|_, _, _| false);
    c.install(&[0]);
    c.step();
    assert!(c.outcome(0, beyond).is_some());
}
