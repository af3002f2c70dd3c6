//! S1-1: everybody has everything of everybody, and what that costs.

use crate::world::*;
use rgroups_core::app::{SyncEnd, SyncOutcome};
use rgroups_core::{Command, Duration, OpId, SendResult, SyncLevel};
use rgroups_sim::Cluster;
use rgroups_sim::history::MessageId;
use rgroups_sim::network::Link;

crate::tests![
    when_flush_returns_everybody_has_consumed_what_anybody_had_sent => "S1-1";
    a_flush_waits_for_an_application_and_names_it => "S1-1";
    a_flush_does_not_wait_for_who_has_left => "S1-1";
    a_flush_costs_four_messages_for_each_other_member => "S1-1";
];

fn flush(c: &mut Cluster, who: &str, number: u32, timeout: Option<Duration>) -> MessageId {
    let id = MessageId(2_000_000 + number);
    c.command(who, Command::Flush { op: OpId(u64::from(id.0)), timeout });
    id
}

fn flushed(c: &Cluster, call: MessageId) -> Option<(usize, SyncOutcome)> {
    match ended(c, call)? {
        (at, _, SendResult::Synced(o)) => Some((at, o.clone())),
        (_, _, other) => panic!("{other:?}"),
    }
}

/// Everybody sends, out of band or not, with 20 % loss, and one flushes in the middle of it.
fn when_flush_returns_everybody_has_consumed_what_anybody_had_sent() {
    let names = ["A", "B", "C", "D"];
    for seed in 0..crate::amount(15, 1_000, "seeds") {
        let mut c = group(4, 6000 + seed);
        c.set_links(Link { loss: 0.2, ..Link::lan() });
        let mut sent = Vec::new();
        for _ in 0..5 {
            for who in names {
                sent.push(cast(&mut c, who, 500));
                let how =
                    rgroups_sim::Outgoing { oob: true, ..rgroups_sim::Outgoing::new(None, 500) };
                sent.push(send(&mut c, who, &how));
            }
            c.run_for(MS);
        }
        let caller = names[(seed % 4) as usize];
        let call = flush(&mut c, caller, 0, None);
        // What is sent from now on is not waited for.
        cast(&mut c, "B", 500);
        assert!(c.run_until(SECOND * 60, |c| flushed(c, call).is_some()), "seed {seed}");
        let (end, o) = flushed(&c, call).expect("it has ended");
        assert_eq!((o.end, o.acknowledged.len()), (SyncEnd::Complete, 4));
        for m in sent {
            for who in names {
                let at =
                    if who == caller { delivered_at(&c, who, m) } else { taken_at(&c, who, m) };
                assert!(at.is_some_and(|at| at < end), "seed {seed}: {who} lacks {m:?}");
            }
        }
    }
}

fn a_flush_waits_for_an_application_and_names_it() {
    let mut c = group(3, 61);
    busy(&mut c, "C", true);
    cast(&mut c, "B", 100);
    c.run_for(SECOND);
    let short = flush(&mut c, "A", 0, Some(SECOND));
    let long = flush(&mut c, "A", 1, None);
    c.run_for(SECOND * 2);
    let (_, o) = flushed(&c, short).expect("its time is over");
    assert_eq!((o.end, o.missing.len()), (SyncEnd::TimedOut, 1));
    assert_eq!(c.history().name_of(o.missing[0]), "C");
    assert!(flushed(&c, long).is_none());
    busy(&mut c, "C", false);
    c.run_for(MS * 50);
    assert_eq!(flushed(&c, long).expect("C has consumed").1.end, SyncEnd::Complete);
}

fn a_flush_does_not_wait_for_who_has_left() {
    let mut c = group(3, 62);
    c.power_off("C");
    let call = flush(&mut c, "A", 0, None);
    assert!(c.run_until(SECOND * 120, |c| flushed(c, call).is_some()));
    let (_, o) = flushed(&c, call).expect("it has ended");
    assert_eq!((o.end, o.acknowledged.len(), o.left.len()), (SyncEnd::Complete, 2, 1));
}

/// Messages between hosts that a quiet group exchanges for one flush, and for one synchronous send
/// at level "delivered": the per-sender form.
fn a_flush_costs_four_messages_for_each_other_member() {
    let largest = crate::amount(16, 64, "members");
    for n in [4, 16, 64].into_iter().filter(|n| *n as u64 <= largest) {
        let mut c = group_of(n, 63, without_failure_detection().without("MERGE3"));
        for i in 0..n {
            cast(&mut c, &name(i), 100);
        }
        c.run_for(SECOND * 10);
        let others = n as u64 - 1;
        c.start_census();
        let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
        complete(&mut c, m, SECOND);
        let (before, per_sender) = (rsvp(&c), total(&c));
        assert_eq!(before, 2 * others, "the message, and an answer of each other member");
        c.run_for(SECOND * 10);
        let (rsvp_before, total_before) = (rsvp(&c), total(&c));
        let call = flush(&mut c, "A", 0, None);
        assert!(c.run_until(SECOND, |c| flushed(c, call).is_some()));
        let (flush, all) = (rsvp(&c) - rsvp_before, total(&c) - total_before);
        assert_eq!((flush, all), (4 * others, 4 * others), "N = {n}, and nothing else");
        eprintln!("N = {n}: synchronous send {per_sender} messages, flush {all}");
    }
}

fn rsvp(c: &Cluster) -> u64 {
    let census = c.network().census().expect("it was started");
    census.iter().filter(|(label, _)| label.starts_with("RSVP")).map(|(_, n)| n).sum()
}

fn total(c: &Cluster) -> u64 {
    c.network().census().expect("it was started").iter().map(|(_, n)| n).sum()
}
