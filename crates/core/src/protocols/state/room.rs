//! How a member that reads a state in parts tells the provider how much it may send. The payload is
//! ours and travels between tagged members only, unnumbered, under STATE's own STATE_PART header
//! from the reader to the provider, a way that JGroups never sends it (docs/wire-extensions.md).
//! Whoever does not get one gets the next: they are repeated while nothing comes.

use super::dialect::Dialect;
use crate::wire::header::StreamingKind;
use crate::wire::{Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Reader, Writer};
use crate::{Message, Uuid};

/// The layout, and what follows it.
const VERSION: u8 = 1;

/// What the reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The parts up to this byte, counted from the beginning of the state.
    Upto(u64),
    /// Nothing more.
    Stop,
}

/// A wish, and the attempt that it belongs to: a number of the reader's, which grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomPayload {
    pub(super) attempt: u64,
    pub(super) wish: Wish,
}

impl RoomPayload {
    /// The message that tells `to`.
    pub(super) fn message(&self, to: Uuid) -> Message {
        let body = Body::bytes(self.to_bytes());
        let mut m = Dialect::Streamed.message(to, StreamingKind::Part, None, None, body);
        m.flags |= Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC | Flags::DONT_BUNDLE;
        m
    }

    /// What `m` says, which has STATE's header and no number; `None` if it makes no sense.
    pub(super) fn read(m: &Message) -> Option<Self> {
        Self::from_bytes(m.body.as_bytes()?.clone()).ok()
    }
}

impl Encode for RoomPayload {
    fn encode(&self, w: &mut impl Writer) {
        let (step, upto) = match self.wish {
            Wish::Upto(upto) => (1, upto),
            Wish::Stop => (2, 0),
        };
        w.u8(VERSION);
        w.u8(step);
        w.i64(self.attempt as i64);
        w.i64(upto as i64);
    }
}

impl Decode for RoomPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        if r.u8("version")? != VERSION {
            return Err(r.error("version", DecodeErrorKind::BadValue));
        }
        let step = r.u8("step")?;
        let attempt = r.i64("attempt")? as u64;
        let upto = r.i64("room")? as u64;
        let wish = match step {
            1 => Wish::Upto(upto),
            2 => Wish::Stop,
            _ => return Err(r.error("step", DecodeErrorKind::BadValue)),
        };
        Ok(Self { attempt, wish })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of docs/wire-extensions.md.
    #[test]
    fn the_bytes_are_those_of_the_document() {
        let room = RoomPayload { attempt: 3, wish: Wish::Upto(2_000_000) };
        let bytes = [1, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0x1e, 0x84, 0x80];
        assert_eq!(room.to_bytes()[..], bytes);
        assert_eq!(RoomPayload::from_bytes(bytes.to_vec().into()), Ok(room));
        let stop = RoomPayload { attempt: 3, wish: Wish::Stop };
        let bytes = [1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(stop.to_bytes()[..], bytes);
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let whole = RoomPayload { attempt: 3, wish: Wish::Upto(7) }.to_bytes();
        for n in 0..whole.len() {
            assert!(RoomPayload::from_bytes(whole.slice(..n)).is_err(), "{n} bytes");
        }
        for (at, value) in [(0, 2), (1, 0), (1, 3)] {
            let mut bytes = whole.to_vec();
            bytes[at] = value;
            assert!(RoomPayload::from_bytes(bytes.into()).is_err());
        }
    }
}
