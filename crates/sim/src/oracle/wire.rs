//! C12 to C16: what goes over the wire. No number without a message, nothing when all is quiet, few
//! repetitions, no request for what cannot be had, no packet that is too large.

use super::faults::{Faults, by};
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, MessageId, Phase, What};
use rgroups_core::app::SendResult;
use rgroups_core::event::WindowKind;
use rgroups_core::{Duration, Time, Trace, Uuid, View};
use std::collections::{BTreeMap, BTreeSet};

/// Checks C12 to C16.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = refusals(h);
    found.extend(quiet_wire(h));
    found.extend(economy(h, c));
    found.extend(requests(h));
    found.extend(in_vain(h, c));
    found.extend(packets(h));
    found
}

/// C12: a refused message has no number, so the numbers of a sender have no holes; and it is not
/// delivered.
fn refusals(h: &History) -> Vec<Violation> {
    let mut last: BTreeMap<(Life, Option<Uuid>), i64> = BTreeMap::new();
    let mut refused: BTreeSet<MessageId> = BTreeSet::new();
    let mut found = Vec::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        let (to, seqno) = match &f.what {
            What::Trace(Trace::Multicast { seqno }) => (None, *seqno),
            What::Trace(Trace::Unicast { to, seqno }) => (Some(*to), *seqno),
            What::Resolved(m, SendResult::Refused(_)) => {
                refused.insert(*m);
                continue;
            }
            What::Delivered { message, .. } if refused.contains(message) => {
                let text = format!("delivers #{}, which was refused", message.0);
                found.push(by(h, "C12", life, &text));
                continue;
            }
            // Who joins anew counts anew.
            What::Rejoining(_) => {
                last.retain(|(l, _), _| *l != life);
                continue;
            }
            _ => continue,
        };
        let before = last.insert((life, to), seqno).unwrap_or(0);
        // A connection that begins anew counts from 1.
        let anew = to.is_some() && seqno == 1;
        if seqno != before + 1 && !anew {
            let text = format!("sends {seqno} after {before} to {}", destination(h, to));
            found.push(by(h, "C12", life, &text));
        }
    }
    found
}

fn destination(h: &History, to: Option<Uuid>) -> String {
    to.map_or_else(|| "all".to_owned(), |to| h.name_of(to))
}

/// C13: with nothing sent and nothing lost, no data and no requests travel.
fn quiet_wire(h: &History) -> Vec<Violation> {
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
            by(h, "C13", life, &format!("{noise} at {at}, though all is quiet"))
        })
        .collect()
}

/// C14: few messages are sent again. Counted over whole runs without any fault but loss, and from
/// the end of all faults on in the others: what was sent before may have to be repaired. What belongs to a beginning is not counted: the first
/// message of a connection that was overtaken is asked for at once, and so is what was on its way
/// when its receiver joined. Nor is what goes to somebody who is no member: it is repeated until it
/// is given up.
fn economy(h: &History, c: &Conditions) -> Option<Violation> {
    let undisturbed = Faults::of(h).spans().is_empty();
    let (from, loss) = match undisturbed {
        true => (0, c.loss),
        false => (h.phase(Phase::Converged)?, 0.0),
    };
    let until = h.phase(Phase::End)?;
    let mut current: BTreeMap<Life, &View> = BTreeMap::new();
    let mut joined: BTreeMap<Uuid, Time> = BTreeMap::new();
    let mut before: BTreeMap<(Uuid, Option<Uuid>), i64> = BTreeMap::new();
    let (mut due, mut again) = (0, 0);
    for (i, f) in h.facts[..until].iter().enumerate() {
        let Some(life) = f.life else { continue };
        let has_joined = |m: &Uuid| joined.get(m).is_some_and(|at| f.at.since(*at) > BEGINNING);
        let is_member = |m: &Uuid| current.get(&life).is_some_and(|v| v.contains(*m));
        match &f.what {
            What::View(v) => {
                current.insert(life, v);
                joined.entry(h.id(life)).or_insert(f.at);
            }
            What::Trace(Trace::Multicast { seqno }) if i < from => {
                before.insert((h.id(life), None), *seqno);
            }
            What::Trace(Trace::Unicast { to, seqno }) if i < from => {
                before.insert((h.id(life), Some(*to)), *seqno);
            }
            What::Trace(_) if i < from => {}
            What::Trace(Trace::Multicast { .. }) => {
                due += current.get(&life).map_or(0, |v| v.members.len() - 1);
            }
            What::Trace(Trace::Unicast { .. }) => due += 1,
            What::Trace(Trace::Retransmitted { to: Some(to), of, seqno }) => {
                let begins = *seqno == 1 || !has_joined(to) || !is_member(to);
                again += u64::from(!begins && !is_older(&before, *of, Some(*to), *seqno));
            }
            What::Trace(Trace::Retransmitted { to: None, of, seqno }) => {
                let begins = !joined.keys().all(has_joined);
                again += u64::from(!begins && !is_older(&before, *of, None, *seqno));
            }
            _ => {}
        }
    }
    // A share of few messages is less than one, but a copy is a whole one.
    let limit = ((3.0 * loss + 0.001) * due as f64).max(1.0);
    (again as f64 > limit).then(|| {
        let text = format!("{again} copies sent again, of {due} that were due; limit {limit:.1}");
        Violation::new("C14", text)
    })
}

