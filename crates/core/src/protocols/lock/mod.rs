//! LOCK: locks and semaphores that all members share. JGroups had CENTRAL_LOCK and has nothing now;
//! the wire format is ours (docs/wire-extensions.md).
//!
//! The first member of the view that has LOCK is the *keeper*: it says who has what ([`keeping`]). All
//! others tell it what they want, and what they have ([`holding`]). The keeper has no memory that must
//! survive it: whenever a view is installed, every member tells the keeper of that view what it holds
//! and waits for, and nobody is granted anything before all have. So who is not in the view any more
//! holds nothing, and what a former keeper had said and nobody has heard was never said: a member takes
//! nothing from a keeper of another view than its own.
//!
//! Tokens grow with the number of the view, which grows at every change and every merge: each grant of a
//! lock has a higher one than all before it, as far as the group lives.
//!
//! A member loses what it holds when it may be somebody else's: with PRIMARY when it can no longer trust
//! its view to be the primary one, without it when a merge brings its part under another one. Among
//! parts that merge, the largest keeps what it has.

mod holding;
mod keeping;
mod payload;
#[cfg(test)]
mod tests;

use self::holding::Holding;
use self::keeping::Keeping;
pub(super) use self::payload::LockPayload;
use crate::wire::{Decode, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, DropReason, Event, Flow, Group, Interests, OpId, Primacy,
    Protocol, Query, Service, Spec, TimerKey, Uuid, View, tag,
};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

crate::attributes! {
    /// Locks and semaphores that all members share (not in JGroups).
    pub struct LockConfig for "LOCK" {
        /// Locks and permits that this member may hold and wait for at a time. Default 10,000.
        max_requests: u32 = 10_000,
    }
}

/// Names a lock, or a semaphore: they have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockName {
    /// As the application calls it.
    pub name: String,
    /// How many may have it at a time; `None`: it is a lock, which one has.
    pub permits: Option<u32>,
}

/// Something that the application wants of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// To have it. Answered with [`SendResult::Locked`](crate::SendResult).
    Acquire {
        /// The call; what is had is named by it from then on.
        op: OpId,
        /// Which.
        name: LockName,
        /// How long to wait for it.
        wait: LockWait,
    },
    /// To have it no more. Answered with [`SendResult::Unlocked`](crate::SendResult) when the keeper
    /// knows.
    Release {
        /// The call, if somebody waits for it.
        op: Option<OpId>,
        /// The call by which it was acquired.
        hold: OpId,
    },
}

/// How long somebody waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Until it is had.
    Forever,
    /// So long at most.
    For(Duration),
    /// It is had if it can be had at once, and the answer is [`LockFailure::Taken`] otherwise.
    NotAtAll,
}

/// Why a lock is not had, or not given back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockFailure {
    /// The stack has no LOCK.
    NotInStack,
    /// The channel is closed.
    Closed,
    /// The view is not the primary one.
    NotPrimary,
    /// Somebody else has it.
    Taken,
    /// The time was over.
    TimedOut,
    /// It is a semaphore with another number of permits.
    OtherPermits {
        /// This many.
        permits: u32,
    },
    /// This member holds and waits for as much as it may.
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// The name is too long.
    NameTooLong {
        /// The limit, in bytes.
        limit: u64,
    },
    /// It is not had (any more).
    NotHeld,
    /// The caller gave it up.
    Withdrawn,
}

/// Why something is not had any more that was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockLoss {
    /// This member's view is not, or may not be, the primary one.
    NotPrimary,
    /// A merge brought this member's part of the group under another one.
    Merged,
    /// The keeper says that somebody else has it.
    Taken,
    /// The channel is closed.
    Closed,
}

/// The longest name, in bytes.
pub const MAX_NAME: usize = 32_768;

const DEADLINE: TimerKey = TimerKey(0);
const TRUST: TimerKey = TimerKey(1);
const AGAIN: TimerKey = TimerKey(2);
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Lock {
    holding: Holding,
    keeping: Keeping,
    unreadable: u64,
}

