//! What members tell each other for a flush. The payload is ours and travels between tagged members
//! only, unnumbered, under RSVP's own REQ_ONLY header, which nobody else sends with a payload
//! (docs/wire-extensions.md).

use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{
    self, Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, ProtId, Reader, Writer,
};
use crate::{Message, Uuid};
use alloc::vec::Vec;

/// The layout, and what follows it.
const VERSION: u8 = 1;
/// An identity and a number.
const ENTRY: usize = 16 + 8;

/// One step of a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// What have you multicast so far?
    Ask,
    /// This, and of members that cannot be asked I have received this.
    Sent(Vec<(Uuid, i64)>),
    /// Tell me when you have delivered all of this.
    Reach(Vec<(Uuid, i64)>),
    /// I have.
    Reached,
}

/// A step, and the flush that it belongs to, by the number of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlushPayload {
    pub(super) number: u64,
    pub(super) step: Step,
}

impl FlushPayload {
    /// The message that tells `to`.
    pub(super) fn message(&self, to: Uuid) -> wire::Message {
        let header = RsvpHeader { kind: RsvpKind::RequestOnly, id: 0 };
        wire::Message::unicast(to, Body::bytes(self.to_bytes()))
            .with_flags(Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC | Flags::DONT_BUNDLE)
            .with_header(ProtId::RSVP, Header::Rsvp(header))
    }

    /// What `m`, which has RSVP's header, says; `None` if it is a mere REQ_ONLY or makes no sense.
    pub(super) fn read(m: &Message) -> Option<Self> {
        Self::from_bytes(m.body.as_bytes()?.clone()).ok()
    }
}

impl Encode for FlushPayload {
    fn encode(&self, w: &mut impl Writer) {
        let (kind, list): (u8, &[(Uuid, i64)]) = match &self.step {
            Step::Ask => (1, &[]),
            Step::Sent(list) => (2, list),
            Step::Reach(list) => (3, list),
            Step::Reached => (4, &[]),
        };
        w.u8(VERSION);
        w.u8(kind);
        w.i64(self.number as i64);
        // A view has at most 65,535 members.
        let list = &list[..list.len().min(usize::from(u16::MAX))];
        w.u16(list.len() as u16);
        for (member, number) in list {
            member.encode(w);
            w.i64(*number);
        }
    }
}

impl Decode for FlushPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        if r.u8("version")? != VERSION {
            return Err(r.error("version", DecodeErrorKind::BadValue));
        }
        let kind = r.u8("step")?;
        let number = r.i64("flush")? as u64;
        let count = usize::from(r.u16("entries")?);
        if count > r.remaining() / ENTRY {
            return Err(r.error("entries", DecodeErrorKind::BadValue));
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push((Uuid::decode(r)?, r.i64("number")?));
        }
        let step = match kind {
            1 => Step::Ask,
            2 => Step::Sent(list),
            3 => Step::Reach(list),
            4 => Step::Reached,
            _ => return Err(r.error("step", DecodeErrorKind::BadValue)),
        };
        Ok(Self { number, step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of docs/wire-extensions.md.
    #[test]
    fn the_bytes_are_those_of_the_document() {
        let ask = FlushPayload { number: 5, step: Step::Ask };
        assert_eq!(ask.to_bytes()[..], [1, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0]);
        let reach = FlushPayload { number: 5, step: Step::Reach([(Uuid::new(1, 2), 3)].into()) };
        let mut bytes = alloc::vec![1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1];
        // JGroups writes the least significant half first.
        bytes.extend(2u64.to_be_bytes());
        bytes.extend(1u64.to_be_bytes());
        bytes.extend(3u64.to_be_bytes());
        assert_eq!(reach.to_bytes()[..], bytes[..]);
        assert_eq!(FlushPayload::from_bytes(bytes.into()), Ok(reach));
    }

    #[test]
    fn a_count_without_entries_is_refused() {
        let bytes = [1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 255, 255];
        assert!(FlushPayload::from_bytes(bytes.to_vec().into()).is_err());
    }
}
