//! Five hosts on two bridges: 1, 2 and 3 here, 4 and 5 there.

use crate::common::{Proc, names};
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a group may take to find together, on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What members are called, host by host.
pub(crate) const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

/// Quick to notice failures and to merge.
const SETTINGS: [&str; 6] = [
    "-DFD_ALL3.timeout=6s",
    "-DFD_ALL3.interval=1s",
    "-DMERGE3.min_interval=1s",
    "-DMERGE3.max_interval=3s",
    "-DGMS.join_timeout=1s",
    "-DSTABLE.desired_avg_gossip=5s",
];

/// Why these tests cannot run here, if so.
pub(crate) fn missing() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("network namespaces are Linux's".into());
    }
    if std::env::var_os("RGROUPS_NETNS").is_none() {
        return Some("RGROUPS_NETNS=1 runs them, as root, in two to three minutes".into());
    }
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() != b"0" {
        return Some("not root".into());
    }
    for tool in ["ip", "tc"] {
        if Command::new(tool).arg("-V").output().is_err() {
            return Some(format!("there is no {tool} (iproute2)"));
        }
    }
    let probe = Namespace::new("probe").err()?;
    Some(format!("no network namespaces: {probe}"))
}

/// Runs a command of iproute2.
fn run(words: &str) -> Result<(), String> {
    let mut all = words.split(' ');
    let ended = Command::new(all.next().expect("a program")).args(all).output();
    let ended = ended.map_err(|e| format!("{words}: {e}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{words}: {}", String::from_utf8_lossy(&ended.stderr).trim())),
    }
}

/// Gone when dropped, with everything in it.
struct Namespace(String);

impl Namespace {
    fn new(what: &str) -> Result<Namespace, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rgroups-{}-{n}-{what}", std::process::id());
        run(&format!("ip netns add {name}"))?;
        Ok(Namespace(name))
    }

    /// `ip` in this namespace.
    fn ip(&self, words: &str) {
        run(&format!("ip -n {} {words}", self.0)).expect("ip");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // If it cannot be removed there is nothing more to be done about it.
        let _ = run(&format!("ip netns del {}", self.0));
    }
}

/// The hosts, and the switches between them.
pub(crate) struct World {
    /// `udp` or `tcp`.
    pub(crate) transport: &'static str,
    switch: Namespace,
    hosts: Vec<Namespace>,
}

impl World {
    pub(crate) fn new(transport: &'static str) -> World {
        let switch = Namespace::new("switch").expect("a namespace");
        for bridge in ["here", "there"] {
            switch.ip(&format!("link add {bridge} type bridge mcast_snooping 0"));
            switch.ip(&format!("link set {bridge} up"));
        }
        switch.ip("link add cable0 type veth peer name cable1");
        for (end, bridge) in [("cable0", "here"), ("cable1", "there")] {
            switch.ip(&format!("link set {end} master {bridge} up"));
        }
        let hosts = (1..=5).map(|i| host(i, &switch)).collect();
        World { transport, switch, hosts }
    }

    /// Pulls the cable between the bridges, or puts it back.
    pub(crate) fn cable(&self, how: &str) {
        self.switch.ip(&format!("link set cable0 {how}"));
    }

    /// Pulls the plug of a host, or puts it back.
    pub(crate) fn plug(&self, host: usize, how: &str) {
        self.switch.ip(&format!("link set port{host} {how}"));
    }

    /// What `host` sends to `to` goes nowhere (`add`), or there again (`del`).
    pub(crate) fn blackhole(&self, how: &str, host: usize, to: usize) {
        self.ip(host, &format!("route {how} blackhole 10.77.0.{to}/32"));
    }

    /// `ip` at a host.
    pub(crate) fn ip(&self, host: usize, words: &str) {
        self.hosts[host - 1].ip(words);
    }

    /// Makes the link to a host narrow, in both directions: bits in a second.
    pub(crate) fn narrow(&self, host: usize, rate: &str) {
        let limit = format!("root tbf rate {rate} burst 32kbit latency 400ms");
        let at = &self.hosts[host - 1].0;
        run(&format!("tc -n {at} qdisc add dev eth0 {limit}")).expect("tc");
        let (at, port) = (&self.switch.0, format!("port{host}"));
        run(&format!("tc -n {at} qdisc add dev {port} {limit}")).expect("tc");
    }

    /// Makes both ends of the link to a host take no larger packets.
    pub(crate) fn mtu(&self, host: usize, mtu: u32) {
        self.ip(host, &format!("link set eth0 mtu {mtu}"));
        self.switch.ip(&format!("link set port{host} mtu {mtu}"));
    }

    /// A command of ours at a host.
    pub(crate) fn start(&self, host: usize, command: &[&str]) -> Proc {
        let mut ip = Command::new("ip");
        ip.args([
            "netns",
            "exec",
            &self.hosts[host - 1].0,
            env!("CARGO_BIN_EXE_rgroups"),
            "--json",
        ]);
        ip.args(command);
        Proc::start_as(ip)
    }

