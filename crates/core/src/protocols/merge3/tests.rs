//! One member with MERGE3, and what it says.

use super::*;
use crate::testkit::{Solo, id, view};
use alloc::boxed::Box;

/// Member 1, coordinator of view 5 with member 2.
fn member(config: Merge3Config) -> Solo {
    let mut s = Solo::new(1, Vec::from([Box::new(Merge3::new(config)) as Box<dyn Protocol>]));
    s.install(view(5, &[1, 2]));
    s.sent();
    s
}

fn info(v: &View) -> wire::Message {
    let header = Merge3Header::Info {
        view: Some(v.id.to_wire()),
        name: Some("x".into()),
        physical: Some(SocketAddr::from(([127, 0, 0, 1], 9000)).into()),
    };
    message(None, header, Body::Empty).wire
}

fn kinds(sent: &[wire::Message]) -> Vec<&'static str> {
    let kind = |m: &wire::Message| match m.headers.get(ProtId::MERGE3)? {
        Header::Merge3(h) => Some(match **h {
            Merge3Header::Info { .. } => "info",
            Merge3Header::ViewRequest => "ask",
            Merge3Header::ViewResponse => "view",
        }),
        _ => None,
    };
    sent.iter().filter_map(kind).collect()
}

fn merges(s: &Solo) -> usize {
    let above = s.above.lock().unwrap();
    above.iter().filter(|(_, e)| matches!(e, Event::MergeViews { .. })).count()
}

#[test]
fn the_own_view_is_announced_again_and_again() {
    let mut s = member(Merge3Config::default());
    s.run(Duration::from_secs(150));
    let n = kinds(&s.sent()).len();
    assert!((9..=31).contains(&n), "{n} announcements in 150 s");
}

#[test]
fn a_differing_view_is_answered_at_once_but_not_twice_a_second() {
    let mut s = member(Merge3Config::default());
    s.arrive(3, info(&view(7, &[3])));
    s.arrive(4, info(&view(8, &[4])));
    assert_eq!(kinds(&s.sent()), ["info"]);
}

#[test]
fn the_same_view_is_not_answered() {
    let mut s = member(Merge3Config::default());
    s.arrive(2, info(&view(5, &[1, 2])));
    assert_eq!(kinds(&s.sent()), [""; 0]);
}

#[test]
fn without_multicast_the_answer_goes_to_where_the_other_is() {
    let mut s = member(Merge3Config { multicast: false, ..Merge3Config::default() });
    s.arrive(3, info(&view(7, &[3])));
    let at = SocketAddr::from(([127, 0, 0, 1], 9000));
    assert_eq!(s.sent()[0].dest, Some(at.into()));
}

#[test]
fn without_multicast_those_whom_discovery_finds_are_told() {
    let mut s = member(Merge3Config { multicast: false, ..Merge3Config::default() });
    s.event_down(Event::AnnounceView);
    let at = SocketAddr::from(([127, 0, 0, 1], 9000));
    let other = |m, physical| Found {
        member: id(m),
        server: true,
        coordinator: false,
        first_hand: true,
        physical,
    };
    let members = Vec::from([other(3, Some(at)), other(1, Some(at)), other(4, None)]);
    s.event_up(Event::Found { purpose: Purpose::Merge, members });
    let sent = s.sent();
    assert_eq!((sent.len(), &sent[0].dest), (1, &Some(at.into())));
}

#[test]
fn the_leader_to_be_fetches_differing_views_and_reports_them() {
    let mut s = member(Merge3Config::default());
    s.arrive(3, info(&view(7, &[3])));
    s.run(Duration::from_millis(1100));
    assert!(kinds(&s.sent()).contains(&"ask"));
    let answer = message(None, Merge3Header::ViewResponse, body_of(&view(7, &[3]))).wire;
    s.arrive(3, wire::Message { dest: Some(id(1).into()), ..answer });
    assert_eq!(merges(&s), 1);
}

/// Views 5 with 1 and 2, and 7 with 3 and 2, are known; member 2 was asked where it is.
fn with_a_member_in_two_views() -> Solo {
    let mut s = member(Merge3Config::default());
    s.arrive(3, info(&view(7, &[3, 2])));
    s.run(Duration::from_millis(1100));
    s.sent();
    tell(&mut s, 3, &view(7, &[3, 2]));
    assert_eq!((kinds(&s.sent()), merges(&s)), (Vec::from(["ask"]), 0));
    s
}

