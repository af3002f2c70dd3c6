//! The two halves of a credit account with one peer in one pool (DECISIONS 13, 14, 16).
//!
//! At every instant, `balance` here and what is in flight, unconsumed and ungranted there add up to
//! the maximum (plus what was granted ahead as overdraft). Nothing in this file sends anything: the
//! methods say how much to ask for or to grant, and the layer does it.

use crate::Time;
use core::time::Duration;

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
    pub(super) fn new(terms: &Terms, epoch: u32, floored: bool) -> Self {
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
                last_grant: None,
            },
        }
    }

    /// The account lives on in a new view: what requests have taught is forgotten.
    pub(super) fn enter_view(&mut self) {
        self.out.eager = false;
        self.inc.learned = None;
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
    last_grant: Option<Time>,
}

/// A credit request that is not answered in full.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    remaining: u64,
    /// Something was granted for it: the rest is granted in one piece.
    answered: bool,
    /// When it proves a lost grant, if nothing arrives or is granted before.
    proof_at: Option<Time>,
}

/// A request proves that the account is out of step if nothing was granted for this long before it
/// (it does not cross a grant) and nothing arrives for this long after it (it overtook nothing).
/// The longest default interval between retransmission requests.
const QUIET: Duration = Duration::from_secs(1);

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

    /// A counted message arrived.
    pub(super) fn arrived(&mut self, cost: u64) {
        self.unconsumed += cost;
        if let Some(p) = &mut self.pending {
            p.proof_at = None;
        }
    }

    /// Bytes were consumed; the answer is what to grant now, if anything.
    pub(super) fn consumed(&mut self, bytes: u64, now: Time, terms: &Terms) -> Option<u64> {
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
        (self.ungranted >= wanted).then(|| self.grant(0, now))
    }

    /// The peer asked for `amount`; the answer is what to grant now, if anything.
    pub(super) fn requested(&mut self, amount: u64, now: Time, terms: &Terms) -> Option<u64> {
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
        let crosses = self.last_grant.is_some_and(|at| now.since(at) < QUIET);
        let proof_at = (self.unconsumed == 0 && !crosses).then(|| now + QUIET);
        self.pending = Some(PendingRequest { remaining: amount, answered: false, proof_at });
        (found > 0).then(|| self.grant(0, now))
    }

    /// When an open request proves that the account is out of step.
    pub(super) fn resync_at(&self) -> Option<Time> {
        self.pending?.proof_at
    }

    /// Nothing of the peer is here or on its way, and still it lacks credit: what it asked for is
    /// granted, because no memory is at stake. What was granted ahead is forgiven: it is less than
    /// what was lost, or the peer would have had enough.
    pub(super) fn resynchronise(&mut self, now: Time) -> Option<u64> {
        let remaining = self.pending?.remaining;
        self.overdraft = 0;
        Some(self.grant(remaining, now))
    }

    /// A call of the own application began to wait: an open request is answered ahead.
    pub(super) fn overdraw_pending(&mut self, now: Time, terms: &Terms) -> Option<u64> {
        let remaining = self.pending?.remaining;
        let ahead = self.overdraw(remaining.saturating_sub(self.ungranted), terms);
        (self.ungranted + ahead > 0).then(|| self.grant(ahead, now))
    }

    /// At most one further maximum per sender is granted ahead.
    fn overdraw(&mut self, lacking: u64, terms: &Terms) -> u64 {
        let ahead = lacking.min(terms.max.saturating_sub(self.overdraft));
        self.overdraft += ahead;
        ahead
    }

    fn grant(&mut self, ahead: u64, now: Time) -> u64 {
        self.last_grant = Some(now);
        let amount = self.ungranted + ahead;
        self.ungranted = 0;
        self.pending = self.pending.and_then(|p| {
            let remaining = p.remaining.saturating_sub(amount);
            (remaining > 0).then_some(PendingRequest { remaining, answered: true, proof_at: None })
        });
        amount
    }

    fn threshold(&self, terms: &Terms) -> u64 {
        self.learned.map_or(terms.threshold(), |l| l.min(terms.threshold()))
    }
}
