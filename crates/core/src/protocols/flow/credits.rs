//! The two halves of a credit account with one peer in one pool (DECISIONS 13, 14, 16).
//!
//! At every instant, `balance` here and what is in flight, unconsumed and ungranted there add up to
//! the maximum (plus what was granted ahead as overdraft). Nothing in this file sends anything: the
//! methods say how much to ask for or to grant, and the layer does it.

use crate::Time;

/// What a message costs at least between two members of this toolkit, in bytes: a flood of empty
/// messages is bounded too. Towards a Java member the payload length is the cost.
pub(super) const COST_FLOOR: u64 = 128;

/// The numbers that one layer's accounts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Credit of a fresh account.
    pub(super) max: u64,
    /// Credit left at the sender at which a receiver grants again.
    pub(super) min: u64,
    /// Requests are answered as JGroups does: unconditionally.
    pub(super) lenient: bool,
}

impl Terms {
    /// Consumed bytes at which a receiver grants of its own accord.
    fn threshold(&self) -> u64 {
        self.max.saturating_sub(self.min).max(1)
    }
}

/// Both halves of the account with one peer.
#[derive(Debug)]
pub(super) struct Account {
    /// Which incarnation; receipts of an earlier one return nothing.
    pub(super) epoch: u32,
    floor: u64,
    /// What we may send to the peer.
    pub(super) out: Outgoing,
    /// What we received from the peer.
    pub(super) inc: Incoming,
}

impl Account {
    /// A fresh account; `floored`: both ends are members of this toolkit.
    pub(super) fn new(terms: &Terms, epoch: u32, floored: bool, now: Time) -> Self {
        Self {
            epoch,
            floor: if floored { COST_FLOOR } else { 0 },
            out: Outgoing { balance: terms.max, asked: 0, eager: false },
            inc: Incoming {
                unconsumed: 0,
                ungranted: 0,
                overdraft: 0,
                pending: None,
                learned: None,
                last_arrival: now,
            },
        }
    }

    /// What a message with this much payload costs.
    pub(super) fn cost(&self, length: u64) -> u64 {
        length.max(self.floor)
    }
}

/// The sender's half.
#[derive(Debug)]
pub(super) struct Outgoing {
    balance: u64,
    /// Asked for and not granted since; 0 when no request is open.
    asked: u64,
    /// A request was answered in full: this peer grants too late for us by itself, so it is asked
    /// as soon as we block.
    eager: bool,
}

impl Outgoing {
    /// Granted and unused.
    pub(super) fn balance(&self) -> u64 {
        self.balance
    }

    /// Uses credit for a message that leaves.
    pub(super) fn spend(&mut self, cost: u64) {
        assert!(self.balance >= cost, "a message of cost {cost} left with {}", self.balance);
        self.balance -= cost;
    }

    /// Credit arrived. It never exceeds the maximum, however often it is granted.
    pub(super) fn credit(&mut self, amount: u64, terms: &Terms) {
        self.balance = self.balance.saturating_add(amount).min(terms.max);
        if self.asked > 0 {
            self.asked = self.asked.saturating_sub(amount);
            self.eager |= self.asked == 0;
        }
    }

    /// How much to ask for now, when the waiting heads cost `need`. `due`: the blocking time is
    /// over. Before that a request leaves only if the peer cannot know that we wait: credit is
    /// left, so its threshold was not reached; or it proved to grant too late before.
    pub(super) fn request(&mut self, need: u64, due: bool, terms: &Terms) -> Option<u64> {
        let lacking = need.checked_sub(self.balance).filter(|n| *n > 0)?;
        let unnoticed = self.balance > terms.min;
        let at_once = self.asked == 0 && (self.eager || unnoticed);
        if !(due || at_once) {
            return None;
        }
        self.asked = lacking;
        Some(lacking)
    }
}

/// The receiver's half.
#[derive(Debug)]
pub(super) struct Incoming {
    unconsumed: u64,
    ungranted: u64,
    /// Granted although it was not consumed, not repaid yet.
    overdraft: u64,
    pending: Option<PendingRequest>,
    /// A lower threshold that a request has taught.
    learned: Option<u64>,
    last_arrival: Time,
}

