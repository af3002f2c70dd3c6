//! S1: a sender that waits until others have what it sent.

use crate::world::*;
use rgroups_core::app::{Sync, SyncEnd};
use rgroups_core::plan::StackPlan;
use rgroups_core::wire::{Body, Flags, Message};
use rgroups_core::{Command, OpId, SendRefusal, SendResult, SyncLevel, Time, Trace, app};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::network::Link;
use rgroups_sim::{Cluster, Outgoing};

crate::tests![
    the_flag_is_seen_by_receivers_and_changes_nothing_else => "S1-5", "S4-8";
    with_heavy_loss_success_means_that_everybody_has_it => "S1-6", "S4-8";
    traffic_that_is_all_lost_is_no_success => "S1-6", "S4-9";
    a_message_that_was_never_admitted_is_not_sent => "S1-6";
    a_crash_ends_the_wait_with_the_view_that_shows_it => "S1-7", "S4-8";
    suspicion_alone_ends_nothing => "S1-7", "S4-8";
    closing_ends_the_wait_and_names_who_is_missing => "S1-8", "S4-8";
    copies_are_acknowledged_without_harm => "S1-9", "S4-8";
    ids_in_use_stay_below_half_of_the_space => "S1-9";
    each_call_has_its_own_timeout => "S1-10", "S4-8", "S4-9";
];

fn for_ever(level: SyncLevel) -> Sync {
    Sync { timeout: None, ..sync(level) }
}

/// What Java's flag RSVP is, on a message without a request of its own, with the level and the
/// timeout of the configuration.
fn the_flag_is_seen_by_receivers_and_changes_nothing_else() {
    let mut c = group(2, 20);
    busy(&mut c, "B", true);
    let flagged = Message::multicast(Body::bytes("flagged")).with_flags(Flags::RSVP);
    for (op, message) in [(1, flagged), (2, Message::multicast(Body::bytes("plain")))] {
        let (op, try_only) = (Some(OpId(1_000_000 + op)), false);
        let send = app::Send { op, message, try_only, deadline: None, sync: None };
        c.command("A", Command::Send(send));
    }
    c.run_for(SECOND);
    let result = |c: &Cluster, op: u32| {
        let id = MessageId(1_000_000 + op);
        ended(c, id).map(|(_, _, result)| result.clone())
    };
    assert_eq!(result(&c, 2), Some(SendResult::Sent), "no flag, no wait");
    assert_eq!(result(&c, 1), None, "it waits for the application of B");
    assert_eq!(gauge(&c, "A", "RSVP", "pending_rsvp_requests"), 1);
    busy(&mut c, "B", false);
    c.run_for(SECOND);
    let Some(SendResult::Synced(o)) = result(&c, 1) else { panic!("it has ended") };
    assert_eq!((o.end, o.acknowledged.len()), (SyncEnd::Complete, 2));
}

/// 60 % of all packets are lost. When the wait ends, every member has the message; and none that has
/// acknowledged it is sent it again, except where it had asked.
fn with_heavy_loss_success_means_that_everybody_has_it() {
    let n = crate::amount(20, 50, "members") as usize;
    for level in [SyncLevel::OnReceive, SyncLevel::OnDeliver] {
        let mut c = group_of(n, 21, without_failure_detection());
        c.set_links(Link { loss: 0.6, ..Link::lan() });
        let number = last_number(&c) + 1;
        let m = send(&mut c, "A", &waiting(for_ever(level)));
        complete(&mut c, m, SECOND * 300);
        let end = ended(&c, m).expect("it has").0;
        for i in 1..n {
            let at = delivered_at(&c, &name(i), m);
            assert!(at.is_some_and(|at| at < end), "{} lacks it", name(i));
        }
        c.run_for(SECOND * 30);
        assert_eq!(unasked_repeats(&c, number), 0);
    }
}

