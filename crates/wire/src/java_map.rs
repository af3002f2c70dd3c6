//! A `java.util.HashMap` of values in Java's own serialisation, which is what a JGroups
//! `ReplicatedHashMap` gives as its state and takes in `putAll`. Only maps whose keys and values are
//! those of [`Value`] that Java has a class for: null, the boxed numbers, boolean, character, strings
//! and byte arrays. Anything else is an error; nothing is ever instantiated from what is read.

use crate::error::DecodeErrorKind;
use crate::java_stream::{
    ARRAY, CLASS_DESCRIPTION, END, FIRST_HANDLE, NULL, OBJECT, REFERENCE, SERIALIZABLE, STREAM,
    STRING, WRITES_ITSELF,
};
use crate::object::Value;
use crate::primitive::{WriteExt, decode_utf};
use crate::{Decoded, Reader, Writer};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

/// A value that has no place in such a map: an object of JGroups or of another class of Java, or a
/// text that is too long and not ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritable;

const BLOCK: u8 = 0x77;
const LONG_STRING: u8 = 0x7c;
/// The longest text of an ordinary string.
const SHORT: usize = u16::MAX as usize;

/// Classes that have a place here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Map,
    Number,
    Boxed(u8),
    Bytes,
}

/// The boxed types: the code of what is in them, class, serial version, whether it is a `Number`.
const BOXED: [(u8, &str, u64, bool); 8] = [
    (b'Z', "java.lang.Boolean", 0xcd20_7280_d59c_faee, false),
    (b'B', "java.lang.Byte", 0x9c4e_6084_ee50_f51c, true),
    (b'C', "java.lang.Character", 0x348b_47d9_6b1a_2678, false),
    (b'D', "java.lang.Double", 0x80b3_c24a_296b_fb04, true),
    (b'F', "java.lang.Float", 0xdaed_c9a2_db3c_f0ec, true),
    (b'I', "java.lang.Integer", 0x12e2_a0a4_f781_8738, true),
    (b'J', "java.lang.Long", 0x3b8b_e490_cc8f_23df, true),
    (b'S', "java.lang.Short", 0x684d_3713_3460_da52, true),
];
const MAP: &str = "java.util.HashMap";
const MAP_FIELDS: [(u8, &str); 2] = [(b'F', "loadFactor"), (b'I', "threshold")];
const NUMBER: &str = "java.lang.Number";
const BYTES: &str = "[B";

/// Whether [`write()`] can write the value.
#[must_use]
pub fn is_writable(value: &Value) -> bool {
    match value {
        // Twice the bytes of UTF-8 is the most that modified UTF-8 takes.
        Value::Str(s) => s.is_ascii() || 2 * s.len() <= SHORT,
        Value::Class(_) | Value::Streamable(_) | Value::Java(_) => false,
        Value::Null
        | Value::Bool(_)
        | Value::Byte(_)
        | Value::Char(_)
        | Value::Double(_)
        | Value::Float(_)
        | Value::Int(_)
        | Value::Long(_)
        | Value::Short(_)
        | Value::Bytes(_) => true,
    }
}

/// The entries as a Java serialisation stream of one `java.util.HashMap`.
///
/// # Errors
/// If a key or a value has no place in it ([`is_writable`]).
pub fn write<'a>(
    entries: impl ExactSizeIterator<Item = (&'a Value, &'a Value)>,
) -> Result<Bytes, Unwritable> {
    let n = entries.len();
    let mut out = Stream { out: STREAM.to_vec(), handles: 0, classes: BTreeMap::new() };
    out.out.push(OBJECT);
    out.class(Class::Map);
    out.handles += 1;
    let capacity = (16..31).map(|k| 1usize << (k - 12)).find(|c| n <= c / 4 * 3).unwrap_or(1 << 30);
    out.out.u32(0.75f32.to_bits());
    out.out.i32(if n == 0 { 0 } else { (capacity / 4 * 3) as i32 });
    out.out.put(&[BLOCK, 8]);
    out.out.i32(capacity as i32);
    out.out.i32(i32::try_from(n).map_err(|_| Unwritable)?);
    for (key, value) in entries {
        out.value(key)?;
        out.value(value)?;
    }
    out.out.push(END);
    Ok(out.out.into())
}

struct Stream {
    out: Vec<u8>,
    handles: u32,
    classes: BTreeMap<Class, u32>,
}

