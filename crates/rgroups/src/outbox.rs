//! From the driver to the application: what happened, in order.

use crate::state::StateResponder;
use crate::{Address, Primacy, View, ViewId};
use bytes::Bytes;
use rgroups_core::{Consumed, Delivery, Message, Pool, Receipt, Row, Uuid};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// One thing that happened.
#[derive(Debug)]
pub(crate) enum Item {
    View(View),
    /// Messages of one sender.
    Messages {
        from: Uuid,
        messages: Vec<Message>,
    },
    /// Messages of one sender that carry nothing but these payloads, counted by flow control.
    Row(Row),
    Rejoining {
        reason: String,
    },
    /// Whether all have the same last messages is not known; who was not heard or is meant.
    TailUnknown {
        of: Vec<Address>,
    },
    /// Who installs this view may not have delivered the same before it.
    NotSynchronous {
        view: ViewId,
    },
    /// We are about to exclude a member.
    Suspected {
        member: Address,
        by: Address,
        reason: String,
    },
    /// What is said of the view has changed.
    Primary {
        view: ViewId,
        primacy: Primacy,
    },
    /// Somebody asks for our state.
    StateRequested(StateResponder),
    /// The state that was fetched belongs here; the number of its cut, and the state if it was
    /// asked for as a whole.
    State {
        cut: u64,
        bytes: Option<Bytes>,
    },
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    messages: u64,
    bytes: u64,
    exempt: u64,
    reader: Option<Waker>,
    /// Nothing follows.
    ended: bool,
    /// Nobody reads.
    abandoned: bool,
}

/// What the reader found.
#[derive(Debug)]
pub(crate) enum Refill {
    Items(VecDeque<Item>),
    Nothing,
    End,
}

/// The queue. Its length is bounded by the credit that we granted, because only what the
/// application consumed is granted again; traffic without flow control has a limit of its own.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    exempt_limit: u64,
    /// Bytes delivered and not consumed: here, and taken by the reader but not yet given back.
    unconsumed: AtomicU64,
    refused: AtomicU64,
}

