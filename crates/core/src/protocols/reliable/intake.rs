//! What is acknowledged in the dialects without credits (NAKACK4, UNICAST4): what the application
//! has consumed. A sender whose window is full of what nobody consumes waits, and so the memory for
//! it is bounded by the sender's window.
//!
//! Messages that were passed up and not consumed are counted, not listed: with three of them out,
//! the last three numbers are not acknowledged, whichever they are. While a call of our own
//! application waits, it cannot consume; then as much again is acknowledged ahead (DECISIONS 16),
//! and made up for before anything else is.

use super::window::Window;
use crate::wire::{Flags, ProtId};
use crate::{Batch, Consumed, Message, Pool, Receipt};

/// How much a window takes, and when a receiver speaks up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Messages in a window.
    pub(super) messages: u32,
    /// Their payload bytes, where both ends count them.
    pub(super) bytes: u64,
    /// After so many messages an acknowledgement is sent at once.
    pub(super) threshold: u32,
    /// Whether a full window stops its sender.
    pub(super) blocks: bool,
}

impl Capacity {
    /// As configured, where a threshold of 0 stands for a quarter of the window.
    pub(super) fn new(messages: u32, bytes: u64, threshold: u32, blocks: bool) -> Self {
        let messages = messages.max(1);
        let threshold = if threshold == 0 { messages / 4 } else { threshold };
        Self { messages, bytes: bytes.max(1), threshold: threshold.max(1), blocks }
    }

    /// Messages and bytes that a send window still takes; an empty one takes a message of any size.
    pub(super) fn free(&self, window: &Window, counts_bytes: bool) -> (u64, u64) {
        if !self.blocks {
            return (u64::MAX, u64::MAX);
        }
        let bytes = match counts_bytes && window.messages() > 0 {
            true => self.bytes.saturating_sub(window.bytes()),
            false => u64::MAX,
        };
        (u64::from(self.messages).saturating_sub(in_window(window)), bytes)
    }

    /// Whether a message must not wait for room in a window: what others wait for, and what services
    /// of our own send, which may fill as much again.
    pub(super) fn exempts(&self, m: &Message, in_window: u64) -> bool {
        is_control(m) || (m.has(Flags::NO_FC) && in_window < 2 * u64::from(self.messages))
    }
}

/// Messages sent and not acknowledged.
pub(super) fn in_window(window: &Window) -> u64 {
    window.received().wrapping_sub(window.low()).unsigned_abs()
}

/// One sender's messages here.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    epoch: u32,
    /// Passed up and not consumed.
    unconsumed: i64,
    unconsumed_bytes: u64,
    /// Of those, so many are acknowledged all the same ([`Intake::grant_one`]).
    granted: i64,
    /// The highest number that the sender was told.
    told: i64,
    /// Bytes consumed since.
    bytes: u64,
    /// The sender does not seem to know what it was told.
    owed: bool,
}

impl Intake {
    /// The sender knows that we have everything up to `told`. `epoch` tells the receipts apart from
    /// those of earlier windows of the same sender.
    pub(super) fn new(epoch: u32, told: i64) -> Self {
        Self { epoch, unconsumed: 0, unconsumed_bytes: 0, granted: 0, told, bytes: 0, owed: false }
    }

    /// A batch goes up: every message that is meant for the application is counted until it is
    /// consumed. `pool`: `None` where flow control above sees to that.
    pub(super) fn pass_up(&mut self, batch: &mut Batch, pool: Option<Pool>) {
        for m in batch.messages_mut() {
            if m.has(Flags::NO_RELIABILITY | Flags::NO_FC) || is_control(m) {
                continue;
            }
            let length = m.wire.length();
            match pool {
                Some(pool) => {
                    let bytes = u32::try_from(length).unwrap_or(u32::MAX);
                    m.receipt = Receipt { pool, epoch: self.epoch, bytes, ..m.receipt };
                    self.unconsumed += 1;
                    self.unconsumed_bytes += u64::from(bytes);
                }
                None => self.bytes += length as u64,
            }
        }
    }

    /// The application consumed something of it.
    pub(super) fn consumed(&mut self, what: &Consumed) {
        if what.epoch == self.epoch {
            self.unconsumed = (self.unconsumed - i64::from(what.messages)).max(0);
            self.unconsumed_bytes = self.unconsumed_bytes.saturating_sub(what.bytes);
            self.granted = self.granted.min(self.unconsumed);
            self.bytes += what.bytes;
        }
    }

    /// A new window, or nobody will consume what was passed up.
    pub(super) fn renew(&mut self, epoch: u32) {
        (self.epoch, self.unconsumed, self.unconsumed_bytes) = (epoch, 0, 0);
        self.granted = 0;
    }

    /// One message more is acknowledged before it is consumed, up to one window of them.
    pub(super) fn grant_one(&mut self, capacity: &Capacity) {
        let most = self.unconsumed.min(i64::from(capacity.messages));
        self.granted = (self.granted + 1).min(most);
    }

