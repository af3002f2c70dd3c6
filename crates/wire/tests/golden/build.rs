//! Values built from the fields of a vector alone, and their encodings.

use bytes::{Bytes, BytesMut};
use rgroups_wire::address_codec::{encode_addr, encode_nullable_addrs};
use rgroups_wire::exception::Exception;
use rgroups_wire::header::{FdSock2Header, FdSock2Kind};
use rgroups_wire::tcp::{FdSock2Frame, Handshake, encode_graceful_close};
use rgroups_wire::{
    Address, CounterAsk, CounterOwner, CounterPayload, DeltaView, DigestKind, Encode, JoinRsp,
    MergeId, NamedCounter, Object, PingData, SeqnoList, SeqnoPair, Value, Version, ViewDigest,
    ViewKind, WriteExt, Writer,
};
use serde_json::Value as Json;
use std::fmt::Debug;

use crate::common::{Vector, encode_header, encode_view_opt};
use crate::headers;
use crate::messages;
use crate::parse::{
    addr, bytes, digest, flag, int, ip_addr, member, members, ref_digest, text, view, view_id,
};

/// A value that was built.
pub(crate) struct Built {
    /// What it encodes to.
    pub(crate) bytes: Bytes,
    /// All of its fields as text.
    pub(crate) value: String,
}

/// The value that the fields of `v` describe; `None` if they leave something open.
pub(crate) fn built(v: &Vector) -> Option<Built> {
    let f = &v.fields;
    let mut w = BytesMut::new();
    let value = match v.kind.as_str() {
        "int_compressed" => note(int(&f["value"]) as i32, |v| w.cint(v)),
        "long_compressed" => note(int(&f["value"]), |v| w.clong(v)),
        "long_seq" => {
            let pair = SeqnoPair { delivered: int(&f["first"]), received: int(&f["second"]) };
            note(pair, |v| w.lseq(v))
        }
        "string" => note(text(&f["value"]), |v| w.str(v.as_deref())),
        "utf" => note(text(&f["value"]), |v| w.nullable_utf(v.as_deref())),
        "jgstring" => note(text(&f["value"])?, |v| w.jstr(&v)),
        "asciistring" => note(text(&f["value"]).map(Bytes::from), |v| w.astr(v.as_deref())),
        "bytebuffer" => note(bytes(&f["value"]), |v| w.buf(v.as_ref())),
        "float" => note(int(&f["bits"]) as u32, |v| w.u32(v)),
        "double" => note(int(&f["bits"]) as u64, |v| w.u64(v)),
        "version" => {
            let part = |name: &str| int(&f[name]) as u16;
            put(Version::new(part("major"), part("minor"), part("micro")), &mut w)
        }
        "address" => note(address(&v.name, f)?, |v| encode_addr(v.as_ref(), &mut w)),
        "addresses" | "sorted_addresses" => {
            let list = f["addresses"].as_array().map(|l| l.iter().map(addr).collect::<Vec<_>>());
            note(list, |v| encode_nullable_addrs(v.as_deref(), &mut w))
        }
        "viewid" => put(view_id(f, "creator", "id")?, &mut w),
        "viewid_opt" => note(view_id(f, "creator", "id"), |v| w.opt(v.as_ref())),
        "view" | "mergeview" => put(view(f)?, &mut w),
        "view_presence" => note(view(f), |v| w.opt(v.as_ref())),
        "view_opt" if f["merge"] == true => return None,
        "view_opt" => note(view(f), |v| encode_view_opt(v.as_ref(), &mut w)),
        "deltaview" => put(delta_view(f)?, &mut w),
        "digest" => put(digest(&f["members"], &f["seqnos"])?, &mut w),
        "digest_nm" => put(ref_digest(&f["seqnos"])?, &mut w),
        "mergeid" => {
            put(MergeId { initiator: member(&f["initiator"]), id: int(&f["id"]) as i32 }, &mut w)
        }
        "seqnolist" => put(seqno_list(f), &mut w),
        "object_buf" => note(value(f)?, |v| v.encode_buffer(&mut w)),
        "object_stream" => note(value(f)?, |v| v.encode_stream(&mut w)),
        "exception" => note(exception(&v.name, f)?, |v| {
            Exception::encode_nullable(v.as_ref(), &mut w);
        }),
        "header" => note(headers::header(f)?, |(prot, h)| encode_header(prot, &h, &mut w)),
        "counter" => put(counter(f)?, &mut w),
        "pingdata" => put(ping_data(f), &mut w),
        "joinrsp" => put(join_rsp(f), &mut w),
        "gms_view_digest" => put(view_digest(f)?, &mut w),
        "message" => put(messages::message(&v.name, f)?, &mut w),
        "tcp_handshake" => {
            put(Handshake { version: Version::OURS, peer: ip_addr(&f["peer"])? }, &mut w)
        }
        "tcp_close" => note(int(&f["value"]), |_| encode_graceful_close(&mut w)),
        "fdsock2_payload" => put(fd_sock2_frame(f), &mut w),
        _ => return None,
    };
    Some(Built { bytes: w.freeze(), value })
}

fn put<T: Encode + Debug>(value: T, w: &mut BytesMut) -> String {
    note(value, |v| v.encode(w))
}

/// The value as text, once it was encoded.
fn note<T: Debug>(value: T, encode: impl FnOnce(T)) -> String {
    let text = format!("{value:?}");
    encode(value);
    text
}

fn delta_view(f: &Json) -> Option<DeltaView> {
    Some(DeltaView {
        id: view_id(f, "creator", "id")?,
        reference: view_id(f, "ref_creator", "ref_id")?,
        left: members(&f["left"])?,
        joined: members(&f["joined"])?,
    })
}

