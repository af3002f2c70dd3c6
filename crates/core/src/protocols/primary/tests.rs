//! Groups of members on a network that loses what the test wants lost. Views are installed by hand,
//! so that they can come in any order, and to some members never.

use super::{Minority, Primary, PrimaryConfig, PrimaryPolicy};
use crate::testkit::{Solo, pass_time};
use crate::{AppEvent, Event, Primacy, Rng, Time, Uuid, View, tag};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

const LEASE: Duration = Duration::from_secs(3);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn member(n: u64) -> Uuid {
    tag::tagged(n << 32, n, tag::PRIMARY)
}

struct Members {
    all: Vec<Solo>,
    /// Which part of the network each is in.
    part: Vec<usize>,
    /// One message in so many is lost; 0: none.
    loss: u64,
    rng: Rng,
}

impl Members {
    fn new(n: u64, config: &PrimaryConfig) -> Self {
        let solo =
            |i| Solo::topped(i, member(i), [Box::new(Primary::new(config.clone())) as _].into());
        let all: Vec<Solo> = (1..=n).map(solo).collect();
        let part = [0].repeat(all.len());
        Self { all, part, loss: 0, rng: Rng::new(7) }
    }

    fn keep_majority(n: u64, quorum: u32) -> Self {
        Self::new(n, &PrimaryConfig { quorum, ..PrimaryConfig::default() })
    }

    fn now(&self) -> Time {
        self.all[0].now
    }

    fn view(&self, number: u64, who: &[usize]) -> Arc<View> {
        let ids: Vec<Uuid> = who.iter().map(|i| self.all[*i].stack.local()).collect();
        Arc::new(View::new(number, ids[0], ids))
    }

    fn install(&mut self, number: u64, who: &[usize]) {
        let view = self.view(number, who);
        for i in who {
            self.all[*i].install(Arc::clone(&view));
        }
    }

    fn pass(&mut self, d: Duration) {
        let ids: Vec<Uuid> = self.all.iter().map(|m| m.stack.local()).collect();
        let (part, loss, rng) = (self.part.clone(), self.loss, &mut self.rng);
        let of = |m: Uuid| ids.iter().position(|i| *i == m).map(|i| part[i]);
        pass_time(&mut self.all, d, |from, to, _| {
            of(from) != of(to) || (loss > 0 && rng.below(loss) == 0)
        });
    }

    fn says(&self, i: usize) -> Primacy {
        let claim = self.all[i].stack.group().primary.expect("PRIMARY is in the stack");
        claim.at(self.now())
    }

    fn all_say(&self) -> Vec<Primacy> {
        (0..self.all.len()).map(|i| self.says(i)).collect()
    }

    /// The views that anybody takes for the primary one now.
    fn primary(&self) -> BTreeMap<u64, Vec<Uuid>> {
        let claims = (0..self.all.len()).filter(|i| self.says(*i) == Primacy::Yes);
        let view = |i: usize| self.all[i].stack.group().view.clone().expect("a view");
        claims.map(view).map(|v| (v.id.id, v.members.to_vec())).collect()
    }
}

use Primacy::{No, Unknown, Yes};

#[test]
fn a_view_of_enough_founders_becomes_the_primary_one() {
    let mut m = Members::keep_majority(3, 2);
    m.install(0, &[0]);
    m.pass(ms(100));
    assert_eq!(m.says(0), No, "one is not enough to begin");
    m.install(1, &[0, 1, 2]);
    assert_eq!(m.says(0), Unknown);
    m.pass(ms(100));
    assert_eq!(m.all_say(), [Yes, Yes, Yes]);
    m.pass(LEASE * 5);
    assert_eq!(m.all_say(), [Yes, Yes, Yes], "contact renews it");
}

#[test]
fn whoever_is_cut_off_does_not_know_before_the_others_go_on() {
    let mut m = Members::keep_majority(5, 3);
    m.install(1, &[0, 1, 2, 3, 4]);
    m.pass(LEASE);
    m.part = [0, 0, 0, 1, 1].into();
    m.install(2, &[0, 1, 2]);
    let (mut lapsed_at, mut went_on_at) = (None, None);
    for _ in 0..100 {
        m.pass(ms(50));
        assert!(m.primary().len() <= 1, "{:?}", m.primary());
        if [3, 4].into_iter().all(|i| m.says(i) == Unknown) {
            lapsed_at.get_or_insert(m.now());
        }
        if m.says(0) == Yes {
            went_on_at.get_or_insert(m.now());
        }
    }
    assert!(lapsed_at.expect("it lapsed") < went_on_at.expect("they went on"));
    m.install(2, &[3, 4]);
    m.pass(ms(100));
    assert_eq!(m.all_say(), [Yes, Yes, Yes, No, No]);
    // A merge: the chain goes on where the majority was.
    m.part = [0].repeat(5);
    m.install(3, &[3, 0, 1, 2, 4]);
    m.pass(ms(100));
    assert_eq!(m.all_say(), [Yes].repeat(5));
}

