//! What bytes say: which of the forms of JGroups they are.

use bytes::Bytes;
use rgroups_wire::error::DecodeErrorKind;
use rgroups_wire::tcp::{FdSock2Frame, Handshake};
use rgroups_wire::{Body, Decode, DecodeError, Frame, Header, Message, ProtId, Version, mping};
use std::net::SocketAddr;

/// One thing that was said.
#[derive(Debug)]
pub(crate) enum Said {
    /// A packet: a datagram, or a frame of a stream.
    Packet(Frame),
    /// The first bytes of a TCP connection.
    Handshake(Handshake),
    /// The mark before a connection is closed on purpose.
    GracefulClose,
    /// FD_SOCK2, on a connection of its own.
    Monitor(FdSock2Frame),
    /// Discovery by MPING, on a group of its own.
    Mping(Message),
    /// A question to the diagnostics handlers.
    ProbeRequest { passcode: bool, text: String },
    /// The answer of one.
    ProbeResponse(String),
    /// It begins as JGroups does, and goes on otherwise.
    Undecodable(String),
}

/// The port that diagnostics handlers listen on.
const PROBE_PORT: u16 = 7500;
/// i64, f64, i32 and a SHA-1 digest, in front of a request with a passcode.
const PASSCODE_PREFIX: usize = 8 + 8 + 4 + 20;

/// A datagram. `None`: it is not JGroups.
pub(crate) fn datagram(to: Option<SocketAddr>, bytes: &Bytes) -> Option<Said> {
    match Frame::decode(bytes.clone()) {
        Ok(frame) => return Some(Said::Packet(frame)),
        Err(e) if matches!(e.kind, DecodeErrorKind::Version(_)) => {
            if let Some(frame) = other_version(bytes) {
                return Some(Said::Packet(frame));
            }
        }
        Err(e) if starts_a_packet(bytes) => return Some(Said::Undecodable(e.to_string())),
        Err(_) => {}
    }
    if let Ok(message) = mping::decode(bytes.clone())
        && matches!(message.headers.get(ProtId::MPING), Some(Header::Ping(_)))
    {
        return Some(Said::Mping(message));
    }
    if let Some(text) = probe_response(bytes) {
        return Some(Said::ProbeResponse(text));
    }
    to.filter(|to| to.port() == PROBE_PORT).and_then(|_| probe_request(bytes))
}

/// The content of a frame of a stream.
pub(crate) fn frame(bytes: &Bytes) -> Said {
    // A packet starts with a version, the message of FD_SOCK2 with a byte below 4.
    if bytes.first().is_some_and(|b| *b < 4)
        && let Ok(frame) = FdSock2Frame::from_bytes(bytes.clone())
    {
        return Said::Monitor(frame);
    }
    match Frame::decode(bytes.clone()) {
        Ok(frame) => Said::Packet(frame),
        Err(e) => match other_version(bytes) {
            Some(frame) => Said::Packet(frame),
            None => Said::Undecodable(e.to_string()),
        },
    }
}

/// Bytes without a context, given by hand: a packet or one of the smaller forms.
pub(crate) fn anything(bytes: &Bytes) -> Result<Said, DecodeError> {
    let error = match Frame::decode(bytes.clone()) {
        Ok(frame) => return Ok(Said::Packet(frame)),
        Err(e) => e,
    };
    if let Ok(frame) = FdSock2Frame::from_bytes(bytes.clone()) {
        return Ok(Said::Monitor(frame));
    }
    match datagram(None, bytes) {
        Some(Said::Undecodable(_)) | None => Err(error),
        Some(said) => Ok(said),
    }
}

/// Whether a frame of a stream may begin here: a length and what a frame starts with.
pub(crate) fn starts_a_frame(bytes: &[u8]) -> bool {
    let Some((length, content)) = bytes.split_at_checked(4) else { return false };
    let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    match length {
        rgroups_wire::tcp::GRACEFUL_CLOSE => content.is_empty(),
        1.. => {
            starts_a_packet(content)
                || content.len() == length as usize
                    && FdSock2Frame::from_bytes(Bytes::copy_from_slice(content)).is_ok()
        }
        _ => false,
    }
}

/// Our version, or one that goes with it, and flags that exist.
fn starts_a_packet(bytes: &[u8]) -> bool {
    match bytes {
        [a, b, flags, ..] => Version(u16::from_be_bytes([*a, *b])).compatible() && *flags < 4,
        _ => false,
    }
}

/// A packet of another version is looked at as if it were ours: most versions of JGroups differ in
/// little. What reads to the last byte is one.
fn other_version(bytes: &Bytes) -> Option<Frame> {
    let version = Version(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    let mut ours = Vec::with_capacity(bytes.len());
    ours.extend_from_slice(&Version::OURS.0.to_be_bytes());
    ours.extend_from_slice(&bytes[2..]);
    let mut frame = Frame::decode(ours.into()).ok()?;
    // Any two bytes would do as a version. A message without headers or source is chance.
    let real = |m: &Message| m.src.is_some() && !m.headers.is_empty();
    let real = !frame.messages().is_empty() && frame.messages().iter().all(real);
    frame.version = version;
    real.then_some(frame)
}

/// A line of words, behind the proof of a passcode where there is one.
pub(crate) fn probe_request(bytes: &[u8]) -> Option<Said> {
    if let Some(text) = words(bytes) {
        return Some(Said::ProbeRequest { passcode: false, text });
    }
    let (prefix, rest) = bytes.split_at_checked(PASSCODE_PREFIX)?;
    let text = words(rest)?;
    (prefix[16..20] == [0, 0, 0, 20]).then_some(Said::ProbeRequest { passcode: true, text })
}

/// The first line of an answer names a member and its view, or its cluster.
pub(crate) fn probe_response(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let first = text.lines().next()?;
    let named = first.contains("(ip=") || first.contains("[ip=");
    let told = text.contains("view=") || text.contains("cluster=");
    (named && told).then(|| text.to_owned())
}

fn words(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let printable = !text.is_empty() && text.chars().all(|c| !c.is_control() || c == '\n');
    printable.then(|| text.to_owned())
}

/// A frame of FD_SOCK2 as the message that it is.
pub(crate) fn monitor_message(frame: &FdSock2Frame) -> Message {
    let message = Message { src: frame.src.clone(), body: Body::Empty, ..Message::default() };
    message.with_header(ProtId::FD_SOCK2, Header::FdSock2(Box::new(frame.header.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_request_are_found_behind_a_passcode() {
        let mut bytes = vec![0; 16];
        bytes.extend([0, 0, 0, 20]);
        bytes.extend([0xff; 20]);
        bytes.extend(b"jmx=UDP keys");
        match probe_request(&bytes) {
            Some(Said::ProbeRequest { passcode: true, text }) => assert_eq!(text, "jmx=UDP keys"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_name_query_is_not_taken_for_a_packet_of_another_version() {
        let dns = b"\x28\x80\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\
                    \x00\x01\x00\x01";
        assert!(datagram(None, &Bytes::from_static(dns)).is_none());
    }
}
