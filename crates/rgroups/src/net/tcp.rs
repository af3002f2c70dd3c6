//! Listeners and stream connections of one member.
//!
//! Connections never wait for each other: each has a queue of its own, and reading takes turns.
//! Accepting goes on whatever one call returned; out of descriptors, it pauses for a moment.

use super::bind::Place;
use super::faults::Faults;
use super::tcp_conn::{Conn, Phase, READ_CHUNK, Read};
use super::{BindFailure, External, FIRST_STREAM, MonitorPlan, NetCounters};
use bytes::{Bytes, BytesMut};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rgroups_core::net::ConnId;
use rgroups_core::node::{Closing, Port, RawEvent, RawOp};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const BACKLOG: i32 = 128;
/// Connections that may be open at once; more are closed as they come.
const CONNECTIONS: usize = 4096;
/// Bytes that may wait on one connection. The node stops long before; a connection that gets here
/// anyway is broken off.
const QUEUE_LIMIT: usize = 256_000_000;
/// Accepted in one turn.
const ACCEPTS_PER_TURN: usize = 32;
/// How long accepting pauses when there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a closed connection waits for the peer's end.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a connection to a peer that faults cut off stays silent before it breaks.
const MUTED: Duration = Duration::from_millis(500);
/// Progress of fewer bytes than this can wait for the next turn.
const PROGRESS: usize = 64 * 1024;

/// What the transport listens on, from the attributes of TCP.
#[derive(Clone, Debug)]
pub(crate) struct ListenPlan {
    pub(crate) place: Place,
    pub(crate) port: u16,
    pub(crate) port_range: u16,
    /// Requested buffers of connections; 0: the system's choice.
    pub(crate) recv_buf: usize,
    pub(crate) send_buf: usize,
    pub(crate) nodelay: bool,
    /// What is told to others instead of the bound address.
    pub(crate) external: External,
}

/// Options of a connection.
#[derive(Clone, Copy, Debug)]
struct Options {
    recv_buf: usize,
    send_buf: usize,
    nodelay: bool,
}

impl Options {
    /// The system may refuse an option; the connection works without.
    fn apply(self, socket: &SockRef<'_>) {
        let _ = socket.set_tcp_nodelay(self.nodelay);
        if self.recv_buf > 0 {
            let _ = socket.set_recv_buffer_size(self.recv_buf);
        }
        if self.send_buf > 0 {
            let _ = socket.set_send_buffer_size(self.send_buf);
        }
    }
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    port: Port,
    at: SocketAddr,
    readable: bool,
}

/// All stream sockets of a member.
#[derive(Debug)]
pub(crate) struct Streams {
    registry: Registry,
    listeners: Vec<Listener>,
    conns: BTreeMap<ConnId, Conn>,
    by_token: HashMap<usize, ConnId>,
    next_token: usize,
    next_accepted: u64,
    readable: BTreeSet<ConnId>,
    dirty: BTreeSet<ConnId>,
    events: VecDeque<RawEvent>,
    /// Some of `events` must not wait for the next turn.
    urgent: bool,
    accept_again: Option<Instant>,
    chunk: BytesMut,
    connect_timeout: Duration,
    options: Options,
    /// Where our calls come from.
    pub(crate) place: Option<Place>,
}