/// How often A sent number `number` to a member that had acknowledged it and had not asked.
fn unasked_repeats(c: &Cluster, number: i64) -> usize {
    let (h, a) = (c.history(), c.life("A"));
    let mut acknowledged = Vec::new();
    let mut asked: Vec<(rgroups_core::Uuid, Time)> = Vec::new();
    let mut repeats = 0;
    for f in &h.facts {
        match &f.what {
            What::Trace(Trace::RsvpAcked { by, .. }) if f.life == a => acknowledged.push(*by),
            What::Trace(Trace::XmitRequested { range: (first, last), .. }) => {
                let covers = (*first..=*last).contains(&number);
                asked.extend(f.life.filter(|_| covers).map(|life| (h.id(life), f.at)));
            }
            What::Trace(Trace::Retransmitted { to: Some(to), seqno, .. })
                if f.life == a && *seqno == number =>
            {
                let lately = |(m, at): &(_, Time)| m == to && f.at.since(*at) < SECOND;
                let unasked = !asked.iter().any(lately);
                repeats += usize::from(unasked && acknowledged.contains(to));
            }
            _ => {}
        }
    }
    repeats
}

/// JGroups with `timeout=0`, all traffic dropped: `send` returned normally after 1.85 s (X1).
fn traffic_that_is_all_lost_is_no_success() {
    let mut c = group_of(2, 22, without_failure_detection().without("MERGE3"));
    c.partition(&[&["A"], &["B"]]);
    let m = send(&mut c, "A", &waiting(for_ever(SyncLevel::OnReceive)));
    c.run_for(SECOND * 600);
    assert!(ended(&c, m).is_none());
    c.heal();
    complete(&mut c, m, SECOND * 10);
    assert!(delivered_at(&c, "B", m).is_some());
}

/// JGroups, RSVP with a timeout of 3 s above MFC, which held the message for 5 s, all traffic
/// dropped: `send` returned normally after 5.0 s, and nobody had the message (X6).
fn a_message_that_was_never_admitted_is_not_sent() {
    let mut c = group_of(2, 23, StackPlan::udp().with("MFC", "max_credits", "10000"));
    busy(&mut c, "B", true);
    for _ in 0..10 {
        cast(&mut c, "A", 1000);
    }
    c.run_for(SECOND);
    let s = Sync { timeout: Some(SECOND * 3), ..sync(SyncLevel::OnDeliver) };
    let how = Outgoing { sync: Some(s), ..Outgoing::new(None, 1000) };
    let m = send(&mut c, "A", &how);
    let took = wait(&mut c, m, SECOND * 6);
    assert!(took >= SECOND * 3 && took <= SECOND * 3 + MS * 5, "{took:?}");
    let result = ended(&c, m).expect("it has").2;
    let SendResult::Refused(SendRefusal::NotSent { by }) = result else { panic!("{result:?}") };
    assert_eq!(c.history().name_of(by[0]), "B");
    busy(&mut c, "B", false);
    c.run_for(SECOND * 10);
    assert_eq!(delivered_at(&c, "B", m), None, "and it is not sent later");
}

fn a_crash_ends_the_wait_with_the_view_that_shows_it() {
    let mut c = group(3, 24);
    busy(&mut c, "C", true);
    let m = send(&mut c, "A", &waiting(for_ever(SyncLevel::OnDeliver)));
    c.run_for(SECOND);
    c.crash("C");
    complete(&mut c, m, SECOND * 20);
    let (_, at, _) = ended(&c, m).expect("it has");
    let a = c.life("A");
    let smaller = |f: &&rgroups_sim::history::Fact| {
        f.life == a && matches!(&f.what, What::View(v) if v.members.len() == 2)
    };
    let mut views = c.history().facts.iter().filter(smaller).map(|f| f.at);
    assert_eq!(views.next_back(), Some(at), "with the view, not with a timeout");
    let o = outcome(&c, m).expect("it has");
    assert_eq!((o.acknowledged.len(), o.left.len(), o.missing.len()), (2, 1, 0));
}

