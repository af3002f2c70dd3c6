//! Many nodes, one clock, one seed. Virtual time jumps from one happening to the next; everything
//! random comes from the seed; equal seeds give equal runs.
//!
//! ```text
//! let mut cluster = Cluster::new(Settings::new(7, StackPlan::udp()));
//! cluster.start("A");
//! cluster.start("B");
//! cluster.run_for(Duration::from_secs(5));
//! cluster.partition(&[&["A"], &["B"]]);
//! ```

mod calls;
mod copies;
mod counting;
mod faults;
mod maps;
mod member;
mod objects;
mod sampling;
mod state;
mod turn;

use crate::addresses;
use crate::agenda::Agenda;
use crate::connections::{Effect, Kernel, Life, Step, Streams, Surroundings};
use crate::coverage::Coverage;
use crate::filter::Rule;
use crate::history::{Fact, Given, History, MessageId, SentMessage, What};
use crate::network::{Host, Link, Network};
use crate::payload;
use crate::traffic::Traffic;
use crate::transcript::Transcript;
use bytes::Bytes;
pub use calls::{Errand, Handling, Outcall, call_of, number, value};
use copies::UnreliableCopies;
pub use member::Appetite;
use member::{Member, Process};
pub use objects::use_number;
use rgroups_core::node::{Node, RawEvent};
use rgroups_core::plan::StackPlan;
use rgroups_core::wire::{self, Body, Flags, Hints};
use rgroups_core::{Command, Duration, OpId, Rng, Time, View, ViewId, app};
pub use state::{Provision, StateEnded};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// How a cluster is simulated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides everything that is random.
    pub seed: u64,
    /// What every node runs.
    pub plan: StackPlan,
    /// The network.
    pub link: Link,
    /// The kernels.
    pub kernel: Kernel,
    /// From the arrival of an input to the turn that processes it.
    pub turn_delay: Duration,
    /// How often gauges are sampled; `None`: never.
    pub sampling: Option<Duration>,
    /// Count what happens to which messages; see [`Cluster::coverage`].
    pub coverage: bool,
    /// Keep what happened, for oracles. Very large groups have no room for it.
    pub history: bool,
    /// Keep the lines of the transcript, not only their hash.
    pub keep_lines: bool,
    /// A wrong protocol to run, by name.
    #[cfg(feature = "mutants")]
    pub mutant: Option<rgroups_core::mutants::Mutant>,
}