/// Whether this number was used before the count began. A unicast and a multicast of the same number
/// cannot be told apart.
fn is_older(
    before: &BTreeMap<(Uuid, Option<Uuid>), i64>,
    of: Uuid,
    to: Option<Uuid>,
    seqno: i64,
) -> bool {
    let used = [before.get(&(of, None)), before.get(&(of, to))];
    used.into_iter().flatten().any(|last| seqno <= *last)
}

/// So long after its first view a member is new.
const BEGINNING: Duration = Duration::from_secs(1);

/// C15: a request names only numbers that are missing and were sent.
fn requests(h: &History) -> Vec<Violation> {
    // By sender; and by receiver, for unicasts.
    let mut highest: BTreeMap<(Uuid, Option<Uuid>), i64> = BTreeMap::new();
    let mut found = Vec::new();
    for f in &h.facts {
        let (Some(life), What::Trace(t)) = (f.life, &f.what) else { continue };
        match t {
            Trace::Multicast { seqno } => {
                highest.insert((h.id(life), None), *seqno);
            }
            Trace::Unicast { to, seqno } => {
                let most = highest.entry((h.id(life), Some(*to))).or_default();
                *most = (*most).max(*seqno);
            }
            Trace::XmitRequested { of, range: (first, last), window, delivered, .. } => {
                let to = match window {
                    WindowKind::Multicast => None,
                    WindowKind::UnicastSend | WindowKind::UnicastReceive => Some(h.id(life)),
                };
                let sent = highest.get(&(*of, to)).copied().unwrap_or_default();
                if first <= delivered || *last > sent {
                    let text = format!(
                        "asks at {} for {first}-{last} of {}, has {delivered}, sent were {sent}",
                        f.at,
                        h.name_of(*of)
                    );
                    found.push(by(h, "C15", life, &text));
                }
            }
            _ => {}
        }
    }
    found
}

/// C15: where nobody fails, nobody is asked for what it does not have. A network that loses, doubles
/// and holds back packets may deliver a request after the purge of what it asks for.
fn in_vain(h: &History, c: &Conditions) -> Vec<Violation> {
    if !Faults::of(h).spans().is_empty() || c.loss > 0.0 || c.duplication {
        return Vec::new();
    }
    let asked = h.facts.iter().filter_map(|f| match f.what {
        What::Unserved(n) if n > 0 => Some((f.life?, n)),
        _ => None,
    });
    asked.map(|(l, n)| by(h, "C15", l, &format!("was asked for {n} numbers in vain"))).collect()
}

