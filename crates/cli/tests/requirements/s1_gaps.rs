//! S1: what was lost in front of a message that somebody waits for; unicasts and subsets.

use crate::world::*;
use rgroups_core::app::Sync;
use rgroups_core::plan::StackPlan;
use rgroups_core::{Duration, SyncLevel, Trace};
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::history::{MessageId, What};
use rgroups_sim::network::Link;
use rgroups_sim::{Cluster, Outgoing};

crate::tests![
    a_view_that_is_lost_on_the_way_to_one_member_is_installed_there_soon => "S1-2";
    the_installer_of_a_view_waits_for_those_who_lack_it => "S1-2";
    a_lost_last_message_is_found_by_its_announcement => "S1-3", "S4-6";
    a_lost_last_message_is_found_by_stability => "S1-3", "S1-4", "S4-7";
    a_lost_last_message_that_somebody_waits_for_is_repeated => "S1-3", "S1-4", "S4-6", "S4-7";
    a_gap_in_front_of_an_awaited_message_is_asked_for_within_a_millisecond => "S1-11", "S4-10";
    an_acknowledgement_waits_for_what_was_sent_before => "S1-12", "S4-10";
    out_of_band_messages_wait_as_well => "S1-12", "S4-2", "S4-10";
    who_crashes_when_its_send_returns_leaves_no_gap => "S1-13", "S4-10";
    a_unicast_waits_for_its_receiver => "S1-14";
    a_unicast_whose_receiver_dies_ends_with_left => "S1-14";
    a_unicast_that_is_lost_is_no_success => "S1-14";
    a_subset_waits_for_nobody_else => "S1-15";
];

fn plan(announcements: bool, gossip: Duration) -> StackPlan {
    let gossip = gossip.as_millis().to_string();
    StackPlan::udp().with("NAKACK2", "resend_last_seqno", &announcements.to_string()).with(
        "STABLE",
        "desired_avg_gossip",
        &gossip,
    )
}

fn lose_view(c: &mut Cluster, times: Option<u32>) {
    let pattern = Pattern {
        to: c.host("C"),
        protocol: Some("GMS".into()),
        kind: Some("VIEW".into()),
        ..Pattern::default()
    };
    c.add_rule(Rule::new(pattern, Action::Drop, times));
}

fn members(c: &Cluster, who: &str) -> usize {
    c.view(who).map_or(0, |v| v.members.len())
}

fn a_view_that_is_lost_on_the_way_to_one_member_is_installed_there_soon() {
    let mut c = group(3, 40);
    lose_view(&mut c, Some(1));
    c.start("D");
    assert!(c.run_until(SECOND * 10, |c| members(c, "A") == 4));
    assert_eq!(members(&c, "C"), 3, "the view was lost");
    assert!(c.run_until(SECOND * 2, |c| members(c, "C") == 4), "within a resend interval");
}

fn the_installer_of_a_view_waits_for_those_who_lack_it() {
    let mut c = group(3, 41);
    lose_view(&mut c, None);
    c.start("D");
    assert!(c.run_until(SECOND * 10, |c| members(c, "B") == 4));
    c.run_for(MS * 500);
    assert_eq!(members(&c, "C"), 3);
    assert_eq!(gauge(&c, "A", "GMS", "missing_acks"), 1, "it knows that C lacks it");
    c.clear_rules();
    assert!(c.run_until(SECOND * 5, |c| members(c, "C") == 4));
    assert!(c.run_until(SECOND, |c| gauge(c, "A", "GMS", "missing_acks") == 0));
}

fn everybody_has(c: &Cluster, m: MessageId) -> bool {
    ["B", "C"].iter().all(|who| delivered_at(c, who, m).is_some())
}

/// A's last message is lost at both others, and so is the first announcement of it.
fn a_lost_last_message_is_found_by_its_announcement() {
    let mut c = group(3, 42);
    let last = last_number(&c) + 1;
    lose(&mut c, "B", last, Some(1));
    lose(&mut c, "C", last, Some(1));
    lose_kind(&mut c, Some("B"), "HIGHEST_SEQNO", None, Some(1));
    lose_kind(&mut c, Some("C"), "HIGHEST_SEQNO", None, Some(1));
    let m = cast(&mut c, "A", 100);
    let limit = SECOND * 3 + ROUND_TRIP;
    assert!(c.run_until(limit, |c| everybody_has(c, m)), "three xmit_intervals");
}

