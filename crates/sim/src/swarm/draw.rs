//! Drawing a configuration: everything that a run does is decided here, before it starts.

mod shared;

use super::plan::Tuning;
use super::{Profile, Task, node_name};
use crate::cluster::{Appetite, Errand, Outcall, Outgoing, Provision};
use crate::network::Link;
use rgroups_core::app::Sync;
use rgroups_core::protocols::counter::CounterAction;
use rgroups_core::rpc::Wait;
use rgroups_core::{Duration, Rng, SyncLevel};

/// A whole run, ready to be executed.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The seed it came from; also seeds network and nodes.
    pub seed: u64,
    /// What was asked for.
    pub task: Task,
    /// Sizes and times of the stack.
    pub tuning: Tuning,
    /// The network while faults go on.
    pub link: Link,
    /// How fast clocks run, per node.
    pub drift: Vec<i32>,
    /// What is done when, in order of time.
    pub schedule: Vec<(Duration, Action)>,
    /// The largest payload.
    pub largest: usize,
    /// Bytes in every state that mean nothing.
    pub padding: usize,
}

/// What happens to a cluster.
#[derive(Clone, Debug)]
pub enum Action {
    /// Start a node (again).
    Start(String),
    /// Let it leave.
    Leave(String),
    /// Kill it.
    Crash(String),
    /// Cut its power.
    PowerOff(String),
    /// Kill it and start it again at once.
    Restart(String),
    /// Stop its process for a while.
    Freeze(String),
    /// Let it go on.
    Resume(String),
    /// Delay its turns.
    Slow(String, Duration),
    /// Change how fast its application consumes.
    Appetite(String, Appetite),
    /// Split the network.
    Partition(Vec<Vec<String>>),
    /// Cut one direction.
    Cut(String, String),
    /// End splits and cuts.
    Heal,
    /// Reset its connections.
    Reset(String),
    /// Send a message.
    Send(String, Outgoing),
    /// Call methods of others.
    Call(String, Outcall),
    /// Do something with a counter, in so much time.
    Count(String, &'static str, CounterAction, Duration),
    /// Ask this member, or whoever gives it, for its state, for so long.
    Fetch(String, Option<String>, Duration),
    /// What its application does when it is asked for its state.
    Provide(String, Provision),
    /// Acquire a lock, waiting so long at most, and hold it for so long.
    Lock(String, &'static str, Duration, Duration),
}

/// How much is sent while faults go on.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Messages.
    pub messages: u64,
    /// From when on.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}

/// The counters that members share. So many, that the uses of each whose outcome is not known are few:
/// each doubles what the judge has to look at.
pub(super) const COUNTERS: [&str; 8] =
    ["orders", "stock", "visits", "seats", "errors", "clicks", "cups", "doors"];

/// The locks that members share.
pub(super) const LOCKS: [&str; 3] = ["door", "gate", "hatch"];

/// Load and faults happen in this window; before it nodes start.
const FAULTS_FROM: Duration = Duration::from_secs(6);
const FAULTS_UNTIL: Duration = Duration::from_secs(36);

impl Configuration {
    /// What this seed stands for.
    #[must_use]
    pub fn draw(seed: u64, task: &Task) -> Self {
        // The run itself starts from the same seed; what is drawn here must not repeat in it.
        let mut rng = Rng::new(seed ^ 0x5eed_0000_0000_0001);
        let tuning = Tuning::draw(&mut rng, task.stack);
        let names: Vec<String> = (0..task.members).map(node_name).collect();
        let mut draw = Draw { rng, names, schedule: Vec::new() };
        let link = draw.link(task.profile);
        let drift = draw.drift(task.profile);
        draw.starts(task.profile);
        let largest = draw.messages(Workload {
            messages: 120,
            from: Duration::from_secs(2),
            until: FAULTS_UNTIL,
        });
        draw.faults(task.profile);
        if matches!(task.profile, Profile::Lan | Profile::Lossy) {
            // What a seed stood for before there were unreliable messages it still stands for.
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0002);
            draw.unreliable_messages();
        }
        let mut tuning = tuning;
        if task.sends {
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0003);
            draw.synchronous_sends();
            tuning = tuning.unusual(&mut draw.rng);
            draw.subsets();
        }
        if task.calls {
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0004);
            draw.calls();
        }
        if task.counters {
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0005);
            draw.counting();
        }
        let mut padding = 0;
        if task.states {
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0006);
            // With STATE_TRANSFER a state goes into one message.
            padding = draw.states() % (tuning.max_credits as usize / 2);
        }
        if task.locks {
            draw.rng = Rng::new(seed ^ 0x5eed_0000_0000_0007);
            draw.locking();
        }
        let mut schedule = draw.schedule;
        schedule.sort_by_key(|(at, _)| *at);
        let task = task.clone();
        Configuration { seed, task, tuning, link, drift, schedule, largest, padding }
    }
}

