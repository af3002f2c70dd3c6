//! UNICAST4's bounds: a sender waits when too much is not acknowledged, and what is acknowledged is
//! what the application has consumed. Messages to ourselves have no window; they are bounded by what
//! of them is not consumed.

use super::super::backlog::Backlog;
use super::super::intake::{Capacity, Intake, in_window};
use super::{ReceiveConnection, ReliableUnicast};
use crate::event::Room;
use crate::{
    Batch, Consumed, Cx, Duration, Event, Flow, Group, Message, Pool, Query, SendRefusal, Uuid,
    View, tag,
};
use alloc::vec::Vec;

/// What bounds all connections of one member.
#[derive(Debug)]
pub(super) struct Bounds {
    capacity: Capacity,
    backlog: Backlog,
    /// Our own messages to ourselves.
    own: Intake,
    /// No flow control above sees to consumption.
    counts_consumption: bool,
    last_epoch: u32,
}

impl Bounds {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            backlog: Backlog::new(Pool::Unicast),
            own: Intake::new(0, 0),
            counts_consumption: true,
            last_epoch: 0,
        }
    }

    pub(super) fn start(&mut self, cx: &Cx<'_>) {
        self.counts_consumption = cx.ask_above(&Query::Credits(Pool::Unicast)).is_none();
    }

    /// The account of messages of `src`. Those of strangers wait below the application, within a
    /// limit of their own.
    fn pool(&self, src: Uuid, cx: &Cx<'_>) -> Option<Pool> {
        (self.counts_consumption && cx.is_member(src)).then_some(Pool::Unicast)
    }

    fn next_epoch(&mut self) -> u32 {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        self.last_epoch
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("unconsumed_own_messages", self.own.unconsumed());
        self.backlog.inspect(out);
    }
}

/// How often a JGroups sender may send a message that there is no room for.
const ALIVE: Duration = Duration::from_secs(5);

/// Who limits messages to `peer`: nobody but it.
fn only(peer: Option<Uuid>) -> Vec<Uuid> {
    peer.into_iter().collect()
}

impl ReliableUnicast {
    /// Messages and bytes that may still be sent to `peer` before something of it is acknowledged.
    fn free(&self, bounds: &Bounds, peer: Uuid, group: &Group) -> (u64, u64) {
        if peer == group.local {
            return bounds.own.free(&bounds.capacity, group.calls_pending);
        }
        match self.sends.get(&peer) {
            Some(conn) => bounds.capacity.free(&conn.window, tag::is_rgroups(peer)),
            None => (u64::from(bounds.capacity.messages), u64::MAX),
        }
    }

    /// Whether a message may have a number now; else it waits, or is refused. Strangers, to which
    /// only the membership speaks, are not bounded.
    pub(super) fn admit(&mut self, peer: Uuid, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let Some(bounds) = &self.bounds else { return Flow::Pass };
        let unacknowledged = self.sends.get(&peer).map_or(0, |c| in_window(&c.window));
        if !cx.is_member(peer) || bounds.capacity.exempts(msg, unacknowledged) {
            return Flow::Pass;
        }
        let (messages, bytes) = self.free(bounds, peer, cx.group());
        let room = messages > 0 && msg.length() as u64 <= bytes;
        let Some(bounds) = &mut self.bounds else { return Flow::Pass };
        bounds.backlog.offer(Some(peer), msg, room, || only(Some(peer)), cx)
    }

    /// Sends what waits for `peer`, as far as there is room.
    pub(super) fn pump(&mut self, peer: Uuid, cx: &mut Cx<'_>) {
        // What goes to ourselves is counted when it comes back.
        let mut looping = (0, 0);
        loop {
            let Some(bounds) = &self.bounds else { return };
            let (messages, bytes) = self.free(bounds, peer, cx.group());
            let fits = |m: &Message| {
                messages > looping.0 && m.length() as u64 <= bytes.saturating_sub(looping.1)
            };
            let Some(bounds) = &mut self.bounds else { return };
            let Some(mut msg) = bounds.backlog.release(Some(peer), fits, cx) else { return };
            if peer == cx.local() {
                looping.0 += 1;
                looping.1 += msg.length() as u64;
            } else {
                self.number(peer, &mut msg, cx);
            }
            cx.send_down(msg);
        }
    }

    /// Whether `peer` waits for our application, and gives up when that takes long: JGroups removes
    /// a connection on which it could send nothing for 20 s, and loses the message that waited.
    pub(super) fn may_give_up(&self, peer: Uuid) -> bool {
        let waits = |c: &ReceiveConnection| c.intake.unconsumed() > 0;
        self.bounds.is_some()
            && !tag::is_rgroups(peer)
            && self.receives.get(&peer).is_some_and(waits)
    }

