//! Tail repair: before a view without some members is installed, those that stay agree on which of
//! their last messages everybody delivers, and give each other what is missing. The original sender
//! cannot be asked any more; what anybody kept, all get.
//!
//! GMS hands down the accepted view ([`Event::Freeze`](crate::Event::Freeze)) and installs it when it
//! hears [`Event::Repaired`](crate::Event::Repaired). In between nothing of the excluded members is
//! accepted but what survivors send again. One survivor decides, the first of the view that knows
//! this protocol: the others report what they hold, it collects the union, fetches what it lacks
//! itself, and answers each report with the missing messages and the decision. Whoever has a decision
//! keeps it, with the messages, until the first stability in a later view; so whoever comes late,
//! and whoever takes over from a decider that died, learns the same.
//!
//! Every wait ends: after [`PATIENCE`] a silent decider is replaced by the next, a silent survivor
//! decided without; after three times that long a member installs the view with what it has. Where
//! that leaves the outcome open it is said ([`Trace::TailUnknown`]) and counted. [`decision`] is the
//! rule, [`payload`] what travels.

mod decision;
mod payload;
mod ranges;
#[cfg(test)]
mod tests;

use super::super::parking::Parking;
use super::super::retransmit::{self, MOST_RESENT, MOST_RESENT_BYTES};
use super::super::window::Taken;
use super::{ReliableMulticast, Sender};
use crate::wire::{Flags, Header, Hints, ProtId, SeqnoList, header::NakAckHeader};
use crate::{
    AppEvent, Batch, Cx, Dir, DropReason, Duration, Event, Message, Time, TimerKey, Trace, Uuid,
    View, ViewId, tag,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use payload::{Arrived, Commit, Report};
pub(crate) use payload::{Cut, Holding};
pub(crate) use ranges::Ranges;
use ranges::after;

/// While a view waits: reports and requests are repeated.
pub(super) const REPAIR: TimerKey = TimerKey(5);
const REPEAT: Duration = Duration::from_millis(100);
/// A survivor that has not reported for this long may have missed the view.
const MISSES_VIEW: Duration = Duration::from_millis(200);
/// How long a silent member is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many members may decide, one after the other.
const DECIDERS: usize = 3;

/// The state of the repair.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Windows of members that are gone, kept for those who come late.
    frozen: BTreeMap<Uuid, Frozen>,
    run: Option<Run>,
    /// The latest report of each member, which may be ahead of our own acceptance of the view.
    reports: BTreeMap<Uuid, (ViewId, Report)>,
    pub(super) counters: Counters,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) runs: u64,
    pub(super) fetched: u64,
    pub(super) pushed: u64,
    pub(super) unknown: u64,
}

/// The window of an excluded member.
#[derive(Debug)]
struct Frozen {
    sender: Sender,
    cut: Option<Cut>,
}

/// A view waits for the decision.
#[derive(Debug)]
struct Run {
    view: Arc<View>,
    excluded: Vec<Uuid>,
    /// The survivors that take part, in the order of the view; this member among them.
    survivors: Vec<Uuid>,
    since: Time,
    step: Step,
    view_sent_at: Time,
    reported_at: Option<Time>,
}

#[derive(Debug)]
enum Step {
    /// Reporting to the decider, or waiting for reports as the decider.
    Reporting,
    /// As the decider: these messages are still to be fetched.
    Fetching { cuts: Vec<(Uuid, Cut)>, until: Time, attempts: usize },
}

impl Run {
    /// The place of a member among the survivors.
    fn rank(&self, m: Uuid) -> usize {
        self.survivors.iter().position(|s| *s == m).unwrap_or(usize::MAX)
    }

    /// Whose turn it is to decide, counted from 0.
    fn turn(&self, now: Time) -> usize {
        let passed = now.since(self.since).as_nanos() / PATIENCE.as_nanos();
        usize::try_from(passed).unwrap_or(usize::MAX)
    }

    /// Whether `local` decides now.
    fn decides(&self, local: Uuid, now: Time) -> bool {
        self.rank(local) <= self.turn(now).min(DECIDERS - 1)
    }

