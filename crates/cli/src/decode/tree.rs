//! What was decoded as JSON: the same tree as the text has, with names for its parts.

use super::speech::{Said, monitor_message};
use rgroups_wire::show::meaning;
use rgroups_wire::{Address, Body, Flags, Frame, FrameBody, Message};
use serde_json::{Value, json};

/// How many levels of messages in messages are shown, as in the text form.
const MAX_LEVELS: usize = 8;

/// The name of the form, and its parts.
pub(crate) fn json(said: &Said) -> (&'static str, Value) {
    match said {
        Said::Packet(f) => ("packet", packet(f)),
        Said::Handshake(h) => {
            ("handshake", json!({"version": h.version.to_string(), "peer": h.peer.to_string()}))
        }
        Said::GracefulClose => ("graceful_close", json!({})),
        Said::Monitor(f) => ("fd_sock2", json!({"message": message(&monitor_message(f), 0)})),
        Said::Mping(m) => ("mping", json!({"message": message(m, 0)})),
        Said::ProbeRequest { passcode, text } => {
            ("probe_request", json!({"passcode": passcode, "text": text}))
        }
        Said::ProbeResponse(text) => ("probe_response", json!({"text": text})),
        Said::Undecodable(why) => ("undecodable", json!({"reason": why})),
    }
}

fn packet(f: &Frame) -> Value {
    let mut tree = json!({
        "version": f.version.to_string(),
        "compatible": f.version.compatible(),
        "multicast": f.multicast,
    });
    if let FrameBody::List { dest, src, cluster, .. } = &f.body {
        tree["list"] = json!({
            "dest": address(dest.as_ref()),
            "src": address(src.as_ref()),
            "cluster": cluster.as_ref().map(|c| c.escape_ascii().to_string()),
        });
    }
    tree["messages"] = f.messages().iter().map(|m| message(m, 0)).collect();
    tree
}

fn message(m: &Message, level: usize) -> Value {
    let headers = m.headers.iter().map(|(prot, h)| {
        json!({
            "protocol": prot.name(),
            "id": prot.0,
            "magic": h.magic(prot),
            "label": h.label(prot).to_string(),
            "fields": format!("{h:?}"),
        })
    });
    json!({
        "kind": m.body.type_name(),
        "flags": flags(m.flags),
        "dest": address(m.dest.as_ref()),
        "src": address(m.src.as_ref()),
        "headers": headers.collect::<Vec<_>>(),
        "payload": payload(m, level),
    })
}

fn payload(m: &Message, level: usize) -> Value {
    match &m.body {
        Body::Empty | Body::Bytes(None) | Body::Nio { bytes: None, .. } | Body::Object(None) => {
            Value::Null
        }
        Body::Bytes(Some(b)) | Body::Nio { bytes: Some(b), .. } => {
            let mut tree = bytes(b);
            if let Some(meaning) = meaning(m, b) {
                tree["meaning"] = meaning.into();
            }
            tree
        }
        Body::Fragment(b) | Body::User(_, b) => bytes(b),
        Body::Object(Some(object)) => json!({"object": format!("{object:?}")}),
        Body::Long(n) => json!({"number": n}),
        Body::Composite(list) | Body::Batch { messages: list, .. } if level < MAX_LEVELS => {
            json!({"messages": list.iter().map(|m| message(m, level + 1)).collect::<Vec<_>>()})
        }
        Body::Composite(list) | Body::Batch { messages: list, .. } => {
            json!({"messages": list.len()})
        }
    }
}

fn bytes(b: &[u8]) -> Value {
    let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
    json!({"length": b.len(), "hex": hex})
}

fn address(a: Option<&Address>) -> Option<String> {
    a.map(ToString::to_string)
}

fn flags(f: Flags) -> Vec<String> {
    let mut names = f.iter_names();
    let mut all: Vec<String> = names.by_ref().map(|(name, _)| name.to_owned()).collect();
    match names.remaining().bits() {
        0 => {}
        bits => all.push(format!("{bits:#06x}")),
    }
    all
}
