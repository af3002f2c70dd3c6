//! Small stacks for tests of single protocols: a floor that stands for the network, a probe that
//! records what reaches the top, and a harness with a clock of its own.

use crate::net::{NetEvent, NetOp, OutFrame, Route};
use crate::protocol::{Cx, Flow, Interests, Protocol, Spec, Traffic};
use crate::wire::{self, Flags, Frame, FrameBody, Version};
use crate::{
    AppEvent, Batch, Command, Dir, Env, Event, GroupChange, Message, Query, Stack, Time, Uuid, View,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use std::sync::Mutex;

/// A member identity from a small number; ordered like the numbers.
pub(crate) fn id(n: u64) -> Uuid {
    Uuid::new(n, n)
}

/// A view with these members, created by the first.
pub(crate) fn view(n: u64, members: &[u64]) -> Arc<View> {
    let m: Vec<Uuid> = members.iter().map(|m| id(*m)).collect();
    Arc::new(View::new(n, m[0], m))
}

/// Stands for the transport: every message going down becomes one frame, every frame that comes in
/// becomes one batch per class. Multicasts are looped back.
#[derive(Debug)]
pub(crate) struct Floor;

impl Protocol for Floor {
    fn spec(&self) -> Spec {
        let interests = Interests { down: Traffic::Both, ..Interests::default() };
        let (provides, needs_below, needs_above) = (&[][..], &[][..], &[][..]);
        Spec { name: "FLOOR", id: None, interests, provides, needs_below, needs_above }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let mut m = core::mem::take(msg);
        let local = cx.local();
        m.src.get_or_insert(local.into());
        if let Some(t) = m.token.take() {
            cx.resolve(t, Ok(()));
        }
        let to_self = m.dest.as_ref().and_then(wire::Address::uuid) == Some(local);
        if (m.is_multicast() && !m.hints.contains(wire::Hints::DONT_LOOPBACK)) || to_self {
            cx.loopback(m.clone());
        }
        if !to_self {
            cx.net(NetOp::Frame(OutFrame {
                route: Route::Multicast,
                dest: m.dest.clone(),
                src: local,
                cluster: cx.group().cluster.clone(),
                messages: [m].into(),
            }));
        }
        Flow::Stop
    }

    fn on_net(&mut self, ev: NetEvent, cx: &mut Cx<'_>) {
        let NetEvent::Frame { frame, .. } = ev else { return };
        let messages = match frame.body {
            FrameBody::Single(m) => [m].into(),
            FrameBody::List { messages, .. } => messages,
        };
        let mut batches: Vec<Batch> = Vec::new();
        for m in messages {
            let Some(src) = m.src.as_ref().and_then(wire::Address::uuid) else { continue };
            let (mc, oob) = (m.is_multicast(), m.has(Flags::OOB));
            match batches.iter_mut().find(|b| (b.src, b.multicast, b.oob) == (src, mc, oob)) {
                Some(b) => b.push(m.into()),
                None => batches.push(Batch::of(src, m.into())),
            }
        }
        for b in batches {
            cx.deliver_up(b);
        }
    }
}

/// Records events that pass.
#[derive(Debug)]
pub(crate) struct Probe(pub(crate) Arc<Mutex<Vec<(Dir, Event)>>>);

impl Protocol for Probe {
    fn spec(&self) -> Spec {
        let interests = Interests { events: true, ..Interests::default() };
        let (provides, needs_below, needs_above) = (&[][..], &[][..], &[][..]);
        Spec { name: "PROBE", id: None, interests, provides, needs_below, needs_above }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, _cx: &mut Cx<'_>) -> Flow {
        self.0.lock().expect("no test panics while it holds this").push((dir, ev.clone()));
        Flow::Pass
    }

    fn on_command(&mut self, cmd: Command, cx: &mut Cx<'_>) {
        if let Command::Send(s) = cmd {
            let mut m = Message::from(s.message);
            m.token = s.op.map(|op| cx.app_token(op));
            cx.send_down(m);
        }
    }
}

/// One stack: floor, a probe below the layers under test, the layers, a probe above.
pub(crate) struct Solo {
    pub(crate) stack: Stack,
    pub(crate) now: Time,
    /// Events seen below the layers under test.
    pub(crate) below: Arc<Mutex<Vec<(Dir, Event)>>>,
    /// Events seen above them.
    pub(crate) above: Arc<Mutex<Vec<(Dir, Event)>>>,
    top: usize,
}

impl Solo {
    /// A started member `id(me)` of cluster "test" with these layers, bottom first.
    pub(crate) fn new(me: u64, layers: Vec<Box<dyn Protocol>>) -> Self {
        let (below, above) = (Arc::default(), Arc::default());
        let mut all: Vec<Box<dyn Protocol>> =
            [Box::new(Floor) as Box<dyn Protocol>, Box::new(Probe(Arc::clone(&below)))].into();
        all.extend(layers);
        all.push(Box::new(Probe(Arc::clone(&above))));
        Self::start(me, id(me), all, below, above)
    }

    /// A started member `local` whose top layer is the last of `layers`.
    pub(crate) fn topped(me: u64, local: Uuid, layers: Vec<Box<dyn Protocol>>) -> Self {
        let below = Arc::default();
        let mut all: Vec<Box<dyn Protocol>> =
            [Box::new(Floor) as Box<dyn Protocol>, Box::new(Probe(Arc::clone(&below)))].into();
        all.extend(layers);
        Self::start(me, local, all, below, Arc::default())
    }

    fn start(
        me: u64,
        local: Uuid,
        all: Vec<Box<dyn Protocol>>,
        below: Arc<Mutex<Vec<(Dir, Event)>>>,
        above: Arc<Mutex<Vec<(Dir, Event)>>>,
    ) -> Self {
        let top = all.len();
        let env = Env {
            local,
            name: std::format!("M{me}").into(),
            physical: ([127, 0, 0, 1], 7000 + me as u16).into(),
            seed: me,
            tracing: true,
        };
        let mut stack = Stack::new(all, env);
        stack.submit(Time::ZERO, Command::Connect { cluster: Bytes::from_static(b"test") });
        Self { stack, now: Time::ZERO, below, above, top }
    }

    /// Installs a view as GMS would: group facts, then the event down and up through the layers.
    pub(crate) fn install(&mut self, v: Arc<View>) {
        self.stack.inject_change(GroupChange::View(Some(Arc::clone(&v))));
        self.stack.inject_event(self.now, self.top, Dir::Down, Event::View(Arc::clone(&v)));
        self.stack.inject_event(self.now, 0, Dir::Up, Event::View(v));
    }

    /// An event travelling down from the top.
    pub(crate) fn event_down(&mut self, ev: Event) {
        self.stack.inject_event(self.now, self.top, Dir::Down, ev);
    }

    /// An event travelling up from the floor.
    pub(crate) fn event_up(&mut self, ev: Event) {
        self.stack.inject_event(self.now, 1, Dir::Up, ev);
    }

    /// The application sends.
    pub(crate) fn send(&mut self, m: wire::Message, op: Option<crate::OpId>) {
        let send = crate::app::Send { op, message: m, try_only: false, deadline: None, sync: None };
        self.stack.submit(self.now, Command::Send(send));
    }

    /// A message of `from` arrives.
    pub(crate) fn arrive(&mut self, from: u64, m: wire::Message) {
        self.arrive_all(from, [m]);
    }

    /// Messages of `from` arrive in one frame.
    pub(crate) fn arrive_all(&mut self, from: u64, ms: impl IntoIterator<Item = wire::Message>) {
        let messages: Vec<wire::Message> = ms
            .into_iter()
            .map(|mut m| {
                m.src.get_or_insert(id(from).into());
                m
            })
            .collect();
        let body =
            FrameBody::List { dest: None, src: Some(id(from).into()), cluster: None, messages };
        let frame = Frame { version: Version::OURS, multicast: false, body };
        self.stack.receive(self.now, NetEvent::Frame { frame, from: None });
    }

    /// Lets time pass, firing timers when they are due, ending a turn each time.
    pub(crate) fn run(&mut self, d: Duration) {
        let end = self.now + d;
        self.stack.end_turn(self.now);
        while let Some(at) = self.stack.poll_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.stack.advance(self.now, false);
            self.stack.end_turn(self.now);
        }
        self.now = end;
    }

    /// The messages that went to the network since the last call.
    pub(crate) fn sent(&mut self) -> Vec<wire::Message> {
        self.stack.end_turn(self.now);
        let mut out = Vec::new();
        while let Some(op) = self.stack.poll_net() {
            if let NetOp::Frame(f) = op {
                out.extend(f.messages.into_iter().map(|m| m.wire));
            }
        }
        out
    }

    /// What the application was told since the last call.
    pub(crate) fn told(&mut self) -> Vec<AppEvent> {
        core::iter::from_fn(|| self.stack.poll_app()).collect()
    }

    /// The byte payloads delivered to the application since the last call, with their senders.
    pub(crate) fn delivered(&mut self) -> Vec<(Uuid, Bytes)> {
        let mut out = Vec::new();
        for ev in self.told() {
            if let AppEvent::Deliver(d) = ev {
                let bytes = |m: &Message| m.body.as_bytes().cloned().unwrap_or_default();
                out.extend(d.messages.iter().map(|m| (d.from, bytes(m))));
            }
        }
        out
    }

    /// A query to the layers.
    pub(crate) fn ask(&self, q: &Query) -> Option<crate::Answer> {
        self.stack.ask(q)
    }
}

