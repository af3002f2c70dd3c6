//! Addresses: who a member is ([`Uuid`]), where it is ([`IpAddress`]), and the other kinds that
//! can stand in the same place (WIRE §3).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Ordering;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The identity of one incarnation of a member: 128 bits, ordered as Java orders them (both halves
/// signed), so that Rust and Java members elect alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid {
    /// Most significant half.
    pub msb: u64,
    /// Least significant half.
    pub lsb: u64,
}

impl Uuid {
    /// From its two halves.
    #[must_use]
    pub const fn new(msb: u64, lsb: u64) -> Self {
        Self { msb, lsb }
    }
}

impl Ord for Uuid {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.msb as i64, self.lsb as i64).cmp(&(other.msb as i64, other.lsb as i64))
    }
}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            self.msb >> 32,
            (self.msb >> 16) & 0xffff,
            self.msb & 0xffff,
            self.lsb >> 48,
            self.lsb & 0xffff_ffff_ffff
        )
    }
}

/// The short form: the first eight digits. Logical names are known to the channel, not here.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.msb >> 32)
    }
}

/// A physical address. The scope of an IPv6 address is carried, but takes no part in equality.
#[derive(Clone, Copy, Debug)]
pub struct IpAddress {
    /// The host; `None` is JGroups' "no address".
    pub ip: Option<IpAddr>,
    /// IPv6 scope id, else 0.
    pub scope: u32,
    /// The port.
    pub port: u16,
}

/// Any address that can be the source or destination of a message or a member of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A member.
    Uuid(Uuid),
    /// A physical address.
    Ip(IpAddress),
    /// A member of a named site.
    Site(Box<SiteUuid>),
    /// The master of a site; `None`: of all sites.
    SiteMaster(Box<SiteMaster>),
    /// A member with flags.
    Flags(Box<FlagsUuid>),
    /// A member with flags and a small dictionary.
    Extended(Box<ExtendedUuid>),
    /// A time stamp used as an address.
    Millis(i64),
}

/// A member's identity and flags (magic 19). Equality is that of the identity.
#[derive(Clone, Debug)]
pub struct FlagsUuid {
    /// The identity.
    pub uuid: Uuid,
    /// The flags; 2 = can become site master.
    pub flags: i32,
}

/// A member's identity with flags and keys (magic 12). Equality is that of the identity.
#[derive(Clone, Debug)]
pub struct ExtendedUuid {
    /// Identity and flags.
    pub base: FlagsUuid,
    /// Keys and values; an absent value is null.
    pub entries: Vec<(Bytes, Option<Bytes>)>,
}

/// A member of a site (magic 13).
#[derive(Clone, Debug)]
pub struct SiteUuid {
    /// Identity, flags, keys.
    pub base: ExtendedUuid,
    /// The site.
    pub site: Option<String>,
    /// The logical name.
    pub name: Option<String>,
}

/// The master of a site (magic 14).
#[derive(Clone, Debug)]
pub struct SiteMaster {
    /// Identity (0/0 from Java), flags, keys.
    pub base: ExtendedUuid,
    /// The site; `None`: all sites.
    pub site: Option<String>,
    /// Logical name, null from Java.
    pub name: Option<String>,
}

impl Address {
    /// The member identity in this address, whatever its kind.
    #[must_use]
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Address::Uuid(u) => Some(*u),
            Address::Flags(f) => Some(f.uuid),
            Address::Extended(e) => Some(e.base.uuid),
            Address::Site(s) => Some(s.base.base.uuid),
            Address::Ip(_) | Address::SiteMaster(_) | Address::Millis(_) => None,
        }
    }

    /// The socket address, if this is a physical address with a host.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(a) => a.socket_addr(),
            _ => None,
        }
    }
}

impl From<Uuid> for Address {
    fn from(u: Uuid) -> Self {
        Address::Uuid(u)
    }
}

impl From<SocketAddr> for Address {
    fn from(a: SocketAddr) -> Self {
        Address::Ip(a.into())
    }
}

impl From<SocketAddr> for IpAddress {
    fn from(a: SocketAddr) -> Self {
        let scope = match a {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        IpAddress { ip: Some(a.ip()), scope, port: a.port() }
    }
}

impl IpAddress {
    /// As a socket address, if there is a host.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let mut a = SocketAddr::new(self.ip?, self.port);
        if let SocketAddr::V6(v6) = &mut a {
            v6.set_scope_id(self.scope);
        }
        Some(a)
    }

    /// Java's hash of the host: decides the order of addresses (WIRE §3.3).
    #[must_use]
    pub fn java_hash(&self) -> i32 {
        match self.ip {
            None => 0,
            Some(IpAddr::V4(v4)) => i32::from_be_bytes(v4.octets()),
            Some(IpAddr::V6(v6)) => v6.octets().chunks(4).fold(0i32, |sum, group| {
                let g = group
                    .iter()
                    .fold(0i32, |g, b| g.wrapping_mul(256).wrapping_add(i32::from(*b as i8)));
                sum.wrapping_add(g)
            }),
        }
    }
}

impl PartialEq for IpAddress {
    fn eq(&self, other: &Self) -> bool {
        self.ip == other.ip && self.port == other.port
    }
}

impl Eq for IpAddress {}

impl core::hash::Hash for IpAddress {
    fn hash<H: core::hash::Hasher>(&self, h: &mut H) {
        self.ip.hash(h);
        self.port.hash(h);
    }
}

impl PartialOrd for IpAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Java's order: hash of the host as a signed number, then port; ties of unequal hosts by host.
impl Ord for IpAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.java_hash(), self.port, self.ip).cmp(&(other.java_hash(), other.port, other.ip))
    }
}

impl fmt::Display for IpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            None => write!(f, "<none>:{}", self.port),
            Some(IpAddr::V4(v4)) => write!(f, "{v4}:{}", self.port),
            Some(IpAddr::V6(v6)) => write!(f, "[{v6}]:{}", self.port),
        }
    }
}

macro_rules! identity_equality {
    ($($t:ty => $id:expr),* $(,)?) => {$(
        impl PartialEq for $t {
            fn eq(&self, other: &Self) -> bool {
                let id: fn(&$t) -> _ = $id;
                id(self) == id(other)
            }
        }
        impl Eq for $t {}
        impl core::hash::Hash for $t {
            fn hash<H: core::hash::Hasher>(&self, h: &mut H) {
                let id: fn(&$t) -> _ = $id;
                id(self).hash(h);
            }
        }
    )*};
}

identity_equality! {
    FlagsUuid => |a| a.uuid,
    ExtendedUuid => |a| a.base.uuid,
    SiteUuid => |a| (a.site.clone(), a.base.base.uuid),
    SiteMaster => |a| (a.site.clone(), a.base.base.uuid),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Uuid(u) => u.fmt(f),
            Address::Ip(a) => a.fmt(f),
            Address::Flags(a) => a.uuid.fmt(f),
            Address::Extended(a) => a.base.uuid.fmt(f),
            Address::Site(s) => match (&s.name, &s.site) {
                (Some(n), Some(site)) => write!(f, "{}:{}", n.escape_debug(), site.escape_debug()),
                (None, Some(site)) => write!(f, "{}:{}", s.base.base.uuid, site.escape_debug()),
                (_, None) => s.base.base.uuid.fmt(f),
            },
            Address::SiteMaster(s) => match &s.site {
                Some(site) => write!(f, "SiteMaster({})", site.escape_debug()),
                None => write!(f, "SiteMaster(<all sites>)"),
            },
            Address::Millis(ms) => write!(f, "{ms} ms"),
        }
    }
}
