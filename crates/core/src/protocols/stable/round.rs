//! The tally of one round, at the coordinator: the least delivered and the highest received number of
//! each member. It is the one digest that is kept between messages, and only there.

use crate::event::HeldBack;
use crate::wire::SeqnoPair;
use crate::{ReferenceDigest, Uuid, View};
use alloc::vec::Vec;

/// The votes of one round. Everything is in the order of the view.
#[derive(Debug)]
pub(super) struct Round {
    /// Which vector each member's vote built on (0: none); `None`: it has not voted.
    votes: Vec<Option<u64>>,
    voted: usize,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    pair: SeqnoPair,
    /// The place of a member that has delivered no more than that.
    least_at: usize,
}

impl Round {
    /// A round without votes in a view of so many members.
    pub(super) fn new(members: usize) -> Self {
        let marks = (0..members).map(|_| Mark::default()).collect();
        Self { votes: (0..members).map(|_| None).collect(), voted: 0, marks }
    }

    /// Adds a vote of the member at this place, which built on the vector `base`; false if it has
    /// voted before.
    pub(super) fn vote(&mut self, by: usize, base: u64, digest: &ReferenceDigest) -> bool {
        if self.has_voted(by) {
            return false;
        }
        self.votes[by] = Some(base);
        for (mark, pair) in self.marks.iter_mut().zip(digest.pairs()) {
            if self.voted == 0 {
                *mark = Mark { pair: *pair, least_at: by };
                continue;
            }
            if pair.delivered < mark.pair.delivered {
                mark.pair.delivered = pair.delivered;
                mark.least_at = by;
            }
            mark.pair.received = mark.pair.received.max(pair.received);
        }
        self.voted += 1;
        true
    }

    pub(super) fn has_voted(&self, member: usize) -> bool {
        self.votes.get(member).is_some_and(Option::is_some)
    }

    pub(super) fn voted(&self) -> usize {
        self.voted
    }

    pub(super) fn is_complete(&self) -> bool {
        self.voted == self.votes.len()
    }

    /// What the vote of the member at this place built on.
    pub(super) fn base_of(&self, member: usize) -> u64 {
        self.votes.get(member).copied().flatten().unwrap_or(0)
    }

    /// What is stable, once all have voted.
    pub(super) fn result(&self, view: &View) -> Option<ReferenceDigest> {
        ReferenceDigest::from_pairs(view, self.marks.iter().map(|m| m.pair).collect())
    }

    /// Whose messages are not all stable, and who has delivered least of them.
    pub(super) fn held_back(&self, members: &[Uuid]) -> Vec<HeldBack> {
        let held = |(sender, m): (&Uuid, &Mark)| {
            (m.pair.delivered < m.pair.received).then(|| HeldBack {
                sender: *sender,
                oldest: m.pair.delivered.wrapping_add(1),
                by: members[m.least_at],
            })
        };
        members.iter().zip(&self.marks).filter_map(held).collect()
    }
}
