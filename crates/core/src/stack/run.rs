//! The run loop and its ordering rule.
//!
//! What a layer emits is processed depth-first: its emissions in order, then what it let pass, then
//! older work. That is the order in which direct calls would happen when a layer emits before it
//! passes on, without recursion and without re-entering a running layer. A first-in-first-out queue
//! would let a later message overtake one whose layer emitted something. Copies of our own messages
//! wait until all of it is done; those of several multicasts come back in one batch.

use super::Stack;
use crate::net::NetEvent;
use crate::row;
use crate::{
    AppEvent, Batch, Command, Consumed, Cx, Delivery, Dir, Event, Flow, Message, Row, RowFlow,
    SendRefusal, Time, TimerKey, Trace,
};
use alloc::boxed::Box;

/// What a layer emitted.
#[derive(Debug)]
pub(crate) enum Emission {
    Down(Message),
    Up(Batch),
    RowUp(Row),
    Again(Batch),
    Event(Dir, Event),
    Sent(usize, u64, Result<(), SendRefusal>),
    Consumed(Consumed),
}

/// Copies of our own messages, on their way back.
#[derive(Debug)]
pub(crate) enum Copies {
    Batch(Batch),
    Row(Row),
}

/// Something to be done. The number is the layer it comes from (exclusive), or the layer to enter.
#[derive(Debug)]
pub(crate) enum Work {
    Down(usize, Message),
    Up(usize, Batch),
    /// A row of the application's, for the top layer.
    Sends(Row),
    RowDown(usize, Row),
    RowUp(usize, Row),
    Event(usize, Dir, Event),
    Consumed(usize, Consumed),
    Sent(usize, u64, Result<(), SendRefusal>),
    Timer(usize, TimerKey),
    Net(NetEvent),
    Command(Command),
    EndTurn(usize),
    Start(usize),
    Stop(usize),
}

/// More steps than this for one input is a loop between layers: our bug. A frame of 64 MB in which
/// a peer packs what makes most work for its bytes takes a tenth of it.
const STEP_BUDGET: u32 = 64_000_000;

impl Stack {
    pub(super) fn start_layers(&mut self, now: Time) {
        for i in 0..self.layers.len() {
            self.work.push(Work::Start(i));
            self.run(now);
        }
    }

    /// Stops every layer, top first: tokens are resolved, timers disarmed.
    pub fn stop(&mut self, now: Time) {
        if !self.started {
            return;
        }
        for i in (0..self.layers.len()).rev() {
            self.work.push(Work::Stop(i));
            self.run(now);
        }
        self.inner.timers.clear();
        self.started = false;
    }

    /// Processes work until none is left, then copies of our own messages, batch by batch.
    pub(super) fn run(&mut self, now: Time) {
        let mut steps = 0;
        loop {
            self.work_off(now, &mut steps);
            match self.inner.loopback.pop_front() {
                Some((layer, Copies::Batch(batch))) => self.work.push(Work::Up(layer, batch)),
                Some((layer, Copies::Row(row))) => self.work.push(Work::RowUp(layer, row)),
                None => return,
            }
        }
    }

    /// Processes work until none is left. `steps`: what this input has taken so far.
    pub(super) fn work_off(&mut self, now: Time, steps: &mut u32) {
        while let Some(work) = self.work.pop() {
            *steps += 1;
            assert!(*steps < STEP_BUDGET, "layers feed each other without end");
            self.step(now, work);
        }
    }

    fn step(&mut self, now: Time, work: Work) {
        match work {
            Work::Down(from, msg) => self.walk_down(now, from, msg),
            Work::Up(from, batch) => self.walk_up(now, from, batch),
            Work::Sends(row) => self.enter_row(now, row),
            Work::RowDown(from, row) => self.walk_row_down(now, from, row),
            Work::RowUp(from, row) => self.walk_row_up(now, from, row),
            Work::Event(from, dir, ev) => self.walk_event(now, from, dir, ev),
            Work::Consumed(from, c) => self.walk_consumed(now, from, c),
            Work::Sent(layer, key, how) => self.enter(now, layer, |p, cx| p.on_sent(key, how, cx)),
            Work::Timer(layer, key) => self.enter(now, layer, |p, cx| p.on_timer(key, cx)),
            Work::Net(ev) => {
                let layer = self.net_layer(&ev);
                self.enter(now, layer, |p, cx| p.on_net(ev, cx));
            }
            Work::Command(cmd) => {
                let top = self.layers.len() - 1;
                self.enter(now, top, |p, cx| p.on_command(cmd, cx));
            }
            Work::EndTurn(layer) => self.enter(now, layer, |p, cx| p.end_turn(cx)),
            Work::Start(layer) => self.enter(now, layer, |p, cx| p.start(cx)),
            Work::Stop(layer) => self.enter(now, layer, |p, cx| p.stop(cx)),
        }
    }

