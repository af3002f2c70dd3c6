//! Members answer questions: those of `probe`, and those of JGroups' own Probe.

mod common;

use common::{Ended, Net, PATIENCE, Proc, run};
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

/// A port for questions that no other test uses.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    30_000 + (std::process::id() % 100) as u16 * 20 + NEXT.fetch_add(2, Ordering::Relaxed)
}

/// A member that answers at this port, and has joined.
fn member(net: &Net, name: &str, port: u16, more: &[&str]) -> Proc {
    let transport = net.transport.to_uppercase();
    let set = |what: &str| format!("-D{transport}.diag.{what}");
    let mut args = vec![set("enabled=true"), set(&format!("port={port}"))];
    args.extend(more.iter().map(|m| set(m)));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut member = net.start("chat", name, &args);
    member.find(PATIENCE, |v| v["type"] == "view");
    member
}

/// Asks until somebody answers: a datagram may be lost on a loaded machine.
fn probe(port: u16, args: &[&str]) -> Ended {
    let port = port.to_string();
    let all = [&["--json", "probe", "--bind", "127.0.0.1", "--port", &port], args].concat();
    let end = Instant::now() + PATIENCE;
    loop {
        let ended = run(&all);
        if ended.code == Some(0) || Instant::now() >= end {
            return ended;
        }
    }
}

#[test]
fn a_member_tells_its_view_and_settings_over_multicast() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "A", port, &[]);
    let asked =
        probe(port, &["jmx=GMS.view,is_coord", "jmx=UDP.mcast_port", "member-addrs", "ops"]);
    let answer = asked.object("member");
    assert_eq!((&answer["name"], &answer["cluster"]), (&"A".into(), &"demo".into()));
    assert!(answer["version"].as_str().is_some_and(|v| v.starts_with("5.5.6 (rgroups")));
    let entries = &answer["entries"];
    let gms = entries["GMS"].as_str().expect("text");
    assert!(gms.starts_with("{is_coord=true, view=[A|0] (1) [A], view_ack"), "{gms}");
    assert!(entries["UDP"].as_str().is_some_and(|v| v.starts_with("{mcast_port=")), "{entries}");
    assert_eq!(entries["member-addrs"], answer["physical"]);
    assert!(entries["ops"].as_str().is_some_and(|v| v.contains("MFC.printCredits()")), "{entries}");
}

#[test]
fn operations_and_digests_are_printed() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "A", port, &[]);
    let keys = ["op=MFC.printCredits", "dump-digest", "print-protocols", "keys", "op=GMS.stop[]"];
    let entries = probe(port, &keys).object("member")["entries"].clone();
    let text = |key: &str| entries[key].as_str().unwrap_or_default().to_owned();
    assert!(text("MFC.printCredits").contains("A: balance=4000000, max=4000000"), "{entries}");
    assert!(text("dump-digest").starts_with("A: ["), "{entries}");
    let protocols = text("print-protocols");
    assert!(protocols.ends_with("\nPING\nUDP"), "top first: {protocols}");
    assert!(text("keys").contains("dump-digest"), "{entries}");
    assert!(text("GMS.stop").contains("no such operation"), "{entries}");
}

#[test]
fn over_tcp_one_member_leads_to_all() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "A", port, &["enable_udp=false", "enable_tcp=true"]);
    let _b = member(&net, "B", port, &["enable_udp=false", "enable_tcp=true"]);
    let end = Instant::now() + PATIENCE;
    let names = loop {
        let asked = probe(port, &["--tcp", "--port-range", "1", "--timeout", "5s", "jmx=GMS"]);
        let members = asked.objects().into_iter().filter(|o| o["type"] == "member");
        let names: Vec<Value> = members.map(|o| o["name"].clone()).collect();
        if names.len() == 2 || Instant::now() >= end {
            break names;
        }
    };
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn who_does_not_know_the_passcode_gets_no_answer_and_nobody_gets_the_passcode() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "A", port, &["passcode=open-sesame"]);
    let told = probe(port, &["--passcode", "open-sesame", "jmx", "props"]);
    assert_eq!(told.object("summary")["answers"], 1);
    assert!(told.stdout.concat().contains("diag.passcode=(secret)"));
    assert!(!told.stdout.concat().contains("open-sesame"));
    let p = port.to_string();
    let refused = ["--json", "probe", "--bind", "127.0.0.1", "--port", &p, "--passcode", "wrong"];
    assert_eq!(run(&refused).code, Some(4));
}

