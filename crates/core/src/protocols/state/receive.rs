//! How a state in parts is received: every part goes to the application, which says how far it has
//! taken them; the provider sends no more than there is room for, so a state of any size needs the
//! memory of one window.

use super::dialect::Dialect;
use super::fetch::{Fetch, Step};
use super::incoming::Incoming;
use super::room::{RoomPayload, Wish};
use super::{FETCH, StateTransfer};
use crate::app::{StateEnd, StateOutcome, TakeState, Taken};
use crate::{Answer, AppEvent, Consumed, Cx, Digest, DropReason, Message, Query, Trace, Uuid, tag};
use core::net::SocketAddr;
use core::time::Duration;

/// JGroups' default of BARRIER.max_close_time, for stacks without BARRIER.
const LONGEST: Duration = Duration::from_secs(60);

impl StateTransfer {
    /// BARRIER.max_close_time; zero: for ever.
    pub(super) fn longest(&self, cx: &Cx<'_>) -> Duration {
        match cx.ask_below(&Query::Barrier) {
            Some(Answer::Barrier { longest, .. }) => longest,
            _ => LONGEST,
        }
    }

    /// STATE_RSP: from now on parts come, or can be fetched from `socket`.
    pub(super) fn state_begins(
        &mut self,
        src: Uuid,
        digest: Digest,
        socket: Option<SocketAddr>,
        cx: &mut Cx<'_>,
    ) {
        if self.settings.dialect == Dialect::Socket && socket.is_none() {
            return self.no_state_from(src, "it does not say where to connect".into(), cx);
        }
        let Fetch::Asking(a) = &mut self.fetch else { return };
        let (op, attempt) = (a.call.op, self.attempts);
        a.step = Step::Receiving(Incoming::new(src, attempt, digest, cx.now));
        cx.trace(|| Trace::State { what: "begins", with: src });
        cx.tell(AppEvent::StateBegins { op, attempt, provider: src, socket });
        self.tell_room(cx);
        self.look_again(cx);
    }

    /// STATE_PART.
    pub(super) fn part(&mut self, src: Uuid, m: &Message, cx: &mut Cx<'_>) {
        let owed = Consumed::one(src, m.receipt);
        let Fetch::Asking(a) = &mut self.fetch else {
            cx.settle(owed);
            return self.not_wanted(src, cx);
        };
        match &mut a.step {
            Step::Receiving(i) if i.provider == src && !i.sent_all => {
                let bytes = m.body.as_bytes().cloned().unwrap_or_default();
                i.part(bytes.len() as u64, owed, cx.now);
                self.counters.bytes_received += bytes.len() as u64;
                cx.tell(AppEvent::StatePart { op: a.call.op, bytes });
            }
            // The rest of an earlier answer, before the one that is awaited.
            Step::Asked { provider, .. } if *provider == src => cx.settle(owed),
            Step::Receiving(_) | Step::Asked { .. } | Step::Pausing { .. } => {
                cx.settle(owed);
                self.not_wanted(src, cx);
            }
        }
    }

    /// STATE_EOF.
    pub(super) fn all_sent(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        let op = a.call.op;
        match &mut a.step {
            Step::Receiving(i) if i.provider == src => {
                (i.sent_all, i.moved) = (true, cx.now);
                cx.tell(AppEvent::StateEnds { op });
                self.complete(cx);
            }
            Step::Receiving(_) | Step::Asked { .. } | Step::Pausing { .. } => {
                cx.drop_from_peer(DropReason::Stale, Some(src));
            }
        }
    }

    /// The application has taken something.
    pub(super) fn take(&mut self, t: &TakeState, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        let Step::Receiving(i) = &mut a.step else { return };
        if t.op != a.call.op || t.attempt != i.attempt {
            return;
        }
        match &t.taken {
            Taken::Bytes(upto) => {
                let by_socket = self.settings.dialect == Dialect::Socket;
                for owed in i.took(*upto, by_socket, cx.now) {
                    cx.settle(owed);
                }
                self.tell_room(cx);
            }
            Taken::All => {
                (i.taken_all, i.moved) = (true, cx.now);
                for owed in i.took(u64::MAX, false, cx.now) {
                    cx.settle(owed);
                }
                self.complete(cx);
            }
            Taken::Failed(why) => self.ask_another(StateOutcome::Refused(why.clone()), cx),
        }
    }