struct Draw {
    rng: Rng,
    names: Vec<String>,
    schedule: Vec<(Duration, Action)>,
}

impl Draw {
    fn at(&mut self, when: Duration, what: Action) {
        self.schedule.push((when, what));
    }

    fn within(&mut self, from: Duration, until: Duration) -> Duration {
        self.rng.duration(from, until)
    }

    fn someone(&mut self) -> String {
        self.rng.pick(&self.names).cloned().unwrap_or_default()
    }

    fn link(&mut self, profile: Profile) -> Link {
        let lan = Link {
            delay: self.within(Duration::from_micros(50), Duration::from_micros(2_000)),
            jitter: self.within(Duration::ZERO, Duration::from_micros(1_000)),
            ..Link::lan()
        };
        let lossy = |share: f64| Link {
            loss: 0.05 * share,
            duplication: 0.02 * share,
            reordering: 0.05 * share,
            ..lan
        };
        match profile {
            Profile::Lan
            | Profile::Slow
            | Profile::ColdStart
            | Profile::Partition
            | Profile::Burst
            | Profile::Frozen
            | Profile::Star
            | Profile::OneWay => lan,
            Profile::Lossy => lossy(1.0),
            Profile::Churn | Profile::Mixed if self.rng.chance(0.5) => lossy(0.4),
            Profile::Churn | Profile::Mixed => lan,
        }
    }

    fn drift(&mut self, profile: Profile) -> Vec<i32> {
        let most = if profile == Profile::Slow { 20_000 } else { 100 };
        let one =
            |rng: &mut Rng| i32::try_from(rng.between(0, 2 * most)).unwrap_or(0) - most as i32;
        (0..self.names.len()).map(|_| one(&mut self.rng)).collect()
    }

    fn starts(&mut self, profile: Profile) {
        let together = profile == Profile::ColdStart || self.rng.chance(0.1);
        for (i, name) in self.names.clone().into_iter().enumerate() {
            let when = if together {
                self.within(Duration::ZERO, Duration::from_millis(50))
            } else if i == 0 {
                Duration::ZERO
            } else {
                self.within(Duration::from_millis(1_500), Duration::from_millis(4_500))
            };
            self.at(when, Action::Start(name));
        }
    }

    /// Draws messages of all kinds; returns the size of the largest.
    fn messages(&mut self, load: Workload) -> usize {
        let mut largest = 0;
        for _ in 0..load.messages {
            let when = self.within(load.from, load.until);
            let from = self.someone();
            let to = if self.rng.chance(0.4) { Some(self.someone()) } else { None };
            let size = match self.rng.below(20) {
                0..=7 => self.rng.between(8, 200),
                8..=14 => self.rng.between(200, 3_000),
                15..=18 => self.rng.between(3_000, 12_000),
                _ => self.rng.between(12_000, 70_000),
            } as usize;
            largest = largest.max(size);
            let mut message = Outgoing::new(to.as_deref(), size);
            message.oob = self.rng.chance(0.25);
            message.loopback = !self.rng.chance(0.2);
            message.try_only = self.rng.chance(0.05);
            if self.rng.chance(0.05) {
                message.within = Some(self.within(Duration::ZERO, Duration::from_secs(5)));
            }
            if self.rng.chance(0.05) {
                message.sync = Some(self.sync());
            }
            // Bursts fill windows and bundles; single messages find empty ones.
            let burst = if self.rng.chance(0.1) { self.rng.between(2, 8) } else { 1 };
            for _ in 0..burst {
                self.at(when, Action::Send(from.clone(), message.clone()));
            }
        }
        largest
    }

    fn unreliable_messages(&mut self) {
        const MESSAGES: usize = 10;
        for _ in 0..MESSAGES {
            let when = self.within(FAULTS_FROM, FAULTS_UNTIL);
            let from = self.someone();
            let to = if self.rng.chance(0.4) { Some(self.someone()) } else { None };
            let mut message = Outgoing::new(to.as_deref(), self.rng.between(8, 500) as usize);
            message.unreliable = true;
            self.at(when, Action::Send(from, message));
        }
    }

    /// Half of what is sent reliably is waited for, with and without a time.
    fn synchronous_sends(&mut self) {
        let levels = [SyncLevel::OnReceive, SyncLevel::OnContiguous, SyncLevel::OnDeliver];
        for (_, action) in &mut self.schedule {
            let Action::Send(_, message) = action else { continue };
            if message.unreliable || self.rng.chance(0.5) {
                continue;
            }
            let level = self.rng.pick(&levels).copied().unwrap_or_default();
            let most = Duration::from_secs(20);
            let some = self.rng.duration(Duration::from_millis(1), most);
            let timeout = self.rng.chance(0.7).then_some(some);
            message.sync = Some(Sync { level, timeout, to: None });
        }
    }

