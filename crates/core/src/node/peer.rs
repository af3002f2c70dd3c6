//! What is known of a peer: its connection, or why there is none.

use super::link::{Kept, Link};
use crate::Time;
use crate::net::ConnId;
use crate::wire::tcp::StreamDecoder;
use core::net::SocketAddr;
use core::time::Duration;

/// A peer that is connected, was, or is to be.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) state: State,
    /// The last wait after a failure; zero after a success.
    pub(super) backoff: Duration,
}

#[derive(Debug)]
pub(super) enum State {
    /// There is a connection, or one is being made. A rival is a younger one of the peer.
    Linked { link: Link, rival: Option<Link> },
    /// The peer rejected our connection, so its own must be about to arrive.
    Expecting { mourned: ConnId, kept: Kept },
    /// An attempt failed; nothing is sent until then.
    Backoff { until: Time },
}

/// A connection whose handshake is not complete.
#[derive(Debug)]
pub(super) struct Unidentified {
    pub(super) decoder: StreamDecoder,
    pub(super) order: u64,
    pub(super) from: SocketAddr,
}

/// What becomes of a connection that a peer has made.
pub(super) enum Verdict {
    /// It is the connection with this peer from now on.
    Adopt,
    /// It is closed, ours or a newer one is kept.
    Reject,
    /// It is kept beside ours for a moment.
    Watch,
}
