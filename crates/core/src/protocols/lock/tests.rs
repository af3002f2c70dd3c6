//! Locks at several members on a network without delay, with everything lost that a test names.

use super::payload::{Claim, ClaimState, LockPayload, Step};
use super::*;
use crate::protocols::entry::{Entry, EntryConfig};
use crate::protocols::primary::Minority;
use crate::testkit::{Solo, exchange, pass_time};
use crate::wire::{Encode, Message};
use crate::{AppEvent, Command, GroupChange, PrimaryClaim, SendResult, View, ViewId};
use alloc::boxed::Box;

const SECOND: Duration = Duration::from_secs(1);

type Loss = Box<dyn FnMut(Uuid, Uuid, &Message) -> bool>;

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Locked(Result<u64, LockFailure>),
    Unlocked(Result<(), LockFailure>),
    Lost(LockLoss),
}

struct Locks {
    members: Vec<Solo>,
    told: Vec<Vec<(OpId, Told)>>,
    lose: Loss,
    last_op: u64,
}

fn lock(name: &str) -> LockName {
    LockName { name: name.into(), permits: None }
}

impl Locks {
    /// Members 0 to `n` - 1 in view 1.
    fn new(n: u64) -> Self {
        let layers = || -> Vec<Box<dyn Protocol>> {
            [
                Box::new(Lock::new(LockConfig::default())) as Box<dyn Protocol>,
                Box::new(Entry::new(EntryConfig::default())),
            ]
            .into()
        };
        let id = |n: u64| tag::tagged(n << 32, n, tag::LOCKS);
        let members: Vec<Solo> = (1..=n).map(|i| Solo::topped(i, id(i), layers())).collect();
        let told = members.iter().map(|_| Vec::new()).collect();
        let mut g = Self { members, told, lose: Box::new(|_, _, _| false), last_op: 0 };
        let all: Vec<usize> = (0..n as usize).collect();
        g.install(1, &all);
        g
    }

    fn id(&self, i: usize) -> Uuid {
        self.members[i].stack.local()
    }

    fn view(&self, number: u64, who: &[usize]) -> View {
        let ids: Vec<Uuid> = who.iter().map(|i| self.id(*i)).collect();
        View::new(number, ids[0], ids)
    }

    fn install(&mut self, number: u64, who: &[usize]) {
        let view = self.view(number, who);
        self.install_view(view, who);
    }

    fn install_view(&mut self, view: View, who: &[usize]) {
        let view = Arc::new(view);
        for i in who {
            self.members[*i].install(Arc::clone(&view));
        }
        self.step();
    }

    fn merge(&mut self, number: u64, parts: &[&[usize]]) {
        let all: Vec<usize> = parts.concat();
        let subgroups = parts.iter().map(|p| self.view(number - 1, p)).collect();
        let view = View { subgroups, ..self.view(number, &all) };
        self.install_view(view, &all);
    }

    fn submit(&mut self, i: usize, command: Command) {
        let now = self.members[i].now;
        self.members[i].stack.submit(now, command);
        self.step();
    }

    fn acquire(&mut self, i: usize, name: LockName, wait: LockWait) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.submit(i, Command::Lock(LockCall::Acquire { op, name, wait }));
        op
    }

    fn lock(&mut self, i: usize) -> OpId {
        self.acquire(i, lock("l"), LockWait::Forever)
    }

    fn unlock(&mut self, i: usize, hold: OpId) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.submit(i, Command::Lock(LockCall::Release { op: Some(op), hold }));
        op
    }

    fn step(&mut self) {
        exchange(&mut self.members, &mut self.lose);
        self.drain();
    }

    fn run(&mut self, d: Duration) {
        pass_time(&mut self.members, d, &mut self.lose);
        self.drain();
    }

    fn drain(&mut self) {
        for (member, told) in self.members.iter_mut().zip(&mut self.told) {
            for ev in member.told() {
                told.extend(match ev {
                    AppEvent::Resolved { op, result: SendResult::Locked(r) } => {
                        Some((op, Told::Locked(r)))
                    }
                    AppEvent::Resolved { op, result: SendResult::Unlocked(r) } => {
                        Some((op, Told::Unlocked(r)))
                    }
                    AppEvent::LockLost { hold, why } => Some((hold, Told::Lost(why))),
                    _ => None,
                });
            }
        }
    }

    /// What was told of a call last.
    fn last(&self, i: usize, op: OpId) -> Option<Told> {
        self.told[i].iter().rev().find(|(o, _)| *o == op).map(|(_, t)| t.clone())
    }

    fn token(&self, i: usize, op: OpId) -> Option<u64> {
        match self.last(i, op) {
            Some(Told::Locked(Ok(token))) => Some(token),
            _ => None,
        }
    }

    fn claim(&mut self, i: usize, primacy: Primacy, lasts: Duration) {
        let until = self.members[i].now + lasts;
        let claim = PrimaryClaim { primacy, until, minority: Minority::Report };
        self.members[i].stack.inject_change(GroupChange::Primary(claim));
        self.members[i].event_up(Event::Primary(primacy));
        self.step();
    }

    fn gauge(&self, i: usize, name: &str) -> u64 {
        let mut found = None;
        self.members[i].stack.inspect(&mut |l, n, v| {
            if l == "LOCK" && n == name {
                found = Some(v);
            }
        });
        found.expect("the gauge exists")
    }
}

