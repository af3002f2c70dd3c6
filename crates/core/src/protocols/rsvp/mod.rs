//! RSVP: synchronous sends (WIRE §20, DECISIONS 5).
//!
//! A synchronous message carries a number; every receiver answers it at the level that the sender
//! asked for, which travels in the two top bits of the number and means something only between
//! members of this toolkit. The wait ends when nobody is missing, at the timeout, at the close of
//! the channel, or when the caller gives it up; the outcome names everybody. Repeating the message
//! is the business of the reliable layers: REQ_ONLY is never sent.
//!
//! [`waiting`] is the sender's half, [`answering`] the receiver's; [`flush`] waits for what everybody
//! has sent.

mod answering;
mod flush;
mod flush_payload;
mod inbox;
#[cfg(test)]
mod tests;
mod waiting;

use crate::app::SyncEnd;
use crate::event::Room;
use crate::wire::ProtId;
use crate::{
    Answer, Batch, Consumed, Cx, Dir, Event, Flow, Group, Interests, Message, Protocol, Query, Row,
    RowFlow, SendRefusal, Service, Spec, SyncLevel, TimerKey, Traffic, Uuid,
};
use alloc::collections::{BTreeMap, BTreeSet};
use answering::Answering;
use core::time::Duration;
use flush::{FLUSH, Flushes};
use waiting::{Counters, Sync};

crate::attributes! {
    /// Synchronous sends (`RSVP`).
    pub struct RsvpConfig for "RSVP" {
        /// How long a message that is flagged RSVP waits for acknowledgements when the call names no
        /// timeout of its own. Milliseconds, default 10 s.
        timeout: Duration = Duration::from_secs(10),
        /// How often the reliable layers are told who has not acknowledged yet. Milliseconds,
        /// default 2 s.
        resend_interval: Duration = Duration::from_secs(2),
        /// Whether a message of a sender that names no level is acknowledged when the application
        /// has consumed it, else when it arrives here in order. Default true.
        ack_on_delivery: bool = true,
    }
}

/// Ids have 14 bits; with half of them in use further sends wait, so that a late acknowledgement
/// meets a free id and not somebody else's.
const ID_MASK: u16 = 0x3fff;
const MAX_OUTSTANDING: usize = 0x2000;

const REMIND: TimerKey = TimerKey(u64::MAX);
/// Senders are told what is here and waits for the application.
const HOLDING: TimerKey = TimerKey(u64::MAX - 2);

/// Synchronous sends.
#[derive(Debug)]
pub struct Rsvp {
    config: RsvpConfig,
    next_id: u16,
    syncs: BTreeMap<u16, Sync>,
    /// Messages that flow control has not admitted yet: whose, and the copy for whom.
    unadmitted: BTreeMap<u64, (u16, Option<Uuid>)>,
    next_key: u64,
    /// Members of other toolkits that have RSVP, as they have acknowledged something.
    answerers: BTreeSet<Uuid>,
    /// That a member may have none was said.
    warned: bool,
    answering: Answering,
    flushes: Flushes,
    counters: Counters,
}

impl Rsvp {
    /// With this configuration.
    #[must_use]
    pub fn new(config: RsvpConfig) -> Self {
        Self {
            config,
            next_id: 0,
            syncs: BTreeMap::new(),
            unadmitted: BTreeMap::new(),
            next_key: 0,
            answerers: BTreeSet::new(),
            warned: false,
            answering: Answering::default(),
            flushes: Flushes::default(),
            counters: Counters::default(),
        }
    }
}

