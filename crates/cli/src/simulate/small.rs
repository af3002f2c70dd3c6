//! `sim shrink`.

use super::{Failure, output};
use rgroups_sim::swarm::{self, Task};
use serde_json::json;
use std::time::Duration;

pub(super) fn shrink(seed: u64, task: &Task, within: Duration, json: bool) -> Result<u8, Failure> {
    let found = swarm::shrink(seed, task, within, &mut |left| anstream::eprintln!("{left} events"));
    let Some(small) = found else {
        return Err(Failure::run(format!(
            "seed {seed} breaks nothing: there is nothing to shrink"
        )));
    };
    let replay = task.replay_command(seed) + &small.selection.options();
    let violations: Vec<String> = small.violations.iter().map(ToString::to_string).collect();
    if json {
        output::object(
            "shrunk",
            json!({
                "seed": seed, "drawn": small.drawn, "script": small.script, "runs": small.runs,
                "minimal": small.minimal, "quiet": small.selection.quiet,
                "violations": violations, "replay": replay,
            }),
        );
        return Ok(6);
    }
    let (left, drawn, runs) = (small.script.len(), small.drawn, small.runs);
    let how = if small.minimal { "none of them can be left out" } else { "the time was over" };
    output::line(&format!("# seed {seed}: {left} of {drawn} events, after {runs} runs; {how}"));
    small.script.iter().for_each(|l| output::line(l));
    violations.iter().for_each(|v| output::line(&format!("# {v}")));
    output::line(&format!("# {replay}"));
    Ok(6)
}
