//! `sim`: clusters from one seed.

use crate::args::{SimAction, SimArgs, SimShape};
use crate::failure::Failure;
use crate::output;
use rgroups_sim::script;
use rgroups_sim::swarm::{self, Outcome, Profile, Task};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Progress is told each time so many seeds are done.
const TELL_EVERY: u64 = 100;

/// Runs the command. Exit code 6: a check found something.
pub(crate) fn run(a: &SimArgs, json: bool) -> Result<u8, Failure> {
    match &a.action {
        SimAction::Run { seeds, first, shape, threads } => {
            let threads = threads.unwrap_or_else(processors).max(1);
            run_seeds(*first, *seeds, &task(shape)?, threads, json)
        }
        SimAction::Replay { seed, shape, hash } => replay(*seed, &task(shape)?, *hash, json),
        SimAction::Script { file } => run_script(file, json),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn task(shape: &SimShape) -> Result<Task, Failure> {
    let profile: Profile = shape.profile.parse().map_err(|e: String| Failure::usage(e))?;
    if shape.members == 0 || shape.members > 100 {
        return Err(Failure::usage("--members: 1 to 100"));
    }
    let stack = shape.stack.parse().map_err(|e: String| Failure::usage(e))?;
    let task = Task { stack, ..Task::new(profile, shape.members) };
    #[cfg(feature = "mutants")]
    let task = Task { mutant: shape.mutant.clone(), ..task };
    Ok(task)
}

fn run_seeds(first: u64, n: u64, task: &Task, threads: usize, json: bool) -> Result<u8, Failure> {
    let began = Instant::now();
    let done = AtomicU64::new(0);
    let summary = swarm::run(first..first + n, task, threads, &|outcome| {
        report(outcome, task, json);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(TELL_EVERY) && done < n {
            anstream::eprintln!("{done} of {n} seeds, {:.0} s", began.elapsed().as_secs_f64());
        }
        true
    });
    let (failed, seconds) = (summary.failures.len(), began.elapsed().as_secs_f64());
    let t = &summary.total;
    if json {
        output::object(
            "summary",
            json!({
                "seeds": summary.seeds, "failed": failed, "seconds": seconds,
                "messages": t.messages, "deliveries": t.deliveries, "views": t.views,
                "simulated_seconds": t.time.as_secs_f64(),
            }),
        );
    } else {
        output::line(&format!(
            "{} seeds, {failed} failed; {} messages, {} deliveries, {} views, {:.0} s simulated \
             in {seconds:.1} s",
            summary.seeds,
            t.messages,
            t.deliveries,
            t.views,
            t.time.as_secs_f64()
        ));
    }
    Ok(if failed == 0 { 0 } else { 6 })
}

/// A failing seed: what it violates, and the command that repeats it.
fn report(outcome: &Outcome, task: &Task, json: bool) {
    if outcome.violations.is_empty() {
        return;
    }
    let replay = task.replay_command(outcome.seed);
    let violations: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
    if json {
        let o = json!({"seed": outcome.seed, "violations": violations, "replay": replay});
        output::object("failure", o);
    } else {
        for v in violations {
            output::line(&format!("seed {}: {v}", outcome.seed));
        }
        output::line(&format!("  {replay}"));
    }
}

fn replay(seed: u64, task: &Task, hash_only: bool, json: bool) -> Result<u8, Failure> {
    let (outcome, lines) = swarm::replay(seed, task);
    let hash = format!("{:016x}", outcome.transcript_hash);
    if json {
        let lines = if hash_only { Vec::new() } else { lines };
        output::object("transcript", json!({"seed": seed, "hash": hash, "lines": lines}));
    } else if hash_only {
        output::line(&hash);
    } else {
        for l in lines {
            output::line(&l);
        }
        output::line(&format!("transcript hash {hash}"));
    }
    report(&outcome, task, json);
    Ok(if outcome.violations.is_empty() { 0 } else { 6 })
}

fn run_script(file: &Path, json: bool) -> Result<u8, Failure> {
    let ran = script::run_file(file, false)
        .map_err(|e| Failure::run(format!("cannot read {}: {e}", file.display())))?;
    let failures: Vec<String> =
        ran.failures.iter().map(|f| format!("{}:{}: {}", file.display(), f.line, f.text)).collect();
    if json {
        output::object("script", json!({"failures": failures, "transcript": ran.transcript}));
    } else {
        for l in &ran.transcript {
            output::line(l);
        }
        for f in &failures {
            anstream::eprintln!("{f}");
        }
    }
    Ok(if failures.is_empty() { 0 } else { 6 })
}
