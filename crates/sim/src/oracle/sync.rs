//! H: synchronous sends end in time, say who has what, and it is true.

use super::Violation;
use super::faults::{Faults, Kind};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::app::{SyncEnd, SyncOutcome};
use rgroups_core::{Duration, SendResult, SyncLevel, Uuid, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A call that ended.
struct Call<'a> {
    message: MessageId,
    sender: Life,
    level: SyncLevel,
    timeout: Option<Duration>,
    outcome: &'a SyncOutcome,
    from: usize,
    to: usize,
}

/// By how much a call may be late: clocks of nodes run up to a fiftieth too slowly.
fn allowed(timeout: Duration) -> Duration {
    timeout + timeout / 40 + Duration::from_millis(10)
}

/// Checks H1 to H3 (H4 is E8 and F6: every call ends).
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let faults = Faults::of(h);
    let taken = taken(h);
    let mut found = Vec::new();
    for call in calls(h) {
        found.extend(in_time(h, &call, &faults));
        found.extend(is_true(h, &call, &taken));
        found.extend(names_the_right_ones(h, &call));
    }
    found
}

fn calls(h: &History) -> Vec<Call<'_>> {
    let mut began = BTreeMap::new();
    let mut calls = Vec::new();
    for (i, f) in h.facts.iter().enumerate() {
        match &f.what {
            What::Sent(m) => {
                began.insert(*m, i);
            }
            What::Resolved(m, SendResult::Synced(outcome)) => {
                let sent = h.message(*m);
                let (Some(from), Some((level, timeout))) = (began.get(m), sent.sync) else {
                    continue;
                };
                let (message, sender, from) = (*m, sent.sender, *from);
                calls.push(Call { message, sender, level, timeout, outcome, from, to: i });
            }
            _ => {}
        }
    }
    calls
}

/// When which application was given a message, and when it had consumed it.
#[derive(Default)]
struct Progress {
    delivered: BTreeMap<(Uuid, MessageId), usize>,
    taken: BTreeMap<(Uuid, MessageId), usize>,
}

fn taken(h: &History) -> Progress {
    let mut p = Progress::default();
    for (i, f) in h.facts.iter().enumerate() {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Delivered { message, .. } => {
                p.delivered.entry((h.id(life), *message)).or_insert(i);
            }
            What::Taken(message) => {
                p.taken.entry((h.id(life), *message)).or_insert(i);
            }
            _ => {}
        }
    }
    p
}

/// H1: no call lasts longer than its time.
fn in_time(h: &History, call: &Call<'_>, faults: &Faults) -> Option<Violation> {
    let timeout = call.timeout?;
    let (began, ended) = (h.facts[call.from].at, h.facts[call.to].at);
    // Who does not run cannot return either.
    let stopped = faults.spans().iter().any(|s| {
        matches!(s.kind, Kind::Frozen | Kind::Slow)
            && s.of == Some(call.sender)
            && s.from <= ended
            && s.to >= began
    });
    let late = ended.since(began) > allowed(timeout);
    (late && !stopped).then(|| violation(h, call, "H1", "returned after its time".into()))
}

/// H2: who is said to have acknowledged has the message, as the level says; a call that is complete
/// misses nobody, and any other does.
fn is_true(h: &History, call: &Call<'_>, p: &Progress) -> Option<Violation> {
    let complete = call.outcome.end == SyncEnd::Complete;
    if complete != call.outcome.missing.is_empty() {
        let end = call.outcome.end;
        let text = format!("ended {end:?} with {} missing", call.outcome.missing.len());
        return Some(violation(h, call, "H2", text));
    }
    let has = |m: &&Uuid| match call.level {
        // It is in a window; nobody outside sees that.
        SyncLevel::OnReceive => true,
        // Its own copy is acknowledged by the sender when it comes back, delivered or not.
        SyncLevel::OnContiguous => {
            **m == h.id(call.sender)
                || p.delivered.get(&(**m, call.message)).is_some_and(|i| *i < call.to)
        }
        SyncLevel::OnDeliver => {
            **m == h.id(call.sender)
                || p.taken.get(&(**m, call.message)).is_some_and(|i| *i < call.to)
        }
    };
    let liar = call.outcome.acknowledged.iter().find(|m| !has(m))?;
    let text = format!("{} acknowledged what it has not", h.name_of(*liar));
    Some(violation(h, call, "H2", text))
}

