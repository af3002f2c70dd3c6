//! What a joiner has heard and tried: for its decisions, and for the words in which a join that
//! fails, or that ends alone, is explained.

use crate::event::Found;
use crate::{Answer, Cx, Query, Time, Uuid};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// How many discoveries in a row wait for the same joiner to form the group.
const ROUNDS: u32 = 3;
/// Of so many members it is remembered what was heard of them.
const MAX_HEARD: usize = 256;
/// So many are named in an explanation.
const MAX_NAMED: usize = 8;

/// What happened so far in this attempt to join.
#[derive(Debug, Default)]
pub(super) struct JoinHistory {
    began: Option<Time>,
    /// How many discoveries there were.
    rounds: u32,
    /// How often each coordinator was asked.
    asked: BTreeMap<Uuid, u32>,
    /// Whose records are no longer believed.
    discounted: BTreeSet<Uuid>,
    /// How many requests were sent in all.
    attempts: u32,
    heard: BTreeMap<Uuid, Heard>,
    /// Since when every discovery found a group but nobody to ask in it.
    leaderless_since: Option<Time>,
    /// The joiner that should form the group, and in how many discoveries it did not.
    awaited: Option<(Uuid, u32)>,
}

/// What was said of a member last.
#[derive(Debug)]
struct Heard {
    server: bool,
    coordinator: bool,
    physical: Option<SocketAddr>,
    /// When it said itself that it is the coordinator, if it says so.
    leads_at: Option<Time>,
}

impl JoinHistory {
    /// A discovery is over.
    pub(super) fn note(&mut self, others: &[&Found], now: Time) {
        self.rounds += 1;
        for f in others {
            if self.heard.len() >= MAX_HEARD && !self.heard.contains_key(&f.member) {
                continue;
            }
            let leads_at = (f.coordinator && f.first_hand).then_some(now);
            let (server, coordinator, physical) = (f.server, f.coordinator, f.physical);
            self.heard.insert(f.member, Heard { server, coordinator, physical, leads_at });
        }
    }

    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// How long this has been going on.
    pub(super) fn lasts(&self, now: Time) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// The coordinators that said so themselves within `patience`: they live, however hard it is to
    /// hear them.
    pub(super) fn live_coordinators(&self, now: Time, patience: Duration) -> BTreeSet<Uuid> {
        let lives = |h: &Heard| h.leads_at.is_some_and(|at| now.since(at) <= patience);
        self.heard.iter().filter(|(_, h)| lives(h)).map(|(m, _)| *m).collect()
    }

    /// Whether what was said of `f` is believed: it said it itself, or was not found wrong.
    pub(super) fn believes(&self, f: &Found) -> bool {
        f.first_hand || !self.discounted.contains(&f.member)
    }

    pub(super) fn discount(&mut self, m: Uuid) {
        self.discounted.insert(m);
    }

    /// How often `m` was asked.
    pub(super) fn times_asked(&self, m: Uuid) -> u32 {
        self.asked.get(&m).copied().unwrap_or(0)
    }

    /// `m` is asked; for how many times now.
    pub(super) fn ask(&mut self, m: Uuid) -> u32 {
        self.attempts += 1;
        self.leaderless_since = None;
        let times = self.asked.entry(m).or_insert(0);
        *times += 1;
        *times
    }

    /// How many requests were sent in all.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// This discovery found a group and nobody to ask; for how long that has been so.
    pub(super) fn leaderless(&mut self, now: Time) -> Duration {
        now.since(*self.leaderless_since.get_or_insert(now))
    }

    /// Who of these joiners forms the group. One that never does is passed over in the end.
    pub(super) fn founder(&mut self, local: Uuid, others: &BTreeSet<Uuid>) -> Uuid {
        loop {
            let lowest = others.difference(&self.discounted).chain([&local]).min();
            let lowest = lowest.copied().unwrap_or(local);
            if lowest == local {
                return local;
            }
            let before = self.awaited.filter(|(m, _)| *m == lowest).map_or(0, |(_, n)| n);
            self.awaited = Some((lowest, before + 1));
            if before < ROUNDS {
                return lowest;
            }
            self.discounted.insert(lowest);
        }
    }

    /// Whom we looked for where, who answered, and what came of it.
    pub(super) fn in_words(&self, cx: &Cx<'_>) -> String {
        let place = match cx.ask_below(&Query::DiscoveryPlace) {
            Some(Answer::Words(place)) => place,
            _ => String::from("by discovery"),
        };
        let times = match self.rounds {
            1 => String::from("once"),
            n => format!("{n} times"),
        };
        let asked = format!("asked {place} {times} in {:.1?}", self.lasts(cx.now));
        if self.heard.is_empty() {
            return format!("{asked}, nobody answered");
        }
        let mut named: Vec<String> =
            self.heard.iter().take(MAX_NAMED).map(|(m, h)| self.one(*m, h, cx)).collect();
        if self.heard.len() > MAX_NAMED {
            named.push(format!("and {} more", self.heard.len() - MAX_NAMED));
        }
        format!("{asked}, found {}", named.join("; "))
    }

    fn one(&self, m: Uuid, h: &Heard, cx: &Cx<'_>) -> String {
        let mut facts: Vec<String> = h.physical.map(|at| format!("{at}")).into_iter().collect();
        facts.push(String::from(match (h.coordinator, h.server) {
            (true, _) => "coordinator",
            (false, true) => "member",
            (false, false) => "joining itself",
        }));
        if h.coordinator && h.leads_at.is_none() {
            facts.push(String::from("as others say"));
        }
        match self.times_asked(m) {
            0 => {}
            1 => facts.push(String::from("asked to let us in once, no answer")),
            n => facts.push(format!("asked to let us in {n} times, no answer")),
        }
        format!("{} ({})", label(m, cx), facts.join(", "))
    }

    /// The coordinators that were asked, by name.
    pub(super) fn asked_in_words(&self, cx: &Cx<'_>) -> String {
        let names: Vec<String> = self.asked.keys().take(MAX_NAMED).map(|m| label(*m, cx)).collect();
        names.join(", ")
    }
}

/// The logical name of a member where it is known. Names come from the network: control characters
/// are escaped.
pub(super) fn label(m: Uuid, cx: &Cx<'_>) -> String {
    match cx.group().addresses.name(m) {
        Some(name) => name.escape_debug().collect(),
        None => format!("{m}"),
    }
}
