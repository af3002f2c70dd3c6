//! Reliable unicast between small stacks.

use super::*;
use crate::testkit::{Solo, exchange, id, pass_time, view};
use crate::{DropReason, Trace};
use alloc::boxed::Box;
use alloc::string::{String, ToString};

mod capacity;
mod connections;
mod loss;
mod order;

const MS: Duration = Duration::from_millis(1);
const ROUND: Duration = Duration::from_millis(500);

/// A member that is in no view.
fn stranger(me: u64) -> Solo {
    let layer = ReliableUnicast::new(Unicast3Config::default());
    Solo::new(me, [Box::new(layer) as Box<dyn Protocol>].into())
}

fn group(all: &[u64]) -> Vec<Solo> {
    let v = view(1, all);
    let member = |m: &u64| {
        let mut s = stranger(*m);
        s.install(Arc::clone(&v));
        s
    };
    all.iter().map(member).collect()
}

fn text(to: u64, s: &str) -> wire::Message {
    wire::Message::unicast(id(to), Body::bytes(String::from(s).into_bytes()))
}

fn data(m: wire::Message, seqno: i64, conn_id: i16, first: bool) -> wire::Message {
    let header = UnicastHeader::Data { seqno, conn_id, first };
    m.with_header(ProtId::UNICAST3, Header::Unicast(header))
}

fn heard(s: &mut Solo) -> Vec<String> {
    s.delivered().into_iter().map(|(_, b)| String::from_utf8_lossy(&b).into_owned()).collect()
}

fn unicast(m: &wire::Message) -> Option<UnicastHeader> {
    match m.headers.get(ProtId::UNICAST3) {
        Some(Header::Unicast(h)) => Some(*h),
        _ => None,
    }
}

fn number(m: &wire::Message) -> Option<i64> {
    match unicast(m) {
        Some(UnicastHeader::Data { seqno, .. }) => Some(seqno),
        _ => None,
    }
}

fn is_ack(m: &wire::Message) -> bool {
    matches!(unicast(m), Some(UnicastHeader::Ack { .. }))
}

fn gauge(s: &Solo, name: &str) -> u64 {
    let mut found = None;
    s.stack.inspect(&mut |_, n, v| {
        if n == name {
            found = Some(v);
        }
    });
    found.expect("the gauge exists")
}

/// Loses the first `n` messages for which `what` holds.
fn lose_first(
    mut n: u32,
    what: impl Fn(&wire::Message) -> bool,
) -> impl FnMut(Uuid, Uuid, &wire::Message) -> bool {
    move |_, _, m| {
        let lost = n > 0 && what(m);
        n -= u32::from(lost);
        lost
    }
}

/// How many messages travel in the next `d`.
fn traffic(g: &mut [Solo], d: Duration) -> u32 {
    let mut seen = 0;
    pass_time(g, d, |_, _, _| {
        seen += 1;
        false
    });
    seen
}

/// The connection of the first message that `s` sends to `to` now.
fn conn_of_next(s: &mut Solo, to: u64) -> i16 {
    s.sent();
    s.send(text(to, "?"), None);
    let sent = s.sent();
    match unicast(&sent[0]) {
        Some(UnicastHeader::Data { conn_id, .. }) => conn_id,
        _ => panic!("a unicast has a connection"),
    }
}
