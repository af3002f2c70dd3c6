//! Calls of methods by name or number, as JGroups' RpcDispatcher sends them (WIRE §30.2).

use crate::error::DecodeErrorKind;
use crate::object::{Object, Value};
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// A method to be called, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodCall {
    /// Which method.
    pub method: Method,
    /// What it is called with.
    pub args: Vec<Value>,
}

/// How a [`MethodCall`] names its method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// By name and the classes of its parameters, as the tags of [`Value::Class`].
    Named {
        /// The name.
        name: String,
        /// One class per parameter; Java looks for the method with exactly these.
        types: Vec<u8>,
    },
    /// By a number that caller and callee have agreed on.
    Numbered(i16),
}

/// The class of a call, inside an object buffer.
const MAGIC: i16 = 18;
/// The tag of a streamable object.
const STREAMABLE: u8 = 50;
/// The tag of a class.
const CLASS: u8 = 19;
/// Parameters and types have one byte for their number.
const MOST: usize = u8::MAX as usize;

impl MethodCall {
    /// The call as the payload of an ObjectMessage: an object buffer wrapped with magic 20.
    #[must_use]
    pub fn to_object(&self) -> Object {
        let mut out = Vec::new();
        out.u8(STREAMABLE);
        out.bool(true);
        out.i16(MAGIC);
        self.encode(&mut out);
        Object::Wrapped(Some(Bytes::from(out)))
    }

    /// The call in the payload of an ObjectMessage; `None` if the object is no call at all.
    #[must_use]
    pub fn from_object(object: &Object) -> Option<Decoded<MethodCall>> {
        let Object::Wrapped(Some(buffer)) = object else { return None };
        let mut r = Reader::new(buffer.clone());
        let tag = r.u8("object tag").ok()?;
        let present = r.bool("object presence").ok()?;
        let magic = r.i16("object class").ok()?;
        if (tag, present, magic) != (STREAMABLE, true, MAGIC) {
            return None;
        }
        Some(MethodCall::decode(&mut r).and_then(|call| r.finish("method call").map(|()| call)))
    }

    /// Whether the format has room for all types and arguments.
    #[must_use]
    pub fn fits(&self) -> bool {
        let types = match &self.method {
            Method::Named { types, .. } => types.len(),
            Method::Numbered(_) => 0,
        };
        types <= MOST && self.args.len() <= MOST
    }
}

/// Matches `MethodCall.writeTo`. More than 255 types or arguments have no place in it
/// ([`MethodCall::fits`]): what is too much is not written.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 01: by number, and 2 bytes of it follow |
/// | … | 00: str name, u8 number of types, each an object stream of a class |
/// | 1 | number of arguments, each an object stream |
impl Encode for MethodCall {
    fn encode(&self, w: &mut impl Writer) {
        match &self.method {
            Method::Numbered(id) => {
                w.bool(true);
                w.i16(*id);
            }
            Method::Named { name, types } => {
                w.bool(false);
                w.str(Some(name));
                let types = &types[..types.len().min(MOST)];
                w.u8(types.len() as u8);
                types.iter().for_each(|tag| Value::Class(*tag).encode_stream(w));
            }
        }
        let args = &self.args[..self.args.len().min(MOST)];
        w.u8(args.len() as u8);
        args.iter().for_each(|value| value.encode_stream(w));
    }
}

/// Matches `MethodCall.readFrom`. A parameter class outside the table is Java serialisation, whose
/// end only Java can find: such a call is an error. So is an argument in Java serialisation that is
/// not the last one.
impl Decode for MethodCall {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let method = match r.bool("call by number")? {
            true => Method::Numbered(r.i16("method number")?),
            false => {
                let name = r.str("method name")?;
                let name = name.ok_or_else(|| r.error("method name", DecodeErrorKind::BadValue))?;
                let n = r.u8("parameter classes")?;
                let n = r.count(i64::from(n), 2, "parameter classes")?;
                let mut types = Vec::with_capacity(n);
                for _ in 0..n {
                    match r.u8("parameter class")? {
                        CLASS => types.push(r.u8("parameter class")?),
                        tag => {
                            let kind = DecodeErrorKind::BadTag(u32::from(tag));
                            return Err(r.error("parameter class", kind));
                        }
                    }
                }
                Method::Named { name, types }
            }
        };
        let n = r.u8("arguments")?;
        let n = r.count(i64::from(n), 1, "arguments")?;
        let mut args = Vec::with_capacity(n);
        for _ in 0..n {
            args.push(Value::decode_stream(r)?);
        }
        Ok(MethodCall { method, args })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_call_survives_the_payload_of_a_message() {
        let call = MethodCall {
            method: Method::Named { name: "add".into(), types: vec![11, 13] },
            args: vec![Value::Int(1), Value::Long(2)],
        };
        assert_eq!(MethodCall::from_object(&call.to_object()), Some(Ok(call)));
    }

    #[test]
    fn an_object_that_is_no_call_is_none() {
        assert_eq!(MethodCall::from_object(&Object::Primitive(Value::Int(1))), None);
        assert_eq!(MethodCall::from_object(&Object::Wrapped(Some(Bytes::from_static(&[0])))), None);
    }

    #[test]
    fn a_parameter_class_that_only_java_can_read_is_an_error() {
        let bytes = Bytes::from_static(b"\0\x01\0\x01m\x01\x33\xac\xed\0\x05");
        let read = MethodCall::decode(&mut Reader::new(bytes));
        assert_eq!(read.unwrap_err().kind, DecodeErrorKind::BadTag(51));
    }

    #[test]
    fn as_many_arguments_as_the_count_can_say_are_written() {
        let call = |n| MethodCall { method: Method::Numbered(1), args: vec![Value::Null; n] };
        let written = |n| {
            let mut out = Vec::new();
            call(n).encode(&mut out);
            MethodCall::decode(&mut Reader::new(out.into())).unwrap().args.len()
        };
        assert!(call(255).fits() && !call(256).fits());
        assert_eq!((written(255), written(256)), (255, 255));
    }
}
