//! Rules on byte streams: what a node writes to a connection is taken apart into frames, filtered,
//! and put together again. What is no whole number of frames passes untouched.

use crate::network::{Host, Network};
use bytes::{Bytes, BytesMut};
use rgroups_core::wire::tcp::{encode_frame_length, encode_graceful_close};
use rgroups_core::wire::{Encode as _, tcp::StreamDecoder, tcp::StreamItem};

/// `bytes` without what the rules drop. Rules that delay do not apply to streams.
pub(crate) fn filter_frames(from: Host, to: Host, bytes: Bytes, net: &mut Network) -> Bytes {
    let handshake_first = bytes.starts_with(b"bela");
    let mut decoder = if handshake_first {
        StreamDecoder::acceptor(MAX_FRAME)
    } else {
        StreamDecoder::connector(MAX_FRAME)
    };
    decoder.push(bytes.clone());
    let mut out = BytesMut::with_capacity(bytes.len());
    loop {
        match decoder.next_item() {
            Ok(Some(StreamItem::Handshake(h))) => h.encode(&mut out),
            Ok(Some(StreamItem::GracefulClose)) => encode_graceful_close(&mut out),
            Ok(Some(StreamItem::Frame(frame))) => {
                if let Some(rest) = net.filter(from, to, frame) {
                    encode_frame_length(rest.packet.len(), &mut out);
                    out.extend_from_slice(&rest.packet);
                }
            }
            Ok(None) if decoder.buffered() == 0 => return out.freeze(),
            Ok(None) | Err(_) => return bytes,
        }
    }
}

const MAX_FRAME: usize = 16 << 20;