fn tell(s: &mut Solo, from: u64, v: &View) {
    let answer = message(None, Merge3Header::ViewResponse, body_of(v)).wire;
    s.arrive(from, wire::Message { dest: Some(id(1).into()), ..answer });
}

#[test]
fn a_member_in_two_views_is_asked_where_it_is() {
    let mut s = with_a_member_in_two_views();
    tell(&mut s, 2, &view(5, &[1, 2]));
    assert_eq!(merges(&s), 1);
}

#[test]
fn a_member_in_two_views_that_is_silent_is_not_waited_for_long() {
    let mut s = with_a_member_in_two_views();
    s.run(SECOND_WAIT + Duration::from_millis(10));
    assert_eq!(merges(&s), 1);
}

#[test]
fn differences_that_are_gone_when_looked_into_are_no_split() {
    let mut s = member(Merge3Config::default());
    s.arrive(2, info(&view(4, &[1, 2])));
    s.run(Duration::from_millis(1100));
    let answer = message(None, Merge3Header::ViewResponse, body_of(&view(5, &[1, 2]))).wire;
    s.arrive(2, wire::Message { dest: Some(id(1).into()), ..answer });
    s.run(Duration::from_secs(5));
    assert_eq!(merges(&s), 0);
}

#[test]
fn a_multicast_of_a_stranger_makes_the_coordinator_announce_its_view() {
    let mut s = member(Merge3Config::default());
    s.arrive(9, wire::Message::multicast(Body::Empty));
    s.arrive(9, wire::Message::multicast(Body::Empty));
    assert_eq!(kinds(&s.sent()), ["info"]);
    s.arrive(2, wire::Message::multicast(Body::Empty));
    assert_eq!(kinds(&s.sent()), [""; 0]);
}

#[test]
fn a_view_is_told_to_whoever_asks() {
    let mut s = member(Merge3Config::default());
    let ask = message(Some(id(1).into()), Merge3Header::ViewRequest, Body::Empty).wire;
    s.arrive(3, ask);
    let sent = s.sent();
    assert_eq!(read_view(&sent[0].body).as_ref(), Some(&*view(5, &[1, 2])));
}

#[test]
fn an_older_view_of_our_own_is_looked_into_soon() {
    let mut s = member(Merge3Config::default());
    // Member 3 missed that it was excluded.
    s.arrive(3, info(&view(4, &[1, 2, 3])));
    s.run(Duration::from_millis(1100));
    assert!(kinds(&s.sent()).contains(&"ask"));
}

#[test]
fn another_coordinator_looks_into_it_later() {
    let mut s = Solo::new(5, Vec::from([Box::new(Merge3::new(Merge3Config::default())) as _]));
    s.install(view(5, &[5, 6]));
    s.arrive(3, info(&view(7, &[3])));
    s.run(Duration::from_secs(4));
    assert!(!kinds(&s.sent()).contains(&"ask"), "member 3 leads");
    s.run(Duration::from_secs(2));
    assert!(kinds(&s.sent()).contains(&"ask"), "it does not");
}

#[test]
fn members_that_were_lost_are_told_where_there_is_no_multicast() {
    let mut s = member(Merge3Config { multicast: false, ..Merge3Config::default() });
    let at = SocketAddr::from(([127, 0, 0, 1], 9000));
    s.install(view(6, &[1, 2, 3]));
    s.stack.inject_change(crate::GroupChange::Learn {
        member: id(3),
        name: None,
        physical: Some(at),
    });
    s.install(view(7, &[1, 2]));
    s.sent();
    s.run(Duration::from_secs(11));
    let told = s.sent().iter().filter(|m| m.dest == Some(at.into())).count();
    assert!((2..=3).contains(&told), "{told}");
    s.run(Duration::from_secs(300));
    s.sent();
    s.run(Duration::from_secs(60));
    assert!(s.sent().iter().all(|m| m.dest != Some(at.into())), "it is given up");
}
