//! STATE_TRANSFER: the application's state in one message (WIRE §21.1).
//!
//! A member that is asked *cuts* its history: at the end of a turn it takes the digest of what was
//! delivered and puts the request into the application's queue, so that the application has seen
//! exactly what the digest says when it reads the request ([`serve`]). The member that asks holds
//! back multicasts and views from its question on; of those that the state contains it drops what is
//! held and what still comes, the others go up after the state ([`fetch`]). No window is moved, so
//! nothing has to be sent again, and the cut is exact for ordered multicasts. Out-of-band multicasts
//! have no place in the order: the state may contain one that arrives all the same.
//!
//! JGroups members are served and asked in the same way; they replace their windows by the digest.

mod fetch;
mod held;
mod serve;

use self::fetch::Fetch;
use self::serve::Serving;
use crate::app::StateEnd;
use crate::attributes::ByteSize;
use crate::batch::Marks;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::header::{StateTransferHeader, StateTransferKind};
use crate::wire::{self, Header, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Digest, Dir, DropReason, Event, Flow, Group, Message, Query,
    SendRefusal, TimerKey, Uuid,
};
use alloc::boxed::Box;
use alloc::vec::Vec;

crate::attributes! {
    /// Settings of STATE_TRANSFER (`org.jgroups.protocols.pbcast.STATE_TRANSFER`).
    pub struct StateTransferConfig for "STATE_TRANSFER" {
        /// How many bytes of multicasts without flow control may wait for a state; more are dropped.
        /// Those with flow control wait at their senders. Default 16M. Not in JGroups.
        max_held_bytes: ByteSize = ByteSize(16_000_000),
    }
}

/// The wait of [`fetch`] is over.
const FETCH: TimerKey = TimerKey(0);
/// The wait of [`serve`] is over.
const FLUSH: TimerKey = TimerKey(1);

/// Lengths on the wire are 32-bit and signed; the rest is for headers.
const LARGEST: u64 = i32::MAX as u64 - 1_000_000;

/// The layer. See the module documentation.
#[derive(Debug)]
pub struct StateTransfer {
    config: StateTransferConfig,
    fetch: Fetch,
    /// What the last state contains and may still arrive.
    contained: fetch::Contained,
    serving: Serving,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    requests_sent: u64,
    requests_received: u64,
    states_sent: u64,
    states_received: u64,
    refused: u64,
    left_out: u64,
}

impl StateTransfer {
    /// With these settings.
    #[must_use]
    pub fn new(config: StateTransferConfig) -> Self {
        Self {
            config,
            fetch: Fetch::Idle,
            contained: fetch::Contained::default(),
            serving: Serving::default(),
            counters: Counters::default(),
        }
    }

    /// Takes the messages of this layer out of a batch.
    fn receive(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let mut taken = Vec::new();
        batch.retain(|m| match m.headers.remove(ProtId::STATE_TRANSFER) {
            None => true,
            Some(header) => {
                taken.push((header, core::mem::take(m)));
                false
            }
        });
        for (header, m) in taken {
            cx.settle(Consumed::one(src, m.receipt));
            let Header::StateTransfer(h) = header else {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                continue;
            };
            match h.kind {
                StateTransferKind::Request => self.requested(src, &h, cx),
                StateTransferKind::Response => self.answered(src, &h, &m, cx),
                StateTransferKind::Failure => self.refused(src, &m, cx),
            }
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.end_fetch(StateEnd::Closed, cx);
        self.contained.clear();
        for token in self.serving.close() {
            cx.resolve(token, Err(SendRefusal::Closed));
        }
        cx.disarm(FETCH);
        cx.disarm(FLUSH);
    }
}

impl Protocol for StateTransfer {
    fn spec(&self) -> Spec {
        Spec {
            name: "STATE_TRANSFER",
            id: Some(ProtId::STATE_TRANSFER),
            interests: Interests {
                up: Traffic::Multicast,
                events: true,
                end_turn: true,
                ..Interests::default()
            },
            provides: &[Service::StateTransfer],
            needs_below: &[
                Service::ReliableMulticast,
                Service::ReliableUnicast,
                Service::Membership,
            ],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if batch.marks().meets(Marks::of(ProtId::STATE_TRANSFER)) {
            self.receive(batch, cx);
        }
        if batch.multicast {
            self.hold(batch, cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::FetchState(f)) => {
                self.begin_fetch(f, cx);
                Flow::Stop
            }
            (Dir::Down, Event::AnswerState(a)) => {
                self.answer_request(a, cx);
                Flow::Stop
            }
            (Dir::Down, Event::Withdraw { op, .. }) => self.withdraw_fetch(*op, cx),
            (Dir::Down, Event::Disconnect) => {
                self.close(cx);
                Flow::Pass
            }
            (Dir::Up, Event::View(view)) => {
                self.serving.view(view);
                self.fetch_in_view(view, cx)
            }
            _ => Flow::Pass,
        }
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        // FLUSH only makes sure that there is a turn, which ends with a look at the requests.
        if key == FETCH {
            self.fetch_timer(cx);
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        self.answer_sent(key, how, cx);
    }

    /// Nothing is on its way through the stack now: the one moment at which it is known exactly
    /// what the application was given.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        self.cut_where_possible(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::StateLimit => Some(Answer::Bytes(LARGEST)),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("num_state_reqs", c.requests_received);
        out("state_reqs_sent", c.requests_sent);
        out("states_sent", c.states_sent);
        out("states_received", c.states_received);
        out("state_reqs_refused", c.refused);
        out("messages_left_out", c.left_out);
        out("open_requests", self.serving.len() as u64);
        out("held_messages", self.fetch.held_messages());
    }
}

/// A message of this layer.
fn message(
    to: Uuid,
    kind: StateTransferKind,
    digest: Option<&Digest>,
    body: wire::Body,
) -> Message {
    let digest = digest.map(Digest::to_wire);
    let header = Header::StateTransfer(Box::new(StateTransferHeader { kind, digest }));
    wire::Message::unicast(to, body).with_header(ProtId::STATE_TRANSFER, header).into()
}

/// What this member has delivered.
fn own_digest(cx: &Cx<'_>) -> Digest {
    match cx.ask_below(&Query::Digest) {
        Some(Answer::Digest(d)) => d,
        _ => Digest::default(),
    }
}

#[cfg(test)]
mod tests;
