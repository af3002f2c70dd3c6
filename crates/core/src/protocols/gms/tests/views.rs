use super::*;
use crate::protocols::gms::payload;
use crate::testkit::view;

#[test]
fn views_after_the_first_travel_as_differences() {
    let mut c = Cluster::formed(2);
    let sizes: Vec<bool> = [3, 4]
        .map(|m| {
            c.at(1).arrive(m, payload::join_request(id(1), id(m)).wire);
            let sent = c.at(1).sent();
            let v = sent.iter().find(|m| m.is_multicast() && kind(m).is_some()).unwrap();
            for m in [2, 3, 4] {
                c.at(1).arrive(m, payload::view_ack(id(1)).wire);
            }
            matches!(payload::read_view(&v.body), Some(payload::Announced::Delta(_)))
        })
        .into();
    assert_eq!(sizes, [true, true]);
}

#[test]
fn a_view_with_the_same_or_a_lower_number_is_ignored() {
    let mut c = Cluster::formed(2);
    for n in [0, 1] {
        c.at(2).arrive(1, payload::view_multicast(&view(n, &[1, 2, 7]), None).wire);
    }
    assert_eq!(c.seen_by(2), [1, 2]);
}

#[test]
fn a_view_without_this_member_is_ignored() {
    let mut c = Cluster::formed(3);
    c.at(3).arrive(1, payload::view_multicast(&view(9, &[1, 2]), None).wire);
    assert_eq!(c.seen_by(3), [1, 2, 3]);
}

#[test]
fn a_view_of_a_stranger_is_ignored() {
    let mut c = Cluster::formed(2);
    c.at(2).arrive(7, payload::view_multicast(&view(9, &[7, 2]), None).wire);
    assert_eq!(c.seen_by(2), [1, 2]);
}

#[test]
fn a_difference_on_another_base_is_answered_by_asking_for_the_whole() {
    let mut c = Cluster::formed(2);
    c.add(3, GmsConfig::default());
    c.at(1).arrive(4, payload::join_request(id(1), id(4)).wire);
    // Member 2 misses the view with 4, and gets the one with 5 as a difference to it.
    c.settle_losing(|_, to, m| to == id(2) && kind(m) == Some(GmsKind::View));
    for m in [2, 3, 4] {
        c.at(1).arrive(m, payload::view_ack(id(1)).wire);
    }
    assert_eq!(c.seen_by(2), [1, 2, 3]);
    c.at(1).arrive(5, payload::join_request(id(1), id(5)).wire);
    c.settle();
    assert_eq!(c.seen_by(2), [1, 2, 3, 4, 5]);
}

#[test]
fn a_member_that_does_not_acknowledge_is_sent_the_view_again() {
    let mut c = Cluster::formed(2);
    c.at(1).arrive(3, payload::join_request(id(1), id(3)).wire);
    c.settle_losing(|_, to, m| to == id(2) && kind(m) == Some(GmsKind::View));
    assert_eq!(c.seen_by(2), [1, 2]);
    c.run(ms(1100));
    assert_eq!(c.seen_by(2), [1, 2, 3]);
}

#[test]
fn a_view_whose_sender_is_not_in_it_is_acknowledged_before_it_is_installed() {
    let mut c = Cluster::formed(3);
    c.at(3).arrive(1, payload::view_multicast(&view(9, &[2, 3]), None).wire);
    let sent = c.at(3).sent();
    let ack = sent.iter().find(|m| kind(m) == Some(GmsKind::ViewAck)).unwrap();
    assert_eq!(ack.dest, Some(id(1).into()));
    assert_eq!(c.seen_by(3), [2, 3]);
}

/// Between the two there may have been a merge, which alone says where the windows begin of those who
/// were apart.
#[test]
fn a_view_that_does_not_follow_ours_is_asked_for() {
    let mut c = Cluster::formed(2);
    c.at(2).arrive(1, payload::view_multicast(&view(3, &[1, 2, 3]), None).wire);
    let asked = c.at(2).sent().iter().filter_map(kind).collect::<Vec<_>>();
    assert_eq!((asked, c.view(2).id.id), (Vec::from([GmsKind::GetCurrentView]), 1));
    c.at(2).arrive(1, payload::view_unicast(id(2), &view(3, &[1, 2, 3]), None).wire);
    assert_eq!(c.view(2).id.id, 3);
    c.at(2).arrive(1, payload::view_multicast(&view(4, &[1, 2, 3]), None).wire);
    assert_eq!(c.view(2).id.id, 4, "what follows is taken at once");
}

