//! The sockets of the diagnostics handler, and the thread that waits on them.

use super::request::LIMIT;
use if_addrs::{IfAddr, Interface};
use mio::net::{TcpListener, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
use rgroups_core::plan::DiagConfig;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const UDP: Token = Token(1);
const TCP: Token = Token(2);

/// So many questions are answered in a second, whoever asks: a flood of them costs no more.
const PER_SECOND: u32 = 50;
/// How long a client may take for its request, and for taking the answer.
const CLIENT: Duration = Duration::from_secs(1);

/// Bound sockets.
#[derive(Debug)]
pub(super) struct Sockets {
    poll: Poll,
    group: Option<Group>,
    listener: Option<TcpListener>,
    sources: Sources,
    budget: Budget,
}

/// Where requests come in by multicast, and from where answers leave.
#[derive(Debug)]
struct Group {
    requests: UdpSocket,
    answers: std::net::UdpSocket,
}

/// Who is answered.
#[derive(Debug)]
enum Sources {
    /// Whoever knows the passcode.
    Any,
    /// The networks of these interfaces.
    Of(Vec<Interface>),
}

/// How many questions of this second are answered.
#[derive(Debug)]
struct Budget {
    since: Instant,
    left: u32,
}

impl Sockets {
    /// Binds what the plan asks for. `own` is the address of the transport.
    pub(super) fn open(plan: &DiagConfig, own: IpAddr) -> io::Result<Sockets> {
        let poll = Poll::new()?;
        let interfaces = chosen(plan, own)?;
        let group = match plan.enable_udp {
            true => Some(Group::join(plan, own, &interfaces)?),
            false => None,
        };
        let listener = match plan.enable_tcp {
            true => Some(listen(plan, own)?),
            false => None,
        };
        let mut sockets = Sockets {
            poll,
            group,
            listener,
            sources: match plan.passcode {
                Some(_) => Sources::Any,
                None => Sources::Of(interfaces),
            },
            budget: Budget { since: Instant::now(), left: PER_SECOND },
        };
        let registry = sockets.poll.registry();
        if let Some(g) = &mut sockets.group {
            registry.register(&mut g.requests, UDP, Interest::READABLE)?;
        }
        if let Some(l) = &mut sockets.listener {
            registry.register(l, TCP, Interest::READABLE)?;
        }
        Ok(sockets)
    }

    pub(super) fn waker(&mut self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Answers until `stop` is set.
    pub(super) fn serve(&mut self, stop: &AtomicBool, answer: impl Fn(&[u8]) -> Option<String>) {
        let mut events = Events::with_capacity(8);
        while !stop.load(Ordering::Acquire) {
            if let Err(e) = self.poll.poll(&mut events, None)
                && e.kind() != ErrorKind::Interrupted
            {
                tracing::warn!(code = "RG0203", "the diagnostics handler ends: {e}");
                return;
            }
            self.datagrams(stop, &answer);
            self.connections(stop, &answer);
        }
    }

    fn datagrams(&mut self, stop: &AtomicBool, answer: &impl Fn(&[u8]) -> Option<String>) {
        let Some(group) = &self.group else { return };
        let mut request = vec![0; LIMIT];
        while !stop.load(Ordering::Acquire) {
            let (n, from) = match group.requests.recv_from(&mut request) {
                Ok(received) => received,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if !self.sources.allow(from.ip()) || !self.budget.take() {
                continue;
            }
            if let Some(text) = answer(&request[..n]) {
                // Whoever asked may be gone.
                let _ = group.answers.send_to(text.as_bytes(), from);
            }
        }
    }

    fn connections(&mut self, stop: &AtomicBool, answer: &impl Fn(&[u8]) -> Option<String>) {
        let Some(listener) = &self.listener else { return };
        while !stop.load(Ordering::Acquire) {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if self.sources.allow(from.ip()) && self.budget.take() {
                // A client that is too slow, or gone, gets nothing.
                let _ = converse(stream.into(), answer);
            }
        }
    }
}

/// Reads one line, answers it and closes.
fn converse(mut stream: TcpStream, answer: &impl Fn(&[u8]) -> Option<String>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CLIENT))?;
    let end = Instant::now() + CLIENT;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let n = stream.read(&mut part)?;
        let line_ends = part[..n].iter().position(|b| *b == b'\n');
        request.extend_from_slice(&part[..line_ends.unwrap_or(n)]);
        if n == 0 || line_ends.is_some() || request.len() > LIMIT {
            break;
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    match answer(&request) {
        Some(text) => stream.write_all(text.as_bytes()),
        None => Ok(()),
    }
}

impl Group {
    fn join(plan: &DiagConfig, own: IpAddr, interfaces: &[Interface]) -> io::Result<Group> {
        let group = SocketAddr::new(plan.mcast_addr.unwrap_or(default_group(own)), plan.port);
        let s = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
        s.set_nonblocking(true)?;
        s.set_reuse_address(true)?;
        // Bound to the group, the socket sees nothing else; elsewhere this is refused.
        let at = match (cfg!(windows), group.ip()) {
            (true, IpAddr::V4(_)) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), group.port()),
            (true, IpAddr::V6(_)) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), group.port()),
            (false, _) => group,
        };
        s.bind(&at.into())?;
        let mut joined = 0;
        for i in interfaces {
            joined += match (group.ip(), i.ip()) {
                (IpAddr::V4(g), IpAddr::V4(ip)) => {
                    #[cfg(target_os = "linux")]
                    s.set_multicast_all_v4(false)?;
                    usize::from(s.join_multicast_v4(&g, &ip).is_ok())
                }
                (IpAddr::V6(g), IpAddr::V6(_)) => {
                    #[cfg(target_os = "linux")]
                    s.set_multicast_all_v6(false)?;
                    usize::from(s.join_multicast_v6(&g, i.index.unwrap_or(0)).is_ok())
                }
                (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => 0,
            };
        }
        if joined == 0 {
            return Err(io::Error::other(format!("{group} can be joined on no chosen interface")));
        }
        let any: IpAddr = match group.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let answers = std::net::UdpSocket::bind((any, 0))?;
        // An answer that finds no room in the kernel is lost, as datagrams are.
        answers.set_nonblocking(true)?;
        Ok(Group { requests: UdpSocket::from_std(s.into()), answers })
    }
}

