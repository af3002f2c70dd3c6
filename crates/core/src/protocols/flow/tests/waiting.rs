//! Messages that wait: who is named, what overtakes, what ends the wait.

use super::*;

#[test]
fn without_credit_a_send_waits_and_goes_on_with_it() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.lose = Box::new(|_, _, m| is_fc(m, FcHeader::Replenish));
    for _ in 0..10 {
        c.cast(0, 100_000, 1);
    }
    let waiting = c.cast(0, 100_000, 2);
    c.run(60 * SECOND);
    assert_eq!(c.result(0, waiting), None);
    // Nothing is queued or in flight any more, so a request that gets through heals the loss.
    c.lose = Box::new(|_, _, _| false);
    c.run(7 * SECOND);
    assert!(c.sent(0, waiting));
}

#[test]
fn the_slowest_member_limits_the_group_and_is_named() {
    let mut c = cluster(3, 1_000_000, 0.1);
    c.consuming[2] = false;
    let ops: Vec<_> = (0..20).map(|_| c.cast(0, 100_000, 1)).collect();
    c.run(2 * SECOND);
    assert_eq!(c.delivered[1].len(), 10);
    assert_eq!(c.blocked[0], [(Some(ops[10]), [c.id(2)].into())]);
    assert!(c.blocked[1].is_empty());
    let other = c.unicast(0, 1, 100_000, 2);
    c.step();
    assert!(c.sent(0, other), "unicasts to others are not affected");
    c.resume(2);
    c.run(SECOND);
    assert_eq!(c.delivered[1].len(), 21);
}

#[test]
fn a_sender_that_does_not_consume_its_own_copies_is_limited_by_itself() {
    let mut c = cluster(2, 1_000_000, 0.1);
    c.consuming[0] = false;
    for _ in 0..11 {
        c.cast(0, 100_000, 1);
    }
    c.run(2 * SECOND);
    assert_eq!(c.blocked[0][0].1, [c.id(0)]);
}

#[test]
fn a_try_that_would_wait_names_who_limits_it_and_sends_nothing() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 90_000, 1);
    let to = c.id(1);
    let m = |n: usize| Message::unicast(to, Body::bytes([2].repeat(n)));
    let beyond = c.send_how(0, m(10_001), |s| s.try_only = true);
    let at_limit = c.send_how(0, m(10_000), |s| s.try_only = true);
    c.step();
    assert_eq!(c.refusal(0, beyond), Some(&SendRefusal::WouldBlock { by: [to].into() }));
    assert!(c.sent(0, at_limit));
    assert_eq!(c.delivered[1].len(), 2);
}

#[test]
fn a_deadline_ends_the_wait_with_the_name_of_the_member_that_limits() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let to = c.id(1);
    let m = Message::unicast(to, Body::bytes([2].repeat(10)));
    let op = c.send_how(0, m, |s| s.deadline = Some(Time::ZERO + SECOND));
    c.run(SECOND);
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::NotSent { by: [to].into() }));
    c.resume(1);
    c.run(SECOND);
    assert_eq!(c.delivered[1].len(), 1, "it is not sent later");
}

#[test]
fn a_cancelled_send_is_withdrawn_and_those_behind_it_go_on() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 60_000, 1);
    let large = c.unicast(0, 1, 60_000, 2);
    let small = c.unicast(0, 1, 30_000, 3);
    c.step();
    assert_eq!(c.result(0, small), None, "it does not overtake");
    c.cancel(0, large);
    c.step();
    assert_eq!(c.refusal(0, large), Some(&SendRefusal::Withdrawn));
    assert!(c.sent(0, small));
}

#[test]
fn regular_messages_keep_their_order_and_out_of_band_ones_may_overtake() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    let to = c.id(1);
    let oob = |n: usize| Message::unicast(to, Body::bytes([9].repeat(n))).with_flags(Flags::OOB);
    c.unicast(0, 1, 60_000, 1);
    c.unicast(0, 1, 50_000, 2);
    let first = c.send(0, oob(30_000));
    c.step();
    assert!(c.sent(0, first), "it overtakes the waiting head");
    let second = c.send(0, oob(9_000));
    let third = c.send(0, oob(1_000));
    let fourth = c.send(0, oob(1_000));
    c.step();
    assert!(c.sent(0, second));
    assert!(c.sent(0, third));
    assert_eq!(c.result(0, fourth), None, "credit is used up");
    c.resume(1);
    c.run(6 * SECOND);
    assert!(c.sent(0, fourth));
}

#[test]
fn what_overtakes_a_head_costs_at_most_as_much_as_the_head() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    let to = c.id(1);
    let oob = |n: usize| Message::unicast(to, Body::bytes([9].repeat(n))).with_flags(Flags::OOB);
    c.unicast(0, 1, 90_000, 1);
    let head = c.unicast(0, 1, 11_000, 2);
    let at_limit = c.send(0, oob(8_000));
    let beyond = c.send(0, oob(3_001));
    c.step();
    assert_eq!(c.result(0, head), None);
    assert!(c.sent(0, at_limit));
    assert_eq!(c.result(0, beyond), None);
}

#[test]
fn stopping_answers_every_waiting_call() {
    let mut c = cluster(2, 100_000, 0.1);
    c.consuming[1] = false;
    c.unicast(0, 1, 100_000, 1);
    let waiting = c.unicast(0, 1, 10, 2);
    c.step();
    c.members[0].stack.stop(Time::ZERO);
    c.step();
    assert_eq!(c.refusal(0, waiting), Some(&SendRefusal::Closed));
    assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
}

#[test]
fn more_than_the_lines_take_waits_above_and_follows_in_order() {
    let config = MfcConfig { max_blocked_messages: 3, ..mfc(100_000, 0.1) };
    let mut c = Cluster::new(2, &config, &ufc(100_000, 0.1), 1_000_000);
    c.consuming[1] = false;
    for fill in 0..30 {
        c.cast(0, 50_000, fill);
    }
    c.step();
    assert_eq!(c.gauge(0, "MFC", "waiting_messages"), 3);
    assert_eq!(c.gauge(0, "ENTRY", "waiting_messages"), 25);
    c.resume(1);
    c.run(6 * SECOND);
    let fills: Vec<u8> = c.delivered[1].iter().map(|(_, b)| b[0]).collect();
    assert_eq!(fills, (0..30).collect::<Vec<u8>>());
}

#[test]
fn a_line_that_moves_is_not_reported_however_long_it_is() {
    let mut c = cluster(2, 10_000, 0.1);
    c.consuming[1] = false;
    for _ in 0..8 {
        c.unicast(0, 1, 10_000, 1);
    }
    // Each head waits less than a second, the last message more than six.
    for _ in 0..6 {
        c.run(Duration::from_millis(900));
        c.take_one(1);
    }
    assert_eq!(c.blocked[0], []);
    c.run(SECOND + Duration::from_millis(100));
    assert_eq!(c.blocked[0].len(), 1, "the head stands still now");
}

#[test]
fn what_waits_above_a_moving_line_is_not_reported() {
    let config = UfcConfig { max_blocked_messages: 1, ..ufc(10_000, 0.1) };
    let mut c = Cluster::new(2, &mfc(10_000, 0.1), &config, 10_000_000);
    c.consuming[1] = false;
    for _ in 0..8 {
        c.unicast(0, 1, 10_000, 1);
    }
    for _ in 0..6 {
        c.run(Duration::from_millis(900));
        c.take_one(1);
    }
    assert_eq!(c.blocked[0], []);
}
