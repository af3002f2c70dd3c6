//! Views that are accepted and not installed yet: where members are excluded, reliable multicast
//! first agrees with the other survivors on the last messages of those (tail repair, DECISIONS 6).
//!
//! Until then the installed view stays. What the sender of the new view multicasts behind it waits
//! here. A still newer view replaces the waiting one, which then is never installed at this member.

use super::Gms;
use super::last_merge::LastMerge;
use super::member::{Windows, stayed_together};
use super::payload;
use super::synchrony::is_synchronous;
use crate::wire::SeqnoPair;
use crate::{Batch, Cx, Digest, Dir, Event, Message, Uuid, View, ViewId, tag};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A view that waits.
#[derive(Debug)]
pub(super) struct Pending {
    view: Arc<View>,
    windows: Windows,
    ack_to: Option<Uuid>,
    /// Members that have announced this view or one that it replaced: what they multicast from then
    /// on belongs to the new view.
    announcers: BTreeSet<Uuid>,
    waiting: Vec<Batch>,
    /// All who come into it agree on everything before.
    synchronous: bool,
}

impl Pending {
    /// How many digests wait with the view.
    pub(super) fn digests(&self) -> u64 {
        match &self.windows {
            Windows::Follow => 0,
            Windows::Set(_) | Windows::Merge(_) | Windows::Jump(_) => 1,
        }
    }

    /// Whether it is to be installed by all together.
    pub(super) fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    /// Which view waits.
    pub(super) fn view(&self) -> &View {
        &self.view
    }
}

impl Gms {
    /// The newest view that this member has accepted: the one that waits, or the installed one.
    pub(super) fn latest(&self) -> Option<&Arc<View>> {
        self.pending.as_ref().map(|p| &p.view).or(self.view.as_ref())
    }

    /// Where the window of `m` will begin, which came with the view that waits, or with one that it
    /// replaced: there is none yet. A joiner begins at the start.
    pub(super) fn beginning_of(&self, m: Uuid) -> Option<SeqnoPair> {
        let pending = self.pending.as_ref().filter(|_| !self.is_member(m))?;
        match &pending.windows {
            Windows::Follow => Some(SeqnoPair::default()),
            Windows::Set(digest) | Windows::Merge(digest) => digest.get(m),
            Windows::Jump(digest) => Some(digest.get(m).unwrap_or_default()),
        }
    }

    /// Whether `m` is in the installed view and not in the one that waits.
    pub(super) fn is_frozen(&self, m: Uuid) -> bool {
        self.is_member(m) && self.latest().is_some_and(|v| !v.contains(m))
    }

    /// Whether there is something to agree on before `view` is installed, and somebody to do it with.
    pub(super) fn needs_repair(&self, view: &View, cx: &Cx<'_>) -> bool {
        if self.view.is_some() && is_synchronous(view) {
            return true;
        }
        #[cfg(feature = "mutants")]
        if cx.mutant(crate::mutants::Mutant::TailsNotRepaired) {
            return false;
        }
        let local = cx.local();
        let Some(current) = self.view.as_deref() else { return false };
        let stays = |m: &Uuid| *m != local && view.contains(*m);
        tag::repairs_tails(local)
            && current.members.iter().any(|m| !view.contains(*m))
            && current.members.iter().any(|m| stays(m) && tag::repairs_tails(*m))
    }

    /// Takes an accepted view: installs it, now or when the tails are repaired. `from` announced it.
    pub(super) fn adopt(
        &mut self,
        view: Arc<View>,
        mut windows: Windows,
        from: Uuid,
        ack_to: Option<Uuid>,
        cx: &mut Cx<'_>,
    ) {
        if let Windows::Merge(digest) = &windows {
            self.last_merge = LastMerge::of(&view, digest);
        }
        let replaced = self.pending.take();
        let mut announcers = BTreeSet::new();
        let mut waiting = Vec::new();
        #[cfg(feature = "mutants")]
        if let Some(old) = &replaced
            && cx.mutant(crate::mutants::Mutant::ReplacedViewInstalled)
        {
            self.install(Arc::clone(&old.view), Windows::Follow, None, cx);
        }
        if let Some(old) = replaced {
            // Its sender must not wait for an installation that will not come.
            if let Some(to) = old.ack_to {
                cx.send_down(payload::view_ack(to));
            }
            if matches!(windows, Windows::Follow) {
                windows = self.jump_of(old.windows, &old.view, &view, cx.local());
            }
            announcers = old.announcers;
            // What those sent that are excluded now belongs to their tails; before a synchronous
            // change everything does that was delivered below.
            for batch in old.waiting {
                match view.contains(batch.src) && !is_synchronous(&view) {
                    true => waiting.push(batch),
                    false => cx.deliver_up(batch),
                }
            }
        }
        if !self.needs_repair(&view, cx) {
            self.install(view, windows, ack_to, cx);
            return waiting.into_iter().for_each(|batch| cx.deliver_up(batch));
        }
        announcers.retain(|m| view.contains(*m));
        // Our own announcement comes back in its turn; see `own_announcement`.
        if from != cx.local() {
            announcers.insert(from);
        }
        self.highest_id = self.highest_id.max(view.id.id);
        let frozen = Arc::clone(&view);
        let synchronous = is_synchronous(&view);
        self.pending = Some(Pending { view, windows, ack_to, announcers, waiting, synchronous });
        let patience = synchronous.then_some(self.config.view_synchrony_timeout);
        cx.raise(Dir::Down, Event::Freeze { view: frozen, synchronous: patience });
    }