impl Lock {
    /// With these settings.
    #[must_use]
    pub fn new(config: LockConfig) -> Self {
        Self {
            holding: Holding::new(config.max_requests),
            keeping: Keeping::default(),
            unreadable: 0,
        }
    }

    /// What this member and its keeper say to each other if it is its own.
    fn settle_own(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        loop {
            let (to_keeper, to_member) = (self.holding.take_own(), self.keeping.take_own());
            if to_keeper.is_empty() && to_member.is_empty() {
                break;
            }
            for payload in to_keeper {
                self.keeping.receive(local, payload, cx);
            }
            for payload in to_member {
                self.holding.receive(local, payload, cx);
            }
        }
        self.holding.rearm(cx);
        if !self.holding.waits() && !self.keeping.waits() {
            cx.disarm(AGAIN);
        } else if cx.armed(AGAIN).is_none() {
            cx.arm(AGAIN, cx.now + AGAIN_AFTER);
        }
    }

    fn install(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let keeper = view.members.iter().copied().find(|m| tag::locks(*m));
        self.keeping.install(view, keeper, cx);
        self.holding.install(view, keeper, cx);
        self.settle_own(cx);
    }
}

impl Protocol for Lock {
    fn spec(&self) -> Spec {
        Spec {
            name: "LOCK",
            id: None,
            interests: Interests {
                // Its messages have the header of COUNTER, and say by their first byte whose they are.
                up_with: Some(ProtId::COUNTER),
                events: true,
                ..Interests::default()
            },
            provides: &[Service::Locks],
            needs_below: &[Service::Membership, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.holding.close(cx);
        self.keeping.close();
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let from = batch.src;
        let mut taken = Vec::new();
        batch.retain(|m| {
            let bytes = match m.headers.get(ProtId::COUNTER) {
                Some(_) => m.body.as_bytes().filter(|b| LockPayload::is_ours(b)).cloned(),
                None => None,
            };
            let Some(bytes) = bytes else { return true };
            taken.push(bytes);
            cx.settle(Consumed::one(from, m.receipt));
            false
        });
        if taken.is_empty() || !cx.is_member(from) {
            return;
        }
        for bytes in taken {
            match LockPayload::from_bytes(bytes) {
                Ok(p) if p.step.is_for_keeper() => self.keeping.receive(from, p, cx),
                Ok(p) => self.holding.receive(from, p, cx),
                Err(_) => {
                    self.unreadable += 1;
                    cx.drop_from_peer(DropReason::Malformed, Some(from));
                }
            }
        }
        self.settle_own(cx);
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::Lock(call)) => {
                self.holding.call(call, cx);
                self.settle_own(cx);
                return Flow::Stop;
            }
            (Dir::Down, Event::Withdraw { op, .. }) => {
                let ours = self.holding.withdraw(*op, cx);
                self.settle_own(cx);
                return if ours { Flow::Stop } else { Flow::Pass };
            }
            (Dir::Down, Event::Disconnect) => self.holding.close(cx),
            (Dir::Up, Event::View(view)) => self.install(view, cx),
            (Dir::Up, Event::Primary(_)) => {
                self.holding.primacy_changed(cx);
                self.keeping.pump(cx);
                self.settle_own(cx);
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            DEADLINE => self.holding.expire(cx),
            TRUST => self.holding.check_trust(cx),
            _ => {
                self.holding.again(cx);
                self.keeping.pump(cx);
            }
        }
        self.settle_own(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::Offers(Service::Locks) => Some(Answer::Held(true)),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        self.holding.inspect(out);
        self.keeping.inspect(out);
        out("unreadable", self.unreadable);
    }
}

/// Whether anything may be granted, or taken as granted.
fn may_act(cx: &Cx<'_>) -> bool {
    cx.group().primary.is_none_or(|claim| claim.at(cx.now) == Primacy::Yes)
}

/// A request of a member, by its own number.
type Number = u64;
/// Who asked, and its number for it.
type Asker = (Uuid, Number);
