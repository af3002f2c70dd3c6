//! The messages of GMS: how each is built and how its payload is read (WIRE §17.1 to 17.3). Reading
//! gives `None` for whatever makes no sense; the caller drops and counts it.

use crate::wire::address_codec::{decode_addrs, encode_addrs};
use crate::wire::header::{GmsHeader, GmsKind};
use crate::wire::{
    self, Body, Decode, DeltaView, Encode, Flags, Header, JoinRsp, MergeId, ProtId, Reader,
    SeqnoPair, ViewDigest, ViewKind, WriteExt,
};
use crate::{Digest, Message, ReferenceDigest, Uuid, View, ViewId};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::BytesMut;

/// View ids above this are refused: a peer must not be able to exhaust the numbers.
const MAX_VIEW_ID: u64 = 1 << 62;

fn header(kind: GmsKind) -> GmsHeader {
    GmsHeader { kind, member: None, merge_id: None, merge_rejected: false }
}

fn message(to: Option<Uuid>, header: GmsHeader, body: Body, flags: Flags) -> Message {
    let dest = to.map(Into::into);
    let m = wire::Message { dest, flags, body, ..wire::Message::default() };
    m.with_header(ProtId::GMS, Header::Gms(header.into())).into()
}

fn of_member(kind: GmsKind, member: Uuid) -> GmsHeader {
    GmsHeader { member: Some(member.into()), ..header(kind) }
}

fn of_merge(kind: GmsKind, id: &MergeId) -> GmsHeader {
    GmsHeader { merge_id: Some(id.clone()), ..header(kind) }
}

/// A merged view and the digest of its members, which are named once; with their names if the digest
/// is of others than the view's members.
fn merged(view: &View, digest: &Digest) -> ViewDigest {
    match ReferenceDigest::of(view, digest) {
        Some(reference) => ViewDigest::view_and_reference(view.to_wire(), reference.to_wire()),
        None => ViewDigest::view_and_full(view.to_wire(), digest.to_wire()),
    }
}

fn encoded(payload: &impl Encode) -> Body {
    Body::bytes(payload.to_bytes())
}

/// Asks `coordinator` to let `joiner` in.
pub(super) fn join_request(coordinator: Uuid, joiner: Uuid) -> Message {
    let h = of_member(GmsKind::JoinReq, joiner);
    message(Some(coordinator), h, Body::Bytes(None), Flags::OOB)
}

/// Lets `joiner` in; out of band if it was let in before. `None` if `digest` lacks a member.
pub(super) fn join_response(
    joiner: Uuid,
    view: &View,
    digest: &Digest,
    flags: Flags,
) -> Option<Message> {
    let rsp = JoinRsp::welcome(&view.to_wire(), ReferenceDigest::of(view, digest)?.to_wire());
    Some(message(Some(joiner), header(GmsKind::JoinRsp), encoded(&rsp), flags))
}

/// Tells `to` that `leaver` leaves.
pub(super) fn leave_request(to: Uuid, leaver: Uuid) -> Message {
    message(Some(to), of_member(GmsKind::LeaveReq, leaver), Body::Empty, Flags::OOB)
}

/// Lets `leaver` go. Unreliable: a connection to somebody who goes away would resend for ever.
pub(super) fn leave_response(leaver: Uuid) -> Message {
    let flags = Flags::OOB | Flags::NO_RELIABILITY;
    message(Some(leaver), header(GmsKind::LeaveRsp), Body::Empty, flags)
}

/// Announces `view` to the group: as the difference to `base` where there is one.
pub(super) fn view_multicast(view: &View, base: Option<&View>) -> Message {
    let payload = match base.and_then(|base| delta(base, view)) {
        Some(delta) => ViewDigest::delta(delta),
        None => ViewDigest::view(view.to_wire()),
    };
    let flags = Flags::NO_RELAY | Flags::NO_FC;
    message(None, header(GmsKind::View), encoded(&payload), flags)
}

/// Announces a merged view with its digest to a subgroup.
pub(super) fn merge_view_multicast(view: &View, digest: &Digest) -> Message {
    let payload = merged(view, digest);
    let flags = Flags::NO_RELAY | Flags::NO_FC | Flags::NO_TOTAL_ORDER;
    message(None, header(GmsKind::View), encoded(&payload), flags)
}

/// Sends the whole view to one member, with the digest if it is a merged view.
pub(super) fn view_unicast(to: Uuid, view: &View, digest: Option<&ReferenceDigest>) -> Message {
    let payload = match digest {
        Some(digest) => ViewDigest::view_and_reference(view.to_wire(), digest.to_wire()),
        None => ViewDigest::view(view.to_wire()),
    };
    let flags = Flags::OOB | Flags::NO_FC;
    message(Some(to), header(GmsKind::View), encoded(&payload), flags)
}

