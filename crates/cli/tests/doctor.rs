//! `doctor` finds the fault: on the loopback interface with forged traffic, and in networks of
//! their own where something is broken.

mod common;
#[path = "decode/forge.rs"]
#[allow(dead_code, reason = "shared with the tests of decode")]
mod forge;

use common::{Ended, Net, PATIENCE, run};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 8, 8, 8);

fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    33_000 + (std::process::id() % 100) as u16 * 20 + NEXT.fetch_add(2, Ordering::Relaxed)
}

/// A doctor that looks at the loopback interface and this port of the group.
fn on_loopback(port: u16, more: &[&str]) -> Ended {
    let port = format!("-DUDP.mcast_port={port}");
    run(&[&["--json", "doctor", "-DUDP.bind_addr=127.0.0.1", "-DUDP.ip_ttl=0", &port], more]
        .concat())
}

fn lines(e: &Ended) -> Vec<Value> {
    let objects = e.objects();
    let o = objects.first().unwrap_or_else(|| panic!("nothing printed: {e:?}"));
    o["lines"].as_array().unwrap_or_else(|| panic!("no lines: {e:?}")).clone()
}

/// The texts of lines of this kind and topic.
fn texts(e: &Ended, kind: &str, topic: &str) -> Vec<String> {
    let all = lines(e);
    let wanted = all.iter().filter(|l| l["kind"] == kind && l["topic"] == topic);
    wanted.map(|l| l["text"].as_str().expect("text").to_owned()).collect()
}

fn remedy(e: &Ended, kind: &str, topic: &str) -> String {
    let all = lines(e);
    let line = all.iter().find(|l| l["kind"] == kind && l["topic"] == topic);
    line.and_then(|l| l["remedy"].as_str()).unwrap_or_default().to_owned()
}

