//! TCP streams (WIRE §5.3): the handshake, length-prefixed frames, the mark of a graceful close;
//! and what the frames of FD_SOCK2's connections hold (§12.1).
//!
//! A [`StreamDecoder`] cuts one direction of a connection into its parts as bytes arrive. It never
//! allocates more than has arrived, and a frame that lies within one chunk is a slice of it. What
//! is wrong is an error at the first byte that shows it; the connection is then good for nothing
//! but closing.

use crate::error::{DecodeError, DecodeErrorKind};
use crate::header::FdSock2Header;
use crate::{
    Address, Body, Decode, Decoded, Encode, Header, IpAddress, Message, ProtId, Reader, Version,
    Writer,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use bytes::{Bytes, BytesMut};

/// The first bytes of a connection.
pub const COOKIE: &[u8; 4] = b"bela";

/// In the place of a length: the peer closes the connection on purpose.
pub const GRACEFUL_CLOSE: i32 = -5;

/// Cookie, version, length of the address, and the first byte of the address, which gives its kind.
const HANDSHAKE_START: usize = 9;

/// What the connecting side sends first; nothing is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Its version.
    pub version: Version,
    /// The address of its own *server* socket: its physical address.
    pub peer: IpAddress,
}

/// Matches `TcpConnection.sendLocalAddress`.
///
/// | bytes | field |
/// |-------|-------|
/// | 4 | "bela" |
/// | 2 | version |
/// | 2 | length of the address: 7 for IPv4, 23 for IPv6 |
/// | 7, 23 | IpAddress body |
impl Encode for Handshake {
    fn encode(&self, w: &mut impl Writer) {
        w.put(COOKIE);
        self.version.encode(w);
        w.u16(self.peer.encoded_len() as u16);
        self.peer.encode(w);
    }
}

impl Decode for Handshake {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "handshake";
        let have = r.remaining().min(HANDSHAKE_START);
        let mut ahead = r.clone();
        check_handshake(ahead.take(have, WHAT)?)?;
        r.take(COOKIE.len(), WHAT)?;
        let version = Version::decode(r)?;
        let length = usize::from(r.u16(WHAT)?);
        let mut address = r.child(length, WHAT)?;
        let peer = IpAddress::decode(&mut address)?;
        address.finish(WHAT)?;
        Ok(Handshake { version, peer })
    }
}

/// Checks as much of a handshake as is there, and says how long it is once that is known.
fn check_handshake(start: &[u8]) -> Decoded<Option<usize>> {
    let fail = |kind, at| Err(DecodeError { what: "handshake", kind, at });
    if let Some(at) = start.iter().zip(COOKIE).position(|(a, b)| a != b) {
        return fail(DecodeErrorKind::BadTag(u32::from(start[at])), at);
    }
    if let Some(&[high, low]) = start.get(4..6) {
        let version = Version(u16::from_be_bytes([high, low]));
        if !version.compatible() {
            return fail(DecodeErrorKind::Version(version.0), 6);
        }
    }
    let length = start.get(6..8).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]));
    if let Some(length) = length
        && length != 7
        && length != 23
    {
        return fail(DecodeErrorKind::TooLong(length as u64), 8);
    }
    match (start.get(8), length) {
        (Some(4), Some(7)) | (Some(16), Some(23)) => Ok(length.map(|n| HANDSHAKE_START - 1 + n)),
        (Some(&n), _) => fail(DecodeErrorKind::BadTag(u32::from(n)), 9),
        (None, _) => Ok(None),
    }
}

/// Appends the length that precedes a frame of `length` bytes.
pub fn encode_frame_length(length: usize, w: &mut impl Writer) {
    w.i32(length as i32);
}

/// Appends the mark of a graceful close.
pub fn encode_graceful_close(w: &mut impl Writer) {
    w.i32(GRACEFUL_CLOSE);
}

/// One part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// Who connected; the first part at the accepting side.
    Handshake(Handshake),
    /// The content of a frame.
    Frame(Bytes),
    /// The peer closes on purpose. Nothing follows.
    GracefulClose,
}

/// Cuts one direction of a connection into its parts.
#[derive(Debug)]
pub struct StreamDecoder {
    /// Chunks of which nothing or a part was consumed.
    chunks: VecDeque<Bytes>,
    /// The beginning of a part that spans chunks.
    partial: BytesMut,
    state: State,
    max_frame: usize,
    /// Bytes consumed so far: where an error is.
    position: usize,
}

/// What comes next in the stream.
#[derive(Clone, Copy, Debug)]
enum State {
    Handshake,
    Length,
    Frame {
        length: usize,
    },
    /// After a graceful close. What still comes is dropped.
    Closed,
    Failed(DecodeError),
}

impl StreamDecoder {
    /// For a connection that was accepted: a handshake comes first. Frames above `max_frame` bytes
    /// are an error.
    #[must_use]
    pub fn acceptor(max_frame: usize) -> Self {
        Self::starting(State::Handshake, max_frame)
    }

    /// For the answers on a connection that was opened: frames from the first byte on.
    #[must_use]
    pub fn connector(max_frame: usize) -> Self {
        Self::starting(State::Length, max_frame)
    }

