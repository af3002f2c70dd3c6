//! PRIMARY: which part of a split group goes on (not in JGroups).
//!
//! Every view is, to each of its members, the *primary* one, or not, or it does not know. Two members
//! never take different views for primary ones at the same time, whatever the network does to them,
//! and the primary views form one chain: by default each contains more than half of what is left of
//! the one before.
//!
//! The members of a view tell its first one, the *leader*, which views they know to have been primary
//! and which may have become so (dynamic voting: Yeger Lotem, Keidar, Dolev, 1997). If all these
//! allow this one as their successor, everybody agrees to it; when all have, it is primary. That can
//! be lost in a view change, so a member remembers what it agreed to until it knows more.
//!
//! A member that is cut off must say so before others go on without it. So everybody trusts its view
//! for a time (`lease`) after it was last in contact with enough members, and the leader of a view
//! that excludes others waits so long before it calls it primary. Members that leave say that they
//! trust nothing any more; nobody waits for those.
//!
//! [`rules`] has the policies, [`record`] what is remembered, [`leading`] and [`following`] the two
//! halves, [`payload`] the messages. Members without this protocol have no vote.

mod following;
mod leading;
mod payload;
mod record;
mod rules;
#[cfg(test)]
mod tests;

use self::following::Following;
use self::leading::{Leading, whole_millis};
use self::payload::{PrimaryPayload, Said, Stage};
use self::record::{Epoch, Record};
use self::rules::Rules;
pub use self::rules::{Minority, PrimaryPolicy};
use crate::wire::ProtId;
use crate::{
    Answer, AppEvent, Batch, Cx, Dir, DropReason, Event, Flow, Group, GroupChange, Interests,
    Primacy, PrimaryClaim, Protocol, Query, Service, Spec, Time, TimerKey, Trace, Uuid, View, tag,
};
use alloc::vec::Vec;
use core::time::Duration;

crate::attributes! {
    /// Which part of a split group goes on, and what becomes of the others (not in JGroups).
    pub struct PrimaryConfig for "PRIMARY" {
        /// Which part of a split group is the primary one: `keep_majority` (default), `static_quorum`
        /// or `keep_oldest`. All members must have the same.
        policy: PrimaryPolicy = PrimaryPolicy::KeepMajority,
        /// With `static_quorum`: how many members make a view primary. With the others: how many the
        /// first primary view must have. More than half of all members that are ever started; must be
        /// set, and be the same at all members.
        quorum: u32 = 0,
        /// How long a member trusts its view without contact to enough others, and how long a view
        /// that excludes others waits before it is primary. Default 3 s.
        lease: Duration = Duration::from_secs(3),
        /// What a member does that is not in the primary part: `report` it (default), `refuse` to
        /// send, or `leave` the group.
        minority: Minority = Minority::Report,
    }
}

const BEAT: TimerKey = TimerKey(0);
const LAPSE: TimerKey = TimerKey(1);

/// Beats per lease.
const BEATS: u32 = 5;

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Primary {
    config: PrimaryConfig,
    record: Record,
    /// How far this member has come in the installed view.
    stage: Stage,
    trusted_until: Option<Time>,
    leading: Option<Leading>,
    following: Option<Following>,
    /// This member has said that it leaves.
    resigned: bool,
    view: Option<Epoch>,
    /// What was last made known.
    published: Option<Primacy>,
    /// What was last stated as a fact.
    stated: Option<PrimaryClaim>,
    formed: u64,
    lapsed: u64,
    rules_differ: u64,
}

impl Primary {
    /// With these settings.
    #[must_use]
    pub fn new(config: PrimaryConfig) -> Self {
        Self {
            config,
            record: Record::default(),
            stage: Stage::Asked,
            trusted_until: None,
            leading: None,
            following: None,
            resigned: false,
            view: None,
            published: None,
            stated: None,
            formed: 0,
            lapsed: 0,
            rules_differ: 0,
        }
    }

    fn rules(&self) -> Rules {
        Rules { policy: self.config.policy, quorum: self.config.quorum }
    }

    fn interval(&self) -> Duration {
        self.config.lease / BEATS
    }

    /// A view is installed: whatever was said about the last one is over.
    fn install(&mut self, view: &View, cx: &mut Cx<'_>) {
        let voters: Vec<Uuid> = view.members.iter().copied().filter(|m| tag::votes(*m)).collect();
        let local = cx.local();
        let epoch = Epoch { id: view.id, lease: whole_millis(self.config.lease), voters };
        self.stage = Stage::Asked;
        self.trusted_until = None;
        self.leading = None;
        self.following = None;
        self.view = Some(epoch.clone());
        cx.disarm(BEAT);
        self.publish(cx);
        match epoch.voters.first() {
            // The others do not wait for us any more: we may trust nothing, and lead nobody to.
            _ if self.resigned => {}
            Some(leader) if *leader == local => {
                self.leading = Some(Leading::new(epoch, local));
                self.beat(cx);
            }
            Some(leader) => self.following = Some(Following::new(*leader, epoch)),
            None => {}
        }
    }

    /// Contact with enough members: the view may be trusted until then.
    fn trust_until(&mut self, until: Time, cx: &mut Cx<'_>) {
        self.trusted_until = self.trusted_until.max(Some(until));
        self.publish(cx);
    }

