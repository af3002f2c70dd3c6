//! A small deterministic network for tests of nodes: streams and datagrams with random delays,
//! crashes, restarts on the same address, half-open connections, frozen members.

use super::{
    Bound, Cast, Closing, LinkConfig, Node, NodeEnv, Port, RawEvent, RawOp, TransportKind,
};
use crate::net::{ConnId, NetEvent, NetOp, OutFrame, Route};
use crate::testkit::{Probe, id};
use crate::wire::{self, Body, FrameBody};
use crate::{
    AppEvent, Batch, Command, Cx, Dir, Event, Flow, GroupChange, Interests, Message, Protocol, Rng,
    Spec, Time, Trace, Traffic, Uuid, View,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Mutex;

/// Where member `n` receives.
pub(crate) fn transport(n: usize) -> SocketAddr {
    ([127, 0, 0, 1], 7800 + n as u16).into()
}

/// Where its FD_SOCK2 listens.
pub(crate) fn monitor(n: usize) -> SocketAddr {
    ([127, 0, 0, 1], 7900 + n as u16).into()
}

/// Stands for the transport over streams: every message becomes one frame, to the peer of the view
/// of the test, or to all of them.
#[derive(Debug)]
pub(crate) struct Copper {
    pub(crate) peers: Vec<SocketAddr>,
}

impl Protocol for Copper {
    fn spec(&self) -> Spec {
        let interests = Interests { down: Traffic::Both, events: true, ..Interests::default() };
        let (provides, needs_below, needs_above) = (&[][..], &[][..], &[][..]);
        Spec { name: "COPPER", id: None, interests, provides, needs_below, needs_above }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let mut m = core::mem::take(msg);
        m.src.get_or_insert(cx.local().into());
        let to = m.dest.as_ref().and_then(wire::Address::uuid);
        let route = match to.and_then(|t| cx.group().addresses.physical(t)) {
            Some(at) => Route::Peer(at),
            None => Route::Peers(self.peers.clone()),
        };
        cx.net(NetOp::Frame(OutFrame {
            route,
            dest: m.dest.clone(),
            src: cx.local(),
            cluster: cx.group().cluster.clone(),
            messages: [m].into(),
        }));
        Flow::Stop
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (_, Event::Disconnect) => cx.net(NetOp::Shutdown),
            (Dir::Down, Event::View(v)) => {
                let book = &cx.group().addresses;
                let keep = v.members.iter().filter_map(|m| book.physical(*m)).collect();
                cx.net(NetOp::RetainPeers(keep));
            }
            (Dir::Down | Dir::Up, _) => {}
        }
        Flow::Pass
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        match ev {
            NetEvent::Frame { frame, .. } => {
                let messages = match frame.body {
                    FrameBody::Single(m) => [m].into(),
                    FrameBody::List { messages, .. } => messages,
                };
                for m in messages {
                    if let Some(src) = m.src.as_ref().and_then(wire::Address::uuid) {
                        cx.deliver_up(Batch::of(src, m.into()));
                    }
                }
            }
            NetEvent::Undecodable { .. } => {
                cx.drop_from_peer(crate::DropReason::Undecodable, None);
            }
            // Nobody here sends rows.
            NetEvent::Row { .. }
            | NetEvent::NobodyAt(_)
            | NetEvent::Discovery(_)
            | NetEvent::MonitorAccepted { .. }
            | NetEvent::MonitorConnected { .. }
            | NetEvent::MonitorFailed { .. }
            | NetEvent::MonitorFrame { .. }
            | NetEvent::MonitorClosed { .. } => {}
        }
    }
}

/// Who holds one end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Member(usize),
    /// Not a member: what it receives is in [`Net::heard`].
    Stranger,
}

#[derive(Debug)]
struct End {
    holder: Holder,
    /// The holder's incarnation.
    life: u32,
    conn: ConnId,
    open: bool,
    /// Nothing arrives at this end before.
    fifo: Time,
}