    /// Messages and bytes that may still be passed up, where we are the sender and no window is
    /// between; one window of it is forgiven `ahead`.
    pub(super) fn free(&self, capacity: &Capacity, ahead: bool) -> (u64, u64) {
        let windows = if ahead { 2 } else { 1 };
        let messages = windows * u64::from(capacity.messages);
        let bytes = match self.unconsumed {
            0 => u64::MAX,
            _ => (windows * capacity.bytes).saturating_sub(self.unconsumed_bytes),
        };
        (messages.saturating_sub(self.unconsumed()), bytes)
    }

    /// Messages passed up and not consumed.
    pub(super) fn unconsumed(&self) -> u64 {
        self.unconsumed.unsigned_abs()
    }

    /// The highest number that may be acknowledged: `delivered` less what is not consumed. One
    /// window of it is forgiven `ahead`.
    pub(super) fn ackable(&self, delivered: i64, ahead: Option<&Capacity>) -> i64 {
        let ahead = ahead.filter(|c| self.unconsumed_bytes <= c.bytes);
        let forgiven = ahead.map_or(0, |c| i64::from(c.messages));
        let missing = (self.unconsumed - forgiven - self.granted).max(0);
        let upto = delivered.wrapping_sub(missing);
        if upto.wrapping_sub(self.told) > 0 { upto } else { self.told }
    }

    /// The sender repeats itself: it is told again.
    pub(super) fn owe(&mut self) {
        self.owed = true;
    }

    /// Whether the sender repeated itself since it was told.
    pub(super) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Whether there is enough to tell the sender at once.
    pub(super) fn is_due(&self, upto: i64, capacity: &Capacity) -> bool {
        let news = upto.wrapping_sub(self.told);
        news >= i64::from(capacity.threshold) || (news > 0 && self.bytes >= capacity.bytes / 4)
    }

    /// Whether there is anything to tell.
    pub(super) fn has_news(&self, upto: i64) -> bool {
        self.owed || upto != self.told
    }

    /// The sender is told now. Whether that is news.
    pub(super) fn tell(&mut self, upto: i64) -> bool {
        let news = self.told != upto;
        self.told = upto;
        self.bytes = 0;
        self.owed = false;
        news
    }
}

/// A message of the membership or of flow control, which the application never sees.
fn is_control(m: &Message) -> bool {
    [ProtId::GMS, ProtId::MFC, ProtId::UFC].into_iter().any(|id| m.headers.get(id).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;
    use crate::wire::{self, Body};

    const POOL: Option<Pool> = Some(Pool::Multicast);

    fn batch(n: usize) -> Batch {
        let mut b = Batch::new(id(1), true, false);
        for _ in 0..n {
            b.push(wire::Message::multicast(Body::bytes(alloc::vec![0; 10])).into());
        }
        b
    }

    fn taken(b: &Batch, at: usize) -> Consumed {
        Consumed::one(b.src, b.messages()[at].receipt)
    }

    #[test]
    fn what_is_not_consumed_is_not_acknowledged() {
        let mut intake = Intake::new(1, 0);
        let mut b = batch(5);
        intake.pass_up(&mut b, POOL);
        assert_eq!(intake.ackable(5, None), 0);
        intake.consumed(&taken(&b, 4));
        intake.consumed(&taken(&b, 0));
        assert_eq!(intake.ackable(5, None), 2, "the number counts, not which");
    }

    #[test]
    fn what_was_acknowledged_ahead_is_made_up_for_first() {
        let mut intake = Intake::new(1, 0);
        let mut b = batch(5);
        intake.pass_up(&mut b, POOL);
        let window = Capacity::new(3, 50, 0, true);
        assert_eq!(intake.ackable(5, Some(&Capacity { bytes: 49, ..window })), 0);
        assert_eq!(intake.ackable(5, Some(&window)), 3);
        intake.tell(3);
        intake.consumed(&taken(&b, 0));
        assert_eq!(intake.ackable(5, None), 3, "no step back");
    }

    #[test]
    fn receipts_of_an_earlier_window_return_nothing() {
        let mut b = batch(2);
        Intake::new(1, 0).pass_up(&mut b, POOL);
        let mut intake = Intake::new(2, 0);
        let mut other = batch(2);
        intake.pass_up(&mut other, POOL);
        intake.consumed(&taken(&b, 0));
        assert_eq!(intake.unconsumed(), 2);
    }

    #[test]
    fn an_acknowledgement_is_due_by_number_or_by_bytes() {
        let mut intake = Intake::new(1, 0);
        let capacity = Capacity::new(40, 80, 0, true);
        assert!(!intake.is_due(9, &capacity));
        assert!(intake.is_due(10, &capacity));
        intake.pass_up(&mut batch(2), None);
        assert!(intake.is_due(2, &capacity));
    }

    #[test]
    fn messages_of_the_membership_and_of_services_are_not_counted() {
        let mut intake = Intake::new(1, 0);
        let mut b = Batch::new(id(1), true, false);
        b.push(wire::Message::multicast(Body::Empty).with_flags(Flags::NO_FC).into());
        intake.pass_up(&mut b, POOL);
        assert_eq!(intake.ackable(1, None), 1);
    }
}
