//! Behaviour of GMS over a perfect network and a reliable layer that only knows digests.

mod churn;
mod crash;
mod holding;
mod joining;
mod leaving;
mod merging;
mod reliable;
mod views;
mod waiting;

use super::{Gms, GmsConfig};
use crate::event::{Event, Found, Purpose, Query};
use crate::protocol::{Interests, Protocol, Spec};
use crate::protocols::merge3::{Merge3, Merge3Config};
use crate::protocols::reliable::{
    Nakack2Config, ReliableMulticast, ReliableUnicast, Unicast3Config,
};
use crate::protocols::stable::{Stable, StableConfig};
use crate::testkit::{Solo, exchange, id};
use crate::wire::header::GmsKind;
use crate::wire::{self, Header, ProtId, SeqnoPair};
use crate::{Answer, AppEvent, Cx, Dir, Evidence, Flow, Group, Suspicion, Trace, Uuid, View};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::Mutex;

/// Who answers discovery, as each joiner finds it.
type World = Arc<Mutex<Vec<Found>>>;

/// Stands for discovery, which answers at once, and for reliable multicast, in which everybody has
/// sent so many messages.
#[derive(Debug, Default)]
struct Below {
    world: World,
    sent: Arc<Mutex<i64>>,
}

impl Protocol for Below {
    fn spec(&self) -> Spec {
        let interests = Interests { events: true, ..Interests::default() };
        let (provides, needs_below, needs_above) = (&[][..], &[][..], &[][..]);
        Spec { name: "BELOW", id: None, interests, provides, needs_below, needs_above }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        if let (Dir::Down, Event::FindMembers { purpose: Purpose::Join, .. }) = (dir, ev) {
            let members = self.world.lock().unwrap().clone();
            cx.raise(Dir::Up, Event::Found { purpose: Purpose::Join, members });
        }
        Flow::Pass
    }

    fn answer(&self, q: &Query, group: &Group) -> Option<Answer> {
        let n = *self.sent.lock().unwrap();
        let pair = |m: Uuid| (m, SeqnoPair { delivered: n, received: n });
        match q {
            Query::Digest => {
                Some(Answer::Digest(group.members().iter().copied().map(pair).collect()))
            }
            Query::DigestOf(m) => Some(Answer::Digest([pair(*m)].into_iter().collect())),
            _ => None,
        }
    }
}

fn found(m: u64, server: bool, coordinator: bool) -> Found {
    Found { member: id(m), server, coordinator, first_hand: false, physical: None }
}

/// As `found`, by its own word.
fn answers(m: u64, server: bool, coordinator: bool) -> Found {
    Found { first_hand: true, ..found(m, server, coordinator) }
}

/// What is between GMS and the network.
#[derive(Clone, Copy, PartialEq)]
enum Layers {
    /// Nothing that keeps messages: the network is perfect where a test does not say otherwise.
    Plain,
    /// NAKACK2, UNICAST3 and STABLE.
    Reliable,
}

