//! The half of every member: what it has, what it waits for, and what it has lost.

use super::payload::{Claim, ClaimState, LockPayload, Step};
use super::{
    DEADLINE, LockCall, LockFailure, LockLoss, LockName, LockWait, MAX_NAME, Number, TRUST, may_act,
};
use crate::{
    AppEvent, Cx, Duration, OpId, Primacy, SendResult, SendToken, Time, Uuid, View, ViewId,
};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Holding {
    most: u32,
    last: Number,
    wants: BTreeMap<Number, Want>,
    view: Option<Arc<View>>,
    keeper: Option<Uuid>,
    /// What the keeper of this view was told at first, until it says that it is ready.
    claims: Option<Vec<Claim>>,
    to_self: Vec<LockPayload>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    acquired: u64,
    timed_out: u64,
    lost: u64,
}

/// Something that is had, or wanted, or wanted no more.
#[derive(Debug)]
struct Want {
    op: OpId,
    name: LockName,
    /// The keeper of this view knows of it.
    told: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting {
        token: SendToken,
        ticket: Option<u64>,
        now_or_never: bool,
        until: Option<Time>,
    },
    /// The keeper has granted it, and it is not known whether the view is the primary one.
    Granted {
        token: SendToken,
        fence: u64,
        ticket: Option<u64>,
        until: Option<Time>,
    },
    Held {
        fence: u64,
    },
    /// The keeper is to know that it is not wanted any more; somebody may wait for that.
    Releasing {
        token: Option<SendToken>,
    },
}

impl Holding {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            last: 0,
            wants: BTreeMap::new(),
            view: None,
            keeper: None,
            claims: None,
            to_self: Vec::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn take_own(&mut self) -> Vec<LockPayload> {
        core::mem::take(&mut self.to_self)
    }

    fn id(&self) -> Option<ViewId> {
        self.view.as_ref().map(|v| v.id)
    }

    fn say(&mut self, step: Step, cx: &mut Cx<'_>) {
        let (Some(view), Some(keeper)) = (self.id(), self.keeper) else { return };
        let payload = LockPayload { view, step };
        if keeper == cx.local() {
            self.to_self.push(payload);
        } else {
            cx.send_down(payload.message(keeper));
        }
    }

    fn is_ready(&self) -> bool {
        self.claims.is_none()
    }

    pub(super) fn call(&mut self, call: &LockCall, cx: &mut Cx<'_>) {
        match call {
            LockCall::Acquire { op, name, wait } => self.acquire(*op, name, *wait, cx),
            LockCall::Release { op, hold } => self.give_back(*op, *hold, cx),
        }
    }

    fn acquire(&mut self, op: OpId, name: &LockName, wait: LockWait, cx: &mut Cx<'_>) {
        let token = cx.app_token(op);
        let primary = cx.group().primary.map(|c| c.at(cx.now));
        let refused = if self.view.is_none() {
            Some(LockFailure::Closed)
        } else if name.name.len() > MAX_NAME {
            Some(LockFailure::NameTooLong { limit: MAX_NAME as u64 })
        } else if primary == Some(Primacy::No) {
            Some(LockFailure::NotPrimary)
        } else if self.wants.len() >= self.most as usize {
            Some(LockFailure::TooMany { limit: u64::from(self.most) })
        } else {
            None
        };
        if let Some(why) = refused {
            return cx.resolve_service(token, SendResult::Locked(Err(why)));
        }
        let now_or_never = wait == LockWait::NotAtAll;
        let until = match wait {
            LockWait::Forever => None,
            LockWait::For(t) => Some(cx.now + t),
            // Asking takes its time too.
            LockWait::NotAtAll => Some(cx.now + NOW),
        };
        self.last += 1;
        let state = State::Waiting { token, ticket: None, now_or_never, until };
        self.wants.insert(self.last, Want { op, name: name.clone(), told: false, state });
        self.tell(self.last, cx);
    }

    /// Tells the keeper of a request, if it is ready.
    fn tell(&mut self, number: Number, cx: &mut Cx<'_>) {
        if !self.is_ready() {
            return;
        }
        let Some(want) = self.wants.get_mut(&number) else { return };
        let step = match (&want.state, want.told) {
            (State::Releasing { .. }, true) => Step::Release(number),
            (State::Releasing { .. }, false) => return self.released(number, cx),
            (_, true) => return,
            (_, false) => match want.claim(number) {
                Some(claim) => Step::Acquire(claim),
                None => return,
            },
        };
        want.told = true;
        self.say(step, cx);
    }

