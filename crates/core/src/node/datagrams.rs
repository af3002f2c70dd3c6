//! The edge of UDP and of the in-process hub: a packet is a datagram.

use super::frames::{FrameBuffer, Packet};
use super::out::Out;
use super::{Cast, RawOp};
use crate::net::{NetEvent, Route, without_scope};
use crate::wire::{Frame, Message, RowStart, mping};
use crate::{DropReason, Time};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

/// The largest payload of a UDP datagram over IPv4.
pub(super) const MAX_DATAGRAM: usize = 65_507;

/// Packets to datagrams and back.
#[derive(Debug)]
pub(super) struct Datagrams {
    own: SocketAddr,
    max: usize,
    buffer: FrameBuffer,
}

impl Datagrams {
    /// `own`: the address that our datagrams come from. `max`: the largest datagram in bytes.
    pub(super) fn new(own: SocketAddr, max: usize) -> Self {
        Self { own, max, buffer: FrameBuffer::default() }
    }

    /// Sends a frame. One that is larger than a datagram can be is a bug of ours: it is dropped,
    /// counted and traced.
    pub(super) fn send(&mut self, now: Time, packet: Packet<'_>, out: &mut Out) {
        let bytes = self.buffer.datagram(packet);
        if bytes.len() > self.max {
            out.counters.oversized += 1;
            return out.unsent(now, None, DropReason::OverLimit);
        }
        match packet.route() {
            Route::Multicast => out.raw.push_back(RawOp::Datagram { to: Cast::Group, bytes }),
            Route::Peer(to) => out.raw.push_back(RawOp::Datagram { to: Cast::To(*to), bytes }),
            Route::Peers(all) => out.raw.extend(
                all.iter().map(|to| RawOp::Datagram { to: Cast::To(*to), bytes: bytes.clone() }),
            ),
        }
    }

    /// What a datagram means; nothing if it is our own, come back from the network.
    pub(super) fn receive(&self, from: SocketAddr, bytes: Bytes) -> Option<NetEvent> {
        (without_scope(from) != without_scope(self.own)).then(|| decode(bytes, Some(from)))
    }
}

/// A request for MPING's group (WIRE §5.7).
pub(super) fn encode_discovery(request: &Message) -> Bytes {
    let mut bytes = Vec::new();
    mping::encode(request, &mut bytes);
    bytes.into()
}

/// A request from MPING's group, or the fact that the bytes are none.
pub(super) fn decode_discovery(bytes: Bytes) -> NetEvent {
    match mping::decode(bytes) {
        Ok(request) => NetEvent::Discovery(request),
        Err(error) => NetEvent::Undecodable { error, from: None },
    }
}

/// A packet, or the fact that the bytes are none.
pub(super) fn decode(bytes: Bytes, from: Option<SocketAddr>) -> NetEvent {
    if let Some((start, payloads)) = RowStart::decode(&bytes) {
        return NetEvent::Row { start, payloads, from };
    }
    match Frame::decode(bytes) {
        Ok(frame) => NetEvent::Frame { frame, from },
        Err(error) => NetEvent::Undecodable { error, from },
    }
}
