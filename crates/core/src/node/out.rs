//! What the edge produces: operations for the driver, facts, counters.

use crate::net::ConnId;
use crate::node::{Closing, RawOp};
use crate::{DropReason, Time, Trace};
use alloc::collections::VecDeque;
use bytes::Bytes;
use core::net::SocketAddr;

/// Collects what the edge wants to say and counts what it had to drop.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) raw: VecDeque<RawOp>,
    pub(super) traces: VecDeque<(Time, Trace)>,
    pub(super) tracing: bool,
    pub(super) counters: Counters,
}

/// How often the edge did something worth counting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Frames that were not handed to the driver: no connection, or too much on its way.
    pub(super) unsent: u64,
    /// Packets larger than a datagram can be: a bug of the layers above.
    pub(super) oversized: u64,
    /// Connections that were closed because another one with the same peer was preferred.
    pub(super) rejected: u64,
    /// Connections on which something came that is no stream of frames.
    pub(super) garbage: u64,
    /// Connections whose peer did not say in time who it is, or that found no room.
    pub(super) unidentified: u64,
    /// Connections that took the place of none or of another one with the same peer.
    pub(super) made: u64,
    /// Attempts to connect that failed.
    pub(super) failed: u64,
}

impl Out {
    /// States a fact, built only if somebody wants facts.
    pub(super) fn trace(&mut self, now: Time, fact: impl FnOnce() -> Trace) {
        if self.tracing {
            self.traces.push_back((now, fact()));
        }
    }

    /// States what became of the connection with a peer.
    pub(super) fn link(&mut self, now: Time, peer: SocketAddr, what: &'static str) {
        self.trace(now, || Trace::Link { peer, what });
    }

    /// Counts a frame that is not sent.
    pub(super) fn unsent(&mut self, now: Time, to: Option<SocketAddr>, why: DropReason) {
        self.counters.unsent += 1;
        self.trace(now, || Trace::Unsent { to, why });
    }

    pub(super) fn write(&mut self, conn: ConnId, bytes: Bytes) {
        self.raw.push_back(RawOp::Write { conn, bytes });
    }

    pub(super) fn abort(&mut self, conn: ConnId) {
        self.raw.push_back(RawOp::Close { conn, how: Closing::Abort });
    }

    /// The peer has said goodbye: its end is waited for.
    pub(super) fn close_after_peer(&mut self, conn: ConnId) {
        self.raw.push_back(RawOp::Close { conn, how: Closing::AfterPeer });
    }

    /// Says goodbye, then closes once that is written.
    pub(super) fn close_gracefully(&mut self, conn: ConnId) {
        self.write(conn, Bytes::from_static(&[0xff, 0xff, 0xff, 0xfb]));
        self.raw.push_back(RawOp::Close { conn, how: Closing::Orderly });
    }

    /// Reports the counters by name.
    pub(super) fn inspect(&self, out: &mut dyn FnMut(&'static str, &str, u64)) {
        let c = &self.counters;
        for (name, value) in [
            ("frames_unsent", c.unsent),
            ("frames_oversized", c.oversized),
            ("connections_rejected", c.rejected),
            ("connections_garbage", c.garbage),
            ("connections_unidentified", c.unidentified),
            ("connections_failed", c.failed),
            ("connections_made", c.made),
        ] {
            out("EDGE", name, value);
        }
    }
}
