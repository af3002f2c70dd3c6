//! TCP connections: segments put in order, each direction cut into what it says.
//!
//! A direction whose beginning was not captured, or of which segments are missing, is taken up
//! again at the next segment that begins with a frame. The bytes in between are counted.

use super::network::{Ends, Segment};
use super::speech::{self, Said};
use bytes::{Bytes, BytesMut};
use rgroups_wire::tcp::{COOKIE, StreamDecoder, StreamItem};
use std::collections::HashMap;

/// A frame larger than this in a capture is garbage rather than a packet.
pub(crate) const MAX_FRAME: usize = 1 << 30;
/// Bytes of one direction that may wait for an earlier segment. JGroups' windows are smaller; a
/// segment that has not come by then was not captured.
const MAX_WAITING: usize = 16 << 20;
/// The longest text of the diagnostics port that is looked at.
const MAX_TEXT: usize = 1 << 20;

/// All connections of a capture.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    directions: HashMap<Ends, Direction>,
}

/// Bytes of a stream that say nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) bytes: usize,
    pub(crate) why: &'static str,
}

/// What one segment brought.
pub(crate) type Heard = Vec<Result<Said, Unread>>;

#[derive(Debug)]
struct Direction {
    /// The number of the next byte.
    next: u32,
    /// Segments behind a hole.
    waiting: Vec<(u32, Bytes)>,
    reader: Reader,
}

