//! FD_ALL3: whoever was not heard of for `timeout` is suspected.
//!
//! Every member multicasts a heartbeat per `interval`, unless it multicast something else since the
//! last one; any message counts as a sign of life. A late timer of our own is not a dead peer: silence
//! is measured on the clock that stands still while this process does ([`Cx::awake`]). Only the member
//! that would be coordinator without the suspects reports them. Never sends to one member alone, never
//! excludes anybody itself.

use super::acts_without;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::header::NakAckHeader;
use crate::wire::{Body, Header, Message as WireMessage, ProtId};
use crate::{
    Batch, Cx, Dir, Event, Evidence, Flow, Message, Row, RowFlow, Suspicion, Time, TimerKey, Trace,
    Uuid, attributes,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

attributes! {
    /// Failure detection by heartbeats (JGroups `FD_ALL3`).
    pub struct FdAll3Config for "FD_ALL3" {
        /// A member that was silent for this long is suspected. Default 40 s. Must be larger than
        /// `interval`, and is best a multiple of it: one lost heartbeat must not be enough.
        timeout: Duration = Duration::from_secs(40),
        /// Time between heartbeats. Default 8 s; tcp preset 5 s.
        interval: Duration = Duration::from_secs(8),
    }
}

const TICK: TimerKey = TimerKey(0);

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct FdAll3 {
    config: FdAll3Config,
    /// When each other member of the view was last heard of, by the time that we were awake.
    heard: BTreeMap<Uuid, Time>,
    suspects: BTreeMap<Uuid, Suspicion>,
    multicast_since_tick: bool,
    heartbeats_sent: u64,
    heartbeats_received: u64,
    suspicions: u64,
}

impl FdAll3 {
    /// With these settings.
    #[must_use]
    pub fn new(config: FdAll3Config) -> Self {
        Self {
            config,
            heard: BTreeMap::new(),
            suspects: BTreeMap::new(),
            multicast_since_tick: false,
            heartbeats_sent: 0,
            heartbeats_received: 0,
            suspicions: 0,
        }
    }

    fn alive(&mut self, m: Uuid, cx: &mut Cx<'_>) {
        let Some(heard) = self.heard.get_mut(&m) else { return };
        *heard = cx.awake();
        if !self.suspects.is_empty() && self.suspects.remove(&m).is_some() {
            cx.raise(Dir::Up, Event::Unsuspect([m].into()));
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        if !core::mem::take(&mut self.multicast_since_tick) {
            self.heartbeats_sent += 1;
            let beat =
                WireMessage::multicast(Body::Empty).with_header(ProtId::FD_ALL3, Header::Heartbeat);
            cx.send_down(beat);
        }
        self.check(cx);
        self.schedule(cx);
    }

    fn check(&mut self, cx: &mut Cx<'_>) {
        let by = cx.local();
        for (m, heard) in &self.heard {
            let silent = cx.awake().since(*heard);
            if silent > self.config.timeout && !self.suspects.contains_key(m) {
                self.suspicions += 1;
                let (member, why) = (*m, Evidence::Silence(silent));
                self.suspects.insert(member, Suspicion { member, by, why });
                cx.trace(|| Trace::Accused { member, by, why });
            }
        }
        if !self.suspects.is_empty() && acts_without(cx.group(), &self.suspects) {
            cx.raise(Dir::Up, Event::Suspect(self.suspects.values().copied().collect()));
        }
    }

    fn schedule(&mut self, cx: &mut Cx<'_>) {
        if self.heard.is_empty() {
            cx.disarm(TICK);
        } else {
            cx.arm(TICK, cx.now + self.config.interval);
        }
    }

    /// Records of those who stay are kept; newcomers start as just heard.
    fn adopt_view(&mut self, cx: &mut Cx<'_>) {
        let (now, local) = (cx.awake(), cx.local());
        let members: Vec<Uuid> =
            cx.group().members().iter().copied().filter(|m| *m != local).collect();
        self.heard.retain(|m, _| members.contains(m));
        self.suspects.retain(|m, _| members.contains(m));
        for m in members {
            self.heard.entry(m).or_insert(now);
        }
        if self.heard.is_empty() || cx.armed(TICK).is_none() {
            self.schedule(cx);
        }
    }
}

/// A message that another member sends again, to one or to all, carries its author's address: it
/// says nothing of whether the author lives, nor does it show its author's peers that its sender
/// does.
fn is_resent(m: &Message) -> bool {
    m.headers.iter().any(|(_, h)| matches!(h, Header::NakAck(NakAckHeader::XmitRsp(_))))
}

impl Protocol for FdAll3 {
    fn spec(&self) -> Spec {
        Spec {
            name: "FD_ALL3",
            id: Some(ProtId::FD_ALL3),
            interests: Interests {
                down: Traffic::Multicast,
                up: Traffic::Both,
                events: true,
                patient_timers: true,
                ..Interests::default()
            },
            provides: &[Service::FailureDetection],
            needs_below: &[Service::Transport],
            needs_above: &[Service::Membership],
        }
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        *self = Self::new(self.config.clone());
    }

    fn down(&mut self, msg: &mut Message, _cx: &mut Cx<'_>) -> Flow {
        self.multicast_since_tick |= !is_resent(msg);
        Flow::Pass
    }

    fn row_down(&mut self, _row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        self.multicast_since_tick = true;
        RowFlow::Pass
    }

    fn row_up(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        self.alive(row.src, cx);
        RowFlow::Pass
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        if !batch.messages().iter().all(is_resent) {
            self.alive(batch.src, cx);
        }
        if batch.marks().meets(crate::batch::Marks::of(ProtId::FD_ALL3)) {
            let before = batch.len();
            batch.retain(|m| m.headers.get(ProtId::FD_ALL3).is_none());
            self.heartbeats_received += (before - batch.len()) as u64;
        }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::View(_)) => self.adopt_view(cx),
            (Dir::Down, Event::Unsuspect(list)) => {
                for m in list {
                    self.suspects.remove(m);
                    if let Some(heard) = self.heard.get_mut(m) {
                        *heard = cx.awake();
                    }
                }
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) {
        self.tick(cx);
    }

    fn answer(&self, q: &crate::Query, _group: &crate::Group) -> Option<crate::Answer> {
        match q {
            crate::Query::Suspects => {
                Some(crate::Answer::Suspicions(self.suspects.values().copied().collect()))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("num_heartbeats_sent", self.heartbeats_sent);
        out("num_heartbeats_received", self.heartbeats_received);
        out("num_suspect_events", self.suspicions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Solo, id, view};
    use alloc::boxed::Box;
    use core::time::Duration;

    fn member(me: u64) -> Solo {
        let config =
            FdAll3Config { timeout: Duration::from_secs(4), interval: Duration::from_secs(1) };
        let mut s = Solo::new(me, [Box::new(FdAll3::new(config)) as Box<dyn Protocol>].into());
        s.install(view(1, &[1, 2, 3]));
        s.above.lock().unwrap().clear();
        s
    }

    fn beat() -> WireMessage {
        WireMessage::multicast(Body::Empty).with_header(ProtId::FD_ALL3, Header::Heartbeat)
    }

    fn resent(m: WireMessage) -> WireMessage {
        m.with_header(ProtId::NAKACK2, Header::NakAck(NakAckHeader::XmitRsp(7)))
    }

    fn suspected(s: &Solo) -> Vec<Uuid> {
        let seen = s.above.lock().unwrap();
        let mut all: Vec<Uuid> = seen
            .iter()
            .filter_map(|(_, e)| match e {
                Event::Suspect(l) => Some(l.iter().map(|s| s.member)),
                _ => None,
            })
            .flatten()
            .collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn a_silent_member_is_suspected_after_the_timeout() {
        let mut s = member(1);
        for _ in 0..4 {
            s.run(Duration::from_secs(1));
            s.arrive(2, beat());
        }
        assert_eq!(suspected(&s), []);
        s.run(Duration::from_millis(1100));
        assert_eq!(suspected(&s), [id(3)]);
    }

    #[test]
    fn only_the_member_that_would_be_coordinator_reports() {
        let mut s = member(2);
        for _ in 0..6 {
            s.run(Duration::from_secs(1));
            s.arrive(1, beat());
        }
        assert_eq!(suspected(&s), []);
    }

    #[test]
    fn the_second_member_reports_coordinator_and_others_together() {
        let mut s = member(2);
        s.run(Duration::from_millis(5100));
        let seen = s.above.lock().unwrap();
        let both = seen.iter().any(|(_, e)| matches!(e, Event::Suspect(l) if l.iter().map(|s| s.member).eq([id(1), id(3)])));
        assert!(both, "{seen:?}");
    }

    #[test]
    fn any_message_is_a_sign_of_life_and_clears_suspicion() {
        let mut s = member(1);
        s.run(Duration::from_millis(5100));
        s.arrive(3, WireMessage::unicast(id(1), Body::Empty));
        let seen = s.above.lock().unwrap();
        assert!(seen.iter().any(|(_, e)| matches!(e, Event::Unsuspect(l) if *l == [id(3)])));
    }

    #[test]
    fn a_message_that_another_member_resends_is_no_sign_of_life_of_its_author() {
        let mut s = member(1);
        for _ in 0..6 {
            s.run(Duration::from_secs(1));
            s.arrive(3, resent(WireMessage::unicast(id(1), Body::Empty)));
            s.arrive(3, resent(WireMessage::multicast(Body::Empty)));
            s.arrive(2, beat());
        }
        assert_eq!(suspected(&s), [id(3)]);
    }

    #[test]
    fn a_message_sent_again_for_another_member_takes_the_place_of_no_heartbeat() {
        let mut s = member(1);
        s.run(Duration::from_millis(500));
        s.send(resent(WireMessage::multicast(Body::Empty)), None);
        assert_eq!(s.sent().len(), 1);
        s.run(Duration::from_secs(1));
        assert_eq!(s.sent().len(), 1, "the heartbeat");
    }

    #[test]
    fn a_multicast_takes_the_place_of_a_heartbeat() {
        let mut s = member(1);
        s.send(WireMessage::multicast(Body::bytes(&b"x"[..])), None);
        assert_eq!(s.sent().len(), 1);
        s.run(Duration::from_millis(1500));
        assert_eq!(s.sent().len(), 0);
        s.run(Duration::from_secs(1));
        assert_eq!(s.sent().len(), 1);
    }

    #[test]
    fn a_member_that_slept_itself_accuses_nobody() {
        let mut s = member(1);
        s.now += Duration::from_secs(60);
        s.stack.advance(s.now, false);
        assert_eq!(suspected(&s), []);
        s.run(Duration::from_secs(6));
        assert_eq!(suspected(&s), [id(2), id(3)]);
    }

    #[test]
    fn nothing_is_judged_while_received_input_waits() {
        let mut s = member(1);
        s.now += Duration::from_millis(1000);
        s.stack.advance(s.now, true);
        assert!(s.sent().is_empty(), "the tick waits for the input");
    }

    #[test]
    fn a_view_forgets_leavers_and_starts_newcomers_fresh() {
        let mut s = member(1);
        s.run(Duration::from_millis(3900));
        s.install(view(2, &[1, 2]));
        s.install(view(3, &[1, 2, 3]));
        s.arrive(2, beat());
        s.run(Duration::from_millis(2000));
        assert_eq!(suspected(&s), [], "member 3 was heard when it came back");
    }

    #[test]
    fn a_lone_member_is_quiet() {
        let mut s = member(1);
        s.install(view(2, &[1]));
        s.sent();
        s.run(Duration::from_secs(100));
        assert_eq!(s.sent().len(), 0);
    }
}
