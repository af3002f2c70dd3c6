//! How values travel (WIRE §9.1, §9.2): one tag byte, then a body that differs between an object
//! *buffer* (a payload of its own) and an object *stream* (one of several values).
//!
//! | tag | type | in a buffer | in a stream |
//! |-----|------|-------------|-------------|
//! | 0 | null | | |
//! | 1, 2 | boolean | 1 byte, written with tag 1 | 1 byte, written with tag 2 |
//! | 3, 4 | byte | 1 byte | 1 byte |
//! | 5, 6 | char | u16 | u16 |
//! | 7, 8 | double | 8 bytes | 8 bytes |
//! | 9, 10 | float | 4 bytes | 4 bytes |
//! | 11, 12 | int | cint | i32 |
//! | 13, 14 | long | clong | i64 |
//! | 15, 16 | short | i16 | i16 |
//! | 17 | String | jstr | jstr |
//! | 18 | byte[] | the rest | i32 length, bytes |
//! | 19 | Class | the tag of that type | the same |
//! | 50 | Streamable | gen | gen |
//! | 51 | Serializable | the rest, opaque | the rest, opaque |
//!
//! Matches `Util.objectToBuffer` and `Util.objectToStream`. The tags of primitive types are read
//! as those of their boxed types, which is what Java writes.

use crate::error::DecodeErrorKind;
use crate::object::{Object, Value};
use crate::primitive::WriteExt;
use crate::{Decoded, Reader, Writer};
use bytes::Bytes;

const STREAMABLE: u8 = 50;
const JAVA: u8 = 51;

/// Which of the two forms a value has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Buffer,
    Stream,
}

impl Value {
    /// Writes the value as an object buffer: the payload of a message with flag SERIALIZED.
    pub fn encode_buffer(&self, w: &mut impl Writer) {
        self.encode_as(Form::Buffer, w);
    }

    /// Writes the value into an object stream.
    pub fn encode_stream(&self, w: &mut impl Writer) {
        self.encode_as(Form::Stream, w);
    }

    /// Reads an object buffer, which ends with `bytes`.
    pub fn decode_buffer(bytes: Bytes) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let v = Self::decode_as(Form::Buffer, &mut r)?;
        r.finish("object buffer")?;
        Ok(v)
    }

    /// Reads one value of an object stream. Only a parser of Java's serialisation could find the
    /// end of a [`Value::Java`] here: it takes everything that is left in `r`.
    pub fn decode_stream(r: &mut Reader) -> Decoded<Self> {
        Self::decode_as(Form::Stream, r)
    }

    /// The tag, as [`Value::Class`] names this type.
    #[must_use]
    pub fn tag(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 2,
            Value::Byte(_) => 4,
            Value::Char(_) => 6,
            Value::Double(_) => 8,
            Value::Float(_) => 10,
            Value::Int(_) => 12,
            Value::Long(_) => 14,
            Value::Short(_) => 16,
            Value::Str(_) => 17,
            Value::Bytes(_) => 18,
            Value::Class(_) => 19,
            Value::Streamable(_) => STREAMABLE,
            Value::Java(_) => JAVA,
        }
    }

    fn encode_as(&self, form: Form, w: &mut impl Writer) {
        match (self, form) {
            // The one type that Java writes with different tags in the two forms.
            (Value::Bool(_), Form::Buffer) => w.u8(1),
            _ => w.u8(self.tag()),
        }
        match (self, form) {
            (Value::Null, _) => {}
            (Value::Bool(v), _) => w.bool(*v),
            (Value::Byte(v), _) => w.u8(*v as u8),
            (Value::Char(v), _) => w.u16(*v),
            (Value::Double(v), _) => w.u64(*v),
            (Value::Float(v), _) => w.u32(*v),
            (Value::Int(v), Form::Buffer) => w.cint(*v),
            (Value::Int(v), Form::Stream) => w.i32(*v),
            (Value::Long(v), Form::Buffer) => w.clong(*v),
            (Value::Long(v), Form::Stream) => w.i64(*v),
            (Value::Short(v), _) => w.i16(*v),
            (Value::Str(v), _) => w.jstr(v),
            (Value::Bytes(v), Form::Stream) => w.counted(Some(v)),
            (Value::Class(tag), _) => w.u8(*tag),
            (Value::Bytes(v), Form::Buffer) | (Value::Streamable(v) | Value::Java(v), _) => {
                w.put_shared(v);
            }
        }
    }

    fn decode_as(form: Form, r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "object";
        Ok(match (r.u8("object tag")?, form) {
            (0, _) => Value::Null,
            (1 | 2, _) => Value::Bool(r.bool(WHAT)?),
            (3 | 4, _) => Value::Byte(r.u8(WHAT)? as i8),
            (5 | 6, _) => Value::Char(r.u16(WHAT)?),
            (7 | 8, _) => Value::Double(r.u64(WHAT)?),
            (9 | 10, _) => Value::Float(r.u32(WHAT)?),
            (11 | 12, Form::Buffer) => Value::Int(r.cint(WHAT)?),
            (11 | 12, Form::Stream) => Value::Int(r.i32(WHAT)?),
            (13 | 14, Form::Buffer) => Value::Long(r.clong(WHAT)?),
            (13 | 14, Form::Stream) => Value::Long(r.i64(WHAT)?),
            (15 | 16, _) => Value::Short(r.i16(WHAT)?),
            (17, _) => Value::Str(r.jstr(WHAT)?),
            (18, Form::Buffer) => Value::Bytes(r.rest()),
            (18, Form::Stream) => Value::Bytes(
                r.counted(WHAT)?.ok_or_else(|| r.error(WHAT, DecodeErrorKind::BadValue))?,
            ),
            (19, _) => Value::Class(r.u8("class tag")?),
            // A buffer ends with the object, whatever its class; in a stream the class must be
            // known to find the end.
            (STREAMABLE, Form::Buffer) => Value::Streamable(r.rest()),
            (STREAMABLE, Form::Stream) => {
                let start = r.position();
                Object::decode_gen(r)?;
                Value::Streamable(r.read_since(start))
            }
            (JAVA, _) => Value::Java(r.rest()),
            (tag, _) => {
                return Err(r.error("object tag", DecodeErrorKind::BadTag(u32::from(tag))));
            }
        })
    }
}
