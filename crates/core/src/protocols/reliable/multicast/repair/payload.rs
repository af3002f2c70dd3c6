//! What members tell each other about the last messages of somebody who is gone. These two payloads
//! are ours and travel between tagged members only, under headers of STABLE; JGroups never sends
//! bytes there.

use super::ranges::{Ranges, after};
use crate::protocols::reliable::window::MAX_AHEAD;
use crate::wire::header::{StableHeader, StableKind};
use crate::wire::{
    self, Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, ProtId, Reader,
    StablePayloadKind, Writer,
};
use crate::{Message, Uuid, ViewId};
use alloc::vec::Vec;

/// The first byte of both payloads, which tells them from the others under this header.
const KIND: u8 = StablePayloadKind::TailRepair.to_wire();
/// A window without ranges and cut: identity, three numbers, two counts, a flag.
const LEAST_WINDOW: usize = 16 + 24 + 4 + 1;
const LEAST_CUT: usize = 16 + 8 + 2 + 1;

/// What a member holds of excluded members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) windows: Vec<Holding>,
    /// Before a synchronous change: of the member itself.
    pub(super) own: Option<Own>,
}

/// What a member says of itself before a synchronous change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// The last number that it has used.
    pub(super) sent: i64,
    /// Whom it agrees with, itself included: their places in the view that waits, counted from 0. The
    /// decider may not know some of them, where it has skipped a view.
    pub(super) with: Ranges,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) of: Uuid,
    pub(crate) low: i64,
    pub(crate) delivered: i64,
    pub(crate) received: i64,
    /// Not here, of the numbers from `delivered` to `received`.
    pub(crate) missing: Ranges,
    /// Delivered out of turn, beyond `delivered`.
    pub(crate) ahead: Ranges,
    /// What was decided about this sender in an earlier view.
    pub(crate) cut: Option<Cut>,
}

/// Which messages of an excluded member everybody delivers: those up to a number, and some
/// out-of-band ones beyond it that somebody has delivered already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(super) upto: i64,
    pub(super) ahead: Ranges,
    /// Every survivor was heard, and everything that anybody held could be had.
    pub(super) certain: bool,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) cuts: Vec<(Uuid, Cut)>,
}

/// A payload that arrived.
pub(super) enum Arrived {
    Report(ViewId, Report),
    Commit(ViewId, Commit),
}

impl Holding {
    /// Whether the member can send number `n`.
    pub(super) fn holds(&self, n: i64) -> bool {
        after(n, self.low) && !after(n, self.received) && !self.missing.contains(n)
    }
}

impl Report {
    /// The entry about `of`.
    pub(super) fn of(&self, of: Uuid) -> Option<&Holding> {
        self.windows.iter().find(|w| w.of == of)
    }
}

fn message(to: Uuid, kind: StableKind, view: ViewId, payload: &impl Encode) -> wire::Message {
    let header = StableHeader { kind, view: Some(view.to_wire()) };
    wire::Message::unicast(to, Body::bytes(payload.to_bytes()))
        .with_flags(Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC)
        .with_header(ProtId::STABLE, Header::Stable(header))
}

/// Tells `to` what is here, for the decision that view `view` waits for.
pub(super) fn report(to: Uuid, view: ViewId, report: &Report) -> wire::Message {
    message(to, StableKind::Gossip, view, report)
}

/// Tells `to` what was decided.
pub(super) fn commit(to: Uuid, view: ViewId, commit: &Commit) -> wire::Message {
    message(to, StableKind::Stability, view, commit)
}

/// Whether `m` is one of the two.
pub(super) fn is_ours(m: &Message) -> bool {
    matches!(m.headers.get(ProtId::STABLE), Some(Header::Stable(_)))
        && m.body.as_bytes().and_then(|b| StablePayloadKind::of(b))
            == Some(StablePayloadKind::TailRepair)
}

