//! The parent of `mcast`: begins rounds, and puts the figures together.

use super::java;
use super::load::{Figures, Order, Report, Round};
use super::machine;
use super::result::{Measured, Outcome};
use super::team::{self, Team};
use crate::args::{McastArgs, MulticastOrder, Other, Peer, TeamArgs, Transport};
use crate::failure::Failure;
use crate::output;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A JVM is at its speed after this time (the compiler of hot code takes a third of the processor before).
const JAVA_WARM_UP: Duration = Duration::from_secs(25);

/// Runs `mcast`.
pub(super) async fn run(a: &McastArgs, json: bool) -> Result<(), Failure> {
    let team = TeamArgs { order: a.order, ..a.team.clone() };
    team::check(&team)?;
    measure(&McastArgs { team, ..a.clone() }, "mcast", Peer::Member, json).await
}

/// Runs `udp` or `tcp`: bare sockets and nobody else.
pub(super) async fn bare(a: &McastArgs, transport: Transport, json: bool) -> Result<(), Failure> {
    let ordered = a.order != MulticastOrder::default();
    if a.floor || a.peer.is_some() || a.team.loss > 0.0 || !a.slow.is_zero() || ordered {
        let no = "bare sockets have no --floor, --peer, --loss, --slow or --order";
        return Err(Failure::usage(no));
    }
    let team = TeamArgs { transport, ..a.team.clone() };
    let a = McastArgs { team, ..a.clone() };
    measure(&a, transport.name(), Peer::Floor, json).await
}

async fn measure(a: &McastArgs, bench: &str, peer: Peer, json: bool) -> Result<(), Failure> {
    if a.senders.is_some_and(|s| s > a.team.nodes) {
        return Err(Failure::usage(format!("--senders: there are only {} members", a.team.nodes)));
    }
    if a.peer == Some(Other::Java) {
        java::class_path()?;
    }
    let mut members = Team::start(&a.team, peer).await?;
    let mut floor = match a.floor {
        true => Some(Team::start(&a.team, Peer::Floor).await?),
        false => None,
    };
    let mut java = match a.peer {
        Some(Other::Java) => {
            let team = Team::start(&a.team, Peer::Java).await;
            java::clean_up();
            Some(team?)
        }
        None => None,
    };
    let mut outcome = Outcome::new(a, bench);
    for number in 0..=u16::from(a.rounds) {
        let warm_up = number == 0;
        let round = Round {
            number,
            senders: usize::from(a.senders.unwrap_or(a.team.nodes)),
            size: a.size,
            for_ms: if warm_up { a.warm_up } else { a.time }.as_millis() as u64,
            count: if warm_up { None } else { a.count },
            slow_us: a.slow.as_micros() as u64,
        };
        let warm_java = Round { for_ms: JAVA_WARM_UP.as_millis() as u64, ..round };
        let patience = a.team.timeout;
        if warm_up && a.warm_up.is_zero() {
            continue;
        }
        let ours = take_part(&mut members, round, patience).await?;
        if a.order == MulticastOrder::Total {
            one_order(&ours)?;
        }
        let bare = also(&mut floor, round, patience).await?;
        let theirs = also(&mut java, if warm_up { warm_java } else { round }, patience).await?;
        if !warm_up {
            outcome.add(&ours, bare.as_ref(), theirs.as_ref());
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

/// The round of those who take part too, if there are any.
async fn also(
    team: &mut Option<Team>,
    round: Round,
    patience: Duration,
) -> Result<Option<Measured>, Failure> {
    match team {
        Some(team) => Ok(Some(take_part(team, round, patience).await?)),
        None => Ok(None),
    }
}

/// Fails unless every member received all messages in the same order.
fn one_order(round: &Measured) -> Result<(), Failure> {
    let mut orders = round.figures.iter().map(|f| f.order);
    let first = orders.next();
    match orders.all(|o| Some(o) == first) {
        true => Ok(()),
        false => Err(Failure::run("members received the messages in different orders")),
    }
}

/// One round of all processes. Fails if for `patience` nothing comes from those that are not done.
async fn take_part(team: &mut Team, round: Round, patience: Duration) -> Result<Measured, Failure> {
    let dropped = machine::dropped_by_sockets();
    let busy = machine::busy_us();
    team.order(&Order::Go(round)).await;
    let mut done: BTreeMap<usize, Figures> = BTreeMap::new();
    let mut delivered = BTreeMap::new();
    let mut end = Instant::now() + patience;
    while done.len() < team.processes.len() {
        let (index, report) = team.next(end, &done).await.map_err(|f| {
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
                show(team.what, round, &delivered);
            }
            _ => {}
        }
    }
    let busy = machine::busy_us().zip(busy).map(|(now, then)| now - then);
    let dropped = machine::dropped_by_sockets() - dropped;
    Ok(Measured { figures: done.into_values().collect(), busy_us: busy, dropped })
}

fn show(what: &str, round: Round, delivered: &BTreeMap<usize, u64>) {
    if std::io::stderr().is_terminal() {
        let sum: u64 = delivered.values().sum();
        anstream::eprint!("\r{what} round {}: {sum} received\x1b[K\r", round.number);
    }
}
