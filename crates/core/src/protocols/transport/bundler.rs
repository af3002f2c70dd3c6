//! Gathers messages into frames: one open frame per destination, closed when the next message would
//! make it larger than `max_size`, or at the end of the turn. Idle, a message leaves alone and at
//! once; under load turns grow, and frames with them. There is no timer.

use crate::wire::header::{Rtt, TpHeader};
use crate::wire::{Address, Flags, FrameWriter, Header, ProtId, RowStart};
use crate::{Message, Row, Uuid};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

/// Messages in one frame, whatever room `max_size` leaves: well below what receivers read.
const MAX_LISTED: usize = crate::wire::MAX_MESSAGES / 4;

/// Where messages of one frame go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// To everybody.
    Group,
    /// To a member, at its address.
    Member(Uuid, SocketAddr),
    /// To whoever is at this address.
    Physical(SocketAddr),
}

/// A frame that is complete.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) target: Target,
    pub(super) dest: Option<Address>,
    pub(super) content: Content,
    /// Encoded length as a list, in bytes.
    pub(super) size: usize,
}

/// What a frame is made of. A row is two messages or more in a closed frame.
#[derive(Debug)]
pub(super) enum Content {
    Messages(Vec<Message>),
    Row(RowStart, Vec<Bytes>),
}

impl Content {
    pub(super) fn len(&self) -> usize {
        match self {
            Content::Messages(messages) => messages.len(),
            Content::Row(_, payloads) => payloads.len(),
        }
    }

    /// The messages. Those of a row are complete, too.
    fn messages(self) -> Vec<Message> {
        let (start, payloads) = match self {
            Content::Messages(messages) => return messages,
            Content::Row(start, payloads) => (start, payloads),
        };
        let numbers = Some((start.prot, start.first));
        let mut batch = Row { numbers, ..Row::sent(start.src, payloads) }.into_batch();
        for m in batch.messages_mut() {
            let header = TpHeader { cluster: Some(start.cluster.clone()), rtt: Rtt::None };
            m.headers.put(ProtId::TP, Header::Tp(header));
        }
        batch.take_all()
    }
}

/// The open frames.
#[derive(Debug)]
pub(super) struct Bundler {
    max_size: usize,
    open: BTreeMap<Target, Open>,
}

#[derive(Debug)]
struct Open {
    dest: Option<Address>,
    content: Content,
    size: usize,
    /// It holds regular messages with content, which may wait for urgent ones.
    bulk: bool,
}

impl Bundler {
    pub(super) fn new(max_size: usize) -> Self {
        Self { max_size, open: BTreeMap::new() }
    }

    /// Puts a message in the open frame of its target; returns the frame that had to be closed
    /// for it. A message larger than `max_size` gets a frame of its own.
    pub(super) fn add(
        &mut self,
        target: Target,
        message: Message,
        src: &Address,
        cluster: &[u8],
    ) -> Option<Closed> {
        let writer = FrameWriter::new(message.dest.as_ref(), src, cluster);
        let len = writer.listed_len(&message);
        let bulk = !message.has(Flags::OOB) && message.length() > 0;
        if let Some(open) = self.open.get_mut(&target)
            && open.size + len <= self.max_size
            && open.content.len() < MAX_LISTED
        {
            open.size += len;
            open.bulk |= bulk;
            open.push(message);
            return None;
        }
        let size = writer.list_start_len() + len;
        let dest = message.dest.clone();
        // After a full frame probably comes another one.
        let expected = self.open.get(&target).map_or(1, |full| full.content.len());
        let mut messages = Vec::with_capacity(expected);
        messages.push(message);
        let fresh = Open { dest, content: Content::Messages(messages), size, bulk };
        self.open.insert(target, fresh).map(|full| full.close(target))
    }

    /// Puts a row with numbers in frames to the group, as [`Bundler::add`] would put its messages.
    /// Returns the frames that had to be closed.
    pub(super) fn add_row(&mut self, row: Row, cluster: &Bytes) -> Vec<Closed> {
        let (Some((prot, first)), src) = (row.numbers, row.src) else { return Vec::new() };
        let at = |number| RowStart { src, cluster: cluster.clone(), prot, first: number };
        let mut closed = Vec::new();
        let mut open = self.open.remove(&Target::Group);
        let start = at(first);
        let mut number = first;
        for payload in row.payloads {
            let len = start.listed_len(number, payload.len());
            let full = |o: &mut Open| o.size + len > self.max_size || o.content.len() >= MAX_LISTED;
            if let Some(full) = open.take_if(full) {
                closed.push(full.close(Target::Group));
            }
            let open = open.get_or_insert_with(|| {
                let size = start.list_start_len();
                Open { dest: None, content: Content::Row(at(number), Vec::new()), size, bulk: true }
            });
            open.size += len;
            open.bulk = true;
            open.push_numbered(&start, number, payload);
            number = number.wrapping_add(1);
        }
        self.open.extend(open.map(|o| (Target::Group, o)));
        closed
    }

