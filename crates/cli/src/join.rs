//! From command-line options to a connected channel.

use crate::args::{JoinArgs, Transport};
use crate::failure::Failure;
use rgroups::{Channel, Config, ConnectError, Diagnose, Events};
use std::net::SocketAddr;

/// The preset with the user's settings.
pub(crate) fn config(
    transport: Transport,
    hosts: &[SocketAddr],
    define: &[String],
) -> Result<Config, Failure> {
    let mut config = match transport {
        Transport::Udp => Config::udp(),
        // Without a word on where the others are, they are on this machine. Whoever binds elsewhere
        // says so below, or in the environment.
        Transport::Tcp if hosts.is_empty() => {
            let here = SocketAddr::from(([127, 0, 0, 1], 7800));
            let config = Config::tcp([here]);
            match std::env::var_os("RGROUPS_BIND_ADDR") {
                Some(_) => config,
                None => config
                    .set("TCP", "bind_addr", "127.0.0.1")
                    .map_err(|e| Failure::config(e.to_string()).coded(e.code()))?,
            }
        }
        Transport::Tcp => Config::tcp(hosts.iter().copied()),
        Transport::Inproc => Config::in_process(),
    };
    for d in define {
        let parts = d.split_once('=').and_then(|(k, v)| Some((k.split_once('.')?, v)));
        let Some(((protocol, attr), value)) = parts else {
            return Err(Failure::usage(format!("-D {d:?} is not of the form PROTOCOL.ATTR=VALUE"))
                .hint("for example: -D MFC.max_credits=2M"));
        };
        config = config
            .set(protocol, attr, value)
            .map_err(|e| Failure::config(e.to_string()).coded(e.code()))?;
    }
    Ok(config)
}

/// Joins `cluster`.
pub(crate) async fn join(cluster: &str, a: &JoinArgs) -> Result<(Channel, Events), Failure> {
    if a.transport == Transport::Inproc {
        return Err(Failure::usage("inproc connects members of one process only")
            .hint("use --transport udp or tcp here, or: rgroups up --transport inproc"));
    }
    let mut builder = Channel::builder(config(a.transport, &a.hosts, &a.define)?);
    if let Some(n) = &a.name {
        builder = builder.name(n.as_str());
    }
    match tokio::time::timeout(a.timeout, builder.connect(cluster)).await {
        Ok(joined) => joined.map_err(|e| refused(cluster, &e)),
        Err(_) => Err(Failure::join(format!("could not join {cluster:?} within {:?}", a.timeout))),
    }
}

/// A failed join as a failure of the command.
pub(crate) fn refused(cluster: &str, e: &ConnectError) -> Failure {
    let mut f = Failure::join(format!("could not join {cluster:?}: {e}")).coded(e.code());
    if let Some(h) = e.hint() {
        f = f.hint(h);
    }
    f
}
