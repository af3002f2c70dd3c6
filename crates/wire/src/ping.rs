//! What discovery says of a member (WIRE §10.2).

use crate::address_codec::{
    decode_addr, decode_addrs, decode_ip_addr, encode_addr, encode_addrs, encode_ip_addr,
};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, IpAddress, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// A member as described in discovery traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingData {
    /// The member.
    pub sender: Option<Address>,
    /// It is a member of the cluster.
    pub server: bool,
    /// It is the coordinator (implies `server`).
    pub coordinator: bool,
    /// Its logical name.
    pub name: Option<String>,
    /// Where it is.
    pub physical: Option<IpAddress>,
    /// In requests: who is looked for; `None`: everybody.
    pub wanted: Option<Vec<Address>>,
}

const SERVER: u8 = 1;
const COORDINATOR: u8 = 2;

/// Matches `PingData.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | addr | the member |
/// | 1 | flags: 1 server, 2 coordinator (written as 3) |
/// | str | logical name |
/// | addr | physical address |
/// | addrs | who is looked for |
impl Encode for PingData {
    fn encode(&self, w: &mut impl Writer) {
        encode_addr(self.sender.as_ref(), w);
        w.u8(match (self.coordinator, self.server) {
            (true, _) => SERVER | COORDINATOR,
            (false, true) => SERVER,
            (false, false) => 0,
        });
        w.str(self.name.as_deref());
        encode_ip_addr(self.physical.as_ref(), w);
        encode_addrs(self.wanted.as_deref(), w);
    }
}

impl Decode for PingData {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let sender = decode_addr(r)?;
        let flags = r.u8("ping data flags")?;
        let coordinator = flags & COORDINATOR != 0;
        Ok(PingData {
            sender,
            server: coordinator || flags & SERVER != 0,
            coordinator,
            name: r.str("logical name")?,
            physical: decode_ip_addr(r)?,
            wanted: decode_addrs(r, "wanted members")?,
        })
    }
}

impl PingData {
    /// How many descriptions one message may hold: far more than JGroups names in one, and few
    /// enough that reading them does not keep a member from its heartbeats.
    pub const MAX_LISTED: usize = 4096;

    /// Writes the payload of a discovery message: i32 count, then the descriptions.
    pub fn encode_list(list: &[PingData], w: &mut impl Writer) {
        w.i32(list.len() as i32);
        for data in list {
            data.encode(w);
        }
    }

    /// Reads the payload of a discovery message.
    pub fn decode_list(r: &mut Reader) -> Decoded<Vec<PingData>> {
        let n = r.i32("ping data count")?;
        // The smallest description: null, flags, null, null, null list.
        let n = r.count(i64::from(n), 6, "ping data count")?;
        if n > Self::MAX_LISTED {
            return Err(r.error("ping data count", DecodeErrorKind::TooLong(n as u64)));
        }
        let mut list = Vec::new();
        for _ in 0..n {
            list.push(PingData::decode(r)?);
        }
        Ok(list)
    }
}
