//! The command line.

mod bench;
mod calls;
mod objects;
mod sim;
mod stack;
mod up;

pub(crate) use bench::{
    BenchAction, BenchArgs, BenchMemberArgs, CallArgs, ChangeArgs, Level, McastArgs,
    MulticastOrder, Other, Peer, RpcArgs, TableArgs, TeamArgs,
};
pub(crate) use calls::{Awaited, MapArgs, MapVerb, RequestArgs, ServeArgs};
pub(crate) use objects::{CounterAction, CounterArgs};
pub(crate) use sim::{SimAction, SimArgs, SimShape};
pub(crate) use stack::{ConfigAction, ConfigArgs, StackArgs, StackForm};
pub(crate) use up::{UpAction, UpArgs, UpCtlArgs, UpMemberArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Reliable group communication: clusters, views, ordered multicast. Speaks JGroups 5.5.
#[derive(Debug, Parser)]
#[command(name = "rgroups", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON: one object, or one a line where the output is a stream.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour; NO_COLOR is honoured too.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// What to log on standard error, e.g. `info` or `rgroups=debug`.
    #[arg(long, global = true, env = "RGROUPS_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn apply(self) {
        match self {
            Color::Auto => {}
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster of several members on this machine and show it working.
    ///
    /// Example: rgroups up --nodes 3 --for 20s
    Up(UpArgs),
    /// Act on a cluster started with `up`: kill, partition, heal, status.
    ///
    /// Example: rgroups up-ctl partition A,B / C
    UpCtl(UpCtlArgs),
    /// Chat by lines with everybody in a cluster.
    ///
    /// Example: rgroups chat demo -n alice
    Chat(ChatArgs),
    /// Send lines, a file or generated messages to a cluster.
    ///
    /// Example: echo hello | rgroups send demo --members 2
    Send(SendArgs),
    /// Print or store what a cluster sends.
    ///
    /// Example: rgroups recv demo --count 10
    Recv(RecvArgs),
    /// Call a method of all others, or of one, and print a row a member.
    ///
    /// Exit code 5: some did not answer with a value.
    ///
    /// Example: rgroups request demo uptime --to B
    Request(RequestArgs),
    /// Answer the calls of a method with a program.
    ///
    /// Example: rgroups serve demo uptime -- uptime --pretty
    Serve(ServeArgs),
    /// Read, change or watch a map that all members of a cluster have (JGroups' ReplicatedHashMap).
    ///
    /// The map lives in its members: one must stay, such as `watch`. Exit code 5: there is no such key.
    ///
    /// Example: rgroups map demo put colour blue
    Map(MapArgs),
    /// Read or change a counter that the members of a cluster share.
    ///
    /// Example: rgroups counter tickets add 5
    Counter(CounterArgs),
    /// Fetch the state of a cluster into a file, or give a file as the state.
    ///
    /// Example: rgroups state get demo state.bin
    State(StateArgs),
    /// Show the view of a cluster.
    ///
    /// Example: rgroups view demo --follow
    View(ViewArgs),
    /// Decode a capture file (pcap, pcapng) or bytes in hex into trees.
    ///
    /// What is not decoded is listed at the end. Exit code 5: something that looks like JGroups
    /// could not be decoded.
    ///
    /// Example: tcpdump -i lo -w - | rgroups decode -
    Decode(DecodeArgs),
    /// Ask members about themselves, without joining: Java's and ours, as JGroups' probe.sh does.
    ///
    /// Members answer if `diag.enabled=true` is set in their transport.
    ///
    /// Example: rgroups probe jmx=GMS member-addrs
    Probe(ProbeArgs),
    /// Find out why members do not see each other: address, multicast, buffers, ports, who is there.
    ///
    /// Exit code 6: something does not work.
    ///
    /// Example: rgroups doctor --cluster demo
    Doctor(DoctorArgs),
    /// Measure how fast it is on this machine.
    ///
    /// Example: rgroups bench mcast --nodes 4 --time 5s --floor
    Bench(BenchArgs),
    /// Run whole clusters in a simulator, from one seed.
    ///
    /// Example: rgroups sim run --seeds 100 --profile lossy --members 5
    Sim(SimArgs),
    /// Check, explain and convert stack files.
    ///
    /// Example: rgroups config check udp.xml
    Config(ConfigArgs),
    /// The version, and the JGroups version spoken.
    Version,
    /// Print the completions of a shell.
    ///
    /// Example: rgroups completions bash > ~/.local/share/bash-completion/completions/rgroups
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    ///
    /// Example: rgroups man ~/.local/share/man/man1
    Man {
        /// The directory; it must exist.
        dir: PathBuf,
    },
    /// One member of `up`.
    #[command(hide = true)]
    UpMember(UpMemberArgs),
    /// One process of `bench`.
    #[command(hide = true)]
    BenchMember(BenchMemberArgs),
}

/// How to join a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    /// The transport preset.
    #[arg(long, value_enum, default_value_t = Transport::Udp, env = "RGROUPS_TRANSPORT")]
    pub(crate) transport: Transport,
    /// Logical name of this member; default: host name and a number.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// TCP: where to look for members, such as 192.0.2.7:7800 or 192.0.2.7[7800]; with commas;
    /// default 127.0.0.1:7800.
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = stack::host)]
    pub(crate) hosts: Vec<SocketAddr>,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
    /// Give up joining after this time. It does not end a wait for messages.
    #[arg(long, value_parser = duration, default_value = "60s", value_name = "TIME")]
    pub(crate) timeout: Duration,
}

