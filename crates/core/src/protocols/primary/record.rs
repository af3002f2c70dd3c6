//! What a member knows of primary views, and what the members of a view know together.

use super::rules::Rules;
use crate::{Uuid, ViewId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

/// A view that is, or may have become, a primary one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) id: ViewId,
    /// How long its members trust it without contact.
    pub(super) lease: Duration,
    /// Its members that take part, oldest first.
    pub(super) voters: Vec<Uuid>,
}

/// What one member knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The newest view that it knows to have been primary.
    pub(super) formed: Option<Epoch>,
    /// Later ones that it agreed to, and of which it does not know whether all did.
    pub(super) attempts: Vec<Epoch>,
    /// Members of these that have left the group.
    pub(super) resigned: BTreeSet<Uuid>,
}

impl Record {
    /// The member agrees that `next` become primary, and takes over what its leader found out.
    pub(super) fn attempt(&mut self, next: Epoch, past: &Past) {
        self.formed = past.formed.clone();
        self.attempts = past.open.clone();
        self.attempts.push(next);
        self.forget_the_resigned();
    }

    /// `epoch` has become primary: nothing before it matters any more.
    pub(super) fn form(&mut self, epoch: Epoch) {
        self.formed = Some(epoch);
        self.attempts.clear();
        self.forget_the_resigned();
    }

    fn forget_the_resigned(&mut self) {
        self.keep_resigned_of(None);
    }

    /// Of those that have left, only members of these views matter, and of `current`.
    pub(super) fn keep_resigned_of(&mut self, current: Option<&Epoch>) {
        let epochs = self.formed.iter().chain(&self.attempts).chain(current);
        let named: BTreeSet<Uuid> = epochs.flat_map(|e| e.voters.iter().copied()).collect();
        self.resigned.retain(|m| named.contains(m));
    }
}

/// What matters of the past of all members of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// The newest view that one of them knows to have been primary.
    pub(super) formed: Option<Epoch>,
    /// Later ones that may have become primary without any of them knowing.
    pub(super) open: Vec<Epoch>,
}

impl Past {
    /// From what each of them knows, who are all in one view now and so agree to no earlier one any
    /// more.
    pub(super) fn of(records: &BTreeMap<Uuid, Record>) -> Self {
        let formed = records.values().filter_map(|r| r.formed.as_ref()).max_by_key(|e| e.id);
        let newer = |e: &Epoch| formed.is_none_or(|f| e.id > f.id);
        let mut open: BTreeMap<ViewId, &Epoch> = BTreeMap::new();
        for e in records.values().flat_map(|r| &r.attempts).filter(|e| newer(e)) {
            open.insert(e.id, e);
        }
        // A view becomes primary when all its members have agreed. Who has not will not any more.
        let all_agreed = |e: &Epoch| {
            let mut asked = e.voters.iter().filter_map(|m| records.get(m));
            asked.all(|r| r.attempts.iter().any(|a| a.id == e.id))
        };
        let open = open.into_values().filter(|e| all_agreed(e)).cloned().collect();
        Self { formed: formed.cloned(), open }
    }

    fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        self.formed.iter().chain(&self.open)
    }

    /// Whether a view with these members may be the next primary one.
    pub(super) fn admits(
        &self,
        voters: &BTreeSet<Uuid>,
        resigned: &BTreeSet<Uuid>,
        rules: Rules,
    ) -> bool {
        let founds = self.formed.is_some() || rules.may_found(voters.len());
        let follows = |e: &Epoch| rules.may_follow(&staying(&e.voters, resigned), voters);
        founds && self.epochs().all(follows)
    }

    /// For how long members that are not among `voters` may go on trusting an earlier view.
    pub(super) fn trusted_elsewhere(
        &self,
        voters: &BTreeSet<Uuid>,
        resigned: &BTreeSet<Uuid>,
    ) -> Duration {
        let elsewhere =
            |e: &&Epoch| staying(&e.voters, resigned).iter().any(|m| !voters.contains(m));
        self.epochs().filter(elsewhere).map(|e| e.lease).max().unwrap_or_default()
    }
}

/// Those of `members` that have not left.
pub(super) fn staying(members: &[Uuid], resigned: &BTreeSet<Uuid>) -> Vec<Uuid> {
    members.iter().copied().filter(|m| !resigned.contains(m)).collect()
}