#[test]
fn the_leader_that_is_cut_off_from_most_does_not_know_either() {
    let mut m = Members::keep_majority(3, 2);
    m.install(1, &[0, 1, 2]);
    m.pass(LEASE);
    m.part = [0, 1, 1].into();
    m.pass(LEASE + ms(100));
    assert_eq!(m.all_say(), [Unknown, Unknown, Unknown]);
    m.part = [0, 0, 0].into();
    m.pass(LEASE);
    assert_eq!(m.all_say(), [Yes, Yes, Yes], "contact is back, the view is the same");
}

#[test]
fn nobody_waits_for_a_member_that_has_left() {
    let mut m = Members::keep_majority(3, 2);
    m.install(1, &[0, 1, 2]);
    m.pass(LEASE);
    m.all[2].event_down(Event::Disconnect);
    assert_eq!(m.says(2), Unknown);
    m.pass(ms(1));
    m.part = [0, 0, 1].into();
    m.install(2, &[0, 1]);
    m.pass(ms(50));
    assert_eq!((m.says(0), m.says(1)), (Yes, Yes));
    // Of two, one that stays is a majority of those that did not leave.
    m.all[0].event_down(Event::Disconnect);
    m.pass(ms(1));
    m.install(3, &[1]);
    m.pass(ms(50));
    assert_eq!(m.says(1), Yes);
}

/// The others go on without waiting for it, so it must not call any view primary any more.
#[test]
fn a_leader_that_has_said_that_it_leaves_leads_no_later_view() {
    let mut m = Members::keep_majority(3, 2);
    m.install(1, &[0, 1]);
    m.pass(LEASE);
    m.all[0].event_down(Event::Disconnect);
    m.install(2, &[0, 1, 2]);
    m.pass(LEASE);
    assert_eq!(m.all_say(), [Unknown, Unknown, Unknown]);
    m.install(3, &[1, 2]);
    m.pass(ms(50));
    assert_eq!((m.says(1), m.says(2)), (Yes, Yes));
}

#[test]
fn the_coordinator_knows_from_the_request_that_a_member_has_left() {
    let mut m = Members::keep_majority(2, 2);
    m.install(1, &[0, 1]);
    m.pass(LEASE);
    m.part = [0, 1].into();
    let leaver = m.all[1].stack.local();
    m.all[0].event_up(Event::Leaves(leaver));
    m.install(2, &[0]);
    m.pass(ms(10));
    assert_eq!(m.says(0), Yes);
}

/// A view that some agreed to may have become primary; who meets one of them must reckon with it.
#[test]
fn a_view_that_may_have_become_primary_counts_as_one() {
    let mut m = Members::keep_majority(5, 3);
    m.install(1, &[0, 1, 2, 3, 4]);
    m.pass(LEASE);
    // A, B and C agree, and A alone comes to know that all have.
    m.part = [0, 0, 0, 1, 1].into();
    m.install(2, &[0, 1, 2]);
    m.pass(ms(10));
    m.part = [0, 1, 2, 3, 3].into();
    m.pass(LEASE + ms(100));
    // C, D and E are most of the first view, and not of the second.
    m.part = [0, 1, 3, 3, 3].into();
    m.install(5, &[2, 3, 4]);
    m.pass(LEASE * 2);
    assert_eq!([m.says(2), m.says(3), m.says(4)], [No, No, No]);
    // With B they are.
    m.part = [0, 3, 3, 3, 3].into();
    m.install(6, &[2, 1, 3, 4]);
    m.pass(LEASE * 2);
    assert_eq!([m.says(1), m.says(2), m.says(3), m.says(4)], [Yes, Yes, Yes, Yes]);
}

#[test]
fn members_without_the_protocol_have_no_vote() {
    let mut m = Members::keep_majority(2, 2);
    let stranger = Uuid::new(1, 1);
    let ids: Vec<Uuid> = [stranger, m.all[0].stack.local(), m.all[1].stack.local()].into();
    let view = Arc::new(View::new(1, stranger, ids));
    m.all.iter_mut().for_each(|s| s.install(Arc::clone(&view)));
    m.pass(ms(100));
    assert_eq!(m.all_say(), [Yes, Yes]);
    assert!(m.all.iter_mut().flat_map(Solo::sent).all(|s| s.dest != Some(stranger.into())));
}

