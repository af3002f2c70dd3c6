//! Finding members, and their physical addresses (JGroups `PING`, `MPING`, `TCPPING`,
//! `SHARED_LOOPBACK_PING`).
//!
//! Requests and answers are unreliable single messages. Discovery reports what it hears and judges
//! nothing: that a record may be stale, and whom to ask to join, is the business of GMS. Answers
//! state the role of this member in the installed view, never a remembered one.

mod config;
mod hunt;
mod messages;

pub use config::{DiscoveryKind, LocalPingConfig, MpingConfig, PingConfig, TcpPingConfig};

use crate::net::NetEvent;
use crate::wire::header::{Header, PingHeader, PingKind};
use crate::wire::{Address, PingData};
use crate::{
    Answer, Batch, Cx, Dir, DropReason, Event, Flow, Found, Group, Interests, Message, Protocol,
    Purpose, Query, Service, Spec, Time, TimerKey, Uuid, View,
};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use config::Common;
use core::net::SocketAddr;
use core::time::Duration;
use hunt::Hunt;

/// The wait of a joiner is over.
const JOIN_OVER: TimerKey = TimerKey(1);
/// Nobody has answered yet: the request may be lost.
const JOIN_AGAIN: TimerKey = TimerKey(2);
/// Members are to be asked for.
const HUNT: TimerKey = TimerKey(3);
/// Other joiners are to be answered.
const ANSWER: TimerKey = TimerKey(4);

/// A joiner answers another one so much later: a coordinator on a local network has answered both
/// by then, and of many that join together none needs the others.
const AFTER_COORDINATOR: Duration = Duration::from_millis(50);

/// How often a joiner asks while nobody answers, evenly over its wait. A datagram is no longer
/// something to rely on when every fifth is lost: of eight requests and their answers one gets
/// through in practically all cases, and nobody founds a second group beside one that is there.
const ASKS: u32 = 8;

/// A joiner remembers at most so many answers.
const MAX_FOUND: usize = 4096;

/// Longer names are a mistake or an attack; nobody remembers them.
const MAX_NAME: usize = 1024;

/// The cache that a coordinator sends at a view makes this look-up needless in a TCP stack, unless
/// it is lost.
const UNKNOWN_GRACE: Duration = Duration::from_secs(1);

/// The discovery protocol.
#[derive(Debug)]
pub struct Discovery {
    kind: DiscoveryKind,
    common: Common,
    role: Role,
    search: Option<Search>,
    /// The last search found a coordinator, who answers other joiners as well.
    led: bool,
    /// Joiners that asked this one, and whom they want.
    askers: BTreeMap<Uuid, Option<Vec<Uuid>>>,
    /// Until when answers are reported for a purpose other than joining.
    curious: BTreeMap<Purpose, Time>,
    hunt: Hunt,
    /// Addresses outside the configured list that members were at, oldest first.
    dynamic_hosts: VecDeque<SocketAddr>,
    /// Members of the last view.
    members: Vec<Uuid>,
    counters: Counters,
}

/// How far this member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Not joined yet.
    Client,
    /// Joined.
    Server,
    /// Leaving or gone: discovery traffic is ignored, so that nobody joins by way of us.
    Leaving,
}

/// The wait of a joiner.
#[derive(Debug)]
struct Search {
    wanted: Option<Vec<Uuid>>,
    asked: Asked,
    found: BTreeMap<Uuid, Found>,
    /// Somebody answered; requests of others do not count.
    answered: bool,
}

/// Who may answer.
#[derive(Debug)]
enum Asked {
    /// Whoever hears a multicast.
    Everybody,
    /// Who listens at these addresses, except those that refused.
    Hosts(BTreeSet<SocketAddr>),
}

#[derive(Debug, Default)]
struct Counters {
    requests: u64,
    responses: u64,
}

