use super::*;
use crate::protocols::gms::payload;
use crate::testkit::view;
use crate::wire::MergeId;

/// Members 1 to `n`, split into `part` and the others, both sides having noticed.
fn split(n: u64, part: &[u64]) -> Cluster {
    let mut c = Cluster::formed(n);
    let others: Vec<u64> = (1..=n).filter(|m| !part.contains(m)).collect();
    c.split(part);
    c.suspect(part[0], &others);
    c.suspect(others[0], part);
    c.run(ms(20));
    for (m, side) in [(part[0], part), (others[0], &others[..])] {
        assert_eq!(c.seen_by(m), side);
        c.at(m).told();
    }
    c
}

fn merge_views(told: &[AppEvent]) -> Vec<Arc<View>> {
    told.iter()
        .filter_map(|e| match e {
            AppEvent::View(v) if v.is_merge() => Some(Arc::clone(v)),
            _ => None,
        })
        .collect()
}

#[test]
fn two_halves_merge_into_one_view_with_both_as_subgroups() {
    let mut c = split(4, &[3, 4]);
    c.cut.clear();
    c.run(ms(8000));
    let v = c.view(1);
    assert_eq!(v.members[..], [id(1), id(2), id(3), id(4)]);
    let sides: Vec<&[Uuid]> = v.subgroups.iter().map(|s| &s.members[..]).collect();
    assert_eq!(sides, [&[id(1), id(2)][..], &[id(3), id(4)][..]]);
    for m in 2..=4 {
        assert_eq!(c.view(m), v);
    }
}

#[test]
fn a_healed_split_makes_one_merged_view_and_no_more() {
    let mut c = split(3, &[3]);
    c.cut.clear();
    c.run(ms(60_000));
    for m in 1..=3 {
        assert_eq!(merge_views(&c.at(m).told()).len(), 1, "member {m}");
    }
}

#[test]
fn a_split_heals_within_seconds() {
    let mut c = split(3, &[3]);
    c.cut.clear();
    c.run(ms(6500));
    assert_eq!(c.seen_by(3), [1, 2, 3]);
}

#[test]
fn several_parts_merge_at_once() {
    let mut c = Cluster::formed(5);
    c.split(&[2]);
    c.split(&[5]);
    c.split(&[3, 4]);
    c.suspect(1, &[2, 3, 4, 5]);
    c.suspect(2, &[1, 3, 4, 5]);
    c.suspect(3, &[1, 2, 5]);
    c.suspect(5, &[1, 2, 3, 4]);
    c.run(ms(3000));
    assert_eq!((c.seen_by(2), c.seen_by(4)), (Vec::from([2]), Vec::from([3, 4])));
    c.cut.clear();
    c.run(ms(20_000));
    let v = c.view(1);
    assert_eq!(v.members.len(), 5);
    for m in 2..=5 {
        assert_eq!(c.view(m), v);
    }
}

#[test]
fn the_number_of_a_merged_view_is_above_all_others() {
    let mut c = split(3, &[3]);
    let before = [c.view(1).id.id, c.view(3).id.id];
    c.cut.clear();
    c.run(ms(8000));
    assert!(before.iter().all(|n| *n < c.view(1).id.id));
}

#[test]
fn members_that_do_not_answer_are_left_out() {
    let mut c = split(4, &[3, 4]);
    c.cut.clear();
    c.kill(4);
    c.run(ms(12_000));
    assert_eq!((c.seen_by(1), c.seen_by(3)), (Vec::from([1, 2, 3]), Vec::from([1, 2, 3])));
}

#[test]
fn a_leader_that_dies_in_the_middle_blocks_nobody() {
    let mut c = split(4, &[3, 4]);
    let merge = MergeId { initiator: id(1).into(), id: 7 };
    c.at(3).arrive(1, payload::merge_request(id(3), &merge, id(1), &[id(3), id(4)]).wire);
    c.settle();
    c.at(3).arrive(9, payload::join_request(id(3), id(9)).wire);
    c.run(ms(5000));
    assert_eq!(c.seen_by(3), [3, 4], "requests wait for the merge");
    for _ in 0..6 {
        c.at(3).arrive(9, payload::join_request(id(3), id(9)).wire);
        c.run(ms(1000));
    }
    assert_eq!(c.seen_by(3), [3, 4, 9]);
}

