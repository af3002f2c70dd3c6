//! What is refused before anything happens, and in which order the rest goes.

use super::*;
use crate::attributes::ByteSize;
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::testkit_cluster::{Cluster, tagged};
use crate::wire::{self, Body};
use alloc::boxed::Box;

const SECOND: Duration = Duration::from_secs(1);

fn small() -> wire::Message {
    wire::Message::multicast(Body::bytes(&b"x"[..]))
}

fn cluster(credit: u64) -> Cluster {
    let max_credits = ByteSize(credit);
    let ufc = UfcConfig { max_credits, max_blocked_messages: 2, ..UfcConfig::default() };
    let mfc = MfcConfig { max_credits, max_blocked_messages: 2, ..MfcConfig::default() };
    Cluster::new(2, &mfc, &ufc, 60_000)
}

#[test]
fn nothing_is_sent_before_the_first_view_or_after_leaving() {
    use crate::testkit::Solo;
    let layers = [Box::new(Entry::new(EntryConfig::default())) as Box<dyn Protocol>].into();
    let mut s = Solo::topped(1, tagged(1), layers);
    let refused = |s: &mut Solo| {
        s.send(small(), Some(OpId(1)));
        s.told().into_iter().any(|ev| {
            let closed = crate::SendResult::Refused(SendRefusal::Closed);
            matches!(ev, AppEvent::Resolved { result, .. } if result == closed)
        })
    };
    assert!(refused(&mut s));
    let view = crate::View::new(1, tagged(1), [tagged(1)]);
    s.install(alloc::sync::Arc::new(view));
    assert!(!refused(&mut s));
    s.event_down(Event::Disconnect);
    assert!(refused(&mut s));
}

#[test]
fn a_stranger_is_refused_by_name() {
    let mut c = cluster(1000);
    let stranger = tagged(77);
    let op = c.send(0, wire::Message::unicast(stranger, Body::Empty));
    c.step();
    assert_eq!(c.refusal(0, op), Some(&SendRefusal::NotMember(stranger)));
}

#[test]
fn acknowledgements_need_a_layer_that_collects_them() {
    use crate::testkit::Solo;
    let layers = [Box::new(Entry::new(EntryConfig::default())) as Box<dyn Protocol>].into();
    let mut s = Solo::topped(1, tagged(1), layers);
    s.install(alloc::sync::Arc::new(crate::View::new(1, tagged(1), [tagged(1)])));
    let sync = app::Sync { level: crate::SyncLevel::OnDeliver, timeout: None, to: None };
    let send = app::Send {
        op: Some(OpId(1)),
        message: small(),
        try_only: false,
        deadline: None,
        sync: Some(sync),
    };
    s.stack.submit(s.now, Command::Send(send));
    let told = s.told();
    let no_rsvp = crate::SendResult::Refused(SendRefusal::NoRsvp);
    assert!(
        told.iter().any(|ev| matches!(ev, AppEvent::Resolved { result, .. } if *result == no_rsvp))
    );
}

#[test]
fn a_call_that_waits_above_the_lines_can_be_cancelled_or_expire() {
    let mut c = cluster(1000);
    c.consuming[1] = false;
    for fill in 0..3 {
        c.unicast(0, 1, 1000, fill);
    }
    let to = tagged(2);
    let m = || wire::Message::unicast(to, Body::bytes(&b"x"[..]));
    let cancelled = c.send(0, m());
    let expired = c.send_how(0, m(), |s| s.deadline = Some(Time::ZERO + SECOND));
    assert_eq!(c.gauge(0, "ENTRY", "waiting_messages"), 2);
    c.cancel(0, cancelled);
    c.run(SECOND);
    assert_eq!(c.refusal(0, cancelled), Some(&SendRefusal::Withdrawn));
    assert_eq!(c.refusal(0, expired), Some(&SendRefusal::NotSent { by: [to].into() }));
    assert_eq!(c.gauge(0, "ENTRY", "waiting_messages"), 0);
}

#[test]
fn a_full_line_does_not_stop_other_destinations() {
    let mut c = cluster(1000);
    c.consuming[1] = false;
    for fill in 0..10 {
        c.unicast(0, 1, 1000, fill);
    }
    let own = c.unicast(0, 0, 500, 1);
    let all = c.cast(0, 500, 1);
    c.step();
    assert!(c.sent(0, own));
    assert!(c.sent(0, all));
}

#[test]
fn calls_are_pending_while_one_is_unanswered() {
    let mut c = cluster(1000);
    c.consuming[1] = false;
    c.unicast(0, 1, 1000, 1);
    c.step();
    assert!(!c.members[0].stack.group().calls_pending);
    let op = c.unicast(0, 1, 1000, 2);
    c.step();
    assert!(c.members[0].stack.group().calls_pending);
    c.cancel(0, op);
    c.step();
    assert!(!c.members[0].stack.group().calls_pending);
}

#[test]
fn leaving_refuses_what_waits() {
    let mut c = cluster(1000);
    c.consuming[1] = false;
    let ops: Vec<OpId> = (0..6).map(|fill| c.unicast(0, 1, 1000, fill)).collect();
    c.members[0].event_down(Event::Disconnect);
    c.members[0].stack.stop(Time::ZERO);
    c.step();
    assert!(ops[1..].iter().all(|op| c.refusal(0, *op) == Some(&SendRefusal::Closed)));
    assert_eq!(c.members[0].stack.tokens_outstanding(), 0);
}

#[test]
fn what_waits_goes_on_when_a_line_is_never_filled_again() {
    let mfc = MfcConfig {
        max_credits: ByteSize(20_000),
        max_blocked: ByteSize(10_000),
        ..MfcConfig::default()
    };
    let mut c = Cluster::new(3, &mfc, &UfcConfig::default(), 60_000);
    let calls: Vec<OpId> = (0..200).map(|_| c.cast(0, 1000, 1)).collect();
    c.run(Duration::from_secs(1));
    assert!(calls.iter().all(|op| c.sent(0, *op)));
}