fn address(name: &str, f: &Json) -> Option<Option<Address>> {
    let mut address = addr(&f["address"]);
    match &mut address {
        Some(Address::Flags(a)) => a.flags = f["flags"].as_i64().unwrap_or(0) as i32,
        // The keys are not among the fields, and neither are the flags of this one.
        Some(Address::Extended(_)) if name == "addr_extuuid_2keys" => return None,
        // The site address without site carries a flag that its text form leaves out.
        Some(Address::Site(_)) if name == "addr_siteuuid_null_site" => return None,
        _ => {}
    }
    Some(address)
}

fn seqno_list(f: &Json) -> SeqnoList {
    let mut list = SeqnoList::new(int(&f["offset"]), int(&f["size"]) as u32);
    for seqno in f["seqnos"].as_array().unwrap() {
        assert!(list.insert(int(seqno)));
    }
    list
}

fn value(f: &Json) -> Option<Value> {
    let v = &f["value"];
    let bits = || v.as_str().unwrap().strip_prefix("bits:").unwrap().parse::<i64>().unwrap();
    Some(match f["type"].as_str()? {
        "null" => Value::Null,
        "Boolean" => Value::Bool(flag(v)),
        "Byte" => Value::Byte(int(v) as i8),
        "Character" => Value::Char(v.as_str()?.encode_utf16().next()?),
        "Double" => Value::Double(bits() as u64),
        "Float" => Value::Float(bits() as u32),
        "Integer" => Value::Int(int(v) as i32),
        "Long" => Value::Long(int(v)),
        "Short" => Value::Short(int(v) as i16),
        "String" => Value::Str(text(v)?),
        "byte[]" => Value::Bytes(bytes(v)?),
        "Class" => Value::Class(int(v) as u8),
        "Streamable" if v != "viewid" => Value::from(&Object::Address(addr(v)?)),
        _ => return None,
    })
}

fn exception(name: &str, f: &Json) -> Option<Option<Exception>> {
    if f.get("class").is_none() {
        return Some(None);
    }
    if f["frames"] != 0 {
        return None;
    }
    assert_eq!(name, "exception_with_cause", "what the fields leave out was checked for this one");
    let cause = Exception { class: text(&f["cause"]), ..Exception::default() };
    Some(Some(Exception {
        class: text(&f["class"]),
        message: text(&f["message"]),
        cause: Some(Box::new(cause)),
        ..Exception::default()
    }))
}

/// Lists have only their names among the fields, and the rest lacks a field or two.
fn counter(f: &Json) -> Option<CounterPayload> {
    let owner = || CounterOwner { member: addr(&f["owner"]), request: int(&f["owner_id"]) };
    let (value, version) = (|| int(&f["value"]), || int(&f["version"]));
    let ask = match (int(&f["kind"]), int(&f["type"])) {
        (1, 0) => CounterAsk::GetOrCreate(value()),
        (1, 2) => CounterAsk::Set(value()),
        (1, 3) => {
            CounterAsk::CompareAndSet { expected: int(&f["expected"]), update: int(&f["update"]) }
        }
        (1, 4) => CounterAsk::AddAndGet(value()),
        (1, 5) => {
            let (name, value, version) = (text(&f["name"])?, value(), version());
            return Some(CounterPayload::Update(NamedCounter { name, value, version }));
        }
        (1, 7) => return Some(CounterPayload::ResendPending),
        (2, 0) => {
            let (owner, value, version) = (owner(), value(), version());
            return Some(CounterPayload::Value { owner, value, version });
        }
        _ => return None,
    };
    let owned = f.get("owner").is_some();
    owned.then(|| CounterPayload::Ask { owner: owner(), name: text(&f["name"]).unwrap(), ask })
}

fn ping_data(f: &Json) -> PingData {
    let flags = int(&f["flags"]);
    PingData {
        sender: addr(&f["sender"]),
        server: flags & 1 != 0,
        coordinator: flags & 2 != 0,
        name: text(&f["name"]),
        physical: ip_addr(&f["phys"]),
        wanted: members(&f["mbrs"]),
    }
}

fn join_rsp(f: &Json) -> JoinRsp {
    match text(&f["fail"]) {
        Some(reason) => JoinRsp::refusal(&reason),
        None => JoinRsp::welcome(&view(f).unwrap(), ref_digest(&f["seqnos"]).unwrap()),
    }
}

/// What the flags announce must be among the fields.
fn view_digest(f: &Json) -> Option<ViewDigest> {
    let flags = int(&f["flags"]);
    if flags & 12 != 0 {
        return None;
    }
    let view = match flags & 1 {
        0 => None,
        _ => Some(ViewKind::Full(view(f)?)),
    };
    let digest = match (flags & 2, flags & 16) {
        (0, _) => None,
        (_, 0) => Some(DigestKind::Reference(ref_digest(&f["seqnos"])?)),
        _ => Some(DigestKind::Full(digest(&f["digest_members"], &f["seqnos"])?)),
    };
    Some(ViewDigest { view, digest })
}

fn fd_sock2_frame(f: &Json) -> FdSock2Frame {
    let kind = match int(&f["type"]) {
        3 => FdSock2Kind::Connect,
        _ => FdSock2Kind::ConnectResponse,
    };
    let header = FdSock2Header {
        kind,
        members: vec![],
        cluster: text(&f["cluster"]),
        server: addr(&f["srv"]),
    };
    FdSock2Frame { src: addr(&f["src"]), header }
}
