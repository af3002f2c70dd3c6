//! One stream connection: its phase, its decoder, and what is on its way on it.

use super::out::Out;
use crate::net::ConnId;
use crate::wire::tcp::StreamDecoder;
use crate::{DropReason, Time};
use alloc::collections::VecDeque;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

/// Limits and waits of the connections of one listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bytes on their way to one peer, above which further frames for it are dropped; frames of up
    /// to [`LinkConfig::SMALL`] bytes pass up to twice as much, so that protocols can still talk
    /// while data is stuck. Default 32 MiB.
    pub max_send_queue: usize,
    /// Larger frames from a peer are an error that closes its connection. Default 64 MiB. Memory
    /// is used for what arrives, never for a length that was merely announced.
    pub max_frame: usize,
    /// How long a peer that connected may take to say who it is (JGroups:
    /// `peer_addr_read_timeout`). Default 1 s.
    pub handshake_timeout: Duration,
    /// How long a connection may take to be made (JGroups: `sock_conn_timeout`). Default 2 s.
    pub connect_timeout: Duration,
    /// Connections that were not used for this long are closed, announced; zero: never (JGroups:
    /// `conn_expire_time`). Default never. Those of FD_SOCK2 stay: their purpose is to be there.
    pub idle_timeout: Duration,
    /// How many peers that did not yet say who they are may be connected. Default 1024; at the
    /// limit newcomers are closed at once.
    pub max_unidentified: usize,
    /// How many peers may be connected or remembered. Default 4096; at the limit newcomers are
    /// closed and nothing is sent to strangers.
    pub max_peers: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            max_send_queue: 32 << 20,
            max_frame: 64 << 20,
            handshake_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            idle_timeout: Duration::ZERO,
            max_unidentified: 1024,
            max_peers: 4096,
        }
    }
}

impl LinkConfig {
    /// What counts as a small frame.
    pub const SMALL: usize = 2048;
    /// Frames that are sent again if the connection turns out to be the wrong one of two, and
    /// frames that wait for a connection to be made, are bounded by this many bytes.
    pub(super) const KEPT: usize = 4 << 20;
    /// As long as an own connection is young, the peer may still reject it.
    pub(super) const YOUNG: Duration = Duration::from_secs(2);
    /// How long a second connection of a peer is watched before it replaces ours.
    pub(super) const RIVALRY: Duration = Duration::from_millis(500);
    /// How long the peer's own connection is waited for after it rejected ours.
    pub(super) const EXPECTING: Duration = Duration::from_millis(250);
    /// The first wait after a failed attempt, doubled by each further one.
    pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(100);
    /// The longest such wait.
    pub(super) const LAST_BACKOFF: Duration = Duration::from_secs(1);
}

/// What happened to the connection with a peer. The peer is named by the address it listens at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// A frame arrived.
    Frame { peer: SocketAddr, bytes: Bytes },
    /// Bytes arrived that are no stream of frames; the connection is closed.
    Garbage { from: Option<SocketAddr>, error: crate::wire::DecodeError },
    /// There is a connection to send on: made by us, or by the peer.
    Up { peer: SocketAddr, accepted: bool },
    /// There is none any more, or none could be made.
    Down { peer: SocketAddr, why: Down },
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// Nobody listens there.
    Refused,
    /// No answer in time, or no route.
    Unreachable,
    /// The peer announced that it closes.
    Graceful,
    /// It ended without announcement, or with garbage.
    Lost,
}

impl Down {
    /// As a fact says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Down::Refused => "refused",
            Down::Unreachable => "unreachable",
            Down::Graceful => "closed by the peer",
            Down::Lost => "lost",
        }
    }
}

/// Who made a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// We did.
    Ours,
    /// The peer did; the number grows with every connection that arrives.
    Theirs(u64),
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Of ours: it is being made.
    Connecting,
    /// Of ours: it stands, but the peer may not have seen the handshake yet, and may reject it in
    /// favour of one of its own.
    Young,
    /// The peer has accepted it, or has made it.
    Established,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) conn: ConnId,
    pub(super) origin: Origin,
    pub(super) phase: Phase,
    /// When it was opened or accepted.
    pub(super) since: Time,
    /// When something was last written or received.
    pub(super) used: Time,
    pub(super) decoder: StreamDecoder,
    /// Bytes handed to the driver and not yet written.
    pub(super) in_flight: usize,
    /// Frames to send again on the peer's connection, should the peer reject this one.
    pub(super) kept: Kept,
}

impl Link {
    /// A connection that the peer has made, identified by its handshake.
    pub(super) fn accepted(conn: ConnId, order: u64, decoder: StreamDecoder, since: Time) -> Self {
        let (origin, phase) = (Origin::Theirs(order), Phase::Established);
        let (used, in_flight, kept) = (since, 0, Kept::default());
        Self { conn, origin, phase, since, used, decoder, in_flight, kept }
    }

    /// A connection that we are making.
    pub(super) fn connecting(conn: ConnId, max_frame: usize, since: Time) -> Self {
        let (origin, phase) = (Origin::Ours, Phase::Connecting);
        let decoder = StreamDecoder::connector(max_frame);
        let (used, in_flight, kept) = (since, 0, Kept::default());
        Self { conn, origin, phase, since, used, decoder, in_flight, kept }
    }

    /// Hands a frame to the driver, if there is room.
    pub(super) fn write(
        &mut self,
        now: Time,
        to: SocketAddr,
        frame: Bytes,
        config: &LinkConfig,
        out: &mut Out,
    ) {
        if !self.has_room(frame.len(), config) {
            return out.unsent(now, Some(to), DropReason::OverLimit);
        }
        self.used = now;
        self.in_flight += frame.len();
        if self.phase != Phase::Established {
            // Full or not: what is beyond is for the reliable protocols to repair.
            let _kept = self.kept.push(frame.clone());
        }
        out.write(self.conn, frame);
    }

    /// Whether a frame of `len` bytes may be handed to the driver.
    fn has_room(&self, len: usize, config: &LinkConfig) -> bool {
        let limit = match self.phase {
            Phase::Connecting => LinkConfig::KEPT.min(config.max_send_queue),
            Phase::Young | Phase::Established => config.max_send_queue,
        };
        let limit = if len <= LinkConfig::SMALL { 2 * limit } else { limit };
        self.in_flight + len <= limit
    }
}

/// Frames that may have to be sent again, up to [`LinkConfig::KEPT`] bytes; what is beyond is for
/// the reliable protocols to repair.
#[derive(Debug, Default)]
pub(super) struct Kept {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl Kept {
    /// Adds a frame; says whether there was room.
    pub(super) fn push(&mut self, frame: Bytes) -> bool {
        let room = self.bytes + frame.len() <= LinkConfig::KEPT;
        if room {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
        room
    }

    /// The frames, in order.
    pub(super) fn into_frames(self) -> impl Iterator<Item = Bytes> {
        self.frames.into_iter()
    }
}
