//! What the operating system tells: processor time, memory, datagrams that it dropped.

use std::fs;

/// `/proc` counts processor time in hundredths of a second.
const TICK_US: u64 = 10_000;

/// Processor time that the whole machine was busy so far, in microseconds.
pub(super) fn busy_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> = numbers(text.lines().next()?.strip_prefix("cpu")?);
    // user nice system idle iowait irq softirq steal
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|i| fields.get(*i)).sum::<u64>();
    Some(busy * TICK_US)
}

/// Processor time of this process so far, in microseconds.
pub(super) fn own_us() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may contain anything.
    let Some((_, rest)) = text.rsplit_once(')') else { return 0 };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * TICK_US
}

/// The largest memory of this process so far, in kB.
pub(super) fn peak_kb() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| numbers(l).first().copied()).unwrap_or(0)
}

/// Datagrams of the whole machine that found no room in their socket so far.
pub(super) fn dropped_by_sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut udp = text.lines().filter_map(|l| l.strip_prefix("Udp:"));
    let (Some(names), Some(values)) = (udp.next(), udp.next()) else { return 0 };
    let place = names.split_whitespace().position(|n| n == "RcvbufErrors");
    place.and_then(|i| numbers(values).get(i).copied()).unwrap_or(0)
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_it() {
        assert!(busy_us().expect("/proc/stat") > 0);
        assert!(peak_kb() > 100, "{}", peak_kb());
        let before = own_us();
        let began = std::time::Instant::now();
        while own_us() == before {
            assert!(began.elapsed().as_secs() < 30, "processor time does not pass");
        }
    }
}
