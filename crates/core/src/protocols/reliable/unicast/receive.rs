//! The receiving half of a connection: into the window and up in order, acknowledged when enough
//! came or the round is over, asked for when missing.

use super::super::intake::Intake;
use super::super::retransmit;
use super::super::syncs::{self, Arrivals, Mark};
use super::super::window::{Limits, Taken, Window};
use super::aside::Offered;
use super::{ReliableUnicast, Standing, header};
use crate::event::WindowKind;
use crate::protocols::gms::holding_cost;
use crate::wire::{Flags, Header, ProtId, header::UnicastHeader};
use crate::{Answer, Batch, Cx, Dir, DropReason, Duration, Event, Message, Query, Time, Uuid};
use alloc::vec::Vec;

/// What one peer sends us.
#[derive(Debug)]
pub(super) struct ReceiveConnection {
    pub(super) window: Window,
    pub(super) standing: Standing,
    /// What the application has consumed of it, in the dialect that acknowledges that.
    pub(super) intake: Intake,
    /// When the sender was last allowed more.
    pub(super) moved_at: Time,
    conn_id: i16,
    /// Synchronous messages of it of which not every fragment is here.
    arrivals: Arrivals,
    /// One of them came in this batch.
    awaited: bool,
    /// Messages since the last acknowledgement.
    unacknowledged: u32,
    /// Their payload bytes.
    unacknowledged_bytes: u64,
    used_at: Time,
}

impl ReceiveConnection {
    /// Whether the sender is to be told something: where windows are bounded, only what it does not
    /// know.
    fn owes(&self, upto: i64, bounded: bool) -> bool {
        self.intake.has_news(upto) || (!bounded && self.unacknowledged > 0)
    }

    /// The window took a message that `peer` waits for.
    fn arrived(&mut self, peer: Uuid, mark: Mark, cx: &mut Cx<'_>) {
        self.awaited = true;
        if let Some(id) = self.arrivals.note(mark) {
            cx.raise(Dir::Up, Event::SyncArrived { from: peer, id });
        }
    }
}

/// Payload bytes of one sender after which it is told at once, however few messages they are: what it
/// keeps until then comes on top of its credit.
const ACK_BYTES: u64 = 32_000;
/// What a waiting message counts beside its payload when the room above is reckoned.
const PER_MESSAGE: u64 = 128;
/// Bytes per peer that may wait for their turn.
const HELD: u64 = 64_000_000;
/// Connections; above it no new ones of peers that are not in the view.
const MOST_CONNECTIONS: usize = 8192;
/// A message of an older connection within this time is a late copy. After it, the peer has lost its
/// count of connections, or gone through all numbers.
const LATE_COPIES: Duration = Duration::from_secs(10);

/// Which connection a message belongs to.
enum Belongs {
    /// The one we know.
    Here,
    /// One that begins with it.
    Begins,
    /// A newer one whose beginning is missing.
    BeginningMissed,
    /// An older one.
    Past,
}

/// How much more of a peer can be kept above until a view contains it.
enum Room {
    /// It is in the view.
    Unlimited,
    Bytes(u64),
}

impl Room {
    /// Whether there is room for `m`, which takes it. Messages of GMS are not kept there.
    fn admits(&mut self, m: &Message) -> bool {
        let Room::Bytes(left) = self else { return true };
        if m.headers.get(ProtId::GMS).is_some() {
            return true;
        }
        let rest = left.checked_sub(holding_cost(m));
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }
}

/// Whether connection `id` was opened after `than`: numbers have 15 bits and wrap.
fn is_newer(id: i16, than: i16) -> bool {
    let ahead = id.wrapping_sub(than) & i16::MAX;
    ahead != 0 && ahead < 1 << 14
}