/// Without announcements only stability reports tell; two rounds of reports, by the rule of JGroups
/// that what somebody had received a round ago is asked for.
fn a_lost_last_message_is_found_by_stability() {
    let mut c = group_of(3, 43, plan(false, SECOND * 5));
    let last = last_number(&c) + 1;
    lose(&mut c, "B", last, Some(1));
    lose(&mut c, "C", last, Some(1));
    let m = cast(&mut c, "A", 100);
    c.run_for(MS * 500);
    assert!(!everybody_has(&c, m));
    assert!(c.run_until(SECOND * 40, |c| everybody_has(c, m)));
}

/// Neither announcements nor stability, but A waits.
fn a_lost_last_message_that_somebody_waits_for_is_repeated() {
    for size in [100, 200_000] {
        let mut c = group_of(3, 44, plan(false, SECOND * 1000));
        let number = last_number(&c) + 1;
        // All fragments of the large one.
        for n in number..number + if size > 1000 { 4 } else { 1 } {
            lose(&mut c, "B", n, Some(1));
            lose(&mut c, "C", n, Some(1));
        }
        let how = Outgoing { sync: Some(sync(SyncLevel::OnDeliver)), ..Outgoing::new(None, size) };
        let m = send(&mut c, "A", &how);
        let took = complete(&mut c, m, SECOND * 10);
        assert!(took <= SECOND * 2 + ROUND_TRIP * 2, "one resend_interval of RSVP: {took:?}");
    }
}

fn a_gap_in_front_of_an_awaited_message_is_asked_for_within_a_millisecond() {
    let mut c = group(3, 45);
    let next = last_number(&c) + 1;
    lose(&mut c, "C", next + 1, Some(1));
    lose(&mut c, "C", next + 2, Some(1));
    for _ in 0..3 {
        cast(&mut c, "A", 100);
    }
    let m = send(&mut c, "A", &waiting(sync(SyncLevel::OnDeliver)));
    let took = complete(&mut c, m, SECOND);
    // 0.6 ms is the longest round trip on this network, and each end takes its turn. A message that
    // was only overtaken gets a millisecond to arrive.
    assert!(took <= MS * 4, "{took:?}");
    let sent = moment(&c, |w| matches!(w, What::Sent(id) if *id == m)).expect("it was sent");
    let asked = moment(
        &c,
        |w| matches!(w, What::Trace(Trace::XmitRequested { range, .. }) if range.0 == next + 1),
    );
    assert!(asked.expect("C asks").since(sent) <= MS * 2, "a millisecond, and a round trip");
}

/// A message is lost for 3 s; another one waits, in order or out of band.
fn lost_for_three_seconds(oob: bool) -> (Duration, Duration) {
    let mut c = group(2, 46);
    let missing = last_number(&c) + 1;
    lose(&mut c, "B", missing, None);
    lose_kind(&mut c, Some("B"), "XMIT_RSP", Some(missing), None);
    cast(&mut c, "A", 100);
    let how = |level| Outgoing { oob, ..waiting(sync(level)) };
    let received = send(&mut c, "A", &how(SyncLevel::OnReceive));
    let contiguous = send(&mut c, "A", &how(SyncLevel::OnContiguous));
    let delivered = send(&mut c, "A", &how(SyncLevel::OnDeliver));
    c.run_for(SECOND * 3);
    assert_eq!(delivered_at(&c, "B", delivered).is_some(), oob, "out of band overtakes");
    c.clear_rules();
    let late = complete(&mut c, contiguous, SECOND * 5);
    complete(&mut c, delivered, SECOND);
    (complete(&mut c, received, SECOND), late)
}

fn an_acknowledgement_waits_for_what_was_sent_before() {
    let (received, contiguous) = lost_for_three_seconds(false);
    assert!(received <= ROUND_TRIP && contiguous >= SECOND * 3, "{received:?} {contiguous:?}");
}

