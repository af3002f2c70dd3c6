//! What can be done to a cluster: starting, leaving, killing, freezing, slowing, splitting.

use super::Cluster;
use super::member::{Appetite, Member, Process};
use super::state::Provision;
use crate::addresses;
use crate::agenda::Drift;
use crate::connections::{Exit, Life};
use crate::history::What;
use crate::network::{Host, Link};
use bytes::Bytes;
use rgroups_core::net::ConnId;
use rgroups_core::node::{Bound, Node, NodeEnv, Port, RawEvent, RawOp};
use rgroups_core::plan::StackPlan;
use rgroups_core::{Command, Duration, Rng, Uuid, View, tag};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The cluster that all nodes join.
const CLUSTER: &[u8] = b"sim";

/// What a member's identity says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kin {
    Ours,
    Java,
}

/// An identity as Java generates it.
fn version_4(rng: &mut Rng) -> Uuid {
    let (msb, lsb) = (rng.next_u64(), rng.next_u64());
    Uuid::new(msb & !0xf000 | 0x4000, lsb & !(0b11 << 62) | 0b10 << 62)
}

impl Cluster {
    /// Starts these nodes one after the other, each when the one before it is in a view, and waits
    /// until all of them have one view of exactly themselves.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 s for one of them, or 60 s at the end.
    pub fn form(&mut self, names: &[impl AsRef<str>]) {
        let seed = self.settings.seed;
        for name in names.iter().map(AsRef::as_ref) {
            self.start(name);
            let joined = self.run_until(Duration::from_secs(20), |c| c.view(name).is_some());
            assert!(joined, "seed {seed}: {name} joins");
        }
        let has_all = |v: Arc<View>| v.members.len() == names.len();
        let whole = |c: &Cluster| names.iter().all(|n| c.view(n.as_ref()).is_some_and(has_all));
        assert!(self.run_until(Duration::from_secs(60), whole), "seed {seed}: one view");
    }

    /// Starts the node of this name: for the first time, or anew with a fresh identity at the same
    /// physical address. It connects at once. Does nothing if it runs.
    pub fn start(&mut self, name: &str) {
        let plan = self.settings.plan.clone();
        self.start_with(name, &plan);
    }

    /// As [`Cluster::start`], with a stack of its own.
    ///
    /// # Panics
    /// If the plan cannot be built: the caller's mistake.
    pub fn start_with(&mut self, name: &str, plan: &StackPlan) {
        self.start_as(name, plan, Kin::Ours);
    }

    /// As [`Cluster::start`], a member that the others take for one of JGroups, and that does what
    /// those do: no mark in its identity, so no part in anything that JGroups does not know.
    pub fn start_java(&mut self, name: &str) {
        let plan = self.settings.plan.clone();
        self.start_as(name, &plan, Kin::Java);
    }

    fn start_as(&mut self, name: &str, plan: &StackPlan, kin: Kin) {
        let host = self.host(name).unwrap_or_else(|| self.add_member(name));
        if self.members[host.0].process.is_some() {
            return;
        }
        let member = &mut self.members[host.0];
        member.incarnations += 1;
        let life_name = match member.incarnations {
            1 => name.to_owned(),
            n => format!("{name}.{n}"),
        };
        let id = match kin {
            Kin::Ours => tag::make(&mut self.rng, plan.capabilities()),
            Kin::Java => version_4(&mut self.rng),
        };
        let env = NodeEnv {
            local: id,
            name: life_name.as_str().into(),
            bound: Bound {
                transport: addresses::transport(host),
                monitor: Some(addresses::monitor(host)),
            },
            seed: self.rng.next_u64(),
            tracing: true,
        };
        let node = match Node::new(plan, env) {
            Ok(node) => node,
            Err(problems) => panic!("the plan of {name} cannot be built: {problems:?}"),
        };
        #[cfg(feature = "mutants")]
        let node = {
            let mut node = node;
            if let Some(mutant) = self.settings.mutant {
                node.stack_mut().enable_mutant(mutant);
            }
            node
        };
        let life = self.history.add_life(host, life_name, id);
        self.streams.listen(life, Port::Transport, addresses::transport(host));
        self.streams.listen(life, Port::Monitor, addresses::monitor(host));
        self.with_streams(|s, around| s.power_on(host, around));
        let mut process = Process::new(life, node);
        process.commands.push_back(Command::Connect { cluster: Bytes::from_static(CLUSTER) });
        self.members[host.0].process = Some(process);
        self.record(Some(life), What::Started);
        self.wake(life, Duration::ZERO);
    }

