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
            out: Outgoing {
                balance: terms.max,
                charged: 0,
                asked: 0,
                eager: false,
                blind: !floored,
            },
            inc: Incoming {
                unconsumed: 0,
                ungranted: 0,
                overdraft: 0,
                pending: None,
                learned: None,
                last_grant: None,
                grants: Grants::Arrived,
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
    /// All costs so far.
    charged: u64,
    /// Asked for and not granted since; 0 when no request is open.
    asked: u64,
    /// A request was answered in full: this peer grants too late for us by itself, so it is asked
    /// as soon as we block.
    eager: bool,
    /// A Java peer: it grants whatever it is asked for, consumed or not.
    blind: bool,
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
        self.charged += cost;
    }

    /// Whether a request is open.
    pub(super) fn is_asked(&self) -> bool {
        self.asked > 0
    }

    /// What messages have cost since the account began.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// Credit arrived. It never exceeds the maximum, however often it is granted.
    pub(super) fn credit(&mut self, amount: u64, terms: &Terms) {
        self.balance = self.balance.saturating_add(amount).min(terms.max);
        if self.asked > 0 {
            self.asked = self.asked.saturating_sub(amount);
            self.eager |= self.asked == 0;
        } else if self.blind {
            // It granted unasked, so its threshold is within our reach.
            self.eager = false;
        }
    }

    /// Whether the peer grants too late for us and would grant blindly: it is asked for no more
    /// than it has taken for certain.
    pub(super) fn needs_claim(&self) -> bool {
        self.blind && self.eager && self.asked == 0
    }

    /// How much to ask for now, when the waiting heads cost `need`. `due`: the blocking time is
    /// over. Before that a request leaves only if the peer cannot know that we wait: credit is
    /// left, so its threshold was not reached; or it proved to grant too late before. `claim`: if
    /// [`Outgoing::needs_claim`], what the peer has taken and not granted.
    pub(super) fn request(
        &mut self,
        need: u64,
        due: bool,
        claim: Option<u64>,
        terms: &Terms,
    ) -> Option<u64> {
        let lacking = need.checked_sub(self.balance).filter(|n| *n > 0)?;
        let unnoticed = self.balance > terms.min;
        let late = self.eager && claim.is_none_or(|taken| taken >= lacking);
        let at_once = self.asked == 0 && (late || unnoticed);
        if !(due || at_once) {
            return None;
        }
        self.asked = claim.unwrap_or(0).max(lacking);
        Some(self.asked)
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
    /// Whether the peer has what was granted.
    pub(super) grants: Grants,
}

/// A credit request that is not answered in full.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    remaining: u64,
    /// Something was granted for it: the rest is granted in one piece.
    answered: bool,
    proof: Proof,
}

/// Whether a request proves that the account is out of step. It does if nothing was granted for
/// [`QUIET`] before it and no grant is on its way to the peer (it does not cross a grant), and if
/// nothing arrives for as long after it (it overtook nothing).
#[derive(Clone, Copy, Debug)]
enum Proof {
    /// It proves nothing.
    Nothing,
    /// The peer has not acknowledged a grant; looked at again then.
    GrantOnItsWay(Time),
    /// It proves it at that time, if nothing arrives or is granted before.
    At(Time),
}

/// The longest default interval between retransmission requests.
const QUIET: Duration = Duration::from_secs(1);

/// How long a request waits to be looked at again.
const RECHECK: Duration = Duration::from_millis(500);

/// The acknowledgement of grants. As long as one is on its way, the peer asks for what it has
/// already: a one-way cut holds up grants for as long as it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Grants {
    /// The peer has all of them.
    #[default]
    Arrived,
    /// One left, with a number that is not known yet.
    Unmarked,
    /// They arrived when the peer acknowledged this number.
    Upto(i64),
}

impl Grants {
    /// Looks at the connection to the peer, if there is one: the highest numbers that were
    /// acknowledged and sent. Answers whether all grants arrived.
    pub(super) fn look(&mut self, connection: Option<(i64, i64)>) -> bool {
        *self = match (*self, connection) {
            (Grants::Unmarked, Some((_, sent))) => Grants::Upto(sent),
            (same, Some(_)) => same,
            // Whatever was on its way is lost with the connection.
            (_, None) => Grants::Arrived,
        };
        if let (Grants::Upto(n), Some((acknowledged, sent))) = (*self, connection) {
            // A connection that has not come so far is another one.
            if acknowledged >= n || sent < n {
                *self = Grants::Arrived;
            }
        }
        *self == Grants::Arrived
    }
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

