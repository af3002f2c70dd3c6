//! How addresses travel (WIRE §3): one flags byte that selects the kind, then its body.
//!
//! | flags | kind | body |
//! |-------|------|------|
//! | 01 | null | none |
//! | 02 | UUID | 8 bytes least significant half, 8 bytes most significant half |
//! | 04 | SiteUUID | as ExtendedUUID, str site, str name |
//! | 08 | SiteMaster | the same |
//! | 10 | IpAddress | u8 n (0, 4, 16), n bytes, i32 scope if n = 16, u16 port |
//! | 00 | others | i16 magic, then the body of that class |
//!
//! Matches `Util.writeAddress` and the `writeTo` of each class.

use crate::address::{Address, ExtendedUuid, FlagsUuid, IpAddress, SiteMaster, SiteUuid, Uuid};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NULL: u8 = 0x01;
const UUID: u8 = 0x02;
const SITE_UUID: u8 = 0x04;
const SITE_MASTER: u8 = 0x08;
const IP: u8 = 0x10;
const OTHER: u8 = 0x00;

/// The smallest encoding of an address that is not null: an IpAddress without host.
pub(crate) const MIN_ADDRESS: usize = 4;

/// Writes an address, or null.
pub fn encode_addr(a: Option<&Address>, w: &mut impl Writer) {
    match a {
        None => w.u8(NULL),
        Some(a) => a.encode(w),
    }
}

/// Reads an address, or null.
pub fn decode_addr(r: &mut Reader) -> Decoded<Option<Address>> {
    let flags = r.u8("address")?;
    // The order of the tests is Java's; a writer sets one bit only.
    let address = if flags & NULL != 0 {
        return Ok(None);
    } else if flags & UUID != 0 {
        Address::Uuid(Uuid::decode(r)?)
    } else if flags & SITE_UUID != 0 {
        Address::Site(Box::new(SiteUuid::decode(r)?))
    } else if flags & SITE_MASTER != 0 {
        Address::SiteMaster(Box::new(SiteMaster::decode(r)?))
    } else if flags & IP != 0 {
        Address::Ip(IpAddress::decode(r)?)
    } else if flags == OTHER {
        let magic = r.i16("address class")?;
        Address::decode_body(magic, r)?
    } else {
        return Err(r.error("address", DecodeErrorKind::BadTag(u32::from(flags))));
    };
    Ok(Some(address))
}

/// Writes an IpAddress with its flags byte, or null.
pub fn encode_ip_addr(a: Option<&IpAddress>, w: &mut impl Writer) {
    match a {
        None => w.u8(NULL),
        Some(a) => {
            w.u8(IP);
            a.encode(w);
        }
    }
}

/// Reads an address that can only be an IpAddress, or null.
pub fn decode_ip_addr(r: &mut Reader) -> Decoded<Option<IpAddress>> {
    match decode_addr(r)? {
        None => Ok(None),
        Some(Address::Ip(ip)) => Ok(Some(ip)),
        Some(_) => Err(r.error("physical address", DecodeErrorKind::BadValue)),
    }
}

/// Writes a list of addresses: i16 count (−1 is null), then the addresses.
pub fn encode_addrs(list: Option<&[Address]>, w: &mut impl Writer) {
    let Some(list) = list else { return w.i16(-1) };
    let list = &list[..list.len().min(i16::MAX as usize)];
    w.i16(list.len() as i16);
    for a in list {
        a.encode(w);
    }
}

/// Reads a list of addresses, none of which may be null.
pub fn decode_addrs(r: &mut Reader, what: &'static str) -> Decoded<Option<Vec<Address>>> {
    match r.i16(what)? {
        -1 => Ok(None),
        n => decode_addr_seq(r, i64::from(n), what).map(Some),
    }
}

/// Reads `n` addresses, none of which may be null.
pub(crate) fn decode_addr_seq(r: &mut Reader, n: i64, what: &'static str) -> Decoded<Vec<Address>> {
    let n = r.count(n, MIN_ADDRESS, what)?;
    let mut list = Vec::with_capacity(n);
    for _ in 0..n {
        list.push(Address::decode(r)?);
    }
    Ok(list)
}

