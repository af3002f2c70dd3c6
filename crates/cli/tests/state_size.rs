//! A large state between processes: how much memory it takes, and what happens when its provider is
//! killed in the middle. `RGROUPS_STATE_BYTES=2000000000` is the full size; without it, a size for
//! every run.

#![cfg(target_os = "linux")]

mod common;

use common::{Ended, Net, PATIENCE, Proc};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a process may need beyond what it needed before the transfer.
const MEMORY: u64 = 64_000_000;

fn size() -> u64 {
    let set = std::env::var("RGROUPS_STATE_BYTES").ok();
    set.map_or(100_000_000, |n| n.parse().expect("a number of bytes"))
}

/// Time for a transfer on a machine that is busy.
fn long() -> Duration {
    Duration::from_secs(90 + size() / 4_000_000)
}

/// A directory of this test that is removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("rgroups-size-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        Dir(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A state in which every eight bytes say where they are, and whose they are.
fn write(file: &Path, whose: u64) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file).expect("made"));
    for n in 0..size() / 8 {
        out.write_all(&(n ^ whose << 56).to_be_bytes()).expect("written");
    }
    out.flush().expect("written");
}

fn same(a: &Path, b: &Path) -> bool {
    let open = |p: &Path| BufReader::with_capacity(1 << 20, File::open(p).expect("there"));
    let (mut a, mut b) = (open(a), open(b));
    let (mut x, mut y) = (vec![0u8; 1 << 20], vec![0u8; 1 << 20]);
    loop {
        let n = a.read(&mut x).expect("readable");
        if n == 0 {
            return b.read(&mut y).expect("readable") == 0;
        }
        if b.read_exact(&mut y[..n]).is_err() || x[..n] != y[..n] {
            return false;
        }
    }
}

/// Anonymous memory of a process, in bytes.
fn memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|l| l.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// The most memory that a process has, looked at again and again.
struct Watched {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl Watched {
    fn new(pid: u32) -> Watched {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut most = 0;
            while !stopped.load(Ordering::Acquire) {
                most = most.max(memory(pid).unwrap_or(0));
                thread::sleep(Duration::from_millis(5));
            }
            most
        });
        Watched { stop, thread }
    }

    fn most(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("it watches")
    }
}

fn path(p: &Path) -> &str {
    p.to_str().expect("a name in ASCII")
}

fn put(net: &Net, protocol: &str, name: &str, file: &Path, all: &[&str]) -> Proc {
    let more = [path(file), "--protocol", protocol];
    let mut put = net.start_words(&["state", "put"], name, &more);
    put.view(PATIENCE, all);
    put
}

fn get(net: &Net, protocol: &str, file: &Path) -> Proc {
    let within = format!("{}s", long().as_secs());
    let more = [path(file), "--protocol", protocol, "--within", &within];
    net.start_words(&["state", "get"], "C", &more)
}

fn ended_well(ended: &Ended, from: &str) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told = ended.object("state");
    assert_eq!((&told["from"], &told["bytes"]), (&from.into(), &(size() / 8 * 8).into()));
}

fn needs_little_memory(protocol: &str) {
    let (net, dir) = (Net::tcp(), Dir::new(&format!("memory-{protocol}")));
    let (given, fetched) = (dir.file("given"), dir.file("fetched"));
    write(&given, 1);
    let a = put(&net, protocol, "A", &given, &["A"]);
    let before = memory(a.id()).expect("it runs");
    let at_a = Watched::new(a.id());
    let mut c = get(&net, protocol, &fetched);
    let began = c.find(PATIENCE, |v| v["type"] == "state_begins").0;
    let before_c = memory(c.id()).expect("it runs");
    let at_c = Watched::new(c.id());
    let ended = c.end(long());
    let took = began.elapsed();
    let more = [at_a.most().saturating_sub(before), at_c.most().saturating_sub(before_c)];
    ended_well(&ended, "A");
    assert!(same(&given, &fetched), "what came is what was given");
    let rate = size() as f64 / took.as_secs_f64() / 1e6;
    let told = ended.objects().iter().filter(|o| o["type"] == "progress").count();
    println!(
        "{protocol}: {} bytes in {took:.1?} ({rate:.0} MB/s, progress told {told} times); \
         provider {} kB, reader {} kB above what they had",
        size(),
        more[0] / 1000,
        more[1] / 1000
    );
    assert!(more.iter().all(|m| *m < MEMORY), "{protocol}: {more:?} bytes more than before");
}

#[test]
fn a_state_in_parts_needs_little_memory() {
    needs_little_memory("STATE");
}

#[test]
fn a_state_over_a_connection_needs_little_memory() {
    needs_little_memory("STATE_SOCK");
}

/// A is killed when so many hundredths of its state have come; B gives its own.
fn killed(protocol: &str, percent: u64) {
    let (net, dir) = (Net::tcp(), Dir::new(&format!("killed-{protocol}-{percent}")));
    let (first, second) = (dir.file("first"), dir.file("second"));
    write(&first, 1);
    write(&second, 2);
    let mut a = put(&net, protocol, "A", &first, &["A"]);
    let _b = put(&net, protocol, "B", &second, &["A", "B"]);
    let fetched = dir.file("fetched");
    let c = get(&net, protocol, &fetched);
    let part = dir.file("fetched.part");
    let came = || std::fs::metadata(&part).map_or(0, |m| m.len());
    let deadline = Instant::now() + long();
    while came() < size() / 100 * percent {
        assert!(Instant::now() < deadline, "only {} bytes have come", came());
        thread::sleep(Duration::from_millis(1));
    }
    a.signal("STOP");
    let had = came();
    a.kill();
    let ended = c.end(long());
    ended_well(&ended, "B");
    assert!(same(&second, &fetched), "nothing of the first state is in it");
    println!("{protocol}: A was killed at {had} of {} bytes, B gave the state", size());
}

#[test]
fn when_the_provider_is_killed_another_one_gives_its_state() {
    for percent in [10, 50, 90] {
        killed("STATE", percent);
    }
}

#[test]
fn when_the_provider_at_a_connection_is_killed_another_one_gives_its_state() {
    for percent in [10, 50, 90] {
        killed("STATE_SOCK", percent);
    }
}
