//! Facts that every layer may read. Each has exactly one writer; a write is staged while a layer
//! runs and applied before the next one does, so nobody sees the group change in mid-call.

use crate::protocols::primary::Minority;
use crate::wire::IpAddress;
use crate::{Time, Uuid, View};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use bytes::Bytes;
use core::net::SocketAddr;

/// What is known of the group.
#[derive(Debug)]
pub struct Group {
    /// This member.
    pub local: Uuid,
    /// Its logical name.
    pub name: Arc<str>,
    /// Where its transport receives.
    pub physical: SocketAddr,
    /// The cluster; empty before the application connects. Written by the stack.
    pub cluster: Bytes,
    /// The installed view. Written by GMS.
    pub view: Option<Arc<View>>,
    /// Names and physical addresses. Written by the transport and discovery.
    pub addresses: AddressBook,
    /// A call of the own application is waiting on this channel. Written by the entry layer.
    pub calls_pending: bool,
    /// What this member says of its view; `None` without PRIMARY in the stack. Written by PRIMARY.
    pub primary: Option<PrimaryClaim>,
    /// Until when this member may trust the last primary view that it knows of: nobody else goes on
    /// without it before. It outlasts the view. Written by PRIMARY.
    pub trusted_until: Time,
    ranks: BTreeMap<Uuid, usize>,
}

/// Whether a view is the primary one of its group, as one of its members knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primacy {
    /// The members have not agreed yet, or this one has lost contact with too many of them.
    Unknown,
    /// It is, and there is no other.
    Yes,
    /// It is not.
    No,
}

/// What a member says of its view, and how long that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryClaim {
    /// What it says.
    pub primacy: Primacy,
    /// When [`Primacy::Yes`] ends, unless contact renews it.
    pub until: Time,
    /// What this member does outside the primary view.
    pub minority: Minority,
}

impl PrimaryClaim {
    /// What it says at this time. To be asked when it matters: a process that was stopped says
    /// "unknown" from the first moment on.
    #[must_use]
    pub fn at(self, now: Time) -> Primacy {
        match self.primacy {
            Primacy::Yes if self.until <= now => Primacy::Unknown,
            said => said,
        }
    }

    /// Whether this member is to leave.
    #[must_use]
    pub fn must_leave(self) -> bool {
        self.minority == Minority::Leave && self.primacy == Primacy::No
    }
}

impl Group {
    /// Before any view.
    #[must_use]
    pub fn new(local: Uuid, name: Arc<str>, physical: SocketAddr) -> Self {
        let mut addresses = AddressBook::default();
        addresses.learn(local, Some(name.clone()), Some(physical));
        Self {
            local,
            name,
            physical,
            cluster: Bytes::new(),
            view: None,
            addresses,
            calls_pending: false,
            primary: None,
            trusted_until: Time::ZERO,
            ranks: BTreeMap::new(),
        }
    }

    /// Whether `m` is in the installed view.
    #[must_use]
    pub fn is_member(&self, m: Uuid) -> bool {
        self.ranks.contains_key(&m)
    }

    /// The position of `m` in the installed view.
    #[must_use]
    pub fn rank(&self, m: Uuid) -> Option<usize> {
        self.ranks.get(&m).copied()
    }

    /// The members of the installed view.
    #[must_use]
    pub fn members(&self) -> &[Uuid] {
        self.view.as_deref().map_or(&[], |v| &v.members)
    }

    /// The coordinator of the installed view.
    #[must_use]
    pub fn coordinator(&self) -> Option<Uuid> {
        self.members().first().copied()
    }

    /// Whether this member is the coordinator of its installed view.
    #[must_use]
    pub fn is_coordinator(&self) -> bool {
        self.coordinator() == Some(self.local)
    }

    pub(crate) fn apply(&mut self, change: GroupChange) {
        match change {
            GroupChange::View(v) => {
                self.ranks = v
                    .as_deref()
                    .map(|v| v.members.iter().enumerate().map(|(i, m)| (*m, i)).collect())
                    .unwrap_or_default();
                if v.is_some() {
                    self.addresses.retain_for(&self.ranks, self.local);
                }
                self.view = v;
            }
            GroupChange::Learn { member, name, physical } => {
                self.addresses.learn(member, name, physical);
            }
            GroupChange::CallsPending(p) => self.calls_pending = p,
            GroupChange::Primary(claim) => {
                match claim.primacy {
                    Primacy::Yes => self.trusted_until = self.trusted_until.max(claim.until),
                    Primacy::No => self.trusted_until = Time::ZERO,
                    Primacy::Unknown => {}
                }
                self.primary = Some(claim);
            }
        }
    }
}

