//! A pair of accounts on an imperfect network, against the rules that must hold at every instant
//! (INVARIANTS E1, E2, E4, E7, E9).

use super::credits::{Account, Grants, Terms};
use crate::{Rng, Time};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

const TERMS: Terms = Terms { max: 10_000, min: 4_000, lenient: false };
const BLOCK: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
enum Packet {
    Data(u64),
    Grant(u64),
    Request(u64),
}

/// What the network does to credit messages; data always arrives, in order.
#[derive(Clone, Copy)]
struct Faults {
    loss: f64,
    duplication: f64,
}

struct Pair {
    rng: Rng,
    now: Time,
    faults: Faults,
    sender: Account,
    receiver: Account,
    /// Sizes of messages that wait at the sender, the head first.
    waiting: VecDeque<u64>,
    ask_at: Option<Time>,
    /// Received, not yet consumed.
    queued: VecDeque<u64>,
    flying: BTreeMap<(Time, u64), Packet>,
    sent: u64,
    last_data: Time,
}

impl Pair {
    fn new(seed: u64, faults: Faults) -> Self {
        let account = || Account::new(&TERMS, 1, false);
        Self {
            rng: Rng::new(seed),
            now: Time::ZERO,
            faults,
            sender: account(),
            receiver: account(),
            waiting: VecDeque::new(),
            ask_at: None,
            queued: VecDeque::new(),
            flying: BTreeMap::new(),
            sent: 0,
            last_data: Time::ZERO,
        }
    }

    fn fly(&mut self, p: Packet) {
        let delay = self.rng.duration(Duration::from_millis(1), Duration::from_millis(300));
        let mut at = self.now + delay;
        let control = !matches!(p, Packet::Data(_));
        if !control {
            at = at.max(self.last_data);
            self.last_data = at;
        }
        if control && self.rng.chance(self.faults.loss) {
            return;
        }
        self.sent += 1;
        self.flying.insert((at, self.sent), p);
        if control && self.rng.chance(self.faults.duplication) {
            self.sent += 1;
            self.flying.insert((at + delay, self.sent), p);
        }
    }

    fn head(&self) -> u64 {
        self.waiting.front().copied().unwrap_or(0)
    }

    fn pump(&mut self, due: bool) {
        while let Some(size) = self.waiting.front().copied() {
            if self.sender.out.balance() < size {
                break;
            }
            self.sender.out.spend(size);
            self.waiting.pop_front();
            self.ask_at = None;
            self.fly(Packet::Data(size));
        }
        if let Some(amount) = self.sender.out.request(self.head(), due, None, &TERMS) {
            self.fly(Packet::Request(amount));
        }
        if due {
            self.ask_at = None;
        }
        if !self.waiting.is_empty() {
            self.ask_at.get_or_insert(self.now + BLOCK);
        }
    }

    fn consume(&mut self) {
        if let Some(size) = self.queued.pop_front() {
            let granted = self.receiver.inc.consumed(size, self.now, &TERMS);
            self.grant(granted);
        }
    }

    fn grant(&mut self, amount: Option<u64>) {
        if let Some(amount) = amount {
            self.fly(Packet::Grant(amount));
        }
    }

    fn arrive(&mut self, p: Packet) {
        match p {
            Packet::Data(size) => {
                self.receiver.inc.arrived(size);
                self.queued.push_back(size);
            }
            Packet::Grant(amount) => {
                self.sender.out.credit(amount, &TERMS);
                self.pump(false);
            }
            Packet::Request(amount) => {
                let granted = self.receiver.inc.requested(amount, self.now, &TERMS);
                self.grant(granted);
            }
        }
    }

