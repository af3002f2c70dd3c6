//! What a coordinator is asked to do: let members in, let them out, exclude suspects. All that is
//! asked for while one view is being installed goes into the next one together.
//!
//! Every member keeps leavers and suspects, not only the coordinator, so that "everybody before me
//! goes" is one look at one set, and nothing has to be told again when the coordinator changes.

use crate::{Time, Uuid, View};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// At most this many joiners wait; more are dropped and ask again.
const MAX_JOINERS: usize = 4096;

/// Requests waiting for the next view. Asking twice is asking once.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// With the time of their latest request.
    joiners: Vec<(Uuid, Time)>,
    leavers: BTreeSet<Uuid>,
    suspects: BTreeSet<Uuid>,
    /// When the first of them was asked for.
    since: Option<Time>,
}

/// What the requests make of a view.
#[derive(Debug)]
pub(super) struct NextView {
    /// The members, in order.
    pub(super) members: Vec<Uuid>,
    /// Who is new among them.
    pub(super) joiners: Vec<Uuid>,
    /// Who asked to leave.
    pub(super) leavers: Vec<Uuid>,
    /// Who was in already and asked to join: its answer was lost.
    pub(super) already_in: Vec<Uuid>,
}

impl Requests {
    /// `member` wants in; false if too many wait.
    pub(super) fn join(&mut self, member: Uuid, now: Time) -> bool {
        if let Some((_, asked_at)) = self.joiners.iter_mut().find(|(m, _)| *m == member) {
            *asked_at = now;
            return true;
        }
        if self.joiners.len() >= MAX_JOINERS {
            return false;
        }
        self.joiners.push((member, now));
        self.since.get_or_insert(now);
        true
    }

    /// `member` wants out; whether that is news.
    pub(super) fn leave(&mut self, member: Uuid, now: Time) -> bool {
        self.joiners.retain(|(m, _)| *m != member);
        self.since.get_or_insert(now);
        self.leavers.insert(member)
    }

    /// `member` no longer waits to be let in; whether it did.
    pub(super) fn withdraw_join(&mut self, member: Uuid) -> bool {
        let before = self.joiners.len();
        self.joiners.retain(|(m, _)| *m != member);
        self.joiners.len() < before
    }

    /// `member` is suspected; whether that is news.
    pub(super) fn suspect(&mut self, member: Uuid, now: Time) -> bool {
        self.since.get_or_insert(now);
        self.suspects.insert(member)
    }

    /// `member` is alive after all.
    pub(super) fn unsuspect(&mut self, member: Uuid) {
        self.suspects.remove(&member);
    }

    /// Whether `member` leaves or is suspected.
    pub(super) fn goes(&self, member: Uuid) -> bool {
        self.leavers.contains(&member) || self.suspects.contains(&member)
    }

    /// The first member of `view` that stays, other than `except`: who acts as coordinator.
    pub(super) fn first_staying(&self, view: &View, except: Option<Uuid>) -> Option<Uuid> {
        view.members.iter().copied().find(|m| !self.goes(*m) && Some(*m) != except)
    }

    /// When the first request was made; `None` if there is nothing to do for `view`.
    pub(super) fn waiting_since(&self, view: &View) -> Option<Time> {
        let due = !self.joiners.is_empty() || view.members.iter().any(|m| self.goes(*m));
        self.since.filter(|_| due)
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.joiners.len() + self.leavers.len() + self.suspects.len()
    }

    /// What all requests together make of `view`.
    pub(super) fn next_view(&self, view: &View) -> NextView {
        let stays = |m: &Uuid| !self.goes(*m);
        let mut members: Vec<Uuid> = view.members.iter().copied().filter(stays).collect();
        let (already_in, joiners): (Vec<Uuid>, Vec<Uuid>) =
            self.joiners.iter().map(|(m, _)| *m).filter(stays).partition(|m| view.contains(*m));
        members.extend(&joiners);
        let leavers = self.leavers.iter().copied().filter(|m| view.contains(*m)).collect();
        NextView { members, joiners, leavers, already_in }
    }

    /// Forgets the joiners that have not asked for so long: by now they ask somebody else, and to let
    /// them in here too would put them into two groups.
    pub(super) fn forget_stale_joiners(&mut self, now: Time, patience: Duration) {
        self.joiners.retain(|(_, asked_at)| now.since(*asked_at) <= patience);
    }

    /// Forgets the joiners: they were answered, or will ask somebody else.
    pub(super) fn forget_joiners(&mut self) {
        self.joiners.clear();
    }

    /// `view` is installed: who is not in it needs no removal.
    pub(super) fn installed(&mut self, view: &View) {
        self.leavers.retain(|m| view.contains(*m));
        self.suspects.retain(|m| view.contains(*m));
        if self.len() == 0 {
            self.since = None;
        }
    }

    /// Members of the installed view that asked to leave.
    pub(super) fn leavers(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.leavers.iter().copied()
    }
}
