//! S2: digests. What the tests of its parts share: groups in virtual time, and the messages that
//! they exchange, taken from the wire.

pub(crate) mod lone;
mod merging;
mod sizes;
mod stability;
mod state;
mod types;
mod views;

use rgroups::core::event::Answer;
use rgroups::core::plan::StackPlan;
use rgroups::core::wire::header::{GmsHeader, GmsKind, Header, StableKind};
use rgroups::core::wire::{Decode, Message, ProtId, SeqnoPair, ViewDigest};
use rgroups::core::{Duration, Query, Uuid};
use rgroups_sim::census::Kept;
use rgroups_sim::filter::{Action, Pattern, Rule};
use rgroups_sim::{Cluster, Outgoing, Settings};

/// All of them.
pub(crate) fn tests() -> Vec<crate::Test> {
    let parts = [
        types::tests(),
        stability::tests(),
        views::tests(),
        merging::tests(),
        state::tests(),
        sizes::tests(),
    ];
    parts.into_iter().flatten().collect()
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The stack over datagrams, which reports after so many bytes.
pub(crate) fn reporting_after(bytes: u64) -> StackPlan {
    StackPlan::udp()
        .with("STABLE", "max_bytes", &bytes.to_string())
        .with("MERGE3", "min_interval", "2000")
        .with("MERGE3", "max_interval", "5000")
}

/// Members of these names, all in one view.
pub(crate) fn group(plan: StackPlan, names: &[&str]) -> Cluster {
    let settings = Settings { sampling: None, keep_lines: false, ..Settings::new(1, plan) };
    let mut c = Cluster::new(settings);
    for name in names {
        c.start(name);
        assert!(c.run_until(20 * SECOND, |c| c.view(name).is_some()), "{name} joins");
    }
    assert!(c.run_until(60 * SECOND, |c| is_whole(c, names)), "one view");
    c
}

/// Whether these are the view of each of them.
pub(crate) fn is_whole(c: &Cluster, names: &[&str]) -> bool {
    names.iter().all(|n| c.view(n).is_some_and(|v| v.members.len() == names.len()))
}

pub(crate) fn id(c: &Cluster, name: &str) -> Uuid {
    c.history().id(c.life(name).expect("it runs"))
}

/// The sum of all gauges of this name at `of`.
pub(crate) fn gauge(c: &Cluster, of: &str, name: &str) -> u64 {
    let mut sum = 0;
    c.node(of).expect("it runs").stack().inspect(&mut |_, n, value| {
        if n == name {
            sum += value;
        }
    });
    sum
}

/// What `at` has of the multicasts of `of`.
fn marks(c: &Cluster, at: &str, of: &str) -> SeqnoPair {
    let of = id(c, of);
    match c.node(at).expect("it runs").stack().ask(&Query::DigestOf(of)) {
        Some(Answer::Digest(d)) => d.get(of).expect("a member"),
        _ => panic!("no digest"),
    }
}

/// `from` multicasts `times` messages of `bytes`.
pub(crate) fn cast(c: &mut Cluster, from: &str, times: u64, bytes: usize) {
    for _ in 0..times {
        c.send(from, &Outgoing::new(None, bytes)).expect("it runs");
    }
}

/// What was kept of the wire, with the names of both ends.
fn kept(c: &Cluster) -> &[Kept] {
    c.network().census().expect("kept").kept()
}

/// From where to where these went.
fn way(c: &Cluster, k: &Kept) -> (String, String) {
    let name = |host| c.names().find(|n| c.host(n) == Some(host)).expect("a host").to_owned();
    (name(k.from), name(k.to))
}

fn gms(m: &Message) -> Option<&GmsHeader> {
    match m.headers.get(ProtId::GMS) {
        Some(Header::Gms(h)) => Some(h),
        _ => None,
    }
}

fn stable(m: &Message) -> Option<StableKind> {
    match m.headers.get(ProtId::STABLE) {
        Some(Header::Stable(h)) => Some(h.kind),
        _ => None,
    }
}

/// Views and digests in the GMS messages of this kind, each read by itself.
fn view_digests(c: &Cluster, kind: GmsKind) -> Vec<(String, String, ViewDigest)> {
    let of_kind = kept(c).iter().filter(|k| gms(&k.message).is_some_and(|h| h.kind == kind));
    let with_payload = of_kind.filter_map(|k| {
        let bytes = k.message.body.as_bytes()?.clone();
        let (from, to) = way(c, k);
        Some((from, to, ViewDigest::from_bytes(bytes).expect("it can be read alone")))
    });
    with_payload.collect()
}

/// What travels of this protocol and kind between these is dropped or delayed.
fn rule(c: &mut Cluster, from: Option<&str>, what: (&str, &str), action: Action) {
    let from = from.map(|n| c.host(n).expect("it was started"));
    let pattern = Pattern {
        from,
        protocol: Some(what.0.into()),
        kind: Some(what.1.into()),
        ..Pattern::default()
    };
    c.add_rule(Rule::new(pattern, action, None));
}
