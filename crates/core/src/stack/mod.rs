//! One member's protocols and the loop that runs them.
//!
//! A *turn* is any number of inputs ([`Stack::submit`], [`Stack::receive`]), then [`Stack::advance`]
//! for timers, then [`Stack::end_turn`], then the drain of [`Stack::poll_net`] and
//! [`Stack::poll_app`]. Nothing observable depends on anything but these calls and their order.

mod awake;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::{Copies, Emission, Work};

use awake::Awake;

use crate::app;
use crate::batch::Marks;
use crate::net::{NetEvent, NetOp};
use crate::protocol::Interests;
use crate::row;
use crate::strangers::Strangers;
use crate::timers::Timers;
use crate::{
    Answer, AppEvent, Command, Dir, DropReason, Event, Group, GroupChange, Protocol, Query, Rng,
    Row, Time, Trace, Uuid,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

/// What a stack must be told of its surroundings.
#[derive(Clone, Debug)]
pub struct Env {
    /// The member's identity; fresh for every incarnation.
    pub local: Uuid,
    /// Its logical name.
    pub name: Arc<str>,
    /// Where its transport receives.
    pub physical: SocketAddr,
    /// Seeds all randomness of the stack.
    pub seed: u64,
    /// Whether facts are collected for [`Stack::poll_trace`].
    pub tracing: bool,
}

/// One member: protocols, timers, queues.
pub struct Stack {
    layers: Vec<Box<dyn Protocol>>,
    info: Vec<LayerInfo>,
    work: Vec<Work>,
    pub(crate) inner: Inner,
    started: bool,
}

/// What the run loop needs to know of a layer without entering it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerInfo {
    name: &'static str,
    interests: Interests,
    marks: Marks,
}

/// Everything a layer reaches through [`crate::Cx`].
pub(crate) struct Inner {
    pub(crate) group: Group,
    pub(crate) changes: Vec<GroupChange>,
    pub(crate) out: Vec<Emission>,
    pub(crate) loopback: VecDeque<(usize, Copies)>,
    pub(crate) timers: Timers,
    pub(crate) awake: Awake,
    pub(crate) rng: Rng,
    pub(crate) net: VecDeque<NetOp>,
    pub(crate) app: VecDeque<AppEvent>,
    pub(crate) tracing: bool,
    pub(crate) traces: VecDeque<(Time, Trace)>,
    pub(crate) dropped: [u64; DropReason::COUNT],
    pub(crate) strangers: Strangers,
    pub(crate) tokens_made: u64,
    pub(crate) tokens_resolved: u64,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutants::Mutant>,
}

impl core::fmt::Debug for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<&str> = self.info.iter().map(|i| i.name).collect();
        f.debug_struct("Stack").field("layers", &names).field("group", &self.inner.group).finish()
    }
}

impl Stack {
    /// A stack of these layers, bottom first. At most 255.
    #[must_use]
    pub fn new(layers: Vec<Box<dyn Protocol>>, env: Env) -> Stack {
        assert!(!layers.is_empty() && layers.len() < 256, "a stack has 1 to 255 layers");
        let info = layers
            .iter()
            .map(|l| {
                let s = l.spec();
                let mut marks = s.id.map(Marks::of).unwrap_or_default();
                marks.add(s.interests.up_with.map(Marks::of).unwrap_or_default());
                LayerInfo { name: s.name, interests: s.interests, marks }
            })
            .collect();
        Stack {
            layers,
            info,
            work: Vec::new(),
            inner: Inner {
                group: Group::new(env.local, env.name, env.physical),
                changes: Vec::new(),
                out: Vec::new(),
                loopback: VecDeque::new(),
                timers: Timers::default(),
                awake: Awake::default(),
                rng: Rng::new(env.seed),
                net: VecDeque::new(),
                app: VecDeque::new(),
                tracing: env.tracing,
                traces: VecDeque::new(),
                dropped: [0; DropReason::COUNT],
                strangers: Strangers::default(),
                tokens_made: 0,
                tokens_resolved: 0,
                #[cfg(feature = "mutants")]
                mutant: None,
            },
            started: false,
        }
    }

