//! The arguments of `bench`.

use super::{StackArgs, Transport, duration};
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

impl BenchAction {
    /// The processes that it starts.
    pub(super) fn team(&mut self) -> Option<&mut TeamArgs> {
        match self {
            BenchAction::Mcast(a) | BenchAction::Udp(a) | BenchAction::Tcp(a) => Some(&mut a.team),
            BenchAction::Rpc(a) => Some(&mut a.team),
            BenchAction::Rtt(calls) | BenchAction::Rsvp { calls, .. } => Some(&mut calls.team),
            BenchAction::Join(a) | BenchAction::Crash(a) => Some(&mut a.team),
            BenchAction::Compare { .. } | BenchAction::Table(_) | BenchAction::Overload(_) => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) action: BenchAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchAction {
    /// Members in processes of their own multicast as fast as flow control admits.
    ///
    /// A round ends when every member has received everything of every sender; order and
    /// completeness are checked.
    ///
    /// Example: rgroups bench mcast --nodes 4 --size 1k --time 5s --floor
    Mcast(McastArgs),
    /// The floor over UDP: bare sockets multicast the same load, without any protocol.
    ///
    /// Example: rgroups bench udp --nodes 4 --size 1k --time 5s
    Udp(McastArgs),
    /// The floor over TCP: bare sockets send the same load to each other, without any protocol.
    ///
    /// Example: rgroups bench tcp --nodes 4 --size 1k --time 5s
    Tcp(McastArgs),
    /// All loads with a target, one after the other: what is asked, what bare sockets do, and what was
    /// reached, as a table.
    ///
    /// Example: rgroups bench table --rounds 5 --peer java
    Table(TableArgs),
    /// Loads that must not collapse: floods of small messages, a slow receiver, loss, and groups larger
    /// than the machine, as a table.
    ///
    /// Example: rgroups bench overload
    Overload(TableArgs),
    /// How long a message to one member and its answer take.
    ///
    /// One member sends, waits for the answer, and sends again.
    ///
    /// Example: rgroups bench rtt --size 64 --transport tcp
    Rtt(CallArgs),
    /// How long a synchronous multicast takes: until all members have acknowledged it.
    ///
    /// Example: rgroups bench rsvp --nodes 4 --level deliver
    Rsvp {
        #[command(flatten)]
        calls: CallArgs,
        /// When a member acknowledges.
        #[arg(long, value_enum, default_value_t = Level::Deliver)]
        level: Level,
    },
    /// Members call methods of each other: a mix of reads and writes, as in UPerf of JGroups.
    ///
    /// Every caller makes its next call when the one before it has ended. A read calls one member, all
    /// in turn; a write calls the members that follow the caller in the view.
    ///
    /// Example: rgroups bench rpc --nodes 4 --callers 100 --reads 80
    Rpc(RpcArgs),
    /// How long a member takes to join, and the others to have it in their view.
    ///
    /// In every round the youngest member is killed, and another one joins.
    ///
    /// Example: rgroups bench join --nodes 4 --transport tcp
    Join(ChangeArgs),
    /// From `kill -9` of a member to the view without it, at every other member.
    ///
    /// In every round a member is killed, and another one joins.
    ///
    /// Example: rgroups bench crash --nodes 4 --oldest
    Crash(ChangeArgs),
    /// Two results side by side; exit code 6: the second is worse by more than the tolerance.
    ///
    /// Example: rgroups bench compare before.json after.json
    Compare {
        /// A result written with --json.
        before: PathBuf,
        /// Another one of the same load.
        after: PathBuf,
        /// By how much it may be worse, in percent.
        #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
        tolerance: f64,
    },
}

/// The processes of a measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct TeamArgs {
    /// How many members.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub(crate) nodes: u8,
    /// The transport.
    #[arg(long, value_enum, default_value_t = Transport::Udp, env = "RGROUPS_TRANSPORT")]
    pub(crate) transport: Transport,
    /// Give up when there is no progress for this time.
    #[arg(long, value_parser = duration, default_value = "20s", value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Every member loses this share of the messages that it receives, at random (0 to 0.5).
    #[arg(long, value_parser = share, default_value = "0", value_name = "SHARE")]
    pub(crate) loss: f64,
    /// The order of multicasts, where it can be chosen.
    #[arg(skip)]
    pub(crate) order: MulticastOrder,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}

/// Orders of multicasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MulticastOrder {
    /// Those of one sender in the order of sending.
    #[default]
    Fifo,
    /// All in one order, the same at every member; it is checked.
    Total,
}

impl MulticastOrder {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MulticastOrder::Fifo => "fifo",
            MulticastOrder::Total => "total",
        }
    }
}

/// Calls: each begins when the one before it is answered.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) team: TeamArgs,
    /// Bytes of a message, at least 16 (64, 1k, 60k; k is 1000).
    #[arg(long, value_parser = size, default_value = "64", value_name = "BYTES")]
    pub(crate) size: usize,
    /// How many calls a round has.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) count: u64,
    /// How many rounds count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) rounds: u8,
    /// So many calls before them do not count.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) warm_up: u64,
}

