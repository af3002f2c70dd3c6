//! Batches that come up: the messages of GMS are taken out, and at a view the batch is split.

use super::Gms;
use crate::wire::{Address, Header, ProtId};
use crate::{Batch, Cx, DropReason, Message};

/// Whether a member of another site sent this: it is in no view of ours, ever.
pub(super) fn is_of_another_site(m: &Message) -> bool {
    matches!(m.src, Some(Address::Site(_)))
}

/// Drops multicasts of a sender that is not in the view. NAKACK2 stops those with numbers; these
/// were sent without.
pub(super) fn drop_multicasts(batch: &mut Batch, cx: &mut Cx<'_>) {
    let src = batch.src;
    batch.retain(|m| {
        let pass = is_of_another_site(m);
        if !pass {
            cx.drop_from_peer(DropReason::NotAMember, Some(src));
        }
        pass
    });
}

impl Gms {
    /// Takes the messages of GMS out of a batch. At a view the batch is split: what is before it
    /// goes up before the view does, what is behind it after it.
    pub(super) fn split(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let mut pass = batch.like();
        let mut rest = batch.take_all().into_iter();
        while let Some(mut m) = rest.next() {
            let Some(header) = m.headers.remove(ProtId::GMS) else {
                match self.waits_behind_view(&pass) {
                    true => self.set_behind_view(src, m),
                    false => pass.push(m),
                }
                continue;
            };
            let Header::Gms(h) = header else {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                continue;
            };
            let before = self.view.as_deref().map(|v| v.id);
            let mut earlier = core::mem::replace(&mut pass, batch.like());
            if !earlier.is_empty() && !self.is_member(src) {
                match batch.multicast {
                    true => drop_multicasts(&mut earlier, cx),
                    false => self.hold(&mut earlier, cx),
                }
            }
            cx.deliver_up(earlier);
            self.receive(src, &h, &m, cx);
            if self.view.as_deref().map(|v| v.id) != before {
                return self.after_view(batch, rest, cx);
            }
        }
        batch.replace(pass.take_all());
    }

    /// What is behind a view in its batch. Nothing of a sender that is not in the view is passed up
    /// after it.
    fn after_view(&mut self, batch: &Batch, rest: impl Iterator<Item = Message>, cx: &mut Cx<'_>) {
        let mut later = batch.like();
        rest.for_each(|m| later.push(m));
        if batch.multicast && !self.is_member(batch.src) && !later.is_empty() {
            return cx.drop_from_peer(DropReason::NotAMember, Some(batch.src));
        }
        cx.up_again(later);
    }
}
