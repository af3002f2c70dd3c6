//! From a frame of messages to bytes, in a buffer that is used again.

use crate::net::{OutFrame, OutRow, Route};
use crate::wire::tcp::encode_frame_length;
use crate::wire::{Address, FrameWriter};
use bytes::{Bytes, BytesMut};

/// What a packet is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packet<'a> {
    Frame(&'a OutFrame),
    Row(&'a OutRow),
}

impl<'a> Packet<'a> {
    pub(super) fn route(self) -> &'a Route {
        match self {
            Packet::Frame(f) => &f.route,
            Packet::Row(r) => &r.route,
        }
    }

    /// At most so many bytes, generously.
    fn estimate(self) -> usize {
        let payloads: usize = match self {
            Packet::Frame(f) => f.messages.iter().map(|m| PER_MESSAGE + payload_of(m)).sum(),
            Packet::Row(r) => {
                let each = r.start.listed_len(i64::MAX, 0);
                r.payloads.iter().map(|p| each + p.len()).sum()
            }
        };
        LENGTH + PER_MESSAGE + payloads
    }
}

fn payload_of(m: &crate::Message) -> usize {
    m.body.as_bytes().map_or(0, Bytes::len)
}

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
    pub(super) fn datagram(&mut self, packet: Packet<'_>) -> Bytes {
        self.make_room(packet);
        self.encode(packet);
        self.chunk.split().freeze()
    }

    /// The packet for a stream, its length in front.
    pub(super) fn streamed(&mut self, packet: Packet<'_>) -> Bytes {
        self.make_room(packet);
        encode_frame_length(0, &mut self.chunk);
        self.encode(packet);
        let length = (self.chunk.len() - LENGTH) as u32;
        self.chunk[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.chunk.split().freeze()
    }

    fn make_room(&mut self, packet: Packet<'_>) {
        let estimate = packet.estimate();
        if self.chunk.capacity() < estimate {
            self.chunk.reserve(estimate.max(CHUNK));
        }
    }

    fn encode(&mut self, packet: Packet<'_>) {
        let frame = match packet {
            Packet::Frame(frame) => frame,
            Packet::Row(row) => return row.start.encode(&row.payloads, &mut self.chunk),
        };
        let src = Address::Uuid(frame.src);
        let writer = FrameWriter::new(frame.dest.as_ref(), &src, &frame.cluster);
        match frame.messages.as_slice() {
            [one] => writer.encode_single(one, &mut self.chunk),
            many => writer.encode_list(many.iter().map(|m| &m.wire), &mut self.chunk),
        }
    }
}