impl Stream {
    /// A class, the first time with its description.
    fn class(&mut self, class: Class) {
        if let Some(handle) = self.classes.get(&class) {
            self.out.push(REFERENCE);
            self.out.u32(FIRST_HANDLE + handle);
            return;
        }
        let value: &[(u8, &str)];
        let boxed;
        let (name, version, flags, fields, is_number) = match class {
            Class::Map => (MAP, 0x0507_dac1_c316_60d1, WRITES_ITSELF, &MAP_FIELDS[..], false),
            Class::Number => (NUMBER, 0x86ac_951d_0b94_e08b, SERIALIZABLE, &[][..], false),
            Class::Bytes => (BYTES, 0xacf3_17f8_0608_54e0, SERIALIZABLE, &[][..], false),
            Class::Boxed(code) => {
                boxed = [(code, "value")];
                value = &boxed;
                let known = BOXED.iter().find(|b| b.0 == code);
                let (_, name, version, number) = *known.unwrap_or(&BOXED[0]);
                (name, version, SERIALIZABLE, value, number)
            }
        };
        self.out.push(CLASS_DESCRIPTION);
        self.out.utf(name);
        self.out.u64(version);
        self.classes.insert(class, self.handles);
        self.handles += 1;
        self.out.push(flags);
        self.out.u16(fields.len() as u16);
        for (code, field) in fields {
            self.out.push(*code);
            self.out.utf(field);
        }
        self.out.push(END);
        match is_number {
            true => self.class(Class::Number),
            false => self.out.push(NULL),
        }
    }

    fn boxed(&mut self, code: u8, bytes: &[u8]) {
        self.out.push(OBJECT);
        self.class(Class::Boxed(code));
        self.handles += 1;
        self.out.extend_from_slice(bytes);
    }

    fn value(&mut self, value: &Value) -> Result<(), Unwritable> {
        if !is_writable(value) {
            return Err(Unwritable);
        }
        match value {
            Value::Bool(v) => self.boxed(b'Z', &[u8::from(*v)]),
            Value::Byte(v) => self.boxed(b'B', &v.to_be_bytes()),
            Value::Char(v) => self.boxed(b'C', &v.to_be_bytes()),
            Value::Double(v) => self.boxed(b'D', &v.to_be_bytes()),
            Value::Float(v) => self.boxed(b'F', &v.to_be_bytes()),
            Value::Int(v) => self.boxed(b'I', &v.to_be_bytes()),
            Value::Long(v) => self.boxed(b'J', &v.to_be_bytes()),
            Value::Short(v) => self.boxed(b'S', &v.to_be_bytes()),
            Value::Str(s) => self.text(s),
            Value::Bytes(b) => {
                self.out.push(ARRAY);
                self.class(Class::Bytes);
                self.handles += 1;
                self.out.i32(i32::try_from(b.len()).map_err(|_| Unwritable)?);
                self.out.extend_from_slice(b);
            }
            Value::Null | Value::Class(_) | Value::Streamable(_) | Value::Java(_) => {
                self.out.push(NULL);
            }
        }
        Ok(())
    }

    /// Long texts are ASCII, of which NUL alone takes two bytes.
    fn text(&mut self, s: &str) {
        self.handles += 1;
        if 2 * s.len() <= SHORT {
            self.out.push(STRING);
            return self.out.utf(s);
        }
        let nuls = s.bytes().filter(|b| *b == 0).count();
        self.out.push(LONG_STRING);
        self.out.u64((s.len() + nuls) as u64);
        for b in s.bytes() {
            match b {
                0 => self.out.extend_from_slice(&[0xc0, 0x80]),
                b => self.out.push(b),
            }
        }
    }
}

const WHAT: &str = "serialised map";

