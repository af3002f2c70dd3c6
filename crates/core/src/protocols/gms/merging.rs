//! Merging, as the leader: asks the speakers of all parts for their views and digests, makes one
//! view of the answers, hands it back to them. Each speaker installs it in its own part
//! ([`super::subgroup`]), because only there its multicasts are understood.
//!
//! Whoever does not answer is left out and merged in a later round. Every member that takes part
//! gives up by its own clock, so a leader that dies blocks nobody (BEHAVIOURS G04).

use super::merge_plan::{self, Part};
use super::payload;
use super::subgroup::{Contribution, answer_to};
use super::{Gms, MERGE, Role};
use crate::wire::MergeId;
use crate::wire::header::{GmsHeader, GmsKind};
use crate::{Cx, Digest, Dir, DropReason, Event, Message, Time, Trace, Uuid, View, ViewId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A merge that this member takes part in.
#[derive(Debug)]
pub(super) struct Merging {
    pub(super) id: MergeId,
    pub(super) leader: Uuid,
    /// What our part contributes.
    pub(super) contribution: Contribution,
    /// If we lead: what the others contributed.
    pub(super) lead: Option<Lead>,
    /// Then this merge is given up.
    pub(super) give_up_at: Time,
}

/// What the leader has and waits for.
#[derive(Debug)]
pub(super) struct Lead {
    awaited: BTreeSet<Uuid>,
    answers: BTreeMap<Uuid, (View, Digest)>,
    /// Who was asked, other than the leader itself.
    asked: Vec<Uuid>,
    until: Time,
}

impl Gms {
    /// MERGE3 found these different views, by the member that told each, and which of them others
    /// announced.
    pub(super) fn merge(
        &mut self,
        views: &[(Uuid, View)],
        announced: &[(Uuid, ViewId)],
        cx: &mut Cx<'_>,
    ) {
        let local = cx.local();
        let Some(own) = self.view.clone().filter(|_| self.in_group()) else { return };
        // A view that is being installed looks like a difference; MERGE3 comes again if it is one.
        if self.merging.is_some() || self.acks.is_some() || self.pending.is_some() {
            return;
        }
        let others = views.iter().filter(|(m, _)| *m != local).cloned();
        let reports: Vec<(Uuid, View)> = others.chain([(local, View::clone(&own))]).collect();
        let parts = merge_plan::parts(&reports, announced);
        if parts.len() < 2 || merge_plan::leader(&parts) != Some(local) {
            return;
        }
        if !self.repair(&own, &parts, cx) {
            self.lead(&parts, cx);
        }
    }

    /// If all others merely missed our view, they are sent it once; no merge is needed for that
    /// (BEHAVIOURS G06). Whether that was so.
    fn repair(&mut self, own: &View, parts: &[Part], cx: &mut Cx<'_>) -> bool {
        let local = cx.local();
        let behind = |p: &&Part| {
            p.view.id.id < own.id.id
                && p.view.contains(local)
                && p.members.iter().all(|m| own.contains(*m))
        };
        let others: Vec<&Part> = parts.iter().filter(|p| p.speaker != local).collect();
        let possible = own.coordinator() == local && !self.repaired;
        if !possible || !others.iter().all(behind) {
            return false;
        }
        self.repaired = true;
        cx.trace(|| Trace::Merge { step: "view sent again" });
        for m in others.iter().flat_map(|p| p.members.iter().copied()) {
            self.send_whole_view(m, None, cx);
        }
        true
    }

    fn lead(&mut self, parts: &[Part], cx: &mut Cx<'_>) {
        let local = cx.local();
        self.merge_counter = self.merge_counter.wrapping_add(1);
        let id = MergeId { initiator: local.into(), id: self.merge_counter };
        self.counters.merges_started += 1;
        cx.trace(|| Trace::Merge { step: "started" });
        let mut own: Vec<Uuid> = Vec::new();
        for p in parts {
            if p.speaker == local {
                own.clone_from(&p.members);
            } else {
                cx.send_down(payload::merge_request(p.speaker, &id, local, &p.members));
            }
        }
        let lead = Lead {
            awaited: parts.iter().map(|p| p.speaker).collect(),
            answers: BTreeMap::new(),
            asked: parts.iter().map(|p| p.speaker).filter(|s| *s != local).collect(),
            until: cx.now + self.config.merge_timeout,
        };
        self.contribute(id, local, &own, Some(lead), cx);
    }

    /// All messages of merges.
    pub(super) fn receive_merge(
        &mut self,
        src: Uuid,
        h: &GmsHeader,
        msg: &Message,
        cx: &mut Cx<'_>,
    ) {
        if self.view.is_none() {
            return cx.drop_from_peer(DropReason::NotConnected, Some(src));
        }
        if h.kind == GmsKind::GetDigestReq {
            return self.receive_digest_request(src, h.merge_id.is_some(), cx);
        }
        if h.kind == GmsKind::GetDigestRsp {
            return self.receive_digest(src, msg, cx);
        }
        let Some(id) = &h.merge_id else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        if h.kind == GmsKind::MergeReq {
            return self.receive_merge_request(src, id, msg, cx);
        }
        if self.merging.as_ref().is_none_or(|m| m.id != *id) {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        match h.kind {
            GmsKind::MergeRsp => self.receive_answer(src, h.merge_rejected, msg, cx),
            GmsKind::InstallMergeView => self.receive_merged_view(src, msg, cx),
            GmsKind::CancelMerge => self.receive_cancellation(src, cx),
            GmsKind::JoinReq
            | GmsKind::JoinRsp
            | GmsKind::LeaveReq
            | GmsKind::LeaveRsp
            | GmsKind::View
            | GmsKind::MergeReq
            | GmsKind::ViewAck
            | GmsKind::JoinReqWithState
            | GmsKind::GetDigestReq
            | GmsKind::GetDigestRsp
            | GmsKind::InstallDigest
            | GmsKind::GetCurrentView => {}
        }
    }

    /// MERGE_RSP.
    fn receive_answer(&mut self, src: Uuid, rejected: bool, msg: &Message, cx: &mut Cx<'_>) {
        let answer = payload::read_merge_data(&msg.body).filter(|(v, _)| v.contains(src));
        if answer.is_none() && !rejected {
            cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
        self.take_answer(src, answer.filter(|_| !rejected), cx);
    }

    /// A part has contributed, or (`None`) will not.
    pub(super) fn take_answer(
        &mut self,
        speaker: Uuid,
        answer: Option<(View, Digest)>,
        cx: &mut Cx<'_>,
    ) {
        let Some(lead) = self.merging.as_mut().and_then(|m| m.lead.as_mut()) else { return };
        if !lead.awaited.remove(&speaker) {
            return cx.drop_from_peer(DropReason::Stale, Some(speaker));
        }
        if let Some(answer) = answer {
            lead.answers.insert(speaker, answer);
        }
        if lead.awaited.is_empty() {
            self.conclude(cx);
        }
    }

    /// Everybody has answered, or the time is over: merges those who did.
    fn conclude(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(merging) = self.merging.as_mut() else { return };
        let Some(lead) = merging.lead.as_mut() else { return };
        let above = self.highest_id;
        let enough = lead.answers.len() >= 2 && lead.answers.contains_key(&local);
        let result = enough
            .then(|| merge_plan::combine(&lead.answers, above, |m| self.requests.goes(m)))
            .flatten();
        let Some((view, digest)) = result else { return self.cancel_merge(cx) };
        for m in &lead.asked {
            let (id, answered) = (&merging.id, lead.answers.contains_key(m));
            let takes_part = answered && view.contains(*m);
            self.counters.merge_digests += u64::from(takes_part);
            cx.send_down(match takes_part {
                true => payload::merge_installation(*m, id, &view, &digest),
                false => payload::merge_cancellation(*m, id),
            });
        }
        self.install_merged(view, digest, cx);
    }

    /// Gives the merge up, and tells those who were asked if we lead it.
    pub(super) fn cancel_merge(&mut self, cx: &mut Cx<'_>) {
        let Some(merging) = self.merging.take() else { return };
        cx.disarm(MERGE);
        cx.trace(|| Trace::Merge { step: "cancelled" });
        for m in merging.lead.iter().flat_map(|l| &l.asked) {
            cx.send_down(payload::merge_cancellation(*m, &merging.id));
        }
        cx.raise(Dir::Down, Event::ResumeStable);
    }

    /// CANCEL_MERGE.
    fn receive_cancellation(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        match self.merging.as_ref().is_some_and(|m| m.leader == src) {
            true => self.cancel_merge(cx),
            false => cx.drop_from_peer(DropReason::Stale, Some(src)),
        }
    }

    /// A wait of the merge is over.
    pub(super) fn merge_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(merging) = &self.merging else { return };
        if cx.now >= merging.give_up_at {
            return self.cancel_merge(cx);
        }
        let now = cx.now;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(merging.contribution.until()) {
            self.contribution_complete(cx);
        }
        let leading = self.merging.as_ref().and_then(|m| m.lead.as_ref());
        if due(leading.map(|l| l.until)) {
            self.conclude(cx);
        }
        self.arm_merge_timer(cx);
    }

    pub(super) fn arm_merge_timer(&self, cx: &mut Cx<'_>) {
        let Some(m) = &self.merging else { return };
        let waits = [m.contribution.until(), m.lead.as_ref().map(|l| l.until)];
        let first = waits.into_iter().flatten().fold(m.give_up_at, Time::min);
        cx.arm(MERGE, first);
    }

    /// MERGE_REQ: the leader of a merge asks for our part.
    fn receive_merge_request(&mut self, src: Uuid, id: &MergeId, msg: &Message, cx: &mut Cx<'_>) {
        match &self.merging {
            Some(m) if m.id == *id => return cx.drop_from_peer(DropReason::Duplicate, Some(src)),
            Some(_) | None => {}
        }
        let busy = self.merging.is_some() || self.pending.is_some();
        let able = matches!(self.role, Role::Member | Role::Coordinator);
        let members = payload::read_members(&msg.body).unwrap_or_default();
        if busy || !able || !members.contains(&cx.local()) || src == cx.local() {
            // JGroups says nothing when it is busy, and the leader waits in vain.
            cx.trace(|| Trace::Merge { step: "rejected" });
            return cx.send_down(payload::merge_rejection(src, id));
        }
        cx.trace(|| Trace::Merge { step: "asked" });
        self.contribute(id.clone(), src, &members, None, cx);
    }

    /// Sends what our part contributes to the leader, which may be this member.
    pub(super) fn hand_in(&mut self, view: View, digest: Digest, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(merging) = self.merging.as_ref() else { return };
        if merging.leader == local {
            self.take_answer(local, Some((view, digest)), cx);
        } else {
            self.counters.merge_digests += 1;
            cx.send_down(answer_to(merging, &view, &digest));
        }
    }
}