    /// To whom this member reports.
    fn decider(&self, local: Uuid, now: Time) -> Option<Uuid> {
        let last = self.rank(local).min(DECIDERS).checked_sub(1)?;
        self.survivors.get(self.turn(now).min(last)).copied()
    }

    /// When `local`, as the decider, stops waiting for reports.
    fn collects_until(&self, local: Uuid) -> Time {
        self.since + PATIENCE * (self.rank(local) as u32 + 1)
    }
}

impl Repair {
    /// The window of an excluded member.
    pub(super) fn window(&self, of: Uuid) -> Option<&super::Window> {
        self.frozen.get(&of).map(|f| &f.sender.window)
    }

    /// Whether a view waits.
    pub(super) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    pub(super) fn excluded(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.frozen.keys().copied()
    }

    /// Memory that is held for latecomers: payload bytes and messages.
    pub(super) fn held(&self) -> (u64, u64) {
        let windows = self.frozen.values().map(|f| &f.sender.window);
        windows.fold((0, 0), |(b, n), w| (b + w.bytes(), n + w.messages()))
    }

    fn own_report(&self) -> Report {
        let windows = self.frozen.iter().map(|(m, f)| f.sender.window.holding(*m, f.cut.clone()));
        Report { windows: windows.collect() }
    }
}

impl ReliableMulticast {
    /// GMS has accepted a view that excludes members.
    pub(super) fn freeze(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(current) = cx.group().view.clone() else { return };
        let excluded = current.without(view);
        for m in &excluded {
            if let Some(sender) = self.senders.remove(m) {
                self.repair.frozen.insert(*m, Frozen { sender, cut: None });
            }
        }
        let takes_part = |m: &Uuid| *m == local || tag::repairs_tails(*m);
        let together = view.members.iter().copied().filter(|m| current.contains(*m));
        self.repair.run = Some(Run {
            view: Arc::clone(view),
            excluded,
            survivors: together.filter(takes_part).collect(),
            since: cx.now,
            step: Step::Reporting,
            view_sent_at: cx.now,
            reported_at: None,
        });
        self.repair.counters.runs += 1;
        self.repair.reports.retain(|_, (id, _)| id.id >= view.id.id);
        cx.trace(|| Trace::TailRepair { view: view.id, step: "frozen" });
        self.proceed(cx);
    }

    /// Does what is due: now, every [`REPEAT`], and when something arrives.
    pub(super) fn proceed(&mut self, cx: &mut Cx<'_>) {
        let Some(run) = &self.repair.run else { return };
        let local = cx.local();
        cx.arm(REPAIR, cx.now + REPEAT);
        if run.decides(local, cx.now) {
            match run.step {
                Step::Reporting => self.collect(cx),
                Step::Fetching { .. } => self.fetch(cx),
            }
        } else if run.turn(cx.now) >= DECIDERS {
            self.go_on_alone(cx);
        } else {
            self.send_report(cx);
        }
    }

    fn send_report(&mut self, cx: &mut Cx<'_>) {
        let report = self.repair.own_report();
        let Some(run) = &mut self.repair.run else { return };
        let Some(to) = run.decider(cx.local(), cx.now) else { return };
        run.reported_at = Some(cx.now);
        cx.send_down(payload::report(to, run.view.id, &report));
    }

