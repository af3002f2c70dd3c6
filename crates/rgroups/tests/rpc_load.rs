//! Calls at full speed while a member is killed and another one stands still: eight processes on the
//! loopback interface, four of which call all the time.
//!
//! ```sh
//! RGROUPS_LOAD=60 cargo test --release -p rgroups --test rpc_load -- --nocapture
//! ```
//!
//! runs for a minute; without the variable it is a few seconds. Every call must end by its deadline, with
//! one row for every member, and every row must be true: what a member answered it has carried out, what
//! did not leave it has not, nothing was carried out twice, nobody is late before the deadline, and only the
//! killed one has left.
#![cfg(all(unix, feature = "rpc"))]

use rgroups::rpc::{CallOptions, Caller, Dispatcher, RpcError};
use rgroups::{Address, Channel, Config, block_on};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const NAMES: [&str; 8] = ["C1", "C2", "C3", "C4", "M1", "M2", "KILLED", "PAUSED"];
const CALLERS: usize = 4;
/// Calls of one caller at a time.
const AT_A_TIME: usize = 8;
const DEADLINE: Duration = Duration::from_secs(1);
/// What the machine may need to let a caller notice: eight processes share its processors.
const SLACK: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);

// ---- a member

/// What this member has carried out, by caller: the numbers of its calls, as bits.
#[derive(Default)]
struct Done {
    of: HashMap<Address, Vec<u8>>,
    twice: u32,
}

impl Done {
    fn note(&mut self, caller: Address, n: u32) {
        let bits = self.of.entry(caller).or_default();
        let (byte, bit) = (n as usize / 8, 1 << (n % 8));
        if bits.len() <= byte {
            bits.resize(byte + 1024, 0);
        }
        self.twice += u32::from(bits[byte] & bit != 0);
        bits[byte] |= bit;
    }
}

fn has(bits: &[u8], n: u32) -> bool {
    bits.get(n as usize / 8).is_some_and(|b| b & (1 << (n % 8)) != 0)
}

/// What a caller found.
#[derive(Default)]
struct Found {
    calls: u32,
    latest: Duration,
    rows: HashMap<String, u64>,
    /// Per member: calls that it answered, and calls that it never had.
    answered: HashMap<Address, Vec<u32>>,
    unsent: HashMap<Address, Vec<u32>>,
    wrong: Vec<String>,
}

fn serve(channel: &Channel) -> (Dispatcher, Arc<Mutex<Done>>) {
    let done = Arc::new(Mutex::new(Done::default()));
    let (work, report) = (Arc::clone(&done), Arc::clone(&done));
    let rpc = Dispatcher::builder(channel)
        .handle("work", move |who: Caller, n: u32| {
            work.lock().expect("not poisoned").note(who.from, n);
            async move { Ok(n ^ 0x5555) }
        })
        .handle("done", move |who: Caller, (): ()| {
            let done = report.lock().expect("not poisoned");
            let bits = done.of.get(&who.from).cloned().unwrap_or_default();
            let twice = done.twice;
            async move { Ok((bits, twice)) }
        })
        .build();
    (rpc, done)
}

fn call_at_full_speed(rpc: &Dispatcher, names: &HashMap<Address, String>, until: Instant) -> Found {
    let (next, found) = (AtomicU32::new(0), Mutex::new(Found::default()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while Instant::now() < until {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let options = CallOptions { timeout: DEADLINE, ..CallOptions::default() };
                    let began = Instant::now();
                    let rows = block_on(rpc.call_all::<_, u32>("work", n, options));
                    let took = began.elapsed();
                    let mut found = found.lock().expect("not poisoned");
                    found.note(names, n, took, rows.map_err(|e| e.to_string()));
                }
            });
        }
    });
    found.into_inner().expect("not poisoned")
}

