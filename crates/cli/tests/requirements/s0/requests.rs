//! S0-11 to S0-13: when credit is asked for, who is asked, and until when.

use super::*;
use rgroups_sim::cluster::Appetite;
use rgroups_sim::filter::{Action, Pattern, Rule};

crate::tests![
    the_first_request_leaves_when_the_blocking_time_is_over => "S0-11";
    the_seeds_name_of_the_blocking_time_means_the_same => "S0-11";
    exactly_those_who_owe_credit_are_asked => "S0-12";
    a_member_with_credit_below_the_cost_of_the_head_owes_credit => "S0-12";
    who_has_answered_is_not_asked_again_and_a_frozen_member_is => "S0-13";
    requests_let_nothing_pass_that_was_not_processed => "S0-13";
    a_request_that_a_cut_held_up_grants_nothing_for_a_lost_tail => "S0-13";
];

fn lose_credit_and_block(plan: StackPlan) -> (Cluster, usize) {
    let mut c = group(plan, &["A", "B"]);
    let pattern = Pattern {
        protocol: Some("MFC".into()),
        kind: Some("REPLENISH".into()),
        ..Pattern::default()
    };
    c.add_rule(Rule::new(pattern, Action::Drop, None));
    let since = now(&c);
    cast(&mut c, "A", 11, 100_000);
    (c, since)
}

fn the_first_request_leaves_when_the_blocking_time_is_over() {
    let (mut c, since) = lose_credit_and_block(udp());
    c.start_census();
    c.run_for(ms(9_900));
    let began = blocked(&c, "A", since).expect("it waits");
    assert_eq!(asked(&c, "A", "B", since), [began + 5 * SECOND]);
    let requests = |c: &Cluster| c.network().census().expect("counted").count("MFC CREDIT_REQUEST");
    assert_eq!(requests(&c), 1);
    c.run_for(SECOND);
    assert_eq!(asked(&c, "A", "B", since).len(), 2, "again after another 5 s");
}

fn the_seeds_name_of_the_blocking_time_means_the_same() {
    for (name, seconds) in [("min_block_time", 3), ("max_block_time", 2)] {
        let time = format!("{}", seconds * 1_000);
        let (mut c, since) = lose_credit_and_block(udp().with("MFC", name, &time));
        c.run_for(4 * SECOND);
        let began = blocked(&c, "A", since).expect("it waits");
        let first = asked(&c, "A", "B", since)[0];
        assert_eq!(first.since(began), seconds as u32 * SECOND, "{name}");
    }
}

fn exactly_those_who_owe_credit_are_asked() {
    let mut c = group(udp(), &["A", "B", "C", "D"]);
    c.appetite("C", Appetite::Nothing);
    c.appetite("D", Appetite::Nothing);
    let since = now(&c);
    cast(&mut c, "A", 21, 50_000);
    c.run_for(14 * SECOND);
    let times = |whom| asked(&c, "A", whom, since).len();
    assert_eq!([times("A"), times("B"), times("C"), times("D")], [0, 0, 2, 2]);
    for (peer, below) in [("B", false), ("C", true), ("D", true)] {
        assert_eq!(account(&c, "A", Pool::Multicast, peer).shown < 0, below, "{peer}");
    }
}

/// Credit is left at C, but not enough for the next message: C is asked when it has had its time.
fn a_member_with_credit_below_the_cost_of_the_head_owes_credit() {
    let mut c = group(udp(), &["A", "B", "C"]);
    c.appetite("C", Appetite::Nothing);
    let since = now(&c);
    cast(&mut c, "A", 19, 50_000);
    c.run_for(SECOND);
    assert_eq!(asked(&c, "A", "C", since), []);
    cast(&mut c, "A", 1, 60_000);
    c.run_for(6 * SECOND);
    assert_eq!(account(&c, "A", Pool::Multicast, "C").shown, -10_000);
    assert_eq!(asked(&c, "A", "C", since).len(), 1);
    assert_eq!(asked(&c, "A", "B", since), []);
}

/// C answers the first request, D is frozen for 12 s.
fn who_has_answered_is_not_asked_again_and_a_frozen_member_is() {
    let mut c = group(udp(), &["A", "B", "C", "D"]);
    c.appetite("C", Appetite::Nothing);
    c.freeze("D");
    let since = now(&c);
    let sent = cast(&mut c, "A", 21, 50_000);
    c.run_for(ms(5_500));
    c.appetite("C", Appetite::Everything);
    c.run_for(ms(6_500));
    let began = blocked(&c, "A", since).expect("it waits");
    assert_eq!(asked(&c, "A", "C", since), [began + 5 * SECOND]);
    assert_eq!(asked(&c, "A", "D", since), [began + 5 * SECOND, began + 10 * SECOND]);
    assert!(!granted(&c, "C", "A", since).is_empty(), "C has answered");
    assert_eq!(result(&c, sent[20]), None, "A waits for D");
    c.resume("D");
    assert!(c.run_until(2 * SECOND, |c| is_sent(c, sent[20])), "and goes on with it");
    assert_eq!(asked(&c, "A", "B", since), []);
}

/// JGroups grants what is asked for; here a consumer that stopped is asked for ever, and what it was
/// given never exceeds the maximum.
fn requests_let_nothing_pass_that_was_not_processed() {
    let mut c = group(udp(), &["A", "B", "C", "D"]);
    c.appetite("D", Appetite::Nothing);
    let since = now(&c);
    cast(&mut c, "A", 60, 50_000);
    post(&mut c, "A", Some("D"), 60, 50_000);
    c.run_for(60 * SECOND);
    assert!(asked(&c, "A", "D", since).len() >= 20);
    assert_eq!(total(&c, Sum::Delivered("D"), since), 2 * MAX);
}

/// All that B sent and announced is lost in a one-way cut; its request for credit is reliable, and
/// arrives when the cut ends, at a receiver that knows of nothing that is missing.
fn a_request_that_a_cut_held_up_grants_nothing_for_a_lost_tail() {
    for tenths in 170..180 {
        let mut c = group(udp(), &["A", "B"]);
        let since = now(&c);
        c.cut("B", "A");
        let sent = cast(&mut c, "B", 21, 50_000);
        c.run_for(ms(tenths * 100));
        c.heal();
        while !is_sent(&c, sent[20]) {
            c.run_for(ms(20));
            assert!(c.now().since(Time::ZERO) < 60 * SECOND);
        }
        // At no moment: the first message that is sent with such a grant shows what is missing.
        let ahead = lead(&c, Sum::Granted("A", "B"), Sum::Taken("A"), since);
        assert_eq!(ahead, 0, "granted what nobody has taken");
    }
}
