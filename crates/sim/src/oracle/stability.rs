//! G: stability and digests. Nothing is discarded that a member may still need.

use super::Violation;
use crate::connections::Life;
use crate::history::{History, What};
use crate::transcript;
use rgroups_core::event::WindowKind;
use rgroups_core::{Trace, Uuid};
use std::collections::BTreeMap;

/// Checks G1, G2 and G3.
#[must_use]
pub fn check(h: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut purged: BTreeMap<(Life, Uuid), i64> = BTreeMap::new();
    let mut delivered: BTreeMap<(Life, Uuid), i64> = BTreeMap::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::PurgedTooEarly { .. } => {
                let text = format!("{} {}", h.name(life), transcript::describe(&f.what, h));
                found.push(Violation::new("G1", text));
            }
            What::Trace(Trace::Purged { of, upto }) => {
                let before = purged.insert((life, *of), *upto).unwrap_or(i64::MIN);
                if before > *upto {
                    let (who, of) = (h.name(life), h.name_of(*of));
                    let text = format!("{who} purged {of} up to {before}, then up to {upto}");
                    found.push(Violation::new("G3", text));
                }
            }
            // Windows start anew with the membership.
            What::View(v) => {
                purged.retain(|(l, m), _| *l != life || v.contains(*m));
                delivered.retain(|(l, m), _| *l != life || v.contains(*m));
            }
            What::Windows(list) => {
                for g in list.iter().filter(|g| g.kind == WindowKind::Multicast) {
                    let before = delivered.insert((life, g.peer), g.delivered);
                    let shrank = before.is_some_and(|b| b > g.delivered);
                    if shrank || !(g.low <= g.delivered && g.delivered <= g.received) {
                        let text = format!(
                            "{} of {} at {}: low {}, delivered {} (was {before:?}), received {}",
                            h.name(life),
                            h.name_of(g.peer),
                            f.at,
                            g.low,
                            g.delivered,
                            g.received
                        );
                        found.push(Violation::new("G2", text));
                    }
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
    use rgroups_core::event::WindowGauge;

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h))
    }

    fn window(low: i64, delivered: i64, received: i64) -> What {
        let kind = WindowKind::Multicast;
        let g = WindowGauge {
            peer: id(B),
            kind,
            low,
            delivered,
            received,
            known: received,
            bytes: 0,
            messages: 0,
        };
        What::Windows(vec![g])
    }

    #[test]
    fn a_purge_of_what_somebody_lacks_breaks_g1() {
        let mut h = together();
        push(&mut h, A, What::PurgedTooEarly { of: id(B), upto: 5, behind: vec![(id(C), 4)] });
        assert_eq!(found(&h), ["G1"]);
    }

    #[test]
    fn a_delivered_number_beyond_the_received_one_breaks_g2() {
        let mut h = together();
        push(&mut h, A, window(1, 3, 3));
        assert!(found(&h).is_empty());
        push(&mut h, A, window(1, 4, 3));
        assert_eq!(found(&h), ["G2"]);
    }

    #[test]
    fn a_delivered_number_that_shrinks_breaks_g2() {
        let mut h = together();
        push(&mut h, A, window(1, 3, 3));
        push(&mut h, A, window(1, 2, 3));
        assert_eq!(found(&h), ["G2"]);
    }

    #[test]
    fn a_stability_that_goes_back_breaks_g3() {
        let mut h = together();
        for upto in [5, 4] {
            push(&mut h, A, What::Trace(Trace::Purged { of: id(B), upto }));
        }
        assert_eq!(found(&h), ["G3"]);
    }
}