    /// Some of what all are sent and somebody waits for goes to a few of them only.
    fn subsets(&mut self) {
        for (_, action) in &mut self.schedule {
            let Action::Send(_, message) = action else { continue };
            let one = message.to.is_some() || message.sync.is_none();
            if one || !self.rng.chance(0.2) {
                continue;
            }
            let mut some = self.names.clone();
            self.rng.shuffle(&mut some);
            some.truncate(self.rng.between(1, some.len() as u64) as usize);
            message.among = Some(some);
        }
    }

    /// Calls of all kinds, of all, some and one, some of which ask for more calls.
    fn calls(&mut self) {
        const CALLS: usize = 80;
        for _ in 0..CALLS {
            let when = self.within(Duration::from_secs(2), FAULTS_UNTIL);
            let from = self.someone();
            let call = self.outcall();
            // Several at once share requests' packets and answer each other's callers.
            let burst = if self.rng.chance(0.1) { self.rng.between(2, 5) } else { 1 };
            for _ in 0..burst {
                self.at(when, Action::Call(from.clone(), call.clone()));
            }
        }
    }

    fn outcall(&mut self) -> Outcall {
        let to = match self.rng.below(10) {
            0..=4 => None,
            5..=7 => Some(vec![self.someone()]),
            _ => {
                let mut some = self.names.clone();
                self.rng.shuffle(&mut some);
                some.truncate(self.rng.between(1, some.len() as u64) as usize);
                Some(some)
            }
        };
        let wait = match self.rng.below(10) {
            0..=4 => Wait::All,
            5 | 6 => Wait::First,
            7 | 8 => Wait::Majority,
            _ => Wait::None,
        };
        let (shortest, longest) = match self.rng.below(10) {
            0 | 1 => (1, 200),
            2..=6 => (200, 3_000),
            _ => (3_000, 20_000),
        };
        let within = self.within(Duration::from_millis(shortest), Duration::from_millis(longest));
        let size = match self.rng.below(10) {
            0..=6 => self.rng.between(8, 500),
            7 | 8 => self.rng.between(500, 5_000),
            _ => self.rng.between(5_000, 15_000),
        } as usize;
        let errand = match self.rng.below(20) {
            0..=8 => Errand::Answer,
            9..=12 => Errand::After(self.within(Duration::ZERO, Duration::from_secs(3))),
            13..=15 => Errand::Fail,
            16 => Errand::Unknown,
            17 => Errand::Hang,
            _ => Errand::Nest(self.rng.between(1, 3) as u8),
        };
        Outcall { to, wait, within, size, errand }
    }

    fn sync(&mut self) -> Sync {
        let levels = [SyncLevel::OnReceive, SyncLevel::OnContiguous, SyncLevel::OnDeliver];
        let level = self.rng.pick(&levels).copied().unwrap_or_default();
        Sync { level, timeout: Some(Duration::from_secs(5)), to: None }
    }

    fn faults(&mut self, profile: Profile) {
        match profile {
            Profile::Lan | Profile::Lossy | Profile::ColdStart => {}
            Profile::Churn => self.churn(3, 8),
            Profile::Partition => self.partitions(),
            Profile::Slow => self.slowness(2, 5),
            Profile::Burst => self.outages(),
            Profile::Frozen => self.frozen(),
            Profile::Star => self.stars(),
            Profile::OneWay => {
                self.one_way_cuts();
                self.churn(2, 5);
            }
            Profile::Mixed => {
                self.churn(1, 4);
                self.slowness(0, 2);
                if self.rng.chance(0.6) {
                    self.partitions();
                }
            }
        }
    }

    fn churn(&mut self, low: u64, high: u64) {
        for _ in 0..self.rng.between(low, high) {
            let when = self.within(FAULTS_FROM, FAULTS_UNTIL - Duration::from_secs(2));
            let name = self.someone();
            let back = self.within(Duration::from_millis(200), Duration::from_secs(12));
            let down = match self.rng.below(5) {
                0 | 1 => Action::Crash(name.clone()),
                2 => Action::PowerOff(name.clone()),
                3 => Action::Leave(name.clone()),
                _ => Action::Restart(name.clone()),
            };
            self.at(when, down);
            if self.rng.chance(0.8) {
                self.at((when + back).min(FAULTS_UNTIL), Action::Start(name));
            }
        }
    }

