//! Events from above: views and digests make and unmake windows, stability empties them. Our own
//! window is never touched by a digest: nobody knows better than we what we sent.

use super::super::syncs::Arrivals;
use super::super::window::Window;
use super::{Phase, ReliableMulticast, Sender};
use crate::wire::SeqnoPair;
use crate::{Cx, Digest, Event, Group, Trace, Uuid, View};
use alloc::vec::Vec;

impl ReliableMulticast {
    pub(super) fn hear_from_above(&mut self, ev: &Event, cx: &mut Cx<'_>) {
        match ev {
            Event::PendingView(v) => self.add_members(v, cx),
            Event::View(v) => self.install(v, cx),
            Event::Freeze { view, synchronous } => self.freeze(view, *synchronous, cx),
            Event::Thaw => self.thaw(cx),
            Event::BecomeServer => self.become_server(cx),
            Event::SetDigest(d) => {
                for (m, pair) in d.iter() {
                    if !self.senders.contains_key(&m) {
                        self.set_window(m, pair, cx);
                    }
                }
            }
            Event::MergeDigest(d) => {
                for (m, pair) in d.iter() {
                    self.take_back(&[m], cx);
                    let behind = |s: &Sender| pair.delivered.wrapping_sub(s.window.delivered()) > 0;
                    if self.senders.get(&m).is_none_or(behind) {
                        self.set_window(m, pair, cx);
                    }
                }
            }
            Event::OverwriteDigest(d) => {
                for (m, pair) in d.iter() {
                    self.set_window(m, pair, cx);
                }
            }
            Event::SentSoFar(d) => {
                for (m, pair) in d.iter() {
                    self.take_back(&[m], cx);
                    let Some(sender) = self.senders.get_mut(&m) else { continue };
                    sender.window.note_highest(pair.received, cx.now);
                    self.schedule.watch(&sender.window.gaps, cx);
                }
            }
            Event::Stable(d) if self.acks.is_none() => self.purge(d, cx),
            Event::Stable(_) => {}
            Event::Unacknowledged(_) => self.remind(cx),
            Event::RepeatSync { id, to } => self.repeat(*id, to, cx),
            other => self.hear_of_acks(other, cx),
        }
    }

    /// A window for `m` that continues after `pair.delivered`; what is known to exist beyond is
    /// missing.
    fn set_window(&mut self, m: Uuid, pair: SeqnoPair, cx: &mut Cx<'_>) {
        if m == cx.local() {
            return;
        }
        let mut window = Window::new(pair.delivered, self.settings.limits);
        let intake = self.new_intake(pair.delivered);
        let heard = self.heard.take(m).unwrap_or(pair.received);
        if let Some(old) = self.senders.remove(&m) {
            window.take_over(old.window, cx.now);
        }
        window.note_highest(pair.received.max(heard), cx.now);
        self.schedule.watch(&window.gaps, cx);
        let arrivals = Arrivals::default();
        let sender = Sender { window, intake, arrivals, unanswered: 0, evicting: false };
        self.senders.insert(m, sender);
    }

    /// Joiners start at 0: their first multicast has number 1.
    fn add_members(&mut self, v: &View, cx: &mut Cx<'_>) {
        for m in v.members.iter() {
            if !self.senders.contains_key(m) {
                self.set_window(*m, SeqnoPair::default(), cx);
            }
        }
    }

    fn install(&mut self, v: &View, cx: &mut Cx<'_>) {
        self.take_back(&v.members, cx);
        self.add_members(v, cx);
        self.repair_installed(v, cx);
        let known = self.senders.keys().copied().chain(self.repair.excluded());
        let leavers: Vec<Uuid> = known.filter(|m| !v.contains(*m)).collect();
        self.senders.retain(|m, _| v.contains(*m));
        self.stable_received.retain(|m, _| v.contains(*m));
        self.heard.left(leavers.into_iter());
        self.watch_own_window(cx);
        self.expect_acks(v, cx);
    }

    /// The join is complete: what came early is received now, through the usual path.
    fn become_server(&mut self, cx: &mut Cx<'_>) {
        if let Phase::Joining(early) = core::mem::replace(&mut self.phase, Phase::Serving) {
            for mut batch in early.into_batches() {
                self.receive(&mut batch, cx);
                cx.deliver_up(batch);
            }
        }
    }

    /// Everybody has what the digest says: nobody will ask for it again. What somebody had received
    /// a round ago and we have not yet, we ask for; a round late, because it may be on its way.
    fn purge(&mut self, d: &Digest, cx: &mut Cx<'_>) {
        let local = cx.local();
        self.repair_stable();
        for (m, pair) in d.iter() {
            let window = match self.senders.get_mut(&m) {
                _ if m == local => &mut self.own.window,
                Some(s) => &mut s.window,
                None => continue,
            };
            #[cfg(feature = "mutants")]
            if cx.mutant(crate::mutants::Mutant::WindowPurgedTooEarly) {
                window.purge(window.delivered());
            }
            if let Some(upto) = window.purge(pair.delivered) {
                cx.trace(|| Trace::Purged { of: m, upto });
            }
            if m == local {
                let low = window.low();
                self.resent.forget_upto(low);
                self.cover(low, cx);
                continue;
            }
            if let Some(before) = self.stable_received.insert(m, pair.received) {
                window.note_highest(before, cx.now);
                self.schedule.watch(&window.gaps, cx);
            }
        }
        self.watch_own_window(cx);
    }

    /// The marks of all windows, members first and in view order.
    pub(super) fn digest(&self, group: &Group) -> Digest {
        let known = |m: &Uuid| Some((*m, self.pair(*m, group)?));
        let members = group.members();
        let others = self.senders.keys().filter(|m| !group.is_member(**m));
        let mut d: Digest =
            members.iter().filter_map(known).chain(others.filter_map(known)).collect();
        if !group.is_member(group.local) {
            d.set(group.local, self.own.window.pair());
        }
        d
    }

    /// The marks of one window.
    pub(super) fn digest_of(&self, m: Uuid, group: &Group) -> Digest {
        self.pair(m, group).map(|p| (m, p)).into_iter().collect()
    }

    pub(super) fn pair(&self, m: Uuid, group: &Group) -> Option<SeqnoPair> {
        if m == group.local {
            return Some(self.own.window.pair());
        }
        let window = self.senders.get(&m).map(|s| &s.window);
        window.or_else(|| self.repair.window(m)).map(Window::pair)
    }
}
