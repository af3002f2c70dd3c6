//! Two results of the same load side by side.

use crate::failure::Failure;
use crate::output;
use serde_json::{Value, json};
use std::path::Path;

/// What is compared: its name among the medians, and whether more is better.
const COMPARED: [(&str, bool); 13] = [
    ("msgs_per_s", true),
    ("cpu_us_per_delivery", false),
    ("latency_p50_us", false),
    ("latency_p99_us", false),
    ("peak_mb", false),
    ("cpu_us_per_call", false),
    ("calls_per_s", true),
    ("read_p50_us", false),
    ("read_p99_us", false),
    ("write_p50_us", false),
    ("write_p99_us", false),
    ("first_ms", false),
    ("last_ms", false),
];
/// What makes it the same load.
const LOAD: [&str; 14] = [
    "bench",
    "transport",
    "nodes",
    "senders",
    "size",
    "count",
    "time_s",
    "level",
    "oldest",
    "clients",
    "callers",
    "reads",
    "copies",
    "oob",
];

/// Runs the command.
pub(super) fn run(before: &Path, after: &Path, tolerance: f64, json: bool) -> Result<u8, Failure> {
    let (old, new) = (read(before)?, read(after)?);
    if let Some(what) = LOAD.iter().find(|what| old[**what] != new[**what]) {
        let text = format!("not the same load: {what} is {} and {}", old[*what], new[*what]);
        return Err(Failure::usage(text));
    }
    let rows = rows(&old["median"], &new["median"], tolerance);
    let worse = rows.iter().any(|r| r.worse);
    if json {
        let rows: Vec<Value> = rows.iter().map(Compared::json).collect();
        output::line(&json!({"schema": 1, "worse": worse, "rows": rows}).to_string());
    } else {
        rows.iter().for_each(|r| output::line(&r.text()));
    }
    Ok(if worse { 6 } else { 0 })
}

fn read(path: &Path) -> Result<Value, Failure> {
    let wrong = |e: String| Failure::run(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    match value["schema"] == 1 && value["median"].is_object() {
        true => Ok(value),
        false => Err(wrong("not a result of `rgroups bench --json`".to_owned())),
    }
}

struct Compared {
    name: &'static str,
    before: f64,
    after: f64,
    worse: bool,
}

fn rows(old: &Value, new: &Value, tolerance: f64) -> Vec<Compared> {
    let row = |(name, more_is_better): &(&'static str, bool)| {
        let (before, after) = (old[*name].as_f64()?, new[*name].as_f64()?);
        let allowed = before * tolerance / 100.0;
        let worse = match more_is_better {
            true => after < before - allowed,
            false => after > before + allowed,
        };
        Some(Compared { name, before, after, worse })
    };
    COMPARED.iter().filter_map(row).collect()
}

impl Compared {
    fn text(&self) -> String {
        let change = (self.after / self.before - 1.0) * 100.0;
        let mark = if self.worse { "  worse" } else { "" };
        format!(
            "{:<20} {:>12.3} {:>12.3} {change:>+7.1} %{mark}",
            self.name, self.before, self.after
        )
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "before": self.before, "after": self.after, "worse": self.worse})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_means_slower_or_more_costly_than_the_tolerance() {
        let old = json!({"msgs_per_s": 100.0, "cpu_us_per_delivery": 1.0});
        let worse = |new: Value| rows(&old, &new, 5.0).iter().map(|r| r.worse).collect::<Vec<_>>();
        assert_eq!(worse(json!({"msgs_per_s": 96.0, "cpu_us_per_delivery": 1.04})), [false, false]);
        assert_eq!(worse(json!({"msgs_per_s": 94.0, "cpu_us_per_delivery": 0.5})), [true, false]);
        assert_eq!(worse(json!({"msgs_per_s": 200.0, "cpu_us_per_delivery": 1.06})), [false, true]);
    }
}
