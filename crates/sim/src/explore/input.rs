//! What a node is given, and what the world learns of what it makes of it.

use crate::addresses;
use crate::headers::kind_of;
use crate::history::{MessageId, What};
use crate::network::Host;
use crate::payload;
use bytes::Bytes;
use rgroups_core::node::{Cast, Node, RawEvent, RawOp};
use rgroups_core::wire::{Body, Flags, Frame, Message};
use rgroups_core::{
    AppEvent, Command, Dir, Event, Evidence, OpId, Suspicion, Time, Trace, Uuid, app,
};

/// What a node is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    /// Its application joins.
    Connect,
    /// Its application sends to all.
    Send { id: MessageId, oob: bool },
    /// A packet of another node.
    Packet { from: u8, to: u8, discovery: bool, bytes: Bytes },
    /// Failure detection is sure that this one is gone.
    Suspect(Uuid),
    /// Its timers fire.
    Tick,
    /// From now on it is deliberately wrong.
    #[cfg(feature = "mutants")]
    Mutant(rgroups_core::mutants::Mutant),
}

impl Input {
    /// What a packet carries.
    pub(super) fn kinds(&self) -> String {
        let Input::Packet { discovery: false, bytes, .. } = self else { return String::new() };
        let Ok(frame) = Frame::decode(bytes.clone()) else { return String::new() };
        let headers = frame.messages().iter().flat_map(|m| m.headers.iter());
        headers.map(|(_, header)| kind_of(header).0).collect::<Vec<_>>().join(" ")
    }
}

/// Gives a node something: what the oracles want to know of what it does, and what it sends.
pub(super) fn feed(node: &mut Node, input: &Input, now: Time) -> (Vec<What>, Vec<(Cast, Bytes)>) {
    match input.clone() {
        Input::Connect => {
            node.submit(now, Command::Connect { cluster: Bytes::from_static(b"explore") });
        }
        Input::Send { id, oob } => {
            let mut message = Message::multicast(Body::bytes(payload::make(id, payload::SMALLEST)));
            if oob {
                message.flags |= Flags::OOB;
            }
            let op = Some(OpId(u64::from(id.0)));
            let send = app::Send { op, message, try_only: false, deadline: None, sync: None };
            node.submit(now, Command::Send(send));
        }
        Input::Packet { discovery: true, bytes, .. } => {
            node.receive(now, RawEvent::Discovery { bytes });
        }
        Input::Packet { discovery: false, bytes, from, .. } => {
            let from = addresses::transport(Host(from.into()));
            node.receive(now, RawEvent::Datagram { from, bytes });
        }
        Input::Suspect(who) => {
            let (by, why) = (node.stack().local(), Evidence::NobodyListens);
            let suspicion = Suspicion { member: who, by, why };
            node.stack_mut().inject_event(now, 0, Dir::Up, Event::Suspect(vec![suspicion]));
        }
        Input::Tick => {}
        #[cfg(feature = "mutants")]
        Input::Mutant(mutant) => node.stack_mut().enable_mutant(mutant),
    }
    node.advance(now, false);
    node.end_turn(now);
    let (mut facts, mut sent) = (Vec::new(), Vec::new());
    while let Some((_, fact)) = node.poll_trace() {
        if matches!(fact, Trace::ViewPassed { .. } | Trace::TailUnknown { .. }) {
            facts.push(What::Trace(fact));
        }
    }
    while let Some(event) = node.poll_app() {
        facts.extend(told(event));
    }
    while let Some(op) = node.poll_raw() {
        if let RawOp::Datagram { to, bytes } = op {
            // A copy: the packet is a part of a larger buffer, which is not to be kept.
            sent.push((to, Bytes::copy_from_slice(&bytes)));
        }
    }
    (facts, sent)
}

fn told(event: AppEvent) -> Vec<What> {
    match event {
        AppEvent::View(v) => vec![What::View(v)],
        AppEvent::Row(row) => told(AppEvent::Deliver(row.into())),
        AppEvent::Deliver(d) => {
            let (from, multicast) = (d.from, d.multicast);
            let contents =
                d.messages.iter().map(|m| m.body.as_bytes().cloned().unwrap_or_default());
            let what = |content: Bytes| match payload::read(&content) {
                Some(message) => What::Delivered { message, from, multicast },
                None => What::Garbled { from, why: "the content is wrong" },
            };
            contents.map(what).collect()
        }
        AppEvent::Resolved { op, result } => {
            vec![What::Resolved(MessageId(op.0 as u32), result)]
        }
        _ => Vec::new(),
    }
}
