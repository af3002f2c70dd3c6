//! Reliable unicast. Each direction between two members is a connection of its own, named
//! by a number of the sender; its messages are numbered from 1, acknowledged cumulatively, and asked
//! for when missing.
//!
//! What arrives of a connection whose beginning was missed waits aside while the sender is asked for
//! it. Messages to ourselves are not numbered: they never leave the process. A connection works
//! before there is any view (the request to join needs it) and ends by idleness, or some time after
//! its peer left; what a peer that is not in the view never acknowledges is given up after
//! `max_retransmit_time`.
//!
//! Two dialects differ in what is acknowledged and what may be sent: with UNICAST3 what has arrived,
//! without a limit; with UNICAST4 what was consumed, and senders wait ([`capacity`]).

mod aside;
mod capacity;
mod config;
mod receive;
mod send;

pub use config::{Unicast3Config, Unicast4Config, UnicastSettings};

use super::backlog::REPORT;
use super::parking::Parking;
use super::retransmit::{self, EARLY, Schedule, Served, TICK};
use crate::batch::Marks;
use crate::event::WindowKind;
use crate::wire::{self, Body, Flags, Header, ProtId, header::UnicastHeader};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Duration, Event, Flow, Group, Interests, Message, Protocol,
    Query, Service, Spec, Time, TimerKey, Traffic, Uuid, View,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use aside::Aside;
use capacity::Bounds;
use receive::ReceiveConnection;
use send::SendConnection;

/// Connections are looked through for those that have expired.
const REAP: TimerKey = TimerKey(3);

/// The layer.
#[derive(Debug)]
pub struct ReliableUnicast {
    settings: UnicastSettings,
    /// What windows hold at most, in the dialect that bounds them.
    bounds: Option<Bounds>,
    sends: BTreeMap<Uuid, SendConnection>,
    receives: BTreeMap<Uuid, ReceiveConnection>,
    aside: Aside,
    view: Option<Arc<View>>,
    /// Survives a restart, so that a new life never reuses the name of an old connection.
    next_conn_id: i16,
    /// Survives a restart too: peers ignore acknowledgements that seem older than the last one.
    last_stamp: i32,
    schedule: Schedule,
    served: Served,
    parking: Parking,
    reaping: bool,
    requests: retransmit::Counters,
    counters: Counters,
}

/// Whether the peer of a connection is still around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// As far as we know.
    Open,
    /// It left the view; traffic re-opens.
    Closing {
        /// When it left.
        since: Time,
    },
}

impl Standing {
    /// How long a member that left is still asked for what is missing.
    const GRACE: Duration = Duration::from_secs(3);