/// Reads a payload; `None` if it makes no sense.
pub(super) fn read(m: &Message) -> Option<Arrived> {
    let Some(Header::Stable(header)) = m.headers.get(ProtId::STABLE) else { return None };
    let view = ViewId::from_wire(header.view.as_ref()?)?;
    let bytes = m.body.as_bytes()?.clone();
    match header.kind {
        StableKind::Gossip => Report::from_bytes(bytes).ok().map(|r| Arrived::Report(view, r)),
        StableKind::Stability => Commit::from_bytes(bytes).ok().map(|c| Arrived::Commit(view, c)),
    }
}

impl Cut {
    /// Whether number `n` is delivered.
    pub(super) fn contains(&self, n: i64) -> bool {
        !after(n, self.upto) || self.ahead.contains(n)
    }

    fn encode(&self, w: &mut impl Writer) {
        w.i64(self.upto);
        self.ahead.encode(w);
        w.u8(u8::from(self.certain));
    }

    fn decode(r: &mut Reader) -> Decoded<Self> {
        let upto = r.i64("cut")?;
        let ahead = Ranges::decode(r, upto, upto.wrapping_add(2 * MAX_AHEAD))?;
        let certain = r.u8("certain")? != 0;
        Ok(Self { upto, ahead, certain })
    }
}

impl Encode for Report {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(KIND);
        w.u16(self.windows.len() as u16);
        for h in &self.windows {
            h.of.encode(w);
            w.i64(h.low);
            w.i64(h.delivered);
            w.i64(h.received);
            h.missing.encode(w);
            h.ahead.encode(w);
            w.u8(u8::from(h.cut.is_some()));
            if let Some(cut) = &h.cut {
                cut.encode(w);
            }
        }
        if let Some(own) = &self.own {
            w.i64(own.sent);
            own.with.encode(w);
        }
    }
}

impl Decode for Report {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let entries = count(r, LEAST_WINDOW)?;
        let mut report = Self { windows: Vec::with_capacity(entries), own: None };
        for _ in 0..entries {
            let of = Uuid::decode(r)?;
            let (low, delivered, received) =
                (r.i64("low")?, r.i64("delivered")?, r.i64("received")?);
            let span = received.wrapping_sub(delivered);
            if after(low, delivered) || !(0..=MAX_AHEAD).contains(&span) {
                return Err(r.error("window", DecodeErrorKind::BadValue));
            }
            let missing = Ranges::decode(r, delivered, received)?;
            let ahead = Ranges::decode(r, delivered, received)?;
            let cut = match r.u8("cut")? {
                0 => None,
                _ => Some(Cut::decode(r)?),
            };
            report.windows.push(Holding { of, low, delivered, received, missing, ahead, cut });
        }
        if r.remaining() > 0 {
            let sent = r.i64("sent")?;
            let with = Ranges::decode(r, -1, i64::from(u16::MAX))?;
            report.own = Some(Own { sent, with });
        }
        Ok(report)
    }
}

impl Encode for Commit {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(KIND);
        w.u16(self.cuts.len() as u16);
        for (of, cut) in &self.cuts {
            of.encode(w);
            cut.encode(w);
        }
    }
}

impl Decode for Commit {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let n = count(r, LEAST_CUT)?;
        let mut cuts = Vec::with_capacity(n);
        for _ in 0..n {
            cuts.push((Uuid::decode(r)?, Cut::decode(r)?));
        }
        Ok(Self { cuts })
    }
}

/// The number of entries of `least` bytes each that follow.
fn count(r: &mut Reader, least: usize) -> Decoded<usize> {
    if r.u8("kind")? != KIND {
        return Err(r.error("kind", DecodeErrorKind::BadValue));
    }
    let n = usize::from(r.u16("entries")?);
    match n * least <= r.remaining() {
        true => Ok(n),
        false => Err(r.error("entries", DecodeErrorKind::TooLong(n as u64))),
    }
}
