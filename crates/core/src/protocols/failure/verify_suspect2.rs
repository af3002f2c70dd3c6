//! VERIFY_SUSPECT2: asks a suspect before it is excluded. VERIFY_SUSPECT is the same exchange under
//! another id.
//!
//! A suspicion from below is held; the suspect is asked, more than once, because question and answer
//! may be lost. An answer ends it. Without one the suspicion goes up when the suspect's own time is
//! over, together with all others that are due. It ends early when the suspect's own address refuses
//! connections on every port (DECISIONS 25). Only identities count: a new process on the old address
//! cannot answer for its predecessor.

use crate::protocol::{Interests, Protocol, Service, Spec};
use crate::wire::header::{VerifyHeader, VerifyKind};
use crate::wire::{Body, Header, Message as WireMessage, ProtId};
use crate::{Batch, Cx, Dir, DropReason, Event, Flow, Time, TimerKey, Trace, Uuid, attributes};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

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

#[derive(Debug)]
struct Suspect {
    deadline: Time,
    ask_again: Time,
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct VerifySuspect2 {
    config: Verification,
    suspects: BTreeMap<Uuid, Suspect>,
    verified: u64,
    cleared: u64,
}

impl VerifySuspect2 {
    /// With these settings.
    #[must_use]
    pub fn new(config: impl Into<Verification>) -> Self {
        Self { config: config.into(), suspects: BTreeMap::new(), verified: 0, cleared: 0 }
    }

    fn question_interval(&self) -> Duration {
        self.config.timeout / self.config.num_msgs.max(1)
    }

    fn suspect(&mut self, list: &[Uuid], cx: &mut Cx<'_>) {
        let mut asked = Vec::new();
        for m in list {
            let known = self.suspects.contains_key(m);
            if known || *m == cx.local() || !cx.is_member(*m) {
                continue;
            }
            let deadline = cx.now + self.config.timeout;
            let ask_again = cx.now + self.question_interval();
            self.suspects.insert(*m, Suspect { deadline, ask_again });
            ask(self.config.id, *m, cx);
            asked.push(*m);
        }
        if !asked.is_empty() {
            cx.raise(Dir::Down, Event::Suspect(asked));
            self.schedule(cx);
        }
    }

    /// The member is alive: told to the detectors below, and to GMS in case it already knows.
    fn clear(&mut self, m: Uuid, cx: &mut Cx<'_>) {
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
        let now = cx.now;
        let due: Vec<Uuid> =
            self.suspects.iter().filter(|(_, s)| s.deadline <= now).map(|(m, _)| *m).collect();
        for m in &due {
            self.suspects.remove(m);
            self.verified += 1;
            let member = *m;
            cx.trace(|| Trace::Suspected { member });
        }
        let again = self.question_interval();
        for (m, s) in &mut self.suspects {
            if s.ask_again <= now {
                s.ask_again = now + again;
                ask(self.config.id, *m, cx);
            }
        }
        if !due.is_empty() {
            cx.raise(Dir::Up, Event::Suspect(due));
        }
        self.schedule(cx);
    }

    fn schedule(&self, cx: &mut Cx<'_>) {
        match self.suspects.values().map(|s| s.deadline.min(s.ask_again)).min() {
            Some(at) => cx.arm(CHECK, at),
            None => cx.disarm(CHECK),
        }
    }

    fn receive(&mut self, src: Uuid, h: &VerifyHeader, cx: &mut Cx<'_>) {
        let Some(from) = h.from.as_ref().and_then(crate::wire::Address::uuid) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        match h.kind {
            VerifyKind::AreYouDead => {
                let me = Some(cx.local().into());
                let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: me };
                cx.send_down(
                    WireMessage::unicast(from, Body::Empty)
                        .with_header(self.config.id, Header::Verify(header)),
                );
            }
            VerifyKind::IAmNotDead if from == src => self.clear(src, cx),
            VerifyKind::IAmNotDead => cx.drop_from_peer(DropReason::Stale, Some(src)),
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
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let (mut mine, id) = (Vec::new(), self.config.id);
        batch.retain(|m| match m.headers.get(id) {
            Some(Header::Verify(h)) => {
                mine.push(h.clone());
                false
            }
            Some(_) => false,
            None => true,
        });
        for h in mine {
            self.receive(src, &h, cx);
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
                    s.deadline = s.deadline.min(cx.now + GATHER);
                    self.schedule(cx);
                }
                return Flow::Stop;
            }
            (Dir::Down, Event::View(v)) => {
                self.suspects.retain(|m, _| v.contains(*m));
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Solo, id, view};
    use alloc::boxed::Box;

