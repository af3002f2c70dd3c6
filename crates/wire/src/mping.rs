//! The datagrams of MPING (WIRE §5.7): a bare BytesMessage, without version, packet flags or type
//! id, on a multicast group of its own.

use crate::{Decoded, Message, Reader, Writer};
use bytes::Bytes;

/// The type id that every MPING datagram has and none carries.
const BYTES_MESSAGE: i16 = 0;

/// Writes a discovery request for MPING's group; the body of `message` must be `Body::Bytes`.
pub fn encode(message: &Message, w: &mut impl Writer) {
    message.encode_untyped(w);
}

/// Reads an MPING datagram.
pub fn decode(datagram: Bytes) -> Decoded<Message> {
    let mut r = Reader::new(datagram);
    let message = Message::decode_untyped(BYTES_MESSAGE, &mut r)?;
    r.finish("MPING datagram")?;
    Ok(message)
}
