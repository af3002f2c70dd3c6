//! What requests and answers look like inside messages.
//!
//! Between members of this toolkit both are the bytes of a BytesMessage, as an application's own
//! would be: nothing in it but its length concerns anybody who is not its receiver
//! (docs/wire-extensions.md). With members of JGroups requests are ObjectMessages with a MethodCall,
//! or what a `MessageDispatcher` sends, and the answer has the form of its request.
//!
//! | bytes | request in our form |
//! |-------|-------|
//! | 1 | 1: a method with bytes, 2: a method with values |
//! | clong | for how many milliseconds the caller still waits |
//! | … | 1: str method, then all its bytes; 2: a MethodCall |
//!
//! | bytes | answer in our form |
//! |-------|-------|
//! | 1 | RSP: 1 bytes, 2 a value; EXC_RSP: 0 error, 1 no such method, 2 overloaded, 3 unreadable, 4 in the state |
//! | … | 1: the bytes; 2: the value in stream encoding; error: str kind, str words |

use super::{Ask, CallAnswer, Failure, Reply};
use crate::wire::header::CorrelatorKind;
use crate::wire::throwable::{self, JavaException};
use crate::wire::{Body, Decode, Encode, MethodCall, Object, Reader, Value, WriteExt, Writer};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

/// How a request is written, and with it its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For members of this toolkit.
    Ours,
    /// A MethodCall in an ObjectMessage.
    Object,
    /// The bytes of a `MessageDispatcher`.
    Plain,
}

const BYTES: u8 = 1;
const VALUES: u8 = 2;
const ERROR: u8 = 0;
const NO_SUCH_METHOD: u8 = 1;
const OVERLOADED: u8 = 2;
const UNREADABLE: u8 = 3;
const IN_STATE: u8 = 4;

