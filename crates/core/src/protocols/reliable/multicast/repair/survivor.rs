//! The part of every survivor: it reports to the decider until it hears the decision, gives what it
//! is asked for, and tells those who come late.

use super::super::super::parking::Parking;
use super::super::super::retransmit::{MOST_RESENT, MOST_RESENT_BYTES};
use super::super::super::window::Taken;
use super::super::{ReliableMulticast, receive, serve};
use super::payload::{self, Arrived, Commit, Cut, Holding, Report};
use super::{REPEAT, Step};
use crate::wire::header::NakAckHeader;
use crate::{Batch, Cx, DropReason, Uuid, ViewId, tag};
use alloc::vec::Vec;

impl ReliableMulticast {
    pub(super) fn send_report(&mut self, cx: &mut Cx<'_>) {
        let report = self.repair.own_report();
        let report = self.with_own(report);
        let Some(run) = &mut self.repair.run else { return };
        let Some(to) = run.decider(cx.local(), cx.now) else { return };
        run.reported_at = Some(cx.now);
        cx.send_down(payload::report(to, run.view.id, &report));
    }

    /// The messages of this protocol in a batch of unicasts.
    pub(in super::super) fn receive_repair(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        batch.retain(|m| {
            if !payload::is_ours(m) {
                return true;
            }
            if !self.repair.is_party(src, cx) || !tag::repairs_tails(src) {
                cx.drop_from_peer(DropReason::NotAMember, Some(src));
                return false;
            }
            match payload::read(m) {
                Some(Arrived::Report(view, r)) => self.receive_report(src, view, r, cx),
                Some(Arrived::Commit(view, c)) => self.receive_commit(src, view, &c, cx),
                None => cx.drop_from_peer(DropReason::Malformed, Some(src)),
            }
            false
        });
    }

    /// A report about the view that waits here counts when this member decides; one about a view
    /// that is installed here is answered; one about a view that is not known here yet waits. That
    /// somebody has been silent for too long is for the timer to say: after a freeze, what is still to
    /// be read may be what was waited for.
    fn receive_report(&mut self, src: Uuid, view: ViewId, report: Report, cx: &mut Cx<'_>) {
        self.repair.reports.insert(src, (view, report));
        let local = cx.local();
        match &self.repair.run {
            Some(run) if run.view.id == view => {
                let decides = run.decides(local, cx.now) && matches!(run.step, Step::Reporting);
                if decides && self.repair.silent(local).is_empty() {
                    self.collect(cx);
                }
            }
            Some(_) | None if self.repair.has_decided(view) => self.answer_report(src, cx),
            Some(_) | None => {}
        }
    }

    /// Answers all reports about a view.
    pub(super) fn answer_those_who_wait(&mut self, view: ViewId, cx: &mut Cx<'_>) {
        let about_it = self.repair.reports.iter().filter(|(_, (id, _))| *id == view);
        let waiting: Vec<Uuid> = about_it.map(|(m, _)| *m).collect();
        for m in waiting {
            self.answer_report(m, cx);
        }
    }

    /// Sends a member that reported what it lacks of the decided senders, and the decisions; nothing
    /// if something it asks about is not decided here.
    fn answer_report(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let Some((view, report)) = self.repair.reports.remove(&to) else { return };
        let mut commit = Commit::default();
        let (mut messages, mut bytes) = (0, 0);
        if report.own.is_some() {
            // It waits for a synchronous change of the view.
            let decided = self.repair.together.as_ref().filter(|(id, _)| *id == view);
            let Some((_, cuts)) = decided else { return };
            commit.cuts.extend_from_slice(cuts);
        }
        for theirs in report.windows.iter().filter(|w| w.cut.is_none()) {
            let Some(frozen) = self.repair.frozen.get(&theirs.of) else { return };
            let Some(cut) = &frozen.cut else { return };
            for n in theirs.lacking(cut) {
                let Some(kept) = frozen.sender.window.get(n) else { continue };
                let enough = messages >= MOST_RESENT || bytes >= MOST_RESENT_BYTES;
                if enough || !self.served.admits(kept.length(), cx.now) {
                    break;
                }
                messages += 1;
                bytes += kept.length();
                cx.send_down(serve::answer(kept, theirs.of, n, to, self.settings.id));
            }
            commit.cuts.push((theirs.of, cut.clone()));
        }
        self.repair.counters.pushed += messages as u64;
        if !commit.cuts.is_empty() {
            cx.send_down(payload::commit(to, view, &commit));
        }
    }

    fn receive_commit(&mut self, src: Uuid, view: ViewId, commit: &Commit, cx: &mut Cx<'_>) {
        let waits = self.repair.run.as_ref().filter(|run| run.view.id == view);
        let Some(run) = waits.filter(|_| src != cx.local()) else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        let together = run.synchrony.is_some();
        // The rest comes as the answer to the next report: at once, if this one brought something.
        let early = run.reported_at.is_none_or(|at| cx.now.since(at) >= REPEAT / 10);
        let own = self.repair.own_report();
        let undecided: Vec<&Holding> = own.windows.iter().filter(|w| w.cut.is_none()).collect();
        let decided = |w: &Holding| commit.cuts.iter().find(|(m, _)| *m == w.of).map(|(_, c)| c);
        let cuts: Vec<(&Holding, &Cut)> =
            undecided.iter().filter_map(|w| Some((*w, decided(w)?))).collect();
        if cuts.len() < undecided.len() {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
        let complete = cuts.iter().all(|(own, cut)| own.lacking(cut).next().is_none());
        if together {
            self.hear_decision(commit, cx);
        } else if complete {
            return self.settle(&commit.cuts, cx);
        }
        if !complete && early {
            self.send_report(cx);
        }
    }

    /// A message of an excluded member that a survivor sent again.
    pub(in super::super) fn receive_frozen(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let (now, id) = (cx.now, self.settings.id);
        let parking: &mut Parking = &mut self.parking;
        let Some(frozen) = self.repair.frozen.get_mut(&src).filter(|f| f.cut.is_none()) else {
            return;
        };
        let window = &mut frozen.sender.window;
        let mut fetched = 0;
        batch.retain(|m| {
            if let Some(NakAckHeader::Msg(n)) = receive::header(m, id) {
                let n = *n;
                fetched += u64::from(window.hold_arrival(n, m, now, parking) == Taken::Held);
            }
            false
        });
        self.repair.counters.fetched += fetched;
        if fetched > 0 {
            self.fetched(cx);
        }
    }
}
