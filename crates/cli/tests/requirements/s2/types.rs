//! Two kinds of digests, which cannot be taken for each other.

use super::lone::{tagged, view_of};
use rgroups::core::wire::{
    Changes, Decode, Encode, RefDigest, SeqnoPair, StablePayload, ViewDigest,
};
use rgroups::core::{Digest, ReferenceDigest, View};

crate::tests![
    a_reference_digest_means_nothing_without_its_view => "S2-7", "S2-19";
    a_count_that_does_not_fit_the_view_is_a_decode_error => "S2-7", "S2-19";
];

fn pair(n: i64) -> SeqnoPair {
    SeqnoPair { delivered: n, received: n }
}

/// There is no way from its numbers to members but through the view; a full digest has its own.
fn a_reference_digest_means_nothing_without_its_view() {
    let view = view_of(3);
    let full: Digest = (1..=3).map(|n| (tagged(n), pair(n as i64))).collect();
    let reference = ReferenceDigest::of(&view, &full).expect("it covers the view");
    assert_eq!(reference.resolve(&view).as_ref(), Some(&full));
    let later = View::new(2, tagged(1), view.members.clone());
    assert_eq!(reference.resolve(&later), None, "the same members in another view");
    let shorter: Digest = full.iter().filter(|(m, _)| *m != tagged(2)).collect();
    assert_eq!(ReferenceDigest::of(&view, &shorter), None);
}

fn a_count_that_does_not_fit_the_view_is_a_decode_error() {
    let view = view_of(3);
    for count in [0, 2, 4] {
        let seqnos: Vec<SeqnoPair> = (0..count).map(pair).collect();
        let reference = RefDigest { seqnos: seqnos.clone() };
        assert_eq!(ReferenceDigest::from_wire(&view, &reference), None, "{count}");
        let beside = ViewDigest::view_and_reference(view.to_wire(), reference);
        assert!(ViewDigest::from_bytes(beside.to_bytes()).is_err(), "{count}");
        let report = StablePayload::Report(Changes::full(&seqnos)).to_bytes();
        let Ok(StablePayload::Report(changes)) = StablePayload::from_bytes(report) else {
            panic!("it can be read")
        };
        assert_eq!(changes.apply(None, view.members.len()), None, "{count}");
    }
}
