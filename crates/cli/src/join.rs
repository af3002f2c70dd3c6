//! From command-line options to a connected channel.

use crate::args::{JoinArgs, StackArgs, StateProtocol, Transport};
use crate::failure::Failure;
use crate::output;
use rgroups::{Channel, Config, ConfigLoader, ConnectError, Diagnose, Events};
use std::net::SocketAddr;
use std::path::Path;

/// The file, or else the preset of the transport, with the user's settings.
pub(crate) fn config(
    transport: Transport,
    hosts: &[SocketAddr],
    stack: &StackArgs,
) -> Result<Config, Failure> {
    let loader = loader(stack)?;
    let Some(file) = &stack.config else {
        return loader.apply(preset(transport, hosts)?).map_err(|e| Failure::config_error(&e));
    };
    if file.ends_with(".xml") && !Path::new(file).exists() {
        let name = output::escaped(file);
        tracing::warn!("there is no file {name} here: taking the preset of that name");
    }
    let config = loader.load(file).map_err(|e| Failure::config_error(&e))?;
    if hosts.is_empty() || !config.protocols().contains(&"TCPPING") {
        return Ok(config);
    }
    let list: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let loader = loader.set("TCPPING", "initial_hosts", &list.join(","));
    loader.load(file).map_err(|e| Failure::config_error(&e))
}

/// What `-D` says: a property, or an attribute if there is a protocol in capitals in front of it.
pub(crate) fn loader(stack: &StackArgs) -> Result<ConfigLoader, Failure> {
    let mut loader = ConfigLoader::new();
    for d in &stack.define {
        let Some((name, value)) = d.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Failure::usage(format!("-D {d:?} is not of the form NAME=VALUE"))
                .hint("for example: -D MFC.max_credits=2M or -D jgroups.bind_addr=loopback"));
        };
        let capitals =
            |p: &str| p.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        loader = match name.split_once('.') {
            Some((protocol, attribute)) if capitals(protocol) => {
                loader.set(protocol, attribute, value)
            }
            Some(_) | None => loader.define(name, value),
        };
    }
    Ok(loader)
}

fn preset(transport: Transport, hosts: &[SocketAddr]) -> Result<Config, Failure> {
    match transport {
        Transport::Udp => Ok(Config::udp()),
        // Without a word on where the others are, they are on this machine. Whoever binds elsewhere
        // says so with -D, or in the environment.
        Transport::Tcp if hosts.is_empty() => {
            let here = SocketAddr::from(([127, 0, 0, 1], 7800));
            let config = Config::tcp([here]);
            match std::env::var_os("RGROUPS_BIND_ADDR") {
                Some(_) => Ok(config),
                None => config
                    .set("TCP", "bind_addr", "127.0.0.1")
                    .map_err(|e| Failure::config_error(&e)),
            }
        }
        Transport::Tcp => Ok(Config::tcp(hosts.iter().copied())),
        Transport::Inproc => Ok(Config::in_process()),
    }
}

/// Joins `cluster`.
pub(crate) async fn join(cluster: &str, a: &JoinArgs) -> Result<(Channel, Events), Failure> {
    join_for_state(cluster, a, None).await
}

/// Joins `cluster`, with this protocol on top unless the stack has it.
pub(crate) async fn join_on_top(
    cluster: &str,
    a: &JoinArgs,
    protocol: &str,
) -> Result<(Channel, Events), Failure> {
    let mut config = config(a.transport, &a.hosts, &a.stack)?;
    if !config.protocols().contains(&protocol) {
        config = config.on_top(protocol).map_err(|e| Failure::config_error(&e))?;
    }
    join_with(cluster, a, config).await
}

/// Joins `cluster`, with this protocol for states in the place of the stack's own.
pub(crate) async fn join_for_state(
    cluster: &str,
    a: &JoinArgs,
    protocol: Option<StateProtocol>,
) -> Result<(Channel, Events), Failure> {
    let mut config = config(a.transport, &a.hosts, &a.stack)?;
    if let Some(protocol) = protocol {
        let name = match protocol {
            StateProtocol::State => "STATE",
            StateProtocol::StateSock => "STATE_SOCK",
            StateProtocol::StateTransfer => "STATE_TRANSFER",
        };
        config = config.with_state_protocol(name).map_err(|e| Failure::config_error(&e))?;
    }
    join_with(cluster, a, config).await
}

async fn join_with(
    cluster: &str,
    a: &JoinArgs,
    config: Config,
) -> Result<(Channel, Events), Failure> {
    if config.transport() == Some("SHARED_LOOPBACK") {
        return Err(Failure::usage("inproc connects members of one process only")
            .hint("use --transport udp or tcp here, or: rgroups up --transport inproc"));
    }
    let mut builder = Channel::builder(config);
    if let Some(n) = &a.name {
        builder = builder.name(n.as_str());
    }
    match tokio::time::timeout(a.timeout, builder.connect(cluster)).await {
        Ok(joined) => joined.map_err(|e| refused(cluster, &e)),
        Err(_) => {
            let what = format!("could not join {cluster:?} within {:?}", a.timeout);
            let hint = format!("rgroups doctor --cluster {cluster:?} says what is wrong");
            Err(Failure::join(what).coded("RG0301").hint(hint))
        }
    }
}

/// A failed join as a failure of the command.
pub(crate) fn refused(cluster: &str, e: &ConnectError) -> Failure {
    let what = match e {
        // It says so itself.
        ConnectError::Join { .. } => e.to_string(),
        _ => format!("could not join {cluster:?}: {e}"),
    };
    let mut f = Failure::join(what).coded(e.code());
    if let Some(h) = e.hint() {
        f = f.hint(h);
    }
    f
}
