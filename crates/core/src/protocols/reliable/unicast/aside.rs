//! Messages of connections whose beginning has not arrived: they wait until it does.

use crate::{Message, Time, Uuid};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// Messages per peer that wait.
const MOST: usize = 256;
/// Payload bytes per peer that wait.
const MOST_BYTES: usize = 2_000_000;
/// Peers whose messages wait.
const MOST_PEERS: usize = 256;

/// Payload bytes of all peers that wait.
const MOST_BYTES_IN_ALL: usize = 32_000_000;

/// What waits, by peer.
#[derive(Debug, Default)]
pub(super) struct Aside {
    peers: BTreeMap<Uuid, Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    conn_id: i16,
    messages: Vec<(i64, Message)>,
    bytes: usize,
    asked_at: Option<Time>,
    since: Time,
}

/// What to do about a message that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// It waits, or waited already; ask for the first message.
    Ask,
    /// It waits; the first message was asked for a moment ago.
    Wait,
    /// There is no room for it.
    Full,
    /// There is no room for it, and the first message is to be asked for again: only what it begins
    /// makes room.
    FullAndAsk,
}

impl Aside {
    /// Offers message `seqno` of connection `conn_id`. Messages of another connection of the same
    /// peer are dropped: only the newest counts.
    pub(super) fn offer(
        &mut self,
        peer: Uuid,
        conn_id: i16,
        seqno: i64,
        m: &mut Message,
        now: Time,
        pause: Duration,
    ) -> Offered {
        if !self.peers.contains_key(&peer) && self.peers.len() >= MOST_PEERS {
            return Offered::Full;
        }
        let new =
            || Waiting { conn_id, messages: Vec::new(), bytes: 0, asked_at: None, since: now };
        let w = self.peers.entry(peer).or_insert_with(new);
        if w.conn_id != conn_id {
            self.bytes -= w.bytes;
            *w = Waiting { asked_at: w.asked_at, ..new() };
        }
        let bytes = m.length();
        let known = w.messages.iter().any(|(n, _)| *n == seqno);
        let full = w.messages.len() >= MOST || w.bytes + bytes > MOST_BYTES;
        let full = !known && (full || self.bytes + bytes > MOST_BYTES_IN_ALL);
        if !known && !full {
            self.bytes += bytes;
            w.bytes += bytes;
            w.messages.push((seqno, core::mem::take(m)));
        }
        let asks = w.asked_at.is_none_or(|at| now.since(at) >= pause);
        if asks {
            w.asked_at = Some(now);
        }
        match (full, asks) {
            (false, true) => Offered::Ask,
            (false, false) => Offered::Wait,
            (true, true) => Offered::FullAndAsk,
            (true, false) => Offered::Full,
        }
    }

    /// The messages of connection `conn_id`, which has begun. Those of others are dropped.
    pub(super) fn take(&mut self, peer: Uuid, conn_id: i16) -> Vec<(i64, Message)> {
        let Some(w) = self.peers.remove(&peer) else { return Vec::new() };
        self.bytes -= w.bytes;
        if w.conn_id == conn_id { w.messages } else { Vec::new() }
    }

    /// Drops what waits for longer than `limit`.
    pub(super) fn expire(&mut self, now: Time, limit: Duration) {
        self.peers.retain(|_, w| {
            let keep = now.since(w.since) < limit;
            self.bytes -= if keep { 0 } else { w.bytes };
            keep
        });
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_no_room_left_the_first_message_is_still_asked_for() {
        let mut aside = Aside::default();
        let pause = Duration::from_millis(10);
        let mut offer = |n: i64, now| {
            let mut m = Message::from(crate::wire::Message::default());
            aside.offer(Uuid::new(1, 1), 1, n, &mut m, now, pause)
        };
        assert_eq!(offer(2, Time::ZERO), Offered::Ask);
        for n in 3..=257 {
            assert_eq!(offer(n, Time::ZERO), Offered::Wait);
        }
        assert_eq!(offer(258, Time::ZERO), Offered::Full);
        assert_eq!(offer(258, Time::ZERO + pause), Offered::FullAndAsk);
        assert_eq!(offer(259, Time::ZERO + pause), Offered::Full);
    }
}
