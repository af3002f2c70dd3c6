//! The member that is asked for its state.
//!
//! A request waits until this member has delivered what the asking one already had, and until the
//! large multicasts that had arrived in part by then are complete: the asking member may have
//! joined in the middle of one and can never put it together, so the state must contain it. Both
//! waits end by time. Then the history is cut and the application asked. Several members are served
//! side by side, each with a cut of its own; of one member there is one request.

use super::{FLUSH, LARGEST, StateTransfer, message, own_digest};
use crate::app::AnswerState;
use crate::wire::header::{StateTransferHeader, StateTransferKind};
use crate::wire::{Body, Exception};
use crate::{
    Answer, AppEvent, Cx, Digest, Dir, DropReason, Event, Query, SendRefusal, SendToken, Time,
    Trace, Uuid, View, tag,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::BytesMut;
use core::time::Duration;

/// JGroups' default of BARRIER.flush_timeout, for stacks without BARRIER.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// For so long no stability is reported while the application makes a state for a JGroups member.
const UNSTABLE: Duration = Duration::from_secs(10);
/// The same, from the moment when the state has left: until it has arrived.
const UNSTABLE_AFTER: Duration = Duration::from_secs(1);

/// Who is being served.
#[derive(Debug, Default)]
pub(super) struct Serving {
    open: BTreeMap<Uuid, Step>,
    /// States that flow control has not admitted yet: for whom, and who waits for it.
    sending: BTreeMap<u64, (Uuid, Option<SendToken>)>,
    last_request: u64,
}

#[derive(Debug)]
enum Step {
    /// The cut has to wait, at most until then.
    Waiting {
        /// What the asking member had.
        wanted: Digest,
        /// The messages that must be complete first; known once we have what is wanted.
        awaited: Option<BTreeSet<(Uuid, u32)>>,
        until: Time,
    },
    /// The application was asked.
    Asked { request: u64, digest: Digest },
}

impl Serving {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn view(&mut self, view: &View) {
        self.open.retain(|m, _| view.contains(*m));
    }

    pub(super) fn close(&mut self) -> Vec<SendToken> {
        let sending = core::mem::take(self).sending;
        sending.into_values().filter_map(|(_, token)| token).collect()
    }
}

impl StateTransfer {
    /// STATE_REQ.
    pub(super) fn requested(&mut self, src: Uuid, h: &StateTransferHeader, cx: &mut Cx<'_>) {
        if !cx.is_member(src) || src == cx.local() {
            return cx.drop_from_peer(DropReason::NotAMember, Some(src));
        }
        self.counters.requests_received += 1;
        if matches!(self.serving.open.get(&src), Some(Step::Asked { .. })) {
            // The answer is on its way; should it be too old for the other, it asks again.
            return;
        }
        let flush = match cx.ask_below(&Query::Barrier) {
            Some(Answer::Barrier { flush, .. }) => flush,
            _ => FLUSH_TIMEOUT,
        };
        let wanted = h.digest.as_ref().and_then(Digest::from_wire).unwrap_or_default();
        let until = cx.now + flush;
        self.serving.open.insert(src, Step::Waiting { wanted, awaited: None, until });
        if cx.armed(FLUSH).is_none_or(|at| at > until) {
            cx.arm(FLUSH, until);
        }
    }

    /// At the end of a turn: cuts for those whose wait is over.
    pub(super) fn cut_where_possible(&mut self, cx: &mut Cx<'_>) {
        if !self.serving.open.values().any(|s| matches!(s, Step::Waiting { .. })) {
            return;
        }
        let delivered = own_digest(cx);
        let half = match cx.ask_below(&Query::HalfReceived) {
            Some(Answer::HalfReceived(half)) => half,
            _ => BTreeSet::new(),
        };
        let mut next: Option<Time> = None;
        for (requester, step) in &mut self.serving.open {
            let Step::Waiting { wanted, awaited, until } = step else { continue };
            if cx.now < *until && !may_cut(*requester, wanted, awaited, &delivered, &half, cx) {
                next = Some(next.map_or(*until, |n| n.min(*until)));
                continue;
            }
            self.serving.last_request += 1;
            let request = self.serving.last_request;
            if !tag::is_rgroups(*requester) {
                // It will replace its windows by the digest, and must still find what follows.
                cx.raise(Dir::Down, Event::SuspendStable(UNSTABLE));
            }
            cx.trace(|| Trace::State { what: "cut", with: *requester });
            cx.tell(AppEvent::StateRequested { request, by: *requester });
            *step = Step::Asked { request, digest: delivered.clone() };
        }
        match next {
            Some(at) => cx.arm(FLUSH, at),
            None => cx.disarm(FLUSH),
        }
    }

    /// The application has an answer.
    pub(super) fn answer_request(&mut self, a: &AnswerState, cx: &mut Cx<'_>) {
        let token = a.op.map(|op| cx.app_token(op));
        let asked = match self.serving.open.get(&a.to) {
            Some(Step::Asked { request, .. }) => *request == a.request,
            Some(Step::Waiting { .. }) | None => false,
        };
        let step = if asked { self.serving.open.remove(&a.to) } else { None };
        let Some(Step::Asked { request, digest }) = step else {
            if let Some(token) = token {
                cx.resolve(token, Err(SendRefusal::NotMember(a.to)));
            }
            return;
        };
        let state = match &a.state {
            Ok(state) => state.clone(),
            Err(why) => {
                self.refuse(a.to, why, cx);
                if let Some(token) = token {
                    cx.resolve(token, Ok(()));
                }
                return;
            }
        };
        let size = state.as_ref().map_or(0, |s| s.len() as u64);
        if size > LARGEST {
            let why = SendRefusal::TooLarge { size, limit: LARGEST };
            return self.not_sent(a.to, token, why, cx);
        }
        let mut m = message(a.to, StateTransferKind::Response, Some(&digest), Body::Bytes(state));
        m.token = Some(cx.own_token_for(request, a.op));
        self.serving.sending.insert(request, (a.to, token));
        cx.send_down(m);
    }

    /// Flow control has admitted a state, or it could not be sent.
    pub(super) fn answer_sent(
        &mut self,
        request: u64,
        how: Result<(), SendRefusal>,
        cx: &mut Cx<'_>,
    ) {
        let Some((to, token)) = self.serving.sending.remove(&request) else { return };
        match how {
            Ok(()) => {
                self.counters.states_sent += 1;
                cx.trace(|| Trace::State { what: "sent", with: to });
                if !tag::is_rgroups(to) {
                    cx.raise(Dir::Down, Event::SuspendStable(UNSTABLE_AFTER));
                }
                if let Some(token) = token {
                    cx.resolve(token, Ok(()));
                }
            }
            Err(why) => self.not_sent(to, token, why, cx),
        }
    }

    fn not_sent(&mut self, to: Uuid, token: Option<SendToken>, why: SendRefusal, cx: &mut Cx<'_>) {
        match &why {
            SendRefusal::TooLarge { size, limit } => {
                self.refuse(to, &format!("its state has {size} bytes, the limit is {limit}"), cx);
            }
            // Nobody is there to be told.
            SendRefusal::NotMember(_) | SendRefusal::Closed => {}
            SendRefusal::WouldBlock { .. }
            | SendRefusal::NotSent { .. }
            | SendRefusal::Withdrawn
            | SendRefusal::NoRsvp
            | SendRefusal::NotPrimary => self.refuse(to, "its application gave the answer up", cx),
        }
        if let Some(token) = token {
            cx.resolve(token, Err(why));
        }
    }

    /// STATE_EX, as JGroups reads it.
    fn refuse(&mut self, to: Uuid, why: &str, cx: &mut Cx<'_>) {
        self.counters.refused += 1;
        cx.trace(|| Trace::State { what: "refused", with: to });
        let exception = Exception {
            class: Some(String::from("java.lang.IllegalStateException")),
            message: Some(why.into()),
            ..Exception::default()
        };
        let mut body = BytesMut::new();
        Exception::encode_nullable(Some(&exception), &mut body);
        let body = Body::Bytes(Some(body.freeze()));
        cx.send_down(message(to, StateTransferKind::Failure, None, body));
    }
}

/// Whether everything that the state must contain has been delivered.
fn may_cut(
    requester: Uuid,
    wanted: &Digest,
    awaited: &mut Option<BTreeSet<(Uuid, u32)>>,
    delivered: &Digest,
    half: &BTreeSet<(Uuid, u32)>,
    cx: &Cx<'_>,
) -> bool {
    if !tag::is_rgroups(requester) {
        // It cannot say what it had, and drops the beginnings of messages that are cut in two.
        return half.is_empty();
    }
    let behind = wanted
        .iter()
        .filter(|(m, _)| cx.is_member(*m))
        .any(|(m, wanted)| delivered.get(m).map_or(0, |p| p.delivered) < wanted.delivered);
    if behind {
        return false;
    }
    let awaited = awaited.get_or_insert_with(|| half.clone());
    awaited.retain(|m| half.contains(m));
    awaited.is_empty()
}
