//! Exceptions as JGroups writes them (WIRE §9.5): the payload of a failed state transfer. They are
//! text to be shown; nothing is ever instantiated from them.

use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// An exception that was thrown at a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exception {
    /// What is described is the cause of an InvocationTargetException.
    pub invocation_target: bool,
    /// The class.
    pub class: Option<String>,
    /// The message.
    pub message: Option<String>,
    /// The stack, innermost call first.
    pub frames: Vec<StackFrame>,
    /// What caused it.
    pub cause: Option<Box<Exception>>,
}

/// One call on the stack of an [`Exception`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The class.
    pub class: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line; negative where Java does not know it (−2: a native method).
    pub line: i32,
}

/// How many causes may follow each other; Java's chains have a handful.
const MAX_CAUSES: usize = 32;

impl Exception {
    /// Writes an exception, or null.
    ///
    /// | bytes | field |
    /// |-------|-------|
    /// | 1 | 01: null, and nothing follows |
    /// | 1 | cause of an InvocationTargetException |
    /// | str, str | class, message |
    /// | 2 | number of stack frames; each str class, str method, str file, cint line |
    /// | 1 | has a cause, which follows in this form |
    pub fn encode_nullable(exception: Option<&Exception>, w: &mut impl Writer) {
        w.bool(exception.is_none());
        if let Some(exception) = exception {
            exception.encode_fields(w);
        }
    }

    /// Reads an exception, or null.
    pub fn decode_nullable(r: &mut Reader) -> Decoded<Option<Exception>> {
        let mut exceptions = Vec::new();
        while !r.bool("null exception")? {
            if exceptions.len() > MAX_CAUSES {
                return Err(r.error("exception", DecodeErrorKind::TooDeep));
            }
            exceptions.push(Exception::decode_fields(r)?);
            if !r.bool("exception cause")? {
                break;
            }
        }
        Ok(exceptions.into_iter().rev().fold(None, |cause, exception| {
            Some(Exception { cause: cause.map(Box::new), ..exception })
        }))
    }

    fn encode_fields(&self, w: &mut impl Writer) {
        w.bool(self.invocation_target);
        w.str(self.class.as_deref());
        w.str(self.message.as_deref());
        let frames = &self.frames[..self.frames.len().min(i16::MAX as usize)];
        w.i16(frames.len() as i16);
        for frame in frames {
            w.str(frame.class.as_deref());
            w.str(frame.method.as_deref());
            w.str(frame.file.as_deref());
            w.cint(frame.line);
        }
        w.bool(self.cause.is_some());
        if let Some(cause) = &self.cause {
            Exception::encode_nullable(Some(cause), w);
        }
    }

    fn decode_fields(r: &mut Reader) -> Decoded<Exception> {
        let invocation_target = r.bool("invocation target")?;
        let class = r.str("exception class")?;
        let message = r.str("exception message")?;
        let n = r.i16("stack frames")?;
        let n = r.count(i64::from(n), 4, "stack frames")?;
        let mut frames = Vec::with_capacity(n);
        for _ in 0..n {
            frames.push(StackFrame {
                class: r.str("frame class")?,
                method: r.str("frame method")?,
                file: r.str("frame file")?,
                line: r.cint("frame line")?,
            });
        }
        Ok(Exception { invocation_target, class, message, frames, cause: None })
    }
}

/// An exception that is not null.
impl Encode for Exception {
    fn encode(&self, w: &mut impl Writer) {
        Exception::encode_nullable(Some(self), w);
    }
}

impl Decode for Exception {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Exception::decode_nullable(r)?
            .ok_or_else(|| r.error("exception", DecodeErrorKind::BadValue))
    }
}
