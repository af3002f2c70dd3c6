//! Flow control end to end: what waits is bounded, and who is slow slows the senders down.

use crate::attributes::ByteSize;
use crate::protocols::flow::{MfcConfig, UfcConfig};
use crate::testkit_cluster::Cluster;
use crate::wire::{Body, Message};
use crate::{Pool, SendRefusal, Uuid, View};
use alloc::vec::Vec;
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const CREDIT: u64 = 100_000;

fn cluster() -> Cluster {
    let max_credits = ByteSize(CREDIT);
    let mfc = MfcConfig { max_credits, ..MfcConfig::default() };
    let ufc = UfcConfig { max_credits, ..UfcConfig::default() };
    Cluster::ordered(3, &mfc, &ufc, 10_000)
}

#[test]
fn consumption_pays_the_sequencer_whoever_sent_the_message() {
    let mut c = cluster();
    for fill in 0..250 {
        c.cast(1 + usize::from(fill % 2), 5_000, fill);
        c.run(Duration::from_millis(50));
    }
    c.run(SECOND);
    let first = c.delivered[0].clone();
    assert_eq!(first.len(), 250);
    assert!(c.delivered.iter().all(|d| *d == first));
    for peer in 0..3 {
        let (out, inc) = (c.account(0, Pool::Multicast, peer), c.account(peer, Pool::Multicast, 0));
        assert_eq!((inc.unconsumed, out.balance + inc.ungranted), (0, CREDIT), "{peer}");
    }
    let (out, inc) = (c.account(1, Pool::Unicast, 0), c.account(0, Pool::Unicast, 1));
    assert_eq!((inc.unconsumed, out.balance + inc.ungranted), (0, CREDIT));
}

#[test]
fn a_receiver_that_stops_stops_the_senders_and_everything_is_bounded() {
    let mut c = cluster();
    c.consuming[2] = false;
    let ops: Vec<_> = (0..4000u32).map(|i| c.cast(1, 1_000, i as u8)).collect();
    c.run(3 * SECOND);
    let sent = ops.iter().filter(|op| c.sent(1, **op)).count() as u64;
    // One credit at the slow member, one at the sequencer, and the message in line.
    assert!((150..=210).contains(&sent), "{sent}");
    let here = c.gauge(1, "SEQUENCER", "waiting_bytes");
    assert!((1_900_000..=2_010_000).contains(&here), "{here}");
    assert!(c.gauge(1, "SEQUENCER", "forward_table_size") < 2_300);
    let queue = c.gauge(0, "SEQUENCER", "waiting_forwards") * 1_000;
    assert!(queue <= CREDIT, "{queue}");
    c.resume(2);
    c.run(30 * SECOND);
    assert_eq!(c.delivered[2].len(), 4000);
    assert!(c.delivered[0] == c.delivered[2] && c.delivered[1] == c.delivered[2]);
    assert!(ops.iter().all(|op| c.sent(1, *op)));
}

#[test]
fn a_large_message_in_many_fragments_is_taken_back_whole_or_not_at_all() {
    let mut c = cluster();
    c.consuming[2] = false;
    let before: Vec<_> = (0..300u32).map(|_| c.cast(1, 1_000, 1)).collect();
    let large = c.cast(1, 55_000, 2);
    c.cast(1, 10, 3);
    c.run(SECOND);
    assert!(!c.sent(1, *before.last().expect("one")));
    c.cancel(1, large);
    c.step();
    assert_eq!(c.refusal(1, large), Some(&SendRefusal::Withdrawn));
    c.resume(2);
    c.run(20 * SECOND);
    assert_eq!(c.delivered[2].len(), 301);
    assert!(c.delivered[2].iter().all(|(_, b)| b[0] != 2));
    assert_eq!(c.gauge(2, "FRAG2", "reassembly_bytes"), 0);
}

#[test]
fn the_one_in_the_line_of_flow_control_can_be_taken_back_too() {
    for sender in [0, 1] {
        let mut c = cluster();
        c.consuming[2] = false;
        // Large ones only, so that the one in line is the first fragment of one.
        let ops: Vec<_> = (0..20u8).map(|i| c.cast(sender, 35_000, i)).collect();
        c.run(SECOND);
        let open: Vec<_> = ops.iter().filter(|op| !c.sent(sender, **op)).copied().collect();
        c.cancel(sender, open[0]);
        c.step();
        assert_eq!(c.refusal(sender, open[0]), Some(&SendRefusal::Withdrawn));
        c.resume(2);
        c.run(20 * SECOND);
        assert_eq!(c.delivered[2].len(), 19, "sender {sender}");
        assert_eq!(c.gauge(2, "FRAG2", "reassembly_bytes"), 0);
        assert_eq!(c.members[sender].stack.tokens_outstanding(), 0);
    }
}

