//! The parent of `rtt` and `rsvp`.

use super::load::{Calls, Figures, Order, Report};
use super::result::{median, percentiles};
use super::team::{self, Team};
use crate::args::{CallArgs, Level, Peer};
use crate::failure::Failure;
use crate::output;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// What one round gave.
struct Row {
    /// p50, p99, p99.9 and the maximum, in microseconds.
    latency_us: [f64; 4],
    calls: u64,
    wall_s: f64,
    /// Processor time of all members for each call, in microseconds.
    cpu: f64,
}

/// Runs the command; without a level, calls go to one member.
pub(super) async fn run(a: &CallArgs, level: Option<Level>, json: bool) -> Result<(), Failure> {
    team::check(&a.team)?;
    let timeout_ms = a.team.timeout.as_millis() as u64;
    let mut team = Team::start(&a.team, Peer::Caller).await?;
    let mut rows = Vec::new();
    for number in 0..=a.rounds {
        let count = if number == 0 { a.warm_up } else { a.count };
        if count == 0 {
            continue;
        }
        let row = round(&mut team, Calls { level, count, size: a.size, timeout_ms }, a).await?;
        if number > 0 {
            if !json {
                output::line(&format!("round {number}: {}", row.text()));
            }
            rows.push(row);
        }
    }
    let median = |of: fn(&Row) -> f64| median(rows.iter().map(of).collect());
    let (p50, p99) = (median(|r| r.latency_us[0]), median(|r| r.latency_us[1]));
    if json {
        let result = json!({
            "schema": 1, "bench": if level.is_some() { "rsvp" } else { "rtt" },
            "version": env!("CARGO_PKG_VERSION"), "transport": a.team.transport.name(),
            "nodes": a.team.nodes, "size": a.size, "count": a.count,
            "level": level,
            "config": a.team.stack.config, "define": a.team.stack.define,
            "rounds": rows.iter().map(Row::json).collect::<Vec<_>>(),
            "median": {
                "latency_p50_us": p50, "latency_p99_us": p99,
                "latency_p99.9_us": median(|r| r.latency_us[2]),
                "cpu_us_per_call": median(|r| r.cpu),
            },
        });
        output::line(&result.to_string());
    } else {
        let (p50, p99) = (p50.unwrap_or(0.0), p99.unwrap_or(0.0));
        output::line(&format!("median:  p50 {p50:.1} µs, p99 {p99:.1} µs"));
    }
    Ok(())
}

async fn round(team: &mut Team, calls: Calls, a: &CallArgs) -> Result<Row, Failure> {
    team.order(&Order::Call(calls)).await;
    let mut done: BTreeMap<usize, Figures> = BTreeMap::new();
    // The caller gives up each call in time, and says so; this is for the case that it is gone.
    let longest = a.team.timeout * u32::try_from(calls.count).unwrap_or(u32::MAX).min(1_000);
    let end = Instant::now() + longest;
    while done.len() < team.processes.len() {
        let (number, report) = team.next(end, &done).await?;
        if let Report::Done(figures) = report {
            done.insert(number, figures);
        }
    }
    let cpu: u64 = done.values().map(|f| f.cpu_us).sum();
    let wall = done.values().map(|f| f.wall_us).max().unwrap_or(0);
    Ok(Row {
        latency_us: percentiles(done.values().flat_map(|f| &f.latency)),
        calls: calls.count,
        wall_s: wall as f64 / 1e6,
        cpu: cpu as f64 / calls.count.max(1) as f64,
    })
}

impl Row {
    fn text(&self) -> String {
        let [p50, p99, p999, max] = self.latency_us;
        let (calls, cpu) = (self.calls, self.cpu);
        format!(
            "{calls} calls: p50 {p50:.1} µs, p99 {p99:.1} µs, p99.9 {p999:.1} µs, max {max:.1} µs, {cpu:.1} µs of CPU each"
        )
    }

    fn json(&self) -> Value {
        let [p50, p99, p999, max] = self.latency_us;
        json!({
            "latency_us": {"p50": p50, "p99": p99, "p99.9": p999, "max": max},
            "calls": self.calls, "wall_s": self.wall_s, "cpu_us_per_call": self.cpu,
        })
    }
}
