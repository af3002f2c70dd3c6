//! Several loads, one after the other, as one table: each is a command of its own, which the table names, so
//! that every line can be repeated alone.

use crate::args::{Other, TableArgs};
use crate::failure::Failure;
use crate::output;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::process::Command;

/// One line of a table.
pub(super) struct Load {
    name: String,
    target: &'static str,
    args: Vec<String>,
    shown: Shown,
}

/// What a load tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Messages per second, and processor time, beside bare sockets and JGroups.
    Rates,
    /// Percentiles of round trips.
    Latency,
    /// How long changes of the group take.
    Changes,
    /// Rates, and what was sent again or lost.
    Trouble,
}

fn load(name: impl Into<String>, target: &'static str, shown: Shown, args: &str) -> Load {
    let args = args.split_whitespace().map(str::to_owned).collect();
    Load { name: name.into(), target, args, shown }
}

/// The loads that have targets.
pub(super) fn targets(a: &TableArgs) -> Vec<Load> {
    let java = if a.peer == Some(Other::Java) { " --peer java" } else { "" };
    let (secs, rounds) = (a.time.as_millis(), a.rounds);
    let mcast = |name: &str, target, transport: &str, more: &str| {
        let args = format!(
            "mcast --transport {transport} {more} --time {secs}ms --rounds {rounds} --floor{java}"
        );
        load(format!("{name}, {transport}"), target, Shown::Rates, &args)
    };
    let mut all = Vec::new();
    for t in ["udp", "tcp"] {
        all.push(mcast(
            "4 members, all send 64 B",
            "<= 0.15 us, >= 3 M/s, >= 8 x JGroups",
            t,
            "--size 64",
        ));
        all.push(mcast(
            "4 members, all send 1 KB",
            "<= 1.6 x floor CPU, >= 2.6 x JGroups",
            t,
            "--size 1k",
        ));
        all.push(mcast("4 members, all send 10 KB", ">= 800 MB/s", t, "--size 10k"));
        all.push(mcast("4 members, all send 60 KB", ">= 800 MB/s", t, "--size 60k"));
        all.push(mcast("4 members, one sends 1 KB", ">= 2 x JGroups", t, "--size 1k --senders 1"));
    }
    for t in ["udp", "tcp"] {
        let calls = format!("--transport {t} --rounds {rounds} --count 5000");
        let rtt = format!("rtt --nodes 2 {calls}");
        all.push(load(
            format!("round trip 64 B, {t}"),
            "p50 <= 2.5 x bare, p99 <= 120 us",
            Shown::Latency,
            &rtt,
        ));
        let rsvp = format!("rsvp --nodes 4 {calls}");
        all.push(load(
            format!("synchronous multicast to 4, {t}"),
            "p50 <= 80, p99 <= 250 us",
            Shown::Latency,
            &rsvp,
        ));
        let changes = format!("--nodes 4 --transport {t} --rounds {rounds}");
        all.push(load(
            format!("kill -9 to view, {t}"),
            "<= 100 ms",
            Shown::Changes,
            &format!("crash {changes}"),
        ));
        all.push(load(
            format!("join of the 4th, {t}"),
            "<= 20 ms",
            Shown::Changes,
            &format!("join {changes}"),
        ));
    }
    all
}

/// The loads that must not collapse.
pub(super) fn overload(a: &TableArgs) -> Vec<Load> {
    let (millis, rounds) = (a.time.as_millis(), a.rounds);
    let mut all = Vec::new();
    for t in ["udp", "tcp"] {
        let mut add = |name: &str, target, more: &str| {
            let args = format!("mcast --transport {t} --rounds {rounds} {more}");
            all.push(load(format!("{name}, {t}"), target, Shown::Trouble, &args));
        };
        let timed = |more: &str| format!("{more} --time {millis}ms");
        let flood = "--senders 1 --size 64 --count 600000 --warm-up 0";
        add("600,000 x 64 B of one sender", "ends", flood);
        let slow = timed("--nodes 9 --senders 8 --size 1k --slow 2ms");
        add("8 senders, a slow receiver, 1 KB", "nothing lost", &slow);
        for (share, name) in [("0", "no loss"), ("0.01", "1 % loss"), ("0.05", "5 % loss")] {
            let args = timed(&format!("--size 1k --loss {share}"));
            add(&format!("4 members, 1 KB, {name}"), "no stall", &args);
        }
        add("8 members, all send 1 KB", "no stall", &timed("--nodes 8 --size 1k"));
        add("16 members, all send 1 KB", "no stall", &timed("--nodes 16 --size 1k"));
    }
    all
}

