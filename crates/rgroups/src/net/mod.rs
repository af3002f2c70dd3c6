//! Sockets. The only `unsafe` of the workspace is in [`mmsg`].
//!
//! A [`Net`] is what one member needs of the network: a pair of datagram sockets or a place in a
//! hub, listeners, stream connections. It turns readiness into [`RawEvent`]s and carries out
//! [`RawOp`]s; it never blocks, and no error of a socket ends it (it counts errors instead).

pub(crate) mod beacon;
pub(crate) mod bind;
pub(crate) mod faults;
pub(crate) mod hub;
pub(crate) mod mmsg;
pub(crate) mod tcp;
pub(crate) mod tcp_conn;
#[cfg(test)]
mod tests;
pub(crate) mod udp;

use beacon::{Beacon, BeaconPlan};
use bind::Place;
use faults::Faults;
use mio::{Events, Poll, Token, Waker};
use rgroups_core::node::{Bound, Cast, RawEvent, RawOp};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tcp::Streams;

const WAKER: Token = Token(0);
const UDP_UNICAST: Token = Token(1);
const UDP_MULTICAST: Token = Token(2);
const BEACON: Token = Token(3);
const FIRST_STREAM: usize = 8;

/// Counters of a member's sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetCounters {
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Datagrams that the kernel refused or that found no room in the queue.
    pub(crate) datagrams_dropped: u64,
    /// System calls that failed in a way that the loop survived.
    pub(crate) errors: u64,
}

/// How datagrams travel.
#[derive(Debug)]
enum Datagrams {
    Udp(udp::Udp),
    Hub(hub::Port),
    None,
}

/// One member's network.
#[derive(Debug)]
pub(crate) struct Net {
    poll: Poll,
    events: Events,
    datagrams: Datagrams,
    beacon: Option<Beacon>,
    streams: Streams,
    faults: Faults,
    bound: Bound,
    counters: NetCounters,
}

/// What a member asks to be bound.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// Datagram sockets.
    Udp(udp::UdpPlan),
    /// A listener.
    Tcp(tcp::ListenPlan),
    /// A place in the hub of this name.
    Hub(String),
}

/// Where FD_SOCK2 may listen, relative to the transport's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonitorPlan {
    /// Distance from the transport's port.
    pub(crate) offset: u16,
    /// How many further ports are tried.
    pub(crate) port_range: u16,
}

/// What is told to others instead of the bound address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct External {
    pub(crate) addr: Option<IpAddr>,
    /// 0: the bound one.
    pub(crate) port: u16,
}

impl External {
    /// What others are told when we are bound to `at`.
    pub(crate) fn announced(self, at: SocketAddr) -> SocketAddr {
        let mut told = at;
        if let Some(ip) = self.addr {
            told = SocketAddr::new(ip, at.port());
        }
        if self.port != 0 {
            told.set_port(self.port);
        }
        told
    }
}

/// Everything that a member asks to be bound.
#[derive(Clone, Debug)]
pub(crate) struct NetPlan {
    pub(crate) endpoint: Endpoint,
    /// FD_SOCK2, if the stack has it.
    pub(crate) monitor: Option<MonitorPlan>,
    /// The multicasts of MPING, if the stack has it.
    pub(crate) beacon: Option<BeaconPlan>,
    /// How long a call to a peer may take.
    pub(crate) connect_timeout: Duration,
}

/// Why a socket could not be made.
#[derive(Debug)]
pub(crate) struct BindFailure {
    /// What was asked for.
    pub(crate) what: String,
    pub(crate) source: io::Error,
}

impl BindFailure {
    pub(crate) fn new(what: impl Into<String>, source: io::Error) -> Self {
        Self { what: what.into(), source }
    }
}

impl Net {
    /// Binds everything. Nothing stays open when an error is returned.
    pub(crate) fn bind(plan: &NetPlan) -> Result<Net, BindFailure> {
        let NetPlan { endpoint, monitor, beacon, connect_timeout } = plan;
        let poll = Poll::new().map_err(|e| BindFailure::new("poll", e))?;
        let registry = poll.registry();
        let mut streams =
            Streams::new(registry, *connect_timeout).map_err(|e| BindFailure::new("poll", e))?;
        let (datagrams, transport, place) = match endpoint {
            Endpoint::Udp(plan) => {
                let (udp, at) = udp::Udp::bind(plan, registry, |at| {
                    let port = at.port();
                    monitor.is_none_or(|m| streams.listen_monitor(plan.place, port, m).is_ok())
                })?;
                (Datagrams::Udp(udp), at, plan.place)
            }
            Endpoint::Tcp(plan) => {
                let at = streams.listen_transport(plan)?;
                if let Some(m) = monitor {
                    streams.listen_monitor(plan.place, at.port(), *m)?;
                }
                (Datagrams::None, plan.external.announced(at), plan.place)
            }
            Endpoint::Hub(name) => {
                let waker = Waker::new(registry, WAKER).map_err(|e| BindFailure::new("poll", e))?;
                let port = hub::Port::open(name, Arc::new(waker))
                    .map_err(|e| BindFailure::new(format!("a place in hub {name:?}"), e))?;
                let at = port.address();
                (Datagrams::Hub(port), at, Place::from(at.ip()))
            }
        };
        streams.place = Some(place);
        let beacon = beacon.as_ref().map(|b| Beacon::bind(b, registry)).transpose()?;
        let bound = Bound { transport, monitor: streams.monitor_address() };
        Ok(Net {
            events: Events::with_capacity(256),
            poll,
            datagrams,
            beacon,
            streams,
            faults: Faults::default(),
            bound,
            counters: NetCounters::default(),
        })
    }

