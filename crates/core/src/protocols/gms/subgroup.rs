//! Merging, as the speaker of a part: collects the digest of its members, hands it to the leader,
//! installs the merged view. And as a member of the part: answers with the own digest entry.

use super::member::Windows;
use super::merging::{Lead, Merging};
use super::synchrony::unnumbered;
use super::{Gms, Role, payload};
use crate::wire::{MergeId, SeqnoPair};
use crate::{Answer, Cx, Digest, Dir, DropReason, Event, Message, Query, Time, Trace, Uuid, View};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What our part contributes to a merge.
#[derive(Debug)]
pub(super) enum Contribution {
    /// Members are asked for their digest entries.
    Collecting { digest: Digest, missing: BTreeSet<Uuid>, until: Time },
    /// It was handed in; the merged view is to come.
    HandedIn,
}

impl Contribution {
    /// When the wait for members ends.
    pub(super) fn until(&self) -> Option<Time> {
        match self {
            Contribution::Collecting { until, .. } => Some(*until),
            Contribution::HandedIn => None,
        }
    }
}

/// MERGE_RSP with our part.
pub(super) fn answer_to(merging: &Merging, view: &View, digest: &Digest) -> Message {
    payload::merge_response(merging.leader, &merging.id, view, digest)
}

impl Gms {
    /// Takes part in merge `id` with those of `listed` that are in our view and stay.
    pub(super) fn contribute(
        &mut self,
        id: MergeId,
        leader: Uuid,
        listed: &[Uuid],
        lead: Option<Lead>,
        cx: &mut Cx<'_>,
    ) {
        let members: BTreeSet<Uuid> = listed
            .iter()
            .copied()
            .filter(|m| self.is_member(*m) && !self.requests.goes(*m))
            .collect();
        let give_up_at = cx.now + self.config.merge_timeout * 2;
        self.merge_expected_until = give_up_at;
        cx.raise(Dir::Down, Event::SuspendStable(self.config.merge_timeout * 2));
        let alone = members.len() == 1;
        if !alone {
            // Our own entry is taken when our copy comes back, so that it covers this message.
            cx.send_down(payload::digest_request(&id));
        }
        let until = cx.now + self.config.merge_timeout / 2;
        let contribution =
            Contribution::Collecting { digest: Digest::default(), missing: members, until };
        self.merging = Some(Merging { id, leader, contribution, lead, give_up_at });
        self.arm_merge_timer(cx);
        if alone {
            self.contribution_complete(cx);
        }
    }