#[test]
fn a_joiner_that_gave_up_asking_is_not_let_in() {
    let mut c = split(4, &[3, 4]);
    let merge = MergeId { initiator: id(1).into(), id: 7 };
    c.at(3).arrive(1, payload::merge_request(id(3), &merge, id(1), &[id(3), id(4)]).wire);
    c.settle();
    c.at(3).arrive(9, payload::join_request(id(3), id(9)).wire);
    c.run(ms(11_000));
    assert_eq!(c.seen_by(3), [3, 4], "it is in another group by now");
}

#[test]
fn a_second_merge_is_refused_while_one_is_going_on() {
    let mut c = split(4, &[3, 4]);
    for n in [7, 8] {
        let merge = MergeId { initiator: id(n).into(), id: 1 };
        c.at(3).arrive(n, payload::merge_request(id(3), &merge, id(n), &[id(3), id(4)]).wire);
    }
    let refused = c.at(3).sent().into_iter().any(|m| match m.headers.get(ProtId::GMS) {
        Some(Header::Gms(h)) => h.merge_rejected && m.dest == Some(id(8).into()),
        _ => false,
    });
    assert!(refused);
}

#[test]
fn a_cancellation_counts_only_with_the_right_id_and_from_the_leader() {
    let mut c = split(4, &[3, 4]);
    let merge = MergeId { initiator: id(1).into(), id: 7 };
    c.at(3).arrive(1, payload::merge_request(id(3), &merge, id(1), &[id(3), id(4)]).wire);
    let other = MergeId { initiator: id(1).into(), id: 8 };
    c.at(3).arrive(1, payload::merge_cancellation(id(3), &other).wire);
    c.at(3).arrive(2, payload::merge_cancellation(id(3), &merge).wire);
    assert!(is_merging(&mut c, 3));
    c.at(3).arrive(1, payload::merge_cancellation(id(3), &merge).wire);
    assert!(!is_merging(&mut c, 3));
}

fn is_merging(c: &mut Cluster, m: u64) -> bool {
    match c.at(m).ask(&Query::MergeRunning) {
        Some(Answer::MergeRunning(running)) => running,
        other => panic!("{other:?}"),
    }
}

/// What it contributed is not its view any more: a view made of it would join what is together
/// already, and make members jump over messages that they could still get.
#[test]
fn a_member_that_installs_another_view_gives_up_the_merge() {
    let mut c = split(4, &[3, 4]);
    let merge = MergeId { initiator: id(1).into(), id: 7 };
    c.at(3).arrive(1, payload::merge_request(id(3), &merge, id(1), &[id(3), id(4)]).wire);
    assert!(is_merging(&mut c, 3));
    c.at(3).arrive(4, payload::view_unicast(id(3), &view(20, &[4, 3]), None).wire);
    assert!(!is_merging(&mut c, 3));
}

#[test]
fn a_merged_view_of_another_merge_is_ignored() {
    let mut c = split(4, &[3, 4]);
    let v = View { subgroups: Arc::new([]), ..View::clone(&view(9, &[1, 2, 3, 4])) };
    let digest = v.members.iter().map(|m| (*m, SeqnoPair::default())).collect();
    let stray = MergeId { initiator: id(1).into(), id: 99 };
    c.at(3).arrive(1, payload::merge_installation(id(3), &stray, &v, &digest).wire);
    assert_eq!(c.seen_by(3), [3, 4]);
}

