//! Reliable multicast. Every multicast gets the next number of its sender; receivers ask for what is
//! missing. Two dialects differ in what empties the windows: with NAKACK2 everybody keeps what was
//! delivered until STABLE says that all have it; with NAKACK4 only the sender keeps it, until every
//! member has acknowledged it, and waits when it has too much of that ([`acks`]).
//!
//! Our own copies come back through the transport and are delivered by number like everybody's. A
//! message is numbered when it passes here going down: nothing below may refuse it. Multicasts of
//! members without a window are dropped (counted), those that arrive before the join is complete
//! wait, up to a limit.

mod acks;
mod announce;
mod config;
mod digests;
mod early;
mod receive;
pub(super) mod repair;
mod rows;
mod serve;
mod sync;

pub use config::{MulticastSettings, Nakack2Config, Nakack4Config};

use super::backlog::REPORT;
use super::intake::Intake;
use super::parking::Parking;
use super::retransmit::{self, EARLY, Schedule, Served, TICK};
use super::syncs::{Arrivals, OwnSyncs};
use super::window::Window;
use crate::event::WindowKind;
use crate::wire::{Flags, Header, Hints, ProtId, header::NakAckHeader};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, Protocol, Query, Row,
    RowFlow, Service, Spec, TimerKey, Trace, Traffic, Uuid,
};
use acks::Acks;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use announce::{ANNOUNCE, Own};
use config::Purging;
use early::{Early, Heard};
use repair::{REPAIR, Repair};
use serve::Resent;

/// The layer.
#[derive(Debug)]
pub struct ReliableMulticast {
    settings: MulticastSettings,
    own: Own,
    /// Our own messages that wait for acknowledgements.
    syncs: OwnSyncs,
    /// Acknowledgements, in the dialect that has them.
    acks: Option<Acks>,
    senders: BTreeMap<Uuid, Sender>,
    phase: Phase,
    heard: Heard,
    /// Per sender, the highest number that anybody had at the last stability.
    stable_received: BTreeMap<Uuid, i64>,
    resent: Resent,
    served: Served,
    repair: Repair,
    parking: Parking,
    schedule: Schedule,
    requests: retransmit::Counters,
    counters: Counters,
}

/// Whether multicasts of others are delivered.
#[derive(Debug)]
enum Phase {
    /// The join is not complete: they wait.
    Joining(Early),
    /// They are.
    Serving,
}

/// Another member, as a source of multicasts.
#[derive(Clone, Debug)]
struct Sender {
    window: Window,
    /// What is acknowledged of it, in the dialect that does that.
    intake: Intake,
    /// Synchronous messages of it of which not every fragment is here.
    arrivals: Arrivals,
    /// Rounds of requests in a row that nothing came back for.
    unanswered: u32,
    /// Messages went before they were stable, and that was said.
    evicting: bool,
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    xmit_rsps_sent: u64,
    xmit_rsps_received: u64,
    not_found: u64,
    announcements: u64,
    from_non_members: u64,
}

impl ReliableMulticast {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: impl Into<MulticastSettings>) -> Self {
        Self::with(config.into())
    }

    fn with(settings: MulticastSettings) -> Self {
        let s = &settings;
        Self {
            schedule: Schedule::new(s.xmit_interval, s.gap_delay, s.max_xmit_req_size),
            acks: match s.purging {
                Purging::ByStability { .. } => None,
                Purging::ByAcknowledgement(capacity) => Some(Acks::new(capacity)),
            },
            own: Own::default(),
            syncs: OwnSyncs::default(),
            senders: BTreeMap::new(),
            phase: Phase::Joining(Early::default()),
            heard: Heard::default(),
            stable_received: BTreeMap::new(),
            resent: Resent::default(),
            served: Served::default(),
            repair: Repair::default(),
            parking: Parking::default(),
            requests: retransmit::Counters::default(),
            counters: Counters::default(),
            settings,
        }
    }

    /// Nothing of a former life may survive: peers would wait for numbers that are gone.
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.schedule.reset(cx);
        cx.disarm(ANNOUNCE);
        cx.disarm(REPORT);
        cx.disarm(REPAIR);
        *self = Self::with(self.settings);
    }

    /// Gives a multicast its number and keeps a copy.
    fn number(&mut self, msg: &mut Message, cx: &mut Cx<'_>) {
        let id = self.settings.id;
        let seqno = self.own.window.append(&mut msg.wire, |n, m| {
            m.headers.put(id, Header::NakAck(NakAckHeader::Msg(n)));
        });
        self.syncs.note(&msg.wire, seqno);
        if msg.hints.contains(Hints::DONT_LOOPBACK) {
            // No copy will come back: it counts as delivered here and now.
            self.own.window.mark_delivered(seqno);
        }
        self.counters.sent += 1;
        cx.trace(|| Trace::Multicast { seqno });
        self.own.sent(&self.settings, cx);
    }

    /// Asks for what `which` finds missing, sender by sender.
    fn request_missing(&mut self, cx: &mut Cx<'_>, early: bool) {
        let others_keep = self.acks.is_none();
        let mut requests = Vec::new();
        for (member, sender) in &mut self.senders {
            let lists = self.schedule.due(&mut sender.window.gaps, early, cx.now);
            if lists.is_empty() {
                continue;
            }
            let whom = sender.whom_to_ask(*member, early, others_keep, cx);
            let delivered = sender.window.delivered();
            requests.extend(lists.into_iter().map(|l| (whom, *member, delivered, l)));
        }
        for (from, of, delivered, list) in requests {
            let window = (WindowKind::Multicast, delivered);
            let header = Header::NakAck(NakAckHeader::XmitReq(Some(of.into())));
            self.requests.request(from, of, (self.settings.id, header), list, window, cx);
        }
        for sender in self.senders.values() {
            self.schedule.watch(&sender.window.gaps, cx);
        }
    }
}

