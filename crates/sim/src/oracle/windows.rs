//! F in stacks with windows (NAKACK4, UNICAST4): what waits for acknowledgements and what waits for
//! the application both stay below the size of a window.

use super::{Conditions, Violation, Windows};
use crate::connections::Life;
use crate::history::{History, What};
use rgroups_core::Uuid;
use rgroups_core::event::{WindowGauge, WindowKind};
use std::collections::BTreeSet;

/// Messages of the membership, which never wait for room, in one window.
const CONTROL_MESSAGES: u64 = 64;
/// Their bytes.
const CONTROL_BYTES: u64 = 20_000;

/// Checks F1 and F2 in every sample.
#[must_use]
pub fn check(h: &History, c: &Conditions, w: &Windows) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut ever_excluded: BTreeSet<(Uuid, Life)> = BTreeSet::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        match &f.what {
            What::Windows(list) => {
                found.extend(list.iter().filter_map(|g| too_full(h, c, w, life, g)));
            }
            What::Unread(bytes) => {
                let owed = bytes.iter().filter(|(from, _)| !ever_excluded.contains(&(*from, life)));
                found.extend(owed.filter_map(|(from, n)| too_much(h, c, w, life, *from, *n)));
            }
            // A sender that excluded the receiver waits for it no longer; as long as the receiver
            // does not know, it takes what reaches it.
            What::View(v) => {
                let lives = h.all_lives().filter(|l| !v.contains(h.id(*l)));
                ever_excluded.extend(lives.map(|l| (h.id(life), l)));
            }
            _ => {}
        }
    }
    found
}

/// F1: a send window holds what it may and what may not wait. A receive window holds what is ahead
/// of its turn.
fn too_full(
    h: &History,
    c: &Conditions,
    w: &Windows,
    life: Life,
    g: &WindowGauge,
) -> Option<Violation> {
    let sends = match g.kind {
        WindowKind::Multicast => g.peer == h.id(life),
        WindowKind::UnicastSend => true,
        WindowKind::UnicastReceive => false,
    };
    let bytes = w.bytes.max(c.largest_message) + CONTROL_BYTES;
    let too_many = sends && g.messages > w.messages + CONTROL_MESSAGES;
    // Receivers of unicasts have a limit of their own, far above.
    let bounded = g.kind != WindowKind::UnicastReceive;
    (too_many || (bounded && g.bytes > bytes)).then(|| {
        let (who, peer, kind) = (h.name(life), h.name_of(g.peer), g.kind);
        let text = format!(
            "{who} holds {} messages and {} bytes ({kind:?} of {peer}), limits {} and {bytes}",
            g.messages, g.bytes, w.messages
        );
        Violation::new("F1", text)
    })
}

/// F2: undelivered bytes of one sender: a window of multicasts and one of unicasts, as much again
/// while the receiver's own calls wait, and a large message each.
fn too_much(
    h: &History,
    c: &Conditions,
    w: &Windows,
    life: Life,
    from: Uuid,
    bytes: u64,
) -> Option<Violation> {
    let limit = 2 * (2 * w.bytes + 2 * c.largest_message);
    (bytes > limit).then(|| {
        let (who, from) = (h.name(life), h.name_of(from));
        Violation::new("F2", format!("{who}: {bytes} unread bytes of {from}, limit {limit}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::*;
    use super::*;

    const W: Windows = Windows { messages: 10, bytes: 1_000 };

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions(), &W))
    }

    fn window(kind: WindowKind, peer: Life, messages: u64, bytes: u64) -> What {
        let peer = id(peer);
        let (low, delivered, received, known) = (0, 0, 9, 9);
        What::Windows(vec![WindowGauge {
            peer,
            kind,
            low,
            delivered,
            received,
            known,
            bytes,
            messages,
        }])
    }

    #[test]
    fn a_send_window_beyond_its_capacity_breaks_f1() {
        let mut h = together();
        push(&mut h, A, window(WindowKind::Multicast, A, 74, 21_000));
        push(&mut h, A, window(WindowKind::UnicastSend, B, 74, 21_000));
        assert!(found(&h).is_empty());
        push(&mut h, A, window(WindowKind::Multicast, A, 75, 0));
        push(&mut h, A, window(WindowKind::UnicastSend, B, 1, 21_001));
        assert_eq!(check(&h, &conditions(), &W).len(), 2);
        assert_eq!(found(&h), ["F1"]);
    }

    #[test]
    fn more_unread_bytes_than_the_windows_hold_break_f2() {
        let mut h = together();
        push(&mut h, A, What::Unread(vec![(id(B), 6_000)]));
        assert!(found(&h).is_empty());
        push(&mut h, A, What::Unread(vec![(id(B), 6_001)]));
        assert_eq!(found(&h), ["F2"]);
    }

    #[test]
    fn what_a_sender_sends_that_excluded_us_is_not_bounded_by_it() {
        let mut h = together();
        install(&mut h, B, 4, B, &[B, C]);
        push(&mut h, A, What::Unread(vec![(id(B), 9_000)]));
        assert!(found(&h).is_empty());
    }
}
