//! S0-2 to S0-6: what credit is, who counts it, and what happens without it.

use super::*;
use rgroups::core::app::Sync;
use rgroups::core::{SendRefusal, SyncLevel};
use rgroups_sim::cluster::Appetite;
use rgroups_sim::filter::{Action, Pattern, Rule};

crate::tests![
    both_sides_begin_with_the_same_number_and_count_the_same_bytes => "S0-2";
    empty_messages_cost_a_floor_so_that_a_flood_of_them_is_bounded => "S0-2";
    the_sender_subtracts_the_bytes_at_every_member_itself_included => "S0-3";
    what_is_queued_for_the_application_is_not_consumed => "S0-4";
    receivers_send_credits_when_the_threshold_is_reached => "S0-5";
    a_send_without_credit_returns_when_credit_comes => "S0-6";
    a_message_above_all_credit_is_cut_or_refused_at_once => "S0-6";
    credit_that_is_left_but_too_small_blocks_nobody_for_ever => "S0-6";
    who_blocks_and_since_when_is_told_once => "S0-6";
    an_attempt_that_would_wait_names_who_limits_it => "S0-6";
    a_synchronous_send_without_credit_ends_in_its_time_as_not_sent => "S0-6";
];

fn drop_credit(c: &mut Cluster) {
    for protocol in ["MFC", "UFC"] {
        let pattern = Pattern {
            protocol: Some(protocol.into()),
            kind: Some("REPLENISH".into()),
            ..Pattern::default()
        };
        c.add_rule(Rule::new(pattern, Action::Drop, None));
    }
}

/// The credit of a fresh pair is the maximum on both sides, and a message of 1,000 bytes takes 1,000
/// from both: payload is counted, headers are not.
fn both_sides_begin_with_the_same_number_and_count_the_same_bytes() {
    let mut c = group(udp(), &["A", "B"]);
    c.appetite("B", Appetite::Nothing);
    let both = |c: &Cluster, pool| {
        let (out, inc) = (account(c, "A", pool, "B"), account(c, "B", pool, "A"));
        (out.balance, inc.max - inc.unconsumed - inc.ungranted)
    };
    for (pool, to) in [(Pool::Multicast, None), (Pool::Unicast, Some("B"))] {
        assert_eq!(both(&c, pool), (MAX, MAX));
        send(&mut c, "A", to, 1_000);
        c.run_for(ms(50));
        assert_eq!(both(&c, pool), (MAX - 1_000, MAX - 1_000));
    }
}

/// JGroups lets a million empty messages pass. Here a message costs 128 bytes at least.
fn empty_messages_cost_a_floor_so_that_a_flood_of_them_is_bounded() {
    let mut c = group(credits(StackPlan::udp(), 12_800, 0.1), &["A", "B"]);
    c.appetite("B", Appetite::Nothing);
    for _ in 0..300 {
        send(&mut c, "A", Some("B"), 0);
    }
    c.run_for(20 * SECOND);
    assert_eq!(delivered(&c, "B").len(), 100);
}

fn the_sender_subtracts_the_bytes_at_every_member_itself_included() {
    let mut c = group(udp(), &["A", "B", "C"]);
    cast(&mut c, "A", 10, 10_000);
    c.run_for(ms(50));
    for peer in ["A", "B", "C"] {
        assert_eq!(account(&c, "A", Pool::Multicast, peer).balance, MAX - 100_000, "at {peer}");
    }
}

/// Credit follows consumption: with the consumer stopped the sender stalls after `max_credits`, and
/// while it takes k bytes, at most k more arrive.
fn what_is_queued_for_the_application_is_not_consumed() {
    let mut c = group(udp(), &["A", "B"]);
    let since = now(&c);
    c.appetite("B", Appetite::Nothing);
    for to in [None, Some("B")] {
        post(&mut c, "A", to, 200, 10_000);
    }
    let arrived = |c: &Cluster| total(c, Sum::Delivered("B"), since);
    c.run_for(30 * SECOND);
    assert_eq!(arrived(&c), 2 * MAX, "the maximum of each kind");
    c.appetite("B", Appetite::Rate(100_000));
    c.run_for(3 * SECOND);
    c.appetite("B", Appetite::Nothing);
    c.run_for(20 * SECOND);
    let taken = total(&c, Sum::Taken("B"), since);
    assert!((250_000..=300_000).contains(&taken), "{taken}");
    assert_eq!(lead(&c, Sum::Delivered("B"), Sum::Taken("B"), since), 2 * MAX);
    assert_eq!(arrived(&c), 2 * MAX + taken, "what was taken makes room for as much");
}

fn receivers_send_credits_when_the_threshold_is_reached() {
    let mut c = group(udp(), &["A", "B", "C"]);
    let since = now(&c);
    cast(&mut c, "A", 8, 100_000);
    c.run_for(SECOND);
    for by in ["A", "B", "C"] {
        assert_eq!(granted(&c, by, "A", since), [0u64; 0], "{by} after 800,000");
    }
    cast(&mut c, "A", 1, 100_000);
    c.run_for(SECOND);
    for by in ["A", "B", "C"] {
        assert_eq!(granted(&c, by, "A", since), [900_000], "{by}");
    }
    assert_eq!(account(&c, "A", Pool::Multicast, "B").balance, MAX);
}

