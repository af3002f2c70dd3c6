//! The bottom layer: between messages and packets (JGroups `TP` with its subclasses and bundler).
//!
//! Down, it stamps a message with its source and cluster, loops back what this member is to receive
//! itself, and gathers the rest into frames. Up, it drops what is not for this member and sorts the
//! rest into batches. It never retransmits and never blocks: what cannot leave is dropped and
//! counted, and the reliable protocols above send it again.

mod bundler;
mod config;
mod receive;
mod routing;
mod unresolved;

pub use config::{InProcessConfig, TcpConfig, TransportConfig, UdpConfig};

use crate::net::{NetEvent, NetOp};
use crate::wire::header::{Rtt, TpHeader};
use crate::wire::{Header, ProtId};
use crate::{
    Cx, Dir, Event, Flow, Interests, Message, Protocol, Row, RowFlow, SendRefusal, Service, Spec,
    Time, TimerKey, Traffic, Uuid, View,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bundler::{Bundler, Closed, Target};
use core::time::Duration;
use unresolved::Unresolved;

/// Members without address are looked at again.
const TICK: TimerKey = TimerKey(1);
/// Connections of those who left are given up.
const RETAIN: TimerKey = TimerKey(2);

/// Who left a view can still be sent to for so long: its leave response has to arrive.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// The transport protocol.
#[derive(Debug)]
pub struct Transport {
    config: TransportConfig,
    running: bool,
    bundler: Bundler,
    unresolved: Unresolved,
    /// The view whose event has passed. Frames that were filled before it go to the earlier one.
    view: Option<Arc<View>>,
    /// Who left, and when; forgotten after [`LEAVE_GRACE`].
    leavers: BTreeMap<Uuid, Time>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    bytes: u64,
    frames: u64,
    lists: u64,
}

impl Counters {
    fn count(&mut self, frame: &Closed) {
        let messages = frame.content.len() as u64;
        self.sent += messages;
        self.bytes += frame.size as u64;
        self.frames += 1;
        self.lists += u64::from(messages > 1);
    }
}

impl Transport {
    /// A transport of the kind that `config` is for.
    #[must_use]
    pub fn new(config: impl Into<TransportConfig>) -> Self {
        let config = config.into();
        Self {
            bundler: Bundler::new(config.max_size()),
            config,
            running: false,
            unresolved: Unresolved::default(),
            view: None,
            leavers: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    fn install_view(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        // What was multicast in the earlier view goes to the members of that view.
        if let Some(open) = self.bundler.close(Target::Group) {
            self.transmit(open, cx);
        }
        let old = self.view.replace(Arc::clone(view));
        for m in old.iter().flat_map(|v| v.without(view)) {
            self.leavers.insert(m, cx.now);
        }
        self.leavers.retain(|m, _| !view.contains(*m));
        self.unresolved.retain_asked(|m| view.contains(m));
        if cx.armed(RETAIN).is_none() {
            cx.arm(RETAIN, cx.now + LEAVE_GRACE);
        }
    }

    /// Gives up connections and queues of those whose grace is over.
    fn retain_peers(&mut self, cx: &mut Cx<'_>) {
        let view = self.view.clone().filter(|_| cx.group().view.is_some());
        let Some(view) = view else { return };
        let now = cx.now;
        let gone: alloc::vec::Vec<Uuid> = self
            .leavers
            .iter()
            .filter(|(_, left)| now.since(**left) >= LEAVE_GRACE)
            .map(|(m, _)| *m)
            .collect();
        for m in gone {
            self.leavers.remove(&m);
            let dropped = self.unresolved.forget(m);
            self.count_unreachable(dropped, m, cx);
        }
        let wanted = view.members.iter().chain(self.leavers.keys());
        let peers = wanted.filter(|m| **m != cx.local()).filter_map(|m| self.address_of(*m, cx));
        let peers = peers.collect();
        cx.net(NetOp::RetainPeers(peers));
        if let Some(next) = self.leavers.values().min() {
            cx.arm(RETAIN, *next + LEAVE_GRACE);
        }
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        for frame in self.bundler.close_all() {
            self.transmit(frame, cx);
        }
    }

    /// Refuses what no packet can carry: without fragmentation above, that is the sender's error.
    fn too_large(&self, m: &Message, cx: &Cx<'_>) -> Option<SendRefusal> {
        // A packet with one message begins with version and packet flags.
        const PACKET_START: usize = 3;
        let limit = self.config.packet_limit()?;
        // Payloads far below the limit are the rule; only the others are measured.
        if m.length() < limit / 2 && m.headers.len() < 16 {
            return None;
        }
        let mut complete = m.wire.clone();
        complete.headers.put(ProtId::TP, own_header(cx));
        let mut size = crate::wire::Counter::default();
        crate::wire::Encode::encode(&complete, &mut size);
        let size = size.0 + PACKET_START;
        let refusal = SendRefusal::TooLarge { size: size as u64, limit: limit as u64 };
        (size > limit).then_some(refusal)
    }
}

/// What the transport adds to every message that leaves.
fn own_header(cx: &Cx<'_>) -> Header {
    Header::Tp(TpHeader { cluster: Some(cx.group().cluster.clone()), rtt: Rtt::None })
}

impl Protocol for Transport {
    fn spec(&self) -> Spec {
        Spec {
            name: self.config.name(),
            id: Some(ProtId::TP),
            interests: Interests {
                down: Traffic::Both,
                events: true,
                end_turn: true,
                ..Interests::default()
            },
            provides: &[Service::Transport],
            needs_below: &[],
            needs_above: &[],
        }
    }

    fn start(&mut self, _cx: &mut Cx<'_>) {
        self.running = true;
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        if !self.running {
            return;
        }
        self.flush(cx);
        self.running = false;
        self.unresolved = Unresolved::default();
        self.leavers.clear();
        self.view = None;
        cx.net(NetOp::Shutdown);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if !self.running {
            cx.discard(msg, SendRefusal::Closed);
            return Flow::Stop;
        }
        if msg.src.is_none() {
            msg.src = Some(cx.local().into());
        }
        if let Some(refusal) = self.too_large(msg, cx) {
            cx.trace(|| crate::Trace::Dropped { why: crate::DropReason::OverLimit, from: None });
            cx.discard(msg, refusal);
            return Flow::Stop;
        }
        if let Some(token) = msg.token.take() {
            cx.resolve(token, Ok(()));
        }
        if let Some(mut m) = Self::loop_back(core::mem::take(msg), cx) {
            m.headers.put(ProtId::TP, own_header(cx));
            self.route(m, cx);
        }
        Flow::Stop
    }

    fn row_down(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        let fits = |limit| row.longest() < limit / 2;
        let numbered = row.numbers.is_some();
        if !self.running || !numbered || !self.config.packet_limit().is_none_or(fits) {
            return RowFlow::Apart;
        }
        let none = Row::sent(row.src, Vec::new());
        let row = core::mem::replace(row, none);
        cx.loopback_row(row.clone());
        self.route_row(row, cx);
        RowFlow::Pass
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::View(v)) => self.install_view(v, cx),
            (Dir::Down, Event::AddressLearned(m)) => {
                if let Some(at) = self.address_of(*m, cx) {
                    self.release(*m, at, cx);
                }
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            TICK => self.retry_unresolved(cx),
            RETAIN => self.retain_peers(cx),
            _ => {}
        }
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        if !self.running {
            return;
        }
        match ev {
            NetEvent::Frame { frame, from } => self.receive(frame, from, cx),
            NetEvent::Row { start, payloads, from } => self.receive_row(start, payloads, from, cx),
            NetEvent::Undecodable { error, from } => Self::undecodable(error, from, cx),
            NetEvent::NobodyAt(at) => cx.raise(Dir::Up, Event::NobodyAt(at)),
            // Of protocols that are not in this stack.
            NetEvent::Discovery(_)
            | NetEvent::MonitorAccepted { .. }
            | NetEvent::MonitorConnected { .. }
            | NetEvent::MonitorFailed { .. }
            | NetEvent::MonitorFrame { .. }
            | NetEvent::MonitorClosed { .. } => {}
        }
    }

    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_msgs_sent", self.counters.sent);
        out("num_msgs_received", self.counters.received);
        out("num_bytes_sent", self.counters.bytes);
        out("num_frames_sent", self.counters.frames);
        out("num_batches_sent", self.counters.lists);
        out("waiting_for_address", self.unresolved.len() as u64);
    }
}

#[cfg(test)]
mod tests;
