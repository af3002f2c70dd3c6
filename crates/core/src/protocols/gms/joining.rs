//! The client: finds a coordinator, asks to be let in, or forms a group of its own.
//!
//! A coordinator that does not answer twice is evidence against the record that named it: it is
//! discounted, and so is a joiner that should have formed the group and did not (BEHAVIOURS M08,
//! M09). So every join ends in bounded time, whatever discovery remembers.

use super::member::Windows;
use super::payload::{self, JoinAnswer};
use super::{Gms, JOIN, Role};
use crate::event::Found;
use crate::wire::SeqnoPair;
use crate::{
    AppEvent, Cx, Digest, Dir, DropReason, Event, Message, Purpose, Time, Trace, Uuid, View,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How often the same coordinator is asked.
const ATTEMPTS_PER_COORDINATOR: u32 = 2;

/// How many discoveries in a row wait for the same joiner to form the group.
const ROUNDS: u32 = 3;

/// What happened so far in this attempt to join.
#[derive(Debug, Default)]
pub(super) struct JoinHistory {
    /// How often each coordinator was asked.
    asked: BTreeMap<Uuid, u32>,
    /// Whose records are no longer believed.
    discounted: BTreeSet<Uuid>,
    /// How many requests were sent in all.
    attempts: u32,
    /// Since when every discovery found a group but nobody to ask in it.
    leaderless_since: Option<Time>,
    /// The joiner that should form the group, and in how many discoveries it did not.
    awaited: Option<(Uuid, u32)>,
}

impl JoinHistory {
    /// Who of these joiners forms the group. One that never does is passed over in the end.
    fn founder(&mut self, local: Uuid, others: &BTreeSet<Uuid>) -> Uuid {
        loop {
            let lowest = others.difference(&self.discounted).chain([&local]).min();
            let lowest = lowest.copied().unwrap_or(local);
            if lowest == local {
                return local;
            }
            let before = self.awaited.filter(|(m, _)| *m == lowest).map_or(0, |(_, n)| n);
            self.awaited = Some((lowest, before + 1));
            if before < ROUNDS {
                return lowest;
            }
            self.discounted.insert(lowest);
        }
    }
}

impl Gms {
    /// The application wants to join.
    pub(super) fn connect(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Idle | Role::Left => {}
            Role::Discovering
            | Role::Pausing
            | Role::Joining { .. }
            | Role::Member
            | Role::Coordinator
            | Role::Leaving(_) => return,
        }
        self.reset(cx);
        self.discover(cx);
    }

    fn discover(&mut self, cx: &mut Cx<'_>) {
        // Discovery ends by itself. Should a stack have none, this is the end of the wait.
        let until = cx.now + self.config.join_timeout * 2;
        self.enter(Role::Discovering, cx);
        cx.arm(JOIN, until);
        cx.raise(Dir::Down, Event::FindMembers { purpose: Purpose::Join, wanted: None });
    }

    fn pause(&mut self, cx: &mut Cx<'_>) {
        let until = cx.now + self.config.all_clients_retry_timeout;
        self.enter(Role::Pausing, cx);
        cx.arm(JOIN, until);
    }

    /// Discovery is over.
    pub(super) fn found(&mut self, members: &[Found], cx: &mut Cx<'_>) {
        if !matches!(self.role, Role::Discovering) {
            return;
        }
        let local = cx.local();
        let others: Vec<&Found> = members.iter().filter(|f| f.member != local).collect();
        let believed = |f: &&&Found| !self.join.discounted.contains(&f.member);
        let coordinators: BTreeSet<Uuid> =
            others.iter().filter(believed).filter(|f| f.coordinator).map(|f| f.member).collect();
        if !coordinators.is_empty() {
            self.join.leaderless_since = None;
            return self.ask_one_of(&coordinators, cx);
        }
        let a_group = others.iter().any(|f| f.server);
        if a_group {
            // Its coordinator has gone, or is too busy to answer: a merge, say. It may still do so.
            let since = *self.join.leaderless_since.get_or_insert(cx.now);
            return match cx.now.since(since) < self.config.join_timeout {
                true => self.pause(cx),
                false => self.form_group(cx),
            };
        }
        let joiners: BTreeSet<Uuid> = others.iter().map(|f| f.member).collect();
        if self.join.founder(local, &joiners) == local {
            self.form_group(cx);
        } else {
            self.pause(cx);
        }
    }

    /// Asks one of those that were asked least, picked at random, so that joiners spread over the
    /// halves of a split group.
    fn ask_one_of(&mut self, coordinators: &BTreeSet<Uuid>, cx: &mut Cx<'_>) {
        let times = |m: &Uuid| self.join.asked.get(m).copied().unwrap_or(0);
        let least = coordinators.iter().map(times).min().unwrap_or(0);
        let mut candidates: Vec<Uuid> =
            coordinators.iter().copied().filter(|m| times(m) == least).collect();
        cx.rng().shuffle(&mut candidates);
        let Some(coordinator) = candidates.first().copied() else { return };
        let attempt = least + 1;
        self.join.asked.insert(coordinator, attempt);
        self.join.attempts += 1;
        self.counters.join_attempts += 1;
        if attempt >= ATTEMPTS_PER_COORDINATOR {
            self.join.discounted.insert(coordinator);
        }
        self.enter(Role::Joining { coordinator }, cx);
        cx.trace(|| Trace::JoinAttempt { coordinator, attempt });
        cx.arm(JOIN, cx.now + self.config.join_timeout);
        cx.send_down(payload::join_request(coordinator, cx.local()));
    }

    /// A wait of the client is over.
    pub(super) fn join_timer(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Discovering => self.found(&[], cx),
            Role::Pausing => self.discover(cx),
            Role::Joining { .. } if self.join.attempts >= self.config.max_join_attempts => {
                self.form_group(cx);
            }
            Role::Joining { .. } => self.discover(cx),
            Role::Idle | Role::Member | Role::Coordinator | Role::Leaving(_) | Role::Left => {}
        }
    }

    /// Becomes the first member.
    fn form_group(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(JOIN);
        let local = cx.local();
        let digest: Digest = [(local, SeqnoPair::default())].into_iter().collect();
        let view = Arc::new(View::new(0, local, [local]));
        self.install(view, Windows::Set(digest), None, cx);
        cx.raise(Dir::Down, Event::BecomeServer);
    }

    /// JOIN_RSP. Whoever was asked may answer, however late (JGRP-687), while we are not in a view.
    pub(super) fn receive_join_answer(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        let joining = matches!(self.role, Role::Discovering | Role::Pausing | Role::Joining { .. });
        if !joining || !self.join.asked.contains_key(&src) {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        let local = cx.local();
        match payload::read_join_answer(&msg.body) {
            Some(JoinAnswer::Welcome(view, digest)) if view.contains(local) => {
                self.accept(src, view, digest, cx);
            }
            Some(JoinAnswer::Refused(reason)) => {
                self.reset(cx);
                self.enter(Role::Idle, cx);
                cx.tell(AppEvent::ConnectFailed { reason: reason.into() });
            }
            Some(JoinAnswer::Welcome(..)) | None => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
            }
        }
    }

    fn accept(&mut self, src: Uuid, view: View, digest: Digest, cx: &mut Cx<'_>) {
        cx.disarm(JOIN);
        let creator = view.id.creator;
        // The creator collects the acknowledgements; if it is gone, its successor answered.
        let ack_to = if view.contains(creator) { creator } else { src };
        self.install(Arc::new(view), Windows::Set(digest), Some(ack_to), cx);
        cx.raise(Dir::Down, Event::BecomeServer);
    }
}
