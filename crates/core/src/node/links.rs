//! The connections of one listening socket, one per peer (WIRE §5.3).
//!
//! A peer is known by the address it listens at, which it says in the handshake. Connections are
//! made when something is to be sent. When both sides connect at the same time, the connection made
//! by the higher address survives, and what was written to the other one is sent again on it.
//!
//! That rule alone would let a dead connection to an old process keep out its successor at the same
//! address. So a connection of ours that is no longer young does not simply win: a peer that
//! connects although it should have one has probably lost it, and its new connection is watched as
//! a *rival*. If the peer does not close it within a moment, it replaces ours. Garbage, silence and
//! a stuck peer cost that one connection, or a bounded queue, and nothing else.

mod idle;

use super::link::{Down, Kept, Link, LinkConfig, LinkEvent, Origin, Phase};
use super::out::Out;
use super::peer::{Peer, State, Unidentified, Verdict};
use super::{Port, RawEvent, RawOp};
use crate::net::{ConnId, without_scope as key};
use crate::timers::{TimerKey, Timers};
use crate::wire::tcp::{Handshake, StreamDecoder, StreamItem};
use crate::wire::{Encode, IpAddress, Version};
use crate::{DropReason, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;

/// Where events go. It must not call back.
pub(super) type Sink<'a> = &'a mut dyn FnMut(LinkEvent);

/// All connections of one listening socket.
#[derive(Debug)]
pub(super) struct Links {
    port: Port,
    own: SocketAddr,
    handshake: Bytes,
    config: LinkConfig,
    /// Connections that were idle for this long are closed.
    idle: Option<Duration>,
    peers: BTreeMap<SocketAddr, Peer>,
    /// Which peer a connection belongs to. While a rejected connection is mourned
    /// ([`State::Expecting`]), its name stays here for the timer.
    conns: BTreeMap<ConnId, SocketAddr>,
    unidentified: BTreeMap<ConnId, Unidentified>,
    timers: Timers,
    next_conn: u64,
    arrivals: u64,
    closed: bool,
}

impl Links {
    /// No connections yet. `own` is where this socket listens.
    pub(super) fn new(port: Port, own: SocketAddr, config: LinkConfig) -> Self {
        let peer = IpAddress::from(own);
        let (first, idle) = match port {
            Port::Transport => (0, Some(config.idle_timeout).filter(|t| !t.is_zero())),
            Port::Monitor => (1, None),
        };
        Self {
            port,
            own: key(own),
            handshake: Handshake { version: Version::OURS, peer }.to_bytes(),
            config,
            idle,
            peers: BTreeMap::new(),
            conns: BTreeMap::new(),
            unidentified: BTreeMap::new(),
            timers: Timers::default(),
            next_conn: first,
            arrivals: 0,
            closed: false,
        }
    }

    /// Whether this connection is one of this socket's.
    pub(super) fn knows(&self, conn: ConnId) -> bool {
        self.conns.contains_key(&conn) || self.unidentified.contains_key(&conn)
    }

    /// Whether this is where this socket itself listens.
    pub(super) fn is_own(&self, at: SocketAddr) -> bool {
        key(at) == self.own
    }

    /// Whether frames can be sent to this peer at once.
    pub(super) fn is_up(&self, peer: SocketAddr) -> bool {
        match self.peers.get(&key(peer)).map(|p| &p.state) {
            Some(State::Linked { link, .. }) => link.phase != Phase::Connecting,
            Some(State::Expecting { .. } | State::Backoff { .. }) | None => false,
        }
    }

    /// Whether there is a connection with this peer, or one is on its way.
    pub(super) fn is_busy(&self, peer: SocketAddr) -> bool {
        match self.peers.get(&key(peer)).map(|p| &p.state) {
            Some(State::Linked { .. } | State::Expecting { .. }) => true,
            Some(State::Backoff { .. }) | None => false,
        }
    }

    /// All peers with a connection.
    pub(super) fn linked(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.peers.iter().filter(|(_, p)| matches!(p.state, State::Linked { .. })).map(|(a, _)| *a)
    }

    /// Sends a frame (with its length in front), connecting first if need be. It may be lost.
    pub(super) fn send(&mut self, now: Time, to: SocketAddr, frame: Bytes, out: &mut Out) {
        if self.closed {
            return out.unsent(now, Some(to), DropReason::NotConnected);
        }
        match self.peers.get_mut(&key(to)).map(|p| &mut p.state) {
            Some(State::Linked { link, .. }) => link.write(now, to, frame, &self.config, out),
            Some(State::Expecting { kept, .. }) => {
                if !kept.push(frame) {
                    out.unsent(now, Some(to), DropReason::OverLimit);
                }
            }
            Some(State::Backoff { until }) if now < *until => {
                out.unsent(now, Some(to), DropReason::NotConnected);
            }
            Some(State::Backoff { .. }) | None => {
                self.connect(now, to, out);
                if let Some(State::Linked { link, .. }) =
                    self.peers.get_mut(&key(to)).map(|p| &mut p.state)
                {
                    link.write(now, to, frame, &self.config, out);
                }
            }
        }
    }

    /// Makes a connection unless there is one, without regard to earlier failures.
    pub(super) fn connect(&mut self, now: Time, to: SocketAddr, out: &mut Out) {
        let peer = key(to);
        if self.is_busy(to) || self.closed {
            return;
        }
        let backoff = self.peers.get(&peer).map(|p| p.backoff);
        if backoff.is_none() && !self.has_room(now) {
            return out.unsent(now, Some(to), DropReason::OverLimit);
        }
        let backoff = backoff.unwrap_or_default();
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        out.raw.push_back(RawOp::Connect { conn, port: self.port, to });
        let mut link = Link::connecting(conn, self.config.max_frame, now);
        link.in_flight = self.handshake.len();
        out.write(conn, self.handshake.clone());
        self.arm(conn, now + self.config.connect_timeout);
        self.conns.insert(conn, peer);
        self.peers.insert(peer, Peer { state: State::Linked { link, rival: None }, backoff });
    }

    /// Whether one more peer can be remembered. Old failures make room first.
    fn has_room(&mut self, now: Time) -> bool {
        if self.peers.len() >= self.config.max_peers {
            self.peers.retain(|_, p| !matches!(p.state, State::Backoff { until } if until <= now));
        }
        self.peers.len() < self.config.max_peers
    }

    /// Something happened to a connection of this socket.
    pub(super) fn on_event(&mut self, now: Time, ev: RawEvent, out: &mut Out, sink: Sink<'_>) {
        match ev {
            RawEvent::Received { conn, bytes } => self.on_received(now, conn, bytes, out, sink),
            RawEvent::Written { conn, bytes } => {
                if let Some(link) = self.link_mut(conn) {
                    link.in_flight = link.in_flight.saturating_sub(bytes);
                }
            }
            RawEvent::Accepted { conn, from, .. } => self.on_accepted(now, conn, from, out),
            RawEvent::Connected { conn } => self.on_connected(now, conn, out, sink),
            RawEvent::ConnectFailed { conn, refused } => {
                let why = if refused { Down::Refused } else { Down::Unreachable };
                self.lose(now, conn, why, out, sink);
            }
            RawEvent::Closed { conn, .. } => {
                if self.unidentified.remove(&conn).is_some() {
                    self.disarm(conn);
                } else {
                    self.lose(now, conn, Down::Lost, out, sink);
                }
            }
            RawEvent::Datagram { .. } | RawEvent::Discovery { .. } | RawEvent::NobodyThere => {}
        }
    }

    fn link_mut(&mut self, conn: ConnId) -> Option<&mut Link> {
        let peer = self.conns.get(&conn)?;
        match &mut self.peers.get_mut(peer)?.state {
            State::Linked { link, .. } if link.conn == conn => Some(link),
            State::Linked { rival, .. } => rival.as_mut().filter(|r| r.conn == conn),
            State::Expecting { .. } | State::Backoff { .. } => None,
        }
    }

    fn on_accepted(&mut self, now: Time, conn: ConnId, from: SocketAddr, out: &mut Out) {
        if self.closed || self.unidentified.len() >= self.config.max_unidentified {
            out.counters.unidentified += 1;
            return out.abort(conn);
        }
        self.arrivals += 1;
        let decoder = StreamDecoder::acceptor(self.config.max_frame);
        self.unidentified.insert(conn, Unidentified { decoder, order: self.arrivals, from });
        self.arm(conn, now + self.config.handshake_timeout);
    }

    fn on_connected(&mut self, now: Time, conn: ConnId, out: &mut Out, sink: Sink<'_>) {
        let Some(peer) = self.conns.get(&conn).copied() else { return };
        let doomed_is_read = self.reads_the_doomed();
        let Some(State::Linked { link, rival }) = self.peers.get_mut(&peer).map(|p| &mut p.state)
        else {
            return;
        };
        if link.conn != conn || link.phase != Phase::Connecting {
            return;
        }
        link.phase = Phase::Young;
        let rejected = if doomed_is_read { None } else { rival.take() };
        self.arm(conn, now + LinkConfig::YOUNG);
        if let Some(rival) = rejected {
            // Both are new: the rule of simultaneous connections decides, and a rival exists only
            // where it decides for ours.
            self.forget(rival.conn);
            out.counters.rejected += 1;
            out.close_gracefully(rival.conn);
        }
        out.link(now, peer, "connected");
        sink(LinkEvent::Up { peer, accepted: false });
    }

    fn on_received(
        &mut self,
        now: Time,
        conn: ConnId,
        bytes: Bytes,
        out: &mut Out,
        sink: Sink<'_>,
    ) {
        if let Some(newcomer) = self.unidentified.get_mut(&conn) {
            newcomer.decoder.push(bytes);
            match newcomer.decoder.next_item() {
                Ok(None) => return,
                Ok(Some(StreamItem::Handshake(h))) => {
                    if !self.identify(now, conn, h, out, sink) {
                        return;
                    }
                }
                Ok(Some(StreamItem::Frame(_) | StreamItem::GracefulClose)) => {
                    unreachable!("a handshake comes first")
                }
                Err(error) => {
                    let from = Some(newcomer.from);
                    self.unidentified.remove(&conn);
                    self.disarm(conn);
                    out.counters.garbage += 1;
                    out.abort(conn);
                    return sink(LinkEvent::Garbage { from, error });
                }
            }
        } else if let Some(link) = self.link_mut(conn) {
            link.used = now;
            link.decoder.push(bytes);
        }
        self.read(now, conn, out, sink);
    }

    /// Hands over the frames that are complete.
    fn read(&mut self, now: Time, conn: ConnId, out: &mut Out, sink: Sink<'_>) {
        let Some(peer) = self.conns.get(&conn).copied() else { return };
        let Some(link) = self.link_mut(conn) else { return };
        let young = link.phase == Phase::Young;
        let mut frames = false;
        let end = loop {
            match link.decoder.next_item() {
                Ok(Some(StreamItem::Frame(bytes))) => {
                    frames = true;
                    sink(LinkEvent::Frame { peer, bytes });
                }
                Ok(Some(StreamItem::GracefulClose)) => break Some(Down::Graceful),
                Ok(Some(StreamItem::Handshake(_)) | None) => break None,
                Err(error) => {
                    out.counters.garbage += 1;
                    sink(LinkEvent::Garbage { from: Some(peer), error });
                    break Some(Down::Lost);
                }
            }
        };
        if young && frames {
            self.establish(now, conn);
        }
        if let Some(why) = end {
            match why {
                Down::Graceful => out.close_after_peer(conn),
                Down::Refused | Down::Unreachable | Down::Lost => out.abort(conn),
            }
            self.lose(now, conn, why, out, sink);
        }
    }

    /// The peer is content with our connection.
    fn establish(&mut self, now: Time, conn: ConnId) {
        self.disarm(conn);
        self.arm_idle(now, conn);
        if let Some(link) = self.link_mut(conn) {
            link.phase = Phase::Established;
            link.kept = Kept::default();
        }
        if let Some(peer) = self.conns.get(&conn).and_then(|a| self.peers.get_mut(a)) {
            peer.backoff = Duration::ZERO;
        }
    }

    /// A peer said who it is. Says whether its connection is kept.
    fn identify(
        &mut self,
        now: Time,
        conn: ConnId,
        handshake: Handshake,
        out: &mut Out,
        sink: Sink<'_>,
    ) -> bool {
        let Some(newcomer) = self.unidentified.remove(&conn) else { return false };
        self.disarm(conn);
        let peer = handshake.peer.socket_addr().map(key);
        let Some(peer) =
            peer.filter(|p| *p != self.own && (self.peers.contains_key(p) || self.has_room(now)))
        else {
            out.counters.unidentified += 1;
            out.abort(conn);
            return false;
        };
        let link = Link::accepted(conn, newcomer.order, newcomer.decoder, now);
        match self.verdict(peer, &link) {
            Verdict::Reject => {
                out.counters.rejected += 1;
                out.link(now, peer, "rejected");
                out.close_gracefully(conn);
                false
            }
            Verdict::Watch => {
                self.watch(now, peer, link, out);
                true
            }
            Verdict::Adopt => {
                out.link(now, peer, "accepted");
                self.adopt(now, peer, link, out);
                sink(LinkEvent::Up { peer, accepted: true });
                true
            }
        }
    }

    fn verdict(&self, peer: SocketAddr, new: &Link) -> Verdict {
        let Some(State::Linked { link, .. }) = self.peers.get(&peer).map(|p| &p.state) else {
            return Verdict::Adopt;
        };
        let we_are_lower = IpAddress::from(self.own) < IpAddress::from(peer);
        match (link.origin, new.origin) {
            // Handshakes may arrive in another order than the peer connected in.
            (Origin::Theirs(old), Origin::Theirs(new)) if new < old => Verdict::Reject,
            (Origin::Theirs(_), _) => Verdict::Adopt,
            (Origin::Ours, _) if we_are_lower => Verdict::Adopt,
            (Origin::Ours, _) => match link.phase {
                Phase::Young if !self.reads_the_doomed() => Verdict::Reject,
                Phase::Young | Phase::Connecting | Phase::Established => Verdict::Watch,
            },
        }
    }

    /// Of two new connections the peer closes the wrong one itself. FD_SOCK2's is read until then:
    /// JGroups' question on it is not repeated, and without an answer we would be suspected. The
    /// transport's is not: all that is on it comes again.
    fn reads_the_doomed(&self) -> bool {
        match self.port {
            Port::Transport => false,
            Port::Monitor => true,
        }
    }

    /// Keeps a connection of the peer beside ours until it is clear which one lives.
    fn watch(&mut self, now: Time, peer: SocketAddr, new: Link, out: &mut Out) {
        let conn = new.conn;
        let Some(State::Linked { rival, .. }) = self.peers.get_mut(&peer).map(|p| &mut p.state)
        else {
            return;
        };
        let older = rival.replace(new);
        self.conns.insert(conn, peer);
        self.arm(conn, now + LinkConfig::RIVALRY);
        if let Some(older) = older {
            self.forget(older.conn);
            out.close_gracefully(older.conn);
        }
    }

    /// Makes `new` the connection with `peer`; an old one is closed, and what may be lost on it is
    /// sent again.
    fn adopt(&mut self, now: Time, peer: SocketAddr, mut new: Link, out: &mut Out) {
        self.conns.insert(new.conn, peer);
        let kept = match self.peers.remove(&peer).map(|p| p.state) {
            Some(State::Linked { link, rival }) => {
                debug_assert!(rival.is_none(), "a rival is taken out before it is adopted");
                self.forget(link.conn);
                out.counters.rejected += 1;
                out.link(now, peer, "replaced");
                match link.phase {
                    Phase::Connecting => out.abort(link.conn),
                    Phase::Young | Phase::Established => out.close_gracefully(link.conn),
                }
                link.kept
            }
            Some(State::Expecting { mourned, kept }) => {
                self.forget(mourned);
                kept
            }
            Some(State::Backoff { .. }) | None => Kept::default(),
        };
        for frame in kept.into_frames() {
            new.write(now, peer, frame, &self.config, out);
        }
        self.arm_idle(now, new.conn);
        out.counters.made += 1;
        let state = State::Linked { link: new, rival: None };
        self.peers.insert(peer, Peer { state, backoff: Duration::ZERO });
    }

    /// A connection is gone.
    fn lose(&mut self, now: Time, conn: ConnId, why: Down, out: &mut Out, sink: Sink<'_>) {
        if self.link_mut(conn).is_none() {
            // Of a mourned connection nothing is news; its name stays for the timer.
            return;
        }
        let Some(peer) = self.forget(conn) else { return };
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        let State::Linked { link, rival } = &mut entry.state else { return };
        if link.conn != conn {
            *rival = None;
            return;
        }
        if let Some(rival) = rival.take() {
            return self.promote(now, peer, rival, out, sink);
        }
        let we_are_lower = IpAddress::from(self.own) < IpAddress::from(peer);
        if why == Down::Graceful && link.phase == Phase::Young && we_are_lower {
            let kept = core::mem::take(&mut link.kept);
            entry.state = State::Expecting { mourned: conn, kept };
            self.conns.insert(conn, peer);
            self.arm(conn, now + LinkConfig::EXPECTING);
            return;
        }
        if link.phase == Phase::Established || why == Down::Graceful {
            self.peers.remove(&peer);
        } else {
            let first = LinkConfig::FIRST_BACKOFF;
            entry.backoff = (entry.backoff * 2).clamp(first, LinkConfig::LAST_BACKOFF);
            entry.state = State::Backoff { until: now + entry.backoff };
            out.counters.failed += 1;
        }
        out.link(now, peer, why.as_str());
        sink(LinkEvent::Down { peer, why });
    }

    /// The rival takes the place of our connection.
    fn promote(&mut self, now: Time, peer: SocketAddr, rival: Link, out: &mut Out, sink: Sink<'_>) {
        self.disarm(rival.conn);
        self.adopt(now, peer, rival, out);
        sink(LinkEvent::Up { peer, accepted: true });
    }

    /// Fires what is due.
    pub(super) fn advance(&mut self, now: Time, out: &mut Out, sink: Sink<'_>) {
        let horizon = self.timers.horizon();
        while let Some((_, key)) = self.timers.take_due(now, horizon, |_| true) {
            self.on_timer(now, ConnId(key.0), out, sink);
        }
    }

    fn on_timer(&mut self, now: Time, conn: ConnId, out: &mut Out, sink: Sink<'_>) {
        if self.unidentified.remove(&conn).is_some() {
            out.counters.unidentified += 1;
            return out.abort(conn);
        }
        let Some(peer) = self.conns.get(&conn).copied() else { return };
        match self.peers.get_mut(&peer).map(|p| &mut p.state) {
            Some(State::Linked { link, .. }) if link.conn == conn => match link.phase {
                Phase::Connecting => {
                    out.abort(conn);
                    self.lose(now, conn, Down::Unreachable, out, sink);
                }
                Phase::Young => self.establish(now, conn),
                Phase::Established => self.close_if_idle(now, peer, conn, out, sink),
            },
            Some(State::Linked { rival, .. }) => {
                if let Some(rival) = rival.take() {
                    self.promote(now, peer, rival, out, sink);
                }
            }
            Some(State::Expecting { kept, .. }) => {
                // The peer's own connection did not come after all.
                let kept = core::mem::take(kept);
                self.forget(conn);
                self.peers.remove(&peer);
                self.connect(now, peer, out);
                for frame in kept.into_frames() {
                    self.send(now, peer, frame, out);
                }
            }
            Some(State::Backoff { .. }) | None => {}
        }
    }

    /// Closes connections with peers outside `keep` and forgets failures with them. Connections
    /// younger than two seconds stay: they may belong to members that are about to join.
    pub(super) fn retain(&mut self, now: Time, keep: &[SocketAddr], out: &mut Out) {
        let gone: Vec<SocketAddr> = self
            .peers
            .iter()
            .filter(|(a, p)| {
                let old = match &p.state {
                    State::Linked { link, .. } => link.since + LinkConfig::YOUNG <= now,
                    State::Expecting { .. } => false,
                    State::Backoff { .. } => true,
                };
                old && !keep.iter().any(|k| key(*k) == **a)
            })
            .map(|(a, _)| *a)
            .collect();
        for peer in gone {
            self.close(now, peer, out);
        }
    }

    /// Closes the connection with one peer, announced.
    pub(super) fn close(&mut self, now: Time, peer: SocketAddr, out: &mut Out) {
        let Some(entry) = self.peers.remove(&key(peer)) else { return };
        match entry.state {
            State::Linked { link, rival } => {
                out.link(now, peer, "closed");
                for link in rival.into_iter().chain([link]) {
                    self.forget(link.conn);
                    // What a stuck peer has not taken is not worth waiting for; a connection in
                    // the making is, if it carries our last words.
                    let in_the_making = link.phase == Phase::Connecting && !self.closed;
                    if link.in_flight > LinkConfig::KEPT || in_the_making {
                        out.abort(link.conn);
                    } else {
                        out.close_gracefully(link.conn);
                    }
                }
            }
            State::Expecting { mourned, .. } => {
                self.forget(mourned);
            }
            State::Backoff { .. } => {}
        }
    }

    /// Closes everything, announced. Nothing is connected or accepted afterwards.
    pub(super) fn shutdown(&mut self, now: Time, out: &mut Out) {
        self.closed = true;
        for peer in self.peers.keys().copied().collect::<Vec<_>>() {
            self.close(now, peer, out);
        }
        for (conn, _) in core::mem::take(&mut self.unidentified) {
            out.abort(conn);
        }
        self.timers.clear();
    }

    /// When [`Links::advance`] has something to do next.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    fn arm(&mut self, conn: ConnId, at: Time) {
        self.timers.arm(0, TimerKey(conn.0), at);
    }

    fn disarm(&mut self, conn: ConnId) {
        self.timers.disarm(0, TimerKey(conn.0));
    }

    fn forget(&mut self, conn: ConnId) -> Option<SocketAddr> {
        self.disarm(conn);
        self.conns.remove(&conn)
    }
}
