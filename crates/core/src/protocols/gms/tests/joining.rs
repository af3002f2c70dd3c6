use super::*;
use crate::Digest;
use crate::protocols::gms::payload;
use crate::testkit::view;
use crate::wire::Flags;

fn welcome(v: &View, digest: &Digest) -> wire::Message {
    payload::join_response(id(9), v, digest, Flags::empty()).unwrap().wire
}

fn digest_of(v: &View) -> Digest {
    v.members.iter().map(|m| (*m, SeqnoPair::default())).collect()
}

/// Member 9, that asked member 1.
fn joiner() -> Cluster {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().push(found(1, true, true));
    c.add(9, GmsConfig::default());
    c
}

#[test]
fn the_first_member_forms_a_group_when_nobody_answers() {
    let mut c = Cluster::idle(1);
    let v = c.view(1);
    assert_eq!((v.id.id, v.id.creator, &v.members[..]), (0, id(1), &[id(1)][..]));
    assert_eq!(numbers(&c.at(1).told()), [0]);
}

#[test]
fn a_joiner_and_the_members_install_the_same_view() {
    let mut c = Cluster::formed(3);
    let v = c.view(1);
    assert_eq!(v.members[..], [id(1), id(2), id(3)]);
    assert_eq!((c.view(2), c.view(3)), (Arc::clone(&v), v));
}

#[test]
fn joiners_of_one_turn_share_one_view() {
    let mut c = Cluster::idle(1);
    c.at(1).told();
    for m in [5, 6, 7] {
        let m = payload::join_request(id(1), id(m)).wire;
        let from = wire::Message { src: Some(m_of(&m)), ..m };
        c.at(1).arrive(from.src.as_ref().unwrap().uuid().unwrap().lsb, from.clone());
    }
    c.settle();
    assert_eq!(c.seen_by(1), [1, 5, 6, 7]);
    assert_eq!(numbers(&c.at(1).told()), [1]);
}

fn m_of(m: &wire::Message) -> wire::Address {
    match m.headers.get(ProtId::GMS) {
        Some(Header::Gms(h)) => h.member.clone().unwrap(),
        _ => unreachable!("a request names its joiner"),
    }
}

#[test]
fn joiners_that_come_while_a_view_is_acknowledged_go_into_the_next_one() {
    let mut c = Cluster::formed(2);
    for m in [5, 6] {
        c.at(1).arrive(m, payload::join_request(id(1), id(m)).wire);
        c.at(1).run(ms(1));
        c.at(1).arrive(m + 10, payload::join_request(id(1), id(m + 10)).wire);
        c.at(1).run(ms(1));
    }
    assert_eq!(c.seen_by(1), [1, 2, 5]);
    c.run(ms(2100));
    assert_eq!(c.seen_by(1), [1, 2, 5, 15, 6, 16]);
}

#[test]
fn view_and_join_answer_may_come_in_either_order_and_twice() {
    for view_first in [true, false] {
        let mut c = joiner();
        let v = view(4, &[1, 9]);
        let announcement = payload::view_unicast(id(9), &v, None).wire;
        let answer = welcome(&v, &digest_of(&v));
        let order = if view_first { [&announcement, &answer] } else { [&answer, &announcement] };
        for m in order.into_iter().chain(order) {
            c.at(9).arrive(1, m.clone());
        }
        assert_eq!(numbers(&c.at(9).told()), [4], "view first: {view_first}");
    }
}

#[test]
fn the_digest_is_set_once_and_before_the_view() {
    let mut c = joiner();
    let v = view(4, &[1, 9]);
    let answer = welcome(&v, &digest_of(&v));
    c.at(9).arrive(1, answer.clone());
    c.at(9).arrive(1, answer);
    let below = c.at(9).below.lock().unwrap().clone();
    let steps: Vec<&str> = below
        .iter()
        .filter_map(|(_, e)| match e {
            Event::SetDigest(_) => Some("digest"),
            Event::View(_) => Some("view"),
            Event::BecomeServer => Some("server"),
            _ => None,
        })
        .collect();
    // The probe is below every layer, so the view passes it on its way down only.
    assert_eq!(steps, ["digest", "view", "server"]);
}