    /// Closes the frame of `target`, if one is open.
    pub(super) fn close(&mut self, target: Target) -> Option<Closed> {
        self.open.remove(&target).map(|o| o.close(target))
    }

    /// Closes all frames: first those that hold nothing but control traffic, so that heartbeats
    /// and acknowledgements do not wait behind bulk data.
    pub(super) fn close_all(&mut self) -> Vec<Closed> {
        let mut all: Vec<(Target, Open)> = core::mem::take(&mut self.open).into_iter().collect();
        all.sort_by_key(|(_, open)| open.bulk);
        all.into_iter().map(|(target, open)| open.close(target)).collect()
    }
}

impl Open {
    fn push(&mut self, message: Message) {
        self.take_apart().push(message);
    }

    /// A message of a row that begins with `start`.
    fn push_numbered(&mut self, start: &RowStart, number: i64, payload: Bytes) {
        match &mut self.content {
            Content::Row(begun, payloads)
                if begun.prot == start.prot
                    && number.wrapping_sub(begun.first) == payloads.len() as i64 =>
            {
                payloads.push(payload);
            }
            _ => {
                let start = RowStart { first: number, ..start.clone() };
                let one = Content::Row(start, Vec::from([payload])).messages();
                self.take_apart().extend(one);
            }
        }
    }

    /// The messages of what is no row, or no longer.
    fn take_apart(&mut self) -> &mut Vec<Message> {
        if let Content::Row(..) = self.content {
            let row = core::mem::replace(&mut self.content, Content::Messages(Vec::new()));
            self.content = Content::Messages(row.messages());
        }
        match &mut self.content {
            Content::Messages(messages) => messages,
            Content::Row(..) => unreachable!("it was taken apart"),
        }
    }

    fn close(self, target: Target) -> Closed {
        let content = match self.content {
            one @ Content::Row(..) if one.len() < 2 => Content::Messages(one.messages()),
            content => content,
        };
        Closed { target, dest: self.dest, content, size: self.size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;
    use crate::wire::{self, Body, Encode, Frame, FrameBody, Version};
    use alloc::vec;

    fn payload(n: usize) -> Message {
        wire::Message::multicast(Body::bytes(vec![7u8; n])).into()
    }

    fn encoded(closed: &Closed) -> usize {
        let Content::Messages(messages) = &closed.content else { panic!("no row was added") };
        let messages = messages.iter().map(|m| m.wire.clone()).collect();
        let body = FrameBody::List {
            dest: closed.dest.clone(),
            src: Some(id(1).into()),
            cluster: Some(bytes::Bytes::from_static(b"test")),
            messages,
        };
        let mut n = wire::Counter::default();
        Frame { version: Version::OURS, multicast: true, body }.encode(&mut n);
        n.0
    }

    #[test]
    fn a_frame_is_filled_up_to_the_exact_size_and_not_a_byte_further() {
        let src = Address::from(id(1));
        let mut wide = Bundler::new(usize::MAX);
        let _ = wide.add(Target::Group, payload(100), &src, b"test");
        let _ = wide.add(Target::Group, payload(100), &src, b"test");
        let two = wide.close(Target::Group).unwrap();
        assert_eq!(two.size, encoded(&two));

        let mut fits = Bundler::new(two.size);
        assert!(fits.add(Target::Group, payload(100), &src, b"test").is_none());
        assert!(fits.add(Target::Group, payload(100), &src, b"test").is_none());

        let mut short = Bundler::new(two.size - 1);
        assert!(short.add(Target::Group, payload(100), &src, b"test").is_none());
        let closed = short.add(Target::Group, payload(100), &src, b"test").unwrap();
        assert_eq!(closed.content.len(), 1);
    }

    #[test]
    fn frames_of_control_traffic_leave_before_bulk() {
        let src = Address::from(id(1));
        let at: SocketAddr = ([127, 0, 0, 1], 9).into();
        let mut b = Bundler::new(64_000);
        let _ = b.add(Target::Group, payload(10), &src, b"test");
        let ack = wire::Message::unicast(id(2), Body::Empty);
        let _ = b.add(Target::Member(id(2), at), ack.into(), &src, b"test");
        let targets: Vec<Target> = b.close_all().iter().map(|c| c.target).collect();
        assert_eq!(targets, [Target::Member(id(2), at), Target::Group]);
    }
}
