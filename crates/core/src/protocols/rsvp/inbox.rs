//! What the application was given and has not consumed, sender by sender: a synchronous message at
//! the level "delivered" is answered when it and everything before it is consumed, in whatever order
//! the application does that.
//!
//! Messages are counted, not listed. Each synchronous message ends a stretch of its sender's
//! messages; a stretch is over when nothing of it, and of those before it, is unconsumed. What
//! overtakes others (out of band) ends its stretch as well, and what comes later with a lower number
//! is counted there.

use crate::protocols::reliable::sequence_number;
use crate::{Consumed, Message, Time, Uuid};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// A sender, and whether it sent to all or to this member: each has numbers of its own.
pub(super) type Source = (Uuid, bool);

/// Stretches of one source. Beyond it a stretch is not ended, which can only make answers later.
const MOST: usize = 4096;

/// An answer that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) id: i16,
    /// The application could not handle it.
    pub(super) failed: bool,
    since: Time,
    /// Its sender was told that the message is here and waits for the application.
    told: bool,
}

/// All sources.
#[derive(Debug, Default)]
pub(super) struct Inboxes {
    of: BTreeMap<Source, VecDeque<Stretch>>,
    last_place: u32,
}

#[derive(Debug)]
struct Stretch {
    /// What receipts name it by.
    place: u32,
    unconsumed: u64,
    owed: Vec<Owed>,
    end: End,
}

/// How far a stretch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It goes on.
    Open,
    /// It ended with a message without number (to this member itself).
    Closed,
    /// It ended with this number: lower ones that come late belong here too.
    At(i64),
}

impl Stretch {
    fn takes(&self, number: Option<i64>) -> bool {
        match (self.end, number) {
            (End::Open, _) => true,
            (End::At(end), Some(n)) => end.wrapping_sub(n) > 0,
            (End::At(_), None) | (End::Closed, _) => false,
        }
    }
}

impl Inboxes {
    fn open(last_place: &mut u32) -> Stretch {
        *last_place = last_place.checked_add(1).unwrap_or(1);
        Stretch { place: *last_place, unconsumed: 0, owed: Vec::new(), end: End::Open }
    }

    /// `messages` go up to the application.
    pub(super) fn enter_all(&mut self, source: Source, messages: &mut [Message]) {
        let last = &mut self.last_place;
        let stretches = self.of.entry(source).or_insert_with(|| VecDeque::from([Self::open(last)]));
        if let ([only], _) = stretches.as_mut_slices()
            && only.end == End::Open
        {
            only.unconsumed += messages.len() as u64;
            messages.iter_mut().for_each(|m| m.receipt.place = only.place);
            return;
        }
        messages.iter_mut().for_each(|m| Self::enter_one(stretches, m));
    }

    /// As [`Inboxes::enter_all`], of `n` messages. Where they count; `None`: not all in one place, and
    /// nothing was done.
    pub(super) fn enter_row(&mut self, source: Source, n: usize) -> Option<u32> {
        let last = &mut self.last_place;
        let stretches = self.of.entry(source).or_insert_with(|| VecDeque::from([Self::open(last)]));
        match stretches.as_mut_slices() {
            ([only], _) if only.end == End::Open => {
                only.unconsumed += n as u64;
                Some(only.place)
            }
            _ => None,
        }
    }

    /// `m` goes up to the application.
    pub(super) fn enter(&mut self, source: Source, m: &mut Message) {
        self.enter_all(source, core::slice::from_mut(m));
    }

    fn enter_one(stretches: &mut VecDeque<Stretch>, m: &mut Message) {
        let number = if stretches.len() > 1 { sequence_number(m) } else { None };
        // Numbers at which stretches end ascend, so the search ends at the first that is too low.
        let mut at = stretches.len() - 1;
        for (i, s) in stretches.iter().enumerate().rev().skip(1) {
            match s.end {
                End::At(_) if s.takes(number) => at = i,
                End::At(_) => break,
                End::Open | End::Closed => {}
            }
        }
        stretches[at].unconsumed += 1;
        m.receipt.place = stretches[at].place;
    }