#[test]
fn whoever_does_not_want_to_wait_is_told_who_limits() {
    let mut c = cluster();
    c.consuming[2] = false;
    for i in 0..250u32 {
        c.cast(1, 1_000, i as u8);
    }
    c.run(SECOND);
    for sender in [0, 1] {
        let m = Message::multicast(Body::bytes([9].repeat(25_000)));
        let op = c.send_how(sender, m, |s| s.try_only = true);
        c.step();
        let Some(SendRefusal::WouldBlock { by }) = c.refusal(sender, op) else {
            panic!("{:?}", c.result(sender, op));
        };
        assert!(!by.is_empty());
    }
    c.resume(2);
    c.run(10 * SECOND);
    assert_eq!(c.delivered[2].len(), 250);
}

#[test]
fn a_deadline_ends_the_wait_for_the_sequencer() {
    let mut c = cluster();
    c.consuming[2] = false;
    for i in 0..400u32 {
        c.cast(1, 1_000, i as u8);
    }
    let now = c.members[1].now;
    let m = Message::multicast(Body::bytes("late"));
    let op = c.send_how(1, m, |s| s.deadline = Some(now + SECOND));
    c.run(2 * SECOND);
    assert!(matches!(c.refusal(1, op), Some(SendRefusal::NotSent { .. })));
    c.resume(2);
    c.run(10 * SECOND);
    assert_eq!(c.delivered[2].len(), 400);
}

#[test]
fn an_application_that_only_sends_is_not_stuck_behind_itself() {
    // Everybody sends and nobody reads until all is sent.
    let mut c = cluster();
    c.consuming = [false].repeat(3);
    for i in 0..150u32 {
        for from in 0..3 {
            c.cast(from, 1_000, i as u8);
        }
    }
    c.run(SECOND);
    for i in 0..3 {
        c.resume(i);
    }
    c.run(20 * SECOND);
    assert_eq!(c.delivered[0].len(), 450);
    assert!(c.delivered[1] == c.delivered[0] && c.delivered[2] == c.delivered[0]);
}

#[test]
fn when_the_sequencer_dies_with_full_lines_nothing_is_lost() {
    let mut c = cluster();
    c.consuming[2] = false;
    let ops: Vec<_> = (0..500u32).map(|i| c.cast(1, 1_000, i as u8)).collect();
    c.run(SECOND);
    // Nothing of the first member's arrives any more.
    let dead = c.id(0);
    c.lose = alloc::boxed::Box::new(move |from, to, _| from == dead || to == dead);
    c.install(&[1, 2]);
    c.resume(2);
    c.run(20 * SECOND);
    assert!(ops.iter().all(|op| c.sent(1, *op)));
    assert_eq!(c.delivered[2].len(), 500);
    assert_eq!(c.delivered[1], c.delivered[2]);
}

#[test]
fn what_waits_for_credit_does_not_leave_in_the_next_view_before_what_begins_anew() {
    // 1 is cut off from 0, which excludes it; a merge brings it back, with new credit.
    let mut c = cluster();
    let (zero, one) = (c.id(0), c.id(1));
    let cut = move |from: Uuid, to: Uuid| [(zero, one), (one, zero)].contains(&(from, to));
    c.lose = alloc::boxed::Box::new(move |from, to, _| cut(from, to));
    let ops: Vec<_> = (0..150u32).map(|i| c.cast(1, 1_000, i as u8)).collect();
    c.run(SECOND);
    assert!(c.sent(1, ops[0]) && !c.sent(1, ops[149]), "some wait");
    let all = [0, 1, 2].map(|i| c.id(i));
    let before = View::new(1, zero, all);
    c.install(&[0, 2]);
    let parts = [View::new(2, zero, [all[0], all[2]]), before];
    c.lose = alloc::boxed::Box::new(|_, _, _| false);
    c.install_view(&[0, 1, 2], View { subgroups: parts.into(), ..View::new(3, zero, all) });
    c.run(20 * SECOND);
    assert_eq!(c.delivered[2].len(), 150);
    assert!(c.delivered[0] == c.delivered[2] && c.delivered[1] == c.delivered[2]);
}
