//! Putting messages together. Memory grows with the bytes that arrive, never with what a header
//! announces.

use super::add;
use crate::protocols::reliable::take_number;
use crate::wire::header::FragHeader;
use crate::wire::{self, Body, Decode, Reader};
use crate::{Consumed, DropReason, Message, Pool, Uuid};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;

/// More unfinished messages of one sender than this are refused: an honest sender has a few.
const MAX_OPEN: usize = 1024;

/// (multicast, out of band): what of one sender arrives in order.
pub(super) type Class = (bool, bool);

/// What became of a fragment.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was added.
    Absorbed,
    /// It was dropped.
    Refused(DropReason),
    /// It completed this message.
    Complete(Box<Message>),
}

/// All messages in reassembly.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    senders: BTreeMap<Uuid, Sender>,
    next_serial: u32,
}

#[derive(Debug, Default)]
struct Sender {
    open: BTreeMap<i64, Assembly>,
    /// Counted messages in order of their first fragment, from then until the application took
    /// them.
    turns: BTreeMap<Class, VecDeque<Turn>>,
}

/// The place of one message in the order in which its class may be paid for.
#[derive(Debug)]
struct Turn {
    serial: u32,
    complete: bool,
    /// What is owed for fragments that were absorbed behind an untaken message.
    held: Vec<Consumed>,
}

#[derive(Debug)]
struct Assembly {
    class: Class,
    serial: u32,
    total: i32,
    /// The first fragment without its payload: headers, flags and kind of the whole.
    first: Option<wire::Message>,
    /// Fragments below this one are in `whole`.
    next: i32,
    whole: Vec<u8>,
    /// Fragments above a gap.
    ahead: BTreeMap<i32, Bytes>,
    bytes_ahead: u64,
}

impl Assembler {
    /// Adds a fragment. `original`: the message itself, if it is our own. What its consumption
    /// owes now is added to `settled`.
    pub(super) fn add(
        &mut self,
        src: Uuid,
        class: Class,
        f: FragHeader,
        mut m: Message,
        original: Option<&wire::Message>,
        settled: &mut Vec<Consumed>,
    ) -> Outcome {
        let receipt = Consumed::one(src, m.receipt);
        let part = m.body.as_bytes().cloned();
        let (Some(part), true) = (part, 0 <= f.frag && f.frag < f.total) else {
            add(settled, receipt);
            return Outcome::Refused(DropReason::Malformed);
        };
        let sender = self.senders.entry(src).or_default();
        if !sender.open.contains_key(&f.id) {
            if sender.open.len() >= MAX_OPEN {
                add(settled, receipt);
                return Outcome::Refused(DropReason::OverLimit);
            }
            self.next_serial = self.next_serial.wrapping_add(1);
            sender.begin(f, class, self.next_serial, m.receipt.pool);
        }
        let Some(assembly) = sender.open.get_mut(&f.id) else {
            unreachable!("the entry was made above")
        };
        if assembly.total != f.total || assembly.class != class {
            add(settled, receipt);
            return Outcome::Refused(DropReason::Malformed);
        }
        if assembly.has(f.frag) {
            add(settled, receipt);
            return Outcome::Refused(DropReason::Duplicate);
        }
        if f.frag == 0 {
            let mut first = core::mem::take(&mut m.wire);
            first.body = match first.body {
                Body::Nio { direct, .. } => Body::Nio { direct, bytes: None },
                _ => Body::Bytes(None),
            };
            assembly.first = Some(first);
        }
        assembly.put(f.frag, if original.is_some() { Bytes::new() } else { part });
        if assembly.next < assembly.total {
            let serial = assembly.serial;
            sender.pay(class, serial, receipt, settled);
            return Outcome::Absorbed;
        }
        let Some(assembly) = sender.open.remove(&f.id) else {
            unreachable!("it was there a moment ago")
        };
        let serial = assembly.serial;
        match assembly.finish(f.needs_deserialization, original) {
            Some(mut wire) => {
                take_number(&mut wire, &m.wire);
                // What the last fragment owes is owed by the whole.
                let mut whole = Message::from(wire);
                whole.receipt = m.receipt;
                whole.ordered = m.ordered.take();
                if sender.completed(class, serial) {
                    whole.receipt.reassembled = Some(serial);
                }
                Outcome::Complete(Box::new(whole))
            }
            None => {
                add(settled, receipt);
                sender.remove_turn(class, serial, settled);
                Outcome::Refused(DropReason::Undecodable)
            }
        }
    }

    /// The application took a message: what waits behind it is owed now.
    pub(super) fn taken(&mut self, from: Uuid, serial: u32) -> Vec<Consumed> {
        let mut settled = Vec::new();
        let Some(sender) = self.senders.get_mut(&from) else { return settled };
        let holds = |q: &VecDeque<Turn>| q.iter().any(|t| t.serial == serial);
        let class = sender.turns.iter().find(|(_, q)| holds(q)).map(|(c, _)| *c);
        if let Some(class) = class {
            sender.remove_turn(class, serial, &mut settled);
        }
        settled
    }

    /// Forgets the unfinished messages of senders that are not kept; what they owe is settled.
    pub(super) fn retain(&mut self, keep: impl Fn(Uuid) -> bool) -> Vec<Consumed> {
        let mut settled = Vec::new();
        self.senders.retain(|m, sender| {
            let kept = keep(*m);
            if !kept {
                let turns = sender.turns.values_mut().flatten();
                turns.flat_map(|t| t.held.drain(..)).for_each(|c| add(&mut settled, c));
            }
            kept
        });
        settled
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) -> Vec<Consumed> {
        self.retain(|_| false)
    }

