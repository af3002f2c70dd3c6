//! STABLE: who reports what in which view, what is kept of it, and what follows.

use super::lone::{Lone, tagged, view_of};
use super::*;
use rgroups::core::protocols::stable::StableConfig;
use rgroups::core::wire::header::{NakAckHeader, StableHeader};
use rgroups::core::wire::{Body, Changes, Encode, Flags, StablePayload};
use rgroups::core::{View, attributes::ByteSize};

crate::tests![
    a_report_of_the_last_view_is_counted_and_ignored => "S2-1", "S2-19";
    one_digest_is_kept_in_the_whole_group => "S2-8", "S2-21";
    the_least_delivered_is_purged_and_the_most_received_is_asked_for => "S2-22";
    stability_is_the_most_frequent_use_of_digests => "S2-17";
    all_reports_refer_to_the_view => "S2-11";
];

/// The report of C is so late that A is in the next view when it comes.
fn a_report_of_the_last_view_is_counted_and_ignored() {
    let mut c = group(reporting_after(50_000), &["A", "B", "C"]);
    rule(&mut c, Some("C"), ("STABLE", "STABLE_GOSSIP"), Action::Delay(3 * SECOND));
    cast(&mut c, "A", 6, 10_000);
    c.run_for(SECOND / 10);
    c.clear_rules();
    c.start("D");
    assert!(c.run_until(20 * SECOND, |c| is_whole(c, &["A", "B", "C", "D"])));
    assert!(c.run_until(20 * SECOND, |c| gauge(c, "A", "stable_discarded_view_mismatch") > 0));
    cast(&mut c, "A", 6, 10_000);
    let settled =
        |c: &Cluster| ["A", "B", "C", "D"].iter().all(|n| gauge(c, n, "num_kept_messages") == 0);
    assert!(c.run_until(60 * SECOND, settled), "the next round works");
}

fn one_digest_is_kept_in_the_whole_group() {
    let names = ["A", "B", "C"];
    let mut c = group(reporting_after(20_000), &names);
    for n in names {
        cast(&mut c, n, 5, 10_000);
        c.run_for(SECOND);
    }
    c.fetch_state("C", Some("A"), 10 * SECOND);
    c.run_for(5 * SECOND);
    let kept: Vec<u64> = names.iter().map(|n| gauge(&c, n, "retained_digests")).collect();
    assert_eq!(kept, [1, 0, 0]);
    // Numbers alone, to report on.
    let vectors: Vec<u64> = names.iter().map(|n| gauge(&c, n, "retained_vectors")).collect();
    assert_eq!(vectors, [2, 1, 1]);
}

fn message(to: Uuid, kind: StableKind, view: &View, payload: StablePayload) -> Message {
    let header = StableHeader { kind, view: Some(view.id.to_wire()) };
    Message::unicast(to, Body::bytes(payload.to_bytes()))
        .with_flags(Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC)
        .with_header(ProtId::STABLE, Header::Stable(header))
}

fn volume(bytes: u64) -> StableConfig {
    StableConfig { desired_avg_gossip: Duration::ZERO, max_bytes: ByteSize(bytes) }
}

/// Reports about sender 4: 1 has delivered 10 and received 12, 2 has 8 and 12, 3 has 9 and 9.
fn the_least_delivered_is_purged_and_the_most_received_is_asked_for() {
    let view = view_of(4);
    let sender = tagged(4);
    let of_sender = |delivered, received| {
        let mut pairs = vec![SeqnoPair::default(); 3];
        pairs.push(SeqnoPair { delivered, received });
        Changes::full(&pairs)
    };
    let mut a = Lone::new(1, &view, volume(1_000_000));
    for n in (1..=10).chain([12]) {
        a.arrive_numbered(sender, n);
    }
    assert_eq!(a.window(sender), (0, 10, 12));
    // Who repeats its report makes the coordinator give its own, which is the last.
    for (by, delivered, received) in [(2, 8, 12), (3, 9, 9), (4, 12, 12), (2, 8, 12)] {
        assert_eq!(a.window(sender).0, 0, "nothing is purged before all have reported");
        let report = StablePayload::Report(of_sender(delivered, received));
        a.arrive(tagged(by), message(tagged(1), StableKind::Gossip, &view, report));
    }
    assert_eq!(a.window(sender).0, 8, "purged up to the least delivered");

    // Member 3 hears the result twice; what somebody had a round ago and it has not, it asks for.
    let mut c = Lone::new(3, &view, volume(1_000_000));
    for n in 1..=9 {
        c.arrive_numbered(sender, n);
    }
    for number in 1..=2 {
        let changes = of_sender(8, 12);
        let vector = StablePayload::Vector { number, changes };
        c.arrive(tagged(1), message(tagged(3), StableKind::Stability, &view, vector));
    }
    assert_eq!(c.window(sender).0, 8);
    c.run(2 * SECOND);
    let asked = c.sent().into_iter().any(|m| {
        matches!(m.headers.get(ProtId::NAKACK2), Some(Header::NakAck(NakAckHeader::XmitReq(_))))
    });
    assert!(asked, "it asks for 10 to 12");
}

