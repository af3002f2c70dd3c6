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
//! and whoever takes over from a decider that died, learns the same. But it tells only those who
//! wait for a view that it has itself installed since: where a group parts, both sides decide about
//! the members that both have lost, and the one's decision is not the other's. A merged view brings
//! the sides together; who comes from another one is not asked.
//!
//! Every wait ends: after [`PATIENCE`] a silent decider is replaced by the next, a silent survivor
//! decided without; after three times that long a member installs the view with what it has. Such
//! decisions are marked ([`Cut::certain`]), and whoever acts on one says so
//! ([`Trace::TailUnknown`]) and counts it. [`decision`] is the rule, [`payload`] what travels,
//! [`decider`] and [`survivor`] the two parts that members play.

mod decider;
mod decision;
mod payload;
mod ranges;
mod survivor;
mod synchrony;
#[cfg(test)]
mod tests;

use super::{ReliableMulticast, Sender};
use crate::wire::Flags;
use crate::{
    AppEvent, Batch, Cx, Dir, Duration, Event, Time, TimerKey, Trace, Uuid, View, ViewId, tag,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use payload::Report;
pub(crate) use payload::{Cut, Holding};
pub(crate) use ranges::Ranges;
use ranges::after;
use synchrony::{Gate, Synchrony};

/// While a view waits: reports and requests are repeated.
pub(super) const REPAIR: TimerKey = TimerKey(5);
const REPEAT: Duration = Duration::from_millis(100);
/// A survivor that has not reported for this long may have missed the view.
const MISSES_VIEW: Duration = Duration::from_millis(200);
/// How long a silent member is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many members may decide, one after the other.
const DECIDERS: usize = 3;
/// How many views are remembered for which a decision holds.
const MOST_VIEWS: usize = 64;

/// The state of the repair.
#[derive(Debug, Default)]
pub(super) struct Repair {
    /// Windows of members that are gone, kept for those who come late.
    frozen: BTreeMap<Uuid, Frozen>,
    run: Option<Run>,
    /// The latest report of each member, which may be ahead of our own acceptance of the view.
    reports: BTreeMap<Uuid, (ViewId, Report)>,
    /// The views that this member has installed since there are frozen windows: what was decided
    /// holds for these.
    installed: BTreeSet<ViewId>,
    gate: Gate,
    /// What the last synchronous change of the view came to: up to where each survivor is heard.
    together: Option<(ViewId, Vec<(Uuid, Cut)>)>,
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
    /// The survivors that take part, in the order of the view; this member among them. Those that a
    /// merge brings back are none: they lost the excluded members elsewhere, and decided there.
    survivors: Vec<Uuid>,
    /// Those members, who may have delivered what nobody here has, or less.
    parted: Vec<Uuid>,
    /// Members of JGroups stay too, of whom nobody knows what they delivered.
    foreign: bool,
    /// The survivors agree on their own messages too.
    synchrony: Option<Synchrony>,
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
    /// Whether the survivors agree on what `m` sent, who is gone or was.
    fn decides_on(&self, m: Uuid) -> bool {
        self.excluded.contains(&m) || self.apart().contains(&m)
    }

    /// Members that a merge brings back and on whom the survivors agree all the same, because they are to
    /// have delivered the same of everybody: what these sent until they were lost.
    fn apart(&self) -> &[Uuid] {
        if self.synchrony.is_some() { &self.parted } else { &[] }
    }

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
        if self.synchrony.is_some() {
            return self.rank(local) == 0;
        }
        self.rank(local) <= self.turn(now).min(DECIDERS - 1)
    }

    /// To whom this member reports.
    fn decider(&self, local: Uuid, now: Time) -> Option<Uuid> {
        if self.synchrony.is_some() {
            return self.survivors.first().copied().filter(|m| *m != local);
        }
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

    /// What this member holds of those who are gone.
    fn own_report(&self) -> Report {
        let windows = self.frozen.iter().map(|(m, f)| f.sender.window.holding(*m, f.cut.clone()));
        Report { windows: windows.collect(), own: None }
    }

    /// The other survivors that have not reported about the view that waits.
    fn silent(&self, local: Uuid) -> Vec<Uuid> {
        let Some(run) = &self.run else { return Vec::new() };
        let whole = |r: &Report| run.synchrony.is_none() || r.own.is_some();
        let has =
            |m: &Uuid| self.reports.get(m).is_some_and(|(id, r)| *id == run.view.id && whole(r));
        self.awaited().into_iter().filter(|m| *m != local && !has(m)).collect()
    }

    /// The window of a member that was excluded by a view which another one replaced before anything
    /// was decided, and the other one contains the member: as if nothing had been.
    fn undo(&mut self, m: Uuid) -> Option<Sender> {
        let undecided = self.frozen.get(&m).is_some_and(|f| f.cut.is_none());
        if undecided { self.frozen.remove(&m).map(|f| f.sender) } else { None }
    }

    /// A view was installed without waiting, in the place of one that waited: nobody was left to agree
    /// with. What was not decided never will be, and a later view has nothing to ask about it.
    fn forget_undecided(&mut self) {
        let waits = |m: &Uuid| self.run.as_ref().is_some_and(|r| r.decides_on(*m));
        self.frozen.retain(|m, f| f.cut.is_some() || waits(m));
    }

    /// Notes that what is decided holds for this view too.
    fn holds_for(&mut self, view: ViewId) {
        if self.frozen.is_empty() {
            return;
        }
        self.installed.insert(view);
        if self.installed.len() > MOST_VIEWS {
            self.installed.pop_first();
        }
    }
}

impl ReliableMulticast {
    /// GMS has accepted a view that excludes members, or one that is to be installed by all together:
    /// then `patience` is how long a silent member is waited for.
    pub(super) fn freeze(&mut self, view: &Arc<View>, patience: Option<Duration>, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(current) = cx.group().view.clone() else { return };
        let excluded = current.without(view);
        self.take_back(&view.members, cx);
        let takes_part = |m: &Uuid| *m == local || tag::repairs_tails(*m);
        let stay = view.members.iter().copied().filter(|m| current.contains(*m));
        let (ours, foreign): (Vec<Uuid>, Vec<Uuid>) = stay.partition(takes_part);
        let (survivors, parted): (Vec<Uuid>, Vec<Uuid>) =
            ours.into_iter().partition(|m| view.together(local, *m));
        let synchrony = patience.map(|patience| Synchrony::new(patience, view, &survivors));
        let run = self.repair.run.insert(Run {
            view: Arc::clone(view),
            excluded,
            survivors,
            parted,
            foreign: !foreign.is_empty(),
            synchrony,
            since: cx.now,
            step: Step::Reporting,
            view_sent_at: cx.now,
            reported_at: None,
        });
        for m in run.excluded.iter().chain(run.apart()) {
            if let Some(sender) = self.senders.remove(m) {
                self.repair.frozen.insert(*m, Frozen { sender, cut: None });
            }
        }
        self.repair.counters.runs += 1;
        self.repair.reports.retain(|_, (id, _)| id.id >= view.id.id);
        cx.trace(|| Trace::TailRepair { view: view.id, step: "frozen" });
        match patience {
            Some(_) => self.repair.gate.shut(),
            // An ordinary view takes the place of one that was to be synchronous.
            None => self.thaw(cx),
        }
        self.proceed(cx);
    }

    /// Does what is due: now, every [`REPEAT`], and when something arrives.
    pub(super) fn proceed(&mut self, cx: &mut Cx<'_>) {
        let Some(run) = &self.repair.run else { return };
        let local = cx.local();
        cx.arm(REPAIR, cx.now + REPEAT);
        if run.synchrony.is_some() {
            return self.proceed_together(cx);
        }
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

    /// A decision: delivers what it says of each sender. Says so if not all may have the same.
    fn settle(&mut self, cuts: &[(Uuid, Cut)], cx: &mut Cx<'_>) {
        let Some(mut run) = self.repair.run.take() else { return };
        cx.disarm(REPAIR);
        let (mut unknown, mut alike) = (Vec::new(), true);
        for (of, cut) in cuts {
            let Some(frozen) = self.repair.frozen.get_mut(of) else { continue };
            if frozen.cut.is_some() {
                continue;
            }
            let window = &mut frozen.sender.window;
            if !cut.certain || window.holding(*of, None).exceeds(cut) {
                match run.apart().contains(of) {
                    true => alike = false,
                    false => unknown.push(*of),
                }
            }
            frozen.cut = Some(cut.clone());
            self.counters.received += hand_up(*of, window, cut, cx);
        }
        let agreed = self.deliver_together(&mut run, cx) && alike;
        for m in run.apart() {
            // It is a member again. What was decided is kept for those who ask late.
            if let Some(frozen) = self.repair.frozen.get(m) {
                self.senders.insert(*m, frozen.sender.clone());
            }
        }
        if !unknown.is_empty() {
            self.repair.counters.unknown += 1;
            cx.trace(|| Trace::TailUnknown { of: unknown.clone() });
            cx.tell(AppEvent::TailUnknown { of: unknown });
        }
        self.repair.holds_for(run.view.id);
        self.answer_those_who_wait(run.view.id, cx);
        cx.trace(|| Trace::TailRepair { view: run.view.id, step: "repaired" });
        cx.raise(Dir::Up, Event::Repaired { view: run.view.id, agreed });
    }

    /// Nobody decided in time.
    fn go_on_alone(&mut self, cx: &mut Cx<'_>) {
        let undecided = self.repair.frozen.iter().filter(|(_, f)| f.cut.is_none());
        let cuts = undecided.filter_map(|(m, f)| {
            let own = f.sender.window.holding(*m, None);
            Some((*m, decision::cut(&[&own], decision::Heard::Some)?))
        });
        let cuts: Vec<(Uuid, Cut)> = cuts.collect();
        self.settle(&cuts, cx);
    }

    /// Members that a waiting view excluded are in the one that replaces it: their windows go on.
    pub(super) fn take_back(&mut self, members: &[Uuid], cx: &mut Cx<'_>) {
        for m in members.iter().copied() {
            if let Some(sender) = self.repair.undo(m) {
                self.schedule.watch(&sender.window.gaps, cx);
                self.senders.insert(m, sender);
            }
        }
    }

    /// A view was installed. If it is not the one that waited, that one never will be.
    pub(super) fn repair_installed(&mut self, view: &View, cx: &mut Cx<'_>) {
        if self.repair.run.as_ref().is_some_and(|r| r.view.id.id <= view.id.id) {
            self.repair.run = None;
            cx.disarm(REPAIR);
        }
        self.repair.reports.retain(|m, _| view.contains(*m));
        self.repair.forget_undecided();
        self.repair.holds_for(view.id);
        self.answer_those_who_wait(view.id, cx);
    }

    /// Everybody has installed the installed view: nobody will ask about those before it.
    pub(super) fn repair_stable(&mut self) {
        match &self.repair.run {
            Some(run) => self.repair.frozen.retain(|m, _| run.decides_on(*m)),
            None => self.repair.frozen.clear(),
        }
        if self.repair.frozen.is_empty() {
            self.repair.installed.clear();
        }
    }
}

/// Delivers what a decision says of the sender `of`; how many messages.
fn hand_up(of: Uuid, window: &mut super::Window, cut: &Cut, cx: &mut Cx<'_>) -> u64 {
    let mut batch = Batch::new(of, true, false);
    let mut oob = Vec::new();
    while after(cut.upto, window.delivered()) {
        let Some(m) = window.release() else { break };
        match m.has(Flags::OOB) {
            true => oob.push(m),
            false => batch.push(m.into()),
        }
    }
    oob.extend(cut.ahead.iter().filter_map(|n| window.deliver_held(n)));
    let delivered = batch.len() + oob.len();
    cx.deliver_up(batch);
    for m in oob {
        cx.deliver_up(Batch::of(of, m.into()));
    }
    delivered as u64
}
