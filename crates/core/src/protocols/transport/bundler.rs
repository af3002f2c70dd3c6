//! Gathers messages into frames: one open frame per destination, closed when the next message would
//! make it larger than `max_size`, or at the end of the turn. Idle, a message leaves alone and at
//! once; under load turns grow, and frames with them. There is no timer.

use crate::wire::{Address, Flags, FrameWriter};
use crate::{Message, Uuid};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
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
    pub(super) messages: Vec<Message>,
    /// Encoded length as a list, in bytes.
    pub(super) size: usize,
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
    messages: Vec<Message>,
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
            && open.messages.len() < MAX_LISTED
        {
            open.size += len;
            open.bulk |= bulk;
            open.messages.push(message);
            return None;
        }
        let size = writer.list_start_len() + len;
        let dest = message.dest.clone();
        // After a full frame probably comes another one.
        let expected = self.open.get(&target).map_or(1, |full| full.messages.len());
        let mut messages = Vec::with_capacity(expected);
        messages.push(message);
        let fresh = Open { dest, messages, size, bulk };
        self.open.insert(target, fresh).map(|full| full.close(target))
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
    fn close(self, target: Target) -> Closed {
        Closed { target, dest: self.dest, messages: self.messages, size: self.size }
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
        let messages = closed.messages.iter().map(|m| m.wire.clone()).collect();
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
        assert_eq!(closed.messages.len(), 1);
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
