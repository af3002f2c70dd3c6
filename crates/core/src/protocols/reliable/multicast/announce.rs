//! Our own multicasts, and the announcement of the last number after a burst: receivers cannot see
//! the loss of a last message. It goes out shortly after the burst, then once per round, three
//! times in all or until everything is stable, and then the wire is quiet.

use super::super::window::{LEAST_COST, Window};
use super::ReliableMulticast;
use super::config::{MulticastSettings, Purging};
use crate::wire::{self, Body, Flags, Header, header::NakAckHeader};
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
    pub(super) fn sent(&mut self, s: &MulticastSettings, cx: &mut Cx<'_>) {
        let pause = cx.now.since(self.last_sent);
        self.pause =
            if pause >= s.xmit_interval { Duration::ZERO } else { (self.pause + pause) / 2 };
        self.last_sent = cx.now;
        if s.announces && self.announcing != Announcing::Sending {
            self.announcing = Announcing::Sending;
            cx.arm(ANNOUNCE, cx.now + s.announce_delay);
        }
    }

    /// When the burst counts as over.
    fn silent_at(&self, s: &MulticastSettings) -> Time {
        let pause = s.announce_delay.max(self.pause * 2).min(s.xmit_interval);
        self.last_sent + pause
    }
}

impl ReliableMulticast {
    /// How much more may be multicast before the own window is full.
    pub(super) fn own_room(&self, group: &Group) -> Option<u64> {
        match self.settings.purging {
            Purging::ByStability { own_limit: 0 } => Some(u64::MAX),
            Purging::ByStability { own_limit } => {
                Some(own_limit.saturating_sub(self.own_cost(group)))
            }
            Purging::ByAcknowledgement(_) => None,
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
        let limit = match self.settings.purging {
            Purging::ByStability { own_limit } if own_limit > 0 => own_limit,
            Purging::ByStability { .. } | Purging::ByAcknowledgement(_) => return,
        };
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
                let silent_at = self.own.silent_at(&self.settings);
                if cx.now < silent_at {
                    return cx.arm(ANNOUNCE, silent_at);
                }
                self.deliver_lost_copies(cx);
                // Acknowledgements may be lost for as long as any are missing.
                if self.acks.is_some() { u32::MAX } else { ANNOUNCEMENTS }
            }
            Announcing::Left(n) => n,
        };
        let window = &self.own.window;
        let everywhere = match &self.acks {
            None => window.low() == window.received(),
            Some(acks) => acks.all_others_have(window.received()),
        };
        if left == 0 || everywhere || cx.group().members().len() < 2 {
            self.own.announcing = Announcing::Quiet;
            return;
        }
        self.own.announcing = Announcing::Left(left - 1);
        self.counters.announcements += 1;
        let header = Header::NakAck(NakAckHeader::HighestSeqno(self.own.window.received()));
        let m = wire::Message::multicast(Body::Empty)
            .with_flags(Flags::OOB | Flags::NO_FC)
            .with_header(self.settings.id, header);
        let mut m = Message::from(m);
        m.hints |= wire::Hints::DONT_LOOPBACK;
        cx.send_down(m);
        if left > 1 {
            cx.arm(ANNOUNCE, cx.now + self.settings.xmit_interval);
        } else {
            self.own.announcing = Announcing::Quiet;
        }
    }

    /// Somebody owes us an answer, perhaps because the last messages and all announcements of them
    /// were lost: the announcements begin again.
    pub(super) fn remind(&mut self, cx: &mut Cx<'_>) {
        let left = match self.own.announcing {
            // A burst goes on and will be announced.
            Announcing::Sending => return,
            Announcing::Quiet => ANNOUNCEMENTS,
            Announcing::Left(n) => n.max(ANNOUNCEMENTS),
        };
        if self.settings.announces {
            self.own.announcing = Announcing::Left(left);
            self.announce(cx);
        }
    }

    /// Our own copies that never came back (a fault below) are delivered from the window: a sender
    /// must not miss its own messages.
    pub(super) fn deliver_lost_copies(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        while let Some(m) = self.own.window.release() {
            let mut batch = Batch::of(local, m.into());
            self.count_own(&mut batch, cx);
            cx.deliver_up(batch);
        }
        self.purge_own(cx);
    }

    /// A member joined that has not acknowledged what was sent before: it is told about it.
    pub(super) fn announce_again(&mut self, cx: &mut Cx<'_>) {
        if self.own.announcing == Announcing::Quiet {
            self.own.announcing = Announcing::Left(u32::MAX);
            cx.arm(ANNOUNCE, cx.now + self.settings.xmit_interval);
        }
    }
}
