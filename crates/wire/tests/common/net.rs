//! A small reader of pcap files: IPv4 with fragments, UDP, TCP streams put together.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// What a capture holds.
pub(crate) struct Capture {
    /// UDP payloads in the order of their completion.
    pub(crate) datagrams: Vec<Datagram>,
    /// The two directions of every TCP connection, that of the side which connected first.
    pub(crate) connections: Vec<[Stream; 2]>,
}

/// One UDP payload.
pub(crate) struct Datagram {
    pub(crate) name: String,
    pub(crate) payload: Bytes,
}

/// One direction of a TCP connection.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    /// Some bytes are not in the capture; `bytes` ends before them.
    pub(crate) gaps: bool,
}

const LINK_ETHERNET: u32 = 1;
const LINK_RAW: u32 = 101;
const LINK_COOKED: u32 = 113;
const LINK_COOKED2: u32 = 276;

/// Offset, whether more follow, and the bytes.
type Fragment = (usize, bool, Bytes);

/// Source and destination.
type Ends = (Ipv4Addr, u16, Ipv4Addr, u16);

/// Segments of one direction: those with a SYN start a connection.
#[derive(Default)]
struct Segments {
    first_seq: Option<u32>,
    opened_here: bool,
    /// Payload by offset from the first byte.
    data: BTreeMap<u32, Bytes>,
}

#[derive(Default)]
struct Assembler {
    fragments: BTreeMap<(Ipv4Addr, Ipv4Addr, u8, u16), Vec<Fragment>>,
    datagrams: Vec<Datagram>,
    /// Finished and open directions; a new SYN on the same ends starts a new one.
    directions: Vec<(Ends, Segments)>,
}

impl Capture {
    /// Reads a little-endian pcap file.
    pub(crate) fn parse(file: &[u8]) -> Capture {
        let file = Bytes::copy_from_slice(file);
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        assert!(matches!(word(0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "not a little-endian pcap file");
        let link_header = match word(20) {
            LINK_ETHERNET => 14,
            LINK_RAW => 0,
            LINK_COOKED => 16,
            LINK_COOKED2 => 20,
            link => panic!("link type {link}"),
        };
        let mut assembler = Assembler::default();
        let mut at = 24;
        while at + 16 <= file.len() {
            let captured = word(at + 8) as usize;
            assert_eq!(captured, word(at + 12) as usize, "packets are captured whole");
            assembler.ip(file.slice(at + 16 + link_header..at + 16 + captured));
            at += 16 + captured;
        }
        assembler.finish()
    }
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from(be16(b, at)) << 16 | u32::from(be16(b, at + 2))
}

impl Assembler {
    fn ip(&mut self, packet: Bytes) {
        if packet.is_empty() || packet[0] >> 4 != 4 {
            return;
        }
        let header = usize::from(packet[0] & 15) * 4;
        let total = usize::from(be16(&packet, 2));
        let (id, fragment) = (be16(&packet, 4), be16(&packet, 6));
        let (more, offset) = (fragment & 0x2000 != 0, usize::from(fragment & 0x1fff) * 8);
        let addr = |at| Ipv4Addr::from(be32(&packet, at));
        let (protocol, src, dst) = (packet[9], addr(12), addr(16));
        let payload = packet.slice(header..total);
        if !more && offset == 0 {
            return self.transport(protocol, src, dst, payload);
        }
        let key = (src, dst, protocol, id);
        let parts = self.fragments.entry(key).or_default();
        parts.push((offset, more, payload));
        if let Some(whole) = whole(parts) {
            self.fragments.remove(&key);
            self.transport(protocol, src, dst, whole);
        }
    }

    fn transport(&mut self, protocol: u8, src: Ipv4Addr, dst: Ipv4Addr, data: Bytes) {
        let ends = (src, be16(&data, 0), dst, be16(&data, 2));
        match protocol {
            17 => {
                let name = format!("udp {src}:{} > {dst}:{}", ends.1, ends.3);
                self.datagrams.push(Datagram { name, payload: data.slice(8..) });
            }
            6 => self.tcp(ends, &data),
            _ => {}
        }
    }

    fn tcp(&mut self, ends: Ends, segment: &Bytes) {
        let seq = be32(segment, 4);
        let header = usize::from(segment[12] >> 4) * 4;
        let (syn, ack) = (segment[13] & 2 != 0, segment[13] & 16 != 0);
        let payload = segment.slice(header..);
        let known = self.directions.iter().rposition(|(e, _)| *e == ends);
        let repeated =
            known.is_some_and(|i| self.directions[i].1.first_seq == Some(seq.wrapping_add(1)));
        let i = match known {
            Some(i) if !syn || repeated => i,
            _ => {
                self.directions.push((ends, Segments::default()));
                self.directions.len() - 1
            }
        };
        let direction = &mut self.directions[i].1;
        if syn {
            direction.first_seq = Some(seq.wrapping_add(1));
            direction.opened_here = !ack;
            return;
        }
        let first = *direction.first_seq.get_or_insert(seq);
        if !payload.is_empty() {
            direction.data.insert(seq.wrapping_sub(first), payload);
        }
    }

    /// Pairs the directions of each connection, in the order in which they appeared.
    fn finish(self) -> Capture {
        let mut unpaired: Vec<(Ends, bool, Stream)> = Vec::new();
        let mut connections = Vec::new();
        for (ends, segments) in self.directions {
            let opened_here = segments.opened_here;
            let stream = segments.stream(ends);
            let other = (ends.2, ends.3, ends.0, ends.1);
            match unpaired.iter().position(|(e, opened, _)| *e == other && *opened != opened_here) {
                Some(i) => {
                    let (_, _, partner) = unpaired.remove(i);
                    connections.push(match opened_here {
                        true => [stream, partner],
                        false => [partner, stream],
                    });
                }
                None => unpaired.push((ends, opened_here, stream)),
            }
        }
        for (_, opened_here, stream) in unpaired {
            connections.push(match opened_here {
                true => [stream, Stream::default()],
                false => [Stream::default(), stream],
            });
        }
        Capture { datagrams: self.datagrams, connections }
    }
}

impl Segments {
    fn stream(self, (src, src_port, dst, dst_port): Ends) -> Stream {
        let mut bytes = BytesMut::new();
        let mut gaps = false;
        for (at, data) in self.data {
            match (bytes.len() as u32).checked_sub(at) {
                // A repeated segment: only what is new counts.
                Some(seen) => bytes.extend_from_slice(data.get(seen as usize..).unwrap_or(&[])),
                None => {
                    gaps = true;
                    break;
                }
            }
        }
        let name = format!("tcp {src}:{src_port} > {dst}:{dst_port}");
        Stream { name, bytes: bytes.freeze(), gaps }
    }
}

/// The payload that the fragments make up, once all are there.
fn whole(parts: &mut [Fragment]) -> Option<Bytes> {
    parts.sort_by_key(|(offset, _, _)| *offset);
    let mut whole = BytesMut::new();
    for (offset, _, data) in parts.iter() {
        if *offset != whole.len() {
            return None;
        }
        whole.extend_from_slice(data);
    }
    parts.last().filter(|(_, more, _)| !more).map(|_| whole.freeze())
}
