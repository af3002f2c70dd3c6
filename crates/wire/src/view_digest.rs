//! A view and a digest, each optional (WIRE §17.3): the payload of most GMS messages.

use crate::digest::{Digest, RefDigest};
use crate::error::DecodeErrorKind;
use crate::view::{DeltaView, View};
use crate::{Decode, Decoded, Encode, Reader, Writer};

/// A view, a digest, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewDigest {
    /// The view.
    pub view: Option<ViewKind>,
    /// The digest.
    pub digest: Option<DigestKind>,
}

/// A view, or what changed since the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// All of it; a MergeView if it has subgroups.
    Full(View),
    /// The difference.
    Delta(DeltaView),
}

/// A digest with or without its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestKind {
    /// It names its members.
    Full(Digest),
    /// Its members are those of the view beside it, in that order.
    Reference(RefDigest),
}

impl ViewDigest {
    /// A view alone.
    #[must_use]
    pub fn view(view: View) -> Self {
        Self { view: Some(ViewKind::Full(view)), digest: None }
    }

    /// A delta view alone.
    #[must_use]
    pub fn delta(delta: DeltaView) -> Self {
        Self { view: Some(ViewKind::Delta(delta)), digest: None }
    }

    /// A digest alone.
    #[must_use]
    pub fn digest(digest: Digest) -> Self {
        Self { view: None, digest: Some(DigestKind::Full(digest)) }
    }

    /// A view with a digest that names its members, and can be read without the view.
    #[must_use]
    pub fn view_and_full(view: View, digest: Digest) -> Self {
        Self { view: Some(ViewKind::Full(view)), digest: Some(DigestKind::Full(digest)) }
    }

    /// A view with a digest of its members, in its order, which does not name them again.
    #[must_use]
    pub fn view_and_reference(view: View, digest: RefDigest) -> Self {
        Self { view: Some(ViewKind::Full(view)), digest: Some(DigestKind::Reference(digest)) }
    }

    /// The digest with its members, whichever way it travelled.
    #[must_use]
    pub fn resolved_digest(&self) -> Option<Digest> {
        match (self.digest.as_ref()?, &self.view) {
            (DigestKind::Full(digest), _) => Some(digest.clone()),
            (DigestKind::Reference(digest), Some(ViewKind::Full(view))) => {
                digest.resolve(view.members())
            }
            (DigestKind::Reference(_), None | Some(ViewKind::Delta(_))) => None,
        }
    }
}

const VIEW: u16 = 1;
const DIGEST: u16 = 2;
const MERGE_VIEW: u16 = 4;
const DELTA_VIEW: u16 = 8;
const DIGEST_HAS_MEMBERS: u16 = 16;

/// Matches `GMS.marshal(View, Digest)`.
///
/// | bytes | field |
/// |-------|-------|
/// | 2 | flags: 1 view, 2 digest, 4 MergeView, 8 delta view, 16 unless the digest refers to the view |
/// | view, mergeview or deltaview | if flag 1 |
/// | digest, with members if flag 16 | if flag 2 |
impl Encode for ViewDigest {
    fn encode(&self, w: &mut impl Writer) {
        let view = match &self.view {
            None => 0,
            Some(ViewKind::Full(v)) if v.is_merge() => VIEW | MERGE_VIEW,
            Some(ViewKind::Full(_)) => VIEW,
            Some(ViewKind::Delta(_)) => VIEW | DELTA_VIEW,
        };
        // Java sets the flag for members also where there is no digest at all.
        let digest = match &self.digest {
            None => DIGEST_HAS_MEMBERS,
            Some(DigestKind::Full(_)) => DIGEST | DIGEST_HAS_MEMBERS,
            Some(DigestKind::Reference(_)) => DIGEST,
        };
        w.u16(view | digest);
        match &self.view {
            None => {}
            Some(ViewKind::Full(view)) => view.encode(w),
            Some(ViewKind::Delta(delta)) => delta.encode(w),
        }
        match &self.digest {
            None => {}
            Some(DigestKind::Full(digest)) => digest.encode(w),
            Some(DigestKind::Reference(digest)) => digest.encode(w),
        }
    }
}

impl Decode for ViewDigest {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        let flags = r.u16("view and digest flags")?;
        let has = |flag| flags & flag != 0;
        let view = if !has(VIEW) {
            None
        } else if has(DELTA_VIEW) {
            Some(ViewKind::Delta(DeltaView::decode(r)?))
        } else if has(MERGE_VIEW) {
            Some(ViewKind::Full(View::decode_merge(r)?))
        } else {
            Some(ViewKind::Full(View::decode(r)?))
        };
        let digest = if !has(DIGEST) {
            None
        } else if has(DIGEST_HAS_MEMBERS) {
            Some(DigestKind::Full(Digest::decode(r)?))
        } else {
            let digest = RefDigest::decode(r)?;
            if let Some(ViewKind::Full(view)) = &view
                && view.members().len() != digest.seqnos.len()
            {
                return Err(r.error("digest", DecodeErrorKind::BadValue));
            }
            Some(DigestKind::Reference(digest))
        };
        Ok(ViewDigest { view, digest })
    }
}
