//! The layouts of header bodies as data: what a reader in another language needs. The dissector for
//! Wireshark is written from this table; that it agrees with the codecs is tested with every header
//! of the vectors and captures.

use crate::error::DecodeErrorKind;
use crate::header::class;
use crate::header::{
    CorrelatorKind, EncryptKind, FcHeader, FdSock2Kind, GmsKind, PingKind, RsvpKind, SequencerKind,
    StableKind, StateTransferKind, StreamingKind, VerifyKind,
};
use crate::{Body, Decoded, ProtId, Reader};

/// The body of one class of headers.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The magic id of the class.
    pub magic: i16,
    /// Its fields in order.
    pub fields: &'static [Field],
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// What it is called.
    pub name: &'static str,
    /// How it is written.
    pub form: Form,
    /// Whether it is there.
    pub when: When,
}

/// Numbers that have names.
pub type Names = &'static [(i64, &'static str)];

/// How a field is written; see the methods of [`Reader`] of the same names.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// One byte; a kind has names for its values.
    U8(Names),
    /// Two bytes.
    U16(Names),
    /// Four bytes.
    I32,
    /// Eight bytes.
    I64,
    /// One byte, 0 or 1.
    Bool,
    /// Compressed, at most four bytes.
    Cint,
    /// Compressed, at most eight bytes.
    Clong,
    /// Optional text.
    Str,
    /// A name of bytes with an i16 length.
    Astr,
    /// Optional bytes.
    Buf,
    /// Bytes with an i32 length.
    Counted,
    /// Any address.
    Addr,
    /// A list of addresses with an i16 count.
    Addrs,
    /// An IpAddress without the flags byte.
    IpBody,
    /// Creator and number of a view.
    ViewId,
    /// Initiator and number of a merge.
    MergeId,
    /// Members, then a pair of numbers each.
    Digest,
    /// The token of AUTH.
    Token,
    /// Headers as those of a message.
    Headers,
    /// A presence byte, then the other.
    Opt(&'static Form),
    /// An i32 count, then so many of the others.
    List(&'static [Form]),
}

/// When a field is there.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Always.
    Always,
    /// When the kind, which is the first field of one byte, is one of these.
    Kind(&'static [i64]),
    /// When the last number read has this bit.
    Bit(i64),
}

const fn field(name: &'static str, form: Form) -> Field {
    Field { name, form, when: When::Always }
}

const fn if_kind(kinds: &'static [i64], name: &'static str, form: Form) -> Field {
    Field { name, form, when: When::Kind(kinds) }
}

macro_rules! layouts {
    ($($magic:ident: [$($field:expr),* $(,)?]),* $(,)?) => {
        /// The layout of every class in [`class::ALL`], in the same order.
        pub const LAYOUTS: &[Layout] =
            &[$(Layout { magic: class::$magic, fields: &[$($field),*] }),*];
    };
}

use Form::{
    Addr, Addrs, Astr, Bool, Buf, Cint, Clong, Counted, Digest, Headers, I32, I64, IpBody, List,
    MergeId, Opt, Str, Token, U8, U16, ViewId,
};

const NAKACK: Names =
    &[(1, "MSG"), (2, "XMIT_REQ"), (3, "XMIT_RSP"), (4, "HIGHEST_SEQNO"), (5, "ACK")];
const UNICAST: Names =
    &[(0, "DATA"), (1, "ACK"), (2, "SEND_FIRST_SEQNO"), (3, "XMIT_REQ"), (4, "CLOSE")];
const VERIFY: &[Field] = &[field("kind", U16(VerifyKind::ALL)), field("from", Addr)];
const NAKACK_FIELDS: &[Field] = &[
    field("kind", U8(NAKACK)),
    if_kind(&[1, 3, 4, 5], "seqno", Clong),
    if_kind(&[2], "sender", Addr),
];
const UNICAST_FIELDS: &[Field] = &[
    field("kind", U8(UNICAST)),
    if_kind(&[0, 1], "seqno", Clong),
    if_kind(&[0, 1, 4], "conn_id", U16(&[])),
    if_kind(&[0], "first", Bool),
    if_kind(&[1, 2], "timestamp", Cint),
];
const CORRELATOR_FIELDS: [Field; 3] = [
    field("kind", U8(CorrelatorKind::ALL)),
    field("request", Clong),
    field("correlator", U16(&[])),
];

layouts! {
    FD_SOCK: [
        field("kind", U8(&[
            (10, "SUSPECT"), (11, "UNSUSPECT"), (12, "WHO_HAS_SOCK"), (13, "I_HAVE_SOCK"),
            (14, "GET_CACHE"), (15, "GET_CACHE_RSP"),
        ])),
        field("member", Addr),
        field("socket", Opt(&IpBody)),
        field("members", List(&[Addr])),
    ],
    FRAG: [
        field("id", Clong),
        field("fragment", Cint),
        field("fragments", Cint),
        field("needs deserialization", Bool),
        field("original type", U16(Body::TYPES)),
    ],
    PING: [field("kind", U8(PingKind::ALL)), field("cluster", Str), field("initial", Bool)],
    VERIFY_SUSPECT: [VERIFY[0], VERIFY[1]],
    GMS: [
        field("kind", U8(GmsKind::ALL)),
        field("flags", U16(&[])),
        // The address is no number: the flags are still the last one.
        field("member", Addr),
        Field { name: "merge id", form: MergeId, when: When::Bit(1 << 2) },
    ],
    STABLE: [field("kind", U8(StableKind::ALL)), field("view", Opt(&ViewId))],
    STATE_TRANSFER: [field("kind", U8(StateTransferKind::ALL)), field("digest", Opt(&Digest))],
    COMPRESS: [field("original size", I32), field("needs deserialization", Bool)],
    FLOW_CONTROL: [field("kind", U8(FcHeader::ALL))],
    TP: [
        field("cluster", Astr),
        field("kind", U8(&[(0, "MESSAGE"), (1, "RTT_REQ"), (2, "RTT_RSP")])),
        if_kind(&[1, 2], "index", I32),
    ],
    SEQUENCER: [
        field("kind", U8(SequencerKind::ALL)),
        field("seqno", Clong),
        field("flush_ack", Bool),
    ],
    HEARTBEAT: [],
    STREAMING_STATE: [
        field("kind", U8(StreamingKind::ALL)),
        field("digest", Opt(&Digest)),
        field("address", Opt(&IpBody)),
    ],
    AUTH: [field("token", Opt(&Token))],
    CORRELATOR: [CORRELATOR_FIELDS[0], CORRELATOR_FIELDS[1], CORRELATOR_FIELDS[2]],
    CORRELATOR_EXCLUDING: [
        CORRELATOR_FIELDS[0],
        CORRELATOR_FIELDS[1],
        CORRELATOR_FIELDS[2],
        field("excluded", Addrs),
    ],
    DAISYCHAIN: [field("original sender", Addr)],
    COUNTER: [],
    MERGE3: [
        field("kind", U8(&[(0, "INFO"), (1, "VIEW_REQ"), (2, "VIEW_RSP")])),
        field("view", Opt(&ViewId)),
        field("name", Str),
        field("physical address", Addr),
    ],
    RSVP: [field("kind", U8(RsvpKind::ALL)), field("id", U16(&[]))],
    NAKACK2: [NAKACK_FIELDS[0], NAKACK_FIELDS[1], NAKACK_FIELDS[2]],
    RELAY: [
        field("kind", U8(&[])),
        field("entire cache", Bool),
        field("final destination", Addr),
        field("original sender", Addr),
        field("sites", List(&[Str])),
        field("visited sites", List(&[Str])),
        field("original headers", Headers),
        field("original flags", U16(&[])),
    ],
    UNICAST3: [
        UNICAST_FIELDS[0], UNICAST_FIELDS[1], UNICAST_FIELDS[2], UNICAST_FIELDS[3],
        UNICAST_FIELDS[4],
    ],
    FORK: [field("stack", Str), field("channel", Str)],
    PERF: [field("start time", I64)],
    SEQUENCER2: [
        field("kind", U8(&[(1, "REQUEST"), (2, "BCAST"), (3, "RESPONSE")])),
        field("seqno", Clong),
        field("count", U16(&[])),
    ],
    ENCRYPT: [
        field("kind", U8(EncryptKind::ALL)),
        field("needs deserialization", Bool),
        field("key version", Buf),
        field("server", Addr),
        field("initialisation vector", Buf),
    ],
    FRAG3: [
        field("id", Cint),
        field("fragment", Cint),
        field("fragments", Cint),
        field("original length", Cint),
        field("offset", Cint),
        field("needs deserialization", Bool),
    ],
    DH_KEY_EXCHANGE: [
        field("kind", U8(&[(0, "SECRET_KEY_REQ"), (1, "SECRET_KEY_RSP")])),
        field("public key", Counted),
        if_kind(&[1], "secret key", Counted),
        if_kind(&[1], "key version", Counted),
    ],
    FD_SOCK2: [
        field("kind", U8(FdSock2Kind::ALL)),
        field("members", List(&[Addr])),
        field("cluster", Str),
        field("server", Addr),
    ],
    VERIFY_SUSPECT2: [VERIFY[0], VERIFY[1]],
    BATCH2: [],
    ROUND_TRIP: [
        field("time 1", I64), field("time 2", I64), field("time 3", I64), field("time 4", I64),
        field("time 5", I64), field("time 6", I64), field("time 7", I64), field("time 8", I64),
    ],
    NAKACK4: [NAKACK_FIELDS[0], NAKACK_FIELDS[1], NAKACK_FIELDS[2]],
    UNICAST4: [
        UNICAST_FIELDS[0], UNICAST_FIELDS[1], UNICAST_FIELDS[2], UNICAST_FIELDS[3],
        UNICAST_FIELDS[4],
    ],
    INFO: [field("entries", List(&[Str, Str]))],
}

/// The layout of a class.
#[must_use]
pub fn layout(magic: i16) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|l| l.magic == magic)
}

