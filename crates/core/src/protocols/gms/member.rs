//! What every member does with views: takes those that are newer and contain it, installs them,
//! acknowledges them, and helps whoever has missed one.

use super::curiosity::Curiosity;
use super::last_merge::may_hide_a_merge;
use super::payload::{self, Announced, Misfit};
use super::{CURIOUS, Gms, MAX_EXCLUDED, Role};
#[cfg(feature = "mutants")]
use crate::mutants::Mutant;
use crate::{Cx, Digest, Dir, DropReason, Event, GroupChange, Message, Time, Uuid, View, tag};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// The whole view is asked for at most this often: a burst of differences is one gap.
const ASK_INTERVAL: Duration = Duration::from_millis(100);

/// What happens to the multicast windows when a view is installed.
#[derive(Debug)]
pub(super) enum Windows {
    /// They follow the members.
    Follow,
    /// A joiner learns where everybody is.
    Set(Digest),
    /// Merged members jump to where the others are.
    Merge(Digest),
    /// These members jump: they were merged by a view that another one replaced before it was
    /// installed here.
    Jump(Digest),
}

/// Whether `m` and this member were together all the time before the merge: their windows go on
/// where they are, for neither has discarded what the other may still lack. To jump forward would
/// lose what one of them sent and the other has not received yet.
pub(super) fn stayed_together(m: Uuid, local: Uuid, previous: &View, merged: &View) -> bool {
    let ours = |s: &&View| s.contains(m) || s.contains(local);
    previous.contains(m)
        && merged.subgroups.iter().any(|s| s.id == previous.id)
        && merged.subgroups.iter().filter(ours).all(|s| s.id == previous.id)
}

/// Whether an ordinary view continues another one than ours. What continues ours begins with one of our
/// members, because joiners come last, and has them in our order. (A coordinator of JGroups may order as
/// it likes.) A merge that went on without us made the other, and only a merge brings us there.
fn continues_another(view: &View, ours: &View) -> bool {
    let common = || view.members.iter().filter(|m| ours.contains(**m));
    let in_our_order = ours.members.iter().filter(|m| view.contains(**m)).eq(common());
    let follows = ours.contains(view.coordinator()) && in_our_order;
    !view.is_merge() && tag::is_rgroups(view.id.creator) && !follows
}

impl Gms {
    /// VIEW.
    pub(super) fn receive_view(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        let Some(current) = self.latest().cloned() else {
            // A joiner that gets the view before JOIN_RSP has no digest for it yet.
            return self.view_before_answer(src, cx);
        };
        let Some(announced) = payload::read_view(&msg.body) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        let id = announced.id();
        if src == cx.local() {
            return self.own_announcement(id);
        }
        if self.was_missed_here(src, &announced, cx.local()) {
            return self.announce_above(id.id, cx);
        }
        if id.id <= current.id.id && !self.takes_the_place_of_waiting(&announced) {
            // Sent again because our acknowledgement is missing.
            if self.view.as_deref().is_some_and(|v| v.id == id) && !msg.is_multicast() {
                cx.send_down(payload::view_ack(src));
            }
            return self.show_missed_view(src, &announced, cx);
        }
        if !current.contains(src) {
            return cx.drop_from_peer(DropReason::NotAMember, Some(src));
        }
        self.highest_id = self.highest_id.max(id.id);
        let (view, digest) = match announced {
            Announced::Full(view, _)
                if self.brings_back_the_excluded(&view) || continues_another(&view, &current) =>
            {
                return cx.drop_from_peer(DropReason::Stale, Some(src));
            }
            Announced::Full(view, _)
                if msg.is_multicast()
                    && view.contains(src)
                    && may_hide_a_merge(&current, &view) =>
            {
                return self.ask_for_view(src, cx);
            }
            Announced::Full(view, digest) => (view, digest),
            #[cfg(feature = "mutants")]
            Announced::Delta(change) if cx.mutant(Mutant::DeltaOnWrongBase) => {
                let Ok(view) = change.force(&current) else { return };
                (view, None)
            }
            Announced::Delta(change) => match change.apply(&current) {
                Ok(view) => (view, None),
                Err(Misfit::WrongBase) => return self.ask_for_view(src, cx),
                Err(Misfit::Nonsense) => {
                    return cx.drop_from_peer(DropReason::Malformed, Some(src));
                }
            },
        };
        self.take_view(src, view, digest, cx);
    }

