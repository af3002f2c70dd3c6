//! STABLE: agrees on what everybody has delivered, so that it can be purged.
//!
//! Every member reports its digest to the coordinator, now and then and whenever `max_bytes` of
//! multicasts came in. When all members of the view have reported, the coordinator tells everybody the
//! least delivered and the highest received numbers, the *stability vector*, and everybody purges.
//! Reports and results of another view are ignored on both sides, and a view begins a new round.
//!
//! Where all members of the view understand it, a report is numbers alone, as what changed since a
//! vector that it names ([`vectors`]), and the vector goes to each member by itself, as what changed
//! since the one that the member's report named; else both travel as JGroups writes them ([`form`]).
//!
//! Nothing here is reliable: a report by volume is repeated until something became stable, at once
//! and every second while the own window is full. Whoever repeats a report, names a vector that is
//! not kept any more, or asks for messages that are stable, is sent the last vector again.

mod ages;
mod collecting;
mod form;
mod round;
mod vectors;

use super::reliable::{LEAST_COST, memory_cost, multicast_number};
use crate::attributes::ByteSize;
use crate::batch::Marks;
use crate::event::{HeldBack, StabilityGauge};
use crate::wire::header::{StableHeader, StableKind};
use crate::wire::{Flags, Header, Hints, ProtId};
use crate::{
    Answer, Batch, Cx, Dir, DropReason, Duration, Event, Flow, Group, Interests, Message, Protocol,
    Query, ReferenceDigest, Row, RowFlow, Service, Spec, Time, TimerKey, Trace, Traffic, Uuid,
    View, ViewId, tag,
};
use ages::Ages;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use form::{Form, Said};
use round::Round;
use vectors::{Unreadable, Vectors};

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
    form: Form,
    reporting: Reporting,
    /// Multicast payload since the last stability or report by volume.
    bytes: u64,
    /// The same, since the first report that the next stability can rest on.
    since_vote: Option<u64>,
    /// The pause before the report by volume is repeated once more.
    pause: Duration,
    /// The own window is full: nothing can be sent until something is stable.
    pressed: bool,
    /// At the coordinator: the running round.
    round: Option<Round>,
    held_back: Vec<HeldBack>,
    vectors: Vectors,
    ages: Ages,
    /// When members were sent the last vector again.
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

#[derive(Debug, Default)]
struct Counters {
    reports_sent: u64,
    reports_received: u64,
    stability_sent: u64,
    stability_received: u64,
    /// Of the reports sent: as JGroups writes them, whole, and as what changed.
    named_reports: u64,
    whole_reports: u64,
    delta_reports: u64,
    /// Bytes of the digests in reports and results that were sent.
    digest_bytes: u64,
    view_mismatch: u64,
    unknown_base: u64,
    unknown_payload: u64,
    malformed: u64,
    told_again: u64,
    asked_for_stable: u64,
    incomplete: u64,
}