/// JGroups returned after 8 ms with only the out-of-band message received (X4).
fn out_of_band_messages_wait_as_well() {
    let (received, contiguous) = lost_for_three_seconds(true);
    assert!(received <= ROUND_TRIP && contiguous >= SECOND * 3, "{received:?} {contiguous:?}");
}

fn who_crashes_when_its_send_returns_leaves_no_gap() {
    for seed in 0..crate::amount(10, 1_000, "seeds") {
        let mut c = group(4, 4700 + seed);
        c.set_links(Link { loss: 0.2, ..Link::lan() });
        let next = last_number(&c) + 1;
        lose(&mut c, "D", next + 1, Some(1));
        let mut all: Vec<MessageId> = (0..3).map(|_| cast(&mut c, "A", 100)).collect();
        let s = Sync { timeout: None, ..sync(SyncLevel::OnContiguous) };
        all.push(send(&mut c, "A", &waiting(s)));
        let last = all[3];
        while ended(&c, last).is_none() {
            c.run_for(MS / 10);
        }
        c.power_off("A");
        c.run_for(SECOND * 5);
        for m in all {
            assert!(["B", "C", "D"].iter().all(|w| delivered_at(&c, w, m).is_some()), "{seed}");
        }
    }
}

fn unicast(to: &str, level: SyncLevel, timeout: Option<Duration>) -> Outgoing {
    let s = Sync { timeout, ..sync(level) };
    Outgoing { sync: Some(s), ..Outgoing::new(Some(to), 100) }
}

/// The stacks with UNICAST3 and UNICAST4.
fn both() -> [StackPlan; 2] {
    [StackPlan::udp(), StackPlan::udp_new()]
}

fn a_unicast_waits_for_its_receiver() {
    for plan in both() {
        let mut c = group_of(3, 48, plan);
        busy(&mut c, "B", true);
        let received = send(&mut c, "A", &unicast("B", SyncLevel::OnReceive, None));
        let m = send(&mut c, "A", &unicast("B", SyncLevel::OnDeliver, None));
        assert!(complete(&mut c, received, SECOND) <= ROUND_TRIP);
        c.run_for(SECOND * 3);
        assert!(ended(&c, m).is_none());
        busy(&mut c, "B", false);
        complete(&mut c, m, SECOND);
        let o = outcome(&c, m).expect("it has");
        assert_eq!(o.acknowledged.len(), 1);
    }
}

fn a_unicast_whose_receiver_dies_ends_with_left() {
    for plan in both() {
        let mut c = group_of(3, 49, plan);
        let m = send(&mut c, "A", &unicast("B", SyncLevel::OnReceive, None));
        c.power_off("B");
        complete(&mut c, m, SECOND * 120);
        let o = outcome(&c, m).expect("it has");
        assert_eq!((o.acknowledged.len(), o.left.len()), (0, 1));
    }
}

/// JGroups with UNICAST3 in the stack and all traffic dropped: `send` returned normally after 0 ms
/// (X2).
fn a_unicast_that_is_lost_is_no_success() {
    for plan in both() {
        let mut c = group_of(2, 50, plan);
        c.partition(&[&["A"], &["B"]]);
        let m = send(&mut c, "A", &unicast("B", SyncLevel::OnReceive, Some(SECOND * 5)));
        assert!(wait(&mut c, m, SECOND * 10) >= SECOND * 5);
        assert_eq!(outcome(&c, m).expect("it has").missing.len(), 1);
    }
}

fn a_subset_waits_for_nobody_else() {
    let mut c = group(4, 51);
    c.freeze("C");
    let id = |c: &Cluster, who: &str| c.history().id(c.life(who).expect("it runs"));
    let to = Some(vec![id(&c, "B"), id(&c, "D")]);
    let m = send(&mut c, "A", &waiting(Sync { to, ..sync(SyncLevel::OnDeliver) }));
    assert!(complete(&mut c, m, SECOND) <= ROUND_TRIP);
    c.resume("C");
    c.run_for(SECOND * 5);
    assert_eq!(delivered_at(&c, "C", m), None, "it was not sent to C");
}
