//! Messages as applications see them.

use crate::Address;
use bytes::{Bytes, BytesMut};
use rgroups_core::wire::{self, Body, Object, Value};

pub use rgroups_core::wire::Flags;

/// A message to the group or to one member, or one that arrived.
///
/// Cloning shares the payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    dest: Option<Address>,
    src: Option<Address>,
    flags: Flags,
    payload: Payload,
}

/// What a message carries.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Payload {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes.
    Bytes(Bytes),
    /// A value of a JGroups `ObjectMessage`.
    Object(ObjectValue),
    /// Messages in one, as a JGroups `CompositeMessage`.
    Parts(Vec<Message>),
    /// The body of a message type that users registered on the Java side (32 and above).
    Custom {
        /// The type.
        type_id: i16,
        /// The body, as it came.
        body: Bytes,
    },
}

/// What a Java peer may send inside an `ObjectMessage`: a value in JGroups' own encodings, or an
/// opaque blob of Java serialisation, which is never instantiated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum ObjectValue {
    Null,
    Bool(bool),
    Byte(i8),
    Char(u16),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Str(String),
    ByteArray(Bytes),
    /// A Java serialisation stream.
    JavaSerialized(Bytes),
    /// An object of JGroups itself, such as a view or a digest, as text.
    JGroups(String),
}

impl Message {
    /// A message to everybody in the view, also to ourselves.
    #[must_use]
    pub fn multicast(payload: impl Into<Payload>) -> Self {
        Self { dest: None, src: None, flags: Flags::empty(), payload: payload.into() }
    }

    /// A message to one member.
    #[must_use]
    pub fn unicast(to: Address, payload: impl Into<Payload>) -> Self {
        Self { dest: Some(to), ..Self::multicast(payload) }
    }

    /// With these flags added.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags |= flags;
        self
    }

    /// Who sent it; `None` for one that was not sent.
    #[must_use]
    pub fn source(&self) -> Option<Address> {
        self.src
    }

    /// Whom it is for; `None`: the group.
    #[must_use]
    pub fn dest(&self) -> Option<Address> {
        self.dest
    }

    /// The flags.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// What it carries.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// What it carries, taken out.
    #[must_use]
    pub fn into_payload(self) -> Payload {
        self.payload
    }

    /// The bytes it carries: those of a byte payload or byte array, none of an empty one; `None`
    /// for other objects.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        static EMPTY: Bytes = Bytes::new();
        match &self.payload {
            Payload::Empty => Some(&EMPTY),
            Payload::Bytes(b) | Payload::Object(ObjectValue::ByteArray(b)) => Some(b),
            Payload::Object(_) | Payload::Parts(_) | Payload::Custom { .. } => None,
        }
    }

    /// The text it carries: a string, or bytes that are UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.payload {
            Payload::Object(ObjectValue::Str(s)) => Some(s),
            Payload::Empty
            | Payload::Bytes(_)
            | Payload::Object(_)
            | Payload::Parts(_)
            | Payload::Custom { .. } => std::str::from_utf8(self.bytes()?).ok(),
        }
    }

    /// Payload bytes, roughly: what it costs in flow control.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::Empty => 0,
            Payload::Bytes(b) | Payload::Custom { body: b, .. } => b.len(),
            Payload::Object(o) => o.len(),
            Payload::Parts(parts) => parts.iter().map(Message::len).sum(),
        }
    }

    /// Whether it carries nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn into_wire(self) -> wire::Message {
        let mut flags = self.flags;
        if matches!(self.payload, Payload::Object(_)) {
            flags |= Flags::SERIALIZED;
        }
        wire::Message {
            dest: self.dest.map(|a| wire::Address::Uuid(a.0)),
            src: self.src.map(|a| wire::Address::Uuid(a.0)),
            flags,
            body: self.payload.into_body(),
            ..wire::Message::default()
        }
    }

    /// A multicast that carries nothing but bytes.
    pub(crate) fn received(src: Address, payload: Bytes) -> Self {
        let payload = Payload::Bytes(payload);
        Self { dest: None, src: Some(src), flags: Flags::empty(), payload }
    }

    pub(crate) fn from_wire(src: Address, m: wire::Message) -> Self {
        let dest = m.dest.as_ref().and_then(wire::Address::uuid).map(Address);
        Self { dest, src: Some(src), flags: m.flags, payload: Payload::from_body(src, m.body) }
    }
}

