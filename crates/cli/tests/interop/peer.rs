//! Processes of the interoperability tests: a group's place on the network, its members, and what
//! they print.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long anything may take; the slowest case waits for FD_ALL3 and MERGE3.
const PATIENCE: Duration = Duration::from_secs(40);

/// Failure detection and merging fast enough for a test, and equal on both sides.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("FD_ALL3", "timeout", "6s"),
    ("FD_ALL3", "interval", "1s"),
    ("MERGE3", "min_interval", "1s"),
    ("MERGE3", "max_interval", "3s"),
];

/// One group: transport, port and class path.
pub(crate) struct World {
    transport: &'static str,
    port: u16,
    class_path: String,
}

impl World {
    /// A group that nobody else uses; `None`, said aloud, without JGroups.
    pub(crate) fn new(transport: &'static str) -> Option<World> {
        static PORT: AtomicU16 = AtomicU16::new(0);
        let Ok(jgroups) = std::env::var("RGROUPS_JGROUPS_CP") else {
            println!("skipped: RGROUPS_JGROUPS_CP is not set");
            return None;
        };
        let class_path = format!("{}:{jgroups}", compiled(&jgroups).display());
        // FD_SOCK2 listens 100 above a TCP member, so groups are kept within one hundred ports.
        let base = 20_000 + (std::process::id() % 100) as u16 * 200;
        let port = base + PORT.fetch_add(5, Ordering::Relaxed) % 100;
        Some(World { transport, port, class_path })
    }

    /// A JGroups member with the protocols of JGroups' own files.
    pub(crate) fn java(&self, name: &str) -> Peer {
        self.java_member(name, "")
    }

    /// The same with RSVP on top of FRAG2.
    pub(crate) fn java_with_rsvp(&self, name: &str) -> Peer {
        self.java_member(name, "<RSVP/>")
    }

    fn java_member(&self, name: &str, top: &str) -> Peer {
        let plan = scratch().join(format!("{}-{}-{name}.xml", self.transport, self.port));
        // JGroups knows double quotes only.
        let xml = self.plan(top).replace('\'', "\"");
        std::fs::write(&plan, xml).expect("the scratch folder is ours");
        let mut java = Command::new("java");
        java.args(["-Djava.net.preferIPv4Stack=true", "-XX:TieredStopAtLevel=1", "-cp"]);
        java.args([&self.class_path, "Peer"]).arg(plan).args([name, "interop"]);
        Peer::start(name, java)
    }

    /// What JGroups' udp.xml and tcp.xml have, on the loopback interface.
    fn plan(&self, top: &str) -> String {
        let port = self.port;
        let transport = match self.transport {
            "udp" => format!(
                "<UDP bind_addr='127.0.0.1' mcast_addr='239.8.8.8' mcast_port='{port}' \
                 diag.enabled='false'/><PING/>"
            ),
            _ => format!(
                "<TCP bind_addr='127.0.0.1' bind_port='{port}' diag.enabled='false'/>\
                 <TCPPING initial_hosts='127.0.0.1[{port}]' port_range='4'/>"
            ),
        };
        let settings = |protocol: &str| -> String {
            let of = SETTINGS.iter().filter(|s| s.0 == protocol);
            of.map(|(_, k, v)| format!("{k}='{v}' ")).collect()
        };
        let credits = if self.transport == "udp" { "4M" } else { "2M" };
        let multicast = self.transport == "udp";
        format!(
            "<config xmlns='urn:org:jgroups'>{transport}<MERGE3 {}/><FD_SOCK2/><FD_ALL3 {}/>\
             <VERIFY_SUSPECT2 timeout='1.5s'/><BARRIER/>\
             <pbcast.NAKACK2 use_mcast_xmit='{multicast}'/><UNICAST3/>\
             <pbcast.STABLE desired_avg_gossip='50s' max_bytes='4M'/>\
             <pbcast.GMS print_local_addr='false' join_timeout='1s'/>\
             <MFC max_credits='{credits}' min_threshold='0.4'/>\
             <UFC max_credits='{credits}' min_threshold='0.4'/>\
             <FRAG2 frag_size='60K'/>{top}<pbcast.STATE_TRANSFER/></config>",
            settings("MERGE3"),
            settings("FD_ALL3"),
        )
    }