    /// A lean member (see `lean`) at a host, which sends so many messages a second.
    pub(crate) fn lean(&self, host: usize, name: &str, rate: f64) -> Proc {
        let mut words = vec![self.transport.to_owned(), name.to_owned(), rate.to_string()];
        words.extend(self.settings(host));
        words.extend(SETTINGS.map(|s| s.trim_start_matches("-D").to_owned()));
        if self.transport == "tcp" {
            let hosts: Vec<String> = (1..=5).map(|i| format!("10.77.0.{i}:7800")).collect();
            words.push("TCPPING.port_range=0".into());
            words.push(format!("TCPPING.initial_hosts={}", hosts.join(",")));
        }
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", &self.hosts[host - 1].0]);
        ip.arg(std::env::current_exe().expect("we run"));
        ip.env(crate::lean::ORDERS, words.join(" "));
        Proc::start_as(ip)
    }

    /// Where a member at a host is.
    fn settings(&self, host: usize) -> [String; 3] {
        let transport = self.transport.to_uppercase();
        [
            format!("{transport}.bind_addr=10.77.0.{host}"),
            format!("{transport}.diag.enabled=true"),
            format!("{transport}.bind_port=7800"),
        ]
    }

    /// A command of ours that joins the group from a host.
    pub(crate) fn member(&self, host: usize, command: &str, name: &str, more: &[&str]) -> Proc {
        let hosts: Vec<String> = (1..=5).map(|i| format!("--hosts=10.77.0.{i}:7800")).collect();
        let settings = self.settings(host).map(|s| format!("-D{s}"));
        let mut args = vec![command, "demo", "-n", name, "--transport", self.transport];
        args.extend(settings.iter().map(String::as_str));
        args.extend(SETTINGS);
        if self.transport == "tcp" {
            args.push("-DTCPPING.port_range=0");
            args.extend(hosts.iter().map(String::as_str));
        }
        args.extend(more);
        self.start(host, &args)
    }

    /// Five members that chat, one at each host, in one view.
    pub(crate) fn five(&self, more: &[&str]) -> Vec<Proc> {
        let mut all: Vec<Proc> = Vec::new();
        for (i, name) in NAMES.iter().enumerate() {
            let mut p = self.member(i + 1, "chat", name, more);
            p.find(LONG, |v| v["type"] == "view" && names(v).len() == i + 1);
            all.push(p);
        }
        // The last one has told its view.
        for p in &mut all[..4] {
            view_of(p, &NAMES);
        }
        all
    }

    /// The sum of what all members at these hosts say to this question.
    pub(crate) fn sum(&self, members: usize, attribute: &str) -> u64 {
        let key = format!("jmx={attribute}");
        let end = Instant::now() + LONG;
        loop {
            let args = ["probe", "--bind", "10.77.0.1", "--timeout", "2s", &key];
            let ended = self.start(1, &args).end(LONG);
            let answers: Vec<Value> =
                ended.objects().into_iter().filter(|o| o["type"] == "member").collect();
            if answers.len() == members {
                return answers.iter().map(value).sum();
            }
            assert!(Instant::now() < end, "{members} members do not answer: {ended:?}");
        }
    }
}

/// The number in an answer such as `{"MFC": "{waiting_bytes=7}"}`.
fn value(answer: &Value) -> u64 {
    let entries = answer["entries"].as_object().expect("entries");
    let text = entries.values().next().and_then(Value::as_str).unwrap_or_default();
    let number = text.trim_matches(['{', '}']).rsplit_once('=').map_or("", |(_, n)| n);
    number.parse().unwrap_or_else(|_| panic!("no number in {answer}"))
}

fn host(i: usize, switch: &Namespace) -> Namespace {
    let host = Namespace::new(&format!("host{i}")).expect("a namespace");
    let bridge = if i <= 3 { "here" } else { "there" };
    switch.ip(&format!("link add port{i} type veth peer name eth0 netns {}", host.0));
    switch.ip(&format!("link set port{i} master {bridge} up"));
    host.ip("link set lo up");
    host.ip(&format!("addr add 10.77.0.{i}/24 dev eth0"));
    host.ip("link set eth0 up");
    host
}

/// Waits for a view of exactly these, in any order.
pub(crate) fn view_of(p: &mut Proc, members: &[&str]) -> Value {
    let same = |v: &Value| {
        let mut there = names(v);
        there.sort_unstable();
        there == members
    };
    p.find(LONG, |v| v["type"] == "view" && same(v)).1
}

/// Everybody says something, and everybody hears all of it.
pub(crate) fn all_talk(all: &mut [Proc], what: &str) {
    for (i, p) in all.iter_mut().enumerate() {
        p.write(&format!("{what} {i}"));
    }
    let n = all.len();
    for p in all.iter_mut() {
        let mut left: Vec<String> = (0..n).map(|i| format!("{what} {i}")).collect();
        while !left.is_empty() {
            let (_, v) = p.find(LONG, |v| v["type"] == "message");
            left.retain(|text| v["text"] != **text);
        }
    }
}