    /// The message `m`, which has entered, is to be answered when it is consumed.
    pub(super) fn owe(&mut self, source: Source, id: i16, m: &Message, now: Time) {
        let Some(stretches) = self.of.get_mut(&source) else { return };
        let room = stretches.len() < MOST;
        let place = m.receipt.place;
        let Some(stretch) = stretches.iter_mut().rev().find(|s| s.place == place) else { return };
        stretch.owed.push(Owed { id, failed: false, since: now, told: false });
        if stretch.end == End::Open && room {
            stretch.end = sequence_number(m).map_or(End::Closed, End::At);
            stretches.push_back(Self::open(&mut self.last_place));
        }
    }

    /// Answers to multicasts that are owed since `until` or longer, and whose senders were not told
    /// so; they count as told now.
    pub(super) fn untold(&mut self, until: Time) -> Vec<(Uuid, i16)> {
        let multicasts = self.of.iter_mut().filter(|((_, multicast), _)| *multicast);
        let owed = multicasts.flat_map(|((of, _), stretches)| {
            stretches.iter_mut().flat_map(|s| &mut s.owed).map(|o| (*of, o))
        });
        let late = owed.filter(|(_, o)| o.since <= until && !o.told);
        late.map(|(of, o)| {
            o.told = true;
            (of, o.id)
        })
        .collect()
    }

    /// Whether the sender of a multicast whose answer is owed does not know that it is here.
    pub(super) fn has_untold(&self) -> bool {
        let multicasts = self.of.iter().filter(|((_, multicast), _)| *multicast);
        multicasts.flat_map(|(_, s)| s).any(|s| s.owed.iter().any(|o| !o.told))
    }

    /// The application consumed something. Whose it was.
    pub(super) fn consumed(&mut self, what: &Consumed) -> Option<Source> {
        let sources = [(what.from, true), (what.from, false)];
        for source in sources {
            let Some(stretches) = self.of.get_mut(&source) else { continue };
            let Some(stretch) = stretches.iter_mut().find(|s| s.place == what.place) else {
                continue;
            };
            stretch.unconsumed = stretch.unconsumed.saturating_sub(u64::from(what.messages));
            let named = |o: &&mut Owed| what.rsvp.is_some_and(|tag| tag.id == o.id);
            if let (true, Some(owed)) = (what.failed, stretch.owed.iter_mut().find(named)) {
                owed.failed = true;
            }
            // Stretches that ended for a flush owe nothing.
            let over = |s: &Stretch| s.unconsumed == 0 && s.owed.is_empty() && s.end == End::Closed;
            while stretches.front().is_some_and(over) {
                stretches.pop_front();
            }
            return Some(source);
        }
        None
    }

    /// A new stretch begins. The place of the one that ended: when it is consumed, everything that
    /// was given of `source` so far is.
    pub(super) fn end_stretch(&mut self, source: Source) -> u32 {
        let Some(stretches) = self.of.get_mut(&source) else { return 0 };
        let room = stretches.len() < MOST;
        let Some(last) = stretches.back_mut() else { return 0 };
        let place = last.place;
        if room && last.unconsumed > 0 {
            last.end = End::Closed;
            stretches.push_back(Self::open(&mut self.last_place));
        }
        place
    }

    /// Whether nothing up to the stretch of this place is unconsumed.
    pub(super) fn is_consumed(&self, source: Source, place: u32) -> bool {
        let Some(stretches) = self.of.get(&source) else { return true };
        let open = stretches.iter().take_while(|s| place.wrapping_sub(s.place) as i32 >= 0);
        open.map(|s| s.unconsumed).sum::<u64>() == 0
    }

    /// Whether all that was given of `source` before its first answer is consumed, so that it is
    /// owed if nothing before it is missing.
    pub(super) fn may_be_due(&self, source: Source) -> bool {
        let first = self.of.get(&source).and_then(VecDeque::front);
        first.is_some_and(|s| s.unconsumed == 0 && !s.owed.is_empty())
    }