/// Members 1.. on one network that can be split.
struct Cluster {
    layers: Layers,
    members: Vec<Solo>,
    world: World,
    /// Pairs that cannot hear each other.
    cut: BTreeSet<(Uuid, Uuid)>,
    /// Who is dead.
    dead: BTreeSet<Uuid>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Cluster {
    /// `n` members that have not connected.
    fn idle(n: u64) -> Self {
        Self::with(n, &GmsConfig::default())
    }

    fn with(n: u64, config: &GmsConfig) -> Self {
        let mut c = Self::over(Layers::Plain);
        for m in 1..=n {
            c.add(m, config.clone());
        }
        c
    }

    /// Nobody yet.
    fn over(layers: Layers) -> Self {
        Cluster {
            layers,
            members: Vec::new(),
            world: World::default(),
            cut: BTreeSet::new(),
            dead: BTreeSet::new(),
        }
    }

    fn add(&mut self, m: u64, config: GmsConfig) {
        let merge3 = Merge3Config {
            min_interval: ms(1000),
            max_interval: ms(3000),
            ..Merge3Config::default()
        };
        let mut layers: Vec<Box<dyn Protocol>> =
            Vec::from([Box::new(Below { world: Arc::clone(&self.world), ..Below::default() })
                as Box<dyn Protocol>]);
        layers.push(Box::new(Merge3::new(merge3)));
        if self.layers == Layers::Reliable {
            layers.push(Box::new(ReliableMulticast::new(Nakack2Config::default())));
            layers.push(Box::new(ReliableUnicast::new(Unicast3Config::default())));
            layers.push(Box::new(Stable::new(StableConfig::default())));
        }
        layers.push(Box::new(Gms::new(config)));
        self.members.push(Solo::new(m, layers));
        self.settle();
    }

    /// Members 1 to `n` in one view, of which 1 is coordinator.
    fn formed(n: u64) -> Self {
        Self::formed_with(n, &GmsConfig::default())
    }

    fn formed_with(n: u64, config: &GmsConfig) -> Self {
        Self::formed_over(Layers::Plain, n, config)
    }

    fn formed_over(layers: Layers, n: u64, config: &GmsConfig) -> Self {
        let mut c = Self::over(layers);
        c.add(1, config.clone());
        c.world.lock().unwrap().push(found(1, true, true));
        for m in 2..=n {
            c.add(m, config.clone());
        }
        for m in 1..=n {
            assert_eq!(c.view(m).members.len(), n as usize);
            c.at(m).told();
        }
        c
    }

    fn at(&mut self, m: u64) -> &mut Solo {
        self.members.iter_mut().find(|s| s.stack.local() == id(m)).unwrap()
    }

    fn view(&mut self, m: u64) -> Arc<View> {
        self.at(m).stack.group().view.clone().expect("the member is in a view")
    }

    /// The members of `m`'s view.
    fn seen_by(&mut self, m: u64) -> Vec<u64> {
        let view = self.at(m).stack.group().view.clone();
        view.iter().flat_map(|v| v.members.iter().map(|m| m.lsb)).collect()
    }

    /// Delivers messages until nobody has any.
    fn settle(&mut self) {
        self.settle_losing(|_, _, _| false);
    }

    /// As `settle`, but the network loses what `lose` says.
    fn settle_losing(&mut self, mut lose: impl FnMut(Uuid, Uuid, &wire::Message) -> bool) {
        let (cut, dead) = (&self.cut, &self.dead);
        exchange(&mut self.members, |from, to, m| {
            let silent = dead.contains(&from) || dead.contains(&to);
            silent || cut.contains(&(from, to)) || lose(from, to, m)
        });
    }

    fn run(&mut self, d: Duration) {
        self.run_losing(d, |_, _, _| false);
    }

    fn run_losing(
        &mut self,
        d: Duration,
        mut lose: impl FnMut(Uuid, Uuid, &wire::Message) -> bool,
    ) {
        let step = ms(10);
        let mut left = d;
        while !left.is_zero() {
            let dead = self.dead.clone();
            for s in self.members.iter_mut().filter(|s| !dead.contains(&s.stack.local())) {
                s.run(step);
            }
            self.settle_losing(&mut lose);
            left = left.saturating_sub(step);
        }
    }

    /// These members cannot hear the others.
    fn split(&mut self, part: &[u64]) {
        for s in &self.members {
            let other = s.stack.local();
            for m in part.iter().map(|m| id(*m)).filter(|_| !part.contains(&other.lsb)) {
                self.cut.extend([(m, other), (other, m)]);
            }
        }
    }

    fn kill(&mut self, m: u64) {
        self.dead.insert(id(m));
    }

    /// Verified suspicion of `suspects` at `m`.
    fn suspect(&mut self, m: u64, suspects: &[u64]) {
        let by = id(m);
        let why = Evidence::NobodyListens;
        let list = suspects.iter().map(|s| Suspicion { member: id(*s), by, why }).collect();
        self.at(m).event_up(Event::Suspect(list));
    }

    fn leave(&mut self, m: u64) {
        self.at(m).event_down(Event::Disconnect);
    }

    /// Whether `m` has left, and whether that was confirmed.
    fn left(&mut self, m: u64) -> Option<bool> {
        self.at(m).told().into_iter().find_map(|e| match e {
            AppEvent::Disconnected { confirmed } => Some(confirmed),
            _ => None,
        })
    }

    fn facts(&mut self, m: u64) -> Vec<Trace> {
        let stack = &mut self.at(m).stack;
        core::iter::from_fn(|| stack.poll_trace()).map(|(_, t)| t).collect()
    }
}

/// The views the application was told of, by number.
fn numbers(told: &[AppEvent]) -> Vec<u64> {
    told.iter()
        .filter_map(|e| match e {
            AppEvent::View(v) => Some(v.id.id),
            _ => None,
        })
        .collect()
}

/// The kind of a message of GMS.
fn kind(m: &wire::Message) -> Option<GmsKind> {
    match m.headers.get(ProtId::GMS) {
        Some(Header::Gms(h)) => Some(h.kind),
        _ => None,
    }
}
