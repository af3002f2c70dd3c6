//! What a run went through, as counts: which kinds of message the network did what to, how waits
//! ended, and which changes of the membership followed each other. A swarm adds the counts of its
//! seeds up; a cell that stays empty was tested by none of them (invariant O3).

mod events;
mod waits;

pub use events::{Change, Order};
pub use waits::Wait;

use crate::census::label;
use crate::history::History;
use bytes::Bytes;
use rgroups_core::wire::Frame;
use std::collections::BTreeMap;

/// What happened to a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The network lost it.
    Dropped,
    /// A partition, or a cut in this direction, kept it back.
    Cut,
    /// The network made two of it.
    Duplicated,
    /// One that left the same way later came before it.
    Overtaken,
    /// Its receiver installed another view meanwhile.
    Late,
    /// Its sender was not in its receiver's view when it came.
    OfStranger,
    /// Its sender had left or was dead when it came.
    OfGone,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 7] = [
        Fate::Dropped,
        Fate::Cut,
        Fate::Duplicated,
        Fate::Overtaken,
        Fate::Late,
        Fate::OfStranger,
        Fate::OfGone,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Dropped => "dropped",
            Fate::Cut => "cut",
            Fate::Duplicated => "duplicated",
            Fate::Overtaken => "overtaken",
            Fate::Late => "late",
            Fate::OfStranger => "of-stranger",
            Fate::OfGone => "of-gone",
        }
    }
}

/// Kinds of message that every swarm should have seen everything happen to, as a census names them.
/// Others have rows of their own once something has happened to them.
const KINDS: &str = "FD_ALL3 HEARTBEAT, FRAG2 FRAG, GMS GET_DIGEST_REQ, GMS GET_DIGEST_RSP, \
    GMS INSTALL_MERGE_VIEW, GMS JOIN_REQ, GMS JOIN_RSP, GMS LEAVE_REQ, GMS LEAVE_RSP, \
    GMS MERGE_REQ, GMS MERGE_RSP, GMS CANCEL_MERGE, GMS VIEW, GMS VIEW_ACK, MERGE3 INFO, \
    MERGE3 VIEW_REQ, MERGE3 VIEW_RSP, MFC CREDIT_REQUEST, MFC REPLENISH, NAKACK2 HIGHEST_SEQNO, \
    NAKACK2 MSG, NAKACK2 XMIT_REQ, NAKACK2 XMIT_RSP, STABLE STABLE_GOSSIP, STABLE STABILITY, \
    UFC CREDIT_REQUEST, UFC REPLENISH, UNICAST3 ACK, UNICAST3 DATA, UNICAST3 SEND_FIRST_SEQNO, \
    UNICAST3 XMIT_REQ, VERIFY_SUSPECT2 ARE_YOU_DEAD, VERIFY_SUSPECT2 I_AM_NOT_DEAD";

/// Counts of everything that a run, or many, went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    messages: BTreeMap<String, BTreeMap<Fate, u64>>,
    waits: BTreeMap<Wait, u64>,
    changes: BTreeMap<(Change, Change, Order), u64>,
}

/// A row of a table: its name and how often each column was hit.
pub type Row = (String, Vec<u64>);

impl Coverage {
    /// This happened to all messages of a packet.
    pub(crate) fn packet(&mut self, fate: Fate, packet: &Bytes) {
        let Ok(frame) = Frame::decode(packet.clone()) else { return };
        for m in frame.messages() {
            *self.messages.entry(label(m)).or_default().entry(fate).or_default() += 1;
        }
    }

    /// Adds what a history shows.
    pub(crate) fn history(&mut self, h: &History) {
        waits::count(h, &mut self.waits);
        events::count(h, &mut self.changes);
    }

