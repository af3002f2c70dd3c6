//! The sender's half: own multicasts, from the application until they come back.
//!
//! All of them are in one list, in the order of their numbers: first those that have left for the
//! sequencer (or, at the sequencer, for everybody), then those that wait. A new sequencer begins
//! again with the first of the list. The call of the application is answered when its message
//! leaves for the first time.

use super::{Budget, MOST_WAITING, MOST_WAITING_BYTES, REPEAT, REPEAT_AFTER, Sequencer, Waits};
use crate::protocols::flow::fragment_of;
use crate::wire::header::{Sequencer2Header, SequencerKind};
use crate::wire::{self, Body, Encode, Flags, Header, Hints, ProtId};
use crate::{Cx, Message, OpId, SendRefusal, SendToken, Uuid, tag};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;

/// What is under way or waits.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// The last number that was used. It goes on when the stack is started again: others may
    /// remember it.
    last: i64,
    messages: VecDeque<Sent>,
    /// So many of them have left.
    left: usize,
    /// Payload bytes of those that have not.
    waiting_bytes: u64,
    pace: Pace,
    /// The next one that is forwarded says that everything begins anew with it, since this view.
    announced: Option<i64>,
}

/// One message.
#[derive(Debug)]
struct Sent {
    seqno: i64,
    message: wire::Message,
    /// Who waits for it to leave.
    token: Option<SendToken>,
}

/// How messages are forwarded to the sequencer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    /// One after the other.
    #[default]
    Free,
    /// One at a time: the next one when it has come back. So many have.
    OneByOne(u32),
}

impl Pace {
    /// A sequencer of this toolkit keeps what comes before the view.
    pub(super) fn towards(sequencer: Uuid) -> Self {
        match tag::is_rgroups(sequencer) {
            true => Pace::Free,
            false => Pace::OneByOne(0),
        }
    }
}

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// It was awaited. Else it has come back before, or its sender has multicast it itself since.
    pub(super) awaited: bool,
    /// The sender did not want its own copy.
    pub(super) unwanted: bool,
    /// So many messages before it will not come back.
    pub(super) passed_over: u64,
}

impl Own {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.messages.len() - self.left
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Bytes and messages that may still wait.
    pub(super) fn free(&self) -> (u64, u64) {
        let messages = MOST_WAITING.saturating_sub(self.waiting()) as u64;
        (MOST_WAITING_BYTES.saturating_sub(self.waiting_bytes), messages)
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting() >= MOST_WAITING || self.waiting_bytes >= MOST_WAITING_BYTES
    }

    /// How many have come back one by one, if that is the pace.
    pub(super) fn acks(&self) -> Option<u32> {
        match self.pace {
            Pace::Free => None,
            Pace::OneByOne(n) => Some(n),
        }
    }

    /// Puts a message of the application at the end.
    fn push(&mut self, mut msg: Message) {
        self.last += 1;
        self.waiting_bytes += msg.length() as u64;
        let token = msg.token.take();
        self.messages.push_back(Sent { seqno: self.last, message: msg.wire, token });
    }

    /// The first that has not left.
    fn next(&self) -> Option<&Sent> {
        self.messages.get(self.left)
    }

    /// The call that waits for it.
    pub(super) fn next_call(&self) -> Option<OpId> {
        self.next()?.token.as_ref().and_then(SendToken::op)
    }

    /// The first that has not left is admitted by flow control.
    pub(super) fn admitted(&mut self, cx: &mut Cx<'_>) {
        let Some(sent) = self.messages.get_mut(self.left) else { return };
        self.waiting_bytes -= sent.message.length() as u64;
        if let Some(token) = sent.token.take() {
            cx.resolve(token, Ok(()));
        }
        self.left += 1;
        self.announced = None;
    }

    /// The first that has not left will not, and nothing that belongs to it.
    pub(super) fn give_up_next(&mut self, why: SendRefusal, cx: &mut Cx<'_>) {
        self.give_up(self.left, &why, cx);
    }

    /// The one at `at` does not leave: no fragment of it.
    fn give_up(&mut self, at: usize, why: &SendRefusal, cx: &mut Cx<'_>) {
        let of = |s: &Sent| fragment_id(&s.message);
        let Some(first) = self.messages.get(at) else { return };
        let whole = of(first);
        let rest = self.messages.iter().skip(at + 1);
        let more = rest.take_while(|s| whole.is_some() && of(s) == whole).count();
        for sent in self.messages.drain(at..=at + more) {
            self.waiting_bytes -= sent.message.length() as u64;
            if let Some(token) = sent.token {
                cx.resolve(token, Err(why.clone()));
            }
        }
    }

