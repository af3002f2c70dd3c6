//! What travels up: messages of one sender, all to the group or all to this member, all regular or
//! all out of band.

use crate::wire::ProtId;
use crate::{Message, Uuid};
use alloc::vec::Vec;

/// A set of protocol ids; tells which layers have a header somewhere in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u128);

impl Marks {
    /// Ids outside 0..=126 share one mark.
    #[must_use]
    pub fn of(id: ProtId) -> Marks {
        let bit = u32::try_from(id.0).unwrap_or(127).min(127);
        Marks(1 << bit)
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    /// Whether anything is in both.
    #[must_use]
    pub fn meets(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }
}

/// Messages on their way up. Header marks are kept by every way of adding a message; a removed
/// message may leave a mark behind, which costs a visit and changes nothing.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The sender of all messages.
    pub src: Uuid,
    /// To the whole group.
    pub multicast: bool,
    /// Out of band.
    pub oob: bool,
    messages: Vec<Message>,
    marks: Marks,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new(src: Uuid, multicast: bool, oob: bool) -> Self {
        Self { src, multicast, oob, messages: Vec::new(), marks: Marks::default() }
    }

    /// A batch of one message, classed by its destination and flags.
    #[must_use]
    pub fn of(src: Uuid, m: Message) -> Self {
        // Exactly one place: a push would make room for four, and such batches queue up in numbers.
        Self::begun(src, m, 1)
    }

    /// A batch of one message, as [`Batch::of`], with room for so many.
    #[must_use]
    pub(crate) fn begun(src: Uuid, m: Message, room: usize) -> Self {
        let mut b = Self::new(src, m.is_multicast(), m.has(crate::wire::Flags::OOB));
        b.messages = Vec::with_capacity(room.max(1));
        b.push(m);
        b
    }

    /// An empty batch of the same class.
    #[must_use]
    pub fn like(&self) -> Self {
        Self::new(self.src, self.multicast, self.oob)
    }

    /// Whether this is a batch of regular multicasts and `m`, of the same sender, another one.
    pub(crate) fn continues(&self, m: &Message) -> bool {
        self.multicast && !self.oob && m.is_multicast() && !m.has(crate::wire::Flags::OOB)
    }

    /// Appends a message.
    pub fn push(&mut self, m: Message) {
        self.mark(&m);
        self.messages.push(m);
    }

    fn mark(&mut self, m: &Message) {
        for (id, _) in m.headers.iter() {
            self.marks.add(Marks::of(id));
        }
    }

    /// The messages.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages, to be changed in place. Call [`Batch::remark`] after adding headers.
    pub fn messages_mut(&mut self) -> &mut [Message] {
        &mut self.messages
    }

    /// Recomputes the header marks.
    pub fn remark(&mut self) {
        self.marks = Marks::default();
        let mut marks = Marks::default();
        for m in &self.messages {
            for (id, _) in m.headers.iter() {
                marks.add(Marks::of(id));
            }
        }
        self.marks = marks;
    }

    /// Which layers have headers here.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Keeps the messages for which `keep` says true. The others are dropped unseen by upper
    /// layers: settle their receipts first if they carry any.
    pub fn retain(&mut self, keep: impl FnMut(&mut Message) -> bool) {
        self.messages.retain_mut(keep);
    }

    /// Takes all messages, leaving the batch empty.
    pub fn take_all(&mut self) -> Vec<Message> {
        self.marks = Marks::default();
        core::mem::take(&mut self.messages)
    }

    /// Puts `messages` in, replacing what is there.
    pub fn replace(&mut self, messages: Vec<Message>) {
        self.messages = messages;
        self.remark();
    }

    /// Removes and returns the message at `i`.
    pub fn take(&mut self, i: usize) -> Message {
        self.messages.remove(i)
    }

    /// The part from message `i` on, removed into a batch of the same class.
    pub fn split_off(&mut self, i: usize) -> Batch {
        let mut tail = self.like();
        tail.messages = self.messages.split_off(i);
        tail.marks = self.marks;
        tail
    }

    /// How many messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
