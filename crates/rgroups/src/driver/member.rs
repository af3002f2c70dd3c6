//! One member, turn by turn.

mod perform;

use super::budget::Budget;
use super::calls::Calls;
use super::complaints::Complaints;
use super::holds::Holds;
use super::patience::Patience;
use super::report;
use super::states::States;
use super::waits::Waits;
use crate::diag::Diagnostics;
use crate::inbox::{Line, Published};
use crate::net::Net;
use crate::outbox::Item;
use crate::rpc::no_handlers;
use crate::shared::{Blocked, Ended, Shared};
use crate::state::StateResponder;
use crate::stats::Stats;
use crate::{Address, View};
use rgroups_core::node::{Node, RawEvent, RawOp};
use rgroups_core::{
    Answer, AppEvent, Command, Consumed, Delivery, OpId, Pool, PrimaryClaim, Query, Row,
    SendResult, Time, Uuid, app,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Bytes of messages and number of requests that one turn takes from the application, so that the
/// network is looked at often enough.
const BYTES_PER_TURN: u64 = 1_000_000;
const REQUESTS_PER_TURN: usize = 1024;
/// How long the last bytes may take to leave after the member has left.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
/// Names of members that left are remembered until there are so many more than members.
const OLD_NAMES: usize = 512;

#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    /// The stack was told to leave.
    Leaving {
        by: Time,
    },
    /// The stack has left; the sockets have not.
    Flushing {
        by: Time,
        how: Ended,
    },
    Over,
}

/// A member with everything that runs it.
#[derive(Debug)]
pub(crate) struct Member {
    node: Node,
    net: Net,
    shared: Arc<Shared>,
    discard_own: bool,
    diagnostics: Option<Diagnostics>,
    budget: Budget,
    join: Option<oneshot::Sender<Result<(), String>>>,
    phase: Phase,
    calls: Calls,
    /// Calls of methods. No send waits behind them.
    remote_calls: HashMap<OpId, oneshot::Sender<SendResult>>,
    holds: Holds,
    received: Vec<RawEvent>,
    /// Messages of this turn that go to the stack together.
    sends: Vec<app::Send>,
    items: Vec<Item>,
    /// Consumed without the application's doing.
    back: Vec<Consumed>,
    /// Lines whose credit must be looked at after this turn, and how much there can be.
    touched: BTreeSet<Line>,
    max: BTreeMap<Line, u64>,
    stats: Stats,
    waiting_since: Option<Time>,
    nameless: bool,
    patience: Patience,
    complaints: Complaints,
    waits: Waits,
    busy: bool,
    states: States,
    /// What was last made known of the view.
    claim: Option<PrimaryClaim>,
}

