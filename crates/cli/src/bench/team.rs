//! Processes of one kind that measure together: started, asked, told.

use super::load::{Order, Report};
use super::process::{Process, Shape};
use crate::args::{MulticastOrder, Peer, StackArgs, TeamArgs, Transport};
use crate::failure::Failure;
use crate::{join, output};
use rgroups::{Config, ConfigError};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long processes may take to find each other.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(60);

/// Processes of one kind.
pub(super) struct Team {
    pub(super) what: &'static str,
    pub(super) processes: Vec<Process>,
    shape: Shape,
    started: usize,
    sender: mpsc::Sender<(usize, Report)>,
    reports: mpsc::Receiver<(usize, Report)>,
}

/// What can be said before anything is started.
pub(super) fn check(a: &TeamArgs) -> Result<(), Failure> {
    if a.transport == Transport::Inproc {
        return Err(Failure::usage("the members of a measurement are processes of their own")
            .hint("use --transport udp or tcp"));
    }
    let config = join::config(a.transport, &[], &a.stack)?;
    in_order(config, a.order).map(|_| ()).map_err(|e| Failure::config_error(&e))
}

/// The stack with what this order needs.
pub(super) fn in_order(config: Config, order: MulticastOrder) -> Result<Config, ConfigError> {
    match order {
        MulticastOrder::Total => config.with_total_order(),
        MulticastOrder::Fifo => Ok(config),
    }
}

impl Team {
    /// Nobody yet.
    pub(super) fn new(a: &TeamArgs, peer: Peer) -> Result<Team, Failure> {
        let (sender, reports) = mpsc::channel(1024);
        let what = match peer {
            Peer::Member | Peer::Caller | Peer::Invoker | Peer::Watcher => "member",
            Peer::Floor => "bare process",
            Peer::Java => "Java member",
        };
        let shape = shape(a, peer)?;
        Ok(Team { what, processes: Vec::new(), shape, started: 0, sender, reports })
    }

    /// All, and they have found each other.
    pub(super) async fn start(a: &TeamArgs, peer: Peer) -> Result<Team, Failure> {
        let mut team = Team::new(a, peer)?;
        let mut ready = BTreeMap::new();
        let end = Instant::now() + READY_WITHIN;
        for _ in 0..a.nodes {
            team.add()?;
        }
        while ready.len() < team.processes.len() {
            let (number, report) = team.next(end, &ready).await?;
            if let Report::Ready { at } = report {
                ready.insert(number, at);
            }
        }
        let at: Vec<SocketAddr> = ready.into_values().flatten().collect();
        if !at.is_empty() {
            team.order(&Order::Peers { at }).await;
        }
        Ok(team)
    }

    /// Starts one more; its number.
    pub(super) fn add(&mut self) -> Result<usize, Failure> {
        let number = self.started;
        self.started += 1;
        let process = Process::start(number, &self.shape, self.sender.clone())?;
        self.processes.push(process);
        Ok(number)
    }

    /// Tells all.
    pub(super) async fn order(&mut self, order: &Order) {
        for process in &mut self.processes {
            process.order(order).await;
        }
    }

    /// The next report before `end` of a process that is in the team; one that failed is the failure
    /// of all. `had`: those that are not waited for any more.
    pub(super) async fn next<T>(
        &mut self,
        end: Instant,
        had: &BTreeMap<usize, T>,
    ) -> Result<(usize, Report), Failure> {
        let what = self.what;
        loop {
            let next = tokio::time::timeout_at(end.into(), self.reports.recv()).await;
            let known = |n: usize| self.processes.iter().any(|p| p.number == n);
            return match next {
                // Of one that was killed.
                Ok(Some((n, _))) if !known(n) => continue,
                Ok(Some((n, Report::Failed { reason }))) => {
                    Err(Failure::run(format!("{what} {n}: {}", output::escaped(&reason))))
                }
                Ok(Some((n, Report::Ended))) => Err(Failure::run(format!("{what} {n} ended"))),
                Ok(Some(report)) => Ok(report),
                Ok(None) => Err(Failure::run(format!("every {what} ended"))),
                Err(_) => {
                    let late = self.processes.iter().map(|p| p.number);
                    let late = late.filter(|n| !had.contains_key(n));
                    let late: Vec<String> = late.map(|n| n.to_string()).collect();
                    Err(Failure::run(format!("nothing new from {what} {}", late.join(", "))))
                }
            };
        }
    }
}

fn shape(a: &TeamArgs, peer: Peer) -> Result<Shape, Failure> {
    let tcp = a.transport == Transport::Tcp && peer != Peer::Floor;
    let hosts = if tcp { free_ports(usize::from(a.nodes))? } else { Vec::new() };
    let mut define = Vec::new();
    match (a.transport, hosts.first()) {
        (Transport::Tcp, Some(first)) => {
            define.push("TCP.bind_addr=127.0.0.1".to_owned());
            define.push(format!("TCP.bind_port={}", first.port()));
            define.push(format!("TCP.port_range={}", a.nodes));
        }
        (Transport::Udp, _) => {
            // Apart from whoever else uses the preset's group on this machine.
            let port = 20_000 + std::process::id() % 10_000;
            define.push("UDP.bind_addr=127.0.0.1".to_owned());
            define.push(format!("UDP.mcast_port={port}"));
        }
        _ => {}
    }
    define.extend(a.stack.define.iter().cloned());
    let stack = StackArgs { config: a.stack.config.clone(), define };
    Ok(Shape {
        peer,
        nodes: usize::from(a.nodes),
        cluster: format!("bench-{}", std::process::id()),
        transport: a.transport,
        hosts,
        order: a.order,
        stack,
        loss: a.loss,
    })
}

/// `n` ports of this machine in a row that are free now.
fn free_ports(n: usize) -> Result<Vec<SocketAddr>, Failure> {
    let here = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let bind = |port| TcpListener::bind(here(port));
    for _ in 0..100 {
        let any = bind(0).and_then(|l| l.local_addr());
        let first = any.map_err(|e| Failure::run(format!("no free port: {e}")))?.port();
        let Some(last) = first.checked_add(n as u16) else { continue };
        // Held together, so that all are free at the same time.
        let row: Result<Vec<_>, _> = (first..last).map(bind).collect();
        if row.is_ok() {
            return Ok((first..last).map(here).collect());
        }
    }
    Err(Failure::run(format!("there are no {n} free ports in a row")))
}
