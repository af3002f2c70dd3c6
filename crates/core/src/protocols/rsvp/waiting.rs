//! The sender's half: who is waited for, and how the wait ends.

use super::{ID_MASK, MAX_OUTSTANDING, REMIND, Rsvp, level_of, with_level};
use crate::app::{SyncEnd, SyncOutcome, SyncRequest};
use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{Address, Flags, Header, Hints, ProtId};
use crate::{
    Answer, AppEvent, Cx, Dir, Event, Flow, Message, OpId, Query, SendRefusal, SendToken,
    SyncLevel, Time, TimerKey, Trace, Uuid, View, tag,
};
use alloc::vec::Vec;

/// A synchronous send that is not over.
#[derive(Debug)]
pub(super) struct Sync {
    /// Who waits; `None`: nobody, only the id is in use (RSVP_NB).
    token: Option<SendToken>,
    pub(super) op: Option<OpId>,
    /// The id with the level, as it travels.
    wire_id: i16,
    level: SyncLevel,
    pub(super) until: Option<Time>,
    /// When those that are missing are sent the message again.
    repeat_at: Time,
    pub(super) awaited: Vec<Uuid>,
    /// Of those, who said that the message is there and waits for the application.
    have_it: Vec<Uuid>,
    acknowledged: Vec<Uuid>,
    by_stability: Vec<Uuid>,
    failed: Vec<Uuid>,
    left: Vec<Uuid>,
    /// Copies that flow control has not admitted yet.
    pub(super) unadmitted: u32,
    /// At least one was admitted: from then on it is being sent, whatever the caller does.
    pub(super) admitted: bool,
    /// This member is named in `to`: its own consumption is awaited, not only its copy.
    names_self: bool,
}

/// What became of synchronous sends.
#[derive(Debug, Default)]
pub(super) struct Counters {
    begun: u64,
    complete: u64,
    timed_out: u64,
    closed: u64,
    abandoned: u64,
    repeats: u64,
    acks_received: u64,
    /// Of these, copies, late ones, and those for no message of ours.
    acks_ignored: u64,
    failures_told: u64,
}

impl Counters {
    fn end(&mut self, end: SyncEnd) {
        match end {
            SyncEnd::Complete => self.complete += 1,
            SyncEnd::TimedOut => self.timed_out += 1,
            SyncEnd::Closed => self.closed += 1,
            SyncEnd::Abandoned => self.abandoned += 1,
        }
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("syncs", self.begun);
        out("syncs_complete", self.complete);
        out("syncs_timed_out", self.timed_out);
        out("syncs_closed", self.closed);
        out("syncs_abandoned", self.abandoned);
        out("sync_repeats", self.repeats);
        out("acks_received", self.acks_received);
        out("acks_ignored", self.acks_ignored);
        out("failures_told", self.failures_told);
    }
}

impl Sync {
    /// Flow control let it pass: who is missing at `repeat_at` is sent it again.
    pub(super) fn admitted(&mut self, repeat_at: Time) {
        if !self.admitted {
            (self.admitted, self.repeat_at) = (true, repeat_at);
        }
    }
}

impl Rsvp {
    /// What a message without a request of its own asks for by its flags.
    pub(super) fn flagged(&self, msg: &Message, now: Time) -> Option<SyncRequest> {
        let level = self.default_level();
        let until = Some(now + self.config.timeout);
        msg.has(Flags::RSVP | Flags::RSVP_NB).then_some(SyncRequest { level, until, to: None })
    }

    pub(super) fn default_level(&self) -> SyncLevel {
        if self.config.ack_on_delivery { SyncLevel::OnDeliver } else { SyncLevel::OnContiguous }
    }

