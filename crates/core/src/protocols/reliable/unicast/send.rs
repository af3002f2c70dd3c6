//! The sending half of a connection: messages kept until acknowledged, sent again when asked for, and
//! the last one sent again when its acknowledgement is overdue, so that the receiver sees what it
//! misses (JGroups waits until nothing moved for a round, and one more if something did).

use super::super::retransmit::{MOST_RESENT, MOST_RESENT_BYTES};
use super::super::syncs::OwnSyncs;
use super::super::window::Window;
use super::{ReliableUnicast, Standing};
use crate::wire::{Flags, Header, SeqnoList, header::UnicastHeader};
use crate::{Cx, Dir, DropReason, Duration, Event, Message, Time, Trace, Uuid, tag};
use alloc::vec::Vec;

/// What we send to one peer.
#[derive(Debug)]
pub(super) struct SendConnection {
    pub(super) window: Window,
    pub(super) standing: Standing,
    conn_id: i16,
    /// Our messages that wait for acknowledgements; only of peers that may have no RSVP.
    syncs: OwnSyncs,
    /// The newest stamp seen; 0: none.
    stamp: i32,
    /// Since when the oldest unacknowledged message has been that.
    stuck_since: Time,
    used_at: Time,
    /// What was acknowledged a round ago.
    mark: i64,
}

impl SendConnection {
    fn new(conn_id: i16, now: Time) -> Self {
        Self {
            window: Window::for_sending(),
            standing: Standing::Open,
            conn_id,
            syncs: OwnSyncs::default(),
            stamp: 0,
            stuck_since: now,
            used_at: now,
            mark: 0,
        }
    }

    pub(super) fn has_unacknowledged(&self) -> bool {
        self.window.low() != self.window.received()
    }

    /// Whether the receiver should have acknowledged the last message by now. It does so within a
    /// round. While many are unacknowledged and that moves, they are on their way on a slow link:
    /// the receiver would have acknowledged them out of turn.
    fn is_overdue(&mut self, now: Time, interval: Duration, threshold: u32) -> bool {
        let low = self.window.low();
        let moved = core::mem::replace(&mut self.mark, low) != low;
        let many = self.window.received().wrapping_sub(low) > i64::from(threshold);
        !(moved && many) && now.since(self.used_at) >= interval + interval / 2
    }

    /// Whether a message with this stamp is newer than what was seen. Compared by difference: stamps
    /// wrap.
    fn is_fresh(&mut self, stamp: i32) -> bool {
        let fresh = self.stamp == 0 || stamp.wrapping_sub(self.stamp) > 0;
        if fresh {
            self.stamp = stamp;
        }
        fresh
    }
}

impl ReliableUnicast {
    /// Gives a message to `peer` its number and keeps a copy.
    pub(super) fn number(&mut self, peer: Uuid, msg: &mut Message, cx: &mut Cx<'_>) {
        let (id, next_conn_id) = (self.settings.id, &mut self.next_conn_id);
        let conn = self.sends.entry(peer).or_insert_with(|| {
            let conn_id = *next_conn_id;
            *next_conn_id = conn_id.wrapping_add(1) & i16::MAX;
            SendConnection::new(conn_id, cx.now)
        });
        if !conn.has_unacknowledged() {
            conn.stuck_since = cx.now;
        }
        conn.used_at = cx.now;
        conn.standing = Standing::Open;
        let conn_id = conn.conn_id;
        let seqno = conn.window.append(&mut msg.wire, |seqno, m| {
            let header = UnicastHeader::Data { seqno, conn_id, first: seqno == 1 };
            m.headers.put(id, Header::Unicast(header));
        });
        if !tag::is_rgroups(peer) {
            conn.syncs.note(&msg.wire, seqno);
        }
        self.counters.sent += 1;
        cx.trace(|| Trace::Unicast { to: peer, seqno });
        self.schedule.tick_later(cx);
        self.reap_later(cx);
    }

    /// `peer` has everything up to `seqno`.
    pub(super) fn acknowledged(
        &mut self,
        peer: Uuid,
        conn_id: i16,
        seqno: i64,
        stamp: i32,
        cx: &mut Cx<'_>,
    ) {
        self.counters.acks_received += 1;
        let conn = self.sends.get_mut(&peer).filter(|c| c.conn_id == conn_id);
        let Some(conn) = conn else {
            return cx.drop_from_peer(DropReason::Stale, Some(peer));
        };
        if !conn.is_fresh(stamp) {
            return cx.drop_from_peer(DropReason::Stale, Some(peer));
        }
        if conn.window.acknowledge(seqno) {
            conn.stuck_since = cx.now;
            for id in conn.syncs.covered(seqno) {
                cx.raise(Dir::Up, Event::SyncCovered { id, by: Some(peer) });
            }
            self.pump(peer, cx);
        }
    }