    /// Senders that may give up are allowed a message now and then.
    pub(super) fn keep_senders_alive(&mut self, cx: &mut Cx<'_>) {
        let Some(bounds) = &self.bounds else { return };
        for (peer, conn) in &mut self.receives {
            if tag::is_rgroups(*peer) || conn.intake.unconsumed() == 0 {
                continue;
            }
            if cx.now.since(conn.moved_at) >= ALIVE {
                conn.intake.grant_one(&bounds.capacity);
                conn.moved_at = cx.now;
            }
            self.schedule.tick_later(cx);
        }
    }

    /// The account of a new connection.
    pub(super) fn new_intake(&mut self, delivered: i64) -> Intake {
        Intake::new(self.bounds.as_mut().map_or(0, Bounds::next_epoch), delivered)
    }

    /// Batches of another member go up.
    pub(super) fn count<const N: usize>(
        &mut self,
        peer: Uuid,
        batches: [&mut Batch; N],
        cx: &Cx<'_>,
    ) {
        let Some(bounds) = &self.bounds else { return };
        let Some(conn) = self.receives.get_mut(&peer) else { return };
        for b in batches {
            conn.intake.pass_up(b, bounds.pool(peer, cx));
        }
    }

    /// Our own messages to ourselves go up.
    pub(super) fn count_own(&mut self, batch: &mut Batch, cx: &Cx<'_>) {
        if let Some(bounds) = &mut self.bounds {
            let pool = bounds.pool(batch.src, cx);
            bounds.own.pass_up(batch, pool);
        }
    }

    /// The application consumed something.
    pub(super) fn consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if what.pool != Pool::Unicast {
            return;
        }
        let Some(bounds) = &mut self.bounds else { return };
        if what.from == cx.local() {
            bounds.own.consumed(what);
            self.pump(what.from, cx);
        } else if let Some(conn) = self.receives.get_mut(&what.from) {
            conn.intake.consumed(what);
            self.acknowledge_if_due(what.from, cx);
        }
    }

    /// A view: nothing waits for a member that left, and what it sent is not counted any more, since
    /// not all of it will reach the application.
    pub(super) fn bound_by(&mut self, v: &View, cx: &mut Cx<'_>) {
        let Some(bounds) = &mut self.bounds else { return };
        let gone =
            |dest: Option<Uuid>| dest.filter(|d| !v.contains(*d)).map(SendRefusal::NotMember);
        bounds.backlog.refuse(gone, cx);
        let strangers: Vec<Uuid> =
            self.receives.keys().copied().filter(|m| !v.contains(*m)).collect();
        for m in strangers {
            let Some(conn) = self.receives.get_mut(&m) else { continue };
            if conn.intake.unconsumed() > 0 {
                conn.intake.renew(bounds.next_epoch());
                self.schedule.tick_later(cx);
            }
        }
    }

    /// Events from above that concern the bounds.
    pub(super) fn hear_of_bounds(&mut self, ev: &Event, cx: &mut Cx<'_>) {
        let Some(bounds) = &mut self.bounds else { return };
        match ev {
            Event::CallsPending(true) => {
                for m in self.receives.keys().copied().collect::<Vec<_>>() {
                    self.acknowledge_if_due(m, cx);
                }
                self.pump(cx.local(), cx);
            }
            Event::Withdraw { op, expired } => {
                bounds.backlog.withdraw(*op, *expired, only, cx);
                // The next in its line may be smaller.
                for m in cx.group().members().to_vec() {
                    self.pump(m, cx);
                }
            }
            _ => {}
        }
    }

    pub(super) fn refuse_all(&mut self, cx: &mut Cx<'_>) {
        if let Some(bounds) = &mut self.bounds {
            bounds.backlog.refuse(|_| Some(SendRefusal::Closed), cx);
        }
    }

    /// Something has waited for long.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>) {
        if let Some(bounds) = &mut self.bounds {
            bounds.backlog.report(only, cx);
        }
    }

    /// Whether a message to `peer` may enter.
    pub(super) fn room(&self, peer: Uuid, length: u64, group: &Group) -> Option<Room> {
        let bounds = self.bounds.as_ref()?;
        let free = self.free(bounds, peer, group);
        Some(bounds.backlog.room(Some(peer), free, length, || only(Some(peer))))
    }
}
