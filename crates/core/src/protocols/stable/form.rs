//! The two forms in which reports and results travel: JGroups' own, an object that names all members,
//! and, where every member of the view understands it, numbers alone (see `StablePayload` of the wire
//! crate), which go from one member to one other and never to the group.

use crate::wire::header::{StableHeader, StableKind};
use crate::wire::{
    self, Body, Changes, Decode, Encode, Flags, Header, Object, ProtId, StablePayload,
    StablePayloadKind,
};
use crate::{Digest, Message, ReferenceDigest, Uuid, View, tag};
use bytes::Bytes;

/// How the members of a view report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// As JGroups does.
    #[default]
    Named,
    /// By reference to the view.
    Reference,
}

impl Form {
    /// The form of a view: a question that all its members answer alike.
    pub(super) fn of(view: &View) -> Self {
        match view.members.iter().all(|m| tag::refers_to_views(*m)) {
            true => Form::Reference,
            false => Form::Named,
        }
    }
}

/// What a message of STABLE says.
#[derive(Debug)]
pub(super) enum Said {
    /// A report in JGroups' form.
    NamedReport(ReferenceDigest),
    /// A result in JGroups' form.
    NamedResult(ReferenceDigest),
    /// A report by reference.
    Report(Changes),
    /// A result by reference.
    Vector(u64, Changes),
    /// A payload that only later versions understand.
    Unknown,
}

/// Reads a message that named `view`; `None` if it makes no sense.
pub(super) fn read(kind: StableKind, m: &Message, view: &View) -> Option<Said> {
    if let Some(bytes) = m.body.as_bytes() {
        return match StablePayloadKind::of(bytes) {
            None => Some(Said::Unknown),
            Some(_) => match (kind, StablePayload::from_bytes(bytes.clone()).ok()?) {
                (StableKind::Gossip, StablePayload::Report(c)) => Some(Said::Report(c)),
                (StableKind::Stability, StablePayload::Vector { number, changes }) => {
                    Some(Said::Vector(number, changes))
                }
                (StableKind::Gossip | StableKind::Stability, _) => None,
            },
        };
    }
    let Body::Object(Some(object)) = &m.body else { return None };
    let Object::Digest { digest, .. } = &**object else { return None };
    let digest = Digest::from_wire(digest).filter(|d| d.len() == view.members.len())?;
    let digest = ReferenceDigest::of(view, &digest)?;
    Some(match kind {
        StableKind::Gossip => Said::NamedReport(digest),
        StableKind::Stability => Said::NamedResult(digest),
    })
}

const REPORT_FLAGS: Flags = Flags::OOB.union(Flags::NO_RELIABILITY).union(Flags::NO_FC);

fn header(kind: StableKind, view: &View) -> Header {
    Header::Stable(StableHeader { kind, view: Some(view.id.to_wire()) })
}

/// A digest as JGroups writes it.
pub(super) fn named(kind: StableKind, view: &View, digest: &Digest) -> wire::Message {
    let object = Object::Digest { mutable: true, digest: digest.to_wire() };
    let flags = match kind {
        StableKind::Gossip => REPORT_FLAGS,
        StableKind::Stability => REPORT_FLAGS | Flags::NO_RELAY,
    };
    wire::Message::multicast(Body::object(object))
        .with_flags(flags)
        .with_header(ProtId::STABLE, header(kind, view))
}

/// A payload of ours, to one member.
pub(super) fn by_reference(
    to: Uuid,
    kind: StableKind,
    view: &View,
    payload: Bytes,
) -> wire::Message {
    wire::Message::unicast(to, Body::bytes(payload))
        .with_flags(REPORT_FLAGS)
        .with_header(ProtId::STABLE, header(kind, view))
}

/// The payload of a result.
pub(super) fn vector(number: u64, changes: Changes) -> Bytes {
    StablePayload::Vector { number, changes }.to_bytes()
}

/// The payload of a report.
pub(super) fn report(changes: Changes) -> Bytes {
    StablePayload::Report(changes).to_bytes()
}
