//! Arriving multicasts: into the sender's window, and up in order. Both a lone message and a whole
//! batch take this path.

use super::super::syncs;
use super::super::window::Taken;
use super::{Phase, ReliableMulticast};
use crate::wire::{Flags, Header, ProtId, header::NakAckHeader};
use crate::{AppEvent, Batch, Cx, Dir, DropReason, Event, Message, Trace};

/// What our header of a message says, if it has one.
pub(super) fn header(m: &Message, id: ProtId) -> Option<&NakAckHeader> {
    match m.headers.get(id)? {
        Header::NakAck(h) => Some(h),
        _ => None,
    }
}

impl ReliableMulticast {
    /// Multicasts of another member. What stays in the batch is delivered by the caller.
    pub(super) fn receive(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, id) = (batch.src, self.settings.id);
        let Some(sender) = self.senders.get_mut(&src) else {
            return self.drop_foreign(batch, cx);
        };
        let window = &mut sender.window;
        let arrivals = &mut sender.arrivals;
        let parking = &mut self.parking;
        let received = &mut self.counters.received;
        let mut awaited = false;
        // What the others have when the view is installed is not known yet.
        let shut = self.repair.is_shut();
        #[cfg(feature = "mutants")]
        let shut = shut && !cx.mutant(crate::mutants::Mutant::NotHeldBackForView);
        batch.retain(|m| match header(m, id) {
            None => true,
            Some(NakAckHeader::Msg(n)) => {
                let mark = syncs::mark(m);
                let taken = match shut {
                    true => window.hold_arrival(*n, m, cx.now, parking),
                    false => window.take_in(*n, m, cx.now, parking),
                };
                if let (Some(mark), Taken::Deliver | Taken::Held) = (mark, taken) {
                    awaited = true;
                    if let Some(id) = arrivals.note(mark) {
                        cx.raise(Dir::Up, Event::SyncArrived { from: src, id });
                    }
                }
                match taken {
                    Taken::Deliver => {
                        *received += 1;
                        true
                    }
                    Taken::Held => false,
                    Taken::Refused(why) => {
                        cx.drop_from_peer(why, Some(src));
                        false
                    }
                }
            }
            Some(NakAckHeader::HighestSeqno(n)) => {
                window.note_highest(*n, cx.now);
                sender.intake.owe();
                false
            }
            Some(NakAckHeader::XmitRsp(_) | NakAckHeader::XmitReq(_) | NakAckHeader::Ack(_)) => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                false
            }
        });
        let mut released = Batch::new(src, true, false);
        while let Some(m) = if shut { None } else { window.release() } {
            *received += 1;
            let to = if batch.oob { &mut released } else { &mut *batch };
            to.push(m.into());
        }
        if window.take_answered() {
            sender.unanswered = 0;
        }
        if window.evicted() > 0 && !core::mem::replace(&mut sender.evicting, true) {
            cx.trace(|| Trace::KeptNoLonger { of: src });
            cx.tell(AppEvent::KeptNoLonger { of: src });
        }
        if awaited {
            sender.window.gaps.hurry();
        }
        self.schedule.watch(&sender.window.gaps, cx);
        self.count_and_acknowledge(src, [batch, &mut released], cx);
        cx.deliver_up(released);
        if shut {
            self.complete(cx);
        }
    }

    /// A sender without window: not a member, or not yet.
    fn drop_foreign(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, id) = (batch.src, self.settings.id);
        let before = batch.len();
        batch.retain(|m| {
            let Some(header) = header(m, id) else { return true };
            self.heard.note(src, header);
            self.counters.from_non_members += 1;
            cx.drop_from_peer(DropReason::NotAMember, Some(src));
            false
        });
        if batch.len() < before {
            cx.raise(Dir::Up, Event::NewerView(src));
        }
    }

    /// Our own copies, back from the transport: they are in the window already.
    pub(super) fn receive_own(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let window = &mut self.own.window;
        let (src, id) = (batch.src, self.settings.id);
        let mut early = Batch::new(src, true, true);
        let mut upto = window.delivered();
        batch.retain(|m| match header(m, id) {
            None => true,
            Some(NakAckHeader::Msg(n)) => {
                let next = *n == window.delivered().wrapping_add(1);
                if (next || m.has(Flags::OOB)) && window.mark_delivered(*n) {
                    return true;
                }
                if window.holds(*n) {
                    upto = *n;
                } else {
                    cx.drop_from_peer(DropReason::Duplicate, Some(src));
                }
                false
            }
            Some(_) => false,
        });
        let mut released = Batch::new(src, true, false);
        while upto.wrapping_sub(window.delivered()) > 0 {
            let Some(m) = window.release() else { break };
            let to = if m.has(Flags::OOB) {
                &mut early
            } else if batch.oob {
                &mut released
            } else {
                &mut *batch
            };
            to.push(m.into());
        }
        for b in [&mut early, &mut released, batch] {
            self.count_own(b, cx);
        }
        self.purge_own(cx);
        cx.deliver_up(early);
        cx.deliver_up(released);
    }

    /// Unicasts with our header: requests, and messages that are sent again to us alone. Those are
    /// multicasts: they leave the unicast they came in.
    pub(super) fn receive_unicasts(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        self.receive_repair(batch, cx);
        let (src, id) = (batch.src, self.settings.id);
        let (mut regular, mut oob) = (Batch::new(src, true, false), Batch::new(src, true, true));
        batch.retain(|m| match header(m, id) {
            None => true,
            Some(NakAckHeader::XmitReq(of)) => {
                let of = of.as_ref().and_then(crate::wire::Address::uuid);
                self.serve(src, of, m, cx);
                false
            }
            Some(NakAckHeader::XmitRsp(n)) => {
                let seqno = *n;
                let mut m = core::mem::take(m);
                m.dest = None;
                m.headers.put(id, Header::NakAck(NakAckHeader::Msg(seqno)));
                if m.has(Flags::OOB) {
                    oob.push(m)
                } else {
                    regular.push(m)
                }
                false
            }
            Some(NakAckHeader::Ack(n)) if self.acks.is_some() => {
                self.acknowledged(src, *n, cx);
                false
            }
            Some(_) => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                false
            }
        });
        self.counters.xmit_rsps_received += (regular.len() + oob.len()) as u64;
        for mut b in [oob, regular] {
            if b.is_empty() || matches!(self.phase, Phase::Joining(_)) || src == cx.local() {
                continue;
            }
            if !self.senders.contains_key(&src) && self.repair.window(src).is_some() {
                self.receive_frozen(&mut b, cx);
                continue;
            }
            self.receive(&mut b, cx);
            cx.deliver_up(b);
        }
    }
}