    /// Whether an ordinary view contains somebody that a view of ours has excluded. It then continues
    /// another view than ours, of a part of the group that we were in as well: our windows of that
    /// member are gone, and only a merge brings the digest for new ones. Until then we stay where we
    /// are, and MERGE3 sees the difference.
    fn brings_back_the_excluded(&self, view: &View) -> bool {
        !view.is_merge()
            && view.members.iter().any(|m| self.excluded.contains(m) || self.is_frozen(*m))
    }

    fn take_view(&mut self, src: Uuid, view: View, digest: Option<Digest>, cx: &mut Cx<'_>) {
        if !view.contains(cx.local()) {
            if matches!(self.role, Role::Leaving(_)) {
                cx.send_down(payload::view_ack(src));
                return self.finish(true, cx);
            }
            // The others are wrong about us, and a merge will show it. Nothing else would: the
            // rest of the group lives on without us.
            self.counters.views_refused += 1;
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        #[cfg(feature = "mutants")]
        if cx.mutant(Mutant::ViewSkipped) && view.id.id % 3 == 2 {
            return cx.send_down(payload::view_ack(src));
        }
        let windows = match (view.is_merge(), digest) {
            (true, Some(digest)) => Windows::Merge(digest),
            (true, None) | (false, _) => Windows::Follow,
        };
        let view = Arc::new(view);
        let ack_to = view.contains(src).then_some(src);
        if ack_to.is_none() {
            // After the installation there would be no connection to the sender any more.
            cx.send_down(payload::view_ack(src));
        }
        self.adopt(view, windows, src, ack_to, cx);
    }

    /// A difference to a view that we do not have: its sender knows the whole.
    fn ask_for_view(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        if self.view_asked_at.is_some_and(|at| cx.now.since(at) < ASK_INTERVAL) {
            return;
        }
        self.view_asked_at = Some(cx.now);
        cx.send_down(match self.latest() {
            Some(ours) => payload::view_inquiry(src, ours.id),
            None => payload::view_request(src),
        });
    }

    /// GET_CURRENT_VIEW.
    pub(super) fn receive_view_request(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        let Some(view) = self.latest().cloned().filter(|v| v.contains(src)) else {
            return cx.drop_from_peer(DropReason::NotAMember, Some(src));
        };
        let theirs = payload::read_view_id(&msg.body);
        if theirs.is_none_or(|theirs| theirs.id < view.id.id) {
            self.send_whole_view(src, theirs.map(|id| id.id), cx);
        }
    }

    /// Installs `view` (see also [`Gms::adopt`]): the windows first, then the view down and up, then what its members sent
    /// too early, then the acknowledgement. The one place where a view takes effect.
    pub(super) fn install(
        &mut self,
        view: Arc<View>,
        windows: Windows,
        ack_to: Option<Uuid>,
        cx: &mut Cx<'_>,
    ) {
        assert!(view.contains(cx.local()), "a member installs only views that contain it");
        debug_assert!(self.pending.is_none(), "what waited is replaced by what is installed");
        self.start = self.start_of(&view, &windows, cx);
        let previous = self.view.replace(Arc::clone(&view));
        if let Some(previous) = previous.as_deref() {
            self.check_synchrony(previous, &view, cx);
        }
        assert!(previous.as_deref().is_none_or(|p| p.id.id < view.id.id), "view numbers only grow");
        self.counters.views += 1;
        self.highest_id = self.highest_id.max(view.id.id);
        self.view_asked_at = None;
        self.curiosity = Curiosity::default();
        cx.disarm(CURIOUS);
        if self.acks.as_ref().is_some_and(|a| a.view != view.id) {
            self.end_round(cx);
        }
        // What we contributed to a merge is not our view any more.
        if self.merging.is_some() {
            self.cancel_merge(cx);
        }
        if view.is_merge() {
            // Whoever is excluded from now on is not about to come back with this merge.
            self.merge_expected_until = Time::ZERO;
        }
        self.acks_owed.retain(|m, _| view.contains(*m));
        match &windows {
            Windows::Follow => self.welcomes.retain(|m, _| view.contains(*m)),
            // The windows are not those that the joiners were told of.
            Windows::Set(_) | Windows::Merge(_) | Windows::Jump(_) => self.welcomes.clear(),
        }
        self.repaired = false;
        self.note_excluded(previous.as_deref(), &view);
        cx.change(GroupChange::View(Some(Arc::clone(&view))));
        match windows {
            Windows::Follow => {}
            Windows::Set(digest) => cx.raise(Dir::Down, Event::SetDigest(digest)),
            Windows::Jump(digest) => cx.raise(Dir::Down, Event::MergeDigest(digest)),
            Windows::Merge(digest) => {
                let (together, apart): (Vec<_>, Vec<_>) = digest.iter().partition(|(m, _)| {
                    previous.as_deref().is_some_and(|p| stayed_together(*m, cx.local(), p, &view))
                });
                cx.raise(Dir::Down, Event::MergeDigest(apart.into_iter().collect()));
                cx.raise(Dir::Down, Event::SentSoFar(together.into_iter().collect()));
            }
        }
        cx.raise(Dir::Down, Event::View(Arc::clone(&view)));
        cx.raise(Dir::Up, Event::View(Arc::clone(&view)));
        for batch in self.held.release(&view) {
            cx.deliver_up(batch);
        }
        self.schedule_expiry(cx);
        if let Some(to) = ack_to {
            cx.send_down(payload::view_ack(to));
        }
        // Members that did not know us may not know where we are either (WIRE 34.31).
        if previous.is_none() || view.is_merge() {
            cx.raise(Dir::Down, Event::AnnounceView);
        }
        self.answer_joiners(&view, cx);
        self.forgive_silent();
        self.requests_after(&view, cx);
        self.role_after(&view, cx);
        self.thaw(cx);
    }

    fn note_excluded(&mut self, previous: Option<&View>, view: &View) {
        if let Some(previous) = previous {
            self.excluded.extend(previous.without(view));
        }
        self.excluded.retain(|m| !view.contains(*m));
        while self.excluded.len() > MAX_EXCLUDED {
            self.excluded.pop_first();
        }
    }

    fn role_after(&mut self, view: &View, cx: &mut Cx<'_>) {
        if matches!(self.role, Role::Leaving(_)) {
            return self.retarget_leave(cx);
        }
        let first = view.coordinator() == cx.local();
        if !first {
            self.full_view_sent = false;
        }
        self.enter(if first { Role::Coordinator } else { Role::Member }, cx);
    }

    /// The requests that the view fulfilled are done. Joiners ask the new coordinator themselves;
    /// leavers may be gone before they can, so what we know of them is passed on (BEHAVIOURS G05).
    fn requests_after(&mut self, view: &View, cx: &mut Cx<'_>) {
        self.requests.installed(view);
        let local = cx.local();
        let acting = self.requests.first_staying(view, None);
        if acting == Some(local) {
            return;
        }
        self.requests.forget_joiners();
        if let Some(coordinator) = acting.filter(|_| view.is_merge()) {
            let told: Vec<Uuid> = self.requests.leavers().collect();
            for leaver in told {
                cx.send_down(payload::leave_request(coordinator, leaver));
            }
        }
    }
}
