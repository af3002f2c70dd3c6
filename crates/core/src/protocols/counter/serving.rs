//! The half of the coordinator and its backups.

use super::asking::not_found;
use super::payload::{Copy, OwnPayload, Step, message};
use super::table::{Change, Outcome, State};
use super::{CounterConfig, may_act};
#[cfg(feature = "mutants")]
use crate::mutants::Mutant;
use crate::wire::{Address, CounterAsk, CounterOwner, CounterPayload, Encode, NamedCounter};
use crate::{Cx, Time, Uuid, View, ViewId, tag};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Requests that wait for the coordinator to be ready. More are dropped; who asked asks again.
const MOST_HELD: usize = 4_096;
/// Steps of a view that is not installed here yet. What is dropped beyond is said again.
const MOST_EARLY: usize = 256;

/// What a member has, and what it is to the others.
#[derive(Debug)]
pub(super) struct Serving {
    config: CounterConfig,
    copy: Copy,
    view: Option<Arc<View>>,
    role: Role,
    /// Requests that wait.
    held: VecDeque<(Uuid, CounterOwner, String, CounterAsk)>,
    /// Steps of views to come.
    early: Vec<(Uuid, OwnPayload)>,
    own_answers: Vec<CounterPayload>,
    /// This member is to ask itself what is not answered.
    own_resend: bool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    carried_out: u64,
    answered_again: u64,
    dropped: u64,
    gathered: u64,
    backups_silent: u64,
}

#[derive(Debug)]
enum Role {
    /// Somebody else is the coordinator. This member has its changes up to here.
    Backup { applied: Option<u64>, owes_ack: bool },
    /// This member is it, and waits for what these have.
    Gathering { ours: Vec<Uuid>, java: Vec<Uuid>, java_until: Time, parts: Vec<Copy> },
    /// This member is it.
    Serving(Coordinator),
}

#[derive(Debug, Default)]
struct Coordinator {
    /// The number of the last change.
    seq: u64,
    backups: BTreeMap<Uuid, Backup>,
    /// What is to be said when the backups have everything up to a change.
    answers: VecDeque<(u64, Uuid, CounterPayload)>,
}

#[derive(Debug)]
struct Backup {
    acked: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It acknowledges.
    Ours,
    /// It was asked to reconcile when it had been told everything up to this change.
    Java { asked: Option<(u64, Time)>, silent: bool },
}

impl Coordinator {
    /// Everybody who has a copy has everything up to here.
    fn safe(&self) -> u64 {
        let silent = |b: &&Backup| matches!(b.kind, Kind::Java { silent: true, .. });
        let acked = self.backups.values().filter(|b| !silent(b)).map(|b| b.acked);
        acked.min().unwrap_or(self.seq)
    }
}

impl Serving {
    pub(super) fn new(config: CounterConfig) -> Self {
        Self {
            config,
            copy: Copy::default(),
            view: None,
            role: Role::Backup { applied: None, owes_ack: false },
            held: VecDeque::new(),
            early: Vec::new(),
            own_answers: Vec::new(),
            own_resend: false,
            counters: Counters::default(),
        }
    }

    pub(super) fn take_own(&mut self) -> Vec<CounterPayload> {
        core::mem::take(&mut self.own_answers)
    }

    /// Whether this member is to ask itself what is not answered.
    pub(super) fn take_resend(&mut self) -> bool {
        core::mem::take(&mut self.own_resend)
    }

    /// Whether something is to be said again if it stays unanswered.
    pub(super) fn waits(&self) -> bool {
        match &self.role {
            Role::Backup { .. } => false,
            Role::Gathering { ours, java, .. } => !ours.is_empty() || !java.is_empty(),
            Role::Serving(c) => c.safe() < c.seq || !c.answers.is_empty(),
        }
    }

    fn id(&self) -> Option<ViewId> {
        self.view.as_ref().map(|v| v.id)
    }

