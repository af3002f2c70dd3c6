//! How typed objects travel (WIRE §9.3): presence, magic id, body.
//!
//! | bytes | field |
//! |-------|-------|
//! | 1 | 00 null, 01 present |
//! | 2 | magic id of the class |
//! | … | body of that class; no length, so the class must be known |

use crate::error::DecodeErrorKind;
use crate::object::{Object, Value};
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Digest, Encode, Reader, SeqnoList, View, ViewId, Writer};
use bytes::Bytes;

impl Object {
    /// The magic id of the object's class (WIRE §7.2).
    #[must_use]
    pub fn magic(&self) -> i16 {
        match self {
            Object::View(v) if v.is_merge() => 6,
            Object::View(_) => 4,
            Object::ViewId(_) => 5,
            Object::Digest { mutable: false, .. } => 9,
            Object::Digest { mutable: true, .. } => 10,
            Object::SeqnoList(_) => 15,
            Object::Wrapped(_) => 20,
            Object::Primitive(_) => 21,
            Object::Address(a) => a.magic(),
        }
    }

    /// Writes an object or null.
    pub fn encode_gen(object: Option<&Object>, w: &mut impl Writer) {
        w.bool(object.is_some());
        if let Some(object) = object {
            w.i16(object.magic());
            object.encode_body(w);
        }
    }

    /// Reads an object or null. A class that is not known is an error: what follows it could not
    /// be read.
    pub fn decode_gen(r: &mut Reader) -> Decoded<Option<Object>> {
        if !r.bool("object presence")? {
            return Ok(None);
        }
        let magic = r.i16("object class")?;
        r.nested("object", |r| Self::decode_body(magic, r)).map(Some)
    }

    fn encode_body(&self, w: &mut impl Writer) {
        match self {
            Object::SeqnoList(v) => v.encode(w),
            Object::Digest { digest, .. } => digest.encode(w),
            Object::View(v) => v.encode(w),
            Object::ViewId(v) => v.encode(w),
            Object::Address(v) => v.encode_body(w),
            Object::Primitive(v) => v.encode_stream(w),
            Object::Wrapped(v) => w.counted(v.as_ref()),
        }
    }

    fn decode_body(magic: i16, r: &mut Reader) -> Decoded<Self> {
        Ok(match magic {
            4 => Object::View(View::decode(r)?),
            5 => Object::ViewId(ViewId::decode(r)?),
            6 => Object::View(View::decode_merge(r)?),
            9 | 10 => Object::Digest { mutable: magic == 10, digest: Digest::decode(r)? },
            15 => Object::SeqnoList(SeqnoList::decode(r)?),
            20 => Object::Wrapped(r.counted("wrapped object")?),
            21 => match Value::decode_stream(r)? {
                // Java wraps such values with magic 20. Here they would swallow what follows.
                Value::Java(_) => return Err(r.error("object", DecodeErrorKind::BadTag(51))),
                v => Object::Primitive(v),
            },
            1 | 11 | 12 | 13 | 14 | 19 | 22 => Object::Address(Address::decode_body(magic, r)?),
            n => {
                return Err(r.error("object class", DecodeErrorKind::BadTag(u32::from(n as u16))));
            }
        })
    }

    /// The size that Java computes for this object as a payload (presence, magic and body), which
    /// flow control and fragmentation count (WIRE §6.4, §9.4). It differs from the bytes written
    /// where a site address holds text beyond ASCII: Java counts its UTF-16 units.
    #[must_use]
    pub fn java_size(object: Option<&Object>) -> usize {
        let mut written = crate::Counter::default();
        Object::encode_gen(object, &mut written);
        written.0 - object.map_or(0, Object::uncounted_text)
    }

    /// By how many bytes the texts in this object are longer than their UTF-16 units.
    fn uncounted_text(&self) -> usize {
        fn of(a: &Address) -> usize {
            let (site, name) = match a {
                Address::Site(s) => (&s.site, &s.name),
                Address::SiteMaster(s) => (&s.site, &s.name),
                _ => return 0,
            };
            let surplus = |s: &alloc::string::String| {
                let mut utf = crate::Counter::default();
                utf.utf(s);
                (utf.0 - 2).saturating_sub(s.encode_utf16().count())
            };
            site.iter().chain(name).map(surplus).sum()
        }
        match self {
            Object::Address(a) => of(a),
            Object::ViewId(v) => of(&v.creator),
            Object::Digest { digest, .. } => digest.entries.iter().map(|(a, _)| of(a)).sum(),
            Object::View(v) => of(&v.id.creator) + v.members().iter().map(of).sum::<usize>(),
            Object::SeqnoList(_) | Object::Primitive(_) | Object::Wrapped(_) => 0,
        }
    }
}

/// The encoding of an object that is not null, as a [`Value::Streamable`] holds it.
impl From<&Object> for Value {
    fn from(object: &Object) -> Self {
        let mut out = alloc::vec::Vec::new();
        Object::encode_gen(Some(object), &mut out);
        Value::Streamable(Bytes::from(out))
    }
}