impl Protocol for Rsvp {
    fn spec(&self) -> Spec {
        Spec {
            name: "RSVP",
            id: Some(ProtId::RSVP),
            interests: Interests {
                down: Traffic::Both,
                up: Traffic::Both,
                events: true,
                consumed: true,
                end_turn: true,
                patient_timers: true,
                ..Interests::default()
            },
            provides: &[Service::SyncSends],
            needs_below: &[Service::ReliableMulticast, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
        self.close_flushes(cx);
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        let asked = msg.sync.take().map(|s| *s).or_else(|| self.flagged(msg, cx.now));
        match asked {
            Some(request) => self.begin(msg, request, cx),
            None => Flow::Pass,
        }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let Some((id, copy_for)) = self.unadmitted.remove(&key) else { return };
        if let Err(why) = how {
            return self.refused(id, copy_for, why, cx);
        }
        let Some(sync) = self.syncs.get_mut(&id) else { return };
        sync.admitted(cx.now + self.config.resend_interval);
        sync.unadmitted = sync.unadmitted.saturating_sub(1);
        if sync.until.is_some_and(|at| at <= cx.now) {
            return self.finish(id, SyncEnd::TimedOut, cx);
        }
        self.finish_if_complete(id, cx);
    }

    fn row_down(&mut self, _row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        // Nobody waits for a message of a row.
        RowFlow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.receive(batch, cx);
    }

    fn row_up(&mut self, row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        match self.answering.inboxes.enter_row((row.src, true), row.len()) {
            Some(place) => {
                row.account.place = place;
                RowFlow::Pass
            }
            None => RowFlow::Apart,
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::View(view)) => {
                self.forget_leavers(view);
                self.install(view, cx);
                self.flush_in(view, cx);
            }
            (Dir::Up, Event::StableEverywhere(stable)) => self.flush_stable(stable, cx),
            (Dir::Down, Event::Flush { op, until }) => {
                self.flush(*op, *until, cx);
                return Flow::Stop;
            }
            (Dir::Up, Event::SyncArrived { from, id }) => self.arrived(*from, *id, cx),
            (Dir::Up, Event::SyncCovered { id, by }) => self.covered(*id, *by, cx),
            (Dir::Down, Event::Disconnect) => {
                self.close(cx);
                self.close_flushes(cx);
            }
            (Dir::Down, Event::Withdraw { op, expired })
                if self.withdraw(*op, *expired, cx) || self.withdraw_flush(*op, cx) =>
            {
                return Flow::Stop;
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        if key == REMIND {
            return self.repeat(cx);
        }
        if key == FLUSH {
            return self.flush_on(cx);
        }
        if key == HOLDING {
            return self.say_what_is_here(cx);
        }
        let id = key.0 as u16;
        // One that is not admitted is withdrawn by the entry layer, whose answer is "not sent".
        if self.syncs.get(&id).is_some_and(|s| s.admitted || s.op.is_none()) {
            self.finish(id, SyncEnd::TimedOut, cx);
        }
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        self.consumed(what, cx);
    }

    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        self.answer_what_is_in_order(cx);
        self.look_at_visits(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Syncs => Some(Answer::Syncs(self.syncs.len() as u64)),
            // No id is free: everything waits, so that the order is kept.
            Query::Room { .. } if self.syncs.len() >= MAX_OUTSTANDING => {
                Some(Answer::Room(Room { limited_by: self.missing_longest(), ..Room::default() }))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("pending_rsvp_requests", self.syncs.len() as u64);
        self.counters.inspect(out);
        self.answering.inspect(out);
        self.flushes.inspect(out);
    }
}

/// The level in the two top bits of an id: 1 to 3; in an answer 0 says that the application could
/// not handle the message.
fn with_level(id: u16, level: SyncLevel) -> i16 {
    let bits = match level {
        SyncLevel::OnReceive => 1,
        SyncLevel::OnContiguous => 2,
        SyncLevel::OnDeliver => 3,
    };
    (bits << 14 | id) as i16
}

/// The id without a level.
fn without_level(wire_id: i16) -> i16 {
    (wire_id as u16 & ID_MASK) as i16
}

fn level_of(wire_id: i16) -> Option<SyncLevel> {
    match wire_id as u16 >> 14 {
        1 => Some(SyncLevel::OnReceive),
        2 => Some(SyncLevel::OnContiguous),
        3 => Some(SyncLevel::OnDeliver),
        _ => None,
    }
}
