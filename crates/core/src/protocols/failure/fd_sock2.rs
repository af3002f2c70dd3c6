//! FD_SOCK2: each member keeps a connection to its right-hand neighbour; when it breaks, that
//! neighbour is suspected.
//!
//! What counts as evidence: a connection that breaks without announcement, and a member whose
//! monitor ports all refuse, or are answered by somebody else. What does not: a port that does not
//! answer (a filter, a frozen process), an announced close (a leave whose view is on its way), a
//! neighbour whose address is not known yet. In these cases the neighbour is looked for again later,
//! and heartbeats decide meanwhile. It never waits for the network, never excludes anybody: only the
//! member that would be coordinator without the suspects passes them up, to be verified.
//!
//! For the verification it looks for the suspect again; if nobody listens, the suspicion need not
//! wait for its timeout (DECISIONS 25).

mod search;
#[cfg(test)]
mod tests;

pub use search::monitor_port;

use super::acts_without;
use crate::net::{ConnId, NetEvent, NetOp};
use crate::protocol::{Interests, Protocol, Service, Spec};
use crate::wire::header::{FdSock2Header, FdSock2Kind};
use crate::wire::{Address, Body, Header, Message as WireMessage, ProtId};
use crate::{
    Answer, Batch, Cx, Dir, DropReason, Event, Evidence, Flow, Group, Purpose, Query, Suspicion,
    Time, TimerKey, Trace, Uuid, attributes,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use search::{Found, Search, Step};

attributes! {
    /// Failure detection by connections in a ring (JGroups `FD_SOCK2`).
    pub struct FdSock2Config for "FD_SOCK2" {
        /// The monitor port is the transport's port plus this. Default 100; the same at all members.
        offset: u16 = 100,
        /// How many further ports are tried, when listening and when connecting. Default 3; the
        /// same at all members.
        port_range: u16 = 3,
        /// How often suspicions are repeated until the view changes, and how often a neighbour that
        /// does not answer is looked for again. Default 5 s.
        suspect_msg_interval: Duration = Duration::from_secs(5),
        /// How long one port may take to answer. Default 1 s.
        connect_timeout: Duration = Duration::from_secs(1),
    }
}

const RETRY: TimerKey = TimerKey(0);
const REPEAT: TimerKey = TimerKey(1);
/// Timers of searches: this plus the connection's number.
const SEARCH: u64 = 16;

/// How long after an announced close the neighbour is looked for again, if it is still a member.
const GRACE: Duration = Duration::from_secs(2);
/// How long an unknown address is waited for before it is asked for again.
const ADDRESS_WAIT: Duration = Duration::from_millis(500);
/// A member that was found alive is not suspected again within this time, doubled with every time
/// that it was: a wrong suspicion must not repeat in a storm.
const FORBEARANCE: Duration = Duration::from_secs(1);
const MAX_FORBEARANCE: Duration = Duration::from_secs(30);

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct FdSock2 {
    config: FdSock2Config,
    watch: Watch,
    /// Members that are looked for, to be watched or verified.
    searches: Vec<Search>,
    /// Suspected by anybody, as it was first said; all are members.
    suspects: BTreeMap<Uuid, Suspicion>,
    /// Suspected by this member; announced again until the view changes.
    accused: BTreeSet<Uuid>,
    /// Members that were found alive after a suspicion.
    cleared: BTreeMap<Uuid, Cleared>,
    leaving: bool,
    next_conn: u64,
    suspect_events: u64,
    unreachable: u64,
}

/// What is known of the right-hand neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// There is none.
    Nobody,
    /// It is looked for.
    Searching { neighbour: Uuid },
    /// It is connected.
    Connected { neighbour: Uuid, conn: ConnId },
    /// It cannot be watched now. It is looked for again when the timer fires.
    Waiting { neighbour: Uuid },
}

impl Watch {
    fn neighbour(self) -> Option<Uuid> {
        match self {
            Watch::Nobody => None,
            Watch::Searching { neighbour }
            | Watch::Connected { neighbour, .. }
            | Watch::Waiting { neighbour } => Some(neighbour),
        }
    }
}

#[derive(Debug)]
struct Cleared {
    times: u32,
    believe_until: Time,
}

