//! Group membership (WIRE §17.1).

use super::kinds::wire_kinds;
use crate::address_codec::{decode_addr, encode_addr};
use crate::{Address, Decode, Decoded, Encode, MergeId, Reader, Writer};

/// Group membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GmsHeader {
    /// What it says.
    pub kind: GmsKind,
    /// The joiner, leaver or merge leader.
    pub member: Option<Address>,
    /// The merge it belongs to.
    pub merge_id: Option<MergeId>,
    /// MERGE_RSP: the merge is refused.
    pub merge_rejected: bool,
}

/// Kinds of [`GmsHeader`]; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GmsKind {
    /// Asks to be let in.
    JoinReq = 1,
    /// The answer.
    JoinRsp = 2,
    /// Asks to be let out.
    LeaveReq = 3,
    /// The answer.
    LeaveRsp = 4,
    /// A new view.
    View = 5,
    /// Merge leader to subgroup coordinators.
    MergeReq = 6,
    /// The answer.
    MergeRsp = 7,
    /// The merged view.
    InstallMergeView = 8,
    /// The merge is off.
    CancelMerge = 9,
    /// The view is installed.
    ViewAck = 10,
    /// As `JoinReq`; the joiner will ask for state.
    JoinReqWithState = 11,
    /// Asks for the member's own digest.
    GetDigestReq = 13,
    /// The answer.
    GetDigestRsp = 14,
    /// A digest to install.
    InstallDigest = 15,
    /// Asks for the full current view.
    GetCurrentView = 16,
}

wire_kinds!(GmsKind: u8, "GMS type", {
    JoinReq = 1 "JOIN_REQ",
    JoinRsp = 2 "JOIN_RSP",
    LeaveReq = 3 "LEAVE_REQ",
    LeaveRsp = 4 "LEAVE_RSP",
    View = 5 "VIEW",
    MergeReq = 6 "MERGE_REQ",
    MergeRsp = 7 "MERGE_RSP",
    InstallMergeView = 8 "INSTALL_MERGE_VIEW",
    CancelMerge = 9 "CANCEL_MERGE",
    ViewAck = 10 "VIEW_ACK",
    JoinReqWithState = 11 "JOIN_REQ_WITH_STATE_TRANSFER",
    GetDigestReq = 13 "GET_DIGEST_REQ",
    GetDigestRsp = 14 "GET_DIGEST_RSP",
    InstallDigest = 15 "INSTALL_DIGEST",
    GetCurrentView = 16 "GET_CURRENT_VIEW",
});

const MERGE_ID_PRESENT: u16 = 1 << 2;
const MERGE_REJECTED: u16 = 1 << 4;

/// Matches `GMS.GmsHeader.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | type |
/// | 2 | flags: bit 2 merge id present, bit 4 merge rejected |
/// | addr | member |
/// | mergeid | if present |
impl Encode for GmsHeader {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(self.kind.to_wire());
        let present = if self.merge_id.is_some() { MERGE_ID_PRESENT } else { 0 };
        let rejected = if self.merge_rejected { MERGE_REJECTED } else { 0 };
        w.u16(present | rejected);
        encode_addr(self.member.as_ref(), w);
        if let Some(id) = &self.merge_id {
            id.encode(w);
        }
    }
}

impl Decode for GmsHeader {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = GmsKind::decode(r)?;
        let flags = r.u16("GMS flags")?;
        let member = decode_addr(r)?;
        let merge_id = match flags & MERGE_ID_PRESENT {
            0 => None,
            _ => Some(MergeId::decode(r)?),
        };
        Ok(GmsHeader { kind, member, merge_id, merge_rejected: flags & MERGE_REJECTED != 0 })
    }
}
