//! Network faults on request, below everything: peers whose packets vanish. Used to show what a
//! partition does (`rgroups up-ctl partition`); with an empty set it costs one comparison.

use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Peers that cannot be reached, by the physical address of their transport.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    peers: BTreeSet<SocketAddr>,
}

/// FD_SOCK2 listens this far above the transport's port, or a little further.
const MONITOR_OFFSETS: std::ops::RangeInclusive<u16> = 100..=103;

impl Faults {
    pub(crate) fn new(peers: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { peers: peers.into_iter().collect() }
    }

    /// Whether datagrams of and to this address are dropped.
    pub(crate) fn blocks(&self, peer: SocketAddr) -> bool {
        !self.peers.is_empty() && self.peers.contains(&peer)
    }

    /// Whether connections to this listener, the transport's or FD_SOCK2's, lead nowhere.
    pub(crate) fn blocks_stream(&self, to: SocketAddr) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        let transport = |offset: u16| {
            let port = to.port().checked_sub(offset)?;
            Some(SocketAddr::new(to.ip(), port))
        };
        self.blocks(to) || MONITOR_OFFSETS.filter_map(transport).any(|at| self.blocks(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_peer_is_unreachable_on_its_monitor_ports_too() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let f = Faults::new([at(7800)]);
        assert!(f.blocks(at(7800)) && !f.blocks(at(7900)));
        assert!(f.blocks_stream(at(7800)) && f.blocks_stream(at(7900)));
        assert!(f.blocks_stream(at(7903)) && !f.blocks_stream(at(7904)));
        assert!(!Faults::default().blocks_stream(at(7800)));
    }
}
