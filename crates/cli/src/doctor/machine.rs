//! What the machine gives a member: packets that come through to its ports, a clock without jumps,
//! time to run.

use super::finding::{Finding, Kind};
use super::settings::{Settings, Transport};
use rgroups::BindChoice;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

/// What is sent to ourselves: nothing that a member would take for one of its own.
const MARK: &[u8] = b"rgroups doctor";
/// A packet to ourselves takes microseconds; a filter that drops it is silent.
const ARRIVAL: Duration = Duration::from_millis(500);
/// How long the clocks are watched.
const WATCH: Duration = Duration::from_secs(1);
/// The naps between two looks.
const NAP: Duration = Duration::from_millis(5);
/// Clocks that are further apart than this after the watch have jumped.
const JUMP: Duration = Duration::from_millis(100);
/// A thread that wakes later than this is short of a processor: a member in its place would be slow
/// to answer those who ask whether it lives.
const LATE: Duration = Duration::from_millis(50);

/// Sends a packet to each port that a member uses here. Who has no right to read the rules of a
/// filter finds out only by trying, and only about this host.
pub(crate) fn firewall(settings: &Settings, t: Transport, choice: &BindChoice) -> Finding {
    let ip = choice.ip;
    let mut ports = Vec::new();
    let own: u16 = settings.value(t.name(), "bind_port").unwrap_or(0);
    ports.push((t, own));
    if settings.protocols().contains(&"FD_SOCK2") {
        let offset: u16 = settings.value("FD_SOCK2", "offset").unwrap_or(100);
        // Beside a port that the system chooses, so is FD_SOCK2's.
        ports.push((Transport::Tcp, if own == 0 { 0 } else { own.saturating_add(offset) }));
    }
    let (mut open, mut shut) = (Vec::new(), Vec::new());
    for (kind, port) in ports {
        let name = kind.name().to_lowercase();
        match knock(kind, SocketAddr::new(ip, port)) {
            Knock::Heard(at) => open.push(format!("{name} {}", at.port())),
            Knock::Taken => open.push(format!("{name} {port} (taken, answers)")),
            Knock::Refused(at, why) => shut.push(format!("{name} {}: {why}", at.port())),
        }
    }
    if !shut.is_empty() {
        let text = format!("our own packets do not come through on {ip}: {}", shut.join("; "));
        let remedy = "a packet filter drops them: nft list ruleset, or iptables -L, as root";
        return Finding::new(Kind::Fail, "firewall", text).remedy(remedy);
    }
    let text = format!("packets to ourselves come through on {ip}: {}", open.join(", "));
    Finding::new(Kind::Ok, "firewall", text)
        .remedy("from other hosts: run doctor there with --cluster while a member runs here")
}

/// What became of a packet to one of our own ports.
enum Knock {
    /// It came through to this address.
    Heard(SocketAddr),
    /// Somebody has the port; a stream to it could be opened.
    Taken,
    /// It did not, and why.
    Refused(SocketAddr, String),
}

fn knock(kind: Transport, at: SocketAddr) -> Knock {
    let done = match kind {
        Transport::Udp => datagram(at),
        Transport::Tcp => stream(at),
    };
    match done {
        Ok(at) => Knock::Heard(at),
        Err(e) if e.kind() == ErrorKind::AddrInUse => match kind {
            // Whoever has it cannot be asked by a datagram without being disturbed.
            Transport::Udp => Knock::Taken,
            Transport::Tcp => match TcpStream::connect_timeout(&at, ARRIVAL) {
                Ok(_) => Knock::Taken,
                Err(e) => Knock::Refused(at, e.to_string()),
            },
        },
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Knock::Refused(at, "nothing arrived".to_owned())
        }
        Err(e) => Knock::Refused(at, e.to_string()),
    }
}

fn datagram(at: SocketAddr) -> std::io::Result<SocketAddr> {
    let receiver = UdpSocket::bind(at)?;
    let at = receiver.local_addr()?;
    receiver.set_read_timeout(Some(ARRIVAL))?;
    UdpSocket::bind((at.ip(), 0))?.send_to(MARK, at)?;
    let mut buffer = [0; 64];
    let n = receiver.recv(&mut buffer)?;
    if buffer[..n] == *MARK { Ok(at) } else { Err(ErrorKind::TimedOut.into()) }
}

