//! NAKACK4's acknowledgements: receivers tell each sender what they have consumed; the sender drops
//! what every member of the view has acknowledged, and waits when too much is not.
//!
//! A new member counts as having acknowledged what was dropped before it came, so nothing more goes
//! until it speaks up. What its digest names must still be there then: between the digest and the
//! view the coordinator, which is asked to suspend stability, acknowledges and drops nothing, and
//! without its acknowledgement nobody else drops anything either.

use super::super::backlog::Backlog;
use super::super::intake::{Capacity, Intake, in_window};
use super::super::window::Window;
use super::ReliableMulticast;
use crate::event::Room;
use crate::wire::{self, Body, Flags, Header, header::NakAckHeader};
use crate::{
    Batch, Consumed, Cx, Dir, DropReason, Event, Flow, Message, Pool, Query, SendRefusal, Time,
    Trace, Uuid, View, tag,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The state of both halves.
#[derive(Debug)]
pub(super) struct Acks {
    capacity: Capacity,
    /// What each other member of the view has acknowledged of us.
    table: BTreeMap<Uuid, i64>,
    /// The same of ourselves: we get our own messages too.
    own: Intake,
    backlog: Backlog,
    /// All members acknowledge by bytes too.
    counts_bytes: bool,
    /// No flow control above sees to consumption.
    counts_consumption: bool,
    /// A joiner or a merge may still need what would be acknowledged or dropped.
    suspended_until: Option<Time>,
    last_epoch: u32,
    sent: u64,
    received: u64,
}

impl Acks {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            table: BTreeMap::new(),
            own: Intake::new(0, 0),
            backlog: Backlog::new(Pool::Multicast),
            counts_bytes: false,
            counts_consumption: true,
            suspended_until: None,
            last_epoch: 0,
            sent: 0,
            received: 0,
        }
    }

    pub(super) fn start(&mut self, cx: &Cx<'_>) {
        let credits = cx.ask_above(&Query::Credits(Pool::Multicast));
        self.counts_consumption = credits.is_none();
    }

    pub(super) fn stop(&mut self, cx: &mut Cx<'_>) {
        self.backlog.refuse(|_| Some(SendRefusal::Closed), cx);
    }

    fn is_suspended(&self, now: Time) -> bool {
        self.suspended_until.is_some_and(|until| now < until)
    }

    /// The account of messages of `src`; those of strangers are not passed on.
    fn pool(&self, src: Uuid, cx: &Cx<'_>) -> Option<Pool> {
        (self.counts_consumption && cx.is_member(src)).then_some(Pool::Multicast)
    }

    /// What our own calls may be given ahead of consumption.
    fn ahead(&self, cx: &Cx<'_>) -> Option<&Capacity> {
        cx.group().calls_pending.then_some(&self.capacity)
    }

    /// Who keeps the own window from moving on.
    fn blockers(&self, window: &Window, local: Uuid) -> Vec<Uuid> {
        let low = window.low();
        let behind = self.table.iter().filter(|(_, n)| **n <= low).map(|(m, _)| *m);
        let own = self.own.ackable(window.delivered(), None) <= low;
        own.then_some(local).into_iter().chain(behind).collect()
    }

    /// Whether nobody else lacks anything up to `seqno`.
    pub(super) fn all_others_have(&self, seqno: i64) -> bool {
        self.table.values().all(|n| *n >= seqno)
    }

    pub(super) fn inspect(&self, window: &Window, out: &mut dyn FnMut(&str, u64)) {
        out("acks_sent", self.sent);
        out("acks_received", self.received);
        out("num_unacked_messages", in_window(window));
        out("unconsumed_own_messages", self.own.unconsumed());
        self.backlog.inspect(out);
    }
}