    fn add_member(&mut self, name: &str) -> Host {
        let host = Host(self.members.len());
        let origin = self.rng.duration(Duration::from_secs(1), Duration::from_secs(100_000));
        self.members.push(Member {
            name: name.to_owned(),
            incarnations: 0,
            drift: Drift { origin, ppm: 0 },
            slowness: Duration::ZERO,
            appetite: Appetite::Everything,
            provision: Provision::default(),
            handling: super::Handling::default(),
            failing: false,
            process: None,
        });
        self.streams.add_host(addresses::ip(host), host);
        host
    }

    /// The application of the node cannot handle what it consumes from now on, or can again.
    pub fn failing(&mut self, name: &str, failing: bool) {
        if let Some(member) = self.members.iter_mut().find(|m| m.name == name) {
            member.failing = failing;
        }
    }

    /// Asks the node to leave in order.
    pub fn leave(&mut self, name: &str) {
        let Some(life) = self.life(name) else { return };
        self.record(Some(life), What::LeaveAsked);
        if let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) {
            p.commands.push_back(Command::Disconnect);
        }
        self.wake(life, Duration::ZERO);
    }

    /// Kills the process; its kernel closes its connections.
    pub fn crash(&mut self, name: &str) {
        self.die(name, Exit::Killed);
    }

    /// Cuts the machine's power: nothing answers any more until it is started again.
    pub fn power_off(&mut self, name: &str) {
        self.die(name, Exit::PowerOff);
    }

    fn die(&mut self, name: &str, how: Exit) {
        let Some(life) = self.life(name) else { return };
        self.record(Some(life), What::Died { power_off: how == Exit::PowerOff });
        self.end_process(life, how);
    }

    pub(super) fn end_process(&mut self, life: Life, how: Exit) {
        let host = self.history.lives[life.0].host;
        self.with_streams(|s, around| s.exit(host, life, how, around));
        self.members[host.0].process = None;
    }

    /// Kills the process and starts it again with a fresh identity.
    pub fn restart(&mut self, name: &str) {
        self.crash(name);
        self.start(name);
    }

    /// The process does nothing any more; its kernel goes on.
    pub fn freeze(&mut self, name: &str) {
        self.set_frozen(name, true);
    }

    /// The process goes on where it stopped.
    pub fn resume(&mut self, name: &str) {
        self.set_frozen(name, false);
    }

    fn set_frozen(&mut self, name: &str, frozen: bool) {
        let Some(life) = self.life(name) else { return };
        let process = self.member_of(life).and_then(|m| m.process.as_mut());
        let Some(p) = process.filter(|p| p.frozen != frozen) else { return };
        p.frozen = frozen;
        self.record(Some(life), What::Frozen(frozen));
        self.wake(life, Duration::ZERO);
        self.consume(life);
    }

    /// Every turn of the node is delayed by this much.
    pub fn slow(&mut self, name: &str, by: Duration) {
        let Some(member) = self.member_mut(name) else { return };
        if member.slowness != by {
            member.slowness = by;
            let life = self.life(name);
            self.record(life, What::Slowed(by));
        }
    }

    /// The node's clock gains so many millionths from its next start on.
    pub fn drift(&mut self, name: &str, ppm: i32) {
        let host = self.host(name).unwrap_or_else(|| self.add_member(name));
        if self.members[host.0].process.is_none() {
            self.members[host.0].drift.ppm = ppm;
        }
    }

    /// Changes how fast the node's application consumes.
    pub fn appetite(&mut self, name: &str, appetite: Appetite) {
        let Some(member) = self.member_mut(name) else { return };
        if member.appetite == appetite {
            return;
        }
        member.appetite = appetite;
        let Some(life) = self.life(name) else { return };
        let rate = match appetite {
            Appetite::Everything => None,
            Appetite::Rate(rate) => Some(rate),
            Appetite::Nothing => Some(0),
        };
        self.record(Some(life), What::Consumes(rate));
        self.consume(life);
    }

    /// Only nodes of the same group reach each other.
    pub fn partition(&mut self, groups: &[&[&str]]) {
        let hosts = groups.iter().map(|g| g.iter().filter_map(|n| self.host(n)).collect());
        let hosts: Vec<BTreeSet<Host>> = hosts.collect();
        self.network.partition(hosts);
        let groups: Vec<String> = groups.iter().map(|g| g.join(" ")).collect();
        self.record(None, What::Network(format!("cut {}", groups.join(" | "))));
        self.note_split();
    }

    /// Nothing gets from `from` to `to` any more.
    pub fn cut(&mut self, from: &str, to: &str) {
        if let (Some(a), Some(b)) = (self.host(from), self.host(to)) {
            self.network.cut(a, b);
            self.record(None, What::Network(format!("cut {from} > {to}")));
            self.note_split();
        }
    }

    /// Ends all partitions and cuts.
    pub fn heal(&mut self) {
        self.network.heal();
        self.record(None, What::Network("heal".into()));
        self.note_split();
        self.with_streams(|s, around| s.healed(around));
    }

    fn note_split(&mut self) {
        let hosts = || (0..self.members.len()).map(Host);
        let ways = hosts().flat_map(|a| hosts().map(move |b| (a, b)));
        let cut = ways.filter(|(a, b)| !self.network.reaches(*a, *b)).collect();
        self.record(None, What::Split(cut));
    }

    /// Resets all connections of the node, as a failing network does.
    pub fn reset_connections(&mut self, name: &str) {
        let Some(life) = self.life(name) else { return };
        self.record(Some(life), What::Network("connections reset".into()));
        self.with_streams(|s, around| s.reset_all(life, around));
    }

    /// Strangers send the node random bytes, so many times: as datagrams, and on connections.
    pub fn garbage(&mut self, name: &str, times: u32) {
        let Some(life) = self.life(name) else { return };
        let from = SocketAddr::from(([10, 255, 255, 254], 9_999));
        for i in 0..times {
            let length = self.rng.between(1, 200);
            let bytes: Bytes = (0..length).map(|_| self.rng.next_u64() as u8).collect();
            // Far above the names that connections of the cluster get.
            let conn = ConnId(RawOp::ACCEPTED + (1 << 40) + u64::from(i));
            let port = if i % 2 == 0 { Port::Transport } else { Port::Monitor };
            let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) else { return };
            p.queue(RawEvent::Datagram { from, bytes: bytes.clone() });
            p.queue(RawEvent::Accepted { conn, port, from });
            p.queue(RawEvent::Received { conn, bytes });
            if i % 3 == 0 {
                p.queue(RawEvent::Closed { conn, reset: i % 2 == 0 });
            }
        }
        self.wake(life, Duration::ZERO);
    }

    /// All links become this one.
    pub fn set_links(&mut self, link: Link) {
        self.network.default_link = link;
    }

    /// The way from one node to another becomes this one.
    pub fn set_link(&mut self, from: &str, to: &str, link: Link) {
        if let (Some(a), Some(b)) = (self.host(from), self.host(to)) {
            self.network.set_link(a, b, link);
        }
    }

    /// Ends every fault: partitions, rules, loss, freezes, slowness, hunger. The dead stay dead.
    pub fn end_all_faults(&mut self, link: Link) {
        self.network.repair(link);
        self.heal();
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        for name in &names {
            self.resume(name);
            self.slow(name, Duration::ZERO);
            self.appetite(name, Appetite::Everything);
        }
    }
}