/// Reads a list whose elements may be null, as Java's generic list of addresses may hold.
pub fn decode_nullable_addrs(r: &mut Reader) -> Decoded<Option<Vec<Option<Address>>>> {
    let n = r.i16("address list")?;
    if n == -1 {
        return Ok(None);
    }
    let n = r.count(i64::from(n), 1, "address list")?;
    let mut list = Vec::new();
    for _ in 0..n {
        list.push(decode_addr(r)?);
    }
    Ok(Some(list))
}

/// Writes a list whose elements may be null.
pub fn encode_nullable_addrs(list: Option<&[Option<Address>]>, w: &mut impl Writer) {
    let Some(list) = list else { return w.i16(-1) };
    let list = &list[..list.len().min(i16::MAX as usize)];
    w.i16(list.len() as i16);
    for a in list {
        encode_addr(a.as_ref(), w);
    }
}

/// An address that is not null, with its flags byte.
impl Encode for Address {
    fn encode(&self, w: &mut impl Writer) {
        match self {
            Address::Uuid(_) => w.u8(UUID),
            Address::Ip(_) => w.u8(IP),
            Address::Site(_) => w.u8(SITE_UUID),
            Address::SiteMaster(_) => w.u8(SITE_MASTER),
            Address::Flags(_) | Address::Extended(_) | Address::Millis(_) => {
                w.u8(OTHER);
                w.i16(self.magic());
            }
        }
        self.encode_body(w);
    }
}

/// An address that is not null, with its flags byte; null is an error.
impl Decode for Address {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        decode_addr(r)?.ok_or_else(|| r.error("address", DecodeErrorKind::BadValue))
    }
}

impl Address {
    /// The magic id of the address's class (WIRE §7.2).
    #[must_use]
    pub fn magic(&self) -> i16 {
        match self {
            Address::Ip(_) => 1,
            Address::Uuid(_) => 11,
            Address::Extended(_) => 12,
            Address::Site(_) => 13,
            Address::SiteMaster(_) => 14,
            Address::Flags(_) => 19,
            Address::Millis(_) => 22,
        }
    }

    /// Writes the body of the class, without the flags byte.
    pub fn encode_body(&self, w: &mut impl Writer) {
        match self {
            Address::Ip(a) => a.encode(w),
            Address::Uuid(a) => a.encode(w),
            Address::Extended(a) => a.encode(w),
            Address::Site(a) => a.encode(w),
            Address::SiteMaster(a) => a.encode(w),
            Address::Flags(a) => a.encode(w),
            Address::Millis(ms) => w.i64(*ms),
        }
    }

    /// Reads the body of the address class with this magic id.
    pub fn decode_body(magic: i16, r: &mut Reader) -> Decoded<Self> {
        Ok(match magic {
            1 => Address::Ip(IpAddress::decode(r)?),
            11 => Address::Uuid(Uuid::decode(r)?),
            12 => Address::Extended(Box::new(ExtendedUuid::decode(r)?)),
            13 => Address::Site(Box::new(SiteUuid::decode(r)?)),
            14 => Address::SiteMaster(Box::new(SiteMaster::decode(r)?)),
            19 => Address::Flags(Box::new(FlagsUuid::decode(r)?)),
            22 => Address::Millis(r.i64("millis address")?),
            _ => return Err(r.error("address class", DecodeErrorKind::BadTag(magic as u16 as u32))),
        })
    }

    /// About how many bytes of heap a clone of this address takes. Decoders that copy one address
    /// into many messages account for it (see [`Reader::charge`]).
    pub(crate) fn clone_cost(&self) -> usize {
        fn text(s: Option<&String>) -> usize {
            s.map_or(0, String::len)
        }
        fn extended(e: &ExtendedUuid) -> usize {
            size_of::<SiteUuid>() + e.entries.len() * size_of::<(Bytes, Option<Bytes>)>()
        }
        match self {
            Address::Uuid(_) | Address::Ip(_) | Address::Millis(_) => 0,
            Address::Flags(_) => size_of::<FlagsUuid>(),
            Address::Extended(e) => extended(e),
            Address::Site(s) => extended(&s.base) + text(s.site.as_ref()) + text(s.name.as_ref()),
            Address::SiteMaster(s) => {
                extended(&s.base) + text(s.site.as_ref()) + text(s.name.as_ref())
            }
        }
    }
}