fn default_group(own: IpAddr) -> IpAddr {
    match own {
        IpAddr::V4(_) => Ipv4Addr::new(224, 0, 75, 75).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x75, 0x75).into(),
    }
}

/// The interfaces of the plan, or the one with our own address.
fn chosen(plan: &DiagConfig, own: IpAddr) -> io::Result<Vec<Interface>> {
    let names: Vec<&str> = plan.bind_interfaces.split(',').map(str::trim).collect();
    let wanted = |i: &Interface| match plan.bind_interfaces.is_empty() {
        true => i.ip() == own,
        false => names.contains(&i.name.as_str()),
    };
    Ok(if_addrs::get_if_addrs()?.into_iter().filter(wanted).collect())
}

fn listen(plan: &DiagConfig, own: IpAddr) -> io::Result<TcpListener> {
    let ip = plan.bind_addr.unwrap_or(own);
    let mut why = io::Error::from(ErrorKind::AddrInUse);
    for port in plan.port..=plan.port.saturating_add(plan.port_range) {
        match std::net::TcpListener::bind((ip, port)) {
            Ok(l) => {
                l.set_nonblocking(true)?;
                return Ok(TcpListener::from_std(l));
            }
            Err(e) => why = e,
        }
    }
    Err(why)
}

impl Sources {
    fn allow(&self, from: IpAddr) -> bool {
        match self {
            Sources::Any => true,
            Sources::Of(interfaces) => {
                from.is_loopback() || interfaces.iter().any(|i| near(i, from))
            }
        }
    }
}

/// Whether an address is in the network of an interface.
fn near(i: &Interface, from: IpAddr) -> bool {
    match (&i.addr, from) {
        (IfAddr::V4(a), IpAddr::V4(from)) => {
            let mask = u32::from(a.netmask);
            u32::from(a.ip) & mask == u32::from(from) & mask
        }
        (IfAddr::V6(a), IpAddr::V6(from)) => {
            let mask = u128::from(a.netmask);
            u128::from(a.ip) & mask == u128::from(from) & mask
        }
        (IfAddr::V4(_), IpAddr::V6(_)) | (IfAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

impl Budget {
    fn take(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Budget { since: Instant::now(), left: PER_SECOND };
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}