    /// Frames go to the transport; the failure detector's connections and what comes on discovery's
    /// own group go to the layer of that name.
    fn net_layer(&self, ev: &NetEvent) -> usize {
        let named = |name| self.info.iter().position(|i| i.name == name).unwrap_or(0);
        match ev {
            NetEvent::Frame { .. }
            | NetEvent::Row { .. }
            | NetEvent::Undecodable { .. }
            | NetEvent::NobodyAt(_) => 0,
            NetEvent::Discovery(_) => named("MPING"),
            NetEvent::MonitorAccepted { .. }
            | NetEvent::MonitorConnected { .. }
            | NetEvent::MonitorFailed { .. }
            | NetEvent::MonitorFrame { .. }
            | NetEvent::MonitorClosed { .. } => named("FD_SOCK2"),
        }
    }

    /// Runs `f` on a layer, then queues what it emitted.
    fn enter(
        &mut self,
        now: Time,
        layer: usize,
        f: impl FnOnce(&mut dyn crate::Protocol, &mut Cx<'_>),
    ) {
        self.call(now, layer, f);
        self.queue_emissions(layer);
    }

    fn call<R>(
        &mut self,
        now: Time,
        layer: usize,
        f: impl FnOnce(&mut dyn crate::Protocol, &mut Cx<'_>) -> R,
    ) -> R {
        let (below, rest) = self.layers.split_at_mut(layer);
        let Some((me, above)) = rest.split_first_mut() else {
            unreachable!("layer {layer} is not in the stack");
        };
        let me: &mut Box<dyn crate::Protocol> = me;
        let mut cx = Cx { now, me: layer, below, above, inner: &mut self.inner };
        let r = f(me.as_mut(), &mut cx);
        for c in self.inner.changes.drain(..) {
            self.inner.group.apply(c);
        }
        r
    }

    /// Emissions of `layer` become work, in order, on top of what is older.
    fn queue_emissions(&mut self, layer: usize) {
        while let Some(e) = self.inner.out.pop() {
            self.work.push(match e {
                Emission::Down(m) => Work::Down(layer, m),
                Emission::Up(b) => Work::Up(layer + 1, b),
                Emission::RowUp(r) => Work::RowUp(layer + 1, r),
                Emission::Again(b) => Work::Up(layer, b),
                Emission::Event(Dir::Down, ev) => Work::Event(layer, Dir::Down, ev),
                Emission::Event(Dir::Up, ev) => Work::Event(layer + 1, Dir::Up, ev),
                Emission::Sent(owner, key, how) => Work::Sent(owner, key, how),
                Emission::Consumed(c) => Work::Consumed(layer, c),
            });
        }
    }

    /// `from`: the layer above the first one to visit.
    fn walk_down(&mut self, now: Time, from: usize, mut msg: Message) {
        let multicast = msg.is_multicast();
        for layer in (0..from).rev() {
            if !self.info[layer].interests.down.wants(multicast) {
                continue;
            }
            match self.call(now, layer, |p, cx| p.down(&mut msg, cx)) {
                Flow::Stop => {
                    debug_assert!(
                        msg.token.is_none() && msg.headers.is_empty(),
                        "{} stopped a message without taking it",
                        self.info[layer].name
                    );
                    return self.queue_emissions(layer);
                }
                Flow::Pass if self.inner.out.is_empty() => {}
                Flow::Pass => {
                    self.work.push(Work::Down(layer, msg));
                    return self.queue_emissions(layer);
                }
            }
        }
        debug_assert!(false, "a message fell through the transport");
    }

    /// `first`: the first layer to visit.
    fn walk_up(&mut self, now: Time, first: usize, mut batch: Batch) {
        for layer in first..self.layers.len() {
            if batch.is_empty() {
                return;
            }
            let info = &self.info[layer];
            if !info.interests.up.wants(batch.multicast) && !batch.marks().meets(info.marks) {
                continue;
            }
            self.call(now, layer, |p, cx| p.up(&mut batch, cx));
            if !self.inner.out.is_empty() {
                self.work.push(Work::Up(layer + 1, batch));
                return self.queue_emissions(layer);
            }
        }
        if batch.is_empty() {
            return;
        }
        self.inner.app.push_back(AppEvent::Deliver(Delivery {
            from: batch.src,
            multicast: batch.multicast,
            messages: batch.take_all(),
        }));
    }

    /// The top layer lets all of the row down, or gets its messages as commands.
    fn enter_row(&mut self, now: Time, mut row: Row) {
        let top = self.layers.len() - 1;
        match self.call(now, top, |p, cx| p.row_down(&mut row, cx)) {
            RowFlow::Pass => {
                self.work.push(Work::RowDown(top, row));
                self.queue_emissions(top);
            }
            RowFlow::Apart => self.send_apart(row),
        }
    }

    pub(super) fn send_apart(&mut self, row: Row) {
        let sends = row.payloads.into_iter().rev().map(row::send_of);
        self.work.extend(sends.map(|send| Work::Command(Command::Send(send))));
    }

    /// `from`: the layer above the first one to visit.
    fn walk_row_down(&mut self, now: Time, from: usize, mut row: Row) {
        for layer in (0..from).rev() {
            if !self.info[layer].interests.down.wants(true) {
                continue;
            }
            match self.call(now, layer, |p, cx| p.row_down(&mut row, cx)) {
                RowFlow::Apart => {
                    debug_assert!(self.inner.out.is_empty(), "a row that was treated comes apart");
                    let messages = row.into_messages().rev();
                    return self.work.extend(messages.map(|m| Work::Down(layer + 1, m)));
                }
                RowFlow::Pass if row.is_empty() => return self.queue_emissions(layer),
                RowFlow::Pass if self.inner.out.is_empty() => {}
                RowFlow::Pass => {
                    self.work.push(Work::RowDown(layer, row));
                    return self.queue_emissions(layer);
                }
            }
        }
        debug_assert!(false, "a row fell through the transport");
    }

    /// `first`: the first layer to visit.
    fn walk_row_up(&mut self, now: Time, first: usize, mut row: Row) {
        for layer in first..self.layers.len() {
            let info = &self.info[layer];
            if !info.interests.up.wants(true) && !row.marks().meets(info.marks) {
                continue;
            }
            match self.call(now, layer, |p, cx| p.row_up(&mut row, cx)) {
                RowFlow::Apart => {
                    debug_assert!(self.inner.out.is_empty(), "a row that was treated comes apart");
                    return self.work.push(Work::Up(layer, row.into_batch()));
                }
                RowFlow::Pass if self.inner.out.is_empty() => {}
                RowFlow::Pass => {
                    self.work.push(Work::RowUp(layer + 1, row));
                    return self.queue_emissions(layer);
                }
            }
        }
        self.inner.app.push_back(AppEvent::Row(row));
    }

    /// Down: `from` is the layer above the first one. Up: the first one.
    fn walk_event(&mut self, now: Time, from: usize, dir: Dir, ev: Event) {
        let mut next = from;
        loop {
            let layer = match dir {
                Dir::Down if next == 0 => return,
                Dir::Down => next - 1,
                Dir::Up if next == self.layers.len() => return self.event_at_top(ev),
                Dir::Up => next,
            };
            next = match dir {
                Dir::Down => layer,
                Dir::Up => layer + 1,
            };
            if let (Dir::Up, Event::View(v), true) = (dir, &ev, self.inner.tracing) {
                let fact = Trace::ViewPassed { layer: layer as u8, view: v.id };
                self.inner.traces.push_back((now, fact));
            }
            if !self.info[layer].interests.events {
                continue;
            }
            let flow = self.call(now, layer, |p, cx| p.on_event(dir, &ev, cx));
            if flow == Flow::Stop {
                return self.queue_emissions(layer);
            }
            if !self.inner.out.is_empty() {
                self.work.push(Work::Event(next, dir, ev));
                return self.queue_emissions(layer);
            }
        }
    }

    fn event_at_top(&mut self, ev: Event) {
        if let Event::View(v) = ev {
            self.inner.app.push_back(AppEvent::View(v));
        }
    }

    /// `from`: the layer above the first one to visit.
    fn walk_consumed(&mut self, now: Time, from: usize, c: Consumed) {
        for layer in (0..from).rev() {
            if !self.info[layer].interests.consumed {
                continue;
            }
            self.call(now, layer, |p, cx| p.on_consumed(&c, cx));
            if !self.inner.out.is_empty() {
                self.work.push(Work::Consumed(layer, c));
                return self.queue_emissions(layer);
            }
        }
    }
}
