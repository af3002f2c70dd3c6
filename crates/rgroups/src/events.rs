//! What happened, as the application reads it.

use crate::channel::Owner;
use crate::inbox::Request;
use crate::outbox::{Item, Refill, give_back, weight};
use crate::state::{Cut, StateResponder};
use crate::{Address, Message, Primacy, View, ViewId};
use bytes::Bytes;
use futures_core::Stream;
use rgroups_core as core;
use rgroups_core::{Command, Consumed, Row, Uuid};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Something that happened, in order of delivery: a message is always seen after the view it was
/// sent in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A view was installed.
    View(View),
    /// A message arrived.
    Message(Message),
    /// We were excluded from the group and are joining anew; messages sent in between may be lost.
    Rejoining {
        /// Why, in words.
        reason: String,
    },
    /// A member was excluded, and whether all that survived it deliver the same of its last messages
    /// is not known: not all of them could be asked, or only JGroups members had some. Comes before
    /// the view without that member. Without this event they do deliver the same.
    TailUnknown {
        /// The former members whose messages are meant.
        of: Vec<Address>,
    },
    /// The members that come into this view may not have delivered the same before it, although this
    /// member wants that (`GMS.view_synchrony`, docs/view-synchrony.md): a member of the view does
    /// not take part, or somebody did not answer in time. Comes before the view. Without this event
    /// they did deliver the same.
    NotSynchronous {
        /// The view.
        view: ViewId,
    },
    /// This member is about to exclude another one. Comes before the view without it, at the member
    /// that makes that view; no view follows if the suspect is heard in the last moment.
    Suspected {
        /// Who.
        member: Address,
        /// Who accused it first.
        by: Address,
        /// Why, in words: "no heartbeat for 41.2 s". What verified the suspicion is not part of it:
        /// whoever is excluded has not answered.
        reason: String,
    },
    /// Whether the installed view is the primary one is known now, or not known any more. Only where
    /// the stack has PRIMARY. A view begins as [`Primacy::Unknown`].
    Primary {
        /// The view.
        view: ViewId,
        /// What is said of it.
        primacy: Primacy,
    },
    /// A member asks for our state. Ignoring it tells that member that there is none.
    StateRequested(StateResponder),
}

/// An event, or a state in its place among them.
#[derive(Debug)]
pub(crate) enum Happening {
    Event(Event),
    State(Bytes),
}

/// The only reader of a channel's events: a [`Stream`], and the same as methods. Works on any
/// executor.
///
/// **Reading is what keeps senders going.** A message counts as consumed when the stream is polled
/// again after it was returned, or when `Events` is dropped. Until then its bytes are not given
/// back to its sender as credit, so a reader that stops makes senders wait, and nothing is lost and
/// nothing piles up. Dropping `Events` consumes everything from then on.
#[derive(Debug)]
pub struct Events {
    owner: Arc<Owner>,
    ready: VecDeque<Item>,
    from: Uuid,
    batch: std::vec::IntoIter<core::Message>,
    row: Option<Reading>,
    /// Returned by the last poll, consumed by the next one.
    held: Vec<Consumed>,
    held_weight: u64,
    /// The last message that was returned is one whose sender waits for its consumption.
    last_awaited: bool,
    /// Consumed, not yet reported.
    owed: Vec<Consumed>,
    owed_weight: u64,
    /// What a state contains that was fetched while this was unread.
    cut: Option<Arc<Cut>>,
    cut_number: u64,
}

/// A row of which messages were not returned yet.
#[derive(Debug)]
struct Reading {
    from: Uuid,
    account: core::row::Account,
    /// That of the last message that was returned.
    number: i64,
    /// What the messages that were returned owe, and is not held yet.
    taken: Option<Consumed>,
    payloads: std::vec::IntoIter<Bytes>,
}

impl Reading {
    fn of(row: Row) -> Self {
        let number = row.numbers.map_or(0, |(_, first)| first.wrapping_sub(1));
        let Row { src: from, account, payloads, .. } = row;
        Self { from, account, number, taken: None, payloads: payloads.into_iter() }
    }