/// Runs them all. A load that fails has its line too, and fails the whole in the end.
pub(super) async fn run(loads: &[Load], a: &TableArgs, json: bool) -> Result<(), Failure> {
    let only = |l: &&Load| a.only.as_ref().is_none_or(|text| l.name.contains(text.as_str()));
    let loads: Vec<&Load> = loads.iter().filter(only).collect();
    if loads.is_empty() {
        return Err(Failure::usage("--only: no load has this in its name"));
    }
    if !json {
        output::line(
            "| load | target | reached | bare sockets | JGroups | command: rgroups bench |",
        );
        output::line("|---|---|---|---|---|---|");
    }
    let mut failed = Vec::new();
    for load in loads {
        let result = measure(load).await;
        if json {
            let result = result.clone().unwrap_or_else(|why| json!({ "failed": why }));
            let line = json!({"load": load.name, "target": load.target, "result": result});
            output::line(&line.to_string());
        } else {
            let [reached, floor, java] = match &result {
                Ok(r) => cells(load.shown, r),
                Err(why) => [format!("failed: {}", output::escaped(why)), dash(), dash()],
            };
            let (name, target, command) = (&load.name, load.target, load.args.join(" "));
            let cells = format!("{reached} | {floor} | {java}");
            output::line(&format!("| {name} | {target} | {cells} | `{command}` |"));
        }
        if result.is_err() {
            failed.push(load.name.as_str());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::run(format!("failed: {}", failed.join("; ")))),
    }
}

/// Runs a load in a process of its own, which ends with this one.
async fn measure(load: &Load) -> Result<Value, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(me);
    command.args(["--json", "bench"]).args(&load.args).stdin(Stdio::null()).kill_on_drop(true);
    let done = command.output().await.map_err(|e| e.to_string())?;
    let (said, complaint) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let last = said.lines().last().and_then(|l| serde_json::from_str::<Value>(l).ok());
    match last.filter(|_| done.status.success()) {
        Some(result) => Ok(result),
        None => {
            Err(complaint.lines().find(|l| !l.trim().is_empty()).unwrap_or("no result").to_owned())
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// What was reached, what bare sockets did, and what JGroups did.
fn cells(shown: Shown, r: &Value) -> [String; 3] {
    let median = |of: &str| r["median"][of].as_f64();
    let number = |v: Option<f64>, digits: usize| v.map_or(dash(), |v| format!("{v:.digits$}"));
    match shown {
        Shown::Rates | Shown::Trouble => {
            let size = r["size"].as_f64().unwrap_or(0.0);
            let rate = |rate: Option<f64>| match rate {
                Some(rate) => format!("{:.0} k/s, {:.0} MB/s", rate / 1e3, rate * size / 1e6),
                None => dash(),
            };
            let cpu = number(median("cpu_us_per_delivery_members"), 3);
            let mut reached = format!("{}, {cpu} us", rate(median("msgs_per_s")));
            if shown == Shown::Trouble {
                let sum = |of: &str| {
                    let rounds = r["rounds"].as_array().into_iter().flatten();
                    rounds.filter_map(|round| round[of].as_u64()).sum::<u64>()
                };
                let (again, dropped) = (sum("retransmitted"), sum("datagrams_dropped"));
                reached += &format!(", {again} sent again, {dropped} datagrams dropped");
            }
            let beside = |who: &str| {
                let cpu = r[format!("cpu_members_ratio_to_{who}")].as_f64();
                match (cpu, r[format!("rate_ratio_to_{who}")].as_f64()) {
                    (Some(cpu), Some(rate)) => format!("{cpu:.2} x CPU, {rate:.2} x rate"),
                    _ => dash(),
                }
            };
            [reached, beside("floor"), beside("java")]
        }
        Shown::Latency => {
            let (p50, p99) =
                (number(median("latency_p50_us"), 0), number(median("latency_p99_us"), 0));
            [format!("p50 {p50} us, p99 {p99} us"), dash(), dash()]
        }
        Shown::Changes => {
            let (first, last) = (number(median("first_ms"), 1), number(median("last_ms"), 1));
            [format!("first {first} ms, last {last} ms"), dash(), dash()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_medians_and_the_ratios() {
        let r = json!({
            "size": 1000, "median": {"msgs_per_s": 250_000.0, "cpu_us_per_delivery_members": 0.8},
            "cpu_members_ratio_to_floor": 1.5, "rate_ratio_to_floor": 0.5,
            "rounds": [{"retransmitted": 2, "datagrams_dropped": 1}, {"retransmitted": 3}],
        });
        let [reached, floor, java] = cells(Shown::Trouble, &r);
        let expected = "250 k/s, 250 MB/s, 0.800 us, 5 sent again, 1 datagrams dropped";
        assert_eq!((reached.as_str(), java.as_str()), (expected, "-"));
        assert_eq!(floor, "1.50 x CPU, 0.50 x rate");
    }
}
