//! Bytes in and out: what a driver must be able to do.

use crate::net::ConnId;
use bytes::Bytes;
use core::net::SocketAddr;

/// How members reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// Datagrams, with IP multicast.
    Udp,
    /// Streams, one per pair of members.
    Tcp,
    /// A hub inside one process; behaves as datagrams with multicast.
    InProcess,
}

/// The two listening sockets of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// The transport's (TCP only).
    Transport,
    /// FD_SOCK2's.
    Monitor,
}

/// Where the driver has bound a node, before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The unicast socket (UDP), the listener (TCP), or the hub address: the member's physical
    /// address.
    pub transport: SocketAddr,
    /// FD_SOCK2's listener, if the stack has that protocol.
    pub monitor: Option<SocketAddr>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// To the group's multicast address.
    Group,
    /// To the multicast address of discovery (MPING), from a socket of its own.
    Discovery,
    /// To one address.
    To(SocketAddr),
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// After what is queued was written.
    Orderly,
    /// The peer has announced its end. What is queued is dropped, what arrives is not reported, and
    /// our end follows the peer's: JGroups logs an error when a connection ends, or is reset,
    /// between its announcement and its own end.
    AfterPeer,
    /// At once; what is queued is dropped.
    Abort,
}

/// What a node wants its driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawOp {
    /// Send a datagram; it may be lost.
    Datagram {
        /// Where to.
        to: Cast,
        /// The packet.
        bytes: Bytes,
    },
    /// Open a connection from an own ephemeral port; answered by [`RawEvent::Connected`] or
    /// [`RawEvent::ConnectFailed`]. The driver never blocks on it.
    Connect {
        /// Its name from now on (below [`RawOp::ACCEPTED`]).
        conn: ConnId,
        /// On behalf of which socket.
        port: Port,
        /// Where to.
        to: SocketAddr,
    },
    /// Write to a connection. Queued by the driver per connection, so that a stuck one delays no
    /// other; bytes written before `Connected` wait. The driver reports progress with
    /// [`RawEvent::Written`].
    Write {
        /// The connection.
        conn: ConnId,
        /// What to write; shared among all peers of a multicast.
        bytes: Bytes,
    },
    /// Close a connection.
    Close {
        /// The connection.
        conn: ConnId,
        /// When and how.
        how: Closing,
    },
    /// The node is done: write out what is queued within a moment, then close everything.
    Finished,
}

impl RawOp {
    /// Connections that the driver accepts are numbered from here up, those that the node opens
    /// below, so neither needs to ask the other.
    pub const ACCEPTED: u64 = 1 << 63;
}

/// What happened on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawEvent {
    /// A datagram arrived.
    Datagram {
        /// The sender's socket.
        from: SocketAddr,
        /// The packet.
        bytes: Bytes,
    },
    /// A datagram arrived on the multicast address of discovery (MPING).
    Discovery {
        /// The packet.
        bytes: Bytes,
    },
    /// The last datagram to the group found nobody: no other member is on this hub.
    NobodyThere,
    /// Somebody connected.
    Accepted {
        /// The connection's name (at least [`RawOp::ACCEPTED`]).
        conn: ConnId,
        /// To which listener.
        port: Port,
        /// The peer's (ephemeral) address.
        from: SocketAddr,
    },
    /// A connection of ours stands.
    Connected {
        /// Which.
        conn: ConnId,
    },
    /// A connection of ours could not be made.
    ConnectFailed {
        /// Which.
        conn: ConnId,
        /// Nobody listens there, as opposed to no answer in time or no route.
        refused: bool,
    },
    /// Bytes arrived on a connection.
    Received {
        /// Which.
        conn: ConnId,
        /// The bytes.
        bytes: Bytes,
    },
    /// So many bytes of earlier `Write`s left for the kernel.
    Written {
        /// Which.
        conn: ConnId,
        /// How many.
        bytes: usize,
    },
    /// A connection is gone: end of stream, reset, or an error.
    Closed {
        /// Which.
        conn: ConnId,
        /// A reset or an error, as opposed to an orderly end of stream.
        reset: bool,
    },
}
