//! Datagram sockets of one member: a unicast socket that sends everything, and a multicast socket
//! that only receives.
//!
//! What the kernel has no room for waits in a queue with a limit, beyond which the datagram is
//! dropped and counted: datagrams may be lost, the protocols above repair that. No error ends
//! reading or writing.

use super::bind::Place;
use super::faults::Faults;
use super::mmsg::{self, BATCH, Slots};
use super::{BindFailure, External, NetCounters, UDP_MULTICAST, UDP_UNICAST};
use bytes::Bytes;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use rgroups_core::net::without_scope;
use rgroups_core::node::{Cast, RawEvent};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// System calls per socket and turn: what bounds the input of a turn.
const RECEIVES_PER_TURN: usize = 4;
/// Bytes that may wait for the kernel.
const QUEUE_LIMIT: usize = 16_000_000;
/// How many ephemeral ports are tried until FD_SOCK2's port beside it is free too.
const EPHEMERAL_TRIES: u32 = 32;
/// FD_SOCK2 and the like need ports above the transport's.
const HIGHEST_PORT: u16 = u16::MAX - 200;

/// What to bind, from the attributes of UDP.
#[derive(Clone, Debug)]
pub(crate) struct UdpPlan {
    pub(crate) place: Place,
    /// 0: any.
    pub(crate) port: u16,
    pub(crate) port_range: u16,
    /// The multicast address, if multicast is used.
    pub(crate) group: Option<SocketAddr>,
    pub(crate) ttl: u32,
    pub(crate) ucast_recv_buf: usize,
    pub(crate) ucast_send_buf: usize,
    pub(crate) mcast_recv_buf: usize,
    /// What is told to others instead of the bound address.
    pub(crate) external: External,
}

/// The two sockets.
#[derive(Debug)]
pub(crate) struct Udp {
    unicast: Half,
    multicast: Option<Half>,
    place: Place,
    local: SocketAddr,
    group: Option<SocketAddr>,
    queue: Vec<(SocketAddr, Bytes)>,
    queued: usize,
    output: Output,
    slots: Slots,
}

/// Whether the kernel takes what is sent. Only while it does not, readiness to send is asked for: the
/// event comes whenever a datagram has left, and would wake the member after each one that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Free,
    /// The kernel's buffer is full; an event will say when it is not.
    Congested,
    /// That event has come.
    Freed,
}

#[derive(Debug)]
struct Half {
    socket: UdpSocket,
    readable: bool,
}

impl Udp {
    /// Binds both sockets. `accept` says whether the rest of the member can live beside this
    /// address.
    pub(crate) fn bind(
        plan: &UdpPlan,
        registry: &Registry,
        mut accept: impl FnMut(SocketAddr) -> bool,
    ) -> Result<(Udp, SocketAddr), BindFailure> {
        let (socket, local) = bind_unicast(plan, &mut accept)?;
        let buffer = plan.mcast_recv_buf;
        let multicast = plan.group.map(|g| bind_multicast(plan.place, g, buffer)).transpose()?;
        let register = |socket: Socket, token| {
            let mut socket = UdpSocket::from_std(socket.into());
            registry
                .register(&mut socket, token, Interest::READABLE)
                .map_err(|e| BindFailure::new("poll", e))?;
            Ok(Half { socket, readable: true })
        };
        let unicast = register(socket, UDP_UNICAST)?;
        let multicast = multicast.map(|s| register(s, UDP_MULTICAST)).transpose()?;
        let udp = Udp {
            unicast,
            multicast,
            place: plan.place,
            local,
            group: plan.group.map(|g| on_link(plan.place, g)),
            queue: Vec::new(),
            queued: 0,
            output: Output::Free,
            slots: Slots::new(),
        };
        Ok((udp, plan.external.announced(local)))
    }

    pub(crate) fn ready(&mut self, multicast: bool, readable: bool, writable: bool) {
        if writable && !multicast && self.output == Output::Congested {
            self.output = Output::Freed;
        }
        let half = if multicast { self.multicast.as_mut() } else { Some(&mut self.unicast) };
        if let (true, Some(half)) = (readable, half) {
            half.readable = true;
        }
    }