    /// As the decider: decides when everybody has reported, or has had the time to.
    fn collect(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let own = self.repair.own_report();
        let Some(run) = &mut self.repair.run else { return };
        let reports = &self.repair.reports;
        let reported = |m: &Uuid| reports.get(m).is_some_and(|(id, _)| *id == run.view.id);
        let others = run.survivors.iter().copied().filter(|m| *m != local);
        let silent: Vec<Uuid> = others.filter(|m| !reported(m)).collect();
        if !silent.is_empty() && cx.now < run.collects_until(local) {
            if cx.now.since(run.view_sent_at) >= MISSES_VIEW {
                run.view_sent_at = cx.now;
                cx.raise(Dir::Up, Event::MissesView(silent));
            }
            return;
        }
        let all = || reports.values().filter(|(id, _)| *id == run.view.id).map(|(_, r)| r);
        let cuts = own.windows.iter().filter_map(|w| {
            let others = all().filter_map(|r| r.of(w.of));
            let holdings: Vec<&Holding> = core::iter::once(w).chain(others).collect();
            Some((w.of, decision::cut(&holdings)?))
        });
        let cuts = cuts.collect();
        run.step = Step::Fetching { cuts, until: cx.now + PATIENCE, attempts: 0 };
        if !silent.is_empty() {
            self.unknown(&silent, cx);
        }
        self.fetch(cx);
    }

    /// As the decider: asks for what it lacks itself, and decides when it depends on nobody.
    fn fetch(&mut self, cx: &mut Cx<'_>) {
        let id = self.settings.id;
        let own = self.repair.own_report();
        let Some(run) = &mut self.repair.run else { return };
        let Step::Fetching { cuts, until, attempts } = &mut run.step else { return };
        let reports = self.repair.reports.iter().filter(|(_, (id, _))| *id == run.view.id);
        let mut wanted: BTreeMap<(Uuid, Uuid), Vec<i64>> = BTreeMap::new();
        let mut short = Vec::new();
        for (of, cut) in cuts.iter_mut() {
            let Some(holding) = own.of(*of) else { continue };
            let lacking = decision::lacking(holding, cut);
            if lacking.is_empty() {
                continue;
            }
            if cx.now >= *until {
                *cut = decision::shortened(cut, &lacking);
                short.push(*of);
                continue;
            }
            for n in lacking {
                let reports = reports.clone().map(|(m, (_, r))| (*m, r));
                if let Some(from) = decision::holder(reports, *of, n, *attempts) {
                    wanted.entry((from, *of)).or_default().push(n);
                }
            }
        }
        if !short.is_empty() {
            return self.unknown(&short, cx);
        }
        if wanted.is_empty()
            && cuts
                .iter()
                .all(|(of, cut)| own.of(*of).is_none_or(|h| decision::lacking(h, cut).is_empty()))
        {
            let cuts = core::mem::take(cuts);
            return self.decided(cuts, cx);
        }
        *attempts += 1;
        let span = self.schedule.span();
        for ((from, of), numbers) in wanted {
            for list in lists(&numbers, span) {
                let header = Header::NakAck(NakAckHeader::XmitReq(Some(of.into())));
                cx.send_down(retransmit::request(from.into(), id, header, list));
            }
        }
    }

    /// The decision is made and everything it names is here: it takes effect, and all who have
    /// reported hear of it.
    fn decided(&mut self, cuts: Vec<(Uuid, Cut)>, cx: &mut Cx<'_>) {
        let Some(id) = self.repair.run.as_ref().map(|r| r.view.id) else { return };
        self.apply(&cuts, cx);
        let waiting: Vec<Uuid> =
            self.repair.reports.iter().filter(|(_, (v, _))| *v == id).map(|(m, _)| *m).collect();
        for m in waiting {
            self.answer_report(m, cx);
        }
        self.thaw(cx);
    }

    /// Delivers what the decision says of each sender.
    fn apply(&mut self, cuts: &[(Uuid, Cut)], cx: &mut Cx<'_>) {
        let mut contradicted = Vec::new();
        for (of, cut) in cuts {
            let Some(frozen) = self.repair.frozen.get_mut(of) else { continue };
            if frozen.cut.is_some() {
                continue;
            }
            if after(frozen.sender.window.delivered(), cut.upto) {
                contradicted.push(*of);
            }
            frozen.cut = Some(cut.clone());
            let window = &mut frozen.sender.window;
            let mut batch = Batch::new(*of, true, false);
            let mut oob = Vec::new();
            while after(cut.upto, window.delivered()) {
                let Some(m) = window.release() else { break };
                match m.has(Flags::OOB) {
                    true => oob.push(m),
                    false => batch.push(m.into()),
                }
            }
            oob.extend(cut.ahead.iter().filter_map(|n| window.deliver_held(n)));
            self.counters.received += (batch.len() + oob.len()) as u64;
            cx.deliver_up(batch);
            for m in oob {
                cx.deliver_up(Batch::of(*of, m.into()));
            }
        }
        if !contradicted.is_empty() {
            self.unknown(&contradicted, cx);
        }
    }