impl Discovery {
    /// Discovery of the kind that `config` is for.
    #[must_use]
    pub fn new(config: impl Into<DiscoveryKind>) -> Self {
        let kind = config.into();
        Self {
            common: kind.common(),
            kind,
            role: Role::Client,
            search: None,
            led: false,
            askers: BTreeMap::new(),
            curious: BTreeMap::new(),
            hunt: Hunt::default(),
            dynamic_hosts: VecDeque::new(),
            members: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn find(&mut self, purpose: Purpose, wanted: Option<Vec<Uuid>>, cx: &mut Cx<'_>) {
        let initial = purpose == Purpose::Join;
        let over = cx.now + self.common.join_wait;
        let asked = self.request(wanted.as_deref(), initial, cx);
        match purpose {
            Purpose::Join => {
                // Who asks nobody need not wait.
                let nobody = matches!(&asked, Asked::Hosts(hosts) if hosts.is_empty());
                let found = BTreeMap::new();
                self.led = false;
                self.search = Some(Search { wanted, asked, found, answered: false });
                cx.arm(JOIN_OVER, if nobody { cx.now } else { over });
                cx.arm(JOIN_AGAIN, cx.now + self.common.join_wait / ASKS);
            }
            Purpose::Merge | Purpose::Addresses => {
                self.curious.insert(purpose, over);
            }
        }
    }

    /// Nobody listens at one of the addresses that were asked. When nobody is left to answer and
    /// nobody was heard, the wait of a joiner is over: whoever starts from now on finds this member.
    fn nobody_at(&mut self, at: Option<SocketAddr>, cx: &mut Cx<'_>) {
        let Some(search) = &mut self.search else { return };
        let nobody = match (&mut search.asked, at) {
            (Asked::Hosts(hosts), Some(at)) => hosts.remove(&at) && hosts.is_empty(),
            (Asked::Everybody, None) => true,
            (Asked::Hosts(_), None) | (Asked::Everybody, Some(_)) => false,
        };
        if nobody && search.found.is_empty() {
            self.end_search(cx);
        }
    }

    /// Ends the wait of a joiner: what was found is reported, once.
    fn end_search(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(JOIN_OVER);
        cx.disarm(JOIN_AGAIN);
        if let Some(search) = self.search.take() {
            let members = search.found.into_values().collect();
            cx.raise(Dir::Up, Event::Found { purpose: Purpose::Join, members });
        }
    }

    fn install_view(&mut self, view: &View, cx: &mut Cx<'_>) {
        let old = core::mem::replace(&mut self.members, view.members.to_vec());
        let unknown_due = match self.kind {
            DiscoveryKind::Ping(_) | DiscoveryKind::Mping(_) | DiscoveryKind::InProcess(_) => {
                cx.now
            }
            DiscoveryKind::TcpPing(_) => cx.now + UNKNOWN_GRACE,
        };
        for m in view.members.iter() {
            if *m != cx.local() && cx.group().addresses.physical(*m).is_none() {
                self.hunt.want(*m, unknown_due);
            }
        }
        self.arm_hunt(cx);
        if self.speaks_for_others(cx) {
            self.disseminate(&old, cx);
        }
    }

    fn arm_hunt(&self, cx: &mut Cx<'_>) {
        match self.hunt.next() {
            Some(at) => cx.arm(HUNT, at),
            None => cx.disarm(HUNT),
        }
    }

    /// Notes what was said of a member, for the address book and for whoever looks for members.
    fn hear(&mut self, src: Uuid, data: &PingData, how: Heard, cx: &mut Cx<'_>) {
        let Some(found) = Found::from_ping(src, data) else {
            return cx.drop_from_peer(DropReason::Malformed, None);
        };
        let member = found.member;
        if member == cx.local() {
            return;
        }
        let name = data.name.as_deref().filter(|n| n.len() <= MAX_NAME).map(Into::into);
        cx.learn(member, name, found.physical);
        if let Some(at) = found.physical {
            self.remember_host(at);
            self.hunt.found(member);
            cx.raise(Dir::Down, Event::AddressLearned(member));
        }
        let now = cx.now;
        self.curious.retain(|_, until| *until > now);
        if how == Heard::Answer {
            for purpose in self.curious.keys() {
                let members = [found.clone()].into();
                cx.raise(Dir::Up, Event::Found { purpose: *purpose, members });
            }
        }
        self.note_found(found, how, cx);
    }

    fn note_found(&mut self, found: Found, how: Heard, cx: &mut Cx<'_>) {
        let Some(search) = &mut self.search else { return };
        match how {
            Heard::Answer => {
                let wanted = search.wanted.as_ref().is_none_or(|w| w.contains(&found.member));
                let full = search.found.len() >= MAX_FOUND;
                if wanted && (!full || found.coordinator) {
                    let ends = found.coordinator && self.common.break_on_coord_rsp;
                    self.led |= found.coordinator;
                    search.answered = true;
                    search.found.insert(found.member, found);
                    if ends {
                        self.end_search(cx);
                    }
                }
            }
            // A request tells that its sender lives, but not what it is: an answer is better.
            Heard::JoinRequest => {
                if search.found.len() < MAX_FOUND {
                    search.found.entry(found.member).or_insert(found);
                }
            }
            Heard::OtherRequest => {}
        }
    }

    fn remember_host(&mut self, at: SocketAddr) {
        let DiscoveryKind::TcpPing(c) = &self.kind else { return };
        if c.initial_hosts.contains(&at) || self.dynamic_hosts.contains(&at) {
            return;
        }
        self.dynamic_hosts.push_back(at);
        while self.dynamic_hosts.len() > c.max_dynamic_hosts as usize {
            self.dynamic_hosts.pop_front();
        }
    }

    fn receive(&mut self, src: Uuid, m: &Message, cx: &mut Cx<'_>) {
        let Some(Header::Ping(h)) = m.headers.get(self.kind.id()) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        let Ok(list) = messages::payload(m) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        match h.kind {
            PingKind::Request => self.requested(src, h, &list, cx),
            PingKind::Response => {
                self.counters.responses += 1;
                list.iter().for_each(|data| self.hear(src, data, Heard::Answer, cx));
            }
        }
    }

    /// In a TCP stack a request reaches only those whose address is known, so the wanted member
    /// itself may never hear it; the coordinator answers for members of its view, as it does at a
    /// new view. By multicast, everybody hears and only who is wanted answers.
    fn speaks_for_others(&self, cx: &Cx<'_>) -> bool {
        let tells = matches!(&self.kind, DiscoveryKind::TcpPing(c) if c.send_cache_on_join);
        tells && self.role == Role::Server && cx.group().is_coordinator()
    }

    fn requested(&mut self, src: Uuid, h: &PingHeader, list: &[PingData], cx: &mut Cx<'_>) {
        let ours = core::str::from_utf8(&cx.group().cluster).ok();
        if h.cluster.as_deref() != ours {
            let from = list.first().and_then(|d| d.physical.as_ref()?.socket_addr());
            let (name, now) = (h.cluster.as_deref().unwrap_or_default().as_bytes(), cx.now);
            cx.strangers().cluster(name, now, from);
            return cx.drop_from_peer(DropReason::WrongCluster, Some(src));
        }
        let how = if h.initial { Heard::JoinRequest } else { Heard::OtherRequest };
        for data in list {
            self.hear(src, data, how, cx);
        }
        let wanted = list.first().and_then(|d| d.wanted.as_ref()).filter(|w| !w.is_empty());
        let wanted: Option<Vec<Uuid>> =
            wanted.map(|w| w.iter().filter_map(Address::uuid).collect());
        let meant = wanted.as_ref().is_none_or(|w| w.contains(&cx.local()))
            || self.common.return_entire_cache
            || self.speaks_for_others(cx);
        let max_rank = self.common.max_rank_to_reply as usize;
        let ranked_out =
            h.initial && max_rank > 0 && cx.group().rank(cx.local()).is_some_and(|r| r >= max_rank);
        if !meant || ranked_out {
            return;
        }
        match h.initial && self.role == Role::Client && self.heard_by_all() {
            // The coordinator heard it too.
            true if self.led => {}
            true if self.search.is_some() => self.answer_later(src, wanted, cx),
            true | false => self.answer(src, wanted.as_deref(), cx),
        }
    }

    /// Whether everybody hears what joiners ask, and not only who is at an address that they know.
    fn heard_by_all(&self) -> bool {
        !matches!(self.kind, DiscoveryKind::TcpPing(_))
    }

    fn answer_later(&mut self, src: Uuid, wanted: Option<Vec<Uuid>>, cx: &mut Cx<'_>) {
        if self.askers.is_empty() {
            cx.arm(ANSWER, cx.now + AFTER_COORDINATOR);
        }
        if self.askers.len() < MAX_FOUND {
            self.askers.insert(src, wanted);
        }
    }

    fn answer_askers(&mut self, cx: &mut Cx<'_>) {
        let askers = core::mem::take(&mut self.askers);
        if self.role == Role::Leaving || self.led {
            return;
        }
        for (asker, wanted) in askers {
            self.answer(asker, wanted.as_deref(), cx);
        }
    }
}

/// In what kind of message a member was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Answer,
    JoinRequest,
    /// A member that looks for others: it has joined, although its request does not say so.
    OtherRequest,
}

impl Protocol for Discovery {
    fn spec(&self) -> Spec {
        Spec {
            name: self.kind.name(),
            id: Some(self.kind.id()),
            interests: Interests { events: true, ..Interests::default() },
            provides: &[Service::Discovery],
            needs_below: &[Service::Transport],
            needs_above: &[],
        }
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.role = Role::Leaving;
        self.search = None;
        self.askers.clear();
        self.curious.clear();
        self.hunt.clear();
        self.members.clear();
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, id) = (batch.src, self.kind.id());
        batch.retain(|m| {
            if m.headers.get(id).is_none() {
                return true;
            }
            if self.role == Role::Leaving {
                cx.drop_from_peer(DropReason::NotConnected, Some(src));
            } else if src != cx.local() {
                self.receive(src, m, cx);
            }
            false
        });
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::FindMembers { purpose, wanted }) => {
                self.find(*purpose, wanted.clone(), cx);
                Flow::Stop
            }
            (Dir::Up, Event::WhoHas(m)) => {
                if cx.group().addresses.physical(*m).is_none() {
                    self.hunt.want(*m, cx.now);
                    self.arm_hunt(cx);
                }
                Flow::Stop
            }
            (Dir::Up, Event::NobodyAt(at)) => {
                self.nobody_at(*at, cx);
                Flow::Stop
            }
            (Dir::Down, Event::View(v)) => {
                self.install_view(v, cx);
                Flow::Pass
            }
            (Dir::Down, Event::Connect) => {
                self.role = Role::Client;
                Flow::Pass
            }
            (Dir::Down, Event::BecomeServer) => {
                self.role = Role::Server;
                Flow::Pass
            }
            (Dir::Down, Event::Disconnect) => {
                self.role = Role::Leaving;
                Flow::Pass
            }
            _ => Flow::Pass,
        }
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        let NetEvent::Discovery(request) = ev else { return };
        let Some(src) = request.src.as_ref().and_then(Address::uuid) else {
            return cx.drop_from_peer(DropReason::BadSender, None);
        };
        let header = request.headers.get(self.kind.id());
        if src == cx.local() {
            // A socket hears its own multicasts too.
        } else if self.role == Role::Leaving {
            cx.drop_from_peer(DropReason::NotConnected, Some(src));
        } else if matches!(header, Some(Header::Ping(h)) if h.kind == PingKind::Request) {
            self.receive(src, &request.into(), cx);
        } else {
            // Answers come by the transport, which knows the cluster that they are of.
            cx.drop_from_peer(DropReason::Malformed, Some(src));
        }
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            JOIN_OVER => self.end_search(cx),
            JOIN_AGAIN => {
                let silent = self.search.as_ref().filter(|s| !s.answered);
                if let Some(wanted) = silent.map(|s| s.wanted.clone()) {
                    self.request(wanted.as_deref(), true, cx);
                    cx.arm(JOIN_AGAIN, cx.now + self.common.join_wait / ASKS);
                }
            }
            ANSWER => self.answer_askers(cx),
            HUNT => {
                let wanted = self.hunt.take_due(cx.now, self.common.max_listed());
                if !wanted.is_empty() && self.role != Role::Leaving {
                    self.request(Some(&wanted), false, cx);
                }
                self.arm_hunt(cx);
            }
            _ => {}
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::DiscoveryPlace => Some(Answer::Words(self.kind.place())),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_discovery_requests", self.counters.requests);
        out("num_discovery_responses", self.counters.responses);
        out("dynamic_hosts", self.dynamic_hosts.len() as u64);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;
