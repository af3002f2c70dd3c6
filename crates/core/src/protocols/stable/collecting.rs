//! The coordinator's part: collecting reports, telling what is stable, and telling it again to those
//! who seem not to know. The last of these any member can do that has heard it.

use super::form::{self, Form};
use super::round::Round;
use super::{RESEND_PAUSE, Stable};
use crate::wire::header::StableKind;
use crate::wire::{self, Hints};
use crate::{Cx, ReferenceDigest, Time, Uuid, View};
use alloc::vec::Vec;
use bytes::Bytes;

impl Stable {
    /// At the coordinator: a member has reported, building on vector `base`.
    pub(super) fn vote(
        &mut self,
        view: &View,
        by: Uuid,
        base: u64,
        digest: &ReferenceDigest,
        cx: &mut Cx<'_>,
    ) {
        let (Some(round), Some(rank)) = (&mut self.round, view.rank(by)) else { return };
        if !round.vote(rank, base, digest) || !round.is_complete() {
            return;
        }
        // The round ends before the result leaves: a report that arrives meanwhile belongs to the
        // next one (JGRP-1638).
        let round = core::mem::replace(round, Round::new(view.members.len()));
        self.held_back = round.held_back(&view.members);
        let Some(stable) = round.result(view) else { return };
        let number = self.vectors.number() + 1;
        if view.members.len() > 1 {
            self.send_result(view, &round, number, &stable, cx);
        }
        self.vectors.add(number, stable.clone(), true);
        self.agreed(view, &stable, cx);
    }

    /// Tells all the others what is stable.
    fn send_result(
        &mut self,
        view: &View,
        round: &Round,
        number: u64,
        stable: &ReferenceDigest,
        cx: &mut Cx<'_>,
    ) {
        match self.form {
            Form::Named => {
                let Some(full) = stable.resolve(view) else { return };
                let mut m = form::named(StableKind::Stability, view, &full);
                m.hints |= Hints::DONT_LOOPBACK;
                self.count_result(&m);
                cx.send_down(m);
            }
            Form::Reference => {
                // Reports build on one of two vectors, or on none.
                let mut payloads: Vec<(u64, Bytes)> = Vec::new();
                let local = cx.local();
                let others = view.members.iter().enumerate().filter(|(_, m)| **m != local);
                for (rank, m) in others {
                    let base = round.base_of(rank);
                    let payload = match payloads.iter().find(|(b, _)| *b == base) {
                        Some((_, payload)) => payload.clone(),
                        None => {
                            let payload = form::vector(number, self.vectors.changes(base, stable));
                            payloads.push((base, payload.clone()));
                            payload
                        }
                    };
                    let m = form::by_reference(*m, StableKind::Stability, view, payload);
                    self.count_result(&m);
                    cx.send_down(m);
                }
            }
        }
    }

    fn count_result(&mut self, m: &wire::Message) {
        self.counters.stability_sent += 1;
        self.counters.digest_bytes += m.length() as u64;
    }

    /// A member repeats its report, which built on vector `base`: the result may have been lost on
    /// the way to it, or the round waits for somebody, who may be this member.
    fn help(&mut self, view: &View, from: Uuid, base: u64, cx: &mut Cx<'_>) {
        if self.form == Form::Named || base != self.vectors.number() {
            self.tell_again(view, from, base, cx);
        }
        let own = view.rank(cx.local());
        if own.is_some_and(|rank| self.round.as_ref().is_some_and(|r| !r.has_voted(rank))) {
            self.report(cx);
        }
    }

    /// Sends a member the last vector once more, as what changed since `base` if that is kept.
    pub(super) fn tell_again(&mut self, view: &View, to: Uuid, base: u64, cx: &mut Cx<'_>) {
        let recently = |at: &Time| cx.now.since(*at) < RESEND_PAUSE;
        let Some(last) = self.vectors.last() else { return };
        if self.resent_at.get(&to).is_some_and(recently) {
            return;
        }
        let m = match self.form {
            Form::Named => {
                let Some(full) = last.resolve(view) else { return };
                let mut m = form::named(StableKind::Stability, view, &full);
                m.dest = Some(to.into());
                m
            }
            Form::Reference => {
                let number = self.vectors.number();
                let base = if base < number { base } else { 0 };
                let payload = form::vector(number, self.vectors.changes(base, last));
                form::by_reference(to, StableKind::Stability, view, payload)
            }
        };
        self.resent_at.insert(to, cx.now);
        self.counters.told_again += 1;
        self.counters.digest_bytes += m.length() as u64;
        cx.send_down(m);
    }

    /// `from` asks for multicasts that are gone here, because everybody had delivered them. Between
    /// members that understand it the vector says so; a JGroups member gets no answer, as from its
    /// like.
    pub(super) fn answer_late_request(&mut self, from: Uuid, cx: &mut Cx<'_>) {
        self.counters.asked_for_stable += 1;
        let Some(view) = self.view.clone() else { return };
        if self.form == Form::Reference && view.contains(from) {
            self.tell_again(&view, from, 0, cx);
        }
    }

    /// A member has reported, building on vector `base`.
    pub(super) fn take_report(
        &mut self,
        view: &View,
        from: Uuid,
        base: u64,
        digest: &ReferenceDigest,
        cx: &mut Cx<'_>,
    ) {
        self.counters.reports_received += 1;
        let voted = |rank| self.round.as_ref().is_some_and(|r| r.has_voted(rank));
        match view.rank(from).is_some_and(voted) {
            true => self.help(view, from, base, cx),
            false => self.vote(view, from, base, digest, cx),
        }
    }
}
