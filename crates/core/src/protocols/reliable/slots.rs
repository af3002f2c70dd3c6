//! Storage of a window: a ring of segments of slots. A segment exists only where a message is, so a
//! number far above the others costs one segment and 8 bytes per segment in between, and growing
//! moves pointers, never messages. One segment is kept for reuse: a steady flow allocates nothing.

use super::kept::Kept;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// What is known of one number.
#[derive(Clone, Debug, Default)]
pub(super) enum Slot {
    /// Nothing is here.
    #[default]
    Empty,
    /// Received (or sent), not yet delivered.
    Held(Kept),
    /// Delivered, and kept for others.
    Delivered(Kept),
    /// Delivered ahead of its turn, and not kept.
    Spent,
}

const SEGMENT: usize = 64;
type Segment = Box<[Slot; SEGMENT]>;

/// Slots by number, from a base upwards.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// The number of the first slot of the first segment.
    base: i64,
    segments: VecDeque<Option<Segment>>,
    spare: Option<Segment>,
}

impl Slots {
    /// No slots; the first number will be `base` or higher.
    pub(super) fn new(base: i64) -> Self {
        Self { base, segments: VecDeque::new(), spare: None }
    }

    /// Whether nothing is stored at all.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    fn index(&self, seqno: i64) -> Option<(usize, usize)> {
        let at = usize::try_from(seqno.wrapping_sub(self.base)).ok()?;
        Some((at / SEGMENT, at % SEGMENT))
    }

    /// The slot of `seqno`, if its segment exists.
    pub(super) fn get(&self, seqno: i64) -> Option<&Slot> {
        let (segment, at) = self.index(seqno)?;
        self.segments.get(segment)?.as_ref().map(|s| &s[at])
    }

    /// The slot of `seqno`, if its segment exists, to be changed.
    pub(super) fn get_mut(&mut self, seqno: i64) -> Option<&mut Slot> {
        let (segment, at) = self.index(seqno)?;
        self.segments.get_mut(segment)?.as_mut().map(|s| &mut s[at])
    }

    /// Stores `slot` for `seqno`, which is not below what was dropped. `low` is the number up to
    /// which nothing is stored.
    pub(super) fn put(&mut self, seqno: i64, slot: Slot, low: i64) {
        if self.segments.is_empty() {
            self.base = low.wrapping_add(1);
        }
        let Some((segment, at)) = self.index(seqno) else {
            unreachable!("{seqno} is below the window's base {}", self.base);
        };
        while self.segments.len() <= segment {
            self.segments.push_back(None);
        }
        let spare = &mut self.spare;
        let slots = self.segments[segment].get_or_insert_with(|| {
            spare.take().unwrap_or_else(|| Box::new([const { Slot::Empty }; SEGMENT]))
        });
        slots[at] = slot;
    }

    /// Takes what is in the slot of `seqno`.
    pub(super) fn take(&mut self, seqno: i64) -> Slot {
        self.get_mut(seqno).map(core::mem::take).unwrap_or_default()
    }

    /// Gives back the segments that end at or below `low`; their slots were taken before.
    pub(super) fn trim(&mut self, low: i64) {
        while !self.segments.is_empty() {
            let last = self.base.wrapping_add(SEGMENT as i64 - 1);
            if last.wrapping_sub(low) > 0 {
                return;
            }
            if let Some(done) = self.segments.pop_front().flatten() {
                debug_assert!(done.iter().all(|s| matches!(s, Slot::Empty)));
                self.spare = Some(done);
            }
            self.base = self.base.wrapping_add(SEGMENT as i64);
        }
    }

    /// Forgets everything stored: nothing is held above `low` either.
    pub(super) fn clear_if_drained(&mut self, low: i64, received: i64) {
        if low == received && !self.segments.is_empty() {
            if let Some(done) = self.segments.pop_front().flatten() {
                self.spare = Some(done);
            }
            self.segments.clear();
        }
    }
}
