//! C: reliable delivery. Exactly once, in order, without gaps, between members that stay together.
//!
//! C10 says that callbacks for ordered messages of one sender do not overlap. There are no callbacks
//! here: an application takes its messages from one stream, one after the other. What is left of it,
//! and checked, is that they are taken in the order in which they were delivered.

use super::{Conditions, Violation, validity};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::{SendResult, Uuid, View, ViewId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Checks C1 to C10. That something is never delivered is seen in the phase
/// [`AtRest`](crate::history::Phase::AtRest) only: before it, a message may still be under way.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let accepted = accepted(h);
    let lives: Vec<Course> = h.all_lives().map(|l| Course::of(h, l)).collect();
    let mut found = Vec::new();
    for course in &lives {
        found.extend(integrity(h, course));
        found.extend(fifo(h, course));
        found.extend(from_members_only(h, course));
        found.extend(no_gap(h, course, &lives, &accepted, c));
        found.extend(unreliable_once(h, course, c));
        found.extend(one_at_a_time(h, course));
    }
    found.extend(sent_again(h));
    found.extend(validity::check(h, &lives, &accepted, c));
    found
}

/// What one incarnation saw.
pub(super) struct Course {
    pub(super) life: Life,
    pub(super) id: Uuid,
    views: Vec<(usize, Arc<View>)>,
    pub(super) deliveries: Vec<Delivered>,
}

pub(super) struct Delivered {
    pub(super) at: usize,
    pub(super) message: MessageId,
    from: Uuid,
    multicast: bool,
}

impl Course {
    fn of(h: &History, life: Life) -> Self {
        let deliveries = h.facts_of(life).filter_map(|(at, f)| match f.what {
            What::Delivered { message, from, multicast } => {
                Some(Delivered { at, message, from, multicast })
            }
            _ => None,
        });
        Course { life, id: h.id(life), views: h.views_of(life), deliveries: deliveries.collect() }
    }

    pub(super) fn view_at(&self, position: usize) -> Option<&Arc<View>> {
        let after = self.views.partition_point(|(i, _)| *i < position);
        after.checked_sub(1).map(|i| &self.views[i].1)
    }

    /// The view that was installed before this one.
    pub(super) fn view_before(&self, id: ViewId) -> Option<ViewId> {
        let at = self.views.iter().position(|(_, v)| v.id == id)?;
        self.views.get(at.checked_sub(1)?).map(|(_, v)| v.id)
    }

    pub(super) fn views_between(&self, from: usize, to: usize) -> &[(usize, Arc<View>)] {
        let first = self.views.partition_point(|(i, _)| *i < from);
        let end = self.views.partition_point(|(i, _)| *i < to);
        &self.views[first..end.max(first)]
    }

    /// How many views were installed before this position.
    pub(super) fn views_before(&self, position: usize) -> usize {
        self.views.partition_point(|(i, _)| *i < position)
    }

    /// Whether no view excluded `other` meanwhile: what was promised before goes on.
    fn kept(&self, other: Uuid, from: usize, to: usize) -> bool {
        self.views_between(from, to).iter().all(|(_, v)| v.contains(other))
    }

    /// Whether `other` was in the view all the time, and no merge came in between.
    fn one_epoch(&self, other: Uuid, from: usize, to: usize) -> bool {
        self.view_at(from).is_some_and(|v| v.contains(other))
            && self.views_between(from, to).iter().all(|(_, v)| v.contains(other) && !v.is_merge())
    }
}

/// Messages that flow control admitted, and where. The call of a synchronous send ends later, so of
/// those only the beginning is known.
fn accepted(h: &History) -> BTreeMap<MessageId, usize> {
    let mut sent = BTreeMap::new();
    let mut accepted = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        match &f.what {
            What::Sent(m) => {
                sent.insert(*m, i);
            }
            What::Resolved(m, SendResult::Sent) => {
                accepted.insert(*m, i);
            }
            What::Resolved(m, SendResult::Synced(_)) => {
                accepted.extend(sent.get(m).map(|at| (*m, *at)));
            }
            _ => {}
        }
    }
    accepted
}

pub(super) fn violation(
    h: &History,
    invariant: &'static str,
    at: Life,
    m: MessageId,
    why: &str,
) -> Violation {
    let sender = h.name(h.message(m).sender);
    Violation::new(invariant, format!("#{} of {sender} at {}: {why}", m.0, h.name(at)))
}

