//! STABLE: agrees on what everybody has delivered, so that it can be purged.
//!
//! Every member reports its digest to the coordinator, now and then and whenever `max_bytes` of
//! multicasts came in. When all members of the view have reported, the coordinator multicasts the
//! least delivered and the highest received numbers, and everybody purges. Reports and results of
//! another view are ignored on both sides, and a view begins a new round. Nothing here is
//! reliable: a report by volume is repeated until something became stable, at once and every second
//! while the own window is full, and whoever repeats it is sent the last result again.

use super::reliable::memory_cost;
use crate::attributes::ByteSize;
use crate::event::{HeldBack, StabilityGauge};
use crate::wire::header::{StableHeader, StableKind};
use crate::wire::{self, Body, Flags, Header, Hints, Object, ProtId};
use crate::{
    Answer, Batch, Cx, Digest, Dir, DropReason, Duration, Event, Flow, Group, Interests, Message,
    Protocol, Query, Service, Spec, Time, TimerKey, Trace, Traffic, Uuid, View, ViewId,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

crate::attributes! {
    /// Agreement on what is delivered everywhere (JGroups `STABLE`).
    pub struct StableConfig for "STABLE" {
        /// The average time between two reports; the times are random between 0 and twice this.
        /// 0: no reports by time. Default 50 s.
        desired_avg_gossip: Duration = Duration::from_secs(50),
        /// Report after so many bytes of multicast payload (at least 128 a message), own messages
        /// included; 0: no reports by volume. Memory for messages that are not stable follows from it. Default 4 MB.
        max_bytes: ByteSize = ByteSize(4_000_000),
    }
}

const GOSSIP: TimerKey = TimerKey(1);
const REPEAT: TimerKey = TimerKey(2);
const VOLUME: TimerKey = TimerKey(3);
/// A report by volume that no stability followed is repeated after this, doubling.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// The longest pause between two repetitions.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// A member whose own window is still full after a result reports again after this.
const PRESSED_PAUSE: Duration = Duration::from_millis(100);
/// A member is sent the last result again at most this often.
const RESEND_PAUSE: Duration = Duration::from_millis(500);

/// The layer.
#[derive(Debug)]
pub struct Stable {
    config: StableConfig,
    view: Option<Arc<View>>,
    reporting: Reporting,
    /// Multicast payload since the last stability or report by volume.
    bytes: u64,
    /// The same, since the first report that the next stability can rest on.
    since_vote: Option<u64>,
    /// The pause before the report by volume is repeated once more.
    pause: Duration,
    /// The own window is full: nothing can be sent until something is stable.
    pressed: bool,
    round: Round,
    held_back: Vec<HeldBack>,
    /// At the coordinator: what was last agreed on in this view.
    last: Option<Digest>,
    /// At the coordinator: when members were sent it again.
    resent_at: BTreeMap<Uuid, Time>,
    counters: Counters,
}

/// Whether reports are made and taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reporting {
    Active,
    /// A join or state transfer is going on, whose new member may still need what would be purged.
    Suspended {
        /// Ends by itself then, should nobody end it.
        until: Time,
    },
}

/// The votes of one round, at the coordinator.
#[derive(Debug, Default)]
struct Round {
    voted: Vec<Uuid>,
    /// Least delivered and highest received number per sender, and who has the least.
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sender: Uuid,
    pair: wire::SeqnoPair,
    least_at: Uuid,
}

#[derive(Debug, Default)]
struct Counters {
    reports_sent: u64,
    reports_received: u64,
    stability_sent: u64,
    stability_received: u64,
    view_mismatch: u64,
    incomplete: u64,
}

impl Round {
    /// Adds a vote; true if it is the first of this member.
    fn vote(&mut self, by: Uuid, digest: &Digest) -> bool {
        if self.voted.contains(&by) {
            return false;
        }
        self.voted.push(by);
        for (sender, pair) in digest.iter() {
            match self.marks.iter_mut().find(|m| m.sender == sender) {
                None => self.marks.push(Mark { sender, pair, least_at: by }),
                Some(m) => {
                    if pair.delivered < m.pair.delivered {
                        m.pair.delivered = pair.delivered;
                        m.least_at = by;
                    }
                    m.pair.received = m.pair.received.max(pair.received);
                }
            }
        }
        true
    }