    fn starting(state: State, max_frame: usize) -> Self {
        let (chunks, partial) = (VecDeque::new(), BytesMut::new());
        Self { chunks, partial, state, max_frame, position: 0 }
    }

    /// Adds bytes that arrived. Call [`next_item`](Self::next_item) until it has no more before
    /// adding the next ones, or they pile up here.
    pub fn push(&mut self, chunk: Bytes) {
        match self.state {
            State::Closed | State::Failed(_) => {}
            State::Handshake | State::Length | State::Frame { .. } => {
                if !chunk.is_empty() {
                    self.chunks.push_back(chunk);
                }
            }
        }
    }

    /// How many bytes wait here for the rest of their part.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.partial.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }

    /// The next part, if all of it has arrived. An error stays: every further call repeats it.
    pub fn next_item(&mut self) -> Decoded<Option<StreamItem>> {
        let item = self.step();
        if let Err(e) = item {
            self.state = State::Failed(e);
            self.chunks.clear();
            self.partial = BytesMut::new();
        }
        item
    }

    fn step(&mut self) -> Decoded<Option<StreamItem>> {
        if let State::Handshake = self.state {
            return self.handshake();
        }
        if let State::Length = self.state {
            let Some(length) = self.take(4) else { return Ok(None) };
            let length = Reader::new(length).i32("frame length")?;
            if length == GRACEFUL_CLOSE {
                self.state = State::Closed;
                self.chunks.clear();
                return Ok(Some(StreamItem::GracefulClose));
            }
            self.state = State::Frame { length: self.checked_length(length)? };
        }
        match self.state {
            State::Frame { length } => {
                let Some(frame) = self.take(length) else { return Ok(None) };
                self.state = State::Length;
                Ok(Some(StreamItem::Frame(frame)))
            }
            State::Failed(e) => Err(e),
            State::Closed | State::Handshake | State::Length => Ok(None),
        }
    }

    fn checked_length(&self, length: i32) -> Decoded<usize> {
        let fail = |kind| Err(DecodeError { what: "frame length", kind, at: self.position });
        match usize::try_from(length) {
            Err(_) | Ok(0) => fail(DecodeErrorKind::BadValue),
            Ok(n) if n > self.max_frame => fail(DecodeErrorKind::TooLong(n as u64)),
            Ok(n) => Ok(n),
        }
    }

    /// Takes the start of the handshake byte by byte, so that a wrong one is refused at the first
    /// byte that shows it.
    fn handshake(&mut self) -> Decoded<Option<StreamItem>> {
        let length = loop {
            if let Some(length) = check_handshake(&self.partial)? {
                break length;
            }
            let seen = self.partial.len();
            if !self.fill(seen + 1) {
                return Ok(None);
            }
        };
        let Some(bytes) = self.take(length) else { return Ok(None) };
        self.state = State::Length;
        Ok(Some(StreamItem::Handshake(Handshake::from_bytes(bytes)?)))
    }

    /// The next `n` bytes if they have arrived: a slice of a chunk where they lie within one.
    fn take(&mut self, n: usize) -> Option<Bytes> {
        let bytes = match self.chunks.front_mut() {
            Some(chunk) if self.partial.is_empty() && chunk.len() >= n => chunk.split_to(n),
            _ => {
                if !self.fill(n) {
                    return None;
                }
                core::mem::take(&mut self.partial).freeze()
            }
        };
        if self.chunks.front().is_some_and(Bytes::is_empty) {
            self.chunks.pop_front();
        }
        self.position += n;
        Some(bytes)
    }

    /// Collects the beginning of the stream into `partial` until it has `n` bytes. Room is made for
    /// bytes that are here, never for a length that a peer merely announced.
    fn fill(&mut self, n: usize) -> bool {
        while self.partial.len() < n {
            let Some(mut chunk) = self.chunks.pop_front() else { return false };
            let rest = chunk.split_off(chunk.len().min(n - self.partial.len()));
            self.partial.extend_from_slice(&chunk);
            if !rest.is_empty() {
                self.chunks.push_front(rest);
            }
        }
        true
    }
}

/// The content of a frame on an FD_SOCK2 connection: an EmptyMessage with one header and a source,
/// written without version and type id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdSock2Frame {
    /// Who sends it.
    pub src: Option<Address>,
    /// What it says.
    pub header: FdSock2Header,
}

/// The type id that every frame of FD_SOCK2 has and none carries.
const EMPTY_MESSAGE: i16 = 2;

/// | bytes | field |
/// |-------|-------|
/// | message | without type id: source, header of FD_SOCK2, no payload |
impl Encode for FdSock2Frame {
    fn encode(&self, w: &mut impl Writer) {
        let message = Message { src: self.src.clone(), body: Body::Empty, ..Message::default() };
        message
            .with_header(ProtId::FD_SOCK2, Header::FdSock2(Box::new(self.header.clone())))
            .encode_untyped(w);
    }
}

impl Decode for FdSock2Frame {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let mut message = Message::decode_untyped(EMPTY_MESSAGE, r)?;
        match message.headers.remove(ProtId::FD_SOCK2) {
            Some(Header::FdSock2(header)) => Ok(Self { src: message.src, header: *header }),
            _ => Err(r.error("FD_SOCK2 frame", DecodeErrorKind::BadValue)),
        }
    }
}