impl Sender {
    /// The sender itself; when it did not answer two rounds, every other time somebody else, who
    /// may have kept the message.
    fn whom_to_ask(&mut self, of: Uuid, early: bool, others_keep: bool, cx: &mut Cx<'_>) -> Uuid {
        if early {
            return of;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if !others_keep || self.unanswered <= 2 || self.unanswered.is_multiple_of(2) {
            return of;
        }
        let local = cx.local();
        let others: Vec<Uuid> =
            cx.group().members().iter().copied().filter(|m| *m != of && *m != local).collect();
        cx.rng().pick(&others).copied().unwrap_or(of)
    }
}

impl Protocol for ReliableMulticast {
    fn spec(&self) -> Spec {
        Spec {
            name: self.settings.name,
            id: Some(self.settings.id),
            interests: Interests {
                down: Traffic::Multicast,
                // Tail repair travels under it.
                up_with: Some(ProtId::STABLE),
                events: true,
                consumed: self.acks.is_some(),
                ..Interests::default()
            },
            provides: &[Service::ReliableMulticast],
            needs_below: &[Service::Transport],
            needs_above: &[Service::Membership],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
        if let Some(acks) = &mut self.acks {
            acks.start(cx);
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        if let Some(acks) = &mut self.acks {
            acks.stop(cx);
        }
        self.reset(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if msg.has(Flags::NO_RELIABILITY) {
            return Flow::Pass;
        }
        if self.admit(msg, cx) == Flow::Stop || self.repair.keeps_back(msg, cx) {
            return Flow::Stop;
        }
        self.number(msg, cx);
        if msg.hints.contains(Hints::DONT_LOOPBACK) {
            self.purge_own(cx);
        }
        self.watch_own_window(cx);
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !batch.multicast {
            self.receive_unicasts(batch, cx);
        } else if batch.src == cx.local() {
            self.receive_own(batch, cx);
        } else if let Phase::Joining(early) = &mut self.phase {
            let (id, most) = (self.settings.id, self.settings.early_messages);
            early.set_aside(batch, id, most, &mut self.parking, cx);
        } else {
            self.receive(batch, cx);
        }
    }

    fn row_down(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        self.number_row(row, cx)
    }

    fn row_up(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        self.receive_row(row, cx)
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        if dir == Dir::Down {
            self.hear_from_above(ev, cx);
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            EARLY => {
                self.schedule.early_fired();
                self.request_missing(cx, true);
            }
            TICK => {
                self.schedule.tick_fired();
                self.acknowledge_all(cx);
                self.request_missing(cx, false);
            }
            REPORT => self.report(cx),
            REPAIR => self.proceed(cx),
            _ => self.announce(cx),
        }
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        self.consumed(what, cx);
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        match q {
            Query::Digest => Some(Answer::Digest(self.digest(group))),
            Query::DigestOf(member) => Some(Answer::Digest(self.digest_of(*member, group))),
            Query::DeliveredUpTo { of, multicast: true } => {
                self.pair(*of, group).map(|pair| Answer::Number(pair.delivered))
            }
            Query::MulticastsWait => Some(Answer::Held(self.repair.is_shut())),
            Query::OwnRoom => self.own_room(group).map(Answer::Bytes),
            Query::Room { dest: None, bytes, .. } => {
                self.room(*bytes as u64, group.local).map(Answer::Room)
            }
            Query::Windows => {
                let gauge = |m: &Uuid, w: &Window| w.gauge(*m, WindowKind::Multicast);
                let own = gauge(&group.local, &self.own.window);
                let others = self.senders.iter().map(|(m, s)| gauge(m, &s.window));
                Some(Answer::Windows(core::iter::once(own).chain(others).collect()))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let windows = || self.senders.values().map(|s| &s.window);
        let c = &self.counters;
        out("num_messages_sent", c.sent);
        out("num_messages_received", c.received);
        self.requests.inspect("retransmissions", out);
        out("xmit_rsps_sent", c.xmit_rsps_sent);
        out("xmit_rsps_received", c.xmit_rsps_received);
        out("not_found", c.not_found);
        out("announcements", c.announcements);
        out("non_member_messages", c.from_non_members);
        out("current_seqno", self.own.window.received() as u64);
        out("xmit_table_missing_messages", windows().map(|w| w.gaps.count()).sum());
        let own = &self.own.window;
        out("xmit_table_num_current_rows", windows().count() as u64 + 1);
        out("size_of_all_messages", own.bytes() + windows().map(Window::bytes).sum::<u64>());
        out("num_kept_messages", own.messages() + windows().map(Window::messages).sum::<u64>());
        out("evicted_unstable_messages", windows().map(Window::evicted).sum());
        if let Some(acks) = &self.acks {
            acks.inspect(own, out);
            out("unconsumed_messages", self.senders.values().map(|s| s.intake.unconsumed()).sum());
        }
        let r = &self.repair;
        out("tail_repairs", r.counters.runs);
        out("tail_repair_running", u64::from(r.is_running()));
        out("tail_messages_fetched", r.counters.fetched);
        out("tail_messages_pushed", r.counters.pushed);
        out("tails_unknown", r.counters.unknown);
        out("multicasts_waiting_for_view", r.kept_back() as u64);
        out("bytes_kept_of_former_members", r.held().0);
        out("messages_kept_of_former_members", r.held().1);
    }
}

#[cfg(test)]
mod tests;