    /// Whether the peer left the view long enough ago.
    fn is_past(self, now: Time) -> bool {
        match self {
            Standing::Open => false,
            Standing::Closing { since } => now.since(since) >= Self::GRACE,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    acks_sent: u64,
    acks_received: u64,
    first_asked: u64,
    given_up: u64,
}

impl ReliableUnicast {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: impl Into<UnicastSettings>) -> Self {
        Self::with(config.into())
    }

    fn with(settings: UnicastSettings) -> Self {
        let s = &settings;
        Self {
            schedule: Schedule::new(s.xmit_interval, s.gap_delay, s.max_xmit_req_size),
            bounds: s.capacity.map(Bounds::new),
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            aside: Aside::default(),
            view: None,
            next_conn_id: 0,
            last_stamp: 0,
            served: Served::default(),
            parking: Parking::default(),
            reaping: false,
            requests: retransmit::Counters::default(),
            counters: Counters::default(),
            settings,
        }
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.schedule.reset(cx);
        cx.disarm(REAP);
        let (next_conn_id, last_stamp) = (self.next_conn_id, self.last_stamp);
        cx.disarm(REPORT);
        *self = Self { next_conn_id, last_stamp, ..Self::with(self.settings) };
    }

    /// The next stamp of an acknowledgement or a request for the first message. 0 means none.
    fn next_stamp(&mut self) -> i32 {
        self.last_stamp = self.last_stamp.wrapping_add(1);
        if self.last_stamp == 0 {
            self.last_stamp = 1;
        }
        self.last_stamp
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        self.schedule.tick_fired();
        self.resend_unacknowledged(cx);
        self.keep_senders_alive(cx);
        self.acknowledge_all(cx);
        self.request_missing(cx, false);
    }

    /// Connections exist: they must be looked at now and then.
    fn reap_later(&mut self, cx: &mut Cx<'_>) {
        if !self.reaping {
            self.reaping = true;
            let longest = self.settings.conn_close_timeout.max(self.settings.conn_expiry_timeout);
            let pause = (longest / 8).max(Duration::from_secs(1));
            cx.arm(REAP, cx.now + pause);
        }
    }

    fn reap(&mut self, cx: &mut Cx<'_>) {
        self.reaping = false;
        self.reap_sends(cx);
        self.reap_receives(cx.now);
        self.aside.expire(cx.now, self.settings.max_retransmit_time);
        if !self.sends.is_empty() || !self.receives.is_empty() || !self.aside.is_empty() {
            self.reap_later(cx);
        }
    }

    /// Whether a connection with this standing, last used then, is to be removed.
    fn is_over(&self, standing: Standing, used_at: Time, idle: Duration, now: Time) -> bool {
        let left = match standing {
            Standing::Closing { since } => now.since(since) >= self.settings.conn_close_timeout,
            Standing::Open => false,
        };
        left || (!idle.is_zero() && now.since(used_at) >= idle)
    }

    fn install(&mut self, v: &Arc<View>, now: Time) {
        let left =
            |m: &Uuid| !v.contains(*m) && self.view.as_ref().is_some_and(|old| old.contains(*m));
        // What a member that left did not acknowledge ends with its membership: a merge must not
        // revive it. Whatever is sent to it from now on begins a new connection. An answer to a
        // LEAVE_REQ that is lost is asked for again.
        let mut given_up = 0;
        self.sends.retain(|m, conn| {
            let over = left(m) && conn.has_unacknowledged();
            given_up += if over { conn.window.messages() } else { 0 };
            !over
        });
        self.counters.given_up += given_up;
        let standings = self.sends.iter_mut().map(|(m, c)| (m, &mut c.standing));
        let standings =
            standings.chain(self.receives.iter_mut().map(|(m, c)| (m, &mut c.standing)));
        for (m, standing) in standings {
            if v.contains(*m) {
                *standing = Standing::Open;
            } else if left(m) {
                *standing = Standing::Closing { since: now };
            }
        }
        self.view = Some(Arc::clone(v));
    }

    fn control(&self, to: Uuid, flags: Flags, header: UnicastHeader) -> wire::Message {
        control(self.settings.id, to, flags, header)
    }
}

/// An empty message with this header.
fn control(id: ProtId, to: Uuid, flags: Flags, header: UnicastHeader) -> wire::Message {
    let m = wire::Message::unicast(to, Body::Empty).with_flags(flags);
    m.with_header(id, Header::Unicast(header))
}

/// What our header of a message says, if it has one.
fn header(m: &Message, id: ProtId) -> Option<UnicastHeader> {
    match m.headers.get(id)? {
        Header::Unicast(h) => Some(*h),
        _ => None,
    }
}

impl Protocol for ReliableUnicast {
    fn spec(&self) -> Spec {
        Spec {
            name: self.settings.name,
            id: Some(self.settings.id),
            interests: Interests {
                down: Traffic::Unicast,
                // Our own messages to ourselves have no header and are counted too.
                up: if self.bounds.is_some() { Traffic::Unicast } else { Traffic::None },
                events: true,
                consumed: self.bounds.is_some(),
                ..Interests::default()
            },
            provides: &[Service::ReliableUnicast],
            needs_below: &[Service::Transport],
            needs_above: &[],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
        if let Some(bounds) = &mut self.bounds {
            bounds.start(cx);
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.refuse_all(cx);
        // Peers would otherwise repeat what we have (JGRP-1755). Nobody will consume it any more.
        self.receives.values_mut().for_each(|c| c.intake.renew(0));
        self.acknowledge_all(cx);
        self.reset(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let peer = msg.dest.as_ref().and_then(wire::Address::uuid);
        let Some(peer) = peer.filter(|_| !msg.has(Flags::NO_RELIABILITY)) else {
            return Flow::Pass;
        };
        if self.admit(peer, msg, cx) == Flow::Stop {
            return Flow::Stop;
        }
        if peer != cx.local() {
            self.number(peer, msg, cx);
        }
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if batch.multicast {
            return;
        }
        if batch.src == cx.local() {
            self.count_own(batch, cx);
        } else if batch.marks().meets(Marks::of(self.settings.id)) {
            self.receive(batch, cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::View(v)) => {
                self.install(v, cx.now);
                self.bound_by(v, cx);
            }
            (Dir::Down, other) => self.hear_of_bounds(other, cx),
            (Dir::Up, _) => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            EARLY => {
                self.schedule.early_fired();
                self.request_missing(cx, true);
            }
            TICK => self.tick(cx),
            REPORT => self.report(cx),
            _ => self.reap(cx),
        }
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        self.consumed(what, cx);
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        match q {
            Query::Room { dest: Some(peer), bytes, .. } => {
                self.room(*peer, *bytes as u64, group).map(Answer::Room)
            }
            Query::DeliveredUpTo { of, multicast: false } => {
                self.receives.get(of).map(|c| Answer::Number(c.window.delivered()))
            }
            Query::Windows => {
                let sends = self.sends.iter();
                let sends = sends.map(|(m, c)| c.window.gauge(*m, WindowKind::UnicastSend));
                let receives = self.receives.iter();
                let receives =
                    receives.map(|(m, c)| c.window.gauge(*m, WindowKind::UnicastReceive));
                Some(Answer::Windows(sends.chain(receives).collect::<Vec<_>>()))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("num_msgs_sent", c.sent);
        out("num_msgs_received", c.received);
        out("num_acks_sent", c.acks_sent);
        out("num_acks_received", c.acks_received);
        self.requests.inspect("num_xmits", out);
        out("send_first_seqno_sent", c.first_asked);
        out("given_up", c.given_up);
        out("num_send_connections", self.sends.len() as u64);
        out("num_receive_connections", self.receives.len() as u64);
        out("num_unacked_messages", self.sends.values().map(|s| s.window.messages()).sum());
        out("unacked_bytes", self.sends.values().map(|s| s.window.bytes()).sum());
        out("missing_messages", self.receives.values().map(|r| r.window.gaps.count()).sum());
        out("undelivered_bytes", self.receives.values().map(|r| r.window.bytes()).sum());
        if let Some(bounds) = &self.bounds {
            bounds.inspect(out);
            out("unconsumed_messages", self.receives.values().map(|r| r.intake.unconsumed()).sum());
        }
    }
}

#[cfg(test)]
mod tests;