/// The body of a UUID: the least significant half comes first.
impl Encode for Uuid {
    fn encode(&self, w: &mut impl Writer) {
        w.u64(self.lsb);
        w.u64(self.msb);
    }
}

impl Decode for Uuid {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let lsb = r.u64("UUID")?;
        Ok(Uuid { msb: r.u64("UUID")?, lsb })
    }
}

/// The body of an IpAddress.
impl Encode for IpAddress {
    fn encode(&self, w: &mut impl Writer) {
        match self.ip {
            None => w.u8(0),
            Some(IpAddr::V4(v4)) => {
                w.u8(4);
                w.put(&v4.octets());
            }
            Some(IpAddr::V6(v6)) => {
                w.u8(16);
                w.put(&v6.octets());
                w.u32(self.scope);
            }
        }
        w.u16(self.port);
    }
}

impl Decode for IpAddress {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "IP address";
        let (ip, scope) = match r.u8(WHAT)? {
            0 => (None, 0),
            4 => (Some(IpAddr::V4(Ipv4Addr::from(r.u32(WHAT)?))), 0),
            16 => {
                let mut octets = [0u8; 16];
                octets.copy_from_slice(r.take(16, WHAT)?);
                (Some(IpAddr::V6(Ipv6Addr::from(octets))), r.u32(WHAT)?)
            }
            n => return Err(r.error(WHAT, DecodeErrorKind::BadTag(u32::from(n)))),
        };
        Ok(IpAddress { ip, scope, port: r.u16(WHAT)? })
    }
}

/// UUID body, cint flags.
impl Encode for FlagsUuid {
    fn encode(&self, w: &mut impl Writer) {
        self.uuid.encode(w);
        w.cint(self.flags);
    }
}

impl Decode for FlagsUuid {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(FlagsUuid { uuid: Uuid::decode(r)?, flags: r.cint("address flags")? })
    }
}

/// FlagsUUID body, u8 count, then per entry u8 length, key, u8 length (0 is null), value.
impl Encode for ExtendedUuid {
    fn encode(&self, w: &mut impl Writer) {
        self.base.encode(w);
        let entries = &self.entries[..self.entries.len().min(255)];
        w.u8(entries.len() as u8);
        for (key, value) in entries {
            for field in [key.as_ref(), value.as_deref().unwrap_or_default()] {
                let field = &field[..field.len().min(255)];
                w.u8(field.len() as u8);
                w.put(field);
            }
        }
    }
}

impl Decode for ExtendedUuid {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "address entries";
        let base = FlagsUuid::decode(r)?;
        let n = r.u8(WHAT)?;
        let n = r.count(i64::from(n), 2, WHAT)?;
        let mut entries = Vec::with_capacity(n);
        for _ in 0..n {
            let n = r.u8(WHAT)?;
            let key = r.slice(usize::from(n), WHAT)?;
            let value = match r.u8(WHAT)? {
                0 => None,
                n => Some(r.slice(usize::from(n), WHAT)?),
            };
            entries.push((key, value));
        }
        Ok(ExtendedUuid { base, entries })
    }
}

/// ExtendedUUID body, str site, str name.
impl Encode for SiteUuid {
    fn encode(&self, w: &mut impl Writer) {
        self.base.encode(w);
        w.str(self.site.as_deref());
        w.str(self.name.as_deref());
    }
}

impl Decode for SiteUuid {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let base = ExtendedUuid::decode(r)?;
        Ok(SiteUuid { base, site: r.str("site")?, name: r.str("name")? })
    }
}

/// ExtendedUUID body, str site, str name.
impl Encode for SiteMaster {
    fn encode(&self, w: &mut impl Writer) {
        self.base.encode(w);
        w.str(self.site.as_deref());
        w.str(self.name.as_deref());
    }
}

impl Decode for SiteMaster {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let base = ExtendedUuid::decode(r)?;
        Ok(SiteMaster { base, site: r.str("site")?, name: r.str("name")? })
    }
}
