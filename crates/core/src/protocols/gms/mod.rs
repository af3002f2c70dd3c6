//! GMS: group membership. Joins, lets in, excludes whom failure detection suspects, leaves, merges.
//!
//! There is no election: the first member of the view that stays is the coordinator, and everybody
//! computes that from the same view. The coordinator turns all requests that wait into one view,
//! installs it, multicasts it and collects acknowledgements before it makes the next one. A member
//! takes a view by its number alone, and only if it is in it. Wrong or late messages of peers are
//! dropped and counted; what a peer does not answer ends by time.
//!
//! One file per concern: [`batches`], [`joining`] (the client, with
//! [`join_history`]), [`coordinator`] (requests, views,
//! acknowledgements), [`member`] (views received and installed), [`last_merge`] (for those who missed it), [`leaving`], [`merging`] (with
//! [`merge_plan`] and [`subgroup`]), [`requests`], [`holding`] (unicasts that come too early),
//! [`pending`] (views that wait for tail repair), [`synchrony`] (views that are installed by all
//! together), [`payload`] (messages).

mod batches;
mod coordinator;
mod curiosity;
mod holding;
mod join_history;
mod joining;
mod last_merge;
mod leaving;
mod member;
mod merge_plan;
mod merging;
mod payload;
mod pending;
mod requests;
mod subgroup;
mod succession;
mod synchrony;
#[cfg(test)]
mod tests;

