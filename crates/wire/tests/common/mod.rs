//! The vectors: bytes that JGroups 5.5.6 wrote, with the field values they came from.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "the vectors are part of the test")]

use bytes::{Bytes, BytesMut};
use rgroups_wire::address_codec::{
    decode_addr, decode_nullable_addrs, encode_addr, encode_nullable_addrs,
};
use rgroups_wire::tcp::{FdSock2Frame, GRACEFUL_CLOSE, Handshake};
use rgroups_wire::{
    CounterPayload, Decode, DecodeErrorKind, Decoded, DeltaView, Digest, Encode, Exception, Frame,
    Header, JoinRsp, MergeId, Message, MethodCall, PingData, ProtId, Reader, RefDigest, SeqnoList,
    StablePayload, Value, Version, View, ViewDigest, ViewId, WriteExt, Writer, mping,
};
use serde_json::Value as Json;
use std::fmt::Debug;

/// One vector.
pub struct Vector {
    pub name: String,
    pub kind: String,
    pub fields: Json,
    pub bytes: Bytes,
}

/// All 432.
pub fn vectors() -> Vec<Vector> {
    read(include_str!("../../testdata/vectors.json"))
}

/// Those of payloads that only members of this toolkit send, written by hand.
pub fn own_vectors() -> Vec<Vector> {
    read(include_str!("../../testdata/vectors/stable_payload.json"))
}

fn read(text: &str) -> Vec<Vector> {
    let list: Vec<Json> = serde_json::from_str(text).unwrap();
    let text = |v: &Json, key: &str| v[key].as_str().unwrap().to_string();
    list.iter()
        .map(|v| Vector {
            name: text(v, "name"),
            kind: text(v, "kind"),
            fields: v["fields"].clone(),
            bytes: unhex(&text(v, "hex")),
        })
        .collect()
}

pub fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A value that was decoded.
pub struct Recoded {
    /// What it encodes to.
    pub bytes: Bytes,
    /// All of its fields as text.
    pub value: String,
}

/// Decodes all of `bytes` as the type that `kind` names, and encodes the value again. `None` for
/// kinds that this crate does not know.
pub fn reencode(kind: &str, bytes: &Bytes) -> Option<Decoded<Bytes>> {
    recode(kind, bytes).map(|outcome| outcome.map(|recoded| recoded.bytes))
}