impl Stable {
    /// The layer with this configuration.
    #[must_use]
    pub fn new(config: StableConfig) -> Self {
        Self {
            config,
            view: None,
            form: Form::default(),
            reporting: Reporting::Active,
            bytes: 0,
            since_vote: None,
            pause: REPEAT_AFTER,
            pressed: false,
            round: None,
            held_back: Vec::new(),
            vectors: Vectors::default(),
            ages: Ages::default(),
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
        self.begin_round();
    }

    /// Forgets all votes.
    fn begin_round(&mut self) {
        if let (Some(round), Some(view)) = (&mut self.round, &self.view) {
            *round = Round::new(view.members.len());
        }
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

    /// Multicasts with these numbers, lowest and highest, came in.
    fn seen(&mut self, from: Uuid, numbers: Option<(i64, i64)>, bytes: u64, cx: &mut Cx<'_>) {
        if let Some((lowest, highest)) = numbers {
            self.ages.seen(from, lowest, highest, cx.now);
        }
        if bytes > 0 && self.count(bytes) {
            self.report_volume(cx);
        }
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
        self.ages.reported();
        if view.coordinator() == cx.local() {
            return self.vote(&view, cx.local(), self.vectors.number(), &digest, cx);
        }
        let coordinator = view.coordinator();
        let m = match self.form {
            Form::Named => {
                let Some(full) = digest.resolve(&view) else { return };
                self.counters.named_reports += 1;
                let mut m = form::named(StableKind::Gossip, &view, &full);
                m.dest = Some(coordinator.into());
                m
            }
            Form::Reference => {
                let changes = self.vectors.changes(self.vectors.number(), &digest);
                match changes.base() {
                    0 => self.counters.whole_reports += 1,
                    _ => self.counters.delta_reports += 1,
                }
                form::by_reference(coordinator, StableKind::Gossip, &view, form::report(changes))
            }
        };
        self.counters.digest_bytes += m.length() as u64;
        cx.send_down(m);
    }

    /// The marks of the members of `view`; `None` if one is missing.
    fn own_digest(view: &View, cx: &Cx<'_>) -> Option<ReferenceDigest> {
        let Some(Answer::Digest(all)) = cx.ask_below(&Query::Digest) else { return None };
        ReferenceDigest::of(view, &all)
    }

    /// All members of the view have delivered this. What came after the own vote is not in it.
    fn agreed(&mut self, view: &View, stable: &ReferenceDigest, cx: &mut Cx<'_>) {
        let Some(full) = stable.resolve(view) else { return };
        self.bytes = self.since_vote.take().unwrap_or(0);
        self.ages.stable(view, stable);
        cx.disarm(REPEAT);
        cx.trace(|| Trace::Stability { view: view.id });
        if full.iter().any(|(m, _)| !tag::flushes(m)) {
            cx.raise(Dir::Up, Event::StableEverywhere(full.clone()));
        }
        cx.raise(Dir::Down, Event::Stable(full));
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
        let coordinator = view.coordinator();
        let (collects, is_member) = (coordinator == cx.local(), view.contains(from));
        match form::read(header.kind, m, &view) {
            Some(Said::NamedReport(digest)) if collects && is_member => {
                self.take_report(&view, from, 0, &digest, cx);
            }
            Some(Said::Report(changes)) if collects && is_member => {
                match self.vectors.read(&changes, &view) {
                    Ok(digest) => self.take_report(&view, from, changes.base(), &digest, cx),
                    Err(Unreadable::UnknownBase) => {
                        self.counters.unknown_base += 1;
                        self.tell_again(&view, from, 0, cx);
                    }
                    Err(Unreadable::Nonsense) => self.malformed(from, cx),
                }
            }
            Some(Said::NamedResult(digest)) if from == coordinator => {
                self.counters.stability_received += 1;
                self.agreed(&view, &digest, cx);
            }
            // Whoever has a vector may tell it; what it says was true when it was made, and stays so.
            Some(Said::Vector(number, changes)) if is_member && !collects => {
                if number <= self.vectors.number() {
                    return cx.drop_from_peer(DropReason::Duplicate, Some(from));
                }
                match self.vectors.read(&changes, &view) {
                    Ok(digest) => {
                        self.counters.stability_received += 1;
                        self.agreed(&view, &digest, cx);
                        self.vectors.add(number, digest, false);
                    }
                    // Our next report names what we have.
                    Err(Unreadable::UnknownBase) => self.counters.unknown_base += 1,
                    Err(Unreadable::Nonsense) => self.malformed(from, cx),
                }
            }
            Some(Said::Unknown) => {
                self.counters.unknown_payload += 1;
                cx.drop_from_peer(DropReason::Malformed, Some(from));
            }
            None => self.malformed(from, cx),
            Some(
                Said::NamedReport(_) | Said::NamedResult(_) | Said::Report(_) | Said::Vector(..),
            ) => cx.drop_from_peer(DropReason::Stale, Some(from)),
        }
    }

    fn malformed(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        self.counters.malformed += 1;
        cx.drop_from_peer(DropReason::Malformed, Some(from));
    }

    fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        if self.view.is_none() {
            self.gossip_later(cx);
        }
        self.view = Some(Arc::clone(view));
        self.form = Form::of(view);
        let collects = view.coordinator() == cx.local();
        self.round = collects.then(|| Round::new(view.members.len()));
        self.held_back.clear();
        self.since_vote = None;
        self.vectors = Vectors::default();
        self.ages.keep(view);
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
        let mut numbers: Option<(i64, i64)> = None;
        if batch.marks().meets(Marks::of(ProtId::STABLE)) {
            batch.retain(|m| {
                let Some(Header::Stable(h)) = m.headers.get(ProtId::STABLE) else { return true };
                self.receive(from, h, m, cx);
                false
            });
        }
        for m in batch.messages() {
            if m.is_multicast() && !m.has(Flags::NO_RELIABILITY) {
                bytes += memory_cost(m);
                if let Some(n) = multicast_number(m) {
                    let (lowest, highest) = numbers.unwrap_or((n, n));
                    numbers = Some((lowest.min(n), highest.max(n)));
                }
            }
        }
        self.seen(from, numbers, bytes, cx);
    }

    fn row_down(&mut self, _row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        // They are counted when their copies come back.
        RowFlow::Pass
    }

    fn row_up(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        let numbers = row.span().map(|(_, first, last)| (first, last));
        self.seen(row.src, numbers, row.cost(LEAST_COST), cx);
        RowFlow::Pass
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
            (Dir::Up, Event::AskedForStable(from)) => self.answer_late_request(*from, cx),
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
                let running = self.round.as_ref().filter(|r| r.voted() > 0);
                let missing = |r: &Round| {
                    let members = group.members().iter().enumerate();
                    members.filter(|(i, _)| !r.has_voted(*i)).map(|(_, m)| *m).collect()
                };
                Some(Answer::Stability(StabilityGauge {
                    waiting_for: running.map(missing).unwrap_or_default(),
                    held_back: self.held_back.clone(),
                    bytes: self.bytes,
                    oldest: self.ages.oldest(),
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
        out("named_reports_sent", c.named_reports);
        out("whole_reports_sent", c.whole_reports);
        out("delta_reports_sent", c.delta_reports);
        out("stability_told_again", c.told_again);
        out("digest_bytes_sent", c.digest_bytes);
        out("asked_for_stable", c.asked_for_stable);
        out("stable_discarded_view_mismatch", c.view_mismatch);
        out("stable_discarded_unknown_base", c.unknown_base);
        out("stable_discarded_unknown_payload", c.unknown_payload);
        out("stable_discarded_malformed", c.malformed);
        out("stable_skipped_incomplete", c.incomplete);
        out("bytes", self.bytes);
        out("num_votes", self.round.as_ref().map_or(0, |r| r.voted() as u64));
        // The tally of the running round; a vector refers to the view and names nobody.
        out("retained_digests", u64::from(self.round.is_some()));
        out("retained_vectors", self.vectors.count());
        out("senders_held_back", self.held_back.len() as u64);
    }
}

#[cfg(test)]
mod pressure_tests;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
