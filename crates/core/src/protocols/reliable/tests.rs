//! The reliable layers and STABLE together on a bad network, from seeds: whatever is lost, doubled
//! or late, every message is delivered exactly once, ordered ones in order, nothing is purged that
//! somebody has not delivered, and at the end nothing is kept and nothing travels.

use super::*;
use crate::event::{WindowGauge, WindowKind};
use crate::protocols::faults::{Discard, DiscardConfig};
use crate::protocols::stable::{Stable, StableConfig};
use crate::testkit::{Solo, id, view};
use crate::wire::{self, Body, Flags, Hints};
use crate::{
    Answer, AppEvent, Command, Consumed, Duration, Event, Protocol, Query, Rng, Time, Uuid,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MEMBERS: [u64; 4] = [1, 2, 3, 4];
const MS: Duration = Duration::from_millis(1);

/// How bad the network is.
#[derive(Clone, Copy)]
struct Weather {
    loss: f64,
    doubling: f64,
    longest: Duration,
}

const STORM: Weather = Weather { loss: 0.2, doubling: 0.1, longest: Duration::from_millis(40) };
const CALM: Weather = Weather { loss: 0.0, doubling: 0.0, longest: Duration::from_millis(2) };

struct World {
    members: Vec<Solo>,
    flying: BTreeMap<(Time, u64), (u64, usize, wire::Message)>,
    launched: u64,
    rng: Rng,
    /// What each member is to get: by receiver, sender and kind of destination.
    owed: BTreeMap<(u64, u64, bool), Vec<String>>,
    got: BTreeMap<(u64, u64, bool), Vec<String>>,
    /// Delivered to each member and not consumed.
    unread: Vec<Vec<Consumed>>,
    /// Receivers keep what they delivered, for others.
    others_keep: bool,
}

/// The layers of one member, bottom first.
type Layers = [Box<dyn Protocol>; 3];

fn until_stable(udp: bool) -> Layers {
    let nakack = Nakack2Config { use_mcast_xmit: udp, ..Nakack2Config::default() };
    [
        Box::new(ReliableMulticast::new(nakack)),
        Box::new(ReliableUnicast::new(Unicast3Config::default())),
        Box::new(Stable::new(StableConfig {
            desired_avg_gossip: Duration::from_secs(2),
            ..StableConfig::default()
        })),
    ]
}

/// Multicasts in a window.
const CAPACITY: u32 = 20;

fn until_acknowledged(udp: bool) -> Layers {
    let nakack =
        Nakack4Config { capacity: CAPACITY, use_mcast_xmit: udp, ..Nakack4Config::default() };
    [
        Box::new(ReliableMulticast::new(nakack)),
        Box::new(ReliableUnicast::new(Unicast4Config { capacity: 10, ..Default::default() })),
        Box::new(Discard::new(DiscardConfig::default())),
    ]
}

impl World {
    fn new(seed: u64, udp: bool) -> Self {
        Self::over(seed, true, || until_stable(udp))
    }

    fn over(seed: u64, others_keep: bool, layers: impl Fn() -> Layers) -> Self {
        let v = view(1, &MEMBERS);
        let member = |me: &u64| {
            let mut s = Solo::new(*me, layers().into());
            s.install(v.clone());
            s.event_down(Event::BecomeServer);
            s
        };
        World {
            members: MEMBERS.iter().map(member).collect(),
            flying: BTreeMap::new(),
            launched: 0,
            rng: Rng::new(seed),
            owed: BTreeMap::new(),
            got: BTreeMap::new(),
            unread: MEMBERS.iter().map(|_| Vec::new()).collect(),
            others_keep,
        }
    }

    /// The application of each member takes what it was given, or leaves it for later.
    fn consume(&mut self, appetite: f64) {
        for (m, unread) in self.members.iter_mut().zip(&mut self.unread) {
            if self.rng.chance(appetite) {
                m.stack.submit(m.now, Command::Consumed(core::mem::take(unread)));
            }
        }
    }

    fn send_something(&mut self, n: u32) {
        let from = *self.rng.pick(&MEMBERS).expect("there are members");
        let to = self.rng.chance(0.3).then(|| *self.rng.pick(&MEMBERS).expect("as above"));
        let oob = self.rng.chance(0.2);
        let kind = if oob { "oob" } else { "ordered" };
        let text = format!("{n} {kind}");
        let mut m = wire::Message::multicast(Body::bytes(text.clone().into_bytes()));
        m.dest = to.map(|t| id(t).into());
        if oob {
            m.flags |= Flags::OOB;
        }
        if self.rng.chance(0.1) && to.is_none() {
            m.hints |= Hints::DONT_LOOPBACK;
        }
        let skip = m.hints.contains(Hints::DONT_LOOPBACK).then_some(from);
        for receiver in MEMBERS.into_iter().filter(|r| to.is_none_or(|t| t == *r)) {
            if Some(receiver) != skip {
                let key = (receiver, from, to.is_none());
                self.owed.entry(key).or_default().push(text.clone());
            }
        }
        self.members[from as usize - 1].send(m, None);
    }

    /// Lets `d` pass, a millisecond at a time.
    fn pass(&mut self, d: Duration, w: Weather) {
        for _ in 0..d.as_millis() {
            for i in 0..self.members.len() {
                self.members[i].run(MS);
                self.launch(i, w);
            }
            self.land();
            self.collect();
        }
    }

    fn launch(&mut self, i: usize, w: Weather) {
        let now = self.members[i].now;
        let from = MEMBERS[i];
        for m in self.members[i].sent() {
            let dest = m.dest.as_ref().and_then(wire::Address::uuid);
            for (to, member) in MEMBERS.iter().enumerate() {
                if to == i || dest.is_some_and(|d| d != id(*member)) {
                    continue;
                }
                let copies = u32::from(!self.rng.chance(w.loss));
                let copies = copies + u32::from(self.rng.chance(w.doubling));
                for _ in 0..copies {
                    self.launched += 1;
                    let at = now + self.rng.duration(Duration::ZERO, w.longest);
                    self.flying.insert((at, self.launched), (from, to, m.clone()));
                }
            }
        }
    }

    fn land(&mut self) {
        let now = self.members[0].now;
        while let Some(next) = self.flying.first_entry().filter(|e| e.key().0 <= now) {
            let (from, to, m) = next.remove();
            // A multicast that somebody repeats for its author does not come back to the author.
            if m.src != Some(id(MEMBERS[to]).into()) {
                self.members[to].arrive(from, m);
            }
        }
    }

    fn collect(&mut self) {
        for ((m, unread), me) in self.members.iter_mut().zip(&mut self.unread).zip(MEMBERS) {
            for ev in m.told() {
                let AppEvent::Deliver(d) = ev else { continue };
                unread.extend(d.consumed());
                let from = MEMBERS.into_iter().find(|x| id(*x) == d.from).expect("a member");
                let list = self.got.entry((me, from, d.multicast)).or_default();
                for m in &d.messages {
                    let bytes = m.body.as_bytes().expect("all have bytes");
                    list.push(String::from_utf8_lossy(bytes).into_owned());
                }
            }
        }
    }

    fn windows(&self, i: usize) -> BTreeMap<Uuid, WindowGauge> {
        let Some(Answer::Windows(all)) = self.members[i].stack.ask_all(&Query::Windows).pop()
        else {
            panic!("reliable multicast answers last");
        };
        all.into_iter().map(|w| (w.peer, w)).collect()
    }

    /// Somebody who purged what somebody else has not delivered.
    fn purged_too_early(&self) -> Option<(Uuid, i64)> {
        let all: Vec<_> = (0..self.members.len()).map(|i| self.windows(i)).collect();
        // Receivers that keep nothing for others drop what they have delivered themselves.
        let kept = |i: usize, g: &WindowGauge| self.others_keep || g.peer == id(MEMBERS[i]);
        let lows = all
            .iter()
            .enumerate()
            .flat_map(|(i, w)| w.values().filter(move |g| kept(i, g)).map(|g| (g.peer, g.low)));
        let early = |(m, low): &(Uuid, i64)| all.iter().any(|w| w[m].delivered < *low);
        lows.into_iter().find(early)
    }

    fn check_nothing_is_kept(&self) {
        for (i, m) in self.members.iter().enumerate() {
            assert!(self.windows(i).values().all(|g| g.messages == 0), "two rounds passed");
            let Some(Answer::Windows(unicast)) = m.ask(&Query::Windows) else { panic!() };
            let mut sends = unicast.iter().filter(|g| g.kind == WindowKind::UnicastSend);
            assert!(sends.all(|g| g.messages == 0));
        }
    }

    fn check_deliveries(&self) {
        for (key, owed) in &self.owed {
            let got = self.got.get(key).cloned().unwrap_or_default();
            let sorted = |list: &[String]| -> Vec<String> {
                let set: BTreeSet<&String> = list.iter().collect();
                assert_eq!(set.len(), list.len(), "{key:?}: delivered twice");
                set.into_iter().cloned().collect()
            };
            assert_eq!(sorted(&got), sorted(owed), "{key:?}");
            let ordered = |list: &[String]| -> Vec<String> {
                list.iter().filter(|t| t.ends_with("ordered")).cloned().collect()
            };
            assert_eq!(ordered(&got), ordered(owed), "{key:?}: order");
        }
    }
}

#[test]
fn every_message_is_delivered_once_and_in_order_and_nothing_is_kept() {
    for seed in 0..6 {
        let mut w = World::new(seed, seed % 2 == 0);
        for n in 0..300 {
            for k in 0..w.rng.below(4) as u32 {
                w.send_something(n * 10 + k);
            }
            w.pass(MS * 5, STORM);
            assert_eq!(w.purged_too_early(), None, "seed {seed}");
        }
        w.pass(Duration::from_secs(12), CALM);
        w.check_deliveries();
        assert_eq!(w.purged_too_early(), None, "seed {seed}");
        w.check_nothing_is_kept();
    }
}

#[test]
fn with_windows_too_and_with_consumers_that_are_slow() {
    for seed in 0..6 {
        let mut w = World::over(seed, false, || until_acknowledged(seed % 2 == 0));
        for n in 0..200 {
            for k in 0..w.rng.below(4) as u32 {
                w.send_something(n * 10 + k);
            }
            w.pass(MS * 5, STORM);
            w.consume(0.05);
            assert_eq!(w.purged_too_early(), None, "seed {seed}");
            for (i, m) in MEMBERS.iter().enumerate() {
                let own = w.windows(i)[&id(*m)];
                assert!(own.received - own.low <= i64::from(CAPACITY), "seed {seed}");
            }
        }
        for _ in 0..120 {
            w.pass(MS * 100, CALM);
            w.consume(1.0);
        }
        w.check_deliveries();
        assert_eq!(w.purged_too_early(), None, "seed {seed}");
        w.check_nothing_is_kept();
    }
}

#[cfg(feature = "mutants")]
#[test]
fn a_window_that_is_purged_too_early_is_noticed() {
    let mut w = World::new(1, false);
    for m in &mut w.members {
        m.stack.enable_mutant(crate::mutants::Mutant::WindowPurgedTooEarly);
    }
    let noticed = (0..10_000).any(|n| {
        w.send_something(n);
        w.pass(MS * 2, STORM);
        w.purged_too_early().is_some()
    });
    assert!(noticed);
}

/// Sends `n` multicasts and unicasts each, and returns how many messages were sent again.
fn retransmissions(n: u32, udp: bool, weather: Weather) -> u64 {
    let mut w = World::new(5, udp);
    for i in 0..n {
        let body = || Body::bytes(format!("{i} ordered").into_bytes());
        w.members[0].send(wire::Message::multicast(body()), None);
        w.members[1].send(wire::Message::unicast(id(3), body()), None);
        if i % 4 == 0 {
            w.pass(MS, weather);
        }
    }
    w.pass(Duration::from_secs(8), weather);
    let mut count = 0;
    for m in &w.members {
        m.stack.inspect(&mut |_, name, value| {
            if name == "retransmissions" || name == "num_xmits" {
                count += value;
            }
        });
    }
    assert!(w.got.values().all(|list| list.len() == n as usize));
    count
}

#[test]
fn retransmissions_are_in_proportion_to_the_loss() {
    let weather = Weather { loss: 0.1, doubling: 0.0, longest: MS * 3 };
    for udp in [true, false] {
        let (n, receivers) = (2000, 4);
        let again = retransmissions(n, udp, weather);
        let limit = 0.301 * f64::from(n * receivers);
        assert!((again as f64) < limit, "{again} of {n} messages to {receivers}");
    }
}

#[test]
fn without_loss_reordering_causes_almost_no_retransmissions() {
    let weather = Weather { loss: 0.0, doubling: 0.0, longest: MS * 20 };
    for udp in [true, false] {
        let again = retransmissions(4000, udp, weather);
        assert!(again <= 16, "{again} of 4000 messages to 4: at most one in a thousand");
    }
}