impl ReliableMulticast {
    /// Whether a message may have a number now; else it waits, or is refused. What others wait for
    /// does not, and services of our own may fill as much again.
    pub(super) fn admit(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let Some(acks) = &mut self.acks else { return Flow::Pass };
        let window = &self.own.window;
        if acks.capacity.exempts(msg, in_window(window)) {
            return Flow::Pass;
        }
        let (messages, bytes) = acks.capacity.free(window, acks.counts_bytes);
        let room = messages > 0 && msg.length() as u64 <= bytes;
        let by = match room && acks.backlog.is_empty(None) {
            true => Vec::new(),
            false => acks.blockers(window, cx.local()),
        };
        acks.backlog.offer(None, msg, room, || by.clone(), cx)
    }

    /// The account of a new window.
    pub(super) fn new_intake(&mut self, delivered: i64) -> Intake {
        let Some(acks) = &mut self.acks else { return Intake::new(0, delivered) };
        acks.last_epoch = acks.last_epoch.wrapping_add(1);
        Intake::new(acks.last_epoch, delivered)
    }

    /// Batches of another member go up.
    pub(super) fn count_and_acknowledge<const N: usize>(
        &mut self,
        src: Uuid,
        batches: [&mut Batch; N],
        cx: &mut Cx<'_>,
    ) {
        let Some(acks) = &self.acks else { return };
        let Some(sender) = self.senders.get_mut(&src) else { return };
        let pool = acks.pool(src, cx);
        for b in batches {
            sender.intake.pass_up(b, pool);
        }
        self.acknowledge_if_due(src, cx);
    }

    /// A batch of our own messages goes up.
    pub(super) fn count_own(&mut self, batch: &mut Batch, cx: &Cx<'_>) {
        if let Some(acks) = &mut self.acks {
            let pool = acks.pool(batch.src, cx);
            acks.own.pass_up(batch, pool);
        }
    }

