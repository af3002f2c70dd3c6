//! The lower boundary of a stack: frames of messages and connections of the failure detector. What
//! they are as bytes is the business of the edge ([`crate::node`]).

use crate::wire::{self, header::FdSock2Header};
use crate::{Message, Uuid};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

/// An address as peers are compared: the scope of an IPv6 address is only locally meaningful.
#[must_use]
pub fn without_scope(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip(), at.port())
}

/// Names a stream connection of one node, for its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// What a stack wants done on the network.
#[derive(Debug)]
pub enum NetOp {
    /// Send messages in one packet.
    Frame(OutFrame),
    /// The same of two or more that are a row.
    Row(OutRow),
    /// FD_SOCK2: connect.
    MonitorConnect {
        /// The connection's name from now on.
        conn: ConnId,
        /// Where to.
        to: SocketAddr,
    },
    /// FD_SOCK2: send a header on a connection.
    MonitorSend {
        /// The connection.
        conn: ConnId,
        /// What to say.
        header: FdSock2Header,
    },
    /// FD_SOCK2: close a connection, announced by the graceful-close marker.
    MonitorClose {
        /// The connection.
        conn: ConnId,
    },
    /// Connections to addresses outside this list are no longer needed (after a view change).
    RetainPeers(Vec<SocketAddr>),
    /// The member has left: send what is queued, then close everything gracefully.
    Shutdown,
    /// MPING: multicast this request on discovery's own group.
    Discovery(wire::Message),
}

/// A packet to send.
#[derive(Debug)]
pub struct OutFrame {
    /// Where it goes.
    pub route: Route,
    /// Destination written in the packet; `None`: the group.
    pub dest: Option<wire::Address>,
    /// Source of all messages that name none.
    pub src: Uuid,
    /// Cluster name.
    pub cluster: Bytes,
    /// The messages. The first may be alone: then the packet is not a list.
    pub messages: Vec<Message>,
}

/// A packet with a row of multicasts to send.
#[derive(Debug)]
pub struct OutRow {
    /// Where it goes.
    pub route: Route,
    /// What all messages of it have in common.
    pub start: wire::RowStart,
    /// What they carry.
    pub payloads: Vec<Bytes>,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the group's multicast address.
    Multicast,
    /// To one peer.
    Peer(SocketAddr),
    /// A copy to each of these.
    Peers(Vec<SocketAddr>),
}

/// What the network did.
#[derive(Debug)]
pub enum NetEvent {
    /// A packet arrived.
    Frame {
        /// The packet, decoded.
        frame: wire::Frame,
        /// From which address, where the transport knows it.
        from: Option<SocketAddr>,
    },
    /// A packet arrived that is a row of multicasts.
    Row {
        /// What they have in common.
        start: wire::RowStart,
        /// What they carry.
        payloads: Vec<Bytes>,
        /// From which address, where the transport knows it.
        from: Option<SocketAddr>,
    },
    /// Bytes arrived that are no packet.
    Undecodable {
        /// What is wrong with them.
        error: wire::DecodeError,
        /// From where.
        from: Option<SocketAddr>,
    },
    /// Nobody listens at this address: it refused a connection. `None`: no other member is on the
    /// hub that joins the members of one process.
    NobodyAt(Option<SocketAddr>),
    /// MPING: a request came on discovery's own group.
    Discovery(wire::Message),
    /// FD_SOCK2: somebody connected to us.
    MonitorAccepted {
        /// The new connection.
        conn: ConnId,
    },
    /// FD_SOCK2: our connection stands.
    MonitorConnected {
        /// The connection.
        conn: ConnId,
    },
    /// FD_SOCK2: our connection could not be made.
    MonitorFailed {
        /// The connection.
        conn: ConnId,
        /// Nobody listens there (refused), as opposed to no answer.
        refused: bool,
    },
    /// FD_SOCK2: a header arrived.
    MonitorFrame {
        /// The connection.
        conn: ConnId,
        /// Who sent it.
        src: Uuid,
        /// What it says.
        header: FdSock2Header,
    },
    /// FD_SOCK2: the connection is gone.
    MonitorClosed {
        /// The connection.
        conn: ConnId,
        /// The peer announced it.
        graceful: bool,
    },
}
