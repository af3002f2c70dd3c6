//! Several members with flow control, fragmentation, RSVP and the entry layer, on a network without
//! delay, for tests of those layers together.

use crate::app::{Delivery, Send, SyncOutcome};
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::flow::{FlowControl, MfcConfig, UfcConfig};
use crate::protocols::frag::{Frag2, Frag2Config};
use crate::protocols::rsvp::{Rsvp, RsvpConfig};
use crate::protocols::sequencer::{Sequencer, SequencerConfig};
use crate::rpc::Requested;
use crate::testkit::{Solo, exchange};
use crate::wire::{Body, Message};
use crate::{
    Answer, AppEvent, Command, OpId, Pool, Protocol, Query, SendRefusal, SendResult, Time, Trace,
    Uuid, View, event::CreditAccount, tag,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// A tagged identity, ordered like the numbers.
pub(crate) fn tagged(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::REFERENCE_DIGESTS)
}

type Loss = Box<dyn FnMut(Uuid, Uuid, &Message) -> bool>;

pub(crate) struct Cluster {
    pub(crate) members: Vec<Solo>,
    /// Whose application takes what is delivered.
    pub(crate) consuming: Vec<bool>,
    /// Delivered and not taken.
    pub(crate) unread: Vec<Vec<Delivery>>,
    /// Everything delivered: sender and payload.
    pub(crate) delivered: Vec<Vec<(Uuid, Bytes)>>,
    pub(crate) resolved: Vec<Vec<(OpId, SendResult)>>,
    /// Calls of methods that the application was told of.
    pub(crate) requested: Vec<Vec<Requested>>,
    pub(crate) blocked: Vec<Vec<(Option<OpId>, Vec<Uuid>)>>,
    pub(crate) traces: Vec<Vec<(Time, Trace)>>,
    pub(crate) lose: Loss,
    next_op: u64,
    next_view: u64,
}

impl Cluster {
    /// Tagged members 1 to `n` in one view.
    pub(crate) fn new(n: u64, mfc: &MfcConfig, ufc: &UfcConfig, frag_size: u64) -> Self {
        Self::of((1..=n).map(tagged).collect(), mfc, ufc, frag_size)
    }

    pub(crate) fn of(ids: Vec<Uuid>, mfc: &MfcConfig, ufc: &UfcConfig, frag_size: u64) -> Self {
        Self::over(&Vec::new, ids, mfc, ufc, frag_size)
    }

    /// Tagged members 1 to `n` with SEQUENCER above flow control.
    pub(crate) fn ordered(n: u64, mfc: &MfcConfig, ufc: &UfcConfig, frag_size: u64) -> Self {
        let sequencer = || -> Vec<Box<dyn Protocol>> {
            [Box::new(Sequencer::new(SequencerConfig::default())) as Box<dyn Protocol>].into()
        };
        let ids = (1..=n).map(tagged).collect();
        Self::around(&Vec::new, &sequencer, ids, mfc, ufc, frag_size)
    }

    /// With the layers that `below` makes under all others.
    pub(crate) fn over(
        below: &dyn Fn() -> Vec<Box<dyn Protocol>>,
        ids: Vec<Uuid>,
        mfc: &MfcConfig,
        ufc: &UfcConfig,
        frag_size: u64,
    ) -> Self {
        Self::around(below, &Vec::new, ids, mfc, ufc, frag_size)
    }

    /// As [`Cluster::over`], and with the layers that `middle` makes above flow control.
    fn around(
        below: &dyn Fn() -> Vec<Box<dyn Protocol>>,
        middle: &dyn Fn() -> Vec<Box<dyn Protocol>>,
        ids: Vec<Uuid>,
        mfc: &MfcConfig,
        ufc: &UfcConfig,
        frag_size: u64,
    ) -> Self {
        let frag = Frag2Config { frag_size: crate::attributes::ByteSize(frag_size) };
        let layers = || -> Vec<Box<dyn Protocol>> {
            let mut layers = below();
            layers.extend([
                Box::new(FlowControl::new(ufc.clone())) as Box<dyn Protocol>,
                Box::new(FlowControl::new(mfc.clone())),
            ]);
            layers.extend(middle());
            layers.extend([
                Box::new(Frag2::new(frag.clone())) as Box<dyn Protocol>,
                Box::new(Rsvp::new(RsvpConfig::default())),
                Box::new(Entry::new(EntryConfig::default())),
            ]);
            layers
        };
        let solo = |(i, m): (usize, &Uuid)| Solo::topped(i as u64 + 1, *m, layers());
        let members: Vec<Solo> = ids.iter().enumerate().map(solo).collect();
        let n = members.len();
        let mut c = Self {
            members,
            consuming: [true].repeat(n),
            unread: (0..n).map(|_| Vec::new()).collect(),
            delivered: (0..n).map(|_| Vec::new()).collect(),
            resolved: (0..n).map(|_| Vec::new()).collect(),
            requested: (0..n).map(|_| Vec::new()).collect(),
            blocked: (0..n).map(|_| Vec::new()).collect(),
            traces: (0..n).map(|_| Vec::new()).collect(),
            lose: Box::new(|_, _, _| false),
            next_op: 1,
            next_view: 1,
        };
        let all: Vec<usize> = (0..n).collect();
        c.install(&all);
        c
    }

    pub(crate) fn id(&self, i: usize) -> Uuid {
        self.members[i].stack.local()
    }

    /// Installs a view of these members at each of them.
    pub(crate) fn install(&mut self, who: &[usize]) {
        let ids: Vec<Uuid> = who.iter().map(|i| self.id(*i)).collect();
        let view = View::new(self.next_view, ids[0], ids);
        self.install_view(who, view);
    }

