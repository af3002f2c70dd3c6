//! C11a: survivors of a view change that take part in tail repair agree on the last messages of those who are gone, or say that
//! they do not know; which they may only when one of them could not be asked.

use super::Violation;
use super::faults::{Faults, Kind};
use crate::connections::Life;
use crate::history::{Fact, History, MessageId, What};
use crate::network::Host;
use rgroups_core::{Duration, Time, Trace, Uuid, View, ViewId, tag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One member's step from a view to the next.
struct Passage {
    life: Life,
    from: Arc<View>,
    to: Arc<View>,
    at: usize,
    /// It said that it does not know whether all have the same.
    unknown: Option<Unknown>,
}

/// "I do not know", before a view.
struct Unknown {
    at: Time,
    /// Since when anybody has waited for that view, or this member for one that it replaced.
    since: Time,
    of: Vec<Uuid>,
}

impl Passage {
    /// Who had to be asked, this member among them.
    fn survivors(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.to.members.iter().copied().filter(|m| self.from.contains(*m))
    }
}

/// After so long every view is installed.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Connections that broke while nobody could be reached are made again within this time.
const AFTERMATH: Duration = Duration::from_secs(2);

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
    let unfounded = passages.iter().filter(|p| !is_explained(h, p, &faults, &passages));
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

/// Whether the member knows, or has a reason not to: one of the survivors died, left, was frozen or
/// slow, or was out of reach of another one while the view waited; comes back by a merge; or does not
/// take part in the repair. Or it went with others and does not listen to this member. Or one of them did not know, before an earlier view, and that decision
/// stands. Or nobody who stays has what one of them could not hear.
fn is_explained(h: &History, p: &Passage, faults: &Faults, all: &[Passage]) -> bool {
    let Some(unknown) = &p.unknown else { return true };
    let own = h.id(p.life);
    if p.survivors().any(|m| !tag::repairs_tails(m) || !p.to.together(own, m)) {
        return true;
    }
    let lives: Vec<Life> = p.survivors().filter_map(|m| h.life_of(m)).collect();
    let ended = |l: &Life| h.departure_of(*l).is_some_and(|i| h.facts[i].at <= unknown.at);
    let while_it_waited =
        |from: Time, to: Time| from <= unknown.at && to + AFTERMATH >= unknown.since;
    let stopped = faults.spans().iter().any(|s| {
        matches!(s.kind, Kind::Frozen | Kind::Slow)
            && s.of.is_some_and(|l| lives.contains(&l))
            && while_it_waited(s.from, s.to)
    });
    let hosts: BTreeSet<Host> = lives.iter().map(|l| h.lives[l.0].host).collect();
    let parted = cuts(h).into_iter().any(|(from, to, a, b)| {
        hosts.contains(&a) && hosts.contains(&b) && while_it_waited(from, to)
    });
    let of_survivors = || all.iter().filter(|q| lives.contains(&q.life));
    let decided_before = of_survivors().filter(|q| q.to.id.id < p.to.id.id);
    let mut unknown_before = decided_before.filter_map(|q| q.unknown.as_ref());
    lives.iter().any(|q| went_with_others(h, *q, p, unknown))
        || lives.iter().any(|q| missed_a_merge(h, *q, p, unknown))
        || lives.iter().any(ended)
        || stopped
        || parted
        || unknown.of.iter().any(|s| was_unheard(h, *s, &lives, unknown.at))
        || unknown_before.any(|u| u.of.iter().any(|m| unknown.of.contains(m)))
}

/// Whether the survivor `q` had a view without this member while it waited, or, where the group was
/// cut, obeyed another coordinator's view instead of the one that this member waited for.
fn went_with_others(h: &History, q: Life, p: &Passage, unknown: &Unknown) -> bool {
    let own = h.id(p.life);
    let member = |host: Host| {
        p.from.members.iter().filter_map(|m| h.life_of(*m)).any(|l| h.lives[l.0].host == host)
    };
    // While it waited, or when the other coordinator's view came.
    let is_cut = |rival: Time| {
        cuts(h).into_iter().any(|(from, to, a, b)| {
            from <= unknown.at && to >= unknown.since.min(rival) && member(a) && member(b)
        })
    };
    let views = h.views_of(q);
    let end_of = |i: usize| views.get(i + 1).map_or(Time(u64::MAX), |(at, _)| h.facts[*at].at);
    views.iter().enumerate().any(|(i, (at, v))| {
        let came = h.facts[*at].at;
        let current = came <= unknown.at + LONGEST_WAIT && end_of(i) >= unknown.since;
        let rival = v.id.id >= p.to.id.id && v.id.creator != p.to.id.creator;
        current && (!v.contains(own) || rival && is_cut(came))
    })
}

/// Whether the survivor `q` was still in a view from before a merge that had brought both together: what it
/// could say of the one who is gone counted from elsewhere.
fn missed_a_merge(h: &History, q: Life, p: &Passage, unknown: &Unknown) -> bool {
    let current =
        h.views_of(q).into_iter().take_while(|(i, _)| h.facts[*i].at <= unknown.at).last();
    let Some((_, current)) = current else { return false };
    let merges = h.views_of(p.life).into_iter().filter(|(i, v)| *i < p.at && v.is_merge());
    let missed = |v: &View| v.contains(h.id(q)) && v.id.id > current.id.id;
    merges.into_iter().any(|(_, v)| missed(&v))
}

/// Whether one of the survivors did not get a multicast of `s` because nothing of `s` reached it then, and
/// no other survivor has it either: those who could have told it are gone, or `s` is all there was.
fn was_unheard(h: &History, s: Uuid, survivors: &[Life], until: Time) -> bool {
    let Some(sender) = h.life_of(s) else { return false };
    let host = |l: Life| h.lives[l.0].host;
    let cuts = cuts(h);
    let unreached = |at: Time| {
        let hosts = || survivors.iter().map(|q| host(*q));
        let way = |c: &(Time, Time, Host, Host), q| c.2 == host(sender) && c.3 == q;
        cuts.iter().any(|c| c.0 <= at && at <= c.1 && hosts().any(|q| way(c, q)))
    };
    let before = || h.facts.iter().take_while(|f| f.at <= until);
    let mut unreached_sends: BTreeSet<MessageId> = before()
        .filter(|f| f.life == Some(sender) && unreached(f.at))
        .filter_map(|f| match f.what {
            What::Sent(m) => Some(m),
            _ => None,
        })
        .collect();
    let mut multicasts = BTreeSet::new();
    for f in before() {
        if let What::Delivered { message, from, multicast: true } = f.what
            && from == s
        {
            multicasts.insert(message);
            if f.life.is_some_and(|l| survivors.contains(&l)) {
                unreached_sends.remove(&message);
            }
        }
    }
    unreached_sends.intersection(&multicasts).next().is_some()
}

/// From when to when nothing got from one host to another.
fn cuts(h: &History) -> Vec<(Time, Time, Host, Host)> {
    let mut cuts: Vec<(Time, Time, Host, Host)> = Vec::new();
    for f in &h.facts {
        let What::Split(ways) = &f.what else { continue };
        for cut in cuts.iter_mut().filter(|c| c.1 == Time(u64::MAX)) {
            cut.1 = f.at;
        }
        cuts.extend(ways.iter().map(|(a, b)| (f.at, Time(u64::MAX), *a, *b)));
    }
    cuts
}

fn passages(h: &History, life: Life) -> Vec<Passage> {
    let views = h.views_of(life);
    let said = h.facts_of(life).filter_map(|(i, f)| match &f.what {
        What::Trace(Trace::TailUnknown { of }) => Some((i, f.at, of)),
        _ => None,
    });
    let said: Vec<(usize, Time, &Vec<Uuid>)> = said.collect();
    let passage = |w: &[(usize, Arc<View>)]| {
        let (between, to) = (w[0].0..w[1].0, Arc::clone(&w[1].1));
        let unknown = said.iter().find(|(i, _, _)| between.contains(i)).map(|(i, at, of)| {
            let began = |(n, f): (usize, &Fact)| match &f.what {
                What::Trace(Trace::TailRepair { view, step: "frozen" }) => {
                    *view == to.id || f.life == Some(life) && between.contains(&n)
                }
                _ => false,
            };
            let since = h.facts[..*i].iter().enumerate().find(|(n, f)| began((*n, *f)));
            Unknown { at: *at, since: since.map_or(*at, |(_, f)| f.at), of: (*of).clone() }
        });
        Passage { life, from: Arc::clone(&w[0].1), to: Arc::clone(&to), at: w[1].0, unknown }
    };
    views.windows(2).map(passage).collect()
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
    let takes_part = |p: &Passage| tag::repairs_tails(h.id(p.life));
    let comparable = |p: &&&Passage| takes_part(p) && p.from.contains(s) && p.unknown.is_none();
    let mut sets = together.iter().filter(comparable).filter_map(|p| {
        let start = start(h, p, sender)?;
        Some((*p, start, delivered(h, p, s)))
    });
    let (first, first_start, first_set) = sets.next()?;
    let of_s = h.views_of(sender);
    for (p, start, set) in sets {
        let start = start.max(first_start);
        // What the sender sent while it had a view without one of the two was not for that one.
        let for_both = |at: usize| {
            let current = of_s.iter().take_while(|(i, _)| *i < at).last();
            current.is_some_and(|(_, v)| [first, p].iter().all(|p| v.contains(h.id(p.life))))
        };
        let counts = |m: &&MessageId| sent.get(*m).is_some_and(|at| *at > start && for_both(*at));
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
    use super::super::made::{
        A, B, C, deliver, id, install, names, now, push, push_at, send, together, view,
    };
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

    /// A sends one message in a view of A and `others`, is gone, and B has the message.
    fn sent_in_a_view_of_a_and(others: &[Life]) -> Vec<Violation> {
        let mut h = together();
        let members: Vec<Life> = core::iter::once(A).chain(others.iter().copied()).collect();
        install(&mut h, A, 8, A, &members);
        let m = send(&mut h, A, None);
        deliver(&mut h, B, m);
        for l in [B, C] {
            install(&mut h, l, 9, B, &[B, C]);
        }
        check(&h)
    }

    #[test]
    fn what_was_sent_in_a_view_without_a_member_is_nothing_that_it_lacks() {
        assert_eq!(names(&sent_in_a_view_of_a_and(&[B, C])), ["C11a"]);
        assert!(sent_in_a_view_of_a_and(&[B]).is_empty());
    }

    #[test]
    fn a_survivor_that_was_out_of_reach_may_say_that_it_does_not_know() {
        assert!(a_is_gone(false, true, true).is_empty());
    }

    /// B and C do not know what the other has of A, which is gone; before it something `happens`.
    fn nobody_knows(happens: impl FnOnce(&mut History)) -> Vec<Violation> {
        let mut h = together();
        happens(&mut h);
        let later = now(&h) + AFTERMATH;
        for l in [B, C] {
            let of = vec![id(A)];
            push_at(&mut h, later, Some(l), What::Trace(Trace::TailUnknown { of }));
            install(&mut h, l, 9, B, &[B, C]);
        }
        check(&h)
    }

    #[test]
    fn a_survivor_that_does_not_know_although_all_could_be_asked_breaks_c11a() {
        assert_eq!(names(&nobody_knows(|_| {})), ["C11a"]);
    }

    #[test]
    fn only_who_had_to_be_asked_is_a_reason_not_to_know() {
        let cut = |a: usize, b: usize| {
            move |h: &mut History| push(h, A, What::Split([(Host(a), Host(b))].into()))
        };
        assert!(nobody_knows(cut(1, 2)).is_empty());
        assert_eq!(nobody_knows(cut(0, 2)).len(), 2, "A is the one who is gone");
        assert!(nobody_knows(|h| push(h, C, What::Frozen(true))).is_empty());
        assert_eq!(nobody_knows(|h| push(h, A, What::Frozen(true))).len(), 2);
    }

    #[test]
    fn a_survivor_that_obeys_another_coordinator_is_a_reason_only_where_the_group_was_cut() {
        let rival = |cut: bool| {
            nobody_knows(move |h| {
                if cut {
                    push(h, A, What::Split([(Host(0), Host(1))].into()));
                }
                install(h, C, 9, C, &[C, B]);
            })
        };
        // What C says itself has no reason in either case.
        assert_eq!((rival(false).len(), rival(true).len()), (2, 1));
    }

    #[test]
    fn a_survivor_that_has_missed_the_merge_of_both_is_a_reason_not_to_know() {
        let merged = |c_too: bool| {
            nobody_knows(move |h| {
                let parts = [view(3, A, &[A, B]), view(3, C, &[C])];
                let v = rgroups_core::View { subgroups: parts.into(), ..view(5, A, &[A, B, C]) };
                for l in if c_too { vec![A, B, C] } else { vec![A, B] } {
                    push(h, l, What::View(Arc::new(v.clone())));
                }
            })
        };
        // What C says itself has no reason in either case.
        assert_eq!((merged(true).len(), merged(false).len()), (2, 1));
    }

    #[test]
    fn a_rival_view_made_during_a_cut_is_a_reason_after_it_too() {
        let waits_later = |cut: bool| {
            let mut h = together();
            push(&mut h, A, What::Split(if cut { [(Host(0), Host(1))].into() } else { [].into() }));
            install(&mut h, C, 9, C, &[C, B]);
            push(&mut h, A, What::Split([].into()));
            let later = now(&h) + LONGEST_WAIT;
            let frozen = Trace::TailRepair { view: view(9, B, &[B, C]).id, step: "frozen" };
            push_at(&mut h, later, Some(B), What::Trace(frozen));
            push_at(&mut h, later, Some(B), What::Trace(Trace::TailUnknown { of: vec![id(A)] }));
            install(&mut h, B, 9, B, &[B, C]);
            check(&h).len()
        };
        assert_eq!((waits_later(true), waits_later(false)), (0, 1));
    }

    #[test]
    fn what_a_survivor_could_not_hear_and_no_other_one_has_is_a_reason_not_to_know() {
        let unheard = |to: usize, had_by: Option<Life>| {
            nobody_knows(move |h| {
                push(h, A, What::Split([(Host(0), Host(to))].into()));
                let m = send(h, A, None);
                deliver(h, A, m);
                push(h, A, What::Split([].into()));
                if let Some(l) = had_by {
                    deliver(h, l, m);
                }
            })
        };
        assert!(unheard(2, None).is_empty());
        assert_eq!(unheard(2, Some(B)).len(), 2, "B had it for C");
        assert_eq!(unheard(9, None).len(), 2, "both could hear it");
    }

    #[test]
    fn what_was_over_when_the_view_came_is_no_reason_not_to_know() {
        let found = nobody_knows(|h| {
            push(h, C, What::Frozen(true));
            push(h, C, What::Frozen(false));
            push(h, C, What::Consumes(None));
        });
        assert_eq!(names(&found), ["C11a"]);
    }

    #[test]
    fn who_did_not_know_an_earlier_view_does_not_know_the_next_one() {
        let unknown = |h: &mut History, l| {
            push(h, l, What::Trace(Trace::TailUnknown { of: vec![id(A)] }));
        };
        let mut h = together();
        push(&mut h, C, What::Frozen(true));
        unknown(&mut h, B);
        install(&mut h, B, 8, B, &[B, C]);
        push(&mut h, C, What::Frozen(false));
        let later = now(&h) + AFTERMATH * 2;
        push_at(&mut h, later, Some(C), What::Consumes(None));
        unknown(&mut h, C);
        install(&mut h, C, 9, B, &[B, C]);
        assert!(check(&h).is_empty());
    }
}
