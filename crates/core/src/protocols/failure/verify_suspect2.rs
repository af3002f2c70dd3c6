//! VERIFY_SUSPECT2: asks a suspect before it is excluded. VERIFY_SUSPECT is the same exchange under
//! another id.
//!
//! A suspicion from below is held; the suspect is asked, more than once, because question and answer
//! may be lost. An answer ends it. Without one the suspicion goes up when the suspect's own time is
//! over, together with all others that are due. It ends early when the suspect's own address refuses
//! connections on every port (DECISIONS 25). Only identities count: a new process on the old address
//! cannot answer for its predecessor.
//!
//! A suspect that does not answer at once is asked through others as well: it may be the path that is
//! dead. One that answers them gets more time to be heard here, but not for ever, because a member
//! with which the coordinator cannot talk holds everybody up (decision 032). Time is measured on the
//! clock that stands still while this process does.

#[cfg(test)]
mod tests;
mod through_others;

use crate::protocol::{Interests, Protocol, Service, Spec};
use crate::wire::header::{VerifyHeader, VerifyKind};
use crate::wire::{Body, Header, Message as WireMessage, ProtId};
use crate::{
    Batch, Cx, Dir, DropReason, Event, Evidence, Flow, Suspicion, Time, TimerKey, Trace, Uuid,
    attributes,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use through_others::{Helper, Payload};

attributes! {
    /// Asks suspects whether they live before they are excluded (JGroups `VERIFY_SUSPECT2`).
    pub struct VerifySuspect2Config for "VERIFY_SUSPECT2" {
        /// How long a suspect may take to answer. Default 1 s; the presets use 1.5 s.
        timeout: Duration = Duration::from_secs(1),
        /// How often a suspect is asked within `timeout`, because messages may be lost. Default 3
        /// (JGroups asks once).
        num_msgs: u32 = 3,
    }
}

attributes! {
    /// As VERIFY_SUSPECT2, for groups that have its predecessor (JGroups `VERIFY_SUSPECT`).
    pub struct VerifySuspectConfig for "VERIFY_SUSPECT" {
        /// How long a suspect may take to answer. Default 2 s.
        timeout: Duration = Duration::from_secs(2),
        /// How often a suspect is asked within `timeout`, because messages may be lost. Default 3
        /// (JGroups asks once).
        num_msgs: u32 = 3,
    }
}

/// The settings of either, and what its messages go by.
#[derive(Clone, Debug)]
pub struct Verification {
    name: &'static str,
    id: ProtId,
    timeout: Duration,
    num_msgs: u32,
}

impl From<VerifySuspect2Config> for Verification {
    fn from(c: VerifySuspect2Config) -> Self {
        let (name, id) = ("VERIFY_SUSPECT2", ProtId::VERIFY_SUSPECT2);
        Self { name, id, timeout: c.timeout, num_msgs: c.num_msgs }
    }
}

impl From<VerifySuspectConfig> for Verification {
    fn from(c: VerifySuspectConfig) -> Self {
        let (name, id) = ("VERIFY_SUSPECT", ProtId::VERIFY_SUSPECT);
        Self { name, id, timeout: c.timeout, num_msgs: c.num_msgs }
    }
}

const CHECK: TimerKey = TimerKey(0);

/// How long evidence that nobody listens any more is held back, so that members that died together
/// leave in one view.
const GATHER: Duration = Duration::from_millis(20);

/// How often a suspect that answers others gets its time anew. Then it goes although it lives: for so
/// long nothing of it has come to us, and whatever it multicasts is missing here.
const SPARED: u32 = 5;

/// Times are on the clock that stands still while this process does.
#[derive(Debug)]
struct Suspect {
    by: Uuid,
    why: Evidence,
    since: Time,
    deadline: Time,
    ask_again: Time,
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct VerifySuspect2 {
    config: Verification,
    suspects: BTreeMap<Uuid, Suspect>,
    helper: Helper,
    verified: u64,
    cleared: u64,
    vouched: u64,
}

impl VerifySuspect2 {
    /// With these settings.
    #[must_use]
    pub fn new(config: impl Into<Verification>) -> Self {
        Self {
            config: config.into(),
            suspects: BTreeMap::new(),
            helper: Helper::default(),
            verified: 0,
            cleared: 0,
            vouched: 0,
        }
    }

    fn question_interval(&self) -> Duration {
        self.config.timeout / self.config.num_msgs.max(1)
    }

    fn suspect(&mut self, list: &[Suspicion], cx: &mut Cx<'_>) {
        let mut asked = Vec::new();
        let since = cx.awake();
        for Suspicion { member, by, why } in list.iter().copied() {
            let known = self.suspects.contains_key(&member);
            if known || member == cx.local() || !cx.is_member(member) {
                continue;
            }
            let deadline = since + self.config.timeout;
            let ask_again = since + self.question_interval();
            #[cfg(feature = "mutants")]
            let deadline = match cx.mutant(crate::mutants::Mutant::SuspicionUnverified) {
                true => since,
                false => deadline,
            };
            self.suspects.insert(member, Suspect { by, why, since, deadline, ask_again });
            ask(self.config.id, member, cx);
            asked.push(member);
        }
        if !asked.is_empty() {
            cx.raise(Dir::Down, Event::Verify(asked));
            self.schedule(cx);
        }
    }

    /// The member is alive: told to the detectors below, and to GMS in case it already knows.
    fn clear(&mut self, m: Uuid, cx: &mut Cx<'_>) {
        #[cfg(feature = "mutants")]
        if cx.mutant(crate::mutants::Mutant::SuspicionKept) {
            return;
        }
        if self.suspects.remove(&m).is_none() {
            return;
        }
        self.cleared += 1;
        cx.trace(|| Trace::Unsuspected { member: m });
        cx.raise(Dir::Down, Event::Unsuspect([m].into()));
        cx.raise(Dir::Up, Event::Unsuspect([m].into()));
        self.schedule(cx);
    }

    fn check(&mut self, cx: &mut Cx<'_>) {
        let now = cx.awake();
        let over = |(m, s): (&Uuid, &Suspect)| {
            (s.deadline <= now).then_some(Suspicion { member: *m, by: s.by, why: s.why })
        };
        let due: Vec<Suspicion> = self.suspects.iter().filter_map(over).collect();
        for Suspicion { member, by, why } in due.iter().copied() {
            self.suspects.remove(&member);
            self.verified += 1;
            cx.trace(|| Trace::Suspected { member, by, why });
        }
        let again = self.question_interval();
        let mut silent = Vec::new();
        for (m, s) in &mut self.suspects {
            if s.ask_again <= now {
                s.ask_again = now + again;
                ask(self.config.id, *m, cx);
                silent.push(*m);
            }
        }
        for m in silent {
            self.ask_others(m, cx);
        }
        if !due.is_empty() {
            cx.raise(Dir::Up, Event::Suspect(due));
        }
        self.schedule(cx);
    }

    fn schedule(&self, cx: &mut Cx<'_>) {
        match self.suspects.values().map(|s| s.deadline.min(s.ask_again)).min() {
            Some(at) => cx.arm(CHECK, cx.now + at.since(cx.awake())),
            None => cx.disarm(CHECK),
        }
    }

    /// The suspect has answered `by`, though not us.
    fn spare(&mut self, member: Uuid, by: Uuid, cx: &mut Cx<'_>) {
        let (now, timeout) = (cx.awake(), self.config.timeout);
        let Some(s) = self.suspects.get_mut(&member) else { return };
        self.vouched += 1;
        cx.trace(|| Trace::Vouched { member, by });
        s.deadline = s.deadline.max((now + timeout).min(s.since + timeout * (1 + SPARED)));
        self.schedule(cx);
    }

    fn receive(&mut self, src: Uuid, h: &VerifyHeader, payload: Option<Payload>, cx: &mut Cx<'_>) {
        let Some(from) = h.from.as_ref().and_then(crate::wire::Address::uuid) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        match (h.kind, payload) {
            (_, Some(payload)) => self.receive_payload(src, payload, cx),
            (VerifyKind::AreYouDead, None) => {
                let me = Some(cx.local().into());
                let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: me };
                cx.send_down(
                    WireMessage::unicast(from, Body::Empty)
                        .with_header(self.config.id, Header::Verify(header)),
                );
            }
            (VerifyKind::IAmNotDead, None) if from == src => {
                self.clear(src, cx);
                self.tell_who_asked(src, cx);
            }
            (VerifyKind::IAmNotDead, None) => cx.drop_from_peer(DropReason::Stale, Some(src)),
        }
    }
}

fn ask(id: ProtId, m: Uuid, cx: &mut Cx<'_>) {
    let header = VerifyHeader { kind: VerifyKind::AreYouDead, from: Some(cx.local().into()) };
    cx.send_down(WireMessage::unicast(m, Body::Empty).with_header(id, Header::Verify(header)));
}

impl Protocol for VerifySuspect2 {
    fn spec(&self) -> Spec {
        Spec {
            name: self.config.name,
            id: Some(self.config.id),
            interests: Interests { events: true, patient_timers: true, ..Interests::default() },
            provides: &[Service::Verification],
            needs_below: &[Service::FailureDetection],
            needs_above: &[Service::Membership],
        }
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.suspects.clear();
        self.helper = Helper::default();
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let (mut mine, id) = (Vec::new(), self.config.id);
        batch.retain(|m| match m.headers.get(id) {
            Some(Header::Verify(h)) => {
                mine.push((h.clone(), Payload::read(m)));
                false
            }
            Some(_) => false,
            None => true,
        });
        for (h, payload) in mine {
            self.receive(src, &h, payload, cx);
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::Suspect(list)) => {
                self.suspect(list, cx);
                return Flow::Stop;
            }
            (Dir::Up, Event::Unsuspect(list)) => {
                for m in list {
                    self.suspects.remove(m);
                }
                self.schedule(cx);
            }
            (Dir::Up, Event::Refuses(m)) => {
                if let Some(s) = self.suspects.get_mut(m) {
                    s.deadline = s.deadline.min(cx.awake() + GATHER);
                    self.schedule(cx);
                }
                return Flow::Stop;
            }
            (Dir::Down, Event::View(v)) => {
                self.suspects.retain(|m, _| v.contains(*m));
                self.helper.retain(|m| v.contains(m));
                self.schedule(cx);
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) {
        self.check(cx);
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_suspects", self.suspects.len() as u64);
        out("num_verified", self.verified);
        out("num_cleared", self.cleared);
        out("num_vouched_for", self.vouched);
    }
}