    /// The next thing that happens; false if there is nothing.
    fn step(&mut self, may_consume: bool) -> bool {
        if may_consume && !self.queued.is_empty() && self.rng.chance(0.3) {
            self.consume();
            return true;
        }
        let packet = self.flying.keys().next().map(|(at, _)| *at);
        let resync = self.receiver.inc.resync_at();
        let Some(at) = [packet, self.ask_at, resync].into_iter().flatten().min() else {
            if may_consume && !self.queued.is_empty() {
                self.consume();
                return true;
            }
            return false;
        };
        self.now = self.now.max(at);
        if packet == Some(at) {
            if let Some((_, p)) = self.flying.pop_first() {
                self.arrive(p);
            }
        } else if resync == Some(at) {
            if self.receiver.inc.proves(false, self.now) {
                let granted = self.receiver.inc.resynchronise(self.now);
                self.grant(granted);
            }
        } else {
            self.pump(true);
        }
        true
    }

    fn in_flight(&self, which: impl Fn(&Packet) -> Option<u64>) -> u64 {
        self.flying.values().filter_map(which).sum()
    }

    /// Everything that the maximum is divided into.
    fn total(&self) -> u64 {
        let inc = &self.receiver.inc;
        self.sender.out.balance()
            + self.in_flight(|p| if let Packet::Data(n) = p { Some(*n) } else { None })
            + inc.unconsumed()
            + inc.ungranted()
            + self.in_flight(|p| if let Packet::Grant(n) = p { Some(*n) } else { None })
    }

    fn offer(&mut self) {
        let size = self.rng.between(1, 6_000);
        self.waiting.push_back(size);
        self.pump(false);
    }

    fn finish(&mut self) {
        for _ in 0..100_000 {
            if !self.step(true) {
                return;
            }
        }
        panic!(
            "messages wait for ever: head {}, balance {}",
            self.head(),
            self.sender.out.balance()
        );
    }
}

#[test]
fn credit_is_conserved_at_every_instant() {
    for seed in 0..200 {
        let mut p = Pair::new(seed, Faults { loss: 0.0, duplication: 0.0 });
        for _ in 0..300 {
            if p.rng.chance(0.4) && p.waiting.len() < 20 {
                p.offer();
            }
            let consumes = p.rng.chance(0.7);
            p.step(consumes);
            assert_eq!(p.total(), TERMS.max, "seed {seed}");
            assert!(p.receiver.inc.unconsumed() <= TERMS.max);
        }
        p.finish();
        assert_eq!(p.total(), TERMS.max, "seed {seed}");
        assert_eq!(p.receiver.inc.unconsumed(), 0);
        // What is left ungranted is below the threshold, and a request fetches it.
        p.waiting.push_back(TERMS.max);
        p.pump(false);
        p.finish();
        assert!(p.waiting.is_empty());
    }
}

#[test]
fn lost_and_repeated_credit_messages_neither_block_for_ever_nor_exceed_the_maximum() {
    for seed in 0..200 {
        let mut p = Pair::new(seed, Faults { loss: 0.3, duplication: 0.3 });
        for _ in 0..300 {
            if p.rng.chance(0.4) && p.waiting.len() < 20 {
                p.offer();
            }
            p.step(true);
            assert!(p.sender.out.balance() <= TERMS.max);
        }
        p.finish();
        assert!(p.waiting.is_empty(), "seed {seed}");
    }
}

fn account() -> Account {
    Account::new(&TERMS, 1, false)
}

fn ask(a: &mut Account, amount: u64) -> Option<u64> {
    a.inc.requested(amount, Time::ZERO, &TERMS)
}

#[test]
fn a_request_is_answered_at_once_with_what_was_consumed() {
    let mut a = account();
    a.inc.arrived(3_000);
    assert_eq!(a.inc.consumed(2_000, Time::ZERO, &TERMS), None);
    assert_eq!(ask(&mut a, 500), Some(2_000));
}

#[test]
fn a_request_that_finds_nothing_is_answered_at_the_next_consumed_byte() {
    let mut a = account();
    a.inc.arrived(3_000);
    assert_eq!(ask(&mut a, 500), None);
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(1));
    assert_eq!(a.inc.consumed(498, Time::ZERO, &TERMS), None);
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(499), "the rest comes in one piece");
    assert_eq!(
        a.inc.consumed(1_000, Time::ZERO, &TERMS),
        None,
        "and then the threshold counts again"
    );
}

