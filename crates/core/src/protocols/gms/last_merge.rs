//! The merged view that this member accepted last, for members that have missed it.
//!
//! Only a merged view says where the windows of those begin who were apart. Whoever misses it and takes
//! the next view as an ordinary one would wait for ever for what those sent while they were apart, and
//! may have discarded since. So it is sent first to whoever needs a later one.

use super::{Gms, payload};
use crate::wire::Flags;
use crate::{Cx, Digest, ReferenceDigest, Uuid, View};
use alloc::sync::Arc;

/// A merged view with its digest.
#[derive(Debug)]
pub(super) struct LastMerge {
    view: Arc<View>,
    digest: ReferenceDigest,
}

impl LastMerge {
    /// `None` if `digest` lacks a member of the view.
    pub(super) fn of(view: &Arc<View>, digest: &Digest) -> Option<Self> {
        let digest = ReferenceDigest::of(view, digest)?;
        Some(Self { view: Arc::clone(view), digest })
    }
}

/// Whether a merge may have come between our view and this ordinary one: its number is above those of all
/// its parts, and that of what follows it is higher still.
pub(super) fn may_hide_a_merge(ours: &View, view: &View) -> bool {
    !view.is_merge() && view.id.id > ours.id.id + 1
}

impl Gms {
    /// Sends the newest view to one member, with the digest if it is a merged one; and before it the merged
    /// view that it may have missed. `theirs` is the number of the view that it has, if that is known.
    pub(super) fn send_whole_view(&self, to: Uuid, theirs: Option<u64>, cx: &mut Cx<'_>) {
        let Some(view) = self.latest() else { return };
        let merge = self.last_merge.as_ref();
        let digest = merge.filter(|m| m.view.id == view.id).map(|m| &m.digest);
        let mut last = payload::view_unicast(to, view, digest);
        let missed = merge.filter(|m| {
            let number = m.view.id.id;
            number < view.id.id && theirs.is_none_or(|n| n < number) && m.view.contains(to)
        });
        if let Some(m) = missed {
            // In order: the second must not overtake the first.
            let mut first = payload::view_unicast(to, &m.view, Some(&m.digest));
            first.wire.flags.remove(Flags::OOB);
            last.wire.flags.remove(Flags::OOB);
            cx.send_down(first);
        }
        cx.send_down(last);
    }
}
