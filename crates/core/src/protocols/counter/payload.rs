//! What members of this toolkit tell each other about counters beyond what JGroups does: payloads
//! under the header of COUNTER whose first byte is 3, which JGroups never sends
//! (docs/wire-extensions.md). They go to members of the capability only.

use super::table::{Change, Table};
use crate::wire::{
    self, Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, ProtId, Reader, Writer,
};
use crate::{Uuid, ViewId};
use bytes::Bytes;

/// The first byte.
const OURS: u8 = 3;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// From a new coordinator: what do you have?
    Ask,
    /// To a new coordinator: this.
    Have(Copy),
    /// From the coordinator to a backup: this is all there is, as of change `seq`.
    All { seq: u64, copy: Copy },
    /// From the coordinator to a backup: the next change.
    Next { seq: u64, change: Change },
    /// From a backup: I have all up to this change.
    Acked(u64),
}

/// A table, and how it came here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copy {
    /// It is, or was, that of a coordinator that had all there was.
    pub(super) whole: bool,
    /// The number of the view in which it was changed last.
    pub(super) stamp: u64,
    pub(super) table: Table,
}

/// A step in a view. In another one it means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnPayload {
    pub(super) view: ViewId,
    pub(super) step: Step,
}

impl OwnPayload {
    /// Whether a payload is one of ours, or JGroups'.
    pub(super) fn is_ours(bytes: &Bytes) -> bool {
        bytes.first() == Some(&OURS)
    }

    pub(super) fn message(&self, to: Uuid) -> wire::Message {
        message(to, self.to_bytes())
    }
}

/// A message of COUNTER. It does not wait for credit: what is on its way is bounded by the requests
/// that members may have, and it is consumed where it arrives.
pub(super) fn message(to: Uuid, payload: Bytes) -> wire::Message {
    wire::Message::unicast(to, Body::bytes(payload))
        .with_flags(Flags::NO_FC)
        .with_header(ProtId::COUNTER, Header::Counter)
}

/// | bytes | field |
/// |-------|-------|
/// | 1 | 3 |
/// | 1 | 1 ask, 2 have, 3 all, 4 next, 5 acknowledged |
/// | 24 | the view: creator, u64 number |
/// | … | 2: copy; 3: u64 number of the change, copy; 4: u64, change; 5: u64 |
///
/// A copy: u8 whole, u64 stamp, table.
impl Encode for OwnPayload {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(OURS);
        w.u8(match &self.step {
            Step::Ask => 1,
            Step::Have(_) => 2,
            Step::All { .. } => 3,
            Step::Next { .. } => 4,
            Step::Acked(_) => 5,
        });
        self.view.creator.encode(w);
        w.u64(self.view.id);
        match &self.step {
            Step::Ask => {}
            Step::Have(copy) => copy.encode(w),
            Step::All { seq, copy } => {
                w.u64(*seq);
                copy.encode(w);
            }
            Step::Next { seq, change } => {
                w.u64(*seq);
                change.encode(w);
            }
            Step::Acked(seq) => w.u64(*seq),
        }
    }
}

impl Decode for OwnPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("payload of COUNTER")?;
        if kind != OURS {
            return Err(r.error("payload of COUNTER", DecodeErrorKind::BadTag(u32::from(kind))));
        }
        let step = r.u8("step")?;
        let creator = Uuid::decode(r)?;
        let view = ViewId { creator, id: r.u64("view")? };
        let step = match step {
            1 => Step::Ask,
            2 => Step::Have(Copy::decode(r)?),
            3 => Step::All { seq: r.u64("change")?, copy: Copy::decode(r)? },
            4 => Step::Next { seq: r.u64("change")?, change: Change::decode(r)? },
            5 => Step::Acked(r.u64("change")?),
            n => return Err(r.error("step", DecodeErrorKind::BadTag(u32::from(n)))),
        };
        Ok(OwnPayload { view, step })
    }
}

impl Encode for Copy {
    fn encode(&self, w: &mut impl Writer) {
        w.bool(self.whole);
        w.u64(self.stamp);
        self.table.encode(w);
    }
}

impl Decode for Copy {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        Ok(Copy { whole: r.bool("whole")?, stamp: r.u64("stamp")?, table: Table::decode(r)? })
    }
}
