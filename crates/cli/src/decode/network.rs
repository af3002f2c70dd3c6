//! From captured bytes to datagrams and segments: link headers, IPv4 and IPv6, fragments put
//! together. What is no UDP or TCP is counted by its reason.

use super::capture::Captured;
use bytes::{Bytes, BytesMut};
use etherparse::{EtherType, IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket, TcpSlice};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ends {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

impl Ends {
    /// The other direction.
    pub(crate) fn back(self) -> Ends {
        Ends { from: self.to, to: self.from }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.from, self.to)
    }
}

/// What one packet brought.
#[derive(Debug)]
pub(crate) enum Arrived {
    Datagram {
        ends: Ends,
        payload: Bytes,
    },
    Segment {
        ends: Ends,
        segment: Segment,
    },
    /// A fragment; the others are not there yet.
    Part,
    /// Nothing that can be looked into, and why.
    Nothing(String),
}

/// A TCP segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) fin: bool,
    pub(crate) payload: Bytes,
    /// Bytes of the payload that the capture did not keep.
    pub(crate) cut: usize,
}

/// Whose fragment: addresses, protocol, identification.
type FragmentKey = (IpAddr, IpAddr, u8, u32);

#[derive(Debug, Default)]
struct Parts {
    /// By offset.
    parts: BTreeMap<usize, Bytes>,
    /// Known when the last one is there.
    total: Option<usize>,
}

/// Puts fragments together.
#[derive(Debug, Default)]
pub(crate) struct Network {
    fragments: BTreeMap<FragmentKey, Parts>,
}

/// As many datagrams may wait for fragments; beyond it the capture is one of losses, and the
/// waiting ones are given up.
const MAX_WAITING: usize = 4096;

impl Network {
    /// Looks into one captured packet.
    pub(crate) fn packet(&mut self, c: &Captured<'_>) -> Arrived {
        let cut = c.original.saturating_sub(c.data.len());
        let sliced = match link(c.link, c.data) {
            Ok(s) => s,
            Err(why) => return Arrived::Nothing(why),
        };
        let (src, dst, fragment, payload) = match &sliced.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let h = ip.header();
                let offset = usize::from(h.fragments_offset().value()) * 8;
                let id = u32::from(h.identification());
                let fragment =
                    ip.is_payload_fragmented().then_some((id, offset, h.more_fragments()));
                let (src, dst) = (h.source_addr().into(), h.destination_addr().into());
                (src, dst, fragment, ip.payload())
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let h = ip.header();
                let fragment = ip.extensions().clone().into_iter().find_map(|e| match e {
                    Ipv6ExtensionSlice::Fragment(f) if f.is_fragmenting_payload() => {
                        let offset = usize::from(f.fragment_offset().value()) * 8;
                        Some((f.identification(), offset, f.more_fragments()))
                    }
                    _ => None,
                });
                let (src, dst) = (h.source_addr().into(), h.destination_addr().into());
                (src, dst, fragment, ip.payload())
            }
            Some(LaxNetSlice::Arp(_)) => return Arrived::Nothing("ARP".into()),
            None => return Arrived::Nothing("no IP".into()),
        };
        let ip_number = payload.ip_number;
        let bytes = Bytes::copy_from_slice(payload.payload);
        let whole = match fragment {
            None => bytes,
            Some(_) if cut > 0 => {
                return Arrived::Nothing(format!(
                    "a fragment of which {cut} bytes were not captured"
                ));
            }
            Some((id, offset, more)) => {
                match self.part((src, dst, ip_number.0, id), offset, more, bytes) {
                    Some(whole) => whole,
                    None => return Arrived::Part,
                }
            }
        };
        transport(src, dst, ip_number, whole, cut)
    }

    fn part(&mut self, key: FragmentKey, at: usize, more: bool, bytes: Bytes) -> Option<Bytes> {
        if self.fragments.len() >= MAX_WAITING && !self.fragments.contains_key(&key) {
            self.fragments.pop_first();
        }
        let waiting = self.fragments.entry(key).or_default();
        if !more {
            waiting.total = Some(at + bytes.len());
        }
        waiting.parts.insert(at, bytes);
        let mut whole = BytesMut::new();
        for (offset, part) in &waiting.parts {
            // A part that was sent twice may overlap; a hole is one that has not come.
            let seen = whole.len().checked_sub(*offset)?;
            whole.extend_from_slice(part.get(seen..).unwrap_or_default());
        }
        if waiting.total != Some(whole.len()) {
            return None;
        }
        self.fragments.remove(&key);
        Some(whole.freeze())
    }

    /// Datagrams of which fragments are missing: from, to, how many bytes are there.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = (IpAddr, IpAddr, usize)> {
        let size = |p: &Parts| p.parts.values().map(Bytes::len).sum();
        self.fragments.iter().map(move |((src, dst, ..), p)| (*src, *dst, size(p)))
    }
}

