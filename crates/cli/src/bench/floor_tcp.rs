//! The floor over TCP: a connection for each pair, one call to write for each batch and receiver. A
//! batch is sent when the one before has left to everybody.

use super::floor::{self, BATCH, Bare, Take, split};
use crate::args::BenchMemberArgs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// Runs the process until its parent goes.
pub(super) async fn run(a: &BenchMemberArgs) -> Result<(), String> {
    let index = a.index;
    let work = tokio::task::spawn_blocking(move || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let at = listener.local_addr().map_err(|e| e.to_string())?;
        floor::serve(index, Some(at), |at| Tcp::connect(index, &listener, at))
    });
    work.await.map_err(|e| e.to_string())?
}

struct Tcp {
    index: usize,
    peers: Vec<Peer>,
    batch: Vec<u8>,
    /// Our own batch is not received yet.
    looped: bool,
    buffer: Vec<u8>,
}

struct Peer {
    index: usize,
    stream: TcpStream,
    /// How much of the batch has left.
    written: usize,
    /// A message of which only the beginning is here.
    rest: Vec<u8>,
}

impl Tcp {
    /// Calls those before this one, and is called by those behind it.
    fn connect(index: usize, listener: &TcpListener, at: &[SocketAddr]) -> io::Result<Tcp> {
        let mut peers = Vec::new();
        for (other, at) in at.iter().enumerate().take(index) {
            let mut stream = TcpStream::connect(at)?;
            stream.write_all(&(index as u16).to_be_bytes())?;
            peers.push(Peer::new(other, stream)?);
        }
        for _ in index + 1..at.len() {
            let (mut stream, _) = listener.accept()?;
            let mut other = [0; 2];
            stream.read_exact(&mut other)?;
            peers.push(Peer::new(usize::from(u16::from_be_bytes(other)), stream)?);
        }
        Ok(Tcp { index, peers, batch: Vec::new(), looped: true, buffer: vec![0; 1 << 18] })
    }

    /// Writes what the connections take.
    fn write(&mut self) -> io::Result<bool> {
        let mut any = false;
        for peer in &mut self.peers {
            while peer.written < self.batch.len() {
                match peer.stream.write(&self.batch[peer.written..]) {
                    Ok(n) => {
                        peer.written += n;
                        any = true;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(any)
    }
}

impl Peer {
    fn new(index: usize, stream: TcpStream) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Peer { index, stream, written: 0, rest: Vec::with_capacity(2 * BATCH) })
    }

    /// Takes what is there, at most a buffer full, so that all have their turn.
    fn receive(&mut self, buffer: &mut [u8], take: &mut Take<'_>) -> Result<bool, String> {
        let n = match self.stream.read(buffer) {
            Ok(0) => return Err(format!("process {} is gone", self.index)),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e.to_string()),
        };
        let mut new = &buffer[..n];
        // What began before is put together first; the rest is taken where it is.
        while !self.rest.is_empty() && !new.is_empty() {
            let missing = floor::missing(&self.rest).min(new.len());
            let (head, tail) = new.split_at(missing);
            self.rest.extend_from_slice(head);
            new = tail;
            if split(&self.rest, |m| take(self.index, m))? > 0 {
                self.rest.clear();
            }
        }
        let taken = split(new, |m| take(self.index, m))?;
        self.rest.extend_from_slice(&new[taken..]);
        Ok(true)
    }
}

impl Bare for Tcp {
    fn room(&self) -> bool {
        self.looped && self.peers.iter().all(|p| p.written == self.batch.len())
    }

    fn send(&mut self, batch: &[u8]) -> io::Result<()> {
        self.batch.clear();
        self.batch.extend_from_slice(batch);
        self.peers.iter_mut().for_each(|p| p.written = 0);
        self.looped = false;
        self.write().map(|_| ())
    }

    fn receive(&mut self, wait: bool, take: &mut Take<'_>) -> Result<(), String> {
        let mut any = self.write().map_err(|e| e.to_string())?;
        if !self.looped {
            self.looped = true;
            any = true;
            split(&self.batch, |m| take(self.index, m))?;
        }
        for peer in &mut self.peers {
            any |= peer.receive(&mut self.buffer, take)?;
        }
        if !any && wait {
            let full = self.peers.iter().filter(|p| p.written < self.batch.len());
            floor::wait(self.peers.iter().map(|p| &p.stream), full.map(|p| &p.stream))
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        0
    }
}
