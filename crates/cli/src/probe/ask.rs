//! Asking: by multicast on all interfaces, or over TCP port by port.

use super::answer::Answer;
use crate::failure::Failure;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// An answer longer than this is cut.
const LIMIT: usize = 4 << 20;
/// So many hosts are asked, as members name them.
const MOST_HOSTS: usize = 256;

/// What is asked, and how long for.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) request: Vec<u8>,
    /// The same for the addresses of all members, which TCP begins with.
    pub(crate) members: Vec<u8>,
    pub(crate) timeout: Duration,
    pub(crate) port_range: u16,
}

impl Question {
    /// Multicasts the question on every interface, or on the one with this address, and collects
    /// answers until the time is over.
    pub(crate) fn over_udp(
        &self,
        groups: &[SocketAddr],
        bind: Option<Ipv4Addr>,
    ) -> Result<Vec<Answer>, Failure> {
        let interfaces = match bind {
            Some(ip) => vec![ip],
            None => interfaces(),
        };
        let (tell, told) = channel();
        let mut why = Failure::run("no interface with an IPv4 address");
        let mut sent = 0;
        for (ip, group) in interfaces.iter().flat_map(|i| groups.iter().map(move |g| (i, g))) {
            match self.send(*ip, *group) {
                Ok(socket) => {
                    sent += 1;
                    let (tell, timeout) = (tell.clone(), self.timeout);
                    std::thread::spawn(move || {
                        collect(&socket, timeout, |answer| tell.send(answer).is_ok());
                    });
                }
                Err(e) => why = Failure::run(format!("cannot ask {group} from {ip}: {e}")),
            }
        }
        drop(tell);
        match sent {
            0 => Err(why),
            _ => Ok(distinct(told.iter())),
        }
    }

    fn send(&self, from: Ipv4Addr, to: SocketAddr) -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((from, 0))?;
        if to.ip().is_multicast() {
            let s = socket2::SockRef::from(&socket);
            s.set_multicast_if_v4(&from)?;
            s.set_multicast_ttl_v4(32)?;
        }
        socket.send_to(&self.request, to)?;
        Ok(socket)
    }

    /// Asks every port of the range on these hosts, and on those that their members name.
    pub(crate) fn over_tcp(&self, hosts: Vec<SocketAddr>) -> Vec<Answer> {
        let mut known: BTreeSet<SocketAddr> = hosts.iter().copied().collect();
        let mut round = hosts;
        let mut answers = Vec::new();
        while !round.is_empty() {
            let found = self.ask_all(&round);
            let mut next = BTreeSet::new();
            for (port, members, answer) in found {
                for m in members {
                    next.insert(SocketAddr::new(m.ip(), port));
                }
                answers.extend(answer);
            }
            round =
                next.into_iter().filter(|h| known.len() < MOST_HOSTS && known.insert(*h)).collect();
        }
        distinct(answers.into_iter())
    }

    /// For each member that listens: the first port of its host, whom it names, what it answers.
    fn ask_all(&self, hosts: &[SocketAddr]) -> Vec<(u16, Vec<SocketAddr>, Option<Answer>)> {
        let (tell, told) = channel();
        for host in hosts {
            for port in host.port()..=host.port().saturating_add(self.port_range) {
                let (to, first) = (SocketAddr::new(host.ip(), port), host.port());
                let (tell, question) = (tell.clone(), self.clone());
                std::thread::spawn(move || {
                    let Some(named) = question.ask(to, &question.members) else { return };
                    let answer = question.ask(to, &question.request);
                    // The other end goes first only when the program ends.
                    let _ = tell.send((first, named.member_addresses(), answer));
                });
            }
        }
        drop(tell);
        told.iter().collect()
    }

    fn ask(&self, to: SocketAddr, request: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect_timeout(&to, self.timeout).ok()?;
        stream.set_read_timeout(Some(self.timeout)).ok()?;
        stream.set_write_timeout(Some(self.timeout)).ok()?;
        let mut line = request.to_vec();
        line.push(b'\n');
        stream.write_all(&line).ok()?;
        let mut bytes = Vec::new();
        // What came before a time-out is better than nothing.
        let _ = (&mut stream).take(LIMIT as u64).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (!text.is_empty()).then_some(Answer { from: to, text })
    }
}

fn collect(socket: &UdpSocket, timeout: Duration, mut each: impl FnMut(Answer) -> bool) {
    let end = Instant::now() + timeout;
    let mut buffer = vec![0; 70_000];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return;
        }
        if let Ok((n, from)) = socket.recv_from(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
            if !each(Answer { from, text }) {
                return;
            }
        }
    }
}

/// One answer per member.
fn distinct(answers: impl Iterator<Item = Answer>) -> Vec<Answer> {
    let mut all: Vec<Answer> = Vec::new();
    for a in answers {
        if !all.iter().any(|b| a.identity() == b.identity()) {
            all.push(a);
        }
    }
    all.sort_by(|a, b| a.identity().cmp(&b.identity()));
    all
}

fn interfaces() -> Vec<Ipv4Addr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let mut all: Vec<Ipv4Addr> = all
        .iter()
        .filter_map(|i| match i.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
