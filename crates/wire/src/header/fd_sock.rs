//! Failure detection over sockets (WIRE §12.1, §12.4).

use super::kinds::wire_kinds;
use crate::address_codec::{decode_addr, decode_addr_seq, encode_addr};
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, IpAddress, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// FD_SOCK header (the older protocol; decoded, never sent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdSockHeader {
    /// 10 SUSPECT … 15 GET_CACHE_RSP.
    pub kind: u8,
    /// The member in question.
    pub member: Option<Address>,
    /// Its socket.
    pub socket: Option<IpAddress>,
    /// Suspected members.
    pub members: Vec<Address>,
}

/// FD_SOCK2 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdSock2Header {
    /// What it says.
    pub kind: FdSock2Kind,
    /// Suspected members (SUSPECT, UNSUSPECT).
    pub members: Vec<Address>,
    /// The responder's cluster (CONNECT_RSP).
    pub cluster: Option<String>,
    /// CONNECT: who is meant; CONNECT_RSP: who answers.
    pub server: Option<Address>,
}

/// Kinds of [`FdSock2Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdSock2Kind {
    /// 1
    Suspect,
    /// 2
    Unsuspect,
    /// 3
    Connect,
    /// 4
    ConnectResponse,
}

wire_kinds!(FdSock2Kind: u8, "FD_SOCK2 type", {
    Suspect = 1 "SUSPECT",
    Unsuspect = 2 "UNSUSPECT",
    Connect = 3 "CONNECT",
    ConnectResponse = 4 "CONNECT_RSP",
});

/// A list with an i32 count, as both protocols write their suspects.
fn encode_members(members: &[Address], w: &mut impl Writer) {
    w.i32(members.len() as i32);
    for member in members {
        member.encode(w);
    }
}

fn decode_members(r: &mut Reader) -> Decoded<Vec<Address>> {
    let n = r.i32("suspects")?;
    decode_addr_seq(r, i64::from(n), "suspects")
}

/// Matches `FD_SOCK.FdHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 10 SUSPECT … 15 GET_CACHE_RSP |
/// | addr | the member |
/// | opt IpAddress body | its socket |
/// | 4 | number of suspects, then each as addr |
impl Encode for FdSockHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind);
        encode_addr(self.member.as_ref(), w);
        w.opt(self.socket.as_ref());
        encode_members(&self.members, w);
    }
}

impl Decode for FdSockHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(FdSockHeader {
            kind: r.u8("FD_SOCK type")?,
            member: decode_addr(r)?,
            socket: r.opt("socket address")?,
            members: decode_members(r)?,
        })
    }
}

/// Matches `FD_SOCK2.FdHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 1 SUSPECT, 2 UNSUSPECT, 3 CONNECT, 4 CONNECT_RSP |
/// | 4 | number of suspects, then each as addr |
/// | str | cluster (CONNECT_RSP) |
/// | addr | the server that is meant or that answers |
impl Encode for FdSock2Header {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        encode_members(&self.members, w);
        w.str(self.cluster.as_deref());
        encode_addr(self.server.as_ref(), w);
    }
}

impl Decode for FdSock2Header {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(FdSock2Header {
            kind: FdSock2Kind::decode(r)?,
            members: decode_members(r)?,
            cluster: r.str("cluster name")?,
            server: decode_addr(r)?,
        })
    }
}
