//! Values built from the fields of a vector alone, and their encodings.

use bytes::{Bytes, BytesMut};
use rgroups_wire::address_codec::{encode_addr, encode_nullable_addrs};
use rgroups_wire::exception::Exception;
use rgroups_wire::header::{FdSock2Header, FdSock2Kind};
use rgroups_wire::tcp::{FdSock2Frame, Handshake, encode_graceful_close};
use rgroups_wire::{
    Address, DeltaView, DigestKind, Encode, JoinRsp, MergeId, Object, PingData, SeqnoList,
    SeqnoPair, Value, Version, ViewDigest, ViewKind, WriteExt, Writer,
};
use serde_json::Value as Json;

use crate::common::{Vector, encode_header, encode_view_opt};
use crate::headers;
use crate::messages;
use crate::parse::{
    addr, bytes, digest, flag, int, ip_addr, member, members, ref_digest, text, view, view_id,
};

/// The encoding of the value that the fields of `v` describe; `None` if they leave something open.
pub(crate) fn encoding(v: &Vector) -> Option<Bytes> {
    let f = &v.fields;
    let mut w = BytesMut::new();
    match v.kind.as_str() {
        "int_compressed" => w.cint(int(&f["value"]) as i32),
        "long_compressed" => w.clong(int(&f["value"])),
        "long_seq" => {
            w.lseq(SeqnoPair { delivered: int(&f["first"]), received: int(&f["second"]) })
        }
        "string" => w.str(text(&f["value"]).as_deref()),
        "utf" => w.nullable_utf(text(&f["value"]).as_deref()),
        "jgstring" => w.jstr(&text(&f["value"])?),
        "asciistring" => w.astr(text(&f["value"]).as_deref().map(str::as_bytes)),
        "bytebuffer" => w.buf(bytes(&f["value"]).as_ref()),
        "float" => w.u32(int(&f["bits"]) as u32),
        "double" => w.u64(int(&f["bits"]) as u64),
        "version" => {
            let part = |name: &str| int(&f[name]) as u16;
            Version::new(part("major"), part("minor"), part("micro")).encode(&mut w);
        }
        "address" => encode_addr(address(&v.name, f)?.as_ref(), &mut w),
        "addresses" | "sorted_addresses" => {
            let list = f["addresses"].as_array().map(|l| l.iter().map(addr).collect::<Vec<_>>());
            encode_nullable_addrs(list.as_deref(), &mut w);
        }
        "viewid" => view_id(f, "creator", "id")?.encode(&mut w),
        "viewid_opt" => w.opt(view_id(f, "creator", "id").as_ref()),
        "view" | "mergeview" => view(f)?.encode(&mut w),
        "view_presence" => w.opt(view(f).as_ref()),
        "view_opt" if f["merge"] == true => return None,
        "view_opt" => encode_view_opt(view(f).as_ref(), &mut w),
        "deltaview" => DeltaView {
            id: view_id(f, "creator", "id")?,
            reference: view_id(f, "ref_creator", "ref_id")?,
            left: members(&f["left"])?,
            joined: members(&f["joined"])?,
        }
        .encode(&mut w),
        "digest" => digest(&f["members"], &f["seqnos"])?.encode(&mut w),
        "digest_nm" => ref_digest(&f["seqnos"])?.encode(&mut w),
        "mergeid" => {
            MergeId { initiator: member(&f["initiator"]), id: int(&f["id"]) as i32 }.encode(&mut w)
        }
        "seqnolist" => seqno_list(f).encode(&mut w),
        "object_buf" => value(f)?.encode_buffer(&mut w),
        "object_stream" => value(f)?.encode_stream(&mut w),
        "exception" => Exception::encode_nullable(exception(&v.name, f)?.as_ref(), &mut w),
        "header" => {
            let (prot, header) = headers::header(f)?;
            encode_header(prot, &header, &mut w);
        }
        "pingdata" => ping_data(f).encode(&mut w),
        "joinrsp" => join_rsp(f).encode(&mut w),
        "gms_view_digest" => view_digest(f)?.encode(&mut w),
        "message" => messages::message(&v.name, f)?.encode(&mut w),
        "tcp_handshake" => {
            Handshake { version: Version::OURS, peer: ip_addr(&f["peer"])? }.encode(&mut w);
        }
        "tcp_close" => encode_graceful_close(&mut w),
        "fdsock2_payload" => fd_sock2_frame(f).encode(&mut w),
        _ => return None,
    }
    Some(w.freeze())
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
