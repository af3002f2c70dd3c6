//! UNICAST3: reliable unicast. Each direction between two members is a connection of its own, named
//! by a number of the sender; its messages are numbered from 1, acknowledged cumulatively, and asked
//! for when missing.
//!
//! What arrives of a connection whose beginning was missed waits aside while the sender is asked for
//! it. Messages to ourselves are not numbered: they never leave the process. A connection works
//! before there is any view (the request to join needs it) and ends by idleness, or some time after
//! its peer left; what a peer that is not in the view never acknowledges is given up after
//! `max_retransmit_time`.

mod aside;
mod receive;
mod send;

use super::parking::Parking;
use super::retransmit::{EARLY, Schedule, Served, TICK};
use super::window::Window;
use crate::event::{WindowGauge, WindowKind};
use crate::wire::{self, Body, Flags, Header, ProtId, header::UnicastHeader};
use crate::{
    Answer, Batch, Cx, Dir, Duration, Event, Flow, Group, Interests, Message, Protocol, Query,
    Service, Spec, Time, TimerKey, Traffic, Uuid, View,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use aside::Aside;
use receive::ReceiveConnection;
use send::SendConnection;

crate::attributes! {
    /// Reliable unicast (JGroups `UNICAST3`).
    pub struct Unicast3Config for "UNICAST3" {
        /// How often missing messages are asked for again, acknowledgements are sent at the latest,
        /// and a last message that nobody acknowledged is sent again. Default 500 ms.
        xmit_interval: Duration = Duration::from_millis(500),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds; see the attribute of NAKACK2. Default 5 ms. Not in JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// After so many messages an acknowledgement is sent at once. Default 100.
        ack_threshold: u32 = 100,
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// A connection without traffic is closed after this; 0: never. Default 2 minutes.
        conn_expiry_timeout: Duration = Duration::from_secs(120),
        /// A connection to a member that left is removed after this. Default 4 minutes.
        conn_close_timeout: Duration = Duration::from_secs(240),
        /// Messages to a peer that is not in the view are given up when it acknowledges nothing
        /// for this long. Default 1 minute.
        max_retransmit_time: Duration = Duration::from_secs(60),
        /// The least time between two requests for the first message of the same peer. Default 2 s.
        sync_min_interval: Duration = Duration::from_secs(2),
    }
}

/// Connections are looked through for those that have expired.
const REAP: TimerKey = TimerKey(3);

/// The layer.
#[derive(Debug)]
pub struct Unicast3 {
    config: Unicast3Config,
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
    xmit_reqs_sent: u64,
    xmit_reqs_received: u64,
    numbers_requested: u64,
    retransmissions: u64,
    first_asked: u64,
    given_up: u64,
}

impl Unicast3 {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: Unicast3Config) -> Self {
        let schedule =
            Schedule::new(config.xmit_interval, config.gap_delay, config.max_xmit_req_size);
        Self {
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            aside: Aside::default(),
            view: None,
            next_conn_id: 0,
            last_stamp: 0,
            schedule,
            served: Served::default(),
            parking: Parking::default(),
            reaping: false,
            counters: Counters::default(),
            config,
        }
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.schedule.reset(cx);
        cx.disarm(REAP);
        let (next_conn_id, last_stamp) = (self.next_conn_id, self.last_stamp);
        *self = Self { next_conn_id, last_stamp, ..Self::new(self.config.clone()) };
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
        self.acknowledge_all(cx);
        self.request_missing(cx, false);
    }

    /// Connections exist: they must be looked at now and then.
    fn reap_later(&mut self, cx: &mut Cx<'_>) {
        if !self.reaping {
            self.reaping = true;
            let longest = self.config.conn_close_timeout.max(self.config.conn_expiry_timeout);
            let pause = (longest / 8).max(Duration::from_secs(1));
            cx.arm(REAP, cx.now + pause);
        }
    }

    fn reap(&mut self, cx: &mut Cx<'_>) {
        self.reaping = false;
        self.reap_sends(cx);
        self.reap_receives(cx.now);
        self.aside.expire(cx.now, self.config.max_retransmit_time);
        if !self.sends.is_empty() || !self.receives.is_empty() || !self.aside.is_empty() {
            self.reap_later(cx);
        }
    }

    /// Whether a connection with this standing, last used then, is to be removed.
    fn is_over(&self, standing: Standing, used_at: Time, idle: Duration, now: Time) -> bool {
        let left = match standing {
            Standing::Closing { since } => now.since(since) >= self.config.conn_close_timeout,
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

    fn control(to: Uuid, flags: Flags, header: UnicastHeader) -> wire::Message {
        wire::Message::unicast(to, Body::Empty)
            .with_flags(flags)
            .with_header(ProtId::UNICAST3, Header::Unicast(header))
    }

    fn gauge(peer: Uuid, kind: WindowKind, w: &Window) -> WindowGauge {
        WindowGauge {
            peer,
            kind,
            low: w.low(),
            delivered: w.delivered(),
            received: w.received(),
            bytes: w.bytes(),
            messages: w.messages(),
        }
    }
}

/// What the UNICAST3 header of a message says, if it has one.
fn header(m: &Message) -> Option<UnicastHeader> {
    match m.headers.get(ProtId::UNICAST3)? {
        Header::Unicast(h) => Some(*h),
        _ => None,
    }
}

impl Protocol for Unicast3 {
    fn spec(&self) -> Spec {
        Spec {
            name: "UNICAST3",
            id: Some(ProtId::UNICAST3),
            interests: Interests { down: Traffic::Unicast, events: true, ..Interests::default() },
            provides: &[Service::ReliableUnicast],
            needs_below: &[Service::Transport],
            needs_above: &[],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        // Peers would otherwise repeat what we have (JGRP-1755).
        self.acknowledge_all(cx);
        self.reset(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let peer = msg.dest.as_ref().and_then(wire::Address::uuid);
        if let Some(peer) = peer.filter(|p| *p != cx.local() && !msg.has(Flags::NO_RELIABILITY)) {
            self.number(peer, msg, cx);
        }
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !batch.multicast && batch.src != cx.local() {
            self.receive(batch, cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        if let (Dir::Down, Event::View(v)) = (dir, ev) {
            self.install(v, cx.now);
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
            _ => self.reap(cx),
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Windows => {
                let sends = self.sends.iter();
                let sends = sends.map(|(m, c)| Self::gauge(*m, WindowKind::UnicastSend, &c.window));
                let receives = self.receives.iter();
                let receives =
                    receives.map(|(m, c)| Self::gauge(*m, WindowKind::UnicastReceive, &c.window));
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
        out("xmit_reqs_sent", c.xmit_reqs_sent);
        out("xmit_reqs_received", c.xmit_reqs_received);
        out("numbers_requested", c.numbers_requested);
        out("num_xmits", c.retransmissions);
        out("send_first_seqno_sent", c.first_asked);
        out("given_up", c.given_up);
        out("num_send_connections", self.sends.len() as u64);
        out("num_receive_connections", self.receives.len() as u64);
        out("num_unacked_messages", self.sends.values().map(|s| s.window.messages()).sum());
        out("unacked_bytes", self.sends.values().map(|s| s.window.bytes()).sum());
        out("missing_messages", self.receives.values().map(|r| r.window.gaps.count()).sum());
        out("undelivered_bytes", self.receives.values().map(|r| r.window.bytes()).sum());
    }
}

#[cfg(test)]
mod tests;
