//! View synchrony: views that are installed by all who want it together. Reliable multicast sees to
//! the messages; here it is decided which changes are synchronous, and where a view begins: joiners
//! start clean.

use super::Gms;
use super::member::Windows;
use crate::wire::{Flags, SeqnoPair};
use crate::{
    Answer, AppEvent, Cx, Digest, Dir, Event, Evidence, Message, Query, Suspicion, Trace, Uuid,
    View, ViewId, tag,
};
use alloc::vec::Vec;

/// Whether all members of `view` want it.
pub(super) fn is_synchronous(view: &View) -> bool {
    view.members.iter().all(|m| tag::synchronizes(*m))
}

impl Gms {
    /// Whether a view that is announced now must not have a number: those of this member, and of who
    /// takes part, are not heard before the view is installed.
    pub(super) fn announces_unnumbered(&self, view: &View) -> bool {
        is_synchronous(view) || self.waits_for_all()
    }

    /// Whether a view waits that all install together.
    pub(super) fn waits_for_all(&self) -> bool {
        self.pending.as_ref().is_some_and(super::Pending::is_synchronous)
    }

    /// What is said before a view that follows `previous`.
    pub(super) fn check_synchrony(&mut self, previous: &View, view: &View, cx: &mut Cx<'_>) {
        if tag::synchronizes(cx.local()) && previous.id != view.id && !is_synchronous(view) {
            self.say_not_synchronous(view.id, cx);
        }
    }

    pub(super) fn say_not_synchronous(&mut self, view: ViewId, cx: &mut Cx<'_>) {
        self.counters.not_synchronous += 1;
        cx.trace(|| Trace::NotSynchronous { view });
        cx.tell(AppEvent::NotSynchronous { view });
    }

    /// Where `view` begins, which is about to be installed: the windows as they are, those of members
    /// that a merge brings where it says, and new ones at the start.
    pub(super) fn start_of(&self, view: &View, windows: &Windows, cx: &Cx<'_>) -> Option<Digest> {
        if !tag::synchronizes(cx.local()) {
            return None;
        }
        let Some(Answer::Digest(own)) = cx.ask_below(&Query::Digest) else { return None };
        let given = match windows {
            Windows::Set(digest) => return Some(digest.clone()),
            Windows::Merge(digest) | Windows::Jump(digest) => Some(digest),
            Windows::Follow => None,
        };
        let entry = |m| {
            let known = own.get(m).filter(|_| self.is_member(m));
            known.or_else(|| given.and_then(|d| d.get(m))).unwrap_or(SeqnoPair::default())
        };
        Some(view.members.iter().map(|m| (*m, entry(*m))).collect())
    }

    /// These hold up the view that waits: a view without them is to take its place.
    pub(super) fn suspect_silent(&mut self, list: &[Uuid], cx: &mut Cx<'_>) {
        self.silent.extend(list.iter().filter(|m| !self.requests.goes(**m)));
        let (by, why) = (cx.local(), Evidence::HoldsUpView);
        let accused: Vec<Suspicion> =
            list.iter().map(|m| Suspicion { member: *m, by, why }).collect();
        self.suspect(&accused, cx);
    }

    /// A view was installed: who is in it does not hold it up any more.
    pub(super) fn forgive_silent(&mut self) {
        for m in core::mem::take(&mut self.silent) {
            self.requests.unsuspect(m);
        }
    }

    /// The view is installed and the application knows: what waited for it goes on.
    pub(super) fn thaw(&self, cx: &mut Cx<'_>) {
        if tag::synchronizes(cx.local()) {
            cx.raise(Dir::Down, Event::Thaw);
        }
    }
}

/// An announcement that overtakes what its sender multicast before: without a number.
pub(super) fn unnumbered(mut announcement: Message, so: bool) -> Message {
    if so {
        announcement.wire.flags |= Flags::NO_RELIABILITY;
    }
    announcement
}