    /// A request of the application.
    pub fn submit(&mut self, now: Time, cmd: Command) {
        self.wake(now);
        match cmd {
            Command::Connect { cluster } => {
                if !self.started {
                    self.started = true;
                    self.inner.group.cluster = cluster;
                    self.start_layers(now);
                }
                self.push_event(Dir::Down, Event::Connect);
            }
            Command::Disconnect => self.push_event(Dir::Down, Event::Disconnect),
            Command::Consumed(list) => {
                let top = self.layers.len();
                self.work.extend(list.into_iter().rev().map(|c| Work::Consumed(top, c)));
            }
            cmd @ (Command::Send(_)
            | Command::Cancel(_)
            | Command::FetchState(_)
            | Command::Flush { .. }
            | Command::AnswerState(_)
            | Command::TakeState(_)
            | Command::Call(_)
            | Command::Counter(_)
            | Command::Lock(_)
            | Command::AnswerRequest { .. }) => self.work.push(Work::Command(cmd)),
        }
        self.run(now);
    }

    /// Requests of the application to send these messages, one after the other. As
    /// [`Stack::submit`] of each, but our own copies come back when all of them have left, many in
    /// one batch.
    pub fn submit_sends(&mut self, now: Time, sends: impl IntoIterator<Item = app::Send>) {
        let mut payloads: Vec<Bytes> = Vec::new();
        self.wake(now);
        for mut send in sends {
            match row::take_plain(&mut send) {
                Some(payload) => payloads.push(payload),
                None => {
                    self.send_row(now, core::mem::take(&mut payloads));
                    self.work.push(Work::Command(Command::Send(send)));
                    self.work_off(now, &mut 0);
                }
            }
        }
        self.send_row(now, payloads);
        self.run(now);
    }

    /// As [`Stack::submit_sends`] of multicasts with these payloads and nothing else. None is empty.
    pub fn submit_row(&mut self, now: Time, payloads: Vec<Bytes>) {
        self.wake(now);
        self.send_row(now, payloads);
        self.run(now);
    }

    fn send_row(&mut self, now: Time, payloads: Vec<Bytes>) {
        let row = Row::sent(self.inner.group.local, payloads);
        match row.len() {
            0 => return,
            1 => self.send_apart(row),
            _ => self.work.push(Work::Sends(row)),
        }
        self.work_off(now, &mut 0);
    }

    fn push_event(&mut self, dir: Dir, ev: Event) {
        let from = match dir {
            Dir::Down => self.layers.len(),
            Dir::Up => 0,
        };
        self.work.push(Work::Event(from, dir, ev));
    }

    /// Something arrived from the network.
    pub fn receive(&mut self, now: Time, ev: NetEvent) {
        if !self.started {
            return;
        }
        self.wake(now);
        self.work.push(Work::Net(ev));
        self.run(now);
    }

    /// Sets an event travelling from layer position `from` (exclusive going down, inclusive going
    /// up), as if a layer there had raised it. For tests and fault injection.
    #[doc(hidden)]
    pub fn inject_event(&mut self, now: Time, from: usize, dir: Dir, ev: Event) {
        self.wake(now);
        self.work.push(Work::Event(from, dir, ev));
        self.run(now);
    }

    /// Applies a write to the group, as its writer would. For tests and fault injection.
    #[doc(hidden)]
    pub fn inject_change(&mut self, change: GroupChange) {
        self.inner.group.apply(change);
    }

    /// Fires what is due. `input_left`: received input is still waiting, so timers that judge peers
    /// hold back (DECISIONS 18).
    pub fn advance(&mut self, now: Time, input_left: bool) {
        self.wake(now);
        let horizon = self.inner.timers.horizon();
        loop {
            let info = &self.info;
            let due = self.inner.timers.take_due(now, horizon, |layer| {
                !(input_left && info[layer].interests.patient_timers)
            });
            let Some((layer, key)) = due else { break };
            self.work.push(Work::Timer(layer, key));
            self.run(now);
        }
    }

