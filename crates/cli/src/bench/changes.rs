//! The parent of `join` and `crash`: members go and come, and the others tell when they know.

use super::load::{Report, clock};
use super::result::median;
use super::team::{self, READY_WITHIN, Team};
use crate::args::{ChangeArgs, Peer};
use crate::failure::Failure;
use crate::output;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Which of the two is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Join,
    Crash,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Join => "join",
            Change::Crash => "crash",
        }
    }
}

/// One member went, and another one came. Milliseconds.
struct Row {
    gone: (f64, f64),
    joined: f64,
    seen: f64,
}

/// One of the figures of a round.
type Figure = fn(&Row) -> f64;

/// Runs the command.
pub(super) async fn run(a: &ChangeArgs, change: Change, json: bool) -> Result<(), Failure> {
    team::check(&a.team)?;
    let mut team = Team::new(&a.team, Peer::Watcher)?;
    let alone = joined(&mut team, READY_WITHIN).await?.0;
    for _ in 1..a.team.nodes {
        joined(&mut team, READY_WITHIN).await?;
    }
    if !json && change == Change::Join {
        output::line(&format!("the first member, alone: {alone:.1} ms"));
    }
    let mut rows = Vec::new();
    for number in 1..=a.rounds {
        let gone = killed(&mut team, a).await?;
        let (joined, seen) = joined(&mut team, a.team.timeout).await?;
        let row = Row { gone, joined, seen };
        if !json {
            output::line(&format!("round {number}: {}", row.text(change)));
        }
        rows.push(row);
    }
    let middle = |of: Figure| median(rows.iter().map(of).collect()).unwrap_or(0.0);
    let most = |of: Figure| rows.iter().map(of).fold(0.0, f64::max);
    let (first, last) = match change {
        Change::Join => (Row::joined as Figure, Row::seen as Figure),
        Change::Crash => (Row::gone_first as Figure, Row::gone_last as Figure),
    };
    if json {
        let result = json!({
            "schema": 1, "bench": change.name(), "version": env!("CARGO_PKG_VERSION"),
            "transport": a.team.transport.name(), "nodes": a.team.nodes, "count": a.rounds,
            "oldest": a.oldest, "first_member_ms": alone,
            "config": a.team.stack.config, "define": a.team.stack.define,
            "rounds": rows.iter().map(Row::json).collect::<Vec<_>>(),
            "median": {"first_ms": middle(first), "last_ms": middle(last)},
            "max": {"first_ms": most(first), "last_ms": most(last)},
        });
        output::line(&result.to_string());
    } else {
        let (at, all) = match change {
            Change::Join => ("joined", "in all views"),
            Change::Crash => ("first view without it", "at all"),
        };
        output::line(&format!(
            "median:  {at} {:.1} ms, {all} {:.1} ms; at most {:.1} and {:.1} ms",
            middle(first),
            middle(last),
            most(first),
            most(last)
        ));
    }
    Ok(())
}

/// Starts a member; how long it took to join, and until all had it in their view.
async fn joined(team: &mut Team, patience: Duration) -> Result<(f64, f64), Failure> {
    let number = team.add()?;
    let size = team.processes.len();
    let end = Instant::now() + patience;
    let mut took = None;
    let mut seen = BTreeMap::new();
    while seen.len() < size || took.is_none() {
        match team.next(end, &seen).await? {
            (n, Report::Joined { took_us }) if n == number => took = Some(took_us * 1_000),
            (n, Report::View { members, at }) if members == size => {
                seen.insert(n, at);
            }
            _ => {}
        }
    }
    // The new member has its first view when connecting is done.
    let took = took.unwrap_or(0);
    let began = seen.get(&number).map_or(0, |at| at.saturating_sub(took));
    let last = seen.into_values().max().unwrap_or(0);
    Ok((millis(took), millis(last.saturating_sub(began))))
}

/// Kills a member; when the first and the last of the others knew.
async fn killed(team: &mut Team, a: &ChangeArgs) -> Result<(f64, f64), Failure> {
    let place = if a.oldest { 0 } else { team.processes.len() - 1 };
    let mut victim = team.processes.remove(place);
    let size = team.processes.len();
    let began = clock();
    victim.kill()?;
    let end = Instant::now() + a.team.timeout;
    let mut seen: BTreeMap<usize, u64> = BTreeMap::new();
    while seen.len() < size {
        if let (n, Report::View { members, at }) = team.next(end, &seen).await?
            && members == size
        {
            seen.insert(n, at);
        }
    }
    let after = |at: Option<&u64>| millis(at.map_or(0, |at| at.saturating_sub(began)));
    Ok((after(seen.values().min()), after(seen.values().max())))
}

fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Row {
    /// From the kill to the view without it, at the first survivor that has it.
    fn gone_first(&self) -> f64 {
        self.gone.0
    }

    /// The same at the last one.
    fn gone_last(&self) -> f64 {
        self.gone.1
    }

    /// How long connecting took.
    fn joined(&self) -> f64 {
        self.joined
    }

    /// From the start of connecting to the last view with the new member.
    fn seen(&self) -> f64 {
        self.seen
    }

    fn text(&self, change: Change) -> String {
        let (first, last) = self.gone;
        match change {
            Change::Join => {
                format!("joined in {:.1} ms, in all views after {:.1} ms", self.joined, self.seen)
            }
            Change::Crash => {
                format!("first view without it after {first:.1} ms, at all after {last:.1} ms")
            }
        }
    }

    fn json(&self) -> Value {
        json!({
            "gone_first_ms": self.gone.0, "gone_all_ms": self.gone.1,
            "joined_ms": self.joined, "seen_by_all_ms": self.seen,
        })
    }
}