/// C1: what is delivered was sent like that, and once per epoch: who was excluded meanwhile may come
/// back through a merge with messages that had arrived before.
fn integrity(h: &History, course: &Course) -> Vec<Violation> {
    let mut found = Vec::new();
    for (_, f) in h.facts_of(course.life) {
        if let What::Garbled { from, why } = &f.what {
            let text = format!("{} got from {}: {why}", h.name(course.life), h.name_of(*from));
            found.push(Violation::new("C1", text));
        }
    }
    let mut seen: BTreeMap<MessageId, usize> = BTreeMap::new();
    for d in &course.deliveries {
        let sent = h.message(d.message);
        let mut wrong = |why| found.push(violation(h, "C1", course.life, d.message, why));
        if h.id(sent.sender) != d.from {
            wrong("delivered under another sender's name");
        }
        if d.multicast != sent.to.is_none() || sent.to.is_some() && !sent.names(course.id) {
            wrong("delivered to the wrong destination");
        }
        if sent.sender == course.life && sent.to.is_none() && !sent.loopback {
            wrong("delivered to its sender, who did not want it");
        }
        if sent.reliable
            && seen.insert(d.message, d.at).is_some_and(|before| course.kept(d.from, before, d.at))
        {
            wrong("delivered twice");
        }
    }
    found
}

/// C2: ordered messages of one sender to one kind of destination arrive in the order of sending.
fn fifo(h: &History, course: &Course) -> Vec<Violation> {
    let mut last: BTreeMap<(Uuid, bool), &Delivered> = BTreeMap::new();
    let mut found = Vec::new();
    for d in course.deliveries.iter().filter(|d| h.message(d.message).ordered) {
        if let Some(before) = last.insert((d.from, d.multicast), d)
            && before.message > d.message
            && course.kept(d.from, before.at, d.at)
        {
            let why = format!("delivered after #{}", before.message.0);
            found.push(violation(h, "C2", course.life, d.message, &why));
        }
    }
    found
}

/// C4: only messages of members of the current view are delivered.
fn from_members_only(h: &History, course: &Course) -> Vec<Violation> {
    let strangers = course
        .deliveries
        .iter()
        .filter(|d| !course.view_at(d.at).is_some_and(|v| v.contains(d.from)));
    strangers
        .map(|d| violation(h, "C4", course.life, d.message, "its sender is not in the view"))
        .collect()
}

/// C3: between two delivered messages of one epoch nothing is missing that was sent in that epoch.
fn no_gap(
    h: &History,
    course: &Course,
    lives: &[Course],
    accepted: &BTreeMap<MessageId, usize>,
    c: &Conditions,
) -> Vec<Violation> {
    let mut last: BTreeMap<(Uuid, bool), &Delivered> = BTreeMap::new();
    let mut found = Vec::new();
    for d in course.deliveries.iter().filter(|d| h.message(d.message).ordered) {
        let Some(before) = last.insert((d.from, d.multicast), d) else { continue };
        if !course.one_epoch(d.from, before.at, d.at) {
            continue;
        }
        let missing = (before.message.0 + 1..d.message.0).map(MessageId).find(|m| {
            let sent = h.message(*m);
            sent.ordered
                && h.id(sent.sender) == d.from
                && if d.multicast { sent.to.is_none() } else { sent.names(course.id) }
                && (sent.sender != course.life || sent.loopback || sent.to.is_some())
                && accepted.get(m).is_some_and(|at| {
                    let lost = || validity::is_lost_with_sequencer(h, *m, course.life, *at, d.at);
                    validity::stay_together(&lives[sent.sender.0], course, *at, d.at)
                        && !(c.ordered && lost())
                })
        });
        if let Some(m) = missing {
            let why = format!("skipped between #{} and #{}", before.message.0, d.message.0);
            found.push(violation(h, "C3", course.life, m, &why));
        }
    }
    found
}

/// C9: an unreliable message arrives at most once, unless the network itself made two of it: it has
/// no number by which a copy could be known.
fn unreliable_once(h: &History, course: &Course, c: &Conditions) -> Vec<Violation> {
    if c.duplication {
        return Vec::new();
    }
    let mut seen = BTreeMap::new();
    let unreliable = course.deliveries.iter().filter(|d| !h.message(d.message).reliable);
    let again = unreliable.filter(|d| seen.insert(d.message, d.at).is_some());
    again
        .map(|d| violation(h, "C9", course.life, d.message, "unreliable, delivered twice"))
        .collect()
}

/// C9: nobody sends an unreliable message again.
fn sent_again(h: &History) -> Vec<Violation> {
    let again = h.facts.iter().filter_map(|f| match f.what {
        What::SentAgain(m) => Some((f.life?, m)),
        _ => None,
    });
    again.map(|(life, m)| violation(h, "C9", life, m, "unreliable, sent again")).collect()
}

