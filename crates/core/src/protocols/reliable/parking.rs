//! Small payloads that stay in a window are copied out of the receive buffer they came in: a few
//! bytes would keep all of it alive. Copies share chunks, so that one costs no allocation of its own.

use super::kept::{Kept, Pattern};
use crate::wire::{self, Body, ProtId};
use bytes::{Bytes, BytesMut};

/// Payloads up to this length are copied; larger ones are a fair share of their buffer.
const SMALL: usize = 1024;
/// The size of a chunk of copies.
const CHUNK: usize = 16 * 1024;

/// The chunk that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    chunk: BytesMut,
}

impl Parking {
    /// Makes `m` keepable: its payload owns its memory or is large. The transport's header goes, as
    /// the cluster name in it lies in the receive buffer too; a message that is sent again gets one.
    pub(crate) fn park(&mut self, m: &mut wire::Message) {
        m.headers.remove(ProtId::TP);
        match &mut m.body {
            Body::Bytes(Some(b))
            | Body::Nio { bytes: Some(b), .. }
            | Body::Fragment(b)
            | Body::User(_, b) => self.copy_out(b),
            // These were built when the message was decoded, or hold nothing.
            Body::Bytes(None)
            | Body::Nio { bytes: None, .. }
            | Body::Empty
            | Body::Object(_)
            | Body::Long(_)
            | Body::Composite(_)
            | Body::Batch { .. } => {}
        }
    }

    /// Keeps a copy of message `seqno`, as [`Parking::park`] would leave it.
    pub(super) fn copy(&mut self, seqno: i64, m: &wire::Message, pattern: &mut Pattern) -> Kept {
        let mut kept = pattern.keep_copy(seqno, m);
        match &mut kept {
            Kept::Plain { payload, .. } => self.copy_out(payload),
            Kept::Whole(m) => self.park(m),
        }
        kept
    }

    /// The payloads of a row, as they may be kept: all copies in one piece.
    pub(super) fn row(&mut self, payloads: &[Bytes]) -> impl Iterator<Item = Bytes> {
        let small = |p: &&Bytes| p.len() <= SMALL;
        let all = payloads.iter().filter(small).map(Bytes::len).sum();
        if self.chunk.capacity() < all {
            self.chunk = BytesMut::with_capacity(all.max(CHUNK));
        }
        payloads.iter().filter(small).for_each(|p| self.chunk.extend_from_slice(p));
        let (copies, mut at) = (self.chunk.split().freeze(), 0);
        payloads.iter().map(move |p| {
            if p.len() > SMALL {
                return p.clone();
            }
            at += p.len();
            copies.slice(at - p.len()..at)
        })
    }

    fn copy_out(&mut self, b: &mut Bytes) {
        if b.is_empty() || b.len() > SMALL {
            return;
        }
        if self.chunk.capacity() < b.len() {
            self.chunk = BytesMut::with_capacity(CHUNK);
        }
        self.chunk.extend_from_slice(b);
        *b = self.chunk.split().freeze();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_payload_leaves_its_buffer_and_a_large_one_stays() {
        let buffer = Bytes::from(alloc::vec![7u8; 4096]);
        let mut parking = Parking::default();
        let mut small = wire::Message::multicast(Body::bytes(buffer.slice(0..10)));
        let mut large = wire::Message::multicast(Body::bytes(buffer.slice(0..2000)));
        parking.park(&mut small);
        parking.park(&mut large);
        let at = |m: &wire::Message| m.body.as_bytes().map(|b| b.as_ptr());
        assert_ne!(at(&small), Some(buffer.as_ptr()));
        assert_eq!(at(&large), Some(buffer.as_ptr()));
        assert_eq!(small.body.as_bytes(), Some(&buffer.slice(0..10)));
    }
}
