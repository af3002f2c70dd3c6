//! The caller's half: who was called, who has answered, and how a call ends.
//!
//! The targets of a call are those of the view in which it is made: members that leave are decided
//! by the view without them, joiners are never waited for. A call ends when every target is decided,
//! when its mode has the values it asks for, at its deadline, or when the channel is closed; what
//! comes later is dropped and counted.

use super::forms::{self, Form};
use super::{Ask, Call, CallAnswer, CallOutcome, MAX_CALLS, Row, Status, Unreachable, Wait};
#[cfg(feature = "mutants")]
use crate::mutants::Mutant;
use crate::wire::header::{CorrelatorHeader, CorrelatorKind};
use crate::wire::{self, Address, Body, Flags, Header, Hints, ProtId};
use crate::{Cx, Message, OpId, SendRefusal, SendToken, Uuid, View, tag};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Calls that are not over.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    last_id: i64,
    pending: BTreeMap<i64, Pending>,
    by_op: BTreeMap<OpId, i64>,
    /// Requests that flow control has not admitted yet: of which call, and for whom.
    unadmitted: BTreeMap<u64, (i64, Option<Uuid>)>,
    last_key: u64,
    counters: Counters,
}

/// What became of calls and answers.
#[derive(Debug, Default)]
struct Counters {
    begun: u64,
    timed_out: u64,
    withdrawn: u64,
    answers: u64,
    late: u64,
    foreign: u64,
    unreadable: u64,
}

#[derive(Debug)]
struct Pending {
    token: SendToken,
    op: OpId,
    wait: Wait,
    form: Form,
    targets: Vec<Target>,
    /// Requests that flow control has neither admitted nor refused.
    unadmitted: usize,
}

#[derive(Debug)]
struct Target {
    member: Uuid,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The request waits for flow control.
    Waiting,
    /// The request has left.
    Called,
    Decided(Status),
}

impl Target {
    fn is_open(&self) -> bool {
        !matches!(self.state, State::Decided(_))
    }
}

/// Requests of calls are told from other tokens of the entry layer by this bit.
pub(crate) const REQUEST: u64 = 1 << 63;