impl Found {
    fn note(
        &mut self,
        names: &HashMap<Address, String>,
        n: u32,
        took: Duration,
        rows: Result<rgroups::rpc::Responses<u32>, String>,
    ) {
        self.calls += 1;
        self.latest = self.latest.max(took);
        if took > DEADLINE + SLACK {
            self.wrong.push(format!("call {n} took {took:?}"));
        }
        let rows = match rows {
            Ok(rows) => rows,
            Err(why) => return self.wrong.push(format!("call {n}: {why}")),
        };
        if rows.len() != NAMES.len() && rows.len() != NAMES.len() - 1 {
            self.wrong.push(format!("call {n} has {} rows", rows.len()));
        }
        for (member, row) in rows.iter() {
            let name = names.get(&member).map_or("?", String::as_str);
            let kind = match row {
                Ok(value) if *value == n ^ 0x5555 => {
                    self.answered.entry(member).or_default().push(n);
                    "answered"
                }
                Ok(value) => {
                    self.wrong.push(format!("call {n} of {name}: {value}"));
                    "wrong value"
                }
                // Flow control waits for the slowest: what does not leave, leaves for nobody.
                Err(RpcError::Timeout { sent: false, .. }) if took >= DEADLINE => {
                    self.unsent.entry(member).or_default().push(n);
                    "timeout, not sent"
                }
                // The machine may be too busy for anybody, but not before the time is over.
                Err(RpcError::Timeout { sent: true, .. }) if took >= DEADLINE => "timeout",
                Err(RpcError::Left(_)) if name == "KILLED" => "left",
                Err(RpcError::Overloaded(_)) if name == "PAUSED" => {
                    self.unsent.entry(member).or_default().push(n);
                    "overloaded"
                }
                Err(other) => {
                    self.wrong.push(format!("call {n} of {name}: {other}"));
                    "wrong"
                }
            };
            *self.rows.entry(format!("{name} {kind}")).or_default() += 1;
        }
    }

    /// Compares the rows with what members say that they have carried out.
    fn compare(&mut self, rpc: &Dispatcher, names: &HashMap<Address, String>) {
        let options = CallOptions { timeout: PATIENCE, ..CallOptions::default() };
        let all = block_on(rpc.call_all::<_, (Vec<u8>, u32)>("done", (), options));
        let all = all.and_then(rgroups::rpc::Responses::all_ok).expect("whoever is left answers");
        for (member, (bits, twice)) in all {
            let name = names.get(&member).map_or("?", String::as_str);
            let lost =
                self.answered.get(&member).into_iter().flatten().filter(|n| !has(&bits, **n));
            let lost = lost.count();
            let unsent = self.unsent.get(&member).into_iter().flatten();
            let done = unsent.filter(|n| has(&bits, **n)).count();
            if (lost, done, twice) != (0, 0, 0) {
                self.wrong.push(format!(
                    "{name}: {lost} answered and not carried out, {done} said not to have left and \
                     carried out, {twice} carried out twice"
                ));
            }
        }
    }
}

/// The life of one member; what it is told comes on standard input.
#[test]
fn load_member() {
    let Ok(name) = std::env::var("RGROUPS_LOAD_MEMBER") else { return };
    let port = std::env::var("RGROUPS_LOAD_PORT").expect("where the first one is");
    let first: SocketAddr = format!("127.0.0.1:{port}").parse().expect("an address");
    let config = Config::tcp([first])
        .set("TCP", "bind_addr", "127.0.0.1")
        .and_then(|c| c.set("TCP", "bind_port", &port))
        .and_then(|c| c.set("TCP", "port_range", "20"))
        .and_then(|c| c.set("TCPPING", "port_range", "20"))
        .expect("valid");
    let (channel, _events) =
        block_on(Channel::builder(config).name(name.as_str()).connect("load")).expect("joins");
    let (rpc, _done) = serve(&channel);
    println!("joined");
    let mut orders = std::io::stdin().lock().lines();
    let mut order = || orders.next().and_then(Result::ok);
    assert_eq!(order().as_deref(), Some("all"));
    let mut views = channel.views();
    while views.latest().members().len() < NAMES.len() {
        block_on(views.changed());
    }
    let view = channel.view();
    block_on(channel.names_known(&view));
    let names: HashMap<Address, String> =
        view.members().iter().filter_map(|m| Some((*m, channel.name_of(*m)?))).collect();
    println!("ready");
    let Some(seconds) = order().and_then(|s| s.parse::<f64>().ok()) else { return };
    if name.starts_with('C') {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut found = call_at_full_speed(&rpc, &names, until);
        println!("called");
        assert_eq!(order().as_deref(), Some("compare"));
        found.compare(&rpc, &names);
        println!("calls {}", found.calls);
        println!("latest {}", found.latest.as_micros());
        found.rows.iter().for_each(|(row, n)| println!("row {row}: {n}"));
        found.wrong.iter().take(10).for_each(|w| println!("wrong {w}"));
        println!("found");
    }
    // Until the others have compared too.
    order();
}

