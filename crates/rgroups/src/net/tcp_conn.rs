//! One stream connection: its phase, its queue of bytes to write, its reads.

use super::mmsg;
use bytes::{Buf, Bytes, BytesMut};
use mio::net::TcpStream;
use rgroups_core::node::Port;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

/// Slices per `writev`.
const SLICES: usize = 64;
/// Bytes read from one connection in one turn.
pub(crate) const READ_CHUNK: usize = 256 * 1024;
/// A read below this is copied out of the chunk, which would otherwise stay pinned by it.
const COPY_BELOW: usize = 4096;

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// We called, and wait for the answer until then.
    Connecting { until: Instant },
    /// A fault: the call leads nowhere, and fails then.
    Swallowed { until: Instant },
    /// Both directions are open.
    Open,
    /// A fault: what is written and read vanishes until then, when the connection breaks.
    Muted { until: Instant },
    /// The node is done with it: the queue is written out, then the end of the stream unless it
    /// has `ended` or is to end after the peer's, then we wait for the peer's end until then.
    /// Closing at once could destroy what is in flight.
    Draining { until: Instant, ended: bool },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: Option<TcpStream>,
    pub(crate) token: usize,
    pub(crate) phase: Phase,
    /// Which of our sockets it belongs to.
    #[allow(dead_code, reason = "shown by Debug, which is how connections are diagnosed")]
    pub(crate) port: Port,
    /// Where we called; `None`: the peer called us, from a port that says nothing.
    pub(crate) peer: Option<SocketAddr>,
    queue: VecDeque<Bytes>,
    queued: usize,
    writable: bool,
}

/// What a read brought.
pub(crate) enum Read {
    Bytes(Bytes),
    Nothing,
    End,
    Broken,
}

impl Conn {
    pub(crate) fn new(
        stream: Option<TcpStream>,
        token: usize,
        phase: Phase,
        port: Port,
        peer: Option<SocketAddr>,
    ) -> Self {
        let queue = VecDeque::new();
        Self { stream, token, phase, port, peer, queue, queued: 0, writable: true }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting { until }
            | Phase::Swallowed { until }
            | Phase::Muted { until }
            | Phase::Draining { until, .. } => Some(until),
            Phase::Open => None,
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() && !matches!(self.phase, Phase::Muted { .. }) {
            self.queued += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// Nothing of what waits is written any more.
    pub(crate) fn drop_queue(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    /// Whether the kernel takes bytes, as far as we know.
    pub(crate) fn set_writable(&mut self) {
        self.writable = true;
    }

    /// Whether something is left to write although no event is awaited.
    pub(crate) fn may_write(&self) -> bool {
        let open = matches!(self.phase, Phase::Open | Phase::Draining { .. });
        open && self.writable && !self.queue.is_empty()
    }

    /// Writes what the kernel takes. `Ok` tells how much.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let Some(stream) = self.stream.as_mut() else { return Ok(0) };
        match self.phase {
            Phase::Open | Phase::Draining { .. } => {}
            Phase::Connecting { .. } | Phase::Swallowed { .. } => return Ok(0),
            Phase::Muted { .. } => {
                self.drop_queue();
                return Ok(0);
            }
        }
        let mut written = 0;
        while self.writable && !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = self.queue.len().min(SLICES);
            for (slice, bytes) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(bytes);
            }
            match stream.write_vectored(&slices[..n]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    written += n;
                    self.queued -= n;
                    advance(&mut self.queue, n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The kernel is short of memory: as if it had no room; see `may_write`.
                Err(e) if e.raw_os_error() == Some(ENOBUFS) => return Ok(written),
                Err(e) => return Err(e),
            }
        }
        if let (Phase::Draining { ended, .. }, true) = (&mut self.phase, self.queue.is_empty())
            && !*ended
        {
            *ended = true;
            // If the peer is gone there is nobody to tell.
            let _ = stream.shutdown(Shutdown::Write);
        }
        Ok(written)
    }

    /// Reads one chunk.
    pub(crate) fn read(&mut self, chunk: &mut BytesMut) -> Read {
        let Some(stream) = self.stream.as_ref() else { return Read::Nothing };
        if chunk.capacity() - chunk.len() < READ_CHUNK / 4 {
            *chunk = BytesMut::with_capacity(READ_CHUNK);
        }
        match mmsg::read_stream(stream, chunk) {
            Ok(0) => Read::End,
            Ok(n) if n < COPY_BELOW => {
                let copy = Bytes::copy_from_slice(chunk);
                chunk.clear();
                Read::Bytes(copy)
            }
            Ok(_) => Read::Bytes(chunk.split().freeze()),
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock => Read::Nothing,
                ErrorKind::Interrupted => Read::Bytes(Bytes::new()),
                _ if e.raw_os_error() == Some(ENOBUFS) => Read::Bytes(Bytes::new()),
                _ => Read::Broken,
            },
        }
    }

    /// The answer to our call: `None` while there is none.
    pub(crate) fn connect_result(&self) -> Option<io::Result<()>> {
        let stream = self.stream.as_ref()?;
        match stream.take_error() {
            Ok(Some(e)) | Err(e) => return Some(Err(e)),
            Ok(None) => {}
        }
        match (stream.peer_addr(), stream.local_addr()) {
            // A call to a port from which nobody listens can meet itself.
            (Ok(peer), Ok(local)) if peer == local => {
                Some(Err(ErrorKind::ConnectionRefused.into()))
            }
            (Ok(_), _) => Some(Ok(())),
            (Err(e), _) if e.kind() == ErrorKind::NotConnected => None,
            (Err(e), _) if e.raw_os_error() == Some(EINPROGRESS) => None,
            (Err(e), _) => Some(Err(e)),
        }
    }
}

fn advance(queue: &mut VecDeque<Bytes>, mut n: usize) {
    while let Some(front) = queue.front_mut() {
        if n < front.len() {
            front.advance(n);
            return;
        }
        n -= front.len();
        queue.pop_front();
    }
}

#[cfg(target_os = "linux")]
const ENOBUFS: i32 = libc::ENOBUFS;
#[cfg(not(target_os = "linux"))]
const ENOBUFS: i32 = 55;
#[cfg(target_os = "linux")]
pub(crate) const EINPROGRESS: i32 = libc::EINPROGRESS;
#[cfg(not(target_os = "linux"))]
pub(crate) const EINPROGRESS: i32 = 36;
