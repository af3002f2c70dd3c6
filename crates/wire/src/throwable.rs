//! Exceptions of Java in Java's own serialisation, which is how JGroups answers a call that failed
//! (WIRE §30.1). Two things only: writing an exception of a class of the Java library with a text,
//! and reading class and text of one to show them. Nothing is ever instantiated from what is read.

use crate::Reader;
use crate::java_stream::{
    ARRAY, CLASS_DESCRIPTION, END, FIRST_HANDLE, NULL, OBJECT, REFERENCE, SERIALIZABLE, STREAM,
    STRING, WRITES_ITSELF,
};
use crate::primitive::WriteExt;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// The exceptions that we throw at Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaException {
    /// `java.lang.RuntimeException`: the handler failed.
    Runtime,
    /// `java.lang.NoSuchMethodException`: there is no handler.
    NoSuchMethod,
}

/// What can be said of a Java exception without Java.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrownByJava {
    /// The class.
    pub class: String,
    /// The text, if it has one and it is where Java usually has it.
    pub message: Option<String>,
}

/// How many classes an exception may inherit from, and fields each may have.
const MOST_CLASSES: usize = 16;
const MOST_FIELDS: usize = 64;

/// The classes of `exception`, most derived first, without Throwable: name and serial version.
fn classes(exception: JavaException) -> &'static [(&'static str, u64)] {
    const EXCEPTION: (&str, u64) = ("java.lang.Exception", 0xd0fd_1f3e_1a3b_1cc4);
    match exception {
        JavaException::Runtime => {
            &[("java.lang.RuntimeException", 0x9e5f_0647_0a34_83e5), EXCEPTION]
        }
        JavaException::NoSuchMethod => &[
            ("java.lang.NoSuchMethodException", 0x45dd_bd9e_5ec6_05db),
            ("java.lang.ReflectiveOperationException", 123_456_789),
            EXCEPTION,
        ],
    }
}

/// An exception with this text, without cause and stack, as a Java serialisation stream.
#[must_use]
pub fn write(exception: JavaException, message: &str) -> Bytes {
    let classes = classes(exception);
    let mut out = Vec::with_capacity(512 + message.len());
    out.extend_from_slice(&STREAM);
    out.push(OBJECT);
    for (name, version) in classes {
        class(&mut out, name, *version, SERIALIZABLE, &[]);
        out.push(END);
    }
    let fields = [
        (b'L', "cause", "Ljava/lang/Throwable;"),
        (b'L', "detailMessage", "Ljava/lang/String;"),
        (b'[', "stackTrace", "[Ljava/lang/StackTraceElement;"),
        (b'L', "suppressedExceptions", "Ljava/util/List;"),
    ];
    class(&mut out, "java.lang.Throwable", 0xd5c6_3527_3977_b8cb, WRITES_ITSELF, &fields);
    out.extend_from_slice(&[END, NULL]);
    // The cause of an exception without one is itself: the object after all classes and the types
    // of their fields.
    let itself = FIRST_HANDLE + classes.len() as u32 + 1 + fields.len() as u32;
    out.push(REFERENCE);
    out.extend_from_slice(&itself.to_be_bytes());
    out.push(STRING);
    out.utf(message);
    out.push(ARRAY);
    let version = 0x0246_2a3c_3cfd_2239;
    class(&mut out, "[Ljava.lang.StackTraceElement;", version, SERIALIZABLE, &[]);
    out.extend_from_slice(&[END, NULL, 0, 0, 0, 0]);
    out.push(OBJECT);
    let version = 0x7ab8_17b4_3ca7_9ede;
    class(&mut out, "java.util.Collections$EmptyList", version, SERIALIZABLE, &[]);
    out.extend_from_slice(&[END, NULL, END]);
    Bytes::from(out)
}

/// A class description up to its annotations.
fn class(out: &mut Vec<u8>, name: &str, version: u64, flags: u8, fields: &[(u8, &str, &str)]) {
    out.push(CLASS_DESCRIPTION);
    out.utf(name);
    out.extend_from_slice(&version.to_be_bytes());
    out.push(flags);
    out.extend_from_slice(&(fields.len() as u16).to_be_bytes());
    for (code, name, of) in fields {
        out.push(*code);
        out.utf(name);
        out.push(STRING);
        out.utf(of);
    }
}

