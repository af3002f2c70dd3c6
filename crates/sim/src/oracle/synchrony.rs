//! C11b: with view synchrony, members that install the same two views one after the other have delivered
//! the same multicasts in between, of every sender; unless one of them said that the change was not
//! synchronous, which on a quiet network only a member that does not want it is a reason for.
//!
//! A member that came into the first of the two views from elsewhere than the other, a joiner or one
//! that a merge brought, is held against it only with what was sent in that view: what is older may
//! have been delivered there, in part or whole, before. And who was not in the view in which a message
//! of several fragments was sent may have got only the rest of them, and does not deliver it.

use super::{Conditions, Violation};
use crate::connections::Life;
use crate::history::{History, MessageId, What};
use rgroups_core::{Trace, View, ViewId, tag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One member's time in a view that another one followed.
struct Stay {
    life: Life,
    /// The view before.
    came_from: Option<ViewId>,
    view: Arc<View>,
    next: Arc<View>,
    delivered: BTreeSet<MessageId>,
}

/// Checks C11b.
#[must_use]
pub fn check(h: &History, c: &Conditions) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut by_views: BTreeMap<(ViewId, ViewId), Vec<Stay>> = BTreeMap::new();
    for stay in h.all_lives().flat_map(|l| stays(h, l)) {
        by_views.entry((stay.view.id, stay.next.id)).or_default().push(stay);
    }
    if by_views.is_empty() {
        return found;
    }
    let sent_in = sent_in(h);
    for together in by_views.values() {
        let Some((first, others)) = together.split_first() else { continue };
        found.extend(others.iter().find_map(|s| difference(h, c, first, s, &sent_in)));
    }
    if c.calm {
        found.extend(unfounded(h));
    }
    found
}

fn is_synchronous(v: &View) -> bool {
    v.members.iter().all(|m| tag::synchronizes(*m))
}

/// On a quiet network nobody has a reason to say that a change is not synchronous.
fn unfounded(h: &History) -> Vec<Violation> {
    let said = h.facts.iter().enumerate().filter_map(|(i, f)| match &f.what {
        What::Trace(Trace::NotSynchronous { view }) => Some((i, f.life?, *view)),
        _ => None,
    });
    let all_want = |i: usize, life, view| {
        let next = h.views_of(life).into_iter().find(|(at, v)| *at > i && v.id == view);
        next.is_some_and(|(_, v)| is_synchronous(&v))
    };
    let wrong = said.filter(|(i, life, view)| all_want(*i, *life, *view));
    wrong
        .map(|(_, life, view)| {
            let text = format!("{} went to view {} alone", h.name(life), view.id);
            Violation::new("C11b", text)
        })
        .collect()
}

/// The synchronous views that a member was in, but for those that began or ended otherwise.
fn stays(h: &History, life: Life) -> Vec<Stay> {
    let views = h.views_of(life);
    if !views.iter().any(|(_, v)| is_synchronous(v)) {
        return Vec::new();
    }
    let alone: BTreeSet<ViewId> = h
        .facts_of(life)
        .filter_map(|(_, f)| match &f.what {
            What::Trace(Trace::NotSynchronous { view }) => Some(*view),
            _ => None,
        })
        .collect();
    let mut stays = Vec::new();
    for (n, pair) in views.windows(2).enumerate() {
        let (view, next) = (&pair[0].1, &pair[1].1);
        let orderly = |v: &View| is_synchronous(v) && !alone.contains(&v.id);
        if !orderly(view) || !orderly(next) {
            continue;
        }
        let within = h.facts_of(life).filter(|(i, _)| (pair[0].0..pair[1].0).contains(i));
        let delivered = within.filter_map(|(_, f)| match f.what {
            What::Delivered { message, multicast: true, .. } => Some(message),
            _ => None,
        });
        let came_from = n.checked_sub(1).map(|before| views[before].1.id);
        let (view, next) = (Arc::clone(view), Arc::clone(next));
        stays.push(Stay { life, came_from, view, next, delivered: delivered.collect() });
    }
    stays
}

/// The view in which each message was handed to the stack.
pub(super) fn sent_in(h: &History) -> BTreeMap<MessageId, ViewId> {
    let mut current: BTreeMap<Life, ViewId> = BTreeMap::new();
    let mut sent = BTreeMap::new();
    for f in &h.facts {
        match (&f.what, f.life) {
            (What::View(v), Some(life)) => {
                current.insert(life, v.id);
            }
            (What::Sent(m), Some(life)) => {
                sent.extend(current.get(&life).map(|v| (*m, *v)));
            }
            _ => {}
        }
    }
    sent
}