/// What is known about the language of a direction.
#[derive(Debug)]
enum Reader {
    /// The side that connected, before its first byte.
    Connecting,
    /// The side that was connected to, before its first byte.
    Accepting,
    /// In the middle of something: waits for the start of a frame.
    Lost { why: &'static str },
    /// Handshake and frames.
    Frames(StreamDecoder),
    /// The diagnostics port: words until the stream ends.
    Text(BytesMut),
    /// Something else.
    Foreign(&'static str),
}

impl Streams {
    /// Takes a segment.
    pub(crate) fn segment(&mut self, ends: Ends, s: Segment) -> Heard {
        let mut heard = Heard::new();
        let first = s.seq.wrapping_add(u32::from(s.syn));
        if s.syn {
            let known = self.directions.get(&ends).is_some_and(|d| d.starts_at(first));
            if !known {
                for old in [Some(ends), (!s.ack).then(|| ends.back())].into_iter().flatten() {
                    if let Some(mut d) = self.directions.remove(&old) {
                        d.finish(&mut heard);
                    }
                }
                let reader = if s.ack { Reader::Accepting } else { Reader::Connecting };
                self.directions.insert(ends, Direction { next: first, waiting: vec![], reader });
            }
        }
        let other = self.directions.get(&ends.back());
        let answers_frames = other.is_some_and(|d| matches!(d.reader, Reader::Frames(_)));
        let d = self.directions.entry(ends).or_insert_with(|| {
            let reader = Reader::Lost { why: "its beginning is not in the capture" };
            Direction { next: first, waiting: Vec::new(), reader }
        });
        if matches!(d.reader, Reader::Accepting) && answers_frames {
            d.reader = Reader::Frames(StreamDecoder::connector(MAX_FRAME));
        }
        d.take(first, s.payload, &mut heard);
        if s.cut > 0 {
            heard.push(Err(Unread { bytes: s.cut, why: "not captured" }));
        }
        if s.fin {
            d.end_of_text(&mut heard);
        }
        heard
    }

    /// The capture has ended: what is left of every direction.
    pub(crate) fn finish(self) -> Vec<(Ends, Heard)> {
        let mut left: Vec<(Ends, Heard)> = Vec::new();
        for (ends, mut d) in self.directions {
            let mut heard = Heard::new();
            d.finish(&mut heard);
            left.push((ends, heard));
        }
        left.sort_by_key(|(ends, _)| *ends);
        left
    }
}

impl Direction {
    /// Whether a SYN is a repetition of the one that began this.
    fn starts_at(&self, first: u32) -> bool {
        let fresh = matches!(self.reader, Reader::Connecting | Reader::Accepting);
        fresh && self.next == first
    }

    fn take(&mut self, seq: u32, bytes: Bytes, heard: &mut Heard) {
        if bytes.is_empty() {
            return;
        }
        self.waiting.push((seq, bytes));
        self.drain(heard);
        if self.waiting.iter().map(|(_, b)| b.len()).sum::<usize>() > MAX_WAITING {
            self.skip_hole(heard);
        }
    }

    /// Reads what follows without a hole.
    fn drain(&mut self, heard: &mut Heard) {
        let next = self.next;
        // Sequence numbers wrap: the order is that of the distance.
        self.waiting.sort_by_key(|(seq, _)| seq.wrapping_sub(next) as i32);
        let mut later = Vec::new();
        for (seq, bytes) in std::mem::take(&mut self.waiting) {
            let ahead = seq.wrapping_sub(self.next) as i32;
            if ahead > 0 {
                later.push((seq, bytes));
                continue;
            }
            // A repeated segment: only what is new counts.
            let seen = ahead.unsigned_abs() as usize;
            if seen < bytes.len() {
                let new = bytes.slice(seen..);
                self.next = self.next.wrapping_add(new.len() as u32);
                self.reader.read(new, heard);
            }
        }
        self.waiting = later;
    }

    /// Gives up a segment that does not come.
    fn skip_hole(&mut self, heard: &mut Heard) {
        let Some((seq, _)) = self.waiting.first() else { return };
        let hole = seq.wrapping_sub(self.next) as usize;
        self.next = *seq;
        self.reader.lose(hole, heard);
        self.drain(heard);
    }

    fn end_of_text(&mut self, heard: &mut Heard) {
        if self.waiting.is_empty() {
            self.reader.end_of_text(heard);
        }
    }

    fn finish(&mut self, heard: &mut Heard) {
        while !self.waiting.is_empty() {
            self.skip_hole(heard);
        }
        self.reader.end_of_text(heard);
        if let Reader::Frames(d) = &self.reader
            && d.buffered() > 0
        {
            heard.push(Err(Unread { bytes: d.buffered(), why: "an unfinished frame" }));
        }
    }
}

impl Reader {
    fn read(&mut self, bytes: Bytes, heard: &mut Heard) {
        match self {
            Reader::Connecting | Reader::Accepting => {
                let opened = matches!(self, Reader::Connecting);
                *self = Self::begin(opened, &bytes);
                self.read(bytes, heard);
            }
            Reader::Lost { why } => {
                if bytes.starts_with(COOKIE) || speech::starts_a_frame(&bytes) {
                    *self = Self::begin(true, &bytes);
                    self.read(bytes, heard);
                } else {
                    heard.push(Err(Unread { bytes: bytes.len(), why }));
                }
            }
            Reader::Frames(decoder) => {
                decoder.push(bytes);
                if let Some(lost) = items(decoder, heard) {
                    *self = lost;
                }
            }
            Reader::Text(text) if text.len() + bytes.len() <= MAX_TEXT => {
                text.extend_from_slice(&bytes);
                // A request ends with its line.
                if let Some(end) = text.iter().position(|b| *b == b'\n')
                    && !text[..end].windows(4).any(|w| w == b"[ip=" || w == b"(ip=")
                    && let Some(said) = speech::probe_request(&text[..end])
                {
                    heard.push(Ok(said));
                    *self = Reader::Foreign("after a request to the diagnostics port");
                }
            }
            Reader::Text(text) => {
                heard.push(Err(Unread { bytes: text.len() + bytes.len(), why: "text" }));
                *self = Reader::Foreign("text");
            }
            Reader::Foreign(why) => heard.push(Err(Unread { bytes: bytes.len(), why })),
        }
    }

    fn begin(opened: bool, first: &[u8]) -> Reader {
        let printable = |b: &u8| (b' '..=b'~').contains(b) || matches!(b, b'\r' | b'\n' | b'\t');
        let cookie = COOKIE.iter().zip(first).all(|(a, b)| a == b);
        if opened && cookie {
            Reader::Frames(StreamDecoder::acceptor(MAX_FRAME))
        } else if speech::starts_a_frame(first) {
            Reader::Frames(StreamDecoder::connector(MAX_FRAME))
        } else if first.iter().all(printable) {
            Reader::Text(BytesMut::new())
        } else {
            Reader::Foreign("no handshake of JGroups")
        }
    }

    fn lose(&mut self, hole: usize, heard: &mut Heard) {
        let why = "missing in the capture";
        heard.push(Err(Unread { bytes: hole, why }));
        match self {
            Reader::Frames(d) => {
                if d.buffered() > 0 {
                    let why = "the start of a frame whose rest is missing";
                    heard.push(Err(Unread { bytes: d.buffered(), why }));
                }
                *self = Reader::Lost { why: "behind missing bytes" };
            }
            Reader::Connecting | Reader::Accepting => {
                *self = Reader::Lost { why: "behind missing bytes" };
            }
            Reader::Lost { .. } | Reader::Text(_) | Reader::Foreign(_) => {}
        }
    }

    fn end_of_text(&mut self, heard: &mut Heard) {
        let Reader::Text(text) = self else { return };
        match speech::probe_response(text) {
            Some(t) => heard.push(Ok(Said::ProbeResponse(t))),
            None => heard.push(Err(Unread { bytes: text.len(), why: "text" })),
        }
        *self = Reader::Foreign("after the end of the stream");
    }
}

/// Everything that is complete. Some reader if the stream cannot be read on with this one.
fn items(decoder: &mut StreamDecoder, heard: &mut Heard) -> Option<Reader> {
    loop {
        match decoder.next_item() {
            Ok(Some(StreamItem::Handshake(h))) => heard.push(Ok(Said::Handshake(h))),
            Ok(Some(StreamItem::Frame(b))) => heard.push(Ok(speech::frame(&b))),
            Ok(Some(StreamItem::GracefulClose)) => {
                heard.push(Ok(Said::GracefulClose));
                return Some(Reader::Foreign("after the graceful close"));
            }
            Ok(None) => return None,
            Err(e) => {
                heard.push(Ok(Said::Undecodable(e.to_string())));
                return Some(Reader::Lost { why: "behind bytes that could not be decoded" });
            }
        }
    }
}