    fn held_back(&self) -> Vec<HeldBack> {
        let unstable = self.marks.iter().filter(|m| m.pair.delivered < m.pair.received);
        let held = |m: &Mark| HeldBack {
            sender: m.sender,
            oldest: m.pair.delivered.wrapping_add(1),
            by: m.least_at,
        };
        unstable.map(held).collect()
    }
}

impl Stable {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: StableConfig) -> Self {
        Self {
            config,
            view: None,
            reporting: Reporting::Active,
            bytes: 0,
            since_vote: None,
            pause: REPEAT_AFTER,
            pressed: false,
            round: Round::default(),
            held_back: Vec::new(),
            last: None,
            resent_at: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    fn reset(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(GOSSIP);
        cx.disarm(REPEAT);
        cx.disarm(VOLUME);
        *self = Self::new(self.config.clone());
    }

    fn is_suspended(&mut self, now: Time) -> bool {
        match self.reporting {
            Reporting::Suspended { until } if now < until => true,
            Reporting::Suspended { .. } => {
                self.resume();
                false
            }
            Reporting::Active => false,
        }
    }

    fn resume(&mut self) {
        self.reporting = Reporting::Active;
        // Votes from before may be older than what was promised to the new member.
        self.round = Round::default();
    }

    fn gossip_later(&mut self, cx: &mut Cx<'_>) {
        let avg = self.config.desired_avg_gossip;
        if !avg.is_zero() {
            let pause = cx.rng().duration(Duration::ZERO, avg * 2);
            cx.arm(GOSSIP, cx.now + pause);
        }
    }

    /// Counts multicast payload that came in, or left without coming back. True if there is enough
    /// for a report.
    fn count(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        if let Some(since) = &mut self.since_vote {
            *since += bytes;
        }
        self.is_due()
    }

    fn is_due(&self) -> bool {
        let most = self.config.max_bytes.0;
        most > 0 && self.bytes >= most
    }

    fn report_volume(&mut self, cx: &mut Cx<'_>) {
        if !self.is_suspended(cx.now) {
            self.bytes = 0;
            self.pause = REPEAT_AFTER;
            cx.arm(REPEAT, cx.now + self.pause);
            self.report(cx);
        }
    }

    /// Reports what was delivered here: a vote for the coordinator.
    fn report(&mut self, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        if self.is_suspended(cx.now) {
            return;
        }
        let Some(digest) = Self::own_digest(&view, cx) else {
            // Windows and view do not match yet; the next report will tell.
            self.counters.incomplete += 1;
            return;
        };
        self.counters.reports_sent += 1;
        self.since_vote.get_or_insert(0);
        if view.coordinator() == cx.local() {
            return self.vote(&view, cx.local(), &digest, cx);
        }
        let flags = Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC;
        let mut m = message(&view, StableKind::Gossip, &digest).with_flags(flags);
        m.dest = Some(view.coordinator().into());
        cx.send_down(m);
    }

    /// The marks of the members of `view`, in its order; `None` if one is missing.
    fn own_digest(view: &View, cx: &Cx<'_>) -> Option<Digest> {
        let Some(Answer::Digest(all)) = cx.ask_below(&Query::Digest) else { return None };
        view.members.iter().map(|m| Some((*m, all.get(*m)?))).collect()
    }

    fn vote(&mut self, view: &View, by: Uuid, digest: &Digest, cx: &mut Cx<'_>) {
        if !self.round.vote(by, digest) || self.round.voted.len() < view.members.len() {
            return;
        }
        // The round ends before the result leaves: a report that arrives meanwhile belongs to the
        // next one (JGRP-1638).
        let round = core::mem::take(&mut self.round);
        self.held_back = round.held_back();
        let stable: Digest = round.marks.iter().map(|m| (m.sender, m.pair)).collect();
        if view.members.len() > 1 {
            self.counters.stability_sent += 1;
            let mut m = result(view, &stable);
            m.hints |= Hints::DONT_LOOPBACK;
            cx.send_down(m);
            self.last = Some(stable.clone());
        }
        self.agreed(view.id, stable, cx);
    }

    /// A member repeats its report: the result may have been lost on the way to it, or the round
    /// waits for somebody, who may be this member.
    fn help(&mut self, view: &View, from: Uuid, cx: &mut Cx<'_>) {
        let recently = |at: &Time| cx.now.since(*at) < RESEND_PAUSE;
        if self.resent_at.get(&from).is_some_and(recently) {
            return;
        }
        self.resent_at.insert(from, cx.now);
        if let Some(last) = &self.last {
            let mut m = result(view, last);
            m.dest = Some(from.into());
            cx.send_down(m);
        }
        if !self.round.voted.contains(&cx.local()) {
            self.report(cx);
        }
    }

    /// All members of the view have delivered this. What came after the own vote is not in it.
    fn agreed(&mut self, view: ViewId, stable: Digest, cx: &mut Cx<'_>) {
        self.bytes = self.since_vote.take().unwrap_or(0);
        self.round = Round::default();
        cx.disarm(REPEAT);
        cx.trace(|| Trace::Stability { view });
        cx.raise(Dir::Down, Event::Stable(stable));
        // The timer fires after the windows were purged.
        if self.is_due() {
            cx.arm(VOLUME, cx.now);
        } else if self.pressed {
            cx.arm(VOLUME, cx.now + PRESSED_PAUSE);
        }
    }

    /// The own window is full, or has room again.
    fn press(&mut self, full: bool, cx: &mut Cx<'_>) {
        self.pressed = full;
        if full {
            cx.arm(VOLUME, cx.now);
        }
    }

    /// A report or a result arrived from another member.
    fn receive(&mut self, from: Uuid, header: &StableHeader, m: &Message, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone().filter(|_| !self.is_suspended(cx.now)) else {
            return cx.drop_from_peer(DropReason::Stale, Some(from));
        };
        if header.view.as_ref().and_then(ViewId::from_wire) != Some(view.id) {
            self.counters.view_mismatch += 1;
            let theirs = header.view.as_ref().and_then(ViewId::from_wire);
            if theirs.is_some_and(|theirs| theirs.id > view.id.id) {
                cx.raise(Dir::Up, Event::NewerView(from));
            }
            return cx.drop_from_peer(DropReason::Stale, Some(from));
        }
        let Some(digest) = digest_of(m).filter(|d| d.covers(&view)) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(from));
        };
        let coordinator = view.coordinator();
        match header.kind {
            StableKind::Gossip if coordinator == cx.local() && view.contains(from) => {
                self.counters.reports_received += 1;
                if self.round.voted.contains(&from) {
                    return self.help(&view, from, cx);
                }
                self.vote(&view, from, &digest, cx);
            }
            StableKind::Stability if from == coordinator => {
                self.counters.stability_received += 1;
                self.agreed(view.id, digest, cx);
            }
            StableKind::Gossip | StableKind::Stability => {
                cx.drop_from_peer(DropReason::Stale, Some(from));
            }
        }
    }

    fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        if self.view.is_none() {
            self.gossip_later(cx);
        }
        self.view = Some(Arc::clone(view));
        self.round = Round::default();
        self.held_back.clear();
        self.since_vote = None;
        self.last = None;
        self.resent_at.clear();
    }

    /// A report by volume had no effect within its time.
    fn repeat(&mut self, cx: &mut Cx<'_>) {
        self.pause = if self.pressed { REPEAT_AFTER } else { (self.pause * 2).min(LONGEST_PAUSE) };
        cx.arm(REPEAT, cx.now + self.pause);
        self.report(cx);
    }
}

