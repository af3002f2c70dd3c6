//! SEQUENCER: one order of all multicasts (WIRE §22.1).
//!
//! Members forward what they multicast to the first member of the view, which multicasts it to all:
//! its stream is the order. Everybody delivers that stream, unwrapped, as messages of those who sent
//! them. What a member has forwarded it keeps until it comes back; when the sequencer changes, what
//! has not come back is forwarded to the next one, in order and before anything new, and receivers
//! know by the senders' own numbers what they have delivered ([`seen`]).
//!
//! That the survivors of a sequencer have all delivered the same part of its stream is the work of
//! tail repair, below. Here the streams of two sequencers are kept apart: what a member orders
//! before the view in which it does so is installed waits for that view ([`delivering`]), and so
//! does what is forwarded to it ([`ordering`]).
//!
//! Flow control holds end to end: a forwarded message counts as consumed when it has left again, and
//! the sequencer sends what its slowest receiver has credit for. Of what waits, one message at most
//! is in the line of flow control, so that the rest can be taken back ([`forwarding`]).

mod delivering;
mod forwarding;
mod leaving;
mod ordering;
mod seen;
#[cfg(test)]
mod tests;

use crate::event::Room;
use crate::protocols::flow::RefusedWhole;
use crate::wire::header::{SequencerHeader, SequencerKind};
use crate::wire::{self, Flags, Header, Hints, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, Protocol, Query,
    SendRefusal, Service, Spec, TimerKey, Traffic, Uuid, View, tag,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use delivering::Delivering;
use forwarding::{Own, Pace};
use leaving::{LEAVE, Leave};
use ordering::{Forwarded, Ordering};

crate::attributes! {
    /// Total order of multicasts (`SEQUENCER`).
    pub struct SequencerConfig for "SEQUENCER" {
        /// How many numbers of a member of JGroups are remembered to recognise its messages that
        /// come twice. Of members of this toolkit one number is enough. Default 2000.
        delivery_table_max_size: u32 = 2000,
        /// A sequencer of JGroups may lose what is forwarded to it before it has the view. After a
        /// change of the sequencer messages are therefore forwarded to it one by one until so many
        /// have come back; 0: for ever. Has no effect where the sequencer is of this toolkit.
        /// Default 10.
        threshold: u32 = 10,
        /// Whether messages that were forwarded and have not come back are forwarded to the next
        /// sequencer, else they are lost with the one that they were forwarded to. Default true.
        flush_forward_table: bool = true,
    }
}

/// The message in the line of flow control has waited long enough to be sent again.
const REPEAT: TimerKey = TimerKey(0);
/// How long a sequencer of JGroups has to send a message back before it is forwarded again.
const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// Payload bytes and messages that may wait here; more waits above.
const MOST_WAITING_BYTES: u64 = 2_000_000;
const MOST_WAITING: usize = 2000;

/// Total order.
#[derive(Debug)]
pub struct Sequencer {
    config: SequencerConfig,
    /// The installed view; `None` before the first.
    view: Option<Arc<View>>,
    own: Own,
    ordering: Ordering,
    delivering: Delivering,
    /// What flow control was asked to take and has not admitted: under which key of ours.
    in_line: Option<InLine>,
    next_key: u64,
    refused: RefusedWhole,
    leave: Option<Leave>,
    /// The layers above may wait for room.
    was_full: bool,
    counters: Counters,
}

/// The one message that waits in the line of flow control.
#[derive(Debug)]
struct InLine {
    key: u64,
    what: Waits,
    /// Who had no room for it.
    by: Vec<Uuid>,
}

/// What waits there.
#[derive(Debug)]
enum Waits {
    /// The first of the own messages that has not left.
    Own,
    /// A message of another member, which is consumed when it leaves.
    Forwarded(Forwarded),
    /// An own message that has come back meanwhile.
    Nothing,
}

#[derive(Debug, Default)]
struct Counters {
    forwarded: u64,
    broadcast: u64,
    received_forwards: u64,
    received_broadcasts: u64,
    delivered: u64,
    duplicates: u64,
    repeated: u64,
    passed_over: u64,
    outdated: u64,
}

impl Sequencer {
    /// With this configuration.
    #[must_use]
    pub fn new(config: SequencerConfig) -> Self {
        Self {
            delivering: Delivering::new(config.delivery_table_max_size),
            config,
            view: None,
            own: Own::default(),
            ordering: Ordering::default(),
            in_line: None,
            next_key: 1,
            refused: RefusedWhole::default(),
            leave: None,
            was_full: false,
            counters: Counters::default(),
        }
    }

    /// Who orders in the installed view.
    fn sequencer(&self) -> Option<Uuid> {
        self.view.as_ref().map(|v| v.coordinator())
    }

    fn orders(&self, local: Uuid) -> bool {
        self.sequencer() == Some(local)
    }

    /// Whether the view that GMS has installed has come by here.
    fn is_settled(&self, cx: &Cx<'_>) -> bool {
        let here = self.view.as_ref().map(|v| v.id);
        here.is_some() && here == cx.group().view.as_ref().map(|v| v.id)
    }

    /// Lets go what there is room for below, until one message waits in the line of flow control.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        if self.in_line.is_none() && self.is_settled(cx) {
            let orders = self.orders(cx.local());
            #[cfg(feature = "mutants")]
            let orders = orders || cx.mutant(crate::mutants::Mutant::EverybodyOrders);
            match orders {
                true => self.order_waiting(cx),
                false => self.forward_waiting(cx),
            }
        }
        self.tell_of_room(cx);
        self.leave_if_done(cx);
    }

    /// Whoever saw that there is no room is told when there is some again.
    fn tell_of_room(&mut self, cx: &mut Cx<'_>) {
        let full = self.own.is_full();
        if core::mem::replace(&mut self.was_full, full) && !full {
            cx.raise(Dir::Up, Event::RoomAgain);
        }
    }

    /// What is free here for messages of the application.
    fn room(&self) -> Room {
        let immediate = self.in_line.is_none() && self.own.waiting() == 0;
        let (free_bytes, free_messages) = self.own.free();
        Room {
            line_open: !self.own.is_full(),
            immediate,
            credit: if immediate { free_bytes } else { 0 },
            free_bytes,
            free_messages,
            limited_by: match &self.in_line {
                Some(line) => line.by.clone(),
                None if immediate => Vec::new(),
                None => self.sequencer().into_iter().collect(),
            },
        }
    }

    /// Sends `m` into the line of flow control, where it waits until the next view at most: nothing
    /// that was put into the order of one sequencer may leave in that of the next.
    fn send_into_line(&mut self, mut m: Message, what: Waits, cx: &mut Cx<'_>) {
        let key = self.next_key;
        self.next_key += 1;
        let op = match what {
            Waits::Own => self.own.next_call(),
            Waits::Forwarded(_) | Waits::Nothing => None,
        };
        let dest = m.dest.as_ref().and_then(wire::Address::uuid);
        let by = room_below(dest, m.length(), cx).map(|r| r.limited_by).unwrap_or_default();
        m.token = Some(cx.own_token_for(key, op));
        m.hints |= Hints::IN_THIS_VIEW;
        self.in_line = Some(InLine { key, what, by });
        cx.send_down(m);
    }

    /// A view is installed below: what the former sequencer ordered was delivered before it.
    fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let local = cx.local();
        let former = self.sequencer();
        self.view = Some(Arc::clone(view));
        let next = view.coordinator();
        self.delivering.enter(former, view);
        self.ordering.forget_leavers(view, cx);
        self.ordering.reunite(view, cx);
        cx.raise(Dir::Up, Event::View(Arc::clone(view)));
        // A sequencer from which a merge brings us back has heard nothing meanwhile.
        if former != Some(next) || view.reunites(local, next) {
            if let Some(InLine { what: Waits::Forwarded(f), .. }) = self.in_line.take() {
                f.settle(cx);
            }
            self.ordering.resign(cx);
            let kept = former.is_none() || self.config.flush_forward_table;
            #[cfg(feature = "mutants")]
            let kept = kept && !cx.mutant(crate::mutants::Mutant::ForwardedOnce);
            let announced = view.reunites(local, next) && tag::is_rgroups(next);
            let announced = announced.then(|| ordering::view_number(view));
            self.own.begin_anew(kept, Pace::towards(next), announced);
            cx.disarm(REPEAT);
            if next == local {
                self.ordering.take_over(self.own.waiting());
            }
        }
        self.deliver_early(cx);
        self.drop_held_and_delivered(cx);
        if next == local {
            self.ordering.order_held();
        }
        self.pump(cx);
    }

    fn header(kind: SequencerKind, seqno: i64, flush_ack: bool) -> Header {
        Header::Sequencer(SequencerHeader { kind, seqno, flush_ack })
    }
}

