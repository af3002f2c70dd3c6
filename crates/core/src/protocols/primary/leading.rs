//! The leader's half: asks what the members of its view know, decides whether the view may be the
//! primary one, has all agree to it, waits until nobody outside trusts an earlier view, and then keeps
//! the trust of all alive.
//!
//! One message does all of it, the beat, and its answer: both are repeated for ever, so neither needs
//! to be reliable.

use super::payload::{Answer, Beat, PrimaryPayload, Said, Stage};
use super::record::{Epoch, Past, Record, staying};
use super::{BEAT, Primary};
use crate::{AppEvent, Cx, Time, Uuid};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

/// Rounds whose answers still count.
const ROUNDS: usize = 8;
/// Beats that follow an answered one at once, so that everybody trusts a new view soon.
const EAGER: u8 = 3;

/// How far a leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Not everybody has said what it knows.
    Asking,
    /// The view may not be primary; some may not know yet.
    Refused,
    /// It may; not everybody has agreed.
    Agreeing,
    /// All have; until then somebody outside may trust an earlier view.
    Waiting { until: Time },
    /// It is primary. So many beats follow the answers at once.
    Formed { eager: u8 },
}

impl Step {
    fn stage(self) -> Stage {
        match self {
            Step::Asking => Stage::Asked,
            Step::Refused => Stage::Refused,
            Step::Agreeing | Step::Waiting { .. } => Stage::Agreed,
            Step::Formed { .. } => Stage::Formed,
        }
    }
}

#[derive(Debug)]
struct Round {
    number: u32,
    at: Time,
    answered: BTreeSet<Uuid>,
}

/// What a leader knows of its view.
#[derive(Debug)]
pub(super) struct Leading {
    epoch: Epoch,
    others: Vec<Uuid>,
    step: Step,
    round: u32,
    rounds: VecDeque<Round>,
    /// The newest round that each has answered.
    heard: BTreeMap<Uuid, u32>,
    /// How far each has come.
    stages: BTreeMap<Uuid, Stage>,
    records: BTreeMap<Uuid, Record>,
    past: Past,
    confirmed: u32,
}

impl Leading {
    pub(super) fn new(epoch: Epoch, local: Uuid) -> Self {
        let others = epoch.voters.iter().copied().filter(|m| *m != local).collect();
        Self {
            epoch,
            others,
            step: Step::Asking,
            round: 0,
            rounds: VecDeque::new(),
            heard: BTreeMap::new(),
            stages: BTreeMap::new(),
            records: BTreeMap::new(),
            past: Past::default(),
            confirmed: 0,
        }
    }

    /// Who has not come as far as the leader.
    pub(super) fn awaited(&self) -> Vec<Uuid> {
        let stage = self.step.stage();
        let behind = |m: &&Uuid| self.stages.get(m).is_none_or(|s| *s < stage);
        self.others.iter().filter(behind).copied().collect()
    }

    fn all_have_come(&self) -> bool {
        self.awaited().is_empty()
    }

    fn begin_round(&mut self, local: Uuid, now: Time) {
        self.round += 1;
        self.rounds.push_back(Round { number: self.round, at: now, answered: [local].into() });
        if self.rounds.len() > ROUNDS {
            self.rounds.pop_front();
        }
    }

    fn newest_is_answered_by_all(&self) -> bool {
        self.rounds.back().is_some_and(|r| self.others.iter().all(|m| r.answered.contains(m)))
    }
}

impl Primary {
    /// Sends everybody a beat.
    pub(super) fn beat(&mut self, cx: &mut Cx<'_>) {
        let interval = self.interval();
        let Some(lead) = self.leading.as_mut() else { return };
        if lead.step == Step::Refused && lead.all_have_come() {
            return cx.disarm(BEAT);
        }
        lead.begin_round(cx.local(), cx.now);
        let past = (lead.step.stage() == Stage::Agreed).then(|| lead.past.clone());
        for m in &lead.others {
            let beat = Beat {
                round: lead.round,
                stage: lead.step.stage(),
                heard: lead.heard.get(m).copied().unwrap_or(0),
                confirmed: lead.confirmed,
                lease: lead.epoch.lease,
                past: past.clone(),
            };
            let said = PrimaryPayload { view: lead.epoch.id, said: Said::Beat(beat) };
            cx.send_down(said.message(*m));
        }
        cx.arm(BEAT, cx.now + interval);
        self.look_for_contact(cx);
        self.lead_on(cx);
    }