/// Says that the view is installed.
pub(super) fn view_ack(to: Uuid) -> Message {
    let flags = Flags::OOB | Flags::NO_FC;
    message(Some(to), header(GmsKind::ViewAck), Body::Empty, flags)
}

/// Asks for the whole current view, whichever it is.
pub(super) fn view_request(to: Uuid) -> Message {
    let flags = Flags::OOB | Flags::NO_FC;
    message(Some(to), header(GmsKind::GetCurrentView), Body::Empty, flags)
}

/// Asks for the current view if it is another one than `ours`.
pub(super) fn view_inquiry(to: Uuid, ours: ViewId) -> Message {
    let mut b = BytesMut::new();
    b.opt(Some(&ours.to_wire()));
    let flags = Flags::OOB | Flags::NO_FC;
    message(Some(to), header(GmsKind::GetCurrentView), Body::bytes(b.freeze()), flags)
}

/// Asks the coordinator of a subgroup to take part in merge `id`.
pub(super) fn merge_request(to: Uuid, id: &MergeId, leader: Uuid, members: &[Uuid]) -> Message {
    let h = GmsHeader { member: Some(leader.into()), ..of_merge(GmsKind::MergeReq, id) };
    let list: Vec<wire::Address> = members.iter().map(|m| (*m).into()).collect();
    let mut b = BytesMut::new();
    encode_addrs(Some(&list), &mut b);
    message(Some(to), h, Body::bytes(b.freeze()), Flags::OOB)
}

/// Contributes a subgroup to merge `id`. The digest names its members: whoever reads it must not
/// depend on what the view beside it says.
pub(super) fn merge_response(to: Uuid, id: &MergeId, view: &View, digest: &Digest) -> Message {
    let payload = ViewDigest::view_and_full(view.to_wire(), digest.to_wire());
    message(Some(to), of_merge(GmsKind::MergeRsp, id), encoded(&payload), Flags::OOB)
}

/// Declines to take part in merge `id`.
pub(super) fn merge_rejection(to: Uuid, id: &MergeId) -> Message {
    let h = GmsHeader { merge_rejected: true, ..of_merge(GmsKind::MergeRsp, id) };
    message(Some(to), h, Body::Empty, Flags::OOB)
}

/// Hands the merged view to the coordinator of a subgroup.
pub(super) fn merge_installation(to: Uuid, id: &MergeId, view: &View, digest: &Digest) -> Message {
    let payload = merged(view, digest);
    let h = of_merge(GmsKind::InstallMergeView, id);
    message(Some(to), h, encoded(&payload), Flags::empty())
}

/// Ends merge `id` without result.
pub(super) fn merge_cancellation(to: Uuid, id: &MergeId) -> Message {
    message(Some(to), of_merge(GmsKind::CancelMerge, id), Body::Empty, Flags::empty())
}

/// Asks all members of the subgroup for their own digest entries.
pub(super) fn digest_request(id: &MergeId) -> Message {
    message(None, of_merge(GmsKind::GetDigestReq, id), Body::Empty, Flags::OOB)
}

/// Answers a request for the own digest entry.
pub(super) fn digest_response(to: Uuid, me: Uuid, pair: SeqnoPair) -> Message {
    let own: Digest = [(me, pair)].into_iter().collect();
    let payload = ViewDigest::digest(own.to_wire());
    let flags = Flags::OOB | Flags::NO_FC;
    message(Some(to), header(GmsKind::GetDigestRsp), encoded(&payload), flags)
}

/// What turns `base` into `view`; `None` if appending and removing does not (a merged view, or
/// members in another order).
fn delta(base: &View, view: &View) -> Option<DeltaView> {
    if view.is_merge() {
        return None;
    }
    let (left, joined) = (base.without(view), view.without(base));
    let result = base.members.iter().filter(|m| view.contains(**m)).chain(&joined);
    let addresses = |list: &[Uuid]| list.iter().map(|m| (*m).into()).collect();
    result.eq(view.members.iter()).then(|| DeltaView {
        id: view.id.to_wire(),
        reference: base.id.to_wire(),
        left: addresses(&left),
        joined: addresses(&joined),
    })
}

/// A view as it was announced.
pub(super) enum Announced {
    /// All of it; a merged view comes with its digest.
    Full(View, Option<Digest>),
    /// What changes.
    Delta(Change),
}

/// The change from one view to the next.
pub(super) struct Change {
    id: ViewId,
    reference: ViewId,
    left: Vec<Uuid>,
    joined: Vec<Uuid>,
}

