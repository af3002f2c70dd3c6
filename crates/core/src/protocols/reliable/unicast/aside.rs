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
    /// There is no room.
    Full,
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
        if w.messages.iter().all(|(n, _)| *n != seqno) {
            let bytes = m.length();
            let full = w.messages.len() >= MOST || w.bytes + bytes > MOST_BYTES;
            if full || self.bytes + bytes > MOST_BYTES_IN_ALL {
                return Offered::Full;
            }
            self.bytes += bytes;
            w.bytes += bytes;
            w.messages.push((seqno, core::mem::take(m)));
        }
        if w.asked_at.is_some_and(|at| now.since(at) < pause) {
            return Offered::Wait;
        }
        w.asked_at = Some(now);
        Offered::Ask
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
