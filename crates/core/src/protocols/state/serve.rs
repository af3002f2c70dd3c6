//! The member that is asked for its state.
//!
//! A request waits until this member has delivered what the asking one already had, and until the
//! large multicasts that had arrived in part by then are complete: the asking member may have
//! joined in the middle of one and can never put it together, so the state must contain it. Both
//! waits end by time. So does a third: a member that is itself given a state has nothing to give before
//! that is over, as its application lacks what is held back for it. Then the history is cut and the application asked. Several members are served
//! side by side, each with a cut of its own; of one member there is one request. A state in parts
//! leaves as [`super::outgoing`] says.

use super::dialect::{Dialect, Said};
use super::fetch::Fetch;
use super::outgoing::{Outgoing, PART, exempt};
use super::{FLUSH, LARGEST, StateTransfer, own_digest};
use crate::app::{AnswerState, StateAnswer};
use crate::wire::header::StreamingKind;
use crate::wire::{Body, Exception};
use crate::{
    Answer, AppEvent, Cx, Digest, Dir, DropReason, Event, Query, SendRefusal, SendToken, Time,
    Trace, Uuid, View, tag,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
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
    pub(super) open: BTreeMap<Uuid, Step>,
    /// The last attempt that each reader has spoken of.
    pub(super) attempts: BTreeMap<Uuid, u64>,
    /// States that flow control has not admitted yet: for whom, and who waits for it.
    sending: BTreeMap<u64, (Uuid, Option<SendToken>)>,
    last_request: u64,
}

#[derive(Debug)]
pub(super) enum Step {
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
    /// Its state is on the way in parts.
    Giving(Outgoing),
}

impl Serving {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many states the application is making.
    fn in_the_making(&self) -> usize {
        self.open.values().filter(|s| !matches!(s, Step::Waiting { .. })).count()
    }

    /// Who is served and has left.
    pub(super) fn gone(&mut self, view: &View) -> Vec<Uuid> {
        self.attempts.retain(|m, _| view.contains(*m));
        self.open.keys().copied().filter(|m| !view.contains(*m)).collect()
    }

    /// The answers that flow control has not admitted are answered no more.
    pub(super) fn close(&mut self) -> Vec<SendToken> {
        let sending = core::mem::take(&mut self.sending);
        self.attempts.clear();
        sending.into_values().filter_map(|(_, token)| token).collect()
    }
}

