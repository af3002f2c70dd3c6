//! NAKACK2: reliable multicast. Every multicast gets the next number of its sender; receivers ask
//! for what is missing; everybody keeps what was delivered until STABLE says that all have it.
//!
//! Our own copies come back through the transport and are delivered by number like everybody's. A
//! message is numbered when it passes here going down: nothing below may refuse it. Multicasts of
//! members without a window are dropped (counted), those that arrive before the join is complete
//! wait, up to a limit.

mod announce;
mod digests;
mod early;
mod receive;
mod serve;

use super::parking::Parking;
use super::retransmit::{self, EARLY, Schedule, Served, TICK};
use super::window::{Limits, Window};
use crate::attributes::ByteSize;
use crate::event::{WindowGauge, WindowKind};
use crate::wire::{Flags, Header, Hints, ProtId, header::NakAckHeader};
use crate::{
    Answer, Batch, Cx, Dir, Duration, Event, Flow, Group, Interests, Message, Protocol, Query,
    Service, Spec, TimerKey, Trace, Traffic, Uuid,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use announce::{ANNOUNCE, Own};
use early::{Early, Heard};
use serve::Resent;

crate::attributes! {
    /// Reliable multicast (JGroups `NAKACK2`).
    pub struct Nakack2Config for "NAKACK2" {
        /// How often missing messages are asked for again and the last number is announced again.
        /// Default 1 s.
        xmit_interval: Duration = Duration::from_secs(1),
        /// How long a message must be missing before it is asked for the first time, ahead of the
        /// rounds. Grows by itself where messages arrive out of order. Not below what the network
        /// reorders by; from xmit_interval on there are no early requests. Default 5 ms. Not in
        /// JGroups.
        gap_delay: Duration = Duration::from_millis(5),
        /// How long after the last multicast of a burst its number is announced for the first time.
        /// Default 20 ms. Not in JGroups, which announces in the next round.
        announce_delay: Duration = Duration::from_millis(20),
        /// Announce the last number of a burst at all. Default true.
        resend_last_seqno: bool = true,
        /// Send missing messages again by multicast, for transports where that costs one packet.
        /// Default true; the TCP presets set false.
        use_mcast_xmit: bool = true,
        /// Numbers that one request may span, as a bound of its size (8 per byte). Default 9,600,
        /// which fits a packet of 1,400 bytes.
        max_xmit_req_size: u32 = 9600,
        /// Drop messages of others once they are delivered, instead of keeping them until stable
        /// to serve them when their sender is gone. Default false (JGroups: true).
        discard_delivered_msgs: bool = false,
        /// Bytes of delivered messages kept per sender; beyond it the oldest go. Not below twice
        /// STABLE.max_bytes plus MFC.max_credits. Default 12 MB. Not in JGroups.
        retain_limit: ByteSize = ByteSize(12_000_000),
        /// Bytes of own multicasts that are not stable from which on no more are admitted, until
        /// three quarters of it are left. 0, the default: three times STABLE.max_bytes plus twice
        /// MFC.max_credits, put in when the stack is built; no limit where STABLE does not report
        /// by volume. Not in JGroups.
        own_limit: ByteSize = ByteSize(0),
        /// Multicasts per sender that wait until the join is complete. Default 50.
        become_server_queue_size: u32 = 50,
    }
}

/// The layer.
#[derive(Debug)]
pub struct Nakack2 {
    config: Nakack2Config,
    own: Own,
    senders: BTreeMap<Uuid, Sender>,
    phase: Phase,
    heard: Heard,
    /// Per sender, the highest number that anybody had at the last stability.
    stable_received: BTreeMap<Uuid, i64>,
    resent: Resent,
    served: Served,
    parking: Parking,
    schedule: Schedule,
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
#[derive(Debug)]
struct Sender {
    window: Window,
    /// Rounds of requests in a row that nothing came back for.
    unanswered: u32,
    /// Messages went before they were stable, and that was said.
    evicting: bool,
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    xmit_reqs_sent: u64,
    xmit_reqs_received: u64,
    xmit_rsps_sent: u64,
    xmit_rsps_received: u64,
    numbers_requested: u64,
    retransmissions: u64,
    not_found: u64,
    announcements: u64,
    from_non_members: u64,
}

impl Nakack2 {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: Nakack2Config) -> Self {
        let schedule =
            Schedule::new(config.xmit_interval, config.gap_delay, config.max_xmit_req_size);
        Self {
            own: Own::default(),
            senders: BTreeMap::new(),
            phase: Phase::Joining(Early::default()),
            heard: Heard::default(),
            stable_received: BTreeMap::new(),
            resent: Resent::default(),
            served: Served::default(),
            parking: Parking::default(),
            schedule,
            counters: Counters::default(),
            config,
        }
    }

    /// Nothing of a former life may survive: peers would wait for numbers that are gone.
    fn reset(&mut self, cx: &mut Cx<'_>) {
        self.schedule.reset(cx);
        cx.disarm(ANNOUNCE);
        *self = Self::new(self.config.clone());
    }

    fn limits(&self) -> Limits {
        let bytes = self.config.retain_limit.0;
        Limits { held: bytes, kept: (!self.config.discard_delivered_msgs).then_some(bytes) }
    }

    /// Asks for what `which` finds missing, sender by sender.
    fn request_missing(&mut self, cx: &mut Cx<'_>, early: bool) {
        let schedule = &self.schedule;
        let mut requests = Vec::new();
        for (member, sender) in &mut self.senders {
            let gaps = &mut sender.window.gaps;
            let lists = if early {
                gaps.early(cx.now, schedule.delay, schedule.limits)
            } else {
                gaps.round(cx.now, schedule.interval, schedule.limits)
            };
            if lists.is_empty() {
                continue;
            }
            let whom = sender.whom_to_ask(*member, early, cx);
            requests.extend(lists.into_iter().map(|l| (whom, *member, l)));
        }
        for (from, of, list) in requests {
            let count = list.len() as u32;
            self.counters.xmit_reqs_sent += 1;
            self.counters.numbers_requested += u64::from(count);
            let range = retransmit::range(&list);
            cx.trace(|| Trace::XmitRequested { from, of, count, range });
            let header = Header::NakAck(NakAckHeader::XmitReq(Some(of.into())));
            cx.send_down(retransmit::request(from.into(), ProtId::NAKACK2, header, list));
        }
        for sender in self.senders.values() {
            self.schedule.watch(&sender.window.gaps, cx);
        }
    }

    fn gauge(peer: Uuid, w: &Window) -> WindowGauge {
        WindowGauge {
            peer,
            kind: WindowKind::Multicast,
            low: w.low(),
            delivered: w.delivered(),
            received: w.received(),
            bytes: w.bytes(),
            messages: w.messages(),
        }
    }
}

impl Sender {
    /// The sender itself; when it did not answer two rounds, every other time somebody else, who
    /// may have kept the message.
    fn whom_to_ask(&mut self, of: Uuid, early: bool, cx: &mut Cx<'_>) -> Uuid {
        if early {
            return of;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered <= 2 || self.unanswered.is_multiple_of(2) {
            return of;
        }
        let local = cx.local();
        let others: Vec<Uuid> =
            cx.group().members().iter().copied().filter(|m| *m != of && *m != local).collect();
        cx.rng().pick(&others).copied().unwrap_or(of)
    }
}

impl Protocol for Nakack2 {
    fn spec(&self) -> Spec {
        Spec {
            name: "NAKACK2",
            id: Some(ProtId::NAKACK2),
            interests: Interests { down: Traffic::Multicast, events: true, ..Interests::default() },
            provides: &[Service::ReliableMulticast],
            needs_below: &[Service::Transport],
            needs_above: &[Service::Membership],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if msg.has(Flags::NO_RELIABILITY) {
            return Flow::Pass;
        }
        let seqno = self.own.window.append(|n| {
            msg.headers.put(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(n)));
            msg.wire.clone()
        });
        if msg.hints.contains(Hints::DONT_LOOPBACK) {
            // No copy will come back: it counts as delivered here and now.
            self.own.window.mark_delivered(seqno);
        }
        self.counters.sent += 1;
        cx.trace(|| Trace::Multicast { seqno });
        self.own.sent(&self.config, cx);
        self.watch_own_window(cx);
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !batch.multicast {
            self.receive_unicasts(batch, cx);
        } else if batch.src == cx.local() {
            self.receive_own(batch, cx);
        } else if let Phase::Joining(early) = &mut self.phase {
            let most = self.config.become_server_queue_size as usize;
            early.set_aside(batch, most, &mut self.parking, cx);
        } else {
            self.receive(batch, cx);
        }
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
                self.request_missing(cx, false);
            }
            _ => self.announce(cx),
        }
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        match q {
            Query::Digest => Some(Answer::Digest(self.digest(group))),
            Query::DigestOf(member) => Some(Answer::Digest(self.digest_of(*member, group))),
            Query::OwnRoom => Some(Answer::Bytes(self.own_room(group))),
            Query::Windows => {
                let own = Self::gauge(group.local, &self.own.window);
                let others = self.senders.iter().map(|(m, s)| Self::gauge(*m, &s.window));
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
        out("xmit_reqs_sent", c.xmit_reqs_sent);
        out("xmit_reqs_received", c.xmit_reqs_received);
        out("xmit_rsps_sent", c.xmit_rsps_sent);
        out("xmit_rsps_received", c.xmit_rsps_received);
        out("numbers_requested", c.numbers_requested);
        out("retransmissions", c.retransmissions);
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
    }
}

#[cfg(test)]
mod tests;
