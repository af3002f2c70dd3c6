//! What travels between hosts: counts by protocol and kind (what an idle group costs), and, of chosen
//! protocols, the messages themselves.

use crate::headers::kind_of;
use crate::network::Host;
use rgroups_core::wire::{Frame, Message, ProtId};
use std::collections::BTreeMap;

/// How many messages of each kind went from one host to another. A multicast counts once for each
/// receiver other than its sender.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    counts: BTreeMap<String, u64>,
    keeping: Vec<String>,
    kept: Vec<Kept>,
}

/// A message on its way. A multicast is kept once for each receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// From where.
    pub from: Host,
    /// Where to.
    pub to: Host,
    /// As the receiver decodes it.
    pub message: Message,
}

impl Census {
    /// Counts, and keeps messages of which [`iter`](Self::iter) says that they are of these protocols.
    pub(crate) fn keeping(protocols: &[&str]) -> Self {
        let keeping = protocols.iter().map(|p| format!("{p} ")).collect();
        Self { keeping, ..Self::default() }
    }

    /// Counts the messages of a packet. What is no packet counts as `undecodable`.
    pub(crate) fn packet(&mut self, from: Host, to: Host, packet: &bytes::Bytes) {
        let Ok(frame) = Frame::decode(packet.clone()) else {
            return self.add("undecodable".into());
        };
        for m in frame.messages() {
            let label = label(m);
            if self.keeping.iter().any(|p| label.starts_with(p)) {
                self.kept.push(Kept { from, to, message: m.clone() });
            }
            self.add(label);
        }
    }

    /// The messages that were to be kept, in the order in which they were sent.
    #[must_use]
    pub fn kept(&self) -> &[Kept] {
        &self.kept
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
pub(crate) fn label(m: &Message) -> String {
    const CARRIERS: [ProtId; 3] = [ProtId::TP, ProtId::NAKACK2, ProtId::UNICAST3];
    let headers = || m.headers.iter();
    let own = headers().find(|(id, _)| !CARRIERS.contains(id));
    let made = own.or_else(|| headers().find(|(id, _)| *id != ProtId::TP));
    match made {
        Some((id, header)) => format!("{} {}", id.name().unwrap_or("?"), kind_of(header).0),
        None => "no header".into(),
    }
}
