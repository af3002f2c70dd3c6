//! S4: synchronous messages.

use crate::world::*;
use rgroups_core::SyncLevel;
use rgroups_core::app::{Sync, SyncEnd};
use rgroups_sim::Outgoing;
use rgroups_sim::history::MessageId;
use rgroups_sim::network::Link;

crate::tests![
    a_wait_ends_with_all_acknowledged => "S4-1";
    a_wait_ends_at_its_timeout_and_names_who_is_missing => "S4-1";
    a_wait_ends_when_the_channel_is_closed => "S4-1";
    a_wait_ends_when_the_last_missing_member_leaves => "S4-1";
    at_return_everybody_has_everything_below => "S4-2";
    each_message_waits_for_its_own_level => "S4-3";
    received_means_in_the_window_even_behind_a_busy_application => "S4-4";
    received_means_in_the_window_even_behind_a_gap => "S4-4";
    in_a_batch_the_first_message_is_acknowledged_before_the_second_is_handled => "S4-5";
    delivered_means_consumed_not_queued => "S4-5";
    a_callback_that_failed_is_reported_as_such => "S4-5";
    a_wait_without_timeout_outlasts_an_hour => "S4-9";
];

fn a_wait_ends_with_all_acknowledged() {
    let mut c = group(3, 1);
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    assert!(complete(&mut c, m, SECOND) <= ROUND_TRIP);
    assert_eq!(outcome(&c, m).expect("it has ended").acknowledged.len(), 3);
}

fn a_wait_ends_at_its_timeout_and_names_who_is_missing() {
    let mut c = group(3, 2);
    c.freeze("C");
    let m =
        send(&mut c, "A", &waiting(Sync { timeout: Some(SECOND), ..sync(SyncLevel::OnReceive) }));
    let took = wait(&mut c, m, SECOND * 2);
    assert!(took >= SECOND && took <= SECOND + MS * 5, "{took:?}");
    let o = outcome(&c, m).expect("it has ended");
    assert_eq!((o.end, o.acknowledged.len(), o.missing.len()), (SyncEnd::TimedOut, 2, 1));
    assert_eq!(c.history().name_of(o.missing[0]), "C");
}

fn a_wait_ends_when_the_channel_is_closed() {
    let mut c = group(3, 3);
    c.freeze("C");
    let m = send(&mut c, "A", &waiting(Sync { timeout: None, ..sync(SyncLevel::OnReceive) }));
    c.run_for(SECOND);
    c.leave("A");
    wait(&mut c, m, SECOND * 20);
    let o = outcome(&c, m).expect("it has ended");
    assert_eq!((o.end, o.missing.len()), (SyncEnd::Closed, 1));
}

fn a_wait_ends_when_the_last_missing_member_leaves() {
    let mut c = group(3, 4);
    c.power_off("C");
    let m = send(&mut c, "A", &waiting(Sync { timeout: None, ..sync(SyncLevel::OnReceive) }));
    complete(&mut c, m, SECOND * 120);
    let o = outcome(&c, m).expect("it has ended");
    assert_eq!((o.acknowledged.len(), o.left.len()), (2, 1));
}

/// S4-2: messages 5, 6, 7 and then 8, which waits. What holds when the wait ends is read from the
/// history: whatever is delivered (or consumed) later does not count. JGroups returned at once with
/// 8 alone delivered when 8 was out of band (X4).
fn at_return_everybody_has_everything_below() {
    for seed in 0..crate::amount(50, 1_000, "seeds") {
        let mut c = group(4, seed);
        c.set_links(Link { loss: 0.2, ..Link::lan() });
        let level = match seed % 3 {
            0 => SyncLevel::OnContiguous,
            _ => SyncLevel::OnDeliver,
        };
        let unicast = if seed % 5 == 4 { Some("C") } else { None };
        let before: Vec<MessageId> =
            (0..3).map(|_| send(&mut c, "A", &Outgoing::new(unicast, 3000))).collect();
        let oob = seed % 2 == 0;
        // Now and then one that FRAG2 cuts.
        let size = if seed % 7 == 0 { 150_000 } else { 100 };
        let s = Sync { timeout: None, ..sync(level) };
        let how = Outgoing { oob, sync: Some(s), ..Outgoing::new(unicast, size) };
        let last = send(&mut c, "A", &how);
        complete(&mut c, last, SECOND * 60);
        let end = ended(&c, last).expect("it has").0;
        for m in before.into_iter().chain([last]) {
            let receivers: &[&str] = if unicast.is_some() { &["C"] } else { &["B", "C", "D"] };
            for who in receivers {
                let at = match level {
                    SyncLevel::OnDeliver => taken_at(&c, who, m),
                    _ => delivered_at(&c, who, m),
                };
                assert!(at.is_some_and(|at| at < end), "seed {seed}: {who} lacks {m:?}");
            }
        }
    }
}

