//! S0-16: what becomes of senders that wait for a member which takes nothing.

use super::*;
use rgroups::core::SendRefusal;
use rgroups_sim::cluster::Appetite;

crate::tests![
    by_default_senders_wait_and_nobody_is_excluded => "S0-16";
    calls_fail_when_the_policy_says_so => "S0-16";
    a_member_that_gives_no_credit_is_excluded_and_told => "S0-16";
    a_member_that_is_merely_slow_is_never_excluded => "S0-16";
    a_member_that_takes_something_in_time_is_not_excluded => "S0-16";
    a_coordinator_that_takes_nothing_is_excluded_by_the_next_member => "S0-16";
];

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

/// Four members with this policy for multicasts.
fn with_policy(policy: &str, seconds: u64) -> Cluster {
    let plan = udp().with("MFC", "slow_member", policy);
    group(plan.with("MFC", "slow_member_timeout", &format!("{}", seconds * 1_000)), &NAMES)
}

fn size(c: &Cluster, of: &str) -> usize {
    c.view(of).map_or(0, |v| v.members.len())
}

fn by_default_senders_wait_and_nobody_is_excluded() {
    let mut c = group(udp(), &NAMES);
    c.appetite("D", Appetite::Nothing);
    let sent = cast(&mut c, "A", 21, 50_000);
    c.run_for(600 * SECOND);
    assert_eq!(result(&c, sent[20]), None);
    assert!(NAMES.iter().all(|n| size(&c, n) == 4));
}

/// The time counts from the call, wherever the message waits; the error names the member.
fn calls_fail_when_the_policy_says_so() {
    let mut c = with_policy("fail", 10);
    c.appetite("D", Appetite::Nothing);
    let sent = cast(&mut c, "A", 120, 50_000);
    let began = c.now();
    let other = send(&mut c, "A", Some("D"), 50_000);
    c.run_for(20 * SECOND);
    assert!(is_sent(&c, sent[19]) && is_sent(&c, other));
    let by = vec![id(&c, "D")];
    for m in &sent[20..] {
        let (at, how) = result(&c, *m).expect("it ended");
        assert_eq!(how, SendResult::Refused(SendRefusal::NotSent { by: by.clone() }));
        assert!(at.since(began) >= 10 * SECOND && at.since(began) < ms(10_100));
    }
    c.appetite("D", Appetite::Everything);
    let next = cast(&mut c, "A", 30, 50_000);
    c.run_for(6 * SECOND);
    assert!(next.iter().all(|m| is_sent(&c, *m)), "with credit calls succeed again");
    assert_eq!(delivered(&c, "D").len(), 20 + 1 + 30, "what failed was not sent");
    assert_eq!(size(&c, "A"), 4);
}

fn a_member_that_gives_no_credit_is_excluded_and_told() {
    let mut c = with_policy("exclude", 20);
    c.appetite("D", Appetite::Nothing);
    let since = now(&c);
    // B sends, A is the coordinator.
    let sent = cast(&mut c, "B", 40, 50_000);
    c.run_for(ms(19_900));
    assert_eq!(result(&c, sent[20]), None);
    assert!(NAMES.iter().all(|n| size(&c, n) == 4), "not before the time is over");
    assert!(c.run_until(5 * SECOND, |c| sent.iter().all(|m| is_sent(c, *m))), "B goes on");
    assert!(["A", "B", "C"].iter().all(|n| size(&c, n) == 3));
    assert_eq!(total(&c, Sum::Taken("C"), since), 2 * MAX);
    let told = |c: &Cluster, of: &str| {
        let life = c.life(of);
        let all = c.history().facts[since..].iter().filter(|f| f.life == life);
        all.filter(|f| matches!(f.what, What::Rejoining(_))).count()
    };
    c.run_for(SECOND);
    assert_eq!(["A", "B", "C", "D"].map(|n| told(&c, n)), [0, 0, 0, 1]);
    // It lives, so a merge brings it back; and who takes what it is sent stays.
    c.appetite("D", Appetite::Everything);
    assert!(c.run_until(90 * SECOND, |c| NAMES.iter().all(|n| size(c, n) == 4)));
    let before = delivered(&c, "D").len();
    cast(&mut c, "B", 100, 50_000);
    c.run_for(60 * SECOND);
    assert_eq!(delivered(&c, "D").len(), before + 100);
    assert!(NAMES.iter().all(|n| size(&c, n) == 4));
}

/// One message takes D 4 s, the sender always waits for it.
fn a_member_that_is_merely_slow_is_never_excluded() {
    let mut c = with_policy("exclude", 10);
    c.appetite("D", Appetite::Rate(12_500));
    let since = now(&c);
    cast(&mut c, "A", 100, 50_000);
    c.run_for(240 * SECOND);
    assert!(NAMES.iter().all(|n| size(&c, n) == 4));
    assert!(total(&c, Sum::Admitted("A"), since) < 100 * 50_000, "it still waits");
    assert_eq!(gauge(&c, "A", "exclusions_asked"), 0);
}

fn a_member_that_takes_something_in_time_is_not_excluded() {
    let mut c = with_policy("exclude", 20);
    cast(&mut c, "A", 5, 50_000);
    for _ in 0..3 {
        c.appetite("D", Appetite::Nothing);
        cast(&mut c, "A", 40, 50_000);
        c.run_for(18 * SECOND);
        c.appetite("D", Appetite::Everything);
        c.run_for(ms(500));
    }
    c.appetite("D", Appetite::Nothing);
    // Nobody waits for it, so it owes nothing.
    c.run_for(100 * SECOND);
    assert!(NAMES.iter().all(|n| size(&c, n) == 4));
    assert_eq!(gauge(&c, "A", "exclusions_asked"), 0);
}

fn a_coordinator_that_takes_nothing_is_excluded_by_the_next_member() {
    let mut c = with_policy("exclude", 20);
    c.appetite("A", Appetite::Nothing);
    let sent = cast(&mut c, "C", 21, 50_000);
    c.run_for(22 * SECOND);
    assert!(is_sent(&c, sent[20]));
    let b = id(&c, "B");
    for n in ["B", "C", "D"] {
        let view = c.view(n).expect("it is a member");
        assert_eq!((view.coordinator(), view.members.len()), (b, 3), "{n}");
    }
}
