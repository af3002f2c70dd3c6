//! What is asked, what ends it, and what of it goes up.

use super::*;
use crate::testkit::{Solo, id, pass_time, view};
use crate::wire::{Decode, Encode};
use crate::{View, tag};
use alloc::boxed::Box;
use alloc::sync::Arc;

fn member() -> Solo {
    let config = VerifySuspect2Config { timeout: Duration::from_millis(1500), num_msgs: 3 };
    let layer = Box::new(VerifySuspect2::new(config)) as Box<dyn Protocol>;
    let mut s = Solo::new(1, [layer].into());
    s.install(view(1, &[1, 2, 3, 4, 5]));
    s.above.lock().unwrap().clear();
    s.below.lock().unwrap().clear();
    s
}

fn suspect(s: &mut Solo, members: &[u64]) {
    let why = Evidence::ConnectionClosed;
    let list = members.iter().map(|m| Suspicion { member: id(*m), by: id(5), why }).collect();
    s.event_up(Event::Suspect(list));
}

fn alive(m: u64) -> WireMessage {
    let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: Some(id(m).into()) };
    WireMessage::unicast(id(1), Body::Empty)
        .with_header(ProtId::VERIFY_SUSPECT2, Header::Verify(header))
}

fn passed(s: &Solo) -> Vec<Vec<Uuid>> {
    let seen = s.above.lock().unwrap();
    seen.iter()
        .filter_map(|(_, e)| match e {
            Event::Suspect(l) => Some(l.iter().map(|s| s.member).collect()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_suspect_that_does_not_answer_is_passed_up_when_its_time_is_over() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.run(Duration::from_millis(1499));
    assert!(passed(&s).is_empty());
    s.run(Duration::from_millis(2));
    assert_eq!(passed(&s), [[id(2)]]);
}

#[test]
fn an_answer_clears_the_suspect_above_and_below() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.run(Duration::from_millis(1400));
    s.arrive(2, alive(2));
    s.run(Duration::from_secs(10));
    assert!(passed(&s).is_empty());
    let below = s.below.lock().unwrap();
    assert!(below.iter().any(|(d, e)| *d == Dir::Down && matches!(e, Event::Unsuspect(_))));
}

#[test]
fn each_suspect_has_its_own_full_time() {
    let mut s = member();
    suspect(&mut s, &[2, 3]);
    s.run(Duration::from_millis(500));
    suspect(&mut s, &[4, 5]);
    s.run(Duration::from_millis(1100));
    assert_eq!(passed(&s), [[id(2), id(3)]]);
    s.run(Duration::from_millis(500));
    assert_eq!(passed(&s), [[id(2), id(3)], [id(4), id(5)]]);
}

#[test]
fn a_suspect_is_asked_more_than_once() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.run(Duration::from_millis(1600));
    assert_eq!(s.sent().len(), 3);
}

#[test]
fn nobody_answers_for_another_identity() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.arrive(9, alive(2));
    s.run(Duration::from_millis(1600));
    assert_eq!(passed(&s), [[id(2)]]);
}

#[test]
fn refused_connections_end_the_wait_early() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.event_up(Event::Refuses(id(2)));
    s.run(Duration::from_millis(50));
    assert_eq!(passed(&s), [[id(2)]]);
}

#[test]
fn the_predecessor_speaks_under_its_own_id() {
    let layer = Box::new(VerifySuspect2::new(VerifySuspectConfig::default()));
    let mut s = Solo::new(1, [layer as Box<dyn Protocol>].into());
    s.install(view(1, &[1, 2, 3]));
    suspect(&mut s, &[2]);
    let sent = s.sent();
    assert!(sent[0].headers.get(ProtId::VERIFY_SUSPECT).is_some());
    assert!(sent[0].headers.get(ProtId::VERIFY_SUSPECT2).is_none());
    let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: Some(id(2).into()) };
    let alive = WireMessage::unicast(id(1), Body::Empty)
        .with_header(ProtId::VERIFY_SUSPECT, Header::Verify(header));
    s.arrive(2, alive);
    s.run(Duration::from_secs(10));
    assert!(passed(&s).is_empty());
}

#[test]
fn the_question_is_answered_to_who_asked() {
    let mut s = member();
    let header = VerifyHeader { kind: VerifyKind::AreYouDead, from: Some(id(3).into()) };
    let m = WireMessage::unicast(id(1), Body::Empty)
        .with_header(ProtId::VERIFY_SUSPECT2, Header::Verify(header));
    s.arrive(3, m);
    let sent = s.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].dest, Some(id(3).into()));
}

#[test]
fn suspicion_of_oneself_and_of_strangers_is_ignored() {
    let mut s = member();
    suspect(&mut s, &[1, 77]);
    s.run(Duration::from_secs(3));
    assert!(passed(&s).is_empty());
    assert!(s.sent().is_empty());
}

#[test]
fn a_view_without_the_suspect_ends_its_verification() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.install(view(2, &[1, 3]));
    s.run(Duration::from_secs(3));
    assert!(passed(&s).is_empty());
}

