//! A state that comes in parts: what has come, what the application has taken, and what the
//! provider may send.

use super::room::{RoomPayload, Wish};
use crate::{Consumed, Digest, Message, Time, Uuid, tag};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// The provider is told again what it may send when nothing has moved for so long: what told it
/// before may have been lost.
pub(super) const REPEAT: Duration = Duration::from_millis(300);
/// It is told when the application has taken this part of the window.
const SHARE: u64 = 4;

/// One attempt to get a state from one member.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) provider: Uuid,
    pub(super) attempt: u64,
    /// What the state contains.
    pub(super) digest: Digest,
    /// Bytes that have come. Over a connection (STATE_SOCK) it is the application that sees them.
    arrived: u64,
    taken: u64,
    /// Up to here the provider was told that it may send.
    granted: u64,
    /// What the taking of parts with flow control owes, by where they end.
    owed: VecDeque<(u64, Consumed)>,
    /// The provider has said that this is all; the application has it all.
    pub(super) sent_all: bool,
    pub(super) taken_all: bool,
    /// When something last came or was taken.
    pub(super) moved: Time,
    told: Time,
}

impl Incoming {
    pub(super) fn new(provider: Uuid, attempt: u64, digest: Digest, now: Time) -> Self {
        Self {
            provider,
            attempt,
            digest,
            arrived: 0,
            taken: 0,
            granted: 0,
            owed: VecDeque::new(),
            sent_all: false,
            taken_all: false,
            moved: now,
            told: now,
        }
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// A part of so many bytes has come.
    pub(super) fn part(&mut self, bytes: u64, owed: Consumed, now: Time) {
        self.arrived += bytes;
        self.owed.push_back((self.arrived, owed));
        self.moved = now;
    }

    /// The application has taken so many bytes; what it owes for them. `by_socket`: it was the one
    /// to see them come.
    pub(super) fn took(&mut self, upto: u64, by_socket: bool, now: Time) -> Vec<Consumed> {
        if by_socket {
            self.arrived = self.arrived.max(upto);
        }
        let upto = upto.min(self.arrived);
        if upto > self.taken {
            (self.taken, self.moved) = (upto, now);
        }
        let done = self.owed.iter().take_while(|(end, _)| *end <= upto).count();
        self.owed.drain(..done).map(|(_, owed)| owed).collect()
    }

    /// What all parts owe: nobody wants them any more.
    pub(super) fn give_up(self) -> impl Iterator<Item = Consumed> {
        self.owed.into_iter().map(|(_, owed)| owed)
    }

    /// Whether the provider is the one to do something now.
    pub(super) fn awaits_provider(&self) -> bool {
        if self.sent_all {
            return false;
        }
        let idle = self.arrived == self.taken;
        // Members of other toolkits know their room by flow control, which is not seen here.
        idle || tag::is_rgroups(self.provider) && self.arrived < self.granted
    }

    /// Whether the application has everything there is.
    pub(super) fn complete(&self) -> bool {
        self.sent_all && self.taken_all
    }

    /// When the provider must be told again, if it is to be told at all.
    pub(super) fn repeat_at(&self) -> Option<Time> {
        let tells = tag::is_rgroups(self.provider) && !self.sent_all;
        tells.then(|| self.told.max(self.moved) + REPEAT)
    }

    /// What the provider may send now, if it is time to say so.
    pub(super) fn room(&mut self, window: u64, now: Time) -> Option<Message> {
        let due = self.repeat_at()? <= now || self.granted == 0;
        let upto = self.taken + window;
        if !due && upto < self.granted + window / SHARE {
            return None;
        }
        (self.granted, self.told) = (upto, now);
        let room = RoomPayload { attempt: self.attempt, wish: Wish::Upto(upto) };
        Some(room.message(self.provider))
    }
}
