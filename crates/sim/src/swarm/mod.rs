//! A whole configuration from a seed: which stack, which network, how many messages of which kind,
//! which faults when. Then the run: load and faults, heal, converge, a final round in which
//! everybody sends to everybody, rest, leave. The oracles judge all of it.

mod action;
mod draw;
mod plan;
mod pool;
mod run;
mod shrink;

pub use draw::{Action, Configuration, Workload};
pub use plan::{Stack, Transport};
pub use pool::{Summary, run, task_of};
pub(crate) use run::is_one_group;
pub use run::{
    Outcome, Stats, packing_changes_nothing, replay, replay_selected, run_configuration, run_seed,
};

pub use shrink::{Selection, Shrunk, shrink};

use std::fmt;
use std::str::FromStr;

/// What the network and the nodes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Nothing: a quiet local network, no faults. Nobody may be suspected.
    Lan,
    /// 5 % of packets lost, 5 % reordered, 2 % duplicated.
    Lossy,
    /// Nodes are killed, leave and come back all the time.
    Churn,
    /// The network splits and heals, also in one direction only.
    Partition,
    /// Slow and frozen nodes, applications that consume slowly or not at all.
    Slow,
    /// Everybody starts at the same moment.
    ColdStart,
    /// All of the above together.
    Mixed,
    /// For long times some nodes hear others that do not hear them, while nodes come and go.
    OneWay,
    /// Now and then the network carries nothing at all, for up to ten seconds.
    Burst,
    /// Processes are stopped, or their applications read nothing, for shorter and longer than failure
    /// detection takes.
    Frozen,
    /// For long times only one node is reached by all others, which do not reach each other.
    Star,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 11] = [
        Profile::Lan,
        Profile::Lossy,
        Profile::Churn,
        Profile::Partition,
        Profile::Slow,
        Profile::ColdStart,
        Profile::Mixed,
        Profile::OneWay,
        Profile::Burst,
        Profile::Frozen,
        Profile::Star,
    ];

    /// The profiles that a list of names stands for, separated by commas. `sends` is one name for
    /// those that are run for flow control, synchronous sends, stability and tail repair.
    ///
    /// # Errors
    /// If one of the names is none.
    pub fn listed(names: &str) -> Result<Vec<Profile>, String> {
        match names {
            "sends" => Ok(vec![
                Profile::Lossy,
                Profile::Burst,
                Profile::Slow,
                Profile::Frozen,
                Profile::Churn,
                Profile::Star,
            ]),
            names => names.split(',').map(str::parse).collect(),
        }
    }

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Lan => "lan",
            Profile::Lossy => "lossy",
            Profile::Churn => "churn",
            Profile::Partition => "partition",
            Profile::Slow => "slow",
            Profile::ColdStart => "coldstart",
            Profile::Mixed => "mixed",
            Profile::OneWay => "oneway",
            Profile::Burst => "burst",
            Profile::Frozen => "frozen",
            Profile::Star => "star",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Profile::ALL.into_iter().find(|p| p.name() == s).ok_or_else(|| {
            let names: Vec<&str> = Profile::ALL.iter().map(|p| p.name()).collect();
            format!("no profile {s:?}; there are {}", names.join(", "))
        })
    }
}

/// What a swarm is asked to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The profile.
    pub profile: Profile,
    /// Nodes that run at once.
    pub members: usize,
    /// The stack they run.
    pub stack: Stack,
    /// Applications wait for many of their messages to be acknowledged, at all levels, and flow
    /// control is set in unusual ways.
    pub sends: bool,
    /// The stack has PRIMARY, with `keep_majority`.
    pub primary: bool,
    /// The members have `GMS.view_synchrony`.
    pub vsync: bool,
    /// The stack has SEQUENCER.
    pub order: bool,
    /// Applications call methods of each other.
    pub calls: bool,
    /// The stack has COUNTER and PRIMARY, and applications use counters.
    pub counters: bool,
    /// Nodes begin with the state of another one, and members ask for states.
    pub states: bool,
    /// The stack has LOCK and PRIMARY, and applications use locks.
    pub locks: bool,
    /// A deliberately wrong protocol, by name (feature `mutants`).
    pub mutant: Option<String>,
}

impl Task {
    /// This many nodes under this profile.
    #[must_use]
    pub fn new(profile: Profile, members: usize) -> Self {
        Self {
            profile,
            members,
            stack: Stack::default(),
            sends: false,
            primary: false,
            vsync: false,
            order: false,
            calls: false,
            counters: false,
            states: false,
            locks: false,
            mutant: None,
        }
    }

    /// All that a swarm has: every profile as it is, and those in which it matters most with
    /// synchronous sends, with PRIMARY, with view synchrony, with total order, with calls of methods,
    /// with counters, with states, with locks, and with windows in place of credits.
    #[must_use]
    pub fn all(members: usize) -> Vec<Task> {
        let of = |profile| Task::new(profile, members);
        let sends = [Profile::Lossy, Profile::Burst, Profile::Slow, Profile::Churn, Profile::Star];
        let changes = [Profile::Churn, Profile::Partition, Profile::OneWay, Profile::Mixed];
        let calls = [Profile::Churn, Profile::Partition, Profile::Slow, Profile::Frozen];
        let states = [Profile::Churn, Profile::Partition, Profile::Slow, Profile::Mixed];
        let windows = [Profile::Lossy, Profile::Slow, Profile::Mixed];
        let plain = Profile::ALL.into_iter().map(of);
        plain
            .chain(sends.map(|p| Task { sends: true, ..of(p) }))
            .chain(changes.map(|p| Task { primary: true, ..of(p) }))
            .chain(changes.map(|p| Task { vsync: true, ..of(p) }))
            .chain(changes.map(|p| Task { order: true, ..of(p) }))
            .chain(calls.map(|p| Task { calls: true, ..of(p) }))
            .chain(changes.map(|p| Task { counters: true, ..of(p) }))
            .chain(states.map(|p| Task { states: true, ..of(p) }))
            .chain(changes.map(|p| Task { locks: true, ..of(p) }))
            .chain(windows.map(|p| Task { stack: Stack::Windows, ..of(p) }))
            .collect()
    }

    /// The command that repeats one seed of it.
    #[must_use]
    pub fn replay_command(&self, seed: u64) -> String {
        let mutant = self.mutant.as_ref().map_or_else(String::new, |m| format!(" --mutant {m}"));
        let stack = match self.stack {
            Stack::Credits => "",
            Stack::Windows => " --stack new",
        };
        let sends = if self.sends { " --sends" } else { "" };
        let primary = if self.primary { " --primary" } else { "" };
        let vsync = if self.vsync { " --vsync" } else { "" };
        let order = if self.order { " --order" } else { "" };
        let states = if self.states { " --states" } else { "" };
        let calls = if self.calls { " --calls" } else { "" };
        let counters = if self.counters { " --counters" } else { "" };
        let locks = if self.locks { " --locks" } else { "" };
        let (profile, members) = (self.profile, self.members);
        format!(
            "rgroups sim replay {seed} --profile {profile} --members {members}{stack}{sends}{primary}{vsync}{order}{calls}{counters}{states}{locks}{mutant}"
        )
    }
}

/// The name of the node with this number: A to Z, then N26 and on.
#[must_use]
pub fn node_name(n: usize) -> String {
    match u8::try_from(n) {
        Ok(n) if n < 26 => char::from(b'A' + n).to_string(),
        _ => format!("N{n}"),
    }
}

#[cfg(test)]
mod tests;