#[test]
fn who_accused_the_suspect_and_why_goes_up_with_it() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.run(Duration::from_secs(2));
    let expected = Suspicion { member: id(2), by: id(5), why: Evidence::ConnectionClosed };
    let seen = s.above.lock().unwrap();
    assert!(
        seen.iter().any(|(_, e)| matches!(e, Event::Suspect(l) if *l == [expected])),
        "{seen:?}"
    );
}

#[test]
fn a_member_that_stood_still_while_it_waited_waits_on() {
    let mut s = member();
    suspect(&mut s, &[2]);
    s.now += Duration::from_secs(60);
    s.stack.advance(s.now, false);
    assert!(passed(&s).is_empty(), "the answer may be on its way");
    s.arrive(2, alive(2));
    s.run(Duration::from_secs(10));
    assert!(passed(&s).is_empty());
}

fn tagged(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::VERIFIES)
}

/// Tagged members 1 to `n` in one view.
fn group(n: u64) -> Vec<Solo> {
    let ids: Vec<Uuid> = (1..=n).map(tagged).collect();
    let view = Arc::new(View::new(1, ids[0], ids));
    let start = |i| {
        let config = VerifySuspect2Config { timeout: Duration::from_millis(1500), num_msgs: 3 };
        let layers = [Box::new(VerifySuspect2::new(config)) as Box<dyn Protocol>].into();
        let mut s = Solo::topped(i, tagged(i), layers);
        s.install(Arc::clone(&view));
        s
    };
    (1..=n).map(start).collect()
}

fn accuse(group: &mut [Solo], m: u64) {
    let s = Suspicion { member: tagged(m), by: tagged(1), why: Evidence::Silence(Duration::ZERO) };
    group[0].event_up(Event::Suspect([s].into()));
}

/// When the first member has let the suspicion through, counted from the start.
fn let_through(group: &mut [Solo]) -> Option<Time> {
    core::iter::from_fn(|| group[0].stack.poll_trace())
        .find_map(|(at, t)| matches!(t, Trace::Suspected { .. }).then_some(at))
}

/// What `from` sends to `to` is lost.
fn deaf(from: u64, to: u64) -> impl Fn(Uuid, Uuid, &WireMessage) -> bool {
    move |a, b, _| (a, b) == (tagged(from), tagged(to))
}

#[test]
fn a_suspect_that_answers_another_member_has_time_to_be_heard() {
    for lost in [deaf(2, 1), deaf(1, 2)] {
        let mut g = group(4);
        accuse(&mut g, 2);
        pass_time(&mut g, Duration::from_secs(6), lost);
        pass_time(&mut g, Duration::from_secs(20), |_, _, _| false);
        assert_eq!(let_through(&mut g), None);
    }
}

#[test]
fn a_suspect_that_never_reaches_us_goes_although_others_hear_it() {
    let mut g = group(4);
    accuse(&mut g, 2);
    pass_time(&mut g, Duration::from_secs(20), deaf(2, 1));
    assert_eq!(let_through(&mut g), Some(Time::ZERO + Duration::from_secs(9)));
}

#[test]
fn nobody_speaks_for_the_dead() {
    let mut g = group(4);
    accuse(&mut g, 2);
    pass_time(&mut g, Duration::from_secs(20), |from, _, _| from == tagged(2));
    assert_eq!(let_through(&mut g), Some(Time::ZERO + Duration::from_millis(1500)));
}

#[test]
fn a_stranger_is_asked_for_nothing_and_believed_nothing() {
    let mut g = group(3);
    accuse(&mut g, 2);
    let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: Some(id(9).into()) };
    let mut lie =
        WireMessage::unicast(tagged(1), Body::bytes(Payload::Alive(tagged(2)).to_bytes()))
            .with_header(ProtId::VERIFY_SUSPECT2, Header::Verify(header));
    lie.src = Some(id(9).into());
    g[0].arrive(9, lie);
    pass_time(&mut g, Duration::from_secs(20), |from, _, _| from == tagged(2));
    assert_eq!(let_through(&mut g), Some(Time::ZERO + Duration::from_millis(1500)));
}

/// The vectors of docs/wire-extensions.md.
#[test]
fn the_bytes_are_those_of_the_document() {
    let mut bytes = Vec::from([1]);
    // JGroups writes the least significant half first.
    bytes.extend(2u64.to_be_bytes());
    bytes.extend(1u64.to_be_bytes());
    assert_eq!(Payload::Ask(Uuid::new(1, 2)).to_bytes()[..], bytes[..]);
    bytes[0] = 2;
    assert_eq!(Payload::Alive(Uuid::new(1, 2)).to_bytes()[..], bytes[..]);
    assert_eq!(Payload::from_bytes(bytes.clone().into()), Ok(Payload::Alive(Uuid::new(1, 2))));
    bytes[0] = 3;
    assert!(Payload::from_bytes(bytes.into()).is_err());
}