    /// The view may be installed.
    fn thaw(&mut self, cx: &mut Cx<'_>) {
        let Some(run) = self.repair.run.take() else { return };
        cx.disarm(REPAIR);
        cx.trace(|| Trace::TailRepair { view: run.view.id, step: "repaired" });
        cx.raise(Dir::Up, Event::Repaired(run.view.id));
    }

    /// Nobody decided in time.
    fn go_on_alone(&mut self, cx: &mut Cx<'_>) {
        let Some(run) = &self.repair.run else { return };
        let excluded = run.excluded.clone();
        let alone = |(m, f): (&Uuid, &Frozen)| {
            let own = f.sender.window.holding(*m, f.cut.clone());
            Some((*m, decision::cut(&[&own])?))
        };
        let undecided = self.repair.frozen.iter().filter(|(m, _)| excluded.contains(m));
        let cuts: Vec<(Uuid, Cut)> = undecided.filter_map(alone).collect();
        self.unknown(&excluded, cx);
        self.apply(&cuts, cx);
        self.thaw(cx);
    }

    /// Whether all survivors have the same of these members is not known.
    fn unknown(&mut self, whose: &[Uuid], cx: &mut Cx<'_>) {
        self.repair.counters.unknown += 1;
        cx.trace(|| Trace::TailUnknown { of: whose.to_vec() });
        cx.tell(AppEvent::TailUnknown { of: whose.to_vec() });
        // What was shortened is decided at the next look.
        if self.repair.run.is_some() {
            cx.arm(REPAIR, cx.now);
        }
    }