impl StateTransfer {
    /// STATE_REQ.
    pub(super) fn requested(&mut self, src: Uuid, h: &Said, cx: &mut Cx<'_>) {
        if !cx.is_member(src) || src == cx.local() {
            return cx.drop_from_peer(DropReason::NotAMember, Some(src));
        }
        self.counters.requests_received += 1;
        match self.serving.open.get(&src) {
            // It has begun anew: it had given up before there was an answer, or the end of one.
            Some(Step::Asked { .. } | Step::Giving(_)) => {
                self.abandon(src, "it is asked for anew", cx);
            }
            Some(Step::Waiting { .. }) | None => {}
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
        if matches!(self.fetch, Fetch::Asking(_)) {
            return self.wait_for_own_state(cx);
        }
        let delivered = self.contained.added_to(own_digest(cx));
        let half = match cx.ask_below(&Query::HalfReceived) {
            Some(Answer::HalfReceived(half)) => half,
            _ => BTreeSet::new(),
        };
        let mut next: Option<Time> = None;
        let mut places = self.settings.max_pool.saturating_sub(self.serving.in_the_making());
        for (requester, step) in &mut self.serving.open {
            let Step::Waiting { wanted, awaited, until } = step else { continue };
            if cx.now < *until && !may_cut(*requester, wanted, awaited, &delivered, &half, cx) {
                next = Some(next.map_or(*until, |n| n.min(*until)));
                continue;
            }
            if places == 0 {
                // It has its turn when another one is done.
                continue;
            }
            places -= 1;
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

    /// This member waits for a state itself: who has waited for it long enough asks another one.
    fn wait_for_own_state(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.serving.open.iter().filter_map(|(m, s)| match s {
            Step::Waiting { until, .. } => Some((*m, *until)),
            Step::Asked { .. } | Step::Giving(_) => None,
        });
        let (late, others): (Vec<_>, Vec<_>) = waiting.partition(|(_, until)| *until <= cx.now);
        for (m, _) in late {
            self.serving.open.remove(&m);
            self.refuse(m, "it waits for a state itself", cx);
        }
        if let Some(at) = others.into_iter().map(|(_, until)| until).min() {
            cx.arm(FLUSH, at);
        }
    }

    /// The application has an answer, or a part of one.
    pub(super) fn answer_request(&mut self, a: &AnswerState, cx: &mut Cx<'_>) {
        let token = a.op.map(|op| cx.app_token(op));
        let dialect = self.settings.dialect;
        let begun = match self.serving.open.get(&a.to) {
            Some(Step::Asked { request, .. }) if *request == a.request => false,
            Some(Step::Giving(out)) if out.request == a.request => true,
            Some(Step::Asked { .. } | Step::Giving(_) | Step::Waiting { .. }) | None => {
                return self.too_late(a, token, cx);
            }
        };
        match (&a.answer, dialect, begun) {
            (StateAnswer::Refused(why), ..) => {
                self.refuse(a.to, why, cx);
                self.serving.open.remove(&a.to);
                if let Some(token) = token {
                    cx.resolve(token, Ok(()));
                }
            }
            (StateAnswer::Whole(state), Dialect::Whole, false) => {
                self.give_whole(a, state.as_ref(), token, cx);
            }
            (StateAnswer::Whole(state), Dialect::Streamed, false) => {
                self.begin_stream(a.to, None, true, cx);
                self.give_part(a.to, &state.clone().unwrap_or_default(), cx);
                self.give_end(a.to, token, cx);
            }
            (StateAnswer::Begins { socket }, Dialect::Streamed | Dialect::Socket, false) => {
                self.begin_stream(a.to, *socket, false, cx);
            }
            (StateAnswer::Part(bytes), Dialect::Streamed, true) => {
                self.give_part(a.to, bytes, cx);
            }
            (StateAnswer::Ends, _, true) => self.give_end(a.to, token, cx),
            // The driver mixes up its protocols or the order of its calls.
            (
                StateAnswer::Whole(_)
                | StateAnswer::Begins { .. }
                | StateAnswer::Part(_)
                | StateAnswer::Ends,
                ..,
            ) => {
                self.refuse(a.to, "its application answers in a wrong way", cx);
                self.abandon(a.to, "that is no answer for this protocol", cx);
                if let Some(token) = token {
                    cx.resolve(token, Err(SendRefusal::Withdrawn));
                }
            }
        }
    }

    fn too_late(&mut self, a: &AnswerState, token: Option<SendToken>, cx: &mut Cx<'_>) {
        let (request, why) = (a.request, "the other member has left or was answered".into());
        cx.tell(AppEvent::StateAbandoned { request, why });
        if let Some(token) = token {
            cx.resolve(token, Err(SendRefusal::NotMember(a.to)));
        }
    }

    fn give_whole(
        &mut self,
        a: &AnswerState,
        state: Option<&Bytes>,
        token: Option<SendToken>,
        cx: &mut Cx<'_>,
    ) {
        let Some(Step::Asked { request, digest }) = self.serving.open.remove(&a.to) else { return };
        #[cfg(feature = "mutants")]
        let digest = match cx.mutant(crate::mutants::Mutant::StateCutTooLate) {
            true => own_digest(cx),
            false => digest,
        };
        let size = state.map_or(0, |s| s.len() as u64);
        if size > LARGEST {
            let why = SendRefusal::TooLarge { size, limit: LARGEST };
            return self.not_sent(a.to, token, why, cx);
        }
        let body = Body::Bytes(state.cloned());
        let mut m = self.message(a.to, StreamingKind::Response, Some(&digest), None, body);
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
        if request & PART != 0 {
            return self.part_left(request, &how, cx);
        }
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
            | SendRefusal::NotPrimary
            | SendRefusal::TooManyCalls { .. } => {
                self.refuse(to, "its application gave the answer up", cx)
            }
        }
        if let Some(token) = token {
            cx.resolve(token, Err(why));
        }
    }

    /// STATE_EX, as JGroups reads it.
    pub(super) fn refuse(&mut self, to: Uuid, why: &str, cx: &mut Cx<'_>) {
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
        let mut m = self.message(to, StreamingKind::Failure, None, None, body);
        if self.settings.dialect == Dialect::Streamed {
            m.flags |= exempt(to);
        }
        cx.send_down(m);
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
