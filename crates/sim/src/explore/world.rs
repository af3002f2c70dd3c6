//! Some nodes and the packets between them. Nothing happens by itself: every step is a choice.

use crate::addresses;
use crate::connections::Life;
use crate::headers::kind_of;
use crate::history::{Fact, History, MessageId, SentMessage, What};
use crate::network::Host;
use crate::payload;
use bytes::Bytes;
use rgroups_core::node::{Bound, Cast, Node, NodeEnv, RawEvent, RawOp};
use rgroups_core::plan::StackPlan;
use rgroups_core::wire::{Body, Flags, Frame, Message, ProtId};
use rgroups_core::{
    AppEvent, Command, Dir, Duration, Event, OpId, Rng, Time, Uuid, View, app, tag,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Within this time the survivors must have a view of exactly themselves.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What happens next. Packets and notices are named by their place among those on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// This packet arrives.
    Deliver(u8),
    /// This packet is lost.
    Lose(u8),
    /// The node of this number dies.
    Crash(u8),
    /// The node of this number hears of the oldest death that it has not heard of.
    Hear(u8),
    /// Time passes until the next timer of anybody.
    Pass,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) from: usize,
    pub(super) to: usize,
    discovery: bool,
    bytes: Bytes,
    /// Tells it from all others of the run.
    pub(super) mark: u64,
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) life: Life,
    pub(super) id: Uuid,
    pub(super) node: Option<Node>,
    /// Deaths that it has not heard of.
    pub(super) notices: Vec<Uuid>,
    /// Everything that it was given so far.
    pub(super) fed: u64,
}

/// All of it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) sites: Vec<Site>,
    pub(super) packets: Vec<Packet>,
    pub(super) now: Time,
    pub(super) history: History,
    /// What was lost, in no order.
    lost: u64,
    began: Time,
    rng: Rng,
    plan: StackPlan,
    repairs: bool,
}

impl World {
    /// An empty one. Without `repairs` no member says that it takes part in tail repair.
    pub(super) fn new(plan: StackPlan, repairs: bool) -> Self {
        Self {
            sites: Vec::new(),
            packets: Vec::new(),
            now: Time::ZERO,
            history: History::default(),
            lost: 0,
            began: Time::ZERO,
            rng: Rng::new(7),
            plan,
            repairs,
        }
    }

    /// A further node, which connects.
    pub(super) fn start(&mut self, name: &str) {
        let host = Host(self.sites.len());
        let capabilities = if self.repairs { self.plan.capabilities() } else { 0 };
        let id = tag::make(&mut self.rng, capabilities);
        let bound = Bound { transport: addresses::transport(host), monitor: None };
        let seed = self.rng.next_u64();
        let env = NodeEnv { local: id, name: name.into(), bound, seed, tracing: true };
        let node = match Node::new(&self.plan, env) {
            Ok(node) => node,
            Err(problems) => panic!("the plan cannot be built: {problems:?}"),
        };
        let life = self.history.add_life(host, name.to_owned(), id);
        self.sites.push(Site { life, id, node: Some(node), notices: Vec::new(), fed: 0 });
        self.record(life, What::Started);
        let connect = Command::Connect { cluster: Bytes::from_static(b"explore") };
        self.turn(host.0, |node, now| node.submit(now, connect));
    }

    #[cfg(feature = "mutants")]
    pub(super) fn enable(&mut self, mutant: rgroups_core::mutants::Mutant) {
        for node in self.sites.iter_mut().filter_map(|s| s.node.as_mut()) {
            node.stack_mut().enable_mutant(mutant);
        }
    }

    /// A multicast of node `at`.
    pub(super) fn send(&mut self, at: usize, oob: bool) {
        let id = MessageId(self.history.messages.len() as u32);
        let sender = self.sites[at].life;
        self.history.messages.push(SentMessage {
            sender,
            to: None,
            ordered: !oob,
            reliable: true,
            loopback: true,
            size: payload::SMALLEST,
            sync: None,
        });
        self.record(sender, What::Sent(id));
        let mut message = Message::multicast(Body::bytes(payload::make(id, payload::SMALLEST)));
        if oob {
            message.flags |= Flags::OOB;
        }
        let op = Some(OpId(u64::from(id.0)));
        let send = app::Send { op, message, try_only: false, deadline: None, sync: None };
        self.turn(at, |node, now| node.submit(now, Command::Send(send)));
    }

    /// Everything that is on its way arrives, in the order in which it was sent, and time passes,
    /// until `done` holds. Whether it does within `limit`.
    pub(super) fn run_until(&mut self, limit: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.now + limit;
        while !done(self) {
            if !self.packets.is_empty() {
                self.apply(Choice::Deliver(0));
            } else if let Some(at) = self.sites.iter().position(|s| !s.notices.is_empty()) {
                self.apply(Choice::Hear(at as u8));
            } else if self.next_timer().is_some_and(|at| at <= end) {
                self.apply(Choice::Pass);
            } else {
                return false;
            }
        }
        true
    }

