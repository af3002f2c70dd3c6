//! Packets as text: a tree for people who look at traffic, and one line for traces. Everything a
//! peer chose is escaped, so its text cannot steer a terminal.

use crate::header::{GmsKind, Header};
use crate::{
    Address, Body, Decode, Flags, Frame, FrameBody, JoinRsp, Message, PingData, ProtId, Reader,
    StablePayload, View, ViewDigest, ViewId,
};
use alloc::format;
use alloc::string::{String, ToString};
use bytes::Bytes;
use core::fmt::{self, Write};

/// How many bytes of a payload are shown.
const EXCERPT: usize = 64;

/// Bytes in one line of a payload.
const LINE: usize = 16;

/// How many levels of messages in messages are shown.
const MAX_LEVELS: usize = 8;

/// A packet as a tree of several lines.
#[must_use]
pub fn show_frame(frame: &Frame) -> String {
    let mut tree = Tree { out: String::new(), level: 0 };
    let to = if frame.multicast { "multicast" } else { "unicast" };
    match &frame.body {
        FrameBody::Single(message) => {
            tree.line(format_args!("packet version={} {to} single", frame.version));
            tree.deeper(|tree| tree.message(None, message));
        }
        FrameBody::List { dest, src, cluster, messages } => {
            tree.line(format_args!("packet version={} {to} list", frame.version));
            tree.deeper(|tree| {
                tree.line(format_args!("dest: {}", Dest(dest.as_ref())));
                tree.line(format_args!("src: {}", Src(src.as_ref())));
                match cluster {
                    Some(name) => tree.line(format_args!("cluster: \"{}\"", name.escape_ascii())),
                    None => tree.line(format_args!("cluster: null")),
                }
                tree.line(format_args!("messages: {}", messages.len()));
                tree.messages(messages);
            });
        }
    }
    tree.out
}

/// A message as a tree of several lines.
#[must_use]
pub fn show_message(message: &Message) -> String {
    let mut tree = Tree { out: String::new(), level: 0 };
    tree.message(None, message);
    tree.out
}

struct Tree {
    out: String,
    level: usize,
}

impl Tree {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = 2 * self.level);
    }

    fn deeper(&mut self, f: impl FnOnce(&mut Self)) {
        self.level += 1;
        f(self);
        self.level -= 1;
    }

    fn messages(&mut self, messages: &[Message]) {
        for (i, message) in messages.iter().enumerate() {
            self.message(Some(i), message);
        }
    }

    fn message(&mut self, index: Option<usize>, message: &Message) {
        let index = index.map(|i| format!(" {i}")).unwrap_or_default();
        let kind = message.body.type_name();
        self.line(format_args!("message{index}: {kind} flags={}", FlagNames(message.flags)));
        self.deeper(|tree| {
            tree.line(format_args!("dest: {}", Dest(message.dest.as_ref())));
            tree.line(format_args!("src: {}", Src(message.src.as_ref())));
            for (prot, header) in message.headers.iter() {
                tree.line(format_args!("{} {header:?}", header.label(prot)));
            }
            tree.payload(message);
        });
    }

    fn payload(&mut self, message: &Message) {
        match &message.body {
            Body::Empty => {}
            Body::Bytes(None) | Body::Nio { bytes: None, .. } => {
                self.line(format_args!("payload: null"));
            }
            Body::Bytes(Some(bytes)) | Body::Nio { bytes: Some(bytes), .. } => {
                self.bytes(bytes);
                if let Some(meaning) = meaning(message, bytes) {
                    self.line(format_args!("= {meaning}"));
                }
            }
            Body::Fragment(bytes) | Body::User(_, bytes) => self.bytes(bytes),
            Body::Object(None) => self.line(format_args!("payload: null object")),
            Body::Object(Some(object)) => self.line(format_args!("payload: {object:?}")),
            Body::Long(v) => self.line(format_args!("payload: {v}")),
            Body::Composite(messages) | Body::Batch { messages, .. } => {
                self.line(format_args!("payload: {} messages", messages.len()));
                if self.level < MAX_LEVELS {
                    self.deeper(|tree| tree.messages(messages));
                }
            }
        }
    }

    fn bytes(&mut self, bytes: &Bytes) {
        self.line(format_args!("payload: {} bytes", bytes.len()));
        self.deeper(|tree| {
            for (i, line) in bytes.chunks(LINE).take(EXCERPT / LINE).enumerate() {
                let mut hex = String::new();
                for b in line {
                    let _ = write!(hex, "{b:02x} ");
                }
                let text: String = line
                    .iter()
                    .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
                    .collect();
                tree.line(format_args!("{:04x}  {hex:<48} {text}", i * LINE));
            }
            if bytes.len() > EXCERPT {
                tree.line(format_args!("… {} more", bytes.len() - EXCERPT));
            }
        });
    }
}

