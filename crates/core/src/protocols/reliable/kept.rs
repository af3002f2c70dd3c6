//! Messages in a window, in little memory. Nearly all multicasts of a sender differ in payload, flags and
//! number alone; of those nothing else is stored, and they are put together again when they are needed.
//! Thousands of messages wait for stability in every window, so that their size is what the windows
//! cost in memory, in caches, and in time.

use crate::wire::{self, Address, Body, Flags, Header, Hints, ProtId, header::NakAckHeader};
use alloc::boxed::Box;
use bytes::Bytes;

/// A message of a window.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// It is as the others are ([`Pattern`]).
    Plain { flags: Flags, hints: Hints, payload: Bytes },
    /// It is not.
    Whole(Box<wire::Message>),
}

impl Kept {
    /// A message with this payload, without flags and hints, of a window whose [`Pattern`] it fits.
    pub(super) fn bare(payload: Bytes) -> Self {
        Kept::Plain { flags: Flags::default(), hints: Hints::default(), payload }
    }

    /// The same where it does not fit.
    pub(super) fn whole(src: Option<Address>, id: ProtId, seqno: i64, payload: Bytes) -> Self {
        let m = wire::Message { src, ..wire::Message::multicast(Body::bytes(payload)) };
        let m = m.with_header(id, Header::NakAck(NakAckHeader::Msg(seqno)));
        Kept::Whole(Box::new(m))
    }

    /// Payload bytes, as flow control counts them.
    pub(super) fn length(&self) -> usize {
        match self {
            Kept::Plain { payload, .. } => payload.len(),
            Kept::Whole(m) => m.length(),
        }
    }

    /// Its flags.
    pub(super) fn flags(&self) -> Flags {
        match self {
            Kept::Plain { flags, .. } => *flags,
            Kept::Whole(m) => m.flags,
        }
    }
}

/// What the plain messages of a window have in common: that of the first one.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern(Option<Common>);

#[derive(Clone, Debug, PartialEq)]
struct Common {
    src: Option<Address>,
    id: ProtId,
}

impl Pattern {
    /// Keeps message `seqno`.
    pub(super) fn keep(&mut self, seqno: i64, m: wire::Message) -> Kept {
        if !self.fits(seqno, &m) {
            return Kept::Whole(Box::new(m));
        }
        let Body::Bytes(Some(payload)) = m.body else { return Kept::Whole(Box::new(m)) };
        Kept::Plain { flags: m.flags, hints: m.hints, payload }
    }

    /// Keeps a copy of message `seqno`.
    pub(super) fn keep_copy(&mut self, seqno: i64, m: &wire::Message) -> Kept {
        match &m.body {
            Body::Bytes(Some(payload)) if self.fits(seqno, m) => {
                Kept::Plain { flags: m.flags, hints: m.hints, payload: payload.clone() }
            }
            _ => Kept::Whole(Box::new(m.clone())),
        }
    }

    /// The message `seqno` that was kept so.
    pub(super) fn restore(&self, seqno: i64, kept: Kept) -> wire::Message {
        match (kept, &self.0) {
            (Kept::Whole(m), _) => *m,
            (Kept::Plain { flags, hints, payload }, Some(common)) => {
                let m = wire::Message {
                    src: common.src.clone(),
                    flags,
                    hints,
                    body: Body::Bytes(Some(payload)),
                    ..wire::Message::default()
                };
                m.with_header(common.id, Header::NakAck(NakAckHeader::Msg(seqno)))
            }
            (Kept::Plain { .. }, None) => unreachable!("a plain message follows a pattern"),
        }
    }

    /// A copy of the message `seqno` that is kept so.
    pub(super) fn copy(&self, seqno: i64, kept: &Kept) -> wire::Message {
        let copy = match kept {
            Kept::Whole(m) => return wire::Message::clone(m),
            Kept::Plain { flags, hints, payload } => {
                Kept::Plain { flags: *flags, hints: *hints, payload: payload.clone() }
            }
        };
        self.restore(seqno, copy)
    }

    fn fits(&mut self, seqno: i64, m: &wire::Message) -> bool {
        let Some(id) = number_alone(seqno, m) else { return false };
        self.takes(m.src.as_ref(), id)
    }

    /// Whether plain messages are of this source and numbered by this protocol.
    pub(super) fn takes(&mut self, src: Option<&Address>, id: ProtId) -> bool {
        match &self.0 {
            Some(common) => common.id == id && common.src.as_ref() == src,
            None => {
                self.0 = Some(Common { src: src.cloned(), id });
                true
            }
        }
    }
}

/// Whose header a multicast of bytes carries, if it says its number and no other is there.
fn number_alone(seqno: i64, m: &wire::Message) -> Option<ProtId> {
    let plain = m.dest.is_none() && matches!(m.body, Body::Bytes(Some(_)));
    let (id, header) = m.headers.iter().next().filter(|_| plain && m.headers.len() == 1)?;
    match header {
        Header::NakAck(NakAckHeader::Msg(n)) if *n == seqno => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;

    fn numbered(seqno: i64) -> wire::Message {
        let header = Header::NakAck(NakAckHeader::Msg(seqno));
        let m = wire::Message::multicast(Body::bytes(&b"payload"[..]));
        wire::Message { src: Some(id(1).into()), ..m.with_header(ProtId::NAKACK2, header) }
    }

    #[test]
    fn every_message_comes_back_as_it_was_and_only_plain_ones_are_taken_apart() {
        let other_source = wire::Message { src: Some(id(2).into()), ..numbered(7) };
        let to_one = wire::Message { dest: Some(id(2).into()), ..numbered(7) };
        let empty = wire::Message { body: Body::Empty, ..numbered(7) };
        let null = wire::Message { body: Body::Bytes(None), ..numbered(7) };
        let rsvp = numbered(7).with_header(ProtId::RSVP, Header::Heartbeat);
        let other_id = wire::Message { headers: wire::Headers::default(), ..numbered(7) }
            .with_header(ProtId::NAKACK4, Header::NakAck(NakAckHeader::Msg(7)));
        let hinted = wire::Message { hints: Hints::DONT_LOOPBACK, ..numbered(7) };
        let cases = [
            (numbered(7), true),
            (numbered(7).with_flags(Flags::OOB), true),
            (hinted, true),
            (numbered(8), false),
            (other_source, false),
            (to_one, false),
            (empty, false),
            (null, false),
            (rsvp, false),
            (other_id, false),
        ];
        let mut pattern = Pattern::default();
        for (m, plain) in cases {
            let copy = pattern.keep_copy(7, &m);
            assert_eq!(matches!(copy, Kept::Plain { .. }), plain, "{m:?}");
            assert_eq!(copy.length(), m.length());
            assert_eq!(pattern.copy(7, &copy), m);
            let moved = pattern.keep(7, m.clone());
            assert_eq!(matches!(moved, Kept::Plain { .. }), plain, "{m:?}");
            assert_eq!(pattern.restore(7, moved), m);
        }
    }

    #[test]
    fn a_kept_message_is_small() {
        assert!(size_of::<Kept>() <= 40, "{}", size_of::<Kept>());
    }
}
