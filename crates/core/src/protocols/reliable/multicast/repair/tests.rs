//! What travels, and what hostile bytes do.

use super::payload::{Arrived, Commit, Cut, Holding, Report};
use super::ranges::Ranges;
use super::*;
use crate::wire::{Body, Decode, Encode};

fn report() -> Report {
    let window = Holding {
        of: Uuid::new(1, 2),
        low: 3,
        delivered: 7,
        received: 20,
        missing: [8, 9, 12].into_iter().collect(),
        ahead: [11].into_iter().collect(),
        cut: Some(Cut { upto: 10, ahead: [13].into_iter().collect() }),
    };
    Report { windows: [window.clone(), Holding { cut: None, ..window }].into() }
}

#[test]
fn both_payloads_travel_whole() {
    let view = ViewId { id: 4, creator: Uuid::new(1, 1) };
    let to = Uuid::new(5, 5);
    let m = payload::report(to, view, &report()).into();
    assert!(payload::is_ours(&m));
    assert!(matches!(payload::read(&m), Some(Arrived::Report(v, r)) if v == view && r == report()));
    let commit =
        Commit { cuts: [(Uuid::new(1, 2), Cut { upto: 9, ahead: Ranges::default() })].into() };
    let m = payload::commit(to, view, &commit).into();
    assert!(matches!(payload::read(&m), Some(Arrived::Commit(v, c)) if v == view && c == commit));
}

#[test]
fn a_payload_that_is_cut_short_is_refused() {
    let bytes = report().to_bytes();
    for n in 0..bytes.len() {
        assert!(Report::from_bytes(bytes.slice(..n)).is_err(), "{n} bytes");
    }
}

#[test]
fn numbers_that_no_window_can_have_are_refused() {
    for (low, delivered, received) in [(5, 4, 9), (1, 9, 8), (1, 2, i64::MAX)] {
        let window = Holding { low, delivered, received, ..report().windows[0].clone() };
        let bytes = Report { windows: [window].into() }.to_bytes();
        assert!(Report::from_bytes(bytes).is_err(), "{low} {delivered} {received}");
    }
}

#[test]
fn a_report_of_stability_in_the_way_of_jgroups_is_none_of_ours() {
    let mut m = Message::from(payload::report(
        Uuid::new(5, 5),
        ViewId { id: 4, creator: Uuid::new(1, 1) },
        &report(),
    ));
    m.body = Body::Empty;
    assert!(!payload::is_ours(&m));
}

#[test]
fn requests_span_no_more_than_they_may() {
    let numbers = [1, 2, 50, 51, 200];
    let lists = lists(&numbers, 50);
    assert_eq!(
        lists.iter().flat_map(|l| l.iter().collect::<Vec<_>>()).collect::<Vec<_>>(),
        numbers
    );
    assert!(lists.iter().all(|l| l.size <= 50));
}
