//! What arrives: each message is checked (destination, cluster, sender) and sorted into batches.
//!
//! Matches `TP.handleSingleMessage` and `TP.handleMessageBatch` in effect: out-of-band messages go
//! up before regular ones, and out-of-band messages with DONT_BUNDLE each alone. Nothing of another
//! cluster leaves a trace in our state.

use super::Transport;
use crate::net::without_scope;
use crate::wire::header::{Rtt, TpHeader};
use crate::wire::{self, Address, Flags, Frame, FrameBody, Header, ProtId, RowStart, Version};
use crate::{Batch, Cx, DropReason, Message, Row, Uuid};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;

/// Batches of one frame, in the order in which they go up.
#[derive(Debug, Default)]
struct Sorted {
    oob: Vec<Batch>,
    regular: Vec<Batch>,
    /// Messages of the frame that were not added yet.
    left: usize,
}

impl Sorted {
    /// Appends a message to the last batch of its class if it is of the same sender, so that order
    /// is kept and the work is linear whatever the frame holds.
    fn add(&mut self, src: Uuid, m: wire::Message) {
        let oob = m.has(Flags::OOB);
        let batches = if oob { &mut self.oob } else { &mut self.regular };
        // Most frames are one batch of regular messages.
        let room = if oob || !batches.is_empty() { 1 } else { self.left };
        match batches.last_mut() {
            Some(b)
                if b.src == src
                    && b.multicast == m.is_multicast()
                    && !alone(&m)
                    && !b.messages().last().is_some_and(|before| alone(before)) =>
            {
                b.push(m.into());
            }
            Some(_) | None => batches.push(Batch::begun(src, m.into(), room)),
        }
    }
}

/// Whether a message is dispatched on its own.
fn alone(m: &wire::Message) -> bool {
    m.flags.contains(Flags::OOB | Flags::DONT_BUNDLE)
}

impl Transport {
    /// A packet that could be read.
    pub(super) fn receive(&mut self, frame: Frame, from: Option<SocketAddr>, cx: &mut Cx<'_>) {
        if from.map(without_scope) == Some(without_scope(cx.group().physical)) {
            // A socket hears its own multicasts too; the copies went up when they were sent.
            return cx.drop_from_peer(DropReason::OwnMulticast, None);
        }
        if frame.version != Version::OURS {
            let now = cx.now;
            cx.strangers().version(frame.version, now, from);
        }
        let mut sorted = Sorted::default();
        match frame.body {
            FrameBody::Single(m) => {
                if let Some((src, m)) = self.admit(m, None, from, cx) {
                    sorted.add(src, m);
                }
            }
            FrameBody::List { cluster, messages, .. } => {
                let cluster = cluster.unwrap_or_default();
                let foreign = (cluster != cx.group().cluster).then_some(cluster);
                sorted.left = messages.len();
                for m in messages {
                    if let Some((src, m)) = self.admit(m, foreign.as_ref(), from, cx) {
                        sorted.add(src, m);
                    }
                    sorted.left -= 1;
                }
            }
        }
        for batch in sorted.oob.into_iter().chain(sorted.regular) {
            self.counters.received += batch.len() as u64;
            cx.deliver_up(batch);
        }
    }

    /// A packet that is a row. What is not of a member of our cluster is looked at message by message.
    pub(super) fn receive_row(
        &mut self,
        start: RowStart,
        payloads: Vec<Bytes>,
        from: Option<SocketAddr>,
        cx: &mut Cx<'_>,
    ) {
        let returned = from.map(without_scope) == Some(without_scope(cx.group().physical));
        let ours = start.cluster == cx.group().cluster && start.src != cx.local();
        let row =
            Row { numbers: Some((start.prot, start.first)), ..Row::sent(start.src, payloads) };
        if ours && !returned {
            self.counters.received += row.len() as u64;
            return cx.row_up(row);
        }
        let messages = row.into_batch().take_all().into_iter().map(|m| m.wire).collect();
        let src = Some(Address::Uuid(start.src));
        let body = FrameBody::List { dest: None, src, cluster: Some(start.cluster), messages };
        self.receive(Frame { version: Version::OURS, multicast: true, body }, from, cx);
    }

