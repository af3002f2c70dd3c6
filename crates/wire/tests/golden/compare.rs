//! What the fields of packets and messages say, compared with what was decoded.

use rgroups_wire::{
    Body, Decode, Encode, Frame, FrameBody, Header, Message, PingData, Reader, mping,
};
use serde_json::Value as Json;

use crate::common::{Vector, hex};
use crate::parse::{addr, int, text};

type Outcome = Result<(), String>;

/// Compares the fields of kinds that say only a part of their value; `None` for other kinds.
pub(crate) fn fields(v: &Vector) -> Option<Outcome> {
    let f = &v.fields;
    let bytes = v.bytes.clone();
    Some(match v.kind.as_str() {
        "message" => message(f, &Message::from_bytes(bytes).unwrap()),
        "datagram" => frame(f, &Frame::decode(bytes).unwrap()),
        "mping" => same("src", &mping::decode(bytes).unwrap().src, &addr(&f["src"])),
        "message_presence" => {
            let mut r = Reader::new(bytes);
            let m: Message = r.opt("message").unwrap().unwrap();
            same("src", &m.src, &addr(&f["src"]))
        }
        "pingdata_list" => {
            let list = PingData::decode_list(&mut Reader::new(bytes)).unwrap();
            same("count", &(list.len() as i64), &int(&f["count"]))
        }
        "tcp_frame" => {
            let frame = Frame::decode(bytes.slice(4..)).unwrap();
            same("length", &(frame.encoded_len() as i64), &int(&f["length"]))
        }
        "header" => {
            let mut r = Reader::new(bytes);
            let prot = rgroups_wire::ProtId(r.i16("prot").unwrap());
            let magic = r.i16("magic").unwrap();
            let header = Header::decode(prot, magic, &mut r).unwrap();
            same("prot", &i64::from(prot.0), &int(&f["prot"]))
                .and_then(|()| same("magic", &i64::from(header.magic(prot)), &int(&f["magic"])))
        }
        _ => return None,
    })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, decoded: &T, field: &T) -> Outcome {
    match decoded == field {
        true => Ok(()),
        false => Err(format!("{what}: decoded {decoded:?}, the vector says {field:?}")),
    }
}

fn frame(f: &Json, frame: &Frame) -> Outcome {
    same("version", &Some(frame.version.to_string()), &text(&f["version"]))?;
    same("multicast", &frame.multicast, &(f["multicast"] == true))?;
    match &frame.body {
        FrameBody::Single(m) => {
            same("list", &Json::Bool(false), &f["list"])?;
            message(&f["message"], m)
        }
        FrameBody::List { dest, src, cluster, messages } => {
            let cluster = cluster.as_ref().map(|c| String::from_utf8(c.to_vec()).unwrap());
            same("list", &Json::Bool(true), &f["list"])?;
            same("dest", dest, &addr(&f["dest"]))?;
            same("src", src, &addr(&f["src"]))?;
            same("cluster", &cluster, &text(&f["cluster"]))?;
            same("count", &(messages.len() as i64), &int(&f["count"]))
        }
    }
}

fn message(f: &Json, m: &Message) -> Outcome {
    same("type", &i64::from(m.body.type_id()), &int(&f["type"]))?;
    same("flags", &i64::from(m.flags.bits()), &int(&f["flags"]))?;
    same("dest", &m.dest, &addr(&f["dest"]))?;
    same("src", &m.src, &addr(&f["src"]))?;
    let ids = |h: &Json| (int(&h["prot"]), int(&h["magic"]));
    let expected: Vec<_> = f["headers"].as_array().unwrap().iter().map(ids).collect();
    let decoded: Vec<_> =
        m.headers.iter().map(|(prot, h)| (i64::from(prot.0), i64::from(h.magic(prot)))).collect();
    same("headers", &decoded, &expected)?;
    // The payload is what remains of the encoding behind the headers.
    let mut bare = m.clone();
    bare.body = Body::Empty;
    let payload = hex(&m.to_bytes()[bare.encoded_len()..]);
    same("payload", &Some(payload), &text(&f["payload_hex"]))
}