/// A credit request that is not answered in full.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    remaining: u64,
    /// Something was granted for it: the rest is granted in one piece.
    answered: bool,
}

/// What the receiver knows beyond its account when a request arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// A call of the own application waits: credit may be granted ahead (DECISIONS 16).
    pub(super) overdraft: bool,
    /// Nothing of the requester is queued, in reassembly or behind a gap, and nothing arrived for a
    /// while: no memory is at stake, the account is out of step.
    pub(super) quiet: bool,
}

impl Incoming {
    /// Received, not yet consumed.
    pub(super) fn unconsumed(&self) -> u64 {
        self.unconsumed
    }

    /// Consumed, not yet granted back.
    pub(super) fn ungranted(&self) -> u64 {
        self.ungranted
    }

    /// Granted ahead of consumption and not repaid.
    pub(super) fn overdraft(&self) -> u64 {
        self.overdraft
    }

    /// When the last counted message arrived.
    pub(super) fn last_arrival(&self) -> Time {
        self.last_arrival
    }

    /// A counted message arrived.
    pub(super) fn arrived(&mut self, cost: u64, now: Time) {
        self.unconsumed += cost;
        self.last_arrival = now;
    }

    /// Bytes were consumed; the answer is what to grant now, if anything.
    pub(super) fn consumed(&mut self, bytes: u64, terms: &Terms) -> Option<u64> {
        let bytes = bytes.min(self.unconsumed);
        self.unconsumed -= bytes;
        let repaid = bytes.min(self.overdraft);
        self.overdraft -= repaid;
        self.ungranted += bytes - repaid;
        let wanted = match self.pending {
            Some(p) if p.answered => p.remaining.min(self.threshold(terms)),
            Some(_) => 1,
            None => self.threshold(terms),
        };
        (self.ungranted >= wanted).then(|| self.grant(0))
    }

    /// The peer asked for `amount`; the answer is what to grant now, if anything.
    pub(super) fn requested(
        &mut self,
        amount: u64,
        c: Circumstances,
        terms: &Terms,
    ) -> Option<u64> {
        let amount = amount.min(terms.max);
        if terms.lenient {
            self.ungranted = self.ungranted.saturating_sub(amount);
            return Some(amount);
        }
        let found = self.ungranted;
        // Even all that is here would not have reached the threshold: the sender's maximum is
        // smaller than ours, or its head is large. A lower threshold spares it the next request.
        // If the threshold was within reach, the request only came early and teaches nothing.
        if found > 0 && found + self.unconsumed < self.threshold(terms) {
            self.learned = Some((found / 2).max(1));
        }
        let lacking = amount.saturating_sub(found);
        let ahead = if c.quiet && self.unconsumed == 0 {
            lacking
        } else if c.overdraft {
            self.overdraw(lacking, terms)
        } else {
            0
        };
        self.pending = Some(PendingRequest { remaining: amount, answered: false });
        let granted = (found + ahead > 0).then(|| self.grant(ahead));
        if amount == 0 {
            self.pending = None;
        }
        granted
    }

    /// A call of the own application began to wait: an open request is answered ahead.
    pub(super) fn overdraw_pending(&mut self, terms: &Terms) -> Option<u64> {
        let remaining = self.pending?.remaining;
        let ahead = self.overdraw(remaining.saturating_sub(self.ungranted), terms);
        (self.ungranted + ahead > 0).then(|| self.grant(ahead))
    }

    /// At most one further maximum per sender is granted ahead.
    fn overdraw(&mut self, lacking: u64, terms: &Terms) -> u64 {
        let ahead = lacking.min(terms.max.saturating_sub(self.overdraft));
        self.overdraft += ahead;
        ahead
    }

    fn grant(&mut self, ahead: u64) -> u64 {
        let amount = self.ungranted + ahead;
        self.ungranted = 0;
        self.pending = self.pending.and_then(|p| {
            let remaining = p.remaining.saturating_sub(amount);
            (remaining > 0).then_some(PendingRequest { remaining, answered: true })
        });
        amount
    }

    fn threshold(&self, terms: &Terms) -> u64 {
        self.learned.map_or(terms.threshold(), |l| l.min(terms.threshold()))
    }
}