#[test]
fn one_has_it_and_the_others_get_it_in_the_order_in_which_they_asked() {
    let mut g = Locks::new(4);
    let holds: Vec<(usize, OpId)> = [2, 0, 3, 1].map(|i| (i, g.lock(i))).into();
    let mut before = 0;
    for (at, (i, op)) in holds.iter().enumerate() {
        let token = g.token(*i, *op).expect("it is the next");
        assert!(token > before, "tokens grow");
        before = token;
        assert!(holds[at + 1..].iter().all(|(j, o)| g.last(*j, *o).is_none()), "one has it");
        let release = g.unlock(*i, *op);
        assert_eq!(g.last(*i, release), Some(Told::Unlocked(Ok(()))));
    }
    assert_eq!((g.gauge(0, "keeper_held"), g.gauge(0, "keeper_waiting")), (0, 0));
}

#[test]
fn locks_of_other_names_have_nothing_to_do_with_it() {
    let mut g = Locks::new(2);
    let a = g.acquire(0, lock("a"), LockWait::Forever);
    let b = g.acquire(1, lock("b"), LockWait::Forever);
    assert!(g.token(0, a).is_some() && g.token(1, b).is_some());
}

#[test]
fn what_cannot_be_had_at_once_is_refused_to_who_does_not_wait() {
    let mut g = Locks::new(3);
    let first = g.acquire(1, lock("l"), LockWait::NotAtAll);
    assert!(g.token(1, first).is_some());
    let second = g.acquire(2, lock("l"), LockWait::NotAtAll);
    assert_eq!(g.last(2, second), Some(Told::Locked(Err(LockFailure::Taken))));
}

#[test]
fn a_wait_ends_at_its_deadline_and_is_granted_to_nobody_later() {
    let mut g = Locks::new(3);
    let has = g.lock(1);
    let op = g.acquire(2, lock("l"), LockWait::For(5 * SECOND));
    g.run(5 * SECOND - Duration::from_millis(1));
    assert_eq!(g.last(2, op), None);
    g.run(Duration::from_millis(1));
    assert_eq!(g.last(2, op), Some(Told::Locked(Err(LockFailure::TimedOut))));
    g.unlock(1, has);
    assert_eq!((g.gauge(0, "keeper_held"), g.gauge(0, "keeper_waiting")), (0, 0));
}

#[test]
fn who_gives_up_waiting_is_passed_over() {
    let mut g = Locks::new(3);
    let (has, waits, next) = (g.lock(0), g.lock(1), g.lock(2));
    g.submit(1, Command::Cancel(waits));
    assert_eq!(g.last(1, waits), Some(Told::Locked(Err(LockFailure::Withdrawn))));
    g.unlock(0, has);
    assert!(g.token(2, next).is_some());
}

#[test]
fn the_next_one_gets_what_a_dead_holder_had() {
    let mut g = Locks::new(3);
    let has = g.lock(2);
    let waits = g.lock(1);
    let before = g.token(2, has).expect("it has it");
    g.install(2, &[0, 1]);
    assert!(g.token(1, waits).is_some_and(|t| t > before));
}