fn each_message_waits_for_its_own_level() {
    let mut c = group(2, 5);
    busy(&mut c, "B", true);
    let early = send(&mut c, "A", &waiting(sync(SyncLevel::OnReceive)));
    let late = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    assert!(complete(&mut c, early, SECOND) <= ROUND_TRIP);
    c.run_for(SECOND * 2);
    assert!(outcome(&c, late).is_none(), "nothing was consumed");
    busy(&mut c, "B", false);
    assert!(complete(&mut c, late, SECOND) >= SECOND * 2);
}

/// The callback of an earlier message takes 5 s; JGroups acknowledges what waits behind it only
/// then.
fn received_means_in_the_window_even_behind_a_busy_application() {
    let mut c = group(2, 6);
    busy(&mut c, "B", true);
    cast(&mut c, "A", 100);
    c.run_for(SECOND);
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnReceive)));
    assert!(complete(&mut c, m, SECOND) <= ROUND_TRIP);
}

fn received_means_in_the_window_even_behind_a_gap() {
    for size in [100, 200_000] {
        let mut c = group(2, 7);
        let missing = last_number(&c) + 1;
        lose(&mut c, "B", missing, None);
        lose_kind(&mut c, Some("B"), "XMIT_RSP", Some(missing), None);
        let first = cast(&mut c, "A", 100);
        let how = |level| Outgoing { sync: Some(sync(level)), ..Outgoing::new(None, size) };
        let received = send(&mut c, "A", &how(SyncLevel::OnReceive));
        let contiguous = send(&mut c, "A", &how(SyncLevel::OnContiguous));
        assert!(complete(&mut c, received, SECOND) <= ROUND_TRIP, "{size} bytes");
        assert_eq!(delivered_at(&c, "B", received), None, "it waits behind the gap");
        c.run_for(SECOND * 3);
        assert!(outcome(&c, contiguous).is_none());
        c.clear_rules();
        complete(&mut c, contiguous, SECOND * 3);
        assert!(delivered_at(&c, "B", first).is_some());
    }
}

/// A batch of 100 messages of which the first waits, and a consumer that takes 10 ms for each:
/// JGroups acknowledges after all of them.
fn in_a_batch_the_first_message_is_acknowledged_before_the_second_is_handled() {
    let mut c = group(2, 8);
    c.appetite("B", rgroups_sim::cluster::Appetite::Rate(10_000));
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    let rest: Vec<MessageId> = (0..99).map(|_| cast(&mut c, "A", 100)).collect();
    let took = complete(&mut c, m, SECOND);
    assert!(took <= MS * 10 + ROUND_TRIP, "{took:?}");
    let end = ended(&c, m).expect("it has").0;
    assert!(taken_at(&c, "B", m).is_some_and(|at| at < end));
    c.run_for(SECOND * 3);
    assert!(taken_at(&c, "B", rest[0]).is_some_and(|at| at > end));
}

fn delivered_means_consumed_not_queued() {
    let mut c = group(2, 9);
    busy(&mut c, "B", true);
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    c.run_for(SECOND * 3);
    assert!(delivered_at(&c, "B", m).is_some(), "it is in the application's queue");
    assert!(outcome(&c, m).is_none());
    busy(&mut c, "B", false);
    complete(&mut c, m, SECOND);
}

/// JGroups acknowledges what its callback threw at like anything else.
fn a_callback_that_failed_is_reported_as_such() {
    let mut c = group(3, 11);
    c.failing("C", true);
    for level in [SyncLevel::OnDeliver, SyncLevel::OnContiguous] {
        let m = send(&mut c, "A", &waiting(sync(level)));
        complete(&mut c, m, SECOND);
        let o = outcome(&c, m).expect("it has");
        let failed: Vec<String> = o.failed.iter().map(|m| c.history().name_of(*m)).collect();
        match level {
            SyncLevel::OnDeliver => {
                assert_eq!((failed, o.acknowledged.len()), (vec!["C".into()], 2))
            }
            _ => assert_eq!((failed, o.acknowledged.len()), (vec![], 3), "nobody asked"),
        }
    }
    c.failing("C", false);
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    complete(&mut c, m, SECOND);
    assert_eq!(outcome(&c, m).expect("it has").acknowledged.len(), 3);
}

/// JGroups, told to wait for ever with all traffic dropped, returned normally after 1.85 s (X1).
fn a_wait_without_timeout_outlasts_an_hour() {
    let mut c = group_of(2, 10, without_failure_detection());
    c.freeze("B");
    let m = send(&mut c, "A", &waiting(Sync { timeout: None, ..sync(SyncLevel::OnDeliver) }));
    c.run_for(SECOND * 3600);
    assert!(ended(&c, m).is_none());
    c.resume("B");
    let took = complete(&mut c, m, SECOND * 30);
    assert!(took >= SECOND * 3600);
}