    /// Adds what another run went through.
    pub fn add(&mut self, other: Coverage) {
        for (kind, fates) in other.messages {
            let mine = self.messages.entry(kind).or_default();
            fates.into_iter().for_each(|(fate, n)| *mine.entry(fate).or_default() += n);
        }
        for (wait, n) in other.waits {
            *self.waits.entry(wait).or_default() += n;
        }
        for (change, n) in other.changes {
            *self.changes.entry(change).or_default() += n;
        }
    }

    /// What the network did to each kind of message: a column for each of [`Fate::ALL`].
    #[must_use]
    pub fn messages(&self) -> Vec<Row> {
        let listed = KINDS.split(',').map(|k| k.trim().to_owned());
        let mut kinds: Vec<String> = listed.chain(self.messages.keys().cloned()).collect();
        kinds.sort();
        kinds.dedup();
        let none = BTreeMap::new();
        let counts = |kind: &str| {
            let fates = self.messages.get(kind).unwrap_or(&none);
            Fate::ALL.iter().map(|f| fates.get(f).copied().unwrap_or(0)).collect()
        };
        kinds.into_iter().map(|k| (k.clone(), counts(&k))).collect()
    }

    /// How often each wait ended in each way.
    #[must_use]
    pub fn waits(&self) -> Vec<(&'static str, u64)> {
        let count = |w: &Wait| self.waits.get(w).copied().unwrap_or(0);
        Wait::ALL.iter().map(|w| (w.name(), count(w))).collect()
    }

    /// How often one change of the membership was followed by another within `order`: a row and a
    /// column for each of [`Change::ALL`].
    #[must_use]
    pub fn changes(&self, order: Order) -> Vec<Row> {
        let count = |a, b| self.changes.get(&(a, b, order)).copied().unwrap_or(0);
        let row = |a: &Change| Change::ALL.iter().map(|b| count(*a, *b)).collect();
        Change::ALL.iter().map(|a| (a.name().to_owned(), row(a))).collect()
    }

    /// The cells that nothing has hit, in words.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (kind, counts) in self.messages() {
            let cells = Fate::ALL.iter().zip(counts).filter(|(_, n)| *n == 0);
            missing.extend(cells.map(|(fate, _)| format!("{kind}: {}", fate.name())));
        }
        let waits = self.waits().into_iter().filter(|(_, n)| *n == 0);
        missing.extend(waits.map(|(wait, _)| format!("wait: {wait}")));
        for order in [Order::Then, Order::AtOnce] {
            for (first, counts) in self.changes(order) {
                let cells = Change::ALL.iter().zip(counts).filter(|(_, n)| *n == 0);
                let cell = |b: &Change| format!("{first} {} {}", order.name(), b.name());
                missing.extend(cells.map(|(b, _)| cell(b)));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgroups_core::wire::header::{Header, NakAckHeader};
    use rgroups_core::wire::{Body, Encode, FrameBody, Message, ProtId, Version};

    fn packet() -> Bytes {
        let m = Message::multicast(Body::bytes("x"))
            .with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::Msg(1)));
        Frame { version: Version::OURS, multicast: true, body: FrameBody::Single(m) }.to_bytes()
    }

    #[test]
    fn what_happened_to_a_packet_is_in_its_cell_and_missing_elsewhere() {
        let mut c = Coverage::default();
        c.packet(Fate::Late, &packet());
        c.packet(Fate::Late, &packet());
        let row = c.messages().into_iter().find(|(k, _)| k == "NAKACK2 MSG").unwrap();
        assert_eq!(row.1, [0, 0, 0, 0, 2, 0, 0]);
        let missing = c.missing();
        assert!(missing.contains(&"NAKACK2 MSG: dropped".to_owned()));
        assert!(!missing.contains(&"NAKACK2 MSG: late".to_owned()));
    }

    #[test]
    fn counts_of_runs_add_up() {
        let mut a = Coverage::default();
        a.packet(Fate::Cut, &packet());
        let mut sum = a.clone();
        sum.add(a);
        let row = sum.messages().into_iter().find(|(k, _)| k == "NAKACK2 MSG").unwrap();
        assert_eq!(row.1[1], 2);
    }
}
