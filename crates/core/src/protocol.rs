//! What a protocol is, and what it can reach while it runs.
//!
//! A protocol is entered by the stack's run loop, never by another protocol, and never while it is
//! running. Whatever it emits through [`Cx`] is processed after it returns: emissions in order, then
//! the message it let pass, then older work.

use crate::stack::{Copies, Emission, Inner};
use crate::token::Owner;
use crate::wire::ProtId;
use crate::{
    Answer, AppEvent, Batch, Command, Consumed, Dir, DropReason, Event, Group, GroupChange,
    Message, Query, Rng, Row, RowFlow, SendRefusal, SendResult, SendToken, Time, TimerKey, Trace,
    Uuid,
    net::{NetEvent, NetOp},
    strangers::Strangers,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// What became of a message or event that was offered to a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// It travels on.
    Pass,
    /// The layer took it (`mem::take`), or dropped it on purpose (`Cx::discard`).
    Stop,
}

/// Which data messages a layer wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// None, beyond those with its own header.
    #[default]
    None,
    /// Unicasts.
    Unicast,
    /// Multicasts.
    Multicast,
    /// Both.
    Both,
}

impl Traffic {
    /// Whether a message of this class is wanted.
    #[must_use]
    pub fn wants(self, multicast: bool) -> bool {
        match self {
            Traffic::None => false,
            Traffic::Unicast => !multicast,
            Traffic::Multicast => multicast,
            Traffic::Both => true,
        }
    }
}

/// What a layer wants to be entered for; everything else passes it by without a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interests {
    /// Messages going down.
    pub down: Traffic,
    /// Messages going up, beyond those with the layer's own header.
    pub up: Traffic,
    /// Messages going up with the header of this other protocol.
    pub up_with: Option<ProtId>,
    /// Events, in both directions.
    pub events: bool,
    /// Consumption by the application or by layers above.
    pub consumed: bool,
    /// A call at the end of every turn, before the transport closes its frames.
    pub end_turn: bool,
    /// The layer's timers do not fire in a turn that left received input unprocessed: they judge
    /// peers, and the evidence may be in that input (DECISIONS 18).
    pub patient_timers: bool,
}

/// What a layer offers to others; plans are checked against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Service {
    Transport,
    Discovery,
    MergeDetection,
    FailureDetection,
    Verification,
    ReliableMulticast,
    ReliableUnicast,
    Stability,
    Membership,
    MulticastCredits,
    UnicastCredits,
    Fragmentation,
    SyncSends,
    Faults,
    Barrier,
    StateTransfer,
    PrimaryViews,
    TotalOrder,
    Counters,
    Locks,
}

/// A protocol's static description.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// JGroups' name.
    pub name: &'static str,
    /// The id of its header; layers without header have none.
    pub id: Option<ProtId>,
    /// When it wants to be entered.
    pub interests: Interests,
    /// What it offers.
    pub provides: &'static [Service],
    /// What must be somewhere below it.
    pub needs_below: &'static [Service],
    /// What must be somewhere above it.
    pub needs_above: &'static [Service],
}

