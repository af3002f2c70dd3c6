//! Some nodes and the packets between them. Nothing happens by itself: every step is a choice.

use super::input::Input;
use super::memo::{InputId, Memo, StateId, Step};
use crate::connections::Life;
use crate::history::{Fact, History, What};
use rgroups_core::{Duration, Time};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Within this time the survivors must have a view of exactly themselves.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What happens next. Packets are named by their place among those on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// This packet arrives.
    Deliver(u8),
    /// This packet is lost.
    Lose(u8),
    /// The node of this number dies.
    Crash(u8),
    /// The node of this number hears of the oldest death that it has not heard of.
    Hear(u8),
    /// Time passes until the next timer of anybody.
    Pass,
}

#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) state: StateId,
    pub(super) alive: bool,
    /// Deaths that it has not heard of.
    notices: Vec<u8>,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) sites: Vec<Site>,
    /// Packets on their way, by their numbers.
    pub(super) packets: Vec<InputId>,
    pub(super) now: Time,
    began: Time,
}

/// Who wants to know what happens: when, to whom, what.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Time, usize, Happened);

/// What happens to a node.
pub(super) enum Happened {
    Did(Rc<Step>),
    Died,
}

impl World {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self { sites: Vec::new(), packets: Vec::new(), now: Time::ZERO, began: Time::ZERO }
    }

    /// A further node, which connects.
    pub(super) fn start(&mut self, state: StateId, memo: &mut Memo, watch: Watch<'_>) {
        self.sites.push(Site { state, alive: true, notices: Vec::new() });
        self.give(self.sites.len() - 1, Input::Connect, memo, watch);
    }

    /// Gives something to a node.
    pub(super) fn give(&mut self, at: usize, input: Input, memo: &mut Memo, watch: Watch<'_>) {
        let input = memo.id(input);
        self.step(at, input, memo, watch);
    }

    /// Everything that is on its way arrives, and time passes, until `done` holds. Whether it does
    /// within `limit`.
    pub(super) fn run_until(
        &mut self,
        limit: Duration,
        memo: &mut Memo,
        watch: Watch<'_>,
        done: impl Fn(&World, &Memo) -> bool,
    ) -> bool {
        let end = self.now + limit;
        while !done(self, memo) {
            if !self.packets.is_empty() {
                self.apply(Choice::Deliver(0), memo, watch);
            } else if let Some(at) = self.sites.iter().position(|s| !s.notices.is_empty()) {
                self.apply(Choice::Hear(at as u8), memo, watch);
            } else if self.next_timer(memo).is_some_and(|at| at <= end) {
                self.apply(Choice::Pass, memo, watch);
            } else {
                return false;
            }
        }
        true
    }

    /// From here on the time counts in which the survivors must find together.
    pub(super) fn begin(&mut self) {
        self.began = self.now;
    }

    /// Whether that time is over.
    pub(super) fn is_late(&self) -> bool {
        self.now.since(self.began) > PATIENCE
    }

    /// What can happen: deliveries first, then deaths heard of, losses and deaths. Equal packets are
    /// one choice.
    pub(super) fn choices(
        &self,
        memo: &Memo,
        losses: bool,
        crashes: bool,
        late: bool,
    ) -> Vec<Choice> {
        let different = |i: &u8| {
            let i = usize::from(*i);
            i == 0 || self.packets[i] != self.packets[i - 1]
        };
        let packets = (0..self.packets.len() as u8).filter(different);
        let sites = |which: fn(&Site) -> bool| {
            let all = (0_u8..).zip(&self.sites);
            all.filter(move |(_, s)| s.alive && which(s)).map(|(i, _)| i)
        };
        let mut choices: Vec<Choice> = packets.clone().map(Choice::Deliver).collect();
        choices.extend(sites(|s| !s.notices.is_empty()).map(Choice::Hear));
        if losses {
            choices.extend(packets.map(Choice::Lose));
        }
        if crashes && sites(|_| true).count() > 1 {
            choices.extend(sites(|_| true).map(Choice::Crash));
        }
        if (self.is_calm() || late) && self.next_timer(memo).is_some() {
            choices.push(Choice::Pass);
        }
        choices
    }

    /// Whether nothing is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.packets.is_empty() && self.sites.iter().all(|s| s.notices.is_empty())
    }

    /// Does it.
    pub(super) fn apply(&mut self, choice: Choice, memo: &mut Memo, watch: Watch<'_>) {
        match choice {
            Choice::Deliver(i) => {
                let packet = self.packets.remove(usize::from(i));
                self.step(receiver(packet, memo), packet, memo, watch);
            }
            Choice::Lose(i) => {
                self.packets.remove(usize::from(i));
            }
            Choice::Crash(at) => self.crash(usize::from(at), memo, watch),
            Choice::Hear(at) => {
                let at = usize::from(at);
                let who = memo.identity(self.sites[at].notices.remove(0).into());
                self.give(at, Input::Suspect(who), memo, watch);
            }
            Choice::Pass => {
                let Some(time) = self.next_timer(memo) else { return };
                self.now = self.now.max(time);
                let is_due =
                    |s: &Site| s.alive && memo.deadline(s.state).is_some_and(|t| t <= time);
                let due: Vec<usize> =
                    (0..self.sites.len()).filter(|i| is_due(&self.sites[*i])).collect();
                for at in due {
                    self.give(at, Input::Tick, memo, watch);
                }
            }
        }
    }

    /// The node dies, and whatever is on its way to it with it. Everybody will hear of it.
    pub(super) fn crash(&mut self, at: usize, memo: &Memo, watch: Watch<'_>) {
        self.sites[at].alive = false;
        self.sites[at].notices.clear();
        watch(self.now, at, Happened::Died);
        self.packets.retain(|p| receiver(*p, memo) != at);
        for s in self.sites.iter_mut().filter(|s| s.alive) {
            s.notices.push(at as u8);
        }
    }

    /// Tells it from all worlds with another future, or another past in the eyes of an oracle.
    pub(super) fn identity(&self, memo: &Memo) -> u64 {
        let mut h = DefaultHasher::new();
        for s in &self.sites {
            match s.alive {
                true => (s.state, &s.notices).hash(&mut h),
                // Of a dead one only what was seen of it matters.
                false => (u32::MAX, memo.seen(s.state)).hash(&mut h),
            }
        }
        (&self.packets, self.now.0).hash(&mut h);
        h.finish()
    }

    /// What the oracles see of it.
    pub(super) fn outcome(&self, memo: &Memo) -> u64 {
        let mut h = DefaultHasher::new();
        for s in &self.sites {
            (s.alive, memo.seen(s.state)).hash(&mut h);
        }
        h.finish()
    }

    /// What a choice means here.
    pub(super) fn told(&self, choice: Choice, memo: &Memo) -> String {
        let packet = |i: u8| match memo.input(self.packets[usize::from(i)]) {
            input @ Input::Packet { from, to, .. } => {
                let (from, to) = (memo.name((*from).into()), memo.name((*to).into()));
                format!("{} from {from} to {to}", input.kinds())
            }
            input => format!("{input:?}"),
        };
        match choice {
            Choice::Deliver(i) => format!("arrives: {}", packet(i)),
            Choice::Lose(i) => format!("lost: {}", packet(i)),
            Choice::Crash(at) => format!("{} dies", memo.name(at.into())),
            Choice::Hear(at) => {
                let who = self.sites[usize::from(at)].notices[0];
                format!("{} hears that {} is gone", memo.name(at.into()), memo.name(who.into()))
            }
            Choice::Pass => format!("time passes after {:?}", self.now.since(self.began)),
        }
    }

    /// Whether all who live are in one view of exactly themselves.
    pub(super) fn is_one_group(&self, memo: &Memo) -> bool {
        let living = || self.sites.iter().enumerate().filter(|(_, s)| s.alive);
        let views = || living().map(|(_, s)| memo.view(s.state));
        let Some(Some(first)) = views().next() else { return false };
        first.members.len() == living().count()
            && views().all(|v| v.is_some_and(|v| v.id == first.id))
            && living().all(|(i, _)| first.contains(memo.identity(i)))
    }

    fn step(&mut self, at: usize, input: InputId, memo: &mut Memo, watch: Watch<'_>) {
        let step = memo.step(self.sites[at].state, input, self.now);
        self.sites[at].state = step.to;
        for packet in &step.packets {
            if self.sites.get(receiver(*packet, memo)).is_some_and(|s| s.alive) {
                let place = self.packets.partition_point(|p| p <= packet);
                self.packets.insert(place, *packet);
            }
        }
        watch(self.now, at, Happened::Did(step));
    }

    fn next_timer(&self, memo: &Memo) -> Option<Time> {
        let living = self.sites.iter().filter(|s| s.alive);
        living.filter_map(|s| memo.deadline(s.state)).min()
    }
}

/// Writes what happens to a history.
pub(super) fn record(h: &mut History, at: Time, site: usize, what: &Happened) {
    let life = Some(Life(site));
    let mut push = |what| h.facts.push(Fact { at, life, what });
    match what {
        Happened::Did(step) => step.facts.iter().for_each(|fact| push(fact.clone())),
        Happened::Died => push(What::Died { power_off: false }),
    }
}

/// The node that a packet goes to.
fn receiver(packet: InputId, memo: &Memo) -> usize {
    match memo.input(packet) {
        Input::Packet { to, .. } => (*to).into(),
        _ => usize::MAX,
    }
}
