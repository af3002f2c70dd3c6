//! The connections of FD_SOCK2 (WIRE §12.1).
//!
//! One physical connection serves both directions, whoever made it. The layer need not know: it
//! sees the connection that it asked for, and one that the peer uses, as two. Names of the first
//! kind are the layer's, of the second kind from [`RawOp::ACCEPTED`] up; neither is a name of the
//! driver's. A physical connection is closed when nobody uses it.

use super::link::{Down, LinkConfig, LinkEvent};
use super::links::Links;
use super::out::Out;
use super::{Port, RawEvent, RawOp};
use crate::net::{ConnId, NetEvent, without_scope};
use crate::wire::header::{FdSock2Header, FdSock2Kind};
use crate::wire::tcp::{FdSock2Frame, encode_frame_length};
use crate::wire::{Address, Decode, DecodeError, DecodeErrorKind::BadValue, Encode};
use crate::{Time, Uuid};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::net::SocketAddr;

/// The edge of FD_SOCK2.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) links: Links,
    local: Uuid,
    uses: BTreeMap<SocketAddr, Uses>,
    names: BTreeMap<ConnId, SocketAddr>,
    next_name: u64,
    /// For the layer, in order.
    events: VecDeque<NetEvent>,
}

/// Who uses the connection with a peer.
#[derive(Debug, Default)]
struct Uses {
    /// The layer does, under these names: it may watch a peer and look for somebody else at the
    /// same port.
    asked: Vec<Asked>,
    /// The peer does.
    accepted: Option<ConnId>,
}

/// A connection that the layer asked for.
#[derive(Debug)]
struct Asked {
    conn: ConnId,
    /// The layer was told that the connection stands.
    told: bool,
    /// The layer waits for an answer.
    awaiting: bool,
}

impl Monitor {
    /// `own`: where this member's FD_SOCK2 listens.
    pub(super) fn new(own: SocketAddr, local: Uuid, config: LinkConfig) -> Self {
        Self {
            links: Links::new(Port::Monitor, own, config),
            local,
            uses: BTreeMap::new(),
            names: BTreeMap::new(),
            next_name: RawOp::ACCEPTED,
            events: VecDeque::new(),
        }
    }

    /// The layer wants a connection: the one there is, or a new one. Where this member itself
    /// listens, nobody else does: on one host, the ports where a peer is looked for and our own
    /// overlap.
    pub(super) fn connect(&mut self, now: Time, conn: ConnId, to: SocketAddr, out: &mut Out) {
        let to = without_scope(to);
        if self.links.is_own(to) {
            self.events.push_back(NetEvent::MonitorFailed { conn, refused: true });
            return;
        }
        let told = self.links.is_up(to);
        let asked = Asked { conn, told, awaiting: false };
        self.uses.entry(to).or_default().asked.push(asked);
        self.names.insert(conn, to);
        if told {
            self.events.push_back(NetEvent::MonitorConnected { conn });
            return;
        }
        self.links.connect(now, to, out);
        if !self.links.is_busy(to) {
            self.down(to, Down::Unreachable);
        }
    }

    /// The layer says something on a connection. If that is gone, so are the words.
    pub(super) fn send(&mut self, now: Time, conn: ConnId, header: FdSock2Header, out: &mut Out) {
        let Some(to) = self.names.get(&conn).copied() else { return };
        if header.kind == FdSock2Kind::Connect
            && let Some(uses) = self.uses.get_mut(&to)
            && let Some(asked) = uses.asked.iter_mut().find(|a| a.conn == conn)
        {
            asked.awaiting = true;
        }
        if self.links.is_busy(to) {
            let content = FdSock2Frame { src: Some(self.local.into()), header };
            self.links.send(now, to, streamed(&content), out);
        }
    }

    /// The layer does not need a connection any more. The peer may.
    pub(super) fn close(&mut self, now: Time, conn: ConnId, out: &mut Out) {
        let Some(peer) = self.names.remove(&conn) else { return };
        let Some(uses) = self.uses.get_mut(&peer) else { return };
        uses.asked.retain(|a| a.conn != conn);
        if uses.accepted == Some(conn) {
            uses.accepted = None;
        }
        if uses.asked.is_empty() && uses.accepted.is_none() {
            self.uses.remove(&peer);
            self.links.close(now, peer, out);
        }
    }

