//! From a frame of messages to bytes, in a buffer that is used again.

use crate::net::OutFrame;
use crate::wire::tcp::encode_frame_length;
use crate::wire::{Address, FrameWriter};
use bytes::{Bytes, BytesMut};

/// Encodes packets. Each is a slice of a large chunk; a chunk is used again, without allocation,
/// once nobody holds a packet of it.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    chunk: BytesMut,
}

/// How large a chunk is.
const CHUNK: usize = 256 << 10;
/// Room for the addresses, flags and headers of a message, generously.
const PER_MESSAGE: usize = 256;
/// Bytes of the length in front of a packet on a stream.
const LENGTH: usize = 4;

impl FrameBuffer {
    /// The packet of a datagram.
    pub(super) fn datagram(&mut self, frame: &OutFrame) -> Bytes {
        self.make_room(frame);
        self.encode(frame);
        self.chunk.split().freeze()
    }

    /// The packet for a stream, its length in front.
    pub(super) fn streamed(&mut self, frame: &OutFrame) -> Bytes {
        self.make_room(frame);
        encode_frame_length(0, &mut self.chunk);
        self.encode(frame);
        let length = (self.chunk.len() - LENGTH) as u32;
        self.chunk[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.chunk.split().freeze()
    }

    fn make_room(&mut self, frame: &OutFrame) {
        let payload = |m: &crate::Message| m.body.as_bytes().map_or(0, Bytes::len);
        let estimate = LENGTH
            + PER_MESSAGE
            + frame.messages.iter().map(|m| PER_MESSAGE + payload(m)).sum::<usize>();
        if self.chunk.capacity() < estimate {
            self.chunk.reserve(estimate.max(CHUNK));
        }
    }

    fn encode(&mut self, frame: &OutFrame) {
        let src = Address::Uuid(frame.src);
        let writer = FrameWriter::new(frame.dest.as_ref(), &src, &frame.cluster);
        match frame.messages.as_slice() {
            [one] => writer.encode_single(one, &mut self.chunk),
            many => writer.encode_list(many.iter().map(|m| &m.wire), &mut self.chunk),
        }
    }
}