impl ReliableUnicast {
    /// Unicasts of another member. What stays in the batch is delivered by the caller.
    pub(super) fn receive(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (peer, id) = (batch.src, self.settings.id);
        let mut early = Batch::new(peer, false, true);
        let mut data = false;
        let mut room = self.room_above(peer, cx);
        batch.retain(|m| match header(m, id) {
            None => true,
            Some(UnicastHeader::Data { .. }) if !room.admits(m) => {
                // Not acknowledged, so its sender sends it again.
                cx.drop_from_peer(DropReason::OverLimit, Some(peer));
                false
            }
            Some(UnicastHeader::Data { seqno, conn_id, first }) => {
                data = true;
                match self.belongs(peer, conn_id, first, cx.now) {
                    Belongs::Here => self.take_in(peer, seqno, m, cx),
                    Belongs::Begins => {
                        self.begin(peer, (conn_id, seqno), m, &mut early, &mut room, cx)
                    }
                    Belongs::BeginningMissed => {
                        self.set_aside(peer, conn_id, seqno, m, cx);
                        false
                    }
                    Belongs::Past => {
                        cx.drop_from_peer(DropReason::Stale, Some(peer));
                        false
                    }
                }
            }
            Some(UnicastHeader::Ack { seqno, conn_id, timestamp }) => {
                self.acknowledged(peer, conn_id, seqno, timestamp, cx);
                false
            }
            Some(UnicastHeader::SendFirstSeqno { timestamp }) => {
                self.send_first(peer, timestamp, cx);
                false
            }
            Some(UnicastHeader::XmitReq) => {
                self.serve(peer, retransmit::requested(m), cx);
                false
            }
            Some(UnicastHeader::Close { conn_id }) => {
                self.closed(peer, conn_id);
                false
            }
        });
        if data {
            self.finish(batch, early, cx);
        }
    }

    /// What the layers above can keep of `peer`, beside what waits here for its turn.
    fn room_above(&self, peer: Uuid, cx: &Cx<'_>) -> Room {
        if cx.is_member(peer) {
            return Room::Unlimited;
        }
        let waiting = |w: &Window| w.bytes() + w.messages() * PER_MESSAGE;
        let coming = self.receives.get(&peer).map_or(0, |c| waiting(&c.window));
        let strangers = self.receives.iter().filter(|(m, _)| !cx.is_member(**m));
        let coming_in_all = strangers.map(|(_, c)| waiting(&c.window)).sum();
        match cx.ask_above(&Query::HoldRoom { from: peer, coming, coming_in_all }) {
            Some(Answer::Bytes(bytes)) => Room::Bytes(bytes),
            _ => Room::Unlimited,
        }
    }

    fn belongs(&self, peer: Uuid, conn_id: i16, first: bool, now: Time) -> Belongs {
        match self.receives.get(&peer) {
            Some(c) if c.conn_id == conn_id => Belongs::Here,
            Some(c) if !is_newer(conn_id, c.conn_id) && now.since(c.used_at) < LATE_COPIES => {
                Belongs::Past
            }
            Some(_) | None if first => Belongs::Begins,
            Some(_) | None => Belongs::BeginningMissed,
        }
    }

    /// A message of the known connection. True if it is to be delivered in its place.
    fn take_in(&mut self, peer: Uuid, seqno: i64, m: &mut Message, cx: &mut Cx<'_>) -> bool {
        let Some(conn) = self.receives.get_mut(&peer) else { return false };
        conn.used_at = cx.now;
        conn.standing = Standing::Open;
        let bytes = m.length() as u64;
        let mark = syncs::mark(m);
        let taken = conn.window.take_in(seqno, m, cx.now, &mut self.parking);
        match taken {
            Taken::Deliver | Taken::Held => {
                conn.unacknowledged += 1;
                conn.unacknowledged_bytes += bytes;
                if let Some(mark) = mark {
                    conn.arrived(peer, mark, cx);
                }
            }
            Taken::Refused(DropReason::OverLimit) => {}
            // A copy: the sender does not know that we have it, so it is told at once.
            Taken::Refused(_) => {
                conn.unacknowledged = self.settings.ack_threshold;
                conn.intake.owe();
            }
        }
        match taken {
            Taken::Deliver => {
                self.counters.received += 1;
                true
            }
            Taken::Held => false,
            Taken::Refused(why) => {
                cx.drop_from_peer(why, Some(peer));
                false
            }
        }
    }

