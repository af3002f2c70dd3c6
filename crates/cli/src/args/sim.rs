//! Arguments of `sim`.

use super::duration;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) action: SimAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimAction {
    /// Run many seeds and check every invariant.
    Run {
        /// How many seeds.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        first: u64,
        #[command(flatten)]
        shape: SimShape,
        /// Worker threads; default: one per processor.
        #[arg(long)]
        threads: Option<usize>,
        /// Print what the seeds went through: what happened to messages of each kind, how waits ended,
        /// which changes of the membership met. What none of them went through is always told.
        #[arg(long)]
        coverage: bool,
    },
    /// Run one seed and print its transcript.
    Replay {
        /// The seed.
        seed: u64,
        #[command(flatten)]
        shape: SimShape,
        /// Print only the hash of the transcript.
        #[arg(long)]
        hash: bool,
        /// Only these of its events, as `sim shrink` names them.
        #[arg(long, value_delimiter = ',', value_name = "N")]
        only: Option<Vec<usize>>,
        /// Without loss, duplicates, reordering and wrong clocks.
        #[arg(long)]
        quiet: bool,
    },
    /// Make a failing seed small: which of its events are needed for the failure.
    ///
    /// Prints them as a script, and the command that replays it.
    ///
    /// Example: rgroups sim shrink 265 --profile mixed --members 5
    Shrink {
        /// The seed.
        seed: u64,
        #[command(flatten)]
        shape: SimShape,
        /// How long to try.
        #[arg(long, value_parser = duration, default_value = "60s", value_name = "TIME")]
        within: Duration,
    },
    /// How much time, how many messages and how many bytes large groups take to form, to lose a
    /// member and to merge, in virtual time.
    ///
    /// Example: rgroups sim scale --members 300
    Scale {
        /// How many members; with commas.
        #[arg(long, default_value = "50,100", value_delimiter = ',', value_name = "N")]
        members: Vec<usize>,
        /// The transport: udp or tcp.
        #[arg(long, default_value = "udp")]
        transport: String,
        /// Print what was sent of each kind.
        #[arg(long)]
        kinds: bool,
    },
    /// Run every order of deliveries, losses and deaths of a small situation.
    ///
    /// Example: rgroups sim explore tail-repair
    Explore {
        /// Which situation: `tail-repair` (three members survive a fourth).
        situation: String,
        /// Packets lost in one run.
        #[arg(long, default_value_t = 2)]
        losses: u8,
        /// Further members that die in one run.
        #[arg(long, default_value_t = 1)]
        crashes: u8,
        /// How often in one run timers fire while packets are on their way.
        #[arg(long, default_value_t = 0)]
        late: u8,
        /// Stop after so many states of each case.
        #[arg(long)]
        at_most: Option<u64>,
        /// Only this case: a `member` is gone, or the `coordinator`.
        #[arg(long)]
        gone: Option<String>,
    },
    /// Run a scenario script and compare it with its expected transcript.
    Script {
        /// The script.
        file: PathBuf,
    },
}

/// What the simulated runs look like.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimShape {
    /// The fault profile: lan, lossy, burst, slow, frozen, churn, partition, star, oneway, coldstart
    /// or mixed; `all` stands for all of them and their variants. For `run` also several, separated by
    /// commas, of which each seed takes the next; `sends` stands for lossy, burst, slow, frozen, churn
    /// and star with `--sends`.
    #[arg(long, default_value = "lossy")]
    pub(crate) profile: String,
    /// Applications wait for many of their messages, at all levels, and credit is set in unusual ways.
    #[arg(long)]
    pub(crate) sends: bool,
    /// Members agree which views are primary (docs/partitions.md).
    #[arg(long)]
    pub(crate) primary: bool,
    /// Views are installed by all members together (docs/view-synchrony.md).
    #[arg(long)]
    pub(crate) vsync: bool,
    /// Multicasts are in total order (docs/total-order.md).
    #[arg(long)]
    pub(crate) order: bool,
    /// Applications call methods of each other (docs/rpc.md).
    #[arg(long)]
    pub(crate) calls: bool,
    /// Members have COUNTER and PRIMARY, and use counters.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Nodes begin with the state of another one, and members ask for states (docs/state-transfer.md).
    #[arg(long)]
    pub(crate) states: bool,
    /// Members have LOCK and PRIMARY, and use locks (docs/locks.md).
    #[arg(long)]
    pub(crate) locks: bool,
    /// Members at the start.
    #[arg(long, default_value_t = 5)]
    pub(crate) members: usize,
    /// The stack: `default`, or `new` (NAKACK4 and UNICAST4).
    #[arg(long, default_value = "default")]
    pub(crate) stack: String,
    /// Switch a deliberately wrong protocol on.
    #[cfg(feature = "mutants")]
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
}
