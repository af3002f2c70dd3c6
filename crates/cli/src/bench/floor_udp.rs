//! The floor over UDP: a multicast datagram for each batch. Receivers tell the sender now and then how
//! much they have taken, so that no socket overflows.

use super::floor::{self, BATCH, Bare, FRAME, Take, split};
use crate::args::BenchMemberArgs;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

/// What is asked of the system for a receiving socket.
const BUFFER: usize = 4 << 20;
/// The kernel counts a datagram at up to this many times its size.
const OVERHEAD: u64 = 3;
/// Before the messages of a datagram: who sent it, and how many bytes it had sent before.
const HEAD: usize = 10;

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let (index, nodes, cluster) = (a.index, a.nodes, a.cluster.clone());
    let work = tokio::task::spawn_blocking(move || {
        let group = group(&cluster);
        let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let at = own.local_addr().map_err(|e| e.to_string())?;
        let open = || Udp::open(index, nodes, group, own);
        let mut udp = open().map_err(|e| e.to_string())?;
        floor::serve(index, Some(at), |at| {
            udp.peers = at.to_vec();
            Ok(udp)
        })
    });
    work.await.map_err(|e| e.to_string())?
}

/// A group of this run's own: its number is at the end of the name of the cluster.
fn group(cluster: &str) -> SocketAddrV4 {
    let run = cluster.rsplit('-').next().and_then(|n| n.parse::<u32>().ok()).unwrap_or(0);
    let [_, a, b, c] = run.to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(239, 192 | a & 3, b, c), 30_000 + (run % 2_000) as u16)
}

struct Udp {
    index: usize,
    /// Receives the multicasts, from all.
    all: UdpSocket,
    /// Sends them, and receives what others say they have taken.
    own: UdpSocket,
    group: SocketAddrV4,
    peers: Vec<SocketAddr>,
    /// How many bytes may be under way to a receiver.
    window: u64,
    sent: u64,
    /// What each one has taken of this process.
    taken_of_us: Vec<u64>,
    /// What was taken of each one, and what it was told.
    taken: Vec<u64>,
    told: Vec<u64>,
    lost: u64,
    datagram: Vec<u8>,
    buffer: Vec<u8>,
}

impl Udp {
    fn open(index: usize, nodes: usize, group: SocketAddrV4, own: UdpSocket) -> io::Result<Udp> {
        let all = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        all.set_reuse_address(true)?;
        all.set_recv_buffer_size(BUFFER)?;
        all.bind(&SocketAddr::V4(group).into())?;
        all.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)?;
        all.set_nonblocking(true)?;
        let own = Socket::from(own);
        own.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
        own.set_multicast_loop_v4(true)?;
        own.set_send_buffer_size(BUFFER)?;
        own.set_nonblocking(true)?;
        let share = all.recv_buffer_size()? as u64 / OVERHEAD / nodes as u64;
        Ok(Udp {
            index,
            all: all.into(),
            own: own.into(),
            group,
            peers: Vec::new(),
            window: share.max(2 * BATCH as u64),
            sent: 0,
            taken_of_us: vec![0; nodes],
            taken: vec![0; nodes],
            told: vec![0; nodes],
            lost: 0,
            datagram: Vec::with_capacity(HEAD + BATCH + FRAME),
            buffer: vec![0; 1 << 16],
        })
    }

    fn receive_all(&mut self, take: &mut Take<'_>) -> Result<bool, String> {
        let mut any = false;
        loop {
            let n = match self.all.recv(&mut self.buffer) {
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(e) => return Err(e.to_string()),
            };
            any = true;
            let datagram = &self.buffer[..n];
            let Some((head, messages)) = datagram.split_first_chunk::<HEAD>() else { continue };
            let (from, before) = read_head(head);
            let Some(taken) = self.taken.get_mut(from) else { continue };
            self.lost += u64::from(before != *taken);
            *taken = before + messages.len() as u64;
            split(messages, |m| take(from, m))?;
            self.tell(from)?;
        }
    }

    /// Tells a sender what was taken, a few times for each window.
    fn tell(&mut self, of: usize) -> Result<(), String> {
        let taken = self.taken[of];
        if taken - self.told[of] < self.window / 4 {
            return Ok(());
        }
        self.told[of] = taken;
        let Some(to) = self.peers.get(of) else { return Ok(()) };
        let sent = self.own.send_to(&head(self.index, taken), to);
        sent.map(|_| ()).map_err(|e| e.to_string())
    }

    fn receive_own(&mut self) -> Result<bool, String> {
        let mut any = false;
        loop {
            let mut told = [0; HEAD];
            match self.own.recv(&mut told) {
                Ok(_) => any = true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(e) => return Err(e.to_string()),
            }
            let (by, taken) = read_head(&told);
            if let Some(known) = self.taken_of_us.get_mut(by) {
                *known = taken.max(*known);
            }
        }
    }
}

fn head(index: usize, bytes: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&(index as u16).to_be_bytes());
    head[2..].copy_from_slice(&bytes.to_be_bytes());
    head
}

fn read_head(head: &[u8; HEAD]) -> (usize, u64) {
    let [a, b, bytes @ ..] = *head;
    (usize::from(u16::from_be_bytes([a, b])), u64::from_be_bytes(bytes))
}

impl Bare for Udp {
    fn room(&self) -> bool {
        let slowest = self.taken_of_us.iter().min().copied().unwrap_or(0);
        self.sent - slowest < self.window
    }

    fn send(&mut self, batch: &[u8]) -> io::Result<()> {
        self.datagram.clear();
        self.datagram.extend_from_slice(&head(self.index, self.sent));
        self.datagram.extend_from_slice(batch);
        self.sent += batch.len() as u64;
        loop {
            match self.own.send_to(&self.datagram, self.group) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    floor::wait(std::iter::empty(), std::iter::once(&self.own))?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn receive(&mut self, wait: bool, take: &mut Take<'_>) -> Result<(), String> {
        let any = self.receive_all(take)? | self.receive_own()?;
        if !any && wait {
            floor::wait([&self.all, &self.own].into_iter(), std::iter::empty())
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}
