//! RSVP: synchronous sends (WIRE §20, DECISIONS 5).
//!
//! A synchronous message carries a number; every receiver answers it at the level that the sender
//! asked for, which travels in the two top bits of the number and means something only between
//! members of this toolkit. The wait ends when nobody is missing, at the timeout, at the close of
//! the channel, or when the caller gives it up; the outcome names everybody. Reminders are the
//! business of the reliable layers: REQ_ONLY is never sent.

use crate::app::{SyncEnd, SyncOutcome, SyncRequest};
use crate::batch::Marks;
use crate::event::Room;
use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{self, Address, Body, Flags, Header, Hints, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, OpId, Pool, Protocol,
    Query, RsvpTag, SendRefusal, SendToken, Service, Spec, SyncLevel, Time, TimerKey, Trace,
    Traffic, Uuid, View, tag,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

crate::attributes! {
    /// Synchronous sends (`RSVP`).
    pub struct RsvpConfig for "RSVP" {
        /// How long a message that is flagged RSVP waits for acknowledgements when the call names no
        /// timeout of its own. Milliseconds, default 10 s.
        timeout: Duration = Duration::from_secs(10),
        /// How often the reliable layers are told who has not acknowledged yet. Milliseconds,
        /// default 2 s.
        resend_interval: Duration = Duration::from_secs(2),
        /// Whether a message of a sender that names no level is acknowledged when the application
        /// has consumed it, else when it arrives here in order. Default true.
        ack_on_delivery: bool = true,
    }
}

/// Ids have 14 bits; with half of them in use further sends wait, so that a late acknowledgement
/// meets a free id and not somebody else's.
const ID_MASK: u16 = 0x3fff;
const MAX_OUTSTANDING: usize = 0x2000;

const REMIND: TimerKey = TimerKey(u64::MAX);

/// Synchronous sends.
#[derive(Debug)]
pub struct Rsvp {
    config: RsvpConfig,
    next_id: u16,
    syncs: BTreeMap<u16, Sync>,
    /// Messages that flow control has not admitted yet: whose, and the copy for whom.
    unadmitted: BTreeMap<u64, (u16, Option<Uuid>)>,
    next_key: u64,
    acks_sent: u64,
}

/// A synchronous send that is not over.
#[derive(Debug)]
struct Sync {
    /// Who waits; `None`: nobody, only the id is in use (RSVP_NB).
    token: Option<SendToken>,
    op: Option<OpId>,
    /// The id with the level, as it travels.
    wire_id: i16,
    level: SyncLevel,
    until: Option<Time>,
    awaited: Vec<Uuid>,
    acknowledged: Vec<Uuid>,
    left: Vec<Uuid>,
    /// Copies that flow control has not admitted yet.
    unadmitted: u32,
    /// At least one was admitted: from then on it is being sent, whatever the caller does.
    admitted: bool,
    /// This member is named in `to`: its own consumption is awaited, not only its copy.
    names_self: bool,
}

impl Rsvp {
    /// With this configuration.
    #[must_use]
    pub fn new(config: RsvpConfig) -> Self {
        Self {
            config,
            next_id: 0,
            syncs: BTreeMap::new(),
            unadmitted: BTreeMap::new(),
            next_key: 0,
            acks_sent: 0,
        }
    }

    /// What a message without a request of its own asks for by its flags.
    fn flagged(&self, msg: &Message, now: Time) -> Option<SyncRequest> {
        let level = self.default_level();
        let until = Some(now + self.config.timeout);
        msg.has(Flags::RSVP | Flags::RSVP_NB).then_some(SyncRequest { level, until, to: None })
    }

    fn default_level(&self) -> SyncLevel {
        if self.config.ack_on_delivery { SyncLevel::OnDeliver } else { SyncLevel::OnContiguous }
    }

    fn begin(&mut self, msg: &mut Message, request: SyncRequest, cx: &mut Cx<'_>) -> Flow {
        let local = cx.local();
        let dest = msg.dest.as_ref().and_then(Address::uuid);
        let loops = !msg.hints.contains(Hints::DONT_LOOPBACK);
        let subset = request.to.filter(|_| msg.is_multicast());
        let mut awaited: Vec<Uuid> = match (&subset, dest) {
            (Some(to), _) => to.iter().copied().filter(|m| cx.is_member(*m)).collect(),
            (None, Some(d)) => [d].into(),
            (None, None) => {
                cx.group().members().iter().copied().filter(|m| loops || *m != local).collect()
            }
        };
        awaited.sort_unstable();
        awaited.dedup();
        let Some(id) = self.free_id() else {
            cx.discard(msg, SendRefusal::WouldBlock { by: self.missing_longest() });
            return Flow::Stop;
        };
        let background = msg.has(Flags::RSVP_NB);
        let token = if background { None } else { msg.token.take() };
        let op = token.as_ref().and_then(SendToken::op);
        let wire_id = with_level(id, request.level);
        let copies = if subset.is_some() { awaited.len() as u32 } else { 1 };
        self.syncs.insert(
            id,
            Sync {
                token,
                op,
                wire_id,
                level: request.level,
                until: request.until,
                names_self: subset.is_some() || dest == Some(local),
                awaited: awaited.clone(),
                acknowledged: Vec::new(),
                left: Vec::new(),
                unadmitted: if background { 0 } else { copies },
                admitted: background,
            },
        );
        if let Some(at) = request.until {
            cx.arm(TimerKey(u64::from(id)), at);
        }
        if cx.armed(REMIND).is_none() {
            cx.arm(REMIND, cx.now + self.config.resend_interval);
        }
        if !background {
            msg.flags |= Flags::RSVP;
        }
        let header = RsvpHeader { kind: RsvpKind::Request, id: wire_id };
        msg.headers.put(ProtId::RSVP, Header::Rsvp(header));
        if subset.is_none() {
            if !background {
                msg.token = Some(self.ride(id, None, op, cx));
            }
            return Flow::Pass;
        }
        let whole = core::mem::take(msg);
        for m in awaited {
            let mut copy = whole.clone();
            copy.dest = Some(m.into());
            copy.token = Some(self.ride(id, Some(m), op, cx));
            cx.send_down(copy);
        }
        self.finish_if_complete(id, cx);
        Flow::Stop
    }

    fn ride(
        &mut self,
        id: u16,
        copy_for: Option<Uuid>,
        op: Option<OpId>,
        cx: &mut Cx<'_>,
    ) -> SendToken {
        let key = self.next_key;
        self.next_key += 1;
        self.unadmitted.insert(key, (id, copy_for));
        cx.own_token_for(key, op)
    }

    fn free_id(&mut self) -> Option<u16> {
        if self.syncs.len() >= MAX_OUTSTANDING {
            return None;
        }
        while self.syncs.contains_key(&self.next_id) {
            self.next_id = (self.next_id + 1) & ID_MASK;
        }
        let id = self.next_id;
        self.next_id = (self.next_id + 1) & ID_MASK;
        Some(id)
    }

    fn missing_longest(&self) -> Vec<Uuid> {
        let oldest = self.syncs.values().min_by_key(|s| s.until);
        oldest.map(|s| s.awaited.clone()).unwrap_or_default()
    }

    fn acknowledged(&mut self, by: Uuid, wire_id: i16, cx: &mut Cx<'_>) {
        let id = wire_id as u16 & ID_MASK;
        let Some(sync) = self.syncs.get_mut(&id).filter(|s| s.wire_id == wire_id) else { return };
        let Some(at) = sync.awaited.iter().position(|m| *m == by) else { return };
        sync.awaited.remove(at);
        sync.acknowledged.push(by);
        cx.trace(|| Trace::RsvpAcked { by, id: wire_id });
        self.finish_if_complete(id, cx);
    }

    fn finish_if_complete(&mut self, id: u16, cx: &mut Cx<'_>) {
        let complete = |s: &Sync| s.awaited.is_empty() && s.unadmitted == 0;
        if self.syncs.get(&id).is_some_and(complete) {
            self.finish(id, SyncEnd::Complete, cx);
        }
    }

    fn finish(&mut self, id: u16, end: SyncEnd, cx: &mut Cx<'_>) {
        let Some(sync) = self.remove(id, cx) else { return };
        if let Some(token) = sync.token {
            let outcome = SyncOutcome {
                acknowledged: sync.acknowledged,
                left: sync.left,
                missing: sync.awaited,
                end,
            };
            cx.resolve_sync(token, outcome);
        }
    }

    fn remove(&mut self, id: u16, cx: &mut Cx<'_>) -> Option<Sync> {
        let was_full = self.syncs.len() >= MAX_OUTSTANDING;
        let sync = self.syncs.remove(&id)?;
        cx.disarm(TimerKey(u64::from(id)));
        if self.syncs.is_empty() {
            cx.disarm(REMIND);
        }
        if was_full {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
        Some(sync)
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        let ids: Vec<u16> = self.syncs.keys().copied().collect();
        for id in ids {
            self.finish(id, SyncEnd::Closed, cx);
        }
    }

    /// Members that left are no longer awaited. Joiners never were.
    fn install(&mut self, view: &View, cx: &mut Cx<'_>) {
        let ids: Vec<u16> = self.syncs.keys().copied().collect();
        for id in ids {
            let Some(sync) = self.syncs.get_mut(&id) else { continue };
            let left: Vec<Uuid> =
                sync.awaited.iter().copied().filter(|m| !view.contains(*m)).collect();
            sync.awaited.retain(|m| view.contains(*m));
            sync.left.extend(left);
            self.finish_if_complete(id, cx);
        }
    }

    /// The caller gave up. A message that is not admitted anywhere is taken back below; else only
    /// the wait ends. True: the layers below have nothing to do.
    fn withdraw(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) -> bool {
        let Some((id, sync)) = self.syncs.iter().find(|(_, s)| s.op == Some(op)) else {
            return false;
        };
        let (id, admitted) = (*id, sync.admitted);
        if admitted && !expired {
            self.finish(id, SyncEnd::Abandoned, cx);
        }
        admitted
    }

    /// The message of this layer's token `key` was not sent.
    fn refused(&mut self, id: u16, copy_for: Option<Uuid>, why: SendRefusal, cx: &mut Cx<'_>) {
        let Some(sync) = self.syncs.get_mut(&id) else { return };
        sync.unadmitted = sync.unadmitted.saturating_sub(1);
        if sync.unadmitted == 0 && !sync.admitted {
            let sync = self.remove(id, cx);
            if let Some(token) = sync.and_then(|s| s.token) {
                cx.resolve(token, Err(why));
            }
            return;
        }
        let left = copy_for.filter(|_| matches!(why, SendRefusal::NotMember(_)));
        if let Some(at) = left.and_then(|m| sync.awaited.iter().position(|x| *x == m)) {
            sync.left.push(sync.awaited.remove(at));
        }
        self.finish_if_complete(id, cx);
    }

    /// Answers the request in `m`, now or by its receipt when the application has consumed it.
    fn answer_request(&mut self, src: Uuid, wire_id: i16, m: &mut Message, cx: &mut Cx<'_>) {
        let level = if src == cx.local() {
            let sync = self.syncs.get(&(wire_id as u16 & ID_MASK));
            match sync {
                Some(s) if s.names_self => s.level,
                Some(_) | None => SyncLevel::OnContiguous,
            }
        } else if tag::is_rgroups(src) {
            level_of(wire_id).unwrap_or(self.default_level())
        } else {
            self.default_level()
        };
        match level {
            SyncLevel::OnReceive | SyncLevel::OnContiguous => self.acknowledge(src, wire_id, cx),
            SyncLevel::OnDeliver => m.receipt.rsvp = Some(RsvpTag { id: wire_id }),
        }
    }

    fn acknowledge(&mut self, to: Uuid, wire_id: i16, cx: &mut Cx<'_>) {
        if to == cx.local() {
            return self.acknowledged(to, wire_id, cx);
        }
        if !cx.is_member(to) {
            return;
        }
        self.acks_sent += 1;
        let flags = Flags::RSVP | Flags::DONT_BUNDLE | Flags::OOB | Flags::NO_FC;
        let header = RsvpHeader { kind: RsvpKind::Response, id: wire_id };
        let msg = wire::Message::unicast(to, Body::Empty)
            .with_flags(flags)
            .with_header(ProtId::RSVP, Header::Rsvp(header));
        cx.send_down(msg);
    }
}

impl Protocol for Rsvp {
    fn spec(&self) -> Spec {
        Spec {
            name: "RSVP",
            id: Some(ProtId::RSVP),
            interests: Interests {
                down: Traffic::Both,
                events: true,
                consumed: true,
                patient_timers: true,
                ..Interests::default()
            },
            provides: &[Service::SyncSends],
            needs_below: &[Service::ReliableMulticast, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let asked = msg.sync.take().map(|s| *s).or_else(|| self.flagged(msg, cx.now));
        match asked {
            Some(request) => self.begin(msg, request, cx),
            None => Flow::Pass,
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let Some((id, copy_for)) = self.unadmitted.remove(&key) else { return };
        if let Err(why) = how {
            return self.refused(id, copy_for, why, cx);
        }
        let Some(sync) = self.syncs.get_mut(&id) else { return };
        sync.admitted = true;
        sync.unadmitted = sync.unadmitted.saturating_sub(1);
        if sync.until.is_some_and(|at| at <= cx.now) {
            return self.finish(id, SyncEnd::TimedOut, cx);
        }
        self.finish_if_complete(id, cx);
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !batch.marks().meets(Marks::of(ProtId::RSVP)) {
            return;
        }
        let src = batch.src;
        batch.retain(|m| {
            let Some(Header::Rsvp(h)) = m.headers.get(ProtId::RSVP) else { return true };
            let h = *h;
            match h.kind {
                RsvpKind::Request => self.answer_request(src, h.id, m, cx),
                RsvpKind::Response => self.acknowledged(src, h.id, cx),
                RsvpKind::RequestOnly => {}
            }
            let keep = h.kind == RsvpKind::Request;
            if !keep && m.receipt.pool != Pool::Exempt {
                cx.settle(Consumed::one(src, m.receipt));
            }
            keep
        });
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::View(view)) => self.install(view, cx),
            (Dir::Down, Event::Disconnect) => self.close(cx),
            (Dir::Down, Event::Withdraw { op, expired }) if self.withdraw(*op, *expired, cx) => {
                return Flow::Stop;
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        if key == REMIND {
            let admitted = self.syncs.values().filter(|s| s.admitted);
            let mut missing: Vec<Uuid> = admitted.flat_map(|s| s.awaited.clone()).collect();
            missing.sort_unstable();
            missing.dedup();
            if !missing.is_empty() {
                cx.raise(Dir::Down, Event::Unacknowledged(missing));
            }
            cx.arm(REMIND, cx.now + self.config.resend_interval);
            return;
        }
        let id = key.0 as u16;
        // One that is not admitted is withdrawn by the entry layer, whose answer is "not sent".
        if self.syncs.get(&id).is_some_and(|s| s.admitted || s.op.is_none()) {
            self.finish(id, SyncEnd::TimedOut, cx);
        }
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if let Some(tag) = what.rsvp {
            self.acknowledge(what.from, tag.id, cx);
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Syncs => Some(Answer::Syncs(self.syncs.len() as u64)),
            // No id is free: everything waits, so that the order is kept.
            Query::Room { .. } if self.syncs.len() >= MAX_OUTSTANDING => {
                Some(Answer::Room(Room { limited_by: self.missing_longest(), ..Room::default() }))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("pending_rsvp_requests", self.syncs.len() as u64);
        out("acks_sent", self.acks_sent);
    }
}

/// The level in the two top bits of an id: 1 to 3; 0 leaves it to the receiver.
fn with_level(id: u16, level: SyncLevel) -> i16 {
    let bits = match level {
        SyncLevel::OnReceive => 1,
        SyncLevel::OnContiguous => 2,
        SyncLevel::OnDeliver => 3,
    };
    (bits << 14 | id) as i16
}

fn level_of(wire_id: i16) -> Option<SyncLevel> {
    match wire_id as u16 >> 14 {
        1 => Some(SyncLevel::OnReceive),
        2 => Some(SyncLevel::OnContiguous),
        3 => Some(SyncLevel::OnDeliver),
        _ => None,
    }
}

#[cfg(test)]
#[path = "rsvp_tests.rs"]
mod tests;