#[test]
fn other_rules_are_told_and_never_agreed_on() {
    let mut m = Members::keep_majority(2, 2);
    let other =
        PrimaryConfig { policy: PrimaryPolicy::KeepOldest, quorum: 2, ..Default::default() };
    m.all[1] = Solo::topped(2, member(2), [Box::new(Primary::new(other)) as _].into());
    m.install(1, &[0, 1]);
    m.pass(LEASE);
    assert_eq!(m.all_say(), [No, No]);
    let told = m.all[0].told();
    let differs = |e: &&AppEvent| matches!(e, AppEvent::PrimaryRulesDiffer { member: who } if *who == member(2));
    assert_eq!(told.iter().filter(differs).count(), 1);
}

#[test]
fn a_static_quorum_asks_for_no_history() {
    let rule =
        PrimaryConfig { policy: PrimaryPolicy::StaticQuorum, quorum: 3, ..Default::default() };
    let mut m = Members::new(5, &rule);
    m.install(1, &[0, 1, 2, 3, 4]);
    m.pass(LEASE);
    m.part = [0, 0, 1, 1, 1].into();
    m.install(2, &[0, 1]);
    m.install(3, &[2, 3, 4]);
    for _ in 0..80 {
        m.pass(ms(50));
        assert!(m.primary().len() <= 1);
    }
    assert_eq!(m.all_say(), [No, No, Yes, Yes, Yes]);
}

#[test]
fn a_refused_view_rests() {
    let mut m = Members::keep_majority(3, 2);
    m.install(1, &[0]);
    m.pass(LEASE);
    m.all.iter_mut().for_each(|s| drop(s.sent()));
    m.pass(LEASE * 10);
    assert!(m.all.iter_mut().all(|s| s.sent().is_empty()));
    assert_eq!(m.all[0].stack.poll_deadline(), None);
}

#[test]
fn a_claim_ends_by_itself() {
    let claim = |primacy| crate::PrimaryClaim {
        primacy,
        until: Time::ZERO + LEASE,
        minority: Minority::Report,
    };
    assert_eq!(claim(Yes).at(Time::ZERO + ms(2_999)), Yes);
    assert_eq!(claim(Yes).at(Time::ZERO + LEASE), Unknown);
    assert_eq!(claim(No).at(Time::ZERO + LEASE * 9), No);
}

/// Splits, heals, views that reach only some, and loss, at random: there is never more than one primary
/// view, and each has most of the members of the one before.
fn chaos(seed: u64, members: usize, changes: usize) -> usize {
    let mut rng = Rng::new(seed);
    let mut m = Members::keep_majority(members as u64, members as u32 / 2 + 1);
    m.rng = Rng::new(seed + 1);
    m.loss = [0, 10, 3][rng.below(3) as usize];
    let mut number = 0;
    let mut chain: Vec<(u64, Vec<Uuid>)> = Vec::new();
    for _ in 0..changes {
        let parts = rng.below(3) as usize + 1;
        m.part = (0..members).map(|_| rng.below(parts as u64) as usize).collect();
        let mut installs: Vec<(Duration, usize, Arc<View>)> = Vec::new();
        for part in 0..parts {
            let mut who: Vec<usize> = (0..members).filter(|i| m.part[*i] == part).collect();
            if who.is_empty() {
                continue;
            }
            rng.shuffle(&mut who);
            number += 1;
            let view = m.view(number, &who);
            for i in who.into_iter().filter(|_| rng.below(8) > 0).collect::<Vec<_>>() {
                let at = ms(rng.below(3) * rng.below(2_000));
                installs.push((at, i, Arc::clone(&view)));
            }
        }
        let steps = rng.below(160) + 1;
        for step in 0..steps {
            let (from, to) = (ms(50 * step), ms(50 * (step + 1)));
            for (_, i, view) in installs.iter().filter(|(at, ..)| (from..to).contains(at)) {
                m.all[*i].install(Arc::clone(view));
            }
            m.pass(ms(50));
            let primary = m.primary();
            assert!(primary.len() <= 1, "seed {seed}: {primary:?}");
            let Some((n, now)) = primary.into_iter().next() else { continue };
            match chain.last() {
                Some((last, _)) if *last == n => {}
                Some((last, before)) => {
                    assert!(n > *last, "seed {seed}: {n} after {last}");
                    let now_in: BTreeSet<_> = now.iter().collect();
                    let stay = before.iter().filter(|m| now_in.contains(m)).count();
                    assert!(stay * 2 > before.len(), "seed {seed}: {before:?} then {now:?}");
                    chain.push((n, now));
                }
                None => chain.push((n, now)),
            }
        }
    }
    chain.len()
}

#[test]
fn there_is_never_more_than_one_primary_view_and_they_form_a_chain() {
    let links: usize = (0..60).map(|seed| chaos(seed, 3 + seed as usize % 4, 12)).sum();
    assert!(links > 100, "{links}");
}