#[test]
fn the_holder_keeps_it_when_the_keeper_dies_and_so_does_the_line() {
    let mut g = Locks::new(4);
    let (has, second, third) = (g.lock(3), g.lock(2), g.lock(1));
    let before = g.token(3, has).expect("it has it");
    g.install(2, &[1, 2, 3]);
    assert_eq!(g.last(3, has), Some(Told::Locked(Ok(before))), "nothing is lost");
    assert_eq!((g.last(2, second), g.last(1, third)), (None, None));
    g.unlock(3, has);
    assert!(g.token(2, second).is_some_and(|t| t > before), "who came first");
    assert_eq!(g.last(1, third), None);
}

#[test]
fn a_new_keeper_waits_for_what_everybody_has() {
    let mut g = Locks::new(3);
    let has = g.lock(2);
    let (b, c) = (g.id(1), g.id(2));
    g.lose = Box::new(move |from, to, _| (from, to) == (c, b));
    g.install(2, &[1, 2]);
    let op = g.lock(1);
    assert_eq!(g.last(1, op), None);
    g.lose = Box::new(|_, _, _| false);
    g.run(2 * SECOND);
    assert_eq!(g.last(1, op), None, "it is had by the other");
    g.unlock(2, has);
    assert!(g.token(1, op).is_some());
}

#[test]
fn what_a_keeper_of_another_view_granted_is_not_had() {
    let mut g = Locks::new(3);
    let (a, c) = (g.id(0), g.id(2));
    g.lose = Box::new(move |from, to, _| (from, to) == (a, c));
    let op = g.lock(2);
    assert_eq!(g.last(2, op), None, "the grant is lost");
    g.lose = Box::new(|_, _, _| false);
    let old = LockPayload { view: g.view(1, &[0]).id, step: Step::Granted { number: 1, token: 1 } };
    g.install(2, &[1, 2]);
    let of_new = g.token(2, op).expect("the new keeper grants it");
    let mut m = old.message(c);
    m.src = Some(a.into());
    g.members[2].arrive(0, m);
    g.step();
    assert_eq!(g.token(2, op), Some(of_new));
}

#[test]
fn in_a_merge_the_larger_part_keeps_what_it_has_and_the_other_is_told() {
    let mut g = Locks::new(5);
    g.install(2, &[0, 1]);
    g.install(2, &[2, 3, 4]);
    let (small, large) = (g.lock(1), g.lock(4));
    assert!(g.token(1, small).is_some() && g.token(4, large).is_some(), "one in each part");
    let highest = g.token(1, small).max(g.token(4, large));
    let waits = g.lock(3);
    g.merge(4, &[&[0, 1], &[2, 3, 4]]);
    assert_eq!(g.last(1, small), Some(Told::Lost(LockLoss::Merged)));
    assert!(g.token(4, large).is_some());
    g.unlock(4, large);
    assert!(g.token(3, waits) > highest, "above those of both parts");
}

#[test]
fn outside_the_primary_view_nothing_is_granted_and_what_was_had_is_lost_in_time() {
    let mut g = Locks::new(3);
    (0..3).for_each(|i| g.claim(i, Primacy::Yes, 3 * SECOND));
    let has = g.lock(2);
    assert!(g.token(2, has).is_some());
    // C is cut off; it trusts its view until its lease is over.
    g.lose = Box::new(|_, _, _| true);
    g.run(3 * SECOND - Duration::from_millis(1));
    assert!(g.token(2, has).is_some());
    g.run(Duration::from_millis(1));
    assert_eq!(g.last(2, has), Some(Told::Lost(LockLoss::NotPrimary)));
    g.claim(2, Primacy::No, Duration::ZERO);
    let refused = g.lock(2);
    assert_eq!(g.last(2, refused), Some(Told::Locked(Err(LockFailure::NotPrimary))));
}

#[test]
fn a_holder_that_stood_still_learns_of_its_loss_before_it_says_that_it_has_it() {
    let mut g = Locks::new(3);
    (0..3).for_each(|i| g.claim(i, Primacy::Yes, 3 * SECOND));
    let has = g.lock(2);
    g.members[2].now += 10 * SECOND;
    g.install(2, &[0, 1, 2]);
    assert_eq!(g.last(2, has), Some(Told::Lost(LockLoss::NotPrimary)));
    (0..3).for_each(|i| g.claim(i, Primacy::Yes, 3 * SECOND));
    let next = g.lock(1);
    assert!(g.token(1, next).is_some());
}

