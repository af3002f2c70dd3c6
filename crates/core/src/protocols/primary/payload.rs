//! What members tell each other about primary views. The payload is ours and travels between members
//! whose identity says that they understand it, unnumbered, under RSVP's REQ_ONLY header, which nobody
//! else sends with a payload (docs/wire-extensions.md).

use super::record::{Epoch, Past, Record};
use super::rules::{PrimaryPolicy, Rules};
use crate::wire::header::{RsvpHeader, RsvpKind};
use crate::wire::{
    self, Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, ProtId, Reader, Writer,
};
use crate::{Message, Uuid, ViewId};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

/// The layout, and what follows it; a flush has 1.
const VERSION: u8 = 2;
/// An identity.
const MEMBER: usize = 16;
/// The least that an epoch takes.
const EPOCH: usize = 8 + MEMBER + 4 + 2;

/// How far the members of a view have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The leader is asking what everybody knows.
    Asked,
    /// It may not be primary.
    Refused,
    /// It may; all agree to it.
    Agreed,
    /// It is primary.
    Formed,
}

/// From the leader of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    /// Counts the leader's beats in this view, from 1.
    pub(super) round: u32,
    pub(super) stage: Stage,
    /// The newest round that the receiver has answered, as far as the leader knows; 0: none.
    pub(super) heard: u32,
    /// The newest round that enough members have answered; 0: none.
    pub(super) confirmed: u32,
    /// How long that may be trusted.
    pub(super) lease: Duration,
    /// With [`Stage::Agreed`]: what to take over.
    pub(super) past: Option<Past>,
}

/// To the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) round: u32,
    /// How far the sender has come.
    pub(super) stage: Stage,
    pub(super) rules: Rules,
    /// To [`Stage::Asked`]: what the sender knows.
    pub(super) record: Option<Record>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Beat(Beat),
    Answer(Answer),
    /// The sender leaves the group: it trusts no view any more and agrees to none.
    Resign,
}

/// What is said about a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrimaryPayload {
    pub(super) view: ViewId,
    pub(super) said: Said,
}

impl PrimaryPayload {
    /// The message that tells `to`.
    pub(super) fn message(&self, to: Uuid) -> wire::Message {
        let header = RsvpHeader { kind: RsvpKind::RequestOnly, id: 0 };
        wire::Message::unicast(to, Body::bytes(self.to_bytes()))
            .with_flags(Flags::OOB | Flags::NO_RELIABILITY | Flags::NO_FC | Flags::DONT_BUNDLE)
            .with_header(ProtId::RSVP, Header::Rsvp(header))
    }

    /// What `m` says, if it is one of ours. `Some(Err)`: it is, and makes no sense.
    pub(super) fn read(m: &Message) -> Option<Decoded<Self>> {
        let header = m.headers.get(ProtId::RSVP);
        let ours =
            matches!(header, Some(Header::Rsvp(RsvpHeader { kind: RsvpKind::RequestOnly, id: 0 })));
        let bytes = m.body.as_bytes().filter(|b| ours && b.first() == Some(&VERSION))?;
        Some(Self::from_bytes(bytes.clone()))
    }
}

impl Encode for PrimaryPayload {
    fn encode(&self, w: &mut impl Writer) {
        w.u8(VERSION);
        w.u8(match &self.said {
            Said::Beat(_) => 1,
            Said::Answer(_) => 2,
            Said::Resign => 3,
        });
        write_view(self.view, w);
        match &self.said {
            Said::Beat(b) => {
                w.u32(b.round);
                w.u8(stage_code(b.stage));
                w.u32(b.heard);
                w.u32(b.confirmed);
                w.u32(millis(b.lease));
                w.bool(b.past.is_some());
                if let Some(past) = &b.past {
                    write_epochs(past.formed.as_slice(), w);
                    write_epochs(&past.open, w);
                }
            }
            Said::Answer(a) => {
                w.u32(a.round);
                w.u8(stage_code(a.stage));
                w.u8(policy_code(a.rules.policy));
                w.u32(a.rules.quorum);
                w.bool(a.record.is_some());
                if let Some(r) = &a.record {
                    write_epochs(r.formed.as_slice(), w);
                    write_epochs(&r.attempts, w);
                    let resigned: Vec<Uuid> = r.resigned.iter().copied().collect();
                    write_members(&resigned, w);
                }
            }
            Said::Resign => {}
        }
    }
}

