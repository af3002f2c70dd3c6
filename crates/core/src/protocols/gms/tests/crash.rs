use super::*;
use crate::protocols::gms::payload;

#[test]
fn the_coordinator_excludes_a_suspect() {
    let mut c = Cluster::formed(3);
    c.kill(3);
    c.suspect(1, &[3]);
    c.settle();
    assert_eq!((c.seen_by(1), c.seen_by(2)), (Vec::from([1, 2]), Vec::from([1, 2])));
}

#[test]
fn the_next_member_takes_over_from_a_dead_coordinator() {
    let mut c = Cluster::formed(3);
    c.kill(1);
    c.suspect(2, &[1]);
    c.settle();
    let v = c.view(3);
    assert_eq!((&v.members[..], v.id.creator), (&[id(2), id(3)][..], id(2)));
}

#[test]
fn suspicions_of_one_turn_make_one_view_and_one_coordinator() {
    for order in [[1, 2], [2, 1]] {
        let mut c = Cluster::formed(4);
        c.kill(1);
        c.kill(2);
        for m in order {
            c.suspect(3, &[m]);
            c.suspect(4, &[m]);
        }
        c.settle();
        assert_eq!(numbers(&c.at(3).told()), [4]);
        assert_eq!((c.seen_by(3), c.view(3)), (Vec::from([3, 4]), c.view(4)));
    }
}

/// 3 gets none of the views that 1 makes before it dies, 4 gets all of them.
#[test]
fn a_successor_that_missed_the_last_views_of_its_predecessors_makes_one_above_them() {
    for missed in 1..=3 {
        let mut c = Cluster::formed(4 + missed);
        for n in 0..missed {
            c.kill(5 + n);
            c.suspect(1, &[5 + n]);
            c.run_losing(ms(3_000), |_, to, _| to == id(3));
        }
        assert_eq!(
            (c.view(3).members.len(), c.seen_by(4)),
            (4 + missed as usize, [1, 2, 3, 4].into())
        );
        let theirs = c.view(4).id.id;
        c.kill(1);
        c.kill(2);
        let dead: Vec<u64> = [1, 2].into_iter().chain(5..5 + missed).collect();
        c.suspect(3, &dead);
        c.settle();
        let v = c.view(3);
        assert_eq!((&v.members[..], v.id.creator), (&[id(3), id(4)][..], id(3)));
        assert!(v.id.id > theirs, "{} above {theirs}", v.id.id);
        assert_eq!(c.view(4), v);
    }
}

#[test]
fn a_member_behind_one_that_stays_does_not_act() {
    let mut c = Cluster::formed(3);
    c.suspect(3, &[1]);
    c.settle();
    assert_eq!(c.seen_by(3), [1, 2, 3]);
}

#[test]
fn a_suspicion_that_is_withdrawn_in_time_has_no_effect() {
    let mut c = Cluster::formed(3);
    c.suspect(1, &[3]);
    c.at(1).event_up(Event::Unsuspect(Vec::from([id(3)])));
    c.settle();
    assert_eq!(c.seen_by(1), [1, 2, 3]);
}

#[test]
fn suspicions_of_oneself_and_of_strangers_are_ignored() {
    let mut c = Cluster::formed(2);
    c.suspect(1, &[1, 9]);
    c.run(ms(100));
    assert_eq!(c.seen_by(1), [1, 2]);
}

#[test]
fn nobody_waits_for_the_acknowledgement_of_a_suspect() {
    let mut c = Cluster::formed(5);
    for m in [2, 3, 4, 5] {
        c.kill(m);
    }
    c.suspect(1, &[2, 3]);
    c.run(ms(10));
    // These two are awaited for the view {1, 4, 5} when the suspicion of them comes.
    c.suspect(1, &[4, 5]);
    c.run(ms(10));
    assert_eq!(c.seen_by(1), [1]);
}

#[test]
fn a_coordinator_that_dies_between_view_and_join_answer_is_replaced_for_the_joiner() {
    let mut c = Cluster::formed(2);
    c.world.lock().unwrap().push(found(2, true, true));
    c.members.push(Solo::new(
        9,
        Vec::from([
            Box::new(Below::default()) as Box<dyn Protocol>,
            Box::new(Gms::new(GmsConfig::default())),
        ]),
    ));
    c.at(1).arrive(3, payload::join_request(id(1), id(3)).wire);
    c.settle_losing(|_, _, m| kind(m) == Some(GmsKind::JoinRsp));
    c.kill(1);
    c.suspect(2, &[1]);
    c.settle();
    // The joiner is in the view already, and asks the new coordinator.
    c.at(2).arrive(3, payload::join_request(id(2), id(3)).wire);
    let answered = c.at(2).sent().iter().any(|m| kind(m) == Some(GmsKind::JoinRsp));
    assert!(answered);
}

#[test]
fn a_request_that_comes_while_a_view_is_acknowledged_is_not_lost() {
    let mut c = Cluster::formed(4);
    c.kill(4);
    c.at(1).arrive(9, payload::join_request(id(1), id(9)).wire);
    c.settle();
    c.suspect(1, &[4]);
    c.at(1).arrive(8, payload::join_request(id(1), id(8)).wire);
    c.at(1).arrive(9, payload::view_ack(id(1)).wire);
    c.settle();
    assert_eq!(c.seen_by(1), [1, 2, 3, 9, 8]);
}