/// A staged write to the [`Group`].
#[derive(Clone, Debug)]
pub enum GroupChange {
    /// GMS: this view is installed (`None`: we left).
    View(Option<Arc<View>>),
    /// Transport, discovery, MERGE3: a member's name or place is known.
    Learn {
        /// The member.
        member: Uuid,
        /// Its name, if it was told.
        name: Option<Arc<str>>,
        /// Its place, if it was told.
        physical: Option<SocketAddr>,
    },
    /// Entry layer.
    CallsPending(bool),
    /// PRIMARY.
    Primary(PrimaryClaim),
}

/// Names and physical addresses of members, and of up to [`AddressBook::STRANGERS`] others.
#[derive(Debug, Default)]
pub struct AddressBook {
    entries: BTreeMap<Uuid, Entry>,
    /// How many of them are no members.
    strangers: usize,
    clock: u64,
}

#[derive(Debug, Default, Clone)]
struct Entry {
    name: Option<Arc<str>>,
    physical: Option<SocketAddr>,
    touched: u64,
    member: bool,
}

impl AddressBook {
    /// How many who are no members are remembered; beyond it the longest unheard-of goes. Of many that
    /// join at once each hears of all others before the view comes: were there more of them than this, they
    /// would have to ask each other again.
    pub const STRANGERS: usize = 4096;

    /// Where `m` is.
    #[must_use]
    pub fn physical(&self, m: Uuid) -> Option<SocketAddr> {
        self.entries.get(&m)?.physical
    }

    /// The logical name of `m`.
    #[must_use]
    pub fn name(&self, m: Uuid) -> Option<&Arc<str>> {
        self.entries.get(&m)?.name.as_ref()
    }

    /// Everybody whose place is known.
    pub fn known(&self) -> impl Iterator<Item = (Uuid, SocketAddr)> + '_ {
        self.entries.iter().filter_map(|(m, e)| Some((*m, e.physical?)))
    }

    /// Who is at `at`.
    #[must_use]
    pub fn at(&self, at: IpAddress) -> Option<Uuid> {
        let at = at.socket_addr()?;
        self.known().find(|(_, a)| *a == at).map(|(m, _)| m)
    }

    fn learn(&mut self, m: Uuid, name: Option<Arc<str>>, physical: Option<SocketAddr>) {
        self.clock += 1;
        let before = self.entries.len();
        let e = self.entries.entry(m).or_default();
        e.touched = self.clock;
        if name.is_some() {
            e.name = name;
        }
        if physical.is_some() {
            e.physical = physical;
        }
        self.strangers += self.entries.len() - before;
        self.evict();
    }

    fn retain_for(&mut self, members: &BTreeMap<Uuid, usize>, local: Uuid) {
        for (m, e) in &mut self.entries {
            e.member = *m == local || members.contains_key(m);
        }
        self.strangers = self.entries.values().filter(|e| !e.member).count();
        self.evict();
    }

    fn evict(&mut self) {
        while self.strangers > Self::STRANGERS {
            let oldest =
                self.entries.iter().filter(|(_, e)| !e.member).min_by_key(|(_, e)| e.touched);
            let Some(m) = oldest.map(|(m, _)| *m) else { return };
            self.entries.remove(&m);
            self.strangers -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unheard_of_stranger_is_forgotten_and_no_member() {
        let id = |n: usize| Uuid::new(1, n as u64);
        let at = Some(SocketAddr::from(([10, 0, 0, 1], 7800)));
        let known = |b: &AddressBook, n| b.physical(id(n)).is_some();
        let mut book = AddressBook::default();
        (0..AddressBook::STRANGERS).for_each(|n| book.learn(id(n), None, at));
        book.retain_for(&BTreeMap::from([(id(0), 0), (id(1), 1)]), id(0));
        let next = AddressBook::STRANGERS;
        for n in next..next + 2 {
            book.learn(id(n), None, at);
            book.learn(id(n), None, at);
        }
        assert!((0..next + 2).all(|n| known(&book, n)), "two of them are members");
        book.learn(id(next + 2), None, at);
        assert!(known(&book, 0) && known(&book, 1) && !known(&book, 2) && known(&book, 3));
        // Who is no member any more is a stranger like others.
        book.retain_for(&BTreeMap::from([(id(0), 0)]), id(0));
        assert!(known(&book, 0) && !known(&book, 1) && known(&book, 3));
    }
}
