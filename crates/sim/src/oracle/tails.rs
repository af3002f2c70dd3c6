//! C11a: survivors of a view change agree on the last messages of those who are gone, or say that
//! they do not know; which they may only when one of them could not be asked.

use super::Violation;
use super::faults::{Faults, Kind};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::{Duration, Time, Trace, Uuid, View, ViewId, tag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One member's step from a view to the next.
struct Passage {
    life: Life,
    from: Arc<View>,
    to: Arc<View>,
    at: usize,
    /// When it said that it does not know whether all have the same, and of whom.
    unknown: Option<(Time, Vec<Uuid>)>,
}

/// A fault that has been over for so long explains nothing any more.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Checks C11a.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let passages: Vec<Passage> = h.all_lives().flat_map(|l| passages(h, l)).collect();
    let mut by_view: BTreeMap<ViewId, Vec<&Passage>> = BTreeMap::new();
    for p in &passages {
        by_view.entry(p.to.id).or_default().push(p);
    }
    let sent = sent(h);
    let mut found = Vec::new();
    for together in by_view.values() {
        let gone: BTreeSet<Uuid> = together.iter().flat_map(|p| p.from.without(&p.to)).collect();
        for s in gone {
            found.extend(disagreement(h, together, s, &sent));
        }
    }
    let faults = Faults::of(h);
    let unfounded = passages.iter().filter(|p| !is_explained(h, p, &faults));
    found.extend(unfounded.map(|p| {
        let (who, view) = (h.name(p.life), p.to.id.id);
        let text = format!("{who} does not know before view {view}, and nobody was out of reach");
        Violation::new("C11a", text)
    }));
    found
}

/// Whether anybody said that it does not know.
#[must_use]
pub(crate) fn is_unknown(h: &History) -> bool {
    h.facts.iter().any(|f| matches!(f.what, What::Trace(Trace::TailUnknown { .. })))
}

/// Whether the member knows, or has a reason not to: one of those who had to be asked (perhaps about
/// a view before, whose decision stands) died, left, was frozen or slow, or the network was split.
/// Members that do not take part in the repair explain it too.
fn is_explained(h: &History, p: &Passage, faults: &Faults) -> bool {
    let Some((at, of)) = &p.unknown else { return true };
    let asked = p.from.members.iter().filter(|m| !of.contains(m));
    let lives: Vec<Life> = asked.filter_map(|m| h.life_of(*m)).collect();
    let lately = |to: Time| at.since(to) < AFTERMATH;
    let fault = faults.spans().iter().filter(|s| s.from <= *at).any(|s| match s.kind {
        Kind::Split => lately(s.to),
        Kind::Frozen | Kind::Slow => s.of.is_some_and(|l| lives.contains(&l)) && lately(s.to),
        Kind::Death => s.of.is_some_and(|l| lives.contains(&l)),
        Kind::Reset => false,
    });
    let left = lives.iter().any(|l| h.departure_of(*l).is_some_and(|i| i < p.at));
    fault || left || p.from.members.iter().any(|m| !tag::repairs_tails(*m))
}

fn passages(h: &History, life: Life) -> Vec<Passage> {
    let views = h.views_of(life);
    let unknown = h.facts_of(life).filter_map(|(i, f)| match &f.what {
        What::Trace(Trace::TailUnknown { of }) => Some((i, (f.at, of.clone()))),
        _ => None,
    });
    let unknown: Vec<(usize, (Time, Vec<Uuid>))> = unknown.collect();
    views
        .windows(2)
        .map(|w| Passage {
            life,
            from: Arc::clone(&w[0].1),
            to: Arc::clone(&w[1].1),
            at: w[1].0,
            unknown: unknown
                .iter()
                .find(|(i, _)| (w[0].0..w[1].0).contains(i))
                .map(|(_, said)| said.clone()),
        })
        .collect()
}

/// Where each message was handed to the stack.
fn sent(h: &History) -> BTreeMap<MessageId, usize> {
    let sent = h.facts.iter().enumerate().filter_map(|(i, f)| match f.what {
        What::Sent(m) => Some((m, i)),
        _ => None,
    });
    sent.collect()
}

