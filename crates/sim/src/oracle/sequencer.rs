//! D2 and D3: in total order a change of the sequencer loses nothing, repeats nothing, and holds nobody
//! up for long. That what was on its way arrives is C1 to C6, which are judged of ordered messages as
//! of all others. What D2 adds: nobody delivers a message a second time, not even of a member that was
//! excluded and came back; and those who go together from a view to one in which another member orders
//! have the same part of the stream of the one that ordered before, whoever sent the messages.

use super::faults::{Faults, Kind, is_within};
use super::synchrony::sent_in;
use super::timeliness::TAIL_REPAIR;
use super::{Conditions, Violation, delivery};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::{Time, Trace, View, ViewId, tag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks D2 and D3.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found: Vec<Violation> = h.all_lives().flat_map(|l| repeated(h, l)).collect();
    let mut together: BTreeMap<(ViewId, ViewId), Vec<Passage>> = BTreeMap::new();
    for p in h.all_lives().flat_map(|l| passages(h, l)) {
        together.entry((p.view.id, p.next.id)).or_default().push(p);
    }
    let sent_in = sent_in(h);
    // What a state contains is not delivered; that nothing is missing in one is I1 and I2.
    for of_one in together.values().filter(|_| !c.states) {
        let Some((first, others)) = of_one.split_first() else { continue };
        found.extend(others.iter().find_map(|p| difference(h, c, first, p, &sent_in)));
    }
    found.extend(held_up(h, c));
    found
}

fn is_ordered(h: &History, m: MessageId) -> bool {
    let sent = h.message(m);
    sent.to.is_none() && sent.ordered && sent.reliable
}

fn repeated(h: &History, life: Life) -> Vec<Violation> {
    let mut seen = BTreeSet::new();
    let delivered = h.facts_of(life).filter_map(|(_, f)| match f.what {
        What::Delivered { message, multicast: true, .. } => Some(message),
        _ => None,
    });
    let again = delivered.filter(|m| is_ordered(h, *m) && !seen.insert(*m));
    again.map(|m| delivery::violation(h, "D2", life, m, "ordered, delivered twice")).collect()
}

/// One member's way from a view to one in which another member orders; the former one is gone.
struct Passage {
    life: Life,
    /// The view before.
    came_from: Option<ViewId>,
    view: Arc<View>,
    next: Arc<View>,
    /// What it delivered until then, and what of it in `view`.
    before: BTreeSet<MessageId>,
    within: BTreeSet<MessageId>,
}

/// Where a member does not take part in tail repair, or says that it does not know, nothing is
/// promised.
fn passages(h: &History, life: Life) -> Vec<Passage> {
    let views = h.views_of(life);
    if !tag::repairs_tails(h.id(life)) {
        return Vec::new();
    }
    let mut passages = Vec::new();
    for (n, pair) in views.windows(2).enumerate() {
        let (view, next) = (&pair[0].1, &pair[1].1);
        if next.contains(view.coordinator()) || next.is_merge() {
            continue;
        }
        let (mut before, mut within) = (BTreeSet::new(), BTreeSet::new());
        let mut knows = true;
        for (i, f) in h.facts_of(life).take_while(|(i, _)| *i < pair[1].0) {
            match &f.what {
                What::Delivered { message, multicast: true, .. } if is_ordered(h, *message) => {
                    before.insert(*message);
                    if i > pair[0].0 {
                        within.insert(*message);
                    }
                }
                What::Trace(Trace::TailUnknown { .. }) if i > pair[0].0 => knows = false,
                _ => {}
            }
        }
        if knows {
            let came_from = n.checked_sub(1).map(|before| views[before].1.id);
            let (view, next) = (Arc::clone(view), Arc::clone(next));
            passages.push(Passage { life, came_from, view, next, before, within });
        }
    }
    passages
}

