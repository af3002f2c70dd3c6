//! The keeper: who has what, who waits, in which order.

use super::payload::{Claim, ClaimState, LockPayload, Step};
use super::{Asker, LockName, may_act};
use crate::{Cx, Uuid, View, ViewId, tag};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Steps of a view that is not installed here yet. Claims that are dropped beyond come again.
const MOST_EARLY: usize = 1_024;
/// Grants and places in lines of one view; their numbers follow those of the view before.
const PER_VIEW: u32 = 32;

/// What a keeper knows; of another member nothing.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    view: Option<Arc<View>>,
    role: Role,
    /// The last token or place in a line.
    last: u64,
    early: Vec<(Uuid, LockPayload)>,
    to_self: Vec<LockPayload>,
    granted: u64,
    conflicts: u64,
}

#[derive(Debug, Default)]
enum Role {
    /// Somebody else is the keeper, or nobody.
    #[default]
    None,
    /// This member is, and these have not said what they have.
    Collecting { missing: Vec<Uuid>, claims: Vec<(Uuid, Claim)> },
    /// This member is.
    Keeping(BTreeMap<Key, Entry>),
}

/// Locks and semaphores are told apart by their kind, semaphores not by their number of permits.
type Key = (bool, String);

#[derive(Debug)]
struct Entry {
    permits: u32,
    holders: Vec<(u64, Asker)>,
    /// In the order in which they came.
    line: BTreeMap<u64, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    asker: Asker,
    now_or_never: bool,
}

fn key(name: &LockName) -> Key {
    (name.permits.is_some(), name.name.clone())
}

impl Keeping {
    pub(super) fn take_own(&mut self) -> Vec<LockPayload> {
        core::mem::take(&mut self.to_self)
    }

    pub(super) fn close(&mut self) {
        *self = Self { granted: self.granted, conflicts: self.conflicts, ..Self::default() };
    }

    pub(super) fn inspect(&self, out: &mut dyn FnMut(&str, u64)) {
        let (mut held, mut waiting) = (0, 0);
        if let Role::Keeping(table) = &self.role {
            held = table.values().map(|e| e.holders.len() as u64).sum();
            waiting = table.values().map(|e| e.line.len() as u64).sum();
        }
        out("keeper_held", held);
        out("keeper_waiting", waiting);
        out("keeper_granted", self.granted);
        out("keeper_conflicts", self.conflicts);
    }

    fn id(&self) -> Option<ViewId> {
        self.view.as_ref().map(|v| v.id)
    }

    fn say(&mut self, to: Uuid, step: Step, cx: &mut Cx<'_>) {
        let Some(view) = self.id() else { return };
        let payload = LockPayload { view, step };
        if to == cx.local() {
            self.to_self.push(payload);
        } else if cx.is_member(to) {
            cx.send_down(payload.message(to));
        }
    }

    /// Whatever was known in the view before is told anew.
    pub(super) fn install(&mut self, view: &Arc<View>, keeper: Option<Uuid>, cx: &mut Cx<'_>) {
        self.view = Some(Arc::clone(view));
        self.to_self.clear();
        self.last = self.last.max(view.id.id << PER_VIEW);
        self.role = Role::None;
        if keeper == Some(cx.local()) {
            let missing = view.members.iter().copied().filter(|m| tag::locks(*m)).collect();
            self.role = Role::Collecting { missing, claims: Vec::new() };
        }
        let (now, later): (Vec<_>, Vec<_>) = core::mem::take(&mut self.early)
            .into_iter()
            .partition(|(_, p)| p.view.id <= view.id.id);
        self.early = later;
        for (from, payload) in now {
            self.receive(from, payload, cx);
        }
    }

    pub(super) fn receive(&mut self, from: Uuid, payload: LockPayload, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        if payload.view.id > view.id.id {
            if self.early.len() < MOST_EARLY {
                self.early.push((from, payload));
            }
            return;
        }
        if payload.view != view.id {
            return;
        }
        match payload.step {
            Step::Claims(list) => self.claims(from, list, cx),
            Step::Acquire(claim) => {
                self.acquire(from, claim, cx);
                self.pump(cx);
            }
            Step::Release(number) => {
                if let Role::Keeping(table) = &mut self.role {
                    release(table, (from, number));
                    self.say(from, Step::Released(number), cx);
                    self.pump(cx);
                }
            }
            Step::Ready
            | Step::Queued { .. }
            | Step::Granted { .. }
            | Step::Busy(_)
            | Step::Released(_)
            | Step::Lost(_)
            | Step::OtherPermits { .. } => {}
        }
    }

    fn claims(&mut self, from: Uuid, list: Vec<Claim>, cx: &mut Cx<'_>) {
        match &mut self.role {
            Role::None => {}
            // It has not heard that everybody is there.
            Role::Keeping(_) => self.say(from, Step::Ready, cx),
            Role::Collecting { missing, claims } => {
                let Some(at) = missing.iter().position(|m| *m == from) else { return };
                missing.swap_remove(at);
                claims.extend(list.into_iter().map(|c| (from, c)));
                #[cfg(feature = "mutants")]
                if cx.mutant(crate::mutants::Mutant::ClaimsNotAwaited) {
                    missing.clear();
                }
                if missing.is_empty() {
                    let claims = core::mem::take(claims);
                    self.begin(claims, cx);
                }
            }
        }
    }