    /// Installs this view at each of these members.
    pub(crate) fn install_view(&mut self, who: &[usize], view: View) {
        let view = Arc::new(view);
        self.next_view = view.id.id + 1;
        for i in who {
            self.members[*i].install(Arc::clone(&view));
        }
    }

    pub(crate) fn send(&mut self, i: usize, message: Message) -> OpId {
        self.send_how(i, message, |_| {})
    }

    pub(crate) fn send_how(
        &mut self,
        i: usize,
        message: Message,
        how: impl FnOnce(&mut Send),
    ) -> OpId {
        let op = OpId(self.next_op);
        self.next_op += 1;
        let mut send = Send { op: Some(op), message, try_only: false, deadline: None, sync: None };
        how(&mut send);
        let now = self.members[i].now;
        self.members[i].stack.submit(now, Command::Send(send));
        op
    }

    /// A multicast of `n` bytes, each of them `fill`.
    pub(crate) fn cast(&mut self, i: usize, n: usize, fill: u8) -> OpId {
        self.send(i, Message::multicast(Body::bytes([fill].repeat(n))))
    }

    pub(crate) fn unicast(&mut self, i: usize, to: usize, n: usize, fill: u8) -> OpId {
        let to = self.id(to);
        self.send(i, Message::unicast(to, Body::bytes([fill].repeat(n))))
    }

    /// A command of the application of `i`.
    pub(crate) fn command(&mut self, i: usize, command: Command) {
        let now = self.members[i].now;
        self.members[i].stack.submit(now, command);
    }

    pub(crate) fn next_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op - 1)
    }

    pub(crate) fn cancel(&mut self, i: usize, op: OpId) {
        let now = self.members[i].now;
        self.members[i].stack.submit(now, Command::Cancel(op));
    }

    /// Moves messages and consumes until nothing happens any more.
    pub(crate) fn step(&mut self) {
        for _ in 0..10_000 {
            exchange(&mut self.members, &mut self.lose);
            let mut busy = false;
            for i in 0..self.members.len() {
                busy |= self.drain(i);
            }
            if !busy {
                return;
            }
        }
        panic!("the members never come to rest");
    }

    fn drain(&mut self, i: usize) -> bool {
        let mut consumed = Vec::new();
        for ev in self.members[i].told() {
            match ev {
                AppEvent::Deliver(d) => {
                    let bytes = |m: &crate::Message| m.body.as_bytes().cloned().unwrap_or_default();
                    self.delivered[i].extend(d.messages.iter().map(|m| (d.from, bytes(m))));
                    if self.consuming[i] {
                        consumed.extend(d.consumed());
                    } else {
                        self.unread[i].push(d);
                    }
                }
                AppEvent::Resolved { op, result } => self.resolved[i].push((op, result)),
                AppEvent::Requested(request) => self.requested[i].push(*request),
                AppEvent::Blocked { op, by, .. } => self.blocked[i].push((op, by)),
                _ => {}
            }
        }
        while let Some(t) = self.members[i].stack.poll_trace() {
            self.traces[i].push(t);
        }
        let busy = !consumed.is_empty();
        let now = self.members[i].now;
        self.members[i].stack.submit(now, Command::Consumed(consumed));
        busy
    }

    /// The application of `i` takes its oldest unread delivery.
    pub(crate) fn take_one(&mut self, i: usize) -> bool {
        if self.unread[i].is_empty() {
            return false;
        }
        let d = self.unread[i].remove(0);
        let now = self.members[i].now;
        self.members[i].stack.submit(now, Command::Consumed(d.consumed()));
        true
    }

    /// The application of `i` takes everything, now and from now on.
    pub(crate) fn resume(&mut self, i: usize) {
        self.consuming[i] = true;
        while self.take_one(i) {}
    }

    pub(crate) fn run(&mut self, d: Duration) {
        const STEP: Duration = Duration::from_millis(50);
        self.step();
        for _ in 0..d.as_millis() / STEP.as_millis() {
            for m in &mut self.members {
                m.run(STEP);
            }
            self.step();
        }
    }

    pub(crate) fn result(&self, i: usize, op: OpId) -> Option<&SendResult> {
        self.resolved[i].iter().find(|(o, _)| *o == op).map(|(_, r)| r)
    }

    pub(crate) fn refusal(&self, i: usize, op: OpId) -> Option<&SendRefusal> {
        match self.result(i, op)? {
            SendResult::Refused(r) => Some(r),
            _ => None,
        }
    }

    pub(crate) fn outcome(&self, i: usize, op: OpId) -> Option<&SyncOutcome> {
        match self.result(i, op)? {
            SendResult::Synced(o) => Some(o),
            _ => None,
        }
    }

    pub(crate) fn sent(&self, i: usize, op: OpId) -> bool {
        self.result(i, op) == Some(&SendResult::Sent)
    }

    /// The account of `i` with `peer`.
    pub(crate) fn account(&self, i: usize, pool: Pool, peer: usize) -> CreditAccount {
        let Some(Answer::Credits(list)) = self.members[i].ask(&Query::Credits(pool)) else {
            panic!("nobody keeps accounts");
        };
        let id = self.id(peer);
        *list.iter().find(|a| a.peer == id).expect("every member has an account")
    }

    /// A gauge of `i`.
    pub(crate) fn gauge(&self, i: usize, layer: &str, name: &str) -> u64 {
        let mut found = None;
        self.members[i].stack.inspect(&mut |l, n, v| {
            if l == layer && n == name {
                found = Some(v);
            }
        });
        found.expect("the gauge exists")
    }

    /// When `i` did what `what` recognises.
    pub(crate) fn times(&self, i: usize, what: impl Fn(&Trace) -> bool) -> Vec<Time> {
        self.traces[i].iter().filter(|(_, t)| what(t)).map(|(at, _)| *at).collect()
    }
}
