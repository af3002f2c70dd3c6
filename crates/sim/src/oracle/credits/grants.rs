//! E9: grants. Whoever takes credit takes what the other end granted, once.

use super::super::Violation;
use crate::history::{History, What};
use rgroups_core::{Pool, Time, Trace, Uuid, ViewId};
use std::collections::BTreeMap;

/// A grant that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) bytes: u64,
    /// When it left.
    pub(super) at: Time,
    /// When it was taken.
    pub(super) taken: Option<Time>,
}

/// Grants by pool, granting and granted member.
pub(super) type Grants = BTreeMap<(Pool, Uuid, Uuid), Vec<Grant>>;

/// Pairs what was taken with what was granted, which may overtake each other. What was taken
/// without a grant, or from somebody who is no member, is a violation.
pub(super) fn pair_up(h: &History) -> (Grants, Vec<Violation>) {
    let mut grants = Grants::new();
    let mut found = Vec::new();
    for f in &h.facts {
        let Some(life) = f.life else { continue };
        let local = h.id(life);
        match &f.what {
            What::Trace(Trace::Granted { to, pool, bytes }) => {
                let grant = Grant { bytes: *bytes, at: f.at, taken: None };
                grants.entry((*pool, local, *to)).or_default().push(grant);
            }
            What::Trace(Trace::Credited { from, pool, bytes }) => {
                let list = grants.entry((*pool, *from, local)).or_default();
                let open = list.iter_mut().find(|g| g.taken.is_none() && g.bytes == *bytes);
                match open {
                    Some(g) => g.taken = Some(f.at),
                    None => {
                        let text = format!(
                            "{} at {}: {bytes} of {} ({pool:?}) that were not granted, or twice",
                            h.name(life),
                            f.at,
                            h.name_of(*from)
                        );
                        found.push(Violation::new("E9", text));
                    }
                }
            }
            _ => {}
        }
    }
    (grants, found)
}

/// E9: credit of somebody who is no member is ignored.
pub(super) fn of_strangers(h: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for life in h.all_lives() {
        let views: BTreeMap<ViewId, _> =
            h.views_of(life).into_iter().map(|(_, v)| (v.id, v)).collect();
        let mut current = None;
        for (_, f) in h.facts_of(life) {
            match &f.what {
                // Facts of the layers come before those of the application, in their own order.
                What::Trace(Trace::ViewPassed { view, .. }) => {
                    current = views.get(view).or(current)
                }
                What::Trace(Trace::Credited { from, pool, bytes })
                    if current.is_some_and(|v| !v.contains(*from)) =>
                {
                    let (who, from) = (h.name(life), h.name_of(*from));
                    let text =
                        format!("{who} at {}: {bytes} of {from} ({pool:?}), no member", f.at);
                    found.push(Violation::new("E9", text));
                }
                _ => {}
            }
        }
    }
    found
}
