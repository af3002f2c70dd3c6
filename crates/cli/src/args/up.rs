//! The arguments of `up` and `up-ctl`.

use super::{StackArgs, Transport, duration};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// How many members, named A, B, C …
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=26))]
    pub(crate) nodes: u8,
    /// The transport.
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub(crate) transport: Transport,
    /// Cluster name.
    #[arg(long, default_value = "demo")]
    pub(crate) cluster: String,
    /// Stop by itself after this time (20s, 2m; a bare number is seconds).
    #[arg(long = "for", value_parser = duration, value_name = "TIME")]
    pub(crate) duration: Option<Duration>,
    /// Every member multicasts one message per this time; 0 = none.
    #[arg(long, value_parser = duration, default_value = "200ms", value_name = "TIME")]
    pub(crate) every: Duration,
    /// Name of the control socket for `up-ctl`, when several clusters run.
    #[arg(long, default_value = "default")]
    pub(crate) control: String,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UpCtlArgs {
    /// Name of the control socket, as given to `up`.
    #[arg(long, default_value = "default", global = true)]
    pub(crate) control: String,
    #[command(subcommand)]
    pub(crate) action: UpAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UpAction {
    /// Kill a member without letting it leave (signal 9).
    Kill {
        /// The member.
        member: String,
    },
    /// Let a member leave properly.
    Leave {
        /// The member.
        member: String,
    },
    /// Let a member stand still for a time, as if its host were starved (SIGSTOP, then SIGCONT).
    Pause {
        /// The member.
        member: String,
        /// For how long. A second `pause` counts anew; `0s` lets it go on.
        #[arg(value_parser = duration, default_value = "5s", value_name = "TIME")]
        time: Duration,
    },
    /// Start another member, or one that was killed, anew.
    Add {
        /// Its name; default: the next letter.
        member: Option<String>,
    },
    /// Cut the network between groups, e.g. `partition A,B / C`.
    Partition {
        /// Groups of members, separated by `/`.
        #[arg(required = true)]
        groups: Vec<String>,
    },
    /// Undo all partitions.
    Heal,
    /// Who is there, and which view each one has.
    Status,
    /// Stop the cluster.
    Stop,
}

#[derive(Debug, Args)]
pub(crate) struct UpMemberArgs {
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) cluster: String,
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
    #[arg(long, value_delimiter = ',')]
    pub(crate) hosts: Vec<SocketAddr>,
    #[arg(long, value_parser = duration)]
    pub(crate) every: Duration,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}
