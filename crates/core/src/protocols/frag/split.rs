//! Cutting a message. Byte payloads are sliced; anything else is encoded once and its encoding is
//! sliced.

use crate::wire::header::FragHeader;
use crate::wire::{Body, Encode, Header, Headers, Hints, Message, ProtId};
use alloc::vec::Vec;
use bytes::Bytes;

/// The fragments of `msg`, numbered `id`, with at most `size` bytes each. The first carries the
/// headers of the layers above, the others only ours: the receiver takes them from the first.
pub(super) fn fragments(msg: Message, id: i64, size: usize) -> Vec<Message> {
    let (body, needs_deserialization) = match &msg.body {
        Body::Bytes(_) | Body::Nio { .. } => (msg.body.as_bytes().cloned(), false),
        Body::Empty
        | Body::Object(_)
        | Body::Long(_)
        | Body::Composite(_)
        | Body::Fragment(_)
        | Body::Batch { .. }
        | Body::User(..) => (Some(encode(&msg)), true),
    };
    let payload = body.unwrap_or_default();
    let total = payload.len().div_ceil(size);
    let mut out = Vec::with_capacity(total);
    for frag in 0..total {
        let slice = payload.slice(frag * size..payload.len().min((frag + 1) * size));
        let body = match (&msg.body, needs_deserialization) {
            (Body::Nio { direct, .. }, false) => Body::Nio { direct: *direct, bytes: Some(slice) },
            _ => Body::Bytes(Some(slice)),
        };
        let first = frag == 0;
        let mut headers = if first { msg.headers.clone() } else { Headers::default() };
        headers.put(
            ProtId::FRAG2,
            Header::Frag(FragHeader {
                id,
                frag: frag as i32,
                total: total as i32,
                needs_deserialization,
                original_type: 0,
            }),
        );
        // Once the first fragment is admitted the others must follow, whatever it takes.
        let hints = if first { msg.hints } else { msg.hints - Hints::DONT_BLOCK };
        let (dest, src, flags) = (msg.dest.clone(), msg.src.clone(), msg.flags);
        out.push(Message { dest, src, flags, hints, headers, body });
    }
    out
}

/// `i16 type id + message`, as JGroups' `Util.messageToBuffer` writes it.
fn encode(msg: &Message) -> Bytes {
    let mut buffer = bytes::BytesMut::new();
    msg.encode(&mut buffer);
    buffer.freeze()
}
