//! The client: finds a coordinator, asks to be let in, or forms a group of its own.
//!
//! A coordinator that does not answer twice is evidence against the record of others that named it:
//! it is discounted, and so is a joiner that should have formed the group and did not (BEHAVIOURS
//! M08, M09). One that answers discovery itself lives: it is asked until it lets us in, or until the
//! join fails; to form a group beside it would split the group. So every join ends in bounded time,
//! whatever discovery remembers.

use super::join_history::label;
use super::member::Windows;
use super::payload::{self, JoinAnswer};
use super::{Gms, JOIN, Role};
use crate::event::Found;
use crate::wire::SeqnoPair;
use crate::{
    AppEvent, Cx, Digest, Dir, DropReason, Event, Message, Purpose, Time, Trace, Uuid, View,
};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// How often a coordinator is asked that only others call one.
const ATTEMPTS_BY_HEARSAY: u32 = 2;

/// So much of what a coordinator says about its refusal is kept.
const MOST_WORDS: usize = 400;

/// So many times GMS.join_timeout after it answered discovery itself, a coordinator counts as alive,
/// whatever discovery hears of it meanwhile.
const LIVES_FOR: u32 = 5;

/// A joiner gives up earliest after this time where a coordinator lives: that one may be in the
/// middle of a merge, which takes twice GMS.merge_timeout at most.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// The answer to a joiner comes right behind the view that contains it. After so long it is late.
const ANSWER_IS_LATE: Duration = Duration::from_millis(500);

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
        self.join.begin(cx.now);
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
        self.join.note(&others, cx.now);
        let believed = |f: &&&Found| f.coordinator && self.join.believes(f);
        let coordinators: BTreeSet<Uuid> =
            others.iter().filter(believed).map(|f| f.member).collect();
        if !coordinators.is_empty() {
            return self.ask_one_of(&coordinators, cx);
        }
        // That a coordinator is not heard now does not mean that it is gone, or that it has not let
        // us in already: to form a group of one would split the group.
        let live = self.live_coordinators(cx.now);
        if !live.is_empty() {
            return self.ask_one_of(&live, cx);
        }
        let a_group = others.iter().any(|f| f.server);
        if a_group {
            // Its coordinator has gone, or is too busy to answer: a merge, say. It may still do so.
            return match self.join.leaderless(cx.now) < self.config.join_timeout {
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
        let times = |m: &Uuid| self.join.times_asked(*m);
        let least = coordinators.iter().map(times).min().unwrap_or(0);
        let mut candidates: Vec<Uuid> =
            coordinators.iter().copied().filter(|m| times(m) == least).collect();
        cx.rng().shuffle(&mut candidates);
        let Some(coordinator) = candidates.first().copied() else { return };
        let attempt = self.join.ask(coordinator);
        self.counters.join_attempts += 1;
        if attempt >= ATTEMPTS_BY_HEARSAY {
            self.join.discount(coordinator);
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
            Role::Joining { .. } => self.not_let_in(cx),
            Role::Idle | Role::Member | Role::Coordinator | Role::Leaving(_) | Role::Left => {}
        }
    }

    fn live_coordinators(&self, now: Time) -> BTreeSet<Uuid> {
        self.join.live_coordinators(now, self.config.join_timeout * LIVES_FOR)
    }

    /// Nobody has let us in so far.
    fn not_let_in(&mut self, cx: &mut Cx<'_>) {
        let most = self.config.max_join_attempts;
        if most == 0 || self.join.attempts() < most {
            return self.discover(cx);
        }
        if self.live_coordinators(cx.now).is_empty() {
            return self.form_group(cx);
        }
        if self.join.lasts(cx.now) < GIVE_UP_AFTER {
            return self.discover(cx);
        }
        let reason = format!(
            "the coordinator ({}) answers discovery, but not the request to join ({} tries): {}",
            self.join.asked_in_words(cx),
            self.join.attempts(),
            self.join.in_words(cx)
        );
        self.fail(reason, cx);
    }

    /// The join has failed for good.
    fn fail(&mut self, reason: String, cx: &mut Cx<'_>) {
        self.reset(cx);
        self.enter(Role::Idle, cx);
        cx.tell(AppEvent::ConnectFailed { reason: reason.into() });
    }

    /// There is no group that lets us in: a new one begins here, unless that is not wanted.
    fn form_group(&mut self, cx: &mut Cx<'_>) {
        match self.config.must_join_timeout {
            Duration::ZERO => self.found_group(cx),
            longest if self.join.lasts(cx.now) < longest => self.pause(cx),
            longest => {
                let reason = format!(
                    "found no group within GMS.must_join_timeout={longest:?}, and was not to form \
                     one: {}",
                    self.join.in_words(cx)
                );
                self.fail(reason, cx);
            }
        }
    }

    /// Becomes the first member.
    fn found_group(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(JOIN);
        let local = cx.local();
        cx.tell(AppEvent::Founded { how: self.join.in_words(cx).into() });
        let digest: Digest = [(local, SeqnoPair::default())].into_iter().collect();
        let view = Arc::new(View::new(0, local, [local]));
        self.install(view, Windows::Set(digest), None, cx);
        cx.raise(Dir::Down, Event::BecomeServer);
    }

    /// JOIN_RSP. Whoever was asked may answer, however late (JGRP-687), while we are not in a view.
    pub(super) fn receive_join_answer(&mut self, src: Uuid, msg: &Message, cx: &mut Cx<'_>) {
        let joining = matches!(self.role, Role::Discovering | Role::Pausing | Role::Joining { .. });
        if !joining || self.join.times_asked(src) == 0 {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        let local = cx.local();
        match payload::read_join_answer(&msg.body) {
            Some(JoinAnswer::Welcome(view, digest)) if view.contains(local) => {
                self.accept(src, view, digest, cx);
            }
            Some(JoinAnswer::Refused(reason)) => {
                let said: String = reason.escape_debug().take(MOST_WORDS).collect();
                self.fail(format!("{} refused: {said}", label(src, cx)), cx);
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

    /// A view came while we are not in one. If it is from who was asked, it says that we are let in,
    /// and the answer that says how is late or lost: discovery and the request are repeated soon.
    pub(super) fn view_before_answer(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        let asked = matches!(self.role, Role::Joining { coordinator } if coordinator == src);
        let late = cx.now + ANSWER_IS_LATE;
        if asked && cx.armed(JOIN).is_some_and(|at| at > late) {
            cx.arm(JOIN, late);
        }
        cx.drop_from_peer(DropReason::Stale, Some(src));
    }
}