    /// Bytes of unfinished messages of one sender.
    pub(super) fn bytes_of(&self, m: Uuid) -> u64 {
        self.senders.get(&m).map_or(0, |s| s.open.values().map(Assembly::bytes).sum())
    }

    /// Bytes of all unfinished messages.
    pub(super) fn bytes(&self) -> u64 {
        self.senders.keys().map(|m| self.bytes_of(*m)).sum()
    }

    /// The ordered multicasts of which the beginning is there and the end is not.
    pub(super) fn half_received(&self) -> BTreeSet<(Uuid, u32)> {
        const ORDERED_MULTICAST: Class = (true, false);
        let begun = |a: &&Assembly| a.class == ORDERED_MULTICAST && a.first.is_some();
        let of = |(m, s): (&Uuid, &Sender)| -> Vec<(Uuid, u32)> {
            s.open.values().filter(begun).map(|a| (*m, a.serial)).collect()
        };
        self.senders.iter().flat_map(of).collect()
    }

    /// How many messages are unfinished.
    pub(super) fn messages(&self) -> u64 {
        self.senders.values().map(|s| s.open.len() as u64).sum()
    }
}

impl Sender {
    fn begin(&mut self, f: FragHeader, class: Class, serial: u32, pool: Pool) {
        self.open.insert(
            f.id,
            Assembly {
                class,
                serial,
                total: f.total,
                first: None,
                next: 0,
                whole: Vec::new(),
                ahead: BTreeMap::new(),
                bytes_ahead: 0,
            },
        );
        if pool != Pool::Exempt {
            let turn = Turn { serial, complete: false, held: Vec::new() };
            self.turns.entry(class).or_default().push_back(turn);
        }
    }

    /// What an absorbed fragment owes is settled now, or held if a message in front of its own is
    /// complete and untaken. An incomplete one in front holds nothing up: its own fragments may
    /// need the credit (several threads of a Java sender interleave theirs).
    fn pay(&mut self, class: Class, serial: u32, owed: Consumed, settled: &mut Vec<Consumed>) {
        if owed.pool == Pool::Exempt {
            return;
        }
        let queue = self.turns.entry(class).or_default();
        let own = queue.iter().position(|t| t.serial == serial);
        let held_up = |at: &usize| queue.iter().take(*at).any(|t| t.complete);
        match own.filter(held_up) {
            Some(at) => add(&mut queue[at].held, owed),
            None => add(settled, owed),
        }
    }

    /// Marks a message complete; answers whether its consumption must be noticed.
    fn completed(&mut self, class: Class, serial: u32) -> bool {
        let turn =
            self.turns.get_mut(&class).and_then(|q| q.iter_mut().find(|t| t.serial == serial));
        turn.map(|t| t.complete = true).is_some()
    }

    /// A message was taken or dropped: it and those that now have nothing untaken in front of them
    /// owe nothing more.
    fn remove_turn(&mut self, class: Class, serial: u32, settled: &mut Vec<Consumed>) {
        let Some(queue) = self.turns.get_mut(&class) else { return };
        if let Some(at) = queue.iter().position(|t| t.serial == serial) {
            let held = queue.remove(at).map(|t| t.held).unwrap_or_default();
            held.into_iter().for_each(|c| add(settled, c));
        }
        for turn in queue.iter_mut() {
            turn.held.drain(..).for_each(|c| add(settled, c));
            if turn.complete {
                break;
            }
        }
    }
}

impl Assembly {
    fn has(&self, frag: i32) -> bool {
        frag < self.next || self.ahead.contains_key(&frag)
    }

    fn bytes(&self) -> u64 {
        self.whole.len() as u64 + self.bytes_ahead
    }

    fn put(&mut self, frag: i32, part: Bytes) {
        if frag != self.next {
            self.bytes_ahead += part.len() as u64;
            // A copy: the part must not keep the whole receive buffer alive.
            self.ahead.insert(frag, Bytes::copy_from_slice(&part));
            return;
        }
        self.append(&part);
        while let Some(part) = self.ahead.remove(&self.next) {
            self.bytes_ahead -= part.len() as u64;
            self.append(&part);
        }
    }

    /// Grows by doubling, which for large buffers moves pages and copies nothing, but not beyond
    /// what the announced number of such parts comes to.
    fn append(&mut self, part: &Bytes) {
        let (len, needed) = (self.whole.len(), self.whole.len() + part.len());
        if needed > self.whole.capacity() {
            let announced = (self.total as usize).saturating_mul(part.len()).max(needed);
            let want = needed.max(2 * len).min(announced);
            self.whole.reserve_exact(want - len);
        }
        self.whole.extend_from_slice(part);
        self.next += 1;
    }

    /// The whole message; `None` if it cannot be decoded.
    fn finish(self, encoded: bool, original: Option<&wire::Message>) -> Option<wire::Message> {
        let mut first = self.first?;
        if let Some(original) = original {
            first.body = original.body.clone();
            return Some(first);
        }
        let payload = Bytes::from(self.whole);
        if encoded {
            let mut whole = wire::Message::decode(&mut Reader::new(payload)).ok()?;
            (whole.dest, whole.src) = (first.dest, first.src);
            return Some(whole);
        }
        first.body = match first.body {
            Body::Nio { direct, .. } => Body::Nio { direct, bytes: Some(payload) },
            _ => Body::Bytes(Some(payload)),
        };
        Some(first)
    }
}