impl Payload {
    fn into_body(self) -> Body {
        match self {
            Payload::Empty => Body::Empty,
            Payload::Bytes(b) => Body::Bytes(Some(b)),
            Payload::Object(o) => Body::object(o.into_object()),
            Payload::Parts(parts) => {
                Body::Composite(parts.into_iter().map(Message::into_wire).collect())
            }
            Payload::Custom { type_id, body } => Body::User(type_id, body),
        }
    }

    fn from_body(src: Address, body: Body) -> Self {
        match body {
            Body::Empty | Body::Bytes(None) | Body::Nio { bytes: None, .. } => Payload::Empty,
            Body::Bytes(Some(b)) | Body::Nio { bytes: Some(b), .. } | Body::Fragment(b) => {
                Payload::Bytes(b)
            }
            Body::Long(n) => Payload::Object(ObjectValue::Long(n)),
            Body::Object(o) => Payload::Object(ObjectValue::from_object(o.map(|o| *o))),
            Body::Composite(messages) => {
                let part = |m: wire::Message| {
                    let from = m.src.as_ref().and_then(wire::Address::uuid).map_or(src, Address);
                    Message::from_wire(from, m)
                };
                Payload::Parts(messages.into_iter().map(part).collect())
            }
            Body::Batch { sender, messages } => {
                let from = sender.as_ref().and_then(wire::Address::uuid).map_or(src, Address);
                let parts = messages.into_iter().map(|m| Message::from_wire(from, m));
                Payload::Parts(parts.collect())
            }
            Body::User(type_id, body) => Payload::Custom { type_id, body },
        }
    }
}

impl ObjectValue {
    fn len(&self) -> usize {
        match self {
            ObjectValue::Str(s) | ObjectValue::JGroups(s) => s.len(),
            ObjectValue::ByteArray(b) | ObjectValue::JavaSerialized(b) => b.len(),
            ObjectValue::Null
            | ObjectValue::Bool(_)
            | ObjectValue::Byte(_)
            | ObjectValue::Char(_)
            | ObjectValue::Short(_)
            | ObjectValue::Int(_)
            | ObjectValue::Long(_)
            | ObjectValue::Float(_)
            | ObjectValue::Double(_) => 8,
        }
    }

    fn into_object(self) -> Object {
        match self.into_value() {
            Value::Null => Object::Wrapped(None),
            Value::Java(b) => {
                let mut w = BytesMut::with_capacity(b.len() + 1);
                Value::Java(b).encode_buffer(&mut w);
                Object::Wrapped(Some(w.freeze()))
            }
            value => Object::Primitive(value),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            ObjectValue::Null => Value::Null,
            ObjectValue::JavaSerialized(b) => Value::Java(b),
            ObjectValue::Bool(v) => Value::Bool(v),
            ObjectValue::Byte(v) => Value::Byte(v),
            ObjectValue::Char(v) => Value::Char(v),
            ObjectValue::Short(v) => Value::Short(v),
            ObjectValue::Int(v) => Value::Int(v),
            ObjectValue::Long(v) => Value::Long(v),
            ObjectValue::Float(v) => Value::Float(v.to_bits()),
            ObjectValue::Double(v) => Value::Double(v.to_bits()),
            ObjectValue::Str(v) | ObjectValue::JGroups(v) => Value::Str(v),
            ObjectValue::ByteArray(v) => Value::Bytes(v),
        }
    }