/// The payload of a request; what is in `ask` decides with `form` whether that is possible, which is
/// asked before.
pub(crate) fn write_request(ask: &Ask, form: Form, left: Duration) -> Body {
    let head = |kind: u8, room: usize| {
        let mut out = Vec::with_capacity(16 + room);
        out.u8(kind);
        out.clong(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
        out
    };
    match (ask, form) {
        (Ask::Bytes { method, args }, Form::Ours) => {
            let mut out = head(BYTES, method.len() + args.len());
            out.str(Some(method));
            out.put(args);
            Body::bytes(out)
        }
        (Ask::Values(call), Form::Ours) => {
            let mut out = head(VALUES, 64);
            call.encode(&mut out);
            Body::bytes(out)
        }
        (Ask::Values(call), Form::Object | Form::Plain) => Body::object(call.to_object()),
        (Ask::Bytes { args, .. }, Form::Object | Form::Plain) => Body::Bytes(Some(args.clone())),
    }
}

/// A request as it came, and for how long its caller waits, if it says so. `None`: it cannot be
/// read; the form to say so is returned with it.
pub(crate) fn read_request(ours: bool, body: &Body) -> (Form, Option<(Ask, Option<Duration>)>) {
    match body {
        Body::Bytes(Some(bytes)) | Body::Nio { bytes: Some(bytes), .. } if ours => {
            (Form::Ours, read_ours(bytes))
        }
        Body::Bytes(bytes) | Body::Nio { bytes, .. } => {
            let args = bytes.clone().unwrap_or_default();
            (Form::Plain, Some((Ask::Bytes { method: String::new(), args }, None)))
        }
        Body::Empty => {
            let ask = Ask::Bytes { method: String::new(), args: Bytes::new() };
            (Form::Plain, Some((ask, None)))
        }
        Body::Object(Some(object)) => {
            let call = MethodCall::from_object(object).and_then(Result::ok);
            (Form::Object, call.map(|call| (Ask::Values(call), None)))
        }
        Body::Object(None)
        | Body::Long(_)
        | Body::Composite(_)
        | Body::Fragment(_)
        | Body::Batch { .. }
        | Body::User(..) => (Form::Object, None),
    }
}

fn read_ours(bytes: &Bytes) -> Option<(Ask, Option<Duration>)> {
    let mut r = Reader::new(bytes.clone());
    let kind = r.u8("request").ok()?;
    let left = u64::try_from(r.clong("deadline").ok()?).ok()?;
    let ask = match kind {
        BYTES => {
            let method = r.str("method").ok()??;
            Ask::Bytes { method, args: r.rest() }
        }
        VALUES => {
            let call = MethodCall::decode(&mut r).ok()?;
            r.finish("request").ok()?;
            Ask::Values(call)
        }
        _ => return None,
    };
    Some((ask, Some(Duration::from_millis(left))))
}

/// What says an answer: the kind of its header, and its payload.
pub(crate) fn write_answer(answer: &CallAnswer, form: Form) -> (CorrelatorKind, Body) {
    let kind = match answer {
        CallAnswer::Done(_) => CorrelatorKind::Response,
        CallAnswer::Failed(_) | CallAnswer::NoSuchMethod => CorrelatorKind::Failure,
    };
    let body = match (answer, form) {
        (CallAnswer::Done(reply), Form::Ours) => Body::bytes(ours_of(reply)),
        (CallAnswer::Done(Reply::Value(value)), Form::Object) => value_body(value),
        (CallAnswer::Done(Reply::Bytes(bytes)), Form::Object) => {
            value_body(&Value::Bytes(bytes.clone()))
        }
        (
            CallAnswer::Done(Reply::Bytes(bytes) | Reply::Value(Value::Bytes(bytes))),
            Form::Plain,
        ) => Body::Bytes(Some(bytes.clone())),
        (CallAnswer::Done(Reply::Value(value)), Form::Plain) => Body::Bytes(Some(buffer(value))),
        (CallAnswer::Failed(failure), Form::Ours) => Body::bytes(ours_of_failure(failure)),
        (CallAnswer::NoSuchMethod, Form::Ours) => Body::bytes([NO_SUCH_METHOD].to_vec()),
        (CallAnswer::Failed(_) | CallAnswer::NoSuchMethod, Form::Object) => {
            value_body(&exception(answer))
        }
        (CallAnswer::Failed(_) | CallAnswer::NoSuchMethod, Form::Plain) => {
            Body::Bytes(Some(buffer(&exception(answer))))
        }
    };
    (kind, body)
}

/// Whether the payload of an answer is a serialised object, for JGroups: those of ObjectMessages,
/// and what a `MessageDispatcher` is given that is no plain bytes.
pub(crate) fn is_serialized(answer: &CallAnswer, form: Form, body: &Body) -> bool {
    let plain = matches!(answer, CallAnswer::Done(Reply::Bytes(_) | Reply::Value(Value::Bytes(_))));
    match form {
        Form::Ours => false,
        Form::Object => matches!(body, Body::Object(Some(_))),
        Form::Plain => !plain,
    }
}

fn ours_of(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Bytes(bytes) => {
            let mut out = Vec::with_capacity(1 + bytes.len());
            out.u8(BYTES);
            out.put(bytes);
            out
        }
        Reply::Value(value) => {
            let mut out = Vec::new();
            out.u8(VALUES);
            value.encode_stream(&mut out);
            out
        }
    }
}

fn ours_of_failure(failure: &Failure) -> Vec<u8> {
    let mut out = Vec::new();
    match failure {
        Failure::Error { class, message } => {
            out.u8(ERROR);
            out.str(class.as_deref());
            out.str(Some(message));
        }
        Failure::Overloaded => out.u8(OVERLOADED),
        Failure::Unreadable => out.u8(UNREADABLE),
        Failure::InState => out.u8(IN_STATE),
    }
    out
}

/// A failure as an exception of the Java library.
fn exception(answer: &CallAnswer) -> Value {
    let (exception, words) = match answer {
        CallAnswer::Failed(Failure::Error { message, .. }) => {
            (JavaException::Runtime, message.as_str())
        }
        CallAnswer::Failed(Failure::Overloaded) => {
            (JavaException::Runtime, "overloaded: too many requests are running here")
        }
        CallAnswer::Failed(Failure::Unreadable) => {
            (JavaException::Runtime, "the request cannot be read here: it is no call with values")
        }
        CallAnswer::Failed(Failure::InState) => (
            JavaException::Runtime,
            "not carried out here: the state that this member was given contains what it did",
        ),
        CallAnswer::NoSuchMethod | CallAnswer::Done(_) => {
            (JavaException::NoSuchMethod, "there is no handler of this name here")
        }
    };
    Value::Java(throwable::write(exception, words))
}

