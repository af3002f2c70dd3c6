//! F: memory and handles. Buffers stay below their ceilings and are empty when all is stable; what
//! was opened is closed.
//!
//! F5 counts what a driver would hold for a process: its connections, and its one timer (there are
//! no tasks). That a process does not gather them over many connects and disconnects is shown by
//! each incarnation for itself: it ends with none, and at rest has no more than its peers justify,
//! however many came and went.

use super::faults::by;
use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, Phase, What};
use rgroups_core::event::{WindowGauge, WindowKind};
use std::collections::BTreeMap;

/// Checks F1 and F2 in every sample, F3 and F4 at the end of the quiet phase, and F5 there and at
/// the end of each process.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    let end = h.phase(Phase::End);
    let mut last: BTreeMap<Life, &[WindowGauge]> = BTreeMap::new();
    let mut buffered: BTreeMap<Life, u64> = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Windows(list) => {
                found.extend(below_ceiling(h, c, life, list));
                if end.is_some_and(|e| i < e) {
                    last.insert(life, list);
                }
                buffered.insert(life, list.iter().map(|g| g.bytes).sum());
            }
            What::Assembling(bytes) => *buffered.entry(life).or_default() += bytes,
            // The last part of a sample.
            What::Unread(list) => {
                let unread: u64 = list.iter().map(|(_, bytes)| bytes).sum();
                let sum = buffered.remove(&life).unwrap_or_default() + unread;
                found.extend(all_buffers(h, c, life, sum));
            }
            _ => {}
        }
    }
    found.extend(handles(h, c));
    if let Some(end) = end {
        for life in super::convergence::alive_at(h, end) {
            let Some(list) = last.get(&life) else { continue };
            found.extend(empty(h, life, list));
            found.extend(only_members(h, life, list, end));
        }
    }
    found
}

/// F1: with a byte threshold for stability, a number of its rounds and of full credits.
fn below_ceiling(
    h: &History,
    c: &Conditions,
    life: Life,
    list: &[WindowGauge],
) -> Option<Violation> {
    let ceiling = multicast_ceiling(c);
    let held: u64 = list.iter().filter(|g| g.kind == WindowKind::Multicast).map(|g| g.bytes).sum();
    (held > ceiling).then(|| {
        let text = format!("{} holds {held} bytes of multicasts, limit {ceiling}", h.name(life));
        Violation::new("F1", text)
    })
}

fn multicast_ceiling(c: &Conditions) -> u64 {
    const ROUNDS: u64 = 4;
    ROUNDS * c.stable_max_bytes * (c.members + 1)
        + (c.max_credits + c.largest_message) * c.members * 2
}

/// F2: all buffers together: those of F1, and for each peer what its credits allow in both pools,
/// sent and received, and as much again as E7 grants in the first view of a pair or while calls
/// wait.
fn all_buffers(h: &History, c: &Conditions, life: Life, sum: u64) -> Option<Violation> {
    const POOLS: u64 = 2;
    const SENT_RECEIVED_AND_GRANTED_IN_ADVANCE: u64 = 3;
    // Whoever is gone may still be sent to for a while.
    let peers = (h.lives.len() as u64).max(c.members);
    let each = POOLS * SENT_RECEIVED_AND_GRANTED_IN_ADVANCE * (c.max_credits + c.largest_message);
    let ceiling = multicast_ceiling(c) + peers * each;
    (sum > ceiling).then(|| {
        let text = format!("{} buffers {sum} bytes, limit {ceiling}", h.name(life));
        Violation::new("F2", text)
    })
}

/// F5.
fn handles(h: &History, c: &Conditions) -> Vec<Violation> {
    // A connection of the transport, and one of the monitor in each direction; for a moment two,
    // when both sides open one.
    const PER_PEER: usize = 4;
    let end = h.phase(Phase::End);
    let mut found = Vec::new();
    let mut at_rest: BTreeMap<Life, usize> = BTreeMap::new();
    let mut last: BTreeMap<Life, (usize, bool)> = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        let Some(life) = f.life else { continue };
        match f.what {
            What::Handles { connections, timer } => {
                last.insert(life, (connections, timer));
                if end.is_some_and(|e| i < e) {
                    at_rest.insert(life, connections);
                }
            }
            What::Left { .. } => {
                if let Some((connections, timer)) = last.get(&life).filter(|l| **l != (0, false)) {
                    let text = format!("{connections} connections open, timer: {timer}");
                    found.push(by(h, "F5", life, &format!("has left with {text}")));
                }
            }
            _ => {}
        }
    }
    // Attempts to reach configured hosts where nobody runs count too, however long they have been
    // gone; what grows with each that came and went does not.
    let most = PER_PEER * (c.members as usize).saturating_sub(1);
    for life in end.into_iter().flat_map(|end| super::convergence::alive_at(h, end)) {
        let Some(connections) = at_rest.get(&life).filter(|n| **n > most) else { continue };
        let text = format!("has {connections} connections with {} nodes", c.members);
        found.push(by(h, "F5", life, &text));
    }
    found
}