#[test]
fn a_view_that_a_stranger_leads_or_in_another_order_continues_another_one_unless_jgroups_made_it() {
    let [ours, theirs] = [crate::tag::tagged(3, 9, 0), id(9)];
    let (one, two) = (id(1), id(2));
    for (creator, members, number) in [
        (ours, [ours, one, two], 1),
        (ours, [two, one, ours], 1),
        (ours, [one, two, ours], 2),
        (theirs, [theirs, one, two], 2),
    ] {
        let mut c = Cluster::formed(2);
        let v = View::new(2, creator, Vec::from(members));
        c.at(2).arrive(1, payload::view_unicast(two, &v, None).wire);
        assert_eq!(c.view(2).id.id, number, "{members:?}");
    }
}

#[test]
fn a_batch_is_split_at_a_view() {
    let mut c = Cluster::formed(2);
    let data = |n: u8| wire::Message::multicast(wire::Body::bytes(Vec::from([n])));
    let v = payload::view_multicast(&view(2, &[1, 2, 3]), None).wire;
    c.at(2).arrive_all(1, [data(1), v, data(2)]);
    let order: Vec<&str> = c
        .at(2)
        .told()
        .iter()
        .map(|e| match e {
            AppEvent::View(_) => "view",
            AppEvent::Deliver(_) => "data",
            _ => "other",
        })
        .collect();
    assert_eq!(order, ["data", "view", "data"]);
}

#[test]
fn two_views_in_one_batch_are_installed_one_after_the_other() {
    let mut c = Cluster::formed(2);
    let one = payload::view_multicast(&view(2, &[1, 2, 3]), None).wire;
    let two = payload::view_multicast(&view(3, &[1, 2]), Some(&view(2, &[1, 2, 3]))).wire;
    c.at(2).arrive_all(1, [one, two]);
    assert_eq!(numbers(&c.at(2).told()), [2, 3]);
}

#[test]
fn nonsense_from_a_peer_changes_nothing() {
    let mut c = Cluster::formed(2);
    for body in [wire::Body::Empty, wire::Body::bytes(Vec::from([0xff; 40]))] {
        for kind in [
            payload::view_ack(id(2)),
            payload::view_request(id(2)),
            payload::view_multicast(&view(9, &[1]), None),
        ] {
            let mut m = kind.wire;
            m.body = body.clone();
            c.at(2).arrive(1, m);
        }
    }
    assert_eq!(c.seen_by(2), [1, 2]);
}

#[test]
fn a_view_number_cannot_exhaust_the_numbers() {
    let mut c = Cluster::formed(2);
    c.at(2).arrive(1, payload::view_multicast(&view(u64::MAX >> 1, &[1, 2]), None).wire);
    assert_eq!(c.view(2).id.id, 1);
}

/// What the simulator must find: these members disagree.
#[cfg(feature = "mutants")]
#[test]
fn a_mutant_that_skips_a_view_disagrees_with_the_others() {
    let mut c = Cluster::formed(2);
    c.at(2).stack.enable_mutant(crate::mutants::Mutant::ViewSkipped);
    c.add(3, GmsConfig::default());
    assert_ne!(c.view(1), c.view(2));
}

#[cfg(feature = "mutants")]
#[test]
fn a_mutant_that_applies_differences_to_any_base_has_other_members_in_the_same_view() {
    let mut c = Cluster::formed(2);
    c.at(2).stack.enable_mutant(crate::mutants::Mutant::DeltaOnWrongBase);
    c.at(1).arrive(4, payload::join_request(id(1), id(4)).wire);
    c.settle_losing(|_, to, m| to == id(2) && kind(m) == Some(GmsKind::View));
    for m in [2, 4] {
        c.at(1).arrive(m, payload::view_ack(id(1)).wire);
    }
    c.at(1).arrive(5, payload::join_request(id(1), id(5)).wire);
    c.settle();
    assert_eq!(c.view(1).id, c.view(2).id);
    assert_ne!(c.view(1), c.view(2));
}

