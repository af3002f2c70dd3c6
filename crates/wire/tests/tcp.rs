//! Connections as an acceptor and a connector see them.

use bytes::{Bytes, BytesMut};
use rgroups_wire::tcp::{
    FdSock2Frame, Handshake, StreamDecoder, StreamItem, encode_frame_length, encode_graceful_close,
};
use rgroups_wire::{DecodeErrorKind, Encode, Version};
use std::net::SocketAddr;

fn handshake(version: Version, peer: &str) -> Bytes {
    let peer: SocketAddr = peer.parse().expect("an address of this test");
    Handshake { version, peer: peer.into() }.to_bytes()
}

/// Feeds `bytes` one at a time; how many it took until there was an error, and which.
fn first_error(bytes: &[u8]) -> Option<(usize, DecodeErrorKind)> {
    let mut stream = StreamDecoder::acceptor(1000);
    for (i, b) in bytes.iter().enumerate() {
        stream.push(Bytes::copy_from_slice(&[*b]));
        if let Err(e) = stream.next_item() {
            assert_eq!(stream.next_item(), Err(e), "an error stays");
            return Some((i + 1, e.kind));
        }
    }
    None
}

#[test]
fn a_wrong_cookie_is_refused_at_its_first_wrong_byte() {
    assert_eq!(first_error(b"GET / HTTP/1.1"), Some((1, DecodeErrorKind::BadTag(b'G'.into()))));
    assert_eq!(first_error(b"belb"), Some((4, DecodeErrorKind::BadTag(b'b'.into()))));
}

#[test]
fn another_minor_version_is_refused_and_another_micro_version_is_not() {
    let other = Version::new(5, 4, 6);
    let refused = first_error(&handshake(other, "127.0.0.1:7800"));
    assert_eq!(refused, Some((6, DecodeErrorKind::Version(other.0))));
    assert_eq!(first_error(&handshake(Version::new(5, 5, 0), "127.0.0.1:7800")), None);
}

#[test]
fn a_wrong_length_of_the_address_is_refused_when_it_is_seen() {
    let mut bytes = handshake(Version::OURS, "127.0.0.1:7800").to_vec();
    bytes[7] = 8;
    assert_eq!(first_error(&bytes), Some((8, DecodeErrorKind::TooLong(8))));
    bytes[7] = 7;
    bytes[8] = 5;
    assert_eq!(first_error(&bytes), Some((9, DecodeErrorKind::BadTag(5))));
}

#[test]
fn handshake_frames_and_close_come_out_however_the_stream_is_cut() {
    let hello = handshake(Version::OURS, "[2001:db8::1]:7800");
    assert_eq!(hello.len(), 31);
    let mut bytes = BytesMut::from(&hello[..]);
    for frame in [&b"one"[..], b"a second frame"] {
        encode_frame_length(frame.len(), &mut bytes);
        bytes.extend_from_slice(frame);
    }
    encode_graceful_close(&mut bytes);
    bytes.extend_from_slice(b"what follows is ignored");
    for chunk in 1..bytes.len() {
        let mut stream = StreamDecoder::acceptor(1000);
        let mut items = Vec::new();
        for piece in bytes.chunks(chunk) {
            stream.push(Bytes::copy_from_slice(piece));
            while let Some(item) = stream.next_item().unwrap() {
                items.push(item);
            }
        }
        assert!(matches!(&items[0], StreamItem::Handshake(h) if h.to_bytes() == hello));
        let rest = [
            StreamItem::Frame(Bytes::from_static(b"one")),
            StreamItem::Frame(Bytes::from_static(b"a second frame")),
            StreamItem::GracefulClose,
        ];
        assert_eq!(items[1..], rest, "chunks of {chunk}");
        assert_eq!(stream.buffered(), 0);
    }
}

#[test]
fn a_frame_within_a_chunk_is_a_slice_of_it() {
    let chunk = Bytes::from_static(&[0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 4]);
    let mut stream = StreamDecoder::connector(1000);
    stream.push(chunk.clone());
    let Ok(Some(StreamItem::Frame(frame))) = stream.next_item() else { panic!("no frame") };
    assert_eq!(frame.as_ptr(), chunk[4..].as_ptr());
}

#[test]
fn a_frame_at_the_limit_passes_and_one_beyond_is_refused() {
    let outcome = |length: i32| {
        let mut stream = StreamDecoder::connector(1000);
        stream.push(Bytes::copy_from_slice(&length.to_be_bytes()));
        stream.next_item().map_err(|e| e.kind)
    };
    assert_eq!(outcome(1000), Ok(None));
    assert_eq!(outcome(1001), Err(DecodeErrorKind::TooLong(1001)));
    assert_eq!(outcome(0), Err(DecodeErrorKind::BadValue));
    assert_eq!(outcome(-1), Err(DecodeErrorKind::BadValue));
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut stream = StreamDecoder::connector(i32::MAX as usize);
    stream.push(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 1]));
    assert_eq!(stream.next_item(), Ok(None));
    assert_eq!(stream.buffered(), 1);
}

#[test]
fn a_frame_of_fd_sock2_without_its_header_is_refused() {
    use rgroups_wire::Decode;
    let bare = Bytes::from_static(&[0, 0, 0, 0, 0]);
    assert_eq!(FdSock2Frame::from_bytes(bare).unwrap_err().kind, DecodeErrorKind::BadValue);
}