/// One layer of a stack. Its [`Debug`](core::fmt::Debug) form shows all of its state: it is compared where
/// every order of events is explored (`Stack::write_state`).
pub trait Protocol: core::fmt::Debug + Send + 'static {
    /// Its description; asked once when the stack is built.
    fn spec(&self) -> Spec;

    /// The stack starts. Layers start from the bottom up; the cluster name is set.
    fn start(&mut self, _cx: &mut Cx<'_>) {}

    /// The member has left. Resolve every token that is still held.
    fn stop(&mut self, _cx: &mut Cx<'_>) {}

    /// A message going down.
    fn down(&mut self, _msg: &mut Message, _cx: &mut Cx<'_>) -> Flow {
        Flow::Pass
    }

    /// Messages going up: remove what must not travel on. An empty batch goes no further.
    fn up(&mut self, _batch: &mut Batch, _cx: &mut Cx<'_>) {}

    /// A row of multicasts going down. A layer that treats it as [`Protocol::down`] would treat each of
    /// its messages saves their taking apart.
    fn row_down(&mut self, _row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        RowFlow::Apart
    }

    /// A row of multicasts going up, as [`Protocol::up`] gets batches.
    fn row_up(&mut self, _row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        RowFlow::Apart
    }

    /// An event passing by.
    fn on_event(&mut self, _dir: Dir, _ev: &Event, _cx: &mut Cx<'_>) -> Flow {
        Flow::Pass
    }

    /// A timer of this layer is due.
    fn on_timer(&mut self, _key: TimerKey, _cx: &mut Cx<'_>) {}

    /// Messages were consumed above.
    fn on_consumed(&mut self, _what: &Consumed, _cx: &mut Cx<'_>) {}

    /// A token of this layer's own came back. The top layer is also told of every token of the
    /// application, with the call's number as `key`.
    fn on_sent(&mut self, _key: u64, _how: Result<(), SendRefusal>, _cx: &mut Cx<'_>) {}

    /// Something arrived from the network (bottom layer, and FD_SOCK2 for its connections).
    fn on_net(&mut self, _ev: NetEvent, _cx: &mut Cx<'_>) {}

    /// The application asks for something (top layer only).
    fn on_command(&mut self, _cmd: Command, _cx: &mut Cx<'_>) {}

    /// The end of a turn.
    fn end_turn(&mut self, _cx: &mut Cx<'_>) {}

    /// Answers a question of another layer or of the driver; `None`: not mine.
    fn answer(&self, _q: &Query, _group: &Group) -> Option<Answer> {
        None
    }

    /// Reports counters and gauges by JGroups' attribute names where there is one.
    fn inspect(&self, _out: &mut dyn FnMut(&str, u64)) {}
}

/// What a protocol can reach while it runs.
pub struct Cx<'a> {
    /// The time of this input.
    pub now: Time,
    pub(crate) me: usize,
    pub(crate) below: &'a [Box<dyn Protocol>],
    pub(crate) above: &'a [Box<dyn Protocol>],
    pub(crate) inner: &'a mut Inner,
}

impl core::fmt::Debug for Cx<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cx").field("now", &self.now).field("layer", &self.me).finish()
    }
}

impl Cx<'_> {
    /// The time on a clock that stands still while this process does not run (see
    /// [`crate::stack::Stack::stalled`]). Deadlines that judge other members are measured on it: what
    /// they sent meanwhile was not heard.
    #[must_use]
    pub fn awake(&self) -> Time {
        self.inner.awake.time()
    }

    /// The facts of the group, as they were when this layer was entered.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.inner.group
    }

    /// This member.
    #[must_use]
    pub fn local(&self) -> Uuid {
        self.inner.group.local
    }

    /// Whether `m` is in the installed view.
    #[must_use]
    pub fn is_member(&self, m: Uuid) -> bool {
        self.inner.group.is_member(m)
    }

    /// Stages a write to the group; visible to the next layer that runs.
    pub fn change(&mut self, c: GroupChange) {
        self.inner.changes.push(c);
    }

    /// Stages what was learned of a member.
    pub fn learn(&mut self, member: Uuid, name: Option<Arc<str>>, physical: Option<SocketAddr>) {
        self.change(GroupChange::Learn { member, name, physical });
    }

    /// Sends a message down from below this layer.
    pub fn send_down(&mut self, msg: impl Into<Message>) {
        self.inner.out.push(Emission::Down(msg.into()));
    }

    /// Sends a batch up from above this layer.
    pub fn deliver_up(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.inner.out.push(Emission::Up(batch));
        }
    }

    /// Enters this layer again with a batch, after what it emitted before this call: for the rest of
    /// a batch whose first part changed the group (a batch split at a view).
    pub fn up_again(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.inner.out.push(Emission::Again(batch));
        }
    }

    /// Queues a copy of our own message as a new input of this turn, entering above this layer like
    /// one from the network: copies must not overtake (DECISIONS 18). Those of multicasts that were
    /// sent one after the other come back in one batch.
    pub fn loopback(&mut self, m: impl Into<Message>) {
        let (layer, m) = (self.me + 1, m.into());
        match self.inner.loopback.back_mut() {
            Some((l, Copies::Batch(batch))) if *l == layer && batch.continues(&m) => batch.push(m),
            Some(_) | None => {
                let batch = Batch::of(self.inner.group.local, m);
                self.inner.loopback.push_back((layer, Copies::Batch(batch)));
            }
        }
    }

    /// As [`Cx::loopback`], of a row.
    pub(crate) fn loopback_row(&mut self, row: Row) {
        self.inner.loopback.push_back((self.me + 1, Copies::Row(row)));
    }

    /// Sends a row up from above this layer.
    pub(crate) fn row_up(&mut self, row: Row) {
        self.inner.out.push(Emission::RowUp(row));
    }

    /// Sends an event on its way from this layer.
    pub fn raise(&mut self, dir: Dir, ev: Event) {
        self.inner.out.push(Emission::Event(dir, ev));
    }

    /// Asks the layers below, nearest first.
    #[must_use]
    pub fn ask_below(&self, q: &Query) -> Option<Answer> {
        self.below.iter().rev().find_map(|p| p.answer(q, &self.inner.group))
    }

    /// Asks all layers below, nearest first: for questions that several answer for their own part.
    #[must_use]
    pub fn ask_all_below(&self, q: &Query) -> Vec<Answer> {
        self.below.iter().rev().filter_map(|p| p.answer(q, &self.inner.group)).collect()
    }

    /// Asks the layers above, nearest first.
    #[must_use]
    pub fn ask_above(&self, q: &Query) -> Option<Answer> {
        self.above.iter().find_map(|p| p.answer(q, &self.inner.group))
    }

    /// Arms a timer of this layer; re-arming replaces.
    pub fn arm(&mut self, key: TimerKey, at: Time) {
        self.inner.timers.arm(self.me, key, at);
    }

    /// Disarms a timer of this layer.
    pub fn disarm(&mut self, key: TimerKey) {
        self.inner.timers.disarm(self.me, key);
    }

    /// When a timer of this layer is due, if it is armed.
    #[must_use]
    pub fn armed(&self, key: TimerKey) -> Option<Time> {
        self.inner.timers.armed(self.me, key)
    }

    /// The stack's randomness.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.inner.rng
    }

    /// Resolves a token: its owner is told.
    pub fn resolve(&mut self, token: SendToken, how: Result<(), SendRefusal>) {
        self.inner.tokens_resolved += 1;
        match token.owner {
            Owner::App => {
                let result = match &how {
                    Ok(()) => SendResult::Sent,
                    Err(r) => SendResult::Refused(r.clone()),
                };
                self.answer_call(token.key, result, how);
            }
            Owner::Layer(layer) => {
                self.inner.out.push(Emission::Sent(usize::from(layer), token.key, how));
            }
        }
    }

    /// Resolves a token of the application with the outcome of a synchronous send.
    pub fn resolve_sync(&mut self, token: SendToken, outcome: crate::app::SyncOutcome) {
        self.inner.tokens_resolved += 1;
        assert!(token.owner == Owner::App, "only the application waits for acknowledgements");
        self.answer_call(token.key, SendResult::Synced(outcome), Ok(()));
    }

    /// Resolves a token of the application with the outcome of a call.
    pub(crate) fn resolve_call(&mut self, token: SendToken, outcome: crate::rpc::CallOutcome) {
        self.inner.tokens_resolved += 1;
        self.answer_call(token.key, SendResult::Called(outcome), Ok(()));
    }

    /// Resolves a token of the application with what a layer did for it.
    pub(crate) fn resolve_service(&mut self, token: SendToken, result: SendResult) {
        self.inner.tokens_resolved += 1;
        self.answer_call(token.key, result, Ok(()));
    }

    /// A call of the application for a state ended.
    pub(crate) fn answer_fetch(
        &mut self,
        op: crate::OpId,
        result: Result<Option<crate::app::FetchedState>, crate::app::StateFailure>,
    ) {
        self.inner.app.push_back(AppEvent::StateFetched { op, result });
        let top = self.below.len() + self.above.len();
        self.inner.out.push(Emission::Sent(top, op.0, Ok(())));
    }

    /// The application learns the result; the entry layer, which keeps the list of calls, that the
    /// call is over.
    fn answer_call(&mut self, op: u64, result: SendResult, how: Result<(), SendRefusal>) {
        self.inner.app.push_back(AppEvent::Resolved { op: crate::OpId(op), result });
        let top = self.below.len() + self.above.len();
        self.inner.out.push(Emission::Sent(top, op, how));
    }

    /// A token of this layer: resolving it calls `on_sent` with `key`.
    pub fn own_token(&mut self, key: u64) -> SendToken {
        self.own_token_for(key, None)
    }

    /// As [`Cx::own_token`], riding in place of a token of the call `op`.
    pub fn own_token_for(&mut self, key: u64, op: Option<crate::OpId>) -> SendToken {
        self.inner.tokens_made += 1;
        SendToken { owner: Owner::Layer(self.me as u8), key, op }
    }

    /// Whether the fault `m` is switched on.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn mutant(&self, m: crate::mutants::Mutant) -> bool {
        self.inner.mutant == Some(m)
    }

    /// The token of a call of the application (entry layer only).
    pub(crate) fn app_token(&mut self, op: crate::OpId) -> SendToken {
        self.inner.tokens_made += 1;
        SendToken { owner: Owner::App, key: op.0, op: Some(op) }
    }

    /// Messages were consumed: the layers below this one are told.
    pub fn settle(&mut self, what: Consumed) {
        self.inner.out.push(Emission::Consumed(what));
    }

    /// Drops a message on purpose: its token is resolved with `why`, what its receipt owes is
    /// settled as consumed.
    pub fn discard(&mut self, msg: &mut Message, why: SendRefusal) {
        if let Some(t) = msg.token.take() {
            self.resolve(t, Err(why));
        }
        *msg = Message::default();
    }

    /// Hands an operation to the network.
    pub fn net(&mut self, op: NetOp) {
        self.inner.net.push_back(op);
    }

    /// Tells the application something that has no place in the order of messages and views.
    pub fn tell(&mut self, ev: AppEvent) {
        self.inner.app.push_back(ev);
    }

    /// States a fact, built only if somebody wants facts.
    pub fn trace(&mut self, fact: impl FnOnce() -> Trace) {
        if self.inner.tracing {
            self.inner.traces.push_back((self.now, fact()));
        }
    }

    /// Counts and traces that something of a peer was dropped. Never an error of ours.
    pub fn drop_from_peer(&mut self, why: DropReason, from: Option<Uuid>) {
        self.inner.dropped[why as usize] += 1;
        if let (DropReason::NotAMember, Some(who)) = (why, from) {
            self.inner.strangers.outsider(who, self.now);
        }
        self.trace(|| Trace::Dropped { why, from });
    }

    /// Notes what was heard of processes that are not of this group.
    pub(crate) fn strangers(&mut self) -> &mut Strangers {
        &mut self.inner.strangers
    }
}
