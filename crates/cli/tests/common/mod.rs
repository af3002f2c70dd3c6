//! Real processes of the command, each test in a network of its own. Everything that a test started
//! is gone when the test is.

#![allow(dead_code, reason = "each test file uses its part")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take that has no limit of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A network that no other test uses.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) transport: &'static str,
    args: Vec<String>,
}

fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed) * 7)
}

impl Net {
    /// Multicast on the loopback interface, at a port of its own.
    pub(crate) fn udp() -> Net {
        let port = 20_000 + unique() % 10_000;
        Net {
            transport: "udp",
            args: vec![
                "-DUDP.bind_addr=127.0.0.1".into(),
                "-DUDP.ip_ttl=0".into(),
                format!("-DUDP.mcast_port={port}"),
            ],
        }
    }

    /// Ports of the loopback interface that are free, for the transport and for FD_SOCK2.
    pub(crate) fn tcp() -> Net {
        let first = (0..).map(|_| 20_000 + (unique() % 500 * 20) as u16).find(|first| {
            let wanted = (0..5).flat_map(|i| [first + i, first + 100 + i]);
            wanted.into_iter().all(|p| TcpListener::bind((Ipv4Addr::LOCALHOST, p)).is_ok())
        });
        let first = first.expect("free ports");
        Net {
            transport: "tcp",
            args: vec![
                "-DTCP.bind_addr=127.0.0.1".into(),
                format!("-DTCP.bind_port={first}"),
                "-DTCPPING.port_range=4".into(),
                format!("--hosts=127.0.0.1:{first}"),
            ],
        }
    }

    /// A command that joins a cluster of this network, with JSON output.
    pub(crate) fn start(&self, command: &str, name: &str, more: &[&str]) -> Proc {
        self.start_words(&[command], name, more)
    }

    /// The same for a command of several words.
    pub(crate) fn start_words(&self, command: &[&str], name: &str, more: &[&str]) -> Proc {
        let mut args = [&["--json"], command].concat();
        args.extend(["demo", "--transport", self.transport, "-n", name]);
        args.extend(self.args.iter().map(String::as_str));
        args.extend(more);
        Proc::start(&args)
    }

    /// All options that name the network.
    pub(crate) fn options(&self) -> impl Iterator<Item = &str> {
        ["--transport", self.transport].into_iter().chain(self.args.iter().map(String::as_str))
    }

    /// The settings without `--hosts`, for `up`.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &str> {
        self.args.iter().map(String::as_str).filter(|a| !a.starts_with("--hosts"))
    }
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Proc {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    stderr: Option<JoinHandle<String>>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: String,
}

impl Ended {
    /// What it said beside its data, but for that it founded its group.
    pub(crate) fn complaints(&self) -> String {
        self.stderr.lines().filter(|l| !l.contains("RG0302")).collect()
    }
}

impl Proc {
    pub(crate) fn start(args: &[&str]) -> Proc {
        Self::start_in(args, &[])
    }

    /// With these environment variables.
    pub(crate) fn start_in(args: &[&str], env: &[(&str, &str)]) -> Proc {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rgroups"));
        command.args(args).envs(env.iter().copied());
        Self::start_as(command)
    }

    /// A command that another program starts for us.
    pub(crate) fn start_as(mut command: Command) -> Proc {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("RGROUPS_LOG").env_remove("RGROUPS_TRANSPORT");
        let mut child = command.spawn().expect("starts");
        let stdout = child.stdout.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Proc { stdin: child.stdin.take(), child, lines, stderr: Some(stderr) }
    }

    /// The next object that `wanted` accepts, and when it came.
    pub(crate) fn find(
        &mut self,
        within: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> (Instant, Value) {
        let end = Instant::now() + within;
        let mut seen = String::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok((at, line)) => {
                    let v: Value = serde_json::from_str(&line).expect(&line);
                    if wanted(&v) {
                        return (at, v);
                    }
                    seen = line;
                }
                Err(RecvTimeoutError::Timeout) => panic!("nothing within {within:?}; last: {seen}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the command ended; last: {seen}"),
            }
        }
    }

    /// All lines that are there now.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.lines.try_iter().map(|(_, line)| line).collect()
    }

    /// Waits for the view of exactly these members.
    pub(crate) fn view(&mut self, within: Duration, members: &[&str]) -> (Instant, Value) {
        self.find(within, |v| v["type"] == "view" && names(v) == members)
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("written");
    }

    /// Ends the standard input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Ends the process as a crash would.
    pub(crate) fn kill(&mut self) -> Instant {
        self.child.kill().expect("runs");
        let at = Instant::now();
        let _ = self.child.wait();
        at
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.is_ok_and(|s| s.success()));
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for the end.
    pub(crate) fn end(mut self, within: Duration) -> Ended {
        let deadline = Instant::now() + within;
        let status: ExitStatus = loop {
            match self.child.try_wait().expect("a child") {
                Some(s) => break s,
                None if Instant::now() >= deadline => panic!("still running after {within:?}"),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let stdout = self.lines.iter().map(|(_, line)| line).collect();
        let stderr = self.stderr.take().and_then(|t| t.join().ok()).unwrap_or_default();
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The objects that were printed; fails if a line is none.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.stdout.iter().map(|l| serde_json::from_str(l).expect(l)).collect()
    }

    pub(crate) fn object(&self, kind: &str) -> Value {
        let found = self.objects().into_iter().find(|o| o["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn run(args: &[&str]) -> Ended {
    let mut p = Proc::start(args);
    p.close_input();
    p.end(PATIENCE)
}

/// The member names of a view.
pub(crate) fn names(v: &Value) -> Vec<&str> {
    v["members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
