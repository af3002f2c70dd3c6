//! Field values of the vectors as values of this crate.

use bytes::Bytes;
use rgroups_wire::address::{ExtendedUuid, FlagsUuid, SiteMaster, SiteUuid};
use rgroups_wire::{Address, Digest, IpAddress, RefDigest, SeqnoPair, Uuid, View, ViewId};
use serde_json::Value as Json;

use crate::common::unhex;

/// A text field, or null.
pub(crate) fn text(v: &Json) -> Option<String> {
    v.as_str().map(str::to_string)
}

pub(crate) fn int(v: &Json) -> i64 {
    v.as_i64().unwrap()
}

pub(crate) fn flag(v: &Json) -> bool {
    v.as_bool().unwrap()
}

/// Bytes written as hex digits, or null.
pub(crate) fn bytes(v: &Json) -> Option<Bytes> {
    v.as_str().map(unhex)
}

/// An address as the vectors write it: `kind:...`, or `null`.
pub(crate) fn addr(v: &Json) -> Option<Address> {
    let (kind, rest) = v.as_str()?.split_once(':')?;
    let extended = |uuid| ExtendedUuid { base: FlagsUuid { uuid, flags: 0 }, entries: vec![] };
    Some(match kind {
        "uuid" => Address::Uuid(uuid(rest)),
        "ip" => Address::Ip(ip(rest)),
        "flagsuuid" => Address::Flags(Box::new(FlagsUuid { uuid: uuid(rest), flags: 0 })),
        "extendeduuid" => Address::Extended(Box::new(extended(uuid(rest)))),
        "siteuuid" => {
            let mut parts = rest.split(':');
            let mut next = || parts.next().filter(|p| *p != "null").map(str::to_string);
            let id = uuid(&next().unwrap());
            Address::Site(Box::new(SiteUuid { base: extended(id), site: next(), name: next() }))
        }
        "sitemaster" => Address::SiteMaster(Box::new(SiteMaster {
            base: extended(Uuid::new(0, 0)),
            site: Some(rest).filter(|s| *s != "null").map(str::to_string),
            name: None,
        })),
        "millis" => Address::Millis(rest.parse().unwrap()),
        _ => panic!("unknown address {v}"),
    })
}

/// An address that is there.
pub(crate) fn member(v: &Json) -> Address {
    addr(v).unwrap()
}

pub(crate) fn ip_addr(v: &Json) -> Option<IpAddress> {
    match addr(v) {
        Some(Address::Ip(ip)) => Some(ip),
        _ => None,
    }
}

pub(crate) fn members(v: &Json) -> Option<Vec<Address>> {
    v.as_array().map(|list| list.iter().map(member).collect())
}

fn uuid(s: &str) -> Uuid {
    let bits = u128::from_str_radix(&s.replace('-', ""), 16).unwrap();
    Uuid::new((bits >> 64) as u64, bits as u64)
}

/// `host:port`, where the host may be IPv6 with a scope, or `<null>`.
fn ip(s: &str) -> IpAddress {
    let (host, port) = s.rsplit_once(':').unwrap();
    let (host, scope) = host.split_once('%').unwrap_or((host, "0"));
    IpAddress {
        ip: (host != "<null>").then(|| host.parse().unwrap()),
        scope: scope.parse().unwrap(),
        port: port.parse().unwrap(),
    }
}

/// `creator` and `id`, or the fields with these names.
pub(crate) fn view_id(f: &Json, creator: &str, id: &str) -> Option<ViewId> {
    Some(ViewId { creator: addr(&f[creator])?, id: f[id].as_i64()? })
}

/// A view; its creator is its first member where the vector does not name it.
pub(crate) fn view(f: &Json) -> Option<View> {
    let members = members(&f["members"])?;
    let creator = addr(&f["creator"]).or_else(|| members.first().cloned())?;
    let id = ViewId { creator, id: f["id"].as_i64()? };
    let subgroups = f["subgroups"].as_array().map(|l| l.iter().map(|g| view(g).unwrap()).collect());
    Some(View { id, members: Some(members), subgroups })
}

pub(crate) fn pairs(v: &Json) -> Option<Vec<SeqnoPair>> {
    let pair = |p: &Json| SeqnoPair { delivered: int(&p[0]), received: int(&p[1]) };
    v.as_array().map(|list| list.iter().map(pair).collect())
}

pub(crate) fn ref_digest(v: &Json) -> Option<RefDigest> {
    pairs(v).map(|seqnos| RefDigest { seqnos })
}

pub(crate) fn digest(members_of: &Json, seqnos: &Json) -> Option<Digest> {
    let entries = members(members_of)?.into_iter().zip(pairs(seqnos)?).collect();
    Some(Digest { entries })
}