/// Calls of methods.
#[derive(Clone, Debug, Args)]
pub(crate) struct RpcArgs {
    #[command(flatten)]
    pub(crate) team: TeamArgs,
    /// How many of the members call; default: all.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64), value_name = "N")]
    pub(crate) clients: Option<u8>,
    /// Callers of a member, which call at the same time.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) callers: u16,
    /// The share of calls that read, in percent: one member is called, and its answer has the payload.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub(crate) reads: u8,
    /// How many members a write calls, with the payload; all answer.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=63), value_name = "N")]
    pub(crate) copies: u8,
    /// Bytes of the payload, at least 16 (64, 1k, 60k; k is 1000).
    #[arg(long, value_parser = size, default_value = "1k", value_name = "BYTES")]
    pub(crate) size: usize,
    /// Calls need not be in the order of other messages.
    #[arg(long)]
    pub(crate) oob: bool,
    /// How long a round takes.
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "TIME")]
    pub(crate) time: Duration,
    /// How many rounds count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) rounds: u8,
    /// A round before them that does not count takes this long; 0 = none.
    #[arg(long, value_parser = duration, default_value = "1s", value_name = "TIME")]
    pub(crate) warm_up: Duration,
}

/// Members that come and go.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) team: TeamArgs,
    /// How many rounds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// The oldest member goes, which is the coordinator, and not the youngest.
    #[arg(long)]
    pub(crate) oldest: bool,
}

/// The levels of a synchronous send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The member has received it.
    Receive,
    /// The member has it and everything before it.
    Contiguous,
    /// The application of the member has consumed it.
    Deliver,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct McastArgs {
    #[command(flatten)]
    pub(crate) team: TeamArgs,
    /// How many of them send; default: all.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) senders: Option<u8>,
    /// Bytes of a message, at least 16 (64, 1k, 60k; k is 1000).
    #[arg(long, value_parser = size, default_value = "1k", value_name = "BYTES")]
    pub(crate) size: usize,
    /// The order in which messages are received; `total` puts SEQUENCER into the stack, above MFC.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) order: MulticastOrder,
    /// How long every sender sends.
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "TIME")]
    pub(crate) time: Duration,
    /// Every sender sends so many messages, however long that takes, instead of for a time.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// How many rounds count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) rounds: u8,
    /// A round before them that does not count takes this long; 0 = none.
    #[arg(long, value_parser = duration, default_value = "1s", value_name = "TIME")]
    pub(crate) warm_up: Duration,
    /// After every round the same load over bare sockets, without any protocol: what the machine can do.
    #[arg(long)]
    pub(crate) floor: bool,
    /// After every round the same load over warm members of this toolkit. `java` needs the class path of
    /// JGroups in RGROUPS_JGROUPS_CP, and a JDK.
    #[arg(long, value_enum, value_name = "PEER")]
    pub(crate) peer: Option<Other>,
    /// The last member pauses so long whenever it has taken what was there.
    #[arg(long, value_parser = duration, default_value = "0s", value_name = "TIME")]
    pub(crate) slow: Duration,
}

/// Whom to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Other {
    /// JGroups.
    Java,
}

/// Tables of several loads.
#[derive(Clone, Debug, Args)]
pub(crate) struct TableArgs {
    /// How long a round of a load takes.
    #[arg(long, value_parser = duration, default_value = "3s", value_name = "TIME")]
    pub(crate) time: Duration,
    /// How many rounds of each load count; the table has medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) rounds: u8,
    /// Compare with this toolkit in the same runs, where that can be done.
    #[arg(long, value_enum, value_name = "PEER")]
    pub(crate) peer: Option<Other>,
    /// Only loads whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}

/// A share of messages.
fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(s) if (0.0..=0.5).contains(&s) => Ok(s),
        _ => Err(format!("{text:?} is not a share from 0 to 0.5; write 0.01 for one in a hundred")),
    }
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// A member of a group that sends and receives rounds.
    Member,
    /// A member that calls, or answers.
    Caller,
    /// A member that calls methods, and has them.
    Invoker,
    /// A member that tells when its view changes.
    Watcher,
    /// Bare sockets.
    Floor,
    /// A member of JGroups, in Java.
    Java,
}

#[derive(Debug, Args)]
pub(crate) struct BenchMemberArgs {
    #[arg(long, value_enum)]
    pub(crate) peer: Peer,
    /// Which one, from 0.
    #[arg(long)]
    pub(crate) index: usize,
    #[arg(long)]
    pub(crate) nodes: usize,
    #[arg(long)]
    pub(crate) cluster: String,
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
    #[arg(long, value_delimiter = ',')]
    pub(crate) hosts: Vec<SocketAddr>,
    #[arg(long, default_value_t = 0.0)]
    pub(crate) loss: f64,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) order: MulticastOrder,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}

/// A number of bytes; k and M are powers of 1000, as in stack files.
fn size(text: &str) -> Result<usize, String> {
    let t = text.trim();
    let (digits, factor) = [("k", 1_000), ("K", 1_000), ("m", 1_000_000), ("M", 1_000_000)]
        .into_iter()
        .find_map(|(suffix, f)| t.strip_suffix(suffix).map(|d| (d, f)))
        .unwrap_or((t, 1));
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(factor));
    match bytes {
        Some(n) if (16..=10_000_000).contains(&n) => Ok(n),
        Some(n) => Err(format!("{n} bytes: a message has 16 bytes to 10M here")),
        None => Err(format!("{text:?} is not a size; write 64, 1k or 60k")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("64"), size("1k"), size("2M")), (Ok(64), Ok(1000), Ok(2_000_000)));
        for wrong in ["", "k", "15", "1 kib", "-1", "11M", "99999999999999999999k"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
