//! Capture files made by hand, of raw IP packets.

use bytes::Bytes;
use rgroups_wire::header::{Rtt, TpHeader};
use rgroups_wire::tcp::{Handshake, encode_frame_length};
use rgroups_wire::{
    Address, Body, Encode, Frame, FrameBody, Header, IpAddress, Message, ProtId, Uuid, Version,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is removed at the end.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
}

impl File {
    pub(crate) fn of(content: &[u8]) -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rgroups-decode-{}-{n}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).expect("written");
        File { path }
    }

    /// A pcap file of raw IP packets.
    pub(crate) fn pcap(packets: impl IntoIterator<Item = Vec<u8>>) -> File {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 101] {
            file.extend(word.to_le_bytes());
        }
        for (i, p) in packets.into_iter().enumerate() {
            for word in [i as u32, 0, p.len() as u32, p.len() as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(p);
        }
        File::of(&file)
    }

    /// The same packets as pcapng, big-endian, with times in microseconds.
    pub(crate) fn pcapng_of(pcap: &[u8]) -> File {
        let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().expect("4 bytes"));
        let mut file = Vec::new();
        block(&mut file, 0x0a0d_0d0a, &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX], &[]);
        block(&mut file, 1, &[word(20) << 16, 0], &[]);
        let mut at = 24;
        while at < pcap.len() {
            let (secs, micros, length) = (word(at), word(at + 4), word(at + 8));
            let ticks = u64::from(secs) * 1_000_000 + u64::from(micros);
            let fields = [0, (ticks >> 32) as u32, ticks as u32, length, word(at + 12)];
            let data = &pcap[at + 16..at + 16 + length as usize];
            block(&mut file, 6, &fields, data);
            at += 16 + length as usize;
        }
        File::of(&file)
    }

    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("text")
    }

    pub(crate) fn length(&self) -> usize {
        std::fs::metadata(&self.path).expect("there").len() as usize
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        let content = std::fs::read(&self.path).expect("there");
        std::fs::write(&self.path, &content[..length]).expect("written");
    }

    /// As a capture with a limit for packets leaves it; the file has one packet.
    pub(crate) fn shorten_last_packet(&mut self, by: usize) {
        let mut content = std::fs::read(&self.path).expect("there");
        let kept = content.len() - 40 - by;
        content[32..36].copy_from_slice(&(kept as u32).to_le_bytes());
        content.truncate(40 + kept);
        std::fs::write(&self.path, content).expect("written");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn block(file: &mut Vec<u8>, kind: u32, fields: &[u32], data: &[u8]) {
    let padded = data.len().next_multiple_of(4);
    let length = (12 + 4 * fields.len() + padded) as u32;
    file.extend(kind.to_be_bytes());
    file.extend(length.to_be_bytes());
    fields.iter().for_each(|f| file.extend(f.to_be_bytes()));
    file.extend(data);
    file.resize(file.len() + padded - data.len(), 0);
    file.extend(length.to_be_bytes());
}

/// A packet with one multicast.
pub(crate) fn multicast(cluster: &str, payload: &[u8]) -> Vec<u8> {
    let cluster = Some(Bytes::copy_from_slice(cluster.as_bytes()));
    let message = Message {
        src: Some(Address::Uuid(Uuid::new(1, 2))),
        body: Body::Bytes(Some(Bytes::copy_from_slice(payload))),
        ..Message::default()
    };
    let message = message.with_header(ProtId::TP, Header::Tp(TpHeader { cluster, rtt: Rtt::None }));
    let body = FrameBody::Single(message);
    Frame { version: Version::OURS, multicast: true, body }.to_bytes().to_vec()
}

/// A packet with its length in front.
pub(crate) fn frame(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame_length(packet.len(), &mut bytes);
    bytes.extend(packet);
    bytes
}

/// A handshake and frames.
pub(crate) fn stream(packets: &[Vec<u8>]) -> Vec<u8> {
    let peer = IpAddress::from(SocketAddr::from(([10, 0, 0, 1], 7800)));
    let mut bytes = Handshake { version: Version::OURS, peer }.to_bytes().to_vec();
    packets.iter().for_each(|p| bytes.extend(frame(p)));
    bytes
}

/// A UDP header and its payload.
pub(crate) fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [from, to, 8 + payload.len() as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// An IPv4 packet from 10.0.0.1:1000.
pub(crate) fn datagram(to: &str, payload: &[u8]) -> Vec<u8> {
    let to: SocketAddr = to.parse().expect("an address");
    let SocketAddr::V4(to) = to else { panic!("IPv4") };
    ipv4(17, to.ip().octets(), &udp(1000, to.port(), payload))
}

/// A segment from 10.0.0.1:1000 to 10.0.0.2:2000. Flags: S, A, F.
pub(crate) fn segment(seq: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
    tcp(2000, seq, flags, payload)
}

pub(crate) fn tcp(to: u16, seq: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
    let flag = |name, bit| if flags.contains(name) { bit } else { 0 };
    let mut bytes = Vec::new();
    bytes.extend(1000_u16.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([5 << 4, flag('F', 1) | flag('S', 2) | flag('A', 16), 255, 255, 0, 0, 0, 0]);
    bytes.extend(payload);
    ipv4(6, [10, 0, 0, 2], &bytes)
}

fn ipv4(protocol: u8, to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1]);
    bytes.extend(to);
    bytes.extend(payload);
    bytes
}

/// A fragment of a UDP datagram between two IPv6 addresses.
pub(crate) fn fragment6(id: u32, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    assert_eq!(offset % 8, 0, "fragments begin at multiples of 8");
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((8 + data.len() as u16).to_be_bytes());
    bytes.extend([44, 64]);
    for last in [1, 2] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend([17, 0]);
    bytes.extend((offset | u16::from(more)).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend(data);
    bytes
}
