//! `decode`: hex to a tree.

use crate::args::DecodeArgs;
use crate::failure::Failure;
use crate::output;
use bytes::Bytes;
use rgroups_wire::Frame;
use rgroups_wire::tcp::{COOKIE, StreamDecoder, StreamItem};
use serde_json::json;
use std::io::Read;

/// A frame larger than this in a capture is garbage rather than a packet.
const MAX_FRAME: usize = 1 << 30;

/// Runs the command.
pub(crate) fn run(a: &DecodeArgs, json: bool) -> Result<u8, Failure> {
    let text = match a.hex.as_slice() {
        [one] if one == "-" => {
            let mut s = String::new();
            let read = std::io::stdin().read_to_string(&mut s);
            read.map_err(|e| Failure::run(format!("cannot read standard input: {e}")))?;
            s
        }
        parts => parts.concat(),
    };
    let bytes = unhex(&text)?;
    let shown = if a.stream { stream(bytes)? } else { packet(bytes)? };
    if json {
        output::line(&json!({"schema": 1, "tree": shown.lines().collect::<Vec<_>>()}).to_string());
    } else {
        output::line(shown.trim_end());
    }
    Ok(0)
}

fn packet(bytes: Bytes) -> Result<String, Failure> {
    let n = bytes.len();
    let frame = Frame::decode(bytes).map_err(|e| {
        Failure::run(format!("not a JGroups packet ({n} bytes): {e}"))
            .hint("a capture of a TCP connection is decoded with --stream")
    })?;
    Ok(rgroups_wire::show::show_frame(&frame))
}

/// A stream that begins with the handshake of the side that connected, or with a frame.
fn stream(bytes: Bytes) -> Result<String, Failure> {
    let mut decoder = if bytes.starts_with(COOKIE) {
        StreamDecoder::acceptor(MAX_FRAME)
    } else {
        StreamDecoder::connector(MAX_FRAME)
    };
    decoder.push(bytes);
    let mut shown = String::new();
    loop {
        match decoder.next_item() {
            Ok(Some(StreamItem::Handshake(h))) => {
                shown += &format!("handshake: version {}, from {}\n", h.version, h.peer);
            }
            Ok(Some(StreamItem::Frame(b))) => {
                shown += &format!("frame of {} bytes\n", b.len());
                shown += &packet(b)?;
            }
            Ok(Some(StreamItem::GracefulClose)) => shown += "graceful close\n",
            Ok(None) if decoder.buffered() > 0 => {
                shown += &format!("{} bytes of an incomplete frame\n", decoder.buffered());
                return Ok(shown);
            }
            Ok(None) => return Ok(shown),
            Err(e) => return Err(Failure::run(format!("not a JGroups TCP stream: {e}"))),
        }
    }
}

fn unhex(text: &str) -> Result<Bytes, Failure> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    if digits.is_empty() {
        return Err(Failure::usage("there is nothing to decode"));
    }
    if digits.len() % 2 == 1 {
        return Err(Failure::usage(format!(
            "{} hex digits: the last byte is only half there",
            digits.len()
        )));
    }
    let value = |at: usize| {
        digits[at].to_digit(16).ok_or_else(|| {
            Failure::usage(format!("{:?} at position {at} is not a hex digit", digits[at]))
        })
    };
    let bytes: Result<Vec<u8>, Failure> =
        (0..digits.len()).step_by(2).map(|i| Ok((value(i)? << 4 | value(i + 1)?) as u8)).collect();
    Ok(bytes?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_may_have_spaces_and_colons() {
        assert_eq!(unhex("29:46 00").ok(), Some(Bytes::from_static(&[0x29, 0x46, 0])));
    }

    #[test]
    fn half_a_byte_and_other_characters_are_refused() {
        assert!(unhex("294").is_err());
        assert!(unhex("29zz").is_err());
        assert!(unhex("").is_err());
    }
}