/// H3: who was in the view all the time is acknowledged or missing, who is said to have left did
/// leave, and nobody else is named.
fn names_the_right_ones(h: &History, call: &Call<'_>) -> Option<Violation> {
    let o = call.outcome;
    let views = h.views_of(call.sender);
    let at_send: Option<Arc<View>> =
        views.iter().rev().find(|(i, _)| *i < call.from).map(|(_, v)| Arc::clone(v));
    // The application hears of the end of the call just before it hears of the view that ended it.
    let ended = h.facts[call.to].at;
    let meanwhile: Vec<Arc<View>> = views
        .iter()
        .filter(|(i, _)| *i > call.from && h.facts[*i].at <= ended)
        .map(|(_, v)| Arc::clone(v))
        .collect();
    let all: Vec<&Arc<View>> = at_send.iter().chain(&meanwhile).collect();
    let named: BTreeSet<Uuid> =
        [&o.acknowledged, &o.failed, &o.left, &o.missing].into_iter().flatten().copied().collect();
    let sent = h.message(call.message);
    // One who was sent something after it had left was in no view any more.
    let alone = |m: &Uuid| sent.to.as_deref() == Some(&[*m]);
    let stranger = named.iter().find(|m| {
        let asked = sent.to.is_none() || sent.names(**m);
        !asked || !alone(m) && !all.iter().any(|v| v.contains(**m))
    });
    if let Some(m) = stranger {
        let text = format!("{} was in no view meanwhile", h.name_of(*m));
        return Some(violation(h, call, "H3", text));
    }
    let own = h.id(call.sender);
    let parted = |m: Uuid| meanwhile.iter().any(|v| v.reunites(own, m));
    let stayed = |m: &Uuid| !all.is_empty() && all.iter().all(|v| v.contains(*m)) && !parted(*m);
    if let Some(m) = o.left.iter().find(|m| stayed(m)) {
        let text = format!("{} is said to have left and did not", h.name_of(*m));
        return Some(violation(h, call, "H3", text));
    }
    let whom = match &sent.to {
        Some(to) => to.clone(),
        None => at_send.iter().flat_map(|v| v.members.iter().copied()).collect(),
    };
    let forgotten = whom.iter().find(|m| **m != own && stayed(m) && !named.contains(m));
    let closed = o.end == SyncEnd::Closed;
    let m = forgotten.filter(|_| !closed)?;
    Some(violation(h, call, "H3", format!("{} is not named", h.name_of(*m))))
}

fn violation(h: &History, call: &Call<'_>, invariant: &'static str, why: String) -> Violation {
    let text = format!("#{} of {}: {why}", call.message.0, h.name(call.sender));
    Violation::new(invariant, text)
}

#[cfg(test)]
mod tests {
    use super::super::made::{A, B, C, deliver, id, install, names, push, together};
    use super::*;
    use crate::history::SentMessage;

    /// A waits at most `timeout` for all to have consumed what it sends.
    fn begin(h: &mut History, timeout: Option<Duration>) -> MessageId {
        let m = MessageId(h.messages.len() as u32);
        h.messages.push(SentMessage {
            sender: A,
            to: None,
            ordered: true,
            reliable: true,
            loopback: true,
            size: 100,
            sync: Some((SyncLevel::OnDeliver, timeout)),
        });
        push(h, A, What::Sent(m));
        for l in [A, B] {
            deliver(h, l, m);
            push(h, l, What::Taken(m));
        }
        m
    }

    fn end(h: &mut History, m: MessageId, [acknowledged, left, missing]: [&[Life]; 3]) {
        let ids = |lives: &[Life]| lives.iter().map(|l| id(*l)).collect::<Vec<_>>();
        let end = if missing.is_empty() { SyncEnd::Complete } else { SyncEnd::TimedOut };
        let (acknowledged, left, missing) = (ids(acknowledged), ids(left), ids(missing));
        let outcome = SyncOutcome {
            acknowledged,
            left,
            missing,
            end,
            by_stability: Vec::new(),
            failed: Vec::new(),
        };
        push(h, A, What::Resolved(m, SendResult::Synced(outcome)));
    }

    fn ended(timeout: Option<Duration>, lists: [&[Life]; 3]) -> Vec<Violation> {
        let mut h = together();
        let m = begin(&mut h, timeout);
        end(&mut h, m, lists);
        check(&h)
    }

    #[test]
    fn a_call_that_names_everybody_rightly_is_fine() {
        let c_gone = |h: &mut History| install(h, A, 4, A, &[A, B]);
        let mut h = together();
        let m = begin(&mut h, None);
        c_gone(&mut h);
        end(&mut h, m, [&[A, B], &[C], &[]]);
        assert_eq!(check(&h), []);
        assert_eq!(ended(None, [&[A, B], &[], &[C]]), []);
    }

    #[test]
    fn a_call_that_returns_after_its_time_breaks_h1() {
        let found = ended(Some(Duration::from_nanos(1)), [&[A, B], &[], &[C]]);
        assert!(found.is_empty(), "within what clocks differ by");
        let mut h = together();
        let m = begin(&mut h, Some(Duration::from_millis(1)));
        for _ in 0..20 {
            push(&mut h, B, What::Slowed(Duration::ZERO));
        }
        end(&mut h, m, [&[A, B], &[], &[C]]);
        assert_eq!(names(&check(&h)), ["H1"]);
    }

    #[test]
    fn an_acknowledgement_of_who_has_not_consumed_it_breaks_h2() {
        assert_eq!(names(&ended(None, [&[A, B, C], &[], &[]])), ["H2"]);
    }

    #[test]
    fn a_member_that_is_said_to_have_left_and_did_not_breaks_h3() {
        assert_eq!(names(&ended(None, [&[A, B], &[C], &[]])), ["H3"]);
    }

    #[test]
    fn a_member_that_is_not_named_breaks_h3() {
        assert_eq!(names(&ended(None, [&[A, B], &[], &[]])), ["H3"]);
    }
}
