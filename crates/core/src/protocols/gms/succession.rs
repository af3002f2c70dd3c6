//! The coordinator is gone, and its last view reached some members and not the one that succeeds it. The
//! successor gives its own first view the same number, or a lower one, which those who have the other
//! view do not take: there the numbers of views only grow.

use super::payload::Announced;
use super::requests::NextView;
use super::{Gms, Role};
use crate::{Cx, Uuid, View};
use alloc::vec::Vec;

/// Whether this is the view of the successor of the coordinator that made `ours`: whoever is first
/// among those that it leaves in, without the coordinator. The successor may know before us that the
/// coordinator is gone.
fn succeeds(announced: &Announced, ours: &View) -> bool {
    match announced {
        Announced::Full(view, _) => {
            let first = ours.members.iter().find(|m| view.contains(**m));
            !view.contains(ours.id.creator) && first == Some(&view.id.creator)
        }
        Announced::Delta(_) => false,
    }
}

impl Gms {
    /// Whether this is the view of the successor of a coordinator whose last view only waits here: if it
    /// has the same number, nobody who waits with the successor will ever install the other.
    pub(super) fn takes_the_place_of_waiting(&self, announced: &Announced) -> bool {
        let id = announced.id();
        let Some(waiting) = self.pending.as_ref().map(|p| p.view()) else { return false };
        let creator = waiting.id.creator;
        waiting.id.id == id.id
            && creator != id.creator
            && (self.requests.goes(creator) || succeeds(announced, waiting))
    }

    /// The successor's view is refused for its number: it is shown the view that it has missed.
    pub(super) fn show_missed_view(&self, src: Uuid, announced: &Announced, cx: &mut Cx<'_>) {
        let Some(ours) = self.latest() else { return };
        if announced.id().creator == src && succeeds(announced, ours) {
            self.send_whole_view(src, None, cx);
        }
    }

    /// Whether a member of the view that we have made shows one that keeps it from taking ours: of a
    /// coordinator that we have excluded, with our number or a higher one.
    pub(super) fn was_missed_here(&self, src: Uuid, theirs: &Announced, local: Uuid) -> bool {
        let Announced::Full(theirs, _) = theirs else { return false };
        let id = theirs.id;
        let ours = self.latest().filter(|v| v.id.creator == local && v.contains(src));
        ours.is_some_and(|v| !v.contains(id.creator) && id.id >= v.id.id)
            && id.creator != src
            && !theirs.is_merge()
            && self.merging.is_none()
            && !matches!(self.role, Role::Leaving(_))
    }

    /// Announces the view that we have made once more, with a number above this one.
    pub(super) fn announce_above(&mut self, number: u64, cx: &mut Cx<'_>) {
        let Some(ours) = self.latest().cloned() else { return };
        self.highest_id = self.highest_id.max(number);
        // Who missed ours has not got what a difference would build on.
        self.full_view_sent = false;
        self.end_round(cx);
        let joiners = self.unanswered.iter().copied().filter(|m| ours.contains(*m)).collect();
        let (leavers, already_in) = (Vec::new(), Vec::new());
        let members = ours.members.to_vec();
        self.announce(&ours, &NextView { members, joiners, leavers, already_in }, cx);
    }
}