impl Outbox {
    pub(crate) fn new(exempt_limit: u64) -> Self {
        Self {
            state: Mutex::default(),
            exempt_limit,
            unconsumed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends. What nobody will consume comes back: everything if the reader is gone, and exempt
    /// messages over the limit.
    pub(crate) fn push(&self, items: Vec<Item>) -> Vec<Consumed> {
        let mut back = Vec::new();
        let mut state = self.lock();
        for mut item in items {
            if let Item::Row(row) = item {
                item = counted(row);
            }
            if let Item::Row(row) = &item {
                if state.abandoned {
                    back.extend(row.consumed());
                    continue;
                }
                let bytes = row.cost(crate::inbox::cost_of(0));
                state.bytes += bytes;
                state.messages += row.len() as u64;
                self.unconsumed.fetch_add(bytes, Ordering::Relaxed);
            }
            if let Item::Messages { from, messages } = &mut item {
                if state.abandoned {
                    messages.iter().for_each(|m| give_back(&mut back, *from, m.receipt));
                    continue;
                }
                self.limit_exempt(&mut state, *from, messages, &mut back);
                let bytes: u64 = messages.iter().map(weight).sum();
                state.bytes += bytes;
                state.messages += messages.len() as u64;
                self.unconsumed.fetch_add(bytes, Ordering::Relaxed);
            }
            if !state.abandoned {
                state.items.push_back(item);
            }
        }
        let reader = if state.items.is_empty() { None } else { state.reader.take() };
        drop(state);
        if let Some(r) = reader {
            r.wake();
        }
        back
    }

    fn limit_exempt(
        &self,
        state: &mut State,
        from: Uuid,
        messages: &mut Vec<Message>,
        back: &mut Vec<Consumed>,
    ) {
        let is_exempt = |m: &Message| m.receipt.pool == Pool::Exempt;
        if !messages.iter().any(is_exempt) {
            return;
        }
        messages.retain(|m| {
            if !is_exempt(m) {
                return true;
            }
            let fits = state.exempt == 0 || state.exempt + weight(m) <= self.exempt_limit;
            if fits {
                state.exempt += weight(m);
            } else {
                give_back(back, from, m.receipt);
                if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
                    tracing::warn!(
                        limit = self.exempt_limit,
                        "inbound_limit reached: messages without flow control are dropped"
                    );
                }
            }
            fits
        });
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(r) = reader {
            r.wake();
        }
    }

    /// Takes everything; with nothing there, `waker` is called when there is.
    pub(crate) fn refill(&self, waker: Option<&Waker>) -> Refill {
        let mut state = self.lock();
        if state.items.is_empty() {
            if state.ended {
                return Refill::End;
            }
            state.reader = waker.cloned();
            return Refill::Nothing;
        }
        state.messages = 0;
        state.bytes = 0;
        state.exempt = 0;
        Refill::Items(std::mem::take(&mut state.items))
    }

    /// So many bytes were given back.
    pub(crate) fn consumed(&self, bytes: u64) {
        self.unconsumed.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Nobody will read any more; what was not read comes back.
    pub(crate) fn abandon(&self) -> Vec<Consumed> {
        let mut back = Vec::new();
        let mut state = self.lock();
        state.abandoned = true;
        state.reader = None;
        let items = std::mem::take(&mut state.items);
        self.consumed(state.bytes);
        (state.bytes, state.messages, state.exempt) = (0, 0, 0);
        drop(state);
        for item in items {
            match item {
                Item::Messages { from, messages } => {
                    messages.iter().for_each(|m| give_back(&mut back, from, m.receipt));
                }
                Item::Row(row) => back.extend(row.consumed()),
                // Whoever asks for a state hears that nobody reads its question.
                Item::StateRequested(_)
                | Item::View(_)
                | Item::Rejoining { .. }
                | Item::TailUnknown { .. }
                | Item::NotSynchronous { .. }
                | Item::Suspected { .. }
                | Item::Primary { .. }
                | Item::State { .. } => {}
            }
        }
        back
    }

    /// Messages and bytes in the queue, bytes not consumed, messages refused.
    pub(crate) fn gauges(&self) -> (u64, u64, u64, u64) {
        let state = self.lock();
        let unconsumed = self.unconsumed.load(Ordering::Relaxed);
        (state.messages, state.bytes, unconsumed, self.refused.load(Ordering::Relaxed))
    }
}

/// A row whose messages flow control has counted; else its messages, which have a limit here.
fn counted(row: Row) -> Item {
    if row.account.pool != Pool::Exempt {
        return Item::Row(row);
    }
    let Delivery { from, messages, .. } = row.into();
    Item::Messages { from, messages }
}

/// What a message weighs in the queue.
pub(crate) fn weight(m: &Message) -> u64 {
    crate::inbox::cost_of(m.receipt.bytes as usize)
        .max(m.body.as_bytes().map_or(0, |b| b.len() as u64))
}

/// Adds a message to what is given back, joined with others of its account where possible.
pub(crate) fn give_back(back: &mut Vec<Consumed>, from: Uuid, receipt: Receipt) {
    let one = Consumed::one(from, receipt);
    if !back.iter_mut().rev().take(8).any(|c| c.absorb(&one)) {
        back.push(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgroups_core::{Receipt, wire};

    const FROM: Uuid = Uuid::new(1, 1);

    fn message(pool: Pool, bytes: usize) -> Message {
        let body = wire::Body::bytes(vec![0u8; bytes]);
        let mut m = Message::from(wire::Message::multicast(body));
        m.receipt = Receipt { pool, bytes: bytes as u32, ..Receipt::default() };
        m
    }

    fn batch(messages: Vec<Message>) -> Vec<Item> {
        vec![Item::Messages { from: FROM, messages }]
    }

    #[test]
    fn an_abandoned_queue_gives_everything_back() {
        let q = Outbox::new(1000);
        assert!(q.push(batch(vec![message(Pool::Multicast, 500)])).is_empty());
        assert_eq!(q.abandon()[0].bytes, 500);
        assert_eq!(q.push(batch(vec![message(Pool::Multicast, 700)]))[0].bytes, 700);
        assert_eq!(q.gauges(), (0, 0, 0, 0));
    }

    #[test]
    fn only_exempt_messages_have_a_limit() {
        let q = Outbox::new(1000);
        let three = || (0..3).map(|_| message(Pool::Exempt, 500)).collect();
        q.push(batch(three()));
        assert_eq!(q.gauges().0, 2);
        assert_eq!(q.gauges().3, 1);
        q.push(batch((0..3).map(|_| message(Pool::Multicast, 500)).collect()));
        assert_eq!(q.gauges().0, 5);
    }
}