    /// A view of ours may wait for what `m` has to report, and `m` is gone: nobody acknowledges it
    /// before it is installed, so without waiting for that another one takes its place.
    pub(super) fn replace_what_waits_for(&mut self, m: Uuid, cx: &mut Cx<'_>) {
        let waiting = self.pending.as_ref().filter(|p| p.view.contains(m)).map(|p| p.view.id);
        if waiting.is_some() && self.acks.as_ref().map(|a| a.view) == waiting {
            self.end_round(cx);
        }
    }

    /// What a merged view that is never installed here still means for the windows of those that stay
    /// in the view that replaces it.
    fn jump_of(&self, skipped: Windows, merged: &View, view: &View, local: Uuid) -> Windows {
        let current = self.view.as_deref();
        let together = |m| current.is_some_and(|v| stayed_together(m, local, v, merged));
        let digest: Digest = match skipped {
            Windows::Merge(digest) => digest.iter().filter(|(m, _)| !together(*m)).collect(),
            Windows::Jump(digest) => digest,
            Windows::Follow | Windows::Set(_) => return Windows::Follow,
        };
        Windows::Jump(digest.iter().filter(|(m, _)| view.contains(*m)).collect())
    }

    /// Our own announcement of the view `id` came back: what we multicast behind it comes now.
    pub(super) fn own_announcement(&mut self, id: ViewId) {
        if let Some(pending) = self.pending.as_mut().filter(|p| p.view.id == id) {
            pending.announcers.insert(id.creator);
        }
    }

    /// The survivors agree: the view takes effect.
    pub(super) fn repaired(&mut self, id: ViewId, agreed: bool, cx: &mut Cx<'_>) {
        let Some(pending) = self.pending.take_if(|p| p.view.id == id) else { return };
        if !agreed {
            self.say_not_synchronous(id, cx);
        }
        self.install(pending.view, pending.windows, pending.ack_to, cx);
        pending.waiting.into_iter().for_each(|batch| cx.deliver_up(batch));
    }

    /// Whether a batch of this kind was sent behind the view that waits.
    pub(super) fn waits_behind_view(&self, batch: &Batch) -> bool {
        batch.multicast && !batch.oob && self.waits_for_view(batch.src)
    }

    /// Whether regular multicasts of `src` wait behind the view.
    pub(super) fn waits_for_view(&self, src: Uuid) -> bool {
        // Before a synchronous change nothing that belongs behind it comes up at all.
        let behind = |p: &Pending| !p.synchronous && p.announcers.contains(&src);
        self.pending.as_ref().is_some_and(behind)
    }

    /// Whether a message of `src` waits behind the view.
    pub(super) fn sets_behind_view(&self, src: Uuid) -> bool {
        self.pending.as_ref().is_some_and(|p| p.waiting.iter().any(|b| b.src == src))
    }

    /// Keeps a message until the view that waits is installed.
    pub(super) fn set_behind_view(&mut self, src: Uuid, m: Message) {
        let Some(pending) = self.pending.as_mut() else { return };
        match pending.waiting.last_mut().filter(|b| b.src == src) {
            Some(last) => last.push(m),
            None => {
                let mut batch = Batch::new(src, true, false);
                batch.push(m);
                pending.waiting.push(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::gms::GmsConfig;
    use crate::testkit::{id, view};

    const AT_SEVEN: SeqnoPair = SeqnoPair { delivered: 7, received: 7 };

    /// In a view of 1 and 2, where one with 3 and 4 waits.
    fn waiting(windows: Windows) -> Gms {
        let mut gms = Gms::new(GmsConfig::default());
        gms.view = Some(view(1, &[1, 2]));
        gms.pending = Some(Pending {
            view: view(2, &[1, 2, 3, 4]),
            windows,
            ack_to: None,
            announcers: BTreeSet::new(),
            waiting: Vec::new(),
            synchronous: false,
        });
        gms
    }

    fn digest(of: &[u64]) -> Digest {
        of.iter().map(|m| (id(*m), AT_SEVEN)).collect()
    }

    #[test]
    fn joiners_of_a_waiting_view_begin_at_the_start() {
        let gms = waiting(Windows::Follow);
        assert_eq!(gms.beginning_of(id(3)), Some(SeqnoPair::default()));
    }

    #[test]
    fn members_that_a_waiting_merge_brings_begin_where_it_says() {
        let gms = waiting(Windows::Merge(digest(&[1, 2, 3])));
        assert_eq!(gms.beginning_of(id(3)), Some(AT_SEVEN));
        assert_eq!(gms.beginning_of(id(4)), None, "of whom it says nothing nobody knows");
    }

    #[test]
    fn members_of_a_skipped_merge_begin_where_it_said_and_joiners_after_it_at_the_start() {
        let gms = waiting(Windows::Jump(digest(&[3])));
        assert_eq!(gms.beginning_of(id(3)), Some(AT_SEVEN));
        assert_eq!(gms.beginning_of(id(4)), Some(SeqnoPair::default()));
    }

    #[test]
    fn who_is_in_the_installed_view_has_begun() {
        let gms = waiting(Windows::Merge(digest(&[1, 2, 3, 4])));
        assert_eq!(gms.beginning_of(id(2)), None);
    }
}