#[test]
fn a_request_below_the_threshold_teaches_a_lower_one() {
    let mut a = account();
    a.inc.arrived(3_000);
    assert_eq!(a.inc.consumed(3_000, Time::ZERO, &TERMS), None);
    assert_eq!(ask(&mut a, 500), Some(3_000));
    a.inc.arrived(3_000);
    assert_eq!(a.inc.consumed(1_499, Time::ZERO, &TERMS), None);
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(1_500));
    a.enter_view();
    assert_eq!(a.inc.consumed(1_500, Time::ZERO, &TERMS), None);
}

#[test]
fn a_request_that_only_came_early_teaches_nothing() {
    let mut a = account();
    a.inc.arrived(10_000);
    assert_eq!(a.inc.consumed(1_000, Time::ZERO, &TERMS), None);
    assert_eq!(ask(&mut a, 500), Some(1_000));
    assert_eq!(a.inc.consumed(5_999, Time::ZERO, &TERMS), None);
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(6_000));
}

#[test]
fn a_request_that_nothing_follows_is_granted_without_consumption() {
    let mut a = account();
    assert_eq!(ask(&mut a, 700), None);
    let due = Time::ZERO + Duration::from_secs(1);
    assert_eq!(a.inc.resync_at(), Some(due));
    assert_eq!(a.inc.resynchronise(due), Some(700));
    assert_eq!(a.inc.resync_at(), None);
}

#[test]
fn a_request_that_overtook_data_or_crossed_a_grant_proves_nothing() {
    let mut a = account();
    assert_eq!(ask(&mut a, 700), None);
    a.inc.arrived(1);
    assert_eq!(a.inc.resync_at(), None, "it overtook data");
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(1));
    assert_eq!(ask(&mut a, 700), None);
    assert_eq!(a.inc.resync_at(), None, "it crossed a grant");
    let later = Time::ZERO + Duration::from_secs(1);
    assert_eq!(a.inc.requested(700, later, &TERMS), None);
    assert_eq!(a.inc.resync_at(), Some(later + Duration::from_secs(1)));
}

#[test]
fn who_asks_again_and_again_does_not_wait_longer_for_it() {
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    let mut a = account();
    assert_eq!(a.inc.requested(700, at(0), &TERMS), None);
    assert_eq!(a.inc.requested(800, at(600), &TERMS), None);
    assert!(a.inc.proves(false, at(1_000)));
    assert_eq!(a.inc.resynchronise(at(1_000)), Some(800));
}

#[test]
fn a_request_proves_nothing_while_a_grant_is_not_acknowledged() {
    let at = |s: u64| Time::ZERO + Duration::from_secs(s);
    let mut a = account();
    a.inc.grants = Grants::Unmarked;
    assert!(!a.inc.grants.look(Some((4, 5))));
    assert_eq!(a.inc.requested(700, at(10), &TERMS), None);
    assert!(!a.inc.proves(false, at(11)));
    assert!(a.inc.grants.look(Some((5, 9))), "what was sent later does not matter");
    assert!(!a.inc.proves(false, at(12)), "what the grant lets go has time to arrive");
    assert_eq!(a.inc.resync_at(), Some(at(13)));
    assert!(a.inc.proves(false, at(13)));
}

#[test]
fn with_its_connection_a_grant_is_lost() {
    for connection in [None, Some((0, 3))] {
        let mut grants = Grants::Upto(7);
        assert!(grants.look(connection));
    }
}

#[test]
fn the_overdraft_is_at_most_one_maximum_and_repaid_first() {
    let mut a = account();
    let ask_ahead = |a: &mut Account| {
        let found = ask(a, 6_000);
        assert_eq!(found, None);
        a.inc.overdraw_pending(Time::ZERO, &TERMS)
    };
    a.inc.arrived(10_000);
    assert_eq!(ask_ahead(&mut a), Some(6_000));
    a.inc.arrived(6_000);
    assert_eq!(ask_ahead(&mut a), Some(4_000));
    a.inc.arrived(4_000);
    assert_eq!(ask_ahead(&mut a), None);
    assert_eq!((a.inc.unconsumed(), a.inc.overdraft()), (20_000, 10_000));
    assert_eq!(a.inc.consumed(10_000, Time::ZERO, &TERMS), None, "it repays");
    assert_eq!(a.inc.overdraft(), 0);
    assert_eq!(a.inc.consumed(1, Time::ZERO, &TERMS), Some(1), "the last request is still open");
}