use self::batches::{drop_multicasts, is_of_another_site};
use self::coordinator::AckRound;
use self::curiosity::Curiosity;
pub(crate) use self::holding::cost as holding_cost;
use self::holding::{Held, Limits};
use self::join_history::JoinHistory;
use self::last_merge::LastMerge;
use self::leaving::Leave;
use self::merging::Merging;
use self::pending::Pending;
use self::requests::Requests;
use crate::attributes::ByteSize;
use crate::batch::Marks;
use crate::protocol::{Interests, Protocol, Service, Spec, Traffic};
use crate::wire::ProtId;
use crate::wire::header::{GmsHeader, GmsKind};
use crate::{
    Answer, AppEvent, Batch, Cx, Digest, Dir, DropReason, Event, Flow, Group, GroupChange, Message,
    Purpose, Query, Row, RowFlow, Suspicion, Time, TimerKey, Trace, Uuid, View, attributes,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

attributes! {
    /// Membership: joins, leaves, views and merges (JGroups `GMS`).
    pub struct GmsConfig for "GMS" {
        /// How long a coordinator may take to answer a request to join. Default 2 s; the udp preset
        /// uses 1 s.
        join_timeout: Duration = Duration::from_secs(2),
        /// How long a leaving member waits to be let go. Default 1 s.
        leave_timeout: Duration = Duration::from_secs(1),
        /// How long the leader of a merge waits for the subgroups; they wait half as long for their
        /// members, and a merge that takes twice as long is given up. Default 5 s.
        merge_timeout: Duration = Duration::from_secs(5),
        /// How long the coordinator waits for the members to acknowledge a view before it goes on.
        /// Default 2 s.
        view_ack_collection_timeout: Duration = Duration::from_secs(2),
        /// After this many unanswered requests to join a member forms a group of its own, to be
        /// merged later; 0: never. Where a coordinator answers discovery itself, the join fails
        /// instead, after 30 s at the earliest. Default 10. A coordinator that only others call one
        /// is asked twice.
        max_join_attempts: u32 = 10,
        /// How long to look for a group that lets this member in before the join fails, where it is
        /// not to form one of its own. Default 0: it forms one when it finds none.
        must_join_timeout: Duration = Duration::ZERO,
        /// How long to wait before looking again when only other joiners were found. Default 100 ms.
        all_clients_retry_timeout: Duration = Duration::from_millis(100),
        /// How long the coordinator waits for more requests to put into the same view. Default 0:
        /// what arrives in one turn, or while a view is being acknowledged, goes together anyway.
        max_bundling_time: Duration = Duration::ZERO,
        /// Whether views are announced as the difference to the last one. Default true.
        use_delta_views: bool = true,
        /// How often an unanswered request to leave is repeated. Default 200 ms. Less than
        /// `leave_timeout`: the answer is not reliable.
        leave_retry_interval: Duration = Duration::from_millis(200),
        /// Whether members that install the same two views one after the other deliver the same
        /// between them, of every sender; see docs/view-synchrony.md. In force where all members of
        /// the new view want it. Needs NAKACK2. Default false. Not in JGroups, which has FLUSH until
        /// version 4.
        view_synchrony: bool = false,
        /// How long a silent member may hold up a synchronous change of the view before it is
        /// suspected; after three times as long the view is installed without agreement. Default 5 s.
        view_synchrony_timeout: Duration = Duration::from_secs(5),
        /// How much may wait of one sender that is not in the view yet. Default 4M.
        max_held_bytes: ByteSize = ByteSize(4_000_000),
        /// How much may wait of all such senders. Default 16M.
        max_held_bytes_total: ByteSize = ByteSize(16_000_000),
    }
}

/// What this member is doing. Which of [`Role::Member`] and [`Role::Coordinator`] it is follows from
/// the installed view.
#[derive(Debug)]
enum Role {
    /// Not connected.
    Idle,
    /// Discovery is running. This and the next two end by the timer [`JOIN`] at the latest.
    Discovering,
    /// Only other joiners were found; discovery starts again soon.
    Pausing,
    /// `coordinator` was asked to let us in.
    Joining { coordinator: Uuid },
    /// In a view that somebody else leads.
    Member,
    /// First in the view.
    Coordinator,
    /// Asked to be let go.
    Leaving(Leave),
    /// Gone.
    Left,
}

const JOIN: TimerKey = TimerKey(0);
const ACKS: TimerKey = TimerKey(1);
const LEAVE: TimerKey = TimerKey(2);
const BUNDLE: TimerKey = TimerKey(3);
const MERGE: TimerKey = TimerKey(4);
const HELD: TimerKey = TimerKey(5);
const CURIOUS: TimerKey = TimerKey(6);

/// The protocol. See the module documentation.
#[derive(Debug)]
pub struct Gms {
    config: GmsConfig,
    role: Role,
    /// The installed view; what `Group::view` shows once this layer has returned.
    view: Option<Arc<View>>,
    /// A newer one, accepted, that waits for tail repair.
    pending: Option<Pending>,
    join: JoinHistory,
    requests: Requests,
    /// The merged view that was accepted last, for those who have missed it.
    last_merge: Option<LastMerge>,
    /// Acknowledgements of the view that this member announced last.
    acks: Option<AckRound>,
    /// As coordinator: the digests that joiners were given, until they acknowledge a view.
    welcomes: BTreeMap<Uuid, Digest>,
    /// With view synchrony: where the installed view began, for those who join late.
    start: Option<Digest>,
    /// Joiners of a view of ours that waits: they are answered when it is installed.
    unanswered: BTreeSet<Uuid>,
    /// Suspects for nothing but that they hold up the view that waits.
    silent: BTreeSet<Uuid>,
    /// How many acknowledgements of earlier views members still owe.
    acks_owed: BTreeMap<Uuid, u32>,
    merging: Option<Merging>,
    merge_counter: i32,
    /// Until when a merge that this member was asked to contribute to may end.
    merge_expected_until: Time,
    held: Held,
    /// Members that a view excluded and no later one contains.
    excluded: BTreeSet<Uuid>,
    /// The highest view number heard of.
    highest_id: u64,
    /// As coordinator: whether the members know a view of ours that a difference can refer to.
    full_view_sent: bool,
    /// When the whole view was last asked for.
    view_asked_at: Option<Time>,
    /// Whether there may be a newer view than ours.
    curiosity: Curiosity,
    /// Within this view the announcement was repeated to members that had missed it.
    repaired: bool,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    views: u64,
    join_attempts: u64,
    merges_started: u64,
    merges_installed: u64,
    held_dropped: u64,
    views_refused: u64,
    not_synchronous: u64,
    /// How often this member was let go without having asked.
    let_go: u64,
    /// Digests that joiners were sent.
    join_digests: u64,
    /// Digests that merges took, of every kind.
    merge_digests: u64,
}

/// How many excluded members are remembered.
const MAX_EXCLUDED: usize = 1024;

impl Gms {
    /// With these settings.
    #[must_use]
    pub fn new(config: GmsConfig) -> Self {
        let limits =
            Limits { per_sender: config.max_held_bytes.0, total: config.max_held_bytes_total.0 };
        Self {
            config,
            role: Role::Idle,
            view: None,
            pending: None,
            join: JoinHistory::default(),
            requests: Requests::default(),
            last_merge: None,
            acks: None,
            acks_owed: BTreeMap::new(),
            merging: None,
            merge_counter: 0,
            merge_expected_until: Time::ZERO,
            held: Held::new(limits),
            excluded: BTreeSet::new(),
            welcomes: BTreeMap::new(),
            start: None,
            unanswered: BTreeSet::new(),
            silent: BTreeSet::new(),
            highest_id: 0,
            full_view_sent: false,
            view_asked_at: None,
            curiosity: Curiosity::default(),
            repaired: false,
            counters: Counters::default(),
        }
    }

    fn enter(&mut self, role: Role, cx: &mut Cx<'_>) {
        let state = match &role {
            Role::Idle => "idle",
            Role::Discovering => "discovering",
            Role::Pausing => "waiting for other joiners",
            Role::Joining { .. } => "joining",
            Role::Member => "member",
            Role::Coordinator => "coordinator",
            Role::Leaving(_) => "leaving",
            Role::Left => "left",
        };
        if core::mem::discriminant(&role) != core::mem::discriminant(&self.role) {
            cx.trace(|| Trace::Membership { state });
        }
        self.role = role;
    }

    /// Whether this member takes part in the group: in a view and not leaving.
    fn in_group(&self) -> bool {
        matches!(self.role, Role::Member | Role::Coordinator)
    }

    fn is_member(&self, m: Uuid) -> bool {
        self.view.as_deref().is_some_and(|v| v.contains(m))
    }

    /// Forgets everything about the group, before a join and after a leave, but not which of them
    /// it is.
    fn reset(&mut self, cx: &mut Cx<'_>) {
        for key in [JOIN, ACKS, LEAVE, BUNDLE, MERGE, HELD, CURIOUS] {
            cx.disarm(key);
        }
        let config = self.config.clone();
        let counters = core::mem::take(&mut self.counters);
        let role = core::mem::replace(&mut self.role, Role::Idle);
        *self = Gms { counters, role, ..Gms::new(config) };
    }

    /// Takes one message of GMS.
    fn receive(&mut self, src: Uuid, h: &GmsHeader, msg: &Message, cx: &mut Cx<'_>) {
        match h.kind {
            // Whether the joiner will ask for state is no business of the membership.
            GmsKind::JoinReq | GmsKind::JoinReqWithState => self.receive_join(src, h, cx),
            GmsKind::JoinRsp => self.receive_join_answer(src, msg, cx),
            GmsKind::LeaveReq => self.receive_leave(src, h, cx),
            GmsKind::LeaveRsp => self.receive_leave_answer(src, cx),
            GmsKind::View => self.receive_view(src, msg, cx),
            GmsKind::ViewAck => self.receive_ack(src, cx),
            GmsKind::GetCurrentView => self.receive_view_request(src, msg, cx),
            GmsKind::MergeReq
            | GmsKind::MergeRsp
            | GmsKind::InstallMergeView
            | GmsKind::CancelMerge
            | GmsKind::GetDigestReq
            | GmsKind::GetDigestRsp => self.receive_merge(src, h, msg, cx),
            // Nobody asks for a digest to be installed any more (5.5 never sends it).
            GmsKind::InstallDigest => cx.drop_from_peer(DropReason::Stale, Some(src)),
        }
    }

    /// Keeps a unicast batch of a sender that is not in the view; what may pass stays in it.
    fn hold(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let src = batch.src;
        let mut kept = batch.like();
        let mut pass = batch.like();
        for m in batch.take_all() {
            let to = if is_of_another_site(&m) { &mut pass } else { &mut kept };
            to.push(m);
        }
        batch.replace(pass.take_all());
        if kept.is_empty() {
            return;
        }
        let old_epoch = self.excluded.contains(&src) && cx.now >= self.merge_expected_until;
        let refused = match self.role {
            Role::Idle | Role::Left => true,
            _ => old_epoch,
        };
        // What waits from the time of a merge that came to nothing goes too, or a later merge would
        // pass up messages with a gap behind them.
        let dropped = match refused {
            true => kept.len() + self.held.forget(src),
            false => {
                self.hear_of_newer_view(src, cx);
                self.held.hold(kept, cx.now)
            }
        };
        if dropped > 0 {
            self.counters.held_dropped += dropped as u64;
            let why = if refused { DropReason::NotAMember } else { DropReason::OverLimit };
            cx.drop_from_peer(why, Some(src));
        }
        self.schedule_expiry(cx);
    }

    fn schedule_expiry(&self, cx: &mut Cx<'_>) {
        match self.held.expires_at() {
            Some(at) => cx.arm(HELD, at),
            None => cx.disarm(HELD),
        }
    }

    fn suspect(&mut self, list: &[Suspicion], cx: &mut Cx<'_>) {
        let local = cx.local();
        for s in list.iter().filter(|s| s.member != local) {
            if self.is_member(s.member) && self.requests.suspect(s.member, cx.now) {
                cx.tell(AppEvent::Suspected(*s));
                self.stop_waiting_for(s.member, cx);
                self.replace_what_waits_for(s.member, cx);
            }
        }
        self.retarget_leave(cx);
    }

    /// `member` leaves or is suspected: nothing may wait for it any longer.
    fn stop_waiting_for(&mut self, member: Uuid, cx: &mut Cx<'_>) {
        self.no_ack_from(member, cx);
        self.no_digest_from(member, cx);
    }

    /// We are out: tells everybody above and below.
    fn finish(&mut self, confirmed: bool, cx: &mut Cx<'_>) {
        self.reset(cx);
        self.enter(Role::Left, cx);
        cx.change(GroupChange::View(None));
        cx.tell(AppEvent::Disconnected { confirmed });
    }
}

impl Protocol for Gms {
    fn spec(&self) -> Spec {
        Spec {
            name: "GMS",
            id: Some(ProtId::GMS),
            interests: Interests {
                up: Traffic::Both,
                events: true,
                end_turn: true,
                ..Interests::default()
            },
            provides: &[Service::Membership],
            needs_below: &[
                Service::Discovery,
                Service::ReliableMulticast,
                Service::ReliableUnicast,
            ],
            needs_above: &[],
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
        self.enter(Role::Idle, cx);
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.reset(cx);
        self.enter(Role::Left, cx);
        cx.change(GroupChange::View(None));
    }

    fn up(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let stranger = !self.is_member(batch.src);
        if batch.marks().meets(Marks::of(ProtId::GMS)) {
            self.split(batch, cx);
        } else if self.waits_behind_view(batch) {
            batch.take_all().into_iter().for_each(|m| self.set_behind_view(batch.src, m));
        }
        if !stranger || self.is_member(batch.src) || batch.is_empty() {
            return;
        }
        if batch.multicast {
            drop_multicasts(batch, cx);
        } else {
            self.hold(batch, cx);
        }
    }

    fn row_up(&mut self, row: &mut Row, _cx: &mut Cx<'_>) -> RowFlow {
        let passes = self.is_member(row.src) && !self.waits_for_view(row.src);
        if passes { RowFlow::Pass } else { RowFlow::Apart }
    }

    fn on_event(&mut self, dir: Dir, ev: &Event, cx: &mut Cx<'_>) -> Flow {
        match (dir, ev) {
            (Dir::Down, Event::Connect) => {
                // The layers below hear of it before they are asked to find members.
                cx.raise(Dir::Down, Event::Connect);
                self.connect(cx);
                Flow::Stop
            }
            (Dir::Down, Event::Disconnect) => {
                cx.raise(Dir::Down, Event::Disconnect);
                self.disconnect(cx);
                Flow::Stop
            }
            (Dir::Up, Event::Found { purpose: Purpose::Join, members }) => {
                self.found(members, cx);
                Flow::Stop
            }
            (Dir::Up, Event::Suspect(list)) => {
                self.silent.retain(|m| !list.iter().any(|s| s.member == *m));
                self.suspect(list, cx);
                Flow::Pass
            }
            (Dir::Up, Event::Unsuspect(list)) => {
                list.iter().for_each(|m| self.requests.unsuspect(*m));
                Flow::Pass
            }
            (Dir::Down, Event::Exclude(list)) => {
                let others = self.ask_to_exclude(list, cx);
                if !others.is_empty() {
                    cx.raise(Dir::Down, Event::Exclude(others));
                }
                Flow::Stop
            }
            (Dir::Up, Event::NewerView(from)) => {
                self.hear_of_newer_view(*from, cx);
                Flow::Stop
            }
            (Dir::Up, Event::Repaired { view, agreed }) => {
                self.repaired(*view, *agreed, cx);
                Flow::Stop
            }
            (Dir::Up, Event::HoldsUpView(members)) => {
                self.suspect_silent(members, cx);
                Flow::Stop
            }
            (Dir::Up, Event::MissesView(members)) => {
                members.iter().for_each(|m| self.send_whole_view(*m, None, cx));
                Flow::Stop
            }
            (Dir::Up, Event::MergeViews { views, announced }) => {
                self.merge(views, announced, cx);
                Flow::Stop
            }
            _ => Flow::Pass,
        }
    }

    fn on_timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) {
        match key {
            JOIN => self.join_timer(cx),
            ACKS => self.ack_timer(cx),
            LEAVE => self.leave_timer(cx),
            MERGE => self.merge_timer(cx),
            CURIOUS => self.ask_for_newer_view(cx),
            HELD => {
                self.counters.held_dropped += self.held.expire(cx.now) as u64;
                self.schedule_expiry(cx);
            }
            // BUNDLE only makes sure that there is a turn, which ends with a look at the requests.
            _ => {}
        }
    }

    /// All requests of a turn are looked at together, at its end. So there is no moment at which a
    /// request can be missed (BEHAVIOURS M15).
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        self.process_requests(cx);
    }

    fn answer(&self, q: &Query, _group: &Group) -> Option<Answer> {
        match q {
            Query::MergeRunning => Some(Answer::MergeRunning(self.merging.is_some())),
            Query::HoldRoom { from, coming, coming_in_all } => {
                Some(Answer::Bytes(self.held.room(*from, *coming, *coming_in_all)))
            }
            Query::HeldForView(from) => {
                Some(Answer::Held(self.held.holds(*from) || self.sets_behind_view(*from)))
            }
            _ => None,
        }
    }

    fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let c = &self.counters;
        let members = self.view.as_deref().map_or(0, |v| v.members.len());
        out("number_of_views", c.views);
        out("view_id", self.view.as_deref().map_or(0, |v| v.id.id));
        out("num_members", members as u64);
        out("is_coord", u64::from(matches!(self.role, Role::Coordinator)));
        out("view_handler_size", self.requests.len() as u64);
        out("missing_acks", self.acks.as_ref().map_or(0, |a| a.missing() as u64));
        out("merge_in_progress", u64::from(self.merging.is_some()));
        out("join_attempts", c.join_attempts);
        out("merges_started", c.merges_started);
        out("merges_installed", c.merges_installed);
        out("views_refused", c.views_refused);
        out("views_not_synchronous", c.not_synchronous);
        out("join_digests_sent", c.join_digests);
        out("merge_digests_sent", c.merge_digests);
        // Short-lived: until a joiner has acknowledged its view, until a view is installed.
        let waiting = self.pending.as_ref().map_or(0, Pending::digests);
        out("retained_digests", self.welcomes.len() as u64 + waiting);
        out("held_bytes", self.held.bytes());
        out("held_dropped", c.held_dropped);
        out("let_go_by_others", c.let_go);
    }
}