    /// Where the member can be reached.
    pub(crate) fn bound(&self) -> Bound {
        self.bound
    }

    /// What other threads use to end [`Net::wait`].
    pub(crate) fn waker(&self) -> io::Result<Arc<Waker>> {
        match &self.datagrams {
            Datagrams::Hub(port) => Ok(port.waker()),
            Datagrams::Udp(_) | Datagrams::None => {
                Ok(Arc::new(Waker::new(self.poll.registry(), WAKER)?))
            }
        }
    }

    /// Sleeps until something is ready, somebody wakes it, or `timeout` is over. With input or
    /// output known to be possible it only looks.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        let timeout = if self.has_input() { Some(Duration::ZERO) } else { timeout };
        let timeout = match (timeout, self.streams.next_deadline()) {
            (t, None) => t,
            (t, Some(d)) => {
                let until = d.saturating_duration_since(Instant::now());
                Some(t.map_or(until, |t| t.min(until)))
            }
        };
        // EINTR and the like: an empty turn follows, and then the next wait.
        if self.poll.poll(&mut self.events, timeout).is_err() {
            self.counters.errors += 1;
            return;
        }
        for ev in &self.events {
            match ev.token() {
                WAKER => {}
                UDP_UNICAST | UDP_MULTICAST => {
                    if let Datagrams::Udp(udp) = &mut self.datagrams {
                        udp.ready(ev.token() == UDP_MULTICAST, ev.is_readable(), ev.is_writable());
                    }
                }
                BEACON => {
                    if let Some(beacon) = &mut self.beacon {
                        beacon.ready();
                    }
                }
                token => self.streams.ready(token, ev),
            }
        }
    }

    /// Whether [`Net::receive`] would probably find something.
    pub(crate) fn has_input(&self) -> bool {
        let datagrams = match &self.datagrams {
            Datagrams::Udp(udp) => udp.has_input(),
            Datagrams::Hub(port) => port.has_input(),
            Datagrams::None => false,
        };
        datagrams || self.beacon.as_ref().is_some_and(Beacon::has_input) || self.streams.has_input()
    }

    /// Appends a bounded amount of what arrived. Tells whether more may be waiting.
    pub(crate) fn receive(&mut self, out: &mut Vec<RawEvent>) -> bool {
        match &mut self.datagrams {
            Datagrams::Udp(udp) => udp.receive(&self.faults, &mut self.counters, out),
            Datagrams::Hub(port) => port.receive(&self.faults, &mut self.counters, out),
            Datagrams::None => {}
        }
        if let Some(beacon) = &mut self.beacon {
            beacon.receive(&mut self.counters, out);
        }
        self.streams.receive(&self.faults, &mut self.counters, out);
        self.has_input()
    }

    /// Carries out one operation. Datagrams are collected until [`Net::flush`].
    pub(crate) fn apply(&mut self, op: RawOp) {
        match op {
            RawOp::Datagram { to: Cast::Discovery, bytes } => match &self.beacon {
                Some(beacon) => beacon.send(&bytes, &mut self.counters),
                None => self.counters.datagrams_dropped += 1,
            },
            RawOp::Datagram { to, bytes } => {
                if matches!(to, Cast::To(a) if self.faults.blocks(a)) {
                    return;
                }
                match &mut self.datagrams {
                    Datagrams::Udp(udp) => udp.queue(to, bytes, &mut self.counters),
                    Datagrams::Hub(port) => port.send(to, &bytes, &mut self.counters),
                    Datagrams::None => self.counters.datagrams_dropped += 1,
                }
            }
            RawOp::Connect { conn, port, to } => {
                self.streams.connect(conn, port, to, self.faults.blocks_stream(to));
            }
            RawOp::Write { conn, bytes } => self.streams.write(conn, bytes, &mut self.counters),
            RawOp::Close { conn, how } => self.streams.close(conn, how),
            RawOp::Finished => self.streams.finish(),
        }
    }

    /// Sends what was collected, as far as the kernel takes it.
    pub(crate) fn flush(&mut self) {
        match &mut self.datagrams {
            Datagrams::Udp(udp) => udp.flush(self.poll.registry(), &mut self.counters),
            Datagrams::Hub(port) => port.flush(),
            Datagrams::None => {}
        }
        self.streams.flush(&mut self.counters);
    }

    /// Whether everything that was queued has left.
    pub(crate) fn is_flushed(&self) -> bool {
        let datagrams = match &self.datagrams {
            Datagrams::Udp(udp) => udp.is_flushed(),
            Datagrams::Hub(_) | Datagrams::None => true,
        };
        datagrams && self.streams.is_flushed()
    }

    /// Closes every socket.
    pub(crate) fn close(&mut self) {
        self.datagrams = Datagrams::None;
        self.beacon = None;
        self.streams.clear();
    }

    /// The fault switchboard: replaces the set of peers that cannot be reached.
    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.streams.apply_faults(&faults);
        self.faults = faults;
    }

    /// What happened so far.
    pub(crate) fn counters(&self) -> NetCounters {
        self.counters
    }
}