/// Multicasts this packet on the loopback interface until it is dropped.
struct Talker {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Talker {
    fn start(port: u16, packet: Vec<u8>) -> Talker {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
            let s = socket2::SockRef::from(&socket);
            s.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("loopback");
            while !ended.load(Ordering::Relaxed) {
                let _ = socket.send_to(&packet, (GROUP, port));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Talker { stop, thread: Some(thread) }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

#[test]
fn a_network_that_works_has_no_failures() {
    let ended = on_loopback(port(), &["--cluster", "demo", "--listen", "500ms"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let multicast = texts(&ended, "ok", "multicast");
    assert!(multicast[0].contains("own copies seen 20 of 20"), "{multicast:?}");
    let bind = texts(&ended, "ok", "bind");
    assert!(bind[0].starts_with("lo 127.0.0.1 (rule 1 of 1"), "{bind:?}");
    assert!(texts(&ended, "note", "discovery")[0].contains("no member of \"demo\" answered"));
}

#[test]
fn members_that_answer_are_seen_with_what_they_are() {
    let net = Net::udp();
    let mut a = net.start("chat", "evil\x1b[2J", &[]);
    a.find(PATIENCE, |v| v["type"] == "view");
    let settings: Vec<&str> = net.settings().collect();
    let ended =
        run(&[&["--json", "doctor", "--cluster", "demo", "--listen", "5s"], settings.as_slice()]
            .concat());
    let seen = texts(&ended, "seen", "members");
    assert!(seen[0].contains("coordinator, rgroups, speaks 5.5.6"), "{seen:?}");
    assert!(seen[0].starts_with("evil\\u{1b}"), "{seen:?}");
    assert!(texts(&ended, "ok", "discovery")[0].contains("1 member(s) of \"demo\" answered"));
    assert!(texts(&ended, "seen", "clusters")[0].starts_with("cluster \"demo\": "));
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_foreign_cluster_on_the_same_port_is_named() {
    let port = port();
    let _other = Talker::start(port, forge::multicast("other", b"text"));
    let ended = on_loopback(port, &["--cluster", "demo", "--listen", "3s"]);
    let found = texts(&ended, "warn", "clusters");
    assert!(found[0].contains("cluster \"other\"") && found[0].contains("not ours"), "{found:?}");
    assert!(remedy(&ended, "warn", "clusters").contains("mcast_port"));
}

#[test]
fn a_member_of_another_version_is_a_failure() {
    let port = port();
    let mut packet = forge::multicast("demo", b"text");
    packet[..2].copy_from_slice(&[0x29, 0x00]);
    let _old = Talker::start(port, packet);
    let ended = on_loopback(port, &["--cluster", "demo", "--listen", "3s"]);
    let found = texts(&ended, "fail", "versions");
    assert!(found[0].contains("version 5.4.0, ours is 5.5.6"), "{found:?}");
    assert!(found[0].contains("127.0.0.1:"), "{found:?}");
    assert_eq!(ended.code, Some(6));
}

/// A Java process that is killed at the end.
struct Java(std::process::Child);

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// JGroups reads its version from a file on its class path; one in front of it says another.
fn old_java(name: &str, plan: &str) -> Option<Java> {
    let Ok(class_path) = std::env::var("RGROUPS_JGROUPS_CP") else {
        println!("skipped: RGROUPS_JGROUPS_CP is not set");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("rgroups-old-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    let version = "jgroups.version=5.4.8.Final\njgroups.codename=old\n";
    std::fs::write(folder.join("JGROUPS_VERSION.properties"), version).expect("written");
    let file = folder.join("plan.xml");
    std::fs::write(&file, format!("<config xmlns=\"urn:org:jgroups\">{plan}</config>"))
        .expect("written");
    let mut java = Command::new("java");
    java.args(["-Djava.net.preferIPv4Stack=true", "-XX:TieredStopAtLevel=1", "-cp"]);
    java.arg(format!("{}:{class_path}", folder.display()));
    java.args(["org.jgroups.demos.Chat", "-name", name, "-props"]).arg(file);
    java.stdin(std::process::Stdio::piped());
    java.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    Some(Java(java.spawn().expect("java starts")))
}

/// Asks until the fault is found: Java takes a while to start.
fn until_found(ask: impl Fn() -> Ended) -> Ended {
    let end = std::time::Instant::now() + 2 * PATIENCE;
    loop {
        let ended = ask();
        if !texts(&ended, "fail", "versions").is_empty() || std::time::Instant::now() >= end {
            return ended;
        }
    }
}

#[test]
fn a_java_member_of_another_version_is_found_by_multicast() {
    let port = port();
    let plan = format!(
        "<UDP bind_addr=\"127.0.0.1\" mcast_port=\"{port}\" ip_ttl=\"0\"/><PING/>\
         <FD_ALL3 interval=\"500\"/><pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/>"
    );
    let Some(_old) = old_java("udp", &plan) else { return };
    let ended = until_found(|| on_loopback(port, &["--cluster", "chat", "--listen", "3s"]));
    let found = texts(&ended, "fail", "versions");
    assert!(found[0].contains("version 5.4.8, ours is 5.5.6"), "{found:?}");
    assert_eq!(ended.code, Some(6));
}

#[test]
fn a_java_member_of_another_version_is_found_over_tcp() {
    let port = port();
    let plan = format!(
        "<TCP bind_addr=\"127.0.0.1\" bind_port=\"{port}\" port_range=\"0\"/>\
         <TCPPING initial_hosts=\"127.0.0.1[{port}]\"/><pbcast.NAKACK2/><UNICAST3/>\
         <pbcast.STABLE/><pbcast.GMS/>"
    );
    let Some(_old) = old_java("tcp", &plan) else { return };
    let hosts = format!("--hosts=127.0.0.1:{port}");
    let own = format!("-DTCP.bind_port={}", port + 1);
    let args = ["--json", "doctor", "--transport", "tcp", "-DTCP.bind_addr=127.0.0.1", &own];
    let more = ["-DTCPPING.port_range=0", "--cluster", "chat", &hosts];
    let ended = until_found(|| run(&[&args[..], &more].concat()));
    let found = texts(&ended, "fail", "versions");
    assert!(found[0].contains("closed the connection at our handshake"), "{found:?}");
    assert!(remedy(&ended, "fail", "versions").contains("another version than 5.5.6"));
    assert_eq!(ended.code, Some(6));
}

#[test]
fn another_program_on_the_port_is_told_apart_from_members() {
    let port = port();
    let _other = Talker::start(port, b"HELLO?".to_vec());
    let ended = on_loopback(port, &["--listen", "3s"]);
    assert!(texts(&ended, "warn", "multicast")[0].contains("no JGroups"), "{ended:?}");
    assert_eq!(ended.code, Some(0));
}

#[test]
fn an_interface_that_is_not_there_is_a_failure_that_names_those_that_are() {
    for rule in ["match-interface:no-such-interface", "203.0.113.7"] {
        let rule = format!("-DUDP.bind_addr={rule}");
        let ended = run(&["--json", "doctor", &rule]);
        let found = texts(&ended, "fail", "bind");
        assert!(found[0].contains("127.0.0.1"), "{found:?}");
        assert_eq!(ended.code, Some(6));
    }
}

#[test]
fn text_has_a_line_each_and_the_report_has_them_too() {
    let file = std::env::temp_dir().join(format!("rgroups-doctor-{}.txt", std::process::id()));
    let path = file.to_str().expect("text");
    let port = format!("-DUDP.mcast_port={}", port());
    let args = ["doctor", "-DUDP.bind_addr=127.0.0.1", &port, "--listen", "100ms"];
    let ended = run(&[&args[..], &["--report", path]].concat());
    assert!(ended.stdout[0].starts_with(" ok    config       "), "{:?}", ended.stdout);
    assert!(ended.stdout.last().is_some_and(|l| l.contains("failures, ")), "{:?}", ended.stdout);
    let report = std::fs::read_to_string(&file).expect("written");
    assert!(report.starts_with("rgroups ") && report.contains("\nUDP.mcast_port="), "{report}");
    assert!(report.contains(&ended.stdout[1]), "{report}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn over_tcp_members_and_strangers_are_told_apart() {
    let net = Net::tcp();
    let mut a = net.start("chat", "A", &[]);
    a.find(PATIENCE, |v| v["type"] == "view");
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let at = stranger.local_addr().expect("bound");
    // It closes whatever comes, as a member of another version does after the handshake.
    std::thread::spawn(move || stranger.incoming().for_each(drop));
    let member = net.settings().find_map(|s| s.strip_prefix("-DTCP.bind_port=")).expect("set");
    let hosts = format!("--hosts=127.0.0.1:{member},{at}");
    let settings: Vec<&str> = net.settings().filter(|s| !s.contains("port_range")).collect();
    let args = ["--json", "doctor", "--transport", "tcp", "--cluster", "demo", &hosts];
    let ended = run(&[&args[..], &["-DTCPPING.port_range=0"], settings.as_slice()].concat());
    assert!(texts(&ended, "seen", "members")[0].starts_with("A (127.0.0.1:"), "{ended:?}");
    let closed = texts(&ended, "fail", "versions");
    assert!(closed[0].starts_with(&at.to_string()), "{closed:?}");
    assert_eq!(ended.code, Some(6));
}

/// Runs the doctor in a network of its own, which `setup` prepares. `None`, said aloud, where that
/// is not permitted.
fn in_network(setup: &str, args: &[&str]) -> Option<Ended> {
    // What is in /sys is of the network that it was mounted in.
    let script = format!(
        "set -e; mount -t sysfs none /sys || true; ip link set lo up; {setup}; exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args([
        "-rnm",
        "sh",
        "-c",
        &script,
        "sh",
        env!("CARGO_BIN_EXE_rgroups"),
        "--json",
        "doctor",
    ]);
    let Ok(out) = command.args(args).env_remove("RGROUPS_TRANSPORT").output() else {
        println!("skipped: there is no unshare");
        return None;
    };
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.stdout.is_empty() {
        println!("skipped: no network of our own: {stderr}");
        return None;
    }
    let stdout = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    Some(Ended { code: out.status.code(), stdout, stderr })
}

/// A card of our own: where the kernel has no dummies, one end of a cable.
const CARD: &str = "add() { ip link add $1 type dummy 2>/dev/null || { \
                    ip link add $1 type veth peer name $1-far; ip link set $1-far up; }; \
                    ip addr add $2/24 dev $1; ip link set $1 up; }; add card0 10.7.7.1";

#[test]
fn a_network_without_multicast_is_found() {
    let setup = format!("{CARD}; echo 0 > /proc/sys/net/ipv4/igmp_max_memberships");
    let Some(ended) = in_network(&setup, &["--listen", "100ms"]) else { return };
    assert!(texts(&ended, "ok", "bind")[0].starts_with("card0 10.7.7.1 (default"), "{ended:?}");
    let found = texts(&ended, "fail", "multicast");
    assert!(found[0].contains("cannot be joined on card0"), "{found:?}");
    assert!(remedy(&ended, "fail", "multicast").contains("--transport tcp"));
    assert_eq!(ended.code, Some(6));
}

/// A rule of the routing tables that refuses is what can be set up without a packet filter.
#[test]
fn a_port_to_which_nothing_comes_through_is_found() {
    let setup = format!(
        "{CARD}; ip rule add pref 100 lookup local; ip rule del pref 0; \
         ip rule add pref 10 to 10.7.7.1 ipproto tcp dport 7900 prohibit"
    );
    let args = ["--transport", "tcp", "-DTCP.bind_port=7800", "--hosts=10.7.7.1:7800"];
    let Some(ended) = in_network(&setup, &args) else { return };
    let found = texts(&ended, "fail", "firewall");
    assert!(found[0].contains("tcp 7900: Permission denied"), "{found:?}");
    assert!(remedy(&ended, "fail", "firewall").contains("nft list ruleset"));
    assert_eq!(ended.code, Some(6));
}

#[test]
fn the_machine_has_lines_for_firewall_clock_and_processors() {
    let ended = on_loopback(port(), &["--listen", "100ms"]);
    let through = texts(&ended, "ok", "firewall");
    assert!(through[0].contains("come through on 127.0.0.1: udp "), "{through:?}");
    let whole: Vec<String> = ["ok", "warn"].iter().flat_map(|k| texts(&ended, k, "cpu")).collect();
    assert!(whole[0].contains("processors"), "{whole:?}");
    assert!(lines(&ended).iter().any(|l| l["topic"] == "clock"), "{ended:?}");
}

#[test]
fn a_card_that_does_not_multicast_is_found() {
    let setup = format!("{CARD}; ip link set card0 multicast off");
    let Some(ended) = in_network(&setup, &["--listen", "100ms"]) else { return };
    assert_eq!(texts(&ended, "fail", "interface"), ["card0 does not multicast"]);
    assert_eq!(ended.code, Some(6));
}

#[test]
fn a_second_card_is_a_warning() {
    let setup = format!("{CARD}; add card1 10.8.8.1");
    let Some(ended) = in_network(&setup, &["--listen", "100ms"]) else { return };
    let found = texts(&ended, "warn", "bind");
    assert!(found[0].contains("card1"), "{found:?}");
    assert!(remedy(&ended, "warn", "bind").contains("match-interface:card1"));
}

#[test]
fn a_card_that_is_down_is_a_failure() {
    let setup = format!("{CARD}; ip link set card0 down");
    let args = ["-DUDP.bind_addr=10.7.7.1", "--listen", "100ms"];
    let Some(ended) = in_network(&setup, &args) else { return };
    let found = [texts(&ended, "fail", "interface"), texts(&ended, "fail", "multicast")].concat();
    assert!(!found.is_empty(), "{ended:?}");
    assert_eq!(ended.code, Some(6));
}

#[test]
fn over_tcp_nobody_named_is_a_warning() {
    let net = Net::tcp();
    let settings: Vec<&str> = net.settings().collect();
    let args = ["--json", "doctor", "--transport", "tcp", "-DTCPPING.initial_hosts="];
    let ended = run(&[&args[..], settings.as_slice()].concat());
    assert!(texts(&ended, "warn", "discovery")[0].contains("nobody is named"), "{ended:?}");
    assert!(texts(&ended, "ok", "ports")[0].contains("is free"), "{ended:?}");
    assert_eq!(ended.code, Some(0));
}
