//! View synchrony: where every member of a view wants it, those that come into it from the same view
//! have delivered the same before they install it, of every sender, also of those that stay.
//!
//! The run is that of tail repair, with three differences. From the moment at which a member accepts
//! the view it numbers no multicasts of its own and delivers none of the others: both wait behind a
//! [`Gate`]. Its report names the last number that it has used, and the first survivor decides only
//! when all have reported; nobody is decided without, and nobody else decides. Each report also says
//! whom its member agrees with, so that a decider that has skipped a view learns who came with it. And the decision says
//! of each survivor how far it is delivered, which is all it had sent: what a member lacks of that it
//! asks the sender for, as always. With the installation the gate opens.
//!
//! Whoever is silent for too long is held against GMS as a suspect, so that a view without it takes
//! the place of the one that waits. Should that lead nowhere, a member goes on alone in the end and
//! says so.

use super::super::ReliableMulticast;
use super::payload::{Commit, Cut, Own, Report};
use super::ranges::{Ranges, after};
use super::{Run, Step, decision, hand_up};
use crate::wire::{Flags, ProtId};
use crate::{Batch, Cx, Dir, Duration, Event, Message, Uuid, View, ViewId};
use alloc::vec::Vec;

/// What the survivors of a synchronous change have to agree on.
#[derive(Debug)]
pub(super) struct Synchrony {
    /// How long a silent member is waited for.
    pub(super) patience: Duration,
    /// The places of the survivors in the view.
    with: Ranges,
    /// What was decided, of survivors and of those who are gone; nothing yet.
    decided: Option<Vec<(Uuid, Cut)>>,
}

impl Synchrony {
    pub(super) fn new(patience: Duration, view: &View, survivors: &[Uuid]) -> Self {
        let places = view.members.iter().enumerate().filter(|(_, m)| survivors.contains(m));
        Self { patience, with: places.map(|(i, _)| i as i64).collect(), decided: None }
    }
}

/// Whether multicasts pass.
#[derive(Debug, Default)]
pub(super) enum Gate {
    /// They do.
    #[default]
    Open,
    /// A view is to be installed first. Those of others wait in their windows, our own here: flow
    /// control above bounds them.
    Shut(Vec<Message>),
}

impl Gate {
    pub(super) fn shut(&mut self) {
        if matches!(self, Gate::Open) {
            *self = Gate::Shut(Vec::new());
        }
    }
}

impl super::Repair {
    /// Whether multicasts wait for a view.
    pub(in super::super) fn is_shut(&self) -> bool {
        matches!(self.gate, Gate::Shut(_))
    }

    /// Takes a multicast of our own that must wait; flow control has admitted it, and that is what its
    /// caller hears. Those of GMS make the view and do not wait.
    pub(in super::super) fn keeps_back(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> bool {
        let Gate::Shut(waiting) = &mut self.gate else { return false };
        let passes = msg.headers.get(ProtId::GMS).is_some();
        if !passes {
            if let Some(token) = msg.token.take() {
                cx.resolve(token, Ok(()));
            }
            waiting.push(core::mem::take(msg));
        }
        !passes
    }

    /// How many of our own multicasts wait.
    pub(in super::super) fn kept_back(&self) -> usize {
        match &self.gate {
            Gate::Open => 0,
            Gate::Shut(waiting) => waiting.len(),
        }
    }

    /// Whether `m` may take part: a member, or before a synchronous change one of the view that
    /// waits, which may have come with a view that this member has skipped.
    pub(super) fn is_party(&self, m: Uuid, cx: &Cx<'_>) -> bool {
        let together = self.run.as_ref().filter(|r| r.synchrony.is_some());
        cx.is_member(m) || together.is_some_and(|r| r.view.contains(m))
    }

    /// Who has to report: the survivors, and before a synchronous change also those that others
    /// agree with and this member does not know, because it has skipped the view in which they came.
    pub(super) fn awaited(&self) -> Vec<Uuid> {
        let Some(run) = &self.run else { return Vec::new() };
        let mut all = run.survivors.clone();
        let Some(synchrony) = &run.synchrony else { return all };
        for (view, report) in self.reports.values() {
            let own = report.own.as_ref().filter(|own| own.with != synchrony.with);
            let Some(own) = own.filter(|_| *view == run.view.id) else { continue };
            for (place, m) in run.view.members.iter().enumerate() {
                if own.with.contains(place as i64) && !all.contains(m) {
                    all.push(*m);
                }
            }
        }
        all
    }

    /// Whether it is known here what `view` waited for.
    pub(super) fn has_decided(&self, view: ViewId) -> bool {
        self.installed.contains(&view) || self.together.as_ref().is_some_and(|(id, _)| *id == view)
    }

    fn decided(&self) -> Option<&Vec<(Uuid, Cut)>> {
        self.run.as_ref()?.synchrony.as_ref()?.decided.as_ref()
    }
}

impl ReliableMulticast {
    /// Adds to a report what the survivors are to deliver of this member, if they are to agree on it.
    pub(super) fn with_own(&self, mut report: Report) -> Report {
        let synchrony = self.repair.run.as_ref().and_then(|r| r.synchrony.as_ref());
        let sent = self.own.window.received();
        report.own = synchrony.map(|s| Own { sent, with: s.with.clone() });
        report
    }

