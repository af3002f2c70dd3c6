//! Options of `request` and `serve`.

use super::{JoinArgs, duration};
use clap::{Args, ValueEnum};
use rgroups::rpc::Wait;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// The method.
    pub(crate) method: String,
    /// Its arguments: text, or int:5, long:5, double:0.5, bool:true, bytes:0aff, null:.
    pub(crate) args: Vec<String>,
    /// Call this member only, by its name, instead of all others.
    #[arg(long, value_name = "MEMBER")]
    pub(crate) to: Option<String>,
    /// Whose answers are awaited.
    #[arg(long, value_enum, default_value_t = Awaited::All)]
    pub(crate) wait: Awaited,
    /// How long the call may take.
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "TIME")]
    pub(crate) within: Duration,
    /// Wait until the view has so many members before calling.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) members: usize,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

/// Whose answers a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    /// Everybody's.
    All,
    /// The first value.
    First,
    /// The values of more than half.
    Majority,
    /// Nobody's.
    None,
}

impl From<Awaited> for Wait {
    fn from(awaited: Awaited) -> Self {
        match awaited {
            Awaited::All => Wait::All,
            Awaited::First => Wait::First,
            Awaited::Majority => Wait::Majority,
            Awaited::None => Wait::None,
        }
    }
}

/// What is done with a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MapVerb {
    /// Print the value of KEY.
    Get,
    /// Give KEY this VALUE.
    Put,
    /// Remove KEY, and print its value.
    Del,
    /// Print all entries.
    List,
    /// Print all entries, and every change until interrupted.
    Watch,
}

#[derive(Debug, Args)]
pub(crate) struct MapArgs {
    /// The cluster, which is the map.
    pub(crate) cluster: String,
    /// What to do.
    #[arg(value_enum)]
    pub(crate) verb: MapVerb,
    /// KEY, or KEY VALUE: text, or int:5, long:5, double:0.5, bool:true, bytes:0aff.
    #[arg(value_name = "KEY|VALUE")]
    pub(crate) args: Vec<String>,
    /// Without SEQUENCER, for groups of JGroups that do not have it: copies may differ if two members
    /// change one key at the same time.
    #[arg(long)]
    pub(crate) unordered: bool,
    /// How long a change may take, and the fetching of the map.
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "TIME")]
    pub(crate) within: Duration,
    /// Wait until the view has so many members.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) members: usize,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// The method.
    pub(crate) method: String,
    /// The program and its first arguments; those of the call come after them.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}
