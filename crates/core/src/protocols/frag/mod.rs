//! FRAG2: messages that are too large for a packet travel in fragments (WIRE §19.1).
//!
//! A large message is cut into slices of its own buffer; nothing is copied. All fragments go down at
//! once, one behind the other, so that nothing gets between them; the wait of the caller ends when
//! the first is admitted, and then the whole goes out. On the way up fragments are put together in
//! place of the one that completes the message.
//!
//! Fragments that are absorbed count as consumed, or a message larger than the credit could never
//! arrive. But not without limit: behind a large message that the application has not taken yet,
//! the fragments of the next are held back unpaid (DECISIONS 15), so a receiver holds at most one
//! large message and one credit of every sender and class.

mod assemble;
mod split;
#[cfg(test)]
mod tests;

use crate::attributes::ByteSize;
use crate::batch::Marks;
use crate::wire::{self, Header, Hints, ProtId};
use crate::{
    Answer, Batch, Consumed, Cx, Dir, DropReason, Event, Flow, Group, Interests, Message, Protocol,
    Query, Row, RowFlow, SendRefusal, SendToken, Service, Spec, Traffic,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use assemble::{Assembler, Outcome};

crate::attributes! {
    /// Fragmentation (`FRAG2`).
    pub struct Frag2Config for "FRAG2" {
        /// Payload per fragment; larger messages are cut. Bytes, default 60,000. Must leave room for
        /// headers in a packet of the transport, and be below `max_credits` of flow control.
        frag_size: ByteSize = ByteSize(60_000),
    }
}

/// Cuts large messages on the way down, puts them together on the way up.
#[derive(Debug)]
pub struct Frag2 {
    frag_size: usize,
    next_id: i64,
    /// Large messages whose first fragment is not admitted yet, and who waits for that.
    sending: BTreeMap<i64, Option<SendToken>>,
    /// Large messages that come back to this member: their fragments are counted, not copied.
    own: BTreeMap<i64, wire::Message>,
    assembler: Assembler,
    fragments_sent: u64,
    fragments_received: u64,
}

impl Frag2 {
    /// With this configuration.
    #[must_use]
    pub fn new(config: Frag2Config) -> Self {
        Self {
            frag_size: usize::try_from(config.frag_size.0).unwrap_or(usize::MAX).max(1),
            next_id: 1,
            sending: BTreeMap::new(),
            own: BTreeMap::new(),
            assembler: Assembler::default(),
            fragments_sent: 0,
            fragments_received: 0,
        }
    }

    fn absorb(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let (src, class) = (batch.src, (batch.multicast, batch.oob));
        let own = src == cx.local();
        let mut out = Vec::with_capacity(batch.len());
        let mut settled: Vec<Consumed> = Vec::new();
        for mut m in batch.take_all() {
            let Some(header) = m.headers.remove(ProtId::FRAG2) else {
                out.push(m);
                continue;
            };
            let Header::Frag(f) = header else {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                add(&mut settled, Consumed::one(src, m.receipt));
                continue;
            };
            self.fragments_received += 1;
            let original = if own { self.own.get(&f.id) } else { None };
            match self.assembler.add(src, class, f, m, original, &mut settled) {
                Outcome::Absorbed => {}
                Outcome::Refused(why) => cx.drop_from_peer(why, Some(src)),
                Outcome::Complete(whole) => {
                    if own {
                        self.own.remove(&f.id);
                    }
                    out.push(*whole);
                }
            }
        }
        batch.replace(out);
        for c in settled {
            cx.settle(c);
        }
    }
}

impl Protocol for Frag2 {
    fn spec(&self) -> Spec {
        Spec {
            name: "FRAG2",
            id: Some(ProtId::FRAG2),
            interests: Interests {
                down: Traffic::Both,
                events: true,
                consumed: true,
                ..Interests::default()
            },
            provides: &[Service::Fragmentation],
            needs_below: &[Service::ReliableMulticast, Service::ReliableUnicast],
            needs_above: &[],
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        for token in core::mem::take(&mut self.sending).into_values().flatten() {
            cx.resolve(token, Err(SendRefusal::Closed));
        }
        self.own.clear();
        for c in self.assembler.clear() {
            cx.settle(c);
        }
    }

    fn down(&mut self, msg: &mut Message, cx: &mut Cx<'_>) -> Flow {
        if msg.length() <= self.frag_size {
            return Flow::Pass;
        }
        let mut whole = core::mem::take(msg);
        let id = self.next_id;
        self.next_id += 1;
        whole.src.get_or_insert(cx.local().into());
        let to_self = whole.dest.as_ref().and_then(wire::Address::uuid) == Some(cx.local());
        let to_all = whole.is_multicast() && !whole.hints.contains(Hints::DONT_LOOPBACK);
        let token = whole.token.take();
        let first_token = cx.own_token_for(id as u64, token.as_ref().and_then(SendToken::op));
        self.sending.insert(id, token);
        if to_self || to_all {
            self.own.insert(id, whole.wire.clone());
        }
        let mut first_token = Some(first_token);
        for fragment in split::fragments(whole.wire, id, self.frag_size) {
            self.fragments_sent += 1;
            let mut fragment = Message::from(fragment);
            fragment.token = first_token.take();
            cx.send_down(fragment);
        }
        Flow::Stop
    }

    fn row_down(&mut self, row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        if row.longest() <= self.frag_size { RowFlow::Pass } else { RowFlow::Apart }
    }

    fn on_sent(&mut self, key: u64, how: Result<(), SendRefusal>, cx: &mut Cx<'_>) {
        let id = key as i64;
        if how.is_err() {
            self.own.remove(&id);
        }
        if let Some(token) = self.sending.remove(&id).flatten() {
            cx.resolve(token, how);
        }
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if batch.marks().meets(Marks::of(ProtId::FRAG2)) {
            self.absorb(batch, cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        if let (Dir::Up, Event::View(view)) = (dir, ev) {
            let local = cx.local();
            let settled = self.assembler.retain(|m| view.contains(m) && view.together(local, m));
            for c in settled {
                cx.settle(c);
            }
            if !view.contains(local) {
                self.own.clear();
            }
        }
        Flow::Pass
    }

    fn on_consumed(&mut self, what: &Consumed, cx: &mut Cx<'_>) {
        if let Some(serial) = what.reassembled {
            for c in self.assembler.taken(what.from, serial) {
                cx.settle(c);
            }
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::FragmentSize => Some(Answer::Bytes(self.frag_size as u64)),
            Query::Reassembling(m) => Some(Answer::Bytes(self.assembler.bytes_of(*m))),
            Query::HalfReceived => Some(Answer::HalfReceived(self.assembler.half_received())),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_frags_sent", self.fragments_sent);
        out("num_frags_received", self.fragments_received);
        out("reassembly_bytes", self.assembler.bytes());
        out("reassembly_messages", self.assembler.messages());
    }
}

/// Adds `c` to what is settled, summed where possible.
fn add(list: &mut Vec<Consumed>, c: Consumed) {
    if !list.last_mut().is_some_and(|last| last.absorb(&c)) {
        list.push(c);
    }
}