    fn partitions(&mut self) {
        let mut when = FAULTS_FROM + self.within(Duration::ZERO, Duration::from_secs(4));
        while when < FAULTS_UNTIL - Duration::from_secs(2) {
            if self.rng.chance(0.3) {
                let (a, b) = (self.someone(), self.someone());
                self.at(when, Action::Cut(a, b));
            } else {
                let groups = self.groups();
                self.at(when, Action::Partition(groups));
            }
            // Some end before anybody can be suspected, some long after.
            let lasts = self.within(Duration::from_secs(1), Duration::from_secs(18));
            let heal = (when + lasts).min(FAULTS_UNTIL);
            self.at(heal, Action::Heal);
            when = heal + self.within(Duration::from_millis(100), Duration::from_secs(12));
        }
    }

    /// Cuts that last longer than failure detection takes.
    fn one_way_cuts(&mut self) {
        let when = FAULTS_FROM + self.within(Duration::ZERO, Duration::from_secs(4));
        for _ in 0..self.rng.between(1, 2) {
            let (a, b) = (self.someone(), self.someone());
            self.at(when, Action::Cut(a, b));
        }
        let lasts = self.within(Duration::from_secs(12), Duration::from_secs(24));
        self.at((when + lasts).min(FAULTS_UNTIL), Action::Heal);
    }

    /// Nobody reaches anybody.
    fn outages(&mut self) {
        let mut when = FAULTS_FROM + self.within(Duration::ZERO, Duration::from_secs(4));
        while when < FAULTS_UNTIL - Duration::from_secs(1) {
            let alone: Vec<Vec<String>> = self.names.iter().map(|n| vec![n.clone()]).collect();
            self.at(when, Action::Partition(alone));
            let lasts = self.within(Duration::from_millis(200), Duration::from_secs(10));
            let heal = (when + lasts).min(FAULTS_UNTIL);
            self.at(heal, Action::Heal);
            when = heal + self.within(Duration::from_secs(1), Duration::from_secs(10));
        }
    }

    fn frozen(&mut self) {
        for _ in 0..self.rng.between(1, 4) {
            let when = self.within(FAULTS_FROM, FAULTS_UNTIL - Duration::from_secs(1));
            let lasts = self.within(Duration::from_millis(200), Duration::from_secs(20));
            let (name, until) = (self.someone(), (when + lasts).min(FAULTS_UNTIL));
            let (begin, end) = if self.rng.chance(0.6) {
                (Action::Freeze(name.clone()), Action::Resume(name))
            } else {
                let (nothing, everything) = (Appetite::Nothing, Appetite::Everything);
                (Action::Appetite(name.clone(), nothing), Action::Appetite(name, everything))
            };
            self.at(when, begin);
            self.at(until, end);
        }
    }

    /// All but one stop reaching each other, for longer than failure detection takes.
    fn stars(&mut self) {
        let when = FAULTS_FROM + self.within(Duration::ZERO, Duration::from_secs(8));
        let hub = self.someone();
        let outer: Vec<String> = self.names.iter().filter(|n| **n != hub).cloned().collect();
        for a in &outer {
            for b in outer.iter().filter(|b| *b != a) {
                self.at(when, Action::Cut(a.clone(), b.clone()));
            }
        }
        let lasts = self.within(Duration::from_secs(3), Duration::from_secs(20));
        self.at((when + lasts).min(FAULTS_UNTIL), Action::Heal);
    }

    fn groups(&mut self) -> Vec<Vec<String>> {
        let mut shuffled = self.names.clone();
        self.rng.shuffle(&mut shuffled);
        let count = if self.rng.chance(0.2) { 3 } else { 2 };
        let mut groups = vec![Vec::new(); count];
        for (i, name) in shuffled.into_iter().enumerate() {
            let g = if i < count { i } else { self.rng.below(count as u64) as usize };
            groups[g].push(name);
        }
        groups
    }

    fn slowness(&mut self, low: u64, high: u64) {
        for _ in 0..self.rng.between(low, high) {
            let when = self.within(FAULTS_FROM, FAULTS_UNTIL - Duration::from_secs(1));
            let lasts = self.within(Duration::from_millis(500), Duration::from_secs(15));
            let until = (when + lasts).min(FAULTS_UNTIL);
            let name = self.someone();
            let (begin, end) = match self.rng.below(5) {
                0 => (Action::Freeze(name.clone()), Action::Resume(name)),
                1 => {
                    let by = self.within(Duration::from_millis(5), Duration::from_millis(200));
                    (Action::Slow(name.clone(), by), Action::Slow(name, Duration::ZERO))
                }
                2 => (
                    Action::Appetite(name.clone(), Appetite::Nothing),
                    Action::Appetite(name, Appetite::Everything),
                ),
                3 => {
                    let rate = Appetite::Rate(self.rng.between(2_000, 50_000));
                    (
                        Action::Appetite(name.clone(), rate),
                        Action::Appetite(name, Appetite::Everything),
                    )
                }
                _ => (Action::Reset(name.clone()), Action::Reset(name)),
            };
            self.at(when, begin);
            self.at(until, end);
        }
    }
}
