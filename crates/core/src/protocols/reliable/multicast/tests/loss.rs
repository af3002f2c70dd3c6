//! R01, R05, S1-3, S1-4: whatever is lost is repaired, in time, and then the wire is quiet.

use super::*;

/// Loses the first `n` messages for which `what` holds.
fn lose_first(
    mut n: u32,
    what: impl Fn(&wire::Message) -> bool,
) -> impl FnMut(Uuid, Uuid, &wire::Message) -> bool {
    move |_, _, m| {
        let lost = n > 0 && what(m);
        n -= u32::from(lost);
        lost
    }
}

fn is_announcement(m: &wire::Message) -> bool {
    matches!(nak(m), Some(NakAckHeader::HighestSeqno(_)))
}

#[test]
fn a_lost_last_message_is_repaired_soon_after_the_burst() {
    let mut g = group(&[1, 2], &tcp());
    for n in 1..=5 {
        g[0].send(text(&n.to_string()), None);
    }
    let mut drop = lose_first(1, |m| number(m) == Some(5));
    pass_time(&mut g, MS * 60, &mut drop);
    assert_eq!(heard(&mut g[1]), ["1", "2", "3", "4", "5"]);
}

#[test]
fn a_lost_last_message_and_two_lost_announcements_are_repaired_within_three_rounds() {
    let mut g = group(&[1, 2], &tcp());
    g[0].send(text("x"), None);
    let mut last = lose_first(1, |m| number(m) == Some(1));
    let mut announcements = lose_first(2, is_announcement);
    pass_time(&mut g, ROUND * 3, |a, b, m| last(a, b, m) || announcements(a, b, m));
    assert_eq!(heard(&mut g[1]), ["x"]);
}

#[test]
fn a_last_number_is_announced_again_when_somebody_owes_an_answer() {
    let mut g = group(&[1, 2], &tcp());
    g[0].send(text("x"), None);
    pass_time(&mut g, ROUND * 5, |_, _, _| true);
    pass_time(&mut g, ROUND * 5, |_, _, _| false);
    assert!(heard(&mut g[1]).is_empty(), "the announcements are over");
    g[0].event_down(Event::Unacknowledged([id(2)].into()));
    pass_time(&mut g, ROUND, |_, _, _| false);
    assert_eq!(heard(&mut g[1]), ["x"]);
}

#[test]
fn after_the_repair_the_wire_is_quiet_and_no_timer_runs() {
    let mut g = group(&[1, 2, 3], &tcp());
    g[0].send(text("x"), None);
    pass_time(&mut g, ROUND * 4, lose_first(2, |m| number(m) == Some(1)));
    let mut later = 0;
    pass_time(&mut g, ROUND * 10, |_, _, _| {
        later += 1;
        false
    });
    assert_eq!(later, 0);
    assert!(g.iter().all(|m| m.stack.poll_deadline().is_none()));
}

#[test]
fn a_steady_sender_announces_nothing() {
    let mut g = group(&[1, 2], &tcp());
    for n in 0..40 {
        g[0].send(text(&n.to_string()), None);
        pass_time(&mut g, MS * 50, |_, _, _| false);
    }
    assert!(gauge(&g[0], "announcements") <= 2, "{}", gauge(&g[0], "announcements"));
}

#[test]
fn a_lost_request_and_a_lost_answer_are_repeated_in_the_next_round() {
    let mut g = group(&[1, 2], &tcp());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    let mut data = lose_first(1, |m| number(m) == Some(2));
    let mut request = lose_first(1, |m| matches!(nak(m), Some(NakAckHeader::XmitReq(_))));
    let mut answer = lose_first(1, |m| matches!(nak(m), Some(NakAckHeader::XmitRsp(_))));
    pass_time(&mut g, ROUND * 4, |a, b, m| data(a, b, m) || request(a, b, m) || answer(a, b, m));
    assert_eq!(heard(&mut g[1]), ["1", "2", "3"]);
    assert_eq!(gauge(&g[1], "xmit_reqs_sent"), 3);
}

#[test]
fn a_gap_is_asked_for_early() {
    let mut g = group(&[1, 2], &tcp());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    pass_time(&mut g, MS * 6, lose_first(1, |m| number(m) == Some(2)));
    assert_eq!(heard(&mut g[1]), ["1", "2", "3"]);
}

