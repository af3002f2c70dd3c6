//! One turn of one node: all input that has arrived, then timers, then what the node wants done.

use super::calls::is_call;
use super::copies::Way;
use super::member::{Appetite, Unread};
use super::objects::is_use;
use super::{Cluster, Happening};
use crate::addresses;
use crate::connections::{Exit, Life};
use crate::history::{MessageId, What};
use crate::network::Host;
use crate::panics;
use crate::payload;
use bytes::Bytes;
use rgroups_core::node::{Cast, Node, RawEvent, RawOp};
use rgroups_core::{AppEvent, Command, Delivery, Duration, OpId, Time, Trace};

/// On connections the length goes before the packet.
const LENGTH_PREFIX: usize = 4;

/// How a process came to its end within a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Left { confirmed: bool },
    Failed,
}

impl Cluster {
    pub(super) fn turn(&mut self, life: Life) {
        let now = self.now;
        let Some(member) = self.member_of(life) else { return };
        let local = member.drift.local(now);
        let Some(process) = member.process.as_mut() else { return };
        if process.turn_at != Some(now) {
            return;
        }
        process.turn_at = None;
        if process.frozen {
            return;
        }
        let commands = std::mem::take(&mut process.commands);
        let consumed = std::mem::take(&mut process.consumed);
        let inbox = process.take_inbox();
        for command in &commands {
            match command {
                Command::Call(call) => self.call_begins(life, call.op),
                Command::FetchState(f) => {
                    self.record(Some(life), What::FetchesState(f.op, f.timeout));
                }
                _ => {}
            }
        }
        for event in &inbox {
            self.with_streams(|s, around| s.taken(life, event, around));
        }
        let worked = self.guarded(life, |node| {
            if !consumed.is_empty() {
                node.submit(local, Command::Consumed(consumed));
            }
            for event in inbox {
                node.receive(local, event);
            }
            for command in commands {
                node.submit(local, command);
            }
            node.advance(local, false);
            node.end_turn(local);
        });
        self.busy += 1;
        if worked {
            self.drain(life, local);
        }
        self.plan_next_turn(life);
    }