fn difference(
    h: &History,
    c: &Conditions,
    a: &Stay,
    b: &Stay,
    sent_in: &BTreeMap<MessageId, ViewId>,
) -> Option<Violation> {
    let as_one = a.came_from.is_some() && a.came_from == b.came_from;
    let counts = |m: &MessageId| {
        let message = h.message(*m);
        // Who wants no copy of its own has none.
        let copies = message.loopback || ![a.life, b.life].contains(&message.sender);
        let sent_here = || sent_in.get(m) == Some(&a.view.id);
        let lacks = if a.delivered.contains(m) { b } else { a };
        let was_there = |view: &ViewId| h.views_of(lacks.life).iter().any(|(_, v)| v.id == *view);
        let in_part =
            || message.size as u64 > c.frag_size && !sent_in.get(m).is_some_and(was_there);
        message.reliable && copies && (as_one || sent_here()) && !in_part()
    };
    let m = a.delivered.symmetric_difference(&b.delivered).find(|m| counts(m))?;
    let (has, lacks) = if a.delivered.contains(m) { (a, b) } else { (b, a) };
    Some(Violation::new(
        "C11b",
        format!(
            "between views {} and {} {} delivered #{} of {}, and {} did not",
            a.view.id.id,
            a.next.id.id,
            h.name(has.life),
            m.0,
            h.name(h.message(*m).sender),
            h.name(lacks.life)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::made::{conditions, deliver, names, push, send};
    use super::*;
    use crate::network::Host;
    use rgroups_core::Uuid;

    const A: Life = Life(0);
    const B: Life = Life(1);
    const C: Life = Life(2);

    /// A, B and C want view synchrony, and are in view 3.
    fn trio() -> History {
        let mut h = History::default();
        for (i, name) in ["A", "B", "C"].into_iter().enumerate() {
            let caps = tag::TAIL_REPAIR | tag::VIEW_SYNCHRONY;
            let id = tag::tagged((i as u64 + 1) << 32, 7, caps);
            h.add_life(Host(i), name.into(), id);
        }
        for n in [2, 3] {
            all_install(&mut h, n);
        }
        h
    }

    fn install(h: &mut History, life: Life, n: u64) {
        let members: Vec<Uuid> = h.all_lives().map(|l| h.id(l)).collect();
        push(h, life, What::View(Arc::new(View::new(n, members[0], members))));
    }

    fn all_install(h: &mut History, n: u64) {
        [A, B, C].into_iter().for_each(|l| install(h, l, n));
    }

    fn found(h: &History) -> Vec<&'static str> {
        names(&check(h, &conditions()))
    }

    #[test]
    fn a_member_without_a_message_that_another_delivered_before_the_same_view_breaks_c11b() {
        let mut h = trio();
        let m = send(&mut h, A, None);
        [A, B].into_iter().for_each(|l| deliver(&mut h, l, m));
        all_install(&mut h, 4);
        deliver(&mut h, C, m);
        all_install(&mut h, 5);
        assert_eq!(found(&h), ["C11b"]);
    }

    #[test]
    fn members_that_deliver_the_same_between_two_views_are_synchronous() {
        let mut h = trio();
        let m = send(&mut h, A, None);
        [A, B, C].into_iter().for_each(|l| deliver(&mut h, l, m));
        all_install(&mut h, 4);
        assert!(found(&h).is_empty());
    }

    #[test]
    fn who_says_that_it_goes_alone_is_not_held_to_it_where_the_network_is_a_reason() {
        let mut h = trio();
        let m = send(&mut h, A, None);
        [A, B].into_iter().for_each(|l| deliver(&mut h, l, m));
        let view = ViewId { id: 4, creator: h.id(A) };
        push(&mut h, C, What::Trace(Trace::NotSynchronous { view }));
        all_install(&mut h, 4);
        assert!(check(&h, &Conditions { calm: false, ..conditions() }).is_empty());
        assert_eq!(found(&h), ["C11b"], "on a quiet network");
    }

    /// A sends a message of this size; a view later C is there, and A and B deliver it when all have
    /// been in one view more.
    fn that_c_came_after(size: usize) -> History {
        let mut h = trio();
        let m = send(&mut h, A, None);
        h.messages[m.0 as usize].size = size;
        let before_c = |f: &crate::history::Fact| f.life == Some(C);
        h.facts.retain(|f| !before_c(f));
        all_install(&mut h, 4);
        all_install(&mut h, 5);
        [A, B].into_iter().for_each(|l| deliver(&mut h, l, m));
        all_install(&mut h, 6);
        h
    }

    #[test]
    fn who_came_while_a_message_was_sent_in_fragments_may_lack_it() {
        let whole = conditions().frag_size as usize;
        assert!(found(&that_c_came_after(whole + 1)).is_empty());
        assert_eq!(found(&that_c_came_after(whole)), ["C11b"], "it has come in one piece");
    }

    #[test]
    fn what_was_sent_before_is_not_asked_of_who_came_from_elsewhere() {
        let mut h = trio();
        let old = send(&mut h, A, None);
        [A, B].into_iter().for_each(|l| install(&mut h, l, 4));
        all_install(&mut h, 6);
        [A, B].into_iter().for_each(|l| deliver(&mut h, l, old));
        all_install(&mut h, 7);
        assert!(found(&h).is_empty());
    }
}