fn stream(at: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let at = listener.local_addr()?;
    let mut client = TcpStream::connect_timeout(&at, ARRIVAL)?;
    client.write_all(MARK)?;
    let (mut server, _) = listener.accept()?;
    server.set_read_timeout(Some(ARRIVAL))?;
    let mut buffer = [0; MARK.len()];
    server.read_exact(&mut buffer)?;
    Ok(at)
}

/// Watches the clocks while napping: whether the time of day and the one that only goes forward
/// agree, and how late a thread wakes.
pub(crate) fn clock_and_cpu() -> Vec<Finding> {
    let (began, wall) = (Instant::now(), SystemTime::now());
    let mut late = Vec::new();
    while began.elapsed() < WATCH {
        let before = Instant::now();
        std::thread::sleep(NAP);
        late.push(before.elapsed().saturating_sub(NAP));
    }
    let passed = began.elapsed();
    let drift = match wall.elapsed() {
        Ok(by_wall) => by_wall.abs_diff(passed),
        Err(back) => passed + back.duration(),
    };
    late.sort_unstable();
    // The naps are not empty: the watch is longer than one of them.
    let p99 = late.get(late.len() * 99 / 100).or(late.last()).copied().unwrap_or_default();
    vec![clock(drift), cpu(p99)]
}

fn clock(drift: Duration) -> Finding {
    if drift <= JUMP {
        return Finding::new(Kind::Ok, "clock", format!("no jump in {WATCH:?}"));
    }
    let text = format!("the time of day jumped by {drift:?} within {WATCH:?}");
    Finding::new(Kind::Warn, "clock", text).remedy(
        "members measure with a clock that does not jump; logs of several hosts are hard to \
         compare, and certificates may seem expired: let NTP slew and not step",
    )
}

/// How many processors there are, whether a quota cuts them, and how late a thread wakes.
fn cpu(p99: Duration) -> Finding {
    let online = std::thread::available_parallelism().map_or(1, usize::from);
    let quota = quota().map_or_else(String::new, |q| format!(", a quota of {q:.1} of them"));
    let ms = p99.as_secs_f64() * 1e3;
    let text = format!("{online} processors{quota}; a thread wakes at most {ms:.1} ms late (p99)");
    if p99 <= LATE {
        return Finding::new(Kind::Ok, "cpu", text);
    }
    Finding::new(Kind::Warn, "cpu", text).remedy(
        "a member here is slow to answer: less load, a larger quota (cpu.max of the control \
         group), or a longer FD_ALL3.timeout",
    )
}

/// The processors that a control group lets us use, where there is a limit (cgroup v2 and v1).
fn quota() -> Option<f64> {
    let number =
        |file: &str| -> Option<f64> { std::fs::read_to_string(file).ok()?.trim().parse().ok() };
    let v1 = || {
        let of = |name: &str| number(&format!("/sys/fs/cgroup/cpu/cpu.cfs_{name}_us"));
        Some((of("quota")?, of("period")?))
    };
    let v2 = || {
        let text = std::fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?;
        parse_quota(&text)
    };
    let (quota, period) = v2().or_else(v1)?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// `200000 100000`, or `max 100000` where there is no limit.
fn parse_quota(text: &str) -> Option<(f64, f64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_wakes_late_is_a_warning() {
        assert_eq!(cpu(Duration::from_millis(1)).kind, Kind::Ok);
        let slow = cpu(Duration::from_millis(80));
        assert_eq!(slow.kind, Kind::Warn);
        assert!(slow.text.contains("80.0 ms late"), "{}", slow.text);
    }

    #[test]
    fn a_clock_that_jumps_is_a_warning() {
        assert_eq!(clock(Duration::from_millis(1)).kind, Kind::Ok);
        assert_eq!(clock(Duration::from_secs(3)).kind, Kind::Warn);
    }

    #[test]
    fn quotas_are_read_and_no_limit_is_none() {
        assert_eq!(parse_quota("150000 100000\n"), Some((150_000.0, 100_000.0)));
        assert_eq!(parse_quota("max 100000\n"), None);
    }

    #[test]
    fn a_packet_to_a_free_port_is_heard() {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(matches!(knock(Transport::Udp, at), Knock::Heard(_)));
        assert!(matches!(knock(Transport::Tcp, at), Knock::Heard(_)));
    }
}