    /// `peer` does not know our connection: it is started again, from the first message that is not
    /// acknowledged.
    pub(super) fn send_first(&mut self, peer: Uuid, stamp: i32, cx: &mut Cx<'_>) {
        let Some(conn) = self.sends.get_mut(&peer).filter(|c| c.has_unacknowledged()) else {
            return cx.drop_from_peer(DropReason::Stale, Some(peer));
        };
        if !conn.is_fresh(stamp) {
            return cx.drop_from_peer(DropReason::Stale, Some(peer));
        }
        let seqno = conn.window.low().wrapping_add(1);
        let header = UnicastHeader::Data { seqno, conn_id: conn.conn_id, first: true };
        let Some(first) = conn.window.get(seqno) else { return };
        let mut first = Message::from(first);
        first.headers.put(self.settings.id, Header::Unicast(header));
        self.resend(peer, seqno, first, cx);
    }

    /// `peer` misses these.
    pub(super) fn serve(&mut self, peer: Uuid, list: Option<&SeqnoList>, cx: &mut Cx<'_>) {
        self.requests.requests_received += 1;
        let Some(list) = list else {
            return cx.drop_from_peer(DropReason::Malformed, Some(peer));
        };
        let Some(conn) = self.sends.get(&peer) else {
            return cx.drop_from_peer(DropReason::Stale, Some(peer));
        };
        let mut bytes = 0;
        let mut again = Vec::new();
        for seqno in list.iter().take(MOST_RESENT) {
            if let Some(m) = conn.window.get(seqno) {
                if !self.served.admits(m.length(), cx.now) {
                    break;
                }
                bytes += m.length();
                again.push((seqno, Message::from(m)));
            }
            if bytes > MOST_RESENT_BYTES {
                break;
            }
        }
        for (seqno, m) in again {
            self.resend(peer, seqno, m, cx);
        }
    }

    fn resend(&mut self, to: Uuid, seqno: i64, m: Message, cx: &mut Cx<'_>) {
        self.requests.resend(Some(to), cx.local(), seqno, m, cx);
    }

    /// The highest number goes out again wherever its acknowledgement is overdue. Peers that are not in
    /// the view and stay silent are given up.
    pub(super) fn resend_unacknowledged(&mut self, cx: &mut Cx<'_>) {
        let give_up = self.settings.max_retransmit_time;
        let (interval, threshold) = (self.settings.xmit_interval, self.settings.ack_threshold);
        let mut again = Vec::new();
        let mut given_up = 0;
        let mut waiting = false;
        self.sends.retain(|peer, conn| {
            if !conn.has_unacknowledged() {
                return true;
            }
            if !cx.is_member(*peer) && cx.now.since(conn.stuck_since) >= give_up {
                given_up += conn.window.messages();
                return false;
            }
            waiting = true;
            let last = conn.window.received();
            if conn.is_overdue(cx.now, interval, threshold) {
                again.extend(conn.window.get(last).map(|m| (*peer, last, m)));
            }
            true
        });
        self.counters.given_up += given_up;
        for (peer, seqno, m) in again {
            self.resend(peer, seqno, m.into(), cx);
        }
        if waiting {
            self.schedule.tick_later(cx);
        }
    }

    /// Removes connections that are over; members are told, so that they forget theirs too.
    pub(super) fn reap_sends(&mut self, cx: &mut Cx<'_>) {
        let idle = self.settings.conn_expiry_timeout;
        let over: Vec<(Uuid, i16)> = self
            .sends
            .iter()
            .filter(|(_, c)| !c.has_unacknowledged())
            .filter(|(_, c)| self.is_over(c.standing, c.used_at, idle, cx.now))
            .map(|(m, c)| (*m, c.conn_id))
            .collect();
        for (peer, conn_id) in over {
            self.sends.remove(&peer);
            if cx.is_member(peer) {
                let close = UnicastHeader::Close { conn_id };
                cx.send_down(self.control(peer, Flags::NO_FC, close));
            }
        }
    }
}