/// The entries of a `java.util.HashMap` in a Java serialisation stream.
///
/// # Errors
/// If it is no such stream, or holds anything but values.
pub fn read(stream: &Bytes) -> Decoded<Vec<(Value, Value)>> {
    let mut r = Objects { r: Reader::new(stream.clone()), known: Vec::new() };
    if r.r.take(STREAM.len(), WHAT)? != STREAM || r.r.u8(WHAT)? != OBJECT {
        return Err(r.bad());
    }
    if r.class()? != Class::Map {
        return Err(r.bad());
    }
    r.known.push(Known::Other);
    r.r.u32("load factor")?;
    r.r.u32("threshold")?;
    if r.r.u8(WHAT)? != BLOCK || r.r.u8(WHAT)? != 8 {
        return Err(r.bad());
    }
    r.r.u32("capacity")?;
    let n = r.r.i32("entries")?;
    let n = r.r.count(i64::from(n), 2, "entries")?;
    let mut entries = Vec::with_capacity(n);
    for _ in 0..n {
        let key = r.value()?;
        entries.push((key, r.value()?));
    }
    if r.r.u8(WHAT)? != END {
        return Err(r.bad());
    }
    r.r.finish(WHAT)?;
    Ok(entries)
}

/// What can be referred to.
enum Known {
    Class(Class),
    Value(Value),
    Other,
}

struct Objects {
    r: Reader,
    known: Vec<Known>,
}

impl Objects {
    fn bad(&self) -> crate::DecodeError {
        self.r.error(WHAT, DecodeErrorKind::BadValue)
    }

    fn referred(&mut self) -> Decoded<&Known> {
        let handle = self.r.u32("reference")?;
        let index = handle.checked_sub(FIRST_HANDLE).map(|i| i as usize);
        let error = self.bad();
        index.and_then(|i| self.known.get(i)).ok_or(error)
    }

    /// A class, which is one of those that have a place here, with the fields that it has in Java.
    fn class(&mut self) -> Decoded<Class> {
        match self.r.u8("class")? {
            REFERENCE => match self.referred()? {
                Known::Class(class) => Ok(*class),
                Known::Value(_) | Known::Other => Err(self.bad()),
            },
            CLASS_DESCRIPTION => {
                let name = self.r.utf("class")?;
                self.r.u64("serial version")?;
                let boxed = BOXED.iter().find(|b| b.1 == name);
                let (class, is_number) = match (name.as_str(), boxed) {
                    (MAP, _) => (Class::Map, false),
                    (NUMBER, _) => (Class::Number, false),
                    (BYTES, _) => (Class::Bytes, false),
                    (_, Some((code, _, _, number))) => (Class::Boxed(*code), *number),
                    (_, None) => return Err(self.bad()),
                };
                self.known.push(Known::Class(class));
                self.r.u8("class flags")?;
                self.fields(class)?;
                if self.r.u8("annotations")? != END {
                    return Err(self.bad());
                }
                let right = match is_number {
                    true => self.class()? == Class::Number,
                    false => self.r.u8("super class")? == NULL,
                };
                if right { Ok(class) } else { Err(self.bad()) }
            }
            _ => Err(self.bad()),
        }
    }

