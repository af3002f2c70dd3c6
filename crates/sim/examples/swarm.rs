//! Runs a range of seeds: `swarm PROFILE MEMBERS FIRST LAST [THREADS]`, or one with its transcript:
//! `swarm PROFILE MEMBERS SEED`.

use rgroups_sim::swarm::{self, Profile, Task};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "swarm PROFILE MEMBERS FIRST LAST [THREADS], or swarm PROFILE MEMBERS SEED";
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
    let profile = args.first().and_then(|a| a.parse::<Profile>().ok());
    let (Some(profile), Some(members), Some(first)) = (profile, number(1), number(2)) else {
        eprintln!("{usage}");
        std::process::exit(2);
    };
    let mut task = Task::new(profile, members as usize);
    task.mutant = std::env::var("MUTANT").ok();
    let Some(last) = number(3) else {
        let (outcome, lines) = swarm::replay(first, &task);
        lines.iter().for_each(|l| println!("{l}"));
        outcome.violations.iter().for_each(|v| println!("VIOLATION {v}"));
        return;
    };
    let threads = number(4).unwrap_or(2) as usize;
    let start = std::time::Instant::now();
    let summary = swarm::run(first..last, &task, threads, &|outcome| {
        for v in &outcome.violations {
            println!("{} {v}", outcome.seed);
        }
        true
    });
    let failed: Vec<u64> = summary.failures.iter().map(|o| o.seed).collect();
    println!("{} of {} failed: {failed:?}", failed.len(), summary.seeds);
    println!("{:?} in {:?}", summary.total, start.elapsed());
}