    /// As the decider, when all have reported: each is delivered up to the last number that it used.
    pub(super) fn cut_survivors(&mut self, cx: &mut Cx<'_>) {
        let (local, own) = (cx.local(), self.own.window.received());
        let awaited = self.repair.awaited();
        let reports = &self.repair.reports;
        let Some(run) = &mut self.repair.run else { return };
        let Some(synchrony) = &mut run.synchrony else { return };
        #[cfg(feature = "mutants")]
        let guessed = |m: &Uuid| {
            let window = self.senders.get(m).map(|s| &s.window);
            let wrong = cx.mutant(crate::mutants::Mutant::SurvivorsNotAsked);
            window.filter(|_| wrong).map(super::super::Window::delivered)
        };
        #[cfg(not(feature = "mutants"))]
        let guessed = |_: &Uuid| None;
        let cut = |m: &Uuid| {
            let reported = || reports.get(m)?.1.own.as_ref().map(|o| o.sent);
            let upto = if *m == local { Some(own) } else { reported() };
            let upto = guessed(m).or(upto)?;
            Some((*m, Cut { upto, ahead: Ranges::default(), certain: true }))
        };
        synchrony.decided = Some(awaited.iter().filter_map(cut).collect());
        self.ask_survivors(cx);
    }

    /// The decision arrived.
    pub(super) fn hear_decision(&mut self, commit: &Commit, cx: &mut Cx<'_>) {
        let run = self.repair.run.as_mut();
        let Some(synchrony) = run.and_then(|r| r.synchrony.as_mut()) else { return };
        synchrony.decided = Some(commit.cuts.clone());
        self.ask_survivors(cx);
        self.complete(cx);
    }

    /// What is missing of the survivors is asked for as always.
    fn ask_survivors(&mut self, cx: &mut Cx<'_>) {
        let cuts = self.repair.decided().cloned().unwrap_or_default();
        for (m, cut) in cuts {
            if let Some(sender) = self.senders.get_mut(&m) {
                sender.window.note_highest(cut.upto, cx.now);
                self.schedule.watch(&sender.window.gaps, cx);
            }
        }
    }

    /// Whether everything of the survivors is here that is to be delivered before the view. Always so
    /// where they do not agree on it.
    pub(super) fn has_all_of_survivors(&self) -> bool {
        let together = self.repair.run.as_ref().is_some_and(|r| r.synchrony.is_some());
        !together || self.repair.decided().is_some() && self.incomplete().is_empty()
    }

    /// The survivors of which something is missing.
    fn incomplete(&self) -> Vec<Uuid> {
        let lacks = |(m, cut): &&(Uuid, Cut)| {
            let window = self.senders.get(m).map(|s| &s.window);
            window.is_some_and(|w| decision::lacking_here(w, cut).next().is_some())
        };
        self.repair.decided().into_iter().flatten().filter(lacks).map(|(m, _)| *m).collect()
    }