    pub(crate) fn has_input(&self) -> bool {
        self.unicast.readable || self.multicast.as_ref().is_some_and(|m| m.readable)
    }

    pub(crate) fn receive(
        &mut self,
        faults: &Faults,
        counters: &mut NetCounters,
        out: &mut Vec<RawEvent>,
    ) {
        let Udp { unicast, multicast, local, slots, .. } = self;
        unicast.receive(slots, counters, |from| !faults.blocks(from), out);
        if let Some(m) = multicast {
            // Our own multicasts come back so that other processes of this host see them.
            let local = without_scope(*local);
            let others = |from| without_scope(from) != local && !faults.blocks(from);
            m.receive(slots, counters, others, out);
        }
    }

    pub(crate) fn queue(&mut self, to: Cast, bytes: Bytes, counters: &mut NetCounters) {
        let to = match to {
            Cast::To(a) => Some(self.place.reach(a)),
            Cast::Group => self.group,
            Cast::Discovery => None,
        };
        match to {
            Some(to) if self.queued + bytes.len() <= QUEUE_LIMIT => {
                self.queued += bytes.len();
                self.queue.push((to, bytes));
            }
            Some(_) | None => counters.datagrams_dropped += 1,
        }
    }

    pub(crate) fn flush(&mut self, registry: &Registry, counters: &mut NetCounters) {
        let mut done = 0;
        let mut retried = false;
        while done < self.queue.len() && self.output != Output::Congested {
            match mmsg::send(&self.unicast.socket, &self.queue[done..]) {
                Ok(n) => {
                    let sent: usize = self.queue[done..done + n].iter().map(|(_, b)| b.len()).sum();
                    counters.datagrams_sent += n as u64;
                    counters.bytes_sent += sent as u64;
                    done += n;
                    retried = false;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.output = Output::Congested;
                    self.watch(registry, Interest::READABLE | Interest::WRITABLE, counters);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The error of an earlier datagram is reported once, in place of this send.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused && !retried => retried = true,
                Err(e) => {
                    tracing::debug!(error = %e, to = %self.queue[done].0, "datagram not sent");
                    counters.errors += 1;
                    counters.datagrams_dropped += 1;
                    done += 1;
                    retried = false;
                }
            }
        }
        if self.output == Output::Freed {
            self.output = Output::Free;
            self.watch(registry, Interest::READABLE, counters);
        }
        self.queue.drain(..done);
        self.queued = self.queue.iter().map(|(_, b)| b.len()).sum();
    }

    fn watch(&mut self, registry: &Registry, what: Interest, counters: &mut NetCounters) {
        if registry.reregister(&mut self.unicast.socket, UDP_UNICAST, what).is_err() {
            // The next flush simply tries again.
            self.output = Output::Free;
            counters.errors += 1;
        }
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Half {
    fn receive(
        &mut self,
        slots: &mut Slots,
        counters: &mut NetCounters,
        wanted: impl Fn(SocketAddr) -> bool,
        out: &mut Vec<RawEvent>,
    ) {
        for _ in 0..RECEIVES_PER_TURN {
            if !self.readable {
                return;
            }
            let received = mmsg::receive(&self.socket, slots, |from, bytes| {
                counters.datagrams_received += 1;
                counters.bytes_received += bytes.len() as u64;
                if wanted(from) {
                    out.push(RawEvent::Datagram { from, bytes });
                }
            });
            match received {
                // Fewer than asked for: the kernel has no more, and tells us when it has.
                Ok(n) => self.readable = n == BATCH / 4,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    tracing::debug!(error = %e, "receive failed");
                    counters.errors += 1;
                }
            }
        }
    }
}

fn bind_unicast(
    plan: &UdpPlan,
    accept: &mut impl FnMut(SocketAddr) -> bool,
) -> Result<(Socket, SocketAddr), BindFailure> {
    let what = format!("udp {}", plan.place.at(plan.port));
    let ports: Vec<u16> = match plan.port {
        0 => vec![0; EPHEMERAL_TRIES as usize],
        p => (p..=p.saturating_add(plan.port_range)).collect(),
    };
    let mut why = io::Error::from(ErrorKind::AddrInUse);
    for port in ports {
        match open_unicast(plan, port) {
            Ok((socket, at)) if at.port() <= HIGHEST_PORT && accept(at) => return Ok((socket, at)),
            Ok(_) => {}
            Err(e) => why = e,
        }
    }
    Err(BindFailure::new(what, why))
}

fn open_unicast(plan: &UdpPlan, port: u16) -> io::Result<(Socket, SocketAddr)> {
    let (s, at) = open_sender(plan.place, port, plan.ttl)?;
    // The kernel gives what it may; `rgroups doctor` compares.
    let _ = s.set_recv_buffer_size(plan.ucast_recv_buf);
    let _ = s.set_send_buffer_size(plan.ucast_send_buf);
    Ok((s, at))
}

/// A socket at this port whose multicasts leave by the interface of `place`.
pub(super) fn open_sender(place: Place, port: u16, ttl: u32) -> io::Result<(Socket, SocketAddr)> {
    let at = place.at(port);
    let s = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    s.set_nonblocking(true)?;
    match place.ip {
        IpAddr::V4(ip) => {
            s.set_multicast_if_v4(&ip)?;
            s.set_multicast_ttl_v4(ttl)?;
            s.set_multicast_loop_v4(true)?;
        }
        IpAddr::V6(_) => {
            s.set_only_v6(true)?;
            s.set_multicast_if_v6(place.interface())?;
            s.set_multicast_hops_v6(ttl)?;
            s.set_multicast_loop_v6(true)?;
        }
    }
    s.bind(&at.into())?;
    let at = s.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
    Ok((s, at))
}

/// A socket that receives what is sent to `group` on the interface of `place`.
pub(super) fn bind_multicast(
    place: Place,
    group: SocketAddr,
    recv_buf: usize,
) -> Result<Socket, BindFailure> {
    let fail = |e| {
        let what = format!("multicast {group} on the interface of {}", place.ip);
        BindFailure::new(what, e)
    };
    check_way_out(place, group).map_err(fail)?;
    open_multicast(place, group, recv_buf).map_err(fail)
}

/// Where multicasts have no way out (loopback of IPv6, on most systems), a member would wait in vain
/// for others: it is better told. Nothing is sent.
fn check_way_out(place: Place, group: SocketAddr) -> io::Result<()> {
    if place.ip.is_ipv4() != group.is_ipv4() {
        let what = "bind_addr and mcast_addr are of different IP versions";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    let (probe, _) = open_sender(place, 0, 0)?;
    probe.connect(&on_link(place, group).into())
}

fn open_multicast(place: Place, group: SocketAddr, recv_buf: usize) -> io::Result<Socket> {
    let s = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    s.set_nonblocking(true)?;
    s.set_reuse_address(true)?;
    let _ = s.set_recv_buffer_size(recv_buf);
    // Bound to the group, a socket sees no other group's packets; elsewhere this is refused.
    let at = match group {
        SocketAddr::V4(g) if cfg!(windows) => (Ipv4Addr::UNSPECIFIED, g.port()).into(),
        SocketAddr::V6(g) if cfg!(windows) => (Ipv6Addr::UNSPECIFIED, g.port()).into(),
        // A group of link scope needs the link.
        SocketAddr::V4(_) | SocketAddr::V6(_) => on_link(place, group),
    };
    s.bind(&at.into())?;
    match (group.ip(), place.ip) {
        (IpAddr::V4(g), IpAddr::V4(ip)) => {
            #[cfg(target_os = "linux")]
            s.set_multicast_all_v4(false)?;
            s.join_multicast_v4(&g, &ip)?;
        }
        (IpAddr::V6(g), IpAddr::V6(_)) => {
            #[cfg(target_os = "linux")]
            s.set_multicast_all_v6(false)?;
            s.join_multicast_v6(&g, place.interface())?;
        }
        // Refused before.
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
    }
    Ok(s)
}

/// A group of link scope, with the link.
pub(super) fn on_link(place: Place, group: SocketAddr) -> SocketAddr {
    match group.ip() {
        IpAddr::V4(_) => group,
        IpAddr::V6(_) => Place { scope: place.interface(), ..place }.reach(group),
    }
}