/// Whether the order leaves this message alone.
fn is_outside(m: &wire::Message) -> bool {
    m.has(Flags::OOB | Flags::NO_TOTAL_ORDER | Flags::NO_RELIABILITY)
}

/// What flow control below says; without it there is room for everything.
fn room_below(dest: Option<Uuid>, bytes: usize, cx: &Cx<'_>) -> Option<Room> {
    match cx.ask_below(&Query::Room { dest, oob: false, bytes }) {
        Some(Answer::Room(room)) => Some(room),
        _ => None,
    }
}

/// What may be sent before flow control is asked again.
#[derive(Debug)]
struct Budget {
    dest: Option<Uuid>,
    left: Option<u64>,
}

/// A message costs at least this much between members of this toolkit.
const LEAST_COST: u64 = 128;

impl Budget {
    fn of(dest: Option<Uuid>) -> Self {
        Self { dest, left: None }
    }

    /// Whether a message of so many bytes is admitted at once. Nothing goes down before this layer
    /// returns, so what it sends is counted here.
    fn admits(&mut self, bytes: usize, cx: &Cx<'_>) -> bool {
        let left = self.left.get_or_insert_with(|| match room_below(self.dest, bytes, cx) {
            Some(room) if room.immediate => room.credit,
            Some(_) => 0,
            None => u64::MAX,
        });
        match left.checked_sub((bytes as u64).max(LEAST_COST)) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

impl Protocol for Sequencer {
    fn spec(&self) -> Spec {
        Spec {
            name: "SEQUENCER",
            id: Some(ProtId::SEQUENCER),
            interests: Interests {
                down: Traffic::Multicast,
                events: true,
                consumed: true,
                ..Interests::default()
            },
            provides: &[Service::TotalOrder],
            needs_below: &[
                Service::Membership,
                Service::ReliableMulticast,
                Service::ReliableUnicast,
            ],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.own.close(cx);
        self.ordering.close(cx);
        self.delivering.close(cx);
        if let Some(InLine { what: Waits::Forwarded(f), .. }) = self.in_line.take() {
            f.settle(cx);
        }
        self.view = None;
        self.leave = None;
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if is_outside(msg) || self.view.is_none() {
            return Flow::Pass;
        }
        self.send(msg, cx);
        Flow::Stop
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        match batch.multicast {
            true => self.receive_ordered(batch, cx),
            false => self.receive_forwards(batch, cx),
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::View(view)) => {
                self.install(view, cx);
                return Flow::Stop;
            }
            (Dir::Down, Event::Disconnect) if self.leaves_later(cx) => return Flow::Stop,
            (Dir::Down, Event::Withdraw { op, expired }) => self.withdraw(*op, *expired, cx),
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            LEAVE => self.leave_now(cx),
            _ => self.repeat(cx),
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let Some(InLine { what, .. }) = self.in_line.take_if(|l| l.key == key) else { return };
        match (what, how) {
            (Waits::Own, Ok(())) => {
                self.own.admitted(cx);
                if self.orders(cx.local()) {
                    self.own.forget_unwanted();
                }
            }
            // The sequencer is gone: the next one gets it.
            (Waits::Own, Err(SendRefusal::NotMember(_) | SendRefusal::Closed)) => {}
            // Another view comes: it is the first in it.
            (Waits::Own, Err(SendRefusal::WouldBlock { .. })) => self.ordering.own_again(),
            (Waits::Own, Err(why)) => self.own.give_up_next(why, cx),
            (Waits::Forwarded(f), Err(SendRefusal::WouldBlock { .. })) => {
                self.order_again(f, cx);
            }
            (Waits::Forwarded(f), _) => f.settle(cx),
            (Waits::Nothing, _) => {}
        }
        self.pump(cx);
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if let Some(owed) = self.delivering.owed(what) {
            cx.settle(owed);
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Room { dest: None, oob: false, .. } if self.view.is_some() => {
                Some(Answer::Room(self.room()))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        out("is_coord", u64::from(self.ordering.in_office()));
        out("ack_mode", u64::from(self.own.acks().is_some()));
        out("num_acks", u64::from(self.own.acks().unwrap_or(0)));
        out("forwarded_msgs", c.forwarded);
        out("bcast_msgs", c.broadcast);
        out("received_forwards", c.received_forwards);
        out("received_bcasts", c.received_broadcasts);
        out("delivered_bcasts", c.delivered);
        out("forward_table_size", self.own.len() as u64);
        out("waiting_messages", self.own.waiting() as u64);
        out("waiting_bytes", self.own.waiting_bytes());
        out("waiting_forwards", self.ordering.waiting() as u64);
        out("held_forwards", self.ordering.held() as u64);
        out("held_bcasts", self.delivering.early() as u64);
        out("duplicates", c.duplicates);
        out("forwards_repeated", c.repeated);
        out("passed_over", c.passed_over);
        out("outdated_forwards", c.outdated);
    }
}