    /// From here on the time counts in which the survivors must find together.
    pub(super) fn begin(&mut self) {
        self.began = self.now;
    }

    /// Whether that time is over.
    pub(super) fn is_late(&self) -> bool {
        self.now.since(self.began) > PATIENCE
    }

    /// The node dies, and whatever is on its way to it with it. Everybody will hear of it.
    pub(super) fn crash(&mut self, at: usize) {
        self.sites[at].node = None;
        self.sites[at].notices.clear();
        let (life, id) = (self.sites[at].life, self.sites[at].id);
        self.record(life, What::Died { power_off: false });
        self.packets.retain(|p| p.to != at);
        for s in self.sites.iter_mut().filter(|s| s.node.is_some()) {
            s.notices.push(id);
        }
    }

    /// What can happen: deliveries first, then deaths heard of, losses and deaths. Equal packets on
    /// one way are one choice.
    pub(super) fn choices(&self, losses: bool, crashes: bool, late: bool) -> Vec<Choice> {
        let number = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
        let different = |i: &usize| {
            let p = &self.packets[*i];
            let same = |q: &Packet| (q.from, q.to, &q.bytes) == (p.from, p.to, &p.bytes);
            !self.packets[..*i].iter().any(same)
        };
        let packets: Vec<u8> = (0..self.packets.len()).filter(different).map(number).collect();
        let sites = |which: fn(&Site) -> bool| {
            let all = self.sites.iter().enumerate();
            all.filter(move |(_, s)| s.node.is_some() && which(s)).map(move |(i, _)| number(i))
        };
        let mut choices: Vec<Choice> = packets.iter().map(|p| Choice::Deliver(*p)).collect();
        choices.extend(sites(|s| !s.notices.is_empty()).map(Choice::Hear));
        if losses {
            choices.extend(packets.iter().map(|p| Choice::Lose(*p)));
        }
        if crashes && sites(|_| true).count() > 1 {
            choices.extend(sites(|_| true).map(Choice::Crash));
        }
        if (self.is_calm() || late) && self.next_timer().is_some() {
            choices.push(Choice::Pass);
        }
        choices
    }