    /// Bytes that could not be read.
    pub(super) fn undecodable(error: wire::DecodeError, from: Option<SocketAddr>, cx: &mut Cx<'_>) {
        let now = cx.now;
        let why = match error.kind {
            wire::DecodeErrorKind::Version(v) => {
                cx.strangers().version(Version(v), now, from);
                DropReason::WrongVersion
            }
            _ => {
                cx.strangers().garbage(error, now, from);
                DropReason::Undecodable
            }
        };
        cx.drop_from_peer(why, None);
    }

    /// Whether a message may go up; if not, it is counted. `foreign`: the list around it is of this
    /// other cluster, which matters for all but those that are dispatched on their own.
    fn admit(
        &mut self,
        mut m: wire::Message,
        foreign: Option<&Bytes>,
        from: Option<SocketAddr>,
        cx: &mut Cx<'_>,
    ) -> Option<(Uuid, wire::Message)> {
        let src = m.src.as_ref().and_then(Address::uuid);
        let verdict = match src {
            _ if !is_for_us(m.dest.as_ref(), cx) => Err(DropReason::NotForUs),
            _ if foreign.is_some() && !alone(&m) => Err(DropReason::WrongCluster),
            _ if names_other_cluster(&m, cx) => Err(DropReason::WrongCluster),
            None => Err(DropReason::BadSender),
            Some(s) if s == cx.local() && m.is_multicast() => Err(DropReason::OwnMulticast),
            // Unicasts to ourselves never touch the network: somebody else uses our name.
            Some(s) if s == cx.local() => Err(DropReason::BadSender),
            Some(s) => Ok(s),
        };
        let src = match verdict {
            Ok(src) => src,
            Err(why) => {
                if why == DropReason::WrongCluster {
                    let name = cluster_of(&m).or(foreign).cloned().unwrap_or_default();
                    let now = cx.now;
                    cx.strangers().cluster(&name, now, from);
                }
                cx.drop_from_peer(why, src);
                return None;
            }
        };
        self.learn_place(src, &m, from, cx);
        // Nobody above reads the transport's header, and it keeps the packet in memory.
        match m.headers.remove(ProtId::TP) {
            Some(Header::Tp(TpHeader { rtt: Rtt::Request(index), .. })) => {
                self.answer_probe(src, &m, index, cx);
                None
            }
            Some(Header::Tp(TpHeader { rtt: Rtt::Response(_), .. })) => None,
            _ => Some((src, m)),
        }
    }

    /// A packet tells where an unknown sender is: datagrams leave from the sender's unicast socket,
    /// and who opens a stream says in the handshake where it listens. Messages with the header of
    /// reliable multicast do not count: another member may have sent one again on behalf of its
    /// author. What discovery says is never overwritten.
    fn learn_place(
        &mut self,
        src: Uuid,
        m: &wire::Message,
        from: Option<SocketAddr>,
        cx: &mut Cx<'_>,
    ) {
        let Some(from) = from else { return };
        let resent = m.headers.iter().any(|(_, h)| matches!(h, Header::NakAck(_)));
        if !resent && self.address_of(src, cx).is_none() {
            cx.learn(src, None, Some(from));
            self.release(src, from, cx);
        }
    }

    /// Answers a round-trip probe; probes never reach other protocols.
    fn answer_probe(&mut self, to: Uuid, probe: &wire::Message, index: i32, cx: &mut Cx<'_>) {
        let rtt = Rtt::Response(index);
        let header = Header::Tp(TpHeader { cluster: Some(cx.group().cluster.clone()), rtt });
        let answer = wire::Message {
            dest: Some(to.into()),
            src: Some(cx.local().into()),
            flags: probe.flags & Flags::OOB,
            ..wire::Message::default()
        };
        self.route(Message::from(answer.with_header(ProtId::TP, header)), cx);
    }
}

/// To the group, to this member, or to its physical address.
fn is_for_us(dest: Option<&Address>, cx: &Cx<'_>) -> bool {
    match dest {
        None => true,
        Some(Address::Ip(at)) => {
            at.socket_addr().map(without_scope) == Some(without_scope(cx.group().physical))
        }
        Some(other) => other.uuid() == Some(cx.local()),
    }
}

/// A message names its cluster itself; one that does not passes.
fn names_other_cluster(m: &wire::Message, cx: &Cx<'_>) -> bool {
    cluster_of(m).is_some_and(|c| *c != cx.group().cluster)
}

fn cluster_of(m: &wire::Message) -> Option<&Bytes> {
    match m.headers.get(ProtId::TP) {
        Some(Header::Tp(TpHeader { cluster, .. })) => cluster.as_ref(),
        _ => None,
    }
}