#[test]
fn only_the_cluster_that_is_meant_answers() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "A", port, &[]);
    assert_eq!(probe(port, &["--cluster", "de*"]).object("member")["name"], "A");
    let p = port.to_string();
    let other = ["--json", "probe", "--bind", "127.0.0.1", "--port", &p, "--cluster", "other"];
    assert_eq!(run(&other).code, Some(4));
}

#[test]
fn nobody_answers_unless_told_to() {
    let (net, port) = (Net::udp(), port());
    let p = format!("-DUDP.diag.port={port}");
    let mut a = net.start("chat", "A", &[&p, "-DUDP.diag.enable_tcp=true"]);
    a.find(PATIENCE, |v| v["type"] == "view");
    let p = port.to_string();
    for how in [&["--bind", "127.0.0.1"][..], &["--tcp", "--port-range", "0"]] {
        let ended = run(&[&["probe", "--port", &p], how].concat());
        assert_eq!(ended.code, Some(4));
        assert!(ended.stderr.contains("diag.enabled=true"), "{}", ended.stderr);
    }
}

#[test]
fn names_in_answers_cannot_steer_a_terminal() {
    let (net, port) = (Net::udp(), port());
    let _a = member(&net, "evil\x1b[2J", port, &[]);
    probe(port, &[]);
    let p = port.to_string();
    let shown = run(&["probe", "--bind", "127.0.0.1", "--port", &p, "--timeout", "5s"]);
    let text = shown.stdout.join("\n");
    assert!(text.contains("evil\\") && !text.contains('\x1b'), "{text}");
}

/// A Java process that is killed at the end.
struct Java(Child);

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn java(class_path: &str) -> Command {
    let mut java = Command::new("java");
    java.args(["-Djava.net.preferIPv4Stack=true", "-XX:TieredStopAtLevel=1", "-cp", class_path]);
    java
}

#[test]
fn java_members_are_shown_too_and_the_probe_of_jgroups_shows_ours() {
    let Ok(class_path) = std::env::var("RGROUPS_JGROUPS_CP") else {
        println!("skipped: RGROUPS_JGROUPS_CP is not set");
        return;
    };
    let port = port();
    let group = 31_000 + port % 1000;
    let file = std::env::temp_dir().join(format!("rgroups-probe-{port}.xml"));
    let xml = format!(
        "<config xmlns=\"urn:org:jgroups\">\
         <UDP bind_addr=\"127.0.0.1\" mcast_port=\"{group}\" diag.enabled=\"true\" \
         diag.port=\"{port}\" diag.bind_interfaces=\"lo\"/><PING/><MERGE3/><FD_SOCK2/><FD_ALL3/>\
         <VERIFY_SUSPECT2/><BARRIER/><pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/>\
         <UFC/><MFC/><FRAG2/><pbcast.STATE_TRANSFER/></config>"
    );
    std::fs::write(&file, xml).expect("written");
    let chat = java(&class_path)
        .args(["org.jgroups.demos.Chat", "-name", "duke", "-props"])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut duke = Java(chat.expect("java starts"));
    let stdin = duke.0.stdin.as_mut().expect("piped");
    writeln!(stdin, "hello").expect("open");
    let net = Net::udp();
    let _a = member(&net, "ferris", port, &[]);

    // Ours finds both.
    let end = Instant::now() + 2 * PATIENCE;
    let names = loop {
        let asked = probe(port, &["--timeout", "2s", "jmx=GMS.view", "member-addrs"]);
        let members = asked.objects().into_iter().filter(|o| o["type"] == "member");
        let names: Vec<(Value, Value)> =
            members.map(|o| (o["name"].clone(), o["version"].clone())).collect();
        if names.len() == 2 || Instant::now() >= end {
            break names;
        }
    };
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0].0, "duke");
    assert!(names[0].1.as_str().is_some_and(|v| v.contains("java")), "{names:?}");
    assert_eq!(names[1].0, "ferris");

    // JGroups' own finds ours.
    let port = port.to_string();
    let args = ["-bind_addr", "127.0.0.1", "-port", &port, "-timeout", "4000", "jmx=GMS.view"];
    let out = java(&class_path).arg("org.jgroups.tests.Probe").args(args).output();
    let out = out.expect("java runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if String::from_utf8_lossy(&out.stderr).contains("ClassNotFoundException") {
        println!("skipped: no org.jgroups.tests.Probe in the class path");
    } else {
        assert!(text.contains("ferris [ip=127.0.0.1:"), "{text}");
        assert!(text.contains("GMS={view=[ferris|0] (1) [ferris], "), "{text}");
    }
    let _ = std::fs::remove_file(file);
}
