//! Where a member runs: in a process of its own, or as a task of this one.

use super::member::{Member, serve};
use super::{Order, Report};
use crate::args::{StackArgs, Transport};
use crate::failure::Failure;
use crate::join;
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What all members of a cluster have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) cluster: String,
    pub(crate) transport: Transport,
    pub(crate) hosts: Vec<SocketAddr>,
    pub(crate) stack: StackArgs,
    pub(crate) every: Duration,
}

/// A running member.
pub(crate) struct Host {
    orders: mpsc::Sender<Order>,
    kind: Kind,
}

enum Kind {
    Process(Child),
    Task(JoinHandle<()>),
}

impl Host {
    /// Starts member `name`; what it reports comes out of `reports` under its name.
    pub(crate) fn start(
        name: &str,
        shape: &Shape,
        reports: mpsc::Sender<(String, Report)>,
    ) -> Result<Host, Failure> {
        match shape.transport {
            Transport::Udp | Transport::Tcp => Self::process(name, shape, reports),
            Transport::Inproc => Self::task(name, shape, reports),
        }
    }

    fn process(
        name: &str,
        shape: &Shape,
        reports: mpsc::Sender<(String, Report)>,
    ) -> Result<Host, Failure> {
        let program = std::env::current_exe()
            .map_err(|e| Failure::run(format!("cannot find the own program: {e}")))?;
        let mut command = Command::new(program);
        command
            .args(["up-member", "--name", name, "--cluster", &shape.cluster])
            .args(["--transport", shape.transport.name()])
            .args(["--every", &format!("{}ms", shape.every.as_millis())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
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
        let mut child = command
            .spawn()
            .map_err(|e| Failure::run(format!("cannot start member {name}: {e}")))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::run(format!("member {name} has no pipes")));
        };
        let (orders, mut orders_out) = mpsc::channel::<Order>(16);
        tokio::spawn(async move {
            while let Some(o) = orders_out.recv().await {
                let Ok(mut line) = serde_json::to_string(&o) else { return };
                line.push('\n');
                if stdin.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let name = name.to_owned();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(r) = serde_json::from_str::<Report>(&line) else { continue };
                if reports.send((name.clone(), r)).await.is_err() {
                    return;
                }
            }
            let _ = reports.send((name, Report::Ended)).await;
        });
        Ok(Host { orders, kind: Kind::Process(child) })
    }

    fn task(
        name: &str,
        shape: &Shape,
        reports: mpsc::Sender<(String, Report)>,
    ) -> Result<Host, Failure> {
        let member = Member {
            name: name.to_owned(),
            cluster: shape.cluster.clone(),
            config: join::config(shape.transport, &shape.hosts, &shape.stack)?,
            every: shape.every,
        };
        let (orders, orders_in) = mpsc::channel(16);
        let (own, mut own_out) = mpsc::channel(256);
        let name = name.to_owned();
        tokio::spawn(async move {
            while let Some(r) = own_out.recv().await {
                if reports.send((name.clone(), r)).await.is_err() {
                    return;
                }
            }
            let _ = reports.send((name, Report::Ended)).await;
        });
        Ok(Host { orders, kind: Kind::Task(tokio::spawn(serve(member, orders_in, own))) })
    }

    /// Gives an order; a member that is gone does not hear it.
    pub(crate) async fn order(&self, o: Order) {
        let _ = self.orders.send(o).await;
    }

    /// Stops the process of the member, or lets it go on.
    pub(crate) fn stand_still(&self, still: bool) -> Result<(), Failure> {
        let Kind::Process(child) = &self.kind else {
            return Err(Failure::run("members in one process cannot stand still alone"));
        };
        // No identity: it has ended and was waited for.
        let pid = child.id().and_then(|id| Pid::from_raw(id as i32));
        let pid = pid.ok_or_else(|| Failure::run("the member has ended"))?;
        let signal = if still { Signal::STOP } else { Signal::CONT };
        kill_process(pid, signal)
            .map_err(|e| Failure::run(format!("cannot signal the member: {e}")))
    }

    /// Ends the member without letting it leave.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Process(child) => {
                child.start_kill().map_err(|e| Failure::run(format!("cannot kill the member: {e}")))
            }
            Kind::Task(task) => {
                task.abort();
                Ok(())
            }
        }
    }
}
