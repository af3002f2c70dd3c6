//! C5 to C8: what a member has accepted arrives at every member that stays with it: at rest at the
//! latest, and where nothing disturbs it within the time of ten rounds of retransmission.

use super::bounds::Bounds;
use super::convergence::alive_at;
use super::delivery::{Course, violation};
use super::faults::{Faults, is_within, position_after};
use super::timeliness::TAIL_REPAIR;
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, MessageId, Phase, SentMessage, What};
use rgroups_core::{Duration, Time, Trace, Uuid, View};
use std::collections::BTreeMap;

/// Checks C5 to C8.
pub(super) fn check(
    h: &History,
    lives: &[Course],
    accepted: &BTreeMap<MessageId, usize>,
    c: &Conditions,
) -> Vec<Violation> {
    let mut delivered: BTreeMap<(Life, MessageId), usize> = BTreeMap::new();
    for course in lives {
        for d in &course.deliveries {
            delivered.entry((course.life, d.message)).or_insert(d.at);
        }
    }
    let promises = Promises { h, lives, accepted, delivered, in_total_order: c.ordered };
    let mut found = Vec::new();
    if let Some(rest) = h.phase(Phase::AtRest) {
        found.extend(promises.kept_until(rest));
    }
    if let Some(bounds) = &c.bounds {
        found.extend(promises.kept_in_time(&Faults::of(h), bounds));
    }
    found
}

/// A line of this member waited for credit.
pub(super) struct Wait {
    of: Life,
    from: Time,
    to: Time,
}

impl Wait {
    pub(super) fn overlaps(&self, of: Life, from: Time, to: Time) -> bool {
        self.of == of && self.from <= to && self.to >= from
    }
}

/// From the first line of a member that waits to the last one that goes on.
pub(super) fn waits(h: &History) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    for f in &h.facts {
        let (Some(of), What::Trace(t)) = (f.life, &f.what) else { continue };
        match t {
            Trace::Blocked { .. } => waits.push(Wait { of, from: f.at, to: Time(u64::MAX) }),
            Trace::Unblocked { .. } => {
                let open = waits.iter_mut().find(|w| w.of == of && w.to == Time(u64::MAX));
                if let Some(w) = open {
                    w.to = f.at;
                }
            }
            _ => {}
        }
    }
    waits
}

struct Promises<'a> {
    h: &'a History,
    lives: &'a [Course],
    accepted: &'a BTreeMap<MessageId, usize>,
    /// Where each was delivered first.
    delivered: BTreeMap<(Life, MessageId), usize>,
    /// Multicasts go through the sequencer.
    in_total_order: bool,
}

