//! Values of JGroups as words: on the command line, and printed.

use crate::failure::Failure;
use rgroups::ObjectValue;
use serde_json::{Value, json};

/// The value that a word stands for: text, or `int:5`, `long:5`, `double:0.5`, `bool:true`,
/// `bytes:0aff`, `null:`.
pub(crate) fn value(word: &str) -> Result<ObjectValue, Failure> {
    let wrong = |what: &str| Failure::usage(format!("{word:?} is not {what}"));
    Ok(match word.split_once(':') {
        Some(("int", n)) => n.parse::<i32>().map_err(|_| wrong("an int"))?.into(),
        Some(("long", n)) => n.parse::<i64>().map_err(|_| wrong("a long"))?.into(),
        Some(("double", n)) => n.parse::<f64>().map_err(|_| wrong("a double"))?.into(),
        Some(("bool", b)) => b.parse::<bool>().map_err(|_| wrong("a bool"))?.into(),
        Some(("bytes", hex)) => bytes(hex).ok_or_else(|| wrong("bytes in hex"))?.into(),
        Some(("null", "")) => ObjectValue::Null,
        Some(_) | None => ObjectValue::Str(word.to_owned()),
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = hex.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|p| (p[0] << 4 | p[1]) as u8).collect())
}

/// It for people.
pub(crate) fn text(value: &ObjectValue) -> String {
    match json(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// It for programs.
pub(crate) fn json(value: &ObjectValue) -> Value {
    let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match value {
        ObjectValue::Null => Value::Null,
        ObjectValue::Bool(v) => json!(v),
        ObjectValue::Byte(v) => json!(v),
        ObjectValue::Char(v) => json!(String::from_utf16_lossy(&[*v])),
        ObjectValue::Short(v) => json!(v),
        ObjectValue::Int(v) => json!(v),
        ObjectValue::Long(v) => json!(v),
        ObjectValue::Float(v) => json!(v),
        ObjectValue::Double(v) => json!(v),
        ObjectValue::Str(v) | ObjectValue::JGroups(v) => json!(v),
        ObjectValue::ByteArray(v) => json!(format!("bytes:{}", hex(v))),
        ObjectValue::JavaSerialized(v) => json!(format!("java:{}", hex(v))),
        other => json!(format!("{other:?}")),
    }
}