/// What one of the two has delivered in the view and the other one not before the next. Who came into
/// the view from elsewhere is owed only what was sent in it.
fn difference(
    h: &History,
    c: &Conditions,
    a: &Passage,
    b: &Passage,
    sent_in: &BTreeMap<MessageId, ViewId>,
) -> Option<Violation> {
    let as_one = a.came_from.is_some() && a.came_from == b.came_from;
    let lack = |has: &Passage, lacks: &Passage| {
        let counts = |m: &&MessageId| {
            let message = h.message(**m);
            let whole = message.size as u64 <= c.frag_size;
            let here = sent_in.get(*m) == Some(&lacks.view.id);
            (message.loopback || message.sender != lacks.life) && (here || as_one && whole)
        };
        let m = has.within.difference(&lacks.before).find(counts)?;
        Some(Violation::new(
            "D2",
            format!(
                "between views {} and {} {} delivered #{} of {}, which {} had ordered, and {} did not",
                has.view.id.id,
                has.next.id.id,
                h.name(has.life),
                m.0,
                h.name(h.message(*m).sender),
                h.name_of(has.view.coordinator()),
                h.name(lacks.life)
            ),
        ))
    };
    lack(a, b).or_else(|| lack(b, a))
}

/// D3: a send that meets a change of the sequencer ends within the time of a view change, with the
/// repair of a tail, and of a delivery. Each further death makes the time begin anew. It is judged
/// where nobody was frozen, slow or out of reach, and where all applications read.
fn held_up(h: &History, c: &Conditions) -> Vec<Violation> {
    let Some(bounds) = &c.bounds else { return Vec::new() };
    let allowed = bounds.view_change() + TAIL_REPAIR + bounds.delivery(true);
    let faults = Faults::of(h);
    let fasting = fasting(h);
    let mut found = Vec::new();
    for life in h.all_lives() {
        let changes = changes(h, life);
        if changes.is_empty() {
            continue;
        }
        let end = h.departure_of(life).map_or(Time(u64::MAX), |i| h.facts[i].at);
        for (m, from, to) in sends(h, life) {
            let deadline = faults.deadline(from, None, allowed);
            let since = Time(from.0.saturating_sub(bounds.merge().as_nanos() as u64));
            let meets = changes.iter().any(|t| *t >= from && *t <= deadline.min(to));
            let excused = fasting.iter().any(|(f, t)| *f <= deadline && *t >= since)
                || faults.spans().iter().any(|s| {
                    !matches!(s.kind, Kind::Death | Kind::Reset)
                        && s.from <= deadline
                        && s.to >= since
                });
            if meets && !excused && to > deadline && end > deadline && is_within(h, deadline) {
                let why =
                    format!("sent at {from}, held up by a change of the sequencer until {to}");
                found.push(delivery::violation(h, "D3", life, m, &why));
            }
        }
    }
    found
}

/// When the member got another sequencer.
fn changes(h: &History, life: Life) -> Vec<Time> {
    let views = h.views_of(life);
    let change = |w: &[(usize, Arc<View>)]| {
        (w[0].1.coordinator() != w[1].1.coordinator()).then(|| h.facts[w[1].0].at)
    };
    views.windows(2).filter_map(change).collect()
}

/// The ordered multicasts of a member that end when they are admitted: from when to when.
fn sends(h: &History, life: Life) -> Vec<(MessageId, Time, Time)> {
    let mut sends: BTreeMap<MessageId, (Time, Time)> = BTreeMap::new();
    for (_, f) in h.facts_of(life) {
        match f.what {
            What::Sent(m) if is_ordered(h, m) && h.message(m).sync.is_none() => {
                sends.insert(m, (f.at, Time(u64::MAX)));
            }
            What::Resolved(m, _) => {
                sends.entry(m).and_modify(|(_, to)| *to = f.at);
            }
            _ => {}
        }
    }
    sends.into_iter().map(|(m, (from, to))| (m, from, to)).collect()
}