#[derive(Debug)]
enum Arrival {
    /// At an end of a stream; `true`: the end is gone with it.
    Stream(usize, usize, RawEvent),
    Syn {
        stream: usize,
        to: SocketAddr,
        port: Port,
    },
    Datagram(usize, SocketAddr, Bytes),
}

/// Members and what is on its way between them.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Option<Node>>,
    /// Members that are stopped: their sockets are served by their kernel only.
    pub(crate) frozen: Vec<bool>,
    /// Addresses whose packets to open a connection vanish.
    pub(crate) filtered: Vec<SocketAddr>,
    /// What strangers received, per stream.
    pub(crate) heard: Vec<(ConnId, RawEvent)>,
    /// Facts, with who stated them.
    pub(crate) traces: Vec<(usize, Time, Trace)>,
    /// Deliveries: who, from whom, what.
    pub(crate) delivered: Vec<(usize, Uuid, Bytes)>,
    /// Events that reached the layers above those under test.
    above: Vec<Seen>,
    /// Shortest and longest delay.
    pub(crate) delay: (Duration, Duration),
    lives: Vec<u32>,
    streams: Vec<[End; 2]>,
    ports: Vec<Port>,
    arrivals: BTreeMap<(Time, u64), Arrival>,
    held: Vec<Vec<RawEvent>>,
    next: u64,
    rng: Rng,
    layers: fn() -> Vec<Box<dyn Protocol>>,
}

type Seen = Arc<Mutex<Vec<(Dir, Event)>>>;

impl Net {
    /// `n` connected members with `layers` between a transport and a probe.
    pub(crate) fn new(n: usize, seed: u64, layers: fn() -> Vec<Box<dyn Protocol>>) -> Self {
        let mut net = Net {
            now: Time::ZERO,
            nodes: Vec::new(),
            frozen: std::vec![false; n],
            filtered: Vec::new(),
            heard: Vec::new(),
            traces: Vec::new(),
            delivered: Vec::new(),
            above: (0..n).map(|_| Arc::default()).collect(),
            delay: (Duration::from_micros(50), Duration::from_millis(3)),
            lives: std::vec![0; n],
            streams: Vec::new(),
            ports: Vec::new(),
            arrivals: BTreeMap::new(),
            held: (0..n).map(|_| Vec::new()).collect(),
            next: 0,
            rng: Rng::new(seed),
            layers,
        };
        net.nodes = (0..n).map(|_| None).collect();
        for i in 0..n {
            net.start(i);
        }
        net
    }

    /// A new incarnation of member `i`, on the same addresses.
    pub(crate) fn start(&mut self, i: usize) {
        self.lives[i] += 1;
        let n = self.nodes.len();
        let peers = (0..n).filter(|p| *p != i).map(transport).collect();
        let mut layers: Vec<Box<dyn Protocol>> = [Box::new(Copper { peers }) as _].into();
        layers.extend((self.layers)());
        layers.push(Box::new(Probe(Arc::clone(&self.above[i]))));
        let env = NodeEnv {
            local: self.member(i),
            name: std::format!("M{i}").into(),
            bound: Bound { transport: transport(i), monitor: Some(monitor(i)) },
            seed: i as u64,
            tracing: true,
        };
        let mut node = Node::from_layers(layers, TransportKind::Tcp, LinkConfig::default(), env);
        node.submit(self.now, Command::Connect { cluster: Bytes::from_static(b"test") });
        self.nodes[i] = Some(node);
        self.settle(i);
    }

    /// The identity of the present incarnation of member `i`.
    pub(crate) fn member(&self, i: usize) -> Uuid {
        id(100 * u64::from(self.lives[i].saturating_sub(1)) + i as u64 + 1)
    }

    /// Installs a view of the present incarnations of `members` at those that run.
    pub(crate) fn install(&mut self, n: u64, members: &[usize]) {
        for i in members {
            self.install_at(*i, n, members);
        }
    }