    /// The application consumed something.
    pub(super) fn consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if what.pool != Pool::Multicast {
            return;
        }
        let Some(acks) = &mut self.acks else { return };
        if what.from == cx.local() {
            acks.own.consumed(what);
            self.purge_own(cx);
        } else if let Some(sender) = self.senders.get_mut(&what.from) {
            sender.intake.consumed(what);
            self.acknowledge_if_due(what.from, cx);
        }
    }

    /// Tells `to` what we have of it, if it is enough; else in the next round.
    fn acknowledge_if_due(&mut self, to: Uuid, cx: &mut Cx<'_>) {
        let (Some(acks), Some(sender)) = (&self.acks, self.senders.get(&to)) else { return };
        let upto = sender.intake.ackable(sender.window.delivered(), acks.ahead(cx));
        if sender.intake.is_due(upto, &acks.capacity) && !acks.is_suspended(cx.now) {
            self.acknowledge(to, upto, cx);
        } else if sender.intake.has_news(upto) {
            self.schedule.tick_later(cx);
        }
    }

    fn acknowledge(&mut self, to: Uuid, upto: i64, cx: &mut Cx<'_>) {
        let (Some(acks), Some(sender)) = (&mut self.acks, self.senders.get_mut(&to)) else {
            return;
        };
        sender.intake.tell(upto);
        acks.sent += 1;
        let header = Header::NakAck(NakAckHeader::Ack(upto));
        let ack = wire::Message::unicast(to, Body::Empty).with_flags(Flags::OOB);
        cx.send_down(ack.with_header(self.settings.id, header));
    }

    /// A round is over: whoever does not know what we have is told.
    pub(super) fn acknowledge_all(&mut self, cx: &mut Cx<'_>) {
        let Some(acks) = &mut self.acks else { return };
        if acks.suspended_until.is_some() {
            if acks.is_suspended(cx.now) {
                return self.schedule.tick_later(cx);
            }
            acks.suspended_until = None;
            self.purge_own(cx);
        }
        let Some(acks) = &self.acks else { return };
        let ahead = acks.ahead(cx);
        let news = self.senders.iter().filter_map(|(m, s)| {
            let upto = s.intake.ackable(s.window.delivered(), ahead);
            s.intake.has_news(upto).then_some((*m, upto))
        });
        for (to, upto) in news.collect::<Vec<_>>() {
            self.acknowledge(to, upto, cx);
        }
    }

    /// `from` has everything of ours up to `upto`. Nobody but members of the view counts.
    pub(super) fn acknowledged(&mut self, from: Uuid, upto: i64, cx: &mut Cx<'_>) {
        let Some(acks) = &mut self.acks else { return };
        acks.received += 1;
        if upto > self.own.window.received() {
            return cx.drop_from_peer(DropReason::Malformed, Some(from));
        }
        match acks.table.get_mut(&from) {
            None => cx.drop_from_peer(DropReason::NotAMember, Some(from)),
            Some(known) if upto > *known => {
                *known = upto;
                self.purge_own(cx);
            }
            Some(_) => {}
        }
    }

    /// Drops what all have acknowledged; what waited for the room has it.
    pub(super) fn purge_own(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        loop {
            let Some(acks) = &mut self.acks else { return };
            let window = &mut self.own.window;
            let own = acks.own.ackable(window.delivered(), acks.ahead(cx));
            acks.own.tell(own);
            let least = acks.table.values().copied().min().map_or(own, |least| least.min(own));
            let moved = if acks.is_suspended(cx.now) { None } else { window.purge(least) };
            if let Some(upto) = moved {
                cx.trace(|| Trace::Purged { of: local, upto });
                self.resent.forget_upto(upto);
                for id in self.syncs.covered(upto) {
                    cx.raise(Dir::Up, Event::SyncCovered { id, by: None });
                }
            }
            let (messages, bytes) = acks.capacity.free(window, acks.counts_bytes);
            let fits = |m: &Message| messages > 0 && m.length() as u64 <= bytes;
            let Some(mut msg) = acks.backlog.release(None, fits, cx) else { return };
            self.number(&mut msg, cx);
            cx.send_down(msg);
        }
    }

    /// A view: members that left count no more, new ones from now on.
    pub(super) fn expect_acks(&mut self, v: &View, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(acks) = &mut self.acks else { return };
        let low = self.own.window.low();
        acks.table.retain(|m, _| v.contains(*m));
        for m in v.members.iter().filter(|m| **m != local) {
            acks.table.entry(*m).or_insert(low);
        }
        acks.counts_bytes = v.members.iter().all(|m| tag::is_rgroups(*m));
        if !acks.all_others_have(self.own.window.received()) {
            self.announce_again(cx);
        }
        self.purge_own(cx);
    }

    /// Events from above that concern acknowledgements.
    pub(super) fn hear_of_acks(&mut self, ev: &Event, cx: &mut Cx<'_>) {
        let Some(acks) = &mut self.acks else { return };
        match ev {
            Event::SuspendStable(time) => {
                acks.suspended_until = Some(cx.now + *time);
                // It may end by itself.
                self.schedule.tick_later(cx);
            }
            Event::ResumeStable => {
                acks.suspended_until = None;
                self.acknowledge_due(cx);
            }
            Event::CallsPending(true) => self.acknowledge_due(cx),
            Event::Withdraw { op, expired } => {
                let by = acks.blockers(&self.own.window, cx.local());
                acks.backlog.withdraw(*op, *expired, |_| by.clone(), cx);
                self.purge_own(cx);
            }
            _ => {}
        }
    }

    /// More may be acknowledged than a moment ago.
    fn acknowledge_due(&mut self, cx: &mut Cx<'_>) {
        for m in self.senders.keys().copied().collect::<Vec<_>>() {
            self.acknowledge_if_due(m, cx);
        }
        self.purge_own(cx);
    }

    /// Something has waited for long.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>) {
        let Some(acks) = &mut self.acks else { return };
        let by = acks.blockers(&self.own.window, cx.local());
        acks.backlog.report(|_| by.clone(), cx);
    }

    /// Whether a multicast may enter.
    pub(super) fn room(&self, length: u64, local: Uuid) -> Option<Room> {
        let acks = self.acks.as_ref()?;
        let window = &self.own.window;
        let by = || acks.blockers(window, local);
        Some(acks.backlog.room(None, acks.capacity.free(window, acks.counts_bytes), length, by))
    }
}