/// Who keeps this member's multicasts from becoming stable, as far as it can know.
pub(crate) fn who_holds_back(cx: &Cx<'_>) -> Vec<Uuid> {
    let Some(Answer::Stability(gauge)) = cx.ask_below(&Query::Stability) else {
        return Vec::new();
    };
    let local = cx.local();
    let mut by = gauge.waiting_for;
    by.extend(gauge.held_back.iter().filter(|h| h.sender == local).map(|h| h.by));
    if by.is_empty() {
        // Only the coordinator knows; without a word from it, it is the one that is waited for.
        by.extend(cx.group().members().first());
    }
    by.sort_unstable();
    by.dedup();
    by.retain(|m| *m != local);
    by
}

/// STABILITY.
fn result(view: &View, stable: &Digest) -> wire::Message {
    let flags = Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_RELAY | Flags::NO_FC;
    message(view, StableKind::Stability, stable).with_flags(flags)
}

fn message(view: &View, kind: StableKind, digest: &Digest) -> wire::Message {
    let object = Object::Digest { mutable: true, digest: digest.to_wire() };
    let header = StableHeader { kind, view: Some(view.id.to_wire()) };
    wire::Message::multicast(Body::object(object))
        .with_header(ProtId::STABLE, Header::Stable(header))
}

fn digest_of(m: &Message) -> Option<Digest> {
    match &m.body {
        Body::Object(Some(o)) => match &**o {
            Object::Digest { digest, .. } => Digest::from_wire(digest),
            _ => None,
        },
        _ => None,
    }
}

