//! Printing: text for people, one JSON object a line for programs. Text that came from the network
//! is escaped wherever it is shown.

use rgroups::{Address, Channel, Message, Primacy, View, ViewId};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes a line to standard output; a closed pipe ends the program quietly, as `cat` would.
pub(crate) fn line(text: &str) {
    let mut out = anstream::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes one object of a stream: schema, time stamp and type first.
pub(crate) fn object(kind: &str, fields: Value) {
    let mut o = json!({"schema": 1, "ts": timestamp(), "type": kind});
    if let (Some(o), Value::Object(fields)) = (o.as_object_mut(), fields) {
        o.extend(fields);
    }
    line(&o.to_string());
}

/// Text of a peer, safe to show: control characters and the like are escaped.
pub(crate) fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A payload for people: text if it is text, else its length and first bytes.
pub(crate) fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(t) if bytes.len() <= 4096 => escaped(t),
        Ok(_) | Err(_) => {
            let head: String = bytes.iter().take(16).map(|b| format!("{b:02x}")).collect();
            format!("<{} bytes: {head}{}>", bytes.len(), if bytes.len() > 16 { "…" } else { "" })
        }
    }
}

/// What a message carries, for people: text whether it came as bytes or as a string object, else a
/// summary.
pub(crate) fn contents(m: &Message) -> String {
    match (m.text(), m.bytes()) {
        (Some(t), _) => payload(t.as_bytes()),
        (None, Some(b)) => payload(b),
        (None, None) => escaped(&format!("<{:?}>", m.payload())),
    }
}

/// The same for programs: the text alone, with a mark for every byte that is none.
pub(crate) fn text(m: &Message) -> String {
    match (m.text(), m.bytes()) {
        (Some(t), _) => t.to_owned(),
        (None, Some(b)) => String::from_utf8_lossy(b).into_owned(),
        (None, None) => format!("{:?}", m.payload()),
    }
}

/// A member's logical name, or its short identity while the name is not known.
pub(crate) fn name(ch: &Channel, a: Address) -> String {
    ch.name_of(a).unwrap_or_else(|| a.to_string())
}

/// A member's name, escaped.
pub(crate) fn member(ch: &Channel, a: Address) -> String {
    escaped(&name(ch, a))
}

/// How long a new view may wait for the names of its members before it is shown without them.
const NAMES_WITHIN: Duration = Duration::from_secs(1);

/// Waits until the members of a new view can be shown by name, at most a second.
pub(crate) async fn named(ch: &Channel, v: &View) {
    let _ = tokio::time::timeout(NAMES_WITHIN, ch.names_known(v)).await;
}

/// What is said of the view: `** primary: yes (view 3)`.
pub(crate) fn primacy(view: ViewId, primacy: Primacy, json: bool) {
    if json {
        object("primary", json!({"view": view.id, "primary": primacy.to_string()}));
    } else {
        line(&format!("** primary: {primacy} (view {})", view.id));
    }
}

/// `[A|2] (3) [A, B, C]`, with `MergeView::` in front of merge views.
pub(crate) fn view(ch: &Channel, v: &View) -> String {
    let names: Vec<String> = v.members().iter().map(|m| member(ch, *m)).collect();
    format!(
        "{}[{}|{}] ({}) [{}]",
        if v.is_merge() { "MergeView::" } else { "" },
        member(ch, v.id().creator),
        v.id().id,
        names.len(),
        names.join(", ")
    )
}

/// A view as JSON fields.
pub(crate) fn view_json(ch: &Channel, v: &View) -> Value {
    let names: Vec<String> = v.members().iter().map(|m| name(ch, *m)).collect();
    json!({
        "creator": name(ch, v.id().creator), "id": v.id().id, "members": names,
        "merge": v.is_merge(), "coordinator": name(ch, v.coordinator()),
    })
}

/// The current time as RFC 3339 in UTC, to the millisecond.
pub(crate) fn timestamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs(), since.subsec_millis())
}

/// A time since 1970 as RFC 3339 in UTC, to the millisecond.
pub(crate) fn rfc3339(secs: u64, ms: u32) -> String {
    let (y, mo, d) = civil_date((secs / 86_400) as i64);
    let (h, mi, s) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{ms:03}Z")
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant, "chrono-compatible
/// low-level date algorithms").
fn civil_date(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// The largest memory this process has had, in bytes, where the system tells.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// The command `version`.
pub(crate) fn version(json: bool) {
    let (ours, wire) = (env!("CARGO_PKG_VERSION"), rgroups_wire::Version::OURS.to_string());
    if json {
        line(&json!({"schema": 1, "version": ours, "jgroups_wire": wire}).to_string());
    } else {
        line(&format!("rgroups {ours} (speaks JGroups {wire})"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(20_788), (2026, 12, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
    }

    #[test]
    fn text_from_the_network_cannot_move_the_cursor() {
        assert_eq!(payload(b"a\x1b[2Jb"), "a\\u{1b}[2Jb");
    }

    #[test]
    fn binary_payloads_are_summed_up() {
        assert_eq!(payload(&[0xff, 0x00]), "<2 bytes: ff00>");
    }
}