    /// Number `seqno` has come back from the sequencer.
    fn returned(&mut self, seqno: i64, acknowledged: bool, threshold: u32) -> Returned {
        let mut out = Returned::default();
        if let (Pace::OneByOne(n), true) = (&mut self.pace, acknowledged) {
            *n = n.saturating_add(1);
            if threshold > 0 && *n >= threshold {
                self.pace = Pace::Free;
            }
        }
        // Those before it left before it, and a sequencer keeps the order.
        while self.left > 0 && self.messages.front().is_some_and(|s| s.seqno < seqno) {
            self.messages.pop_front();
            self.left -= 1;
            out.passed_over += 1;
        }
        // What came to the former sequencer may come back when it waits for the next one.
        let Some(sent) = self.messages.front().filter(|s| s.seqno == seqno) else { return out };
        out.unwanted = sent.message.hints.contains(Hints::DONT_LOOPBACK);
        out
    }

    /// Whether the first of all is number `seqno`, which has come back: it is taken out.
    fn take(&mut self, seqno: i64, cx: &mut Cx<'_>) -> bool {
        if self.messages.front().is_none_or(|s| s.seqno != seqno) {
            return false;
        }
        let Some(sent) = self.messages.pop_front() else { return false };
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.waiting_bytes -= sent.message.length() as u64,
        }
        if let Some(token) = sent.token {
            cx.resolve(token, Ok(()));
        }
        true
    }

    /// The sequencer is another one: everything leaves once more, or what has left is given up.
    pub(super) fn begin_anew(&mut self, kept: bool, pace: Pace, announced: Option<i64>) {
        if !kept {
            self.messages.drain(..self.left);
        }
        self.left = 0;
        self.waiting_bytes = self.messages.iter().map(|s| s.message.length() as u64).sum();
        self.pace = pace;
        self.announced = announced;
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        for sent in self.messages.drain(..) {
            if let Some(token) = sent.token {
                cx.resolve(token, Err(SendRefusal::Closed));
            }
        }
        (self.left, self.waiting_bytes) = (0, 0);
    }

    /// Number and message of the first that has not left, as the sequencer multicasts it. Whose own
    /// copy is unwanted will not come back.
    pub(super) fn broadcast_next(&self) -> Option<Message> {
        let sent = self.next()?;
        let header = Sequencer::header(SequencerKind::Bcast, sent.seqno, false);
        Some(sent.message.clone().with_header(ProtId::SEQUENCER, header).into())
    }

    /// The message that [`Own::admitted`] has just counted does not come back to its sender.
    pub(super) fn forget_unwanted(&mut self) {
        let Some(at) = self.left.checked_sub(1) else { return };
        if self.messages[at].message.hints.contains(Hints::DONT_LOOPBACK) {
            self.messages.remove(at);
            self.left = at;
        }
    }
}

impl Sequencer {
    /// The application multicasts.
    pub(super) fn send(&mut self, msg: &mut Message, cx: &mut Cx<'_>) {
        if self.refused.takes_too(msg, cx) {
            return;
        }
        if msg.hints.contains(Hints::DONT_BLOCK) && self.would_block(msg.length(), cx) {
            let by = self.limited_by(msg.length(), cx);
            return self.refused.refuse(msg, SendRefusal::WouldBlock { by }, cx);
        }
        let mut msg = core::mem::take(msg);
        msg.hints -= Hints::DONT_BLOCK;
        msg.src.get_or_insert(cx.local().into());
        self.own.push(msg);
        let orders = self.orders(cx.local());
        #[cfg(feature = "mutants")]
        let orders = orders || cx.mutant(crate::mutants::Mutant::EverybodyOrders);
        if orders {
            self.ordering.queue_own();
        }
        self.pump(cx);
    }

    /// Whom a message to all is admitted for: the sequencer, or at the sequencer everybody.
    fn next_hop(&self, local: Uuid) -> Option<Uuid> {
        self.sequencer().filter(|s| *s != local)
    }

    fn would_block(&self, bytes: usize, cx: &Cx<'_>) -> bool {
        let dest = self.next_hop(cx.local());
        let waits = self.own.waiting() > 0 || self.ordering.waiting() > 0 || self.in_line.is_some();
        let paced = self.own.acks().is_some() && self.own.len() > 0;
        waits || paced || !Budget::of(dest).admits(bytes, cx)
    }

    fn limited_by(&self, bytes: usize, cx: &Cx<'_>) -> Vec<Uuid> {
        let limits = super::room_below(self.next_hop(cx.local()), bytes, cx).map(|r| r.limited_by);
        limits.filter(|l| !l.is_empty()).unwrap_or_else(|| self.sequencer().into_iter().collect())
    }