    /// Installs a view at one member.
    pub(crate) fn install_at(&mut self, i: usize, n: u64, members: &[usize]) {
        let ids: Vec<Uuid> = members.iter().map(|m| self.member(*m)).collect();
        let view = Arc::new(View::new(n, ids[0], ids.clone()));
        let Some(node) = &mut self.nodes[i] else { return };
        let stack = node.stack_mut();
        for (m, place) in ids.iter().zip(members) {
            let physical = Some(transport(*place));
            stack.inject_change(GroupChange::Learn { member: *m, name: None, physical });
        }
        let top = stack.layer_names().count();
        stack.inject_change(GroupChange::View(Some(Arc::clone(&view))));
        stack.inject_event(self.now, top, Dir::Down, Event::View(Arc::clone(&view)));
        stack.inject_event(self.now, 0, Dir::Up, Event::View(view));
        self.settle(i);
    }

    /// An event from the top of member `i`.
    pub(crate) fn event_down(&mut self, i: usize, ev: Event) {
        let now = self.now;
        let Some(node) = &mut self.nodes[i] else { return };
        let top = node.stack().layer_names().count();
        node.stack_mut().inject_event(now, top, Dir::Down, ev);
        self.settle(i);
    }

    /// Member `i` sends `payload` to everybody.
    pub(crate) fn multicast(&mut self, i: usize, payload: &'static [u8]) {
        let message = wire::Message::multicast(Body::bytes(payload));
        let send =
            crate::app::Send { op: None, message, try_only: false, deadline: None, sync: None };
        let now = self.now;
        let node = self.nodes[i].as_mut().expect("the member runs");
        node.submit(now, Command::Send(send));
        self.settle(i);
    }

    /// Member `i` leaves.
    pub(crate) fn leave(&mut self, i: usize) {
        self.event_down(i, Event::Disconnect);
    }

    /// Member `i` dies. Its kernel closes its streams, or with it dies silently.
    pub(crate) fn kill(&mut self, i: usize, silently: bool) {
        self.nodes[i] = None;
        self.held[i].clear();
        for s in 0..self.streams.len() {
            for e in 0..2 {
                if self.streams[s][e].holder == Holder::Member(i) && self.streams[s][e].open {
                    self.streams[s][e].open = false;
                    if !silently {
                        self.arrive_at(s, 1 - e, |conn| RawEvent::Closed { conn, reset: true });
                    }
                }
            }
        }
    }

    /// Member `i` goes on after it was frozen.
    pub(crate) fn thaw(&mut self, i: usize) {
        self.frozen[i] = false;
        for ev in core::mem::take(&mut self.held[i]) {
            self.hand_over(i, ev);
        }
    }

    /// A stranger connects to `to`; returns the name of the connection.
    pub(crate) fn stranger_connects(&mut self, to: SocketAddr, port: Port) -> usize {
        self.open(Holder::Stranger, ConnId(0), to, port)
    }

    /// A stranger writes.
    pub(crate) fn stranger_writes(&mut self, stream: usize, bytes: &'static [u8]) {
        let bytes = Bytes::from_static(bytes);
        self.arrive_at(stream, 1, |conn| RawEvent::Received { conn, bytes });
    }

    fn open(&mut self, holder: Holder, conn: ConnId, to: SocketAddr, port: Port) -> usize {
        let stream = self.streams.len();
        let life = match holder {
            Holder::Member(i) => self.lives[i],
            Holder::Stranger => 0,
        };
        let near = End { holder, life, conn, open: true, fifo: self.now };
        let far = End {
            holder: Holder::Stranger,
            life: 0,
            conn: ConnId(RawOp::ACCEPTED + stream as u64),
            open: false,
            fifo: self.now,
        };
        self.streams.push([near, far]);
        self.ports.push(port);
        if !self.filtered.contains(&to) {
            let at = self.soon();
            self.streams[stream][1].fifo = at;
            self.arrive(at, Arrival::Syn { stream, to, port });
        }
        stream
    }

    fn soon(&mut self) -> Time {
        self.now + self.rng.duration(self.delay.0, self.delay.1)
    }

    fn arrive(&mut self, at: Time, what: Arrival) {
        self.arrivals.insert((at, self.next), what);
        self.next += 1;
    }

