//! The answer to a request to join (WIRE §17.2): the payload of GMS JOIN_RSP.

use crate::digest::RefDigest;
use crate::error::DecodeErrorKind;
use crate::primitive::WriteExt;
use crate::view::View;
use crate::{Decode, Decoded, Encode, Reader, Writer};
use alloc::string::String;

/// What the coordinator answers a joiner: a view and the digest that belongs to it, or the reason
/// why not (`org.jgroups.protocols.pbcast.JoinRsp`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinRsp {
    /// The view that contains the joiner.
    pub view: Option<View>,
    /// The seqnos of the view's members, in the view's order.
    pub digest: Option<RefDigest>,
    /// Why the joiner is refused.
    pub failure: Option<String>,
}

const VIEW: u8 = 1;
const DIGEST: u8 = 2;
const FAILURE: u8 = 4;

impl JoinRsp {
    /// The answer that lets the joiner in. The subgroups of a MergeView are left out: this payload
    /// cannot say that they are there, and a Java joiner would read them as the digest.
    #[must_use]
    pub fn welcome(view: &View, digest: RefDigest) -> Self {
        let view = View { subgroups: None, ..view.clone() };
        Self { view: Some(view), digest: Some(digest), failure: None }
    }

    /// The answer that refuses the joiner.
    #[must_use]
    pub fn refusal(reason: &str) -> Self {
        Self { failure: Some(reason.into()), ..Self::default() }
    }

    /// Reads what follows the view.
    fn decode_tail(mut self, flags: u8, r: &mut Reader) -> Decoded<Self> {
        if flags & DIGEST != 0 {
            let digest = RefDigest::decode(r)?;
            let members = self.view.as_ref().map_or(0, |v| v.members().len());
            if digest.seqnos.len() != members {
                return Err(r.error("join digest", DecodeErrorKind::BadValue));
            }
            self.digest = Some(digest);
        }
        if flags & FAILURE != 0 {
            self.failure = Some(r.utf("failure reason")?);
        }
        Ok(self)
    }
}

/// Matches `JoinRsp.writeTo`.
///
/// | bytes | field |
/// |-------|-------|
/// | 1 | 01 |
/// | 1 | flags: 1 view, 2 digest, 4 failure |
/// | view | plain; a MergeView with its subgroups, which nothing announces |
/// | digest | seqnos in the view's order |
/// | utf | failure |
impl Encode for JoinRsp {
    fn encode(&self, w: &mut impl Writer) {
        let flag = |present, flag| if present { flag } else { 0 };
        w.bool(true);
        w.u8(flag(self.view.is_some(), VIEW)
            | flag(self.digest.is_some(), DIGEST)
            | flag(self.failure.is_some(), FAILURE));
        if let Some(view) = &self.view {
            view.encode(w);
        }
        if let Some(digest) = &self.digest {
            digest.encode(w);
        }
        if let Some(failure) = &self.failure {
            w.utf(failure);
        }
    }
}

/// Reads a JoinRsp that fills `r`. A coordinator in a MergeView writes its subgroups between view
/// and digest without saying so; they are there if the rest does not fit without them.
impl Decode for JoinRsp {
    fn decode(r: &mut Reader) -> Decoded<Self> {
        if !r.bool("join response")? {
            return Err(r.error("join response", DecodeErrorKind::BadValue));
        }
        let flags = r.u8("join response flags")?;
        if flags & VIEW == 0 {
            return JoinRsp::default().decode_tail(flags, r);
        }
        let mut view = View::decode(r)?;
        let mut merge_tail = r.clone();
        let plain = JoinRsp { view: Some(view.clone()), ..JoinRsp::default() };
        let plain = plain.decode_tail(flags, r);
        if plain.is_ok() && r.remaining() == 0 {
            return plain;
        }
        let as_merge = view.decode_subgroups(&mut merge_tail).and_then(|()| {
            let rsp = JoinRsp { view: Some(view), ..JoinRsp::default() };
            rsp.decode_tail(flags, &mut merge_tail)
        });
        match as_merge {
            Ok(rsp) if merge_tail.remaining() == 0 => {
                *r = merge_tail;
                Ok(rsp)
            }
            _ => plain,
        }
    }
}
