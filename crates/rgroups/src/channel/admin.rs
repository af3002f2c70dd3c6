//! Faults on request, for demonstrations and tests.

use super::Channel;
use crate::inbox::Request;
use std::net::SocketAddr;

/// Cuts this member off from others, below all protocols.
#[derive(Clone, Debug)]
pub struct Admin {
    channel: Channel,
}

impl Admin {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// From now on nothing reaches these physical addresses (those of the transport), and nothing
    /// that comes from them is heard: datagrams vanish, connections fall silent and then break,
    /// calls are not answered. Replaces an earlier set; an empty one heals. For a full partition
    /// both sides must block each other.
    pub fn block(&self, peers: impl IntoIterator<Item = SocketAddr>) {
        let peers = peers.into_iter().collect();
        self.channel.shared().inbox.push(Request::Faults(peers));
    }

    /// Everybody can be reached again.
    pub fn heal(&self) {
        self.block([]);
    }
}