    fn claim(&self) -> PrimaryClaim {
        let minority = self.config.minority;
        let (primacy, until) = match (self.stage, self.trusted_until) {
            (Stage::Formed, Some(until)) => (Primacy::Yes, until),
            (Stage::Refused, _) => (Primacy::No, Time::ZERO),
            (Stage::Formed, None) | (Stage::Asked | Stage::Agreed, _) => {
                (Primacy::Unknown, Time::ZERO)
            }
        };
        PrimaryClaim { primacy, until, minority }
    }

    /// States what is new in the claim.
    fn state(&mut self, claim: PrimaryClaim, cx: &mut Cx<'_>) {
        let primacy = claim.at(cx.now);
        let Some(view) = self.view.as_ref().map(|e| e.id) else { return };
        if self.published == Some(primacy) && self.stated == Some(claim) {
            return;
        }
        self.stated = Some(claim);
        let lasts = claim.until.since(cx.now);
        cx.trace(|| Trace::Primary { view, primacy, lasts });
    }

    /// The installed view has become the primary one.
    fn form(&mut self, epoch: Epoch, cx: &mut Cx<'_>) {
        let view = epoch.id;
        self.record.form(epoch);
        self.stage = Stage::Formed;
        self.formed += 1;
        cx.trace(|| Trace::PrimaryFormed { view });
    }

    /// Makes known what this member says of its view now.
    fn publish(&mut self, cx: &mut Cx<'_>) {
        let claim = self.claim();
        cx.change(GroupChange::Primary(claim));
        let primacy = claim.at(cx.now);
        self.state(claim, cx);
        match primacy {
            Primacy::Yes => cx.arm(LAPSE, claim.until),
            Primacy::No | Primacy::Unknown => cx.disarm(LAPSE),
        }
        let (Some(epoch), true) = (&self.view, self.published != Some(primacy)) else { return };
        let view = epoch.id;
        self.published = Some(primacy);
        cx.tell(AppEvent::Primary { view, primacy });
        cx.raise(Dir::Up, Event::Primary(primacy));
    }

    fn receive(&mut self, src: Uuid, payload: PrimaryPayload, cx: &mut Cx<'_>) {
        let PrimaryPayload { view, said } = payload;
        match said {
            Said::Beat(beat) => self.receive_beat(src, view, beat, cx),
            Said::Answer(answer) if self.view.as_ref().is_some_and(|e| e.id == view) => {
                self.receive_answer(src, answer, cx);
            }
            Said::Answer(_) => {}
            Said::Resign => self.note_resignation(src),
        }
    }

    fn note_resignation(&mut self, of: Uuid) {
        self.record.resigned.insert(of);
        self.record.keep_resigned_of(self.view.as_ref());
    }

    /// This member leaves: from now on it says nothing of any view, and the others need not wait
    /// for it.
    fn resign(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.resigned, true) {
            return;
        }
        if let Some(epoch) = &self.view {
            let local = cx.local();
            for m in epoch.voters.iter().filter(|m| **m != local) {
                cx.send_down(PrimaryPayload { view: epoch.id, said: Said::Resign }.message(*m));
            }
        }
        self.close(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        (self.leading, self.following) = (None, None);
        (self.stage, self.trusted_until) = (Stage::Asked, None);
        cx.disarm(BEAT);
        self.publish(cx);
        self.view = None;
    }

    fn awaited(&self) -> Vec<Uuid> {
        match (&self.leading, &self.following) {
            (Some(lead), _) => lead.awaited(),
            (None, Some(f)) => [f.leader].into(),
            (None, None) => Vec::new(),
        }
    }
}

impl Protocol for Primary {
    fn spec(&self) -> Spec {
        Spec {
            name: "PRIMARY",
            id: None,
            interests: Interests {
                up_with: Some(ProtId::RSVP),
                events: true,
                ..Interests::default()
            },
            provides: &[Service::PrimaryViews],
            needs_below: &[Service::Membership],
            needs_above: &[],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        cx.change(GroupChange::Primary(self.claim()));
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        batch.retain(|m| match PrimaryPayload::read(m) {
            None => true,
            Some(Ok(payload)) if !m.is_multicast() => {
                self.receive(src, payload, cx);
                false
            }
            Some(Ok(_) | Err(_)) => {
                cx.drop_from_peer(DropReason::Malformed, Some(src));
                false
            }
        });
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Up, Event::View(view)) => self.install(view, cx),
            (Dir::Down, Event::Connect) => self.resigned = false,
            (Dir::Down, Event::Disconnect) => self.resign(cx),
            // It has resigned before it asked to leave.
            (Dir::Up, Event::Leaves(member)) => self.note_resignation(*member),
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            BEAT => self.beat(cx),
            _ => {
                self.lapsed += 1;
                self.publish(cx);
            }
        }
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::PrimaryAwaits => Some(Answer::Members(self.awaited())),
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out(
            "primary",
            match self.published {
                Some(Primacy::Yes) => 1,
                Some(Primacy::No | Primacy::Unknown) | None => 0,
            },
        );
        out("primary_view_id", self.record.formed.as_ref().map_or(0, |e| e.id.id));
        out("open_attempts", self.record.attempts.len() as u64);
        out("views_formed", self.formed);
        out("trust_lapsed", self.lapsed);
        out("rules_differ", self.rules_differ);
        out("awaited_members", self.awaited().len() as u64);
    }
}