    fn give_back(&mut self, op: Option<OpId>, hold: OpId, cx: &mut Cx<'_>) {
        let token = op.map(|op| cx.app_token(op));
        let found = self.wants.iter_mut().find(|(_, w)| w.op == hold);
        let Some((number, want)) = found.filter(|(_, w)| matches!(w.state, State::Held { .. }))
        else {
            if let Some(token) = token {
                let why =
                    if self.view.is_none() { LockFailure::Closed } else { LockFailure::NotHeld };
                cx.resolve_service(token, SendResult::Unlocked(Err(why)));
            }
            return;
        };
        let number = *number;
        want.state = State::Releasing { token };
        self.tell(number, cx);
    }

    /// A view: the keeper is told everything anew.
    pub(super) fn install(&mut self, view: &Arc<View>, keeper: Option<Uuid>, cx: &mut Cx<'_>) {
        self.view = Some(Arc::clone(view));
        self.keeper = keeper;
        self.to_self.clear();
        if view.is_merge() && cx.group().primary.is_none() && !keeps_in_merge(view, cx.local()) {
            self.lose_all(LockLoss::Merged, cx);
        }
        // A process that stood still may learn of the view before it looks at the clock.
        self.check_trust(cx);
        let mut claims = Vec::new();
        for (number, want) in &mut self.wants {
            want.wait_again();
            let claim = want.claim(*number);
            want.told = claim.is_some();
            claims.extend(claim);
        }
        self.claims = Some(claims.clone());
        self.say(Step::Claims(claims), cx);
    }

    /// What the keeper of this view has not answered is said again, and what was granted looked at
    /// again.
    pub(super) fn again(&mut self, cx: &mut Cx<'_>) {
        if let Some(claims) = self.claims.clone() {
            self.say(Step::Claims(claims), cx);
        }
        self.take_granted(cx);
    }

    /// Whether there is something to do again.
    pub(super) fn waits(&self) -> bool {
        let granted = |w: &Want| matches!(w.state, State::Granted { .. });
        (self.keeper.is_some() && self.claims.is_some()) || self.wants.values().any(granted)
    }

    /// The keeper says something.
    pub(super) fn receive(&mut self, from: Uuid, payload: LockPayload, cx: &mut Cx<'_>) {
        // What the keeper of another view says was never heard.
        let current = Some(payload.view) == self.id() && Some(from) == self.keeper;
        if !current {
            return;
        }
        match payload.step {
            Step::Ready => {
                if self.claims.take().is_some() {
                    let all: Vec<Number> = self.wants.keys().copied().collect();
                    all.into_iter().for_each(|n| self.tell(n, cx));
                }
            }
            Step::Queued { number, ticket } => {
                if let Some(Want { state: State::Waiting { ticket: place, .. }, .. }) =
                    self.wants.get_mut(&number)
                {
                    *place = Some(ticket);
                }
            }
            Step::Granted { number, token } => self.granted(number, token, cx),
            Step::Busy(number) => self.refused(number, LockFailure::Taken, cx),
            Step::OtherPermits { number, permits } => {
                self.refused(number, LockFailure::OtherPermits { permits }, cx);
            }
            Step::Released(number) => {
                let releasing = |w: &Want| matches!(w.state, State::Releasing { .. });
                if self.wants.get(&number).is_some_and(releasing) {
                    self.released(number, cx);
                }
            }
            Step::Lost(number) => self.lose(number, LockLoss::Taken, false, cx),
            Step::Claims(_) | Step::Acquire(_) | Step::Release(_) => {}
        }
    }

    fn granted(&mut self, number: Number, fence: u64, cx: &mut Cx<'_>) {
        let Some(want) = self.wants.remove(&number) else { return };
        let Want { op, name, told, state } = want;
        let state = match state {
            State::Waiting { token, ticket, until, .. } => {
                State::Granted { token, fence, ticket, until }
            }
            other @ (State::Granted { .. } | State::Held { .. } | State::Releasing { .. }) => other,
        };
        self.wants.insert(number, Want { op, name, told, state });
        self.take_granted(cx);
    }

    /// Tells the application what was granted, once the view is known to be the primary one.
    fn take_granted(&mut self, cx: &mut Cx<'_>) {
        if !may_act(cx) {
            return;
        }
        for want in self.wants.values_mut() {
            let State::Granted { fence, .. } = want.state else { continue };
            let was = core::mem::replace(&mut want.state, State::Held { fence });
            if let State::Granted { token, .. } = was {
                self.counters.acquired += 1;
                cx.resolve_service(token, SendResult::Locked(Ok(fence)));
            }
        }
    }

