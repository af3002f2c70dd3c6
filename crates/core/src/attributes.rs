//! Configuration attributes: one declaration per attribute yields the typed field, its default, its
//! documentation and access by JGroups' name.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

/// An attribute's static description.
#[derive(Clone, Copy, Debug)]
pub struct AttrInfo {
    /// JGroups' name.
    pub name: &'static str,
    /// What it means, with unit and default.
    pub doc: &'static str,
    /// The kind of value.
    pub kind: &'static str,
}

/// Why an attribute could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttrError {
    /// There is no such attribute; the nearest name, if one is near.
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest existing name.
        nearest: Option<&'static str>,
    },
    /// The value cannot be read as what the attribute holds.
    BadValue {
        /// The attribute.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is expected.
        expected: &'static str,
    },
}

impl fmt::Display for AttrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrError::Unknown { name, nearest: Some(n) } => {
                write!(f, "unknown attribute {name:?}; did you mean {n:?}?")
            }
            AttrError::Unknown { name, nearest: None } => write!(f, "unknown attribute {name:?}"),
            AttrError::BadValue { name, value, expected } => {
                write!(f, "{name}={value:?}: expected {expected}")
            }
        }
    }
}

impl core::error::Error for AttrError {}

/// Access to a configuration by attribute names.
pub trait Attributes {
    /// The protocol's name.
    fn protocol(&self) -> &'static str;
    /// What the protocol is for.
    fn purpose(&self) -> &'static str;
    /// All attributes, in order of declaration.
    fn list(&self) -> &'static [AttrInfo];
    /// The value of one attribute as text.
    fn show(&self, name: &str) -> Option<String>;
    /// Sets one attribute from text.
    fn set(&mut self, name: &str, value: &str) -> Result<(), AttrError>;
}

