//! `decode`: captures and hex to a tree.

mod capture;
mod network;
mod report;
mod speech;
mod streams;
mod tree;
mod wireshark;

use crate::args::DecodeArgs;
use crate::failure::Failure;
use crate::output;
use bytes::Bytes;
use network::{Arrived, Network};
use report::{Place, Report};
use rgroups_wire::tcp::{COOKIE, StreamDecoder, StreamItem};
use serde_json::{Value, json};
use speech::Said;
use std::io::Read;
use std::path::Path;
use streams::Streams;

/// Exit code when something that claims to be JGroups could not be decoded.
const PARTIAL: u8 = 5;

/// Runs the command.
pub(crate) fn run(a: &DecodeArgs, json: bool) -> Result<u8, Failure> {
    if a.wireshark {
        output::line(wireshark::script().trim_end());
        return Ok(0);
    }
    let [input] = a.input.as_slice() else {
        return by_hand(unhex(&a.input.concat())?, a.stream, json);
    };
    if input == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|e| Failure::run(format!("cannot read standard input: {e}")))?;
        if capture::is_capture(&bytes) {
            return whole_capture("standard input", bytes.as_slice(), json);
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Failure::usage(format!("standard input: byte {at}: neither a capture file nor hex"))
        })?;
        return by_hand(unhex(&text)?, a.stream, json);
    }
    let path = Path::new(input);
    if path.exists() {
        let file = std::fs::File::open(path)
            .map_err(|e| Failure::run(format!("cannot open {}: {e}", output::escaped(input))))?;
        return whole_capture(input, file, json);
    }
    match unhex(input) {
        Ok(bytes) => by_hand(bytes, a.stream, json),
        Err(e) if input.contains(['.', '/']) => {
            Err(Failure::run(format!("there is no file {}", output::escaped(input)))
                .hint(format!("and it is not hex: {}", e.message())))
        }
        Err(e) => Err(e.hint(format!("nor is there a file {}", output::escaped(input)))),
    }
}

/// Everything in a capture file, in the order in which it was complete.
fn whole_capture(name: &str, file: impl Read + Send, json: bool) -> Result<u8, Failure> {
    let (mut network, mut streams) = (Network::default(), Streams::default());
    let mut report = Report::new(json);
    let mut last = (0, None);
    let read = capture::read(file, |c| {
        report.packet(c.time);
        last = (c.number, c.time);
        let place = |via, ends| Place { number: c.number, time: c.time, via, ends };
        match network.packet(&c) {
            Arrived::Datagram { ends, payload } => {
                match speech::datagram(Some(ends.to), &payload) {
                    Some(said) => report.said(place("udp", ends), Some(payload.len()), &said),
                    None => {
                        report.nothing(format!("udp {ends}"), "not JGroups".into(), payload.len())
                    }
                }
            }
            Arrived::Segment { ends, segment } => {
                heard(&mut report, place("tcp", ends), streams.segment(ends, segment));
            }
            Arrived::Part => {}
            Arrived::Nothing(why) => report.nothing(String::new(), why, c.data.len()),
        }
    });
    for (ends, left) in streams.finish() {
        heard(&mut report, Place { number: last.0, time: last.1, via: "tcp", ends }, left);
    }
    for (from, to, bytes) in network.incomplete() {
        report.nothing(format!("ip {from} > {to}"), "fragments are missing".into(), bytes);
    }
    let undecodable = report.finish();
    read.map_err(|e| {
        let after = if last.0 > 0 { format!(" (after packet #{})", last.0) } else { String::new() };
        Failure::run(format!("{}: byte {}: {}{after}", output::escaped(name), e.at, e.why))
            .hint("decode reads pcap and pcapng files, hex digits, and both from `-`")
    })?;
    Ok(if undecodable { PARTIAL } else { 0 })
}

fn heard(report: &mut Report, place: Place, heard: streams::Heard) {
    for h in heard {
        match h {
            Ok(said) => report.said(place, None, &said),
            Err(unread) => report.unread(place, &unread),
        }
    }
}

/// Bytes given as hex.
fn by_hand(bytes: Bytes, is_stream: bool, json: bool) -> Result<u8, Failure> {
    let n = bytes.len();
    let all = if is_stream || bytes.starts_with(COOKIE) {
        stream(bytes)?
    } else {
        let said = speech::anything(&bytes).map_err(|e| {
            Failure::run(format!("not a JGroups packet ({n} bytes): {e}"))
                .hint("a capture of a TCP connection is decoded with --stream")
        })?;
        vec![said]
    };
    if json {
        let one = |said: &Said| {
            let (kind, mut parts) = tree::json(said);
            parts["type"] = kind.into();
            parts
        };
        let tree: Vec<Value> = all.iter().map(one).collect();
        output::line(&json!({"schema": 1, "tree": tree}).to_string());
    } else {
        for said in &all {
            output::line(report::text(said).trim_end());
        }
    }
    let undecodable = all.iter().any(|s| matches!(s, Said::Undecodable(_)));
    Ok(if undecodable { PARTIAL } else { 0 })
}

/// A stream that begins with the handshake of the side that connected, or with a frame.
fn stream(bytes: Bytes) -> Result<Vec<Said>, Failure> {
    let mut decoder = if bytes.starts_with(COOKIE) {
        StreamDecoder::acceptor(streams::MAX_FRAME)
    } else {
        StreamDecoder::connector(streams::MAX_FRAME)
    };
    decoder.push(bytes);
    let mut all = Vec::new();
    loop {
        match decoder.next_item() {
            Ok(Some(StreamItem::Handshake(h))) => all.push(Said::Handshake(h)),
            Ok(Some(StreamItem::Frame(b))) => all.push(speech::frame(&b)),
            Ok(Some(StreamItem::GracefulClose)) => all.push(Said::GracefulClose),
            Ok(None) if decoder.buffered() > 0 => {
                let rest = format!("{} bytes of an incomplete frame", decoder.buffered());
                all.push(Said::Undecodable(rest));
                return Ok(all);
            }
            Ok(None) => return Ok(all),
            Err(e) => return Err(Failure::run(format!("not a JGroups TCP stream: {e}"))),
        }
    }
}

fn unhex(text: &str) -> Result<Bytes, Failure> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    if digits.is_empty() {
        return Err(Failure::usage("there is nothing to decode"));
    }
    if let Some(at) = digits.iter().position(|d| !d.is_ascii_hexdigit()) {
        return Err(Failure::usage(format!(
            "{:?} at position {at} is not a hex digit",
            digits[at]
        )));
    }
    if digits.len() % 2 == 1 {
        return Err(Failure::usage(format!(
            "{} hex digits: the last byte is only half there",
            digits.len()
        )));
    }
    let value = |d: char| d.to_digit(16).unwrap_or_default() as u8;
    Ok(digits.chunks(2).map(|d| value(d[0]) << 4 | value(d[1])).collect::<Vec<u8>>().into())
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
