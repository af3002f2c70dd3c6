//! A line: messages that wait for credit at the same targets, regular and out-of-band ones apart.
//!
//! Regular messages leave in order of submission, so do out-of-band ones. An out-of-band head may
//! overtake a waiting regular head, but what overtakes it costs at most as much as that head itself;
//! after that, heads leave in order of arrival (DECISIONS 13). Nothing overtakes a large head for
//! ever, and an answer is not stuck behind bulk data.

use super::credits::COST_FLOOR;
use super::whole::fragment_of;
use crate::wire::Hints;
use crate::{Message, OpId, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// The two kinds of messages in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Ordered.
    Regular,
    /// Out of band.
    Oob,
}

impl Class {
    pub(super) const ALL: [Class; 2] = [Class::Regular, Class::Oob];
}

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) msg: Message,
    /// Payload length.
    pub(super) length: u64,
    /// Since when it is the head of its class; before that it waits for its turn, not for credit.
    pub(super) head_since: Time,
    /// The application was told that it waits.
    pub(super) reported: bool,
    arrival: u64,
}

impl Waiting {
    fn weight(&self) -> u64 {
        self.length.max(COST_FLOOR)
    }
}

/// One kind's queue.
#[derive(Debug, Default)]
struct Queue {
    list: VecDeque<Waiting>,
    /// When those who lack credit for the head are asked (again).
    ask_at: Time,
}

impl Queue {
    /// Another message became the head, if any is left: its wait begins.
    fn new_head(&mut self, now: Time, patience: Duration) {
        self.ask_at = now + patience;
        if let Some(head) = self.list.front_mut() {
            head.head_since = now;
        }
    }
}

/// What waits for the same targets.
#[derive(Debug, Default)]
pub(super) struct Line {
    regular: Queue,
    oob: Queue,
    /// Cost of what overtook the present regular head.
    overtaken: u64,
    arrivals: u64,
    /// When the line began to wait; meaningless while it is empty.
    pub(super) blocked_since: Time,
    /// The application was told once in this blocking of a message that nobody waits for.
    pub(super) reported_unowned: bool,
}

