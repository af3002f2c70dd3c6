//! The parent of `rpc`.

use super::load::{Figures, Mix, Order, Report};
use super::machine;
use super::result::{median, percentiles};
use super::team::{self, Team};
use crate::args::{Peer, RpcArgs};
use crate::failure::Failure;
use crate::output;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What one round gave.
struct Row {
    /// Calls that ended, per second and member that calls.
    rate: f64,
    calls: u64,
    wall_s: f64,
    /// p50, p99, p99.9 and the maximum, in microseconds.
    reads_us: [f64; 4],
    writes_us: [f64; 4],
    /// Processor time of the machine for each call, in microseconds.
    cpu: Option<f64>,
    /// The same of the members alone.
    cpu_members: f64,
    peak_mb: f64,
}

/// Runs the command.
pub(super) async fn run(a: &RpcArgs, json: bool) -> Result<(), Failure> {
    team::check(&a.team)?;
    let nodes = a.team.nodes;
    if a.clients.is_some_and(|c| c > nodes) {
        return Err(Failure::usage(format!("--clients: there are only {nodes} members")));
    }
    if a.copies >= nodes {
        let others = nodes - 1;
        return Err(Failure::usage(format!("--copies: there are only {others} other members")));
    }
    let mut team = Team::start(&a.team, Peer::Invoker).await?;
    let mut rows = Vec::new();
    for number in 0..=a.rounds {
        let for_how_long = if number == 0 { a.warm_up } else { a.time };
        if for_how_long.is_zero() {
            continue;
        }
        let row = round(&mut team, a, for_how_long).await?;
        if number > 0 {
            if !json {
                output::line(&format!("round {number}: {}", row.text()));
            }
            rows.push(row);
        }
    }
    match json {
        true => output::line(&result(a, &rows).to_string()),
        false => output::line(&summary(&rows)),
    }
    Ok(())
}

async fn round(team: &mut Team, a: &RpcArgs, time: Duration) -> Result<Row, Failure> {
    let mix = Mix {
        clients: usize::from(a.clients.unwrap_or(a.team.nodes)),
        callers: a.callers,
        reads: a.reads,
        copies: usize::from(a.copies),
        size: a.size,
        oob: a.oob,
        for_ms: time.as_millis() as u64,
        timeout_ms: a.team.timeout.as_millis() as u64,
    };
    let busy = machine::busy_us();
    team.order(&Order::Mix(mix)).await;
    let mut done: BTreeMap<usize, Figures> = BTreeMap::new();
    // A call that is not answered in time fails where it was made, so this is for the case that a
    // process hangs.
    let end = Instant::now() + time + a.team.timeout * 2;
    while done.len() < team.processes.len() {
        let (number, report) = team.next(end, &done).await?;
        if let Report::Done(figures) = report {
            done.insert(number, figures);
        }
    }
    let busy = machine::busy_us().zip(busy).map(|(now, then)| now - then);
    Ok(Row::new(&done.into_values().collect::<Vec<_>>(), mix.clients, busy))
}

impl Row {
    fn new(figures: &[Figures], clients: usize, busy_us: Option<u64>) -> Self {
        let sum = |f: fn(&Figures) -> u64| figures.iter().map(f).sum::<u64>();
        let most = |f: fn(&Figures) -> u64| figures.iter().map(f).max().unwrap_or(0);
        let calls = sum(|f| f.delivered);
        let each = |us: u64| us as f64 / calls.max(1) as f64;
        let wall_s = most(|f| f.wall_us) as f64 / 1e6;
        Self {
            rate: calls as f64 / clients.max(1) as f64 / wall_s.max(1e-6),
            calls,
            wall_s,
            reads_us: percentiles(figures.iter().flat_map(|f| &f.latency)),
            writes_us: percentiles(figures.iter().flat_map(|f| &f.writes)),
            cpu: busy_us.map(each),
            cpu_members: each(sum(|f| f.cpu_us)),
            peak_mb: most(|f| f.peak_kb) as f64 / 1e3,
        }
    }

    fn text(&self) -> String {
        let ([r50, r99, ..], [w50, w99, ..]) = (self.reads_us, self.writes_us);
        format!(
            "{:.0} calls/s per member; reads p50 {r50:.0} µs, p99 {r99:.0} µs; writes p50 {w50:.0} µs, p99 {w99:.0} µs; {:.1} µs of CPU each",
            self.rate, self.cpu_members,
        )
    }

    fn json(&self) -> Value {
        let latency = |[p50, p99, p999, max]: [f64; 4]| json!({"p50": p50, "p99": p99, "p99.9": p999, "max": max});
        json!({
            "calls_per_s": self.rate.round(), "calls": self.calls, "wall_s": self.wall_s,
            "read_us": latency(self.reads_us), "write_us": latency(self.writes_us),
            "cpu_us_per_call": self.cpu, "cpu_us_per_call_members": self.cpu_members,
            "peak_mb": self.peak_mb,
        })
    }
}

fn medians(rows: &[Row]) -> impl Fn(fn(&Row) -> Option<f64>) -> Option<f64> {
    |of| median(rows.iter().filter_map(of).collect())
}

fn summary(rows: &[Row]) -> String {
    let median = |of| medians(rows)(of).unwrap_or(0.0);
    format!(
        "median:  {:.0} calls/s per member; reads p50 {:.0} µs, p99 {:.0} µs; writes p50 {:.0} µs, p99 {:.0} µs; {:.1} µs of CPU each",
        median(|r| Some(r.rate)),
        median(|r| Some(r.reads_us[0])),
        median(|r| Some(r.reads_us[1])),
        median(|r| Some(r.writes_us[0])),
        median(|r| Some(r.writes_us[1])),
        median(|r| Some(r.cpu_members)),
    )
}

fn result(a: &RpcArgs, rows: &[Row]) -> Value {
    let median = medians(rows);
    json!({
        "schema": 1, "bench": "rpc", "version": env!("CARGO_PKG_VERSION"),
        "transport": a.team.transport.name(), "nodes": a.team.nodes,
        "clients": a.clients.unwrap_or(a.team.nodes), "callers": a.callers, "reads": a.reads,
        "copies": a.copies, "size": a.size, "oob": a.oob, "time_s": a.time.as_secs_f64(),
        "config": a.team.stack.config, "define": a.team.stack.define,
        "rounds": rows.iter().map(Row::json).collect::<Vec<_>>(),
        "median": {
            "calls_per_s": median(|r| Some(r.rate)),
            "cpu_us_per_call": median(|r| Some(r.cpu_members)),
            "read_p50_us": median(|r| Some(r.reads_us[0])),
            "read_p99_us": median(|r| Some(r.reads_us[1])),
            "write_p50_us": median(|r| Some(r.writes_us[0])),
            "write_p99_us": median(|r| Some(r.writes_us[1])),
            "peak_mb": median(|r| Some(r.peak_mb)),
        },
    })
}