impl Promises<'_> {
    fn kept_until(&self, rest: usize) -> Vec<Violation> {
        let alive = alive_at(self.h, rest);
        let due = self.accepted.iter().filter(|(_, at)| **at < rest);
        due.flat_map(|(m, at)| self.broken(*m, *at, rest, &alive, "never delivered")).collect()
    }

    /// Flow control delays a message before it is admitted, so the time begins with that; but of a
    /// large one a part may still wait then.
    fn kept_in_time(&self, faults: &Faults, bounds: &Bounds) -> Vec<Violation> {
        // What was frozen or cut off a moment ago has a backlog.
        const AFTERMATH: Duration = Duration::from_secs(1);
        let h = self.h;
        let waits = waits(h);
        let mut found = Vec::new();
        for (m, accepted) in self.accepted {
            let at = h.facts[*accepted].at;
            let allowed = bounds.delivery(h.message(*m).to.is_none());
            let deadline = at + allowed;
            // A sequencer that failed before still has to be replaced.
            let aftermath = match self.goes_through_sequencer(*m) {
                true => AFTERMATH + bounds.view_change() + TAIL_REPAIR,
                false => AFTERMATH,
            };
            let since = Time(at.0.saturating_sub(aftermath.as_nanos() as u64));
            let end = position_after(h, deadline);
            let senders = self.senders(*m, *accepted, end);
            let held = waits.iter().any(|w| senders.iter().any(|s| w.overlaps(*s, at, deadline)));
            if held || !faults.none_in(since, deadline) || !is_within(h, deadline) {
                continue;
            }
            let text = format!("not delivered within {allowed:?}");
            found.extend(self.broken(*m, *accepted, end, &alive_at(h, end), &text));
        }
        found
    }

    fn goes_through_sequencer(&self, m: MessageId) -> bool {
        let sent = self.h.message(m);
        self.in_total_order && sent.to.is_none() && sent.ordered
    }

    /// Whose flow control delays this message: its sender's, in total order the sequencer's too.
    fn senders(&self, m: MessageId, from: usize, to: usize) -> Vec<Life> {
        let sent = self.h.message(m);
        let mut senders = vec![sent.sender];
        if self.goes_through_sequencer(m) {
            let sender = &self.lives[sent.sender.0];
            let later = sender.views_between(from, to).iter().map(|(_, v)| v);
            let views = sender.view_at(from).into_iter().chain(later);
            senders.extend(views.filter_map(|v| self.h.life_of(v.coordinator())));
        }
        senders
    }

    /// Receivers that had a right to the message and have not got it by `end`.
    fn broken(
        &self,
        m: MessageId,
        accepted: usize,
        end: usize,
        alive: &[Life],
        text: &str,
    ) -> Vec<Violation> {
        let (h, sent) = (self.h, self.h.message(m));
        if !sent.reliable || !alive.contains(&sent.sender) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for to in receivers(h, sent, alive) {
            let (s, p) = (&self.lives[sent.sender.0], &self.lives[to.0]);
            let arrived = self.delivered.get(&(to, m)).is_some_and(|at| *at < end);
            let excused = || {
                self.goes_through_sequencer(m) && is_lost_with_sequencer(h, m, to, accepted, end)
            };
            if !arrived && stay_together(s, p, accepted, end) && !excused() {
                found.push(violation(h, self.name(m, accepted, end), to, m, text));
            }
        }
        found
    }

    /// Which promise it was: C8 to out-of-band messages; C7 to the first to this destination, sent
    /// in the sender's first view; C6 to the last one, which none follows that shows the gap; C5.
    fn name(&self, m: MessageId, accepted: usize, end: usize) -> &'static str {
        let sent = self.h.message(m);
        let alike = |other: &MessageId| {
            let o = self.h.message(*other);
            o.ordered && o.sender == sent.sender && o.to == sent.to
        };
        let mut followed = false;
        let mut preceded = false;
        for (other, at) in self.accepted.iter().filter(|(other, _)| alike(other)) {
            preceded |= *other < m;
            followed |= *other > m && *at < end;
        }
        let sender = &self.lives[sent.sender.0];
        let in_first_view = sender.views_before(accepted) == 1;
        match sent.ordered {
            false => "C8",
            true if !preceded && in_first_view => "C7",
            true if !followed => "C6",
            true => "C5",
        }
    }
}

/// In total order the stream is the sequencer's: its end may be lost to `to` alone, of all senders, where
/// `to` or the sender says that it does not know the last messages of who is gone.
pub(super) fn is_lost_with_sequencer(
    h: &History,
    m: MessageId,
    to: Life,
    from: usize,
    end: usize,
) -> bool {
    let sent = h.message(m);
    sent.to.is_none()
        && sent.ordered
        && h.facts[from..end].iter().any(|f| {
            matches!(f.what, What::Trace(Trace::TailUnknown { .. }))
                && (f.life == Some(to) || f.life == Some(sent.sender))
        })
}

fn receivers(h: &History, sent: &SentMessage, alive: &[Life]) -> Vec<Life> {
    let wanted = |l: &&Life| match sent.to {
        Some(_) => sent.names(h.id(**l)),
        None => **l != sent.sender || sent.loopback,
    };
    alive.iter().filter(wanted).copied().collect()
}