impl FdSock2 {
    /// With these settings.
    #[must_use]
    pub fn new(config: FdSock2Config) -> Self {
        Self {
            config,
            watch: Watch::Nobody,
            searches: Vec::new(),
            suspects: BTreeMap::new(),
            accused: BTreeSet::new(),
            cleared: BTreeMap::new(),
            leaving: false,
            next_conn: 0,
            suspect_events: 0,
            unreachable: 0,
        }
    }

    /// The next member to the right that nobody suspects.
    fn right_neighbour(&self, group: &Group) -> Option<Uuid> {
        let members = group.members();
        let me = group.rank(group.local)?;
        let (before, after) = members.split_at(me);
        after[1..].iter().chain(before).find(|m| !self.suspects.contains_key(m)).copied()
    }

    /// Looks to the right, and watches who is there.
    fn look_right(&mut self, cx: &mut Cx<'_>) {
        let wanted = if self.leaving { None } else { self.right_neighbour(cx.group()) };
        if wanted == self.watch.neighbour() {
            return;
        }
        // A connection that stands is better evidence than what another member says.
        if let Watch::Connected { neighbour, .. } = self.watch
            && !self.leaving
            && self.suspects.contains_key(&neighbour)
            && !self.accused.contains(&neighbour)
        {
            return;
        }
        self.stop_watching(cx);
        if let Some(neighbour) = wanted {
            self.look_for(neighbour, cx);
        }
    }

    fn stop_watching(&mut self, cx: &mut Cx<'_>) {
        match self.watch {
            Watch::Nobody => {}
            Watch::Searching { neighbour } => self.give_up_search(neighbour, Found::Watch, cx),
            Watch::Connected { conn, .. } => cx.net(NetOp::MonitorClose { conn }),
            Watch::Waiting { .. } => cx.disarm(RETRY),
        }
        self.watch = Watch::Nobody;
    }

    fn look_for(&mut self, neighbour: Uuid, cx: &mut Cx<'_>) {
        if self.search(neighbour, Found::Watch, cx) {
            self.watch = Watch::Searching { neighbour };
        } else {
            // No suspicion: nothing is known. Whoever knows the address is asked.
            self.wait(neighbour, ADDRESS_WAIT, cx);
            let wanted = Some([neighbour].into());
            cx.raise(Dir::Down, Event::FindMembers { purpose: Purpose::Addresses, wanted });
        }
    }

    fn wait(&mut self, neighbour: Uuid, time: Duration, cx: &mut Cx<'_>) {
        self.watch = Watch::Waiting { neighbour };
        cx.arm(RETRY, cx.now + time);
    }

    /// Starts to look for `member`; says whether its address is known.
    fn search(&mut self, member: Uuid, found: Found, cx: &mut Cx<'_>) -> bool {
        let Some(at) = cx.group().addresses.physical(member) else { return false };
        let search = Search::new(member, at, found);
        self.dial(search, cx);
        true
    }

    /// Tries the next port of a search.
    fn dial(&mut self, mut search: Search, cx: &mut Cx<'_>) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let to = search.dial(conn, self.config.offset);
        cx.net(NetOp::MonitorConnect { conn, to });
        cx.arm(TimerKey(SEARCH + conn.0), cx.now + self.config.connect_timeout);
        self.searches.push(search);
    }

    fn take_search(&mut self, conn: ConnId, cx: &mut Cx<'_>) -> Option<Search> {
        let i = self.searches.iter().position(|s| s.conn == conn)?;
        cx.disarm(TimerKey(SEARCH + conn.0));
        Some(self.searches.swap_remove(i))
    }

    fn give_up_search(&mut self, member: Uuid, found: Found, cx: &mut Cx<'_>) {
        let of = |s: &&Search| s.member == member && s.found == found;
        if let Some(conn) = self.searches.iter().find(of).map(|s| s.conn) {
            self.take_search(conn, cx);
            cx.net(NetOp::MonitorClose { conn });
        }
    }