/// A kind of attribute value.
pub trait AttrValue: Sized {
    /// What the value looks like, for errors.
    const KIND: &'static str;
    /// From text, with JGroups' units.
    fn parse(text: &str) -> Option<Self>;
    /// To text.
    fn show(&self) -> String;
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl AttrValue for ByteSize {
    const KIND: &'static str = "a size in bytes, such as 64000, 60K or 4M (thousands)";
    fn parse(text: &str) -> Option<Self> {
        let t = text.trim().to_ascii_lowercase();
        let (digits, factor) = [("kib", 1024), ("mib", 1 << 20), ("gib", 1 << 30)]
            .into_iter()
            .chain([("kb", 1000), ("mb", 1_000_000), ("gb", 1_000_000_000)])
            .chain([("k", 1000), ("m", 1_000_000), ("g", 1_000_000_000)])
            .find_map(|(suffix, f)| t.strip_suffix(suffix).map(|d| (d, f)))
            .unwrap_or((t.as_str(), 1));
        let n: f64 = digits.trim().parse().ok()?;
        (n >= 0.0).then_some(ByteSize((n * f64::from(factor)) as u64))
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl AttrValue for Duration {
    const KIND: &'static str = "a time in milliseconds, or with a unit: 500ms, 1.5s, 2m";
    fn parse(text: &str) -> Option<Self> {
        let t = text.trim().to_ascii_lowercase();
        let (digits, ms) = [("ms", 1.0), ("s", 1000.0), ("m", 60_000.0), ("h", 3_600_000.0)]
            .into_iter()
            .find_map(|(suffix, f)| t.strip_suffix(suffix).map(|d| (d, f)))
            .unwrap_or((t.as_str(), 1.0));
        let n: f64 = digits.trim().parse().ok()?;
        (n >= 0.0 && n.is_finite()).then(|| Duration::from_nanos((n * ms * 1e6) as u64))
    }
    fn show(&self) -> String {
        alloc::format!("{}ms", self.as_millis())
    }
}

impl AttrValue for bool {
    const KIND: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl AttrValue for String {
    const KIND: &'static str = "text";
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_string())
    }
    fn show(&self) -> String {
        self.clone()
    }
}

macro_rules! plain_values {
    ($($t:ty => $kind:literal),* $(,)?) => {$(
        impl AttrValue for $t {
            const KIND: &'static str = $kind;
            fn parse(text: &str) -> Option<Self> {
                text.trim().parse().ok()
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

plain_values! {
    u16 => "a number from 0 to 65535",
    u32 => "a number",
    u64 => "a number",
    f64 => "a fraction, such as 0.4",
    SocketAddr => "an address with port, such as 127.0.0.1:7800",
    core::net::IpAddr => "an address, such as 127.0.0.1",
}

impl<T: AttrValue> AttrValue for Option<T> {
    const KIND: &'static str = T::KIND;
    fn parse(text: &str) -> Option<Self> {
        T::parse(text).map(Some)
    }
    fn show(&self) -> String {
        self.as_ref().map_or_else(String::new, T::show)
    }
}

impl AttrValue for Vec<SocketAddr> {
    const KIND: &'static str = "addresses with ports, such as 127.0.0.1:7800,127.0.0.1:7801";
    fn parse(text: &str) -> Option<Self> {
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        parts.map(|p| p.parse().ok()).collect()
    }
    fn show(&self) -> String {
        let parts: Vec<String> = self.iter().map(ToString::to_string).collect();
        parts.join(",")
    }
}

/// The name in `names` nearest to `name`, if it is near enough to be a slip.
#[must_use]
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|n| (edit_distance(name, n), n))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, n)| *d <= 1 + n.len() / 4)
        .map(|(_, n)| n)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Declares a protocol's configuration: fields with documentation, type and default, and their
/// [`Attributes`].
///
/// ```
/// rgroups_core::attributes! {
///     /// An example.
///     pub struct ExampleConfig for "EXAMPLE" {
///         /// How long. Milliseconds, default 1 s.
///         timeout: core::time::Duration = core::time::Duration::from_secs(1),
///     }
/// }
/// use rgroups_core::attributes::Attributes;
/// let mut c = ExampleConfig::default();
/// c.set("timeout", "500").unwrap();
/// assert_eq!(c.timeout.as_millis(), 500);
/// ```
#[macro_export]
macro_rules! attributes {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident for $protocol:literal {
            $($(#[doc = $fdoc:literal])+ $field:ident : $ty:ty = $default:expr),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $fdoc])+ pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::attributes::Attributes for $name {
            fn protocol(&self) -> &'static str {
                $protocol
            }
            fn purpose(&self) -> &'static str {
                concat!($($doc),*)
            }
            fn list(&self) -> &'static [$crate::attributes::AttrInfo] {
                &[$($crate::attributes::AttrInfo {
                    name: stringify!($field),
                    doc: concat!($($fdoc),+),
                    kind: <$ty as $crate::attributes::AttrValue>::KIND,
                },)*]
            }
            fn show(&self, name: &str) -> Option<$crate::attributes::Text> {
                match name {
                    $(stringify!($field) => {
                        Some($crate::attributes::AttrValue::show(&self.$field))
                    })*
                    _ => None,
                }
            }
            fn set(
                &mut self,
                name: &str,
                value: &str,
            ) -> Result<(), $crate::attributes::AttrError> {
                match name {
                    $(stringify!($field) => {
                        self.$field = <$ty as $crate::attributes::AttrValue>::parse(value)
                            .ok_or_else(|| $crate::attributes::AttrError::BadValue {
                                name: stringify!($field),
                                value: value.into(),
                                expected: <$ty as $crate::attributes::AttrValue>::KIND,
                            })?;
                        Ok(())
                    })*
                    _ => Err($crate::attributes::AttrError::Unknown {
                        name: name.into(),
                        nearest: $crate::attributes::nearest(
                            name,
                            [$(stringify!($field)),*].into_iter(),
                        ),
                    }),
                }
            }
        }
    };
}

/// Owned text, named here so that [`attributes!`] works in crates without `alloc` in scope.
pub type Text = String;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_jgroups() {
        assert_eq!(ByteSize::parse("4M"), Some(ByteSize(4_000_000)));
        assert_eq!(ByteSize::parse("60k"), Some(ByteSize(60_000)));
        assert_eq!(Duration::parse("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(Duration::parse("500"), Some(Duration::from_millis(500)));
        assert_eq!(Duration::parse("-1"), None);
    }

    #[test]
    fn a_slip_finds_the_nearest_name() {
        let names = ["recv_buf_size", "send_buf_size"];
        assert_eq!(nearest("recv_buf_sise", names.into_iter()), Some("recv_buf_size"));
        assert_eq!(nearest("colour", names.into_iter()), None);
    }
}