#[test]
fn an_answer_without_the_joiner_is_refused() {
    let mut c = joiner();
    let v = view(4, &[1, 2]);
    c.at(9).arrive(1, welcome(&v, &digest_of(&v)));
    assert!(c.at(9).stack.group().view.is_none());
}

#[test]
fn nobody_but_who_was_asked_can_let_us_in() {
    let mut c = joiner();
    let v = view(4, &[2, 9]);
    c.at(9).arrive(2, welcome(&v, &digest_of(&v)));
    assert!(c.at(9).stack.group().view.is_none());
}

#[test]
fn a_refusal_ends_the_join() {
    let mut c = joiner();
    let refusal = wire::JoinRsp::refusal("authentication failed");
    let v = view(4, &[1, 9]);
    let mut m = welcome(&v, &digest_of(&v));
    m.body = wire::Body::bytes(wire::Encode::to_bytes(&refusal));
    c.at(9).arrive(1, m);
    let told = c.at(9).told();
    let failed = |e: &AppEvent| matches!(e, AppEvent::ConnectFailed { reason } if reason.ends_with("refused: authentication failed"));
    assert!(told.iter().any(failed));
}

#[test]
fn a_late_answer_of_an_earlier_attempt_counts() {
    let mut c = joiner();
    c.run(ms(2100));
    let v = view(4, &[1, 9]);
    c.at(9).arrive(1, welcome(&v, &digest_of(&v)));
    assert_eq!(c.seen_by(9), [1, 9]);
}

#[test]
fn a_silent_coordinator_is_asked_twice_and_then_passed_over() {
    let mut c = joiner();
    c.run(ms(6500));
    let asked = c.facts(9).iter().filter(|t| matches!(t, Trace::JoinAttempt { .. })).count();
    assert_eq!(asked, 2);
    assert_eq!(c.seen_by(9), [9]);
}

#[test]
fn a_coordinator_that_answers_discovery_is_asked_until_it_lets_us_in() {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().push(answers(1, true, true));
    c.add(9, GmsConfig::default());
    c.run(ms(25_000));
    assert!(c.at(9).stack.group().view.is_none(), "no group beside the one that is there");
    let v = view(4, &[1, 9]);
    c.at(9).arrive(1, welcome(&v, &digest_of(&v)));
    assert_eq!(c.seen_by(9), [1, 9]);
}

#[test]
fn a_coordinator_that_is_not_heard_for_a_moment_is_asked_all_the_same() {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().push(answers(1, true, true));
    c.add(9, GmsConfig::default());
    c.world.lock().unwrap().clear();
    c.run(ms(9_000));
    assert!(c.at(9).stack.group().view.is_none(), "its answers may be lost");
    let asked = c.facts(9).iter().filter(|t| matches!(t, Trace::JoinAttempt { .. })).count();
    assert!(asked >= 4, "{asked}");
    c.run(ms(5_000));
    assert_eq!(c.seen_by(9), [9], "by now it is gone");
}

#[test]
fn a_join_that_fails_says_who_was_found_and_asked() {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().extend([answers(1, true, true), answers(2, true, false)]);
    c.add(9, GmsConfig::default());
    c.run(ms(35_000));
    let failed = c.at(9).told().into_iter().find_map(|e| match e {
        AppEvent::ConnectFailed { reason } => Some(reason),
        _ => None,
    });
    let reason = failed.expect("it gives up");
    let says = ["answers discovery, but not the request to join", "coordinator", "member", "times"];
    assert!(says.iter().all(|s| reason.contains(s)), "{reason}");
}

#[test]
fn a_first_member_says_whom_it_looked_for() {
    let mut c = Cluster::idle(0);
    c.world.lock().unwrap().push(found(1, true, true));
    c.add(9, GmsConfig::default());
    c.run(ms(6_500));
    let told = c.at(9).told();
    let how = told.iter().find_map(|e| match e {
        AppEvent::Founded { how } => Some(how.clone()),
        _ => None,
    });
    let how = how.expect("it founds a group");
    assert!(how.contains("as others say") && how.contains("asked to let us in 2 times"), "{how}");
    let first = |e: &AppEvent| matches!(e, AppEvent::Founded { .. });
    assert!(first(&told[0]), "before the view");
}

