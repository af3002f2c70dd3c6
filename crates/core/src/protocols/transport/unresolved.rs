//! Unicasts to members whose physical address is not known yet: they wait, bounded in number, bytes
//! and time, while discovery is asked. What does not fit or waits too long is dropped and counted;
//! the reliable protocols send it again.

use crate::{Message, Time, Uuid};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// The queues, by member.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    queues: BTreeMap<Uuid, Queue>,
    /// When a member was last asked for because of a multicast that it should get.
    asked_for_multicast: BTreeMap<Uuid, Time>,
}

#[derive(Debug)]
struct Queue {
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
    since: Time,
    asked: Option<Time>,
}

impl Unresolved {
    /// Messages that wait for one member.
    pub(super) const MAX_MESSAGES: usize = 128;
    /// Bytes that wait for one member.
    pub(super) const MAX_BYTES: usize = 1_000_000;
    /// Members that are waited for.
    pub(super) const MAX_MEMBERS: usize = 256;
    /// A queue older than this is dropped.
    pub(super) const MAX_AGE: Duration = Duration::from_secs(60);
    /// A member is asked for at most once in this time.
    pub(super) const ASK_EVERY: Duration = Duration::from_secs(2);
    /// The same, when the reason is a multicast.
    pub(super) const ASK_FOR_MULTICAST_EVERY: Duration = Duration::from_secs(10);

    /// Queues a message for `m`; returns how many had to be dropped for it, oldest first.
    pub(super) fn queue(&mut self, m: Uuid, message: Message, len: usize, now: Time) -> usize {
        let mut dropped = 0;
        if !self.queues.contains_key(&m) && self.queues.len() >= Self::MAX_MEMBERS {
            let oldest = self.queues.iter().min_by_key(|(_, q)| q.since).map(|(m, _)| *m);
            dropped += oldest.map_or(0, |m| self.forget(m));
        }
        let q = self.queues.entry(m).or_insert_with(|| Queue {
            messages: VecDeque::new(),
            bytes: 0,
            since: now,
            asked: None,
        });
        q.messages.push_back((message, len));
        q.bytes += len;
        while q.messages.len() > 1
            && (q.messages.len() > Self::MAX_MESSAGES || q.bytes > Self::MAX_BYTES)
        {
            let gone = q.messages.pop_front().map_or(0, |(_, len)| len);
            q.bytes -= gone;
            dropped += 1;
        }
        dropped
    }

    /// Whether `m`, for whom messages wait, is to be asked for now. Remembers that it was.
    pub(super) fn ask(&mut self, m: Uuid, now: Time) -> bool {
        let Some(q) = self.queues.get_mut(&m) else { return false };
        let due = q.asked.is_none_or(|at| now.since(at) >= Self::ASK_EVERY);
        if due {
            q.asked = Some(now);
        }
        due
    }

    /// Whether `m`, who misses a multicast, is to be asked for now. Remembers that it was.
    pub(super) fn ask_for_multicast(&mut self, m: Uuid, now: Time) -> bool {
        let due = self
            .asked_for_multicast
            .get(&m)
            .is_none_or(|at| now.since(*at) >= Self::ASK_FOR_MULTICAST_EVERY);
        if due {
            self.asked_for_multicast.insert(m, now);
        }
        due
    }

    /// What waits for `m`, in order.
    pub(super) fn release(&mut self, m: Uuid) -> Vec<Message> {
        self.asked_for_multicast.remove(&m);
        let queue = self.queues.remove(&m);
        queue.into_iter().flat_map(|q| q.messages).map(|(message, _)| message).collect()
    }

    /// Drops what waits for `m`; returns how many messages.
    pub(super) fn forget(&mut self, m: Uuid) -> usize {
        self.asked_for_multicast.remove(&m);
        self.queues.remove(&m).map_or(0, |q| q.messages.len())
    }

    /// Drops queues that waited too long; returns how many messages.
    pub(super) fn expire(&mut self, now: Time) -> usize {
        let mut dropped = 0;
        self.queues.retain(|_, q| {
            let keep = now.since(q.since) < Self::MAX_AGE;
            dropped += if keep { 0 } else { q.messages.len() };
            keep
        });
        dropped
    }

    /// Forgets when members outside the view were asked for.
    pub(super) fn retain_asked(&mut self, keep: impl Fn(Uuid) -> bool) {
        self.asked_for_multicast.retain(|m, _| keep(*m));
    }

    /// For whom messages wait.
    pub(super) fn members(&self) -> Vec<Uuid> {
        self.queues.keys().copied().collect()
    }

    /// How many messages wait.
    pub(super) fn len(&self) -> usize {
        self.queues.values().map(|q| q.messages.len()).sum()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;
    use crate::wire::{self, Body};

    fn numbered(n: u32) -> Message {
        wire::Message::unicast(id(2), Body::bytes(n.to_be_bytes().to_vec())).into()
    }

    #[test]
    fn at_the_limit_nothing_is_dropped_and_one_more_drops_the_oldest() {
        let mut u = Unresolved::default();
        for n in 0..Unresolved::MAX_MESSAGES as u32 {
            assert_eq!(u.queue(id(2), numbered(n), 10, Time::ZERO), 0);
        }
        assert_eq!(u.queue(id(2), numbered(999), 10, Time::ZERO), 1);
        let first = u.release(id(2)).remove(0);
        assert_eq!(first.wire, numbered(1).wire);
    }

    #[test]
    fn one_message_of_any_size_may_wait() {
        let mut u = Unresolved::default();
        assert_eq!(u.queue(id(2), numbered(0), 2 * Unresolved::MAX_BYTES, Time::ZERO), 0);
        assert_eq!(u.queue(id(2), numbered(1), 10, Time::ZERO), 1);
        assert_eq!(u.len(), 1);
    }

    #[test]
    fn a_member_is_asked_for_once_per_two_seconds() {
        let mut u = Unresolved::default();
        u.queue(id(2), numbered(0), 10, Time::ZERO);
        assert!(u.ask(id(2), Time::ZERO));
        assert!(!u.ask(id(2), Time::ZERO + Duration::from_millis(1_999)));
        assert!(u.ask(id(2), Time::ZERO + Duration::from_secs(2)));
    }

    #[test]
    fn a_queue_is_dropped_after_a_minute() {
        let mut u = Unresolved::default();
        u.queue(id(2), numbered(0), 10, Time::ZERO);
        assert_eq!(u.expire(Time::ZERO + Duration::from_millis(59_999)), 0);
        assert_eq!(u.expire(Time::ZERO + Duration::from_secs(60)), 1);
        assert!(u.is_empty());
    }

    #[test]
    fn the_member_waited_for_longest_makes_room_for_another() {
        let mut u = Unresolved::default();
        for n in 0..Unresolved::MAX_MEMBERS as u64 {
            u.queue(id(n), numbered(0), 10, Time(n));
        }
        assert_eq!(u.queue(id(9_999), numbered(0), 10, Time(9_999)), 1);
        assert!(!u.members().contains(&id(0)));
    }
}
