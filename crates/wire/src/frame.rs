//! Packets: what one datagram or one TCP frame holds (WIRE §5.1).

use crate::address_codec::{decode_addr, encode_addr};
use crate::error::DecodeErrorKind;
use crate::message_codec::decode_messages;
use crate::primitive::WriteExt;
use crate::{Address, Counter, Decode, Decoded, Encode, Message, Reader, Version, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

/// A packet: one message, or a list of messages from one sender to one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The sender's version.
    pub version: Version,
    /// Whether the packet is for the whole group.
    pub multicast: bool,
    /// What is in it.
    pub body: FrameBody,
}

/// The content of a [`Frame`].
#[derive(Clone, Debug, PartialEq)]
pub enum FrameBody {
    /// One message.
    Single(Message),
    /// A list.
    List {
        /// Destination of all; `None`: the group.
        dest: Option<Address>,
        /// Source of every message that does not name its own.
        src: Option<Address>,
        /// Cluster name.
        cluster: Option<Bytes>,
        /// The messages, with `dest` and `src` filled in.
        messages: Vec<Message>,
    },
}

const LIST: u8 = 1;
const MULTICAST: u8 = 2;

impl Frame {
    /// Reads a packet that fills `bytes`. The version comes first: of an incompatible packet
    /// nothing else is looked at. Payloads are slices of `bytes`.
    pub fn decode(bytes: Bytes) -> Decoded<Frame> {
        let mut r = Reader::new(bytes);
        let version = Version::decode(&mut r)?;
        if !version.compatible() {
            return Err(r.error("packet", DecodeErrorKind::Version(version.0)));
        }
        let flags = r.u8("packet flags")?;
        let body = if flags & LIST == 0 {
            FrameBody::Single(Message::decode(&mut r)?)
        } else {
            let dest = decode_addr(&mut r)?;
            let src = decode_addr(&mut r)?;
            let cluster = r.astr("cluster name")?;
            let n = r.i32("message list")?;
            let messages = decode_messages(n, dest.as_ref(), src.as_ref(), &mut r)?;
            FrameBody::List { dest, src, cluster, messages }
        };
        r.finish("packet")?;
        Ok(Frame { version, multicast: flags & MULTICAST != 0, body })
    }

    /// The messages in the packet.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        match &self.body {
            FrameBody::Single(message) => core::slice::from_ref(message),
            FrameBody::List { messages, .. } => messages,
        }
    }
}

/// Matches `TP.writeMessage` and `Util.writeMessageList`.
///
/// | bytes | field |
/// |-------|-------|
/// | 2 | version |
/// | 1 | flags: 1 list, 2 multicast |
/// | single | i16 type id, message |
/// | list | addr dest, addr src, astr cluster, i32 count; each i16 type id, message |
impl Encode for Frame {
    fn encode(&self, w: &mut impl Writer) {
        match &self.body {
            FrameBody::Single(message) => {
                encode_start(self.version, self.multicast, false, w);
                message.encode(w);
            }
            FrameBody::List { dest, src, cluster, messages } => {
                let list = FrameWriter {
                    version: self.version,
                    multicast: self.multicast,
                    dest: dest.as_ref(),
                    src: src.as_ref(),
                    cluster: cluster.as_deref(),
                };
                list.encode_list(messages, w);
            }
        }
    }
}

fn encode_start(version: Version, multicast: bool, list: bool, w: &mut impl Writer) {
    version.encode(w);
    w.u8(if list { LIST } else { 0 } | if multicast { MULTICAST } else { 0 });
}

/// Writes packets straight from borrowed messages, without building a [`Frame`]: the way out of a
/// transport.
#[derive(Clone, Copy, Debug)]
pub struct FrameWriter<'a> {
    /// The version to present.
    pub version: Version,
    /// Whether the packet is for the whole group.
    pub multicast: bool,
    /// Destination of all messages; `None`: the group.
    pub dest: Option<&'a Address>,
    /// Their sender.
    pub src: Option<&'a Address>,
    /// Cluster name.
    pub cluster: Option<&'a [u8]>,
}

impl<'a> FrameWriter<'a> {
    /// Packets of this version from `src` in `cluster`, to the group if there is no `dest`.
    #[must_use]
    pub fn new(dest: Option<&'a Address>, src: &'a Address, cluster: &'a [u8]) -> Self {
        Self {
            version: Version::OURS,
            multicast: dest.is_none(),
            dest,
            src: Some(src),
            cluster: Some(cluster),
        }
    }

    /// Appends a packet with one message, which carries its own addresses.
    pub fn encode_single(&self, message: &Message, w: &mut impl Writer) {
        encode_start(self.version, self.multicast, false, w);
        message.encode(w);
    }

    /// Appends a packet with a list of messages.
    pub fn encode_list<'m, I>(&self, messages: I, w: &mut impl Writer)
    where
        I: IntoIterator<Item = &'m Message>,
        I::IntoIter: ExactSizeIterator,
    {
        let messages = messages.into_iter();
        self.encode_list_start(messages.len(), w);
        for m in messages {
            m.encode_listed(self.src, w);
        }
    }

    /// The number of bytes of a list packet before its first message.
    #[must_use]
    pub fn list_start_len(&self) -> usize {
        let mut n = Counter::default();
        self.encode_list_start(0, &mut n);
        n.0
    }

    /// The number of bytes that `message` adds to a list packet.
    #[must_use]
    pub fn listed_len(&self, message: &Message) -> usize {
        message.listed_len(self.src)
    }

    /// The number of bytes of a packet with this one message.
    #[must_use]
    pub fn single_len(&self, message: &Message) -> usize {
        let mut n = Counter::default();
        self.encode_single(message, &mut n);
        n.0
    }

    fn encode_list_start(&self, count: usize, w: &mut impl Writer) {
        encode_start(self.version, self.multicast, true, w);
        encode_addr(self.dest, w);
        encode_addr(self.src, w);
        w.astr(self.cluster);
        w.i32(count as i32);
    }
}
