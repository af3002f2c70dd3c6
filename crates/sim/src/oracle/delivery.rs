//! C: reliable delivery. Exactly once, in order, without gaps, between members that stay together.

use super::Violation;
use super::convergence::alive_at;
use crate::connections::Life;
use crate::history::{History, MessageId, Phase, SentMessage, What};
use rgroups_core::{SendResult, Uuid, View, ViewId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks C1 to C9 as far as a history shows them. C5 to C8 need the phase
/// [`Phase::AtRest`]: before it, a message may still be under way.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let accepted = accepted(h);
    let lives: Vec<Course> = h.all_lives().map(|l| Course::of(h, l)).collect();
    let mut found = Vec::new();
    for course in &lives {
        found.extend(integrity(h, course));
        found.extend(fifo(h, course));
        found.extend(from_members_only(h, course));
        found.extend(no_gap(h, course, &accepted));
    }
    if let Some(rest) = h.phase(Phase::AtRest) {
        found.extend(validity(h, &lives, &accepted, rest));
    }
    found.extend(quiet_wire(h));
    found
}

/// What one incarnation saw.
struct Course {
    life: Life,
    id: Uuid,
    views: Vec<(usize, Arc<View>)>,
    deliveries: Vec<Delivered>,
}

struct Delivered {
    at: usize,
    message: MessageId,
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

    fn view_at(&self, position: usize) -> Option<&Arc<View>> {
        let after = self.views.partition_point(|(i, _)| *i < position);
        after.checked_sub(1).map(|i| &self.views[i].1)
    }

    /// The view that was installed before this one.
    fn view_before(&self, id: ViewId) -> Option<ViewId> {
        let at = self.views.iter().position(|(_, v)| v.id == id)?;
        self.views.get(at.checked_sub(1)?).map(|(_, v)| v.id)
    }