#[test]
fn a_big_burst_of_gaps_is_repaired_with_bounded_packets() {
    let config = Nakack2Config { max_xmit_req_size: 8000, ..tcp() };
    let mut g = group(&[1, 2], &config);
    let total = 20_000;
    for n in 1..=total {
        g[0].send(text(&n.to_string()), None);
    }
    let mut largest = 0;
    let mut requests = 0;
    pass_time(&mut g, ROUND * 2, |_, _, m| {
        largest = largest.max(m.listed_len(None));
        requests += u32::from(matches!(nak(m), Some(NakAckHeader::XmitReq(_))));
        number(m).is_some_and(|n| n % 2 == 0)
    });
    let expected: Vec<String> = (1..=total).map(|n| n.to_string()).collect();
    assert_eq!(heard(&mut g[1]), expected);
    assert!(largest <= 1200, "{largest}");
    assert!(requests <= 10, "{requests}");
}

#[test]
fn a_message_lost_by_all_is_multicast_again_once() {
    let all = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut g = group(&all, &Nakack2Config::default());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    pass_time(&mut g, MS * 10, lose_first(8, |m| number(m) == Some(2)));
    for m in &mut g[1..] {
        assert_eq!(heard(m), ["1", "2", "3"]);
    }
    assert_eq!(gauge(&g[0], "retransmissions"), 1);
}

#[test]
fn who_asks_again_is_answered_alone() {
    let mut g = group(&[1, 2, 3], &Nakack2Config::default());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    // The original and the repetition to all are lost at member 2.
    let lose = |_, to, m: &wire::Message| to == id(2) && number(m) == Some(2);
    pass_time(&mut g, ROUND * 2, lose);
    assert_eq!(heard(&mut g[1]), ["1", "2", "3"]);
    assert_eq!(heard(&mut g[2]), ["1", "2", "3"]);
    assert_eq!(gauge(&g[0], "xmit_rsps_sent"), 1);
}

#[test]
fn when_the_sender_does_not_answer_another_member_is_asked() {
    let mut g = group(&[1, 2, 3], &tcp());
    for n in 1..=3 {
        g[0].send(text(&n.to_string()), None);
    }
    let lose = |from, to, m: &wire::Message| {
        to == id(2) && from == id(1) && (number(m) == Some(2) || number(m).is_none())
    };
    pass_time(&mut g, ROUND * 5, lose);
    assert_eq!(heard(&mut g[1]), ["1", "2", "3"]);
    assert_eq!(gauge(&g[2], "xmit_rsps_sent"), 1);
}

#[test]
fn without_announcements_stability_tells_of_a_lost_last_message_a_round_late() {
    let config = Nakack2Config { resend_last_seqno: false, ..tcp() };
    let mut g = group(&[1, 2], &config);
    g[0].send(text("x"), None);
    exchange(&mut g, |_, _, _| true);
    let stable = pairs(&[(1, 0, 1), (2, 0, 0)]);
    g[1].event_down(Event::Stable(stable.clone()));
    pass_time(&mut g, ROUND, |_, _, _| false);
    assert!(heard(&mut g[1]).is_empty(), "it may still be on its way");
    g[1].event_down(Event::Stable(stable));
    pass_time(&mut g, MS * 10, |_, _, _| false);
    assert_eq!(heard(&mut g[1]), ["x"]);
}

#[test]
fn reordering_causes_no_requests() {
    let all = [1, 2];
    let mut b = member(2, &all, tcp());
    let mut rng = crate::Rng::new(3);
    let mut flying: Vec<(Time, i64)> = Vec::new();
    let mut asked = 0;
    for n in 1..=4000i64 {
        flying.push((b.now + rng.duration(Duration::ZERO, MS * 20), n));
        flying.sort_unstable();
        b.run(Duration::from_micros(500));
        while flying.first().is_some_and(|(at, _)| *at <= b.now) {
            let (_, n) = flying.remove(0);
            b.arrive(1, numbered(n, text("")));
        }
        asked += b.sent().iter().filter(|m| nak(m).is_some()).count();
    }
    assert!(asked <= 8, "{asked} requests for 4000 messages");
}

/// One packet may hold any number of requests, each for thousands of messages.
#[test]
fn what_the_requests_of_one_turn_are_answered_with_is_bounded() {
    let mut a = member(1, &[1, 2], tcp());
    const KEPT: i64 = 1000;
    for _ in 0..KEPT {
        a.send(text("x"), None);
    }
    a.sent();
    let request = || {
        let list: wire::SeqnoList = (1..=KEPT).collect();
        let header = Header::NakAck(NakAckHeader::XmitReq(Some(id(1).into())));
        retransmit::request(id(1).into(), ProtId::NAKACK2, header, list)
    };
    let flood = Served::MESSAGES / KEPT as usize + 1;
    a.arrive_all(2, (0..flood).map(|_| request()));
    assert_eq!(a.sent().len(), Served::MESSAGES);
    a.run(MS);
    a.sent();
    a.arrive(2, request());
    assert_eq!(a.sent().len(), KEPT as usize, "whoever asks again is served");
}
