//! Our own multicasts, and the announcement of the last number after a burst: receivers cannot see
//! the loss of a last message. It goes out shortly after the burst, then once per round, three
//! times in all or until everything is stable, and then the wire is quiet.

use super::super::window::Window;
use super::{Nakack2, Nakack2Config};
use crate::wire::{self, Body, Flags, Header, ProtId, header::NakAckHeader};
use crate::{Batch, Cx, Dir, Duration, Event, Group, Message, Time, TimerKey, Trace, tag};

/// A burst may be over, or an announcement is due.
pub(super) const ANNOUNCE: TimerKey = TimerKey(3);
/// How often a last number is announced: one loss or two are healed without waiting for stability.
const ANNOUNCEMENTS: u32 = 3;

/// Our own window and what was announced of it.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) window: Window,
    last_sent: Time,
    /// A typical pause between two multicasts of a steady sender, who needs no announcements.
    pause: Duration,
    announcing: Announcing,
    /// So much is not stable that the layers above were told to stop.
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announcing {
    /// Nothing to announce.
    Quiet,
    /// We are sending; the timer looks whether that is over.
    Sending,
    /// So many announcements are left.
    Left(u32),
}

impl Default for Own {
    fn default() -> Self {
        Self {
            window: Window::for_sending(),
            last_sent: Time::ZERO,
            pause: Duration::ZERO,
            announcing: Announcing::Quiet,
            full: false,
        }
    }
}

impl Own {
    /// A multicast left.
    pub(super) fn sent(&mut self, config: &Nakack2Config, cx: &mut Cx<'_>) {
        let pause = cx.now.since(self.last_sent);
        self.pause =
            if pause >= config.xmit_interval { Duration::ZERO } else { (self.pause + pause) / 2 };
        self.last_sent = cx.now;
        if config.resend_last_seqno && self.announcing != Announcing::Sending {
            self.announcing = Announcing::Sending;
            cx.arm(ANNOUNCE, cx.now + config.announce_delay);
        }
    }

    /// When the burst counts as over.
    fn silent_at(&self, config: &Nakack2Config) -> Time {
        let pause = config.announce_delay.max(self.pause * 2).min(config.xmit_interval);
        self.last_sent + pause
    }
}

/// What a message counts at least where all members count like that for their reports.
const LEAST_COST: u64 = 128;

impl Nakack2 {
    /// How much more may be multicast before the own window is full.
    pub(super) fn own_room(&self, group: &Group) -> u64 {
        match self.config.own_limit.0 {
            0 => u64::MAX,
            limit => limit.saturating_sub(self.own_cost(group)),
        }
    }

    /// JGroups reports by payload alone: small messages would fill the window long before it does.
    fn own_cost(&self, group: &Group) -> u64 {
        let window = &self.own.window;
        let least = match group.members().iter().all(|m| tag::is_rgroups(*m)) {
            true => window.messages() * LEAST_COST,
            false => 0,
        };
        window.bytes().max(least)
    }

    /// Tells the layers above when the own window is full, and when it has room again. Only
    /// stability empties it; where that is lost, senders must wait (BEHAVIOURS B01).
    pub(super) fn watch_own_window(&mut self, cx: &mut Cx<'_>) {
        let limit = self.config.own_limit.0;
        if limit == 0 {
            return;
        }
        let cost = self.own_cost(cx.group());
        let full = cost >= if self.own.full { limit - limit / 4 } else { limit };
        if full != self.own.full {
            self.own.full = full;
            cx.trace(|| Trace::OwnWindow { full });
            cx.raise(Dir::Up, Event::OwnWindow { full });
        }
    }

    /// The announcement timer fired.
    pub(super) fn announce(&mut self, cx: &mut Cx<'_>) {
        let left = match self.own.announcing {
            Announcing::Quiet => return,
            Announcing::Sending => {
                let silent_at = self.own.silent_at(&self.config);
                if cx.now < silent_at {
                    return cx.arm(ANNOUNCE, silent_at);
                }
                self.deliver_lost_copies(cx);
                ANNOUNCEMENTS
            }
            Announcing::Left(n) => n,
        };
        let stable = self.own.window.low() == self.own.window.received();
        if left == 0 || stable || cx.group().members().len() < 2 {
            self.own.announcing = Announcing::Quiet;
            return;
        }
        self.own.announcing = Announcing::Left(left - 1);
        self.counters.announcements += 1;
        let header = Header::NakAck(NakAckHeader::HighestSeqno(self.own.window.received()));
        let m = wire::Message::multicast(Body::Empty)
            .with_flags(Flags::OOB | Flags::NO_FC)
            .with_header(ProtId::NAKACK2, header);
        let mut m = Message::from(m);
        m.hints |= wire::Hints::DONT_LOOPBACK;
        cx.send_down(m);
        if left > 1 {
            cx.arm(ANNOUNCE, cx.now + self.config.xmit_interval);
        } else {
            self.own.announcing = Announcing::Quiet;
        }
    }

    /// Our own copies that never came back (a fault below) are delivered from the window: a sender
    /// must not miss its own messages.
    fn deliver_lost_copies(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        while let Some(m) = self.own.window.release() {
            cx.deliver_up(Batch::of(local, m.into()));
        }
    }
}
