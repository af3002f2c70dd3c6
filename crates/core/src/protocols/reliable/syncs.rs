//! What the reliable layers know of synchronous sends (RSVP, which sits above them): when such a
//! message is in a window as a whole, and which numbers our own ones have. A message that was cut
//! counts when all of its fragments do; only the first of them names the id.

use crate::wire::header::{RsvpKind, UnicastHeader};
use crate::wire::{self, Flags, Header, ProtId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Cut messages of one sender that are here in part; beyond it the oldest is forgotten, and is
/// acknowledged when it is delivered.
const MOST_OPEN: usize = 64;

/// A message, or a fragment of one, that asks for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    id: Option<i16>,
    fragment: Option<(i64, i32)>,
}

/// What `m` asks for, if anything.
pub(super) fn mark(m: &wire::Message) -> Option<Mark> {
    if !m.flags.intersects(Flags::RSVP | Flags::RSVP_NB) {
        return None;
    }
    let id = match m.headers.get(ProtId::RSVP) {
        Some(Header::Rsvp(h)) if h.kind == RsvpKind::Request => Some(h.id),
        _ => None,
    };
    let fragment = match m.headers.get(ProtId::FRAG2) {
        Some(Header::Frag(f)) => Some((f.id, f.total)),
        _ => None,
    };
    (id.is_some() || fragment.is_some()).then_some(Mark { id, fragment })
}

/// Cut messages of one sender of which not all is here.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    open: BTreeMap<i64, Part>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    here: i32,
    id: Option<i16>,
}

impl Arrivals {
    /// The window took a message with this mark. The id, if all of the message is here.
    pub(super) fn note(&mut self, mark: Mark) -> Option<i16> {
        let Some((fragment, total)) = mark.fragment else { return mark.id };
        let part = self.open.entry(fragment).or_default();
        part.here += 1;
        part.id = part.id.or(mark.id);
        if part.here >= total {
            return self.open.remove(&fragment)?.id;
        }
        if self.open.len() > MOST_OPEN {
            self.open.pop_first();
        }
        None
    }
}

/// The numbers of a message of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) first: i64,
    pub(super) last: i64,
}

/// Our own messages of one window that wait for acknowledgements, by their ids.
#[derive(Debug, Default)]
pub(super) struct OwnSyncs {
    sent: BTreeMap<i16, Numbers>,
    /// Ids by the number of the cut message, while its fragments are leaving.
    cut: BTreeMap<i64, (i16, i32)>,
}

impl OwnSyncs {
    /// `m` was given this number.
    pub(super) fn note(&mut self, m: &wire::Message, seqno: i64) {
        let Some(mark) = mark(m) else { return };
        if let Some(id) = mark.id {
            self.sent.insert(id, Numbers { first: seqno, last: seqno });
            if let Some((fragment, total)) = mark.fragment {
                self.cut.insert(fragment, (id, total - 1));
            }
            return;
        }
        let Some((fragment, _)) = mark.fragment else { return };
        let Some((id, left)) = self.cut.get_mut(&fragment) else { return };
        if let Some(numbers) = self.sent.get_mut(id) {
            numbers.last = seqno;
        }
        *left -= 1;
        if *left <= 0 {
            self.cut.remove(&fragment);
        }
    }

    /// The numbers of the message of this id, if all of it has left and they are not covered.
    pub(super) fn numbers(&self, id: i16) -> Option<Numbers> {
        self.sent.get(&id).filter(|_| self.is_whole(id)).copied()
    }

    /// Whether no fragment of it is still to leave.
    fn is_whole(&self, id: i16) -> bool {
        !self.cut.values().any(|(open, _)| *open == id)
    }

    /// Everything up to `seqno` arrived everywhere. The ids of the messages that this covers.
    pub(super) fn covered(&mut self, seqno: i64) -> Vec<i16> {
        let covered = |(_, n): &(&i16, &Numbers)| seqno.wrapping_sub(n.last) >= 0;
        let ids: Vec<i16> = self.sent.iter().filter(covered).map(|(id, _)| *id).collect();
        let ids: Vec<i16> = ids.into_iter().filter(|id| self.is_whole(*id)).collect();
        self.sent.retain(|id, _| !ids.contains(id));
        ids
    }
}

/// The number that its sender gave a unicast.
pub(super) fn unicast_number(m: &wire::Message) -> Option<i64> {
    [ProtId::UNICAST3, ProtId::UNICAST4].iter().find_map(|id| match m.headers.get(*id)? {
        Header::Unicast(UnicastHeader::Data { seqno, .. }) => Some(*seqno),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Body;
    use crate::wire::header::{FragHeader, RsvpHeader};

    fn part(frag: i32, total: i32) -> wire::Message {
        let header =
            FragHeader { id: 9, frag, total, needs_deserialization: false, original_type: 0 };
        let m = wire::Message::multicast(Body::Empty)
            .with_flags(Flags::RSVP)
            .with_header(ProtId::FRAG2, Header::Frag(header));
        if frag > 0 {
            return m;
        }
        let asks = RsvpHeader { kind: RsvpKind::Request, id: 7 };
        m.with_header(ProtId::RSVP, Header::Rsvp(asks))
    }

    #[test]
    fn a_cut_message_has_arrived_when_its_last_missing_fragment_has() {
        let mut arrivals = Arrivals::default();
        let mut note = |frag| mark(&part(frag, 3)).and_then(|m| arrivals.note(m));
        assert_eq!((note(2), note(0), note(1)), (None, None, Some(7)));
    }

    #[test]
    fn the_numbers_of_a_cut_message_span_its_fragments() {
        let mut own = OwnSyncs::default();
        for (frag, seqno) in [(0, 4), (1, 6), (2, 7)] {
            own.note(&part(frag, 3), seqno);
        }
        assert_eq!(own.numbers(7), Some(Numbers { first: 4, last: 7 }));
        assert!(own.covered(6).is_empty());
        assert_eq!(own.covered(7), [7]);
    }

    #[test]
    fn a_message_whose_fragments_are_still_leaving_is_neither_covered_nor_repeated() {
        let mut own = OwnSyncs::default();
        own.note(&part(0, 2), 1);
        assert!(own.covered(1).is_empty());
        assert_eq!(own.numbers(7), None, "nor repeated");
        own.note(&part(1, 2), 2);
        assert!(own.numbers(7).is_some());
        assert_eq!(own.covered(2), [7]);
    }
}
