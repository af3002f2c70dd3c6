//! What values mean. XML files mean what they mean to JGroups, oddities included, and a warning
//! says so where that is hardly what was meant; elsewhere units are exact.

use rgroups_core::attributes::{AttrValue, ByteSize};
use std::net::SocketAddr;
use std::time::Duration;

/// A value as the protocol's configuration reads it, and what is odd about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Meaning {
    pub(super) text: String,
    pub(super) oddity: Option<Oddity>,
}

/// A value that means something else than it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Oddity {
    pub(super) message: String,
    pub(super) help: String,
}

/// The value of an attribute of this kind in an XML file. `None` if JGroups would not read it.
pub(super) fn as_jgroups(kind: &str, value: &str) -> Option<Meaning> {
    if kind == <bool as AttrValue>::KIND {
        return Some(truth(value));
    }
    if kind == <Duration as AttrValue>::KIND {
        return time(value);
    }
    if kind == <ByteSize as AttrValue>::KIND
        || kind == <u64 as AttrValue>::KIND
        || kind == <u16 as AttrValue>::KIND
    {
        return number(value);
    }
    Some(Meaning { text: value.to_owned(), oddity: None })
}

/// Everything but "true" is false.
fn truth(value: &str) -> Meaning {
    let meant = value.eq_ignore_ascii_case("true");
    let plain = meant || value.eq_ignore_ascii_case("false");
    let oddity = (!plain).then(|| Oddity {
        message: format!("{value:?} means false here, as in JGroups"),
        help: "write true or false".into(),
    });
    Meaning { text: meant.to_string(), oddity }
}

/// A number with a unit of bytes: the letter alone counts, whatever follows it.
fn number(value: &str) -> Option<Meaning> {
    let t = value.trim().to_ascii_lowercase();
    let units = [('k', 1e3, 1024u64), ('m', 1e6, 1 << 20), ('g', 1e9, 1 << 30)];
    let unit = units.into_iter().find_map(|(c, factor, exact)| Some((t.find(c)?, factor, exact)));
    let (digits, factor) = unit.map_or((t.as_str(), 1.0), |(i, factor, _)| (&t[..i], factor));
    let n: f64 = digits.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    let bytes = (n * factor) as u64;
    let oddity = unit.and_then(|(i, _, exact)| {
        let (letter, after) = (&t[i..=i], &t[i + 1..]);
        match after {
            "" | "b" => None,
            "ib" => Some(Oddity {
                message: format!(
                    "{value:?} means {} bytes here, as in JGroups ({letter} is tested before \
                     {letter}ib)",
                    grouped(bytes)
                ),
                help: format!(
                    "in TOML files it means {}; write {}{} in XML to say what you mean",
                    grouped((n * exact as f64) as u64),
                    digits.trim(),
                    letter.to_ascii_uppercase()
                ),
            }),
            _ => Some(Oddity {
                message: format!(
                    "{value:?} means {} here, as in JGroups: {after:?} behind the unit is ignored",
                    grouped(bytes)
                ),
                help: format!("write {}{}", digits.trim(), letter.to_ascii_uppercase()),
            }),
        }
    });
    Some(Meaning { text: bytes.to_string(), oddity })
}

/// A time; JGroups has no less than a millisecond.
fn time(value: &str) -> Option<Meaning> {
    let t = value.trim().to_ascii_lowercase();
    let units = [("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3.6e6), ("d", 86.4e6)];
    let unit = units.into_iter().find_map(|(u, factor)| Some((t.find(u)?, u.len(), factor)));
    let (digits, factor, after) =
        unit.map_or((t.as_str(), 1.0, ""), |(i, len, factor)| (&t[..i], factor, &t[i + len..]));
    let n: f64 = digits.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    let exact = n * factor;
    let ms = exact as u64;
    let oddity = if exact - exact.floor() > 1e-6 && exact < 1e12 {
        Some(Oddity {
            message: format!("{value:?} means {ms} ms here, as in JGroups, which has no fractions"),
            help: "in TOML files it is exact".into(),
        })
    } else if after.is_empty() {
        None
    } else {
        Some(Oddity {
            message: format!(
                "{value:?} means {} ms here, as in JGroups: {after:?} behind the unit is ignored",
                grouped(ms)
            ),
            help: "units are ms, s, m, h and d".into(),
        })
    };
    Some(Meaning { text: format!("{ms}ms"), oddity })
}

/// `64 000`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Addresses in JGroups' form, `host[port],host[port]`; `host:port` is read too. Names are asked of
/// the system, which may take its time.
pub(super) fn hosts(value: &str) -> Result<Vec<SocketAddr>, String> {
    let mut all: Vec<SocketAddr> = Vec::new();
    for one in value.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        for found in host(one)? {
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    Ok(all)
}

fn host(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let parts = match text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        Some(parts) => Some(parts),
        None => text.rsplit_once(':'),
    };
    let Some((name, port)) = parts else { return Err(format!("{text:?} has no port")) };
    let port: u16 = port.trim().parse().map_err(|_| format!("{port:?} is no port"))?;
    resolve(name.trim(), port)
}

fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if name.eq_ignore_ascii_case("localhost") {
        return Ok(vec![([127, 0, 0, 1], port).into()]);
    }
    if let Ok(ip) = name.parse::<std::net::IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(name, port));
    found.map(Iterator::collect).map_err(|e| format!("the host {name:?} was not found ({e})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &str) -> Option<(String, bool)> {
        let m = as_jgroups(<ByteSize as AttrValue>::KIND, value)?;
        Some((m.text, m.oddity.is_some()))
    }

    fn ms(value: &str) -> Option<(String, bool)> {
        let m = as_jgroups(<Duration as AttrValue>::KIND, value)?;
        Some((m.text, m.oddity.is_some()))
    }

    #[test]
    fn units_of_bytes_are_thousands_whatever_follows_the_letter() {
        let cases = [
            ("64000", "64000", false),
            ("64K", "64000", false),
            ("10kb", "10000", false),
            ("10kib", "10000", true),
            ("1mib", "1000000", true),
            ("1GiB", "1000000000", true),
            ("0.5m", "500000", false),
            ("4Megs", "4000000", true),
        ];
        for (given, meant, odd) in cases {
            assert_eq!(bytes(given), Some((meant.to_owned(), odd)), "{given}");
        }
        for wrong in ["", "k", "-1", "4X", "1.2.3M", "NaN"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_whole_milliseconds() {
        let cases = [
            ("500", "500ms", false),
            ("1.5s", "1500ms", false),
            ("2m", "120000ms", false),
            ("1d", "86400000ms", false),
            ("0.5ms", "0ms", true),
            ("5min", "300000ms", true),
        ];
        for (given, meant, odd) in cases {
            assert_eq!(ms(given), Some((meant.to_owned(), odd)), "{given}");
        }
        for wrong in ["", "soon", "1m30s", "-5s"] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whatever_is_not_true_is_false() {
        let truth = |v| as_jgroups(<bool as AttrValue>::KIND, v).expect("read");
        assert_eq!(truth("TRUE").text, "true");
        let yes = truth("yes");
        assert_eq!((yes.text.as_str(), yes.oddity.is_some()), ("false", true));
    }

    #[test]
    fn hosts_have_ports_in_brackets() {
        let found = hosts("localhost[7800], 10.0.0.1[7801],10.0.0.1:7801,[::1]:5").expect("read");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.1:7800", "10.0.0.1:7801", "[::1]:5"]);
        assert_eq!(hosts("10.0.0.1").expect_err("no port"), "\"10.0.0.1\" has no port");
        assert!(hosts("10.0.0.1[x]").is_err());
    }
}