// ---- the eight

struct Process {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(name: &str, port: u16) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "load_member", "--nocapture"])
            .envs([("RGROUPS_LOAD_MEMBER", name), ("RGROUPS_LOAD_PORT", &port.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let orders = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        Process { child, orders, said }
    }

    fn order(&mut self, what: &str) {
        writeln!(self.orders, "{what}").expect("it listens");
    }

    /// What it says until this line.
    fn hears(&mut self, line: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.said.next() {
                Some(Ok(said)) if said.ends_with(line) => return lines,
                Some(Ok(said)) => lines.push(said),
                other => panic!("{other:?} instead of {line:?} after {lines:?}"),
            }
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("there is kill");
        assert!(sent.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the run when it takes too long: whoever waits for a process waits no longer.
fn watchdog(all: &[Process], within: Duration) -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let (pids, seen) = (all.iter().map(|p| p.child.id()).collect::<Vec<_>>(), Arc::clone(&over));
    thread::spawn(move || {
        let end = Instant::now() + within;
        while Instant::now() < end {
            if seen.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        for pid in pids {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    });
    over
}

#[test]
fn no_call_outlives_its_deadline_and_every_row_is_true_under_full_load() {
    let seconds: f64 = std::env::var("RGROUPS_LOAD").map_or(4.0, |s| s.parse().expect("seconds"));
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    let mut all: Vec<Process> = Vec::new();
    for name in NAMES {
        let mut p = Process::start(name, port.port());
        p.hears("joined");
        all.push(p);
    }
    let over = watchdog(&all, PATIENCE + Duration::from_secs_f64(3.0 * seconds));
    all.iter_mut().for_each(|p| p.order("all"));
    all.iter_mut().for_each(|p| drop(p.hears("ready")));
    all.iter_mut().for_each(|p| p.order(&seconds.to_string()));
    let part = |share: f64| thread::sleep(Duration::from_secs_f64(seconds * share));
    part(0.25);
    all[6].signal("-KILL");
    part(0.25);
    all[7].signal("-STOP");
    part(0.25);
    all[7].signal("-CONT");
    all[..CALLERS].iter_mut().for_each(|p| drop(p.hears("called")));
    let mut sums: HashMap<String, u64> = HashMap::new();
    let mut wrong = Vec::new();
    for (p, name) in all[..CALLERS].iter_mut().zip(NAMES) {
        p.order("compare");
        for line in p.hears("found") {
            let (key, value) = match line.split_once(' ') {
                Some(("wrong", what)) => {
                    wrong.push(format!("{name}: {what}"));
                    continue;
                }
                Some(("row", row)) => row.rsplit_once(": ").expect("a number"),
                Some((key, value)) => (key, value),
                None => continue,
            };
            let Ok(value) = value.parse::<u64>() else { continue };
            let sum = sums.entry(key.to_owned()).or_default();
            *sum = if key == "latest" { value.max(*sum) } else { *sum + value };
        }
    }
    over.store(true, Ordering::Relaxed);
    let (calls, latest) = (sums.remove("calls").unwrap_or(0), sums.remove("latest").unwrap_or(0));
    println!(
        "{calls} calls of {} members in {seconds} s, {:.0} a second; the longest took {:.3} s with a \
         deadline of {DEADLINE:?}",
        NAMES.len(),
        calls as f64 / seconds,
        latest as f64 / 1e6
    );
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort();
    sums.iter().for_each(|(row, n)| println!("{row}: {n}"));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(calls > 100, "nothing was called");
    for row in ["KILLED left", "M1 answered", "PAUSED answered"] {
        assert!(sums.iter().any(|(r, n)| r == row && *n > 0), "no row {row:?}");
    }
    let timed_out = |r: &str| r.starts_with("PAUSED timeout");
    assert!(sums.iter().any(|(r, _)| timed_out(r)), "nobody stood still");
}
