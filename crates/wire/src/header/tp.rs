//! The transport's header: which cluster a message belongs to (WIRE §5.4), and round-trip probes.

use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use bytes::Bytes;

/// Which cluster a message belongs to; also carries round-trip probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpHeader {
    /// Cluster name as its bytes (ASCII), shared by all messages of a channel; `None` is null.
    pub cluster: Option<Bytes>,
    /// Ordinary message or probe.
    pub rtt: Rtt,
}

/// The round-trip probe in a [`TpHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rtt {
    /// Not a probe.
    None,
    /// Please answer with this index.
    Request(i32),
    /// The answer.
    Response(i32),
}

/// Matches `TpHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | astr | cluster |
/// | 1 | 0 ordinary, 1 probe, 2 answer |
/// | 4 | index, unless ordinary |
impl Encode for TpHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.astr(self.cluster.as_deref());
        match self.rtt {
            Rtt::None => w.u8(0),
            Rtt::Request(index) => {
                w.u8(1);
                w.i32(index);
            }
            Rtt::Response(index) => {
                w.u8(2);
                w.i32(index);
            }
        }
    }
}

impl Decode for TpHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let cluster = r.astr("cluster name")?;
        let rtt = match r.u8("TP flag")? {
            0 => Rtt::None,
            1 => Rtt::Request(r.i32("RTT index")?),
            2 => Rtt::Response(r.i32("RTT index")?),
            n => return Err(r.error("TP flag", DecodeErrorKind::BadTag(u32::from(n)))),
        };
        Ok(TpHeader { cluster, rtt })
    }
}
