//! The pipes between the parent and its processes: a JSON object a line, orders in, reports out.

use super::java;
use super::load::{Order, Report};
use crate::args::{MulticastOrder, Peer, StackArgs, Transport};
use crate::failure::Failure;
use crate::output;
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

/// Tells the parent.
pub(super) fn tell(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        output::line(&line);
    }
}

/// What the parent orders; ends with the parent.
pub(super) fn orders() -> mpsc::Receiver<Order> {
    let (orders, out) = mpsc::channel(16);
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(order) = serde_json::from_str(&line) else { continue };
            if orders.send(order).await.is_err() {
                return;
            }
        }
    });
    out
}

/// What the processes of one kind have in common.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) peer: Peer,
    pub(super) nodes: usize,
    pub(super) cluster: String,
    pub(super) transport: Transport,
    pub(super) hosts: Vec<SocketAddr>,
    pub(super) order: MulticastOrder,
    pub(super) stack: StackArgs,
    /// The share of messages that members lose.
    pub(super) loss: f64,
}

/// A running process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    /// What its reports carry.
    pub(super) number: usize,
    stdin: ChildStdin,
    child: Child,
}

impl Process {
    /// Starts a process; what it reports comes out of `reports` under its `number`, which no other
    /// has.
    pub(super) fn start(
        number: usize,
        shape: &Shape,
        reports: mpsc::Sender<(usize, Report)>,
    ) -> Result<Process, Failure> {
        let failed =
            |e: std::io::Error| Failure::run(format!("cannot start process {number}: {e}"));
        let peer = match shape.peer {
            Peer::Member => "member",
            Peer::Caller => "caller",
            Peer::Invoker => "invoker",
            Peer::Watcher => "watcher",
            Peer::Floor => "floor",
            Peer::Java => return Self::begin(number, java::command(number, shape)?, reports),
        };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["bench-member", "--peer", peer, "--cluster", &shape.cluster])
            .args(["--index", &number.to_string(), "--nodes", &shape.nodes.to_string()])
            .args(["--transport", shape.transport.name()])
            .args(["--loss", &shape.loss.to_string()])
            .args(["--order", shape.order.name()]);
        if !shape.hosts.is_empty() {
            let list: Vec<String> = shape.hosts.iter().map(ToString::to_string).collect();
            command.args(["--hosts", &list.join(",")]);
        }
        if let Some(file) = &shape.stack.config {
            command.args(["--config", file]);
        }
        for d in &shape.stack.define {
            command.args(["-D", d]);
        }
        Self::begin(number, command, reports)
    }

    fn begin(
        number: usize,
        mut command: Command,
        reports: mpsc::Sender<(usize, Report)>,
    ) -> Result<Process, Failure> {
        let failed =
            |e: std::io::Error| Failure::run(format!("cannot start process {number}: {e}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::run(format!("process {number} has no pipes")));
        };
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(report) = serde_json::from_str(&line) else { continue };
                if reports.send((number, report)).await.is_err() {
                    return;
                }
            }
            let _ = reports.send((number, Report::Ended)).await;
        });
        Ok(Process { number, stdin, child })
    }

    /// As `kill -9`; what is sent from now on is lost.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        let failed = |e| Failure::run(format!("cannot kill process {}: {e}", self.number));
        self.child.start_kill().map_err(failed)
    }

    /// Gives an order; a process that is gone does not hear it, and is reported as ended.
    pub(super) async fn order(&mut self, order: &Order) {
        if let Ok(line) = serde_json::to_string(order) {
            let _ = self.stdin.write_all((line + "\n").as_bytes()).await;
        }
    }
}