    /// The answers that are due; `in_order` says whether everything up to a number has been given to
    /// the application.
    pub(super) fn due(&mut self, source: Source, in_order: impl Fn(i64) -> bool) -> Vec<Owed> {
        let mut due = Vec::new();
        let Some(stretches) = self.of.get_mut(&source) else { return due };
        while let Some(first) = stretches.front_mut() {
            let complete = match first.end {
                End::Open | End::Closed => true,
                End::At(n) => in_order(n),
            };
            if first.unconsumed > 0 || first.owed.is_empty() || !complete {
                break;
            }
            due.append(&mut first.owed);
            if first.end == End::Open {
                break;
            }
            stretches.pop_front();
            let over = |s: &Stretch| s.unconsumed == 0 && s.owed.is_empty() && s.end == End::Closed;
            while stretches.front().is_some_and(over) {
                stretches.pop_front();
            }
        }
        due
    }

    /// Only what these members sent counts from now on.
    pub(super) fn retain(&mut self, stays: impl Fn(Uuid) -> bool) {
        self.of.retain(|(m, _), _| stays(*m));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RsvpTag;
    use crate::wire::header::NakAckHeader;
    use crate::wire::{self, Body, Header, ProtId};

    const ALL: Source = (Uuid::new(1, 1), true);

    fn give(inboxes: &mut Inboxes, number: i64, asks: bool) -> Consumed {
        let header = Header::NakAck(NakAckHeader::Msg(number));
        let m = wire::Message::multicast(Body::Empty).with_header(ProtId::NAKACK2, header);
        let mut m = Message::from(m);
        inboxes.enter(ALL, &mut m);
        if asks {
            m.receipt.rsvp = Some(RsvpTag { id: number as i16 });
            inboxes.owe(ALL, number as i16, &m, Time::ZERO);
        }
        Consumed::one(ALL.0, m.receipt)
    }

    fn ids(owed: Vec<Owed>) -> Vec<i16> {
        owed.into_iter().map(|o| o.id).collect()
    }

    #[test]
    fn an_answer_waits_for_what_was_given_before_whatever_is_consumed_first() {
        let mut inboxes = Inboxes::default();
        let (one, two) = (give(&mut inboxes, 1, false), give(&mut inboxes, 2, true));
        let three = give(&mut inboxes, 3, false);
        inboxes.consumed(&two);
        assert!(inboxes.due(ALL, |_| true).is_empty());
        inboxes.consumed(&one);
        assert_eq!(ids(inboxes.due(ALL, |_| true)), [2], "what follows does not matter");
        inboxes.consumed(&three);
        assert!(inboxes.due(ALL, |_| true).is_empty());
    }

    #[test]
    fn what_comes_late_with_a_lower_number_is_waited_for() {
        let mut inboxes = Inboxes::default();
        let eight = give(&mut inboxes, 8, true);
        inboxes.consumed(&eight);
        assert!(inboxes.due(ALL, |_| false).is_empty(), "something before it is missing");
        let (seven, nine) = (give(&mut inboxes, 7, false), give(&mut inboxes, 9, false));
        assert!(inboxes.due(ALL, |_| true).is_empty());
        assert_ne!(seven.place, nine.place);
        inboxes.consumed(&seven);
        assert_eq!(ids(inboxes.due(ALL, |_| true)), [8]);
    }

    #[test]
    fn a_failure_is_remembered_until_the_answer_is_due() {
        let mut inboxes = Inboxes::default();
        let first = give(&mut inboxes, 1, false);
        let mut second = give(&mut inboxes, 2, true);
        second.failed = true;
        inboxes.consumed(&second);
        inboxes.consumed(&first);
        let due: Vec<_> = inboxes.due(ALL, |_| true).iter().map(|o| (o.id, o.failed)).collect();
        assert_eq!(due, [(2, true)]);
    }
}
