//! F: memory. Retransmission buffers stay below their ceiling and are empty when all is stable.

use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, Phase, What};
use rgroups_core::event::{WindowGauge, WindowKind};
use std::collections::BTreeMap;

/// Checks F1 in every sample, and F3 and F4 at the end of the quiet phase.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    let end = h.phase(Phase::End);
    let mut last: BTreeMap<Life, &[WindowGauge]> = BTreeMap::new();
    for (i, f) in h.facts.iter().enumerate() {
        let (Some(life), What::Windows(list)) = (f.life, &f.what) else { continue };
        found.extend(below_ceiling(h, c, life, list));
        if end.is_some_and(|e| i < e) {
            last.insert(life, list);
        }
    }
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
    const ROUNDS: u64 = 4;
    let ceiling = ROUNDS * c.stable_max_bytes * (c.members + 1)
        + (c.max_credits + c.largest_message) * c.members * 2;
    let held: u64 = list.iter().filter(|g| g.kind == WindowKind::Multicast).map(|g| g.bytes).sum();
    (held > ceiling).then(|| {
        let text = format!("{} holds {held} bytes of multicasts, limit {ceiling}", h.name(life));
        Violation::new("F1", text)
    })
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
}
