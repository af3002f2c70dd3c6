//! Judges of a run. Each reads the history and names the invariant that was broken (the numbers of
//! the invariants are those of the documentation: A views, B convergence, C delivery, D order, E credits,
//! F memory, G stability, H synchronous sends, I states, J calls, K objects that members share, P primary views, O the
//! simulator itself). None knows how a protocol works inside.
//!
#![doc = include_str!("invariants.md")]

pub mod accuracy;
pub mod bounds;
pub mod calls;
pub mod convergence;
pub mod counters;
pub mod credits;
pub mod delivery;
mod faults;
pub mod locks;
pub mod memory;
mod objects;
pub mod order;
pub mod primary;
pub mod roles;
pub mod sequencer;
pub mod stability;
pub mod states;
pub mod sync;
pub mod synchrony;
pub mod tails;
pub mod timeliness;
pub mod twins;
mod validity;
pub mod views;
pub mod windows;
pub mod wire;

use crate::history::{History, Phase, What};
use bounds::Bounds;
use std::fmt;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: "C2".
    pub invariant: &'static str,
    /// What happened, with names.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, text: String) -> Self {
        Self { invariant, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// What a run promised, beyond what every run does.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// `max_credits` of both pools.
    pub max_credits: u64,
    /// `STABLE.max_bytes`.
    pub stable_max_bytes: u64,
    /// The largest message sent, with its headers.
    pub largest_message: u64,
    /// `FRAG2.frag_size`.
    pub frag_size: u64,
    /// Nodes that ever run at once.
    pub members: u64,
    /// Neither loss nor delays nor stopped processes: nobody may be suspected.
    pub calm: bool,
    /// Share of packets that the network loses while faults go on.
    pub loss: f64,
    /// The network makes two of some packets.
    pub duplication: bool,
    /// There is flow control.
    pub flow_control: bool,
    /// Multicasts are in total order.
    pub ordered: bool,
    /// Applications are given states, in place of what was multicast before.
    pub states: bool,
    /// The windows that bound what is on its way, in the stack that has them.
    pub windows: Option<Windows>,
    /// How long things may take; `None`: no promise has a time.
    pub bounds: Option<Bounds>,
}

/// Sizes of a window of NAKACK4 or UNICAST4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// `capacity`, in messages.
    pub messages: u64,
    /// `capacity_bytes`.
    pub bytes: u64,
}

/// Everything that was broken, at most a few of each kind.
#[must_use]
pub fn check_all(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(broken_rules(h));
    found.extend(views::check(h));
    found.extend(accuracy::check(h, c));
    found.extend(roles::check(h, c));
    found.extend(timeliness::check(h, c));
    found.extend(convergence::check(h));
    if c.states {
        found.extend(states::check(h));
    } else {
        found.extend(delivery::check(h, c));
        found.extend(tails::check(h));
        found.extend(sync::check(h, c));
    }
    found.extend(synchrony::check(h, c));
    if c.ordered {
        found.extend(order::check(h));
        found.extend(sequencer::check(h, c));
    }
    found.extend(counters::check(h));
    found.extend(locks::check(h));
    found.extend(wire::check(h, c));
    if c.flow_control {
        found.extend(credits::check(h, c));
    }
    found.extend(memory::check(h, c));
    if let Some(w) = &c.windows {
        found.extend(windows::check(h, c, w));
    }
    found.extend(stability::check(h));
    found.extend(calls::check(h, c));
    found.extend(primary::check(h));
    shorten(found)
}

/// Facts that are broken promises in themselves.
fn broken_rules(h: &History) -> Vec<Violation> {
    let of = |what: &What| match what {
        What::Livelock => Some(("F7", "too many steps without time passing".to_owned())),
        What::Panicked(why) => Some(("PANIC", why.clone())),
        _ => None,
    };
    let found = h.facts.iter().filter_map(|f| {
        let (invariant, text) = of(&f.what)?;
        let who = f.life.map_or("-", |l| h.name(l));
        Some(Violation::new(invariant, format!("{who} at {}: {text}", f.at)))
    });
    found.collect()
}

/// Keeps the first few of each kind: the others say the same.
fn shorten(found: Vec<Violation>) -> Vec<Violation> {
    const EACH: usize = 3;
    let mut kept: Vec<Violation> = Vec::new();
    for v in found {
        if kept.iter().filter(|k| k.invariant == v.invariant).count() < EACH {
            kept.push(v);
        }
    }
    kept
}

/// Whether the fact at `index` belongs to the promise-everything part of the run.
pub(crate) fn is_after(h: &History, phase: Phase, index: usize) -> bool {
    h.phase(phase).is_some_and(|start| index > start)
}

#[cfg(test)]
mod catalogue;

#[cfg(test)]
pub(crate) mod made {
    //! Hand-made histories.

