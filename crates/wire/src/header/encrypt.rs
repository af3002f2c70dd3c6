//! Encryption (WIRE §27): SYM_ENCRYPT, ASYM_ENCRYPT and DH_KEY_EXCHANGE. What is encrypted is the
//! payload; these headers travel in clear.

use super::kinds::wire_kinds;
use crate::address_codec::{decode_addr, encode_addr};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use bytes::Bytes;

/// Encryption header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptHeader {
    /// What it says.
    pub kind: EncryptKind,
    /// The whole is an encoded message, not a payload.
    pub needs_deserialization: bool,
    /// Which key was used.
    pub key_version: Option<Bytes>,
    /// FETCH_SHARED_KEY: who has the key.
    pub server: Option<Address>,
    /// Initialisation vector.
    pub iv: Option<Bytes>,
}

/// Kinds of [`EncryptHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptKind {
    /// 0: an encrypted message.
    Encrypted,
    /// 1: keys precede the payload.
    InstallKeys,
    /// 2: fetch the key from the server.
    FetchSharedKey,
}

wire_kinds!(EncryptKind: u8, "encryption type", {
    Encrypted = 0 "ENCRYPTED",
    InstallKeys = 1 "INSTALL_KEYS",
    FetchSharedKey = 2 "FETCH_SHARED_KEY",
});

/// Matches `EncryptHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 0 encrypted, 1 INSTALL_KEYS, 2 FETCH_SHARED_KEY |
/// | 1 | needs deserialization |
/// | buf | key version |
/// | addr | server |
/// | buf | initialisation vector |
impl Encode for EncryptHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        w.bool(self.needs_deserialization);
        w.buf(self.key_version.as_ref());
        encode_addr(self.server.as_ref(), w);
        w.buf(self.iv.as_ref());
    }
}

impl Decode for EncryptHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(EncryptHeader {
            kind: EncryptKind::decode(r)?,
            needs_deserialization: r.bool("needs deserialization")?,
            key_version: r.buf("key version")?,
            server: decode_addr(r)?,
            iv: r.buf("initialisation vector")?,
        })
    }
}

/// Diffie-Hellman header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhHeader {
    /// 0: my public key, please.
    Request {
        /// The key.
        public_key: Bytes,
    },
    /// 1: mine, and the shared key.
    Response {
        /// The key.
        public_key: Bytes,
        /// The shared key, encrypted.
        secret_key: Bytes,
        /// Its version.
        version: Bytes,
    },
}

/// Matches `DH_KEY_EXCHANGE.DhHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 0 request, 1 response |
/// | 4 + n | public key |
/// | 4 + n, 4 + n | response: encrypted secret key, its version |
impl Encode for DhHeader {
    fn encode(&self, w: &mut impl Writer) {
        match self {
            DhHeader::Request { public_key } => {
                w.u8(0);
                w.counted(Some(public_key));
            }
            DhHeader::Response { public_key, secret_key, version } => {
                w.u8(1);
                for field in [public_key, secret_key, version] {
                    w.counted(Some(field));
                }
            }
        }
    }
}

impl Decode for DhHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let bytes = |r: &mut Reader| {
            r.counted("key")?.ok_or_else(|| r.error("key", DecodeErrorKind::BadValue))
        };
        Ok(match r.u8("DH type")? {
            0 => DhHeader::Request { public_key: bytes(r)? },
            1 => DhHeader::Response {
                public_key: bytes(r)?,
                secret_key: bytes(r)?,
                version: bytes(r)?,
            },
            n => return Err(r.error("DH type", DecodeErrorKind::BadTag(u32::from(n)))),
        })
    }
}
