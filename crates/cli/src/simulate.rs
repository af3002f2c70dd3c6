//! `sim`: clusters from one seed.

mod covered;
mod scale;
mod small;

use crate::args::{SimAction, SimArgs, SimShape};
use crate::failure::Failure;
use crate::output;
use rgroups_sim::explore::{self, Found, Limits, Situation, Victim};
use rgroups_sim::script;
use rgroups_sim::swarm::{self, Outcome, Profile, Selection, Stack, Task};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Progress is told each time so many seeds are done.
const TELL_EVERY: u64 = 100;

/// Runs the command. Exit code 6: a check found something.
pub(crate) fn run(a: &SimArgs, json: bool) -> Result<u8, Failure> {
    match &a.action {
        SimAction::Run { seeds, first, shape, threads, coverage } => {
            let threads = threads.unwrap_or_else(processors).max(1);
            run_seeds(*first, *seeds, &tasks(shape)?, threads, *coverage, json)
        }
        SimAction::Replay { seed, shape, hash, only, quiet } => {
            let tasks = tasks(shape)?;
            let part = Selection { only: only.clone(), quiet: *quiet };
            replay(*seed, swarm::task_of(*seed, &tasks), &part, *hash, json)
        }
        SimAction::Shrink { seed, shape, within } => {
            let tasks = tasks(shape)?;
            small::shrink(*seed, swarm::task_of(*seed, &tasks), *within, json)
        }
        SimAction::Scale { members, transport, kinds } => {
            let medium = transport.parse().map_err(Failure::usage)?;
            if members.iter().any(|n| !(3..=5_000).contains(n)) {
                return Err(Failure::usage("--members: 3 to 5000"));
            }
            Ok(scale::run(members, medium, *kinds, json))
        }
        SimAction::Explore { situation, losses, crashes, late, at_most, gone } => {
            if situation != "tail-repair" {
                return Err(Failure::usage(format!(
                    "no situation {situation:?}; there is tail-repair"
                )));
            }
            let (losses, crashes, late) = (*losses, *crashes, *late);
            let limits = Limits { losses, crashes, late, at_most: *at_most };
            explore(&cases(gone.as_deref())?, &limits, json)
        }
        SimAction::Script { file } => run_script(file, json),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// One task for each profile.
fn tasks(shape: &SimShape) -> Result<Vec<Task>, Failure> {
    if shape.members == 0 || shape.members > 100 {
        return Err(Failure::usage("--members: 1 to 100"));
    }
    let stack: Stack = shape.stack.parse().map_err(|e: String| Failure::usage(e))?;
    let sends = shape.sends || shape.profile == "sends";
    let SimShape { primary, vsync, order, calls, counters, states, locks, members, .. } = *shape;
    let task = |profile| Task {
        stack,
        sends,
        primary,
        vsync,
        order,
        calls,
        counters,
        states,
        locks,
        ..Task::new(profile, members)
    };
    let tasks: Vec<Task> = match shape.profile.as_str() {
        "all" => Task::all(shape.members),
        names => {
            let profiles = Profile::listed(names).map_err(Failure::usage)?;
            profiles.into_iter().map(task).collect()
        }
    };
    #[cfg(feature = "mutants")]
    let tasks = tasks.into_iter().map(|t| Task { mutant: shape.mutant.clone(), ..t }).collect();
    Ok(tasks)
}

fn run_seeds(
    first: u64,
    n: u64,
    tasks: &[Task],
    threads: usize,
    coverage: bool,
    json: bool,
) -> Result<u8, Failure> {
    let began = Instant::now();
    let done = AtomicU64::new(0);
    let summary = swarm::run(first..first + n, tasks, threads, &|outcome| {
        report(outcome, swarm::task_of(outcome.seed, tasks), json);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(TELL_EVERY) && done < n {
            let seconds = began.elapsed().as_secs_f64();
            let left = seconds / done as f64 * (n - done) as f64;
            anstream::eprintln!("{done} of {n} seeds, {seconds:.0} s, about {left:.0} s to go");
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
    covered::report(&summary.coverage, coverage, json);
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
        output::line(&format!("  {}", replay.replace("sim replay", "sim shrink")));
    }
}

fn replay(
    seed: u64,
    task: &Task,
    part: &Selection,
    hash_only: bool,
    json: bool,
) -> Result<u8, Failure> {
    let (outcome, lines) = match *part == Selection::default() {
        true => swarm::replay(seed, task),
        false => swarm::replay_selected(seed, task, part),
    };
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

/// Who is gone in the cases that are explored, with their names.
fn cases(gone: Option<&str>) -> Result<Vec<(Victim, &'static str)>, Failure> {
    let all = [(Victim::Member, "member"), (Victim::Coordinator, "coordinator")];
    let cases: Vec<_> = all.into_iter().filter(|(_, n)| gone.is_none_or(|g| g == *n)).collect();
    match cases.is_empty() {
        true => Err(Failure::usage("--gone: member or coordinator")),
        false => Ok(cases),
    }
}

/// How often the state of an exploration is told.
const TELL_AFTER: Duration = Duration::from_secs(5);

fn explore(cases: &[(Victim, &str)], limits: &Limits, json: bool) -> Result<u8, Failure> {
    let mut sound = true;
    for (victim, name) in cases {
        let began = Instant::now();
        let mut told = began;
        let found = explore::explore(&Situation::new(*victim), limits, &mut |f: &Found| {
            if told.elapsed() >= TELL_AFTER {
                told = Instant::now();
                let seconds = began.elapsed().as_secs_f64();
                anstream::eprintln!(
                    "a {name} is gone: {} states, {} runs, the longest of {} choices, {} open, \
                     {} states of nodes, {seconds:.0} s",
                    f.states,
                    f.runs,
                    f.longest,
                    f.open,
                    f.node_states,
                );
            }
        });
        sound &= found.broken == 0;
        for f in &found.findings {
            for v in &f.violations {
                output::line(&format!("{name}: {v}"));
            }
            f.story.iter().for_each(|step| output::line(&format!("  {step}")));
        }
        report_explored(name, &found, began.elapsed().as_secs_f64(), json);
    }
    Ok(if sound { 0 } else { 6 })
}

fn report_explored(name: &str, found: &Found, seconds: f64, json: bool) {
    if json {
        return output::object(
            "explored",
            json!({
                "gone": name, "states": found.states, "runs": found.runs,
                "unknown": found.unknown, "broken": found.broken, "outcomes": found.outcomes,
                "steps": found.steps, "longest": found.longest, "node_states": found.node_states,
                "node_steps": found.node_steps, "complete": found.complete, "seconds": seconds,
            }),
        );
    }
    output::line(&format!(
        "a {name} is gone: {} states, {} steps between them, {} runs to an end ({} of them without \
         certainty, {} broken) with {} outcomes, the longest of {} choices; {} in {seconds:.0} s",
        found.states,
        found.steps,
        found.runs,
        found.unknown,
        found.broken,
        found.outcomes,
        found.longest,
        if found.complete { "nothing left" } else { "NOT complete" },
    ));
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
