use super::*;
use crate::protocols::gms::payload;
use crate::wire::Flags;

#[test]
fn a_member_leaves() {
    let mut c = Cluster::formed(3);
    c.leave(3);
    c.settle();
    assert_eq!(c.left(3), Some(true));
    assert_eq!((c.seen_by(1), c.seen_by(2)), (Vec::from([1, 2]), Vec::from([1, 2])));
}

#[test]
fn the_coordinator_leaves_and_the_next_member_takes_over() {
    let mut c = Cluster::formed(3);
    c.leave(1);
    c.settle();
    assert_eq!(c.left(1), Some(true));
    let v = c.view(3);
    assert_eq!((&v.members[..], v.id.creator), (&[id(2), id(3)][..], id(2)));
}

#[test]
fn the_last_member_just_leaves() {
    let mut c = Cluster::formed(1);
    c.leave(1);
    assert_eq!(c.left(1), Some(true));
}

#[test]
fn the_answer_to_a_leaver_needs_no_connection_and_comes_before_the_view() {
    let mut c = Cluster::formed(3);
    c.at(1).arrive(3, payload::leave_request(id(1), id(3)).wire);
    let sent = c.at(1).sent();
    let kinds: Vec<_> = sent.iter().filter_map(kind).collect();
    assert_eq!(kinds, [GmsKind::LeaveRsp, GmsKind::View]);
    assert!(sent[0].has(Flags::NO_RELIABILITY));
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut c = Cluster::formed(3);
    c.leave(3);
    let mut lost = false;
    c.settle_losing(|_, _, m| {
        let first = !lost && kind(m) == Some(GmsKind::LeaveRsp);
        lost |= first;
        first || kind(m) == Some(GmsKind::View)
    });
    assert_eq!(c.left(3), None);
    c.run(ms(250));
    assert_eq!(c.left(3), Some(true));
}

#[test]
fn a_leave_without_any_answer_ends_in_time() {
    let mut c = Cluster::formed(2);
    c.kill(1);
    c.leave(2);
    c.run(ms(1010));
    assert_eq!(c.left(2), Some(false));
}

#[test]
fn leaves_go_on_with_the_next_coordinator() {
    let mut c = Cluster::formed(10);
    for m in 6..=10 {
        c.leave(m);
    }
    // The coordinator lets them go, but they do not hear of it.
    c.settle_losing(|_, to, m| {
        to > id(5) && matches!(kind(m), Some(GmsKind::LeaveRsp | GmsKind::View))
    });
    c.leave(1);
    c.run(ms(300));
    for m in 6..=10 {
        assert_eq!(c.left(m), Some(true), "member {m}");
    }
    assert_eq!(c.seen_by(2), [2, 3, 4, 5]);
}

#[test]
fn any_number_of_first_members_can_leave_together() {
    for n in 2..=5 {
        for k in 1..=n {
            let mut c = Cluster::formed(n);
            for m in 1..=k {
                c.leave(m);
            }
            c.run(ms(500));
            for m in 1..=k {
                assert_eq!(c.left(m), Some(true), "{k} of {n} leave: member {m}");
            }
            for m in k + 1..=n {
                let rest: Vec<u64> = (k + 1..=n).collect();
                assert_eq!(c.seen_by(m), rest, "{k} of {n} leave");
            }
        }
    }
}

#[test]
fn a_coordinator_that_leaves_last_lets_go_whoever_had_asked_it() {
    let mut c = Cluster::formed(3);
    c.leave(2);
    c.leave(3);
    // The requests arrive in the turn in which the coordinator is told to leave.
    for m in [2, 3] {
        c.at(1).arrive(m, payload::leave_request(id(1), id(m)).wire);
    }
    c.leave(1);
    assert_eq!(c.left(1), Some(true), "nobody stays");
    c.settle();
    assert_eq!([2, 3].map(|m| c.left(m)), [Some(true); 2]);
}

#[test]
fn members_that_leave_one_after_the_other_in_any_order_are_all_let_go() {
    for order in [[1, 3, 2], [3, 1, 2], [2, 1, 3], [2, 3, 1]] {
        let mut c = Cluster::formed(4);
        for m in order {
            c.leave(m);
            c.run(ms(10));
        }
        c.run(ms(500));
        for m in order {
            assert_eq!(c.left(m), Some(true), "order {order:?}, member {m}");
        }
        assert_eq!(c.seen_by(4), [4]);
    }
}

#[test]
fn a_coordinator_finishes_its_view_before_it_leaves() {
    let mut c = Cluster::formed(3);
    c.at(1).arrive(4, payload::join_request(id(1), id(4)).wire);
    c.at(1).run(ms(1));
    c.leave(1);
    // The successor gets the request to leave after the view it follows, and makes a later one.
    c.at(1).arrive(4, payload::view_ack(id(1)).wire);
    c.settle();
    assert_eq!((c.view(2).id.id, c.seen_by(3)), (4, Vec::from([2, 3, 4])));
}

#[test]
fn asking_twice_is_harmless() {
    let mut c = Cluster::formed(3);
    for _ in 0..3 {
        c.at(1).arrive(3, payload::leave_request(id(1), id(3)).wire);
    }
    c.settle();
    assert_eq!(numbers(&c.at(1).told()), [3]);
}

#[test]
fn a_request_without_a_member_that_left_is_still_answered() {
    let mut c = Cluster::formed(2);
    c.at(1).arrive(9, payload::leave_request(id(1), id(9)).wire);
    assert_eq!(c.at(1).sent().iter().filter_map(kind).next(), Some(GmsKind::LeaveRsp));
}

#[test]
fn a_stranger_cannot_make_others_leave() {
    let mut c = Cluster::formed(3);
    c.at(1).arrive(9, payload::leave_request(id(1), id(3)).wire);
    c.settle();
    assert_eq!(c.seen_by(1), [1, 2, 3]);
}

#[test]
fn survivors_that_missed_the_last_view_of_a_leaver_heal_by_suspicion() {
    let mut c = Cluster::formed(3);
    c.leave(1);
    c.settle_losing(|from, to, m| from == id(2) && to == id(3) && kind(m) == Some(GmsKind::View));
    assert_eq!(c.seen_by(3), [1, 2, 3]);
    c.run(ms(1100));
    assert_eq!(c.seen_by(3), [2, 3]);
}

#[test]
fn a_coordinator_of_jgroups_is_told_of_whom_to_exclude_by_failure_detection() {
    // These identities carry no mark, so all are taken for members of JGroups.
    let mut c = Cluster::formed(3);
    let s = c.at(3);
    s.sent();
    s.event_down(Event::Exclude([id(2)].into()));
    assert_eq!(s.sent().iter().filter_map(kind).count(), 0, "it would ignore a request of ours");
    let below = s.below.lock().unwrap();
    assert!(below.iter().any(|(_, e)| matches!(e, Event::Exclude(list) if list[..] == [id(2)])));
}

#[test]
fn a_coordinator_excludes_on_its_own_account_at_once_and_tells_who_it_was() {
    let mut c = Cluster::formed(3);
    c.at(1).event_down(Event::Exclude([id(3), id(77)].into()));
    c.settle();
    assert_eq!((c.seen_by(1), c.seen_by(2)), (Vec::from([1, 2]), Vec::from([1, 2])));
    let told = c.at(3).told();
    assert!(told.iter().any(|e| matches!(e, AppEvent::Rejoining { .. })), "{told:?}");
}
