//! Reliable delivery: numbered messages, windows, requests for what is missing.

mod backlog;
mod gaps;
mod intake;
mod kept;
mod multicast;
mod parking;
mod retransmit;
mod slots;
mod syncs;
mod unicast;
mod window;

pub use multicast::{MulticastSettings, Nakack2Config, Nakack4Config, ReliableMulticast};
pub use unicast::{ReliableUnicast, Unicast3Config, Unicast4Config, UnicastSettings};

use crate::wire::{self, Header, ProtId, header::NakAckHeader};

/// The protocols that number multicasts.
const NUMBERING: [ProtId; 2] = [ProtId::NAKACK2, ProtId::NAKACK4];

/// The number that its sender gave a multicast; of one that was put together from fragments, that of
/// the fragment which completed it. None if it was sent without.
#[must_use]
pub fn multicast_number(m: &wire::Message) -> Option<i64> {
    NUMBERING.iter().find_map(|id| match m.headers.get(*id)? {
        Header::NakAck(NakAckHeader::Msg(n)) => Some(*n),
        _ => None,
    })
}

/// The number that its sender gave a message, to all or to one.
pub(crate) fn sequence_number(m: &wire::Message) -> Option<i64> {
    multicast_number(m).or_else(|| syncs::unicast_number(m))
}

/// The message `whole`, put together from fragments, takes the number of the last one.
pub(crate) fn take_number(whole: &mut wire::Message, from: &wire::Message) {
    for id in NUMBERING.into_iter().chain([ProtId::UNICAST3, ProtId::UNICAST4]) {
        if let Some(header) = from.headers.get(id) {
            whole.headers.put(id, header.clone());
        }
    }
}

pub(crate) use window::{LEAST_COST, cost as memory_cost};

#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod tests;