    fn arrive_at(&mut self, stream: usize, end: usize, ev: impl FnOnce(ConnId) -> RawEvent) {
        let at = self.soon().max(self.streams[stream][end].fifo);
        self.streams[stream][end].fifo = at;
        let ev = ev(self.streams[stream][end].conn);
        self.arrive(at, Arrival::Stream(stream, end, ev));
    }

    /// Moves what `i` wants done onto the network, and collects what it said.
    fn settle(&mut self, i: usize) {
        let now = self.now;
        let Some(node) = &mut self.nodes[i] else { return };
        node.end_turn(now);
        while let Some((at, fact)) = node.poll_trace() {
            self.traces.push((i, at, fact));
        }
        while let Some(ev) = node.poll_app() {
            if let AppEvent::Deliver(d) = ev {
                for m in d.messages {
                    let bytes = m.body.as_bytes().cloned().unwrap_or_default();
                    self.delivered.push((i, d.from, bytes));
                }
            }
        }
        let ops: Vec<RawOp> = core::iter::from_fn(|| node.poll_raw()).collect();
        for op in ops {
            self.perform(i, op);
        }
    }

    fn perform(&mut self, i: usize, op: RawOp) {
        match op {
            RawOp::Connect { conn, port, to } => {
                self.open(Holder::Member(i), conn, to, port);
            }
            RawOp::Write { conn, bytes } => {
                let Some((s, e)) = self.end(i, conn) else { return };
                let len = bytes.len();
                self.arrive_at(s, e, |conn| RawEvent::Written { conn, bytes: len });
                self.arrive_at(s, 1 - e, |conn| RawEvent::Received { conn, bytes });
            }
            RawOp::Close { conn, how } => {
                let Some((s, e)) = self.end(i, conn) else { return };
                self.streams[s][e].open = false;
                self.arrive_at(s, 1 - e, |conn| RawEvent::Closed {
                    conn,
                    reset: how == Closing::Abort,
                });
            }
            RawOp::Datagram { to: Cast::To(to), bytes } => {
                let at = self.soon();
                if let Some(n) = (0..self.nodes.len()).find(|n| transport(*n) == to) {
                    self.arrive(at, Arrival::Datagram(n, transport(i), bytes));
                }
            }
            RawOp::Datagram { to: Cast::Group | Cast::Discovery, .. } | RawOp::Finished => {}
        }
    }

    fn end(&self, i: usize, conn: ConnId) -> Option<(usize, usize)> {
        let life = self.lives[i];
        let mine = |e: &End| e.open && e.conn == conn && e.holder == Holder::Member(i);
        self.streams.iter().enumerate().rev().find_map(|(s, ends)| {
            (0..2).find(|e| mine(&ends[*e]) && ends[*e].life == life).map(|e| (s, e))
        })
    }

    fn hand_over(&mut self, i: usize, ev: RawEvent) {
        if self.frozen[i] {
            return self.held[i].push(ev);
        }
        if let Some(node) = &mut self.nodes[i] {
            node.receive(self.now, ev);
            self.settle(i);
        }
    }

    fn deliver(&mut self, what: Arrival) {
        match what {
            Arrival::Datagram(i, from, bytes) => {
                self.hand_over(i, RawEvent::Datagram { from, bytes });
            }
            Arrival::Syn { stream, to, port } => {
                let listener = (0..self.nodes.len())
                    .find(|n| transport(*n) == to || monitor(*n) == to)
                    .filter(|n| self.nodes[*n].as_ref().is_some_and(|x| !x.is_finished()));
                let Some(i) = listener else {
                    let refused = true;
                    self.arrive_at(stream, 0, |conn| RawEvent::ConnectFailed { conn, refused });
                    return;
                };
                let far = &mut self.streams[stream][1];
                (far.holder, far.life, far.open) = (Holder::Member(i), self.lives[i], true);
                let (conn, from) = (far.conn, ([127, 0, 0, 1], 40_000 + stream as u16).into());
                self.arrive_at(stream, 0, |conn| RawEvent::Connected { conn });
                self.hand_over(i, RawEvent::Accepted { conn, port, from });
            }
            Arrival::Stream(stream, end, ev) => {
                let e = &self.streams[stream][end];
                if let RawEvent::Closed { .. } | RawEvent::ConnectFailed { .. } = ev {
                    if !e.open {
                        return;
                    }
                    self.streams[stream][end].open = false;
                } else if !e.open {
                    return self.reset(stream, end, &ev);
                }
                let e = &self.streams[stream][end];
                match e.holder {
                    Holder::Stranger => self.heard.push((ConnId(stream as u64), ev)),
                    Holder::Member(i) if self.lives[i] == e.life => self.hand_over(i, ev),
                    Holder::Member(_) => {}
                }
            }
        }
    }