/// Takes the link header away.
fn link(link: i32, data: &[u8]) -> Result<LaxSlicedPacket<'_>, String> {
    const NULL: i32 = 0;
    const ETHERNET: i32 = 1;
    const RAW: [i32; 5] = [12, 14, 101, 228, 229];
    const LOOP: i32 = 108;
    const COOKED: i32 = 113;
    const COOKED2: i32 = 276;
    let ether_type = |at: usize, header: usize| {
        let number = data.get(at..at + 2).ok_or("shorter than its link header")?;
        let number = u16::from_be_bytes([number[0], number[1]]);
        Ok(LaxSlicedPacket::from_ether_type(EtherType(number), data.get(header..).unwrap_or(&[])))
    };
    let ip = |at: usize| {
        let data = data.get(at..).ok_or("shorter than its link header")?;
        LaxSlicedPacket::from_ip(data).map_err(|e| format!("no IP: {e}"))
    };
    match link {
        ETHERNET => LaxSlicedPacket::from_ethernet(data).map_err(|e| format!("no Ethernet: {e}")),
        NULL | LOOP => ip(4),
        COOKED => ether_type(14, 16),
        COOKED2 => ether_type(0, 20),
        n if RAW.contains(&n) => ip(0),
        n => Err(format!("link type {n} is not known here")),
    }
}

fn transport(src: IpAddr, dst: IpAddr, number: IpNumber, data: Bytes, cut: usize) -> Arrived {
    let ends = |from: u16, to: u16| Ends {
        from: SocketAddr::new(src, from),
        to: SocketAddr::new(dst, to),
    };
    match number {
        IpNumber::UDP => {
            const HEADER: usize = 8;
            if data.len() < HEADER {
                return Arrived::Nothing("UDP shorter than its header".into());
            }
            let word = |at| u16::from_be_bytes([data[at], data[at + 1]]);
            let ends = ends(word(0), word(2));
            if cut > 0 {
                return Arrived::Nothing(format!(
                    "udp {ends}: {cut} bytes of the datagram were not captured"
                ));
            }
            // Zero stands for a length that is beyond the field.
            let length = match usize::from(word(4)) {
                n if n >= HEADER => n.min(data.len()),
                _ => data.len(),
            };
            Arrived::Datagram { ends, payload: data.slice(HEADER..length) }
        }
        IpNumber::TCP => match TcpSlice::from_slice(&data) {
            Ok(tcp) => {
                let ends = ends(tcp.source_port(), tcp.destination_port());
                let payload = data.slice(tcp.header_slice().len()..);
                let (seq, syn, ack, fin) = (tcp.sequence_number(), tcp.syn(), tcp.ack(), tcp.fin());
                Arrived::Segment { ends, segment: Segment { seq, syn, ack, fin, payload, cut } }
            }
            Err(e) => Arrived::Nothing(format!("no TCP: {e}")),
        },
        other => Arrived::Nothing(match other.keyword_str() {
            Some(name) => format!("{name} over IP"),
            None => format!("protocol {} over IP", other.0),
        }),
    }
}
