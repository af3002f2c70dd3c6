//! What travels, what hostile bytes do, and who is told what.

use super::payload::{Arrived, Commit, Cut, Holding, Own, Report};
use super::ranges::Ranges;
use super::*;
use crate::protocols::reliable::Nakack2Config;
use crate::testkit::{Probe, Solo};
use crate::wire::header::NakAckHeader;
use crate::wire::{Body, Decode, Encode, Header, ProtId};
use crate::{Answer, Message, Protocol, Query};
use alloc::boxed::Box;

fn report() -> Report {
    let window = Holding {
        of: Uuid::new(1, 2),
        low: 3,
        delivered: 7,
        received: 20,
        missing: [8, 9, 12].into_iter().collect(),
        ahead: [11].into_iter().collect(),
        cut: Some(Cut { upto: 10, ahead: [13].into_iter().collect(), certain: true }),
    };
    let windows = [window.clone(), Holding { cut: None, ..window }].into();
    Report { windows, own: None }
}

#[test]
fn both_payloads_travel_whole() {
    let view = ViewId { id: 4, creator: Uuid::new(1, 1) };
    let to = Uuid::new(5, 5);
    let m = payload::report(to, view, &report()).into();
    assert!(payload::is_ours(&m));
    assert!(matches!(payload::read(&m), Some(Arrived::Report(v, r)) if v == view && r == report()));
    let cut = Cut { upto: 9, ahead: Ranges::default(), certain: false };
    let commit = Commit { cuts: [(Uuid::new(1, 2), cut)].into() };
    let m = payload::commit(to, view, &commit).into();
    assert!(matches!(payload::read(&m), Some(Arrived::Commit(v, c)) if v == view && c == commit));
}

#[test]
fn what_a_member_says_of_itself_travels_with_the_report() {
    let own = Own { sent: 7, with: [0, 1, 3].into_iter().collect() };
    let whole = Report { own: Some(own), ..report() };
    let bytes = whole.to_bytes();
    assert_eq!(Report::from_bytes(bytes.clone()), Ok(whole));
    for n in report().to_bytes().len() + 1..bytes.len() {
        assert!(Report::from_bytes(bytes.slice(..n)).is_err(), "{n} bytes");
    }
}

#[test]
fn a_payload_that_is_cut_short_is_refused() {
    let bytes = report().to_bytes();
    for n in 0..bytes.len() {
        assert!(Report::from_bytes(bytes.slice(..n)).is_err(), "{n} bytes");
    }
}

#[test]
fn numbers_that_no_window_can_have_are_refused() {
    for (low, delivered, received) in [(5, 4, 9), (1, 9, 8), (1, 2, i64::MAX)] {
        let window = Holding { low, delivered, received, ..report().windows[0].clone() };
        let bytes = Report { windows: [window].into(), own: None }.to_bytes();
        assert!(Report::from_bytes(bytes).is_err(), "{low} {delivered} {received}");
    }
}

#[test]
fn a_report_of_stability_in_the_way_of_jgroups_is_none_of_ours() {
    let mut m = Message::from(payload::report(
        Uuid::new(5, 5),
        ViewId { id: 4, creator: Uuid::new(1, 1) },
        &report(),
    ));
    m.body = Body::Empty;
    assert!(!payload::is_ours(&m));
}

/// A member that takes part, by number.
fn survivor(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::TAIL_REPAIR)
}

fn view(n: u64, creator: u64, members: &[u64]) -> Arc<View> {
    let members: Vec<Uuid> = members.iter().map(|m| survivor(*m)).collect();
    Arc::new(View::new(n, survivor(creator), members))
}

/// Member 2 in a view of 1, 2, 3 and 9, of which 9 has sent one message that arrived.
fn member_two() -> Solo {
    let layers: [Box<dyn Protocol>; 2] = [
        Box::new(ReliableMulticast::new(Nakack2Config::default())),
        Box::new(Probe(Arc::default())),
    ];
    let mut s = Solo::topped(2, survivor(2), layers.into());
    s.install(view(1, 1, &[1, 2, 3, 9]));
    s.event_down(Event::BecomeServer);
    let header = Header::NakAck(NakAckHeader::Msg(1));
    let m = crate::wire::Message::multicast(Body::bytes("x")).with_header(ProtId::NAKACK2, header);
    from(&mut s, 9, m);
    s
}