impl Member {
    pub(crate) fn new(
        node: Node,
        net: Net,
        shared: Arc<Shared>,
        discard_own: bool,
        diagnostics: Option<Diagnostics>,
        budget: Budget,
        join: oneshot::Sender<Result<(), String>>,
    ) -> Self {
        Self {
            node,
            net,
            shared,
            discard_own,
            diagnostics,
            budget,
            join: Some(join),
            phase: Phase::Running,
            calls: Calls::default(),
            remote_calls: HashMap::new(),
            holds: Holds::default(),
            received: Vec::new(),
            sends: Vec::new(),
            items: Vec::new(),
            back: Vec::new(),
            touched: BTreeSet::new(),
            max: BTreeMap::new(),
            stats: Stats::default(),
            waiting_since: None,
            nameless: false,
            patience: Patience::default(),
            complaints: Complaints::default(),
            waits: Waits::default(),
            busy: false,
            states: States::default(),
            claim: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// Waits for something to do, at most so long, and does a bounded amount of it. False when
    /// the member has ended.
    pub(crate) fn turn(&mut self, at_most: Option<Duration>) -> bool {
        if matches!(self.phase, Phase::Over) {
            return false;
        }
        self.wait(at_most);
        let now = self.shared.clock.now();

        let input_left = self.net.receive(&mut self.received);
        for ev in self.received.drain(..) {
            self.node.receive(now, ev);
        }
        let taken = self.shared.inbox.take(BYTES_PER_TURN, REQUESTS_PER_TURN);
        for request in taken.requests {
            self.perform(now, request);
        }
        self.submit_sends(now);
        if !self.back.is_empty() {
            let back = std::mem::take(&mut self.back);
            self.node.submit(now, Command::Consumed(back));
        }
        self.node.advance(now, self.patience.holds_back(now, input_left));
        self.node.end_turn(now);
        while let Some(op) = self.node.poll_raw() {
            self.net.apply(op);
        }
        self.net.flush();

        while let Some(ev) = self.node.poll_app() {
            self.tell(now, ev);
        }
        self.learn_names();
        self.publish();
        self.joined();
        self.complain(now);
        self.calls.reply();
        let items = std::mem::take(&mut self.items);
        if !items.is_empty() {
            self.back.extend(self.shared.outbox.push(items));
        }
        // After the events, so that the caller finds them cut.
        self.states.reply();
        self.count(now);
        self.busy = taken.more || !self.back.is_empty();
        self.advance_phase(now);
        !matches!(self.phase, Phase::Over)
    }

    fn wait(&mut self, at_most: Option<Duration>) {
        let until_phase = match self.phase {
            Phase::Leaving { by } | Phase::Flushing { by, .. } => Some(by),
            Phase::Running | Phase::Over => None,
        };
        let timeout = if self.busy || !self.shared.inbox.may_sleep() {
            Some(Duration::ZERO)
        } else {
            let now = self.shared.clock.now();
            let deadline = self.node.poll_deadline().into_iter().chain(until_phase).min();
            deadline.map(|d| d.since(now)).into_iter().chain(at_most).min()
        };
        self.net.wait(timeout);
        self.shared.inbox.awake();
    }

    fn tell(&mut self, now: Time, ev: AppEvent) {
        match ev {
            AppEvent::View(v) => self.install(&v),
            AppEvent::Deliver(d) => self.deliver(d),
            AppEvent::Row(row) => self.deliver_row(row),
            AppEvent::Resolved { op, result } => self.resolve(op, result),
            AppEvent::ConnectFailed { reason } => {
                if let Some(join) = self.join.take() {
                    let _ = join.send(Err(reason.to_string()));
                }
                self.flush_and_end(now, Ended::Unconfirmed);
            }
            AppEvent::Founded { how } => {
                report::founded(&self.shared, &self.node, self.net.bound().transport, &how);
            }
            AppEvent::Disconnected { confirmed } => {
                let how = if confirmed { Ended::Confirmed } else { Ended::Unconfirmed };
                self.flush_and_end(now, how);
            }
            AppEvent::MayHaveNoRsvp { member } => {
                report::may_have_no_rsvp(&self.shared, Address(member));
            }
            AppEvent::Blocked { by, since, .. } => {
                let by: Vec<Address> = by.into_iter().map(Address).collect();
                if let Some(like_it) = self.waits.note(now, &by) {
                    report::blocked(&self.shared, &self.node, &by, now.since(since), like_it);
                }
                let since = Instant::now() - now.since(since);
                *self.shared.blocked.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Blocked { by, since });
            }
            AppEvent::Rejoining { reason } => {
                let (cluster, member) = (self.shared.cluster.as_str(), self.name());
                tracing::warn!(cluster, member, "excluded from the group, joining anew: {reason}");
                if let Some(map) = self.shared.map() {
                    map.excluded();
                }
                self.items.push(Item::Rejoining { reason: reason.to_string() });
            }
            AppEvent::TailUnknown { of } => {
                let of: Vec<Address> = of.into_iter().map(Address).collect();
                report::tail_unknown(&self.shared, &of);
                self.items.push(Item::TailUnknown { of });
            }
            AppEvent::NotSynchronous { view } => {
                report::not_synchronous(&self.shared, view);
                self.items.push(Item::NotSynchronous { view: view.into() });
            }
            AppEvent::Suspected(s) => {
                report::suspected(&self.shared, &s);
                let (member, by) = (Address(s.member), Address(s.by));
                self.items.push(Item::Suspected { member, by, reason: s.why.to_string() });
            }
            AppEvent::Primary { view, primacy } => {
                report::primacy(&self.shared, view, primacy);
                self.items.push(Item::Primary { view: view.into(), primacy: primacy.into() });
            }
            AppEvent::PrimaryRulesDiffer { member } => {
                report::primary_rules_differ(&self.shared, Address(member));
            }
            AppEvent::LockLost { hold, why } => self.holds.lost(hold, why),
            AppEvent::KeptNoLonger { of } => report::kept_no_longer(&self.shared, Address(of)),
            AppEvent::StateRequested { request, by } => {
                let responder = StateResponder::new(Arc::clone(&self.shared), request, by);
                match self.shared.map() {
                    Some(map) => map.give(responder),
                    None => self.items.push(Item::StateRequested(responder)),
                }
            }
            AppEvent::Requested(request) => match self.shared.service() {
                Some(service) => service.accept(&self.shared, *request),
                None => no_handlers(&self.shared, request.request),
            },
            ev @ (AppEvent::StateBegins { .. }
            | AppEvent::StatePart { .. }
            | AppEvent::StateEnds { .. }
            | AppEvent::StateFetched { .. }
            | AppEvent::StateSent { .. }
            | AppEvent::StateAbandoned { .. }) => {
                let item = self.states.tell(&self.shared, ev);
                if let (Some(Item::State { bytes: Some(state), .. }), Some(map)) =
                    (&item, self.shared.map())
                {
                    map.take(state);
                }
                self.items.extend(item);
            }
            // An event that this crate does not know changes nothing here.
            _ => {}
        }
    }

    /// The caller learns that it has joined once the windows are those of its first view: without
    /// members there is nobody to limit them.
    fn joined(&mut self) {
        if self.node.stack().group().view.is_none() {
            return;
        }
        if let Some(join) = self.join.take() {
            // If the future is gone, so is the last handle, and the member leaves.
            let _ = join.send(Ok(()));
        }
    }

    fn install(&mut self, v: &rgroups_core::View) {
        let view = View::from_core(v);
        self.nameless = true;
        self.learn_names();
        self.stats.views += 1;
        self.stats.merges += u64::from(view.is_merge());
        let (cluster, member) = (self.shared.cluster.as_str(), self.name());
        tracing::info!(cluster, member, "view {}", self.shared.describe(&view));
        self.budget.check(&self.shared, &self.node);
        if let Some(map) = self.shared.map() {
            map.installed(v);
        }
        let members: BTreeSet<Uuid> = v.members.iter().copied().collect();
        self.shared.inbox.retain_lines(&members);
        self.max.clear();
        self.touched.insert(Line::Multicast);
        self.shared.view.send_modify(|w| w.view = Some(view.clone()));
        self.items.push(Item::View(view));
    }

    /// Warns of strangers: of each kind once, and then once a minute.
    fn complain(&mut self, now: Time) {
        let shared = &self.shared;
        let strangers = self.node.stack().strangers();
        let lines = self.complaints.lines(now, strangers, |m| shared.label(Address(m)));
        let (cluster, member) = (shared.cluster.as_str(), &*shared.name);
        for l in lines {
            tracing::warn!(cluster, member, code = l.code, jgrp = l.jgrp, "{}", l.text);
        }
    }

    fn deliver(&mut self, d: Delivery) {
        if self.discard_own && d.multicast && d.from == self.shared.local.0 {
            self.back.extend(d.consumed());
            return;
        }
        self.stats.msgs_received += d.messages.len() as u64;
        let payload = |m: &rgroups_core::Message| m.body.as_bytes().map_or(0, |b| b.len() as u64);
        self.stats.payload_received += d.messages.iter().map(payload).sum::<u64>();
        self.items.push(Item::Messages { from: d.from, messages: d.messages });
    }

    fn deliver_row(&mut self, row: Row) {
        if self.discard_own && row.src == self.shared.local.0 {
            self.back.extend(row.consumed());
            return;
        }
        self.stats.msgs_received += row.len() as u64;
        self.stats.payload_received += row.cost(0);
        self.items.push(Item::Row(row));
    }

    fn resolve(&mut self, op: OpId, result: SendResult) {
        if let Some(reply) = self.remote_calls.remove(&op) {
            // Whoever no longer waits has withdrawn the call.
            let _ = reply.send(result);
            return;
        }
        match &result {
            SendResult::Sent | SendResult::Synced(_) => self.stats.msgs_sent += 1,
            _ => {}
        }
        self.calls.resolve(op, result);
    }

    /// Names may be learned after the view that they belong to.
    fn learn_names(&mut self) {
        if !self.nameless {
            return;
        }
        let group = self.node.stack().group();
        self.nameless = false;
        let learned: Vec<(Uuid, Arc<str>)> = group
            .members()
            .iter()
            .filter_map(|m| {
                let name = group.addresses.name(*m);
                self.nameless |= name.is_none();
                Some((*m, name?.clone()))
            })
            .collect();
        self.shared.names.send_if_modified(|names| {
            let mut news = false;
            for (m, name) in learned {
                news |= names.insert(m, name.clone()).as_ref() != Some(&name);
            }
            if names.len() > group.members().len() + OLD_NAMES {
                names.retain(|m, _| group.is_member(*m));
            }
            news
        });
    }

    fn publish(&mut self) {
        let mut answered = self.calls.take_answered();
        let mut lines = std::mem::take(&mut self.touched);
        lines.extend(answered.keys());
        // Credit for multicasts may have come in any turn.
        lines.insert(Line::Multicast);
        let mut published = Vec::with_capacity(lines.len());
        for line in lines {
            let dest = match line {
                Line::Multicast => None,
                Line::Unicast(to) => Some(to),
                Line::Free => continue,
            };
            let stack = self.node.stack();
            let room = match stack.ask(&Query::Room { dest, oob: false, bytes: 0 }) {
                Some(Answer::Room(r)) => Some(r),
                _ => None,
            };
            let reachable = dest.is_none_or(|to| stack.group().is_member(to));
            let max = if reachable { self.max_of(line) } else { 0 };
            // As long as a line is low it is looked at every turn.
            if dest.is_some() && reachable && room.as_ref().is_some_and(|r| r.credit < max / 2) {
                self.touched.insert(line);
            }
            let answered = answered.remove(&line).unwrap_or(0);
            published.push(Published { line, room, reachable, max, answered });
        }
        self.shared.inbox.publish(published);
        let claim = self.node.stack().group().primary;
        if self.claim != claim {
            self.claim = claim;
            self.shared.set_claim(claim);
        }
        if self.calls.is_empty() {
            *self.shared.blocked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// The most credit that a line can have; asked for once in a view.
    fn max_of(&mut self, line: Line) -> u64 {
        let stack = self.node.stack();
        *self.max.entry(line).or_insert_with(|| {
            let pool = if line == Line::Multicast { Pool::Multicast } else { Pool::Unicast };
            let Some(Answer::Credits(accounts)) = stack.ask(&Query::Credits(pool)) else {
                return u64::MAX;
            };
            let concerned = |peer: Uuid| match line {
                Line::Unicast(to) => peer == to,
                Line::Multicast | Line::Free => true,
            };
            let max = accounts.iter().filter(|a| concerned(a.peer)).map(|a| a.max).min();
            max.unwrap_or(u64::MAX)
        })
    }

    fn count(&mut self, now: Time) {
        match (self.calls.is_empty(), self.waiting_since) {
            (false, None) => self.waiting_since = Some(now),
            (waits_no_more, Some(since)) => {
                self.stats.blocked_on_credits += now.since(since);
                self.waiting_since = (!waits_no_more).then_some(now);
            }
            (true, None) => {}
        }
        let net = self.net.counters();
        self.stats.turns += 1;
        self.stats.bytes_sent = net.bytes_sent;
        self.stats.bytes_received = net.bytes_received;
        self.stats.datagrams_sent = net.datagrams_sent;
        self.stats.datagrams_received = net.datagrams_received;
        self.stats.datagrams_dropped = net.datagrams_dropped;
        self.stats.socket_errors = net.errors;
        *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.stats;
    }

    fn flush_and_end(&mut self, now: Time, how: Ended) {
        match self.phase {
            Phase::Running | Phase::Leaving { .. } => {
                self.phase = Phase::Flushing { by: now + FLUSH_TIMEOUT, how };
                // The layers announce the end of their connections: one that breaks off without it
                // looks like a crash to those who watch us.
                self.node.stack_mut().stop(now);
                self.node.end_turn(now);
                while let Some(op) = self.node.poll_raw() {
                    self.net.apply(op);
                }
                self.net.apply(RawOp::Finished);
                self.net.flush();
            }
            Phase::Flushing { .. } | Phase::Over => {}
        }
    }

    fn advance_phase(&mut self, now: Time) {
        match self.phase {
            Phase::Leaving { by } if now >= by => self.flush_and_end(now, Ended::Unconfirmed),
            Phase::Flushing { by, how } if now >= by || self.net.is_flushed() => self.end(how),
            Phase::Running | Phase::Leaving { .. } | Phase::Flushing { .. } | Phase::Over => {}
        }
    }

    /// Closes all sockets, then tells everybody.
    fn end(&mut self, how: Ended) {
        self.phase = Phase::Over;
        self.net.close();
        self.diagnostics = None;
        self.shared.inbox.shut();
        self.calls = Calls::default();
        self.remote_calls.clear();
        self.shared.end_service();
        self.states.close();
        self.shared.stop_listening();
        self.join = None;
        self.shared.outbox.end();
        self.shared.view.send_modify(|w| w.closed = true);
        self.shared.ended.send_replace(how);
        let (cluster, member) = (self.shared.cluster.as_str(), self.name());
        tracing::debug!(cluster, member, ?how, "ended");
    }
}

/// Whatever happens to a driver, nobody waits for it in vain.
impl Drop for Member {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Over) {
            self.end(Ended::Unconfirmed);
        }
    }
}
