//! How messages travel (WIRE §6). The type id stands before the message and is written by what
//! contains it, or, on MPING's and FD_SOCK2's channels, not at all.
//!
//! | bytes | field |
//! |-------|-------|
//! | 1 | bit 0: destination present, bit 1: source present |
//! | 2 | flags |
//! | addr | destination, if present |
//! | addr | source, if present |
//! | 2 | number of headers; each i16 protocol id, i16 magic id, body |
//! | … | payload by type, see [`Body`] |
//!
//! Matches `BaseMessage.writeTo` and `writeToNoAddrs`, and `writePayload` of each message class.

use crate::address_codec::{decode_addr, encode_addr};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{
    Address, Body, Decode, Decoded, Encode, Flags, Header, Headers, Message, Object, ProtId,
    Reader, Writer,
};
use alloc::boxed::Box;
use alloc::vec::Vec;

const DEST: u8 = 1;
const SRC: u8 = 2;

/// More headers than any stack has protocols; a count above it is an attack on our time.
const MAX_HEADERS: i16 = 64;

/// The smallest message in a list: type id, leading byte, flags, number of headers.
pub(crate) const MIN_LISTED: usize = 7;

/// What a message in a list likely has at least, with the headers of a reliable protocol and of the
/// transport.
const LIKELY_LISTED: usize = 48;

/// The first type id that belongs to users.
const FIRST_USER_TYPE: i16 = 32;

/// Which addresses of a message are written.
#[derive(Clone, Copy)]
enum Addresses<'a> {
    /// Both, where present.
    Own,
    /// In a list: never the destination, and the source only if it differs from the list's.
    Listed { src: Option<&'a Address> },
}

/// Where a message stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is the last thing in the reader: a payload of unknown form may take the rest.
    Alone,
    /// Others may follow, and the addresses are those of the list.
    Listed,
}

/// What a container presets and promises for the messages in it.
#[derive(Clone, Copy)]
struct Container<'a> {
    dest: Option<&'a Address>,
    src: Option<&'a Address>,
    place: Place,
}

/// The message with its type id in front: what a packet with a single message, a fragment, a
/// compressed or a forwarded message holds.
impl Encode for Message {
    fn encode(&self, w: &mut impl Writer) {
        w.i16(self.body.type_id());
        self.encode_untyped(w);
    }
}

/// Reads a type id and the message; types of users (from 32 on) take all that is left in `r`.
impl Decode for Message {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let type_id = r.i16("message type")?;
        Message::decode_untyped(type_id, r)
    }
}

impl Message {
    /// Writes the message without its type id.
    pub fn encode_untyped(&self, w: &mut impl Writer) {
        self.encode_with(Addresses::Own, w);
    }

    /// Reads a message of type `type_id`; types of users take all that is left in `r`.
    pub fn decode_untyped(type_id: i16, r: &mut Reader) -> Decoded<Self> {
        Self::decode_in(type_id, Container { dest: None, src: None, place: Place::Alone }, r)
    }

    /// Writes the message as an element of a list from `src`, with its type id.
    pub fn encode_listed(&self, src: Option<&Address>, w: &mut impl Writer) {
        w.i16(self.body.type_id());
        self.encode_with(Addresses::Listed { src }, w);
    }

    /// Reads an element of a list to `dest` from `src`.
    pub fn decode_listed(
        dest: Option<&Address>,
        src: Option<&Address>,
        r: &mut Reader,
    ) -> Decoded<Self> {
        let type_id = r.i16("message type")?;
        Self::decode_in(type_id, Container { dest, src, place: Place::Listed }, r)
    }

    /// How many bytes [`encode_listed`](Self::encode_listed) writes: a bundler adds these up to
    /// stay below its `max_size`.
    #[must_use]
    pub fn listed_len(&self, src: Option<&Address>) -> usize {
        let mut n = crate::Counter::default();
        self.encode_listed(src, &mut n);
        n.0
    }

    /// The length of the payload as flow control and fragmentation count it (WIRE §6.4,
    /// `Message.getLength`): bytes for byte payloads, 0 for an empty message, the computed size for
    /// objects, the sum for messages that contain messages.
    #[must_use]
    pub fn length(&self) -> usize {
        self.body.length()
    }

    fn encode_with(&self, addresses: Addresses<'_>, w: &mut impl Writer) {
        let (dest, src) = match addresses {
            Addresses::Own => (self.dest.as_ref(), self.src.as_ref()),
            Addresses::Listed { src } => (None, self.src.as_ref().filter(|s| Some(*s) != src)),
        };
        let flag = |present, flag| if present { flag } else { 0 };
        w.u8(flag(dest.is_some(), DEST) | flag(src.is_some(), SRC));
        w.u16(self.flags.bits());
        for a in [dest, src].into_iter().flatten() {
            a.encode(w);
        }
        self.headers.encode(w);
        self.body.encode_payload(self.src.as_ref(), w);
    }

    fn decode_in(type_id: i16, container: Container<'_>, r: &mut Reader) -> Decoded<Self> {
        let leading = r.u8("leading byte")?;
        let flags = Flags::from_bits_retain(r.u16("message flags")?);
        let own_dest = if leading & DEST != 0 { decode_addr(r)? } else { None };
        let own_src = if leading & SRC != 0 { decode_addr(r)? } else { None };
        // No writer names a destination within a list. If one is there, that of the list wins, so
        // that a message cannot claim another destination than its packet.
        let dest = match container.place {
            Place::Alone => own_dest,
            Place::Listed => preset(container.dest, r)?,
        };
        let src = match own_src {
            Some(src) => Some(src),
            None => preset(container.src, r)?,
        };
        let headers = Headers::decode(r)?;
        let own = Container { dest: dest.as_ref(), src: src.as_ref(), ..container };
        let body = Body::decode_payload(type_id, own, r)?;
        Ok(Message { dest, src, flags, headers, body, ..Message::default() })
    }
}