    /// What the next message carries. `number` is then its number.
    fn next(&mut self) -> Option<Bytes> {
        let payload = self.payloads.next()?;
        self.number = self.number.wrapping_add(1);
        let one = Consumed::one(self.from, self.account.receipt(&payload));
        match &mut self.taken {
            Some(sum) => {
                sum.absorb(&one);
            }
            None => self.taken = Some(one),
        }
        Some(payload)
    }
}

impl Events {
    pub(crate) fn new(owner: Arc<Owner>) -> Self {
        Self {
            owner,
            ready: VecDeque::new(),
            from: Uuid::new(0, 0),
            batch: Vec::new().into_iter(),
            row: None,
            held: Vec::new(),
            held_weight: 0,
            last_awaited: false,
            owed: Vec::new(),
            owed_weight: 0,
            cut: None,
            cut_number: 0,
        }
    }

    /// The next event; `None` when the channel is closed and everything was read.
    ///
    /// # Cancel safety
    /// Safe: an event is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Appends what is ready, at most `max` events, and waits only if nothing is. Returns how many;
    /// 0 when the channel is closed and everything was read.
    ///
    /// The messages of a batch count as consumed together, when the stream is polled again.
    ///
    /// # Cancel safety
    /// Safe: events are taken only when the call returns.
    pub async fn next_batch(&mut self, buf: &mut Vec<Event>, max: usize) -> usize {
        let max = max.max(1);
        let Some(first) = self.next().await else { return 0 };
        buf.push(first);
        let mut n = 1;
        while n < max {
            let Some(ev) = self.take_ready() else { break };
            buf.push(ev);
            n += 1;
        }
        n
    }

    /// The next event if there is one now.
    pub fn try_next(&mut self) -> Option<Event> {
        self.settle();
        if let Some(ev) = self.take_ready() {
            return Some(ev);
        }
        match self.refill(None) {
            Poll::Ready(()) => self.take_ready(),
            Poll::Pending => None,
        }
    }

    /// Says that the message that was returned last could not be handled. Its sender, if it waits
    /// with [`SyncLevel::OnDeliver`](crate::SyncLevel), finds this member in
    /// [`SyncOutcome::failed`](crate::SyncOutcome::failed). It counts as consumed all the same.
    pub fn fail(&mut self) {
        let awaited = std::mem::take(&mut self.last_awaited);
        let last = self.held.iter_mut().rev().find(|c| c.rsvp.is_some());
        if let (true, Some(last)) = (awaited, last) {
            last.failed = true;
        }
    }