    fn member() -> Solo {
        let config = VerifySuspect2Config { timeout: Duration::from_millis(1500), num_msgs: 3 };
        let layer = Box::new(VerifySuspect2::new(config)) as Box<dyn Protocol>;
        let mut s = Solo::new(1, [layer].into());
        s.install(view(1, &[1, 2, 3, 4, 5]));
        s.above.lock().unwrap().clear();
        s.below.lock().unwrap().clear();
        s
    }

    fn alive(m: u64) -> WireMessage {
        let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: Some(id(m).into()) };
        WireMessage::unicast(id(1), Body::Empty)
            .with_header(ProtId::VERIFY_SUSPECT2, Header::Verify(header))
    }

    fn passed(s: &Solo) -> Vec<Vec<Uuid>> {
        let seen = s.above.lock().unwrap();
        seen.iter()
            .filter_map(|(_, e)| match e {
                Event::Suspect(l) => Some(l.clone()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_suspect_that_does_not_answer_is_passed_up_when_its_time_is_over() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.run(Duration::from_millis(1499));
        assert!(passed(&s).is_empty());
        s.run(Duration::from_millis(2));
        assert_eq!(passed(&s), [[id(2)]]);
    }

    #[test]
    fn an_answer_clears_the_suspect_above_and_below() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.run(Duration::from_millis(1400));
        s.arrive(2, alive(2));
        s.run(Duration::from_secs(10));
        assert!(passed(&s).is_empty());
        let below = s.below.lock().unwrap();
        assert!(below.iter().any(|(d, e)| *d == Dir::Down && matches!(e, Event::Unsuspect(_))));
    }

    #[test]
    fn each_suspect_has_its_own_full_time() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2), id(3)].into()));
        s.run(Duration::from_millis(500));
        s.event_up(Event::Suspect([id(4), id(5)].into()));
        s.run(Duration::from_millis(1100));
        assert_eq!(passed(&s), [[id(2), id(3)]]);
        s.run(Duration::from_millis(500));
        assert_eq!(passed(&s), [[id(2), id(3)], [id(4), id(5)]]);
    }

    #[test]
    fn a_suspect_is_asked_more_than_once() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.run(Duration::from_millis(1600));
        assert_eq!(s.sent().len(), 3);
    }

    #[test]
    fn nobody_answers_for_another_identity() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.arrive(9, alive(2));
        s.run(Duration::from_millis(1600));
        assert_eq!(passed(&s), [[id(2)]]);
    }

    #[test]
    fn refused_connections_end_the_wait_early() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.event_up(Event::Refuses(id(2)));
        s.run(Duration::from_millis(50));
        assert_eq!(passed(&s), [[id(2)]]);
    }

    #[test]
    fn the_predecessor_speaks_under_its_own_id() {
        let layer = Box::new(VerifySuspect2::new(VerifySuspectConfig::default()));
        let mut s = Solo::new(1, [layer as Box<dyn Protocol>].into());
        s.install(view(1, &[1, 2, 3]));
        s.event_up(Event::Suspect([id(2)].into()));
        let sent = s.sent();
        assert!(sent[0].headers.get(ProtId::VERIFY_SUSPECT).is_some());
        assert!(sent[0].headers.get(ProtId::VERIFY_SUSPECT2).is_none());
        let header = VerifyHeader { kind: VerifyKind::IAmNotDead, from: Some(id(2).into()) };
        let alive = WireMessage::unicast(id(1), Body::Empty)
            .with_header(ProtId::VERIFY_SUSPECT, Header::Verify(header));
        s.arrive(2, alive);
        s.run(Duration::from_secs(10));
        assert!(passed(&s).is_empty());
    }

    #[test]
    fn the_question_is_answered_to_who_asked() {
        let mut s = member();
        let header = VerifyHeader { kind: VerifyKind::AreYouDead, from: Some(id(3).into()) };
        let m = WireMessage::unicast(id(1), Body::Empty)
            .with_header(ProtId::VERIFY_SUSPECT2, Header::Verify(header));
        s.arrive(3, m);
        let sent = s.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].dest, Some(id(3).into()));
    }

    #[test]
    fn suspicion_of_oneself_and_of_strangers_is_ignored() {
        let mut s = member();
        s.event_up(Event::Suspect([id(1), id(77)].into()));
        s.run(Duration::from_secs(3));
        assert!(passed(&s).is_empty());
        assert!(s.sent().is_empty());
    }

    #[test]
    fn a_view_without_the_suspect_ends_its_verification() {
        let mut s = member();
        s.event_up(Event::Suspect([id(2)].into()));
        s.install(view(2, &[1, 3]));
        s.run(Duration::from_secs(3));
        assert!(passed(&s).is_empty());
    }
}
