//! What applications send: every payload names its message and can be checked to the last byte.

use crate::history::MessageId;
use bytes::{BufMut, Bytes, BytesMut};

/// The smallest payload: a mark and the message's number.
pub const SMALLEST: usize = 8;

const MARK: u32 = 0x7267_7031;

/// The payload of a message, at least [`SMALLEST`] bytes.
#[must_use]
pub fn make(message: MessageId, size: usize) -> Bytes {
    let size = size.max(SMALLEST);
    let mut b = BytesMut::with_capacity(size);
    b.put_u32(MARK);
    b.put_u32(message.0);
    b.extend((SMALLEST..size).map(|i| filler(message, i)));
    b.freeze()
}

/// Which message a payload is of, if it is exactly what [`make`] made.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<MessageId> {
    let mark = u32::from_be_bytes(bytes.get(0..4)?.try_into().ok()?);
    let message = MessageId(u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?));
    let whole = bytes.iter().enumerate().skip(SMALLEST).all(|(i, b)| *b == filler(message, i));
    (mark == MARK && whole).then_some(message)
}

/// The messages whose payloads begin somewhere in these bytes.
pub fn found_in(bytes: &[u8]) -> impl Iterator<Item = MessageId> + '_ {
    let mark = MARK.to_be_bytes();
    let begins = bytes.windows(SMALLEST).filter(move |w| w[..mark.len()] == mark);
    begins.map(|w| MessageId(u32::from_be_bytes([w[4], w[5], w[6], w[7]])))
}

fn filler(message: MessageId, at: usize) -> u8 {
    (message.0 as usize).wrapping_mul(131).wrapping_add(at.wrapping_mul(7)).wrapping_add(at >> 8)
        as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_read_back_and_one_wrong_byte_is_noticed() {
        let bytes = make(MessageId(77), 3_000);
        assert_eq!(read(&bytes), Some(MessageId(77)));
        let mut wrong = bytes.to_vec();
        wrong[2_345] ^= 1;
        assert_eq!(read(&wrong), None);
    }
}
