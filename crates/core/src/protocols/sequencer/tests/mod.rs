//! One order for all, exactly once, whatever becomes of the sequencer.

mod changes;
mod credits;
mod foreign;
mod order;

use super::*;
use crate::testkit::{Solo, exchange};
use crate::testkit_cluster::tagged;
use crate::wire::{Body, Message as Wire};
use alloc::boxed::Box;
use alloc::string::String;

/// A member with nothing but SEQUENCER.
fn member(n: u64, local: Uuid) -> Solo {
    let sequencer = Sequencer::new(SequencerConfig::default());
    let probe = crate::testkit::Probe(Arc::default());
    Solo::topped(n, local, [Box::new(sequencer) as Box<dyn Protocol>, Box::new(probe)].into())
}

/// Members of this toolkit, 1 to `n`, in one view.
fn group(n: u64) -> Vec<Solo> {
    let mut all: Vec<Solo> = (1..=n).map(|i| member(i, tagged(i))).collect();
    let members: Vec<u64> = (1..=n).collect();
    for m in &mut all {
        m.install(view(1, &members));
    }
    all
}

fn view(n: u64, members: &[u64]) -> Arc<View> {
    let m: Vec<Uuid> = members.iter().map(|m| tagged(*m)).collect();
    Arc::new(View::new(n, m[0], m))
}

fn cast(m: &mut Solo, text: &'static str) {
    m.send(Wire::multicast(Body::bytes(text.as_bytes())), None);
}

/// What was delivered since the last call, as sender and text.
fn delivered(m: &mut Solo) -> Vec<(u64, String)> {
    let text = |b: bytes::Bytes| String::from_utf8_lossy(&b).into_owned();
    m.delivered().into_iter().map(|(from, b)| (from.msb >> 32 & 0xffff, text(b))).collect()
}

fn texts(m: &mut Solo) -> Vec<String> {
    delivered(m).into_iter().map(|(_, t)| t).collect()
}

fn header(m: &Wire) -> (SequencerKind, i64, bool) {
    match m.headers.get(ProtId::SEQUENCER) {
        Some(Header::Sequencer(h)) => (h.kind, h.seqno, h.flush_ack),
        other => panic!("no header of SEQUENCER: {other:?}"),
    }
}

fn gauge(m: &Solo, name: &str) -> u64 {
    let mut found = None;
    m.stack.inspect(&mut |layer, n, value| {
        if layer == "SEQUENCER" && n == name {
            found = Some(value);
        }
    });
    found.expect("the gauge exists")
}

/// Nothing is lost.
fn none(_: Uuid, _: Uuid, _: &Wire) -> bool {
    false
}
