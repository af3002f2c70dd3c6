//! The settings of the three protocols.

use super::dialect::Dialect;
use crate::attributes::ByteSize;
use crate::bind_addr::BindAddr;
use core::net::IpAddr;
use core::time::Duration;

crate::attributes! {
    /// Settings of STATE_TRANSFER (`org.jgroups.protocols.pbcast.STATE_TRANSFER`).
    pub struct StateTransferConfig for "STATE_TRANSFER" {
        /// How many bytes of multicasts without flow control may wait for a state; more are dropped.
        /// Those with flow control wait at their senders. Default 16M. Not in JGroups.
        max_held_bytes: ByteSize = ByteSize(16_000_000),
    }
}

crate::attributes! {
    /// Settings of STATE (`org.jgroups.protocols.pbcast.STATE`): a state travels in parts.
    pub struct StateConfig for "STATE" {
        /// The largest part of a state that travels in one message. Default 8192.
        buffer_size: ByteSize = ByteSize(8192),
        /// How many members are served at once; others wait for their turn. Default 5.
        max_pool: u64 = 5,
        /// How many bytes of a state may be on their way to this member, or here and not taken by
        /// the application. It bounds the memory of both sides. A member of JGroups sends as much as
        /// UFC allows it. Default 2M. Not in JGroups.
        window: ByteSize = ByteSize(2_000_000),
        /// When a member that is to give its state says nothing for so long, the next one is asked,
        /// if there is one; otherwise it is waited for. 0: never. Default 20 s. Not in JGroups.
        takeover_after: Duration = Duration::from_secs(20),
        /// As with STATE_TRANSFER: how many bytes of multicasts without flow control may wait for a
        /// state; more are dropped. Default 16M. Not in JGroups.
        max_held_bytes: ByteSize = ByteSize(16_000_000),
    }
}

crate::attributes! {
    /// Settings of STATE_SOCK (`org.jgroups.protocols.pbcast.STATE_SOCK`): a state travels over a
    /// TCP connection of its own, from a socket that the member opens when it is first asked.
    pub struct StateSockConfig for "STATE_SOCK" {
        /// How many bytes are read and written at once; also the size of the sockets' buffers.
        /// Default 8192.
        buffer_size: ByteSize = ByteSize(8192),
        /// How many members are served at once; others wait for their turn. Default 5.
        max_pool: u64 = 5,
        /// The address of the socket. Default: that of the transport.
        bind_addr: Option<BindAddr> = None,
        /// The port of the socket; 0: any that is free. Default 0.
        bind_port: u16 = 0,
        /// The address that others are told instead, behind a NAT. Default: that of the transport,
        /// if it has one.
        external_addr: Option<IpAddr> = None,
        /// The port that others are told instead, if not 0. Default 0.
        external_port: u16 = 0,
        /// The receive buffer of the socket in bytes; 0: what the system gives. Default 0.
        recv_buf_size: ByteSize = ByteSize(0),
        /// As with STATE. Default 20 s. Not in JGroups.
        takeover_after: Duration = Duration::from_secs(20),
        /// As with STATE_TRANSFER. Default 16M. Not in JGroups.
        max_held_bytes: ByteSize = ByteSize(16_000_000),
    }
}

/// What the layer needs to know of them.
#[derive(Clone, Debug)]
pub struct StateSettings {
    pub(super) dialect: Dialect,
    pub(super) max_held_bytes: u64,
    pub(super) part: usize,
    pub(super) max_pool: usize,
    pub(super) window: u64,
    pub(super) takeover_after: Duration,
}

/// The least that can be sent in one message, and at once.
fn at_least_one(n: u64) -> usize {
    usize::try_from(n.max(1)).unwrap_or(usize::MAX)
}

impl From<StateTransferConfig> for StateSettings {
    fn from(c: StateTransferConfig) -> Self {
        Self {
            dialect: Dialect::Whole,
            max_held_bytes: c.max_held_bytes.0,
            part: usize::MAX,
            max_pool: usize::MAX,
            window: 0,
            takeover_after: Duration::ZERO,
        }
    }
}

impl From<StateConfig> for StateSettings {
    fn from(c: StateConfig) -> Self {
        Self {
            dialect: Dialect::Streamed,
            max_held_bytes: c.max_held_bytes.0,
            part: at_least_one(c.buffer_size.0),
            max_pool: at_least_one(c.max_pool),
            window: c.window.0.max(1),
            takeover_after: c.takeover_after,
        }
    }
}

impl From<StateSockConfig> for StateSettings {
    fn from(c: StateSockConfig) -> Self {
        Self {
            dialect: Dialect::Socket,
            max_held_bytes: c.max_held_bytes.0,
            part: at_least_one(c.buffer_size.0),
            max_pool: at_least_one(c.max_pool),
            window: 0,
            takeover_after: c.takeover_after,
        }
    }
}