    /// A connection begins with `m`; what waited for it follows.
    fn begin(
        &mut self,
        peer: Uuid,
        (conn_id, seqno): (i16, i64),
        m: &mut Message,
        early: &mut Batch,
        room: &mut Room,
        cx: &mut Cx<'_>,
    ) -> bool {
        let known = self.receives.contains_key(&peer) || cx.is_member(peer);
        if !known && self.receives.len() >= MOST_CONNECTIONS {
            cx.drop_from_peer(DropReason::OverLimit, Some(peer));
            return false;
        }
        let limits = Limits { held: HELD, kept: None };
        let intake = self.new_intake(seqno.wrapping_sub(1));
        let conn = ReceiveConnection {
            intake,
            moved_at: cx.now,
            window: Window::new(seqno.wrapping_sub(1), limits),
            standing: Standing::Open,
            conn_id,
            arrivals: Arrivals::default(),
            awaited: false,
            unacknowledged: 0,
            unacknowledged_bytes: 0,
            used_at: cx.now,
        };
        self.receives.insert(peer, conn);
        let deliver = self.take_in(peer, seqno, m, cx);
        for (seqno, mut m) in self.aside.take(peer, conn_id) {
            if !room.admits(&m) {
                cx.drop_from_peer(DropReason::OverLimit, Some(peer));
                continue;
            }
            let Some(conn) = self.receives.get_mut(&peer) else { break };
            if m.has(Flags::OOB) {
                if self.take_in(peer, seqno, &mut m, cx) {
                    early.push(m);
                }
            } else {
                if let Some(mark) = syncs::mark(&m) {
                    conn.arrived(peer, mark, cx);
                }
                // It must not be delivered ahead of `m`, which is still on its way up.
                let _ = conn.window.hold_arrival(seqno, &mut m, cx.now, &mut self.parking);
                conn.unacknowledged += 1;
            }
        }
        self.reap_later(cx);
        deliver
    }

    fn set_aside(
        &mut self,
        peer: Uuid,
        conn_id: i16,
        seqno: i64,
        m: &mut Message,
        cx: &mut Cx<'_>,
    ) {
        let pause = self.settings.sync_min_interval;
        self.parking.park(m);
        let offered = self.aside.offer(peer, conn_id, seqno, m, cx.now, pause);
        if matches!(offered, Offered::Full | Offered::FullAndAsk) {
            cx.drop_from_peer(DropReason::OverLimit, Some(peer));
        }
        if matches!(offered, Offered::Ask | Offered::FullAndAsk) {
            let timestamp = self.next_stamp();
            let ask = UnicastHeader::SendFirstSeqno { timestamp };
            self.counters.first_asked += 1;
            cx.send_down(self.control(peer, Flags::OOB | Flags::NO_FC, ask));
        }
        self.reap_later(cx);
    }

    /// Messages arrived: what is ready follows, and the sender is told, now or soon.
    fn finish(&mut self, batch: &mut Batch, mut early: Batch, cx: &mut Cx<'_>) {
        let peer = batch.src;
        let Some(conn) = self.receives.get_mut(&peer) else { return };
        let mut released = Batch::new(peer, false, false);
        while let Some(m) = conn.window.release() {
            self.counters.received += 1;
            let to = if m.has(Flags::OOB) {
                &mut early
            } else if batch.oob {
                &mut released
            } else {
                &mut *batch
            };
            to.push(m.into());
        }
        if core::mem::take(&mut conn.awaited) {
            conn.window.gaps.hurry();
        }
        self.schedule.watch(&conn.window.gaps, cx);
        self.count(peer, [&mut early, &mut released, batch], cx);
        self.acknowledge_if_due(peer, cx);
        cx.deliver_up(early);
        cx.deliver_up(released);
    }

    fn closed(&mut self, peer: Uuid, conn_id: i16) {
        if self.receives.get(&peer).is_some_and(|c| c.conn_id == conn_id) {
            self.receives.remove(&peer);
        }
    }

