//! From the figures of processes to a result.

use super::load::{Figures, histogram};
use crate::args::McastArgs;
use serde_json::{Value, json};
use std::time::Duration;

/// What one round gave.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) figures: Vec<Figures>,
    /// Processor time of the whole machine.
    pub(super) busy_us: Option<u64>,
    /// Datagrams that found no room in a socket.
    pub(super) dropped: u64,
}

/// One round in the units that are compared.
#[derive(Clone, Debug)]
struct Row {
    /// Messages received per second and member.
    rate: f64,
    /// The slowest member.
    wall_s: f64,
    /// Processor time of the machine for each message received, in microseconds.
    cpu: Option<f64>,
    /// The same of the processes alone.
    cpu_members: f64,
    delivered: u64,
    latency_us: [f64; 4],
    peak_mb: f64,
    retransmitted: u64,
    datagrams_sent: u64,
    dropped: u64,
    blocked_ms: u64,
    turns: u64,
}

/// The percentiles that are shown.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];

impl Row {
    fn new(m: &Measured) -> Self {
        let sum = |f: fn(&Figures) -> u64| m.figures.iter().map(f).sum::<u64>();
        let most = |f: fn(&Figures) -> u64| m.figures.iter().map(f).max().unwrap_or(0);
        let delivered = sum(|f| f.delivered);
        let each = |us: u64| us as f64 / delivered.max(1) as f64;
        let wall_s = most(|f| f.wall_us) as f64 / 1e6;
        Self {
            rate: delivered as f64 / m.figures.len().max(1) as f64 / wall_s.max(1e-6),
            wall_s,
            cpu: m.busy_us.map(each),
            cpu_members: each(sum(|f| f.cpu_us)),
            delivered,
            latency_us: percentiles(m.figures.iter().flat_map(|f| &f.latency)),
            peak_mb: most(|f| f.peak_kb) as f64 / 1e3,
            retransmitted: sum(|f| f.retransmitted),
            datagrams_sent: sum(|f| f.datagrams_sent),
            dropped: m.dropped + sum(|f| f.lost),
            blocked_ms: most(|f| f.blocked_ms),
            turns: sum(|f| f.turns),
        }
    }

    fn json(&self, size: usize) -> Value {
        let [p50, p99, p999, max] = self.latency_us;
        json!({
            "msgs_per_s": self.rate.round(), "mb_per_s": self.rate * size as f64 / 1e6,
            "wall_s": self.wall_s, "cpu_us_per_delivery": self.cpu,
            "cpu_us_per_delivery_members": self.cpu_members, "delivered": self.delivered,
            "latency_us": {"p50": p50, "p99": p99, "p99.9": p999, "max": max},
            "peak_mb": self.peak_mb, "retransmitted": self.retransmitted,
            "datagrams_sent": self.datagrams_sent, "datagrams_dropped": self.dropped,
            "blocked_ms": self.blocked_ms, "turns": self.turns,
        })
    }

    fn text(&self, size: usize) -> String {
        let cpu = self.cpu.map_or("?".to_owned(), |c| format!("{c:.3}"));
        let mut text = format!(
            "{:>9.0} msg/s {:>7.1} MB/s per member, {cpu} µs of CPU per delivery, {:.0} MB",
            self.rate,
            self.rate * size as f64 / 1e6,
            self.peak_mb,
        );
        if self.retransmitted + self.dropped > 0 {
            text += &format!(", {} sent again, {} dropped", self.retransmitted, self.dropped);
        }
        text
    }
}

/// Values in nanoseconds with how often they occur, to percentiles in microseconds.
pub(super) fn percentiles<'a>(values: impl Iterator<Item = &'a (u64, u64)>) -> [f64; 4] {
    let Some(mut all) = histogram() else { return [0.0; 4] };
    values.for_each(|(v, n)| all.saturating_record_n(*v, *n));
    PERCENTILES.map(|p| all.value_at_percentile(p) as f64 / 1e3)
}

/// The median of an odd number of values, or the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ => Some((values[(n - 1) / 2] + values[n / 2]) / 2.0),
    }
}

/// One round, and the same load over others right after it.
#[derive(Debug)]
struct Round {
    ours: Row,
    floor: Option<Row>,
    java: Option<Row>,
}

/// Who had the same load.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Floor,
    Java,
}

impl Round {
    fn of(&self, who: Beside) -> Option<&Row> {
        match who {
            Beside::Floor => self.floor.as_ref(),
            Beside::Java => self.java.as_ref(),
        }
    }
}

/// All rounds of a load.
pub(super) struct Outcome {
    what: Value,
    size: usize,
    rounds: Vec<Round>,
}

impl Outcome {
    pub(super) fn new(a: &McastArgs, bench: &str) -> Self {
        let what = json!({
            "schema": 1, "bench": bench, "version": env!("CARGO_PKG_VERSION"),
            "transport": a.team.transport.name(), "nodes": a.team.nodes,
            "senders": a.senders.unwrap_or(a.team.nodes), "size": a.size, "order": a.order.name(), "count": a.count,
            "time_s": a.count.is_none().then_some(Duration::as_secs_f64(&a.time)),
            "loss": a.team.loss, "slow_s": a.slow.as_secs_f64(),
            "config": a.team.stack.config, "define": a.team.stack.define,
        });
        Self { what, size: a.size, rounds: Vec::new() }
    }