    /// Something is known of the port that a search is at.
    fn on_step(&mut self, conn: ConnId, step: Step, cx: &mut Cx<'_>) {
        let Some(mut search) = self.take_search(conn, cx) else { return };
        match step {
            Step::Refused | Step::Closed => {}
            Step::Silent | Step::Stranger | Step::Member => {
                if step != Step::Member || search.found != Found::Watch {
                    cx.net(NetOp::MonitorClose { conn });
                }
            }
        }
        if step == Step::Member {
            if search.found == Found::Watch {
                self.watch = Watch::Connected { neighbour: search.member, conn };
            }
            return;
        }
        if search.goes_on_after(step, self.config.port_range) {
            return self.dial(search, cx);
        }
        match (search.found, search.absent) {
            (Found::Watch | Found::Inert, true) => {
                self.lost(search.member, Evidence::NobodyListens, cx);
            }
            (Found::Watch, false) => {
                self.unreachable += 1;
                let member = search.member;
                cx.trace(|| Trace::MonitorUnreachable { member });
                self.wait(search.member, self.config.suspect_msg_interval, cx);
            }
            (Found::Verify, true) => cx.raise(Dir::Up, Event::Refuses(search.member)),
            (Found::Verify | Found::Inert, false) => {}
        }
    }

    /// There is evidence that this member is gone.
    fn lost(&mut self, member: Uuid, why: Evidence, cx: &mut Cx<'_>) {
        let forbearance = self.cleared.get(&member).map(|c| c.believe_until);
        let watched = self.watch.neighbour() == Some(member);
        if let Some(until) = forbearance.filter(|until| cx.now < *until) {
            if watched {
                self.wait(member, until.since(cx.now), cx);
            }
            return;
        }
        if watched {
            self.watch = Watch::Nobody;
        }
        let by = cx.local();
        self.suspects.insert(member, Suspicion { member, by, why });
        self.accused.insert(member);
        cx.trace(|| Trace::Accused { member, by, why });
        self.announce(cx);
        self.look_right(cx);
    }

    /// Tells everybody whom this member suspects.
    fn announce(&mut self, cx: &mut Cx<'_>) {
        if self.accused.is_empty() {
            return cx.disarm(REPEAT);
        }
        multicast(FdSock2Kind::Suspect, self.accused.iter().copied(), cx);
        cx.arm(REPEAT, cx.now + self.config.suspect_msg_interval);
        let accused: Vec<Uuid> = self.accused.iter().copied().collect();
        self.pass_up(&accused, cx);
    }

    /// Only the member that would be coordinator without the suspects acts.
    fn pass_up(&mut self, list: &[Uuid], cx: &mut Cx<'_>) {
        if !list.is_empty() && acts_without(cx.group(), &self.suspects) {
            self.suspect_events += 1;
            let suspicions = list.iter().filter_map(|m| self.suspects.get(m).copied());
            cx.raise(Dir::Up, Event::Suspect(suspicions.collect()));
        }
    }

    /// Another member suspects.
    fn hear_suspects(&mut self, by: Uuid, members: &[Address], cx: &mut Cx<'_>) {
        let local = cx.local();
        let list: Vec<Uuid> = members
            .iter()
            .filter_map(Address::uuid)
            .filter(|m| *m != local && cx.is_member(*m))
            .collect();
        let repeated = list.iter().any(|m| self.suspects.contains_key(m));
        for member in list.iter().copied() {
            let hearsay = Suspicion { member, by, why: Evidence::Hearsay };
            self.suspects.entry(member).or_insert(hearsay);
        }
        self.pass_up(&list, cx);
        self.look_right(cx);
        if repeated {
            self.look_for_inert(by, cx);
        }
    }

    /// A suspicion is repeated, so whoever should have acted on it has not, or its view did not come. It
    /// may be dead itself, and be so without anybody who watches it: its left neighbour may be dead too,
    /// or the accuser has a view without it that did not reach this member.
    fn look_for_inert(&mut self, accuser: Uuid, cx: &mut Cx<'_>) {
        let group = cx.group();
        let acting = group.members().iter().find(|m| !self.suspects.contains_key(m)).copied();
        let Some(acting) = acting.filter(|m| *m != group.local && *m != accuser) else { return };
        let known = self.searches.iter().any(|s| s.member == acting) || self.is_watched(acting);
        if !known && !self.leaving {
            self.search(acting, Found::Inert, cx);
        }
    }