    /// Everybody has said what it has.
    fn begin(&mut self, mut claims: Vec<(Uuid, Claim)>, cx: &mut Cx<'_>) {
        let Some(view) = self.view.clone() else { return };
        self.role = Role::Keeping(BTreeMap::new());
        // First what is held, and of that what was granted last: whoever granted it knew that the one
        // before was gone. Then those that have a place in a line; then others.
        let rank = |m: Uuid| view.rank(m).unwrap_or(usize::MAX);
        claims.sort_by_key(|(from, c)| match c.state {
            ClaimState::Has { token } => (0, u64::MAX - token, rank(*from), c.number),
            ClaimState::Waits { ticket: Some(ticket) } => (1, ticket, rank(*from), c.number),
            ClaimState::Waits { ticket: None } | ClaimState::NowOrNever => {
                (2, 0, rank(*from), c.number)
            }
        });
        for m in view.members.iter().copied().filter(|m| tag::locks(*m)) {
            self.say(m, Step::Ready, cx);
        }
        for (from, claim) in claims {
            self.acquire(from, claim, cx);
        }
        self.pump(cx);
    }

    /// Whether something could be granted, and was not, as the view is not known to be the primary one.
    pub(super) fn waits(&self) -> bool {
        let Role::Keeping(table) = &self.role else { return false };
        table.values().any(|e| !e.line.is_empty() && e.holders.len() < e.permits as usize)
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Somebody has it, or wants it.
    fn acquire(&mut self, from: Uuid, claim: Claim, cx: &mut Cx<'_>) {
        let Claim { number, name, state } = claim;
        let permits = name.permits.unwrap_or(1);
        let place = match state {
            ClaimState::Waits { ticket: Some(ticket) } => ticket,
            ClaimState::Has { token } => token,
            ClaimState::Waits { ticket: None } | ClaimState::NowOrNever => self.next(),
        };
        // What comes next is higher, whatever a member claims; but nobody can use the numbers up.
        let highest_of_view = ((self.last >> PER_VIEW) << PER_VIEW) | u64::from(u32::MAX >> 1);
        self.last = self.last.max(place.min(highest_of_view));
        let Role::Keeping(table) = &mut self.role else { return };
        let entry = table.entry(key(&name)).or_insert_with(|| Entry {
            permits,
            holders: Vec::new(),
            line: BTreeMap::new(),
        });
        if entry.permits != permits {
            let permits = entry.permits;
            let step = match state {
                ClaimState::Has { .. } => Step::Lost(number),
                ClaimState::Waits { .. } | ClaimState::NowOrNever => {
                    Step::OtherPermits { number, permits }
                }
            };
            return self.say(from, step, cx);
        }
        let asker = (from, number);
        match state {
            ClaimState::Has { token } if entry.holders.len() < permits as usize => {
                entry.holders.push((token, asker));
            }
            ClaimState::Has { .. } => {
                self.conflicts += 1;
                self.say(from, Step::Lost(number), cx);
            }
            ClaimState::Waits { .. } | ClaimState::NowOrNever => {
                let now_or_never = state == ClaimState::NowOrNever;
                let free = (place..).find(|p| !entry.line.contains_key(p)).unwrap_or(place);
                entry.line.insert(free, Waiter { asker, now_or_never });
                if state == (ClaimState::Waits { ticket: None }) {
                    self.say(from, Step::Queued { number, ticket: free }, cx);
                }
            }
        }
    }

    /// Grants what is free, in the order in which it was asked for.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>) {
        if !may_act(cx) {
            return;
        }
        let Role::Keeping(table) = &mut self.role else { return };
        let mut said = Vec::new();
        for entry in table.values_mut() {
            while entry.holders.len() < entry.permits as usize
                && let Some((_, waiter)) = entry.line.pop_first()
            {
                self.last += 1;
                self.granted += 1;
                entry.holders.push((self.last, waiter.asker));
                let (to, number) = waiter.asker;
                said.push((to, Step::Granted { number, token: self.last }));
            }
            entry.line.retain(|_, w| {
                if w.now_or_never {
                    said.push((w.asker.0, Step::Busy(w.asker.1)));
                }
                !w.now_or_never
            });
        }
        table.retain(|_, e| !e.holders.is_empty() || !e.line.is_empty());
        for (to, step) in said {
            self.say(to, step, cx);
        }
    }
}

/// `asker` neither has it nor waits for it any more.
fn release(table: &mut BTreeMap<Key, Entry>, asker: Asker) {
    for entry in table.values_mut() {
        entry.holders.retain(|(_, a)| *a != asker);
        entry.line.retain(|_, w| w.asker != asker);
    }
    table.retain(|_, e| !e.holders.is_empty() || !e.line.is_empty());
}
