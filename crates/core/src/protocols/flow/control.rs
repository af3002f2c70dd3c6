//! The layer: the sending half, the lines, and what opens them.
//!
//! A wait for credit ends by credit, by the members that owe it leaving the view, by withdrawal or
//! by the stop of the stack; the application hears after one second who it is waiting for.

use super::credits::Account;
use super::debtors::{Debtors, REMIND};
use super::grants::multicasts_wait;
use super::line::{Class, Line, Waiting};
use super::whole::RefusedWhole;
use super::{FlowSettings, SlowMember};
use crate::protocols::stable::who_holds_back;
use crate::wire::{Flags, Hints, ProtId};
use crate::{
    Answer, AppEvent, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, OpId, Pool,
    Protocol, Query, Row, RowFlow, SendRefusal, Service, Spec, TimerKey, Trace, Traffic, Uuid,
    View, tag,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// How long a message waits before the application hears who limits it (DECISIONS 16).
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// Requests of credit, and reports.
const TICK: TimerKey = TimerKey(0);

/// What a Java member has acknowledged is looked at again.
const LOOK: TimerKey = TimerKey(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Requests of others that may prove a lost grant.
pub(super) const RESYNC: TimerKey = TimerKey(1);

/// Flow control of one pool: MFC (one line, whose messages cost their length at every member) or UFC
/// (one line per destination).
#[derive(Debug)]
pub struct FlowControl {
    pub(super) pool: Pool,
    /// The protocol's own header id.
    pub(super) id: ProtId,
    pub(super) settings: FlowSettings,
    /// Exactly the members of the view, this one included.
    pub(super) accounts: BTreeMap<Uuid, Account>,
    /// Lines where something waits, by destination; `None` is the line of multicasts.
    pub(super) lines: BTreeMap<Option<Uuid>, Line>,
    /// Payload bytes and messages in all lines.
    pub(super) waiting_bytes: u64,
    pub(super) waiting_messages: u64,
    epoch: u32,
    /// The own multicasts that are not stable are too many: the line of multicasts stands still.
    pub(super) window_full: bool,
    pub(super) refused: RefusedWhole,
    /// Who gives no credit, if that is to have consequences.
    pub(super) debtors: Option<Debtors>,
    pub(super) counters: Counters,
}

/// For [`crate::Protocol::inspect`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    blockings: u64,
    blocked_time: Duration,
    pub(super) grants_sent: u64,
    pub(super) grants_received: u64,
    pub(super) requests_sent: u64,
    pub(super) requests_received: u64,
    pub(super) exclusions_asked: u64,
}

impl Protocol for FlowControl {
    fn spec(&self) -> Spec {
        let (name, traffic, provides): (_, _, &'static [Service]) = match self.pool {
            Pool::Unicast => ("UFC", Traffic::Unicast, &[Service::UnicastCredits]),
            Pool::Multicast | Pool::Exempt | Pool::Ordered => {
                ("MFC", Traffic::Multicast, &[Service::MulticastCredits])
            }
        };
        Spec {
            name,
            id: Some(self.id),
            interests: Interests {
                down: traffic,
                up: traffic,
                events: true,
                consumed: true,
                ..Interests::default()
            },
            provides,
            needs_below: &[Service::Membership, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        let lines: Vec<Option<Uuid>> = self.lines.keys().copied().collect();
        for dest in lines {
            self.refuse_line(dest, &SendRefusal::Closed, cx);
        }
        self.accounts.clear();
        self.debtors = Debtors::new(&self.settings);
        self.window_full = false;
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if Self::is_exempt(msg) || self.accounts.is_empty() {
            return Flow::Pass;
        }
        let dest = msg.dest.as_ref().and_then(crate::wire::Address::uuid);
        if msg.dest.is_some() && !dest.is_some_and(|d| self.accounts.contains_key(&d)) {
            return Flow::Pass;
        }
        if self.refused.takes_too(msg, cx) {
            return Flow::Stop;
        }
        let length = msg.length() as u64;
        let class = if msg.has(Flags::OOB) { Class::Oob } else { Class::Regular };
        let loops = !msg.hints.contains(Hints::DONT_LOOPBACK);
        let line = self.lines.get(&dest);
        if line.is_none_or(|l| l.is_open_to(class, length)) && self.fits(dest, loops, length, cx) {
            if let Some(line) = self.lines.get_mut(&dest) {
                line.note_overtaking(length);
            }
            self.spend(dest, loops, length, cx.local());
            return Flow::Pass;
        }
        let refusal = if length > self.settings.terms.max {
            Some(SendRefusal::TooLarge { size: length, limit: self.settings.terms.max })
        } else if msg.hints.contains(Hints::DONT_BLOCK) {
            let mut by = self.limiters(dest, loops, length, cx.local());
            self.add_who_holds_back(dest, &mut by, cx);
            Some(SendRefusal::WouldBlock { by })
        } else {
            None
        };
        if let Some(why) = refusal {
            self.refused.refuse(msg, why, cx);
            return Flow::Stop;
        }
        self.enqueue(dest, class, core::mem::take(msg), cx);
        Flow::Stop
    }

    fn row_down(&mut self, row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        self.charge_row(row)
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.take_batch(batch, cx);
    }

    fn row_up(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        self.count_row(row, cx);
        RowFlow::Pass
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::View(v)) => self.install(v, cx),
            (Dir::Up, Event::OwnWindow { full }) if self.pool == Pool::Multicast => {
                self.window_full = *full;
                if !full {
                    self.pump(None, cx);
                }
            }
            (Dir::Down, Event::CallsPending(true)) => self.overdraw_all(cx),
            (Dir::Down, Event::Withdraw { op, expired }) => self.withdraw(*op, *expired, cx),
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            RESYNC => return self.resynchronise(cx),
            LOOK => return self.pump_all(cx),
            REMIND => return self.remind_again(cx),
            _ => {}
        }
        let lines: Vec<Option<Uuid>> = self.lines.keys().copied().collect();
        for dest in lines {
            for class in Class::ALL {
                let Some(line) = self.lines.get_mut(&dest) else { continue };
                if line.ask_at(class).is_some_and(|at| at <= cx.now) {
                    line.asked(class, self.settings.max_block_time);
                    if self.ask(dest, Some(class), cx) {
                        self.pump(dest, cx);
                    }
                }
            }
            self.report(dest, cx);
        }
        self.exclude_debtors(cx);
        self.rearm(cx);
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        self.settle(what, cx);
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        match q {
            Query::Room { dest, oob, bytes } if dest.is_some() == (self.pool == Pool::Unicast) => {
                let class = if *oob { Class::Oob } else { Class::Regular };
                Some(Answer::Room(self.room(*dest, class, *bytes as u64, group.local)))
            }
            Query::Credits(pool) if *pool == self.pool => {
                let one = |(m, a): (&Uuid, &Account)| self.gauge(*m, a, group.local);
                Some(Answer::Credits(self.accounts.iter().map(one).collect()))
            }
            Query::SendPatience(pool)
                if *pool == self.pool && self.settings.slow == SlowMember::Fail =>
            {
                Some(Answer::Patience(self.settings.slow_timeout))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        let average = c.blocked_time.as_micros() as u64 / c.blockings.max(1);
        let sum = |f: fn(&Account) -> u64| self.accounts.values().map(f).sum::<u64>();
        out("number_of_blockings", c.blockings);
        out("average_time_blocked_us", average);
        out("number_of_credit_responses_sent", c.grants_sent);
        out("number_of_credit_responses_received", c.grants_received);
        out("number_of_credit_requests_sent", c.requests_sent);
        out("number_of_credit_requests_received", c.requests_received);
        out("exclusions_asked", c.exclusions_asked);
        out("waiting_bytes", self.waiting_bytes);
        out("waiting_messages", self.waiting_messages);
        out("unconsumed_bytes", sum(|a| a.inc.unconsumed()));
        out("overdraft_bytes", sum(|a| a.inc.overdraft()));
        out("lowest_credit", self.accounts.values().map(|a| a.out.balance()).min().unwrap_or(0));
    }
}

impl FlowControl {
    /// With this configuration: of MFC or of UFC.
    #[must_use]
    pub fn new(config: impl Into<FlowSettings>) -> Self {
        let settings = config.into();
        let id = match settings.pool {
            Pool::Unicast => ProtId::UFC,
            Pool::Multicast | Pool::Exempt | Pool::Ordered => ProtId::MFC,
        };
        Self {
            pool: settings.pool,
            id,
            settings,
            accounts: BTreeMap::new(),
            lines: BTreeMap::new(),
            waiting_bytes: 0,
            waiting_messages: 0,
            epoch: 0,
            window_full: false,
            refused: RefusedWhole::default(),
            debtors: Debtors::new(&settings),
            counters: Counters::default(),
        }
    }

    /// Whether flow control of any pool leaves this message alone.
    pub(super) fn is_exempt(msg: &Message) -> bool {
        msg.has(Flags::NO_FC)
            || msg.headers.get(ProtId::MFC).is_some()
            || msg.headers.get(ProtId::UFC).is_some()
    }

    fn enqueue(&mut self, dest: Option<Uuid>, class: Class, msg: Message, cx: &mut Cx<'_>) {
        let length = msg.length() as u64;
        let patience = self.settings.max_block_time;
        let line = self.lines.entry(dest).or_default();
        let begins = line.is_empty();
        let is_head = line.head(class).is_none();
        line.push(class, msg, length, cx.now, patience);
        self.waiting_bytes += length;
        self.waiting_messages += 1;
        if begins {
            self.counters.blockings += 1;
            let pool = self.pool;
            let local = cx.local();
            cx.trace(|| Trace::Blocked { pool, by: self.blockers(dest, local) });
        }
        // Behind a head nothing changes for anybody.
        if is_head {
            self.pump(dest, cx);
        }
    }

    /// Lets go what there is credit for, and asks for what is missing.
    pub(super) fn pump(&mut self, dest: Option<Uuid>, cx: &mut Cx<'_>) {
        while self.lines.contains_key(&dest) {
            self.release(dest, cx);
            if !self.ask(dest, None, cx) {
                break;
            }
        }
        self.rearm(cx);
    }

    pub(super) fn pump_all(&mut self, cx: &mut Cx<'_>) {
        let lines: Vec<Option<Uuid>> = self.lines.keys().copied().collect();
        for dest in lines {
            self.pump(dest, cx);
        }
    }

    fn release(&mut self, dest: Option<Uuid>, cx: &mut Cx<'_>) {
        let was_full = self.is_full();
        let local = cx.local();
        let mut moved = false;
        let Some(mut line) = self.lines.remove(&dest) else { return };
        while let Some(class) = line.next(|w| self.fits(dest, loops_back(w), w.length, cx)) {
            let Some(w) = line.take(class, cx.now, self.settings.max_block_time) else { break };
            self.spend(dest, loops_back(&w), w.length, local);
            self.forget(&w);
            cx.send_down(w.msg);
            moved = true;
        }
        self.put_back(dest, line, cx);
        if was_full && moved {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }

    /// Keeps the line if anything waits in it, else its blocking is over.
    fn put_back(&mut self, dest: Option<Uuid>, line: Line, cx: &mut Cx<'_>) {
        if line.is_empty() {
            self.counters.blocked_time += cx.now.since(line.blocked_since);
            let pool = self.pool;
            cx.trace(|| Trace::Unblocked { pool });
        } else {
            self.lines.insert(dest, line);
        }
    }

    fn forget(&mut self, w: &Waiting) {
        self.waiting_bytes -= w.length;
        self.waiting_messages -= 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes >= self.settings.max_blocked
            || self.waiting_messages >= self.settings.max_blocked_messages
    }

    /// The accounts that a message to `dest` is charged to.
    pub(super) fn targets(
        &self,
        dest: Option<Uuid>,
        loops: bool,
        local: Uuid,
    ) -> impl Iterator<Item = (Uuid, &Account)> {
        let one = dest.and_then(|d| Some((d, self.accounts.get(&d)?)));
        let all =
            self.accounts.iter().filter(move |(m, _)| dest.is_none() && (loops || **m != local));
        one.into_iter().chain(all.map(|(m, a)| (*m, a)))
    }

    fn fits(&self, dest: Option<Uuid>, loops: bool, length: u64, cx: &Cx<'_>) -> bool {
        let stands_still = self.window_full && dest.is_none();
        let has_credit = |(_, a): (_, &Account)| a.out.balance() >= a.cost(length);
        !stands_still && self.targets(dest, loops, cx.local()).all(has_credit)
    }

    /// If the line stands still for stability, those are limiting it too.
    fn add_who_holds_back(&self, dest: Option<Uuid>, by: &mut Vec<Uuid>, cx: &Cx<'_>) {
        if self.window_full && dest.is_none() {
            let more = who_holds_back(cx);
            by.extend(more.into_iter().filter(|m| !by.contains(m)).collect::<Vec<_>>());
        }
    }

    /// Who has too little credit for us to send this many bytes.
    pub(super) fn limiters(
        &self,
        dest: Option<Uuid>,
        loops: bool,
        length: u64,
        local: Uuid,
    ) -> Vec<Uuid> {
        self.targets(dest, loops, local)
            .filter(|(_, a)| a.out.balance() < a.cost(length))
            .map(|(m, _)| m)
            .collect()
    }

    fn spend(&mut self, dest: Option<Uuid>, loops: bool, length: u64, local: Uuid) {
        let charge = |a: &mut Account| {
            let cost = a.cost(length);
            a.out.spend(cost);
        };
        match dest {
            Some(d) => self.accounts.get_mut(&d).into_iter().for_each(charge),
            None => self
                .accounts
                .iter_mut()
                .filter(|(m, _)| loops || **m != local)
                .for_each(|(_, a)| charge(a)),
        }
    }

    /// What the waiting heads cost at the account of `m`.
    pub(super) fn heads_cost(&self, dest: Option<Uuid>, m: Uuid, a: &Account, local: Uuid) -> u64 {
        let Some(line) = self.lines.get(&dest) else { return 0 };
        line.heads().filter(|w| loops_back(w) || m != local).map(|w| a.cost(w.length)).sum()
    }

    /// The line that messages for `m` wait in.
    pub(super) fn line_of(&self, m: Uuid) -> Option<Uuid> {
        match self.pool {
            Pool::Unicast => Some(m),
            Pool::Multicast | Pool::Exempt | Pool::Ordered => None,
        }
    }

    /// Who holds this line up: members whose shown credit is below 0.
    pub(super) fn blockers(&self, dest: Option<Uuid>, local: Uuid) -> Vec<Uuid> {
        self.targets(dest, true, local)
            .filter(|(m, a)| a.out.balance() < self.heads_cost(dest, *m, a, local))
            .map(|(m, _)| m)
            .collect()
    }

    /// Who holds any line up.
    pub(super) fn all_blockers(&self, local: Uuid) -> impl Iterator<Item = Uuid> {
        self.lines.keys().flat_map(move |dest| self.blockers(*dest, local))
    }

    /// Asks those who hold this line up: all of them if a head of the class `due` has blocked long
    /// enough, else those that cannot know. Answers whether we granted ourselves something.
    fn ask(&mut self, dest: Option<Uuid>, due: Option<Class>, cx: &mut Cx<'_>) -> bool {
        let local = cx.local();
        // What was admitted has not left, and a request would look as if it had been lost.
        if dest.is_none() && multicasts_wait(cx) {
            return false;
        }
        let mut granted_to_self = false;
        let mut owing = Vec::new();
        for m in self.blockers(dest, local) {
            let Some(a) = self.accounts.get(&m) else { continue };
            let need = self.heads_cost(dest, m, a, local);
            let claim = self.claim(m, cx);
            let terms = self.settings.terms;
            let Some(a) = self.accounts.get_mut(&m) else { continue };
            let Some(bytes) = a.out.request(need, due.is_some(), claim, &terms) else {
                if claim.is_some() && cx.armed(LOOK).is_none() {
                    cx.arm(LOOK, cx.now + LOOK_AGAIN);
                }
                continue;
            };
            granted_to_self |= self.request_credit(m, bytes, cx);
            if m != local {
                owing.push(m);
            }
        }
        // A member that lacks our last messages, and does not know, would take the request for the
        // proof of a lost grant.
        if dest.is_none() && !owing.is_empty() {
            self.remind(owing, cx);
        }
        granted_to_self
    }

    /// Tells the application who holds up the heads that have waited long enough, once each.
    fn report(&mut self, dest: Option<Uuid>, cx: &mut Cx<'_>) {
        let mut by = self.blockers(dest, cx.local());
        self.add_who_holds_back(dest, &mut by, cx);
        let Some(line) = self.lines.get_mut(&dest) else { return };
        for class in Class::ALL {
            let unowned_told = line.reported_unowned;
            let Some(w) = line.head_mut(class) else { continue };
            if w.reported || w.head_since + REPORT_AFTER > cx.now {
                continue;
            }
            w.reported = true;
            let (op, since) = (w.msg.token.as_ref().and_then(|t| t.op()), w.head_since);
            if op.is_none() {
                line.reported_unowned = true;
            }
            if op.is_some() || !unowned_told {
                cx.tell(AppEvent::Blocked { op, by: by.clone(), since });
            }
        }
    }

    fn rearm(&mut self, cx: &mut Cx<'_>) {
        self.watch_debtors(cx);
        let due = |line: &Line| {
            let asks = Class::ALL.into_iter().filter_map(|c| line.ask_at(c));
            let reports = line.heads().filter(|w| !w.reported).map(|w| w.head_since + REPORT_AFTER);
            asks.chain(reports).min()
        };
        let excluded = self.debtors.as_ref().and_then(Debtors::next);
        match self.lines.values().filter_map(due).chain(excluded).min() {
            Some(at) if cx.armed(TICK) != Some(at) => cx.arm(TICK, at),
            Some(_) => {}
            None => cx.disarm(TICK),
        }
    }

    /// Joiners get fresh accounts, leavers are forgotten. After a merge the account of a pair
    /// begins anew unless the two were together in every merged view that contains either.
    fn install(&mut self, view: &View, cx: &mut Cx<'_>) {
        let local = cx.local();
        self.accounts.retain(|m, _| view.contains(*m) && view.together(local, *m));
        self.accounts.values_mut().for_each(Account::enter_view);
        if let Some(d) = &mut self.debtors {
            d.keep(|m| self.accounts.contains_key(m));
        }
        for m in view.members.iter().copied() {
            if !self.accounts.contains_key(&m) {
                self.epoch = self.epoch.wrapping_add(1);
                let floored = tag::is_rgroups(local) && tag::is_rgroups(m);
                let account = Account::new(&self.settings.terms, self.epoch, floored);
                self.accounts.insert(m, account);
            }
        }
        let gone = |d: &Option<Uuid>| d.filter(|d| !view.contains(*d));
        let gone: Vec<Uuid> = self.lines.keys().filter_map(gone).collect();
        for dest in gone {
            self.refuse_line(Some(dest), &SendRefusal::NotMember(dest), cx);
        }
        self.refuse_bound(cx);
        self.pump_all(cx);
    }

    /// What was to leave in the view before and has not may not wait any longer.
    fn refuse_bound(&mut self, cx: &mut Cx<'_>) {
        let was_full = self.is_full();
        let lines: Vec<Option<Uuid>> = self.lines.keys().copied().collect();
        for dest in lines {
            let Some(mut line) = self.lines.remove(&dest) else { continue };
            let taken = line.take_bound(cx.now, self.settings.max_block_time);
            self.put_back(dest, line, cx);
            for mut w in taken {
                self.forget(&w);
                cx.discard(&mut w.msg, SendRefusal::WouldBlock { by: Vec::new() });
            }
        }
        if was_full && !self.is_full() {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }

    fn refuse_line(&mut self, dest: Option<Uuid>, why: &SendRefusal, cx: &mut Cx<'_>) {
        let was_full = self.is_full();
        let Some(mut line) = self.lines.remove(&dest) else { return };
        let all: Vec<Waiting> = line.take_all().collect();
        for mut w in all {
            self.forget(&w);
            cx.discard(&mut w.msg, why.clone());
        }
        self.put_back(dest, line, cx);
        if was_full {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }

    fn withdraw(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) {
        let was_full = self.is_full();
        let lines: Vec<Option<Uuid>> = self.lines.keys().copied().collect();
        for dest in lines {
            let mut by = self.blockers(dest, cx.local());
            self.add_who_holds_back(dest, &mut by, cx);
            let Some(mut line) = self.lines.remove(&dest) else { continue };
            let taken = line.withdraw(op, cx.now, self.settings.max_block_time);
            self.put_back(dest, line, cx);
            let any = !taken.is_empty();
            for mut w in taken {
                self.forget(&w);
                let why = match expired {
                    true => SendRefusal::NotSent { by: by.clone() },
                    false => SendRefusal::Withdrawn,
                };
                cx.discard(&mut w.msg, why);
            }
            if any {
                self.pump(dest, cx);
            }
        }
        if was_full && !self.is_full() {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }
}

/// Whether the waiting message is charged to this member where it is a destination. Only a multicast
/// can do without its own copy; a unicast to oneself comes back whatever its hints say.
pub(super) fn loops_back(w: &Waiting) -> bool {
    !w.msg.is_multicast() || !w.msg.hints.contains(Hints::DONT_LOOPBACK)
}