/// Several [`Solo`]s on a perfect network without delay.
pub(crate) fn exchange(
    members: &mut [Solo],
    mut lose: impl FnMut(Uuid, Uuid, &wire::Message) -> bool,
) {
    for _ in 0..1000 {
        let mut moved = false;
        for i in 0..members.len() {
            let from = members[i].stack.local();
            for m in members[i].sent() {
                let dest = m.dest.as_ref().and_then(wire::Address::uuid);
                for other in members.iter_mut() {
                    let to = other.stack.local();
                    if to != from && dest.is_none_or(|d| d == to) && !lose(from, to, &m) {
                        moved = true;
                        let body = FrameBody::Single(m.clone());
                        let multicast = m.is_multicast();
                        let frame = Frame { version: Version::OURS, multicast, body };
                        other.stack.receive(other.now, NetEvent::Frame { frame, from: None });
                    }
                }
            }
        }
        if !moved {
            return;
        }
    }
    panic!("the members never stop talking");
}

/// Lets time pass for all of them alike, exchanging messages whenever somebody's timer is due.
pub(crate) fn pass_time(
    members: &mut [Solo],
    d: Duration,
    mut lose: impl FnMut(Uuid, Uuid, &wire::Message) -> bool,
) {
    let end = members.iter().map(|m| m.now).max().expect("there is a member") + d;
    exchange(members, &mut lose);
    for _ in 0..100_000 {
        let next = members.iter().filter_map(|m| m.stack.poll_deadline()).min();
        let Some(next) = next.filter(|at| *at <= end) else {
            for m in members.iter_mut() {
                m.run(end.since(m.now));
            }
            return exchange(members, &mut lose);
        };
        for m in members.iter_mut() {
            m.run(next.since(m.now));
        }
        exchange(members, &mut lose);
    }
    panic!("timers never rest");
}