    fn say(&self, to: Uuid, step: Step, cx: &mut Cx<'_>) {
        if let Some(view) = self.id() {
            cx.send_down(OwnPayload { view, step }.message(to));
        }
    }

    pub(super) fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let first = self.view.is_none();
        self.view = Some(Arc::clone(view));
        let local = cx.local();
        if first && view.members.len() == 1 {
            self.copy.whole = true;
        }
        self.copy.table.prune(|m| view.contains(m));
        // Who is led by JGroups goes by its rules.
        self.copy.whole |= !tag::is_rgroups(view.coordinator());
        if view.coordinator() != local {
            self.role = Role::Backup { applied: None, owes_ack: false };
            self.held.clear();
        } else if matches!(self.role, Role::Serving(_)) && !view.is_merge() {
            self.choose_backups(cx);
        } else {
            self.gather(cx);
        }
        let (now, later): (Vec<_>, Vec<_>) = core::mem::take(&mut self.early)
            .into_iter()
            .partition(|(_, p)| p.view.id <= view.id.id);
        self.early = later;
        for (from, payload) in now {
            self.step(from, payload, cx);
        }
        self.acknowledge(cx);
    }

    /// A coordinator begins with what the others have.
    fn gather(&mut self, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        let local = cx.local();
        let others = || view.members.iter().copied().filter(|m| *m != local);
        let ours: Vec<Uuid> = others().filter(|m| tag::counts(*m)).collect();
        let java: Vec<Uuid> = others().filter(|m| !tag::is_rgroups(*m)).collect();
        let java_until = cx.now + self.config.reconciliation_timeout;
        self.counters.gathered += 1;
        self.role = Role::Gathering { ours, java, java_until, parts: Vec::new() };
        self.ask_for_copies(cx);
        self.end_gathering(cx);
    }

    fn ask_for_copies(&mut self, cx: &mut Cx<'_>) {
        let Role::Gathering { ours, java, .. } = &self.role else { return };
        let mine = CounterPayload::Reconcile(self.copy.table.named()).to_bytes();
        for m in java {
            cx.send_down(message(*m, mine.clone()));
        }
        for m in ours {
            self.say(*m, Step::Ask, cx);
        }
    }

    /// Everybody has said what it has.
    fn end_gathering(&mut self, cx: &mut Cx<'_>) {
        let Role::Gathering { ours, java, java_until, parts } = &mut self.role else { return };
        if !ours.is_empty() || (!java.is_empty() && cx.now < *java_until) {
            return;
        }
        let mut parts = core::mem::take(parts);
        parts.push(core::mem::take(&mut self.copy));
        let primary = cx.group().primary.is_some();
        let newest = parts.iter().map(|p| p.stamp).max().unwrap_or(0);
        let mut copy = Copy { whole: false, stamp: newest, table: Default::default() };
        for part in &parts {
            copy.whole |= part.whole;
            // Only the primary part goes on; what others have is older, whatever its versions.
            if !primary || part.stamp == newest {
                copy.table.merge(&part.table);
            }
        }
        self.copy = copy;
        if primary && !self.copy.whole {
            // All have joined somebody who is gone: nobody knows what there was. Another view may
            // bring one who does.
            return;
        }
        self.copy.whole = true;
        self.role = Role::Serving(Coordinator::default());
        self.choose_backups(cx);
        self.own_resend = true;
        let local = cx.local();
        let others: Vec<Uuid> =
            cx.group().members().iter().copied().filter(|m| *m != local).collect();
        for m in others.into_iter().filter(|m| tag::counts(*m) || !tag::is_rgroups(*m)) {
            cx.send_down(message(m, CounterPayload::ResendPending.to_bytes()));
        }
        self.serve_held(cx);
    }

    /// Who has a copy in this view. Those that had none get one.
    fn choose_backups(&mut self, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        let local = cx.local();
        let primary = cx.group().primary.is_some();
        let mut some = self.config.num_backups as usize;
        let mut chosen = Vec::new();
        for m in view.members.iter().copied().filter(|m| *m != local) {
            let ours = tag::counts(m);
            if !ours && tag::is_rgroups(m) {
                continue;
            }
            if some > 0 || (primary && ours) {
                some = some.saturating_sub(1);
                chosen.push(m);
            }
        }
        let Role::Serving(c) = &mut self.role else { return };
        c.backups.retain(|m, _| chosen.contains(m));
        // Steps of the view before mean nothing in this one, so all get everything anew.
        c.seq += 1;
        for m in chosen {
            let java = Kind::Java { asked: None, silent: false };
            let kind = if tag::counts(m) { Kind::Ours } else { java };
            c.backups.entry(m).or_insert(Backup { acked: 0, kind }).acked = 0;
        }
        let to: Vec<Uuid> = c.backups.keys().copied().collect();
        for m in to {
            self.tell_all(m, cx);
        }
        self.flush(cx);
    }

    /// Tells a backup everything.
    fn tell_all(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let Role::Serving(c) = &self.role else { return };
        let seq = c.seq;
        if tag::counts(to) {
            self.say(to, Step::All { seq, copy: self.copy.clone() }, cx);
            return;
        }
        for c in self.copy.table.named() {
            cx.send_down(message(to, CounterPayload::Update(c).to_bytes()));
        }
        self.ask_java(to, cx);
    }

    /// Has a backup of JGroups say that it has everything: its answer to this comes after what it was
    /// told before.
    fn ask_java(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let Role::Serving(c) = &mut self.role else { return };
        let seq = c.seq;
        let Some(Backup { kind: Kind::Java { asked, .. }, acked }) = c.backups.get_mut(&to) else {
            return;
        };
        if asked.is_none() && *acked < seq {
            *asked = Some((seq, cx.now));
            let all = CounterPayload::Reconcile(self.copy.table.named());
            cx.send_down(message(to, all.to_bytes()));
        }
    }

    /// A request of `from`.
    pub(super) fn request(
        &mut self,
        from: Uuid,
        owner: CounterOwner,
        name: String,
        ask: CounterAsk,
        cx: &mut Cx<'_>,
    ) {
        let ready = may_act(cx) && matches!(self.role, Role::Serving(_));
        if self.view.as_ref().is_none_or(|v| v.coordinator() != cx.local()) {
            self.counters.dropped += 1;
        } else if ready {
            self.carry_out(from, owner, &name, ask, cx);
        } else if self.held.len() < MOST_HELD {
            self.held.push_back((from, owner, name, ask));
        } else {
            self.counters.dropped += 1;
        }
    }

    fn carry_out(
        &mut self,
        from: Uuid,
        owner: CounterOwner,
        name: &str,
        ask: CounterAsk,
        cx: &mut Cx<'_>,
    ) {
        let who = owner.member.as_ref().and_then(Address::uuid).unwrap_or(from);
        let known = self.copy.table.outcome(who, owner.request);
        #[cfg(feature = "mutants")]
        let known = known.filter(|_| !cx.mutant(Mutant::RequestsForgotten));
        let outcome = match known {
            Some(known) => {
                self.counters.answered_again += 1;
                known
            }
            None => {
                let (outcome, change) = self.copy.table.execute(who, owner.request, name, ask);
                if let Some(change) = change {
                    self.change(change, cx);
                }
                outcome
            }
        };
        if ask == CounterAsk::Delete && !tag::is_rgroups(from) {
            return;
        }
        let answer = match outcome {
            _ if ask == CounterAsk::Function => {
                let error =
                    "the coordinator is no JGroups member, and cannot run a function of Java";
                CounterPayload::Failed { owner, error: Some(error.into()) }
            }
            Outcome::Done { value, version } => CounterPayload::Value { owner, value, version },
            Outcome::NotFound => CounterPayload::Failed { owner, error: Some(not_found(name)) },
        };
        self.answer_when_safe(from, answer, cx);
    }

    fn answer_when_safe(&mut self, to: Uuid, answer: CounterPayload, cx: &mut Cx<'_>) {
        let Role::Serving(c) = &mut self.role else { return };
        let after = c.seq;
        #[cfg(feature = "mutants")]
        let after = if cx.mutant(Mutant::AnsweredBeforeBackup) { 0 } else { after };
        c.answers.push_back((after, to, answer));
        self.flush(cx);
    }

    fn change(&mut self, change: Change, cx: &mut Cx<'_>) {
        self.counters.carried_out += 1;
        self.copy.table.apply(&change);
        self.copy.stamp = self.id().map_or(0, |v| v.id);
        let Role::Serving(c) = &mut self.role else { return };
        c.seq += 1;
        let seq = c.seq;
        let to: Vec<Uuid> = c.backups.keys().copied().collect();
        for m in to {
            if tag::counts(m) {
                self.say(m, Step::Next { seq, change: change.clone() }, cx);
                continue;
            }
            if let Some(value) = change.state.value {
                let (name, version) = (change.name.clone(), change.state.version);
                let update = CounterPayload::Update(NamedCounter { name, value, version });
                cx.send_down(message(m, update.to_bytes()));
            }
            self.ask_java(m, cx);
        }
    }

    /// Answers what the backups have.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        if !may_act(cx) {
            return;
        }
        let local = cx.local();
        let Role::Serving(c) = &mut self.role else { return };
        let safe = c.safe();
        while let Some((seq, to, answer)) = c.answers.pop_front() {
            if seq > safe {
                c.answers.push_front((seq, to, answer));
                return;
            }
            if to == local {
                self.own_answers.push(answer);
            } else if cx.is_member(to) {
                cx.send_down(message(to, answer.to_bytes()));
            }
        }
    }

    fn serve_held(&mut self, cx: &mut Cx<'_>) {
        if may_act(cx) && matches!(self.role, Role::Serving(_)) {
            for (from, owner, name, ask) in core::mem::take(&mut self.held) {
                self.carry_out(from, owner, &name, ask, cx);
            }
        }
    }

    pub(super) fn primacy_changed(&mut self, cx: &mut Cx<'_>) {
        self.end_gathering(cx);
        self.serve_held(cx);
        self.flush(cx);
    }

    /// A step of `from`.
    pub(super) fn step(&mut self, from: Uuid, payload: OwnPayload, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        if payload.view.id > view.id.id {
            if self.early.len() < MOST_EARLY {
                self.early.push((from, payload));
            }
            return;
        }
        let to_coordinator = payload.step.is_for_coordinator();
        let fits = to_coordinator == (view.coordinator() == cx.local())
            && (to_coordinator || view.coordinator() == from);
        if payload.view != view.id || !fits {
            self.counters.dropped += 1;
            return;
        }
        match payload.step {
            Step::Ask => {
                let copy = self.copy.clone();
                self.say(from, Step::Have(copy), cx);
            }
            Step::Have(copy) => {
                if let Role::Gathering { ours, parts, .. } = &mut self.role
                    && let Some(at) = ours.iter().position(|m| *m == from)
                {
                    ours.swap_remove(at);
                    parts.push(copy);
                    self.end_gathering(cx);
                }
            }
            Step::All { seq, copy } => {
                self.copy = copy;
                self.role = Role::Backup { applied: Some(seq), owes_ack: true };
            }
            Step::Next { seq, change } => {
                if let Role::Backup { applied: Some(applied), owes_ack } = &mut self.role {
                    *owes_ack = true;
                    if seq == *applied + 1 {
                        *applied = seq;
                        self.copy.table.apply(&change);
                        self.copy.stamp = view.id.id;
                    }
                }
            }
            Step::Acked(seq) => {
                if let Role::Serving(c) = &mut self.role
                    && let Some(backup) = c.backups.get_mut(&from)
                {
                    backup.acked = backup.acked.max(seq);
                    self.flush(cx);
                }
            }
        }
    }

    /// Says, once for all that came in, what this member has.
    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>) {
        let Role::Backup { applied: Some(seq), owes_ack } = &mut self.role else { return };
        if !core::mem::take(owes_ack) {
            return;
        }
        let seq = *seq;
        if let Some(coordinator) = self.view.as_ref().map(|v| v.coordinator()) {
            self.say(coordinator, Step::Acked(seq), cx);
        }
    }

    /// The coordinator, a JGroups member, or one on its way out, tells its backup.
    pub(super) fn update(&mut self, from: Uuid, c: &NamedCounter, _cx: &mut Cx<'_>) {
        if self.view.as_ref().is_some_and(|v| v.coordinator() == from) {
            self.copy.table.take(&c.name, State { value: Some(c.value), version: c.version });
        }
    }

    /// A JGroups member has become coordinator.
    pub(super) fn reconcile(&mut self, from: Uuid, theirs: &[NamedCounter], cx: &mut Cx<'_>) {
        let newer = self.copy.table.newer_than(theirs);
        cx.send_down(message(from, CounterPayload::Newer(newer).to_bytes()));
    }

    /// A JGroups member has said what is newer there.
    pub(super) fn newer(&mut self, from: Uuid, list: Vec<NamedCounter>, cx: &mut Cx<'_>) {
        match &mut self.role {
            Role::Gathering { java, .. } => {
                let Some(at) = java.iter().position(|m| *m == from) else { return };
                java.swap_remove(at);
                if cx.group().primary.is_none() {
                    for c in &list {
                        let state = State { value: Some(c.value), version: c.version };
                        self.copy.table.take(&c.name, state);
                    }
                }
                self.end_gathering(cx);
            }
            Role::Serving(c) => {
                let Some(backup) = c.backups.get_mut(&from) else { return };
                if let Kind::Java { asked, silent } = &mut backup.kind {
                    *silent = false;
                    if let Some((seq, _)) = asked.take() {
                        backup.acked = backup.acked.max(seq);
                    }
                }
                self.ask_java(from, cx);
                self.flush(cx);
            }
            Role::Backup { .. } => self.counters.dropped += 1,
        }
    }

    /// Says again what is not answered, and goes on without JGroups members that say nothing.
    pub(super) fn again(&mut self, cx: &mut Cx<'_>) {
        if let Role::Gathering { ours, .. } = &self.role {
            for m in ours.clone() {
                self.say(m, Step::Ask, cx);
            }
            return self.end_gathering(cx);
        }
        let patience = self.config.reconciliation_timeout;
        let Role::Serving(c) = &mut self.role else { return };
        let mut behind = Vec::new();
        for (m, backup) in &mut c.backups {
            match &mut backup.kind {
                Kind::Ours if backup.acked < c.seq => behind.push(*m),
                Kind::Ours => {}
                Kind::Java { asked: Some((_, at)), silent } if *at + patience <= cx.now => {
                    self.counters.backups_silent += u64::from(!*silent);
                    *silent = true;
                }
                Kind::Java { .. } => {}
            }
        }
        for m in behind {
            self.tell_all(m, cx);
        }
        self.flush(cx);
    }

    pub(super) fn close(&mut self) {
        self.view = None;
        self.copy = Copy::default();
        self.role = Role::Backup { applied: None, owes_ack: false };
        self.held.clear();
        self.early.clear();
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("counters", self.copy.table.named().len() as u64);
        out("changes", c.carried_out);
        out("requests_known", c.answered_again);
        out("requests_held", self.held.len() as u64);
        out("messages_dropped", c.dropped);
        out("reconciliations", c.gathered);
        out("backups_silent", c.backups_silent);
    }
}
