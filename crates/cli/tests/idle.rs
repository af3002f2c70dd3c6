//! What three idle members cost the machine.

mod common;

use common::{Net, PATIENCE, Proc};
use std::time::{Duration, Instant};

/// Of one core, for each member.
const SHARE: f64 = 0.002;

/// CPU time that a process has used, in clock ticks of 10 ms; `None` where the system does not tell.
fn ticks(p: &Proc) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", p.id())).ok()?;
    // The name, in parentheses, may hold anything; the fields after it are numbers.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Twenty seconds by default, of which four ticks are allowed; `RGROUPS_IDLE_SECONDS` measures longer.
fn idle_members_sleep(net: &Net) {
    let seconds = std::env::var("RGROUPS_IDLE_SECONDS").ok().and_then(|s| s.parse().ok());
    let how_long = Duration::from_secs(seconds.unwrap_or(20));
    let mut members: Vec<Proc> =
        ["A", "B", "C"].iter().map(|name| net.start("chat", name, &[])).collect();
    for m in &mut members {
        m.find(PATIENCE, |v| v["members"].as_array().is_some_and(|m| m.len() == 3));
    }
    let before: Vec<_> = members.iter().map(ticks).collect();
    let began = Instant::now();
    std::thread::sleep(how_long);
    let took = began.elapsed().as_secs_f64();
    for (m, before) in members.iter().zip(before) {
        let (Some(before), Some(after)) = (before, ticks(m)) else {
            println!("skipped: this system has no /proc");
            return;
        };
        let used = (after - before) as f64 / 100.0;
        println!("{}: {used:.2} s of {took:.1} s", net.transport);
        assert!(used <= took * SHARE, "{used} s of {took} s is more than a share of {SHARE}");
    }
}

#[test]
fn udp_three_idle_members_use_next_to_no_processor() {
    idle_members_sleep(&Net::udp());
}

#[test]
fn tcp_three_idle_members_use_next_to_no_processor() {
    idle_members_sleep(&Net::tcp());
}