/// F3.
fn empty(h: &History, life: Life, list: &[WindowGauge]) -> Option<Violation> {
    let full = list.iter().find(|g| g.messages > 0)?;
    let text = format!(
        "{} still holds {} messages ({:?} window of {})",
        h.name(life),
        full.messages,
        full.kind,
        h.name_of(full.peer)
    );
    Some(Violation::new("F3", text))
}

/// F4, for multicast windows: unicast windows of former members may linger until they expire.
fn only_members(h: &History, life: Life, list: &[WindowGauge], end: usize) -> Option<Violation> {
    let (_, view) = h.views_of(life).into_iter().rev().find(|(i, _)| *i < end)?;
    let stranger =
        list.iter().find(|g| g.kind == WindowKind::Multicast && !view.contains(g.peer))?;
    let text = format!(
        "{} keeps a window of {}, who is no member",
        h.name(life),
        h.name_of(stranger.peer)
    );
    Some(Violation::new("F4", text))
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    fn gauge(peer: Life, bytes: u64, messages: u64) -> WindowGauge {
        WindowGauge {
            peer: id(peer),
            kind: WindowKind::Multicast,
            low: 0,
            delivered: 5,
            received: 5,
            known: 5,
            bytes,
            messages,
        }
    }

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    #[test]
    fn a_buffer_at_its_ceiling_passes_and_one_above_breaks_f1() {
        let mut h = together();
        push(&mut h, A, What::Windows(vec![gauge(B, 25_000, 9)]));
        assert!(found(&h).is_empty());
        push(&mut h, A, What::Windows(vec![gauge(B, 25_001, 9)]));
        assert_eq!(found(&h), ["F1"]);
    }

    #[test]
    fn a_buffer_that_is_not_empty_at_the_end_breaks_f3() {
        let mut h = together();
        push(&mut h, A, What::Windows(vec![gauge(B, 10, 1)]));
        phase(&mut h, Phase::End);
        assert_eq!(found(&h), ["F3"]);
    }

    #[test]
    fn a_window_of_a_stranger_at_the_end_breaks_f4() {
        let mut h = together();
        install(&mut h, A, 4, A, &[A, C]);
        push(&mut h, A, What::Windows(vec![gauge(B, 0, 0)]));
        phase(&mut h, Phase::End);
        assert_eq!(found(&h), ["F4"]);
    }

    #[test]
    fn all_buffers_at_their_ceiling_pass_and_one_byte_more_breaks_f2() {
        // The ceiling of F1, and 3 peers with 2 pools of 3 times 1,500 bytes.
        let ceiling = 25_000 + 3 * 2 * 3 * 1_500;
        for (unread, expected) in [(ceiling - 20_100, [].as_slice()), (ceiling - 20_099, &["F2"])] {
            let mut h = together();
            push(&mut h, A, What::Windows(vec![gauge(B, 20_000, 9)]));
            push(&mut h, A, What::Assembling(100));
            push(&mut h, A, What::Unread(vec![(id(B), unread)]));
            assert_eq!(found(&h), expected);
        }
    }

    #[test]
    fn a_connection_or_a_timer_that_outlives_its_process_breaks_f5() {
        for (connections, timer, expected) in
            [(0, false, [].as_slice()), (1, false, &["F5"]), (0, true, &["F5"])]
        {
            let mut h = together();
            push(&mut h, A, What::Handles { connections: 3, timer: true });
            push(&mut h, A, What::Handles { connections, timer });
            push(&mut h, A, What::Left { confirmed: true });
            assert_eq!(found(&h), expected);
        }
    }

    #[test]
    fn connections_that_gather_over_time_break_f5() {
        for (connections, expected) in [(8, [].as_slice()), (9, &["F5"])] {
            let mut h = together();
            push(&mut h, A, What::Handles { connections, timer: true });
            phase(&mut h, Phase::End);
            assert_eq!(found(&h), expected);
        }
    }
}
