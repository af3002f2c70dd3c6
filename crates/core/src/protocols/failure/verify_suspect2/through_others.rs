//! Asking a suspect through others. Between tagged members only (docs/wire-extensions.md).

use super::{VerifySuspect2, ask};
use crate::wire::header::{VerifyHeader, VerifyKind};
use crate::wire::{
    Body, Decode, DecodeErrorKind, Decoded, Encode, Flags, Header, Message as WireMessage, Reader,
    Writer,
};
use crate::{Cx, DropReason, Message, Time, Uuid, tag};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// So many members are asked to ask a suspect. One of them may be behind the same broken switch, or
/// busy.
const HELPERS: usize = 3;

/// What is told under a header of verification beside what JGroups says there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// Ask this member, and tell me if it answers.
    Ask(Uuid),
    /// This member has answered me.
    Alive(Uuid),
}

impl Payload {
    /// What `m` says beside its header; `None` if that is nothing or makes no sense.
    pub(super) fn read(m: &Message) -> Option<Self> {
        Self::from_bytes(m.body.as_bytes()?.clone()).ok()
    }
}

impl Encode for Payload {
    fn encode(&self, w: &mut impl Writer) {
        let (kind, member) = match self {
            Payload::Ask(m) => (1, m),
            Payload::Alive(m) => (2, m),
        };
        w.u8(kind);
        member.encode(w);
    }
}

impl Decode for Payload {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let kind = r.u8("kind")?;
        let member = Uuid::decode(r)?;
        match kind {
            1 => Ok(Payload::Ask(member)),
            2 => Ok(Payload::Alive(member)),
            _ => Err(r.error("kind", DecodeErrorKind::BadValue)),
        }
    }
}

/// For whom this member asks whom: the suspect, who wants to know, and since when. Both are members of
/// the view.
#[derive(Debug, Default)]
pub(super) struct Helper {
    asked: BTreeMap<Uuid, BTreeMap<Uuid, Time>>,
}

impl Helper {
    pub(super) fn retain(&mut self, stays: impl Fn(Uuid) -> bool) {
        self.asked.retain(|suspect, askers| {
            askers.retain(|asker, _| stays(*asker));
            stays(*suspect) && !askers.is_empty()
        });
    }
}

impl VerifySuspect2 {
    /// Asks the next members after the suspect that understand it, and are no suspects.
    pub(super) fn ask_others(&self, suspect: Uuid, cx: &mut Cx<'_>) {
        let members = cx.group().members();
        let Some(rank) = cx.group().rank(suspect) else { return };
        let local = cx.local();
        let helps =
            |m: &&Uuid| **m != local && tag::verifies(**m) && !self.suspects.contains_key(m);
        let (before, after) = members.split_at(rank);
        let helpers: Vec<Uuid> =
            after.iter().chain(before).filter(helps).take(HELPERS).copied().collect();
        for helper in helpers {
            self.tell(helper, VerifyKind::AreYouDead, Payload::Ask(suspect), cx);
        }
    }

    fn tell(&self, to: Uuid, kind: VerifyKind, payload: Payload, cx: &mut Cx<'_>) {
        let header = VerifyHeader { kind, from: Some(cx.local().into()) };
        cx.send_down(
            WireMessage::unicast(to, Body::bytes(payload.to_bytes()))
                .with_flags(Flags::NO_RELIABILITY)
                .with_header(self.config.id, Header::Verify(header)),
        );
    }

    pub(super) fn receive_payload(&mut self, src: Uuid, payload: Payload, cx: &mut Cx<'_>) {
        if !cx.is_member(src) {
            return cx.drop_from_peer(DropReason::NotAMember, Some(src));
        }
        match payload {
            Payload::Ask(suspect) => {
                if suspect == cx.local() || suspect == src || !cx.is_member(suspect) {
                    return cx.drop_from_peer(DropReason::Stale, Some(src));
                }
                self.helper.asked.entry(suspect).or_default().insert(src, cx.now);
                ask(self.config.id, suspect, cx);
            }
            Payload::Alive(suspect) => self.spare(suspect, src, cx),
        }
    }

    /// `suspect` has answered: whoever asked through us lately hears of it.
    pub(super) fn tell_who_asked(&mut self, suspect: Uuid, cx: &mut Cx<'_>) {
        let Some(askers) = self.helper.asked.remove(&suspect) else { return };
        for (asker, since) in askers {
            if cx.now.since(since) <= self.config.timeout {
                self.tell(asker, VerifyKind::IAmNotDead, Payload::Alive(suspect), cx);
            }
        }
    }
}