    fn from_object(o: Option<Object>) -> Self {
        match o {
            None | Some(Object::Wrapped(None)) => ObjectValue::Null,
            Some(Object::Primitive(v)) => Self::from_value(v),
            // Bytes that are no value of JGroups are left as they are.
            Some(Object::Wrapped(Some(b))) => Value::decode_buffer(b.clone())
                .map_or(ObjectValue::JavaSerialized(b), Self::from_value),
            Some(other) => ObjectValue::JGroups(format!("{other:?}")),
        }
    }

    pub(crate) fn from_value(v: Value) -> Self {
        match v {
            Value::Null => ObjectValue::Null,
            Value::Bool(v) => ObjectValue::Bool(v),
            Value::Byte(v) => ObjectValue::Byte(v),
            Value::Char(v) => ObjectValue::Char(v),
            Value::Double(v) => ObjectValue::Double(f64::from_bits(v)),
            Value::Float(v) => ObjectValue::Float(f32::from_bits(v)),
            Value::Int(v) => ObjectValue::Int(v),
            Value::Long(v) => ObjectValue::Long(v),
            Value::Short(v) => ObjectValue::Short(v),
            Value::Str(v) => ObjectValue::Str(v),
            Value::Bytes(v) => ObjectValue::ByteArray(v),
            Value::Class(tag) => ObjectValue::JGroups(format!("class of tag {tag}")),
            Value::Streamable(b) => {
                ObjectValue::JGroups(format!("streamable of {} bytes", b.len()))
            }
            Value::Java(b) => ObjectValue::JavaSerialized(b),
        }
    }
}

impl From<Bytes> for Payload {
    fn from(b: Bytes) -> Self {
        Payload::Bytes(b)
    }
}

impl From<&'static str> for Payload {
    fn from(s: &'static str) -> Self {
        Payload::Bytes(Bytes::from_static(s.as_bytes()))
    }
}

impl From<&'static [u8]> for Payload {
    fn from(b: &'static [u8]) -> Self {
        Payload::Bytes(Bytes::from_static(b))
    }
}

impl From<String> for Payload {
    fn from(s: String) -> Self {
        Payload::Bytes(s.into())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(v: Vec<u8>) -> Self {
        Payload::Bytes(v.into())
    }
}

/// The values that Rust has a type for.
macro_rules! values {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for ObjectValue {
            fn from(v: $type) -> Self {
                ObjectValue::$variant(v.into())
            }
        })*
    };
}

values! {
    bool => Bool, i8 => Byte, i16 => Short, i32 => Int, i64 => Long, f32 => Float, f64 => Double,
    &str => Str, String => Str, Vec<u8> => ByteArray, Bytes => ByteArray,
}

impl From<ObjectValue> for Payload {
    fn from(o: ObjectValue) -> Self {
        Payload::Object(o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(m: Message) -> Message {
        Message::from_wire(Address::from_bits(7), m.into_wire())
    }

    #[test]
    fn bytes_text_and_objects_survive_the_stack() {
        let m = there_and_back(Message::multicast("hello"));
        assert_eq!((m.text(), m.source()), (Some("hello"), Some(Address::from_bits(7))));
        let m = there_and_back(Message::multicast(ObjectValue::Str("hi".into())));
        assert_eq!(m.text(), Some("hi"));
        assert!(m.flags().contains(Flags::SERIALIZED));
        let blob = ObjectValue::JavaSerialized(Bytes::from_static(b"\xac\xed\0\x05x"));
        let m = there_and_back(Message::multicast(blob.clone()));
        assert_eq!(m.payload(), &Payload::Object(blob));
    }

    #[test]
    fn a_unicast_knows_its_destination() {
        let to = Address::from_bits(9);
        assert_eq!(there_and_back(Message::unicast(to, "x")).dest(), Some(to));
    }
}
