//! Views: who is in the group, in which order (WIRE §8.1–8.4, 8.6).

use crate::address_codec::{decode_addrs, encode_addrs};
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::{Address, Decode, Decoded, Encode, Reader, Writer};
use alloc::vec::Vec;

/// The name of a view: a number that grows, and who created it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewId {
    /// The coordinator that created the view.
    pub creator: Address,
    /// Counter; a later view of the same member has a higher one.
    pub id: i64,
}

/// A view. `subgroups` is `Some` for a MergeView.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The id.
    pub id: ViewId,
    /// Members; the first one is the coordinator. `None` is Java's null list.
    pub members: Option<Vec<Address>>,
    /// The views that were merged, when this is a MergeView.
    pub subgroups: Option<Vec<View>>,
}

impl View {
    /// The members as a slice.
    #[must_use]
    pub fn members(&self) -> &[Address] {
        self.members.as_deref().unwrap_or_default()
    }

    /// Whether this is a MergeView.
    #[must_use]
    pub fn is_merge(&self) -> bool {
        self.subgroups.is_some()
    }

    /// Writes the plain view, without the subgroups of a MergeView. Matches `View.writeTo`.
    ///
    /// | bytes | field |
    /// |-------|-------|
    /// | viewid | creator (addr), id (clong) |
    /// | addrs | members |
    pub fn encode_plain(&self, w: &mut impl Writer) {
        self.id.encode(w);
        encode_addrs(self.members.as_deref(), w);
    }

    /// Reads a MergeView: the plain view, then its subgroups.
    pub fn decode_merge(r: &mut Reader) -> Decoded<Self> {
        let mut view = View::decode(r)?;
        view.decode_subgroups(r)?;
        Ok(view)
    }

    /// Reads the subgroups that follow the plain view in a MergeView.
    ///
    /// | bytes | field |
    /// |-------|-------|
    /// | 2 | number of subgroups, then for each: |
    /// | 2 [+ addr] | index of the creator in `members`, or −1 and the address |
    /// | 8 | id, not compressed |
    /// | 2 | number of members, then for each: |
    /// | 2 [+ addr] | index in `members`, or −1 and the address |
    pub(crate) fn decode_subgroups(&mut self, r: &mut Reader) -> Decoded<()> {
        let n = r.i16(SUBGROUPS)?;
        let n = r.count(i64::from(n), 12, SUBGROUPS)?;
        let mut subgroups = Vec::with_capacity(n);
        for _ in 0..n {
            let creator = self.decode_indexed(r)?;
            let id = r.i64(SUBGROUPS)?;
            let n = r.i16(SUBGROUPS)?;
            let n = r.count(i64::from(n), 2, SUBGROUPS)?;
            let mut members = Vec::with_capacity(n);
            for _ in 0..n {
                members.push(self.decode_indexed(r)?);
            }
            let id = ViewId { creator, id };
            subgroups.push(View { id, members: Some(members), subgroups: None });
        }
        self.subgroups = Some(subgroups);
        Ok(())
    }

    fn encode_subgroups(&self, subgroups: &[View], w: &mut impl Writer) {
        let subgroups = &subgroups[..subgroups.len().min(i16::MAX as usize)];
        w.i16(subgroups.len() as i16);
        for group in subgroups {
            self.encode_indexed(&group.id.creator, w);
            w.i64(group.id.id);
            let members = group.members();
            let members = &members[..members.len().min(i16::MAX as usize)];
            w.i16(members.len() as i16);
            for member in members {
                self.encode_indexed(member, w);
            }
        }
    }

    fn encode_indexed(&self, member: &Address, w: &mut impl Writer) {
        let index = self.members().iter().take(i16::MAX as usize).position(|m| m == member);
        match index {
            Some(i) => w.i16(i as i16),
            None => {
                w.i16(-1);
                member.encode(w);
            }
        }
    }

    fn decode_indexed(&self, r: &mut Reader) -> Decoded<Address> {
        let index = r.i16(SUBGROUPS)?;
        if index == -1 {
            return Address::decode(r);
        }
        let member = usize::try_from(index).ok().and_then(|i| self.members().get(i));
        let member = member.ok_or_else(|| r.error(SUBGROUPS, DecodeErrorKind::BadValue))?;
        r.charge(member.clone_cost(), SUBGROUPS)?;
        Ok(member.clone())
    }
}

const SUBGROUPS: &str = "subgroups";

/// The difference between two views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaView {
    /// The id of the view that results.
    pub id: ViewId,
    /// The id of the view it applies to.
    pub reference: ViewId,
    /// Who is gone.
    pub left: Vec<Address>,
    /// Who is new, in order.
    pub joined: Vec<Address>,
}

/// The name of one merge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MergeId {
    /// The merge leader.
    pub initiator: Address,
    /// Its counter.
    pub id: i32,
}

/// | bytes | field |
/// |-------|-------|
/// | addr | creator |
/// | clong | id |
impl Encode for ViewId {
    fn encode(&self, w: &mut impl Writer) {
        self.creator.encode(w);
        w.clong(self.id);
    }
}

impl Decode for ViewId {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(ViewId { creator: Address::decode(r)?, id: r.clong("view id")? })
    }
}

/// A plain view, or a MergeView if there are subgroups. Nothing in the bytes says which: the
/// container does.
impl Encode for View {
    fn encode(&self, w: &mut impl Writer) {
        self.encode_plain(w);
        if let Some(subgroups) = &self.subgroups {
            self.encode_subgroups(subgroups, w);
        }
    }
}

/// Reads a plain view; for a MergeView see [`View::decode_merge`].
impl Decode for View {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let id = ViewId::decode(r)?;
        Ok(View { id, members: decode_addrs(r, "members")?, subgroups: None })
    }
}

/// | bytes | field |
/// |-------|-------|
/// | viewid | the new view |
/// | viewid | the view it applies to |
/// | addrs | who left |
/// | addrs | who joined |
impl Encode for DeltaView {
    fn encode(&self, w: &mut impl Writer) {
        self.id.encode(w);
        self.reference.encode(w);
        encode_addrs(Some(&self.left), w);
        encode_addrs(Some(&self.joined), w);
    }
}

impl Decode for DeltaView {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(DeltaView {
            id: ViewId::decode(r)?,
            reference: ViewId::decode(r)?,
            left: decode_addrs(r, "left members")?.unwrap_or_default(),
            joined: decode_addrs(r, "joined members")?.unwrap_or_default(),
        })
    }
}

/// | bytes | field |
/// |-------|-------|
/// | addr | initiator |
/// | 4 | counter |
impl Encode for MergeId {
    fn encode(&self, w: &mut impl Writer) {
        self.initiator.encode(w);
        w.i32(self.id);
    }
}

impl Decode for MergeId {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(MergeId { initiator: Address::decode(r)?, id: r.i32("merge id")? })
    }
}