/// The transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// UDP with IP multicast.
    Udp,
    /// TCP, one connection per pair.
    Tcp,
    /// All members in one process.
    Inproc,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Inproc => "inproc",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The cluster.
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    pub(crate) action: StateAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateAction {
    /// Ask a member for the state and write it to a file.
    Get(StateGetArgs),
    /// Give a file as the state to members that ask, until stopped.
    Put(StatePutArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StateGetArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// Where to; `-` is standard output.
    pub(crate) file: PathBuf,
    /// Ask this member, by its name; default: the members in turn until one gives it.
    #[arg(long, value_name = "MEMBER")]
    pub(crate) from: Option<String>,
    /// How long the transfer may take.
    #[arg(long, value_parser = duration, default_value = "60s", value_name = "TIME")]
    pub(crate) within: Duration,
    /// The protocol for states, in the place of the stack's own: STATE and STATE_SOCK take files of
    /// any size, STATE_TRANSFER at most 2 GB in memory. All members need the same.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<StateProtocol>,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

/// The protocols of state transfer.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StateProtocol {
    /// In parts, under the cluster's own flow control.
    #[value(name = "STATE", alias = "state")]
    State,
    /// Over a connection of its own.
    #[value(name = "STATE_SOCK", alias = "state_sock")]
    StateSock,
    /// In one message.
    #[value(name = "STATE_TRANSFER", alias = "state_transfer")]
    StateTransfer,
}

#[derive(Debug, Args)]
pub(crate) struct StatePutArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// The state.
    pub(crate) file: PathBuf,
    /// Stop after giving it so many times.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// The protocol for states, in the place of the stack's own: STATE and STATE_SOCK take files of
    /// any size, STATE_TRANSFER at most 2 GB in memory. All members need the same.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<StateProtocol>,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// Print each change until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// Send this text as one message, instead of lines from standard input.
    #[arg(last = true)]
    pub(crate) text: Vec<String>,
    /// Send this file as one message.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// Send so many generated messages of `--size` bytes.
    #[arg(long, value_name = "N", conflicts_with_all = ["text", "file"])]
    pub(crate) count: Option<u64>,
    /// Size of generated messages in bytes.
    #[arg(long, default_value_t = 100, requires = "count")]
    pub(crate) size: usize,
    /// Send to this member only, by its name.
    #[arg(long, value_name = "MEMBER")]
    pub(crate) to: Option<String>,
    /// Wait until the view has so many members before sending.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) members: usize,
    /// How long to wait at the end until everybody has consumed everything.
    #[arg(long, value_parser = duration, default_value = "120s", value_name = "TIME")]
    pub(crate) confirm: Duration,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RecvArgs {
    /// The cluster.
    pub(crate) cluster: String,
    /// Stop after so many messages.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Stop after this time (20s, 2m; a bare number is seconds).
    #[arg(long = "for", value_parser = duration, value_name = "TIME")]
    pub(crate) duration: Option<Duration>,
    /// Write the payload of the messages to this file, one after the other.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print no messages, only the summary (count, bytes, SHA-256 over all payloads in order).
    #[arg(long)]
    pub(crate) summary: bool,
    /// Show messages that this member sent itself, too.
    #[arg(long)]
    pub(crate) own: bool,
    /// Take at most so many bytes a second: a slow reader, whose pace its senders keep.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    #[command(flatten)]
    pub(crate) join: JoinArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// A capture file, or one packet in hex (white space is ignored); `-` reads either from
    /// standard input.
    #[arg(required_unless_present = "wireshark", value_name = "FILE|-|HEX")]
    pub(crate) input: Vec<String>,
    /// Hex: the bytes are a TCP stream (handshake, length-prefixed frames), not one packet.
    #[arg(long)]
    pub(crate) stream: bool,
    /// Print a dissector for Wireshark in Lua. Its first lines say how to install it.
    #[arg(long, conflicts_with_all = ["input", "stream"])]
    pub(crate) wireshark: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// What to ask: `keys` lists what a member understands; `jmx=PROTOCOL[.ATTRIBUTE]`, `ops`,
    /// `op=PROTOCOL.OPERATION`, `member-addrs`, `dump-digest`, `print-protocols` and others.
    /// Without any: name, view and version.
    #[arg(value_name = "KEY[=VALUE]")]
    pub(crate) keys: Vec<String>,
    /// Ask here: a multicast group (default 224.0.75.75), or a host, which is asked over TCP; may
    /// be repeated.
    #[arg(long, value_name = "IP")]
    pub(crate) addr: Vec<IpAddr>,
    /// The port; over TCP the first one of the range.
    #[arg(long, default_value_t = 7500)]
    pub(crate) port: u16,
    /// Over TCP: how many further ports are asked.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) port_range: u16,
    /// Ask over TCP: this host, or those of `--addr`, and all that their members name.
    #[arg(long)]
    pub(crate) tcp: bool,
    /// Ask on the interface with this address only; default: on all.
    #[arg(long, value_name = "IP")]
    pub(crate) bind: Option<Ipv4Addr>,
    /// The passcode that members ask for.
    #[arg(long, env = "RGROUPS_PASSCODE", hide_env_values = true)]
    pub(crate) passcode: Option<String>,
    /// Only members of clusters whose name fits; `*` stands for anything.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cluster: Option<String>,
    /// Show only answers that contain this text.
    #[arg(long = "match", value_name = "TEXT")]
    pub(crate) matching: Option<String>,
    /// How long to wait for answers.
    #[arg(long, value_parser = duration, default_value = "1s", value_name = "TIME")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The cluster whose members are asked for; without it the doctor only listens.
    #[arg(long)]
    pub(crate) cluster: Option<String>,
    /// How long to listen to the group.
    #[arg(long, value_parser = duration, default_value = "3s", value_name = "TIME")]
    pub(crate) listen: Duration,
    /// Write what was found, and the configuration, to a file: for a bug report.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The transport preset.
    #[arg(long, value_enum, default_value_t = Transport::Udp, env = "RGROUPS_TRANSPORT")]
    pub(crate) transport: Transport,
    /// TCP: where to look for members, such as 192.0.2.7:7800 or 192.0.2.7[7800]; with commas;
    /// default 127.0.0.1:7800.
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = stack::host)]
    pub(crate) hosts: Vec<SocketAddr>,
    /// Filled in from the global options.
    #[arg(skip)]
    pub(crate) stack: StackArgs,
}

/// A time such as `500ms`, `20s`, `2m`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let t = text.trim();
    let (digits, factor) = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
        .into_iter()
        .find_map(|(suffix, f)| t.strip_suffix(suffix).map(|d| (d, f)))
        .unwrap_or((t, 1.0));
    digits
        .parse::<f64>()
        .ok()
        .filter(|n| *n >= 0.0 && n.is_finite())
        .map(|n| Duration::from_secs_f64(n * factor))
        .ok_or_else(|| format!("{text:?} is not a time; write 500ms, 20s or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("soon").is_err());
    }
}