impl Layout {
    /// Reads a body by its layout alone, without keeping anything.
    pub fn skip(&self, r: &mut Reader) -> Decoded<()> {
        let mut kind = 0;
        let mut last = 0;
        for (i, field) in self.fields.iter().enumerate() {
            let there = match field.when {
                When::Always => true,
                When::Kind(kinds) => kinds.contains(&kind),
                When::Bit(bit) => last & bit != 0,
            };
            if !there {
                continue;
            }
            if let Some(n) = skip(field.form, r)? {
                last = n;
                if matches!(field.form, Form::U8(_)) && (i == 0 || field.name == "kind") {
                    kind = n;
                }
            }
        }
        Ok(())
    }
}

/// Reads one field; a number is returned.
fn skip(form: Form, r: &mut Reader) -> Decoded<Option<i64>> {
    const WHAT: &str = "header field";
    match form {
        U8(_) => return Ok(Some(i64::from(r.u8(WHAT)?))),
        U16(_) => return Ok(Some(i64::from(r.u16(WHAT)?))),
        I32 => return Ok(Some(i64::from(r.i32(WHAT)?))),
        I64 => return Ok(Some(r.i64(WHAT)?)),
        Bool => drop(r.bool(WHAT)?),
        Cint => drop(r.cint(WHAT)?),
        Clong => drop(r.clong(WHAT)?),
        Str => drop(r.str(WHAT)?),
        Astr => drop(r.astr(WHAT)?),
        Buf => drop(r.buf(WHAT)?),
        Counted => drop(r.counted(WHAT)?),
        Addr => addr(r)?,
        Addrs => drop(addrs(r)?),
        IpBody => ip(r)?,
        ViewId => {
            addr(r)?;
            r.clong(WHAT)?;
        }
        MergeId => {
            addr(r)?;
            r.i32(WHAT)?;
        }
        Digest => {
            for _ in 0..addrs(r)? {
                r.lseq(WHAT)?;
            }
        }
        Token => match r.i16(WHAT)? {
            // FixedMembershipToken, X509Token, and those that travel by name.
            16 => drop(r.str(WHAT)?),
            17 => drop(r.buf(WHAT)?),
            _ => {
                if r.utf(WHAT)?.ends_with("Krb5Token") {
                    r.str(WHAT)?;
                }
            }
        },
        Headers => {
            for _ in 0..r.i16(WHAT)? {
                let (_prot, magic) = (ProtId(r.i16(WHAT)?), r.i16(WHAT)?);
                let unknown = r.error(WHAT, DecodeErrorKind::UnknownHeader(magic));
                r.nested(WHAT, |r| layout(magic).ok_or(unknown)?.skip(r))?;
            }
        }
        Opt(inner) => {
            if r.bool(WHAT)? {
                skip(*inner, r)?;
            }
        }
        List(inner) => {
            for _ in 0..r.i32(WHAT)? {
                for form in inner {
                    skip(*form, r)?;
                }
            }
        }
    }
    Ok(None)
}

fn addr(r: &mut Reader) -> Decoded<()> {
    crate::address_codec::decode_addr(r).map(drop)
}

fn addrs(r: &mut Reader) -> Decoded<usize> {
    Ok(crate::address_codec::decode_addrs(r, "addresses")?.map_or(0, |list| list.len()))
}

fn ip(r: &mut Reader) -> Decoded<()> {
    <crate::IpAddress as crate::Decode>::decode(r).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_layout() {
        let classes = class::ALL.iter().map(|(magic, _)| *magic);
        assert!(classes.eq(LAYOUTS.iter().map(|l| l.magic)));
    }
}
