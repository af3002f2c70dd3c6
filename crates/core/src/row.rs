//! Rows: regular multicasts of bytes by one sender that differ in payload and number alone, and whose
//! numbers follow each other. A busy sender sends nothing else, so rows pass the layers as one thing,
//! without a [`Message`] for each. A layer that cannot do that says so ([`RowFlow::Apart`]), and gets the
//! same messages one by one: rows are a shorter way to say it, never something else.

use crate::batch::Marks;
use crate::wire::{self, Body, Flags, Header, Hints, ProtId, header::NakAckHeader};
use crate::{Batch, Consumed, Delivery, Message, Pool, Receipt, Uuid, app};
use alloc::vec::Vec;
use bytes::Bytes;

/// Multicasts in a row. None of the payloads is empty.
#[derive(Clone, Debug)]
pub struct Row {
    /// The sender.
    pub src: Uuid,
    /// Whose header carries the numbers, and the number of the first message. On the way down there is
    /// none above the layer that numbers.
    pub numbers: Option<(ProtId, i64)>,
    /// What the messages carry.
    pub payloads: Vec<Bytes>,
    /// Up: in which account the messages were counted.
    pub account: Account,
}

/// What the receipts of a row have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The account.
    pub pool: Pool,
    /// Which incarnation of it.
    pub epoch: u32,
    /// What a message costs at least.
    pub floor: u64,
    /// Where RSVP counts the messages; 0: nowhere.
    pub place: u32,
}

/// What a layer does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RowFlow {
    /// It has done its part for all of it: the row travels on.
    Pass,
    /// It has done nothing yet, and wants the messages.
    Apart,
}

impl Account {
    /// The receipt of a message with this payload.
    #[must_use]
    pub fn receipt(&self, payload: &Bytes) -> Receipt {
        let Account { pool, epoch, floor, place } = *self;
        let bytes = match pool {
            Pool::Exempt => 0,
            _ => u32::try_from((payload.len() as u64).max(floor)).unwrap_or(u32::MAX),
        };
        Receipt { pool, epoch, bytes, place, ..Receipt::default() }
    }
}

impl Row {
    /// A row to be sent.
    #[must_use]
    pub fn sent(src: Uuid, payloads: Vec<Bytes>) -> Self {
        Self { src, numbers: None, payloads, account: Account::default() }
    }

    /// How many messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.payloads.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// The numbers of the first and of the last message, of this protocol.
    #[must_use]
    pub fn span(&self) -> Option<(ProtId, i64, i64)> {
        let (id, first) = self.numbers?;
        Some((id, first, first.wrapping_add(self.payloads.len() as i64 - 1)))
    }

    /// What all of it counts, if a message counts at least `floor` bytes.
    #[must_use]
    pub fn cost(&self, floor: u64) -> u64 {
        self.payloads.iter().map(|p| (p.len() as u64).max(floor)).sum()
    }

    /// The length of the longest payload.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.payloads.iter().map(Bytes::len).max().unwrap_or(0)
    }

    /// Which layers have headers here.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.numbers.map(|(id, _)| Marks::of(id)).unwrap_or_default()
    }

    /// What its consumption returns.
    #[must_use]
    pub fn consumed(&self) -> Option<Consumed> {
        let mut sum = Consumed::one(self.src, self.account.receipt(self.payloads.first()?));
        for p in &self.payloads[1..] {
            sum.absorb(&Consumed::one(self.src, self.account.receipt(p)));
        }
        Some(sum)
    }

    /// The messages as they go down, without source.
    pub fn into_messages(self) -> impl DoubleEndedIterator<Item = Message> + ExactSizeIterator {
        let Row { numbers, payloads, account, .. } = self;
        payloads.into_iter().enumerate().map(move |(i, payload)| {
            let receipt = account.receipt(&payload);
            let mut m = wire::Message::multicast(Body::bytes(payload));
            if let Some((id, first)) = numbers {
                let number = first.wrapping_add(i as i64);
                m.headers.put(id, Header::NakAck(NakAckHeader::Msg(number)));
            }
            Message { receipt, ..Message::from(m) }
        })
    }

    /// The messages as they go up.
    #[must_use]
    pub fn into_batch(self) -> Batch {
        let mut batch = Batch::new(self.src, true, false);
        let src = wire::Address::Uuid(self.src);
        let messages = self.into_messages().map(|mut m| {
            m.src = Some(src.clone());
            m
        });
        batch.replace(messages.collect());
        batch
    }
}

impl From<Row> for Delivery {
    fn from(row: Row) -> Self {
        let from = row.src;
        Delivery { from, multicast: true, messages: row.into_batch().take_all() }
    }
}

/// Takes what a message carries, if a row can hold it: nobody waits for it, and there is nothing about it
/// but a payload to everybody.
pub(crate) fn take_plain(send: &mut app::Send) -> Option<Bytes> {
    let m = &mut send.message;
    let bare = m.dest.is_none()
        && m.src.is_none()
        && m.flags == Flags::empty()
        && m.hints == Hints::empty()
        && m.headers.is_empty();
    let awaited = send.op.is_some() || send.sync.is_some() || send.deadline.is_some();
    match &mut m.body {
        Body::Bytes(Some(payload)) if bare && !awaited && !send.try_only && !payload.is_empty() => {
            Some(core::mem::take(payload))
        }
        _ => None,
    }
}

/// The send that a payload in a row stands for.
pub(crate) fn send_of(payload: Bytes) -> app::Send {
    let message = wire::Message::multicast(Body::bytes(payload));
    app::Send { op: None, message, try_only: false, deadline: None, sync: None }
}
