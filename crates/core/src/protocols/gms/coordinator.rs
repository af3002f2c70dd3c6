//! The coordinator: turns requests into views, announces them, and waits for acknowledgements.
//!
//! Whoever is first among those that stay acts, so suspecting the members before oneself and
//! becoming coordinator is one step (BEHAVIOURS M16). The coordinator installs its view first, then
//! multicasts it, then answers the joiners: nobody can be in a view that its creator has not got.

use super::member::Windows;
use super::payload;
use super::requests::NextView;
use super::synchrony::{is_synchronous, unnumbered};
use super::{ACKS, BUNDLE, Gms, Role};
use crate::wire::header::GmsHeader;
use crate::wire::{Address, Flags, SeqnoPair};
use crate::{Answer, Cx, Digest, Dir, DropReason, Event, Query, Time, Uuid, View, ViewId, tag};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// The view is first sent again after this part of the time for acknowledgements: with 2 s after
/// 250 ms, again after 750 ms and 1750 ms. One lost acknowledgement must not hold up those who wait
/// for the next view longer than they are willing to (`leave_timeout`).
const FIRST_RESEND: u32 = 8;

/// Acknowledgements that are still awaited for a view.
#[derive(Debug)]
pub(super) struct AckRound {
    pub(super) view: ViewId,
    /// Who has not acknowledged the view, and how often it was sent to them.
    missing: BTreeMap<Uuid, u32>,
    /// How long after the last time the view is sent again to those.
    resend_after: Duration,
    give_up_at: Time,
}

impl AckRound {
    /// How many acknowledgements are missing.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }
}

impl Gms {
    /// Whether this member makes the next view.
    pub(super) fn acts(&self, local: Uuid) -> bool {
        let view = self.latest().filter(|_| self.in_group());
        view.and_then(|v| self.requests.first_staying(v, None)) == Some(local)
    }