fn missing_acks(c: &mut Cluster) -> u64 {
    let mut found = 0;
    c.at(1).stack.inspect(&mut |_, name, v| {
        if name == "missing_acks" {
            found = v;
        }
    });
    found
}

/// Member 2 acknowledged nothing of the view with 3, and the wait for it is over; the view with 4
/// was announced.
fn owing() -> Cluster {
    let mut c = Cluster::formed(2);
    c.at(1).arrive(3, payload::join_request(id(1), id(3)).wire);
    c.at(1).run(ms(1));
    c.at(1).arrive(3, payload::view_ack(id(1)).wire);
    c.at(1).run(ms(2100));
    c.at(1).arrive(4, payload::join_request(id(1), id(4)).wire);
    c.at(1).run(ms(1));
    c
}

#[test]
fn an_acknowledgement_of_an_earlier_view_does_not_count_for_the_present_one() {
    let mut c = owing();
    for m in [3, 4] {
        c.at(1).arrive(m, payload::view_ack(id(1)).wire);
    }
    // That view was sent once and three times again, and each copy is acknowledged at last.
    for _ in 0..4 {
        c.at(1).arrive(2, payload::view_ack(id(1)).wire);
        assert_eq!(missing_acks(&mut c), 1);
    }
    c.at(1).arrive(2, payload::view_ack(id(1)).wire);
    assert_eq!(missing_acks(&mut c), 0);
}

#[test]
fn a_member_that_never_acknowledged_an_earlier_view_delays_one_round_at_most() {
    let mut c = owing();
    for m in [3, 4] {
        c.at(1).arrive(m, payload::view_ack(id(1)).wire);
    }
    c.run(ms(1100));
    assert_eq!(missing_acks(&mut c), 0);
}

/// Whom `m` asks for the current view within this time.
fn inquiries(c: &mut Cluster, m: u64, within: Duration) -> Vec<Uuid> {
    c.at(m).run(within);
    let sent = c.at(m).sent();
    let asks = |s: &&wire::Message| kind(s) == Some(GmsKind::GetCurrentView);
    sent.iter().filter(asks).filter_map(|s| s.dest.as_ref()?.uuid()).collect()
}

#[test]
fn whoever_shows_a_newer_view_is_asked_for_it() {
    let mut c = Cluster::formed(3);
    c.at(2).event_up(Event::NewerView(id(3)));
    assert_eq!(inquiries(&mut c, 2, ms(400)), [], "it may be on its way");
    assert_eq!(inquiries(&mut c, 2, ms(200)), [id(3)]);
    c.at(2).event_up(Event::NewerView(id(7)));
    assert_eq!(inquiries(&mut c, 2, ms(1100)), [id(1)], "a stranger cannot answer");
}

#[test]
fn views_that_do_not_exist_are_asked_for_more_and_more_seldom() {
    let mut c = Cluster::formed(3);
    let mut asked = 0;
    for _ in 0..100 {
        c.at(2).event_up(Event::NewerView(id(7)));
        asked += inquiries(&mut c, 2, ms(1000)).len();
    }
    assert!((5..=10).contains(&asked), "{asked}");
}

#[test]
fn a_member_that_missed_a_view_has_it_soon_after_somebody_shows_it() {
    let mut c = Cluster::formed(2);
    c.at(1).arrive(5, payload::join_request(id(1), id(5)).wire);
    let lost = |_, to, m: &wire::Message| to == id(2) && kind(m) == Some(GmsKind::View);
    c.settle_losing(lost);
    assert_eq!(c.seen_by(2), [1, 2]);
    c.at(2).event_up(Event::NewerView(id(1)));
    c.run(ms(600));
    assert_eq!(c.seen_by(2), [1, 2, 5]);
}

#[test]
fn a_coordinator_asks_nobody() {
    let mut c = Cluster::formed(2);
    c.at(1).event_up(Event::NewerView(id(2)));
    assert_eq!(inquiries(&mut c, 1, ms(5000)), []);
}