    /// Something happened to a connection; see [`Monitor::poll`].
    pub(super) fn receive(&mut self, now: Time, ev: RawEvent, out: &mut Out) {
        let mut events = VecDeque::new();
        self.links.on_event(now, ev, out, &mut |ev| events.push_back(ev));
        self.translate(events);
    }

    /// Fires what is due; see [`Monitor::poll`].
    pub(super) fn advance(&mut self, now: Time, out: &mut Out) {
        let mut events = VecDeque::new();
        self.links.advance(now, out, &mut |ev| events.push_back(ev));
        self.translate(events);
    }

    /// The next thing for the layer.
    pub(super) fn poll(&mut self) -> Option<NetEvent> {
        self.events.pop_front()
    }

    fn translate(&mut self, events: VecDeque<LinkEvent>) {
        for ev in events {
            match ev {
                LinkEvent::Frame { peer, bytes } => self.frame(peer, bytes),
                LinkEvent::Garbage { from, error } => {
                    self.events.push_back(NetEvent::Undecodable { error, from });
                }
                LinkEvent::Up { peer, accepted } => self.up(peer, accepted),
                LinkEvent::Down { peer, why } => self.down(peer, why),
            }
        }
    }

    fn up(&mut self, peer: SocketAddr, accepted: bool) {
        let uses = self.uses.entry(peer).or_default();
        for asked in uses.asked.iter_mut().filter(|a| !a.told) {
            asked.told = true;
            self.events.push_back(NetEvent::MonitorConnected { conn: asked.conn });
        }
        if accepted {
            self.accepted(peer);
        }
    }

    /// The name under which the layer sees the peer's use of the connection.
    fn accepted(&mut self, peer: SocketAddr) -> ConnId {
        let uses = self.uses.entry(peer).or_default();
        if let Some(conn) = uses.accepted {
            return conn;
        }
        let conn = ConnId(self.next_name);
        self.next_name += 1;
        uses.accepted = Some(conn);
        self.names.insert(conn, peer);
        self.events.push_back(NetEvent::MonitorAccepted { conn });
        conn
    }

    fn frame(&mut self, peer: SocketAddr, bytes: Bytes) {
        let at = bytes.len();
        let decoded = FdSock2Frame::from_bytes(bytes).and_then(|f| {
            let src = f.src.as_ref().and_then(Address::uuid);
            let what = "FD_SOCK2 source";
            src.map(|src| (src, f.header)).ok_or(DecodeError { what, kind: BadValue, at })
        });
        let (src, header) = match decoded {
            Ok(parts) => parts,
            Err(error) => {
                return self.events.push_back(NetEvent::Undecodable { error, from: Some(peer) });
            }
        };
        if header.kind == FdSock2Kind::ConnectResponse {
            // It says who is there, which is what all who wait want to know.
            let Some(uses) = self.uses.get_mut(&peer) else { return };
            for asked in uses.asked.iter_mut().filter(|a| a.awaiting) {
                asked.awaiting = false;
                let (conn, header) = (asked.conn, header.clone());
                self.events.push_back(NetEvent::MonitorFrame { conn, src, header });
            }
            return;
        }
        let conn = self.accepted(peer);
        self.events.push_back(NetEvent::MonitorFrame { conn, src, header });
    }

    fn down(&mut self, peer: SocketAddr, why: Down) {
        let Some(uses) = self.uses.remove(&peer) else { return };
        let graceful = why == Down::Graceful;
        for asked in uses.asked {
            let conn = asked.conn;
            self.names.remove(&conn);
            self.events.push_back(if asked.told {
                NetEvent::MonitorClosed { conn, graceful }
            } else {
                NetEvent::MonitorFailed { conn, refused: why == Down::Refused }
            });
        }
        if let Some(conn) = uses.accepted {
            self.names.remove(&conn);
            self.events.push_back(NetEvent::MonitorClosed { conn, graceful });
        }
    }
}

/// A frame with its length in front.
fn streamed(content: &FdSock2Frame) -> Bytes {
    let length = content.encoded_len();
    let mut b = BytesMut::with_capacity(4 + length);
    encode_frame_length(length, &mut b);
    content.encode(&mut b);
    b.freeze()
}
