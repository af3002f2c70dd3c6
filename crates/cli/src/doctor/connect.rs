//! Asking members over TCP: who listens at an address, and what they are.

use super::talk::{Heard, Voice};
use bytes::Bytes;
use rgroups_wire::tcp::{
    Handshake, StreamDecoder, StreamItem, encode_frame_length, encode_graceful_close,
};
use rgroups_wire::{Encode, IpAddress, ProtId, Version};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connecting within a network takes less; beyond it nobody would want a member.
const CONNECT: Duration = Duration::from_secs(1);
/// A frame of discovery is small.
const MAX_FRAME: usize = 1 << 20;

/// What is at an address.
#[derive(Debug)]
pub(crate) enum There {
    /// Nobody.
    Nobody,
    /// The connection was not made in time: a firewall, or no such host.
    Silent,
    /// A member; what it said.
    Member(Heard),
    /// It took the connection and closed it at our handshake, as members of other versions do.
    Closed,
    /// It took the connection and said nothing that we understand.
    Mute,
}

/// Asks every address at the same time.
pub(crate) fn ask(
    addresses: &[SocketAddr],
    own: IpAddr,
    cluster: &str,
    time: Duration,
) -> Vec<(SocketAddr, There)> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = addresses
            .iter()
            .map(|to| (*to, scope.spawn(move || one(*to, own, cluster, time))))
            .collect();
        asked.into_iter().map(|(to, t)| (to, t.join().unwrap_or(There::Mute))).collect()
    })
}

fn one(to: SocketAddr, own: IpAddr, cluster: &str, time: Duration) -> There {
    let mut stream = match TcpStream::connect_timeout(&to, CONNECT) {
        Ok(s) => s,
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => return There::Nobody,
        Err(_) => return There::Silent,
    };
    // Members answer on the connection of whoever asked; the address tells connections apart, and
    // nobody else has this port.
    let Ok(local) = stream.local_addr() else { return There::Mute };
    let physical = SocketAddr::new(own, local.port());
    let voice = Voice::new(physical, cluster, ProtId::TCPPING);
    let request = voice.request(Some(to));
    let handshake = Handshake { version: Version::OURS, peer: IpAddress::from(physical) };
    let mut bytes = handshake.to_bytes().to_vec();
    encode_frame_length(request.len(), &mut bytes);
    bytes.extend_from_slice(&request);
    if stream.write_all(&bytes).is_err() {
        return There::Closed;
    }
    let heard = answers(&mut stream, to, &voice, time);
    let mut goodbye = Vec::new();
    encode_graceful_close(&mut goodbye);
    // Whoever has closed already needs no announcement.
    let _ = stream.write_all(&goodbye);
    heard
}

fn answers(stream: &mut TcpStream, to: SocketAddr, voice: &Voice, time: Duration) -> There {
    let end = Instant::now() + time;
    let mut heard = Heard::default();
    let mut decoder = StreamDecoder::connector(MAX_FRAME);
    let mut buffer = vec![0; 65_536];
    let mut spoke = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) if !spoke => return There::Closed,
            Ok(0) => break,
            Ok(n) => decoder.push(Bytes::copy_from_slice(&buffer[..n])),
            Err(e) if e.kind() == ErrorKind::ConnectionReset && !spoke => return There::Closed,
            Err(_) => break,
        }
        loop {
            match decoder.next_item() {
                Ok(Some(StreamItem::Frame(frame))) => {
                    spoke = true;
                    heard.packet(to, frame, voice.identity);
                }
                Ok(Some(StreamItem::Handshake(_) | StreamItem::GracefulClose)) => spoke = true,
                Ok(None) => break,
                Err(_) => return There::Mute,
            }
        }
        if !heard.peers.is_empty() {
            break;
        }
    }
    if spoke { There::Member(heard) } else { There::Mute }
}