impl Protocol for Stable {
    fn spec(&self) -> Spec {
        Spec {
            name: "STABLE",
            id: Some(ProtId::STABLE),
            interests: Interests {
                down: Traffic::Multicast,
                up: Traffic::Multicast,
                events: true,
                ..Interests::default()
            },
            provides: &[Service::Stability],
            needs_below: &[Service::ReliableMulticast],
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
        // Other own multicasts are counted when their copies come back (JGRP-2605).
        let counts = msg.hints.contains(Hints::DONT_LOOPBACK) && !msg.has(Flags::NO_RELIABILITY);
        if counts && self.count(memory_cost(msg)) {
            // Not here: the message has no number yet and would not be in the report.
            cx.arm(VOLUME, cx.now);
        }
        Flow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let from = batch.src;
        let mut bytes = 0;
        batch.retain(|m| {
            if let Some(Header::Stable(h)) = m.headers.get(ProtId::STABLE) {
                self.receive(from, h, m, cx);
                return false;
            }
            if m.is_multicast() && !m.has(Flags::NO_RELIABILITY) {
                bytes += memory_cost(m);
            }
            true
        });
        if bytes > 0 && self.count(bytes) {
            self.report_volume(cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::View(v)) => self.install(v, cx),
            (Dir::Down, Event::SuspendStable(time)) => {
                let until = cx.now + *time + *time / 10;
                self.reporting = Reporting::Suspended { until };
            }
            (Dir::Down, Event::ResumeStable) => self.resume(),
            (Dir::Up, Event::OwnWindow { full }) => self.press(*full, cx),
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            VOLUME if self.pressed || self.is_due() => self.report_volume(cx),
            VOLUME => {}
            REPEAT => self.repeat(cx),
            _ => {
                self.report(cx);
                self.gossip_later(cx);
            }
        }
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        match q {
            Query::Stability => {
                let voted = |m: &Uuid| self.round.voted.contains(m);
                let running = !self.round.voted.is_empty();
                let members = group.members().iter().copied();
                Some(Answer::Stability(StabilityGauge {
                    waiting_for: members.filter(|m| running && !voted(m)).collect(),
                    held_back: self.held_back.clone(),
                    bytes: self.bytes,
                }))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("stable_sent", c.reports_sent);
        out("stable_received", c.reports_received);
        out("stability_sent", c.stability_sent);
        out("stability_received", c.stability_received);
        out("stable_discarded_view_mismatch", c.view_mismatch);
        out("stable_skipped_incomplete", c.incomplete);
        out("bytes", self.bytes);
        out("num_votes", self.round.voted.len() as u64);
        out("senders_held_back", self.held_back.len() as u64);
    }
}

#[cfg(test)]
mod pressure_tests;
#[cfg(test)]
mod tests;
