//! Messages between sites (WIRE §24): RELAY2 and RELAY3.

use crate::address_codec::{decode_addr, encode_addr};
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Flags, Headers, Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// RELAY header.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayHeader {
    /// 1 DATA, 2 SITE_UNREACHABLE, 3 MBR_UNREACHABLE, 4 SITES_UP, 5 SITES_DOWN, 6 TOPO_REQ,
    /// 7 TOPO_RSP.
    pub kind: u8,
    /// TOPO_REQ: return all that is known.
    pub entire_cache: bool,
    /// Where the message goes in the end; `None`: everybody.
    pub final_dest: Option<Address>,
    /// Who sent it.
    pub original_sender: Option<Address>,
    /// The sites in question.
    pub sites: Vec<Option<String>>,
    /// Sites that the message was already sent to.
    pub visited: Vec<Option<String>>,
    /// Headers of the message before it was relayed.
    pub original_headers: Headers,
    /// Flags of the message before it was relayed.
    pub original_flags: Flags,
}

/// Matches `RelayHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | type |
/// | 1 | entire cache |
/// | addr, addr | final destination, original sender |
/// | 4 | number of sites, then each as str |
/// | 4 | number of visited sites, then each as str |
/// | 2 | number of original headers; each i16 protocol id, i16 magic id, body |
/// | 2 | original flags |
impl Encode for RelayHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind);
        w.bool(self.entire_cache);
        encode_addr(self.final_dest.as_ref(), w);
        encode_addr(self.original_sender.as_ref(), w);
        for sites in [&self.sites, &self.visited] {
            w.i32(sites.len() as i32);
            for site in sites {
                w.str(site.as_deref());
            }
        }
        self.original_headers.encode(w);
        w.u16(self.original_flags.bits());
    }
}

impl Decode for RelayHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(RelayHeader {
            kind: r.u8("RELAY type")?,
            entire_cache: r.bool("entire cache")?,
            final_dest: decode_addr(r)?,
            original_sender: decode_addr(r)?,
            sites: decode_sites(r)?,
            visited: decode_sites(r)?,
            original_headers: r.nested("original headers", Headers::decode)?,
            original_flags: Flags::from_bits_retain(r.u16("original flags")?),
        })
    }
}

fn decode_sites(r: &mut Reader) -> Decoded<Vec<Option<String>>> {
    let n = r.i32("sites")?;
    let n = r.count(i64::from(n), 1, "sites")?;
    let mut sites = Vec::new();
    for _ in 0..n {
        sites.push(r.str("site")?);
    }
    Ok(sites)
}