    fn is_watched(&self, m: Uuid) -> bool {
        matches!(self.watch, Watch::Connected { neighbour, .. } if neighbour == m)
    }

    /// These are alive after all. Says whether any of them was suspected.
    fn clear(&mut self, list: impl IntoIterator<Item = Uuid>, cx: &mut Cx<'_>) -> Vec<Uuid> {
        let mut cleared = Vec::new();
        for m in list {
            self.give_up_search(m, Found::Verify, cx);
            if self.suspects.remove(&m).is_some() {
                self.accused.remove(&m);
                let entry =
                    self.cleared.entry(m).or_insert(Cleared { times: 0, believe_until: cx.now });
                let time = FORBEARANCE * 2u32.saturating_pow(entry.times.min(8));
                entry.times += 1;
                entry.believe_until = cx.now + time.min(MAX_FORBEARANCE);
                cleared.push(m);
            }
        }
        if self.accused.is_empty() {
            cx.disarm(REPEAT);
        }
        self.look_right(cx);
        cleared
    }

    /// Members that left are forgotten; who stays suspected although a view came is announced no
    /// more by us, unless it is still our finding.
    fn on_view(&mut self, cx: &mut Cx<'_>) {
        let group = cx.group();
        self.suspects.retain(|m, _| group.is_member(*m));
        self.accused.retain(|m| group.is_member(*m));
        self.cleared.retain(|m, _| group.is_member(*m));
        let gone: Vec<Uuid> =
            self.searches.iter().map(|s| s.member).filter(|m| !group.is_member(*m)).collect();
        for m in gone {
            self.give_up_search(m, Found::Verify, cx);
            self.give_up_search(m, Found::Inert, cx);
        }
        if self.accused.is_empty() {
            cx.disarm(REPEAT);
        }
        self.look_right(cx);
    }

    fn on_frame(&mut self, conn: ConnId, src: Uuid, header: &FdSock2Header, cx: &mut Cx<'_>) {
        match header.kind {
            FdSock2Kind::Connect => {
                let cluster = String::from_utf8_lossy(&cx.group().cluster).into_owned();
                let header = FdSock2Header {
                    kind: FdSock2Kind::ConnectResponse,
                    members: Vec::new(),
                    cluster: Some(cluster),
                    server: Some(cx.local().into()),
                };
                cx.net(NetOp::MonitorSend { conn, header });
            }
            FdSock2Kind::ConnectResponse => {
                let Some(search) = self.searches.iter().find(|s| s.conn == conn) else { return };
                let who = header.server.as_ref().and_then(Address::uuid);
                let ours =
                    header.cluster.as_ref().map(String::as_bytes) == Some(&cx.group().cluster[..]);
                let step =
                    if who == Some(search.member) && ours { Step::Member } else { Step::Stranger };
                self.on_step(conn, step, cx);
            }
            FdSock2Kind::Suspect | FdSock2Kind::Unsuspect => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
            }
        }
    }

    fn on_closed(&mut self, conn: ConnId, graceful: bool, cx: &mut Cx<'_>) {
        match self.watch {
            Watch::Connected { neighbour, conn: watched } if watched == conn => {
                if graceful {
                    // A leave, most likely; the view that says so is on its way.
                    self.wait(neighbour, GRACE, cx);
                } else {
                    self.lost(neighbour, Evidence::ConnectionClosed, cx);
                }
            }
            _ => self.on_step(conn, Step::Closed, cx),
        }
    }
}

fn multicast(kind: FdSock2Kind, members: impl Iterator<Item = Uuid>, cx: &mut Cx<'_>) {
    let members = members.map(Address::from).collect();
    let header = FdSock2Header { kind, members, cluster: None, server: None };
    cx.send_down(
        WireMessage::multicast(Body::Empty)
            .with_header(ProtId::FD_SOCK2, Header::FdSock2(Box::new(header))),
    );
}