    /// Something came that may have been the last to wait for.
    pub(in super::super) fn complete(&mut self, cx: &mut Cx<'_>) {
        if self.repair.decided().is_none() || !self.has_all_of_survivors() {
            return;
        }
        let decides = self.repair.run.as_ref().is_some_and(|r| r.rank(cx.local()) == 0);
        if decides {
            if self.has_all_planned() {
                self.decide(cx);
            }
            return;
        }
        let cuts = self.repair.decided().cloned().unwrap_or_default();
        let lacks = |(of, cut): &(Uuid, Cut)| {
            let frozen = self.repair.frozen.get(of).filter(|f| f.cut.is_none());
            frozen.is_some_and(|f| f.sender.window.holding(*of, None).lacking(cut).next().is_some())
        };
        if !cuts.iter().any(lacks) {
            self.settle(&cuts, cx);
        }
    }

    /// Does what is due in a synchronous change.
    pub(super) fn proceed_together(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(run) = &self.repair.run else { return };
        let Some(synchrony) = &run.synchrony else { return };
        let (patience, waited) = (synchrony.patience, cx.now.since(run.since));
        if waited >= patience * 3 {
            return self.go_on_alone(cx);
        }
        // The decider names who is silent first, and makes the view that replaces this one.
        let decides = run.rank(local) == 0;
        if waited >= if decides { patience } else { patience * 2 } {
            let decider = run.survivors.first().copied();
            let silent = match &synchrony.decided {
                Some(_) => self.incomplete(),
                None if decides => self.repair.silent(local),
                None => decider.into_iter().collect(),
            };
            cx.raise(Dir::Up, Event::HoldsUpView(silent));
        }
        match run.step {
            Step::Reporting if decides => self.collect(cx),
            Step::Fetching { .. } => self.fetch(cx),
            Step::Reporting => self.send_report(cx),
        }
    }

    /// The decision is complete, or nobody waits for it any longer: delivers what it says of the
    /// survivors, of this member too. Whether it says so of all.
    pub(super) fn deliver_together(&mut self, run: &mut Run, cx: &mut Cx<'_>) -> bool {
        let Some(synchrony) = &mut run.synchrony else { return true };
        let mut agreed = synchrony.decided.is_some();
        let cuts = synchrony.decided.take().unwrap_or_default();
        for (m, cut) in &cuts {
            let Some(sender) = self.senders.get_mut(m) else { continue };
            self.counters.received += hand_up(*m, &mut sender.window, cut, cx);
            agreed &= sender.window.delivered() == cut.upto;
        }
        self.deliver_lost_copies(cx);
        // Who is not named itself is with nobody else: the others with whom it was would miss it.
        let local = cx.local();
        agreed &= run.survivors.iter().all(|m| *m == local || cuts.iter().any(|(of, _)| of == m));
        let of_those_who_stay = cuts.into_iter().filter(|(m, _)| run.view.contains(*m));
        if agreed {
            self.repair.together = Some((run.view.id, of_those_who_stay.collect()));
        }
        agreed
    }

    /// A view was installed: what waited goes on, that of the others and our own.
    pub(in super::super) fn thaw(&mut self, cx: &mut Cx<'_>) {
        let Gate::Shut(waiting) = core::mem::take(&mut self.repair.gate) else { return };
        for (m, sender) in &mut self.senders {
            let (mut batch, mut early) = (Batch::new(*m, true, false), Batch::new(*m, true, true));
            let window = &mut sender.window;
            while let Some(msg) = window.release() {
                let to = if msg.has(Flags::OOB) { &mut early } else { &mut batch };
                to.push(msg.into());
            }
            // Out of band is not delayed by what is missing before it.
            let mut n = window.delivered();
            while after(window.received(), n) {
                n = n.wrapping_add(1);
                if window.holds_oob(n)
                    && let Some(msg) = window.deliver_held(n)
                {
                    early.push(msg.into());
                }
            }
            self.counters.received += (batch.len() + early.len()) as u64;
            cx.deliver_up(early);
            cx.deliver_up(batch);
        }
        for mut msg in waiting {
            self.number(&mut msg, cx);
            cx.send_down(msg);
        }
        self.watch_own_window(cx);
    }
}
