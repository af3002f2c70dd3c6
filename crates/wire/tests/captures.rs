//! Live traffic of Java members: every packet decodes and encodes to the bytes that were sent.
#![allow(clippy::unwrap_used, reason = "the captures are part of the test")]

#[path = "common/net.rs"]
mod net;

use bytes::Bytes;
use net::{Capture, Datagram, Stream};
use rgroups_wire::tcp::{FdSock2Frame, Handshake, StreamDecoder, StreamItem};
use rgroups_wire::{Decode, DecodeErrorKind, Encode, Frame};

/// Everything of one capture.
#[derive(Default, Debug, PartialEq)]
struct Tally {
    datagrams: usize,
    packets_in_streams: usize,
    fd_sock2_frames: usize,
    handshakes: usize,
    graceful_closes: usize,
    /// Packets that encoded to the bytes that were sent.
    reencoded: usize,
    /// Packets that the test does not read, and why.
    skipped: Vec<String>,
    failures: Vec<String>,
}

/// The captures, and what they hold. Streams of the GossipRouter (no handshake, another framing of
/// what is inside) are counted as skipped.
const CAPTURES: &[(&str, &[u8])] = &[
    ("tcp3-join-leave", include_bytes!("../testdata/captures/tcp3-join-leave.pcap")),
    ("tcp3-crash", include_bytes!("../testdata/captures/tcp3-crash.pcap")),
    ("udp3-join-leave", include_bytes!("../testdata/captures/udp3-join-leave.pcap")),
    ("udp2-merge", include_bytes!("../testdata/captures/udp2-merge.pcap")),
    (
        "udp2-loss-flowcontrol-stable",
        include_bytes!("../testdata/captures/udp2-loss-flowcontrol-stable.pcap"),
    ),
    (
        "udp3-rsvp-frag-coordleave",
        include_bytes!("../testdata/captures/udp3-rsvp-frag-coordleave.pcap"),
    ),
    ("tcp2-rpc", include_bytes!("../testdata/captures/tcp2-rpc.pcap")),
    (
        "tcpnew3-nakack4-unicast4",
        include_bytes!("../testdata/captures/tcpnew3-nakack4-unicast4.pcap"),
    ),
    ("tunnel2-gossiprouter", include_bytes!("../testdata/captures/tunnel2-gossiprouter.pcap")),
    ("udp2-asymencrypt-auth", include_bytes!("../testdata/captures/udp2-asymencrypt-auth.pcap")),
    ("udp2-replicatedhashmap", include_bytes!("../testdata/captures/udp2-replicatedhashmap.pcap")),
    ("udp3-relay3", include_bytes!("../testdata/captures/udp3-relay3.pcap")),
    ("udp3-sequencer-state", include_bytes!("../testdata/captures/udp3-sequencer-state.pcap")),
];

const MAX_FRAME: usize = 1 << 20;

#[test]
fn captured_packets_decode_and_encode_to_the_same_bytes() {
    let mut total = Tally::default();
    for (name, pcap) in CAPTURES {
        let tally = read(&Capture::parse(pcap));
        println!("{name}: {tally:?}");
        total.datagrams += tally.datagrams;
        total.packets_in_streams += tally.packets_in_streams;
        total.fd_sock2_frames += tally.fd_sock2_frames;
        total.handshakes += tally.handshakes;
        total.graceful_closes += tally.graceful_closes;
        total.reencoded += tally.reencoded;
        total.skipped.extend(tally.skipped);
        total.failures.extend(tally.failures.into_iter().map(|f| format!("{name}: {f}")));
    }
    println!("in all: {total:?}");
    assert!(total.failures.is_empty(), "\n{}", total.failures.join("\n"));
    assert_eq!(
        total.reencoded,
        total.datagrams + total.packets_in_streams + total.fd_sock2_frames + total.handshakes
    );
    assert!(total.datagrams > 400 && total.packets_in_streams > 100, "{total:?}");
}