    /// Whether nothing is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.packets.is_empty() && self.sites.iter().all(|s| s.notices.is_empty())
    }

    /// Does it.
    pub(super) fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Deliver(i) => {
                let p = self.packets.remove(usize::from(i));
                self.feed(p.to, p.mark);
                self.arrive(p);
            }
            Choice::Lose(i) => {
                let p = self.packets.remove(usize::from(i));
                self.lost = self.lost.wrapping_add(p.mark);
            }
            Choice::Crash(at) => self.crash(usize::from(at)),
            Choice::Hear(at) => {
                let at = usize::from(at);
                let who = self.sites[at].notices.remove(0);
                self.feed(at, who.msb);
                let suspect = Event::Suspect(vec![who]);
                self.turn(at, |node, now| {
                    node.stack_mut().inject_event(now, 0, Dir::Up, suspect);
                });
            }
            Choice::Pass => {
                let Some(at) = self.next_timer() else { return };
                self.now = self.now.max(at);
                for i in self.due() {
                    self.feed(i, self.now.0);
                    self.turn(i, |_, _| {});
                }
            }
        }
        self.deliver_quiet();
    }

    /// The state that `choice` leads to.
    pub(super) fn state_after(&self, choice: Choice) -> u64 {
        let mut fed: Vec<(bool, u64, usize)> =
            self.sites.iter().map(|s| (s.node.is_some(), s.fed, s.notices.len())).collect();
        let (mut lost, mut now) = (self.lost, self.now);
        match choice {
            Choice::Deliver(i) => {
                let p = &self.packets[usize::from(i)];
                fed[p.to].1 = added(fed[p.to].1, p.mark);
            }
            Choice::Lose(i) => lost = lost.wrapping_add(self.packets[usize::from(i)].mark),
            Choice::Crash(at) => fed[usize::from(at)].0 = false,
            Choice::Hear(at) => {
                let at = usize::from(at);
                fed[at].1 = added(fed[at].1, self.sites[at].notices[0].msb);
                fed[at].2 -= 1;
            }
            Choice::Pass => {
                now = now.max(self.next_timer().unwrap_or(now));
                for i in self.due() {
                    fed[i].1 = added(fed[i].1, now.0);
                }
            }
        }
        let mut h = DefaultHasher::new();
        (fed, lost, now.0).hash(&mut h);
        h.finish()
    }

    fn feed(&mut self, at: usize, what: u64) {
        self.sites[at].fed = added(self.sites[at].fed, what);
    }

    fn arrive(&mut self, p: Packet) {
        let event = match p.discovery {
            true => RawEvent::Discovery { bytes: p.bytes },
            false => {
                RawEvent::Datagram { from: addresses::transport(Host(p.from)), bytes: p.bytes }
            }
        };
        self.turn(p.to, |node, now| node.receive(now, event));
    }

    /// Acknowledgements arrive.
    fn deliver_quiet(&mut self) {
        while let Some(i) = self.packets.iter().position(Packet::is_quiet) {
            let p = self.packets.remove(i);
            self.arrive(p);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.sites.iter().filter_map(|s| s.node.as_ref()?.poll_deadline()).min()
    }

    /// The nodes whose timers fire when time passes.
    fn due(&self) -> Vec<usize> {
        let Some(at) = self.next_timer() else { return Vec::new() };
        let is_due =
            |s: &Site| s.node.as_ref().and_then(Node::poll_deadline).is_some_and(|t| t <= at);
        (0..self.sites.len()).filter(|i| is_due(&self.sites[*i])).collect()
    }

    fn turn(&mut self, at: usize, f: impl FnOnce(&mut Node, Time)) {
        let now = self.now;
        let Some(node) = self.sites[at].node.as_mut() else { return };
        f(node, now);
        node.advance(now, false);
        node.end_turn(now);
        let mut said = Vec::new();
        let mut told = Vec::new();
        let mut packets = Vec::new();
        while let Some((_, fact)) = node.poll_trace() {
            said.push(fact);
        }
        while let Some(event) = node.poll_app() {
            told.push(event);
        }
        while let Some(op) = node.poll_raw() {
            if let RawOp::Datagram { to, bytes } = op {
                packets.push((to, bytes));
            }
        }
        let life = self.sites[at].life;
        said.into_iter().for_each(|t| self.record(life, What::Trace(t)));
        told.into_iter().for_each(|e| self.tell(life, e));
        packets.into_iter().for_each(|(to, bytes)| self.post(at, to, &bytes));
    }

    fn post(&mut self, from: usize, cast: Cast, bytes: &Bytes) {
        for to in 0..self.sites.len() {
            let there = addresses::transport(Host(to));
            let meant = match cast {
                Cast::Group | Cast::Discovery => to != from,
                Cast::To(address) => address == there,
            };
            if meant && self.sites[to].node.is_some() {
                let mut h = DefaultHasher::new();
                (from, to, bytes, self.sites[from].fed).hash(&mut h);
                let (discovery, mark) = (matches!(cast, Cast::Discovery), h.finish());
                self.packets.push(Packet { from, to, discovery, bytes: bytes.clone(), mark });
            }
        }
    }

    fn tell(&mut self, life: Life, event: AppEvent) {
        match event {
            AppEvent::View(v) => self.record(life, What::View(v)),
            AppEvent::Deliver(d) => {
                for m in d.messages {
                    let id = payload::read(&m.body.as_bytes().cloned().unwrap_or_default());
                    let what = match id {
                        Some(message) => {
                            What::Delivered { message, from: d.from, multicast: d.multicast }
                        }
                        None => What::Garbled { from: d.from, why: "the content is wrong" },
                    };
                    self.record(life, what);
                }
            }
            AppEvent::Resolved { op, result } => {
                self.record(life, What::Resolved(MessageId(op.0 as u32), result));
            }
            _ => {}
        }
    }

    fn record(&mut self, life: Life, what: What) {
        self.history.facts.push(Fact { at: self.now, life: Some(life), what });
    }

    /// The view of a node that lives.
    pub(super) fn view(&self, at: usize) -> Option<&Arc<View>> {
        self.sites[at].node.as_ref()?.stack().group().view.as_ref()
    }

    /// Whether all who live are in one view of exactly themselves.
    pub(super) fn is_one_group(&self) -> bool {
        let living: Vec<usize> =
            (0..self.sites.len()).filter(|i| self.sites[*i].node.is_some()).collect();
        let Some(first) = living.first().and_then(|i| self.view(*i)) else { return false };
        first.members.len() == living.len()
            && living.iter().all(|i| {
                self.view(*i).is_some_and(|v| v.id == first.id) && first.contains(self.sites[*i].id)
            })
    }
}

impl Packet {
    /// Nothing but acknowledgements.
    fn is_quiet(&self) -> bool {
        let Ok(frame) = Frame::decode(self.bytes.clone()) else { return false };
        let quiet = |m: &Message| {
            m.headers.iter().any(|(id, header)| {
                let kind = kind_of(header).0;
                (id == ProtId::UNICAST3 && kind == "ACK")
                    || (id == ProtId::GMS && kind == "VIEW_ACK")
            })
        };
        frame.messages().iter().all(quiet)
    }
}

fn added(fed: u64, what: u64) -> u64 {
    let mut h = DefaultHasher::new();
    (fed, what).hash(&mut h);
    h.finish()
}