/// A copy of the address that a container presets.
fn preset(address: Option<&Address>, r: &mut Reader) -> Decoded<Option<Address>> {
    if let Some(address) = address {
        r.charge(address.clone_cost(), "address")?;
    }
    Ok(address.cloned())
}

/// | bytes | field |
/// |-------|-------|
/// | 2 | number of headers |
/// | each | i16 protocol id, i16 magic id, body |
impl Encode for Headers {
    fn encode(&self, w: &mut impl Writer) {
        w.i16(self.len() as i16);
        for (prot, header) in self.iter() {
            w.i16(prot.0);
            header.encode(prot, w);
        }
    }
}

impl Decode for Headers {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "number of headers";
        let n = r.i16(WHAT)?;
        if !(0..=MAX_HEADERS).contains(&n) {
            return Err(r.error(WHAT, DecodeErrorKind::TooLong(n as u64)));
        }
        let mut headers = Headers::default();
        for _ in 0..n {
            let prot = ProtId(r.i16("protocol id")?);
            let magic = r.i16("header class")?;
            let header = Header::decode(prot, magic, r)?;
            // Java would keep both and only ever find the first.
            if headers.get(prot).is_none() {
                headers.put(prot, header);
            }
        }
        Ok(headers)
    }
}

impl Body {
    /// The length of the payload as flow control counts it; see [`Message::length`].
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Body::Empty => 0,
            Body::Bytes(b) | Body::Nio { bytes: b, .. } => b.as_ref().map_or(0, |b| b.len()),
            Body::Object(o) => Object::java_size(o.as_deref()),
            Body::Long(v) => {
                let mut n = crate::Counter::default();
                n.clong(*v);
                n.0
            }
            Body::Composite(messages) | Body::Batch { messages, .. } => {
                messages.iter().map(Message::length).sum()
            }
            Body::Fragment(b) | Body::User(_, b) => b.len(),
        }
    }

    /// Writes the payload of a message from `src`.
    ///
    /// | type | payload |
    /// |------|---------|
    /// | 0 Bytes | i32 length (−1 is null), bytes |
    /// | 1 Nio | 1 byte direct, then as 0 |
    /// | 2 Empty | nothing |
    /// | 3 Object | gen |
    /// | 4 Long | clong |
    /// | 5 Composite | i32 count; each i16 type id, message without what equals the outer one's |
    /// | 6 Fragment | i32 length, bytes |
    /// | 7 Batch | i32 count, addr sender; each as in 5 with that sender |
    /// | ≥ 32 | of the user |
    fn encode_payload(&self, src: Option<&Address>, w: &mut impl Writer) {
        match self {
            Body::Empty => {}
            Body::Bytes(b) => w.counted(b.as_ref()),
            Body::Nio { direct, bytes } => {
                w.bool(*direct);
                w.counted(bytes.as_ref());
            }
            Body::Object(o) => Object::encode_gen(o.as_deref(), w),
            Body::Long(v) => w.clong(*v),
            Body::Composite(messages) => {
                w.i32(messages.len() as i32);
                for m in messages {
                    m.encode_listed(src, w);
                }
            }
            Body::Fragment(b) => w.counted(Some(b)),
            Body::Batch { sender, messages } => {
                w.i32(messages.len() as i32);
                encode_addr(sender.as_ref(), w);
                for m in messages {
                    m.encode_listed(sender.as_ref(), w);
                }
            }
            Body::User(_, b) => w.put_shared(b),
        }
    }

    /// Reads the payload of a message whose own addresses are those in `message`.
    fn decode_payload(type_id: i16, message: Container<'_>, r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "payload";
        Ok(match type_id {
            0 => Body::Bytes(r.counted(WHAT)?),
            1 => Body::Nio { direct: r.bool(WHAT)?, bytes: r.counted(WHAT)? },
            2 => Body::Empty,
            3 => Body::Object(Object::decode_gen(r)?.map(Box::new)),
            4 => Body::Long(r.clong(WHAT)?),
            5 => {
                let n = r.i32(WHAT)?;
                Body::Composite(decode_messages(n, message.dest, message.src, r)?)
            }
            6 => match r.counted(WHAT)? {
                Some(b) => Body::Fragment(b),
                None => return Err(r.error(WHAT, DecodeErrorKind::BadValue)),
            },
            7 => {
                let n = r.i32(WHAT)?;
                let sender = decode_addr(r)?;
                let messages = decode_messages(n, message.dest, sender.as_ref(), r)?;
                Body::Batch { sender, messages }
            }
            FIRST_USER_TYPE.. if message.place == Place::Alone => Body::User(type_id, r.rest()),
            n => {
                return Err(r.error("message type", DecodeErrorKind::BadTag(u32::from(n as u16))));
            }
        })
    }
}

/// Reads `n` messages of a list, a composite or a batch.
pub(crate) fn decode_messages(
    n: i32,
    dest: Option<&Address>,
    src: Option<&Address>,
    r: &mut Reader,
) -> Decoded<Vec<Message>> {
    r.nested("message list", |r| {
        let n = r.count(i64::from(n), MIN_LISTED, "message list")?;
        r.claim_messages(n, "message list")?;
        // The count is a peer's claim until the messages were read: room for as many as the bytes
        // may well hold, not for as many as they could.
        let mut messages = Vec::with_capacity(n.min(8 + r.remaining() / LIKELY_LISTED));
        for _ in 0..n {
            messages.push(Message::decode_listed(dest, src, r)?);
        }
        Ok(messages)
    })
}