/// What the payload of a protocol's own message says, where this crate knows it.
#[must_use]
pub fn meaning(message: &Message, bytes: &Bytes) -> Option<String> {
    for (prot, header) in message.headers.iter() {
        match (prot, header) {
            (ProtId::GMS, Header::Gms(h)) => return gms_meaning(h.kind, bytes.clone()),
            (ProtId::STABLE, Header::Stable(_)) => {
                return StablePayload::from_bytes(bytes.clone()).ok().map(|v| format!("{v:?}"));
            }
            (_, Header::Ping(_)) => {
                let list = PingData::decode_list(&mut Reader::new(bytes.clone())).ok()?;
                return Some(format!("{list:?}"));
            }
            _ => {}
        }
    }
    None
}

fn gms_meaning(kind: GmsKind, bytes: Bytes) -> Option<String> {
    match kind {
        GmsKind::JoinRsp => JoinRsp::from_bytes(bytes).ok().map(|v| format!("{v:?}")),
        GmsKind::View
        | GmsKind::MergeRsp
        | GmsKind::InstallMergeView
        | GmsKind::GetDigestRsp
        | GmsKind::InstallDigest => ViewDigest::from_bytes(bytes).ok().map(|v| format!("{v:?}")),
        GmsKind::GetCurrentView => {
            let id: Option<ViewId> = Reader::new(bytes).opt("view id").ok()?;
            Some(id.map_or_else(|| "any view".to_string(), |id| format!("not {id}")))
        }
        GmsKind::JoinReq
        | GmsKind::LeaveReq
        | GmsKind::LeaveRsp
        | GmsKind::MergeReq
        | GmsKind::CancelMerge
        | GmsKind::ViewAck
        | GmsKind::JoinReqWithState
        | GmsKind::GetDigestReq => None,
    }
}

impl Body {
    /// Type id and JGroups' name of the message classes.
    pub const TYPES: &'static [(i64, &'static str)] = &[
        (0, "BytesMessage"),
        (1, "NioMessage"),
        (2, "EmptyMessage"),
        (3, "ObjectMessage"),
        (4, "LongMessage"),
        (5, "CompositeMessage"),
        (6, "FragmentedMessage"),
        (7, "BatchMessage"),
    ];

    /// JGroups' name of the message class.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        let known = Self::TYPES.iter().find(|(id, _)| *id == i64::from(self.type_id()));
        known.map_or("user message", |(_, name)| name)
    }
}

struct Dest<'a>(Option<&'a Address>);
struct Src<'a>(Option<&'a Address>);
struct FlagNames(Flags);

impl fmt::Display for Dest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(a) => a.fmt(f),
            None => f.write_str("<all>"),
        }
    }
}

impl fmt::Display for Src<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(a) => a.fmt(f),
            None => f.write_str("<none>"),
        }
    }
}

impl fmt::Display for FlagNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.0.iter_names();
        let mut separator = "";
        for (name, _) in names.by_ref() {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        match names.remaining().bits() {
            0 if separator.is_empty() => f.write_str("none"),
            0 => Ok(()),
            bits => write!(f, "{separator}{bits:#06x}"),
        }
    }
}

/// One line: `a0000000 → <all> GMS:VIEW NAKACK2:MSG#1 TP:demo [NO_FC] 57 bytes`.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", Src(self.src.as_ref()), Dest(self.dest.as_ref()))?;
        for (prot, header) in self.headers.iter() {
            write!(f, " {}", header.label(prot))?;
        }
        if !self.flags.is_empty() {
            write!(f, " [{}]", FlagNames(self.flags))?;
        }
        match self.length() {
            0 => Ok(()),
            n => write!(f, " {n} bytes"),
        }
    }
}

/// `[a0000000|5]`, as Java prints it.
impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}|{}]", self.creator, self.id)
    }
}

/// `[a0000000|5] (2) [a0000000, b0000000]`, as Java prints it.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) [", self.id, self.members().len())?;
        let mut separator = "";
        for member in self.members() {
            write!(f, "{separator}{member}")?;
            separator = ", ";
        }
        f.write_str("]")
    }
}