    /// Takes note of the time of an input.
    fn wake(&mut self, now: Time) {
        let Inner { awake, timers, tracing, traces, .. } = &mut self.inner;
        let stalled = awake.wake(now, timers.next_deadline());
        if let Some(time) = stalled.filter(|_| *tracing) {
            traces.push_back((now, Trace::Stalled { time }));
        }
    }

    /// How long this process was not run although it had something to do, in all: a starved host, a
    /// stopped process. Delays below a quarter of a second are not counted.
    #[must_use]
    pub fn stalled(&self) -> Duration {
        self.inner.awake.stalled()
    }

    /// Ends the turn: layers acknowledge and report what they held back for it, and the transport
    /// closes its frames. Call before draining [`Stack::poll_net`].
    pub fn end_turn(&mut self, now: Time) {
        for layer in (0..self.layers.len()).rev() {
            if self.info[layer].interests.end_turn {
                self.work.push(Work::EndTurn(layer));
                self.run(now);
            }
        }
    }

    /// The next thing to do on the network.
    pub fn poll_net(&mut self) -> Option<NetOp> {
        self.inner.net.pop_front()
    }

    /// The next thing to tell the application.
    pub fn poll_app(&mut self) -> Option<AppEvent> {
        self.inner.app.pop_front()
    }

    /// The next fact, if facts are collected.
    pub fn poll_trace(&mut self) -> Option<(Time, Trace)> {
        self.inner.traces.pop_front()
    }

    /// When [`Stack::advance`] has something to do next.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Time> {
        self.inner.timers.next_deadline()
    }

    /// The facts of the group.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.inner.group
    }

    /// This member.
    #[must_use]
    pub fn local(&self) -> Uuid {
        self.inner.group.local
    }

    /// Asks the layers, top first.
    #[must_use]
    pub fn ask(&self, q: &Query) -> Option<Answer> {
        self.layers.iter().rev().find_map(|p| p.answer(q, &self.inner.group))
    }

    /// All answers, top first: for questions that several layers can answer for their own part.
    #[must_use]
    pub fn ask_all(&self, q: &Query) -> Vec<Answer> {
        self.layers.iter().rev().filter_map(|p| p.answer(q, &self.inner.group)).collect()
    }

    /// Everything on which the later behaviour of this stack depends, as text, between two turns: two
    /// stacks of one kind that write the same behave alike from then on. Timers are written in the
    /// order in which they fire. What was dropped, and what was heard of strangers, is only counted
    /// and left out.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_state(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let Inner { group, changes, out: emitted, loopback, timers, rng, net, app, .. } =
            &self.inner;
        for layer in &self.layers {
            writeln!(out, "{layer:?}")?;
        }
        writeln!(out, "{group:?} {:?}", timers.in_order().collect::<Vec<_>>())?;
        writeln!(out, "{rng:?} {} {:?} {:?}", self.started, self.work, self.stalled())?;
        writeln!(out, "{changes:?} {emitted:?} {loopback:?} {net:?} {app:?}")
    }

    /// Reports every counter and gauge as (layer, name, value).
    pub fn inspect(&self, out: &mut dyn FnMut(&'static str, &str, u64)) {
        for (layer, info) in self.layers.iter().zip(&self.info) {
            layer.inspect(&mut |name, value| out(info.name, name, value));
        }
    }

    /// Switches a deliberate fault on.
    #[cfg(feature = "mutants")]
    pub fn enable_mutant(&mut self, m: crate::mutants::Mutant) {
        self.inner.mutant = Some(m);
    }

    /// How often something was dropped for this reason.
    #[must_use]
    pub fn dropped(&self, why: DropReason) -> u64 {
        self.inner.dropped[why as usize]
    }

    /// What was heard of processes that are not of this group.
    #[must_use]
    pub fn strangers(&self) -> &Strangers {
        &self.inner.strangers
    }

    /// Tokens made and not yet resolved.
    #[must_use]
    pub fn tokens_outstanding(&self) -> u64 {
        self.inner.tokens_made - self.inner.tokens_resolved
    }

    /// Names of the layers, bottom first.
    pub fn layer_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.info.iter().map(|i| i.name)
    }
}