    fn fields(&mut self, class: Class) -> Decoded<()> {
        let value;
        let fields: &[(u8, &str)] = match class {
            Class::Map => &MAP_FIELDS,
            Class::Number | Class::Bytes => &[],
            Class::Boxed(code) => {
                value = [(code, "value")];
                &value
            }
        };
        if usize::from(self.r.u16("fields")?) != fields.len() {
            return Err(self.bad());
        }
        for (code, name) in fields {
            if self.r.u8("field type")? != *code || self.r.utf("field name")? != *name {
                return Err(self.bad());
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Decoded<Value> {
        let value = match self.r.u8("object")? {
            NULL => return Ok(Value::Null),
            REFERENCE => {
                let value = match self.referred()? {
                    Known::Value(value) => value.clone(),
                    Known::Class(_) | Known::Other => return Err(self.bad()),
                };
                if let Value::Str(s) = &value {
                    self.r.charge(s.len(), "text")?;
                }
                return Ok(value);
            }
            STRING => Value::Str(self.r.utf("text")?),
            LONG_STRING => {
                let n = self.r.u64("text")?;
                let n = self.r.count(i64::try_from(n).unwrap_or(-1), 1, "text")?;
                let text: Option<String> = decode_utf(self.r.take(n, "text")?);
                Value::Str(text.ok_or_else(|| self.r.error("text", DecodeErrorKind::BadText))?)
            }
            ARRAY => {
                if self.class()? != Class::Bytes {
                    return Err(self.bad());
                }
                let n = self.r.i32("bytes")?;
                let n = self.r.count(i64::from(n), 1, "bytes")?;
                Value::Bytes(self.r.slice(n, "bytes")?)
            }
            OBJECT => match self.class()? {
                Class::Boxed(code) => self.boxed(code)?,
                Class::Map | Class::Number | Class::Bytes => return Err(self.bad()),
            },
            _ => return Err(self.bad()),
        };
        // Kept for those who refer to it: another copy of what the input holds once.
        if let Value::Str(s) = &value {
            self.r.charge(s.len(), "text")?;
        }
        self.known.push(Known::Value(value.clone()));
        Ok(value)
    }

    fn boxed(&mut self, code: u8) -> Decoded<Value> {
        let r = &mut self.r;
        Ok(match code {
            b'Z' => Value::Bool(r.bool(WHAT)?),
            b'B' => Value::Byte(r.u8(WHAT)? as i8),
            b'C' => Value::Char(r.u16(WHAT)?),
            b'D' => Value::Double(r.u64(WHAT)?),
            b'F' => Value::Float(r.u32(WHAT)?),
            b'I' => Value::Int(r.i32(WHAT)?),
            b'J' => Value::Long(r.i64(WHAT)?),
            _ => Value::Short(r.i16(WHAT)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::{format, vec};

    /// What every map of Java 17 begins with, up to its threshold.
    const HEAD: &str = "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d1030002460\
        00a6c6f6164466163746f724900097468726573686f6c6478703f400000";
    const ONE: &str = "0000000c77080000001000000001";
    const VALUE: &str = "000576616c7565787";
    const NUMBER: &str = "200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870";

    fn bytes(hex: &str) -> Bytes {
        let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
    }

    fn text(s: &str) -> Value {
        Value::Str(s.to_string())
    }

    /// What Java writes for a map with one entry, or none.
    fn golden() -> Vec<(String, Vec<(Value, Value)>)> {
        let number = |class: &str, code: &str, first: &str, second: &str| {
            let class = format!("7372{class}020001{code}{VALUE}{NUMBER}");
            format!("{HEAD}{ONE}{class}{first}7371007e0002{second}78")
        };
        let other = |class: &str, code: &str, first: &str, second: &str| {
            let class = format!("7372{class}020001{code}{VALUE}0");
            format!("{HEAD}{ONE}{class}{first}7371007e0002{second}78")
        };
        let lang = "6a6176612e6c616e672e";
        let class =
            |length: &str, name: &str, version: &str| format!("{length}{lang}{name}{version}");
        vec![
            (format!("{HEAD}0000000077080000001000000000 78"), vec![]),
            (format!("{HEAD}{ONE}7400016b7400017678"), vec![(text("k"), text("v"))]),
            (
                number(
                    &class("0011", "496e7465676572", "12e2a0a4f7818738"),
                    "49",
                    "00000001",
                    "00000002",
                ),
                vec![(Value::Int(1), Value::Int(2))],
            ),
            (
                number(
                    &class("000e", "4c6f6e67", "3b8be490cc8f23df"),
                    "4a",
                    "0000000000000001",
                    "0000000000000002",
                ),
                vec![(Value::Long(1), Value::Long(2))],
            ),
            (
                number(&class("000f", "53686f7274", "684d37133460da52"), "53", "0001", "0002"),
                vec![(Value::Short(1), Value::Short(2))],
            ),
            (
                number(&class("000e", "42797465", "9c4e6084ee50f51c"), "42", "01", "02"),
                vec![(Value::Byte(1), Value::Byte(2))],
            ),
            (
                number(
                    &class("000f", "466c6f6174", "daedc9a2db3cf0ec"),
                    "46",
                    "3fc00000",
                    "40200000",
                ),
                vec![(Value::Float(1.5f32.to_bits()), Value::Float(2.5f32.to_bits()))],
            ),
            (
                number(
                    &class("0010", "446f75626c65", "80b3c24a296bfb04"),
                    "44",
                    "3ff8000000000000",
                    "4004000000000000",
                ),
                vec![(Value::Double(1.5f64.to_bits()), Value::Double(2.5f64.to_bits()))],
            ),
            (
                other(&class("0011", "426f6f6c65616e", "cd207280d59cfaee"), "5a", "01", "00"),
                vec![(Value::Bool(true), Value::Bool(false))],
            ),
            (
                other(
                    &class("0013", "436861726163746572", "348b47d96b1a2678"),
                    "43",
                    "0061",
                    "0062",
                ),
                vec![(Value::Char(97), Value::Char(98))],
            ),
            (
                format!(
                    "{HEAD}{ONE}7400016b757200025b42acf317f8060854e00200007870 00000003010203 78"
                ),
                vec![(text("k"), Value::Bytes(Bytes::from_static(&[1, 2, 3])))],
            ),
        ]
    }

    /// `{1=s, 2=s, 3=4L}` with one `s`, and 13 integers as their own values.
    const SHARED: &str = "0000000c770800000010000000037372001\
        16a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a617661\
        2e6c616e672e4e756d62657286ac951d0b94e08b02000078700000000174000473616d657371007e000200000\
        00271007e00057371007e0002000000037372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200\
        014a000576616c75657871007e0003000000000000000478";

    fn of(entries: &[(Value, Value)]) -> Result<Bytes, Unwritable> {
        write(entries.iter().map(|(k, v)| (k, v)))
    }

    #[test]
    fn what_is_written_and_read_is_what_java_writes() {
        for (hex, entries) in golden() {
            assert_eq!(of(&entries), Ok(bytes(&hex)), "{entries:?}");
            assert_eq!(read(&bytes(&hex)), Ok(entries));
        }
    }

    #[test]
    fn references_of_java_are_followed() {
        let same = text("same");
        let entries = vec![
            (Value::Int(1), same.clone()),
            (Value::Int(2), same),
            (Value::Int(3), Value::Long(4)),
        ];
        assert_eq!(read(&bytes(&format!("{HEAD}{SHARED}"))), Ok(entries));
    }

    #[test]
    fn entries_of_all_kinds_survive() {
        let long = "x\0".repeat(SHORT);
        let values = vec![
            Value::Null,
            Value::Bool(true),
            Value::Byte(-1),
            Value::Char(0xd800),
            Value::Double(7),
            Value::Float(8),
            Value::Int(-9),
            Value::Long(i64::MIN),
            Value::Short(3),
            text("grüße \0 𝄞"),
            Value::Str(long),
            Value::Bytes(Bytes::new()),
        ];
        let entries: Vec<(Value, Value)> =
            values.iter().flat_map(|k| values.iter().map(|v| (k.clone(), v.clone()))).collect();
        assert_eq!(read(&of(&entries).expect("written")), Ok(entries));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let at = |n: usize| Value::Str("ü".repeat(n / 4));
        for (value, fits) in [
            (Value::Java(Bytes::from_static(&STREAM)), false),
            (Value::Class(1), false),
            (Value::Streamable(Bytes::new()), false),
            (at(SHORT - 3), true),
            (at(SHORT + 1), false),
        ] {
            assert_eq!(is_writable(&value), fits);
            assert_eq!(of(&[(Value::Int(1), value)]).is_ok(), fits);
        }
        let list = "7400016b737200136a6176612e7574696c2e41727261794c6973747881d21d99c7619d0300014900\
            0473697a65787000000000770400000000 7878";
        assert!(read(&bytes(&format!("{HEAD}{ONE}{list}"))).is_err());
    }

    #[test]
    fn every_prefix_and_every_changed_byte_are_read_without_harm() {
        let whole = bytes(&format!("{HEAD}{SHARED}"));
        for n in 0..whole.len() {
            assert!(read(&whole.slice(..n)).is_err(), "{n}");
        }
        for i in 0..whole.len() {
            for change in [1u8, 0x80, 0xff] {
                let mut other = whole.to_vec();
                other[i] ^= change;
                let _ = read(&other.into());
            }
        }
    }

    #[test]
    fn a_reference_costs_what_it_stands_for() {
        let (long, many) = (30_000, 4_000);
        let key = Value::Str("x".repeat(long));
        let mut out = of(&[(key, Value::Null)]).expect("written").to_vec();
        out.truncate(out.len() - 2);
        let head = bytes(HEAD).len() + 4 + 6;
        out[head..head + 4].copy_from_slice(&(many as u32 + 1).to_be_bytes());
        out.push(NULL);
        for _ in 0..many {
            out.extend_from_slice(&[REFERENCE, 0, 0x7e, 0, 2, NULL]);
        }
        out.push(END);
        let text = read(&out.into()).expect_err("120 MB from 54 kB").to_string();
        assert!(text.contains("text"), "{text}");
    }
}
