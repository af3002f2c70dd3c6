//! Finding split groups (WIRE §11).

use crate::address_codec::{decode_ip_addr, encode_ip_addr};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, IpAddress, Reader, ViewId, Writer};
use alloc::string::String;

/// MERGE3 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge3Header {
    /// 0: my view, my name, where I am.
    Info {
        /// The sender's current view.
        view: Option<ViewId>,
        /// Logical name.
        name: Option<String>,
        /// Physical address.
        physical: Option<IpAddress>,
    },
    /// 1: send me your view.
    ViewRequest,
    /// 2: the payload is my view.
    ViewResponse,
}

/// Matches `MERGE3.MergeHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 0 INFO, 1 VIEW_REQ, 2 VIEW_RSP |
/// | opt viewid | INFO: the current view |
/// | str | INFO: logical name |
/// | addr | INFO: physical address |
impl Encode for Merge3Header {
    fn encode(&self, w: &mut impl Writer) {
        let (kind, view, name, physical) = match self {
            Merge3Header::Info { view, name, physical } => {
                (0, view.as_ref(), name.as_deref(), physical.as_ref())
            }
            Merge3Header::ViewRequest => (1, None, None, None),
            Merge3Header::ViewResponse => (2, None, None, None),
        };
        w.u8(kind);
        w.opt(view);
        w.str(name);
        encode_ip_addr(physical, w);
    }
}

impl Decode for Merge3Header {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("MERGE3 type")?;
        let view = r.opt("view id")?;
        let name = r.str("logical name")?;
        let physical = decode_ip_addr(r)?;
        // The fields of requests and responses are null; whatever a peer put there is ignored.
        Ok(match kind {
            0 => Merge3Header::Info { view, name, physical },
            1 => Merge3Header::ViewRequest,
            2 => Merge3Header::ViewResponse,
            n => return Err(r.error("MERGE3 type", DecodeErrorKind::BadTag(u32::from(n)))),
        })
    }
}