    /// The call ends when everything was sent and taken.
    fn complete(&mut self, cx: &mut Cx<'_>) {
        let Fetch::Asking(a) = &mut self.fetch else { return };
        let Step::Receiving(i) = &mut a.step else { return };
        if i.complete() {
            let (provider, digest) = (i.provider, core::mem::take(&mut i.digest));
            self.fetched(provider, &digest, None, cx);
        }
    }

    fn tell_room(&mut self, cx: &mut Cx<'_>) {
        let window = self.settings.window;
        let streamed = self.settings.dialect == Dialect::Streamed;
        let Fetch::Asking(a) = &mut self.fetch else { return };
        if let (true, Step::Receiving(i)) = (streamed, &mut a.step)
            && let Some(m) = i.room(window, cx.now)
        {
            cx.send_down(m);
        }
    }

    /// Something came of a member that is not asked (any more): it is told so.
    pub(super) fn not_wanted(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        cx.drop_from_peer(DropReason::Stale, Some(src));
        if self.settings.dialect == Dialect::Streamed && tag::is_rgroups(src) {
            let stop = RoomPayload { attempt: self.attempts, wish: Wish::Stop };
            cx.send_down(stop.message(src));
        }
    }

    /// An attempt ends without a state: what it owes, and a word to whoever gives.
    pub(super) fn give_up(&mut self, step: Step, cx: &mut Cx<'_>) {
        let Step::Receiving(i) = step else { return };
        let (provider, attempt) = (i.provider, i.attempt);
        if !i.sent_all && !tag::is_rgroups(provider) && cx.is_member(provider) {
            self.unfinished.insert(provider);
        }
        i.give_up().for_each(|owed| cx.settle(owed));
        let streamed = self.settings.dialect == Dialect::Streamed;
        if streamed && tag::is_rgroups(provider) && cx.is_member(provider) {
            let stop = RoomPayload { attempt, wish: Wish::Stop };
            cx.send_down(stop.message(provider));
        }
    }

    /// Whether the member that is asked, or the application, has said nothing for too long.
    pub(super) fn look_at_provider(&mut self, cx: &mut Cx<'_>) {
        let longest = self.longest(cx);
        let Fetch::Asking(a) = &self.fetch else { return };
        let (provider, since, awaited) = match &a.step {
            Step::Asked { provider, since } => (*provider, *since, true),
            Step::Receiving(i) => (i.provider, i.moved, i.awaits_provider()),
            Step::Pausing { .. } => return,
        };
        let silent = cx.now.since(since);
        let parts = self.settings.dialect != Dialect::Whole;
        let patience = self.settings.takeover_after;
        let too_long = !patience.is_zero() && silent >= patience;
        if parts && awaited && too_long && a.has_other(provider, cx) {
            return self.ask_another(StateOutcome::Unanswered, cx);
        }
        if parts && !longest.is_zero() && silent >= longest {
            let end = match awaited {
                true => StateEnd::TimedOut { after: longest },
                false => StateEnd::NotTaken { after: longest },
            };
            return self.time_is_over(end, cx);
        }
        self.tell_room(cx);
        self.look_again(cx);
    }

    /// Arms the timer for whatever can be late next.
    pub(super) fn look_again(&mut self, cx: &mut Cx<'_>) {
        let longest = self.longest(cx);
        let Fetch::Asking(a) = &self.fetch else { return };
        let parts = self.settings.dialect != Dialect::Whole;
        let since = match &a.step {
            Step::Pausing { until, .. } => return cx.arm(FETCH, (*until).min(a.until)),
            Step::Asked { since, .. } => *since,
            Step::Receiving(i) => i.moved,
        };
        let repeat = match &a.step {
            Step::Receiving(i) if self.settings.dialect == Dialect::Streamed => i.repeat_at(),
            Step::Receiving(_) | Step::Asked { .. } | Step::Pausing { .. } => None,
        };
        let limits = [self.settings.takeover_after, longest].into_iter();
        let limits = limits.filter(|l| parts && !l.is_zero()).map(|l| since + l);
        let next = limits.filter(|at| *at > cx.now).chain(repeat).min();
        cx.arm(FETCH, next.map_or(a.until, |at| at.min(a.until)));
    }
}