/// Whether `s` and `p` are in common views from `from` to `to`, no merge between them. When `p` is
/// in the view of `s` already and `p` is about to install it, that counts.
pub(super) fn stay_together(s: &Course, p: &Course, from: usize, to: usize) -> bool {
    if s.life == p.life {
        return s.views_between(from, to).iter().all(|(_, v)| v.contains(s.id));
    }
    // A merge joins what was apart, unless both came to it from the same view. Who still had to install
    // its part's view when the merged one came was of that part all the same.
    let apart = |v: &View| {
        v.is_merge() && (s.view_before(v.id) != p.view_before(v.id) || v.reunites(s.id, p.id))
    };
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

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn found(h: &History) -> Vec<&'static str> {
        names(&super::super::delivery::check(h, &conditions()))
    }

    fn at_rest(h: &mut History) {
        phase(h, Phase::AtRest);
    }

    /// A, B and C are in their second view: what is sent now is not the first of anything.
    fn settled() -> History {
        let mut h = trio();
        for (n, life) in [(2, A), (2, B), (2, C)] {
            install(&mut h, life, n, A, &[A, B, C]);
        }
        for life in [A, B, C] {
            install(&mut h, life, 3, A, &[A, B, C]);
        }
        h
    }

    #[test]
    fn a_message_that_a_member_never_gets_breaks_c5() {
        let mut h = settled();
        let (m, later) = (send(&mut h, A, None), send(&mut h, A, None));
        for (life, m) in [(A, m), (A, later), (B, m), (B, later), (C, later)] {
            deliver(&mut h, life, m);
        }
        at_rest(&mut h);
        assert_eq!(found(&h), ["C5"]);
    }

    #[test]
    fn a_last_message_that_a_member_never_gets_breaks_c6() {
        let mut h = settled();
        let (m, last) = (send(&mut h, A, Some(B)), send(&mut h, A, Some(B)));
        deliver(&mut h, B, m);
        let _ = last;
        at_rest(&mut h);
        assert_eq!(found(&h), ["C6"]);
    }

    #[test]
    fn a_first_message_that_a_member_never_gets_breaks_c7() {
        let mut h = together();
        let (first, m) = (send(&mut h, A, None), send(&mut h, A, None));
        for (life, m) in [(A, first), (A, m), (B, first), (B, m), (C, m)] {
            deliver(&mut h, life, m);
        }
        at_rest(&mut h);
        assert_eq!(found(&h), ["C7"]);
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
    fn a_lost_unreliable_message_breaks_nothing() {
        let mut h = together();
        send(&mut h, A, Some(B));
        (h.messages[0].ordered, h.messages[0].reliable) = (false, false);
        at_rest(&mut h);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_last_message_that_comes_too_late_breaks_c6_and_during_a_fault_nothing() {
        for (fault, expected) in [(false, ["C6"].as_slice()), (true, &[])] {
            let mut h = settled();
            let (first, last) = (send(&mut h, A, Some(B)), send(&mut h, A, Some(B)));
            deliver(&mut h, B, first);
            if fault {
                push(&mut h, B, What::Frozen(true));
            }
            push_at(&mut h, Time(30_000_000_000), Some(B), What::Consumes(None));
            deliver(&mut h, B, last);
            at_rest(&mut h);
            assert_eq!(found(&h), expected);
        }
    }

    #[test]
    fn a_message_of_which_a_part_waits_for_credit_is_not_late() {
        use rgroups_core::Pool;
        let mut h = settled();
        let by = vec![id(B)];
        push(&mut h, A, What::Trace(Trace::Blocked { pool: Pool::Unicast, by }));
        let m = send(&mut h, A, Some(B));
        push_at(&mut h, Time(30_000_000_000), Some(B), What::Consumes(None));
        push(&mut h, A, What::Trace(Trace::Unblocked { pool: Pool::Unicast }));
        deliver(&mut h, B, m);
        at_rest(&mut h);
        assert!(found(&h).is_empty());
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
    fn who_is_of_another_part_of_a_merge_is_owed_nothing_of_before() {
        for (parts, expected) in
            [([&[A][..], &[B, C][..]], [].as_slice()), ([&[A, B][..], &[C][..]], &["C6"])]
        {
            let mut h = together();
            let (first, m) = (send(&mut h, A, Some(B)), send(&mut h, A, Some(B)));
            deliver(&mut h, B, first);
            let mut merged = view(5, A, &[A, B, C]);
            merged.subgroups = parts.map(|p| view(3 + u64::from(p[0] != A), p[0], p)).into();
            for life in [A, B, C] {
                push(&mut h, life, What::View(std::sync::Arc::new(merged.clone())));
            }
            at_rest(&mut h);
            let _ = m;
            assert_eq!(found(&h), expected);
        }
    }

    #[test]
    fn a_first_message_to_a_joiner_that_installs_the_view_later_is_owed() {
        let mut h = trio();
        install(&mut h, A, 1, A, &[A, B]);
        send(&mut h, A, Some(B));
        install(&mut h, B, 1, A, &[A, B]);
        at_rest(&mut h);
        assert_eq!(found(&h), ["C7"]);
    }
}