    /// A member of ours that chats.
    pub(crate) fn chat(&self, name: &str) -> Peer {
        self.rust("chat", name, &[])
    }

    /// A command of ours.
    pub(crate) fn rust(&self, command: &str, name: &str, more: &[&str]) -> Peer {
        let (transport, port) = (self.transport, self.port);
        let mut rust = Command::new(env!("CARGO_BIN_EXE_rgroups"));
        rust.args([command, "interop", "-n", name, "--transport", transport]);
        match transport {
            "udp" => rust.args(["-D", "UDP.bind_addr=127.0.0.1"]),
            _ => rust.args(["-D", "TCP.bind_addr=127.0.0.1", "-D", "TCPPING.port_range=4"]),
        };
        match transport {
            "udp" => rust.args(["-D", &format!("UDP.mcast_port={port}")]),
            _ => rust.args([
                "-D",
                &format!("TCP.bind_port={port}"),
                "--hosts",
                &format!("127.0.0.1:{port}"),
            ]),
        };
        for (protocol, attribute, value) in SETTINGS {
            rust.args(["-D", &format!("{protocol}.{attribute}={value}")]);
        }
        rust.args(more);
        Peer::start(name, rust)
    }
}

fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Where the Java member is compiled to, once.
fn compiled(jgroups: &str) -> &'static PathBuf {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let classes = scratch().join("peer");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/Peer.java");
        let mut javac = Command::new("javac");
        javac.args(["-cp", jgroups, "-d"]).arg(&classes).arg(source);
        assert!(javac.status().expect("a JDK is installed").success(), "Peer.java compiles");
        classes
    })
}

/// A member in its own process. It is killed when dropped.
pub(crate) struct Peer {
    name: String,
    child: Mutex<Child>,
    lines: Receiver<String>,
    heard: Mutex<Vec<String>>,
}

impl Peer {
    fn start(name: &str, mut command: Command) -> Peer {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the member starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let err = BufReader::new(child.stderr.take().expect("piped"));
        let (to_us, lines) = channel();
        let also = to_us.clone();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|l| to_us.send(l))
        });
        std::thread::spawn(move || {
            err.lines().map_while(Result::ok).try_for_each(|l| also.send(l))
        });
        Peer { name: name.into(), child: Mutex::new(child), lines, heard: Mutex::default() }
    }

    /// Writes a line to its standard input.
    pub(crate) fn told(&self, line: &str) {
        let mut child = self.child.lock().expect("no test panics while it holds this");
        let input = child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("the member reads");
    }

    /// Waits for a line with this text; `^` means at its start, `$` at its end. Lines before it
    /// are passed over for good, so events must come in the order in which they are waited for.
    pub(crate) fn hears(&self, text: &str) {
        self.hears_within(text, PATIENCE);
    }

    /// The same within a time.
    pub(crate) fn hears_within(&self, text: &str, within: Duration) {
        let end = Instant::now() + within;
        let mut heard = self.heard.lock().expect("no test panics while it holds this");
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if matches(&line, text) => return,
                Ok(line) => heard.push(line),
                Err(e) => {
                    let why = match e {
                        RecvTimeoutError::Timeout => "in time",
                        RecvTimeoutError::Disconnected => "before it ended",
                    };
                    let from = heard.len().saturating_sub(20);
                    let last = heard[from..].join("\n  ");
                    panic!("{} did not print {text:?} {why}; last:\n  {last}", self.name);
                }
            }
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, which: &str) {
        let id = self.child.lock().expect("no test panics while it holds this").id().to_string();
        let kill = Command::new("kill").args([which, &id]).status();
        assert!(kill.expect("kill runs").success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn matches(line: &str, text: &str) -> bool {
    let (start, text) = text.strip_prefix('^').map_or((false, text), |t| (true, t));
    let (end, text) = text.strip_suffix('$').map_or((false, text), |t| (true, t));
    match (start, end) {
        (true, true) => line == text,
        (true, false) => line.starts_with(text),
        (false, true) => line.ends_with(text),
        (false, false) => line.contains(text),
    }
}