/// Class and text of the exception in a Java serialisation stream; `None` if it does not begin like
/// an object.
#[must_use]
pub fn read(stream: &Bytes) -> Option<ThrownByJava> {
    let mut r = Reader::new(stream.clone());
    if r.take(STREAM.len(), "stream").ok()? != STREAM || r.u8("object").ok()? != OBJECT {
        return None;
    }
    if r.u8("class").ok()? != CLASS_DESCRIPTION {
        return None;
    }
    let class = r.utf("class").ok()?;
    let message = skip_classes(&mut r).and_then(|()| text(&mut r));
    Some(ThrownByJava { class, message })
}

/// Goes on behind the name of the first class, to the values of the fields. Those of the topmost
/// class come first, which is Throwable.
fn skip_classes(r: &mut Reader) -> Option<()> {
    for _ in 0..MOST_CLASSES {
        r.u64("serial version").ok()?;
        r.u8("class flags").ok()?;
        let fields = usize::from(r.u16("fields").ok()?);
        if fields > MOST_FIELDS {
            return None;
        }
        for _ in 0..fields {
            let code = r.u8("field type").ok()?;
            r.utf("field name").ok()?;
            if matches!(code, b'L' | b'[') {
                match r.u8("field class").ok()? {
                    STRING => drop(r.utf("field class").ok()?),
                    REFERENCE => drop(r.u32("field class").ok()?),
                    _ => return None,
                }
            }
        }
        if r.u8("annotations").ok()? != END {
            return None;
        }
        match r.u8("super class").ok()? {
            NULL => return Some(()),
            CLASS_DESCRIPTION => drop(r.utf("class").ok()?),
            _ => return None,
        }
    }
    None
}

/// The text of the exception, which stands behind its cause. An exception with a cause has its text
/// somewhere further on, where it is not looked for.
fn text(r: &mut Reader) -> Option<String> {
    match r.u8("cause").ok()? {
        NULL => {}
        REFERENCE => drop(r.u32("cause").ok()?),
        _ => return None,
    }
    match r.u8("text").ok()? {
        STRING => r.utf("text").ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// What Java 17 writes for `new RuntimeException("MSG")` without a stack.
    const RUNTIME: &str = "aced00057372001a6a6176612e6c616e672e52756e74696d65457863657074696f6e9e5f0\
        6470a3483e5020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc40200007872001\
        36a6176612e6c616e672e5468726f7761626c65d5c635273977b8cb0300044c000563617573657400154c6a61766\
        12f6c616e672f5468726f7761626c653b4c000d64657461696c4d6573736167657400124c6a6176612f6c616e672\
        f537472696e673b5b000a737461636b547261636574001e5b4c6a6176612f6c616e672f537461636b54726163654\
        56c656d656e743b4c001473757070726573736564457863657074696f6e737400104c6a6176612f7574696c2f4c6\
        973743b787071007e00077400034d53477572001e5b4c6a6176612e6c616e672e537461636b5472616365456c656\
        d656e743b02462a3c3cfd22390200007870000000007372001f6a6176612e7574696c2e436f6c6c656374696f6e7\
        324456d7074794c6973747ab817b43ca79ede020000787078";

    fn bytes(hex: &str) -> Bytes {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
    }

    #[test]
    fn what_is_written_is_what_java_writes() {
        assert_eq!(write(JavaException::Runtime, "MSG"), bytes(RUNTIME));
    }

    #[test]
    fn class_and_text_are_read() {
        let thrown = read(&write(JavaException::NoSuchMethod, "no such handler: f"));
        let class = "java.lang.NoSuchMethodException".to_string();
        let message = Some("no such handler: f".to_string());
        assert_eq!(thrown, Some(ThrownByJava { class, message }));
    }

    #[test]
    fn every_prefix_of_an_exception_is_read_without_harm() {
        let whole = bytes(RUNTIME);
        let texts = (0..whole.len()).filter_map(|n| read(&whole.slice(..n))?.message);
        assert!(texts.count() > 0);
        assert_eq!(read(&Bytes::from_static(b"\xac\xed\0\x05t\0\x01x")), None);
    }
}
