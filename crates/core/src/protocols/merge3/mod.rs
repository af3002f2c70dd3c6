//! MERGE3: finds out that the group is split.
//!
//! Every member says at random times which view it has, to whoever can hear it: by multicast, or, on
//! transports without, to everybody that discovery finds. When different views are about, the views
//! themselves are fetched and handed to GMS, where the lowest coordinator starts a merge.
//!
//! JGroups waits for its regular check, up to 48 s with the presets. Here a view that differs is
//! answered with our own at once (at most one a second), and the member that would lead the merge
//! looks into it after a second; another coordinator does so after five, should that member be gone. A
//! coordinator that hears a multicast of a stranger announces its view too, so that a healed network
//! shows with the first heartbeat, and it goes on telling members that were lost ([`recall`]). Never
//! changes a view, never keeps an outdated report: all are forgotten at each check and at each view.

mod recall;
#[cfg(test)]
mod tests;

use self::recall::Recall;
use crate::batch::Marks;
use crate::event::Found;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::header::Merge3Header;
use crate::wire::{self, Address, Body, Decode, Encode, Header, Hints, ProtId, Reader, Writer};
use crate::{
    Batch, Cx, Dir, DropReason, Event, Flow, Message, Purpose, Row, RowFlow, Time, TimerKey, Uuid,
    View, ViewId, attributes,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::BytesMut;
use core::net::SocketAddr;
use core::time::Duration;

attributes! {
    /// Finds partitions of the group that can reach each other again (JGroups `MERGE3`).
    pub struct Merge3Config for "MERGE3" {
        /// The own view is announced no more often than this. Default 1 s; the presets use 10 s.
        min_interval: Duration = Duration::from_secs(1),
        /// The own view is announced after 0.5 to 1.5 times this, at random. Default 10 s; the
        /// presets use 30 s. Also sets how often all reports are compared, see `check_interval`.
        max_interval: Duration = Duration::from_secs(10),
        /// How often reports are compared. Default 0: 1.6 times `max_interval`.
        check_interval: Duration = Duration::ZERO,
        /// At most this many members are asked for their views at once. Default 100.
        max_participants_in_merge: u32 = 100,
        /// Whether the transport has real multicast. Set by the preset; if not, members are found
        /// by discovery and told one by one. Default true.
        multicast: bool = true,
    }
}

const ANNOUNCE: TimerKey = TimerKey(0);
const CHECK: TimerKey = TimerKey(1);
const EARLY: TimerKey = TimerKey(2);
const REPORTS: TimerKey = TimerKey(3);
const RECALL: TimerKey = TimerKey(4);

/// A differing view is answered at most this often.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);
/// How long the leader to be waits before it looks into a difference: views that are being
/// installed differ for a moment.
const EARLY_CHECK: Duration = Duration::from_secs(1);
/// How long another coordinator waits for that one to do so.
const LATER_CHECK: Duration = Duration::from_secs(5);
/// The longest wait for the views that were asked for.
const REPORT_WAIT: Duration = Duration::from_secs(2);
/// The wait for those who are asked because several views name them. Short: most of the views have
/// answered at once, and who is silent may be dead.
const SECOND_WAIT: Duration = Duration::from_millis(500);
/// How many members' reports are kept.
const MAX_REPORTS: usize = 4096;

/// The views that were asked for.
#[derive(Debug)]
struct Asking {
    awaited: BTreeSet<Uuid>,
    asked: BTreeSet<Uuid>,
    views: BTreeMap<Uuid, View>,
    /// Which view each member announced before.
    announced: BTreeMap<Uuid, ViewId>,
}

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Merge3 {
    config: Merge3Config,
    /// Which view each member said it has, since the last check.
    reports: BTreeMap<Uuid, ViewId>,
    asking: Option<Asking>,
    answered_at: Option<Time>,
    /// The installed view.
    view: Option<Arc<View>>,
    recall: Recall,
    announced: u64,
    received: u64,
    merges: u64,
}

impl Merge3 {
    /// With these settings.
    #[must_use]
    pub fn new(config: Merge3Config) -> Self {
        Self {
            config,
            reports: BTreeMap::new(),
            asking: None,
            answered_at: None,
            view: None,
            recall: Recall::default(),
            announced: 0,
            received: 0,
            merges: 0,
        }
    }

    fn check_interval(&self) -> Duration {
        match self.config.check_interval {
            Duration::ZERO => self.config.max_interval * 8 / 5,
            given => given,
        }
    }

    fn arm_announcement(&self, cx: &mut Cx<'_>) {
        let max = self.config.max_interval;
        let wait = cx.rng().duration(max / 2, max * 3 / 2).max(self.config.min_interval);
        cx.arm(ANNOUNCE, cx.now + wait);
    }

    /// Says which view we have, to everybody who can hear it.
    fn announce(&mut self, cx: &mut Cx<'_>) {
        if cx.group().view.is_none() {
            return;
        }
        if self.config.multicast {
            self.announced += 1;
            let mut m = message(None, own_info(cx), Body::Empty);
            m.hints |= Hints::DONT_LOOPBACK;
            cx.send_down(m);
        } else {
            cx.raise(Dir::Down, Event::FindMembers { purpose: Purpose::Merge, wanted: None });
        }
    }

    /// Says it to those that discovery found, where they are.
    fn announce_to(&mut self, found: &[Found], cx: &mut Cx<'_>) {
        if cx.group().view.is_none() {
            return;
        }
        let local = (cx.local(), cx.group().physical);
        for f in found {
            match f.physical {
                Some(at) if f.member != local.0 && at != local.1 => self.tell(at, cx),
                Some(_) | None => {}
            }
        }
    }

    fn tell(&mut self, at: SocketAddr, cx: &mut Cx<'_>) {
        self.announced += 1;
        cx.send_down(message(Some(at.into()), own_info(cx), Body::Empty));
    }

    fn receive(&mut self, src: Uuid, h: Merge3Header, body: &Body, cx: &mut Cx<'_>) {
        match h {
            Merge3Header::Info { view, name, physical } => {
                self.received += 1;
                let at = physical.and_then(|a| a.socket_addr());
                cx.learn(src, name.map(Into::into), at);
                cx.raise(Dir::Down, Event::AddressLearned(src));
                match view.as_ref().and_then(ViewId::from_wire) {
                    Some(id) => self.receive_report(src, id, at, cx),
                    None => cx.drop_from_peer(DropReason::Malformed, Some(src)),
                }
            }
            Merge3Header::ViewRequest => {
                if let Some(view) = cx.group().view.clone() {
                    let dest = Some(src.into());
                    cx.send_down(message(dest, Merge3Header::ViewResponse, body_of(&view)));
                }
            }
            Merge3Header::ViewResponse => self.receive_view(src, body, cx),
        }
    }

    fn may_answer(&mut self, now: Time) -> bool {
        let may = self.answered_at.is_none_or(|last| now.since(last) >= ANSWER_INTERVAL);
        if may {
            self.answered_at = Some(now);
        }
        may
    }

    fn receive_report(&mut self, src: Uuid, id: ViewId, at: Option<SocketAddr>, cx: &mut Cx<'_>) {
        let Some(own) = cx.group().view.clone() else { return };
        if self.reports.len() < MAX_REPORTS || self.reports.contains_key(&src) {
            self.reports.insert(src, id);
        }
        if id == own.id {
            return;
        }
        if id.id > own.id.id && own.contains(src) {
            cx.raise(Dir::Up, Event::NewerView(src));
        }
        if self.may_answer(cx.now) {
            match at {
                Some(at) if !self.config.multicast => self.tell(at, cx),
                Some(_) | None => self.announce(cx),
            }
        }
        let local = cx.local();
        if own.coordinator() != local {
            return;
        }
        // Who made the other view is no rival if it is in ours: that view is outdated.
        let leads = local < id.creator || own.contains(id.creator) || own.contains(src);
        let at = cx.now + if leads { EARLY_CHECK } else { LATER_CHECK };
        if cx.armed(EARLY).is_none_or(|armed| at < armed) {
            cx.arm(EARLY, at);
        }
    }

    /// Compares what was reported; different views are asked for.
    fn check(&mut self, cx: &mut Cx<'_>) {
        let Some(own) = cx.group().view.clone() else { return };
        let local = cx.local();
        let mut by_view: BTreeMap<ViewId, Uuid> = BTreeMap::new();
        let announced = core::mem::take(&mut self.reports);
        for (m, id) in &announced {
            by_view.entry(*id).or_insert(*m);
        }
        by_view.entry(own.id).or_insert(local);
        if by_view.len() < 2 || self.asking.is_some() {
            return;
        }
        // The creators may be gone, and the reporters may be no coordinators: both are asked.
        let both = by_view.iter().flat_map(|(id, m)| [id.creator, *m]).filter(|m| *m != local);
        let limit = self.config.max_participants_in_merge as usize;
        let awaited: BTreeSet<Uuid> =
            both.collect::<BTreeSet<_>>().into_iter().take(limit).collect();
        for m in &awaited {
            cx.send_down(message(Some((*m).into()), Merge3Header::ViewRequest, Body::Empty));
        }
        let views = [(local, View::clone(&own))].into_iter().collect();
        let asked = awaited.clone();
        self.asking = Some(Asking { awaited, asked, views, announced });
        cx.arm(REPORTS, cx.now + (self.check_interval() / 10).min(REPORT_WAIT));
    }

    fn receive_view(&mut self, src: Uuid, body: &Body, cx: &mut Cx<'_>) {
        let Some(asking) = self.asking.as_mut().filter(|a| a.awaited.contains(&src)) else {
            return cx.drop_from_peer(DropReason::Stale, Some(src));
        };
        let Some(view) = read_view(body) else {
            return cx.drop_from_peer(DropReason::Malformed, Some(src));
        };
        asking.awaited.remove(&src);
        asking.views.insert(src, view);
        if asking.awaited.is_empty() {
            self.ask_those_in_several_views(cx);
        }
    }

    /// Members that several of the views name know themselves where they are: whoever was put into
    /// the wrong part of the group would jump over messages that it could still get.
    fn ask_those_in_several_views(&mut self, cx: &mut Cx<'_>) {
        let limit = self.config.max_participants_in_merge as usize;
        let Some(asking) = self.asking.as_mut() else { return };
        let views: BTreeMap<ViewId, &View> = asking.views.values().map(|v| (v.id, v)).collect();
        let mut named: BTreeMap<Uuid, usize> = BTreeMap::new();
        for m in views.values().flat_map(|v| v.members.iter()) {
            *named.entry(*m).or_default() += 1;
        }
        let several = named.into_iter().filter(|(_, times)| *times > 1).map(|(m, _)| m);
        let unknown: BTreeSet<Uuid> = several
            .filter(|m| !asking.views.contains_key(m) && !asking.asked.contains(m))
            .take(limit)
            .collect();
        if unknown.is_empty() {
            return self.report(cx);
        }
        asking.asked.extend(&unknown);
        asking.awaited.clone_from(&unknown);
        for m in unknown {
            cx.send_down(message(Some(m.into()), Merge3Header::ViewRequest, Body::Empty));
        }
        cx.arm(REPORTS, cx.now + SECOND_WAIT);
    }

    /// Hands different views to GMS.
    fn report(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(REPORTS);
        let Some(asking) = self.asking.take() else { return };
        let ids: BTreeSet<ViewId> = asking.views.values().map(|v| v.id).collect();
        if ids.len() > 1 {
            self.merges += 1;
            let others =
                asking.announced.into_iter().filter(|(m, _)| !asking.views.contains_key(m));
            let announced = others.collect();
            let views = asking.views.into_iter().collect();
            cx.raise(Dir::Up, Event::MergeViews { views, announced });
        }
    }

    /// A view is being installed: what was reported before it means nothing any more.
    fn view_installed(&mut self, view: &Arc<View>, cx: &mut Cx<'_>) {
        let previous = self.view.replace(Arc::clone(view));
        self.recall.view(previous.as_deref(), view, cx.now);
        self.look_again(cx);
        self.reports.clear();
        self.asking = None;
        cx.disarm(REPORTS);
        cx.disarm(EARLY);
        if cx.armed(ANNOUNCE).is_none() {
            self.arm_announcement(cx);
            cx.arm(CHECK, cx.now + self.check_interval());
        }
    }
}

impl Merge3 {
    /// Tells members that were lost which view we have.
    fn recall(&mut self, cx: &mut Cx<'_>) {
        if self.config.multicast {
            self.announce(cx);
        } else {
            for m in self.recall.next() {
                if let Some(at) = cx.group().addresses.physical(m) {
                    self.tell(at, cx);
                }
            }
        }
        self.look_again(cx);
    }

    fn look_again(&mut self, cx: &mut Cx<'_>) {
        let first = self.view.as_ref().is_some_and(|v| v.coordinator() == cx.local());
        if first && self.recall.is_looking(cx.now) {
            let at = Recall::again(cx);
            cx.arm(RECALL, at);
        } else {
            cx.disarm(RECALL);
        }
    }

    /// Takes the messages of MERGE3 out of a batch.
    fn take_own(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let mut taken: Vec<(Merge3Header, Body)> = Vec::new();
        batch.retain(|m| match m.headers.remove(ProtId::MERGE3) {
            Some(Header::Merge3(h)) => {
                taken.push((*h, core::mem::take(&mut m.body)));
                false
            }
            Some(_) => false,
            None => true,
        });
        if src == cx.local() {
            return;
        }
        for (h, body) in taken {
            self.receive(src, h, &body, cx);
        }
    }
}

fn message(dest: Option<Address>, header: Merge3Header, body: Body) -> Message {
    let m = wire::Message { dest, body, ..wire::Message::default() };
    m.with_header(ProtId::MERGE3, Header::Merge3(header.into())).into()
}

fn own_info(cx: &Cx<'_>) -> Merge3Header {
    let g = cx.group();
    Merge3Header::Info {
        view: g.view.as_deref().map(|v| v.id.to_wire()),
        name: Some(g.name.to_string()),
        physical: Some(g.physical.into()),
    }
}

/// A view as VIEW_RSP carries it: a presence byte and the plain view.
fn body_of(view: &View) -> Body {
    let mut b = BytesMut::new();
    b.bool(true);
    let plain = wire::View { subgroups: None, ..view.to_wire() };
    plain.encode(&mut b);
    Body::bytes(b.freeze())
}

/// Reads a VIEW_RSP; a merged view may be followed by its subgroups, which do not matter here.
fn read_view(body: &Body) -> Option<View> {
    let mut r = Reader::new(body.as_bytes()?.clone());
    if !r.bool("view").ok()? {
        return None;
    }
    View::from_wire(&wire::View::decode(&mut r).ok()?)
}

impl Protocol for Merge3 {
    fn spec(&self) -> Spec {
        Spec {
            name: "MERGE3",
            id: Some(ProtId::MERGE3),
            interests: Interests { up: Traffic::Multicast, events: true, ..Interests::default() },
            provides: &[Service::MergeDetection],
            needs_below: &[Service::Discovery],
            needs_above: &[Service::Membership],
        }
    }

    fn start(&mut self, _cx: &mut Cx<'_>) {
        *self = Merge3::new(self.config.clone());
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        for key in [ANNOUNCE, CHECK, EARLY, REPORTS, RECALL] {
            cx.disarm(key);
        }
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        if batch.marks().meets(Marks::of(ProtId::MERGE3)) {
            self.take_own(batch, cx);
        }
        let stranger = batch.multicast && !batch.is_empty() && !cx.is_member(src);
        if stranger && cx.group().is_coordinator() && self.may_answer(cx.now) {
            self.announce(cx);
        }
    }

    fn row_up(&mut self, row: &mut Row, cx: &mut Cx<'_>) -> RowFlow {
        if cx.is_member(row.src) { RowFlow::Pass } else { RowFlow::Apart }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::View(v)) => self.view_installed(v, cx),
            (Dir::Down, Event::Leaves(member)) => self.recall.leaves(*member),
            (Dir::Down, Event::AnnounceView) => {
                self.announce(cx);
                return Flow::Stop;
            }
            (Dir::Up, Event::Found { purpose: Purpose::Merge, members }) => {
                self.announce_to(members, cx);
                return Flow::Stop;
            }
            _ => {}
        }
        Flow::Pass
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            ANNOUNCE => {
                self.announce(cx);
                self.arm_announcement(cx);
            }
            CHECK => {
                self.check(cx);
                cx.arm(CHECK, cx.now + self.check_interval());
            }
            EARLY => self.check(cx),
            RECALL => self.recall(cx),
            // REPORTS: whoever has not answered by now is not asked again before the next check.
            _ => self.ask_those_in_several_views(cx),
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        out("views", self.reports.values().collect::<BTreeSet<_>>().len() as u64);
        out("num_infos_sent", self.announced);
        out("num_infos_received", self.received);
        out("num_merge_events", self.merges);
    }
}