fn from(s: &mut Solo, n: u64, mut m: crate::wire::Message) {
    m.src = Some(survivor(n).into());
    s.arrive(n, m);
}

/// 3 asks about the end of 9, of which it has nothing.
fn asks(s: &mut Solo, about: &View) {
    let (missing, ahead) = (Ranges::default(), Ranges::default());
    let nothing =
        Holding { of: survivor(9), low: 0, delivered: 0, received: 0, missing, ahead, cut: None };
    let report = Report { windows: [nothing].into(), own: None };
    from(s, 3, payload::report(survivor(2), about.id, &report));
}

fn decisions(s: &mut Solo) -> Vec<Commit> {
    let ours = s.sent().into_iter().map(Message::from).filter(payload::is_ours);
    ours.filter_map(|m| match payload::read(&m) {
        Some(Arrived::Commit(_, c)) => Some(c),
        Some(Arrived::Report(..)) | None => None,
    })
    .collect()
}

#[test]
fn a_decision_is_told_to_those_who_wait_for_the_same_view() {
    let mut s = member_two();
    let ours = view(2, 2, &[2, 3]);
    s.event_down(Event::Freeze { view: Arc::clone(&ours), synchronous: None });
    asks(&mut s, &ours);
    assert_eq!(decisions(&mut s).len(), 1);
}

#[test]
fn a_decision_is_not_told_to_those_who_wait_for_the_view_of_another_part_of_the_group() {
    let mut s = member_two();
    let ours = view(2, 2, &[2, 3]);
    s.event_down(Event::Freeze { view: Arc::clone(&ours), synchronous: None });
    s.run(PATIENCE);
    s.install(ours);
    asks(&mut s, &view(2, 1, &[1, 2, 3]));
    assert_eq!(decisions(&mut s), []);
}

#[test]
fn who_waits_for_a_view_that_is_not_known_here_yet_is_told_when_it_is_installed() {
    let mut s = member_two();
    let (first, second) = (view(2, 2, &[2, 3]), view(3, 2, &[2, 3, 4]));
    s.event_down(Event::Freeze { view: Arc::clone(&first), synchronous: None });
    s.run(PATIENCE);
    s.install(first);
    asks(&mut s, &second);
    assert_eq!(decisions(&mut s), []);
    s.install(second);
    assert_eq!(decisions(&mut s).len(), 1);
}

#[test]
fn a_decision_without_a_survivor_says_so_to_all_who_act_on_it() {
    let mut s = member_two();
    let ours = view(2, 2, &[2, 3]);
    s.event_down(Event::Freeze { view: Arc::clone(&ours), synchronous: None });
    s.run(PATIENCE);
    s.install(Arc::clone(&ours));
    asks(&mut s, &ours);
    let told = decisions(&mut s);
    assert!(told.len() == 1 && told[0].cuts.iter().all(|(_, cut)| !cut.certain), "{told:?}");
}

#[test]
fn a_member_that_the_replacing_view_brings_back_goes_on_where_it_was() {
    let mut s = member_two();
    s.event_down(Event::Freeze { view: view(2, 1, &[1, 2, 3]), synchronous: None });
    s.install(view(3, 1, &[1, 2, 3, 9]));
    let digest = s.ask(&Query::DigestOf(survivor(9)));
    let Some(Answer::Digest(d)) = digest else { panic!("the layer answers") };
    assert_eq!(d.iter().map(|(_, p)| p.delivered).collect::<Vec<_>>(), [1]);
}

#[test]
fn who_is_left_alone_by_the_replacing_view_asks_nobody_about_the_tail_later() {
    let mut s = member_two();
    s.event_down(Event::Freeze { view: view(2, 2, &[2, 3]), synchronous: None });
    s.install(view(3, 2, &[2]));
    s.install(view(4, 2, &[2, 4, 5]));
    // 4 coordinates the next view, and decides; it never knew 9.
    let next = view(5, 4, &[4, 2]);
    s.sent();
    s.event_down(Event::Freeze { view: next, synchronous: None });
    let ours = s.sent().into_iter().map(Message::from).filter(payload::is_ours);
    let reports = ours.filter_map(|m| match payload::read(&m) {
        Some(Arrived::Report(_, r)) => Some(r),
        Some(Arrived::Commit(..)) | None => None,
    });
    let of: Vec<Vec<Uuid>> = reports.map(|r| r.windows.iter().map(|w| w.of).collect()).collect();
    assert_eq!(of, [[survivor(5)]]);
}
