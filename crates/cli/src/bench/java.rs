//! Members of JGroups that take part in the same rounds: `Bench.java`, run from its source by the `java` of this
//! machine, with the stack files that come with JGroups.

use super::process::Shape;
use crate::args::{MulticastOrder, Transport};
use crate::failure::Failure;
use std::io::Write;
use std::path::PathBuf;
use tokio::process::Command;

/// Where the classes of JGroups are.
const CLASS_PATH: &str = "RGROUPS_JGROUPS_CP";
const SOURCE: &str = include_str!("java/Bench.java");
/// What one member may use; as much as it needs, and no collection for lack of memory.
const HEAP: &str = "-Xmx1g";

/// The class path, or what to do without one.
pub(super) fn class_path() -> Result<String, Failure> {
    std::env::var(CLASS_PATH).map_err(|_| {
        Failure::usage(format!("--peer java: {CLASS_PATH} is not set"))
            .hint("set it to the class path of JGroups 5.5")
    })
}

/// How member `number` is started.
pub(super) fn command(number: usize, shape: &Shape) -> Result<Command, Failure> {
    let failed = |e: std::io::Error| Failure::run(format!("cannot write Bench.java: {e}"));
    // One for each: another member may be reading its own while this one is written.
    let folder = folder().join(number.to_string());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let source = folder.join("Bench.java");
    std::fs::File::create(&source)
        .and_then(|mut f| f.write_all(SOURCE.as_bytes()))
        .map_err(failed)?;
    let mut java = Command::new("java");
    java.args([HEAP, "-Djava.net.preferIPv4Stack=true", "-Djgroups.bind_addr=127.0.0.1"]);
    java.arg("-Djava.util.logging.SimpleFormatter.format=%4$s %5$s%6$s%n");
    let port = match shape.transport {
        Transport::Udp => {
            // Apart from our own members, and from whoever else uses the file's group here.
            let group = 31_000 + std::process::id() % 10_000;
            java.arg(format!("-Djgroups.udp.mcast_port={group}"));
            0
        }
        Transport::Tcp | Transport::Inproc => {
            let at = |a: &std::net::SocketAddr| format!("127.0.0.1[{}]", a.port());
            let all: Vec<String> = shape.hosts.iter().map(at).collect();
            java.arg(format!("-Djgroups.tcpping.initial_hosts={}", all.join(",")));
            java.arg("-Djgroups.tcp.port_range=0");
            shape.hosts.get(number).map_or(0, std::net::SocketAddr::port)
        }
    };
    java.args(["-cp", &class_path()?]).arg(&source);
    java.arg(format!("{}.xml", shape.transport.name()));
    java.args([&number.to_string(), &shape.nodes.to_string()]);
    java.arg(format!("{}-java", shape.cluster)).arg(port.to_string());
    if shape.order == MulticastOrder::Total {
        java.arg("SEQUENCER");
    }
    Ok(java)
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("rgroups-bench-{}", std::process::id()))
}

/// Removes what [`command`] has written.
pub(super) fn clean_up() {
    // If it is not there, nothing was written.
    let _ = std::fs::remove_dir_all(folder());
}