impl Line {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.regular.list.is_empty() && self.oob.list.is_empty()
    }

    /// Whether a message of this class and length would be the next to leave, were it here.
    pub(super) fn is_open_to(&self, class: Class, length: u64) -> bool {
        match class {
            Class::Regular => self.is_empty(),
            Class::Oob => self.oob.list.is_empty() && self.may_overtake(length.max(COST_FLOOR)),
        }
    }

    fn may_overtake(&self, weight: u64) -> bool {
        self.head(Class::Regular).is_none_or(|r| self.overtaken + weight <= r.weight())
    }

    /// A message that never waited has left past the regular head.
    pub(super) fn note_overtaking(&mut self, length: u64) {
        self.overtaken += length.max(COST_FLOOR);
    }

    /// Appends a message. `patience`: how long its head may block before credit is asked for.
    pub(super) fn push(
        &mut self,
        class: Class,
        msg: Message,
        length: u64,
        now: Time,
        patience: Duration,
    ) {
        if self.is_empty() {
            self.blocked_since = now;
            self.reported_unowned = false;
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        let queue = self.queue_mut(class);
        queue.list.push_back(Waiting { msg, length, head_since: now, reported: false, arrival });
        if queue.list.len() == 1 {
            queue.new_head(now, patience);
        }
    }

    /// The first of a class.
    pub(super) fn head(&self, class: Class) -> Option<&Waiting> {
        self.queue(class).list.front()
    }

    /// The first of a class, to be marked.
    pub(super) fn head_mut(&mut self, class: Class) -> Option<&mut Waiting> {
        self.queue_mut(class).list.front_mut()
    }

    /// The payload lengths of the waiting heads.
    pub(super) fn heads(&self) -> impl Iterator<Item = &Waiting> {
        Class::ALL.into_iter().filter_map(|c| self.head(c))
    }

    /// Everything that waits.
    pub(super) fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.regular.list.iter().chain(&self.oob.list)
    }

    /// Which head leaves next, if `fits` says that there is credit for it.
    pub(super) fn next(&self, fits: impl Fn(&Waiting) -> bool) -> Option<Class> {
        let (regular, oob) = (self.head(Class::Regular), self.head(Class::Oob));
        let oob_is_older = match (regular, oob) {
            (Some(r), Some(o)) => o.arrival < r.arrival,
            (None, _) | (_, None) => false,
        };
        if let Some(o) = oob {
            if (oob_is_older || self.may_overtake(o.weight())) && fits(o) {
                return Some(Class::Oob);
            }
            if oob_is_older {
                return None;
            }
        }
        regular.filter(|r| fits(r)).map(|_| Class::Regular)
    }

    /// Takes the head of a class out; the next one's patience begins.
    pub(super) fn take(&mut self, class: Class, now: Time, patience: Duration) -> Option<Waiting> {
        let overtakes = match (class, self.head(Class::Regular), self.head(Class::Oob)) {
            (Class::Oob, Some(r), Some(o)) => r.arrival < o.arrival,
            (Class::Oob, _, _) | (Class::Regular, _, _) => false,
        };
        let queue = self.queue_mut(class);
        let taken = queue.list.pop_front()?;
        queue.new_head(now, patience);
        match class {
            Class::Regular => self.overtaken = 0,
            Class::Oob if overtakes => self.overtaken += taken.weight(),
            Class::Oob => {}
        }
        Some(taken)
    }

    /// When credit for the head of a class is asked for.
    pub(super) fn ask_at(&self, class: Class) -> Option<Time> {
        self.head(class).map(|_| self.queue(class).ask_at)
    }

    /// Credit was asked for: the next time is one patience later.
    pub(super) fn asked(&mut self, class: Class, patience: Duration) {
        self.queue_mut(class).ask_at += patience;
    }

    /// Takes back what the call `op` sent and what belongs to it: a message whose first fragment
    /// still waits is withdrawn whole.
    pub(super) fn withdraw(&mut self, op: OpId, now: Time, patience: Duration) -> Vec<Waiting> {
        let mut out = Vec::new();
        for class in Class::ALL {
            let queue = self.queue_mut(class);
            let of_call = |w: &Waiting| w.msg.token.as_ref().and_then(|t| t.op()) == Some(op);
            let Some(first) = queue.list.iter().position(of_call) else { continue };
            let group = |w: &Waiting| fragment_of(&w.msg).map(|(id, _)| id);
            let whole = group(&queue.list[first]);
            let rest = queue.list.iter().skip(first + 1);
            let siblings = rest.take_while(|w| whole.is_some() && group(w) == whole).count();
            out.extend(queue.list.drain(first..=first + siblings));
            if first == 0 {
                queue.new_head(now, patience);
                if class == Class::Regular {
                    self.overtaken = 0;
                }
            }
        }
        out
    }

    /// Takes out what is of no use in another view.
    pub(super) fn take_bound(&mut self, now: Time, patience: Duration) -> Vec<Waiting> {
        let bound = |w: &Waiting| w.msg.hints.contains(Hints::IN_THIS_VIEW);
        let mut out = Vec::new();
        for class in Class::ALL {
            let queue = self.queue_mut(class);
            let head_goes = queue.list.front().is_some_and(bound);
            let (gone, stays) = core::mem::take(&mut queue.list).into_iter().partition(bound);
            queue.list = stays;
            if head_goes {
                queue.new_head(now, patience);
                if class == Class::Regular {
                    self.overtaken = 0;
                }
            }
            out.extend::<VecDeque<Waiting>>(gone);
        }
        out
    }

    /// Takes everything out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiting> + '_ {
        self.overtaken = 0;
        self.regular.list.drain(..).chain(self.oob.list.drain(..))
    }

    fn queue(&self, class: Class) -> &Queue {
        match class {
            Class::Regular => &self.regular,
            Class::Oob => &self.oob,
        }
    }

    fn queue_mut(&mut self, class: Class) -> &mut Queue {
        match class {
            Class::Regular => &mut self.regular,
            Class::Oob => &mut self.oob,
        }
    }
}
