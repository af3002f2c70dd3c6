//! What members and the keeper tell each other: payloads under the header of COUNTER whose first byte
//! is 4, which JGroups never sends. They go to members of the capability only.

use super::{LockName, MAX_NAME, Number};
use crate::wire::{
    self, Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, ProtId, Reader, WriteExt,
    Writer,
};
use crate::{Uuid, ViewId};
use alloc::vec::Vec;
use bytes::Bytes;

/// The first byte.
const OURS: u8 = 4;

/// What a member says of one of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) number: Number,
    pub(super) name: LockName,
    pub(super) state: ClaimState,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// It waits; with this place in the line, if a keeper has given it one.
    Waits { ticket: Option<u64> },
    /// It is had if that is possible at once, and refused otherwise.
    NowOrNever,
    /// It is had.
    Has { token: u64 },
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the keeper of a new view: all that the member has and waits for.
    Claims(Vec<Claim>),
    /// To the keeper: this too.
    Acquire(Claim),
    /// To the keeper: this not any more.
    Release(Number),
    /// From the keeper: everybody has said what it has.
    Ready,
    /// Its place in the line.
    Queued { number: Number, ticket: u64 },
    /// It is had.
    Granted { number: Number, token: u64 },
    /// It cannot be had at once.
    Busy(Number),
    /// It is known not to be had any more.
    Released(Number),
    /// Somebody else has it.
    Lost(Number),
    /// It is a semaphore with this many permits.
    OtherPermits { number: Number, permits: u32 },
}

impl Step {
    pub(super) fn is_for_keeper(&self) -> bool {
        matches!(self, Step::Claims(_) | Step::Acquire(_) | Step::Release(_))
    }
}

/// A step in a view. In another one it means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct LockPayload {
    pub(super) view: ViewId,
    pub(super) step: Step,
}

impl LockPayload {
    /// Whether a payload under the header of COUNTER is LOCK's.
    pub(in super::super) fn is_ours(bytes: &Bytes) -> bool {
        bytes.first() == Some(&OURS)
    }

    /// It does not wait for credit: what is on its way is bounded by the requests that members may
    /// have, and it is consumed where it arrives.
    pub(super) fn message(&self, to: Uuid) -> wire::Message {
        wire::Message::unicast(to, Body::bytes(self.to_bytes()))
            .with_flags(Flags::NO_FC)
            .with_header(ProtId::COUNTER, Header::Counter)
    }
}

/// | bytes | field |
/// |-------|-------|
/// | 1 | 4 |
/// | 1 | step: 1 claims, 2 acquire, 3 release, 4 ready, 5 queued, 6 granted, 7 busy, 8 released, 9 lost, 10 other permits |
/// | 24 | the view: creator, u64 number |
/// | … | 1: u32 count, claims; 2: claim; 3 and 7 to 9: u64 number; 5, 6: u64 number, u64; 10: u64 number, u32 |
///
/// A claim: u64 number, utf name, u32 permits (0: a lock), u8 state (0 waits, 1 now or never, 2 has),
/// u64 ticket (0: none) or token.
impl Encode for LockPayload {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(OURS);
        let step: u8 = match &self.step {
            Step::Claims(_) => 1,
            Step::Acquire(_) => 2,
            Step::Release(_) => 3,
            Step::Ready => 4,
            Step::Queued { .. } => 5,
            Step::Granted { .. } => 6,
            Step::Busy(_) => 7,
            Step::Released(_) => 8,
            Step::Lost(_) => 9,
            Step::OtherPermits { .. } => 10,
        };
        w.u8(step);
        self.view.creator.encode(w);
        w.u64(self.view.id);
        match &self.step {
            Step::Claims(list) => {
                w.u32(list.len() as u32);
                list.iter().for_each(|c| c.encode(w));
            }
            Step::Acquire(claim) => claim.encode(w),
            Step::Release(n) | Step::Busy(n) | Step::Released(n) | Step::Lost(n) => w.u64(*n),
            Step::Ready => {}
            Step::Queued { number, ticket: value } | Step::Granted { number, token: value } => {
                w.u64(*number);
                w.u64(*value);
            }
            Step::OtherPermits { number, permits } => {
                w.u64(*number);
                w.u32(*permits);
            }
        }
    }
}

impl Decode for LockPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("payload of LOCK")?;
        if kind != OURS {
            return Err(r.error("payload of LOCK", DecodeErrorKind::BadTag(u32::from(kind))));
        }
        let step = r.u8("step")?;
        let creator = Uuid::decode(r)?;
        let view = ViewId { creator, id: r.u64("view")? };
        let number = |r: &mut Reader| r.u64("request");
        let step = match step {
            1 => {
                let n = i64::from(r.u32("claims")?);
                let n = r.count(n, 23, "claims")?;
                let mut list = Vec::new();
                for _ in 0..n {
                    list.push(Claim::decode(r)?);
                }
                Step::Claims(list)
            }
            2 => Step::Acquire(Claim::decode(r)?),
            3 => Step::Release(number(r)?),
            4 => Step::Ready,
            5 => Step::Queued { number: number(r)?, ticket: r.u64("ticket")? },
            6 => Step::Granted { number: number(r)?, token: r.u64("token")? },
            7 => Step::Busy(number(r)?),
            8 => Step::Released(number(r)?),
            9 => Step::Lost(number(r)?),
            10 => Step::OtherPermits { number: number(r)?, permits: r.u32("permits")? },
            n => return Err(r.error("step", DecodeErrorKind::BadTag(u32::from(n)))),
        };
        Ok(LockPayload { view, step })
    }
}

impl Encode for Claim {
    fn encode(&self, w: &mut impl Writer) {
        w.u64(self.number);
        w.utf(&self.name.name);
        w.u32(self.name.permits.unwrap_or(0));
        let (state, value) = match self.state {
            ClaimState::Waits { ticket } => (0, ticket.unwrap_or(0)),
            ClaimState::NowOrNever => (1, 0),
            ClaimState::Has { token } => (2, token),
        };
        w.u8(state);
        w.u64(value);
    }
}

impl Decode for Claim {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let number = r.u64("request")?;
        let name = r.utf("name")?;
        if name.len() > MAX_NAME {
            return Err(r.error("name", DecodeErrorKind::TooLong(name.len() as u64)));
        }
        let permits = r.u32("permits")?;
        let name = LockName { name, permits: (permits > 0).then_some(permits) };
        let state = r.u8("state")?;
        let value = r.u64("ticket or token")?;
        let state = match state {
            0 => ClaimState::Waits { ticket: (value > 0).then_some(value) },
            1 => ClaimState::NowOrNever,
            2 => ClaimState::Has { token: value },
            n => return Err(r.error("state", DecodeErrorKind::BadTag(u32::from(n)))),
        };
        Ok(Claim { number, name, state })
    }
}