    fn refused(&mut self, number: Number, why: LockFailure, cx: &mut Cx<'_>) {
        match self.wants.remove(&number) {
            Some(Want { state: State::Waiting { token, .. }, .. }) => {
                cx.resolve_service(token, SendResult::Locked(Err(why)));
            }
            Some(want) => {
                self.wants.insert(number, want);
            }
            None => {}
        }
    }

    fn released(&mut self, number: Number, cx: &mut Cx<'_>) {
        if let Some(Want { state: State::Releasing { token: Some(token) }, .. }) =
            self.wants.remove(&number)
        {
            cx.resolve_service(token, SendResult::Unlocked(Ok(())));
        }
    }

    /// It is not had any more. `tell`: the keeper does not know.
    fn lose(&mut self, number: Number, why: LockLoss, tell: bool, cx: &mut Cx<'_>) {
        let Some(want) = self.wants.get_mut(&number) else { return };
        let hold = want.op;
        match want.state {
            State::Held { .. } => {
                self.counters.lost += 1;
                want.state = State::Releasing { token: None };
                cx.tell(AppEvent::LockLost { hold, why });
            }
            State::Releasing { .. } => {}
            State::Waiting { .. } | State::Granted { .. } => return,
        }
        if tell {
            self.tell(number, cx);
        } else {
            self.released(number, cx);
        }
    }

    fn lose_all(&mut self, why: LockLoss, cx: &mut Cx<'_>) {
        let all: Vec<Number> = self.wants.keys().copied().collect();
        all.into_iter().for_each(|n| self.lose(n, why, true, cx));
    }

    pub(super) fn primacy_changed(&mut self, cx: &mut Cx<'_>) {
        let Some(claim) = cx.group().primary else { return };
        match claim.at(cx.now) {
            Primacy::Yes => self.take_granted(cx),
            Primacy::Unknown => {}
            Primacy::No => {
                self.lose_all(LockLoss::NotPrimary, cx);
                self.give_up_where(|_| Some(LockFailure::NotPrimary), cx);
            }
        }
        self.check_trust(cx);
    }

    /// With PRIMARY, what is held is held as long as the last primary view may be trusted.
    pub(super) fn check_trust(&mut self, cx: &mut Cx<'_>) {
        if is_lease(cx) && cx.group().trusted_until <= cx.now {
            self.lose_all(LockLoss::NotPrimary, cx);
        }
    }

    /// A call whose answer nobody waits for any more.
    pub(super) fn withdraw(&mut self, op: OpId, cx: &mut Cx<'_>) -> bool {
        let waits = |w: &Want| matches!(w.state, State::Waiting { .. } | State::Granted { .. });
        let found = self.wants.iter().find(|(_, w)| w.op == op && waits(w));
        if let Some(number) = found.map(|(n, _)| *n) {
            self.give_up(number, LockFailure::Withdrawn, cx);
            return true;
        }
        // Or one that waits for the keeper to know.
        let waits = |w: &Want| match &w.state {
            State::Releasing { token: Some(token) } => token.op() == Some(op),
            _ => false,
        };
        let Some(want) = self.wants.values_mut().find(|w| waits(w)) else { return false };
        let was = core::mem::replace(&mut want.state, State::Releasing { token: None });
        if let State::Releasing { token: Some(token) } = was {
            cx.resolve_service(token, SendResult::Unlocked(Err(LockFailure::Withdrawn)));
        }
        true
    }

    fn give_up(&mut self, number: Number, why: LockFailure, cx: &mut Cx<'_>) {
        let Some(want) = self.wants.get_mut(&number) else { return };
        let was = core::mem::replace(&mut want.state, State::Releasing { token: None });
        match was {
            State::Waiting { token, .. } | State::Granted { token, .. } => {
                cx.resolve_service(token, SendResult::Locked(Err(why)));
                self.tell(number, cx);
            }
            other @ (State::Held { .. } | State::Releasing { .. }) => want.state = other,
        }
    }

    fn give_up_where(&mut self, why: impl Fn(&Want) -> Option<LockFailure>, cx: &mut Cx<'_>) {
        let all: Vec<(Number, LockFailure)> =
            self.wants.iter().filter_map(|(n, w)| Some((*n, why(w)?))).collect();
        all.into_iter().for_each(|(n, why)| self.give_up(n, why, cx));
    }