fn disagreement(
    h: &History,
    together: &[&Passage],
    s: Uuid,
    sent: &BTreeMap<MessageId, usize>,
) -> Option<Violation> {
    let sender = h.life_of(s)?;
    let comparable = |p: &&&Passage| p.from.contains(s) && p.unknown.is_none();
    let mut sets = together.iter().filter(comparable).filter_map(|p| {
        let start = start(h, p, sender)?;
        Some((*p, start, delivered(h, p, s)))
    });
    let (first, first_start, first_set) = sets.next()?;
    for (p, start, set) in sets {
        let start = start.max(first_start);
        let counts = |m: &&MessageId| sent.get(*m).is_some_and(|at| *at > start);
        let mine: BTreeSet<&MessageId> = first_set.iter().filter(counts).collect();
        let theirs: BTreeSet<&MessageId> = set.iter().filter(counts).collect();
        if let Some(m) = mine.symmetric_difference(&theirs).next() {
            let (has, lacks) =
                if mine.contains(*m) { (first.life, p.life) } else { (p.life, first.life) };
            return Some(Violation::new(
                "C11a",
                format!(
                    "before view {} {} delivered #{} of {}, and {} did not",
                    p.to.id.id,
                    h.name(has),
                    m.0,
                    h.name(sender),
                    h.name(lacks)
                ),
            ));
        }
    }
    None
}

/// From where on `p` must have what `s` sent: since both were in a view of `s` and the last merge
/// that `s` took part in. `None` if that cannot be told: `s` never installed such a view.
fn start(h: &History, p: &Passage, s: Life) -> Option<usize> {
    let me = h.id(p.life);
    let of_s = h.views_of(s);
    let joined = of_s.iter().find(|(i, v)| v.contains(me) && *i < p.at).map(|(i, _)| *i)?;
    let merges = |views: Vec<(usize, Arc<View>)>| {
        let merged = views.into_iter().filter(|(i, v)| v.is_merge() && *i < p.at);
        merged.last().map(|(i, v)| (i, v.id))
    };
    let (ours, theirs) = (merges(h.views_of(p.life)), merges(of_s.clone()));
    match (ours, theirs) {
        (None, None) => Some(joined),
        (Some((_, a)), Some((i, b))) if a == b => Some(joined.max(i)),
        _ => None,
    }
}

/// Multicasts of `s` that the member had delivered when it installed the view.
fn delivered(h: &History, p: &Passage, s: Uuid) -> BTreeSet<MessageId> {
    h.facts_of(p.life)
        .take_while(|(i, _)| *i < p.at)
        .filter_map(|(_, f)| match f.what {
            What::Delivered { message, from, multicast: true } if from == s => Some(message),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::{A, B, C, deliver, id, install, names, push, send, together};
    use super::*;

    /// A sends one message and is gone; B has it, and C if `both`. C is frozen for a while, or does
    /// not know whether it has the same as B, or both.
    fn a_is_gone(both: bool, frozen: bool, unknown: bool) -> Vec<Violation> {
        let mut h = together();
        let m = send(&mut h, A, None);
        deliver(&mut h, B, m);
        if both {
            deliver(&mut h, C, m);
        }
        if frozen {
            push(&mut h, C, What::Frozen(true));
            push(&mut h, C, What::Frozen(false));
        }
        if unknown {
            push(&mut h, C, What::Trace(Trace::TailUnknown { of: vec![id(A)] }));
        }
        for l in [B, C] {
            install(&mut h, l, 9, B, &[B, C]);
        }
        check(&h)
    }

    #[test]
    fn survivors_with_the_same_messages_agree() {
        assert!(a_is_gone(true, false, false).is_empty());
    }

    #[test]
    fn a_survivor_without_a_message_that_another_delivered_breaks_c11a() {
        assert_eq!(names(&a_is_gone(false, false, false)), ["C11a"]);
    }

    #[test]
    fn a_survivor_that_was_out_of_reach_may_say_that_it_does_not_know() {
        assert!(a_is_gone(false, true, true).is_empty());
    }

    #[test]
    fn a_survivor_that_does_not_know_although_all_could_be_asked_breaks_c11a() {
        assert_eq!(names(&a_is_gone(true, false, true)), ["C11a"]);
    }
}