    /// A counted message arrived.
    pub(super) fn arrived(&mut self, cost: u64) {
        self.unconsumed += cost;
        if let Some(p) = &mut self.pending {
            p.proof = Proof::Nothing;
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
        let waits = self.pending.map(|p| p.proof);
        let proof = match (self.unconsumed == 0 && !crosses, self.grants, waits) {
            (false, _, _) => Proof::Nothing,
            // Somebody who asks more often than that is not to wait for ever.
            (true, _, Some(same @ (Proof::At(_) | Proof::GrantOnItsWay(_)))) => same,
            (true, Grants::Arrived, _) => Proof::At(now + QUIET),
            (true, Grants::Unmarked | Grants::Upto(_), _) => Proof::GrantOnItsWay(now + RECHECK),
        };
        self.pending = Some(PendingRequest { remaining: amount, answered: false, proof });
        (found > 0).then(|| self.grant(0, now))
    }

    /// When an open request is to be looked at again.
    pub(super) fn resync_at(&self) -> Option<Time> {
        match self.pending?.proof {
            Proof::Nothing => None,
            Proof::GrantOnItsWay(at) | Proof::At(at) => Some(at),
        }
    }

    /// The time came. Answers whether the open request proves that the account is out of step;
    /// `gap`: something of the peer was sent before and is missing here.
    pub(super) fn proves(&mut self, gap: bool, now: Time) -> bool {
        let arrived = self.grants == Grants::Arrived;
        let Some(p) = &mut self.pending else { return false };
        let (proves, next) = match p.proof {
            Proof::Nothing => (false, Proof::Nothing),
            Proof::GrantOnItsWay(_) | Proof::At(_) if !arrived => {
                (false, Proof::GrantOnItsWay(now + RECHECK))
            }
            Proof::GrantOnItsWay(_) => (false, Proof::At(now + QUIET)),
            Proof::At(_) if gap => (false, Proof::At(now + RECHECK)),
            proof @ Proof::At(_) => (true, proof),
        };
        p.proof = next;
        proves
    }

    /// Nothing of the peer is here or on its way, and still it lacks credit: what it asked for is
    /// granted, because no memory is at stake. What was granted ahead is forgiven: it is less than
    /// what was lost, or the peer would have had enough.
    pub(super) fn resynchronise(&mut self, now: Time) -> Option<u64> {
        let remaining = self.pending?.remaining;
        self.overdraft = 0;
        Some(self.grant(remaining, now))
    }

    /// A call of the own application waits: an open request is answered ahead.
    pub(super) fn overdraw_pending(&mut self, now: Time, terms: &Terms) -> Option<u64> {
        let remaining = self.pending?.remaining;
        let ahead = self.overdraw(remaining.saturating_sub(self.ungranted), terms);
        (self.ungranted + ahead > 0).then(|| self.grant(ahead, now))
    }

    /// At most one further maximum per sender is granted ahead, and only for what is here: what is
    /// on its way will be, and what the sender has too much it throws away and could never repay.
    fn overdraw(&mut self, lacking: u64, terms: &Terms) -> u64 {
        let here = self.unconsumed.saturating_sub(self.overdraft);
        let ahead = lacking.min(here).min(terms.max.saturating_sub(self.overdraft));
        self.overdraft += ahead;
        ahead
    }

    fn grant(&mut self, ahead: u64, now: Time) -> u64 {
        self.last_grant = Some(now);
        let amount = self.ungranted + ahead;
        self.ungranted = 0;
        self.pending = self.pending.and_then(|p| {
            let remaining = p.remaining.saturating_sub(amount);
            (remaining > 0).then_some(PendingRequest {
                remaining,
                answered: true,
                proof: Proof::Nothing,
            })
        });
        amount
    }

    fn threshold(&self, terms: &Terms) -> u64 {
        self.learned.map_or(terms.threshold(), |l| l.min(terms.threshold()))
    }
}
