//! State transfer: STATE_TRANSFER, STATE and STATE_SOCK (WIRE §21).
//!
//! A member that is asked *cuts* its history: at the end of a turn it takes the digest of what was
//! delivered and puts the request into the application's queue, so that the application has seen
//! exactly what the digest says when it reads the request ([`serve`]). The member that asks holds
//! back multicasts and views from its question on; of those that the state contains it drops what is
//! held and what still comes, the others go up after the state ([`fetch`]). No window is moved, so
//! nothing has to be sent again, and the cut is exact for ordered multicasts. Out-of-band multicasts
//! have no place in the order: the state may contain one that arrives all the same.
//!
//! The state travels in one message (STATE_TRANSFER), in parts of which no more are on their way
//! than the reader has room for (STATE: [`outgoing`], [`receive`]), or over a connection that the
//! applications' side opens and reads (STATE_SOCK).
//!
//! JGroups members are served and asked in the same way; they replace their windows by the digest.

mod config;
mod dialect;
mod fetch;
mod held;
mod incoming;
mod outgoing;
mod receive;
mod room;
mod serve;

pub use self::config::{StateConfig, StateSettings, StateSockConfig, StateTransferConfig};

use self::dialect::Dialect;
use self::fetch::Fetch;
use self::room::RoomPayload;
use self::serve::Serving;
use crate::app::StateEnd;
use crate::batch::Marks;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::header::StreamingKind;
use crate::wire::{self, Flags};
use crate::{
    Answer, Batch, Consumed, Cx, Digest, Dir, DropReason, Event, Flow, Group, Message, Query, Row,
    RowFlow, SendRefusal, TimerKey, Uuid,
};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The wait of [`fetch`] is over.
const FETCH: TimerKey = TimerKey(0);
/// The wait of [`serve`] is over.
const FLUSH: TimerKey = TimerKey(1);
/// Somebody who reads a state may have been silent for too long.
const STREAMS: TimerKey = TimerKey(2);
/// Parts have left: more may follow.
const MORE: TimerKey = TimerKey(3);

/// Lengths on the wire are 32-bit and signed; the rest is for headers.
const LARGEST: u64 = i32::MAX as u64 - 1_000_000;

/// The layer. See the module documentation.
#[derive(Debug)]
pub struct StateTransfer {
    settings: StateSettings,
    fetch: Fetch,
    /// How often a member was asked for a state.
    attempts: u64,
    /// Members of other toolkits whose states were given up in the middle. They do not know, and
    /// say yet how that ended; it says nothing of what they are asked for next.
    unfinished: BTreeSet<Uuid>,
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
    bytes_sent: u64,
    bytes_received: u64,
}

impl StateTransfer {
    /// With the settings of one of the three protocols.
    #[must_use]
    pub fn new(config: impl Into<StateSettings>) -> Self {
        Self {
            settings: config.into(),
            fetch: Fetch::Idle,
            attempts: 0,
            unfinished: BTreeSet::new(),
            contained: fetch::Contained::default(),
            serving: Serving::default(),
            counters: Counters::default(),
        }
    }

    /// Takes the messages of this layer out of a batch.
    fn receive(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let id = self.settings.dialect.id();
        let mut taken = Vec::new();
        batch.retain(|m| match m.headers.remove(id) {
            None => true,
            Some(header) => {
                taken.push((header, core::mem::take(m)));
                false
            }
        });
        for (header, m) in taken {
            let Some(said) = self.settings.dialect.read(header) else {
                cx.settle(Consumed::one(src, m.receipt));
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                continue;
            };
            if said.kind == StreamingKind::Part && !m.has(Flags::NO_RELIABILITY) {
                // Whoever takes a part settles it.
                self.part(src, &m, cx);
                continue;
            }
            cx.settle(Consumed::one(src, m.receipt));
            let end = matches!(said.kind, StreamingKind::Eof | StreamingKind::Failure);
            if end && self.unfinished.remove(&src) {
                cx.drop_from_peer(DropReason::Stale, Some(src));
                continue;
            }
            match said.kind {
                StreamingKind::Request => self.requested(src, &said, cx),
                StreamingKind::Response => self.answered(src, &said, &m, cx),
                StreamingKind::Part => match RoomPayload::read(&m) {
                    Some(room) => self.told_room(src, room, cx),
                    None => cx.drop_from_peer(DropReason::Malformed, Some(src)),
                },
                StreamingKind::Eof => self.all_sent(src, cx),
                StreamingKind::Failure => self.refused(src, &m, cx),
            }
        }
    }

    fn message(
        &self,
        to: Uuid,
        kind: StreamingKind,
        digest: Option<&Digest>,
        socket: Option<SocketAddr>,
        body: wire::Body,
    ) -> Message {
        self.settings.dialect.message(to, kind, digest, socket, body)
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.end_fetch(StateEnd::Closed, cx);
        self.contained.clear();
        self.unfinished.clear();
        let open: Vec<Uuid> = self.serving.open.keys().copied().collect();
        for to in open {
            self.abandon(to, "the channel is closed", cx);
        }
        for token in self.serving.close() {
            cx.resolve(token, Err(SendRefusal::Closed));
        }
        for timer in [FETCH, FLUSH, STREAMS, MORE] {
            cx.disarm(timer);
        }
    }
}

impl Protocol for StateTransfer {
    fn spec(&self) -> Spec {
        Spec {
            name: self.settings.dialect.name(),
            id: Some(self.settings.dialect.id()),
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
        if batch.marks().meets(Marks::of(self.settings.dialect.id())) {
            self.receive(batch, cx);
        }
        if batch.multicast {
            self.hold(batch, cx);
        }
    }

    fn row_up(&mut self, row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        if self.concerns(row.src) { RowFlow::Apart } else { RowFlow::Pass }
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
            (Dir::Down, Event::TakeState(t)) => {
                self.take(t, cx);
                Flow::Stop
            }
            (Dir::Down, Event::Withdraw { op, .. }) => self.withdraw_fetch(*op, cx),
            (Dir::Down, Event::Disconnect) => {
                self.close(cx);
                Flow::Pass
            }
            (Dir::Up, Event::View(view)) => {
                self.unfinished.retain(|m| view.contains(*m));
                for gone in self.serving.gone(view) {
                    self.abandon(gone, "the other member has left", cx);
                }
                self.fetch_in_view(view, cx)
            }
            _ => Flow::Pass,
        }
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            FETCH => self.fetch_timer(cx),
            STREAMS => self.watch_streams(cx),
            MORE => self.pump_all(cx),
            // FLUSH only makes sure that there is a turn, which ends with a look at the requests.
            _ => {}
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        self.answer_sent(key, how, cx);
    }

    /// Nothing is on its way through the stack now: the one moment at which it is known exactly
    /// what the application was given.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        self.contained.end_turn();
        self.cut_where_possible(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::StateLimit => Some(Answer::Bytes(match self.settings.dialect {
                Dialect::Whole => LARGEST,
                Dialect::Streamed | Dialect::Socket => u64::MAX,
            })),
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
        if self.settings.dialect != Dialect::Whole {
            out("num_bytes_sent", c.bytes_sent);
            out("num_bytes_received", c.bytes_received);
        }
        out("open_requests", self.serving.len() as u64);
        out("held_messages", self.fetch.held_messages());
    }
}

/// What this member has delivered.
fn own_digest(cx: &Cx<'_>) -> Digest {
    match cx.ask_below(&Query::Digest) {
        Some(Answer::Digest(d)) => d,
        _ => Digest::default(),
    }
}

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