    /// JOIN_REQ.
    pub(super) fn receive_join(&mut self, src: Uuid, h: &GmsHeader, cx: &mut Cx<'_>) {
        let joiner = h.member.as_ref().and_then(Address::uuid);
        if joiner != Some(src) {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
        if !self.acts(cx.local()) {
            // The joiner asks again, and discovery will have told it whom.
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        if self.latest().is_some_and(|v| v.contains(src)) && !self.requests.goes(src) {
            return self.welcome_again(src, cx);
        }
        if !self.requests.join(src, cx.now) {
            cx.drop_from_peer(DropReason::OverLimit, Some(src));
        }
    }

    /// The joiners of a view that waited are answered when it is installed, or the one that replaced
    /// it. An answer before that would let a joiner be where nobody else has been: the next view
    /// would find it alone with what it has received of somebody who is gone by then.
    pub(super) fn answer_joiners(&mut self, view: &View, cx: &mut Cx<'_>) {
        let unanswered = core::mem::take(&mut self.unanswered);
        for m in unanswered.into_iter().filter(|m| view.contains(*m)) {
            if let Some(start) = &self.start {
                self.welcomes.insert(m, start.clone());
            }
            self.welcome_again(m, cx);
        }
    }

    /// The joiner is in, but does not know it. What was multicast since it is in belongs to it too,
    /// so its windows begin where the view was announced; nothing behind that was purged, because the
    /// joiner has not reported it yet.
    fn welcome_again(&mut self, joiner: Uuid, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        if !view.contains(joiner) {
            self.unanswered.insert(joiner);
            return;
        }
        let mut digest = match &self.start {
            Some(start) => Some(start.clone()),
            None => self.digest_for(&view, &[], cx),
        };
        if let (Some(digest), Some(first)) = (&mut digest, self.welcomes.get(&joiner)) {
            for (m, pair) in first.iter().filter(|(m, _)| view.contains(*m)) {
                digest.set(m, pair);
            }
        }
        let answer = digest.and_then(|d| payload::join_response(joiner, &view, &d, Flags::OOB));
        if let Some(m) = answer {
            self.counters.join_digests += 1;
            cx.send_down(m);
        }
    }

    /// Makes and announces the next view, if there is something to do and nothing to wait for.
    pub(super) fn process_requests(&mut self, cx: &mut Cx<'_>) {
        if self.acks.is_some() || self.merging.is_some() || !self.acts(cx.local()) {
            return;
        }
        let Some(view) = self.latest().cloned() else { return };
        let Some(since) = self.requests.waiting_since(&view) else { return };
        let at = since + self.config.max_bundling_time;
        if cx.now < at {
            return cx.arm(BUNDLE, at);
        }
        self.requests.forget_stale_joiners(cx.now, self.config.join_timeout);
        let next = self.requests.next_view(&view);
        self.requests.forget_joiners();
        for m in &next.already_in {
            self.welcome_again(*m, cx);
        }
        if next.members[..] != view.members[..] {
            self.announce(&view, &next, cx);
        }
    }

    pub(super) fn announce(&mut self, base: &View, next: &NextView, cx: &mut Cx<'_>) {
        let local = cx.local();
        let number = base.id.id.max(self.highest_id) + 1;
        let view = Arc::new(View::new(number, next.members[0], &next.members[..]));
        // Nothing that a joiner's digest names may be purged before the joiner has it.
        cx.raise(Dir::Down, Event::SuspendStable(self.config.view_ack_collection_timeout * 2));
        // Before the view is multicast: it uses the coordinator's next number, and the joiner must
        // still receive it (WIRE 17.4).
        let together = is_synchronous(&view);
        let digest = match next.joiners.is_empty() || together {
            true => None,
            false => self.digest_for(&view, &next.joiners, cx),
        };
        for m in &next.leavers {
            cx.send_down(payload::leave_response(*m));
        }
        let waits = self.needs_repair(&view, cx);
        if !waits {
            cx.raise(Dir::Down, Event::PendingView(Arc::clone(&view)));
            self.adopt(Arc::clone(&view), Windows::Follow, local, None, cx);
        }
        if view.members.len() > 1 {
            let differs = self.config.use_delta_views && self.full_view_sent;
            let announcement = payload::view_multicast(&view, differs.then_some(base));
            cx.send_down(unnumbered(announcement, self.announces_unnumbered(&view)));
            self.full_view_sent = true;
        }
        for joiner in &next.joiners {
            // Where all install the view together, where it begins is known when they do.
            if let Some(digest) = &digest {
                self.welcomes.insert(*joiner, digest.clone());
            }
            if waits {
                self.unanswered.insert(*joiner);
                continue;
            }
            let answer = digest
                .as_ref()
                .and_then(|d| payload::join_response(*joiner, &view, d, Flags::empty()));
            // Without a digest of every member there is no answer, and the joiner asks again.
            if let Some(m) = answer {
                self.counters.join_digests += 1;
                cx.send_down(m);
            }
        }
        let others = view.members.iter().copied().filter(|m| *m != local).collect();
        self.collect_acks(view.id, others, cx);
        if waits {
            self.adopt(view, Windows::Follow, local, None, cx);
        }
    }

    /// Waits for `missing` to acknowledge the view that was announced.
    pub(super) fn collect_acks(
        &mut self,
        view: ViewId,
        mut missing: BTreeSet<Uuid>,
        cx: &mut Cx<'_>,
    ) {
        missing.retain(|m| !self.requests.goes(*m));
        let wait = self.config.view_ack_collection_timeout;
        let resend_after = wait / FIRST_RESEND;
        cx.arm(ACKS, cx.now + resend_after);
        let give_up_at = cx.now + wait;
        let missing = missing.into_iter().map(|m| (m, 1)).collect();
        self.acks = Some(AckRound { view, missing, resend_after, give_up_at });
        self.end_round_if_complete(cx);
    }

    /// VIEW_ACK. It does not say of which view: while a member owes some of earlier views, those
    /// are meant.
    pub(super) fn receive_ack(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        self.welcomes.remove(&src);
        match self.acks_owed.get_mut(&src) {
            Some(owed) if *owed > 1 => *owed -= 1,
            Some(_) => {
                self.acks_owed.remove(&src);
            }
            None => self.no_ack_from(src, cx),
        }
    }

    /// `member` has acknowledged, or will not.
    pub(super) fn no_ack_from(&mut self, member: Uuid, cx: &mut Cx<'_>) {
        if let Some(times) = self.acks.as_mut().and_then(|a| a.missing.remove(&member)) {
            self.owe_acks(member, times - 1);
            self.end_round_if_complete(cx);
        }
    }

    /// `of` will acknowledge so many copies of earlier views, which must not count for the next one.
    /// An acknowledgement that never comes makes the next round wait until the view is sent again,
    /// and is forgiven by that.
    fn owe_acks(&mut self, of: Uuid, copies: u32) {
        if copies > 0 {
            *self.acks_owed.entry(of).or_insert(0) += copies;
        }
    }

    fn end_round_if_complete(&mut self, cx: &mut Cx<'_>) {
        if self.acks.as_ref().is_some_and(|a| a.missing.is_empty()) {
            self.end_round(cx);
        }
    }

    /// The wait for acknowledgements is over, one way or the other.
    pub(super) fn end_round(&mut self, cx: &mut Cx<'_>) {
        for (m, times) in self.acks.take().into_iter().flat_map(|a| a.missing) {
            self.owe_acks(m, times);
        }
        cx.disarm(ACKS);
        cx.raise(Dir::Down, Event::ResumeStable);
        self.ask_to_leave_now(cx);
    }

    /// The view is sent again to those who have not acknowledged it, at growing distances; at the
    /// end the wait is over, and whoever still misses the view gets it by another road (merging at
    /// the latest).
    pub(super) fn ack_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(round) = self.acks.as_mut() else { return };
        let waits =
            self.pending.as_ref().is_some_and(|p| p.is_synchronous() && p.view().id == round.view);
        if cx.now >= round.give_up_at && !waits {
            return self.end_round(cx);
        }
        round.resend_after = (round.resend_after * 2).min(self.config.view_ack_collection_timeout);
        let again_at = cx.now + round.resend_after;
        cx.arm(ACKS, if waits { again_at } else { again_at.min(round.give_up_at) });
        for times in round.missing.values_mut() {
            *times += 1;
        }
        let late: Vec<Uuid> = round.missing.keys().copied().collect();
        for m in late {
            self.send_whole_view(m, None, cx);
        }
    }

    fn let_go(&mut self, leaver: Uuid, cx: &mut Cx<'_>) {
        if self.requests.leave(leaver, cx.now) {
            self.stop_waiting_for(leaver, cx);
        }
    }

    /// Flow control wants these out of the view. Whoever acts as coordinator is asked by the request
    /// with which members also pass on that others leave; it answers those who leave, so they hear of
    /// it. JGroups takes such a request only from the leaver itself. Answers for whom the acting
    /// coordinator is a member of JGroups, which has to be asked otherwise.
    pub(super) fn ask_to_exclude(&mut self, list: &[Uuid], cx: &mut Cx<'_>) -> Vec<Uuid> {
        let local = cx.local();
        let mut others = Vec::new();
        for m in list.iter().copied() {
            if m == local || !self.is_member(m) {
                continue;
            }
            let acting = self.latest().and_then(|v| self.requests.first_staying(v, Some(m)));
            let Some(acting) = acting else { continue };
            if acting == local {
                self.let_go(m, cx);
            } else if tag::is_rgroups(acting) {
                cx.send_down(payload::leave_request(acting, m));
            } else {
                others.push(m);
            }
        }
        others
    }

    /// LEAVE_REQ: of the leaver itself, or passed on by a member that knows of it.
    pub(super) fn receive_leave(&mut self, src: Uuid, h: &GmsHeader, cx: &mut Cx<'_>) {
        let Some(leaver) = h.member.as_ref().and_then(Address::uuid) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        if leaver != src && !self.is_member(src) || leaver == cx.local() {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
        if self.view.is_none() {
            return cx.drop_from_peer(DropReason::NotConnected, Some(src));
        }
        if !self.is_member(leaver) {
            // It is out already, and the answer was lost; or it gives up joining.
            self.requests.withdraw_join(leaver);
            cx.send_down(payload::leave_response(leaver));
            return;
        }
        if leaver == src {
            cx.raise(Dir::Up, Event::Leaves(leaver));
            cx.raise(Dir::Down, Event::Leaves(leaver));
        }
        self.let_go(leaver, cx);
        if matches!(self.role, Role::Leaving(_)) {
            self.leave_together_with(leaver, cx);
        }
    }

    /// The own digest for the members of `view`, joiners at the start: those given, and those that wait
    /// for their answer. `None` if a member is unknown.
    fn digest_for(&self, view: &View, joiners: &[Uuid], cx: &Cx<'_>) -> Option<Digest> {
        let Some(Answer::Digest(own)) = cx.ask_below(&Query::Digest) else { return None };
        let pair = |m: &Uuid| match joiners.contains(m) {
            true => Some(SeqnoPair::default()),
            false => own
                .get(*m)
                .or_else(|| self.beginning_of(*m))
                .or_else(|| self.welcomes.contains_key(m).then(SeqnoPair::default)),
        };
        view.members.iter().map(|m| Some((*m, pair(m)?))).collect()
    }
}