impl Calls {
    /// Whether another call can be made.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < MAX_CALLS
    }

    /// Whether this call runs.
    pub(crate) fn has(&self, op: OpId) -> bool {
        self.by_op.contains_key(&op)
    }

    /// Makes a call of the entry layer's `token`, and returns the requests, which carry tokens of
    /// their own. A call that has nobody to wait for is over at once.
    pub(crate) fn begin(&mut self, token: SendToken, call: Call, cx: &mut Cx<'_>) -> Vec<Message> {
        self.counters.begun += 1;
        self.last_id += 1;
        let id = self.last_id;
        let (form, targets) = targets(&call, cx);
        let open: Vec<Uuid> = targets.iter().filter(|t| t.is_open()).map(|t| t.member).collect();
        let named = targets.len();
        let Call { op, wait, .. } = call;
        let pending = Pending { token, op, wait, form, targets, unadmitted: 0 };
        self.pending.insert(id, pending);
        self.by_op.insert(op, id);
        let requests = self.requests(id, &call, form, &open, named, cx);
        self.end_if_done(id, cx);
        requests
    }

    /// One multicast if everybody is called, or everybody else; else a unicast for each. A multicast
    /// also comes to those who join, or come back by a merge, while it is on its way, and no list of
    /// members can exclude whom the caller does not know yet.
    fn requests(
        &mut self,
        id: i64,
        call: &Call,
        form: Form,
        open: &[Uuid],
        named: usize,
        cx: &mut Cx<'_>,
    ) -> Vec<Message> {
        let body = forms::write_request(&call.ask, form, call.timeout);
        let members = cx.group().members();
        // What only members of this toolkit understand goes to all only where all are.
        let common = form != Form::Ours || members.iter().all(|m| tag::is_rgroups(*m));
        let local = cx.local();
        let all = members.iter().all(|m| *m == local || open.contains(m)) && named == open.len();
        #[cfg(feature = "mutants")]
        let all = all || cx.mutant(Mutant::SubsetIsMulticast) && 2 * open.len() > members.len();
        if common && open.len() > 1 && all {
            let excluded: Vec<Address> =
                members.iter().filter(|m| !open.contains(m)).map(|m| (*m).into()).collect();
            let mut request = wire::Message::multicast(body);
            if !open.contains(&cx.local()) {
                request.hints |= Hints::DONT_LOOPBACK;
            }
            let excluded = Some(excluded).filter(|e| !e.is_empty());
            return [self.request(id, call, request, None, excluded, cx)].into();
        }
        let one = |m: &Uuid| (wire::Message::unicast(*m, body.clone()), *m);
        let messages: Vec<(wire::Message, Uuid)> = open.iter().map(one).collect();
        let complete = |(m, to)| self.request(id, call, m, Some(to), None, cx);
        messages.into_iter().map(complete).collect()
    }

    fn request(
        &mut self,
        id: i64,
        call: &Call,
        mut message: wire::Message,
        to: Option<Uuid>,
        excluded: Option<Vec<Address>>,
        cx: &mut Cx<'_>,
    ) -> Message {
        // Java answers every request that has a number.
        let request = if call.wait == Wait::None { 0 } else { id };
        let header = correlator(CorrelatorKind::Request, request, excluded);
        message.headers.put(ProtId::REQUEST_CORRELATOR, header);
        message.flags |= call.flags - Flags::RSVP - Flags::RSVP_NB - Flags::SERIALIZED;
        if matches!(message.body, Body::Object(_)) {
            message.flags |= Flags::SERIALIZED;
        }
        self.last_key += 1;
        let key = REQUEST | self.last_key;
        self.unadmitted.insert(key, (id, to));
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.unadmitted += 1;
        }
        let mut message = Message::from(message);
        message.token = Some(cx.own_token_for(key, Some(call.op)));
        message
    }

    /// A request was admitted, or will not be sent.
    pub(crate) fn sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let Some((id, to)) = self.unadmitted.remove(&key) else { return };
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.unadmitted -= 1;
        let concerned = |t: &&mut Target| t.is_open() && to.is_none_or(|m| m == t.member);
        let refused = match how {
            Ok(()) => {
                let called = |t: &mut Target| t.state = State::Called;
                pending.targets.iter_mut().filter(concerned).for_each(called);
                return self.end_if_done(id, cx);
            }
            Err(why) => why,
        };
        let nothing_left = !pending.targets.iter().any(|t| matches!(t.state, State::Called));
        let of_all = matches!(
            refused,
            SendRefusal::Closed | SendRefusal::NotPrimary | SendRefusal::TooLarge { .. }
        );
        if nothing_left && of_all {
            if let Some(pending) = self.remove(id) {
                cx.resolve(pending.token, Err(refused));
            }
            return;
        }
        for t in pending.targets.iter_mut().filter(concerned) {
            t.state = State::Decided(match &refused {
                SendRefusal::NotMember(_) => Status::Left,
                _ => Status::TimedOut { sent: false },
            });
        }
        self.end_if_done(id, cx);
    }

    /// An answer of `from` arrived.
    pub(crate) fn arrived(
        &mut self,
        from: Uuid,
        header: &CorrelatorHeader,
        body: &Body,
        cx: &mut Cx<'_>,
    ) {
        let Some(pending) = self.pending.get(&header.request) else {
            // Numbers that were never given out are not late.
            let known = (1..=self.last_id).contains(&header.request);
            let counter = if known { &mut self.counters.late } else { &mut self.counters.foreign };
            *counter += 1;
            return;
        };
        match forms::read_answer(pending.form, header.kind, body) {
            Some(answer) => self.answered(from, header.request, answer, cx),
            None => self.counters.unreadable += 1,
        }
    }

    /// `from` has answered call `id`.
    pub(crate) fn answered(&mut self, from: Uuid, id: i64, answer: CallAnswer, cx: &mut Cx<'_>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            self.counters.late += 1;
            return;
        };
        let Some(target) = pending.targets.iter_mut().find(|t| t.member == from) else {
            self.counters.foreign += 1;
            return;
        };
        if !target.is_open() {
            self.counters.late += 1;
            return;
        }
        self.counters.answers += 1;
        target.state = State::Decided(match answer {
            CallAnswer::Done(reply) => Status::Answered(reply),
            CallAnswer::Failed(failure) => Status::Failed(failure),
            CallAnswer::NoSuchMethod => Status::NoSuchMethod,
        });
        self.end_if_done(id, cx);
    }

    /// Members that left will not answer any more, even if a merge has brought them back. Joiners
    /// were not called.
    pub(crate) fn install(&mut self, view: &View, cx: &mut Cx<'_>) {
        let local = cx.local();
        let stays = |m: Uuid| view.contains(m) && !view.reunites(local, m);
        #[cfg(feature = "mutants")]
        let merged = cx.mutant(Mutant::MergedTargetsAwaited);
        #[cfg(feature = "mutants")]
        let stays = |m: Uuid| stays(m) || (merged && view.contains(m));
        let ids: Vec<i64> = self.pending.keys().copied().collect();
        for id in ids {
            let Some(pending) = self.pending.get_mut(&id) else { continue };
            for t in pending.targets.iter_mut().filter(|t| t.is_open() && !stays(t.member)) {
                t.state = State::Decided(Status::Left);
            }
            self.end_if_done(id, cx);
        }
    }

    /// The time of the call is over. Whether some of its requests still wait to be sent, which they
    /// must not any more.
    pub(crate) fn expire(&mut self, op: OpId, cx: &mut Cx<'_>) -> bool {
        let Some(id) = self.by_op.get(&op).copied() else { return false };
        let Some(pending) = self.pending.get_mut(&id) else { return false };
        self.counters.timed_out += 1;
        for t in &mut pending.targets {
            let sent = match t.state {
                State::Waiting => false,
                State::Called => true,
                State::Decided(_) => continue,
            };
            t.state = State::Decided(Status::TimedOut { sent });
        }
        let waits = pending.unadmitted > 0;
        self.end(id, cx);
        waits
    }

    /// The caller gave the call up. As [`Calls::expire`] says.
    pub(crate) fn withdraw(&mut self, op: OpId, cx: &mut Cx<'_>) -> bool {
        let Some(pending) = self.by_op.get(&op).copied().and_then(|id| self.remove(id)) else {
            return false;
        };
        self.counters.withdrawn += 1;
        cx.resolve(pending.token, Err(SendRefusal::Withdrawn));
        pending.unadmitted > 0
    }

    /// The channel is closed.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        self.by_op.clear();
        for pending in core::mem::take(&mut self.pending).into_values() {
            cx.resolve(pending.token, Err(SendRefusal::Closed));
        }
    }

    fn end_if_done(&mut self, id: i64, cx: &mut Cx<'_>) {
        let done = self.pending.get(&id).is_some_and(Pending::is_done);
        #[cfg(feature = "mutants")]
        let done = done
            || cx.mutant(Mutant::ErrorCountsAsValue)
                && self.pending.get(&id).is_some_and(Pending::has_first_error);
        if done {
            self.end(id, cx);
        }
    }

    fn end(&mut self, id: i64, cx: &mut Cx<'_>) {
        let Some(pending) = self.remove(id) else { return };
        let row = |t: Target| Row {
            member: t.member,
            status: match t.state {
                State::Decided(status) => status,
                State::Waiting | State::Called => Status::NotAwaited,
            },
        };
        let rows = pending.targets.into_iter().map(row).collect();
        cx.resolve_call(pending.token, CallOutcome { rows });
    }

    fn remove(&mut self, id: i64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.by_op.remove(&pending.op);
        Some(pending)
    }

    pub(crate) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("calls", c.begun);
        out("calls_pending", self.pending.len() as u64);
        out("calls_timed_out", c.timed_out);
        out("calls_withdrawn", c.withdrawn);
        out("answers", c.answers);
        out("answers_late", c.late);
        out("answers_foreign", c.foreign);
        out("answers_unreadable", c.unreadable);
    }
}