impl Protocol for FdSock2 {
    fn spec(&self) -> Spec {
        Spec {
            name: "FD_SOCK2",
            id: Some(ProtId::FD_SOCK2),
            interests: Interests { events: true, patient_timers: true, ..Interests::default() },
            provides: &[Service::FailureDetection],
            needs_below: &[Service::Transport],
            needs_above: &[Service::Membership],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.leaving = true;
        self.look_right(cx);
        for search in core::mem::take(&mut self.searches) {
            cx.net(NetOp::MonitorClose { conn: search.conn });
        }
        self.suspects.clear();
        self.accused.clear();
        self.cleared.clear();
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let mut mine = Vec::new();
        batch.retain(|m| match m.headers.get(ProtId::FD_SOCK2) {
            Some(Header::FdSock2(h)) => {
                mine.push(h.clone());
                false
            }
            Some(_) => false,
            None => true,
        });
        for h in mine {
            if src == cx.local() {
                // Our own multicast: acted upon when it was sent.
                continue;
            }
            if !cx.is_member(src) {
                cx.drop_from_peer(DropReason::NotAMember, Some(src));
                continue;
            }
            match h.kind {
                FdSock2Kind::Suspect => self.hear_suspects(src, &h.members, cx),
                FdSock2Kind::Unsuspect => {
                    self.clear(h.members.iter().filter_map(Address::uuid), cx);
                }
                FdSock2Kind::Connect | FdSock2Kind::ConnectResponse => {
                    cx.drop_from_peer(DropReason::Malformed, Some(src));
                }
            }
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::Connect) => self.leaving = false,
            (Dir::Down, Event::Disconnect) => {
                self.leaving = true;
                self.look_right(cx);
            }
            (Dir::Down, Event::View(_)) => self.on_view(cx),
            (Dir::Down, Event::Verify(list)) => {
                // They are being verified above: is anybody there?
                for m in list {
                    let known =
                        self.searches.iter().any(|s| s.member == *m && s.found == Found::Verify);
                    if !known && !self.leaving && cx.is_member(*m) {
                        self.search(*m, Found::Verify, cx);
                    }
                }
            }
            // Only where the coordinator is a JGroups member: it is told in the words that it knows.
            (Dir::Down, Event::Exclude(list)) => {
                multicast(FdSock2Kind::Suspect, list.iter().copied(), cx);
            }
            (Dir::Down, Event::Unsuspect(list)) => {
                let cleared = self.clear(list.iter().copied(), cx);
                if !cleared.is_empty() {
                    multicast(FdSock2Kind::Unsuspect, cleared.into_iter(), cx);
                }
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            RETRY => {
                if let Watch::Waiting { neighbour } = self.watch {
                    self.watch = Watch::Nobody;
                    if !self.leaving && cx.is_member(neighbour) {
                        self.look_for(neighbour, cx);
                    }
                }
            }
            REPEAT => self.announce(cx),
            TimerKey(n) => self.on_step(ConnId(n.saturating_sub(SEARCH)), Step::Silent, cx),
        }
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        match ev {
            NetEvent::MonitorConnected { conn } => {
                if let Some(search) = self.searches.iter().find(|s| s.conn == conn) {
                    let header = FdSock2Header {
                        kind: FdSock2Kind::Connect,
                        members: Vec::new(),
                        cluster: None,
                        server: Some(search.member.into()),
                    };
                    cx.net(NetOp::MonitorSend { conn, header });
                }
            }
            NetEvent::MonitorFailed { conn, refused } => {
                let step = if refused { Step::Refused } else { Step::Silent };
                self.on_step(conn, step, cx);
            }
            NetEvent::MonitorFrame { conn, src, header } => self.on_frame(conn, src, &header, cx),
            NetEvent::MonitorClosed { conn, graceful } => self.on_closed(conn, graceful, cx),
            NetEvent::MonitorAccepted { .. } => {}
            NetEvent::Frame { .. }
            | NetEvent::Row { .. }
            | NetEvent::Undecodable { .. }
            | NetEvent::NobodyAt(_)
            | NetEvent::Discovery(_) => {
                cx.drop_from_peer(DropReason::Malformed, None);
            }
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Suspects => Some(Answer::Suspicions(self.suspects.values().copied().collect())),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let connected = matches!(self.watch, Watch::Connected { .. });
        out("connected", u64::from(connected));
        out("num_suspected_members", self.suspects.len() as u64);
        out("num_suspect_events", self.suspect_events);
        out("num_unreachable", self.unreachable);
    }
}