impl Settings {
    /// This stack on a quiet local network.
    #[must_use]
    pub fn new(seed: u64, plan: StackPlan) -> Self {
        Self {
            seed,
            plan,
            link: Link::lan(),
            kernel: Kernel::default(),
            turn_delay: Duration::from_micros(20),
            sampling: Some(Duration::from_secs(1)),
            coverage: false,
            history: true,
            keep_lines: true,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// A message for [`Cluster::send`].
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// To whom, by name; `None`: to all.
    pub to: Option<String>,
    /// Payload bytes.
    pub size: usize,
    /// Out of band.
    pub oob: bool,
    /// Neither numbered nor sent again, and not subject to flow control: a lost one would take its
    /// credit with it. Below the size at which messages are cut.
    pub unreliable: bool,
    /// The sender of a multicast gets it too.
    pub loopback: bool,
    /// Refuse instead of waiting.
    pub try_only: bool,
    /// Give up if it is not admitted after this.
    pub within: Option<Duration>,
    /// Wait for acknowledgements.
    pub sync: Option<app::Sync>,
    /// What is waited for goes to these nodes only, as far as they run.
    pub among: Option<Vec<String>>,
}

impl Outgoing {
    /// An ordered message of `size` bytes, to `to` or to all.
    #[must_use]
    pub fn new(to: Option<&str>, size: usize) -> Self {
        Self {
            to: to.map(str::to_owned),
            size,
            oob: false,
            unreliable: false,
            loopback: true,
            try_only: false,
            within: None,
            sync: None,
            among: None,
        }
    }
}

/// Something that was planned.
#[derive(Debug)]
enum Happening {
    /// The node has input or a timer is due.
    Turn(Life),
    /// A datagram arrives.
    Datagram { to: Host, event: RawEvent, way: Option<OnTheWay> },
    /// A connection goes on.
    Stream(Step),
    /// The application takes the next message.
    Consume(Life),
    /// The application answers a request.
    Answer(Life, calls::Nested),
    /// The application gives back what it has.
    GiveBack(Life, OpId),
    /// Gauges are read.
    Sample,
}

/// What is known of a datagram on its way, where that is counted.
#[derive(Clone, Debug)]
struct OnTheWay {
    packet: Bytes,
    sender: Life,
    /// The view that its receiver had when it left.
    view: Option<ViewId>,
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    now: Time,
    rng: Rng,
    agenda: Agenda<Happening>,
    members: Vec<Member>,
    network: Network,
    streams: Streams,
    history: History,
    transcript: Transcript,
    unreliable: UnreliableCopies,
    traffic: Option<Traffic>,
    coverage: Coverage,
    /// When the last datagram comes that left the first host for the second.
    newest_arrival: BTreeMap<(Host, Host), Time>,
    packet_limit: usize,
    /// Happenings since time last passed.
    standing_still: u32,
    halted: bool,
    busy: u64,
    /// Bytes in every state that mean nothing.
    padding: usize,
    /// Uses of objects that members share.
    uses: u64,
    /// For how long locks that are asked for will be held.
    holds: BTreeMap<OpId, Duration>,
}

/// More happenings than this at one moment are a livelock.
const LIVELOCK: u32 = 100_000;

impl Cluster {
    /// An empty cluster.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let mut agenda = Agenda::default();
        if settings.sampling.is_some() {
            agenda.plan(Time::ZERO, Happening::Sample);
        }
        Self {
            now: Time::ZERO,
            rng: Rng::new(settings.seed),
            agenda,
            members: Vec::new(),
            network: Network::new(settings.link),
            streams: Streams::new(settings.kernel),
            history: History::default(),
            transcript: Transcript::new(settings.keep_lines),
            unreliable: UnreliableCopies::default(),
            traffic: None,
            coverage: Coverage::default(),
            newest_arrival: BTreeMap::new(),
            packet_limit: settings.plan.transport().map_or(usize::MAX, |t| t.max_size()),
            standing_still: 0,
            halted: false,
            busy: 0,
            padding: 0,
            uses: 0,
            holds: BTreeMap::new(),
            settings,
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// What happened so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The same as text.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The network, to be read.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Names of all nodes that were ever started, in the order of their first start.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|m| m.name.as_str())
    }

    /// Turns run so far.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.busy
    }

    /// The host of the node of this name, if there ever was one.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<Host> {
        self.members.iter().position(|m| m.name == name).map(Host)
    }