    fn take_ready(&mut self) -> Option<Event> {
        loop {
            match self.take_happening()? {
                Happening::Event(ev) => return Some(ev),
                Happening::State(_) => {}
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            match self.poll_happening(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Happening::Event(ev))) => return Poll::Ready(Some(ev)),
                // Whoever reads events has the state from the call that fetched it.
                Poll::Ready(Some(Happening::State(_))) => {}
            }
        }
    }

    /// As [`Events::next`], with the states that were fetched where they belong.
    pub(crate) async fn next_with_states(&mut self) -> Option<Happening> {
        std::future::poll_fn(|cx| self.poll_happening(cx)).await
    }

    fn poll_happening(&mut self, cx: &mut Context<'_>) -> Poll<Option<Happening>> {
        self.settle();
        loop {
            if let Some(h) = self.take_happening() {
                return Poll::Ready(Some(h));
            }
            match self.refill(Some(cx)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if self.ready.is_empty() => return Poll::Ready(None),
                // Everything in it may belong to a state that was fetched: then there is more to
                // wait for.
                Poll::Ready(()) => {}
            }
        }
    }

    /// What was not read when a state was fetched, and is in it, is not returned any more.
    fn look_for_cut(&mut self) {
        let cuts = &self.owner.shared.cuts;
        if cuts.number() != self.cut_number {
            self.cut = cuts.last();
            self.cut_number = self.cut.as_ref().map_or(0, |c| c.number);
        }
    }

    /// What was returned of a row is held as one.
    fn hold_row(&mut self) {
        let taken = self.row.as_mut().and_then(|row| row.taken.take());
        self.held.extend(taken);
    }

    fn end_row(&mut self) {
        self.hold_row();
        self.row = None;
    }

    /// What was returned before is consumed now.
    fn settle(&mut self) {
        self.hold_row();
        let mut awaited = false;
        self.last_awaited = false;
        for c in self.held.drain(..) {
            awaited |= c.rsvp.is_some() || c.reassembled.is_some();
            if !self.owed.iter_mut().rev().take(8).any(|o| o.absorb(&c)) {
                self.owed.push(c);
            }
        }
        self.owed_weight += std::mem::take(&mut self.held_weight);
        if awaited || self.owed_weight >= self.owner.shared.report_consumed {
            self.report();
        }
    }

    fn report(&mut self) {
        if !self.owed.is_empty() {
            let owed = std::mem::take(&mut self.owed);
            self.owner.shared.inbox.push(Request::Command(Command::Consumed(owed)));
        }
        self.owner.shared.outbox.consumed(std::mem::take(&mut self.owed_weight));
    }

    /// `Ready` when there are events, or never will be.
    fn refill(&mut self, cx: Option<&Context<'_>>) -> Poll<()> {
        // Before sleeping: senders may be waiting for exactly this.
        self.report();
        match self.owner.shared.outbox.refill(cx.map(|cx| cx.waker())) {
            Refill::Items(items) => {
                self.ready = items;
                Poll::Ready(())
            }
            Refill::Nothing => Poll::Pending,
            Refill::End => Poll::Ready(()),
        }
    }

    fn take_happening(&mut self) -> Option<Happening> {
        self.look_for_cut();
        loop {
            if let Some(m) = self.batch.next() {
                give_back(&mut self.held, self.from, m.receipt);
                self.held_weight += weight(&m);
                self.last_awaited = m.receipt.rsvp.is_some();
                if self.cut.as_ref().is_some_and(|c| c.contains(self.from, &m)) {
                    continue;
                }
                let m = Message::from_wire(Address(self.from), m.wire);
                return Some(Happening::Event(Event::Message(m)));
            }
            if let Some(m) = self.next_of_row() {
                return Some(Happening::Event(Event::Message(m)));
            }
            match self.ready.pop_front()? {
                Item::View(v) => return Some(Happening::Event(Event::View(v))),
                Item::Rejoining { reason } => {
                    return Some(Happening::Event(Event::Rejoining { reason }));
                }
                Item::TailUnknown { of } => {
                    return Some(Happening::Event(Event::TailUnknown { of }));
                }
                Item::NotSynchronous { view } => {
                    return Some(Happening::Event(Event::NotSynchronous { view }));
                }
                Item::Suspected { member, by, reason } => {
                    return Some(Happening::Event(Event::Suspected { member, by, reason }));
                }
                Item::Primary { view, primacy } => {
                    return Some(Happening::Event(Event::Primary { view, primacy }));
                }
                Item::StateRequested(r) => {
                    return Some(Happening::Event(Event::StateRequested(r)));
                }
                Item::State { cut, bytes } => {
                    // What follows was looked at in the stack.
                    self.cut = self.cut.take().filter(|c| c.number > cut);
                    if let Some(bytes) = bytes {
                        return Some(Happening::State(bytes));
                    }
                }
                Item::Messages { from, messages } => {
                    self.from = from;
                    self.batch = messages.into_iter();
                }
                Item::Row(row) => self.row = Some(Reading::of(row)),
            }
        }
    }

    fn next_of_row(&mut self) -> Option<Message> {
        let row = self.row.as_mut()?;
        while let Some(payload) = row.next() {
            let (from, number) = (row.from, row.number);
            self.held_weight += crate::inbox::cost_of(payload.len());
            self.last_awaited = false;
            if !self.cut.as_ref().is_some_and(|c| c.contains_number(from, number)) {
                return Some(Message::received(Address(from), payload));
            }
        }
        self.end_row();
        None
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().poll_event(cx)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        while self.take_ready().is_some() {}
        self.settle();
        self.report();
        let rest = self.owner.shared.outbox.abandon();
        if !rest.is_empty() {
            self.owner.shared.inbox.push(Request::Command(Command::Consumed(rest)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Inbox;
    use crate::outbox::Outbox;
    use crate::shared::{Clock, Ended, Shared};
    use rgroups_core::{Pool, Receipt, RsvpTag, wire};
    use tokio::sync::watch;

    const FROM: Uuid = Uuid::new(1, 1);

    /// Events of a channel whose driver is this test.
    fn events(report_consumed: u64) -> (mio::Poll, Events) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let shared = Shared {
            asked: String::new(),
            local: Address(FROM),
            name: "A".into(),
            cluster: "test".into(),
            clock: Clock::start(),
            inbox: Inbox::new(Arc::new(waker)),
            outbox: Outbox::new(1000),
            admits_up_to: usize::MAX,
            report_consumed,
            view: watch::Sender::default(),
            ended: watch::Sender::new(Ended::Running),
            names: watch::Sender::default(),
            stats: std::sync::Mutex::default(),
            blocked: std::sync::Mutex::default(),
            cuts: crate::shared::Cuts::default(),
            claim: std::sync::Mutex::default(),
            sends_until: std::sync::atomic::AtomicU64::new(u64::MAX),
            form: crate::state::Form::Whole,
            acceptor: std::sync::Mutex::default(),
            service: std::sync::Mutex::default(),
            map: std::sync::Mutex::default(),
        };
        (poll, Events::new(Arc::new(Owner { shared: Arc::new(shared) })))
    }

    fn deliver(events: &Events, rsvp: &[Option<i16>]) {
        let message = |id: &Option<i16>| {
            let body = wire::Body::bytes(vec![0u8; 200]);
            let mut m = rgroups_core::Message::from(wire::Message::multicast(body));
            let rsvp = id.map(|id| RsvpTag { id });
            m.receipt = Receipt { pool: Pool::Multicast, bytes: 200, rsvp, ..Receipt::default() };
            m
        };
        let messages = rsvp.iter().map(message).collect();
        events.owner.shared.outbox.push(vec![Item::Messages { from: FROM, messages }]);
    }

    fn reported(events: &Events) -> Vec<Consumed> {
        let taken = events.owner.shared.inbox.take(u64::MAX, usize::MAX);
        let consumed = |r| match r {
            Request::Command(Command::Consumed(list)) => list,
            _ => Vec::new(),
        };
        taken.requests.into_iter().flat_map(consumed).collect()
    }

    #[test]
    fn a_synchronous_send_in_the_middle_of_a_batch_is_acknowledged_with_the_batch() {
        let (_poll, mut events) = events(64_000);
        deliver(&events, &[None, Some(7), None, None]);
        let mut batch = Vec::new();
        assert_eq!(crate::block_on(events.next_batch(&mut batch, 3)), 3);
        assert!(reported(&events).is_empty(), "nothing is consumed yet");
        assert!(events.try_next().is_some());
        let acknowledged = |c: &Consumed| c.rsvp == Some(RsvpTag { id: 7 });
        assert!(reported(&events).iter().any(acknowledged));
    }

    #[test]
    fn a_slow_reader_returns_credit_before_it_has_read_everything() {
        let (_poll, mut events) = events(400);
        deliver(&events, &[None; 5]);
        let mut returned = Vec::new();
        for _ in 0..5 {
            assert!(events.try_next().is_some());
            returned.push(reported(&events).iter().map(|c| c.bytes).sum::<u64>());
        }
        assert_eq!(returned, [0, 0, 400, 0, 400]);
    }
}