    fn views_between(&self, from: usize, to: usize) -> &[(usize, Arc<View>)] {
        let first = self.views.partition_point(|(i, _)| *i < from);
        let end = self.views.partition_point(|(i, _)| *i < to);
        &self.views[first..end.max(first)]
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

fn violation(h: &History, invariant: &'static str, at: Life, m: MessageId, why: &str) -> Violation {
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
        if d.multicast != sent.to.is_none() || sent.to.is_some_and(|to| to != course.id) {
            wrong("delivered to the wrong destination");
        }
        if sent.sender == course.life && sent.to.is_none() && !sent.loopback {
            wrong("delivered to its sender, who did not want it");
        }
        if seen.insert(d.message, d.at).is_some_and(|before| course.kept(d.from, before, d.at)) {
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

/// C3: between two delivered messages of one epoch nothing is missing.
fn no_gap(h: &History, course: &Course, accepted: &BTreeMap<MessageId, usize>) -> Vec<Violation> {
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
                && if d.multicast { sent.to.is_none() } else { sent.to == Some(course.id) }
                && (sent.sender != course.life || sent.loopback || sent.to.is_some())
                && accepted.contains_key(m)
        });
        if let Some(m) = missing {
            let why = format!("skipped between #{} and #{}", before.message.0, d.message.0);
            found.push(violation(h, "C3", course.life, m, &why));
        }
    }
    found
}

/// C5 to C8: what a member accepted is delivered to every member that stays with it.
fn validity(
    h: &History,
    lives: &[Course],
    accepted: &BTreeMap<MessageId, usize>,
    rest: usize,
) -> Vec<Violation> {
    let alive = alive_at(h, rest);
    let mut delivered: BTreeSet<(Life, MessageId)> = BTreeSet::new();
    for course in lives {
        for d in course.deliveries.iter().filter(|d| d.at < rest) {
            delivered.insert((course.life, d.message));
        }
    }
    let mut found = Vec::new();
    for (m, admitted) in accepted.iter().filter(|(_, at)| **at < rest) {
        let sent = h.message(*m);
        if !alive.contains(&sent.sender) {
            continue;
        }
        for to in receivers(h, sent, &alive) {
            let (s, p) = (&lives[sent.sender.0], &lives[to.0]);
            if stay_together(s, p, *admitted, rest) && !delivered.contains(&(to, *m)) {
                let kind = if sent.ordered { "C5" } else { "C8" };
                found.push(violation(h, kind, to, *m, "never delivered"));
            }
        }
    }
    found
}

fn receivers(h: &History, sent: &SentMessage, alive: &[Life]) -> Vec<Life> {
    let wanted = |l: &&Life| match sent.to {
        Some(to) => h.id(**l) == to,
        None => **l != sent.sender || sent.loopback,
    };
    alive.iter().filter(wanted).copied().collect()
}

/// Whether `s` and `p` are in common views from `from` to `to`, no merge between them. When `p` is
/// in the view of `s` already and `p` is about to install it, that counts.
fn stay_together(s: &Course, p: &Course, from: usize, to: usize) -> bool {
    if s.life == p.life {
        return s.views_between(from, to).iter().all(|(_, v)| v.contains(s.id));
    }
    // A merge joins what was apart, unless both came to it from the same view.
    let apart = |v: &View| v.is_merge() && s.view_before(v.id) != p.view_before(v.id);
    let keeps = |course: &Course, other: Uuid, since: usize| {
        course.views_between(since, to).iter().all(|(_, v)| v.contains(other) && !apart(v))
    };
    let Some(sender_view) = s.view_at(from).filter(|v| v.contains(p.id)) else { return false };
    let joined = match p.view_at(from) {
        Some(v) if v.contains(s.id) => true,
        Some(v) => v.id.id < sender_view.id.id && !p.views_between(from, to).is_empty(),
        None => !p.views_between(from, to).is_empty(),
    };
    joined && keeps(s, p.id, from) && keeps(p, s.id, from)
}

/// C13: with nothing sent and nothing lost, no data and no requests travel.
fn quiet_wire(h: &History) -> Vec<Violation> {
    use rgroups_core::Trace;
    let (Some(start), Some(end)) = (h.phase(Phase::Quiet), h.phase(Phase::End)) else {
        return Vec::new();
    };
    let noisy = h.facts[start..end].iter().filter_map(|f| match (&f.what, f.life) {
        (What::Trace(t), Some(life)) => {
            let noise = match t {
                Trace::Multicast { .. } | Trace::Unicast { .. } => "sends a message",
                Trace::XmitRequested { .. } => "asks for a message",
                Trace::Retransmitted { .. } => "sends a message again",
                Trace::CreditAsked { .. } => "asks for credit",
                _ => return None,
            };
            Some((life, f.at, noise))
        }
        _ => None,
    });
    noisy
        .map(|(life, at, noise)| {
            Violation::new("C13", format!("{} {noise} at {at}, though all is quiet", h.name(life)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h))
    }

    fn at_rest(h: &mut History) {
        phase(h, Phase::AtRest);
    }

    #[test]
    fn a_message_delivered_everywhere_breaks_nothing() {
        let mut h = together();
        let m = send(&mut h, A, None);
        for life in [A, B, C] {
            deliver(&mut h, life, m);
        }
        at_rest(&mut h);
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
    fn a_message_of_an_excluded_member_breaks_c4() {
        let mut h = together();
        let m = send(&mut h, C, None);
        install(&mut h, A, 4, A, &[A, B]);
        deliver(&mut h, A, m);
        assert_eq!(found(&h), ["C4"]);
    }

    #[test]
    fn a_message_that_a_member_never_gets_breaks_c5() {
        let mut h = together();
        let m = send(&mut h, A, None);
        deliver(&mut h, A, m);
        deliver(&mut h, B, m);
        at_rest(&mut h);
        assert_eq!(found(&h), ["C5"]);
    }

    #[test]
    fn a_lost_out_of_band_message_breaks_c8() {
        let mut h = together();
        send(&mut h, A, Some(B));
        h.messages[0].ordered = false;
        at_rest(&mut h);
        assert_eq!(found(&h), ["C8"]);
    }

    #[test]
    fn who_was_excluded_meanwhile_is_owed_nothing() {
        let mut h = together();
        send(&mut h, A, Some(B));
        install(&mut h, A, 4, A, &[A, C]);
        at_rest(&mut h);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_first_message_to_a_joiner_that_installs_the_view_later_is_owed() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A, B]);
        send(&mut h, A, Some(B));
        install(&mut h, B, 1, A, &[A, B]);
        at_rest(&mut h);
        assert_eq!(found(&h), ["C5"]);
    }

    #[test]
    fn traffic_in_the_quiet_phase_breaks_c13() {
        use rgroups_core::Trace;
        let mut h = together();
        phase(&mut h, Phase::Quiet);
        push(&mut h, A, What::Trace(Trace::Multicast { seqno: 9 }));
        phase(&mut h, Phase::End);
        assert_eq!(found(&h), ["C13"]);
    }
}