impl Streams {
    pub(crate) fn new(registry: &Registry, connect_timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            registry: registry.try_clone()?,
            listeners: Vec::new(),
            conns: BTreeMap::new(),
            by_token: HashMap::new(),
            next_token: FIRST_STREAM,
            next_accepted: RawOp::ACCEPTED,
            readable: BTreeSet::new(),
            dirty: BTreeSet::new(),
            events: VecDeque::new(),
            urgent: false,
            accept_again: None,
            chunk: BytesMut::new(),
            connect_timeout,
            options: Options { recv_buf: 0, send_buf: 0, nodelay: true },
            place: None,
        })
    }

    /// Listens for the transport, on the first free port of the range.
    pub(crate) fn listen_transport(
        &mut self,
        plan: &ListenPlan,
    ) -> Result<SocketAddr, BindFailure> {
        let ListenPlan { recv_buf, send_buf, nodelay, .. } = *plan;
        self.options = Options { recv_buf, send_buf, nodelay };
        let last = if plan.port == 0 { 0 } else { plan.port.saturating_add(plan.port_range) };
        let ports = (plan.port..=last).map(|p| plan.place.at(p));
        let what = format!("tcp {}", plan.place.at(plan.port));
        self.listen(Port::Transport, ports).map_err(|e| BindFailure::new(what, e))
    }

    /// Listens for FD_SOCK2, beside a transport at this port.
    pub(crate) fn listen_monitor(
        &mut self,
        place: Place,
        port: u16,
        plan: MonitorPlan,
    ) -> Result<(), BindFailure> {
        let first = port.saturating_add(plan.offset);
        let ports = first..=first.saturating_add(plan.port_range);
        let what = format!("tcp {} (FD_SOCK2)", place.at(first));
        let at = ports.map(|p| place.at(p));
        self.listen(Port::Monitor, at).map_err(|e| BindFailure::new(what, e))?;
        Ok(())
    }

    fn listen(
        &mut self,
        port: Port,
        candidates: impl Iterator<Item = SocketAddr>,
    ) -> io::Result<SocketAddr> {
        let mut why = io::Error::from(ErrorKind::AddrInUse);
        for at in candidates {
            match open_listener(at) {
                Ok((mut socket, at)) => {
                    let token = self.new_token();
                    self.registry.register(&mut socket, Token(token), Interest::READABLE)?;
                    // Tokens of listeners are told apart by their place in the list.
                    self.listeners.push(Listener { socket, port, at, readable: true });
                    return Ok(at);
                }
                Err(e) => why = e,
            }
        }
        Err(why)
    }

    /// Where FD_SOCK2 listens.
    pub(crate) fn monitor_address(&self) -> Option<SocketAddr> {
        self.listeners.iter().find(|l| l.port == Port::Monitor).map(|l| l.at)
    }

    fn new_token(&mut self) -> usize {
        self.next_token += 1;
        self.next_token - 1
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.conns.values().filter_map(Conn::deadline).chain(self.accept_again).min()
    }

    pub(crate) fn ready(&mut self, token: Token, ev: &Event) {
        // Listeners were registered first, in order.
        if let Some(l) = token.0.checked_sub(FIRST_STREAM).and_then(|i| self.listeners.get_mut(i)) {
            l.readable = true;
            return;
        }
        let Some(&id) = self.by_token.get(&token.0) else { return };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if ev.is_writable() || ev.is_error() {
            conn.set_writable();
            self.dirty.insert(id);
            if matches!(conn.phase, Phase::Connecting { .. }) {
                self.finish_connect(id);
            }
        }
        if ev.is_readable() || ev.is_read_closed() || ev.is_error() {
            self.readable.insert(id);
        }
    }

    fn finish_connect(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        match conn.connect_result() {
            None => {}
            Some(Ok(())) => {
                conn.phase = Phase::Open;
                self.tell(RawEvent::Connected { conn: id });
            }
            Some(Err(e)) => {
                let refused = e.kind() == ErrorKind::ConnectionRefused;
                self.remove(id);
                self.tell(RawEvent::ConnectFailed { conn: id, refused });
            }
        }
    }

    fn tell(&mut self, ev: RawEvent) {
        self.events.push_back(ev);
        self.urgent = true;
    }

    pub(crate) fn has_input(&self) -> bool {
        let paused = self.accept_again.is_some();
        self.urgent
            || !self.readable.is_empty()
            || (!paused && self.listeners.iter().any(|l| l.readable))
    }

    pub(crate) fn receive(
        &mut self,
        faults: &Faults,
        counters: &mut NetCounters,
        out: &mut Vec<RawEvent>,
    ) {
        self.accept(counters);
        self.expire();
        out.extend(self.events.drain(..));
        self.urgent = false;
        for id in std::mem::take(&mut self.readable) {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            let muted = matches!(conn.phase, Phase::Muted { .. } | Phase::Draining { .. })
                || conn.peer.is_some_and(|p| faults.blocks_stream(p));
            match conn.read(&mut self.chunk) {
                Read::Bytes(bytes) => {
                    counters.bytes_received += bytes.len() as u64;
                    if !muted && !bytes.is_empty() {
                        out.push(RawEvent::Received { conn: id, bytes });
                    }
                    // There may be more: the kernel says so only once.
                    self.readable.insert(id);
                }
                Read::Nothing => {}
                end @ (Read::End | Read::Broken) => {
                    let told = !matches!(conn.phase, Phase::Draining { .. });
                    self.remove(id);
                    if told {
                        let reset = matches!(end, Read::Broken);
                        out.push(RawEvent::Closed { conn: id, reset });
                    }
                }
            }
        }
    }

    fn accept(&mut self, counters: &mut NetCounters) {
        let now = Instant::now();
        if self.accept_again.is_some_and(|t| now < t) {
            return;
        }
        self.accept_again = None;
        for i in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                let l = &mut self.listeners[i];
                if !l.readable {
                    break;
                }
                match l.socket.accept() {
                    Ok((stream, from)) => {
                        let port = l.port;
                        self.adopt(stream, from, port, counters);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => l.readable = false,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::ConnectionAborted => counters.errors += 1,
                    Err(e) => {
                        tracing::debug!(error = %e, "accept failed");
                        counters.errors += 1;
                        self.accept_again = Some(now + ACCEPT_PAUSE);
                        break;
                    }
                }
            }
        }
    }

    fn adopt(
        &mut self,
        mut stream: TcpStream,
        from: SocketAddr,
        port: Port,
        counters: &mut NetCounters,
    ) {
        let token = self.new_token();
        let ready = Interest::READABLE | Interest::WRITABLE;
        let registered = self.registry.register(&mut stream, Token(token), ready).is_ok();
        if self.conns.len() >= CONNECTIONS || !registered {
            counters.errors += 1;
            return;
        }
        self.options.apply(&SockRef::from(&stream));
        let id = ConnId(self.next_accepted);
        self.next_accepted += 1;
        self.by_token.insert(token, id);
        self.conns.insert(id, Conn::new(Some(stream), token, Phase::Open, port, None));
        self.readable.insert(id);
        self.tell(RawEvent::Accepted { conn: id, port, from });
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let due: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, c)| c.deadline().is_some_and(|d| d <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(conn) = self.remove(id) else { continue };
            match conn.phase {
                Phase::Connecting { .. } | Phase::Swallowed { .. } => {
                    self.tell(RawEvent::ConnectFailed { conn: id, refused: false });
                }
                Phase::Muted { .. } => self.tell(RawEvent::Closed { conn: id, reset: true }),
                Phase::Draining { .. } | Phase::Open => {}
            }
        }
    }

    /// Calls a peer; the answer comes as an event.
    pub(crate) fn connect(&mut self, id: ConnId, port: Port, to: SocketAddr, swallow: bool) {
        let until = Instant::now() + self.connect_timeout;
        if swallow {
            let conn = Conn::new(None, 0, Phase::Swallowed { until }, port, Some(to));
            self.conns.insert(id, conn);
            return;
        }
        match open_connection(to, self.place, self.options) {
            Ok(mut stream) => {
                let token = self.new_token();
                let ready = Interest::READABLE | Interest::WRITABLE;
                if let Err(e) = self.registry.register(&mut stream, Token(token), ready) {
                    return self.connect_failed(id, to, &e);
                }
                self.by_token.insert(token, id);
                let phase = Phase::Connecting { until };
                self.conns.insert(id, Conn::new(Some(stream), token, phase, port, Some(to)));
            }
            Err(e) => self.connect_failed(id, to, &e),
        }
    }

    fn connect_failed(&mut self, conn: ConnId, to: SocketAddr, e: &io::Error) {
        tracing::debug!(error = %e, %to, "connect failed");
        let refused = e.kind() == ErrorKind::ConnectionRefused;
        self.tell(RawEvent::ConnectFailed { conn, refused });
    }

    pub(crate) fn write(&mut self, id: ConnId, bytes: Bytes, counters: &mut NetCounters) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.push(bytes);
        if conn.queued() > QUEUE_LIMIT {
            counters.errors += 1;
            self.remove(id);
            self.tell(RawEvent::Closed { conn: id, reset: true });
        } else {
            self.dirty.insert(id);
        }
    }

    pub(crate) fn close(&mut self, id: ConnId, how: Closing) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let until = Instant::now() + DRAIN;
        match (conn.phase, how) {
            (Phase::Open, Closing::Orderly) => {
                conn.phase = Phase::Draining { until, ended: false };
                self.dirty.insert(id);
            }
            (Phase::Open, Closing::AfterPeer) => {
                conn.drop_queue();
                conn.phase = Phase::Draining { until, ended: true };
            }
            (Phase::Draining { .. }, Closing::Orderly | Closing::AfterPeer) => {}
            (Phase::Open | Phase::Draining { .. }, Closing::Abort)
            | (Phase::Connecting { .. } | Phase::Swallowed { .. } | Phase::Muted { .. }, _) => {
                self.remove(id);
            }
        }
    }

    /// The node is done: everything is written out and closed, and nobody is let in.
    pub(crate) fn finish(&mut self) {
        for mut l in self.listeners.drain(..) {
            let _ = self.registry.deregister(&mut l.socket);
        }
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            self.close(id, Closing::Orderly);
        }
    }

    pub(crate) fn flush(&mut self, counters: &mut NetCounters) {
        for id in std::mem::take(&mut self.dirty) {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            match conn.flush() {
                Ok(n) => {
                    counters.bytes_sent += n as u64;
                    if conn.may_write() {
                        // The kernel was short of memory, which no event ends: a later turn tries
                        // again.
                        self.dirty.insert(id);
                    }
                    let told = !matches!(conn.phase, Phase::Draining { .. });
                    if told && n > 0 {
                        self.events.push_back(RawEvent::Written { conn: id, bytes: n });
                        self.urgent |= n >= PROGRESS;
                    }
                }
                Err(_) => {
                    let told = !matches!(conn.phase, Phase::Draining { .. });
                    self.remove(id);
                    if told {
                        self.tell(RawEvent::Closed { conn: id, reset: true });
                    }
                }
            }
        }
    }

    /// Whether every connection is written out and closed by both ends.
    pub(crate) fn is_flushed(&self) -> bool {
        self.conns.is_empty()
    }

    /// Closes every socket.
    pub(crate) fn clear(&mut self) {
        self.listeners.clear();
        self.conns.clear();
        self.by_token.clear();
        self.readable.clear();
        self.dirty.clear();
        self.events.clear();
        self.urgent = false;
    }

    /// Connections to peers that are cut off fall silent; silent ones to others break, as their
    /// streams have gaps.
    pub(crate) fn apply_faults(&mut self, faults: &Faults) {
        let now = Instant::now();
        let mut broken = Vec::new();
        for (id, conn) in &mut self.conns {
            let cut = conn.peer.is_some_and(|p| faults.blocks_stream(p));
            match conn.phase {
                Phase::Open | Phase::Draining { .. } if cut => {
                    conn.phase = Phase::Muted { until: now + MUTED };
                }
                Phase::Connecting { until } if cut => {
                    conn.stream = None;
                    conn.phase = Phase::Swallowed { until };
                }
                Phase::Muted { .. } if !cut => broken.push(*id),
                Phase::Open
                | Phase::Draining { .. }
                | Phase::Connecting { .. }
                | Phase::Swallowed { .. }
                | Phase::Muted { .. } => {}
            }
        }
        for id in broken {
            self.remove(id);
            self.tell(RawEvent::Closed { conn: id, reset: true });
        }
    }

    fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let mut conn = self.conns.remove(&id)?;
        self.by_token.remove(&conn.token);
        self.readable.remove(&id);
        self.dirty.remove(&id);
        if let Some(stream) = conn.stream.as_mut() {
            let _ = self.registry.deregister(stream);
        }
        Some(conn)
    }
}

fn open_listener(at: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let s = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    s.set_nonblocking(true)?;
    // On Windows it would let two processes listen on one port.
    #[cfg(unix)]
    s.set_reuse_address(true)?;
    s.bind(&at.into())?;
    s.listen(BACKLOG)?;
    let at = s.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
    Ok((TcpListener::from_std(s.into()), at))
}

fn open_connection(to: SocketAddr, from: Option<Place>, options: Options) -> io::Result<TcpStream> {
    let to = from.map_or(to, |place| place.reach(to));
    let s = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    s.set_nonblocking(true)?;
    options.apply(&SockRef::from(&s));
    let from = from.filter(|p| p.ip.is_ipv4() == to.is_ipv4() && !p.ip.is_unspecified());
    if let Some(place) = from {
        s.bind(&place.at(0).into())?;
    }
    match s.connect(&to.into()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
        Err(e) if e.kind() == ErrorKind::Interrupted => {}
        #[cfg(unix)]
        Err(e) if e.raw_os_error() == Some(super::tcp_conn::EINPROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(TcpStream::from_std(s.into()))
}

const _: () = assert!(READ_CHUNK >= super::mmsg::SLOT);
