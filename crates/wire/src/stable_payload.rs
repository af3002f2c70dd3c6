//! What members of this toolkit tell each other in messages of STABLE beyond what JGroups does. The
//! header is JGroups' own; the payload is a BytesMessage, which JGroups never sends there. Its first
//! byte says what it is: this is the one place where these numbers are given out. A layout that
//! changes gets a new number; a number that a receiver does not know is dropped there, and counted.

use crate::changes::{Changes, read_varint, varint};
use crate::error::DecodeErrorKind;
use crate::{Decode, Decoded, Encode, Reader, Writer};

/// What the first byte of a payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StablePayloadKind {
    /// 1: about the last messages of members that are gone.
    TailRepair,
    /// 2: a member's report.
    Report,
    /// 3: what is stable.
    Vector,
}

impl StablePayloadKind {
    /// The kind of a payload; `None` if it is empty or its number is not known.
    #[must_use]
    pub fn of(payload: &[u8]) -> Option<Self> {
        match payload.first()? {
            1 => Some(Self::TailRepair),
            2 => Some(Self::Report),
            3 => Some(Self::Vector),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::TailRepair => 1,
            Self::Report => 2,
            Self::Vector => 3,
        }
    }
}

/// Agreement on what is stable, in the form between members of this toolkit. The view is the one
/// that the header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StablePayload {
    /// What one member has delivered and received, on a stability vector that it names.
    Report(Changes),
    /// What all have delivered and anybody has received.
    Vector {
        /// Its number in the view; the first is 1.
        number: u64,
        /// The numbers, on an earlier vector or on none.
        changes: Changes,
    },
}

/// | bytes | field |
/// |-------|-------|
/// | 1 | 2 report, 3 stability vector |
/// | varint | the vector's number, from 1; only if it is one |
/// | changes | see [`Changes`] |
impl Encode for StablePayload {
    fn encode(&self, w: &mut impl Writer) {
        match self {
            StablePayload::Report(changes) => {
                w.u8(StablePayloadKind::Report.to_wire());
                changes.encode(w);
            }
            StablePayload::Vector { number, changes } => {
                w.u8(StablePayloadKind::Vector.to_wire());
                varint(w, *number);
                changes.encode(w);
            }
        }
    }
}

impl Decode for StablePayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("payload of STABLE")?;
        match StablePayloadKind::of(&[kind]) {
            Some(StablePayloadKind::Report) => Ok(StablePayload::Report(Changes::decode(r)?)),
            Some(StablePayloadKind::Vector) => {
                let number = read_varint(r, "number of a vector")?;
                let changes = Changes::decode(r)?;
                if changes.base() >= number {
                    return Err(r.error("base of a vector", DecodeErrorKind::BadValue));
                }
                Ok(StablePayload::Vector { number, changes })
            }
            Some(StablePayloadKind::TailRepair) | None => {
                Err(r.error("payload of STABLE", DecodeErrorKind::BadTag(u32::from(kind))))
            }
        }
    }
}