fn a_send_without_credit_returns_when_credit_comes() {
    let mut c = group(udp(), &["A", "B"]);
    drop_credit(&mut c);
    let sent = cast(&mut c, "A", 10, 100_000);
    let next = send(&mut c, "A", None, 100_000);
    c.run_for(60 * SECOND);
    assert!(sent.iter().all(|m| is_sent(&c, *m)));
    assert_eq!(result(&c, next), None, "without credit it waits");
    c.clear_rules();
    let since = now(&c);
    assert!(c.run_until(10 * SECOND, |c| is_sent(c, next)));
    let b = id(&c, "B");
    let credit = traces(&c, "A", since)
        .find(|(_, t)| matches!(t, Trace::Credited { from, .. } if *from == b))
        .expect("credit came");
    let (at, _) = result(&c, next).expect("it was sent");
    assert!(at.since(credit.0) <= ms(1), "credit at {:?}, sent at {at:?}", credit.0);
}

fn a_message_above_all_credit_is_cut_or_refused_at_once() {
    let mut c = group(udp(), &["A", "B"]);
    let m = send(&mut c, "A", None, 3 * MAX + 1);
    assert!(c.run_until(5 * SECOND, |c| delivered(c, "B").contains(&m)), "it is cut");
    let mut c = group(tcp(2).without("FRAG2"), &["A", "B"]);
    for to in [None, Some("B")] {
        let m = send(&mut c, "A", to, MAX + 1);
        c.run_for(ms(1));
        let refusal = SendRefusal::TooLarge { size: MAX + 1, limit: MAX };
        let (_, how) = result(&c, m).expect("at once");
        assert_eq!(how, SendResult::Refused(refusal));
        let largest = send(&mut c, "A", to, MAX);
        assert!(c.run_until(5 * SECOND, |c| delivered(c, "B").contains(&largest)));
    }
}

/// X7: JGroups 5.5.6 blocks for good in the second send, with 300,000 of credit left at a threshold of
/// 200,000 and no request sent.
fn credit_that_is_left_but_too_small_blocks_nobody_for_ever() {
    let plan = credits(StackPlan::tcp(rgroups_sim::cluster::transport_addresses(2)), MAX, 0.2);
    let mut c = group(plan.without("FRAG2"), &["A", "B"]);
    let first = send(&mut c, "A", None, 700_000);
    let second = send(&mut c, "A", None, 500_000);
    c.run_for(SECOND);
    assert_eq!(delivered(&c, "B"), [first, second]);
}

fn who_blocks_and_since_when_is_told_once() {
    let mut c = group(udp(), &["A", "B", "C"]);
    c.appetite("C", Appetite::Nothing);
    let since = now(&c);
    let began = c.now();
    cast(&mut c, "A", 40, 50_000);
    c.run_for(30 * SECOND);
    let told: Vec<(Time, Vec<Uuid>)> = c.history().facts[since..]
        .iter()
        .filter_map(|f| match &f.what {
            What::Blocked(_, by) => Some((f.at, by.clone())),
            _ => None,
        })
        .collect();
    let [(at, by)] = &told[..] else { panic!("told {} times", told.len()) };
    assert_eq!(by[..], [id(&c, "C")]);
    assert!(at.since(began) >= SECOND && at.since(began) < 2 * SECOND);
}

fn an_attempt_that_would_wait_names_who_limits_it() {
    let mut c = group(udp(), &["A", "B", "C"]);
    c.appetite("C", Appetite::Nothing);
    cast(&mut c, "A", 10, 100_000);
    c.run_for(SECOND);
    let attempt = Outgoing { try_only: true, ..Outgoing::new(None, 1_000) };
    let m = c.send("A", &attempt).expect("A runs");
    c.run_for(ms(1));
    let by = vec![id(&c, "C")];
    let (_, how) = result(&c, m).expect("at once");
    assert_eq!(how, SendResult::Refused(SendRefusal::WouldBlock { by }));
}

/// X6: with a timeout of 3 s above a stalled MFC the send of JGroups 5.5.6 returns normally after 5 s,
/// and the receiver has nothing.
fn a_synchronous_send_without_credit_ends_in_its_time_as_not_sent() {
    let mut c = group(udp(), &["A", "B"]);
    c.appetite("B", Appetite::Nothing);
    cast(&mut c, "A", 20, 50_000);
    c.run_for(SECOND);
    let sync = Sync { level: SyncLevel::OnReceive, timeout: Some(3 * SECOND), to: None };
    let call = Outgoing { sync: Some(sync), ..Outgoing::new(None, 1_000) };
    let (began, m) = (c.now(), c.send("A", &call).expect("A runs"));
    c.run_for(10 * SECOND);
    let by = vec![id(&c, "B")];
    let (at, how) = result(&c, m).expect("it ended");
    assert_eq!(how, SendResult::Refused(SendRefusal::NotSent { by }));
    assert!(at.since(began) >= 3 * SECOND && at.since(began) <= ms(3_001));
}