/// An hour of steady traffic with some coming and going.
fn stability_is_the_most_frequent_use_of_digests() {
    let names = ["A", "B", "C"];
    let mut c = group(reporting_after(4_000_000), &names);
    let step = |c: &mut Cluster, seconds: u32| {
        for _ in 0..seconds / 60 {
            cast(c, "A", 1, 1_000);
            cast(c, "B", 1, 1_000);
            c.run_for(60 * SECOND);
        }
    };
    for _ in 0..3 {
        step(&mut c, 480);
        c.start("D");
        step(&mut c, 480);
        c.leave("D");
    }
    for _ in 0..2 {
        c.fetch_state("C", Some("A"), 10 * SECOND);
        step(&mut c, 60);
    }
    c.partition(&[&["A", "B"], &["C"]]);
    assert!(c.run_until(120 * SECOND, |c| is_whole(c, &["A", "B"]) && is_whole(c, &["C"])));
    c.heal();
    assert!(c.run_until(120 * SECOND, |c| is_whole(c, &names)));
    step(&mut c, 600);
    let all = |name: &str| names.iter().map(|n| gauge(&c, n, name)).sum::<u64>();
    let stability = all("whole_reports_sent")
        + all("delta_reports_sent")
        + all("named_reports_sent")
        + all("stability_sent");
    let views = all("number_of_views");
    let (joins, states) = (all("join_digests_sent"), all("states_sent"));
    let merges = all("merges_installed");
    println!(
        "an hour of three members: stability {stability} ({} bytes), views {views}, joins {joins}, \
         states {states}, merges {merges} with {} digests",
        all("digest_bytes_sent"),
        all("merge_digests_sent"),
    );
    assert!(stability > views && views > joins && joins > states && states > 0, "the order");
    assert!(merges > 0 && all("merge_digests_sent") > 0);
}

fn all_reports_refer_to_the_view() {
    let mut c = group(reporting_after(20_000), &["A", "B", "C"]);
    c.start_census_keeping(&["STABLE"]);
    for _ in 0..5 {
        cast(&mut c, "B", 3, 10_000);
        c.run_for(SECOND);
    }
    let all: Vec<&Kept> = kept(&c).iter().filter(|k| stable(&k.message).is_some()).collect();
    assert!(all.len() >= 5 * 4, "{} messages", all.len());
    for k in all {
        let bytes = k.message.body.as_bytes().expect("a BytesMessage").clone();
        let payload = StablePayload::from_bytes(bytes).expect("our form");
        let to = way(&c, k).1;
        // To one member, whose address says that it understands it; never to the group.
        assert_eq!(k.message.dest.as_ref().and_then(|d| d.uuid()), Some(id(&c, &to)));
        assert!(k.message.has(Flags::NO_RELIABILITY));
        assert!(rgroups::core::tag::refers_to_views(id(&c, &to)));
        match (stable(&k.message), payload) {
            (Some(StableKind::Gossip), StablePayload::Report(_)) => assert_eq!(to, "A"),
            (Some(StableKind::Stability), StablePayload::Vector { .. }) => {}
            (kind, payload) => panic!("{kind:?} {payload:?}"),
        }
    }
}
