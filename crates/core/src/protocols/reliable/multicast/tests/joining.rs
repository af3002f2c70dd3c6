//! R07, R08, R09: joining, leaving, coming back, merging: which windows exist and where they begin.

use super::*;

fn newcomer(me: u64) -> Solo {
    Solo::new(me, [Box::new(ReliableMulticast::new(tcp())) as Box<dyn Protocol>].into())
}

#[test]
fn early_multicasts_wait_for_the_end_of_the_join_and_the_digest_decides() {
    let mut c = newcomer(3);
    for n in 4..=7 {
        c.arrive(1, numbered(n, text(&n.to_string())));
    }
    assert!(heard(&mut c).is_empty());
    c.event_down(Event::SetDigest(pairs(&[(1, 5, 5), (3, 0, 0)])));
    c.install(view(2, &[1, 3]));
    c.event_down(Event::BecomeServer);
    assert_eq!(heard(&mut c), ["6", "7"]);
}

#[test]
fn at_most_so_many_multicasts_of_a_sender_wait() {
    let mut c = newcomer(3);
    for n in 1..=51 {
        c.arrive(1, numbered(n, text(&n.to_string())));
    }
    assert_eq!(c.stack.dropped(DropReason::OverLimit), 1);
    c.install(view(2, &[1, 3]));
    c.event_down(Event::BecomeServer);
    assert_eq!(heard(&mut c).len(), 50);
}

#[test]
fn what_the_digest_knows_beyond_what_was_delivered_is_asked_for() {
    let mut c = newcomer(3);
    c.event_down(Event::SetDigest(pairs(&[(1, 5, 7)])));
    c.install(view(2, &[1, 3]));
    c.event_down(Event::BecomeServer);
    c.run(MS * 10);
    let lists: Vec<i64> = c
        .sent()
        .iter()
        .filter_map(|m| retransmit::requested(m).map(|l| l.iter().collect::<Vec<_>>()))
        .flatten()
        .collect();
    assert_eq!(lists, [6, 7]);
}

#[test]
fn a_coordinator_prepares_for_joiners_before_the_view_is_installed() {
    let mut a = member(1, &[1], tcp());
    a.event_down(Event::PendingView(view(2, &[1, 3])));
    a.arrive(3, numbered(1, text("early")));
    assert_eq!(heard(&mut a), ["early"]);
}

#[test]
fn what_a_joiner_sent_before_the_view_arrived_is_asked_for_once_it_is_a_member() {
    let mut g: Vec<Solo> = [member(2, &[1, 2], tcp()), member(3, &[1, 2, 3], tcp())].into();
    for n in 1..=10 {
        g[1].send(text(&n.to_string()), None);
    }
    exchange(&mut g, |_, _, _| false);
    assert!(heard(&mut g[0]).is_empty());
    assert_eq!(g[0].stack.dropped(DropReason::NotAMember), 10);
    g[0].install(view(2, &[1, 2, 3]));
    pass_time(&mut g, MS * 20, |_, _, _| false);
    let expected: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    assert_eq!(heard(&mut g[0]), expected);
}

#[test]
fn nothing_of_a_member_that_left_is_delivered() {
    let mut b = member(2, &[1, 2, 3], tcp());
    b.arrive(1, numbered(2, text("2")));
    b.install(view(2, &[2, 3]));
    b.arrive(1, numbered(1, text("1")));
    assert!(heard(&mut b).is_empty());
    b.run(ROUND * 3);
    assert!(b.sent().is_empty(), "and nothing of it is asked for");
}

#[test]
fn an_endpoint_that_reconnects_starts_from_one_and_everything_arrives() {
    let mut g = group(&[1, 2], &tcp());
    for generation in 0..4u64 {
        if generation > 0 {
            let now = g[0].now;
            g[0].stack.stop(now);
            g[1].install(view(10 * generation, &[2]));
            let cluster = bytes::Bytes::from_static(b"test");
            g[0].stack.submit(now, crate::Command::Connect { cluster });
            let v = view(10 * generation + 1, &[2, 1]);
            let two = windows(&g[1], 2).delivered;
            g[0].event_down(Event::SetDigest(pairs(&[(2, two, two), (1, 0, 0)])));
            g.iter_mut().for_each(|m| m.install(v.clone()));
            g[0].event_down(Event::BecomeServer);
        }
        for n in 1..=10 {
            g[0].send(text(&n.to_string()), None);
        }
        pass_time(&mut g, ROUND * 2, |_, _, m| number(m) == Some(10) && m.dest.is_none());
        let expected: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        assert_eq!(heard(&mut g[1]), expected, "generation {generation}");
        assert_eq!(gauge(&g[0], "not_found"), 0);
    }
}

#[test]
fn a_merge_digest_moves_windows_forward_and_never_back_and_never_our_own() {
    let mut b = member(2, &[1, 2], tcp());
    b.send(text("own"), None);
    for n in 1..=3 {
        b.arrive(1, numbered(n, text("")));
    }
    b.event_down(Event::MergeDigest(pairs(&[(1, 2, 2), (2, 70, 70), (3, 9, 9)])));
    assert_eq!((windows(&b, 1).delivered, windows(&b, 3).delivered), (3, 9));
    assert_eq!(windows(&b, 2).received, 1);
    b.event_down(Event::MergeDigest(pairs(&[(1, 8, 8)])));
    assert_eq!(windows(&b, 1).delivered, 8);
    b.event_down(Event::OverwriteDigest(pairs(&[(1, 4, 4), (2, 70, 70)])));
    assert_eq!((windows(&b, 1).delivered, windows(&b, 2).received), (4, 1));
}

#[test]
fn what_a_merge_shows_to_be_missing_is_asked_for_without_moving_the_window() {
    let mut b = member(2, &[1, 2], tcp());
    b.arrive(1, numbered(1, text("")));
    b.event_down(Event::SentSoFar(pairs(&[(1, 4, 4), (3, 9, 9)])));
    assert_eq!((windows(&b, 1).delivered, gauge(&b, "xmit_table_missing_messages")), (1, 3));
}

#[test]
fn a_set_digest_creates_what_is_missing_only() {
    let mut b = member(2, &[1, 2], tcp());
    b.arrive(1, numbered(1, text("")));
    b.event_down(Event::SetDigest(pairs(&[(1, 0, 0), (3, 4, 4), (2, 9, 9)])));
    assert_eq!((windows(&b, 1).delivered, windows(&b, 3).delivered), (1, 4));
    assert_eq!(windows(&b, 2).delivered, 0);
}

#[test]
fn the_digest_names_the_members_in_view_order() {
    let mut b = member(2, &[3, 1, 2], tcp());
    b.send(text("x"), None);
    b.arrive(3, numbered(2, text("")));
    let Some(Answer::Digest(d)) = b.ask(&Query::Digest) else { panic!("it has a digest") };
    assert_eq!(d, pairs(&[(3, 0, 2), (1, 0, 0), (2, 1, 1)]));
    let Some(Answer::Digest(one)) = b.ask(&Query::DigestOf(id(2))) else { panic!("one entry") };
    assert_eq!(one, pairs(&[(2, 1, 1)]));
}

#[test]
fn a_former_member_is_not_asked_for_numbers_of_its_former_life() {
    let mut b = member(2, &[1, 2], tcp());
    b.arrive(1, numbered(1, text("")));
    b.install(view(2, &[2]));
    b.arrive(1, numbered(2, text("late")));
    b.install(view(3, &[2, 1]));
    b.run(ROUND * 2);
    assert!(b.sent().is_empty());
}