#[test]
fn a_view_without_its_answer_makes_the_joiner_ask_again_soon() {
    let mut c = joiner();
    c.at(9).arrive(1, payload::view_unicast(id(9), &view(4, &[1, 9]), None).wire);
    c.at(9).sent();
    c.run(ms(600));
    let asked = c.facts(9).iter().filter(|t| matches!(t, Trace::JoinAttempt { .. })).count();
    assert_eq!(asked, 2);
}

#[test]
fn of_a_dead_and_a_live_coordinator_the_live_one_is_found() {
    let mut c = Cluster::idle(1);
    *c.world.lock().unwrap() = Vec::from([found(7, true, true), found(1, true, true)]);
    c.add(2, GmsConfig::default());
    c.run(ms(2100));
    assert_eq!(c.seen_by(2), [1, 2]);
}

#[test]
fn joiners_that_start_together_end_in_one_group_without_merging() {
    let mut c = Cluster::idle(0);
    *c.world.lock().unwrap() = (1..=4).map(|m| found(m, false, false)).collect();
    for m in (1..=4).rev() {
        c.add(m, GmsConfig::default());
    }
    *c.world.lock().unwrap() = Vec::from([found(1, true, true)]);
    c.run(ms(500));
    for m in 1..=4 {
        assert_eq!(c.view(m).members.len(), 4);
        assert!(!c.view(m).is_merge());
    }
}

#[test]
fn a_joiner_that_never_acts_is_passed_over() {
    let mut c = Cluster::idle(0);
    *c.world.lock().unwrap() = Vec::from([found(1, false, false)]);
    c.add(2, GmsConfig::default());
    c.run(ms(250));
    assert!(c.at(2).stack.group().view.is_none(), "the lower one gets its chance");
    c.run(ms(150));
    assert_eq!(c.seen_by(2), [2]);
}

#[test]
fn a_group_without_reachable_coordinator_does_not_hold_up_a_joiner_for_ever() {
    let mut c = Cluster::idle(0);
    *c.world.lock().unwrap() = Vec::from([found(1, true, false)]);
    c.add(2, GmsConfig::default());
    c.run(ms(2300));
    assert_eq!(c.seen_by(2), [2]);
}

#[test]
fn a_coordinator_that_is_busy_for_long_still_lets_the_joiner_in() {
    let mut c = joiner();
    c.run(ms(5500));
    let v = view(4, &[1, 9]);
    c.at(9).arrive(1, welcome(&v, &digest_of(&v)));
    assert_eq!(c.seen_by(9), [1, 9]);
}

#[test]
fn a_joiner_whose_answer_was_lost_gets_the_current_view_out_of_band() {
    let mut c = Cluster::formed(2);
    c.at(1).arrive(2, payload::join_request(id(1), id(2)).wire);
    let sent = c.at(1).sent();
    let answer = sent.iter().find(|m| kind(m) == Some(GmsKind::JoinRsp)).unwrap();
    assert!(answer.has(Flags::OOB));
    assert_eq!(c.view(1).id.id, 1, "no new view is made for it");
}

#[test]
fn only_the_coordinator_lets_members_in() {
    let mut c = Cluster::formed(2);
    c.at(2).arrive(9, payload::join_request(id(2), id(9)).wire);
    c.settle();
    assert_eq!(c.seen_by(2), [1, 2]);
}

#[test]
fn the_digest_for_a_joiner_is_taken_before_the_view_is_multicast() {
    let mut c = Cluster::idle(1);
    c.at(1).arrive(9, payload::join_request(id(1), id(9)).wire);
    let kinds: Vec<_> = c.at(1).sent().iter().filter_map(kind).collect();
    assert_eq!(kinds, [GmsKind::View, GmsKind::JoinRsp]);
}

#[test]
fn a_join_can_be_abandoned() {
    let mut c = joiner();
    c.leave(9);
    c.run(ms(1100));
    assert_eq!(c.left(9), Some(false));
}