/// As [`reencode`], with the value as text.
pub fn recode(kind: &str, bytes: &Bytes) -> Option<Decoded<Recoded>> {
    let mut r = Reader::new(bytes.clone());
    let mut w = BytesMut::new();
    let outcome = match kind {
        "int_compressed" => note(r.cint("v"), |v| w.cint(v)),
        "long_compressed" => note(r.clong("v"), |v| w.clong(v)),
        "long_seq" => note(r.lseq("v"), |v| w.lseq(v)),
        "string" => note(r.str("v"), |v| w.str(v.as_deref())),
        "utf" => note(r.nullable_utf("v"), |v| w.nullable_utf(v.as_deref())),
        "jgstring" => note(r.jstr("v"), |v| w.jstr(&v)),
        "asciistring" => note(r.astr("v"), |v| w.astr(v.as_deref())),
        "bytebuffer" => note(r.buf("v"), |v| w.buf(v.as_ref())),
        "float" => note(r.u32("v"), |v| w.u32(v)),
        "double" => note(r.u64("v"), |v| w.u64(v)),
        "version" => again::<Version>(&mut r, &mut w),
        "address" => note(decode_addr(&mut r), |v| encode_addr(v.as_ref(), &mut w)),
        "addresses" | "sorted_addresses" => {
            note(decode_nullable_addrs(&mut r), |v| encode_nullable_addrs(v.as_deref(), &mut w))
        }
        "viewid" => again::<ViewId>(&mut r, &mut w),
        "viewid_opt" => note(r.opt::<ViewId>("v"), |v| w.opt(v.as_ref())),
        "view" => again::<View>(&mut r, &mut w),
        "view_presence" => note(r.opt::<View>("v"), |v| w.opt(v.as_ref())),
        "view_opt" => note(decode_view_opt(&mut r), |v| encode_view_opt(v.as_ref(), &mut w)),
        "mergeview" => note(View::decode_merge(&mut r), |v| v.encode(&mut w)),
        "deltaview" => again::<DeltaView>(&mut r, &mut w),
        "digest" => again::<Digest>(&mut r, &mut w),
        "digest_nm" => again::<RefDigest>(&mut r, &mut w),
        "mergeid" => again::<MergeId>(&mut r, &mut w),
        "seqnolist" => again::<SeqnoList>(&mut r, &mut w),
        "object_buf" => note(Value::decode_buffer(r.rest()), |v| v.encode_buffer(&mut w)),
        "object_stream" => note(Value::decode_stream(&mut r), |v| v.encode_stream(&mut w)),
        "exception" => note(Exception::decode_nullable(&mut r), |v| {
            Exception::encode_nullable(v.as_ref(), &mut w);
        }),
        "methodcall" => again::<MethodCall>(&mut r, &mut w),
        "header" => {
            note(decode_header(&mut r), |(prot, header)| encode_header(prot, &header, &mut w))
        }
        "counter" => again::<CounterPayload>(&mut r, &mut w),
        "pingdata" => again::<PingData>(&mut r, &mut w),
        "pingdata_list" => {
            note(PingData::decode_list(&mut r), |v| PingData::encode_list(&v, &mut w))
        }
        "joinrsp" | "joinrsp_mergeview_quirk" => again::<JoinRsp>(&mut r, &mut w),
        "gms_view_digest" => again::<ViewDigest>(&mut r, &mut w),
        "message" => again::<Message>(&mut r, &mut w),
        "message_presence" => note(r.opt::<Message>("v"), |v| w.opt(v.as_ref())),
        "datagram" => note(Frame::decode(r.rest()), |v| v.encode(&mut w)),
        "tcp_frame" => note(decode_tcp_frame(&mut r), |v| {
            w.i32(v.encoded_len() as i32);
            v.encode(&mut w);
        }),
        "tcp_handshake" => again::<Handshake>(&mut r, &mut w),
        "tcp_close" => match r.i32("v") {
            Ok(v) if v != GRACEFUL_CLOSE => Err(r.error("close", DecodeErrorKind::BadValue)),
            v => note(v, |v| w.i32(v)),
        },
        "fdsock2_payload" => again::<FdSock2Frame>(&mut r, &mut w),
        "stable_payload" => again::<StablePayload>(&mut r, &mut w),
        "mping" => note(mping::decode(r.rest()), |v| mping::encode(&v, &mut w)),
        _ => return None,
    };
    let recoded = |value| r.finish("vector").map(|()| Recoded { bytes: w.freeze(), value });
    Some(outcome.and_then(recoded))
}

fn again<T: Decode + Encode + Debug>(r: &mut Reader, w: &mut BytesMut) -> Decoded<String> {
    note(T::decode(r), |v| v.encode(w))
}

/// The value as text, once it was encoded.
fn note<T: Debug>(decoded: Decoded<T>, encode: impl FnOnce(T)) -> Decoded<String> {
    decoded.map(|value| {
        let text = format!("{value:?}");
        encode(value);
        text
    })
}

pub fn decode_view_opt(r: &mut Reader) -> Decoded<Option<View>> {
    if !r.bool("v")? {
        return Ok(None);
    }
    if r.bool("v")? { View::decode_merge(r).map(Some) } else { View::decode(r).map(Some) }
}

pub fn encode_view_opt(view: Option<&View>, w: &mut BytesMut) {
    w.bool(view.is_some());
    if let Some(view) = view {
        w.bool(view.is_merge());
        view.encode(w);
    }
}

pub fn decode_header(r: &mut Reader) -> Decoded<(ProtId, Header)> {
    let prot = ProtId(r.i16("v")?);
    let magic = r.i16("v")?;
    Header::decode(prot, magic, r).map(|header| (prot, header))
}

pub fn encode_header(prot: ProtId, header: &Header, w: &mut BytesMut) {
    w.i16(prot.0);
    header.encode(prot, w);
}

fn decode_tcp_frame(r: &mut Reader) -> Decoded<Frame> {
    let n = r.i32("v")?;
    let n = r.count(i64::from(n), 1, "v")?;
    Frame::decode(r.slice(n, "v")?)
}