impl Decode for PrimaryPayload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        if r.u8("version")? != VERSION {
            return Err(r.error("version", DecodeErrorKind::BadValue));
        }
        let kind = r.u8("kind")?;
        let view = read_view(r)?;
        let said = match kind {
            1 => Said::Beat(Beat {
                round: r.u32("round")?,
                stage: read_stage(r)?,
                heard: r.u32("heard")?,
                confirmed: r.u32("confirmed")?,
                lease: Duration::from_millis(r.u32("lease")?.into()),
                past: match r.bool("past")? {
                    true => Some(Past { formed: read_formed(r)?, open: read_epochs(r)? }),
                    false => None,
                },
            }),
            2 => Said::Answer(Answer {
                round: r.u32("round")?,
                stage: read_stage(r)?,
                rules: Rules { policy: read_policy(r)?, quorum: r.u32("quorum")? },
                record: match r.bool("record")? {
                    true => Some(Record {
                        formed: read_formed(r)?,
                        attempts: read_epochs(r)?,
                        resigned: read_members(r)?.into_iter().collect::<BTreeSet<_>>(),
                    }),
                    false => None,
                },
            }),
            3 => Said::Resign,
            _ => return Err(r.error("kind", DecodeErrorKind::BadValue)),
        };
        Ok(Self { view, said })
    }
}

fn millis(d: Duration) -> u32 {
    u32::try_from(d.as_millis()).unwrap_or(u32::MAX)
}

fn stage_code(stage: Stage) -> u8 {
    match stage {
        Stage::Asked => 1,
        Stage::Refused => 2,
        Stage::Agreed => 3,
        Stage::Formed => 4,
    }
}

fn read_stage(r: &mut Reader) -> Decoded<Stage> {
    match r.u8("stage")? {
        1 => Ok(Stage::Asked),
        2 => Ok(Stage::Refused),
        3 => Ok(Stage::Agreed),
        4 => Ok(Stage::Formed),
        _ => Err(r.error("stage", DecodeErrorKind::BadValue)),
    }
}

fn policy_code(policy: PrimaryPolicy) -> u8 {
    match policy {
        PrimaryPolicy::KeepMajority => 1,
        PrimaryPolicy::StaticQuorum => 2,
        PrimaryPolicy::KeepOldest => 3,
    }
}

fn read_policy(r: &mut Reader) -> Decoded<PrimaryPolicy> {
    match r.u8("policy")? {
        1 => Ok(PrimaryPolicy::KeepMajority),
        2 => Ok(PrimaryPolicy::StaticQuorum),
        3 => Ok(PrimaryPolicy::KeepOldest),
        _ => Err(r.error("policy", DecodeErrorKind::BadValue)),
    }
}

fn write_view(v: ViewId, w: &mut impl Writer) {
    v.creator.encode(w);
    w.u64(v.id);
}

fn read_view(r: &mut Reader) -> Decoded<ViewId> {
    Ok(ViewId { creator: Uuid::decode(r)?, id: r.u64("view number")? })
}

/// A list that is longer than its count can say is cut; a view has at most 65,535 members.
fn counted<'a, T>(list: &'a [T], w: &mut impl Writer) -> &'a [T] {
    let list = &list[..list.len().min(usize::from(u16::MAX))];
    w.u16(list.len() as u16);
    list
}

fn write_members(members: &[Uuid], w: &mut impl Writer) {
    counted(members, w).iter().for_each(|m| m.encode(w));
}

fn read_members(r: &mut Reader) -> Decoded<Vec<Uuid>> {
    let n = r.u16("members")?;
    let n = r.count(n.into(), MEMBER, "members")?;
    (0..n).map(|_| Uuid::decode(r)).collect()
}

fn write_epochs(epochs: &[Epoch], w: &mut impl Writer) {
    for e in counted(epochs, w) {
        write_view(e.id, w);
        w.u32(millis(e.lease));
        write_members(&e.voters, w);
    }
}