    /// Forwards what waits.
    pub(super) fn forward_waiting(&mut self, cx: &mut Cx<'_>) {
        let Some(to) = self.sequencer() else { return };
        let mut budget = Budget::of(Some(to));
        while let Some(sent) = self.own.next() {
            let one_by_one = self.own.acks().is_some();
            if one_by_one && self.own.left > 0 {
                return;
            }
            let m = forward(to, sent, one_by_one, self.own.announced);
            self.counters.forwarded += 1;
            if one_by_one {
                cx.arm(REPEAT, cx.now + REPEAT_AFTER);
            }
            if !budget.admits(m.length(), cx) {
                return self.send_into_line(m, Waits::Own, cx);
            }
            cx.send_down(m);
            self.own.admitted(cx);
        }
    }

    /// The message that is forwarded alone has not come back: perhaps the sequencer dropped it.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        if self.own.acks().is_none() || !self.is_settled(cx) {
            return;
        }
        if let (Some(to), Some(first), true) =
            (self.next_hop(cx.local()), self.own.messages.front(), self.own.left > 0)
        {
            self.counters.repeated += 1;
            cx.send_down(forward(to, first, true, None));
        }
        if self.own.len() > 0 {
            cx.arm(REPEAT, cx.now + REPEAT_AFTER);
        }
    }

    /// An own message came back. `None`: it is not to be delivered.
    pub(super) fn take_returned(
        &mut self,
        seqno: i64,
        acknowledged: bool,
        cx: &mut Cx<'_>,
    ) -> Returned {
        let returned = self.own.returned(seqno, acknowledged, self.config.threshold);
        self.counters.passed_over += returned.passed_over;
        if let Some(line) = self.in_line.as_mut().filter(|l| matches!(l.what, Waits::Own))
            && self.own.left == 0
            && self.own.messages.front().is_some_and(|s| s.seqno == seqno)
        {
            line.what = Waits::Nothing;
        }
        Returned { awaited: self.own.take(seqno, cx), ..returned }
    }

    /// Takes a call's message back while it waits here.
    pub(super) fn withdraw(&mut self, op: OpId, expired: bool, cx: &mut Cx<'_>) {
        let waits = |s: &Sent| s.token.as_ref().and_then(SendToken::op) == Some(op);
        let Some(at) = self.own.messages.iter().position(waits) else { return };
        // What is in the line of flow control comes back from there.
        let in_line = self.in_line.as_ref().is_some_and(|l| matches!(l.what, Waits::Own));
        if in_line && at == self.own.left {
            return;
        }
        let why = match expired {
            true => SendRefusal::NotSent { by: self.sequencer().into_iter().collect() },
            false => SendRefusal::Withdrawn,
        };
        self.own.give_up(at, &why, cx);
        self.tell_of_room(cx);
    }
}

fn fragment_id(m: &wire::Message) -> Option<i64> {
    fragment_of(m).map(|(id, _)| id)
}

/// Between members of this toolkit a message that is forwarded says with the header that SEQUENCER2
/// has for requests that all before it is void, and since which view.
const BEGINS: u8 = 1;

/// The view with which everything of its sender begins anew.
pub(super) fn begins(m: &wire::Message) -> Option<i64> {
    match m.headers.get(ProtId::SEQUENCER2) {
        Some(Header::Sequencer2(h)) if h.kind == BEGINS => Some(h.seqno),
        _ => None,
    }
}

/// The message as the payload of one to the sequencer.
fn forward(to: Uuid, sent: &Sent, one_by_one: bool, announced: Option<i64>) -> Message {
    let inner = sent.message.clone().with_header(
        ProtId::SEQUENCER,
        Sequencer::header(SequencerKind::WrappedBcast, sent.seqno, false),
    );
    let mut counted = wire::Counter::default();
    inner.encode(&mut counted);
    let mut bytes = Vec::with_capacity(counted.0);
    inner.encode(&mut bytes);
    let kind = if one_by_one { SequencerKind::Flush } else { SequencerKind::Forward };
    let mut m = wire::Message::unicast(to, Body::bytes(Bytes::from(bytes)))
        .with_header(ProtId::SEQUENCER, Sequencer::header(kind, sent.seqno, false));
    if one_by_one {
        m.flags |= Flags::DONT_BUNDLE;
    }
    if let Some(view) = announced {
        let begins = Header::Sequencer2(Sequencer2Header { kind: BEGINS, seqno: view, count: 0 });
        m = m.with_header(ProtId::SEQUENCER2, begins);
    }
    m.into()
}
