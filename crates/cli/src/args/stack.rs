//! Arguments about stacks: which one is used, and the command `config`.

use super::{Cli, Command, StateAction};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;

/// Which stack, and what comes on top of it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StackArgs {
    /// The stack: a file (JGroups' XML, or TOML) or the name of a preset, such as udp.xml.
    #[arg(
        short,
        long,
        visible_alias = "props",
        global = true,
        env = "RGROUPS_CONFIG",
        value_name = "FILE"
    )]
    pub(crate) config: Option<String>,
    /// Define a property (`-D jgroups.bind_addr=loopback`) or set an attribute of a protocol (`-D
    /// MFC.max_credits=2M`); may be repeated.
    #[arg(short = 'D', global = true, value_name = "NAME=VALUE")]
    pub(crate) define: Vec<String>,
}

/// A host with its port, as people or as JGroups' files write it.
pub(super) fn host(text: &str) -> Result<SocketAddr, String> {
    let brackets = text.strip_suffix(']').and_then(|t| t.rsplit_once('['));
    let parsed = match brackets {
        Some((ip, port)) => format!("{ip}:{port}").parse(),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected an address with its port, such as 192.0.2.7:7800".to_owned())
}

impl Cli {
    /// Hands the global options to the command that needs them.
    pub(crate) fn spread(mut self) -> Self {
        let stack = self.global.stack.clone();
        match &mut self.command {
            Command::Up(a) => a.stack = stack,
            Command::UpMember(a) => a.stack = stack,
            Command::BenchMember(a) => a.stack = stack,
            Command::Bench(a) => {
                if let Some(team) = a.action.team() {
                    team.stack = stack;
                }
            }
            Command::Chat(a) => a.join.stack = stack,
            Command::Send(a) => a.join.stack = stack,
            Command::Recv(a) => a.join.stack = stack,
            Command::Request(a) => a.join.stack = stack,
            Command::Serve(a) => a.join.stack = stack,
            Command::Map(a) => a.join.stack = stack,
            Command::View(a) => a.join.stack = stack,
            Command::Counter(a) => a.shared.join.stack = stack,
            Command::Doctor(a) => a.stack = stack,
            Command::State(a) => match &mut a.action {
                StateAction::Get(a) => a.join.stack = stack,
                StateAction::Put(a) => a.join.stack = stack,
            },
            Command::Config(_)
            | Command::UpCtl(_)
            | Command::Decode(_)
            | Command::Sim(_)
            | Command::Probe(_)
            | Command::Completions { .. }
            | Command::Man { .. }
            | Command::Version => {}
        }
        self
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Say everything that is wrong or doubtful about a file; exits with 3 if it cannot be used.
    Check {
        /// The file, or the name of a preset; default: the one given with --config.
        file: Option<String>,
    },
    /// Effective values, where they come from and what they mean.
    Explain {
        /// PROTOCOL or PROTOCOL.ATTR; default: everything in the stack.
        what: Option<String>,
    },
    /// The stack that is in effect, without what are defaults.
    Show {
        /// In which form.
        #[arg(long, value_enum, default_value_t = StackForm::Xml)]
        to: StackForm,
    },
    /// The same stack in the other form; files that it includes are put in their place.
    Convert {
        /// The file, or the name of a preset.
        file: String,
        /// Into which form.
        #[arg(long, value_enum)]
        to: StackForm,
    },
    /// In what two stacks differ; exits with 6 if members that use them would not work together.
    Diff {
        /// The one.
        a: String,
        /// The other.
        b: String,
    },
    /// The protocols that exist here.
    Protocols,
    /// The stacks that are built in.
    Presets,
}

/// The forms of stack files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackForm {
    /// JGroups' XML.
    Xml,
    /// TOML with the same names.
    Toml,
}