    pub(super) fn expire(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_over = |w: &Want| w.until().is_some_and(|at| at <= now);
        let over: Vec<Number> =
            self.wants.iter().filter(|(_, w)| is_over(w)).map(|(n, _)| *n).collect();
        for number in over {
            self.counters.timed_out += 1;
            self.give_up(number, LockFailure::TimedOut, cx);
        }
    }

    pub(super) fn rearm(&self, cx: &mut Cx<'_>) {
        match self.wants.values().filter_map(Want::until).min() {
            Some(at) => cx.arm(DEADLINE, at),
            None => cx.disarm(DEADLINE),
        }
        let holds = self.wants.values().any(|w| matches!(w.state, State::Held { .. }));
        if is_lease(cx) && holds {
            cx.arm(TRUST, cx.group().trusted_until);
        } else {
            cx.disarm(TRUST);
        }
    }

    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        for want in core::mem::take(&mut self.wants).into_values() {
            match want.state {
                State::Waiting { token, .. } | State::Granted { token, .. } => {
                    cx.resolve_service(token, SendResult::Locked(Err(LockFailure::Closed)));
                }
                State::Held { .. } => {
                    self.counters.lost += 1;
                    cx.tell(AppEvent::LockLost { hold: want.op, why: LockLoss::Closed });
                }
                State::Releasing { token: Some(token) } => {
                    cx.resolve_service(token, SendResult::Unlocked(Err(LockFailure::Closed)));
                }
                State::Releasing { token: None } => {}
            }
        }
        self.view = None;
        self.keeper = None;
        self.claims = None;
        self.rearm(cx);
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let held = self.wants.values().filter(|w| matches!(w.state, State::Held { .. })).count();
        out("held", held as u64);
        out("wanted", (self.wants.len() - held) as u64);
        out("acquired", self.counters.acquired);
        out("timed_out", self.counters.timed_out);
        out("lost", self.counters.lost);
    }
}

/// What is to be had at once may take so long to ask for.
const NOW: Duration = Duration::from_secs(10);

impl Want {
    /// What the keeper is told of it; `None`: nothing, it is not wanted.
    fn claim(&self, number: Number) -> Option<Claim> {
        let state = match self.state {
            State::Waiting { now_or_never: true, .. } => ClaimState::NowOrNever,
            State::Waiting { ticket, .. } => ClaimState::Waits { ticket },
            State::Granted { ticket, .. } => ClaimState::Waits { ticket },
            State::Held { fence } => ClaimState::Has { token: fence },
            State::Releasing { .. } => return None,
        };
        Some(Claim { number, name: self.name.clone(), state })
    }

    /// What a keeper granted and nobody was told of was not granted in the next view.
    fn wait_again(&mut self) {
        if let State::Granted { fence, .. } = self.state {
            let was = core::mem::replace(&mut self.state, State::Held { fence });
            if let State::Granted { token, ticket, until, .. } = was {
                // Who did not wait has no place in a line: it is asked again as if it did.
                let (ticket, now_or_never) = (ticket.or(Some(fence)), false);
                self.state = State::Waiting { token, ticket, now_or_never, until };
            }
        }
    }

    fn until(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until, .. } | State::Granted { until, .. } => until,
            State::Held { .. } | State::Releasing { .. } => None,
        }
    }
}

/// Whether what is held is lost with the trust in the last primary view.
fn is_lease(cx: &Cx<'_>) -> bool {
    #[cfg(feature = "mutants")]
    if cx.mutant(crate::mutants::Mutant::LockOutlivesLease) {
        return false;
    }
    cx.group().primary.is_some()
}

/// Whether a member's part of a merged group is the one that keeps what it holds: the largest; of
/// several as large the one of the merged view's coordinator, or else the first.
fn keeps_in_merge(view: &View, local: Uuid) -> bool {
    let size = |s: &View| s.members.iter().filter(|m| view.contains(**m)).count();
    let order = |s: &View| (size(s), s.contains(view.coordinator()), core::cmp::Reverse(s.id));
    let Some(winner) = view.subgroups.iter().max_by_key(|s| order(s)) else { return true };
    let own = |s: &&View| s.contains(local);
    let mut of_ours = view.subgroups.iter().filter(own);
    of_ours.clone().count() > 0 && of_ours.all(|s| s.id == winner.id)
}