    /// Data for an end that is closed: a kernel that knows nothing of it answers with a reset, but
    /// only once somebody runs at the address again.
    fn reset(&mut self, stream: usize, end: usize, ev: &RawEvent) {
        let alive = match self.streams[stream][end].holder {
            Holder::Member(i) => self.nodes[i].is_some(),
            // Nobody accepted it so far.
            Holder::Stranger if end == 1 => false,
            Holder::Stranger => true,
        };
        if let (RawEvent::Received { .. }, true, true) =
            (ev, alive, self.streams[stream][1 - end].open)
        {
            self.arrive_at(stream, 1 - end, |conn| RawEvent::Closed { conn, reset: true });
        }
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, d: Duration) {
        let end = self.now + d;
        loop {
            let timer = (0..self.nodes.len())
                .filter(|i| !self.frozen[*i])
                .filter_map(|i| Some((self.nodes[i].as_ref()?.poll_deadline()?, i)))
                .min();
            let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
            match (arrival, timer) {
                (Some(at), t) if at <= end && t.is_none_or(|(t, _)| at <= t) => {
                    self.now = self.now.max(at);
                    let (_, what) = self.arrivals.pop_first().expect("there is a first arrival");
                    self.deliver(what);
                }
                (_, Some((at, i))) if at <= end => {
                    self.now = self.now.max(at);
                    let node = self.nodes[i].as_mut().expect("a running member has timers");
                    node.advance(self.now, false);
                    self.settle(i);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// How many open streams of one kind there are between two members, judged by both ends.
    pub(crate) fn streams_between(&self, port: Port, a: usize, b: usize) -> usize {
        let held =
            |e: &End, i: usize| e.open && e.holder == Holder::Member(i) && e.life == self.lives[i];
        let pair = |s: &&[End; 2]| {
            (held(&s[0], a) && held(&s[1], b)) || (held(&s[0], b) && held(&s[1], a))
        };
        let of_kind = self.streams.iter().zip(&self.ports).filter(|(_, p)| **p == port);
        of_kind.filter(|(s, _)| pair(s)).count()
    }

    /// How many ends a member has open, whatever the other side thinks.
    pub(crate) fn ends_of(&self, i: usize) -> usize {
        let held = |e: &&End| e.open && e.holder == Holder::Member(i) && e.life == self.lives[i];
        self.streams.iter().flatten().filter(held).count()
    }

    /// What `i` was delivered, without who sent it.
    pub(crate) fn payloads(&self, i: usize) -> Vec<&[u8]> {
        self.delivered.iter().filter(|d| d.0 == i).map(|d| &d.2[..]).collect()
    }

    /// Whom suspicions named that reached the top of `i`, and when, in order.
    pub(crate) fn suspected(&self, i: usize) -> Vec<Uuid> {
        let seen = self.above[i].lock().expect("no test panics while it holds this");
        let suspects = seen.iter().filter_map(|(dir, ev)| match (dir, ev) {
            (Dir::Up, Event::Suspect(list)) => {
                Some(list.iter().map(|s| s.member).collect::<Vec<_>>())
            }
            _ => None,
        });
        suspects.flatten().collect()
    }

    /// A gauge of a layer of `i`.
    pub(crate) fn gauge(&self, i: usize, name: &str) -> u64 {
        let mut found = 0;
        if let Some(node) = &self.nodes[i] {
            node.inspect(&mut |_, n, v| {
                if n == name {
                    found = v;
                }
            });
        }
        found
    }
}
