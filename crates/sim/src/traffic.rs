//! What leaves the nodes of a cluster: messages and bytes by kind. A multicast datagram counts once,
//! however many receive it: that is what its sender spends.

use crate::census::label;
use bytes::Bytes;
use rgroups_core::wire::Frame;
use std::collections::BTreeMap;

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Messages.
    pub messages: u64,
    /// Bytes of their packets; a packet belongs to its messages in equal parts.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    kinds: BTreeMap<String, Amount>,
}

impl Traffic {
    /// A packet leaves.
    pub(crate) fn packet(&mut self, packet: &Bytes) {
        let length = packet.len() as u64;
        let Ok(frame) = Frame::decode(packet.clone()) else { return };
        let messages = frame.messages();
        let part = length / (messages.len() as u64).max(1);
        for m in messages {
            self.kinds.entry(label(m)).or_default().add(Amount { messages: 1, bytes: part });
        }
    }

    /// Of each kind, as `GMS VIEW`.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.kinds.iter().map(|(kind, a)| (kind.as_str(), *a))
    }

    /// Everything together.
    #[must_use]
    pub fn total(&self) -> Amount {
        let mut total = Amount::default();
        self.kinds.values().for_each(|a| total.add(*a));
        total
    }
}