#[test]
fn a_member_that_leaves_during_the_merge_is_not_merged_back() {
    let mut c = split(4, &[3, 4]);
    let merge = MergeId { initiator: id(1).into(), id: 7 };
    c.at(3).arrive(1, payload::merge_request(id(3), &merge, id(1), &[id(3), id(4)]).wire);
    c.settle();
    c.leave(4);
    c.settle();
    // The leader had the answer before the leave.
    let parts: Arc<[View]> =
        [View::clone(&view(4, &[1, 2])), View::clone(&view(4, &[3, 4]))].into();
    let v = View { subgroups: parts, ..View::clone(&view(9, &[1, 2, 3, 4])) };
    let digest = v.members.iter().map(|m| (*m, SeqnoPair::default())).collect();
    c.at(3).arrive(1, payload::merge_installation(id(3), &merge, &v, &digest).wire);
    let told = c.at(3).sent();
    let passed_on =
        told.iter().any(|m| kind(m) == Some(GmsKind::LeaveReq) && m.dest == Some(id(1).into()));
    assert!(passed_on);
}

#[test]
fn a_member_that_missed_a_view_is_sent_it_again_instead_of_a_merge() {
    let mut c = Cluster::formed(3);
    c.at(1).arrive(4, payload::join_request(id(1), id(4)).wire);
    c.run_losing(ms(2500), |_, to, m| to == id(3) && matches!(kind(m), Some(GmsKind::View)));
    assert_eq!(c.seen_by(3), [1, 2, 3]);
    c.run(ms(10_000));
    assert_eq!(c.seen_by(3), [1, 2, 3, 4]);
    assert!(!c.view(3).is_merge());
}

#[test]
fn a_stable_group_makes_no_views() {
    let mut c = Cluster::formed(3);
    c.run(ms(60_000));
    for m in 1..=3 {
        assert!(numbers(&c.at(m).told()).is_empty());
    }
}

#[test]
fn a_member_that_was_excluded_without_noticing_comes_back_by_a_merge() {
    let mut c = Cluster::formed(3);
    c.suspect(1, &[3]);
    c.settle();
    assert_eq!((c.seen_by(1), c.seen_by(3)), (Vec::from([1, 2]), Vec::from([1, 2, 3])));
    c.run(ms(10_000));
    assert_eq!((c.view(1).members.len(), c.view(3)), (3, c.view(1)));
}

/// Members 1, 2 and 3, 4 have merged, but 4 has heard nothing of it, and 5 has joined since.
fn merged_unheard_by_four() -> Cluster {
    let mut c = split(4, &[3, 4]);
    c.cut.clear();
    let views_to_4 =
        |_: Uuid, to: Uuid, m: &wire::Message| to == id(4) && kind(m) == Some(GmsKind::View);
    while !c.view(1).is_merge() {
        c.run_losing(ms(50), views_to_4);
    }
    c.at(1).arrive(5, payload::join_request(id(1), id(5)).wire);
    c.run_losing(ms(20), views_to_4);
    assert_eq!((c.seen_by(1).len(), c.seen_by(4)), (5, Vec::from([3, 4])));
    c.at(4).told();
    c
}

#[test]
fn who_missed_a_merged_view_gets_it_before_the_one_that_follows() {
    let mut c = merged_unheard_by_four();
    // It is in another group than 1, so it can take views of 3 alone.
    let merge = payload::view_inquiry(id(3), c.view(4).id).wire;
    c.at(3).arrive(4, merge);
    let sent: Vec<_> =
        c.at(3).sent().into_iter().filter(|m| m.dest == Some(id(4).into())).collect();
    assert!(
        sent.iter().all(|m| !m.flags.contains(wire::Flags::OOB)),
        "out of band, one could overtake the other"
    );
    c.at(4).arrive_all(3, sent);
    let told = c.at(4).told();
    assert_eq!(merge_views(&told).len(), 1, "{told:?}");
    assert_eq!(numbers(&told).len(), 2);
    assert_eq!(c.view(4), c.view(1));
}

#[test]
fn who_is_known_to_have_the_merged_view_gets_the_one_that_follows_alone() {
    let mut c = merged_unheard_by_four();
    let merge = c.at(3).told().iter().find_map(|e| match e {
        AppEvent::View(v) if v.is_merge() => Some(v.id),
        _ => None,
    });
    c.at(3).arrive(4, payload::view_inquiry(id(3), merge.unwrap()).wire);
    let sent = c.at(3).sent().into_iter().filter(|m| m.dest == Some(id(4).into()));
    assert_eq!(sent.count(), 1);
}