fn read_epochs(r: &mut Reader) -> Decoded<Vec<Epoch>> {
    let n = r.u16("views")?;
    let n = r.count(n.into(), EPOCH, "views")?;
    let one = |r: &mut Reader| {
        Ok(Epoch {
            id: read_view(r)?,
            lease: Duration::from_millis(r.u32("lease")?.into()),
            voters: read_members(r)?,
        })
    };
    (0..n).map(|_| one(r)).collect()
}

/// None or one.
fn read_formed(r: &mut Reader) -> Decoded<Option<Epoch>> {
    let mut list = read_epochs(r)?;
    match list.len() {
        0 | 1 => Ok(list.pop()),
        _ => Err(r.error("primary views", DecodeErrorKind::BadValue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::id;

    fn epoch(n: u64) -> Epoch {
        Epoch {
            id: ViewId { id: n, creator: id(1) },
            lease: Duration::from_millis(3_000),
            voters: [id(1), id(2)].into(),
        }
    }

    fn all() -> Vec<PrimaryPayload> {
        let view = ViewId { id: 7, creator: id(1) };
        let past = Past { formed: Some(epoch(5)), open: [epoch(6)].into() };
        let beat = Beat {
            round: 9,
            stage: Stage::Agreed,
            heard: 8,
            confirmed: 7,
            lease: Duration::from_millis(3_000),
            past: Some(past),
        };
        let record = Record {
            formed: Some(epoch(5)),
            attempts: [epoch(6)].into(),
            resigned: [id(2)].into(),
        };
        let rules = Rules { policy: PrimaryPolicy::KeepOldest, quorum: 2 };
        let answer = Answer { round: 9, stage: Stage::Asked, rules, record: Some(record) };
        [
            Said::Beat(Beat { past: None, stage: Stage::Formed, ..beat.clone() }),
            Said::Beat(beat),
            Said::Answer(Answer { record: None, stage: Stage::Refused, ..answer.clone() }),
            Said::Answer(answer),
            Said::Resign,
        ]
        .map(|said| PrimaryPayload { view, said })
        .into()
    }

    #[test]
    fn what_is_written_is_read_and_every_cut_is_refused() {
        for p in all() {
            let bytes = p.to_bytes();
            assert_eq!(PrimaryPayload::from_bytes(bytes.clone()), Ok(p));
            for n in 0..bytes.len() {
                assert!(PrimaryPayload::from_bytes(bytes.slice(..n)).is_err(), "{n}");
            }
        }
    }

    /// The vectors of docs/wire-extensions.md.
    #[test]
    fn the_bytes_are_those_of_the_document() {
        let view = ViewId { id: 7, creator: Uuid::new(1, 2) };
        let resign = PrimaryPayload { view, said: Said::Resign }.to_bytes();
        // JGroups writes the least significant half of an identity first.
        let mut bytes = alloc::vec![2, 3];
        for n in [2u64, 1, 7] {
            bytes.extend(n.to_be_bytes());
        }
        assert_eq!(resign[..], bytes[..]);
        let beat = Beat {
            round: 9,
            stage: Stage::Formed,
            heard: 8,
            confirmed: 7,
            lease: Duration::from_millis(3_000),
            past: None,
        };
        let beat = PrimaryPayload { view, said: Said::Beat(beat) }.to_bytes();
        bytes[1] = 1;
        bytes.extend([0, 0, 0, 9, 4, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0x0b, 0xb8, 0]);
        assert_eq!(beat[..], bytes[..]);
    }

    #[test]
    fn a_count_without_members_is_refused() {
        let view = ViewId { id: 7, creator: id(1) };
        let rules = Rules { policy: PrimaryPolicy::KeepMajority, quorum: 1 };
        let record = Some(Record::default());
        let answer = Answer { round: 1, stage: Stage::Asked, rules, record };
        let mut bytes = PrimaryPayload { view, said: Said::Answer(answer) }.to_bytes().to_vec();
        let end = bytes.len();
        bytes[end - 2..].copy_from_slice(&[255, 255]);
        assert!(PrimaryPayload::from_bytes(bytes.into()).is_err());
    }
}
