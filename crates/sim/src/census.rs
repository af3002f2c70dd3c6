//! Counts of what travels between hosts, by protocol and kind: what an idle group costs.

use crate::headers::kind_of;
use rgroups_core::wire::{Frame, Message, ProtId};
use std::collections::BTreeMap;

/// How many messages of each kind went from one host to another. A multicast counts once for each
/// receiver other than its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    counts: BTreeMap<String, u64>,
}

impl Census {
    /// Counts the messages of a packet. What is no packet counts as `undecodable`.
    pub(crate) fn packet(&mut self, packet: &bytes::Bytes) {
        match Frame::decode(packet.clone()) {
            Ok(frame) => frame.messages().iter().for_each(|m| self.add(label(m))),
            Err(_) => self.add("undecodable".into()),
        }
    }

    fn add(&mut self, label: String) {
        *self.counts.entry(label).or_default() += 1;
    }

    /// Each kind, as `GMS VIEW`, and how often it was sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(label, n)| (label.as_str(), *n))
    }

    /// How often this kind was sent.
    #[must_use]
    pub fn count(&self, label: &str) -> u64 {
        self.counts.get(label).copied().unwrap_or(0)
    }
}

/// A message is named after the protocol that made it: the one whose header came first, above those
/// that only carry it.
fn label(m: &Message) -> String {
    const CARRIERS: [ProtId; 3] = [ProtId::TP, ProtId::NAKACK2, ProtId::UNICAST3];
    let headers = || m.headers.iter();
    let own = headers().find(|(id, _)| !CARRIERS.contains(id));
    let made = own.or_else(|| headers().find(|(id, _)| *id != ProtId::TP));
    match made {
        Some((id, header)) => format!("{} {}", id.name().unwrap_or("?"), kind_of(header).0),
        None => "no header".into(),
    }
}