fn read(capture: &Capture) -> Tally {
    let mut tally = Tally::default();
    for datagram in &capture.datagrams {
        read_datagram(datagram, &mut tally);
    }
    for connection in &capture.connections {
        read_connection(connection, &mut tally);
    }
    tally
}

fn read_datagram(datagram: &Datagram, tally: &mut Tally) {
    if same_bytes::<FrameOf>(&datagram.payload, &datagram.name, tally) {
        tally.datagrams += 1;
    }
}

/// Both directions of a connection. The side that connected starts with a handshake; whether the
/// frames are packets or those of FD_SOCK2 shows in the first one.
fn read_connection([there, back]: &[Stream; 2], tally: &mut Tally) {
    if there.bytes.is_empty() && back.bytes.is_empty() {
        return;
    }
    if !there.bytes.starts_with(b"bela") {
        let why = match (there.gaps, there.bytes.is_empty()) {
            (true, _) => "bytes are missing in the capture",
            (false, true) => "only answers",
            (false, false) => "no handshake: GossipRouter",
        };
        tally.skipped.push(format!("{} ({} bytes): {why}", there.name, there.bytes.len()));
        return;
    }
    read_stream(there, StreamDecoder::acceptor(MAX_FRAME), tally);
    read_stream(back, StreamDecoder::connector(MAX_FRAME), tally);
}

fn read_stream(stream: &Stream, mut decoder: StreamDecoder, tally: &mut Tally) {
    for segment in stream.bytes.chunks(1000) {
        decoder.push(Bytes::copy_from_slice(segment));
    }
    loop {
        match decoder.next_item() {
            Ok(Some(StreamItem::Handshake(h))) => {
                tally.handshakes += 1;
                let bytes = stream.bytes.slice(..h.encoded_len());
                same_bytes::<Handshake>(&bytes, &stream.name, tally);
            }
            Ok(Some(StreamItem::Frame(frame))) => {
                // A packet starts with a version; a bare message with a leading byte below 4.
                if frame[0] < 4 {
                    tally.fd_sock2_frames += 1;
                    same_bytes::<FdSock2Frame>(&frame, &stream.name, tally);
                } else {
                    tally.packets_in_streams += 1;
                    same_bytes::<FrameOf>(&frame, &stream.name, tally);
                }
            }
            Ok(Some(StreamItem::GracefulClose)) => tally.graceful_closes += 1,
            Ok(None) => break,
            Err(e) => {
                tally.failures.push(format!("{}: {e}", stream.name));
                break;
            }
        }
    }
    if decoder.buffered() > 0 {
        let rest = format!("{}: {} bytes of an unfinished frame", stream.name, decoder.buffered());
        if stream.gaps { tally.skipped.push(rest) } else { tally.failures.push(rest) }
    }
}

/// A packet as a type with the trait of the others.
struct FrameOf(Frame);

impl Decode for FrameOf {
    fn decode(r: &mut rgroups_wire::Reader) -> rgroups_wire::Decoded<Self> {
        Frame::decode(r.rest()).map(FrameOf)
    }
}

impl Encode for FrameOf {
    fn encode(&self, w: &mut impl rgroups_wire::Writer) {
        self.0.encode(w);
        assert!(!rgroups_wire::show_frame(&self.0).is_empty());
    }
}

/// Decodes and encodes again. False if it is a packet of something that this crate does not know.
fn same_bytes<T: Decode + Encode>(bytes: &Bytes, name: &str, tally: &mut Tally) -> bool {
    match T::from_bytes(bytes.clone()) {
        Ok(value) if value.to_bytes() == bytes => tally.reencoded += 1,
        Ok(_) => tally.failures.push(format!("{name}: {} bytes changed", bytes.len())),
        Err(e) if matches!(e.kind, DecodeErrorKind::UnknownHeader(_)) => {
            tally.skipped.push(format!("{name}: {e}"));
            return false;
        }
        Err(e) => tally.failures.push(format!("{name}: {e}")),
    }
    true
}
