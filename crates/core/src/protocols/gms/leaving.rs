//! Leaving: a member asks the coordinator, the coordinator asks the next member, and whoever is
//! asked by somebody that it had asked itself turns to the member behind.
//!
//! The answer is not reliable, so the request is repeated, also to the next coordinator when the
//! view changes (BEHAVIOURS M04). A coordinator first waits until its last view is acknowledged:
//! its successor must not make another view of the same number (M02). After
//! [`AppEvent::Disconnected`](crate::AppEvent::Disconnected) the driver stops the stack.

use super::payload;
use super::{Gms, LEAVE, Role};
use crate::{AppEvent, Cx, DropReason, Time, Uuid};
use alloc::collections::BTreeSet;

/// A leave on its way.
#[derive(Debug)]
pub(super) struct Leave {
    step: Step,
    give_up_at: Time,
    /// Fellow leavers that know that we leave too.
    told: BTreeSet<Uuid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The last view that we announced is still being acknowledged.
    FinishingView,
    /// `of` was asked, and is asked again at `again_at`.
    Asked { of: Uuid, again_at: Time },
}

impl Gms {
    /// The application wants to leave.
    pub(super) fn disconnect(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Idle | Role::Discovering | Role::Pausing => self.finish(true, cx),
            Role::Joining { coordinator } => {
                // It may be letting us in right now.
                let again_at = cx.now + self.config.leave_retry_interval;
                self.start_leaving(Step::Asked { of: coordinator, again_at }, cx);
                cx.send_down(payload::leave_request(coordinator, cx.local()));
            }
            Role::Member | Role::Coordinator => {
                self.requests.forget_joiners();
                self.start_leaving(Step::FinishingView, cx);
                if self.acks.is_none() {
                    self.ask_to_leave_now(cx);
                }
            }
            Role::Leaving(_) | Role::Left => {}
        }
    }

    fn start_leaving(&mut self, step: Step, cx: &mut Cx<'_>) {
        let give_up_at = cx.now + self.config.leave_timeout;
        cx.disarm(super::JOIN);
        self.enter(Role::Leaving(Leave { step, give_up_at, told: BTreeSet::new() }), cx);
        self.arm_leave_timer(cx);
    }

    fn arm_leave_timer(&self, cx: &mut Cx<'_>) {
        let Role::Leaving(leave) = &self.role else { return };
        let at = match leave.step {
            Step::FinishingView => leave.give_up_at,
            Step::Asked { again_at, .. } => again_at.min(leave.give_up_at),
        };
        cx.arm(LEAVE, at);
    }

    /// Who takes over after us, as far as we know.
    fn successor(&self, local: Uuid) -> Option<Uuid> {
        self.requests.first_staying(self.latest()?, Some(local))
    }

    /// Our last view is acknowledged, or there is none: asks, with the whole time ahead.
    pub(super) fn ask_to_leave_now(&mut self, cx: &mut Cx<'_>) {
        let Role::Leaving(leave) = &mut self.role else { return };
        if leave.step != Step::FinishingView {
            return;
        }
        leave.give_up_at = cx.now + self.config.leave_timeout;
        self.ask_successor(cx);
    }

    fn ask_successor(&mut self, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Some(of) = self.successor(local) else {
            // Alone, or everybody else leaves as well: nobody stays who could be told, and those
            // that asked us have nobody else to let them go.
            self.let_leavers_go(cx);
            return self.finish(true, cx);
        };
        let again_at = cx.now + self.config.leave_retry_interval;
        let Role::Leaving(leave) = &mut self.role else { return };
        leave.step = Step::Asked { of, again_at };
        leave.told.insert(of);
        cx.send_down(payload::leave_request(of, local));
        self.arm_leave_timer(cx);
    }

    /// The view or the set of those who stay has changed: the member to ask may be another one.
    pub(super) fn retarget_leave(&mut self, cx: &mut Cx<'_>) {
        let Role::Leaving(leave) = &self.role else { return };
        match leave.step {
            Step::Asked { of, .. } if self.view.is_some() => {
                if self.successor(cx.local()) != Some(of) {
                    self.ask_successor(cx);
                }
            }
            Step::FinishingView | Step::Asked { .. } => {}
        }
    }

    /// `leaver` leaves while we do: it must know that we do not stay, to ask somebody behind us.
    pub(super) fn leave_together_with(&mut self, leaver: Uuid, cx: &mut Cx<'_>) {
        let local = cx.local();
        let Role::Leaving(leave) = &mut self.role else { return };
        if leave.told.insert(leaver) {
            cx.send_down(payload::leave_request(leaver, local));
        }
        if leave.step == Step::FinishingView && self.successor(local).is_none() {
            self.let_leavers_go(cx);
        }
        self.retarget_leave(cx);
    }

    /// Answers everybody who asked to leave.
    fn let_leavers_go(&self, cx: &mut Cx<'_>) {
        for m in self.requests.leavers() {
            cx.send_down(payload::leave_response(m));
        }
    }

    /// LEAVE_RSP.
    pub(super) fn receive_leave_answer(&mut self, src: Uuid, cx: &mut Cx<'_>) {
        match self.role {
            Role::Leaving(_) => self.finish(true, cx),
            // Another member had us let go: our application took nothing of what it sent. The
            // others go on without us, and a merge brings us back.
            Role::Member | Role::Coordinator if self.is_member(src) => {
                self.counters.let_go += 1;
                let reason = "the coordinator let this member go at the request of one that waited \
                              too long for credit";
                cx.tell(AppEvent::Rejoining { reason: reason.into() });
            }
            Role::Idle
            | Role::Discovering
            | Role::Pausing
            | Role::Joining { .. }
            | Role::Member
            | Role::Coordinator
            | Role::Left => cx.drop_from_peer(DropReason::Stale, Some(src)),
        }
    }

    /// The request is repeated, or the time is over: then we go without an answer, and the others
    /// find out by failure detection.
    pub(super) fn leave_timer(&mut self, cx: &mut Cx<'_>) {
        let Role::Leaving(leave) = &mut self.role else { return };
        match leave.step {
            Step::FinishingView => self.ask_to_leave_now(cx),
            Step::Asked { .. } if cx.now >= leave.give_up_at => self.finish(false, cx),
            Step::Asked { of, .. } => {
                let again_at = cx.now + self.config.leave_retry_interval;
                leave.step = Step::Asked { of, again_at };
                self.ask_again(of, cx);
                self.arm_leave_timer(cx);
            }
        }
    }

    /// Repeats the request, also to the member behind: whom we asked may be gone itself, and its
    /// successor know that we are out.
    fn ask_again(&self, of: Uuid, cx: &mut Cx<'_>) {
        let local = cx.local();
        cx.send_down(payload::leave_request(of, local));
        let members = self.latest().map_or(&[][..], |v| &v.members);
        let behind = members.iter().skip_while(|m| **m != of).skip(1);
        if let Some(next) = behind.copied().find(|m| *m != local && !self.requests.goes(*m)) {
            cx.send_down(payload::leave_request(next, local));
        }
    }
}