    /// The messages of this protocol in a batch of unicasts.
    pub(super) fn receive_repair(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        batch.retain(|m| {
            if !payload::is_ours(m) {
                return true;
            }
            if !cx.is_member(src) || !tag::repairs_tails(src) {
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

    fn receive_report(&mut self, src: Uuid, view: ViewId, report: Report, cx: &mut Cx<'_>) {
        self.repair.reports.insert(src, (view, report));
        let local = cx.local();
        match &self.repair.run {
            Some(run) if run.view.id == view => {
                if run.decides(local, cx.now) && matches!(run.step, Step::Reporting) {
                    self.collect(cx);
                }
            }
            // Ours is another view: it may be decided already.
            Some(_) | None => self.answer_report(src, cx),
        }
    }

    /// Sends a member that reported what it lacks of the decided senders, and the decisions; nothing
    /// if something it asks about is not decided here.
    fn answer_report(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let id = self.settings.id;
        let Some((view, report)) = self.repair.reports.get(&to) else { return };
        let view = *view;
        let mut commit = Commit::default();
        let (mut messages, mut bytes) = (0, 0);
        for theirs in report.windows.iter().filter(|w| w.cut.is_none()) {
            let Some(frozen) = self.repair.frozen.get(&theirs.of) else { return };
            let Some(cut) = &frozen.cut else { return };
            for n in decision::lacking(theirs, cut) {
                let Some(kept) = frozen.sender.window.get(n) else { continue };
                if messages >= MOST_RESENT || bytes >= MOST_RESENT_BYTES {
                    break;
                }
                messages += 1;
                bytes += kept.length();
                cx.send_down(resent(kept.clone().into(), (theirs.of, n), to, id));
            }
            commit.cuts.push((theirs.of, cut.clone()));
        }
        self.repair.counters.pushed += messages as u64;
        if !commit.cuts.is_empty() {
            cx.send_down(payload::commit(to, view, &commit));
        }
        self.repair.reports.remove(&to);
    }

    fn receive_commit(&mut self, src: Uuid, view: ViewId, commit: &Commit, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(run) = &self.repair.run else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        if run.view.id != view || src == local {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        }
        let own = self.repair.own_report();
        let undecided = || own.windows.iter().filter(|w| w.cut.is_none());
        let decided = |w: &Holding| commit.cuts.iter().find(|(m, _)| *m == w.of).map(|(_, c)| c);
        if undecided().any(|w| decided(w).is_none()) {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
        let complete =
            undecided().all(|w| decided(w).is_some_and(|cut| decision::lacking(w, cut).is_empty()));
        if complete {
            self.apply(&commit.cuts, cx);
            return self.thaw(cx);
        }
        // The rest comes as the answer to the next report: at once, if this one brought something.
        let early = run.reported_at.is_none_or(|at| cx.now.since(at) >= REPEAT / 10);
        if early {
            self.send_report(cx);
        }
    }

    /// A message of an excluded member that a survivor sent again.
    pub(super) fn receive_frozen(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let (now, id) = (cx.now, self.settings.id);
        let parking: &mut Parking = &mut self.parking;
        let Some(frozen) = self.repair.frozen.get_mut(&src).filter(|f| f.cut.is_none()) else {
            return;
        };
        let window = &mut frozen.sender.window;
        let mut fetched = 0;
        batch.retain(|m| {
            if let Some(NakAckHeader::Msg(n)) = super::receive::header(m, id) {
                let n = *n;
                fetched += u64::from(window.hold_arrival(n, m, now, parking) == Taken::Held);
            }
            false
        });
        self.repair.counters.fetched += fetched;
        let fetching =
            self.repair.run.as_ref().is_some_and(|r| matches!(r.step, Step::Fetching { .. }));
        if fetched > 0 && fetching && self.is_all_fetched() {
            self.fetch(cx);
        }
    }

    fn is_all_fetched(&self) -> bool {
        let Some(Step::Fetching { cuts, .. }) = self.repair.run.as_ref().map(|r| &r.step) else {
            return false;
        };
        cuts.iter().all(|(of, cut)| {
            let frozen = self.repair.frozen.get(of);
            frozen.is_none_or(|f| {
                decision::lacking(&f.sender.window.holding(*of, None), cut).is_empty()
            })
        })
    }

    /// A view was installed. If it is not the one that waited, that one never will be.
    pub(super) fn repair_installed(&mut self, view: &View, cx: &mut Cx<'_>) {
        if self.repair.run.as_ref().is_some_and(|r| r.view.id.id <= view.id.id) {
            self.repair.run = None;
            cx.disarm(REPAIR);
        }
        self.repair.reports.retain(|m, _| view.contains(*m));
    }

    /// Everybody has installed the installed view: nobody will ask about those before it.
    pub(super) fn repair_stable(&mut self) {
        match &self.repair.run {
            Some(run) => self.repair.frozen.retain(|m, _| run.excluded.contains(m)),
            None => self.repair.frozen.clear(),
        }
    }
}

/// A kept message as it is sent again to one member.
fn resent(mut m: Message, (of, seqno): (Uuid, i64), to: Uuid, id: ProtId) -> Message {
    m.src = Some(of.into());
    m.dest = Some(to.into());
    m.hints = Hints::DONT_LOOPBACK;
    m.headers.put(id, Header::NakAck(NakAckHeader::XmitRsp(seqno)));
    m
}

/// Requests for these ascending numbers that span at most `span` each.
fn lists(numbers: &[i64], span: u32) -> Vec<SeqnoList> {
    let mut lists: Vec<SeqnoList> = Vec::new();
    for n in numbers {
        if !lists.last_mut().is_some_and(|l| l.insert(*n)) {
            let rest = numbers.last().map_or(0, |last| last.wrapping_sub(*n));
            let size = u32::try_from(rest.saturating_add(1)).unwrap_or(span).min(span);
            let mut list = SeqnoList::new(*n, size);
            list.insert(*n);
            lists.push(list);
        }
    }
    lists
}
