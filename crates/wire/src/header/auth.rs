//! Admission to the group (WIRE §26): AUTH.

use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;
use bytes::Bytes;

/// AUTH header: what proves the right to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthToken {
    /// Magic 16: the sender's address is in a list.
    FixedMembership(Option<String>),
    /// Magic 17: a value encrypted with a certificate's key.
    X509(Option<Bytes>),
    /// Class name: the sender's address or name matches an expression.
    Regex,
    /// Class name: a Kerberos ticket, in Base64.
    Kerberos(Option<String>),
}

const FIXED_MEMBERSHIP: i16 = 16;
const X509: i16 = 17;
const BY_NAME: i16 = -1;
const REGEX: &str = "org.jgroups.auth.RegexMembership";
const KERBEROS: &str = "org.jgroups.auth.Krb5Token";

/// Matches `AuthHeader.writeTo` behind its presence byte.
///
/// | bytes | field |
/// |-------|-------|
/// | 2 | magic id of the token's class, −1 if it has none |
/// | utf | its class name, if −1 |
/// | … | body of the token |
impl Encode for AuthToken {
    fn encode(&self, w: &mut impl Writer) {
        match self {
            AuthToken::FixedMembership(token) => {
                w.i16(FIXED_MEMBERSHIP);
                w.str(token.as_deref());
            }
            AuthToken::X509(value) => {
                w.i16(X509);
                w.buf(value.as_ref());
            }
            AuthToken::Regex => {
                w.i16(BY_NAME);
                w.utf(REGEX);
            }
            AuthToken::Kerberos(ticket) => {
                w.i16(BY_NAME);
                w.utf(KERBEROS);
                w.str(ticket.as_deref());
            }
        }
    }
}

impl Decode for AuthToken {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        const WHAT: &str = "AUTH token";
        let magic = r.i16(WHAT)?;
        Ok(match magic {
            FIXED_MEMBERSHIP => AuthToken::FixedMembership(r.str(WHAT)?),
            X509 => AuthToken::X509(r.buf(WHAT)?),
            BY_NAME => match r.utf(WHAT)?.as_str() {
                REGEX => AuthToken::Regex,
                KERBEROS => AuthToken::Kerberos(r.str(WHAT)?),
                _ => return Err(r.error(WHAT, DecodeErrorKind::BadValue)),
            },
            n => return Err(r.error(WHAT, DecodeErrorKind::BadTag(u32::from(n as u16)))),
        })
    }
}
