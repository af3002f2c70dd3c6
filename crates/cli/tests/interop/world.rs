//! A group's place on the network, and who can be started in it.

use crate::peer::Peer;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Failure detection and merging fast enough for a test, and equal on both sides.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("FD_ALL3", "timeout", "6s"),
    ("FD_ALL3", "interval", "1s"),
    ("MERGE3", "min_interval", "1s"),
    ("MERGE3", "max_interval", "3s"),
];

/// Where processes of a group find each other: ports from here on.
const PORTS: u16 = 10;

/// One group: stack, ports and class path.
pub(crate) struct World {
    /// `udp` or `tcp`.
    pub(crate) transport: &'static str,
    /// The file of JGroups, e.g. `udp-new`.
    pub(crate) stack: &'static str,
    pub(crate) port: u16,
    pub(crate) cluster: String,
    class_path: String,
    /// The protocol for states in `plan`.
    state: &'static str,
    /// What `plan` has between flow control and FRAG2.
    order: &'static str,
}

impl World {
    /// A group that nobody else uses; `None`, said aloud, without JGroups.
    pub(crate) fn new(stack: &'static str) -> Option<World> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let Ok(jgroups) = std::env::var("RGROUPS_JGROUPS_CP") else {
            println!("skipped: RGROUPS_JGROUPS_CP is not set");
            return None;
        };
        let class_path = format!("{}:{jgroups}", compiled(&jgroups).display());
        // FD_SOCK2 listens 100 above a member: every second hundred of ports is left to it. Other
        // processes that run these tests at the same time have other ports, as a rule.
        let n = NEXT.fetch_add(1, Ordering::Relaxed) % 110;
        let process = (std::process::id() % 10) as u16;
        let port = 10_000 + process * 2_200 + n / 10 * 200 + n % 10 * PORTS;
        let transport = if stack.starts_with("tcp") { "tcp" } else { "udp" };
        Some(World {
            transport,
            stack,
            port,
            cluster: format!("interop{port}"),
            class_path,
            state: "STATE_TRANSFER",
            order: "",
        })
    }

    /// The same group with this protocol for states.
    pub(crate) fn with_state(self, state: &'static str) -> World {
        World { state, ..self }
    }

    /// The same group with SEQUENCER.
    pub(crate) fn with_total_order(self) -> World {
        World { order: "<SEQUENCER/>", ..self }
    }

    /// A JGroups member with the protocols of JGroups' own files, but quick to detect failures.
    pub(crate) fn java(&self, name: &str) -> Peer {
        self.java_with(name, "", "50s")
    }

    /// The same with RSVP on top of FRAG2.
    pub(crate) fn java_with_rsvp(&self, name: &str) -> Peer {
        self.java_with(name, "<RSVP/>", "50s")
    }

    /// A JGroups member with an `RpcDispatcher` (`Caller.java`).
    pub(crate) fn java_caller(&self, name: &str) -> Peer {
        self.java_class("Caller", name, "", "50s")
    }

    /// A JGroups member with counters, and `top` on top of FRAG2 (`Counting.java`).
    pub(crate) fn java_counting(&self, name: &str, top: &str) -> Peer {
        self.java_class("Counting", name, top, "50s")
    }

    /// The same with `top` on top of FRAG2, reporting to STABLE every so often.
    pub(crate) fn java_with(&self, name: &str, top: &str, gossip: &str) -> Peer {
        self.java_class("Peer", name, top, gossip)
    }

    /// A JGroups member with a `ReplicatedHashMap` (`MapMember.java`).
    pub(crate) fn java_map(&self, name: &str) -> Peer {
        self.java_planned("MapMember", name, &self.plan(""))
    }

    fn java_class(&self, class: &str, name: &str, top: &str, gossip: &str) -> Peer {
        self.java_planned(class, name, &self.plan(top).replace("50s", gossip))
    }

    fn java_planned(&self, class: &str, name: &str, xml: &str) -> Peer {
        let plan = self.written(name, xml);
        let mut java = self.jvm(&[]);
        java.arg(class).arg(plan).args([name, &self.cluster]);
        Peer::start(name, java)
    }

    /// The plan as a file for one member.
    fn written(&self, name: &str, plan: &str) -> PathBuf {
        let file = scratch().join(format!("{}-{}-{name}.xml", self.transport, self.port));
        // JGroups knows double quotes only.
        std::fs::write(&file, plan.replace('\'', "\"")).expect("the scratch folder is ours");
        file
    }

    /// A JGroups member with the file of JGroups as it is, at the port of this place.
    pub(crate) fn stock_java(&self, name: &str, place: u16, settings: &[&str]) -> Peer {
        self.stock_java_of(&self.cluster, name, place, settings, &[])
    }

    /// The same in any cluster and with properties.
    pub(crate) fn stock_java_of(
        &self,
        cluster: &str,
        name: &str,
        place: u16,
        settings: &[&str],
        properties: &[&str],
    ) -> Peer {
        let mut java = self.jvm(properties);
        java.arg(format!("-Dpeer.port={}", self.port + place));
        java.args(["Peer", &format!("{}.xml", self.stack), name, cluster]).args(settings);
        Peer::start(name, java)
    }

    /// Java with JGroups and our classes, and with what its files take from properties.
    pub(crate) fn jvm(&self, properties: &[&str]) -> Command {
        let mut java = Command::new("java");
        java.args(["-Djava.net.preferIPv4Stack=true", "-XX:TieredStopAtLevel=1", "-Xmx256m"]);
        java.arg("-Djava.util.logging.SimpleFormatter.format=%4$s %5$s%6$s%n");
        java.arg("-Djgroups.bind_addr=127.0.0.1");
        java.arg(format!("-Djgroups.udp.mcast_port={}", self.port));
        java.arg(format!("-Djgroups.tcpping.initial_hosts={}", self.hosts("[", "]")));
        java.arg("-Djgroups.tcp.port_range=0");
        java.args(properties).args(["-cp", &self.class_path]);
        java
    }

    /// Where members may be, over TCP.
    fn hosts(&self, before: &str, after: &str) -> String {
        let at = |p| format!("127.0.0.1{before}{}{after}", self.port + p);
        (0..PORTS).map(at).collect::<Vec<_>>().join(",")
    }

    /// What JGroups' udp.xml and tcp.xml have, on the loopback interface.
    pub(crate) fn plan(&self, top: &str) -> String {
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
             {}<FRAG2 frag_size='60K'/>{top}<pbcast.{}/></config>",
            settings("MERGE3"),
            settings("FD_ALL3"),
            self.order,
            self.state,
        )
    }

    /// A member of ours that chats.
    pub(crate) fn chat(&self, name: &str) -> Peer {
        self.command("chat", &self.cluster, name, &[])
    }

    /// A command of ours, quick to detect failures.
    pub(crate) fn command(&self, command: &str, cluster: &str, name: &str, more: &[&str]) -> Peer {
        let (transport, port) = (self.transport, self.port);
        let mut rust = Command::new(env!("CARGO_BIN_EXE_rgroups"));
        rust.args([command, cluster, "-n", name, "--transport", transport]);
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

    /// JGroups' file for this stack, on its class path.
    fn file(&self) -> String {
        let folders = self.class_path.split(':').map(std::path::Path::new);
        let mut files = folders.map(|folder| folder.join(format!("{}.xml", self.stack)));
        let file = files.find(|f| f.exists()).expect("JGroups brings its files");
        file.to_str().expect("a name in Unicode").to_owned()
    }

    /// A member of ours that obeys the commands of `Peer.java`, with the same file of JGroups, at
    /// the port of this place; settings are `PROTOCOL.ATTRIBUTE=VALUE`, and `states=PROTOCOL`.
    pub(crate) fn stock_rust(&self, name: &str, place: u16, settings: &[&str]) -> Peer {
        self.rust_with(self.file(), name, place, settings)
    }

    /// The same with the protocols that `java` has.
    pub(crate) fn rust(&self, name: &str, place: u16) -> Peer {
        let file = self.written(name, &self.plan(""));
        self.rust_with(file.to_string_lossy().into_owned(), name, place, &[])
    }

    fn rust_with(&self, file: String, name: &str, place: u16, settings: &[&str]) -> Peer {
        let transport = self.transport.to_uppercase();
        let mut words = vec![file, self.cluster.clone(), name.into()];
        words.push(match self.transport {
            "udp" => self.port.to_string(),
            _ => self.hosts("[", "]"),
        });
        words.push(format!("{transport}.bind_port={}", self.port + place));
        words.push(format!("{transport}.diag.enabled=false"));
        words.extend(settings.iter().map(|s| (*s).to_owned()));
        let mut rust = Command::new(std::env::current_exe().expect("we run"));
        rust.args(["--exact", "member_process", "--nocapture"]);
        rust.env(crate::member::ORDERS, words.join(" "));
        Peer::start(name, rust)
    }
}

fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Where the Java members are compiled to, once.
fn compiled(jgroups: &str) -> &'static PathBuf {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let classes = scratch().join("peer");
        let source = |name: &str| {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/java/{name}.java"))
        };
        let made = |p: PathBuf| p.metadata().and_then(|m| m.modified()).ok();
        let names = ["Peer", "Caller", "MapMember", "Counting"];
        let class = |name: &str| classes.join(format!("{name}.class"));
        if names.iter().all(|n| made(class(n)) > made(source(n))) {
            return classes;
        }
        let mut javac = Command::new("javac");
        javac.args(["-cp", jgroups, "-d"]).arg(&classes).args(names.map(source));
        assert!(javac.status().expect("a JDK is installed").success(), "our classes compile");
        classes
    })
}