    use super::{Bounds, Conditions};
    use crate::connections::Life;
    use crate::history::{Fact, History, MessageId, Phase, SentMessage, What};
    use crate::network::Host;
    use rgroups_core::{Duration, SendResult, Time, Uuid, View, tag};
    use std::sync::Arc;

    pub(crate) const A: Life = Life(0);
    pub(crate) const B: Life = Life(1);
    pub(crate) const C: Life = Life(2);

    pub(crate) fn conditions() -> Conditions {
        Conditions {
            max_credits: 1_000,
            stable_max_bytes: 1_000,
            largest_message: 500,
            frag_size: 400,
            members: 3,
            calm: true,
            loss: 0.0,
            duplication: false,
            flow_control: true,
            ordered: false,
            states: false,
            windows: None,
            bounds: Some(Bounds {
                one_way: Duration::from_millis(1),
                detection: Duration::from_secs(10),
                verification: Duration::from_secs(1),
                reconnection: Duration::from_secs(1),
                view_acks: Duration::from_secs(2),
                join: Duration::from_secs(1),
                merge_interval: Duration::from_secs(6),
                merge_timeout: Duration::from_secs(5),
                retransmission: Duration::from_secs(1),
                view_hold: Duration::ZERO,
            }),
        }
    }

    /// Three nodes, nothing happened.
    pub(crate) fn trio() -> History {
        let mut h = History::default();
        for (i, name) in ["A", "B", "C"].into_iter().enumerate() {
            add(&mut h, Life(i), name);
        }
        h
    }

    /// A node starts.
    pub(crate) fn add(h: &mut History, life: Life, name: &str) {
        h.add_life(Host(life.0), name.into(), id(life));
        push(h, life, What::Started);
    }

    /// Three nodes in one view.
    pub(crate) fn together() -> History {
        let mut h = trio();
        for life in [A, B, C] {
            install(&mut h, life, 3, A, &[A, B, C]);
        }
        h
    }

    /// Identities of members that take part in tail repair.
    pub(crate) fn id(life: Life) -> Uuid {
        tag::tagged((life.0 as u64 + 1) << 32, 7, tag::TAIL_REPAIR)
    }

    /// The next fact is a millisecond after the last one.
    pub(crate) fn now(h: &History) -> Time {
        h.facts.last().map_or(Time::ZERO, |f| f.at + Duration::from_millis(1))
    }

    pub(crate) fn push(h: &mut History, life: Life, what: What) {
        push_at(h, now(h), Some(life), what);
    }

    pub(crate) fn push_at(h: &mut History, at: Time, life: Option<Life>, what: What) {
        h.facts.push(Fact { at, life, what });
    }

    pub(crate) fn phase(h: &mut History, p: Phase) {
        push_at(h, now(h), None, What::Phase(p));
    }

    pub(crate) fn view(n: u64, creator: Life, members: &[Life]) -> View {
        let members: Vec<Uuid> = members.iter().map(|l| id(*l)).collect();
        View::new(n, id(creator), members)
    }

    pub(crate) fn install(h: &mut History, at: Life, n: u64, creator: Life, members: &[Life]) {
        push(h, at, What::View(Arc::new(view(n, creator, members))));
    }

    /// `from` sends to `to` (or all), and it is admitted.
    pub(crate) fn send(h: &mut History, from: Life, to: Option<Life>) -> MessageId {
        let m = MessageId(h.messages.len() as u32);
        h.messages.push(SentMessage {
            sender: from,
            to: to.map(|l| vec![id(l)]),
            ordered: true,
            reliable: true,
            loopback: true,
            size: 100,
            sync: None,
        });
        push(h, from, What::Sent(m));
        push(h, from, What::Resolved(m, SendResult::Sent));
        m
    }

    pub(crate) fn deliver(h: &mut History, at: Life, m: MessageId) {
        let sent = h.message(m).clone();
        let from = h.id(sent.sender);
        let multicast = sent.to.is_none();
        push(h, at, What::Delivered { message: m, from, multicast });
    }

    pub(crate) fn names(found: &[super::Violation]) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = found.iter().map(|v| v.invariant).collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::made::*;
    use super::*;

    #[test]
    fn a_livelock_is_reported_as_f7_and_a_panic_by_its_text() {
        let mut h = trio();
        push(&mut h, A, What::Livelock);
        push(&mut h, B, What::Panicked("boom".into()));
        let found = broken_rules(&h);
        assert_eq!(names(&found), ["F7", "PANIC"]);
        assert!(found[1].text.contains("boom"));
    }

    #[test]
    fn only_the_first_few_of_a_kind_are_kept() {
        let many = vec![Violation::new("C2", String::new()); 10];
        assert_eq!(shorten(many).len(), 3);
    }
}
