//! Options of `counter`.

use super::{JoinArgs, duration};
use clap::{Args, ValueEnum};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct CounterArgs {
    /// Which counter.
    #[arg(value_name = "NAME")]
    pub(crate) counter: String,
    /// What is done with it.
    #[arg(value_enum)]
    pub(crate) action: CounterAction,
    /// Numbers that this needs.
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub(crate) numbers: Vec<i64>,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// What it is if nobody has used it yet.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
    pub(crate) initial: i64,
    /// How long the coordinator may take to answer.
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "TIME")]
    pub(crate) within: Duration,
    /// How often `watch` looks.
    #[arg(long, value_parser = duration, default_value = "1s", value_name = "TIME")]
    pub(crate) every: Duration,
}

/// Whose members share it.
#[derive(Debug, Args)]
pub(crate) struct SharedArgs {
    /// The cluster whose members share it. It is gone when the last of them is.
    #[arg(long, default_value = "shared")]
    pub(crate) cluster: String,
    /// Wait until the view has so many members before asking.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) members: usize,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

/// What is done with a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CounterAction {
    /// Print its value.
    Get,
    /// Give it the value N.
    Set,
    /// Add N to it (default 1), and print what it is then.
    Add,
    /// Give it the second value if it has the first one. Exit code 6: it has another, which is
    /// printed.
    Cas,
    /// Print its value, and again whenever it has changed, until stopped. Keeps it alive, too.
    Watch,
    /// Delete it: who uses it next begins with the initial value.
    Delete,
}