/// A value in an ObjectMessage, wrapped as Java does (WIRE §30.2).
fn value_body(value: &Value) -> Body {
    match value {
        Value::Null => Body::Object(None),
        Value::Java(_) | Value::Streamable(_) => Body::object(Object::Wrapped(Some(buffer(value)))),
        plain => Body::object(Object::Primitive(plain.clone())),
    }
}

fn buffer(value: &Value) -> Bytes {
    let mut out = Vec::new();
    value.encode_buffer(&mut out);
    out.into()
}

/// An answer as it came; `None` if it cannot be one to a request of this form.
pub(crate) fn read_answer(form: Form, kind: CorrelatorKind, body: &Body) -> Option<CallAnswer> {
    let thrown = match (form, kind) {
        (_, CorrelatorKind::Request) => return None,
        (Form::Ours, CorrelatorKind::Response) => {
            let mut r = Reader::new(body.as_bytes()?.clone());
            return Some(CallAnswer::Done(match r.u8("answer").ok()? {
                BYTES => Reply::Bytes(r.rest()),
                VALUES => {
                    let value = Value::decode_stream(&mut r).ok()?;
                    r.finish("answer").ok()?;
                    Reply::Value(value)
                }
                _ => return None,
            }));
        }
        (Form::Ours, CorrelatorKind::Failure) => return read_failure(body.as_bytes()?),
        (Form::Object | Form::Plain, CorrelatorKind::Response) => {
            return value_of(body).map(|v| CallAnswer::Done(Reply::Value(v)));
        }
        (Form::Object | Form::Plain, CorrelatorKind::Failure) => value_of(body)?,
    };
    let thrown = match &thrown {
        Value::Java(stream) => throwable::read(stream),
        _ => None,
    };
    let class = thrown.as_ref().map(|t| t.class.clone());
    if class.as_deref() == Some("java.lang.NoSuchMethodException") {
        return Some(CallAnswer::NoSuchMethod);
    }
    let message = thrown.and_then(|t| t.message).unwrap_or_else(|| "no text".to_string());
    Some(CallAnswer::Failed(Failure::Error { class, message }))
}

fn read_failure(bytes: &Bytes) -> Option<CallAnswer> {
    let mut r = Reader::new(bytes.clone());
    let answer = match r.u8("failure").ok()? {
        ERROR => CallAnswer::Failed(Failure::Error {
            class: r.str("kind of error").ok()?,
            message: r.str("error").ok()?.unwrap_or_default(),
        }),
        NO_SUCH_METHOD => CallAnswer::NoSuchMethod,
        OVERLOADED => CallAnswer::Failed(Failure::Overloaded),
        UNREADABLE => CallAnswer::Failed(Failure::Unreadable),
        IN_STATE => CallAnswer::Failed(Failure::InState),
        _ => return None,
    };
    r.finish("failure").ok()?;
    Some(answer)
}

/// The value that a JGroups member answers with. What is no value of JGroups stays an opaque blob.
fn value_of(body: &Body) -> Option<Value> {
    Some(match body {
        Body::Empty | Body::Object(None) | Body::Bytes(None) | Body::Nio { bytes: None, .. } => {
            Value::Null
        }
        Body::Bytes(Some(b)) | Body::Nio { bytes: Some(b), .. } => Value::Bytes(b.clone()),
        Body::Long(n) => Value::Long(*n),
        Body::Object(Some(object)) => match &**object {
            Object::Primitive(value) => value.clone(),
            Object::Wrapped(None) => Value::Null,
            Object::Wrapped(Some(buffer)) => Value::decode_buffer(buffer.clone()).ok()?,
            other => Value::from(other),
        },
        Body::Composite(_) | Body::Fragment(_) | Body::Batch { .. } | Body::User(..) => {
            return None;
        }
    })
}