/// C is suspected, because nothing of its heartbeats arrives, and cleared, because it answers.
fn suspicion_alone_ends_nothing() {
    let mut c = group(3, 25);
    busy(&mut c, "C", true);
    let m = send(&mut c, "A", &waiting(for_ever(SyncLevel::OnDeliver)));
    let pattern =
        Pattern { from: c.host("C"), protocol: Some("FD_ALL3".into()), ..Pattern::default() };
    c.add_rule(Rule::new(pattern, Action::Drop, None));
    let others = Pattern { from: c.host("C"), to: c.host("A"), ..Pattern::default() };
    c.add_rule(Rule::new(
        Pattern { protocol: Some("MERGE3".into()), ..others },
        Action::Drop,
        None,
    ));
    let accused = |c: &Cluster| moment(c, |w| matches!(w, What::Trace(Trace::Accused { .. })));
    assert!(c.run_until(SECOND * 120, |c| accused(c).is_some()), "C is suspected");
    c.run_for(SECOND * 20);
    assert_eq!(c.view("A").expect("a view").members.len(), 3, "and cleared");
    assert!(ended(&c, m).is_none());
    busy(&mut c, "C", false);
    complete(&mut c, m, SECOND);
    assert_eq!(outcome(&c, m).expect("it has").acknowledged.len(), 3);
}

fn closing_ends_the_wait_and_names_who_is_missing() {
    let mut c = group(3, 26);
    busy(&mut c, "B", true);
    busy(&mut c, "C", true);
    let m = send(&mut c, "A", &waiting(for_ever(SyncLevel::OnDeliver)));
    c.run_for(SECOND);
    c.leave("A");
    wait(&mut c, m, SECOND * 20);
    let o = outcome(&c, m).expect("it has ended");
    let mut missing: Vec<String> = o.missing.iter().map(|m| c.history().name_of(*m)).collect();
    missing.sort();
    assert_eq!((o.end, missing), (SyncEnd::Closed, vec!["B".to_owned(), "C".to_owned()]));
}

/// Every packet arrives twice. An acknowledgement of an id that is not in use is ignored.
fn copies_are_acknowledged_without_harm() {
    let mut c = group(3, 27);
    c.set_links(Link { duplication: 1.0, ..Link::lan() });
    for level in [SyncLevel::OnReceive, SyncLevel::OnContiguous, SyncLevel::OnDeliver] {
        let m = send(&mut c, "A", &waiting(sync(level)));
        complete(&mut c, m, SECOND);
        assert_eq!(outcome(&c, m).expect("it has").acknowledged.len(), 3);
    }
    c.run_for(SECOND * 10);
    assert_eq!(gauge(&c, "A", "RSVP", "pending_rsvp_requests"), 0);
}

/// Flagged RSVP_NB, nobody waits, but the ids are in use until everybody has answered.
fn ids_in_use_stay_below_half_of_the_space() {
    let total = crate::amount(9_000, 70_000, "messages");
    let mut c = group_of(2, 28, StackPlan::udp().with("RSVP", "timeout", "1000000"));
    busy(&mut c, "B", true);
    for n in 0..total {
        let message = Message::multicast(Body::bytes("x")).with_flags(Flags::RSVP_NB);
        let op = Some(OpId(10_000_000 + n));
        let send = app::Send { op, message, try_only: false, deadline: None, sync: None };
        c.command("A", Command::Send(send));
        if n % 1000 == 0 {
            c.run_for(MS * 10);
        }
    }
    c.run_for(SECOND);
    let pending = gauge(&c, "A", "RSVP", "pending_rsvp_requests");
    assert_eq!(pending, 0x2000, "half of 14 bits");
    assert_eq!(gauge(&c, "A", "ENTRY", "waiting_messages"), total - 0x2000);
    busy(&mut c, "B", false);
    let done = |c: &Cluster| gauge(c, "A", "RSVP", "pending_rsvp_requests") == 0;
    assert!(c.run_until(SECOND * 60, done));
    assert_eq!(gauge(&c, "A", "ENTRY", "waiting_messages"), 0);
}

fn each_call_has_its_own_timeout() {
    let mut c = group(3, 29);
    c.freeze("C");
    let s = |t| Sync { timeout: Some(t), ..sync(SyncLevel::OnReceive) };
    let short = send(&mut c, "A", &waiting(s(MS * 200)));
    let long = send(&mut c, "A", &waiting(s(SECOND * 10)));
    let took = wait(&mut c, short, SECOND);
    assert!(took >= MS * 200 && took <= MS * 205, "{took:?}");
    let o = outcome(&c, short).expect("it has ended");
    assert_eq!((o.end, c.history().name_of(o.missing[0])), (SyncEnd::TimedOut, "C".to_owned()));
    c.run_for(SECOND);
    assert!(ended(&c, long).is_none());
    c.resume("C");
    complete(&mut c, long, SECOND * 5);
}