    pub(super) fn receive_answer(&mut self, src: Uuid, answer: Answer, cx: &mut Cx<'_>) {
        let rules = self.rules();
        let Some(lead) = self.leading.as_mut().filter(|l| l.others.contains(&src)) else { return };
        if answer.round == 0 || answer.round > lead.round {
            return;
        }
        if answer.rules != rules && lead.step == Step::Asking {
            cx.tell(AppEvent::PrimaryRulesDiffer { member: src });
            self.rules_differ += 1;
            return self.refuse(cx);
        }
        let heard = lead.heard.entry(src).or_insert(0);
        *heard = (*heard).max(answer.round);
        if let Some(r) = lead.rounds.iter_mut().find(|r| r.number == answer.round) {
            r.answered.insert(src);
        }
        let stage = lead.stages.entry(src).or_insert(answer.stage);
        *stage = (*stage).max(answer.stage);
        if let Some(record) = answer.record {
            self.record.resigned.extend(record.resigned.iter().copied());
            lead.records.insert(src, record);
        }
        self.look_for_contact(cx);
        self.lead_on(cx);
        self.hurry(cx);
    }

    /// Takes the next steps, if nothing hinders them.
    pub(super) fn lead_on(&mut self, cx: &mut Cx<'_>) {
        let rules = self.rules();
        let Some(lead) = self.leading.as_mut() else { return };
        let voters: BTreeSet<Uuid> = lead.epoch.voters.iter().copied().collect();
        match lead.step {
            Step::Asking if lead.records.len() == lead.others.len() => {
                let mut records = core::mem::take(&mut lead.records);
                records.insert(cx.local(), self.record.clone());
                let past = Past::of(&records);
                let admitted = past.admits(&voters, &self.record.resigned, rules);
                #[cfg(feature = "mutants")]
                let admitted = admitted || cx.mutant(crate::mutants::Mutant::MinorityIsPrimary);
                if !admitted {
                    return self.refuse(cx);
                }
                self.record.attempt(lead.epoch.clone(), &past);
                lead.past = past;
                lead.step = Step::Agreeing;
                self.stage = Stage::Agreed;
                self.beat(cx);
            }
            Step::Agreeing if lead.all_have_come() => {
                let elsewhere = lead.past.trusted_elsewhere(&voters, &self.record.resigned);
                let until = cx.now + elsewhere + elsewhere / DRIFT;
                lead.step = Step::Waiting { until };
                self.lead_on(cx);
            }
            Step::Waiting { until } if until <= cx.now => {
                lead.step = Step::Formed { eager: EAGER };
                let epoch = lead.epoch.clone();
                self.form(epoch, cx);
                self.beat(cx);
            }
            Step::Waiting { until } => {
                let next = cx.armed(BEAT).map_or(until, |at| at.min(until));
                cx.arm(BEAT, next);
            }
            Step::Asking | Step::Agreeing | Step::Refused | Step::Formed { .. } => {}
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>) {
        let Some(lead) = self.leading.as_mut() else { return };
        lead.step = Step::Refused;
        self.stage = Stage::Refused;
        self.publish(cx);
        self.beat(cx);
    }

    /// The first beats of a primary view follow each other quickly.
    fn hurry(&mut self, cx: &mut Cx<'_>) {
        let Some(lead) = self.leading.as_mut() else { return };
        if let Step::Formed { eager: eager @ 1.. } = lead.step
            && lead.newest_is_answered_by_all()
        {
            lead.step = Step::Formed { eager: eager - 1 };
            self.beat(cx);
        }
    }

    /// Which round enough members have answered: so long after its beginning the view can be trusted.
    fn look_for_contact(&mut self, cx: &mut Cx<'_>) {
        let rules = self.rules();
        let Some(lead) = self.leading.as_mut() else { return };
        let base = staying(&lead.epoch.voters, &self.record.resigned);
        let answered = |r: &&Round| rules.may_follow(&base, &r.answered);
        let Some(newest) = lead.rounds.iter().rev().find(answered) else { return };
        if newest.number > lead.confirmed {
            lead.confirmed = newest.number;
            let until = newest.at + lead.epoch.lease;
            self.trust_until(until, cx);
        }
    }
}

/// The clocks of members differ by one part in this many at most.
const DRIFT: u32 = 50;

/// Rounds up, as the wire has milliseconds.
pub(super) fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(d.as_nanos().div_ceil(1_000_000) as u64)
}