#[test]
fn a_grant_waits_until_the_view_is_known_to_be_the_primary_one() {
    let mut g = Locks::new(2);
    (0..2).for_each(|i| g.claim(i, Primacy::Unknown, Duration::ZERO));
    let op = g.lock(1);
    assert_eq!(g.last(1, op), None);
    g.claim(0, Primacy::Yes, 60 * SECOND);
    assert_eq!(g.last(1, op), None, "the keeper knows, the member does not");
    g.claim(1, Primacy::Yes, 60 * SECOND);
    assert!(g.token(1, op).is_some());
}

#[test]
fn as_many_as_there_are_permits_have_a_semaphore() {
    let mut g = Locks::new(3);
    let of = |permits| LockName { name: "s".into(), permits: Some(permits) };
    let has: Vec<(usize, OpId)> =
        [0, 1].map(|i| (i, g.acquire(i, of(2), LockWait::Forever))).into();
    let waits = g.acquire(2, of(2), LockWait::Forever);
    assert!(has.iter().all(|(i, op)| g.token(*i, *op).is_some()));
    assert_eq!(g.last(2, waits), None);
    let other = g.acquire(2, of(3), LockWait::Forever);
    let told = LockFailure::OtherPermits { permits: 2 };
    assert_eq!(g.last(2, other), Some(Told::Locked(Err(told))));
    g.unlock(has[1].0, has[1].1);
    assert!(g.token(2, waits).is_some());
}

#[test]
fn what_is_not_had_is_not_given_back_and_closing_loses_everything() {
    let mut g = Locks::new(2);
    let (has, waits) = (g.lock(1), g.lock(1));
    let wrong = g.unlock(1, OpId(999));
    assert_eq!(g.last(1, wrong), Some(Told::Unlocked(Err(LockFailure::NotHeld))));
    g.submit(1, Command::Disconnect);
    assert_eq!(g.last(1, has), Some(Told::Lost(LockLoss::Closed)));
    assert_eq!(g.last(1, waits), Some(Told::Locked(Err(LockFailure::Closed))));
}

#[test]
fn payloads_read_as_they_were_written_and_no_part_of_one_does() {
    let view = ViewId { creator: Uuid::new(1, 2), id: 9 };
    let claim = |number, state| Claim { number, name: lock("name"), state };
    let all = [
        Step::Claims(
            [claim(1, ClaimState::Has { token: 7 }), claim(2, ClaimState::NowOrNever)].into(),
        ),
        Step::Acquire(Claim {
            name: LockName { name: "s".into(), permits: Some(3) },
            ..claim(3, ClaimState::Waits { ticket: Some(5) })
        }),
        Step::Release(4),
        Step::Ready,
        Step::Queued { number: 5, ticket: 6 },
        Step::Granted { number: 7, token: 8 },
        Step::Busy(9),
        Step::Released(10),
        Step::Lost(11),
        Step::OtherPermits { number: 12, permits: 13 },
    ];
    for step in all {
        let payload = LockPayload { view, step };
        let bytes = payload.to_bytes();
        assert_eq!(LockPayload::from_bytes(bytes.clone()), Ok(payload));
        for cut in 0..bytes.len() {
            assert!(LockPayload::from_bytes(bytes.slice(..cut)).is_err());
        }
    }
}

#[test]
fn the_bytes_of_a_claim_and_of_a_grant() {
    let view = ViewId { creator: Uuid::new(1, 2), id: 9 };
    let hex = |p: &LockPayload| -> String {
        p.to_bytes().iter().map(|b| alloc::format!("{b:02x}")).collect()
    };
    let of_view = "000000000000000200000000000000010000000000000009";
    let state = ClaimState::Has { token: 7 };
    let claim = Claim { number: 1, name: lock("ab"), state };
    assert_eq!(
        hex(&LockPayload { view, step: Step::Acquire(claim) }),
        alloc::format!("0402{of_view}0000000000000001000261620000000002{:016x}", 7)
    );
    assert_eq!(
        hex(&LockPayload { view, step: Step::Granted { number: 1, token: 2 } }),
        alloc::format!("0406{of_view}{:016x}{:016x}", 1, 2)
    );
}
