//! The arguments of `bench`.

use super::{StackArgs, Transport, duration};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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

#[derive(Clone, Debug, Args)]
pub(crate) struct McastArgs {
    /// How many members.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub(crate) nodes: u8,
    /// How many of them send; default: all.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) senders: Option<u8>,
    /// Bytes of a message, at least 16 (64, 1k, 60k; k is 1000).
    #[arg(long, value_parser = size, default_value = "1k", value_name = "BYTES")]
    pub(crate) size: usize,
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
    /// The transport.
    #[arg(long, value_enum, default_value_t = Transport::Udp, env = "RGROUPS_TRANSPORT")]
    pub(crate) transport: Transport,
    /// Give up a round that makes no progress for this time.
    #[arg(long, value_parser = duration, default_value = "20s", value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// A member of a group.
    Member,
    /// Bare sockets.
    Floor,
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
