//! Copies of unreliable messages, as they leave: one for each destination, and never again.

use crate::history::MessageId;
use crate::payload;
use rgroups_core::net::ConnId;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// How a copy leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// In a datagram, to this address or to all.
    Datagram(Option<SocketAddr>),
    /// On a connection of the sender.
    Connection(ConnId),
}

/// Unreliable messages, and which copies of them have left.
#[derive(Debug, Default)]
pub(super) struct UnreliableCopies {
    expected: BTreeSet<MessageId>,
    left: BTreeSet<(MessageId, Way)>,
}

impl UnreliableCopies {
    /// This message is unreliable.
    pub(super) fn expect(&mut self, m: MessageId) {
        self.expected.insert(m);
    }

    /// A packet leaves its sender: which unreliable messages in it have left this way before.
    pub(super) fn leave(&mut self, way: Way, packet: &[u8]) -> Vec<MessageId> {
        if self.expected.is_empty() {
            return Vec::new();
        }
        let unreliable = payload::found_in(packet).filter(|m| self.expected.contains(m));
        unreliable.filter(|m| !self.left.insert((*m, way))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_second_copy_of_an_unreliable_message_the_same_way_is_told() {
        let mut copies = UnreliableCopies::default();
        copies.expect(MessageId(1));
        let mut packet = b"headers".to_vec();
        packet.extend(payload::make(MessageId(0), 20));
        packet.extend(payload::make(MessageId(1), 20));
        let (one, other) = (Way::Datagram(None), Way::Connection(ConnId(1)));
        assert!(copies.leave(one, &packet).is_empty());
        assert!(copies.leave(other, &packet).is_empty());
        assert_eq!(copies.leave(one, &packet), [MessageId(1)]);
    }
}