/// C10: of the ordered messages of one sender to one kind of destination the application takes the
/// one that was delivered first.
fn one_at_a_time(h: &History, course: &Course) -> Vec<Violation> {
    let mut waiting: BTreeMap<(Uuid, bool), VecDeque<MessageId>> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, f) in h.facts_of(course.life) {
        match f.what {
            What::Delivered { message, from, multicast } if h.message(message).ordered => {
                waiting.entry((from, multicast)).or_default().push_back(message);
            }
            What::Taken(m) if h.message(m).ordered => {
                let sent = h.message(m);
                let line = waiting.get_mut(&(h.id(sent.sender), sent.to.is_none()));
                if line.and_then(VecDeque::pop_front) != Some(m) {
                    found.push(violation(h, "C10", course.life, m, "taken out of its turn"));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use crate::history::Phase;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    #[test]
    fn a_message_delivered_everywhere_breaks_nothing() {
        let mut h = together();
        let m = send(&mut h, A, None);
        for life in [A, B, C] {
            deliver(&mut h, life, m);
        }
        phase(&mut h, Phase::AtRest);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_message_delivered_twice_breaks_c1() {
        let mut h = together();
        let m = send(&mut h, A, Some(B));
        deliver(&mut h, B, m);
        deliver(&mut h, B, m);
        assert!(found(&h).contains(&"C1"));
    }

    #[test]
    fn a_message_at_the_wrong_member_breaks_c1() {
        let mut h = together();
        let m = send(&mut h, A, Some(B));
        deliver(&mut h, C, m);
        assert_eq!(found(&h), ["C1"]);
    }

    #[test]
    fn a_changed_order_breaks_c2() {
        let mut h = together();
        let (m1, m2) = (send(&mut h, A, None), send(&mut h, A, None));
        deliver(&mut h, B, m2);
        deliver(&mut h, B, m1);
        assert_eq!(found(&h), ["C2"]);
    }

    #[test]
    fn out_of_band_messages_have_no_order() {
        let mut h = together();
        let (m1, m2) = (send(&mut h, A, None), send(&mut h, A, None));
        h.messages.iter_mut().for_each(|m| m.ordered = false);
        deliver(&mut h, B, m2);
        deliver(&mut h, B, m1);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_skipped_message_breaks_c3() {
        let mut h = together();
        let (m1, _, m3) = (send(&mut h, A, None), send(&mut h, A, None), send(&mut h, A, None));
        deliver(&mut h, B, m1);
        deliver(&mut h, B, m3);
        assert_eq!(found(&h), ["C3"]);
    }

    #[test]
    fn what_was_sent_to_who_had_excluded_the_sender_may_be_skipped() {
        let mut h = together();
        let held = send(&mut h, A, Some(B));
        install(&mut h, B, 4, B, &[B, C]);
        let lost = send(&mut h, A, Some(B));
        let mut merged = view(5, A, &[A, B, C]);
        merged.subgroups = vec![view(3, A, &[A]), view(4, B, &[B, C])].into();
        for life in [A, B, C] {
            push(&mut h, life, What::View(Arc::new(merged.clone())));
        }
        deliver(&mut h, B, held);
        let _ = lost;
        let next = send(&mut h, A, Some(B));
        deliver(&mut h, B, next);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_message_of_an_excluded_member_breaks_c4() {
        let mut h = together();
        let m = send(&mut h, C, None);
        install(&mut h, A, 4, A, &[A, B]);
        deliver(&mut h, A, m);
        assert_eq!(found(&h), ["C4"]);
    }

    #[test]
    fn an_unreliable_message_that_is_delivered_twice_breaks_c9() {
        let mut h = together();
        let m = send(&mut h, A, Some(B));
        (h.messages[0].ordered, h.messages[0].reliable) = (false, false);
        deliver(&mut h, B, m);
        deliver(&mut h, B, m);
        assert_eq!(found(&h), ["C9"]);
    }

    #[test]
    fn an_unreliable_message_that_is_sent_again_breaks_c9() {
        let mut h = together();
        let m = send(&mut h, A, Some(B));
        push(&mut h, A, What::SentAgain(m));
        assert_eq!(found(&h), ["C9"]);
    }

    #[test]
    fn a_message_that_is_taken_while_an_earlier_one_waits_breaks_c10() {
        let mut h = together();
        let (m1, m2) = (send(&mut h, A, Some(B)), send(&mut h, A, Some(B)));
        deliver(&mut h, B, m1);
        deliver(&mut h, B, m2);
        push(&mut h, B, What::Taken(m2));
        assert_eq!(found(&h), ["C10"]);
    }
}