    /// GET_DIGEST_REQ: a member wants our own entry.
    pub(super) fn receive_digest_request(&mut self, src: Uuid, merging: bool, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(own) = own_entry(cx) else { return };
        if src == local {
            return self.take_digest(local, own, cx);
        }
        if !self.is_member(src) || matches!(self.role, Role::Leaving(_)) {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        if merging {
            self.merge_expected_until = cx.now + self.config.merge_timeout * 2;
        }
        self.counters.merge_digests += 1;
        cx.send_down(payload::digest_response(src, local, own));
    }

    /// GET_DIGEST_RSP.
    pub(super) fn receive_digest(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        match payload::read_digest_of(&msg.body, src) {
            Some(pair) => self.take_digest(src, pair, cx),
            None => cx.drop_from_peer(DropReason::Malformed, Some(src)),
        }
    }

    fn take_digest(&mut self, member: Uuid, pair: SeqnoPair, cx: &mut Cx<'_>) {
        let contribution = self.merging.as_mut().map(|m| &mut m.contribution);
        let Some(Contribution::Collecting { digest, missing, .. }) = contribution else { return };
        if missing.remove(&member) {
            digest.set(member, pair);
            if missing.is_empty() {
                self.contribution_complete(cx);
            }
        }
    }

    /// `member` leaves or is suspected: the merge goes on without it, or not at all if it leads.
    pub(super) fn no_digest_from(&mut self, member: Uuid, cx: &mut Cx<'_>) {
        let Some(merging) = self.merging.as_mut() else { return };
        if merging.leader == member {
            return self.cancel_merge(cx);
        }
        if let Contribution::Collecting { missing, .. } = &mut merging.contribution
            && missing.remove(&member)
            && missing.is_empty()
        {
            self.contribution_complete(cx);
        }
    }

    /// All members have answered, or the time is over: hands in what there is.
    pub(super) fn contribution_complete(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let (Some(merging), Some(view)) = (self.merging.as_mut(), self.view.clone()) else {
            return;
        };
        let contribution = core::mem::replace(&mut merging.contribution, Contribution::HandedIn);
        let Contribution::Collecting { mut digest, .. } = contribution else { return };
        if digest.get(local).is_none() {
            match own_entry(cx) {
                Some(own) => digest.set(local, own),
                None => return self.cancel_merge(cx),
            }
        }
        #[cfg(feature = "mutants")]
        if cx.mutant(crate::mutants::Mutant::SilentMergedIn) {
            let silent = view.members.iter().filter(|m| digest.get(**m).is_none());
            let silent: Vec<Uuid> = silent.copied().collect();
            silent.into_iter().for_each(|m| digest.set(m, SeqnoPair::default()));
        }
        let answered: Vec<Uuid> =
            view.members.iter().copied().filter(|m| digest.get(*m).is_some()).collect();
        let digest: Digest =
            answered.iter().filter_map(|m| digest.get(*m).map(|pair| (*m, pair))).collect();
        let part = View { members: answered.into(), id: view.id, subgroups: Arc::new([]) };
        self.hand_in(part, digest, cx);
    }

    /// INSTALL_MERGE_VIEW.
    pub(super) fn receive_merged_view(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        let from_leader =
            self.merging.as_ref().is_some_and(|m| m.leader == src && m.lead.is_none());
        if !from_leader || !self.in_group() || self.pending.is_some() {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        let newer = |v: &View| self.view.as_deref().is_some_and(|own| own.id.id < v.id.id);
        let local = cx.local();
        match payload::read_merge_data(&msg.body) {
            Some((view, digest)) if view.contains(local) && view.is_merge() && newer(&view) => {
                self.install_merged(Arc::new(view), digest, cx);
            }
            Some(_) | None => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                self.cancel_merge(cx);
            }
        }
    }

    /// Installs the merged view here and announces it to our part.
    pub(super) fn install_merged(&mut self, view: Arc<View>, digest: Digest, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(previous) = self.view.clone() else { return };
        self.merging = None;
        cx.disarm(super::MERGE);
        self.counters.merges_installed += 1;
        cx.trace(|| Trace::Merge { step: "installed" });
        let announcement = payload::merge_view_multicast(&view, &digest);
        let waits = self.needs_repair(&view, cx);
        let windows = Windows::Merge(digest);
        let windows = if waits {
            Some(windows)
        } else {
            cx.raise(Dir::Down, Event::PendingView(Arc::clone(&view)));
            self.adopt(Arc::clone(&view), windows, local, None, cx);
            None
        };
        let part: BTreeSet<Uuid> =
            previous.members.iter().copied().filter(|m| *m != local && view.contains(*m)).collect();
        if !part.is_empty() {
            self.counters.merge_digests += 1;
            cx.send_down(unnumbered(announcement, self.announces_unnumbered(&view)));
        }
        self.full_view_sent = view.coordinator() == local;
        self.collect_acks(view.id, part, cx);
        if let Some(windows) = windows {
            self.adopt(view, windows, local, None, cx);
        }
    }
}

fn own_entry(cx: &Cx<'_>) -> Option<SeqnoPair> {
    let local = cx.local();
    let entry = match cx.ask_below(&Query::DigestOf(local)) {
        Some(Answer::Digest(d)) => d.get(local),
        _ => None,
    };
    #[cfg(feature = "mutants")]
    let entry = entry.map(|e| crate::mutants::merge_digest(e, cx));
    entry
}