/// When an application read slowly or not at all.
fn fasting(h: &History) -> Vec<(Time, Time)> {
    let mut spans: Vec<(Option<Life>, Time, Time)> = Vec::new();
    for f in &h.facts {
        if let What::Consumes(rate) = f.what {
            let open = spans.iter_mut().filter(|s| s.0 == f.life && s.2 == Time(u64::MAX));
            open.for_each(|s| s.2 = f.at);
            if rate.is_some() {
                spans.push((f.life, f.at, Time(u64::MAX)));
            }
        }
    }
    spans.into_iter().map(|(_, from, to)| (from, to)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use rgroups_core::{Duration, SendResult};

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    /// C sends a message in the view that A orders, which is gone then; B has it, and C if `both`.
    fn the_sequencer_is_gone(both: bool, unknown: bool) -> History {
        let mut h = together();
        let m = send(&mut h, C, None);
        deliver(&mut h, B, m);
        if both {
            deliver(&mut h, C, m);
        }
        if unknown {
            push(&mut h, C, What::Trace(Trace::TailUnknown { of: vec![id(A)] }));
        }
        [B, C].into_iter().for_each(|l| install(&mut h, l, 4, B, &[B, C]));
        if !both {
            deliver(&mut h, C, m);
        }
        h
    }

    #[test]
    fn survivors_with_another_part_of_the_stream_break_d2() {
        assert_eq!(found(&the_sequencer_is_gone(false, false)), ["D2"]);
    }

    #[test]
    fn survivors_with_the_same_part_or_that_do_not_know_break_nothing() {
        assert!(found(&the_sequencer_is_gone(true, false)).is_empty());
        assert!(found(&the_sequencer_is_gone(false, true)).is_empty());
    }

    #[test]
    fn a_view_in_which_the_same_member_orders_may_come_at_another_place() {
        let mut h = together();
        let m = send(&mut h, A, None);
        deliver(&mut h, A, m);
        [A, B].into_iter().for_each(|l| install(&mut h, l, 4, A, &[A, B]));
        deliver(&mut h, B, m);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn what_was_sent_before_a_joiner_came_it_is_not_owed() {
        for sent_before in [true, false] {
            let mut h = trio();
            let old = send(&mut h, A, None);
            [A, B].into_iter().for_each(|l| install(&mut h, l, 2, A, &[A, B]));
            [A, B, C].into_iter().for_each(|l| install(&mut h, l, 3, A, &[A, B, C]));
            let new = send(&mut h, A, None);
            deliver(&mut h, B, if sent_before { old } else { new });
            [B, C].into_iter().for_each(|l| install(&mut h, l, 4, B, &[B, C]));
            assert_eq!(found(&h).is_empty(), sent_before);
        }
    }

    #[test]
    fn a_message_that_comes_again_with_its_sender_breaks_d2() {
        let mut h = together();
        let m = send(&mut h, C, None);
        deliver(&mut h, B, m);
        install(&mut h, B, 4, A, &[A, B]);
        install(&mut h, B, 5, A, &[A, B, C]);
        assert!(found(&h).is_empty());
        deliver(&mut h, B, m);
        assert_eq!(found(&h), ["D2"]);
    }

    /// B sends when A has died, gets another view, and its call ends so long after that.
    fn a_send_that_ends_after(seconds: u64, and: impl Fn(&mut History)) -> Vec<&'static str> {
        let mut h = together();
        push(&mut h, A, What::Died { power_off: false });
        and(&mut h);
        let m = send(&mut h, B, None);
        h.facts.pop();
        install(&mut h, B, 4, B, &[B, C]);
        let later = now(&h) + Duration::from_secs(seconds);
        push_at(&mut h, later, Some(B), What::Resolved(m, SendResult::Sent));
        push_at(&mut h, later + Duration::from_secs(60), Some(B), What::Consumes(None));
        found(&h)
    }

    #[test]
    fn a_send_that_a_change_of_the_sequencer_holds_up_for_too_long_breaks_d3() {
        assert!(a_send_that_ends_after(20, |_| ()).is_empty());
        assert_eq!(a_send_that_ends_after(40, |_| ()), ["D3"]);
    }

    #[test]
    fn an_application_that_does_not_read_and_a_frozen_process_hold_up_whom_they_like() {
        let fasts = |h: &mut History| push(h, C, What::Consumes(Some(0)));
        assert!(a_send_that_ends_after(40, fasts).is_empty());
        let frozen = |h: &mut History| push(h, C, What::Frozen(true));
        assert!(a_send_that_ends_after(40, frozen).is_empty());
    }
}
