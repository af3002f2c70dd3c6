//! Reliable multicast between small stacks: loss, order, joining, leaving, stability.

use super::*;
use crate::attributes::{Attributes, ByteSize};
use crate::event::WindowGauge;
use crate::testkit::{Solo, exchange, id, pass_time, view};
use crate::wire::{self, Address, Body, ProtId, SeqnoPair};
use crate::{AppEvent, Digest, DropReason, Duration, Time};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

mod acks;
mod joining;
mod loss;
mod order;
mod stability;

const MS: Duration = Duration::from_millis(1);
const ROUND: Duration = Duration::from_secs(1);

fn tcp() -> Nakack2Config {
    Nakack2Config { use_mcast_xmit: false, ..Nakack2Config::default() }
}

/// A member of a group of these, ready to receive.
fn member(me: u64, all: &[u64], config: Nakack2Config) -> Solo {
    let mut s =
        Solo::new(me, [Box::new(ReliableMulticast::new(config)) as Box<dyn Protocol>].into());
    s.install(view(1, all));
    s.event_down(Event::BecomeServer);
    s
}

fn group(all: &[u64], config: &Nakack2Config) -> Vec<Solo> {
    all.iter().map(|m| member(*m, all, config.clone())).collect()
}

fn text(s: &str) -> wire::Message {
    wire::Message::multicast(Body::bytes(String::from(s).into_bytes()))
}

fn oob(s: &str) -> wire::Message {
    text(s).with_flags(Flags::OOB)
}

fn heard(s: &mut Solo) -> Vec<String> {
    s.delivered().into_iter().map(|(_, b)| String::from_utf8_lossy(&b).into_owned()).collect()
}

fn nak(m: &wire::Message) -> Option<&NakAckHeader> {
    match m.headers.get(ProtId::NAKACK2) {
        Some(Header::NakAck(h)) => Some(h),
        _ => None,
    }
}

/// The number of a first transmission or one repeated to all.
fn number(m: &wire::Message) -> Option<i64> {
    match nak(m) {
        Some(NakAckHeader::Msg(n)) => Some(*n),
        _ => None,
    }
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

fn pairs(list: &[(u64, i64, i64)]) -> Digest {
    let pair = |(m, delivered, received): &(u64, i64, i64)| {
        (id(*m), SeqnoPair { delivered: *delivered, received: *received })
    };
    list.iter().map(pair).collect()
}

fn windows(s: &Solo, of: u64) -> WindowGauge {
    let Some(Answer::Windows(all)) = s.ask(&Query::Windows) else { panic!("it has windows") };
    *all.iter().find(|w| w.peer == id(of)).expect("the member has a window")
}

/// A numbered multicast as member `from` would send it.
fn numbered(n: i64, m: wire::Message) -> wire::Message {
    m.with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(n)))
}
