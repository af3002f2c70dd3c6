//! With members of JGroups, which drop what is forwarded to them too early.

use super::*;
use crate::testkit::{id, view as foreign_view};
use core::time::Duration;

/// Number `n` of member 2 comes back from member 1 of JGroups.
fn comes_back(m: &mut Solo, forward: &Wire, acknowledged: bool) {
    let (_, seqno, _) = header(forward);
    let h = Sequencer::header(SequencerKind::WrappedBcast, seqno, acknowledged);
    let ordered = Wire::multicast(forward.body.clone()).with_header(ProtId::SEQUENCER, h);
    m.arrive(1, ordered);
}

#[test]
fn a_sequencer_of_jgroups_gets_one_message_at_a_time_until_ten_have_come_back() {
    let mut m = member(2, id(2));
    m.install(foreign_view(1, &[1, 2]));
    for _ in 0..12 {
        cast(&mut m, "x");
    }
    for n in 1..=10 {
        let sent = m.sent();
        assert_eq!(sent.len(), 1, "{n}");
        assert_eq!(header(&sent[0]), (SequencerKind::Flush, n, false));
        assert!(sent[0].has(Flags::DONT_BUNDLE));
        comes_back(&mut m, &sent[0], true);
    }
    let sent = m.sent();
    assert_eq!(
        sent.iter().map(header).map(|h| (h.0, h.1)).collect::<Vec<_>>(),
        [(SequencerKind::Forward, 11), (SequencerKind::Forward, 12)]
    );
    assert_eq!(gauge(&m, "ack_mode"), 0);
}

#[test]
fn what_does_not_come_back_is_forwarded_again() {
    let mut m = member(2, id(2));
    m.install(foreign_view(1, &[1, 2]));
    cast(&mut m, "x");
    assert_eq!(m.sent().len(), 1);
    m.run(Duration::from_millis(499));
    assert_eq!(m.sent().len(), 0);
    m.run(Duration::from_millis(1));
    let again = m.sent();
    assert_eq!(header(&again[0]), (SequencerKind::Flush, 1, false));
    comes_back(&mut m, &again[0], true);
    m.run(Duration::from_secs(2));
    assert_eq!((m.sent().len(), gauge(&m, "forwards_repeated")), (0, 1));
    assert_eq!(texts(&mut m), ["x"]);
}

#[test]
fn a_member_of_jgroups_that_waits_is_told_that_it_is_its_message() {
    let mut g = group(2);
    cast(&mut g[1], "b1");
    let forward = g[1].sent().remove(0);
    let flush =
        forward.with_header(ProtId::SEQUENCER, Sequencer::header(SequencerKind::Flush, 1, false));
    g[0].arrive(2, Wire { src: Some(tagged(2).into()), ..flush });
    let ordered = g[0].sent().remove(0);
    assert_eq!(header(&ordered), (SequencerKind::WrappedBcast, 1, true));
    assert!(ordered.has(Flags::DONT_BUNDLE) && ordered.is_multicast());
}

#[test]
fn one_of_jgroups_that_ordered_before_a_merge_may_be_late() {
    let mut m = member(3, id(3));
    m.install(foreign_view(1, &[1, 3]));
    let ordered = |n| {
        Wire::multicast(Body::bytes("late"))
            .with_header(ProtId::SEQUENCER, Sequencer::header(SequencerKind::Bcast, n, false))
    };
    let members = [2, 1, 3].map(id);
    m.install(Arc::new(View::new(2, members[0], members)));
    m.arrive(1, ordered(1));
    assert_eq!(texts(&mut m), ["late"]);
    m.arrive(3, ordered(1));
    assert_eq!(texts(&mut m), [""; 0]);
}