impl Pending {
    /// The mode has what it asks for, or nobody is left to wait for.
    fn is_done(&self) -> bool {
        let open = self.targets.iter().any(Target::is_open);
        let value = |t: &&Target| matches!(t.state, State::Decided(Status::Answered(_)));
        let values = || self.targets.iter().filter(value).count();
        !open
            || match self.wait {
                Wait::None => self.unadmitted == 0,
                Wait::First => values() > 0,
                Wait::Majority => 2 * values() > self.targets.len(),
                Wait::All => false,
            }
    }
}

#[cfg(feature = "mutants")]
impl Pending {
    fn has_first_error(&self) -> bool {
        let error = |t: &Target| matches!(t.state, State::Decided(Status::Failed(_)));
        self.wait == Wait::First && self.targets.iter().any(error)
    }
}

/// Whether it is the request of a call.
pub(crate) fn is_request(m: &Message) -> bool {
    matches!(
        m.headers.get(ProtId::REQUEST_CORRELATOR),
        Some(Header::Correlator(h))
            if h.kind == CorrelatorKind::Request && h.correlator == ProtId::REQUEST_CORRELATOR.0
    )
}

/// The header of a request or answer; with `excluded` those ignore it.
pub(crate) fn correlator(
    kind: CorrelatorKind,
    request: i64,
    excluded: Option<Vec<Address>>,
) -> Header {
    let correlator = ProtId::REQUEST_CORRELATOR.0;
    Header::Correlator(CorrelatorHeader { kind, request, correlator, excluded })
}

/// Who is called, each once, and the form that all who can be called understand.
fn targets(call: &Call, cx: &Cx<'_>) -> (Form, Vec<Target>) {
    let mut members: Vec<Uuid> = Vec::new();
    match &call.to {
        None => members.extend(cx.group().members()),
        Some(to) => to.iter().for_each(|m| {
            if !members.contains(m) {
                members.push(*m);
            }
        }),
    }
    let all_ours = members.iter().filter(|m| cx.is_member(**m)).all(|m| tag::is_rgroups(*m));
    let form = match call.ask {
        Ask::Values(_) if !all_ours => Form::Object,
        Ask::Values(_) | Ask::Bytes { .. } => Form::Ours,
    };
    let target = |member: Uuid| {
        let unreachable = match form {
            _ if !cx.is_member(member) => Some(Unreachable::NotMember),
            Form::Ours if !tag::is_rgroups(member) => Some(Unreachable::OnlyValues),
            Form::Ours | Form::Object | Form::Plain => None,
        };
        let state =
            unreachable.map_or(State::Waiting, |why| State::Decided(Status::Unreachable(why)));
        Target { member, state }
    };
    (form, members.into_iter().map(target).collect())
}