    /// Tells `peer` what we have of it, if it is enough or asked for; else in the next round.
    pub(super) fn acknowledge_if_due(&mut self, peer: Uuid, cx: &mut Cx<'_>) {
        let Some(conn) = self.receives.get(&peer) else { return };
        let upto = self.ackable(conn, cx);
        let due = match &self.settings.capacity {
            None => {
                conn.unacknowledged >= self.settings.ack_threshold
                    || conn.unacknowledged_bytes >= ACK_BYTES
            }
            Some(c) => conn.intake.is_due(upto, c) || conn.intake.is_owed(),
        };
        if due {
            self.acknowledge(peer, cx);
        } else if conn.owes(upto, self.settings.capacity.is_some()) || self.may_give_up(peer) {
            self.schedule.tick_later(cx);
        }
    }

    /// The highest number that may be acknowledged.
    fn ackable(&self, conn: &ReceiveConnection, cx: &Cx<'_>) -> i64 {
        let ahead = self.settings.capacity.as_ref().filter(|_| cx.group().calls_pending);
        conn.intake.ackable(conn.window.delivered(), ahead)
    }

    /// Tells `peer` what we have of it.
    fn acknowledge(&mut self, peer: Uuid, cx: &mut Cx<'_>) {
        let timestamp = self.next_stamp();
        let Some(conn) = self.receives.get(&peer) else { return };
        let seqno = self.ackable(conn, cx);
        let Some(conn) = self.receives.get_mut(&peer) else { return };
        conn.unacknowledged = 0;
        conn.unacknowledged_bytes = 0;
        if conn.intake.tell(seqno) {
            conn.moved_at = cx.now;
        }
        let conn_id = conn.conn_id;
        self.counters.acks_sent += 1;
        let ack = UnicastHeader::Ack { seqno, conn_id, timestamp };
        cx.send_down(self.control(peer, Flags::NO_FC, ack));
    }

    /// Acknowledges whatever has not been.
    pub(super) fn acknowledge_all(&mut self, cx: &mut Cx<'_>) {
        let bounded = self.settings.capacity.is_some();
        let owed = self.receives.iter().filter(|(_, c)| c.owes(self.ackable(c, cx), bounded));
        for peer in owed.map(|(m, _)| *m).collect::<Vec<_>>() {
            self.acknowledge(peer, cx);
        }
    }

    /// Asks for what is missing: early, or in the round. Who is in no view and silent is not asked
    /// for ever: it has left, or died.
    pub(super) fn request_missing(&mut self, cx: &mut Cx<'_>, early: bool) {
        let (now, patience) = (cx.now, self.settings.max_retransmit_time);
        self.receives.retain(|peer, conn| {
            let silent = now.since(conn.used_at) >= patience || conn.standing.is_past(now);
            cx.is_member(*peer) || conn.window.gaps.is_empty() || !silent
        });
        let mut requests = Vec::new();
        for (peer, conn) in &mut self.receives {
            let lists = self.schedule.due(&mut conn.window.gaps, early, cx.now);
            let window = (WindowKind::UnicastReceive, conn.window.delivered());
            requests.extend(lists.into_iter().map(|l| (*peer, window, l)));
        }
        for (peer, window, list) in requests {
            let header = Header::Unicast(UnicastHeader::XmitReq);
            self.requests.request(peer, peer, (self.settings.id, header), list, window, cx);
        }
        for conn in self.receives.values() {
            self.schedule.watch(&conn.window.gaps, cx);
        }
    }

    /// Removes connections that are over: longer idle than the sender, who closes first.
    pub(super) fn reap_receives(&mut self, now: Time) {
        let idle = self.settings.conn_expiry_timeout * 2;
        let over: Vec<Uuid> = self
            .receives
            .iter()
            // Its sender would begin the connection again with what it delivered already.
            .filter(|(_, c)| c.intake.unconsumed() == 0)
            .filter(|(_, c)| self.is_over(c.standing, c.used_at, idle, now))
            .map(|(m, _)| *m)
            .collect();
        for peer in over {
            self.receives.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_number_that_wrapped_is_newer() {
        assert!(is_newer(1, 0) && is_newer(0, i16::MAX) && is_newer(5, i16::MAX - 5));
        assert!(!is_newer(0, 0) && !is_newer(0, 1) && !is_newer(i16::MAX, 0));
    }
}
