//! The parent of a measurement: starts the processes, begins rounds, puts the figures together.

use super::load::{Figures, Order, Report, Round};
use super::machine;
use super::process::{Process, Shape};
use super::result::{Measured, Outcome};
use crate::args::{McastArgs, Peer, StackArgs, Transport};
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{join, output};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long processes may take to find each other.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Runs the command.
pub(super) async fn run(a: &McastArgs, json: bool) -> Result<u8, Failure> {
    if a.transport == Transport::Inproc {
        return Err(Failure::usage("the members of a measurement are processes of their own")
            .hint("use --transport udp or tcp"));
    }
    if a.senders.is_some_and(|s| s > a.nodes) {
        return Err(Failure::usage(format!("--senders: there are only {} members", a.nodes)));
    }
    let mut signals = Signals::new()?;
    tokio::select! {
        done = measure(a, json) => done.map(|()| 0),
        code = signals.next() => Ok(code),
    }
}

async fn measure(a: &McastArgs, json: bool) -> Result<(), Failure> {
    // The stack is looked at before anything is started.
    join::config(a.transport, &[], &a.stack)?;
    let mut members = Team::start(a, Peer::Member).await?;
    let mut floor = match a.floor {
        true => Some(Team::start(a, Peer::Floor).await?),
        false => None,
    };
    let mut outcome = Outcome::new(a);
    for number in 0..=u16::from(a.rounds) {
        let warm_up = number == 0;
        if warm_up && a.warm_up.is_zero() {
            continue;
        }
        let round = Round {
            number,
            senders: usize::from(a.senders.unwrap_or(a.nodes)),
            size: a.size,
            for_ms: if warm_up { a.warm_up } else { a.time }.as_millis() as u64,
            count: if warm_up { None } else { a.count },
        };
        let ours = members.round(round, a.timeout).await?;
        let bare = match &mut floor {
            Some(team) => Some(team.round(round, a.timeout).await?),
            None => None,
        };
        if !warm_up {
            outcome.add(ours, bare);
            if !json {
                output::line(&outcome.last_round());
            }
        }
    }
    match json {
        true => output::line(&outcome.json().to_string()),
        false => output::line(&outcome.summary()),
    }
    Ok(())
}

/// Processes of one kind that measure together.
struct Team {
    what: &'static str,
    processes: Vec<Process>,
    reports: mpsc::Receiver<(usize, Report)>,
}

impl Team {
    async fn start(a: &McastArgs, peer: Peer) -> Result<Team, Failure> {
        let nodes = usize::from(a.nodes);
        let shape = shape(a, peer)?;
        let (sender, reports) = mpsc::channel(1024);
        let what = match peer {
            Peer::Member => "member",
            Peer::Floor => "bare process",
        };
        let mut team = Team { what, processes: Vec::new(), reports };
        let mut ready = BTreeMap::new();
        let end = Instant::now() + READY_WITHIN;
        for index in 0..nodes {
            team.processes.push(Process::start(index, &shape, sender.clone())?);
        }
        while ready.len() < nodes {
            let (index, report) = team.next(end, &ready).await?;
            if let Report::Ready { at } = report {
                ready.insert(index, at);
            }
        }
        let at: Vec<SocketAddr> = ready.into_values().flatten().collect();
        if !at.is_empty() {
            for process in &mut team.processes {
                process.order(&Order::Peers { at: at.clone() }).await;
            }
        }
        Ok(team)
    }

    /// The next report before `end`; a process that failed is the failure of all. `had`: those that
    /// are not waited for any more.
    async fn next<T>(
        &mut self,
        end: Instant,
        had: &BTreeMap<usize, T>,
    ) -> Result<(usize, Report), Failure> {
        let next = tokio::time::timeout_at(end.into(), self.reports.recv()).await;
        let what = self.what;
        match next {
            Ok(Some((i, Report::Failed { reason }))) => {
                Err(Failure::run(format!("{what} {i}: {}", output::escaped(&reason))))
            }
            Ok(Some((i, Report::Ended))) => Err(Failure::run(format!("{what} {i} ended"))),
            Ok(Some(report)) => Ok(report),
            Ok(None) => Err(Failure::run(format!("every {what} ended"))),
            Err(_) => {
                let late = (0..self.processes.len()).filter(|i| !had.contains_key(i));
                let late: Vec<String> = late.map(|i| i.to_string()).collect();
                Err(Failure::run(format!("nothing new from {what} {}", late.join(", "))))
            }
        }
    }

    /// One round of all processes. Fails if for `patience` nothing comes from those that are not done.
    async fn round(&mut self, round: Round, patience: Duration) -> Result<Measured, Failure> {
        let dropped = machine::dropped_by_sockets();
        let busy = machine::busy_us();
        for process in &mut self.processes {
            process.order(&Order::Go(round)).await;
        }
        let mut done: BTreeMap<usize, Figures> = BTreeMap::new();
        let mut delivered = BTreeMap::new();
        let mut end = Instant::now() + patience;
        while done.len() < self.processes.len() {
            let (index, report) = self.next(end, &done).await.map_err(|f| {
                let counts: Vec<String> = delivered.values().map(u64::to_string).collect();
                f.hint(format!("received so far: {}", counts.join(", ")))
            })?;
            match report {
                Report::Done(figures) => {
                    done.insert(index, figures);
                    end = Instant::now() + patience;
                }
                Report::Progress { delivered: n } => {
                    // The same number again is no progress.
                    if delivered.insert(index, n) != Some(n) {
                        end = Instant::now() + patience;
                    }
                    self.show(round, &delivered);
                }
                Report::Ready { .. } | Report::Failed { .. } | Report::Ended => {}
            }
        }
        let busy = machine::busy_us().zip(busy).map(|(now, then)| now - then);
        let dropped = machine::dropped_by_sockets() - dropped;
        Ok(Measured { figures: done.into_values().collect(), busy_us: busy, dropped })
    }

    fn show(&self, round: Round, delivered: &BTreeMap<usize, u64>) {
        if std::io::stderr().is_terminal() {
            let sum: u64 = delivered.values().sum();
            anstream::eprint!("\r{} round {}: {sum} received\x1b[K\r", self.what, round.number);
        }
    }
}

fn shape(a: &McastArgs, peer: Peer) -> Result<Shape, Failure> {
    let tcp = a.transport == Transport::Tcp && peer == Peer::Member;
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
        stack,
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
