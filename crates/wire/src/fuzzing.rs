//! Entry points for fuzzers and for the bounded run that tests make of the same code: each takes
//! any bytes, must not panic, and checks that a value which was read is read again from its own
//! encoding.

use crate::tcp::{StreamDecoder, StreamItem};
use crate::{
    CounterPayload, Decode, Decoded, Encode, Exception, Frame, Header, JoinRsp, Message,
    MethodCall, PingData, ProtId, Reader, StablePayload, Value, View, ViewDigest,
};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt::Debug;

/// Frames above this are refused in [`tcp_stream`].
const MAX_FRAME: usize = 1 << 16;

/// A packet, which is what it is whether it is read as a row or not.
pub fn frame(data: &[u8]) {
    let packet = Bytes::copy_from_slice(data);
    if let Some((start, payloads)) = crate::RowStart::decode(&packet) {
        let frame = Frame::decode(packet.clone());
        let numbered = |m: &Message| m.src == Some(start.src.into()) && m.headers.len() == 2;
        let all = frame.as_ref().is_ok_and(|f| f.messages().iter().all(numbered));
        assert!(all, "a row is something else");
        let bodies = frame.iter().flat_map(|f| f.messages()).map(|m| m.body.as_bytes());
        assert!(bodies.eq(payloads.iter().map(Some)), "a row has other payloads");
    }
    if let Ok(frame) = Frame::decode(packet) {
        let again = Frame::decode(frame.to_bytes());
        assert_eq!(again.as_ref(), Ok(&frame), "a packet changes when it is encoded");
        assert!(!crate::show_frame(&frame).is_empty(), "a packet has no text");
        let _ = frame.messages().iter().map(Message::length).sum::<usize>();
    }
}

/// A header: i16 protocol id, i16 magic id, body.
pub fn header(data: &[u8]) {
    fn read(r: &mut Reader) -> Decoded<(ProtId, Header)> {
        let prot = ProtId(r.i16("protocol id")?);
        let magic = r.i16("header class")?;
        Ok((prot, Header::decode(prot, magic, r)?))
    }
    if let Ok((prot, header)) = read(&mut Reader::new(Bytes::copy_from_slice(data))) {
        let mut out = Vec::new();
        out.extend_from_slice(&prot.0.to_be_bytes());
        header.encode(prot, &mut out);
        let again = read(&mut Reader::new(Bytes::from(out)));
        assert_eq!(again, Ok((prot, header)), "a header changes when it is encoded");
    }
}

/// The payloads of protocols, each tried on the same bytes.
pub fn payload(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    stable::<JoinRsp>(&data);
    stable::<ViewDigest>(&data);
    stable::<View>(&data);
    stable::<Exception>(&data);
    stable::<Message>(&data);
    stable::<StablePayload>(&data);
    stable::<MethodCall>(&data);
    stable::<CounterPayload>(&data);
    let _ = crate::throwable::read(&data);
    if let Ok(entries) = crate::java_map::read(&data) {
        // A text in another form may be longer than what is written has room for.
        if let Ok(written) = crate::java_map::write(entries.iter().map(|(k, v)| (k, v))) {
            assert_eq!(crate::java_map::read(&written), Ok(entries), "a map changes");
        }
    }
    if let Ok(value) = Value::decode_buffer(data.clone()) {
        let mut out = Vec::new();
        value.encode_buffer(&mut out);
        assert_eq!(Value::decode_buffer(Bytes::from(out)), Ok(value), "an object buffer changes");
    }
    if let Ok(value) = Value::decode_stream(&mut Reader::new(data.clone())) {
        let mut out = Vec::new();
        value.encode_stream(&mut out);
        let again = Value::decode_stream(&mut Reader::new(Bytes::from(out)));
        assert_eq!(again, Ok(value), "an object stream changes");
    }
    if let Ok(list) = PingData::decode_list(&mut Reader::new(data)) {
        let mut out = Vec::new();
        PingData::encode_list(&list, &mut out);
        let again = PingData::decode_list(&mut Reader::new(Bytes::from(out)));
        assert_eq!(again, Ok(list), "ping data changes");
    }
}

fn stable<T: Decode + Encode + PartialEq + Debug>(data: &Bytes) {
    if let Ok(value) = T::from_bytes(data.clone()) {
        assert_eq!(T::from_bytes(value.to_bytes()), Ok(value), "a value changes when encoded");
    }
}

/// A stream as an acceptor sees it. The first byte says how the rest is cut into chunks; whichever
/// way it is cut, the same parts must come out.
pub fn tcp_stream(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else { return };
    let whole = parts(stream, stream.len().max(1));
    let pieces = parts(stream, usize::from(cut).max(1));
    assert_eq!(whole, pieces, "the parts of a stream depend on how it was cut");
}

fn parts(stream: &[u8], chunk: usize) -> Vec<Decoded<StreamItem>> {
    let mut decoder = StreamDecoder::acceptor(MAX_FRAME);
    let mut parts = Vec::new();
    for chunk in stream.chunks(chunk) {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_item() {
                Ok(None) => break,
                Ok(Some(item)) => {
                    if let StreamItem::Frame(bytes) = &item {
                        let _ = Frame::decode(bytes.clone());
                    }
                    parts.push(Ok(item));
                }
                Err(e) => {
                    parts.push(Err(e));
                    return parts;
                }
            }
        }
    }
    parts
}