    /// What the run went through, if that is counted ([`Settings::coverage`]). Of messages, those in
    /// datagrams.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.coverage.clone();
        coverage.history(&self.history);
        coverage
    }

    /// The running node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        Some(&self.process(name)?.node)
    }

    /// The running incarnation of the node of this name.
    #[must_use]
    pub fn life(&self, name: &str) -> Option<Life> {
        Some(self.process(name)?.life)
    }

    /// The view that the node of this name has installed.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<Arc<View>> {
        self.node(name)?.stack().group().view.clone()
    }

    fn process(&self, name: &str) -> Option<&Process> {
        self.members.iter().find(|m| m.name == name)?.process.as_ref()
    }

    fn member_mut(&mut self, name: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.name == name)
    }

    /// Adds a rule for certain messages.
    pub fn add_rule(&mut self, rule: Rule) {
        self.network.add_rule(rule);
    }

    /// Removes all such rules.
    pub fn clear_rules(&mut self) {
        self.network.clear_rules();
    }

    /// From now on counts what is sent between hosts; see [`Network::census`].
    pub fn start_census(&mut self) {
        self.network.start_census(&[]);
    }

    /// From now on counts what leaves nodes; returns what has left them since it was begun before.
    pub fn count_traffic(&mut self) -> Traffic {
        self.traffic.replace(Traffic::default()).unwrap_or_default()
    }

    /// The views of all processes that run.
    pub fn views(&self) -> impl Iterator<Item = Option<&Arc<View>>> {
        let running = self.members.iter().filter_map(|m| m.process.as_ref());
        running.map(|p| p.node.stack().group().view.as_ref())
    }

    /// The same, and keeps the messages of these protocols, by JGroups' names.
    pub fn start_census_keeping(&mut self, protocols: &[&str]) {
        self.network.start_census(protocols);
    }

    /// Sends a message from the application of `from`. `None` if no such node runs.
    pub fn send(&mut self, from: &str, m: &Outgoing) -> Option<MessageId> {
        let sender = self.life(from)?;
        let to = match &m.to {
            Some(name) => Some(self.history.id(self.life(name)?)),
            None => None,
        };
        let mut sync = m.sync.clone();
        if let (Some(sync), Some(names)) = (&mut sync, &m.among) {
            let lives = names.iter().filter_map(|n| self.life(n));
            sync.to = Some(lives.map(|l| self.history.id(l)).collect());
        }
        let subset = sync.as_ref().and_then(|s| s.to.clone());
        let id = MessageId(self.history.messages.len() as u32);
        let bytes = payload::make(id, m.size);
        let mut message = match to {
            Some(to) => wire::Message::unicast(to, Body::bytes(bytes)),
            None => wire::Message::multicast(Body::bytes(bytes)),
        };
        if m.oob {
            message.flags |= Flags::OOB;
        }
        if m.unreliable {
            message.flags |= Flags::NO_RELIABILITY | Flags::NO_FC;
            self.unreliable.expect(id);
        }
        if !m.loopback {
            message.hints |= Hints::DONT_LOOPBACK;
        }
        self.history.messages.push(SentMessage {
            sender,
            to: to.map(|to| vec![to]).or(subset),
            ordered: !m.oob && !m.unreliable,
            reliable: !m.unreliable,
            loopback: m.loopback,
            size: m.size,
            sync: sync.as_ref().map(|s| (s.level, s.timeout)),
        });
        self.record(Some(sender), What::Sent(id));
        let now = self.now;
        let member = self.member_mut(from)?;
        let deadline = m.within.map(|d| member.drift.local(now) + d);
        let process = member.process.as_mut()?;
        process.commands.push_back(Command::Send(app::Send {
            op: Some(OpId(u64::from(id.0))),
            message,
            try_only: m.try_only,
            deadline,
            sync,
        }));
        self.wake(sender, Duration::ZERO);
        Some(id)
    }

    /// Gives the node of this name a command as its driver would, in its next turn.
    pub fn command(&mut self, name: &str, command: Command) {
        let Some(life) = self.life(name) else { return };
        if let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) {
            process.commands.push_back(command);
        }
        self.wake(life, Duration::ZERO);
    }

    /// Notes a fact of the run itself.
    pub fn note(&mut self, what: What) {
        self.record(None, what);
    }

    /// Lets so much time pass.
    pub fn run_for(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        while self.step(end) {}
        self.now = self.now.max(end);
    }

    /// Lets time pass until `done` holds, at most so long. Returns whether it does. It is asked
    /// every 20 ms.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Cluster) -> bool) -> bool {
        const PAUSE: Duration = Duration::from_millis(20);
        let end = self.now + limit;
        loop {
            if done(self) {
                return true;
            }
            if self.now >= end {
                return false;
            }
            self.run_for(PAUSE.min(end.since(self.now)));
        }
    }

    /// The next happening, if it is due until `end`.
    fn step(&mut self, end: Time) -> bool {
        if self.halted {
            return false;
        }
        let Some((at, what)) = self.agenda.take_until(end) else { return false };
        if at > self.now {
            self.now = at;
            self.standing_still = 0;
        }
        self.standing_still += 1;
        if self.standing_still > LIVELOCK {
            self.halted = true;
            self.record(None, What::Livelock);
            return false;
        }
        match what {
            Happening::Turn(life) => self.turn(life),
            Happening::Datagram { to, event, way } => {
                if let Some(way) = way {
                    self.count_arrival(to, &way);
                }
                self.datagram_arrives(to, event);
            }
            Happening::Stream(step) => self.with_streams(|s, around| s.step(step, around)),
            Happening::Consume(life) => self.consume_one(life),
            Happening::Answer(life, what) => self.answer_call(life, what, Given::Value),
            Happening::GiveBack(life, hold) => self.give_back(life, hold),
            Happening::Sample => self.sample_and_plan_next(),
        }
        true
    }

    fn record(&mut self, life: Option<Life>, what: What) {
        if !self.settings.history {
            return;
        }
        let fact = Fact { at: self.now, life, what };
        if !fact.what.is_sample() {
            self.transcript.add(&fact, &self.history);
        }
        self.history.facts.push(fact);
    }

    fn datagram_arrives(&mut self, to: Host, event: RawEvent) {
        let Some(process) = self.members[to.0].process.as_mut() else { return };
        let life = process.life;
        if process.queue(event) {
            self.wake(life, self.settings.turn_delay);
        }
    }

    /// Runs `f` on the connections and carries out what they want.
    fn with_streams(&mut self, f: impl FnOnce(&mut Streams, &mut Surroundings<'_>)) {
        let mut out = Vec::new();
        let (net, rng) = (&mut self.network, &mut self.rng);
        f(&mut self.streams, &mut Surroundings { now: self.now, net, rng, out: &mut out });
        for effect in out {
            match effect {
                Effect::Plan(at, step) => self.agenda.plan(at, Happening::Stream(step)),
                Effect::Tell(life, event) => {
                    let host = self.history.lives[life.0].host;
                    let process = self.members[host.0].process.as_mut();
                    if let Some(process) = process.filter(|p| p.life == life) {
                        process.queue(event);
                        self.wake(life, self.settings.turn_delay);
                    }
                }
            }
        }
    }

    /// Plans a turn of `life` so long from now, unless one comes earlier anyway.
    fn wake(&mut self, life: Life, delay: Duration) {
        let host = self.history.lives[life.0].host;
        let member = &mut self.members[host.0];
        let at = self.now + delay.max(member.slowness);
        let Some(process) = member.process.as_mut().filter(|p| p.life == life) else { return };
        if process.turn_at.is_none_or(|t| t > at) {
            process.turn_at = Some(at);
            self.agenda.plan(at, Happening::Turn(life));
        }
    }

    fn member_of(&mut self, life: Life) -> Option<&mut Member> {
        let host = self.history.lives[life.0].host;
        let member = &mut self.members[host.0];
        member.process.as_ref().is_some_and(|p| p.life == life).then_some(member)
    }
}

impl What {
    /// Samples are for the oracles, not for readers.
    pub(crate) fn is_sample(&self) -> bool {
        matches!(
            self,
            What::Credits(..)
                | What::Windows(_)
                | What::Unread(_)
                | What::Split(_)
                | What::Taken(_)
                | What::Unserved(_)
                | What::Assembling(_)
                | What::Handles { .. }
                | What::RequestsPending(_)
        )
    }
}

/// Where the transport of every node is, for plans that name initial hosts.
#[must_use]
pub fn transport_addresses(nodes: usize) -> Vec<SocketAddr> {
    (0..nodes).map(|i| addresses::transport(Host(i))).collect()
}

#[cfg(test)]
mod tests;
