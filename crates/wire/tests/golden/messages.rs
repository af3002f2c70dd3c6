//! Messages built from the fields of a vector.

use bytes::Bytes;
use rgroups_wire::{
    Address, Body, Flags, Header, Headers, Message, Object, ProtId, Uuid, Value, ViewId,
};
use serde_json::Value as Json;

use crate::parse::{addr, bytes, int};

/// The message that the fields describe; `None` if they leave something open, as they do for every
/// header with a body.
pub(crate) fn message(name: &str, f: &Json) -> Option<Message> {
    let mut headers = Headers::default();
    for h in f["headers"].as_array()? {
        match int(&h["magic"]) {
            96 => headers.put(ProtId(int(&h["prot"]) as i16), Header::Batch2),
            _ => return None,
        }
    }
    Some(Message {
        dest: addr(&f["dest"]),
        src: addr(&f["src"]),
        flags: Flags::from_bits_retain(int(&f["flags"]) as u16),
        headers,
        body: body(name, f)?,
        ..Message::default()
    })
}

fn body(name: &str, f: &Json) -> Option<Body> {
    let payload = bytes(&f["payload_hex"])?;
    Some(match int(&f["type"]) {
        0 => Body::Bytes(counted(&payload)),
        1 => Body::Nio { direct: payload[0] == 1, bytes: counted(&payload.slice(1..)) },
        2 => Body::Empty,
        3 => Body::Object(object(name, &payload)?.map(Box::new)),
        4 => Body::Long(payload[1..].iter().rev().fold(0, |v, b| v << 8 | i64::from(*b))),
        5 => Body::Composite(vec![
            text_message("one"),
            Message { src: Some(member(3)), ..Message::unicast(member(2), Body::Empty) },
        ]),
        6 => Body::Fragment(counted(&payload)?),
        7 => Body::Batch {
            sender: Some(member(1)),
            messages: vec![text_message("one"), text_message("two")],
        },
        _ => return None,
    })
}

/// An i32 length and bytes; a negative length is null.
fn counted(payload: &Bytes) -> Option<Bytes> {
    let (length, bytes) = payload.split_at(4);
    let length = i32::from_be_bytes(length.try_into().unwrap());
    assert!(length < 0 || length as usize == bytes.len());
    (length >= 0).then(|| payload.slice(4..))
}

/// What the object messages hold, which only their names say.
fn object(name: &str, payload: &Bytes) -> Option<Option<Object>> {
    Some(Some(match name {
        "msg_object_null" => return Some(None),
        "msg_object_string" => Object::Primitive(Value::Str("hello".into())),
        "msg_object_int" => Object::Primitive(Value::Int(42)),
        "msg_object_sizestreamable_viewid" => Object::ViewId(ViewId { creator: member(1), id: 4 }),
        "msg_object_serializable_list" => Object::Wrapped(counted(&payload.slice(3..))),
        _ => return None,
    }))
}

/// The UUIDs of the vectors.
fn member(n: u64) -> Address {
    Uuid::new(0xa000_0000_0000_0000 | n, 0xb000_0000_0000_0000 | (n * 0x11)).into()
}

/// A message in another one: the addresses are those of the outer one.
fn text_message(text: &'static str) -> Message {
    Message { src: Some(member(1)), ..Message::unicast(member(2), Body::bytes(text)) }
}