    /// Runs `f` on the node. A panic ends the process, and the run goes on to tell of it.
    fn guarded(&mut self, life: Life, f: impl FnOnce(&mut Node)) -> bool {
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_mut()) else {
            return false;
        };
        let node = &mut process.node;
        match panics::guarded(|| f(node)) {
            Ok(()) => true,
            Err(text) => {
                self.record(Some(life), What::Panicked(text));
                self.halted = true;
                false
            }
        }
    }

    /// Does what the node wants done, and notes what it tells.
    fn drain(&mut self, life: Life, local: Time) {
        let mut ending = self.drain_polls(life, local);
        if ending.is_some() {
            let stopped = self.guarded(life, |node| {
                node.stack_mut().stop(local);
                node.end_turn(local);
            });
            if stopped {
                // What the stack said while it ran counts, not that it is finished now.
                let later = self.drain_polls(life, local);
                ending = ending.or(later);
            }
        }
        let Some(ending) = ending else { return };
        let Some(process) = self.member_of(life).and_then(|m| m.process.as_ref()) else { return };
        let unresolved = process.node.stack().tokens_outstanding();
        let unserved = super::sampling::unserved(process.node.stack());
        let timer = process.node.poll_deadline().is_some();
        let connections = self.streams.open_at(life);
        if ending != Ending::Failed {
            self.record(Some(life), What::Handles { connections, timer });
        }
        self.record(Some(life), What::Unserved(unserved));
        self.record(Some(life), What::TokensOutstanding(unresolved));
        let confirmed = ending == Ending::Left { confirmed: true };
        self.record(Some(life), What::Left { confirmed });
        self.end_process(life, Exit::Orderly);
    }

    fn drain_polls(&mut self, life: Life, local: Time) -> Option<Ending> {
        let mut ending = None;
        let host = self.history.lives[life.0].host;
        while let Some((_, fact)) = self.node_of(life)?.poll_trace() {
            self.note_trace(life, fact);
        }
        while let Some(event) = self.node_of(life)?.poll_app() {
            ending = self.tell_application(life, local, event).or(ending);
        }
        while let Some(op) = self.node_of(life)?.poll_raw() {
            match op {
                RawOp::Datagram { to, bytes } => {
                    let address = match to {
                        Cast::Group | Cast::Discovery => None,
                        Cast::To(address) => Some(address),
                    };
                    self.watch_packet(life, Way::Datagram(address), &bytes);
                    self.count_packet(&bytes);
                    self.send_datagram(host, to, &bytes);
                }
                RawOp::Finished => ending = ending.or(Some(Ending::Left { confirmed: false })),
                op @ (RawOp::Connect { .. } | RawOp::Write { .. } | RawOp::Close { .. }) => {
                    if let RawOp::Write { conn, bytes } = &op {
                        let length = bytes.len().min(LENGTH_PREFIX);
                        self.watch_packet(life, Way::Connection(*conn), &bytes[length..]);
                        self.count_packet(&bytes.slice(length..));
                    }
                    self.with_streams(|s, around| s.op(host, life, op, around));
                }
            }
        }
        ending
    }

    fn node_of(&mut self, life: Life) -> Option<&mut Node> {
        Some(&mut self.member_of(life)?.process.as_mut()?.node)
    }

    fn note_trace(&mut self, life: Life, fact: Trace) {
        if let Trace::Purged { of, upto } = fact {
            let behind = self.who_lacks(life, of, upto);
            if !behind.is_empty() {
                self.record(Some(life), What::PurgedTooEarly { of, upto, behind });
            }
        }
        self.record(Some(life), What::Trace(fact));
    }

    fn tell_application(&mut self, life: Life, local: Time, event: AppEvent) -> Option<Ending> {
        let what = match event {
            AppEvent::Deliver(delivery) => {
                self.deliver(life, delivery);
                return None;
            }
            AppEvent::Row(row) => {
                self.deliver(life, row.into());
                return None;
            }
            AppEvent::View(v) => What::View(v),
            AppEvent::Resolved { op, result } if is_use(op) => {
                self.used(life, op, result);
                return None;
            }
            AppEvent::LockLost { hold, why } => What::LockLost(hold, why),
            AppEvent::Resolved { op, result } if is_call(op) => {
                self.call_ended(life, op, result);
                return None;
            }
            AppEvent::Requested(request) => {
                self.requested(life, local, &request);
                return None;
            }
            AppEvent::Resolved { op, result } => What::Resolved(message_of(op), result),
            AppEvent::Blocked { op, by, .. } => What::Blocked(op.map(message_of), by),
            AppEvent::Rejoining { reason } => What::Rejoining(reason),
            AppEvent::Disconnected { confirmed } => return Some(Ending::Left { confirmed }),
            AppEvent::ConnectFailed { reason } => {
                self.record(Some(life), What::ConnectFailed(reason));
                return Some(Ending::Failed);
            }
            AppEvent::StateRequested { request, by } => {
                self.state_requested(life, request, by);
                return None;
            }
            AppEvent::StateFetched { op, result } => {
                self.state_fetched(life, op, result);
                return None;
            }
            AppEvent::StateBegins { .. }
            | AppEvent::StatePart { .. }
            | AppEvent::StateEnds { .. } => {
                self.state_piece(life, event);
                return None;
            }
            // Events that were added to the core later concern services that are not simulated.
            _ => return None,
        };
        self.record(Some(life), what);
        None
    }

    fn deliver(&mut self, life: Life, delivery: Delivery) {
        let Delivery { from, multicast, messages } = delivery;
        for m in messages {
            let bytes = m.body.as_bytes().cloned().unwrap_or_default();
            let named = payload::read(&bytes);
            let what = match named {
                Some(id) if (id.0 as usize) < self.history.messages.len() => {
                    if self.history.message(id).size.max(payload::SMALLEST) == bytes.len() {
                        What::Delivered { message: id, from, multicast }
                    } else {
                        What::Garbled { from, why: "the length is wrong" }
                    }
                }
                Some(_) => What::Garbled { from, why: "a message that nobody sent" },
                None => What::Garbled { from, why: "the content is wrong" },
            };
            let sound = matches!(what, What::Delivered { .. });
            self.record(Some(life), what);
            let single = Delivery { from, multicast, messages: vec![m] };
            let unread = Unread {
                bytes: bytes.len() as u64,
                message: named.filter(|_| sound),
                receipt: single.consumed(),
                ..Unread::nothing(from)
            };
            if let Some(p) = self.member_of(life).and_then(|m| m.process.as_mut()) {
                if let (true, Some(id)) = (multicast, payload::read(&bytes)) {
                    p.contents.push(id);
                }
                p.unread.push_back(unread);
            }
        }
        self.consume(life);
    }

    /// The application takes what it wants at the moment.
    pub(super) fn consume(&mut self, life: Life) {
        let Some(member) = self.member_of(life) else { return };
        let appetite = member.appetite;
        let Some(process) = member.process.as_mut() else { return };
        match appetite {
            Appetite::Nothing => {}
            Appetite::Everything => {
                if process.unread.is_empty() {
                    return;
                }
                let all = std::mem::take(&mut process.unread);
                let taken: Vec<MessageId> = all.iter().filter_map(|u| u.message).collect();
                all.into_iter().for_each(|u| member.take(u));
                taken.into_iter().for_each(|m| self.record(Some(life), What::Taken(m)));
                let delay = self.settings.turn_delay;
                self.wake(life, delay);
            }
            Appetite::Rate(rate) => {
                if process.consumption_planned {
                    return;
                }
                let Some(next) = process.unread.front() else { return };
                let takes = Duration::from_nanos(next.bytes * 1_000_000_000 / rate.max(1));
                process.consumption_planned = true;
                let at = self.now + takes;
                self.agenda.plan(at, Happening::Consume(life));
            }
        }
    }

    pub(super) fn consume_one(&mut self, life: Life) {
        let delay = self.settings.turn_delay;
        let Some(member) = self.member_of(life) else { return };
        let appetite = member.appetite;
        let Some(process) = member.process.as_mut() else { return };
        process.consumption_planned = false;
        if appetite == Appetite::Nothing || process.frozen {
            return;
        }
        if let Some(u) = process.unread.pop_front() {
            let taken = u.message;
            member.take(u);
            taken.into_iter().for_each(|m| self.record(Some(life), What::Taken(m)));
            self.wake(life, delay);
        }
        self.consume(life);
    }

    /// Notes what a packet must not be: too large, or an unreliable message again.
    fn watch_packet(&mut self, life: Life, way: Way, packet: &[u8]) {
        if packet.len() > self.packet_limit {
            self.record(Some(life), What::OversizedPacket(packet.len()));
        }
        for m in self.unreliable.leave(way, packet) {
            self.record(Some(life), What::SentAgain(m));
        }
    }

    fn send_datagram(&mut self, from: Host, to: Cast, packet: &Bytes) {
        match to {
            Cast::Group | Cast::Discovery => {
                for i in 0..self.members.len() {
                    self.send_datagram_to(from, Host(i), to, packet.clone());
                }
            }
            Cast::To(at) => {
                let host = self.streams.host_at(at.ip());
                if let Some(host) = host.filter(|h| addresses::transport(*h) == at) {
                    self.send_datagram_to(from, host, to, packet.clone());
                }
            }
        }
    }

    fn send_datagram_to(&mut self, from: Host, to: Host, cast: Cast, packet: Bytes) {
        let filtered = if self.network.looks_into_packets() {
            self.network.filter(from, to, packet)
        } else {
            Some(crate::network::Filtered { packet, extra_delay: Duration::ZERO })
        };
        let Some(filtered) = filtered else { return };
        let length = filtered.packet.len();
        let arrivals = self.network.arrivals(from, to, length, self.now, &mut self.rng);
        let way = self.count_departure(from, to, &filtered.packet, &arrivals);
        for at in arrivals {
            let way = way.clone();
            let bytes = filtered.packet.clone();
            let event = match cast {
                Cast::Discovery => RawEvent::Discovery { bytes },
                Cast::Group | Cast::To(_) => {
                    RawEvent::Datagram { from: addresses::transport(from), bytes }
                }
            };
            self.agenda.plan(at + filtered.extra_delay, Happening::Datagram { to, event, way });
        }
    }

    fn plan_next_turn(&mut self, life: Life) {
        let now = self.now;
        let Some(member) = self.member_of(life) else { return };
        let drift = member.drift;
        let Some(process) = member.process.as_ref() else { return };
        let Some(deadline) = process.node.poll_deadline() else { return };
        self.wake(life, drift.global(deadline).since(now));
    }
}

fn message_of(op: OpId) -> MessageId {
    MessageId(op.0 as u32)
}