    pub(super) fn begin(
        &mut self,
        msg: &mut Message,
        request: SyncRequest,
        cx: &mut Cx<'_>,
    ) -> Flow {
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
        if subset.is_some() && msg.hints.contains(Hints::DONT_BLOCK) {
            let by = without_room(&awaited, msg, cx);
            if !by.is_empty() {
                cx.discard(msg, SendRefusal::WouldBlock { by });
                return Flow::Stop;
            }
            // A copy that was refused after others left would never be acknowledged.
            msg.hints -= Hints::DONT_BLOCK;
        }
        let Some(id) = self.free_id() else {
            cx.discard(msg, SendRefusal::WouldBlock { by: self.missing_longest() });
            return Flow::Stop;
        };
        let background = msg.has(Flags::RSVP_NB);
        let token = if background { None } else { msg.token.take() };
        let op = token.as_ref().and_then(SendToken::op);
        self.counters.begun += 1;
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
                repeat_at: cx.now + self.config.resend_interval,
                names_self: subset.is_some() || dest == Some(local),
                awaited: awaited.clone(),
                have_it: Vec::new(),
                acknowledged: Vec::new(),
                by_stability: Vec::new(),
                failed: Vec::new(),
                left: Vec::new(),
                unadmitted: if background { 0 } else { copies },
                admitted: background,
            },
        );
        if let Some(at) = request.until {
            cx.arm(TimerKey(u64::from(id)), at);
        }
        self.warn_of_others(id, cx);
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

    pub(super) fn missing_longest(&self) -> Vec<Uuid> {
        let oldest = self.syncs.values().min_by_key(|s| s.until);
        oldest.map(|s| s.awaited.clone()).unwrap_or_default()
    }

    /// `by` answers. Its answer names the id with the level that was asked for, or without one if
    /// its application could not handle the message; with the level "received" where more was asked
    /// for it is no answer yet.
    pub(super) fn acknowledged(&mut self, by: Uuid, wire_id: i16, cx: &mut Cx<'_>) {
        let failed = level_of(wire_id).is_none();
        if !tag::is_rgroups(by) {
            self.answerers.insert(by);
        }
        let id = wire_id as u16 & ID_MASK;
        let received = level_of(wire_id) == Some(SyncLevel::OnReceive) && tag::is_rgroups(by);
        if let Some(sync) = self.syncs.get_mut(&id).filter(|s| received && s.wire_id != wire_id)
            && !sync.have_it.contains(&by)
        {
            return sync.have_it.push(by);
        }
        let ours = |s: &&mut Sync| match failed {
            true => s.level == SyncLevel::OnDeliver && tag::is_rgroups(by),
            false => s.wire_id == wire_id,
        };
        self.counters.acks_received += 1;
        let awaited = self.syncs.get_mut(&id).filter(ours).and_then(|sync| {
            let at = sync.awaited.iter().position(|m| *m == by)?;
            Some((sync, at))
        });
        let Some((sync, at)) = awaited else {
            self.counters.acks_ignored += 1;
            return;
        };
        sync.awaited.remove(at);
        self.counters.failures_told += u64::from(failed);
        let list = if failed { &mut sync.failed } else { &mut sync.acknowledged };
        list.push(by);
        cx.trace(|| Trace::RsvpAcked { by, id: wire_id });
        self.finish_if_complete(id, cx);
    }

    /// The reliable layer knows that the message of this id, and all before it, arrived: at `by`, or
    /// everywhere. That stands in for members of other toolkits, which may have no RSVP.
    pub(super) fn covered(&mut self, wire_id: i16, by: Option<Uuid>, cx: &mut Cx<'_>) {
        let id = wire_id as u16 & ID_MASK;
        let Some(sync) = self.syncs.get_mut(&id).filter(|s| s.wire_id == wire_id) else { return };
        if sync.level == SyncLevel::OnDeliver {
            return;
        }
        let stands_in = |m: &Uuid| !tag::is_rgroups(*m) && by.is_none_or(|by| by == *m);
        let covered: Vec<Uuid> = sync.awaited.iter().copied().filter(stands_in).collect();
        sync.awaited.retain(|m| !covered.contains(m));
        sync.acknowledged.extend(&covered);
        sync.by_stability.extend(&covered);
        self.finish_if_complete(id, cx);
    }

    /// Once, before the first wait for a member that may not answer at all.
    fn warn_of_others(&mut self, id: u16, cx: &mut Cx<'_>) {
        let Some(sync) = self.syncs.get(&id).filter(|_| !self.warned) else { return };
        let silent = |m: &&Uuid| !tag::is_rgroups(**m) && !self.answerers.contains(*m);
        if let Some(member) = sync.awaited.iter().find(silent).copied() {
            self.warned = true;
            cx.tell(AppEvent::MayHaveNoRsvp { member });
        }
    }

    /// What ours at this id waits for in this member itself.
    pub(super) fn level_of_own(&self, wire_id: i16) -> SyncLevel {
        match self.syncs.get(&(wire_id as u16 & ID_MASK)) {
            Some(s) if s.names_self => s.level,
            // The copy is in the own event queue.
            Some(_) | None => SyncLevel::OnReceive,
        }
    }

    /// Messages that were not acknowledged for a while go out again to those that are missing and
    /// have not said that they have them.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        let interval = self.config.resend_interval;
        // Those that are due soon are repeated as well: a few firings in each interval for all.
        let due = cx.now + interval / 8;
        let mut missing = Vec::new();
        let mut again = Vec::new();
        for sync in self.syncs.values_mut().filter(|s| s.repeat_at <= due) {
            sync.repeat_at = cx.now + interval;
            let lacks = |m: &&Uuid| !sync.have_it.contains(m);
            let to: Vec<Uuid> = sync.awaited.iter().filter(lacks).copied().collect();
            if sync.admitted && !to.is_empty() {
                missing.extend(&to);
                again.push((sync.wire_id, to));
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            cx.raise(Dir::Down, Event::Unacknowledged(missing));
        }
        for (id, to) in again {
            self.counters.repeats += to.len() as u64;
            cx.raise(Dir::Down, Event::RepeatSync { id, to });
        }
        if let Some(next) = self.syncs.values().map(|s| s.repeat_at).min() {
            cx.arm(REMIND, next);
        }
    }

    pub(super) fn finish_if_complete(&mut self, id: u16, cx: &mut Cx<'_>) {
        let complete = |s: &Sync| s.awaited.is_empty() && s.unadmitted == 0;
        if self.syncs.get(&id).is_some_and(complete) {
            self.finish(id, SyncEnd::Complete, cx);
        }
    }

    pub(super) fn finish(&mut self, id: u16, end: SyncEnd, cx: &mut Cx<'_>) {
        let Some(sync) = self.remove(id, cx) else { return };
        self.counters.end(end);
        if let Some(token) = sync.token {
            let outcome = SyncOutcome {
                acknowledged: sync.acknowledged,
                left: sync.left,
                failed: sync.failed,
                by_stability: sync.by_stability,
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

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        let ids: Vec<u16> = self.syncs.keys().copied().collect();
        for id in ids {
            self.finish(id, SyncEnd::Closed, cx);
        }
    }

    /// Members that left are no longer awaited, even if a merge has brought them back: they will not
    /// get what was sent before it. Joiners never were.
    pub(super) fn install(&mut self, view: &View, cx: &mut Cx<'_>) {
        let local = cx.local();
        let stays = |m: &Uuid| view.contains(*m) && !view.reunites(local, *m);
        let ids: Vec<u16> = self.syncs.keys().copied().collect();
        for id in ids {
            let Some(sync) = self.syncs.get_mut(&id) else { continue };
            let left: Vec<Uuid> = sync.awaited.iter().copied().filter(|m| !stays(m)).collect();
            sync.awaited.retain(stays);
            sync.left.extend(left);
            self.finish_if_complete(id, cx);
        }
    }

    /// The caller gave up. A message that is not admitted anywhere is taken back below; else only
    /// the wait ends. True: the layers below have nothing to do.
    pub(super) fn withdraw(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) -> bool {
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
    pub(super) fn refused(
        &mut self,
        id: u16,
        copy_for: Option<Uuid>,
        why: SendRefusal,
        cx: &mut Cx<'_>,
    ) {
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
}

/// Who of these cannot be sent a copy of `msg` at once. Of a large message only the first fragment
/// must fit for it to leave.
fn without_room(to: &[Uuid], msg: &Message, cx: &Cx<'_>) -> Vec<Uuid> {
    let bytes = match cx.ask_below(&Query::FragmentSize) {
        Some(Answer::Bytes(size)) => msg.length().min(size as usize),
        _ => msg.length(),
    };
    let oob = msg.has(Flags::OOB);
    let is_full = |m: &Uuid| match cx.ask_below(&Query::Room { dest: Some(*m), oob, bytes }) {
        Some(Answer::Room(room)) => !room.immediate,
        _ => false,
    };
    to.iter().copied().filter(is_full).collect()
}