    pub(super) fn add(
        &mut self,
        ours: &Measured,
        floor: Option<&Measured>,
        java: Option<&Measured>,
    ) {
        let (floor, java) = (floor.map(Row::new), java.map(Row::new));
        self.rounds.push(Round { ours: Row::new(ours), floor, java });
    }

    /// The round that was added last, for people.
    pub(super) fn last_round(&self) -> String {
        let Some(round) = self.rounds.last() else { return String::new() };
        let mut text = format!("round {}: {}", self.rounds.len(), round.ours.text(self.size));
        for (name, row) in [("floor", &round.floor), ("java", &round.java)] {
            if let Some(row) = row {
                text += &format!("\n  {name}: {}", row.text(self.size));
            }
        }
        text
    }

    fn median(&self, of: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(|r| of(&r.ours)).collect())
    }

    /// Ours divided by theirs in the same round: the median of the rounds.
    fn ratio(&self, to: Beside, of: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let each = |round: &Round| {
            let theirs = of(round.of(to)?)?;
            of(&round.ours).filter(|_| theirs > 0.0).map(|o| o / theirs)
        };
        median(self.rounds.iter().filter_map(each).collect())
    }

    /// The medians, for people.
    pub(super) fn summary(&self) -> String {
        let rate = self.median(|r| Some(r.rate)).unwrap_or(0.0);
        let cpu = self.median(|r| r.cpu);
        let us = |of: usize| self.median(|r| Some(r.latency_us[of])).unwrap_or(0.0);
        let mut text = format!(
            "median:  {rate:.0} msg/s per member, {} µs of CPU per delivery, latency p50 {:.0} µs, p99 {:.0} µs",
            cpu.map_or("?".to_owned(), |c| format!("{c:.3}")),
            us(0),
            us(1),
        );
        for (who, name) in [(Beside::Floor, "bare sockets"), (Beside::Java, "JGroups")] {
            let cpu = self.ratio(who, |r| Some(r.cpu_members));
            if let (Some(cpu), Some(rate)) = (cpu, self.ratio(who, |r| Some(r.rate))) {
                text += &format!(
                    "\n  {cpu:.2} × the CPU of the processes of {name}, {rate:.2} × their rate"
                );
            }
        }
        text
    }

    /// Everything, for programs.
    pub(super) fn json(&self) -> Value {
        let mut all = self.what.clone();
        let rounds = self.rounds.iter().map(|round| {
            let mut row = round.ours.json(self.size);
            for (name, theirs) in [("floor", &round.floor), ("java", &round.java)] {
                if let Some(theirs) = theirs {
                    row[name] = theirs.json(self.size);
                }
            }
            row
        });
        all["rounds"] = rounds.collect();
        all["median"] = json!({
            "msgs_per_s": self.median(|r| Some(r.rate)),
            "cpu_us_per_delivery": self.median(|r| r.cpu),
            "cpu_us_per_delivery_members": self.median(|r| Some(r.cpu_members)),
            "latency_p50_us": self.median(|r| Some(r.latency_us[0])),
            "latency_p99_us": self.median(|r| Some(r.latency_us[1])),
            "peak_mb": self.median(|r| Some(r.peak_mb)),
        });
        for (who, name) in [(Beside::Floor, "floor"), (Beside::Java, "java")] {
            all[format!("cpu_ratio_to_{name}")] = json!(self.ratio(who, |r| r.cpu));
            let members = self.ratio(who, |r| Some(r.cpu_members));
            all[format!("cpu_members_ratio_to_{name}")] = json!(members);
            all[format!("rate_ratio_to_{name}")] = json!(self.ratio(who, |r| Some(r.rate)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_is_taken_round_by_round() {
        let figures = |delivered, wall_us| Figures { delivered, wall_us, ..Figures::default() };
        let measured = |delivered, busy| Measured {
            figures: vec![figures(delivered, 1_000_000); 2],
            busy_us: Some(busy),
            dropped: 0,
        };
        let mut outcome = Outcome { what: json!({}), size: 100, rounds: Vec::new() };
        for (ours, floor) in [(100, 50), (300, 100), (100, 10)] {
            outcome.add(
                &measured(50, ours),
                Some(&measured(100, floor)),
                Some(&measured(25, ours)),
            );
        }
        let json = outcome.json();
        // 1 µs for each of 100 against 0.25 µs for each of 200; 6; 20.
        assert_eq!(json["cpu_ratio_to_floor"], json!(6.0));
        assert_eq!(json["rate_ratio_to_floor"], json!(0.5));
        assert_eq!(json["rate_ratio_to_java"], json!(2.0));
        assert_eq!(json["cpu_ratio_to_java"], json!(0.5));
        assert_eq!(json["median"]["msgs_per_s"], json!(50.0));
        assert_eq!(json["rounds"][0]["floor"]["delivered"], json!(200));
    }

    #[test]
    fn percentiles_count_how_often_a_value_occurs() {
        let [p50, _, _, max] = percentiles([(1_000, 99), (1_000_000, 1)].iter());
        assert!((0.9..1.1).contains(&p50) && (990.0..1_010.0).contains(&max), "{p50} {max}");
    }
}