impl Announced {
    /// The id of the announced view.
    pub(super) fn id(&self) -> ViewId {
        match self {
            Announced::Full(v, _) => v.id,
            Announced::Delta(c) => c.id,
        }
    }
}

/// A change that cannot be applied.
pub(super) enum Misfit {
    /// It refers to another view than the installed one.
    WrongBase,
    /// Nobody would be left, or somebody would be in twice.
    Nonsense,
}

impl Change {
    /// The view that follows `base`.
    pub(super) fn apply(&self, base: &View) -> Result<View, Misfit> {
        if self.reference != base.id {
            return Err(Misfit::WrongBase);
        }
        self.force(base)
    }

    /// The same without looking whether `base` is the right one.
    pub(super) fn force(&self, base: &View) -> Result<View, Misfit> {
        let mut members: Vec<Uuid> =
            base.members.iter().copied().filter(|m| !self.left.contains(m)).collect();
        for m in &self.joined {
            if members.contains(m) {
                return Err(Misfit::Nonsense);
            }
            members.push(*m);
        }
        if members.is_empty() {
            return Err(Misfit::Nonsense);
        }
        Ok(View::new(self.id.id, self.id.creator, members))
    }
}

fn view_and_digest(body: &Body) -> Option<ViewDigest> {
    ViewDigest::from_bytes(body.as_bytes()?.clone()).ok()
}

fn plausible(view: View) -> Option<View> {
    (view.id.id < MAX_VIEW_ID).then_some(view)
}

/// Reads the payload of VIEW.
pub(super) fn read_view(body: &Body) -> Option<Announced> {
    let payload = view_and_digest(body)?;
    let digest = payload.resolved_digest();
    match payload.view? {
        ViewKind::Full(v) => {
            let view = plausible(View::from_wire(&v)?)?;
            let digest = match digest {
                Some(d) => Some(Digest::from_wire(&d)?),
                None => None,
            };
            Some(Announced::Full(view, digest))
        }
        ViewKind::Delta(d) => {
            let members = |list: &[wire::Address]| list.iter().map(wire::Address::uuid).collect();
            let id = ViewId::from_wire(&d.id).filter(|id| id.id < MAX_VIEW_ID)?;
            let reference = ViewId::from_wire(&d.reference)?;
            let (left, joined) = (members(&d.left), members(&d.joined));
            let (left, joined): (Option<Vec<Uuid>>, Option<Vec<Uuid>>) = (left, joined);
            Some(Announced::Delta(Change { id, reference, left: left?, joined: joined? }))
        }
    }
}

/// Reads a view with the digest of its members, as merges exchange them.
pub(super) fn read_merge_data(body: &Body) -> Option<(View, Digest)> {
    match read_view(body)? {
        Announced::Full(view, digest) => {
            let digest = digest?;
            digest.covers(&view).then_some((view, digest))
        }
        Announced::Delta(_) => None,
    }
}

/// Reads the entry of `member` in a digest that came alone.
pub(super) fn read_digest_of(body: &Body, member: Uuid) -> Option<SeqnoPair> {
    Digest::from_wire(&view_and_digest(body)?.resolved_digest()?)?.get(member)
}

/// Reads a list of members.
pub(super) fn read_members(body: &Body) -> Option<Vec<Uuid>> {
    let mut r = Reader::new(body.as_bytes()?.clone());
    let list = decode_addrs(&mut r, "merge members").ok()??;
    r.finish("merge members").ok()?;
    list.iter().map(wire::Address::uuid).collect()
}

/// Reads the view id in a request for the current view; absent means "in any case".
pub(super) fn read_view_id(body: &Body) -> Option<ViewId> {
    let mut r = Reader::new(body.as_bytes()?.clone());
    let id: Option<wire::ViewId> = r.opt("view id").ok()?;
    ViewId::from_wire(&id?)
}

/// What a coordinator answered a joiner.
pub(super) enum JoinAnswer {
    /// It is in.
    Welcome(View, Digest),
    /// It is refused for good.
    Refused(String),
}

/// Reads the payload of JOIN_RSP.
pub(super) fn read_join_answer(body: &Body) -> Option<JoinAnswer> {
    let rsp = JoinRsp::from_bytes(body.as_bytes()?.clone()).ok()?;
    if let Some(reason) = rsp.failure {
        return Some(JoinAnswer::Refused(reason));
    }
    let view = plausible(View::from_wire(&rsp.view?)?)?;
    let digest = ReferenceDigest::from_wire(&view, &rsp.digest?)?.resolve(&view)?;
    Some(JoinAnswer::Welcome(view, digest))
}