/// C16.
fn packets(h: &History) -> Vec<Violation> {
    let large = h.facts.iter().filter_map(|f| match f.what {
        What::OversizedPacket(n) => Some((f.life?, n, f.at)),
        _ => None,
    });
    let told = |(l, n, at): (Life, usize, Time)| {
        by(h, "C16", l, &format!("sends a packet of {n} bytes at {at}"))
    };
    large.map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;
    use rgroups_core::app::SendRefusal;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    fn numbered(h: &mut History, seqnos: impl IntoIterator<Item = i64>) {
        for seqno in seqnos {
            push(h, A, What::Trace(Trace::Multicast { seqno }));
        }
    }

    #[test]
    fn a_number_that_is_left_out_breaks_c12() {
        let mut h = together();
        numbered(&mut h, [1, 2]);
        assert!(found(&h).is_empty());
        numbered(&mut h, [4]);
        assert_eq!(found(&h), ["C12"]);
    }

    #[test]
    fn a_refused_message_that_is_delivered_breaks_c12() {
        let mut h = together();
        let m = send(&mut h, A, None);
        let refused = SendResult::Refused(SendRefusal::WouldBlock { by: vec![id(B)] });
        push(&mut h, A, What::Resolved(m, refused));
        deliver(&mut h, B, m);
        assert_eq!(found(&h), ["C12"]);
    }

    #[test]
    fn traffic_in_the_quiet_phase_breaks_c13() {
        let mut h = together();
        phase(&mut h, Phase::Quiet);
        numbered(&mut h, [1]);
        phase(&mut h, Phase::End);
        assert_eq!(found(&h), ["C13"]);
    }

    #[test]
    fn too_many_repetitions_without_loss_break_c14_but_for_those_of_a_beginning() {
        let resent = |at: u64, seqno: i64, again: u32| {
            let mut h = together();
            numbered(&mut h, 1..=500);
            let (to, of) = (Some(id(B)), id(A));
            for _ in 0..again {
                let what = What::Trace(Trace::Retransmitted { to, of, seqno });
                push_at(&mut h, Time(at * 1_000_000_000), Some(A), what);
            }
            phase(&mut h, Phase::End);
            found(&h)
        };
        assert!(resent(10, 7, 1).is_empty());
        assert_eq!(resent(10, 7, 2), ["C14"]);
        assert!(resent(1, 7, 2).is_empty());
        assert!(resent(10, 1, 2).is_empty());
    }

    fn asks(h: &mut History, range: (i64, i64), delivered: i64) {
        let (from, of, count) = (id(A), id(A), 1);
        let window = WindowKind::Multicast;
        let asked = Trace::XmitRequested { from, of, count, range, window, delivered };
        push(h, B, What::Trace(asked));
    }

    #[test]
    fn a_request_for_what_was_never_sent_breaks_c15() {
        let mut h = together();
        numbered(&mut h, [1, 2]);
        asks(&mut h, (2, 2), 1);
        assert!(found(&h).is_empty());
        asks(&mut h, (2, 3), 1);
        assert_eq!(found(&h), ["C15"]);
    }

    #[test]
    fn a_request_for_what_was_delivered_breaks_c15() {
        let mut h = together();
        numbered(&mut h, [1, 2]);
        asks(&mut h, (2, 2), 2);
        assert_eq!(found(&h), ["C15"]);
    }

    #[test]
    fn a_request_in_vain_breaks_c15_where_nobody_failed() {
        let mut h = together();
        push(&mut h, A, What::Unserved(1));
        assert_eq!(found(&h), ["C15"]);
        let mut h = together();
        push(&mut h, C, What::Died { power_off: false });
        push(&mut h, A, What::Unserved(1));
        assert!(found(&h).is_empty());
    }

    #[test]
    fn a_packet_that_is_too_large_breaks_c16() {
        let mut h = together();
        push(&mut h, A, What::OversizedPacket(70_000));
        assert_eq!(found(&h), ["C16"]);
    }
}