#[test]
fn nothing_is_granted_ahead_of_what_is_here() {
    let mut a = account();
    a.inc.arrived(700);
    assert_eq!(ask(&mut a, 6_000), None);
    assert_eq!(a.inc.overdraw_pending(Time::ZERO, &TERMS), Some(700));
    assert_eq!(a.inc.overdraw_pending(Time::ZERO, &TERMS), None);
    a.inc.arrived(300);
    assert_eq!(a.inc.overdraw_pending(Time::ZERO, &TERMS), Some(300), "when more is here");
}

#[test]
fn an_open_request_is_answered_ahead_when_a_call_begins_to_wait() {
    let mut a = account();
    a.inc.arrived(10_000);
    assert_eq!(ask(&mut a, 800), None);
    assert_eq!(a.inc.overdraw_pending(Time::ZERO, &TERMS), Some(800));
    assert_eq!(a.inc.overdraw_pending(Time::ZERO, &TERMS), None);
}

#[test]
fn exhausted_credit_is_not_asked_for_before_its_time_unless_the_peer_is_known_to_be_late() {
    let mut a = account();
    a.out.spend(9_000);
    assert_eq!(a.out.request(2_000, false, None, &TERMS), None);
    assert_eq!(a.out.request(2_000, true, None, &TERMS), Some(1_000));
    a.out.credit(1_000, &TERMS);
    a.out.spend(2_000);
    assert_eq!(a.out.request(2_000, false, None, &TERMS), Some(2_000), "it was answered in full");
    assert_eq!(a.out.request(2_000, false, None, &TERMS), None, "once");
}

/// A Java member that grants too late for us.
fn late_java_receiver() -> Account {
    let mut a = Account::new(&TERMS, 1, false);
    a.out.spend(10_000);
    assert_eq!(a.out.request(2_000, true, None, &TERMS), Some(2_000));
    a.out.credit(2_000, &TERMS);
    a.out.spend(2_000);
    assert!(a.out.needs_claim());
    a
}

#[test]
fn a_java_receiver_that_grants_too_late_is_asked_at_once_for_all_that_it_has_taken() {
    let mut a = late_java_receiver();
    assert_eq!(a.out.request(2_000, false, Some(9_000), &TERMS), Some(9_000));
    a.out.credit(9_000, &TERMS);
    assert_eq!(a.out.balance(), 9_000);
}

#[test]
fn a_java_receiver_that_takes_nothing_is_asked_for_one_message_per_blocking_time() {
    let mut a = late_java_receiver();
    assert_eq!(a.out.request(2_000, false, Some(1_999), &TERMS), None);
    assert_eq!(a.out.request(2_000, true, Some(1_999), &TERMS), Some(2_000));
}

#[test]
fn a_java_receiver_that_grants_unasked_is_late_no_more() {
    let mut a = late_java_receiver();
    a.out.credit(6_000, &TERMS);
    assert!(!a.out.needs_claim());
}

#[test]
fn maxima_above_32_bits_work() {
    let terms = Terms { max: 3_000_000_000, min: 1_200_000_000, lenient: false };
    let mut a = Account::new(&terms, 1, true);
    a.out.spend(2_900_000_000);
    assert_eq!(a.out.balance(), 100_000_000);
    a.inc.arrived(2_000_000_000);
    assert_eq!(a.inc.consumed(1_800_000_000, Time::ZERO, &terms), Some(1_800_000_000));
}

#[test]
fn costs_have_a_floor_between_members_of_this_toolkit() {
    let costs = |floored: bool| -> Vec<u64> {
        let a = Account::new(&TERMS, 1, floored);
        [0, 1, 128, 129].map(|n| a.cost(n)).into()
    };
    assert_eq!(costs(true), [128, 128, 128, 129]);
    assert_eq!(costs(false), [0, 1, 128, 129]);
}
