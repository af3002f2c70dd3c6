//! The part of the decider: it waits for the reports, fetches what it lacks, and decides when it
//! depends on nobody any more.

use super::super::super::retransmit;
use super::super::ReliableMulticast;
use super::decision::{self, Heard};
use super::payload::{Cut, Holding, Report};
use super::{MISSES_VIEW, PATIENCE, Step};
use crate::wire::{Header, header::NakAckHeader};
use crate::{Cx, Dir, Event, Uuid};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl ReliableMulticast {
    /// Goes on to fetching when everybody has reported, or has had the time to.
    pub(super) fn collect(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let own = self.repair.own_report();
        let silent = self.repair.silent(local);
        let Some(run) = &mut self.repair.run else { return };
        let reports = &self.repair.reports;
        let about_it = || reports.iter().filter(|(_, (id, _))| *id == run.view.id);
        #[cfg(feature = "mutants")]
        let silent = match cx.mutant(crate::mutants::Mutant::ReportsNotAwaited) {
            true => Vec::new(),
            false => silent,
        };
        let together = run.synchrony.is_some();
        if !silent.is_empty() && (together || cx.now < run.collects_until(local)) {
            if cx.now.since(run.view_sent_at) >= MISSES_VIEW {
                run.view_sent_at = cx.now;
                cx.raise(Dir::Up, Event::MissesView(silent));
            }
            return;
        }
        let heard = |of: Uuid| match silent.is_empty()
            && (run.parted.is_empty() || run.apart().contains(&of))
        {
            true if run.foreign => Heard::AllOfOurs,
            true => Heard::All,
            false => Heard::Some,
        };
        let cuts = own.windows.iter().filter_map(|w| {
            let others = about_it().filter_map(|(_, (_, r))| r.of(w.of));
            let holdings: Vec<&Holding> = core::iter::once(w).chain(others).collect();
            Some((w.of, decision::cut(&holdings, heard(w.of))?))
        });
        let cuts = cuts.collect();
        let patience = run.synchrony.as_ref().map_or(PATIENCE, |s| s.patience);
        run.step = Step::Fetching { cuts, until: cx.now + patience, attempts: 0 };
        self.cut_survivors(cx);
        self.fetch(cx);
    }

    /// Decides, or asks for what it lacks itself. What nobody gives in time the decision does without.
    pub(super) fn fetch(&mut self, cx: &mut Cx<'_>) {
        let missing = self.missing();
        let Some(run) = &mut self.repair.run else { return };
        let Step::Fetching { cuts, until, attempts } = &mut run.step else { return };
        if cx.now >= *until {
            for (of, cut) in cuts.iter_mut().filter(|(of, _)| missing.contains_key(of)) {
                if let Some(frozen) = self.repair.frozen.get(of) {
                    *cut = decision::shortened(&frozen.sender.window, cut);
                }
            }
        }
        if missing.is_empty() || cx.now >= *until {
            return self.decide(cx);
        }
        let reports = self.repair.reports.iter().filter(|(_, (id, _))| *id == run.view.id);
        let reports: Vec<(Uuid, &Report)> = reports.map(|(m, (_, r))| (*m, r)).collect();
        let mut wanted: BTreeMap<(Uuid, Uuid), Vec<i64>> = BTreeMap::new();
        for (of, numbers) in &missing {
            for n in numbers {
                let holder = decision::holder(&reports, *of, *n, *attempts);
                if let Some(from) = holder {
                    wanted.entry((from, *of)).or_default().push(*n);
                }
            }
        }
        *attempts += 1;
        for ((from, of), numbers) in wanted {
            for list in self.schedule.lists(numbers.iter().map(|n| (*n, *n))) {
                let header = Header::NakAck(NakAckHeader::XmitReq(Some(of.into())));
                cx.send_down(retransmit::request(from.into(), self.settings.id, header, list));
            }
        }
    }

    /// What is to be fetched still, by former member.
    fn missing(&self) -> BTreeMap<Uuid, Vec<i64>> {
        let lacking = |(of, cut): &(Uuid, Cut)| {
            let window = &self.repair.frozen.get(of)?.sender.window;
            let numbers: Vec<i64> = decision::lacking_here(window, cut).collect();
            (!numbers.is_empty()).then_some((*of, numbers))
        };
        self.planned().iter().filter_map(lacking).collect()
    }

    /// Something of what was to be fetched came: decides if it was the last.
    pub(super) fn fetched(&mut self, cx: &mut Cx<'_>) {
        if !self.planned().is_empty() && self.has_all_planned() {
            self.decide(cx);
        }
    }

    /// Whether nothing is to be fetched any more.
    pub(super) fn has_all_planned(&self) -> bool {
        self.planned().iter().all(|(of, cut)| {
            let frozen = self.repair.frozen.get(of);
            frozen.is_none_or(|f| decision::lacking_here(&f.sender.window, cut).next().is_none())
        })
    }

    /// What will be decided as soon as everything that it names is here.
    fn planned(&self) -> &[(Uuid, Cut)] {
        match self.repair.run.as_ref().map(|r| &r.step) {
            Some(Step::Fetching { cuts, .. }) => cuts,
            Some(Step::Reporting) | None => &[],
        }
    }

    pub(super) fn decide(&mut self, cx: &mut Cx<'_>) {
        if !self.has_all_of_survivors() {
            // They were asked for, and the last one leads here again.
            return;
        }
        let cuts = self.planned().to_vec();
        self.settle(&cuts, cx);
    }
}
