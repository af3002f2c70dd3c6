//! What every member but the leader does: answers beats, and trusts the view as long as that is safe.
//!
//! When the leader begins round *k* it has seen this member's answer to an earlier round; when later
//! enough members have answered round *k*, then at a moment after that earlier answer enough members
//! were still in this view. So the trust counts from the answer.

use super::Primary;
use super::payload::{Answer, Beat, PrimaryPayload, Said, Stage};
use super::record::Epoch;
use crate::{Cx, Time, Uuid, ViewId};
use alloc::collections::VecDeque;

/// Rounds that are remembered.
const ROUNDS: usize = 16;

/// What a member knows of the beats of its view.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) leader: Uuid,
    epoch: Epoch,
    newest: u32,
    /// When each round was answered first.
    answered: VecDeque<(u32, Time)>,
    /// If a round is confirmed, from when on the view may be trusted.
    evidence: VecDeque<(u32, Time)>,
}

impl Following {
    pub(super) fn new(leader: Uuid, epoch: Epoch) -> Self {
        let (answered, evidence) = (VecDeque::new(), VecDeque::new());
        Self { leader, epoch, newest: 0, answered, evidence }
    }
}

fn remember(list: &mut VecDeque<(u32, Time)>, round: u32, at: Time) {
    list.push_back((round, at));
    if list.len() > ROUNDS {
        list.pop_front();
    }
}

fn when(list: &VecDeque<(u32, Time)>, round: u32) -> Option<Time> {
    list.iter().find(|(r, _)| *r == round).map(|(_, at)| *at)
}

impl Primary {
    pub(super) fn receive_beat(&mut self, src: Uuid, view: ViewId, beat: Beat, cx: &mut Cx<'_>) {
        let Some(f) = self.following.as_mut().filter(|f| f.leader == src && f.epoch.id == view)
        else {
            return;
        };
        // A beat that comes late says nothing that a later one does not.
        if beat.round <= f.newest || self.resigned {
            return;
        }
        f.newest = beat.round;
        f.epoch.lease = beat.lease;
        remember(&mut f.answered, beat.round, cx.now);
        if let Some(at) = when(&f.answered, beat.heard) {
            remember(&mut f.evidence, beat.round, at);
        }
        let trusted_from = when(&f.evidence, beat.confirmed);
        let epoch = f.epoch.clone();
        match (beat.stage, beat.past) {
            (Stage::Agreed, Some(past)) if self.stage < Stage::Agreed => {
                self.record.attempt(epoch, &past);
                self.stage = Stage::Agreed;
            }
            (Stage::Formed, _) if self.stage == Stage::Agreed => {
                self.form(epoch, cx);
            }
            (Stage::Refused, _) if self.stage == Stage::Asked => self.stage = Stage::Refused,
            (Stage::Asked | Stage::Refused | Stage::Agreed | Stage::Formed, _) => {}
        }
        let record = (beat.stage == Stage::Asked).then(|| self.record.clone());
        let (stage, rules) = (self.stage, self.rules());
        let answer = Answer { round: beat.round, stage, rules, record };
        cx.send_down(PrimaryPayload { view, said: Said::Answer(answer) }.message(src));
        if let Some(from) = trusted_from {
            self.trust_until(from + beat.lease, cx);
        }
        self.publish(cx);
    }
}
